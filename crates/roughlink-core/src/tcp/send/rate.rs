//! Delivery-rate samples of the sending half, and when they are application-limited.

use super::TcpSender;
use crate::cc::RateSample;
use crate::tcp::scoreboard::NewlyDelivered;
use crate::units::Time;

impl TcpSender {
    /// Returns the delivery-rate sample of an acknowledgment that delivered `d` and showed that `lost` bytes are lost.
    #[inline(always)]
    pub(in crate::tcp) fn rate_sample(
        &mut self,
        now: Time,
        d: &NewlyDelivered,
        lost: u64,
        prior_in_flight: u64,
        rtt: Time,
    ) -> Option<RateSample> {
        let core = &mut self.core;
        let (delivered, min_rtt) = ((d.bytes, d.newest.as_ref()), core.flow.min_rtt);
        let sample = if self.board.by_stamp {
            Some(core.rate.on_ack_kept(now, delivered, self.board.losses.total, prior_in_flight, min_rtt, rtt))
        } else {
            core.rate.on_ack(now, delivered, (lost, self.board.losses.total), prior_in_flight, min_rtt, rtt)
        };
        if core.optional_events.rate { sample } else { None }
    }

    /// Marks samples as application-limited before a write of `bytes` (Linux `tcp_rate_check_app_limited`). The
    /// conditions: less than a segment is unsent, the window has room, and every loss is repaired. ns-3 checks after
    /// the write (3.44 `TcpRateLinux::CalculateAppLimited`).
    #[inline]
    pub(super) fn before_write(&mut self, bytes: u64) {
        let unsent = self.written - self.board.nxt() + if self.board.by_stamp { bytes } else { 0 };
        if unsent < u64::from(self.core.flow.mss)
            && self.board.in_flight() < self.core.cc.trace().cwnd
            && self.board.lost() <= self.board.retrans()
        {
            self.core.rate.on_app_limited(self.board.in_flight());
        }
    }
}
