//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation, Linux `tcp_rate.c`): every segment records the
//! amount delivered when it left, so that its acknowledgment yields a rate.

use crate::cc::RateSample;
use crate::units::Time;

/// Record of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    /// Bytes delivered by then.
    pub delivered: u64,
    /// Time of the last acknowledgment of those bytes.
    pub delivered_at: Time,
    /// Send time of the first segment of the current flight.
    pub first_sent: Time,
    /// The sender had nothing to send.
    pub app_limited: bool,
}

/// Most recently sent segment that an acknowledgment delivers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    /// End of the segment.
    pub end: u64,
    /// Send time.
    pub sent_at: Time,
    /// Set for a retransmission.
    pub retransmitted: bool,
    /// Stamp of the segment.
    pub stamp: Stamp,
}

/// The connection's side of the estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Bytes delivered.
    pub delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited: u64,
}

impl DeliveryRate {
    /// Returns the stamp of a segment that leaves at `now`; `idle` if nothing was in flight.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, idle: bool) -> Stamp {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.app_limited != 0,
        }
    }

    /// Records that the application had nothing to send with `in_flight` bytes in flight: delivery up to there does not
    /// show the path's rate.
    #[inline]
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// Returns true if samples are app-limited now.
    #[inline]
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Processes an acknowledgment that delivered `bytes`, of which `newest` left last. Returns its sample if it
    /// delivered anything.
    #[inline(always)]
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        (bytes, newest): (u64, Option<&Newest>),
        lost: u64,
        prior_in_flight: u64,
        min_rtt: Time,
        rtt: Time,
    ) -> Option<RateSample> {
        if bytes == 0 {
            return None;
        }
        self.delivered += bytes;
        self.delivered_at = now;
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Newest { stamp, sent_at, retransmitted, .. } = *newest?;
        self.first_sent = sent_at;
        let send = sent_at.saturating_sub(stamp.first_sent);
        let ack = now.saturating_sub(stamp.delivered_at);
        let mut interval = send.max(ack);
        if interval < min_rtt {
            interval = Time::ZERO; // too short to be true: no rate
        }
        Some(RateSample {
            delivered: self.delivered - stamp.delivered,
            prior_delivered: stamp.delivered,
            interval,
            rtt,
            sent_at,
            losses: lost,
            acked_sacked: bytes,
            prior_in_flight,
            app_limited: stamp.app_limited,
            retransmitted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    #[test]
    fn a_steady_stream_gives_its_rate() {
        // 1000 B every 8 ms = 1 Mbit/s, RTT 40 ms.
        let mut rate = DeliveryRate::default();
        let mut left: Vec<Newest> = Vec::new();
        let mut last = None;
        for i in 0..40u64 {
            let now = Time::from_millis(i * 8);
            let rtt = Time::from_millis(40);
            if i >= 5 {
                last = rate.on_ack(now, (1000, Some(&left[i as usize - 5])), 0, 0, rtt, rtt);
            }
            let stamp = rate.on_sent(now, i == 0);
            left.push(Newest { end: (i + 1) * 1000, sent_at: now, retransmitted: false, stamp });
        }
        let s = last.unwrap();
        assert_eq!(Rate::from_bytes_per(s.delivered, s.interval).0, 1_000_000);
    }
}
