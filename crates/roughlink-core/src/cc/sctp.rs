//! SCTP's own congestion control: RFC 9260 section 7.2.
//!
//! Slow start counts bytes, at most a packet per SACK, while `cwnd <= ssthresh`; congestion avoidance adds a packet
//! when `partial_bytes_acked` has reached a window. The endpoint determines whether the window was full before the SACK
//! ([`Ack::may_grow`]). Every time-out halves ssthresh, not only the first one of an episode as in TCP. Windows are
//! bytes of user data and `PMDCS` is the payload of a full packet, chunk headers and padding left out.

use super::entry::BuildAlgorithm;
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit, Sent};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`SctpAlgorithm`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets that one SACK may add in slow start: L of section 7.2.1.
    pub slow_start_packets: u32,
    /// Lower bound of ssthresh after a loss, packets (section 7.2.3).
    pub min_ssthresh: u32,
    /// Halve the window for every RTO without anything to send (section 7.2.1).
    pub decay_when_idle: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params { slow_start_packets: 1, min_ssthresh: 4, decay_when_idle: true }
    }
}

/// The algorithm.
#[derive(Clone, Debug)]
pub struct SctpAlgorithm {
    cwnd: u64,
    ssthresh: u64,
    partial_bytes_acked: u64,
    last_sent: Time,
    params: Arc<Params>,
}

impl BuildAlgorithm for SctpAlgorithm {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if p.slow_start_packets == 0 || p.min_ssthresh == 0 {
            return Err("`slow_start_packets` and `min_ssthresh` must be at least 1".into());
        }
        Ok(())
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        SctpAlgorithm {
            cwnd: flow.initial_window,
            ssthresh: flow.initial_ssthresh,
            partial_bytes_acked: 0,
            last_sent: flow.now,
            params: Arc::clone(params),
        }
    }
}

impl CongestionControl for SctpAlgorithm {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        let mss = u64::from(flow.mss);
        if self.cwnd <= self.ssthresh {
            if ack.may_grow {
                self.cwnd += ack.delivered.min(u64::from(self.params.slow_start_packets) * mss);
            }
        } else if flow.state != CongestionState::Recovery {
            self.partial_bytes_acked += ack.delivered;
            if self.partial_bytes_acked >= self.cwnd {
                if ack.may_grow {
                    self.partial_bytes_acked -= self.cwnd;
                    self.cwnd += mss;
                } else {
                    self.partial_bytes_acked = self.cwnd;
                }
            }
        }
        if flow.outstanding == 0 {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        self.ssthresh = (self.cwnd / 2).max(u64::from(self.params.min_ssthresh) * mss);
        self.cwnd = if cause.is_timeout() { mss } else { self.ssthresh };
        self.partial_bytes_acked = 0;
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.cwnd))
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = if self.cwnd <= self.ssthresh { "slow start" } else { "congestion avoidance" };
        AlgorithmTrace { cwnd: self.cwnd, ssthresh: self.ssthresh, rate: None, phase }
    }

    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        if sent.tx_start && self.params.decay_when_idle && flow.state == CongestionState::Open {
            let least = 4 * u64::from(flow.mss);
            let mut idle = flow.now.saturating_sub(self.last_sent);
            while idle > flow.rto && self.cwnd > least {
                self.cwnd = (self.cwnd / 2).max(least);
                idle = idle.saturating_sub(flow.rto);
            }
        }
        self.last_sent = flow.now;
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    fn flow() -> Flow {
        Flow {
            mss: 1000,
            initial_window: 4_000,
            initial_ssthresh: u64::MAX,
            outstanding: 4_000,
            rto: Time::from_secs(1),
            ..Flow::default()
        }
    }
    fn ack(bytes: u64, may_grow: bool) -> Ack {
        Ack { acked: bytes, delivered: bytes, may_grow, ..Ack::default() }
    }

    #[test]
    fn slow_start_adds_at_most_a_packet_per_sack() {
        let f = flow();
        let mut cc = build("sctp", "rfc", "", &f).unwrap();
        cc.on_ack(&f, &ack(2_000, true));
        cc.on_ack(&f, &ack(300, true));
        cc.on_ack(&f, &ack(1_000, false)); // the window was not full
        assert_eq!(cc.trace().cwnd, 5_300);
        let mut cc = build("sctp", "rfc", "slow_start_packets = 2", &f).unwrap();
        cc.on_ack(&f, &ack(2_000, true));
        assert_eq!(cc.trace().cwnd, 6_000);
    }

    #[test]
    fn avoidance_adds_a_packet_per_window() {
        let f = Flow { initial_window: 10_000, initial_ssthresh: 5_000, ..flow() };
        let mut cc = build("sctp", "rfc", "", &f).unwrap();
        for _ in 0..4 {
            cc.on_ack(&f, &ack(2_000, true));
        }
        assert_eq!(cc.trace().cwnd, 10_000);
        cc.on_ack(&f, &ack(4_000, false)); // rule 1: the count is at most a window
        assert_eq!(cc.trace().cwnd, 10_000);
        cc.on_ack(&f, &ack(500, true)); // rule 2: 10500 - 10000 are left
        assert_eq!(cc.trace().cwnd, 11_000);
        cc.on_ack(&f, &ack(10_000, true));
        assert_eq!(cc.trace().cwnd, 11_000);
        cc.on_ack(&f, &ack(500, true));
        assert_eq!(cc.trace().cwnd, 12_000);
        let idle = Flow { outstanding: 0, ..f };
        cc.on_ack(&idle, &ack(11_000, true)); // all data arrived: the count restarts
        cc.on_ack(&f, &ack(11_999, true));
        assert_eq!(cc.trace().cwnd, 12_000);
    }

    #[test]
    fn losses_halve_the_window_down_to_four_packets() {
        let f = Flow { initial_window: 20_000, ..flow() };
        let mut cc = build("sctp", "rfc", "", &f).unwrap();
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (10_000, 10_000));
        cc.on_congestion(&f, Congestion::Timeout);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (1_000, 5_000));
        cc.on_congestion(&f, Congestion::TimeoutAgain);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (1_000, 4_000));
    }

    #[test]
    fn the_window_decays_while_idle() {
        let mut f = Flow { initial_window: 40_000, ..flow() };
        let sent = Sent { seq: 0, len: 1000, retransmission: false, tx_start: true };
        let mut cc = build("sctp", "rfc", "", &f).unwrap();
        f.now = Time::from_millis(900);
        cc.on_sent(&f, &sent);
        assert_eq!(cc.trace().cwnd, 40_000);
        f.now = Time::from_millis(3_000); // two RTOs later
        cc.on_sent(&f, &sent);
        assert_eq!(cc.trace().cwnd, 10_000);
        f.now = Time::from_secs(100);
        cc.on_sent(&f, &sent);
        assert_eq!(cc.trace().cwnd, 4_000);
    }
}
