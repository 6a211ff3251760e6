//! Datagrams at a constant rate: the clock of a `cbr` flow.

use crate::units::{Rate, Serializer, Time};

/// The sending side of a constant-rate flow.
///
/// ```
/// use roughlink_core::app::cbr::CbrSender;
/// use roughlink_core::units::{Rate, Time};
///
/// // 1000 B at 1 Mbit/s leave every 8 ms; 28 B are headers.
/// let mut sender = CbrSender::new(Rate::from_mbps(1), 1000, None, (Time::ZERO, Time::from_secs(1)));
/// assert_eq!(sender.transmit(Time::ZERO), Some((0, 972)));
/// assert_eq!(sender.transmit(Time::from_millis(7)), None);
/// assert_eq!(sender.next_wake(), Time::from_millis(8));
/// ```
#[derive(Clone, Debug)]
pub struct CbrSender {
    clock: Serializer,
    payload: u16,
    packet: u16,
    next: Time,
    stop: Time,
    left: u64,
    sent: u32,
}

impl CbrSender {
    /// Creates a sender of datagrams of `packet` bytes (IP length) at `rate` (IP bits), from `start` until `stop` or
    /// until `bytes` of payload have left.
    pub fn new(rate: Rate, packet: u16, bytes: Option<u64>, (start, stop): (Time, Time)) -> Self {
        CbrSender {
            clock: Serializer::new(rate),
            payload: packet - UDP_HEADERS,
            packet,
            next: start,
            stop,
            left: bytes.unwrap_or(u64::MAX),
            sent: 0,
        }
    }
    /// Returns when the next datagram leaves; [`Time::MAX`] after the last.
    #[inline]
    pub fn next_wake(&self) -> Time {
        if self.left == 0 || self.next >= self.stop { Time::MAX } else { self.next }
    }
    /// Returns number and payload bytes of the next datagram to send now; call until `None`.
    #[inline]
    pub fn transmit(&mut self, now: Time) -> Option<(u32, u16)> {
        if self.next_wake() > now {
            return None;
        }
        let (number, payload) = (self.sent, u64::from(self.payload).min(self.left) as u16);
        self.left -= u64::from(payload);
        self.sent = self.sent.wrapping_add(1);
        // The last datagram may be short; the clock keeps the pace of full ones.
        self.next += self.clock.time(u32::from(self.packet));
        Some((number, payload))
    }
    /// Datagrams sent.
    pub fn sent(&self) -> u32 {
        self.sent
    }
    /// Returns true if all bytes of a sized flow have left.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// IPv4 and UDP headers, bytes.
const UDP_HEADERS: u16 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(s: &mut CbrSender) -> Vec<(Time, u32, u16)> {
        let mut out = Vec::new();
        while s.next_wake() < Time::MAX {
            let now = s.next_wake();
            while let Some((number, payload)) = s.transmit(now) {
                out.push((now, number, payload));
            }
        }
        out
    }

    #[test]
    fn sender_stops_at_the_end_of_its_window() {
        // 1000 B at 1 Mbit/s every 8 ms, from 1 s: 1.000 ... 1.024; at 1.032 it is over.
        let window = (Time::from_secs(1), Time::from_millis(1032));
        let all = drain(&mut CbrSender::new(Rate::from_mbps(1), 1000, None, window));
        let times: Vec<u64> = all.iter().map(|d| d.0.as_millis()).collect();
        assert_eq!(times, [1000, 1008, 1016, 1024]);
        assert!(all.iter().enumerate().all(|(i, d)| d.1 == i as u32 && d.2 == 972));
    }

    #[test]
    fn sender_stops_after_its_bytes() {
        let mut s = CbrSender::new(Rate::from_mbps(1), 1000, Some(2000), (Time::ZERO, Time::MAX));
        assert!(!s.is_done());
        let all = drain(&mut s);
        assert_eq!(all.iter().map(|d| d.2).collect::<Vec<_>>(), [972, 972, 56]);
        assert_eq!((s.is_done(), s.sent()), (true, 3));
    }

    #[test]
    fn the_rate_does_not_drift() {
        // 1500 B at 7 Mbit/s: the 7001st datagram leaves after exactly 12 s.
        let mut s = CbrSender::new(Rate::from_mbps(7), 1500, None, (Time::ZERO, Time::MAX));
        for _ in 0..7000 {
            s.transmit(s.next_wake()).unwrap();
        }
        assert_eq!(s.next_wake(), Time::from_secs(12));
    }
}
