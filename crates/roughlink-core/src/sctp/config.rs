//! The keys of an SCTP association; defaults are the protocol parameters of RFC 9260 section 16.

use crate::tcp::Amount;
use crate::units::Time;

/// All keys of an association except its congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct SctpConfig {
    /// Bytes of user data in a full packet, which is also the size of a user message: what fits into 1500 bytes beside
    /// 20 of IPv4, 12 of common and 16 of chunk header. From 1 to [`SctpConfig::MAX_PAYLOAD`]; the AVOCA paper has 1468,
    /// which makes packets of 1516.
    pub payload: u16,
    /// Streams to send messages in, in turn; at most what the peer accepts.
    pub streams: u16,
    /// Most streams accepted from the peer.
    pub max_streams: u16,
    /// Receive buffer, bytes: what is announced as a_rwnd, less what waits for a gap to close.
    pub rcv_buf: u32,
    /// RTO.Initial.
    pub initial_rto: Time,
    /// RTO.Min.
    pub min_rto: Time,
    /// RTO.Max.
    pub max_rto: Time,
    /// G of section 6.3.1.
    pub clock_granularity: Time,
    /// Association.Max.Retrans: time-outs in a row before the association fails.
    pub data_retries: u32,
    /// Max.Init.Retransmits: of INIT, and of COOKIE ECHO.
    pub init_retries: u32,
    /// Valid.Cookie.Life.
    pub cookie_life: Time,
    /// Max.Burst: packets that may leave on one SACK or timer; `None` = any number. Paced algorithms do without.
    pub max_burst: Option<u32>,
    /// Packets per SACK, 1 = no delaying (section 6.2).
    pub delayed_ack: u32,
    /// How long a SACK may wait (SACK.Delay).
    pub delayed_ack_timeout: Time,
    /// Miss indications that make a fast retransmit (section 7.2.4).
    pub missing_reports: u8,
    /// Initial window; `None` = that of section 7.2.1, `min(4 payload, max(2 payload, 4404 B))`.
    pub initial_window: Option<Amount>,
    /// Initial slow-start threshold, `None` = unlimited.
    pub initial_ssthresh: Option<Amount>,
    /// Offer and accept PR-SCTP (RFC 3758), and use it as the AVOCA paper does: when the congestion control turns to
    /// `Hold`, what is in flight is abandoned and a FORWARD TSN that skips it is the last packet to leave.
    pub partial_reliability: bool,
}

impl Default for SctpConfig {
    fn default() -> Self {
        SctpConfig {
            payload: 1452,
            streams: 1,
            max_streams: u16::MAX,
            rcv_buf: 128 * 1024,
            initial_rto: Time::from_secs(1),
            min_rto: Time::from_secs(1),
            max_rto: Time::from_secs(60),
            clock_granularity: Time::from_millis(1),
            data_retries: 10,
            init_retries: 8,
            cookie_life: Time::from_secs(60),
            max_burst: Some(4),
            delayed_ack: 2,
            delayed_ack_timeout: Time::from_millis(200),
            missing_reports: 3,
            initial_window: None,
            initial_ssthresh: None,
            partial_reliability: false,
        }
    }
}

impl SctpConfig {
    /// The largest `payload`: an IPv4 packet of 65535 bytes, padding included.
    pub const MAX_PAYLOAD: u16 = u16::MAX - 48 - 3;

    /// The initial window in bytes.
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
    fn the_initial_window_of_the_rfc() {
        let window = |payload| SctpConfig { payload, ..SctpConfig::default() }.initial_window();
        assert_eq!((window(500), window(1452), window(1468), window(9000)), (2_000, 4_404, 4_404, 18_000));
        let four = SctpConfig { initial_window: Some(Amount::Segments(4)), ..SctpConfig::default() };
        assert_eq!(four.initial_window(), 4 * 1452);
    }
}
