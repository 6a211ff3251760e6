//! Receive buffer. A buffer of fixed size offers its size as the window; `"auto"` is tuned as in Linux 6.18. The tuned
//! buffer has two limits. The capacity follows the bytes received in a round trip (dynamic right-sizing,
//! `tcp_rcv_space_adjust` and `tcp_rcvbuf_grow`), and has room for all data beyond a gap. The offered window approaches
//! the capacity by two segments per arriving segment (`tcp_grow_window`), in order or not.
//!
//! Sizes are bytes of payload. Linux measures the ratio of payload to memory (`tcp_measure_rcv_mss`). Here, it is the
//! ratio of a full segment in a linear socket buffer. Not modeled: drivers with other buffers, memory of segments that
//! are not full (Linux opens the window less for them), and memory pressure.

use super::super::config::{Buffer, TcpConfig};
use crate::units::Time;

#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Window offered beyond the next byte expected.
    pub(super) window: u64,
    /// Maximum size of the buffer, bytes of memory.
    largest: u64,
    /// Smoothed round-trip time at the receiver.
    rtt: Time,
    /// Set for an `"auto"` buffer.
    tuning: Option<Box<Tuning>>,
}

/// State of a buffer that grows with the bytes received in a round trip.
#[derive(Clone, Debug)]
struct Tuning {
    /// Upper bound of the window, regardless of free memory (`rcv_ssthresh`).
    threshold: u64,
    /// Payload for which the buffer has room (`window_clamp`), and its maximum.
    capacity: u64,
    max: u64,
    measured_from: u64,
    measured_at: Time,
    /// Maximum number of bytes received in a round trip (`rcvq_space.space`).
    copied: u64,
    /// Last timestamp from which a round-trip time was taken.
    last_echo: u32,
}

impl Space {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        let (window, largest, tuning) = match cfg.rcv_buf {
            Buffer::Bytes(bytes) => (bytes, bytes, None),
            Buffer::Auto => {
                let tuning = Tuning::new(cfg.mss);
                (tuning.threshold, LARGEST, Some(Box::new(tuning)))
            }
        };
        Space { window, largest, rtt: Time::ZERO, tuning }
    }

    #[inline(always)]
    pub(super) fn is_tuned(&self) -> bool {
        self.tuning.is_some()
    }

    /// Returns the window scale to offer: the smallest that can express the largest buffer.
    pub(super) fn shift(&self) -> u8 {
        let mut shift = 0;
        while shift < 14 && self.largest >> shift > 65_535 {
            shift += 1;
        }
        shift
    }

    /// Handles a segment of `len` bytes while `held` bytes wait beyond a gap. Returns true if the window grew.
    #[inline(always)]
    pub(super) fn on_segment(&mut self, len: u64, held: u64) -> bool {
        let grew = self.tuning.as_mut().is_some_and(|t| t.threshold + held < t.capacity && t.grow(len, held));
        if grew {
            self.fit(held);
        }
        grew
    }

    /// Makes room for `held` bytes beyond a gap, the last of them `span` bytes beyond the next byte expected.
    pub(super) fn on_gap(&mut self, held: u64, span: u64) {
        if let Some(tuning) = &mut self.tuning {
            tuning.enlarge(2 * tuning.copied + span);
            self.fit(held);
        }
    }

    /// Limits the window of a tuned buffer to the free capacity.
    pub(super) fn fit(&mut self, held: u64) {
        if let Some(tuning) = &self.tuning {
            self.window = tuning.threshold.min(tuning.capacity.saturating_sub(held));
        }
    }

    /// Handles a read up to `nxt`; the last byte beyond a gap is `span` bytes further on. Once per round trip, the
    /// capacity becomes twice the bytes received in it, or more if they grew: the sender's window may have doubled.
    #[inline(always)]
    pub(super) fn on_read(&mut self, now: Time, nxt: u64, span: u64) {
        if let Some(tuning) = self.tuning.as_mut().filter(|tuning| now >= tuning.measured_at + self.rtt) {
            tuning.right_size(now, nxt, span);
        }
    }

    /// Adds a round-trip time: a smaller one replaces the estimate, a larger one weighs 1/8 (`tcp_rcv_rtt_update`).
    #[inline]
    pub(super) fn measure_rtt(&mut self, rtt: Time) {
        let old = self.rtt;
        self.rtt = if old.is_zero() || rtt < old { rtt } else { (old * 7 + rtt) / 8 };
    }

    pub(super) fn rtt(&self) -> Time {
        self.rtt
    }

    #[inline]
    pub(super) fn is_new_echo(&mut self, echo: u32) -> bool {
        self.tuning.as_mut().is_some_and(|tuning| std::mem::replace(&mut tuning.last_echo, echo) != echo)
    }
}

impl Tuning {
    fn new(mss: u32) -> Self {
        let payload = |memory: u64| memory * payload_share(mss) / 256;
        // Half the initial buffer, rounded down to whole segments (`tcp_select_initial_window`).
        let window = INITIAL / 2 - INITIAL / 2 % u64::from(mss).min(INITIAL / 2);
        let capacity = payload(INITIAL).max(window);
        Tuning {
            threshold: window,
            capacity,
            max: payload(LARGEST).max(capacity),
            measured_from: 1,
            measured_at: Time::ZERO,
            copied: window.min(10 * u64::from(mss)),
            last_echo: 0,
        }
    }

    #[inline(never)]
    fn grow(&mut self, len: u64, held: u64) -> bool {
        let grows = len >= MIN_SEGMENT;
        if grows {
            self.threshold += (2 * len).min(self.capacity - held - self.threshold);
        }
        grows
    }

    fn enlarge(&mut self, window: u64) {
        self.capacity = self.capacity.max(window.min(self.max));
    }

    #[inline(never)]
    fn right_size(&mut self, now: Time, nxt: u64, span: u64) {
        let copied = nxt - self.measured_from;
        if copied > self.copied {
            let window = 2 * copied;
            let growth = u128::from(window) * u128::from(copied - self.copied) / u128::from(self.copied.max(1));
            self.enlarge(window + 2 * growth as u64 + span);
            self.copied = copied;
        }
        (self.measured_from, self.measured_at) = (nxt, now);
    }
}

/// Returns the payload per 256 bytes of memory (`scaling_ratio`) of a full segment with `mss` bytes of payload and
/// options. The memory is the `sk_buff` and a block for the packet, its headroom and `skb_shared_info`, rounded up to a
/// power of two. For example, 1448 bytes of payload take 2304 bytes of memory.
fn payload_share(mss: u32) -> u64 {
    let payload = u64::from(mss) - 12;
    if payload <= TCP_MSS_DEFAULT {
        return 128; // too short for Linux to measure: the default ratio
    }
    let memory = (u64::from(mss) + 40 + 64 + 320).next_power_of_two() + 256;
    payload * 256 / memory
}

/// Linux `tcp_rmem`: initial and largest buffer, bytes of memory. The largest is the default before Linux 6.16, which
/// raised it to 32 MiB.
const INITIAL: u64 = 131_072;
const LARGEST: u64 = 6_291_456;
/// Linux: smaller segments do not open the window.
const MIN_SEGMENT: u64 = 128;
const TCP_MSS_DEFAULT: u64 = 536;

#[cfg(test)]
mod tests {
    use super::super::super::config::Stack;
    use super::*;

    const MSS: u64 = 1448;

    fn space() -> Space {
        Space::new(&TcpConfig::preset(Stack::Linux))
    }
    fn tuning(space: &Space) -> &Tuning {
        space.tuning.as_ref().expect("the buffer is tuned")
    }

    /// Linux 6.18, `ss -tm` at the receiver on a TUN device: `rb24418304`, `rcv_ssthresh:15261440`: 160/256.
    #[test]
    fn payload_share_of_memory_is_five_eighths() {
        assert_eq!((payload_share(1460), payload_share(548)), (160, 128));
        assert_eq!(24_418_304 * payload_share(1460) / 256, 15_261_440);
        let s = space();
        assert_eq!((s.window, tuning(&s).capacity, tuning(&s).max, s.shift()), (64_240, 81_920, 3_932_160, 7));
    }

    #[test]
    fn window_opens_by_two_segments_per_segment_up_to_free_space() {
        let mut s = space();
        assert!(!s.on_segment(MIN_SEGMENT - 1, 0));
        assert!(s.on_segment(MSS, 0));
        assert_eq!(s.window, 64_240 + 2 * MSS);
        assert!(s.on_segment(MSS, MSS));
        assert_eq!(s.window, 64_240 + 4 * MSS);
        while s.on_segment(MSS, 5 * MSS) {}
        assert_eq!(s.window, 81_920 - 5 * MSS);
        while s.on_segment(MSS, 0) {}
        assert_eq!(s.window, 81_920);
    }

    /// `tcp_rcvbuf_grow`: the capacity is twice the bytes received in a round trip, increased by twice their relative
    /// growth, plus the bytes beyond a gap.
    #[test]
    fn capacity_follows_bytes_per_round_trip_and_gaps() {
        let mut s = space();
        s.measure_rtt(Time::from_millis(100));
        let at = |ms| Time::from_millis(ms);
        s.on_read(at(200), 1 + 73_000, 0); // five times the first measurement
        assert_eq!(tuning(&s).capacity, 146_000 + 2 * 4 * 146_000);
        s.on_read(at(299), 1 + 400_000, 0);
        assert_eq!(tuning(&s).copied, 73_000, "a round trip is not over");
        s.on_gap(300_000, 1_500_000);
        assert_eq!(tuning(&s).capacity, 2 * 73_000 + 1_500_000);
        s.on_gap(300_000, 9_000_000);
        assert_eq!(tuning(&s).capacity, 3_932_160);
    }

    #[test]
    fn smaller_round_trip_applies_at_once() {
        let mut s = space();
        for (ms, smoothed) in [(80, 80), (160, 90), (50, 50)] {
            s.measure_rtt(Time::from_millis(ms));
            assert_eq!(s.rtt, Time::from_millis(smoothed));
        }
    }
}
