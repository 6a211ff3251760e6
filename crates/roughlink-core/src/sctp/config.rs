//! The keys of an SCTP association; defaults are the protocol parameters of RFC 9260 section 16.

use crate::sender::{RtoFloor, RttEstimator, RttVar};
use crate::tcp::{Amount, threshold};
use crate::units::{self, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The keys of an SCTP association; defaults are the protocol parameters of RFC 9260.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SctpConfig {
    /// User data in a full packet, without 48 B of headers; longer messages are fragmented (RFC 9260 section 6.9).
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "4 B", "x-maximum" = "65484 B"))]
    pub payload: u16,
    /// Number of streams, used by messages in turn.
    #[schemars(extend("minimum" = 1, "maximum" = 65_535))]
    pub streams: u16,
    /// Deliver the messages of a stream in order; otherwise each message as soon as it is complete (RFC 9260 section
    /// 6.6).
    pub ordered: bool,
    /// Maximum number of streams accepted from the peer.
    #[serde(skip)]
    pub max_streams: u16,
    /// Receive buffer.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-minimum" = "1500 B"))]
    pub rcv_buf: u32,
    /// RTO.Initial: retransmission time-out before the first RTT sample; not above `max_rto`.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub initial_rto: Time,
    /// RTO.Min: lower bound of the retransmission time-out; not above `max_rto`.
    pub min_rto: Time,
    /// RTO.Max: upper bound of the retransmission time-out.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub max_rto: Time,
    /// Clock granularity G of RFC 9260 section 6.3.1.
    pub clock_granularity: Time,
    /// Association.Max.Retrans: consecutive time-outs and unanswered HEARTBEATs before the association fails.
    pub data_retries: u32,
    /// Max.Init.Retransmits: retransmissions of INIT and COOKIE ECHO before the association fails.
    pub init_retries: u32,
    /// HB.interval: time between HEARTBEATs, in addition to an RTO with jitter; no HEARTBEAT leaves in a period with
    /// new data. `"0 s"` disables HEARTBEATs.
    pub heartbeat_interval: Time,
    /// Valid.Cookie.Life: lifetime of a state cookie.
    pub cookie_life: Time,
    /// Max.Burst: packets that may leave on one SACK or timer.
    #[schemars(extend("minimum" = 1))]
    // `None`: any number, as with paced algorithms.
    pub max_burst: Option<u32>,
    /// Packets per SACK; 1 disables delayed SACKs.
    #[schemars(extend("minimum" = 1))]
    pub delayed_ack: u32,
    /// SACK.Delay: longest delay of a SACK.
    #[schemars(extend("x-exclusiveMinimum" = "0 s", "x-maximum" = "500 ms"))]
    pub delayed_ack_timeout: Time,
    /// Miss indications that cause a fast retransmit.
    #[schemars(extend("minimum" = 1, "maximum" = 255))]
    pub missing_reports: u8,
    /// Initial window in bytes or full packets (`"4 pkt"`); from RFC 9260 section 7.2.1 if absent.
    #[serde(with = "threshold", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "threshold::Threshold")]
    pub initial_window: Option<Amount>,
    /// Initial slow-start threshold: `"unlimited"`, bytes, or full packets (`"20 pkt"`).
    #[serde(with = "threshold")]
    #[schemars(with = "threshold::Threshold")]
    pub initial_ssthresh: Option<Amount>,
    /// Abandon messages beyond `lifetime` or `max_retransmissions`, and with `cc = "avoca"` messages in flight when
    /// coverage ends. A FORWARD TSN makes the receiver skip them (PR-SCTP, RFC 3758).
    pub partial_reliability: bool,
    /// Lifetime of a message from its due time (timed reliability, RFC 3758 section 4.1). An expired message is
    /// abandoned if it has not left or one of its packets is lost. If `max_retransmissions` is also set, either limit
    /// abandons the message. Needs `partial_reliability`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time", extend("x-exclusiveMinimum" = "0 s"))]
    pub lifetime: Option<Time>,
    /// Retransmissions of a packet after which another loss abandons the message (RFC 7496 section 3.1). Needs
    /// `partial_reliability`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub max_retransmissions: Option<u32>,
}

impl Default for SctpConfig {
    fn default() -> Self {
        SctpConfig {
            payload: 1452, // fills 1500 B together with 20 of IPv4, 12 of common and 16 of chunk header
            streams: 1,
            ordered: true,
            max_streams: u16::MAX,
            rcv_buf: 128 * 1024,
            initial_rto: Time::from_secs(1),
            min_rto: Time::from_secs(1),
            max_rto: Time::from_secs(60),
            clock_granularity: Time::from_millis(1),
            data_retries: 10,
            init_retries: 8,
            heartbeat_interval: Time::from_secs(30),
            cookie_life: Time::from_secs(60),
            max_burst: Some(4),
            delayed_ack: 2,
            delayed_ack_timeout: Time::from_millis(200),
            missing_reports: 3,
            initial_window: None,
            initial_ssthresh: None,
            partial_reliability: false,
            lifetime: None,
            max_retransmissions: None,
        }
    }
}

impl SctpConfig {
    /// The largest `payload`: an IPv4 packet of 65535 bytes, padding included.
    pub const MAX_PAYLOAD: u16 = u16::MAX - 48 - 3;

    /// Returns the RTO estimator before the first sample.
    pub(super) fn rtt_estimator(&self) -> RttEstimator {
        let bounds = (self.min_rto, self.max_rto);
        RttEstimator::new(self.initial_rto, bounds, self.clock_granularity, RtoFloor::Total, RttVar::Rfc)
    }
    /// Returns the initial window in bytes.
    ///
    /// ```
    /// use roughlink_core::sctp::SctpConfig;
    ///
    /// // RFC 9260 section 7.2.1: min(4 * PMDCS, max(2 * PMDCS, 4404))
    /// let window = |payload| SctpConfig { payload, ..SctpConfig::default() }.initial_window();
    /// assert_eq!((window(500), window(1452), window(9000)), (2_000, 4_404, 18_000));
    /// ```
    pub fn initial_window(&self) -> u64 {
        let payload = u64::from(self.payload);
        match self.initial_window {
            Some(amount) => amount.bytes(u32::from(self.payload)),
            None => (4 * payload).min((2 * payload).max(4404)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_window_matches_the_rfc() {
        let window = |payload| SctpConfig { payload, ..SctpConfig::default() }.initial_window();
        assert_eq!((window(500), window(1452), window(1468), window(9000)), (2_000, 4_404, 4_404, 18_000));
        let four = SctpConfig { initial_window: Some(Amount::Segments(4)), ..SctpConfig::default() };
        assert_eq!(four.initial_window(), 4 * 1452);
    }
}
