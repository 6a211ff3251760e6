//! Loss recovery by duplicate ACKs and SACK counts: Tahoe, Reno, NewReno (RFC 6582), SACK (RFC 6675), PRR (RFC 6937).
//!
//! Without SACK each duplicate ACK counts as a SACK of one segment, so the same pipe arithmetic applies to all: RFC
//! 6582's inflated window minus FlightSize is cwnd minus pipe. Where the RFCs leave a choice, this follows ns-3 3.44:
//!
//! - Any ACK with a new SACK counts as a duplicate, even one that advances.
//! - By default only the first partial ACK restarts the timer ("impatient").
//! - A partial ACK always allows one retransmission.

use super::{Force, TcpSender};
use crate::cc::{Ack, Congestion, CongestionState};
use crate::tcp::config::{CwndLimited, LossRecovery, RecoveryGrowth, ResendHead};
use crate::tcp::prr::{AckProgress, Prr};
use crate::tcp::scoreboard::{DUP_THRESH, LOST, NewlyDelivered, RETRANS, SACKED};
use crate::units::Time;

/// An acknowledgment within the window, with its SACK blocks already on the scoreboard.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct AckInfo {
    pub ack: u64,
    /// Set if the segment has no data and no FIN and does not change the window.
    pub pure: bool,
    /// Set if marked packets are reported (ECE).
    pub congestion: bool,
    /// Set if outstanding data is SACKed, perhaps not for the first time, and such an ACK counts as a duplicate.
    pub repeats: bool,
    /// Bytes newly SACKed, and bytes in flight and lost before the acknowledgment.
    pub sacked: u64,
    pub prior_in_flight: u64,
    pub prior_lost: u64,
    /// Bytes marked lost so far before the acknowledgment; wraps.
    pub prior_losses: u32,
}

impl TcpSender {
    /// Processes an acknowledgment whose newly SACKed bytes are in `d`.
    pub(in crate::tcp) fn on_ack_by_count(&mut self, now: Time, a: &AckInfo, d: &mut NewlyDelivered) {
        let prior_una = self.board.una();
        if a.sacked > 0 {
            self.board.mark_lost_by_count(DUP_THRESH);
        }
        let duplicate = if self.sack {
            a.sacked > 0 || a.repeats
        } else {
            a.pure && a.ack == prior_una && a.ack < self.board.nxt()
        };
        let safe = self.core.flow.state == CongestionState::Recovery && self.acks_retransmission(a.ack);
        self.board.acknowledge(a.ack, d);
        if !self.sack {
            let calm = matches!(self.core.flow.state, CongestionState::Open | CongestionState::Disorder);
            if calm && a.ack > prior_una && !self.cfg.keep_duplicates {
                self.board.reset_reno_sack(); // too few duplicates to mean a loss
            } else {
                self.board.settle_reno_sack();
            }
        }
        self.settle_release(now);
        let sample = self.rate_sample(now, d, 0, a.prior_in_flight, self.core.flow.latest_rtt);
        self.sync();
        if a.congestion {
            self.on_echo_by_count();
        }
        let pipe = self.core.flow.in_flight;
        let mut ack = Ack {
            acked: a.ack - prior_una,
            delivered: d.bytes,
            segments: 0,
            rtt: None,
            may_grow: false,
            prior_una,
            prior_in_flight: a.prior_in_flight,
            rate: sample,
            ecn_echo: a.congestion,
        };
        let before_duplicate = self.duplicates;
        if duplicate && ack.acked > 0 && self.sack_rules.restart_duplicates {
            self.duplicates = 0;
        }
        if duplicate {
            self.on_duplicate(now, d.bytes, pipe);
        }
        if ack.acked == 0 {
            if !self.board.is_empty() {
                ack.rtt = Some(self.core.flow.srtt);
                self.report(&mut ack, a);
            }
            return;
        }
        ack.rtt = Some(if self.cfg.report_srtt { self.core.flow.srtt } else { self.core.flow.latest_rtt });
        ack.segments = self.whole_segments(if self.cfg.count_sacked_again { ack.acked } else { d.bytes });
        if !duplicate {
            self.duplicates = 0;
        }
        let (below, mut grows) = (a.ack < self.recover, !a.congestion); // RFC 3168 section 6.1.2
        match self.core.flow.state {
            CongestionState::Recovery if below && self.cfg.recovery != LossRecovery::Reno => {
                self.on_partial(&ack, pipe, safe);
                ack.segments = 1;
                self.report(&mut ack, a);
                if self.first_partial || !self.cfg.impatient {
                    self.first_partial = false;
                    self.restart_rto(now);
                }
                self.refill();
                return;
            }
            CongestionState::Loss if below => {}
            CongestionState::Disorder => {
                if !duplicate || self.sack_rules.restart_duplicates {
                    self.core.flow.state = CongestionState::Open;
                    self.duplicates = 0;
                }
                if duplicate && ack.segments < before_duplicate {
                    ack.rtt = None;
                }
                if duplicate && !self.sack_rules.grow_on_duplicates {
                    // ns-3 subtracts the earlier duplicate ACKs from the segments that it reports to the algorithm.
                    ack.segments = ack.segments.saturating_sub(before_duplicate);
                    self.report(&mut ack, a);
                    return; // ns-3 neither grows nor restarts the timer here
                }
            }
            CongestionState::Recovery => {
                // RFC 6582 section 3.2 step 3: the window becomes ssthresh. Most segments that the ACK covers
                // had arrived earlier.
                grows &= self.cfg.recovery_growth != RecoveryGrowth::None;
                ack.segments = if self.cfg.recovery_growth != RecoveryGrowth::Repaired {
                    (a.ack.saturating_sub(self.recover) / u64::from(self.core.flow.mss)) as u32
                } else if self.cfg.count_repaired {
                    (ack.acked / u64::from(self.core.flow.mss)) as u32
                } else {
                    ack.segments.min(1)
                };
                self.end_episode();
            }
            CongestionState::Loss => {
                if self.cfg.count_repaired {
                    ack.segments = ((a.ack - self.recover) / u64::from(self.core.flow.mss)) as u32;
                }
                self.end_episode();
            }
            CongestionState::Open | CongestionState::Cwr => {} // the latter with `rack` only
        }
        // Duplicate ACKs without SACK may answer needless retransmissions. New SACKs cannot.
        if a.ack > self.recover || (a.ack == self.recover && (self.sack || self.cfg.less_careful)) {
            self.recover_active = false;
        }
        self.restart_rto(now);
        self.sync();
        ack.may_grow = grows && (self.cfg.grow_when_limited || self.window_was_used());
        self.report(&mut ack, a);
    }

    /// Reports an acknowledgment to the algorithm, with the bytes that it showed to be lost. In ns-3, these are the
    /// absolute change in the bytes declared lost, even if they decreased (3.44 `TcpSocketBase::ReceivedAck`).
    #[inline]
    fn report(&mut self, ack: &mut Ack, a: &AckInfo) {
        if let Some(rate) = &mut ack.rate {
            rate.losses = if self.board.by_stamp {
                self.board.lost().abs_diff(a.prior_lost)
            } else {
                self.board.losses.total.wrapping_sub(a.prior_losses).into()
            };
        }
        self.core.report_losses(&mut self.board.losses);
        self.core.acknowledged(ack);
    }

    /// Returns true if the window was used; only then may it grow (RFC 7661; Linux `tcp_is_cwnd_limited`).
    pub(super) fn window_was_used(&self) -> bool {
        let v = self.core.cc.trace();
        match self.cfg.cwnd_limited {
            CwndLimited::Round if v.cwnd < v.ssthresh => v.cwnd < 2 * self.core.flow.max_outstanding,
            CwndLimited::Round | CwndLimited::LastSegment => self.core.flow.cwnd_limited,
        }
    }

    fn end_episode(&mut self) {
        self.first_partial = true;
        self.duplicates = 0;
        self.core.flow.recovery_window = None;
        if !self.sack && !self.cfg.keep_duplicates {
            // The guesses are no longer needed; all outstanding data counts in full again.
            self.board.reset_reno_sack();
            self.board.forget_losses();
        }
        self.core.recovered();
    }

    fn on_duplicate(&mut self, now: Time, delivered: u64, pipe: u64) {
        match self.core.flow.state {
            // RFC 6582: our own go-back-N may cause these duplicate ACKs.
            CongestionState::Loss if self.board.una() <= self.fast_retransmit_off_until => return,
            CongestionState::Loss => {
                self.duplicates += 1;
                if self.duplicates == DUP_THRESH {
                    self.enter_recovery(now, delivered);
                }
                return;
            }
            CongestionState::Recovery => {
                if !self.sack {
                    self.board.add_reno_sack();
                }
                self.reduce_proportionally(delivered, pipe, true, false);
                return;
            }
            CongestionState::Open => self.core.flow.state = CongestionState::Disorder,
            CongestionState::Disorder | CongestionState::Cwr => {}
        }
        self.duplicates += 1;
        let fresh = !self.recover_active || self.cfg.recovery == LossRecovery::Reno;
        let lost = match self.sack_rules.repair_before_recovery {
            true => self.board.second_is_lost(),
            false => self.board.head_is_lost(),
        };
        if (self.duplicates == DUP_THRESH && fresh) || lost {
            self.enter_recovery(now, delivered);
        } else if !self.sack && self.cfg.limited_transmit {
            self.board.add_reno_sack();
        }
    }

    fn enter_recovery(&mut self, now: Time, delivered: u64) {
        if self.cfg.recovery == LossRecovery::Tahoe {
            self.core.stats.fast_recoveries += 1;
            self.core.flow.state = CongestionState::Open; // a new reduction, regardless of the state before
            self.enter_loss(now);
            self.forced = Some(Force::Head);
            return;
        }
        if !self.sack {
            // Limited transmit has already counted the earlier duplicates, except during the repair after a time-out.
            let counted = self.cfg.limited_transmit && self.core.flow.state != CongestionState::Loss;
            let seen = if counted { 1 } else { DUP_THRESH };
            for _ in 0..seen {
                self.board.add_reno_sack();
            }
        }
        if !self.sack || !self.board.head().is_some_and(|s| s.is(LOST)) {
            self.board.mark_head_lost();
        }
        self.recover = self.board.nxt();
        self.recover_active = true;
        self.rescued = false;
        self.core.stats.fast_recoveries += 1;
        self.sync();
        let pipe = self.core.flow.in_flight;
        let cwnd = self.core.cc.trace().cwnd;
        // Without SACK, the head still counts as in flight when ssthresh is computed (ns-3).
        self.core.flow.in_flight += if self.sack { 0 } else { u64::from(self.core.flow.mss) };
        if self.ecn.covers(self.board.una()) {
            self.core.cc.on_loss_after_mark(&self.core.flow);
        } else {
            self.core.congestion(Congestion::Loss);
        }
        self.ecn.reduced(self.board.nxt());
        self.core.flow.in_flight = pipe;
        self.core.flow.state = CongestionState::Recovery;
        if self.cfg.recovery.is_proportional() {
            self.prr = Prr::start(pipe, 1, self.cfg.prr_wraps);
            self.core.flow.recovery_window = Some(cwnd); // until PRR has a delivery to compute with
            self.reduce_proportionally(delivered, pipe, true, false);
        }
        self.forced = Some(Force::Head);
    }

    /// Applies PRR to a duplicate or partial ACK if `recovery` is `prr`.
    fn reduce_proportionally(&mut self, mut delivered: u64, pipe: u64, duplicate: bool, safe: bool) {
        if !self.cfg.recovery.is_proportional() {
            return;
        }
        if duplicate && self.cfg.prr_counts_duplicates && self.prr.delivered() < self.prr.recover_fs() {
            delivered += u64::from(self.core.flow.mss);
        }
        let progress = AckProgress { delivered, pipe, ssthresh: self.core.cc.trace().ssthresh, safe };
        if let Some(w) = self.prr.on_ack(progress, self.core.flow.mss) {
            self.core.flow.recovery_window = Some(w);
        }
    }

    fn on_partial(&mut self, ack: &Ack, pipe: u64, safe: bool) {
        match self.sack_rules.resend_head {
            ResendHead::Once if self.sack => {}
            ResendHead::Once | ResendHead::Always => self.board.mark_head_lost(),
            ResendHead::IfLost => self.board.forget_retransmission_of_head(),
        }
        if ack.segments >= 1 {
            self.reduce_proportionally(ack.delivered, pipe, false, safe);
        }
        let whole = self.board.una() + u64::from(self.core.flow.mss);
        let resent = self.board.head().is_some_and(|s| s.end() == whole && s.is(RETRANS) && !s.is(SACKED));
        if self.sack_rules.resend_head == ResendHead::Always {
            self.forced = Some(Force::Head);
        } else if !resent {
            self.forced = Some(Force::Next);
        }
        self.sync();
    }

    /// Returns true if the ACK covers a whole retransmitted segment (ns-3's test for "no further loss indicated").
    fn acks_retransmission(&self, ack: u64) -> bool {
        if ack <= self.board.una() || ack >= self.recover {
            return false;
        }
        self.board.segments().take_while(|s| s.end() <= ack).any(|s| s.is(RETRANS) && !s.is(SACKED))
    }

    /// Returns the number of whole segments in `bytes` newly delivered and carries the remainder over.
    #[inline]
    pub(super) fn whole_segments(&mut self, bytes: u64) -> u32 {
        let mss = u64::from(self.core.flow.mss);
        if bytes == mss || bytes == 2 * mss {
            return if bytes == mss { 1 } else { 2 }; // nearly every ACK, without a division
        }
        let mut n = bytes / mss;
        self.acked_remainder += bytes % mss;
        if self.acked_remainder >= mss {
            self.acked_remainder -= mss;
            n += 1;
        }
        n as u32
    }
}
