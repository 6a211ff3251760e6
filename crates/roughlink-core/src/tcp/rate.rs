//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation, Linux `tcp_rate.c`): every segment
//! records how much had been delivered when it left, so that its acknowledgement yields a rate.

use super::scoreboard::{Delivered, Newest};
use crate::cc::RateSample;
use crate::units::Time;

/// What is recorded with a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Bytes delivered by then.
    pub delivered: u64,
    /// When the last of those was acknowledged.
    pub delivered_at: Time,
    /// When the first segment of the current flight left.
    pub first_sent: Time,
    /// The sender had nothing to send.
    pub app_limited: bool,
}

/// The connection's side of the estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryRate {
    /// Bytes delivered.
    pub delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited: u64,
}

impl DeliveryRate {
    /// The stamp of a segment leaving at `now`; `idle` when nothing was in flight.
    #[inline]
    pub fn on_sent(&mut self, now: Time, idle: bool) -> Stamp {
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

    /// The application had nothing to send with `in_flight` bytes on their way: what is delivered up to there shows
    /// nothing of the path.
    #[inline]
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// Whether samples are app-limited now.
    #[inline]
    pub fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Takes an acknowledgement in and makes its sample, if it delivered anything.
    #[inline(always)]
    pub fn on_ack(
        &mut self,
        now: Time,
        d: &Delivered,
        lost: u64,
        prior_in_flight: u64,
        min_rtt: Time,
        rtt: Time,
    ) -> Option<RateSample> {
        if d.bytes == 0 {
            return None;
        }
        self.delivered += d.bytes;
        self.delivered_at = now;
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Newest { stamp, sent_at, retransmitted, .. } = d.newest?;
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
            acked_sacked: d.bytes,
            prior_in_flight,
            app_limited: stamp.app_limited,
            retransmitted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::scoreboard::Scoreboard;
    use super::*;

    #[test]
    fn a_steady_stream_gives_its_rate() {
        // 1000 B every 8 ms = 1 Mbit/s, RTT 40 ms.
        let mut rate = DeliveryRate::default();
        let mut board = Scoreboard::new(0, true, false);
        let mut last = None;
        for i in 0..40u64 {
            let now = Time::from_millis(i * 8);
            if i >= 5 {
                let mut d = Delivered::default();
                board.acknowledge((i - 4) * 1000, &mut d);
                last = rate.on_ack(now, &d, 0, 0, Time::from_millis(40), Time::from_millis(40));
            }
            let stamp = rate.on_sent(now, board.outstanding() == 0);
            board.send(1000, now, stamp);
        }
        let s = last.unwrap();
        assert_eq!(crate::units::Rate::from_bytes_per(s.delivered, s.interval).0, 1_000_000);
    }
}
