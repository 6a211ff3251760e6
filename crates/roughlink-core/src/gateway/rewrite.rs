//! Rewriting the window of a segment to a smaller one.
//!
//! A window becomes smaller, never larger, and the advertised right edge never moves back (RFC 9293 section 3.8.6: a
//! receiver should not move it back, and Linux does not). The visible window therefore shrinks only as data is
//! acknowledged. Duplicates keep their window, or the sender would not count them as duplicates (RFC 5681 section 2).
//! Rewriting never closes a window; a closed one passes unchanged.
//!
//! The field counts units of 2^scale bytes. Rounding up may give the sender up to one unit more than intended. If a
//! unit is larger than a segment, the field is rounded down instead. This moves the edge back by less than a unit, as
//! every receiver with such a scale does at times (RFC 7323 section 2.4).

use super::{Segment, before};
use crate::packet::flags;

/// Upper limit of the advertised window.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimit {
    /// Bytes.
    pub window: u64,
    /// Length of a full segment, bytes.
    pub mss: u32,
    /// True if the right edge may move back, as in a literal reading of the PLC paper.
    pub retract: bool,
}

/// Advertisements of one end, as the other end has seen them.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdvertisedEdge {
    /// Highest sum of acknowledgment and window.
    right: Option<u32>,
    last: Option<Advertised>,
}

#[derive(Clone, Copy, Debug)]
struct Advertised {
    ack: u32,
    original: u64,
    window: u64,
}

impl AdvertisedEdge {
    /// Returns the window field for `s`, which carries an ACK; `shift` is the sender's window scale. Without `want`,
    /// and in a SYN or RST, the field is unchanged.
    ///
    /// ```
    /// use roughlink_core::gateway::rewrite::{AdvertisedEdge, WindowLimit};
    /// use roughlink_core::gateway::{FlowKey, Segment};
    /// use roughlink_core::packet::{FlowId, flags};
    ///
    /// let mut segment = Segment::new(FlowKey::new(FlowId::new(0, true)));
    /// (segment.flags, segment.ack, segment.window) = (flags::ACK, 20_000, 60_000);
    /// let limit = WindowLimit { window: 14_600, mss: 1460, retract: false };
    /// assert_eq!(AdvertisedEdge::default().advertise(&segment, 0, Some(limit)), 14_600);
    /// assert_eq!(AdvertisedEdge::default().advertise(&segment, 0, None), 60_000);
    /// ```
    pub fn advertise(&mut self, s: &Segment, shift: u8, want: Option<WindowLimit>) -> u16 {
        let shift = if s.is(flags::SYN) { 0 } else { shift }; // RFC 7323 section 2.2
        let original = u64::from(s.window) << shift;
        let field = match want {
            Some(want) if original > 0 && !s.is(flags::SYN | flags::RST) => self.shrink(s, shift, original, want),
            _ => s.window,
        };
        if s.is(flags::RST) {
            return field; // the window of an RST is meaningless
        }
        let window = u64::from(field) << shift;
        let right = s.ack.wrapping_add(window as u32);
        if self.right.is_none_or(|r| before(r, right)) {
            self.right = Some(right);
        }
        if self.last.is_none_or(|l| !before(s.ack, l.ack)) {
            self.last = Some(Advertised { ack: s.ack, original, window });
        }
        field
    }

    fn shrink(&self, s: &Segment, shift: u8, original: u64, want: WindowLimit) -> u16 {
        let mss = u64::from(want.mss);
        let coarse = 1 << shift > mss;
        let up = |window: u64| window.div_ceil(1 << shift);
        let quantize = |window: u64| if coarse { window >> shift } else { up(window) };
        let least = original.min(2 * mss); // avoids silly windows and never closes
        if let Some(last) = self.last.filter(|l| s.ack == l.ack && s.payload == 0 && !s.is(flags::FIN)) {
            // Repeat the last window, unless the receiver's own window was the limit and has changed since.
            if last.window < last.original || original == last.original {
                return self.fit(up(original.min(last.window).max(least)), s);
            }
        }
        let kept = match self.right {
            Some(right) if !want.retract && before(s.ack, right) => u64::from(right.wrapping_sub(s.ack)),
            _ => 0,
        };
        self.fit(quantize(want.window.max(kept)).max(up(least)), s)
    }

    fn fit(&self, units: u64, s: &Segment) -> u16 {
        units.min(u64::from(s.window)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlowKey;
    use super::*;
    use crate::packet::FlowId;

    const MSS: u32 = 1460;

    fn ack(ack: u32, window: u16) -> Segment {
        Segment { ack, window, flags: flags::ACK, ..Segment::new(FlowKey::new(FlowId::new(0, true))) }
    }
    fn segments(n: u64) -> Option<WindowLimit> {
        Some(WindowLimit { window: n * u64::from(MSS), mss: MSS, retract: false })
    }

    #[test]
    fn the_window_shrinks_as_data_are_acknowledged() {
        let mut edge = AdvertisedEdge::default();
        assert_eq!(edge.advertise(&ack(0, 65_535), 0, None), 65_535);
        // The limit is 20 segments, but 65535 bytes from 0 are already promised.
        for i in 1..=24 {
            assert_eq!(u32::from(edge.advertise(&ack(i * MSS, 65_535), 0, segments(20))), 65_535 - i * MSS);
        }
        for i in 25..30 {
            assert_eq!(u32::from(edge.advertise(&ack(i * MSS, 65_535), 0, segments(20))), 20 * MSS);
        }
        let literal = segments(5).map(|w| WindowLimit { retract: true, ..w });
        assert_eq!(u32::from(edge.advertise(&ack(30 * MSS, 65_535), 0, literal)), 5 * MSS);
    }

    #[test]
    fn duplicate_acks_keep_their_window() {
        let mut edge = AdvertisedEdge::default();
        edge.advertise(&ack(0, 10_000), 0, None);
        let first = edge.advertise(&ack(20_000, 60_000), 0, segments(10));
        assert_eq!(first, 14_600);
        for n in [3, 20] {
            assert_eq!(edge.advertise(&ack(20_000, 60_000), 0, segments(n)), first, "the gateway's window drifts");
            assert_eq!(edge.advertise(&ack(20_000, 61_000), 0, segments(n)), first, "the receiver's too");
        }
        assert_eq!(edge.advertise(&ack(20_000, 9_000), 0, segments(20)), 9_000, "the receiver's is smaller");
        // The receiver's own window was the limit and now opens: this is a window update, not a duplicate.
        assert_eq!(edge.advertise(&ack(20_000, 60_000), 0, segments(20)), 29_200);
        // A segment with data or FIN is not a duplicate.
        let data = Segment { payload: 10, ..ack(20_000, 60_000) };
        assert_eq!(edge.advertise(&data, 0, segments(30)), 43_800);
    }

    #[test]
    fn rewriting_never_closes_windows_and_keeps_closed_ones() {
        let mut edge = AdvertisedEdge::default();
        edge.advertise(&ack(0, 0), 0, None);
        assert_eq!(u32::from(edge.advertise(&ack(0, 40_000), 0, segments(0))), 2 * MSS, "it opens again");
        assert_eq!(edge.advertise(&ack(2 * MSS, 0), 0, segments(10)), 0);
        assert_eq!(edge.advertise(&ack(2 * MSS, 1_000), 0, segments(0)), 1_000, "not even two segments");
    }

    #[test]
    fn window_field_is_in_scaled_units() {
        let mut edge = AdvertisedEdge::default();
        // Rounded up for a unit of 128 bytes: 14600 = 114.06 units.
        assert_eq!(edge.advertise(&ack(1 << 20, 512), 7, segments(10)), 115);
        // A unit of 16 KiB is eleven segments: rounded down, but not to zero.
        let mut edge = AdvertisedEdge::default();
        assert_eq!(edge.advertise(&ack(0, 100), 14, segments(30)), 2);
        assert_eq!(edge.advertise(&ack(40_000, 100), 14, segments(3)), 1);
    }

    #[test]
    fn coarse_windows_shrink_too() {
        let mut edge = AdvertisedEdge::default();
        edge.advertise(&ack(0, 10), 14, None);
        let fields: Vec<_> = (1..=120).map(|i| edge.advertise(&ack(i * MSS, 10), 14, segments(22))).collect();
        assert_eq!((fields[0], fields[119]), (9, 1), "{fields:?}");
        assert!(fields.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut edge = AdvertisedEdge::default();
        edge.advertise(&ack(u32::MAX - 999, 40_000), 0, None);
        assert_eq!(edge.advertise(&ack(9_000, 40_000), 0, segments(2)), 30_000);
        assert_eq!(u32::from(edge.advertise(&ack(38_500, 40_000), 0, segments(2))), 2 * MSS);
    }
}
