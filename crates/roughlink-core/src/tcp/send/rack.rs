//! RACK-TLP (RFC 8985) with PRR (RFC 6937) and the undo of spurious episodes, as in Linux. A segment is lost when a
//! later one has been delivered and a reordering window has passed since. Episodes are undone as spurious after:
//!
//! - D-SACKs for all retransmissions (RFC 3708)
//! - an acknowledgment that echoes a timestamp older than the first retransmission (Eifel, RFC 3522)
//! - original data acknowledged after a time-out (F-RTO, RFC 5682)
//!
//! Without SACK, duplicate ACKs count as SACKs, and the head is assumed to be the lost segment, as in Linux.

mod undo;

use super::{AckInfo, Force, TcpSender};
use crate::cc::{Ack, Congestion, CongestionState};
use crate::tcp::prr::{AckProgress, Prr};
use crate::tcp::rtt_sample::RttSample;
use crate::tcp::scoreboard::{DUP_THRESH, NewlyDelivered, SentRun};
use crate::units::Time;
use undo::{Undo, is_older};

#[derive(Clone, Debug)]
pub(in crate::tcp) struct Rack {
    /// End of the reordering window, or the time of the tail loss probe.
    pub(super) timer: Time,
    timer_is_probe: bool,
    /// Send time and end of the most recently sent segment delivered (RACK.xmit_ts, RACK.end_seq).
    sent_at: Time,
    end: u64,
    /// RTT of that segment.
    rtt: Time,
    /// Highest end delivered so far (RACK.fack).
    fack: u64,
    reordering_seen: bool,
    /// Largest distance of reordering seen, in segments, at least `DUP_THRESH` (Linux `reordering`).
    reordering: u64,
    /// Length of the reordering window in quarters of the minimum RTT (RACK.reo_wnd_mult).
    reo_steps: u32,
    reo_persist: u32,
    reo_round: u64,
    /// `snd_nxt` when the probe left (TLP.end_seq), 0 = none; and whether it was a retransmission.
    pub(super) probe_end: u64,
    probe_retransmitted: bool,
    undo: Undo,
    frto: bool,
    /// Bytes counted as delivered on duplicate ACKs without SACK.
    credited: u64,
    /// F-RTO step 2b: new data goes before repairs.
    pub(super) prefer_new: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            timer: Time::MAX,
            timer_is_probe: false,
            sent_at: Time::ZERO,
            end: 0,
            rtt: Time::ZERO,
            fack: 0,
            reordering_seen: false,
            reordering: u64::from(DUP_THRESH),
            reo_steps: 1,
            reo_persist: 0,
            reo_round: 0,
            probe_end: 0,
            probe_retransmitted: false,
            undo: Undo::default(),
            frto: false,
            credited: 0,
            prefer_new: false,
        }
    }
}

impl Rack {
    /// Updates the most recently sent segment that was delivered (RFC 8985 section 6.2 step 2).
    fn update(&mut self, now: Time, d: &NewlyDelivered, min_rtt: Time, (ack, echo): (u64, Option<u32>)) {
        let Some(n) = d.newest else { return };
        let rtt = now.saturating_sub(n.sent_at);
        // The ACK of a retransmission may be for the original. The echo belongs to the last segment received in order,
        // so it proves nothing about SACKed segments.
        let original = || n.end <= ack && is_older(echo, n.sent_at.as_millis() as u32);
        if n.retransmitted && (rtt < min_rtt || original()) {
            return;
        }
        self.rtt = rtt;
        if (n.sent_at, n.end) > (self.sent_at, self.end) {
            (self.sent_at, self.end) = (n.sent_at, n.end);
        }
    }

    /// Handles the delivery of segments sent once and in order, as [`TcpSender::on_ack_by_time`] would.
    #[inline(always)]
    pub(super) fn on_run(&mut self, now: Time, run: &SentRun, mss: u32) {
        self.on_reordering(run.first.start, self.fack, mss);
        let (sent_at, end) = (run.last.sent_at, run.last.end());
        self.fack = self.fack.max(end);
        self.rtt = now.saturating_sub(sent_at);
        (self.sent_at, self.end) = (self.sent_at, self.end).max((sent_at, end));
    }

    /// Records reordering if original data delivered now begins below `fack` (Linux `tcp_check_sack_reordering`).
    fn on_reordering(&mut self, low: u64, fack: u64, mss: u32) {
        if low < fack {
            self.reordering_seen = true;
            self.reordering = (fack - low).div_ceil(u64::from(mss)).clamp(self.reordering, MAX_REORDERING);
        }
    }

    /// Widens the reordering window after a D-SACK, once per round trip, for 16 recoveries (step 4).
    fn on_dsack(&mut self, d: &NewlyDelivered, delivered: u64) {
        if d.newest.is_none_or(|n| n.stamp.delivered >= self.reo_round) {
            self.reo_steps = (self.reo_steps + 1).min(255);
            self.reo_persist = RACK_RECOVERIES;
            self.reo_round = delivered;
        }
    }

    /// Resets state at the end of a `Hold`: no timer runs, and no episode can prove to be spurious.
    pub(in crate::tcp) fn on_release(&mut self) {
        self.timer = Time::MAX;
        self.timer_is_probe = false;
        self.probe_end = 0;
        self.undo.forget();
        self.frto = false;
        self.prefer_new = false;
    }

    pub(super) fn on_probe_sent(&mut self, end: u64, retransmitted: bool) {
        self.probe_end = end;
        self.probe_retransmitted = retransmitted;
    }
}

impl TcpSender {
    /// Processes an acknowledgment whose newly SACKed segments are in `d`. `echo` is its TSecr, `sample` its RTT
    /// sample, `dsack` the bytes that it reports as duplicates.
    pub(in crate::tcp) fn on_ack_by_time(
        &mut self,
        now: Time,
        a: &AckInfo,
        d: &mut NewlyDelivered,
        (echo, sample): (Option<u32>, Option<RttSample>),
        dsack: Option<(u64, u64)>,
    ) {
        let prior_una = self.board.una();
        let prior_fack = self.rack.fack;
        let lost_before = self.board.lost();
        self.board.acknowledge(a.ack, d);
        self.settle_release(now);
        let advanced = a.ack > prior_una;
        let duplicate = if self.sack { a.sacked > 0 } else { a.pure && !advanced && !self.board.is_empty() };
        self.rack.on_reordering(d.lowest_original, prior_fack, self.core.flow.mss);
        if let Some(n) = d.newest {
            self.rack.fack = self.rack.fack.max(n.end).max(d.original_end);
        }
        self.rack.update(now, d, self.core.flow.min_rtt, (a.ack, echo));
        let dsack = dsack.is_some_and(|block| self.on_duplicate_report(block));
        if dsack {
            self.rack.on_dsack(d, self.core.rate.delivered);
        }
        if !self.sack {
            self.credit_without_sack(a.ack - prior_una, duplicate, d);
        }
        if self.rack.probe_end != 0 {
            self.on_probe_ack(a, advanced, duplicate, dsack);
        }
        if duplicate || dsack || a.congestion || self.core.flow.state != CongestionState::Open {
            self.run_state_machine(now, a, d, duplicate, echo, prior_una);
        }
        let lost = self.board.lost().saturating_sub(lost_before);
        // The algorithm receives the RTT of the last segment or, if a retransmitted segment was delivered, the sample
        // used for the RTO (Linux `tcp_ack_update_rtt`).
        let rtt = if d.retransmitted { sample.map(|s| s.measured) } else { d.last_sent.map(|t| now - t) };
        let sample = self.rate_sample(now, d, lost, a.prior_in_flight, rtt.unwrap_or_default());
        if advanced {
            self.restart_rto(now);
        } else if let (Some(sacked), Some(head)) = (d.first_sent, self.board.head())
            && sacked < head.sent_at
        {
            self.core.rearm_rto(now); // data older than the last copy of the head arrived (Linux `tcp_clean_rtx_queue`)
        }
        self.sync();
        if self.core.flow.state.is_reducing() {
            let progress = AckProgress {
                delivered: d.bytes,
                pipe: self.core.flow.in_flight,
                ssthresh: self.core.cc.trace().ssthresh,
                safe: advanced && lost == 0,
            };
            if let Some(w) = self.prr.on_ack(progress, self.core.flow.mss) {
                self.core.flow.recovery_window = Some(w);
            }
        }
        let ack = Ack {
            acked: a.ack - prior_una,
            delivered: d.bytes,
            segments: d.segments,
            rtt,
            may_grow: (advanced || d.segments > 0 && self.rack.reordering > u64::from(DUP_THRESH))
                && !self.core.flow.state.is_reducing()
                && self.window_was_used(),
            prior_una,
            prior_in_flight: a.prior_in_flight,
            rate: sample,
            ecn_echo: a.congestion,
        };
        self.core.report_losses(&mut self.board.losses);
        if ack.delivered > 0 || duplicate {
            self.core.acknowledged(&ack);
        }
        if advanced {
            self.schedule_probe(now);
        }
    }

    /// Runs the state machine (Linux `tcp_fastretrans_alert`).
    fn run_state_machine(
        &mut self,
        now: Time,
        a: &AckInfo,
        d: &NewlyDelivered,
        duplicate: bool,
        echo: Option<u32>,
        prior_una: u64,
    ) {
        let advanced = a.ack > prior_una;
        if a.congestion {
            self.rack.undo.restores = false;
        }
        match self.core.flow.state {
            CongestionState::Open => self.settle_first_retransmission(),
            CongestionState::Cwr if a.ack > self.recover => self.reopen(), // data after the reduction is acknowledged
            CongestionState::Recovery if a.ack >= self.recover => self.end_recovery(echo),
            _ => {}
        }
        match self.core.flow.state {
            CongestionState::Recovery => {
                self.rack.prefer_new = false;
                if duplicate && !self.sack {
                    self.board.add_reno_sack();
                }
                if advanced && self.can_undo() && self.was_delayed(echo) {
                    // A partial ACK of the original (Eifel).
                    self.rack.on_reordering(prior_una, self.board.highest_sacked(), self.core.flow.mss);
                    if self.board.retrans() > 0 {
                        self.rack.prefer_new = true; // no more repairs until it is clear whether these were needed
                        return;
                    }
                    self.settle_first_retransmission();
                    self.board.forget_losses();
                    self.undo();
                    self.reopen();
                }
                if self.all_were_duplicates() {
                    self.rack.reo_persist = (self.rack.reo_persist + 1).min(RACK_RECOVERIES);
                    self.undo();
                    self.settle_first_retransmission();
                    self.reopen();
                }
                self.detect_losses(now, advanced);
                if self.core.flow.state != CongestionState::Recovery && self.board.lost() > 0 {
                    self.enter_fast_recovery(a.congestion); // some data is still lost
                }
            }
            CongestionState::Loss => {
                self.process_loss(d, a, advanced, duplicate, echo);
                if self.core.flow.state == CongestionState::Loss {
                    self.detect_losses(now, advanced);
                } else {
                    self.watch(now, a, advanced, duplicate);
                }
            }
            CongestionState::Open | CongestionState::Disorder | CongestionState::Cwr => {
                self.watch(now, a, advanced, duplicate);
            }
        }
    }

    /// Checks for losses and marks while no repair is in progress.
    fn watch(&mut self, now: Time, a: &AckInfo, advanced: bool, duplicate: bool) {
        if duplicate && !self.sack {
            self.board.add_reno_sack();
        }
        if self.core.flow.state != CongestionState::Cwr && self.all_were_duplicates() {
            self.rack.reo_persist = (self.rack.reo_persist + 1).min(RACK_RECOVERIES);
            self.undo();
        }
        self.detect_losses(now, advanced);
        if self.board.lost() > 0 {
            self.enter_fast_recovery(a.congestion);
            return;
        }
        self.settle_first_retransmission();
        if a.congestion && self.core.flow.state != CongestionState::Cwr {
            self.enter_cwr();
        }
        if self.core.flow.state != CongestionState::Cwr {
            self.core.flow.state = self.calm_state();
        }
    }

    /// Returns the state outside of an episode (Linux `tcp_try_keep_open`).
    fn calm_state(&self) -> CongestionState {
        let open = self.board.sacked() == 0 && self.board.lost() == 0 && !self.any_retransmission();
        if open { CongestionState::Open } else { CongestionState::Disorder }
    }

    /// Ends recovery: all data outstanding at its start is acknowledged (Linux `tcp_try_undo_recovery`).
    fn end_recovery(&mut self, echo: Option<u32>) {
        if self.may_undo(echo) {
            self.undo();
        } else {
            self.rack.reo_persist = self.rack.reo_persist.saturating_sub(1);
        }
        if self.rack.reo_persist == 0 {
            self.rack.reo_steps = 1;
        }
        self.reopen();
    }

    /// Begins fast recovery; `marked` is set if the acknowledgment that showed the loss carries ECE. During a reduction
    /// for a mark the window is not reduced again, and the recovery point stays (Linux `tcp_enter_recovery`).
    fn enter_fast_recovery(&mut self, marked: bool) {
        self.core.stats.fast_recoveries += 1;
        self.settle_first_retransmission();
        self.may_prove_spurious(self.retransmissions());
        if self.core.flow.state != CongestionState::Cwr {
            self.begin_episode();
            self.rack.undo.restores = !marked;
            self.reduce(Congestion::Loss);
        } else {
            self.core.cc.on_loss_after_mark(&self.core.flow);
        }
        self.core.flow.state = CongestionState::Recovery;
    }

    /// Starts a reduction because packets were marked (Linux `tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.core.stats.ecn_reductions += 1;
        self.begin_episode();
        self.rack.undo.forget();
        self.rack.undo.restores = false;
        self.reduce(Congestion::Ecn);
        self.core.flow.state = CongestionState::Cwr;
    }

    /// Starts lowering the window to a new ssthresh (Linux `tcp_init_cwnd_reduction`).
    fn reduce(&mut self, cause: Congestion) {
        let cwnd = self.core.cc.trace().cwnd;
        self.sync();
        self.core.congestion(cause);
        self.prr = Prr::start(cwnd, self.core.flow.mss, false);
        self.ecn.reduced(self.board.nxt());
    }

    fn begin_episode(&mut self) {
        self.recover = self.board.nxt();
        self.rack.probe_end = 0;
    }

    /// Credits one delivered segment per duplicate ACK without SACK; the next cumulative ACK must not count it again
    /// (Linux `tcp_add_reno_sack`, `tcp_remove_reno_sacks`).
    fn credit_without_sack(&mut self, acked: u64, duplicate: bool, d: &mut NewlyDelivered) {
        let mss = u64::from(self.core.flow.mss);
        if acked > 0 {
            d.bytes = acked.saturating_sub(self.rack.credited).max(acked.min(mss));
            self.rack.credited = self.rack.credited.saturating_sub(acked);
            if !matches!(self.core.flow.state, CongestionState::Recovery | CongestionState::Loss) {
                self.board.reset_reno_sack();
            } else {
                self.board.settle_reno_sack();
            }
        } else if duplicate {
            d.bytes = mss;
            d.segments = 1;
            self.rack.credited += mss;
        }
    }

    /// Prepares for a time-out, before all segments are declared lost; `reduction` is set if ssthresh will fall. Checks
    /// whether undo is possible and F-RTO applies, which it does not during fast recovery (RFC 5682 section 3.1).
    pub(super) fn before_loss(&mut self, reduction: bool) {
        let calm = matches!(self.core.flow.state, CongestionState::Open | CongestionState::Disorder);
        if calm && self.board.sacked() >= u64::from(DUP_THRESH) * u64::from(self.core.flow.mss) {
            self.rack.reordering = u64::from(DUP_THRESH); // overestimated (Linux `tcp_enter_loss`)
        }
        if reduction {
            self.may_prove_spurious(0);
            self.rack.undo.restores = true;
        }
        let repairs = matches!(self.core.flow.state, CongestionState::Recovery | CongestionState::Loss);
        self.rack.frto = self.cfg.undo && (!repairs || self.core.retries > 1);
        self.rack.prefer_new = false;
        self.rack.probe_end = 0;
        self.rack.timer = Time::MAX;
    }

    /// Handles an acknowledgment after a time-out; undoes a spurious time-out (Linux `tcp_process_loss`).
    fn process_loss(&mut self, d: &NewlyDelivered, a: &AckInfo, advanced: bool, duplicate: bool, echo: Option<u32>) {
        if advanced && self.may_undo(echo) {
            self.take_back_loss();
            return;
        }
        let recovered = a.ack >= self.recover;
        if self.rack.frto {
            // Step 3b: a segment sent once has arrived. Without SACK, an ACK of a retransmission proves nothing.
            if d.lowest_original < self.recover && (self.sack || !d.retransmitted) {
                self.take_back_loss();
                return;
            }
            if self.board.nxt() > self.recover {
                self.rack.frto = advanced && !duplicate; // else step 3a: the loss was real
            } else if advanced && !recovered {
                self.recover = self.board.nxt();
                self.rack.prefer_new = true; // step 2b
            }
            self.rack.prefer_new &= self.rack.frto;
        }
        if recovered {
            self.end_recovery(echo);
        } else if !self.sack && duplicate && self.board.nxt() > self.recover {
            self.board.add_reno_sack();
        }
    }

    /// Undoes a spurious time-out: nothing is lost.
    fn take_back_loss(&mut self) {
        self.board.forget_losses();
        self.undo();
        self.reopen();
    }

    fn reopen(&mut self) {
        self.rack.frto = false;
        self.rack.prefer_new = false;
        self.core.flow.recovery_window = None;
        self.core.flow.state = self.calm_state();
        self.core.cc.on_recovered(&self.core.flow);
    }

    /// Detects losses as in RACK_detect_loss or, without SACK, the loss of the head.
    fn detect_losses(&mut self, now: Time, advanced: bool) {
        if self.board.is_empty() {
            return;
        }
        if !self.sack {
            let early = !matches!(self.core.flow.state, CongestionState::Recovery | CongestionState::Loss);
            let dups = self.board.sacked() / u64::from(self.core.flow.mss);
            if (early && dups >= u64::from(DUP_THRESH))
                || (self.core.flow.state == CongestionState::Recovery && advanced)
            {
                self.board.mark_head_lost();
            }
            return;
        }
        if self.rack.sent_at.is_zero() && self.rack.end == 0 {
            return;
        }
        let window = self.reordering_window();
        let allowance = self.rack.rtt + window;
        let mark = (self.rack.sent_at, self.rack.end);
        self.board.mark_lost_while(|sent_at, end| (sent_at, end) < mark && sent_at + allowance <= now);
        if let Some(sent_at) = self.board.last_awaited_before(mark) {
            self.rack.timer = sent_at + allowance;
            self.rack.timer_is_probe = false;
        } else if !self.rack.timer_is_probe {
            self.rack.timer = Time::MAX;
        }
    }

    /// Returns the reordering window (RFC 8985 section 6.2 step 4).
    fn reordering_window(&self) -> Time {
        if !self.rack.reordering_seen {
            let recovering = matches!(self.core.flow.state, CongestionState::Recovery | CongestionState::Loss);
            let sacked = self.board.sacked().div_ceil(u64::from(self.core.flow.mss));
            if recovering || sacked >= u64::from(DUP_THRESH) {
                return Time::ZERO;
            }
        }
        let min_rtt = if self.core.flow.min_rtt == Time::MAX { Time::ZERO } else { self.core.flow.min_rtt };
        (min_rtt / 4 * u64::from(self.rack.reo_steps)).min(self.core.flow.srtt)
    }

    pub(super) fn on_rack_timer(&mut self, now: Time) {
        self.rack.timer = Time::MAX;
        if self.rack.timer_is_probe {
            self.rack.timer_is_probe = false;
            let calm = matches!(self.core.flow.state, CongestionState::Open | CongestionState::Cwr);
            if !self.board.is_empty() && self.rack.probe_end == 0 && calm {
                self.core.stats.probes += 1;
                self.forced = Some(Force::Probe);
                self.core.rto_at = now + self.core.rtt.rto();
            }
            return;
        }
        let before = self.board.lost();
        self.detect_losses(now, false);
        let early = !matches!(self.core.flow.state, CongestionState::Recovery | CongestionState::Loss);
        if self.board.lost() > before && early {
            self.enter_fast_recovery(false);
        }
        self.sync();
        self.core.report_losses(&mut self.board.losses);
        if self.core.flow.state == CongestionState::Recovery {
            // Linux: tcp_cwnd_reduction(sk, 1, 0, 0), then retransmit.
            let mss = u64::from(self.core.flow.mss);
            let progress = AckProgress {
                delivered: mss,
                pipe: self.core.flow.in_flight,
                ssthresh: self.core.cc.trace().ssthresh,
                safe: false,
            };
            if let Some(w) = self.prr.on_ack(progress, self.core.flow.mss) {
                self.core.flow.recovery_window = Some(w);
            }
        }
    }

    #[inline]
    pub(super) fn after_send(&mut self, now: Time) {
        self.schedule_probe(now);
    }

    /// Updates timers after the segment at `index` left again. Linux restarts the timer for the head
    /// (`tcp_xmit_retransmit_queue`). RFC 6298 lets it run, but the remaining time may be less than a round trip.
    pub(super) fn after_resend(&mut self, now: Time, index: usize) {
        if index == 0 {
            self.rearm_rto(now);
        }
        self.rack.undo.on_resent(now);
    }

    /// Schedules a probe after two RTTs without an ACK (RFC 8985 section 7.2, Linux `tcp_schedule_loss_probe`). For a
    /// lone segment, whose ACK may be delayed, `min_rto` is added.
    #[inline]
    pub(super) fn schedule_probe(&mut self, now: Time) {
        if !self.cfg.tlp
            || !self.sack
            || !matches!(self.core.flow.state, CongestionState::Open | CongestionState::Cwr)
            || self.rack.probe_end != 0
            || self.board.is_empty()
            || self.board.sacked() > 0
        {
            if self.rack.timer_is_probe {
                self.rack.timer = Time::MAX;
                self.rack.timer_is_probe = false;
            }
            return;
        }
        let mut pto = if self.core.flow.srtt.is_zero() { Time::from_secs(1) } else { self.core.flow.srtt * 2 };
        pto += if self.board.len() == 1 { self.cfg.min_rto } else { Time::from_millis(2) };
        self.core.rto_at = now + self.core.rtt.rto();
        self.rack.timer = (now + pto).min(self.core.rto_at);
        self.rack.timer_is_probe = true;
    }

    /// Handles a probe's outcome (Linux `tcp_process_tlp_ack`). If the probe was a retransmission and no duplicate was
    /// reported, it repaired a loss.
    fn on_probe_ack(&mut self, a: &AckInfo, advanced: bool, duplicate: bool, dsack: bool) {
        if a.ack < self.rack.probe_end {
            return;
        }
        if !self.rack.probe_retransmitted || dsack {
            self.rack.probe_end = 0;
        } else if a.ack > self.rack.probe_end {
            self.rack.probe_end = 0;
            self.sync();
            self.core.congestion(Congestion::Loss);
            self.core.cc.on_recovered(&self.core.flow); // at once: the loss is repaired
            self.ecn.reduced(self.board.nxt());
        } else if !advanced && !duplicate {
            self.rack.probe_end = 0; // both copies arrived: no loss
        }
    }
}

/// Linux `tcp_max_reordering`, segments.
const MAX_REORDERING: u64 = 300;
/// Recoveries for which a widened reordering window lasts (RFC 8985 section 6.2 step 4).
const RACK_RECOVERIES: u32 = 16;
