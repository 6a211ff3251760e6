//! RTT samples of Vegas and Veno, after Linux's `tcp_vegas` and `tcp_veno`. Keeps the smallest RTT of the connection
//! and the smallest since the last decision, and records whether the samples control the window.

use super::{Ack, Congestion, CongestionState};
use crate::units::Time;

/// RTT samples of one connection, which control the window while the connection is in the Open state.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Smallest RTT of the connection, [`Time::MAX`] before the first.
    pub base: Time,
    /// Smallest RTT since the algorithm last set it to [`Time::MAX`].
    pub rtt: Time,
    /// Number of samples since the algorithm last set it to zero.
    pub count: u32,
    /// True if the samples control the window; otherwise Reno does.
    pub govern: bool,
    state: CongestionState,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { base: Time::MAX, rtt: Time::MAX, count: 0, govern: true, state: CongestionState::Open }
    }
}

impl Samples {
    /// Adds the sample of an ACK that left the connection in `state`. Returns true if the Open state was entered again.
    pub fn take(&mut self, state: CongestionState, ack: &Ack) -> bool {
        if let Some(rtt) = ack.rtt.filter(|t| !t.is_zero()) {
            self.base = self.base.min(rtt);
            self.rtt = self.rtt.min(rtt);
            self.count = self.count.saturating_add(1);
        }
        if state == self.state {
            return false;
        }
        self.state = state;
        let entered = state == CongestionState::Open;
        if entered {
            self.begin();
        } else {
            self.govern = false;
        }
        entered
    }

    /// Lets the samples control the window (Linux `vegas_enable`, `veno_enable`).
    pub fn begin(&mut self) {
        self.govern = true;
        self.rtt = Time::MAX;
    }

    /// Same as [`Samples::begin`], after an idle period that may have changed the path.
    pub fn restart(&mut self) {
        self.base = Time::MAX;
        self.begin();
    }

    /// Lets Reno control the window after a congestion event, until the next Open state or the end of an idle period.
    pub fn suspend(&mut self, cause: Congestion) {
        self.govern = false;
        self.state = match cause {
            Congestion::Loss => CongestionState::Recovery,
            Congestion::Timeout | Congestion::TimeoutAgain => CongestionState::Loss,
            Congestion::Ecn => CongestionState::Cwr,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ms: u64) -> Ack {
        Ack { rtt: Some(Time::from_millis(ms)), ..Ack::default() }
    }

    #[test]
    fn minimum_is_kept_and_zero_is_no_sample() {
        let mut s = Samples::default();
        for ms in [30, 20, 0, 40] {
            assert!(!s.take(CongestionState::Open, &ack(ms)));
        }
        assert_eq!((s.base, s.rtt, s.count), (Time::from_millis(20), Time::from_millis(20), 3));
        s.restart();
        s.take(CongestionState::Open, &ack(40));
        assert_eq!((s.base, s.rtt, s.count), (Time::from_millis(40), Time::from_millis(40), 4));
    }

    #[test]
    fn samples_govern_from_open_to_the_next_congestion_event() {
        let mut s = Samples::default();
        s.take(CongestionState::Disorder, &ack(10));
        assert!(!s.govern);
        assert!(s.take(CongestionState::Open, &ack(10)));
        assert!(s.govern);
        s.suspend(Congestion::Loss);
        assert!(!s.take(CongestionState::Recovery, &ack(10)) && !s.govern);
        assert!(s.take(CongestionState::Open, &ack(10)) && s.govern);
        assert_eq!(s.base, Time::from_millis(10));
    }

    /// A retransmission after a time-out finds nothing in flight: samples restart (Linux `CA_EVENT_TX_START`).
    #[test]
    fn restart_lasts_until_the_state_changes() {
        let mut s = Samples::default();
        s.suspend(Congestion::Timeout);
        s.restart();
        s.take(CongestionState::Loss, &ack(10));
        assert!(s.govern);
        s.take(CongestionState::Disorder, &ack(10));
        assert!(!s.govern);
    }
}
