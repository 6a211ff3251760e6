//! Reduction of an unused window: restart after idle times (RFC 5681 section 4.1), and Linux's decay (RFC 2861).

use super::TcpSender;
use crate::cc::{AlgorithmTrace, CongestionState};
use crate::units::Time;

/// Use of the window by the application.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Set if the application has written after all data was acknowledged.
    pub(super) ended: bool,
    /// Time when data last left (Linux `lsndtime`).
    last_sent: Option<Time>,
    /// Most bytes outstanding since `full_at` (Linux `snd_cwnd_used`).
    used: u64,
    /// Time when the window was last full or lowered (Linux `snd_cwnd_stamp`).
    full_at: Time,
}

impl Idle {
    /// Records that the window is full or was lowered.
    #[inline]
    pub(super) fn on_full(&mut self, now: Time) {
        (self.used, self.full_at) = (0, now);
    }
}

impl TcpSender {
    /// Lowers the window to the initial window if the last data was sent more than an RTO ago. With
    /// `window_validation`, halves it for each RTO, but not below the initial window (Linux 6.18 `tcp_cwnd_restart`).
    #[cold]
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let rto = self.core.rtt.rto();
        let Some(idle) = self.idle.last_sent.map(|at| now - at).filter(|idle| *idle > rto) else { return };
        if !self.cfg.slow_start_after_idle {
            return;
        }
        let AlgorithmTrace { cwnd, ssthresh, .. } = self.core.cc.trace();
        let restart = self.core.flow.initial_window.min(cwnd);
        if !self.cfg.window_validation {
            self.core.cc.lower_window(&self.core.flow, restart, ssthresh);
            return;
        }
        let halvings = ((idle.0 - 1) / rto.0.max(1)).min(63) as u32;
        self.validate((cwnd >> halvings).max(restart));
        self.idle.on_full(now);
    }

    /// Records that nothing is left to send. With `window_validation`, a window that was not full for an RTO falls
    /// halfway to its used part (Linux 6.18 `tcp_cwnd_application_limited`).
    pub(super) fn on_starved(&mut self, now: Time) {
        self.idle.last_sent = Some(now);
        if !self.cfg.slow_start_after_idle || !self.cfg.window_validation || self.backlog > 0 {
            return;
        }
        let flow = &self.core.flow;
        let AlgorithmTrace { cwnd, ssthresh, .. } = self.core.cc.trace();
        if flow.cwnd_limited || (cwnd < ssthresh && cwnd < 2 * flow.max_outstanding) {
            self.idle.on_full(now);
            return;
        }
        self.idle.used = self.idle.used.max(self.board.outstanding());
        if now < self.idle.full_at + self.core.rtt.rto() {
            return;
        }
        let used = self.idle.used.max(flow.initial_window);
        if flow.state == CongestionState::Open && used < cwnd {
            self.validate((cwnd + used) / 2);
        }
        self.idle.on_full(now);
    }

    /// Sets the window to `cwnd`, ssthresh to at least 3/4 of the old window (RFC 2861, Linux `tcp_current_ssthresh`).
    fn validate(&mut self, cwnd: u64) {
        let before = self.core.cc.trace();
        let ssthresh = before.ssthresh.max(before.cwnd / 2 + before.cwnd / 4);
        self.core.cc.lower_window(&self.core.flow, cwnd, ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::dialogue::pair;
    use super::super::super::{Buffer, TcpConfig};
    use super::*;
    use crate::tcp::Stack;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// Returns the window of end 0 before and after an idle time until `resume`, its length, and the RTO.
    fn idle(cfg: &TcpConfig, resume: Time) -> (u64, u64, Time, Time) {
        let mut p = pair(cfg, MS(20));
        p.ends[0].connect();
        p.run(Time::ZERO, MS(1_000));
        p.ends[0].write(100_000);
        p.run(MS(1_000), resume.saturating_sub(MS(1)));
        let cwnd = |e: &super::super::super::TcpEndpoint| e.sender().unwrap().core().cc().trace().cwnd;
        let (before, last) = (cwnd(&p.ends[0]), p.data().last().unwrap().0);
        let rto = p.ends[0].sender().unwrap().core().flow().rto;
        p.ends[0].write(1_000);
        p.step(resume);
        (before, cwnd(&p.ends[0]), resume - last, rto)
    }

    fn config(stack: Stack) -> TcpConfig {
        TcpConfig { rcv_buf: Buffer::Bytes(1 << 20), snd_buf: Buffer::Bytes(1 << 20), ..TcpConfig::preset(stack) }
    }

    /// Linux 6.18 `tcp_cwnd_restart`: half for each RTO of idle time, down to the initial window.
    #[test]
    fn linux_halves_an_idle_window() {
        let initial = 10 * 1448;
        let mut halved = [false; 3];
        for resume in [1_200, 1_350, 1_450, 1_600, 1_700, 3_000, 9_000].map(MS) {
            let (before, after, idle, rto) = idle(&config(Stack::Linux), resume);
            assert!(before > 4 * initial, "{before}");
            let halvings = if idle > rto { (idle.0 - 1) / rto.0 } else { 0 };
            assert_eq!(after, (before >> halvings.min(60)).max(initial), "{idle:?} {rto:?}");
            halved[halvings.min(2) as usize] = true;
        }
        assert_eq!(halved, [true; 3]);
        let off = TcpConfig { slow_start_after_idle: false, ..config(Stack::Linux) };
        let (before, after, ..) = idle(&off, MS(9_000));
        assert_eq!(before, after);
    }

    /// RFC 5681 section 4.1: the restart window is min(IW, cwnd). ns-3 3.44 and ns-2 have no restart.
    #[test]
    fn restart_window_matches_the_rfc() {
        let (before, after, idle_for, rto) = idle(&config(Stack::Rfc), MS(1_900));
        assert!(idle_for < rto && before == after);
        let (before, after, ..) = idle(&config(Stack::Rfc), MS(9_000));
        assert!(before > after && after == 10 * 1448, "{before} {after}");
        for stack in [Stack::Ns3, Stack::Ns2] {
            let (before, after, ..) = idle(&config(stack), MS(9_000));
            assert_eq!(before, after, "{stack:?}");
        }
    }

    /// Linux 6.18 `tcp_cwnd_application_limited`: a little-used window falls halfway to the initial one per RTO.
    #[test]
    fn linux_shrinks_an_unused_window() {
        let mut p = pair(&config(Stack::Linux), MS(20));
        p.ends[0].connect();
        p.run(Time::ZERO, MS(1_000));
        p.ends[0].write(100_000);
        p.run(MS(1_000), MS(1_500));
        let cwnd = |e: &super::super::super::TcpEndpoint| e.sender().unwrap().core().cc().trace().cwnd;
        let before = cwnd(&p.ends[0]);
        for i in 0..100 {
            p.ends[0].write(1_448);
            p.run(MS(1_500 + 50 * i), MS(1_550 + 50 * i));
        }
        assert!(before > 60_000 && (14_480..18_000).contains(&cwnd(&p.ends[0])), "{before} {}", cwnd(&p.ends[0]));
    }
}
