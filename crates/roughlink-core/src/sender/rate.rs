//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation, Linux `tcp_rate.c`): every segment records the
//! amount delivered when it left, so that its acknowledgment yields a rate.

use crate::cc::{LostSegment, RateSample};
use crate::units::Time;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateStamp {
    /// Bytes delivered before the segment left.
    pub delivered: u64,
    /// Time of the last acknowledgment of those bytes.
    pub delivered_at: Time,
    /// Send time of the first segment of the current flight.
    pub first_sent: Time,
    /// Bytes in flight when the segment left, itself included.
    pub tx_in_flight: u32,
    /// [`Losses::total`] when the segment left.
    pub lost: u32,
    pub app_limited: bool,
}

impl RateStamp {
    /// Returns true if a segment with this stamp replaces one with `other` in the sample of ns-3
    /// (`TcpRateLinux::SkbDelivered`): if more bytes had been delivered when it left, or none when the other left.
    #[inline]
    pub(crate) fn replaces(&self, other: &RateStamp) -> bool {
        other.delivered == 0 || self.delivered > other.delivered
    }
}

/// Segments marked lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    /// Bytes marked lost so far; wraps.
    pub total: u32,
    /// Set if the algorithm handles each lost segment.
    pub are_reported: bool,
    /// Segments not reported yet.
    pub pending: Vec<LostSegment>,
}

impl Losses {
    /// Counts `len` bytes from offset `seq` that left with `stamp`.
    pub(crate) fn add(&mut self, seq: u64, len: u32, stamp: &RateStamp) {
        self.total = self.total.wrapping_add(len);
        if self.are_reported {
            self.pending.push(LostSegment {
                seq,
                len,
                delivered: stamp.delivered,
                tx_in_flight: stamp.tx_in_flight.into(),
                lost: self.total.wrapping_sub(stamp.lost).into(),
                app_limited: stamp.app_limited,
            });
        }
    }
}

/// The most recently sent segment among those that an acknowledgment delivers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub end: u64,
    pub sent_at: Time,
    pub retransmitted: bool,
    pub stamp: RateStamp,
}

impl Newest {
    /// Returns the interval of the sample: the send interval or the ACK interval, whichever is longer.
    #[inline(always)]
    fn interval(&self, now: Time) -> Time {
        self.sent_at.saturating_sub(self.stamp.first_sent).max(now.saturating_sub(self.stamp.delivered_at))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    pub delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited: u64,
    kept: Option<Box<Ns3Sample>>,
}

/// Sample as in ns-3, kept from one acknowledgment to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Ns3Sample {
    stamp: RateStamp,
    sent_at: Time,
    retransmitted: bool,
    interval: Time,
    is_valid: bool,
}

impl DeliveryRate {
    /// Returns the stamp of a segment that leaves at `now`, after which `in_flight` bytes are in flight, and before
    /// which `lost` bytes were marked lost; `idle` if nothing was in flight.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, idle: bool, in_flight: u64, lost: u32) -> RateStamp {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        RateStamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            tx_in_flight: in_flight as u32,
            lost,
            app_limited: self.app_limited != 0,
        }
    }

    /// Records that the application ran out of data: delivery of the `in_flight` bytes does not show the path's rate.
    #[inline]
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    #[inline]
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Counts delivered bytes. Samples stop being app-limited once the data in flight at the last limit is delivered.
    #[inline(always)]
    pub(crate) fn count(&mut self, now: Time, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
    }

    /// Processes an ACK that delivered `bytes`, of which `newest` left last. The ACK showed that `newly_lost` bytes are
    /// lost, and `lost` bytes so far. Returns its sample if it delivered any.
    #[inline(always)]
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        (bytes, newest): (u64, Option<&Newest>),
        (newly_lost, lost): (u64, u32),
        prior_in_flight: u64,
        min_rtt: Time,
        rtt: Time,
    ) -> Option<RateSample> {
        if bytes == 0 {
            return None;
        }
        self.count(now, bytes);
        let newest = newest?;
        let Newest { stamp, sent_at, retransmitted, .. } = *newest;
        self.first_sent = sent_at;
        let mut interval = newest.interval(now);
        if interval < min_rtt {
            interval = Time::ZERO; // too short to be true: no rate
        }
        Some(RateSample {
            delivered: self.delivered - stamp.delivered,
            prior_delivered: stamp.delivered,
            interval,
            rtt,
            sent_at,
            losses: newly_lost,
            acked_sacked: bytes,
            prior_in_flight,
            tx_in_flight: stamp.tx_in_flight.into(),
            lost: lost.wrapping_sub(stamp.lost).into(),
            app_limited: stamp.app_limited,
            retransmitted,
        })
    }

    /// Samples every ACK, as ns-3 3.44 does (`TcpRateLinux`), but remeasures the interval only if `newest` replaces the
    /// kept segment ([`RateStamp::replaces`]). Samples that share an interval may exceed the delivery rate.
    pub(crate) fn on_ack_kept(
        &mut self,
        now: Time,
        (bytes, newest): (u64, Option<&Newest>),
        lost: u32,
        prior_in_flight: u64,
        min_rtt: Time,
        rtt: Time,
    ) -> RateSample {
        if bytes > 0 {
            self.count(now, bytes);
        }
        let k = self.kept.get_or_insert_default();
        if let Some(newest) = newest
            && newest.stamp.replaces(&k.stamp)
        {
            let Newest { stamp, sent_at, retransmitted, .. } = *newest;
            let interval = newest.interval(now);
            **k = Ns3Sample { stamp, sent_at, retransmitted, interval, is_valid: true };
            self.first_sent = sent_at;
        }
        let was_valid = k.is_valid;
        k.is_valid &= k.interval >= min_rtt; // too short to be true: no rate until another segment replaces it
        RateSample {
            delivered: if was_valid { self.delivered - k.stamp.delivered } else { 0 },
            prior_delivered: k.stamp.delivered,
            interval: if k.is_valid { k.interval } else { Time::ZERO },
            rtt,
            sent_at: k.sent_at,
            losses: 0,
            acked_sacked: bytes,
            prior_in_flight,
            tx_in_flight: k.stamp.tx_in_flight.into(),
            lost: lost.wrapping_sub(k.stamp.lost).into(),
            app_limited: k.stamp.app_limited,
            retransmitted: k.retransmitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    /// Two segments that left after one ACK, acknowledged one by one, share an interval (ns-3 3.44 `TcpRateLinux`).
    #[test]
    fn kept_interval_overestimates_the_rate() {
        let ms = Time::from_millis;
        let mut rate = DeliveryRate::default();
        let first = Newest { end: 1000, sent_at: ms(0), retransmitted: false, stamp: rate.on_sent(ms(0), true, 0, 0) };
        rate.on_ack_kept(ms(40), (1000, Some(&first)), 0, 0, ms(40), ms(40));
        let stamp = rate.on_sent(ms(40), false, 0, 0);
        let pair = [1, 2].map(|i| Newest { end: 1000 + i * 1000, sent_at: ms(40), retransmitted: false, stamp });
        let one = rate.on_ack_kept(ms(80), (1000, Some(&pair[0])), 0, 0, ms(40), ms(40));
        let two = rate.on_ack_kept(ms(90), (1000, Some(&pair[1])), 0, 0, ms(40), ms(50));
        assert_eq!((one.delivered, one.interval), (1000, ms(40)));
        assert_eq!((two.delivered, two.interval), (2000, ms(40)));
        // A segment with a later stamp begins a new interval.
        let later =
            Newest { end: 4000, sent_at: ms(90), retransmitted: false, stamp: rate.on_sent(ms(90), false, 0, 0) };
        let three = rate.on_ack_kept(ms(130), (1000, Some(&later)), 0, 0, ms(40), ms(40));
        assert_eq!((three.delivered, three.interval, three.prior_delivered), (1000, ms(50), 3000));
    }

    /// A sample shorter than the smallest RTT has no interval, nor do later samples until another segment replaces it.
    #[test]
    fn kept_sample_without_interval_stays_invalid() {
        let ms = Time::from_millis;
        let mut rate = DeliveryRate::default();
        let first = Newest { end: 1000, sent_at: ms(0), retransmitted: false, stamp: rate.on_sent(ms(0), true, 0, 0) };
        let short = rate.on_ack_kept(ms(30), (1000, Some(&first)), 0, 0, ms(40), ms(30));
        assert_eq!((short.delivered, short.interval), (1000, Time::ZERO));
        let nothing = rate.on_ack_kept(ms(60), (0, None), 0, 0, ms(40), ms(30));
        assert_eq!((nothing.delivered, nothing.interval), (0, Time::ZERO));
    }

    #[test]
    fn steady_stream_gives_its_rate() {
        // 1000 B every 8 ms = 1 Mbit/s, RTT 40 ms.
        let mut rate = DeliveryRate::default();
        let mut left: Vec<Newest> = Vec::new();
        let mut last = None;
        for i in 0..40u64 {
            let now = Time::from_millis(i * 8);
            let rtt = Time::from_millis(40);
            if i >= 5 {
                last = rate.on_ack(now, (1000, Some(&left[i as usize - 5])), (0, 0), 0, rtt, rtt);
            }
            let stamp = rate.on_sent(now, i == 0, 0, 0);
            left.push(Newest { end: (i + 1) * 1000, sent_at: now, retransmitted: false, stamp });
        }
        let s = last.unwrap();
        assert_eq!(Rate::from_bytes_per(s.delivered, s.interval).0, 1_000_000);
    }
}
