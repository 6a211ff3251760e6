//! The sending half's timers: retransmission time-out (RFC 6298), zero-window probes (RFC 9293 section 3.8.6.1), and
//! the wake-ups of pacing, RACK and the algorithm.

use super::super::config::{FrOffUntil, LossRecovery};
use super::{Force, TcpSender};
use crate::cc::{Congestion, CongestionState};
use crate::units::Time;

impl TcpSender {
    /// Returns the next time-out of any kind.
    #[inline(always)]
    pub fn next_wake(&self, now: Time) -> Time {
        let t = self.core.next_wake(now);
        if self.core.held { t } else { t.min(self.persist_at).min(self.core.rto_at).min(self.rack.timer) }
    }

    /// Processes timers due at `now`.
    pub fn wake(&mut self, now: Time) {
        if self.core.wake(now) {
            self.hold_or_release(now);
        }
        if self.core.held {
            return;
        }
        if self.persist_at <= now {
            self.on_persist(now);
        }
        if self.rack.timer <= now {
            self.on_rack_timer(now);
        }
        if self.core.rto_at <= now {
            self.on_rto(now);
        }
    }

    /// Handles a time-out: all segments are lost, the window is one segment (RFC 6298 section 5, RFC 5681 section 3.1).
    fn on_rto(&mut self, now: Time) {
        self.core.rto_at = Time::MAX;
        if self.board.is_empty() {
            return;
        }
        if self.core.repairs_release(self.board.una()) {
            self.forced = Some(Force::Head);
            return;
        }
        if !self.core.try_again(now, self.cfg.patience()) {
            return;
        }
        self.core.stats.timeouts += 1;
        self.enter_loss(now);
        let departure = self.core.pacing_next;
        self.core.back_off();
        if self.cfg.internal_pacing {
            self.core.pacing_next = departure; // Linux sends the head at once; pacing still delays the segment after it
        }
        if self.cfg.user_timeout.is_some() {
            self.rearm_rto(now);
        }
    }

    /// Restarts the retransmission timer. After a time-out it expires no later than the user timeout (Linux 6.18
    /// `tcp_clamp_rto_to_user_timeout`).
    pub(in crate::tcp) fn rearm_rto(&mut self, now: Time) {
        self.core.rearm_rto(now);
        if let Some(most) = self.cfg.user_timeout.filter(|_| self.core.retries > 0) {
            let end = (self.core.retrying_since + most).max(now + Time::from_millis(1));
            self.core.rto_at = self.core.rto_at.min(end);
        }
    }

    /// Sends a probe when the persist timer expires. The connection fails after `data_retries` unanswered probes, and
    /// after `user_timeout` even if they are answered (Linux 6.18 `tcp_probe_timer`).
    fn on_persist(&mut self, now: Time) {
        let since = *self.probing_since.get_or_insert(now);
        let end = self.cfg.user_timeout.map_or(Time::MAX, |most| since + most);
        if now >= end || (self.window_probes >= self.cfg.data_retries && !self.cfg.endless_probes) {
            self.core.gave_up = true;
            return;
        }
        self.window_probes += 1;
        self.probe_window = true;
        self.persist_interval = Time(self.persist_interval.0 * 2).min(self.cfg.max_rto);
        self.persist_at = (now + self.persist_interval).min(end);
    }

    pub(in crate::tcp) fn enter_loss(&mut self, now: Time) {
        self.core.flow.now = now;
        let cause = if self.is_new_episode() { Congestion::Timeout } else { Congestion::TimeoutAgain };
        if self.cfg.recovery == LossRecovery::Rack {
            self.before_loss(cause == Congestion::Timeout);
        }
        self.sync();
        if !self.sack {
            self.board.reset_reno_sack();
        }
        self.board.mark_all_lost(!self.sack || self.sack_rules.go_back_n);
        self.core.report_losses(&mut self.board.losses);
        self.core.congestion(cause);
        self.ecn.reduced(self.board.nxt());
        if self.sack_rules.go_back_n {
            self.board.go_back();
        }
        self.duplicates = 0;
        self.recover = self.board.nxt();
        self.recover_active = true;
        self.fast_retransmit_off_until = match self.cfg.fr_off_until {
            FrOffUntil::LastSent => self.recover,
            FrOffUntil::LastAcked => self.board.una(),
        };
        self.first_partial = true;
        // The head leaves even into a closed window, which only a probe can open (RFC 9293 section 3.8.6.1).
        let closed = self.board.head().is_some_and(|head| self.core.flow.send_window < u64::from(head.len));
        self.forced = (self.cfg.recovery == LossRecovery::Rack || closed).then_some(Force::Head);
        self.core.flow.recovery_window = None;
        self.core.flow.state = CongestionState::Loss;
        self.sync();
    }

    /// Returns true if a time-out now begins an episode, so that ssthresh falls. In Tahoe, it always does (RFC 2001).
    /// By RFC 5681 equation 4, it does not if a time-out has already resent the head. In Linux, neither does a time-out
    /// during fast recovery. By RFC 3168 section 6.1.2, the first loss in a window with marked packets begins no
    /// episode, but the loss of a retransmission does.
    fn is_new_episode(&self) -> bool {
        match self.cfg.recovery {
            LossRecovery::Tahoe => true,
            LossRecovery::Rack => match self.core.flow.state {
                CongestionState::Open | CongestionState::Disorder => true,
                CongestionState::Recovery | CongestionState::Cwr => self.recover <= self.board.una(),
                CongestionState::Loss => self.recover <= self.board.una() || self.core.retries <= 1,
            },
            _ if self.cfg.reduce_every_timeout => true,
            _ => match self.core.flow.state {
                CongestionState::Open | CongestionState::Disorder => !self.ecn.covers(self.board.una()),
                CongestionState::Loss => self.core.retries <= 1,
                CongestionState::Recovery | CongestionState::Cwr => true,
            },
        }
    }

    /// Restarts the retransmission timer, or stops it if nothing is outstanding (RFC 6298 rules 5.2, 5.3).
    #[inline]
    pub(in crate::tcp) fn restart_rto(&mut self, now: Time) {
        self.core.retries = 0;
        if self.cfg.reset_back_off {
            self.core.rtt.reset_back_off();
        }
        self.core.flow.rto = self.core.rtt.rto();
        self.core.rto_at = if self.board.is_empty() { Time::MAX } else { now + self.core.rtt.rto() };
        self.refill();
    }

    /// Starts the persist timer if the window is closed and nothing is in flight (RFC 9293 section 3.8.6.1).
    pub(super) fn check_persist(&mut self, now: Time) {
        if self.core.flow.send_window == 0 && self.board.is_empty() && self.persist_at == Time::MAX {
            self.persist_interval = self.core.rtt.rto();
            self.persist_at = now + self.persist_interval;
        }
    }
}
