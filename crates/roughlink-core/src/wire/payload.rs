//! Payload after the headers: real bytes, or the implied payload of the simulator.

use crate::packet::{Fragment, Packet, Protocol};
use crate::units::Time;

/// Payload of one datagram. For a fragment this is the payload of the *whole* datagram. The transport checksum and the
/// UDP length in the first fragment need all of it, and later fragments take their part.
pub trait Payload {
    /// Returns the bytes of payload in the whole datagram.
    fn bytes(&self) -> usize;
    /// Writes the bytes that start at `from` to `out`; `from + out.len()` is at most [`Payload::bytes`].
    fn fill(&self, from: usize, out: &mut [u8]);
}

impl Payload for [u8] {
    fn bytes(&self) -> usize {
        self.len()
    }
    fn fill(&self, from: usize, out: &mut [u8]) {
        out.copy_from_slice(&self[from..from + out.len()]);
    }
}

impl Payload for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }
    fn fill(&self, from: usize, out: &mut [u8]) {
        Payload::fill(&self[..], from, out);
    }
}

/// Payload implied by a simulated packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Implied {
    /// Part of a byte stream: [`pattern`] starting at `offset`.
    Stream {
        /// Stream offset, or sequence number, of the first byte, modulo 2^32.
        offset: u32,
        /// Payload bytes of the whole datagram.
        bytes: usize,
    },
    /// UDP datagram: its [`UdpStamp`], truncated if it does not fit, then [`pattern`].
    Datagram {
        /// Number and send time.
        stamp: UdpStamp,
        /// Payload bytes of the whole datagram.
        bytes: usize,
    },
}

impl Implied {
    /// Returns the implied payload of `packet`; its sequence number is the stream offset. `bytes` is the payload of the
    /// whole datagram, which a fragment does not carry; for a packet that is not a fragment it is [`Packet::payload`].
    pub fn new(packet: &Packet, bytes: usize) -> Self {
        match packet.protocol() {
            Protocol::Udp => {
                Implied::Datagram { stamp: UdpStamp { number: packet.seq, sent: packet.udp_sent_at() }, bytes }
            }
            Protocol::Tcp | Protocol::Sctp => Implied::Stream { offset: packet.seq, bytes },
        }
    }

    /// Returns the implied payload of the whole datagram `packet`.
    pub fn from_packet(packet: &Packet) -> Self {
        debug_assert_eq!(packet.fragment(), Fragment::Whole);
        Implied::new(packet, packet.payload() as usize)
    }
}

impl Payload for Implied {
    fn bytes(&self) -> usize {
        match *self {
            Implied::Stream { bytes, .. } | Implied::Datagram { bytes, .. } => bytes,
        }
    }
    fn fill(&self, from: usize, out: &mut [u8]) {
        match *self {
            Implied::Stream { offset, .. } => pattern(offset.wrapping_add(from as u32), out),
            Implied::Datagram { stamp, .. } => {
                let stamp = &stamp.to_bytes()[from.min(UdpStamp::BYTES)..];
                let n = stamp.len().min(out.len());
                out[..n].copy_from_slice(&stamp[..n]);
                pattern((from + n) as u32, &mut out[n..]);
            }
        }
    }
}

/// Start of the payload of roughlink's UDP flows: [`Packet::seq`] and [`Packet::udp_sent_at`], which fit into no
/// header. The decoder cannot identify these flows and leaves both 0; callers that can identify them read the stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpStamp {
    /// Number of the datagram in its flow.
    pub number: u32,
    /// Send time.
    pub sent: Time,
}

impl UdpStamp {
    /// Length of a stamp in bytes: number and nanoseconds, big-endian.
    pub const BYTES: usize = 12;

    /// Encodes the stamp.
    pub fn to_bytes(self) -> [u8; UdpStamp::BYTES] {
        let mut b = [0; UdpStamp::BYTES];
        b[..4].copy_from_slice(&self.number.to_be_bytes());
        b[4..].copy_from_slice(&self.sent.0.to_be_bytes());
        b
    }

    /// Reads the stamp at the start of `payload`, if it is long enough.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (number, rest) = payload.split_first_chunk()?;
        let sent = rest.first_chunk()?;
        Some(UdpStamp { number: u32::from_be_bytes(*number), sent: Time(u64::from_be_bytes(*sent)) })
    }

    /// Sets number and time in a UDP packet.
    pub fn apply(self, packet: &mut Packet) {
        packet.seq = self.number;
        packet.tsval = self.sent.0 as u32;
        packet.tsecr = (self.sent.0 >> 32) as u32;
    }
}

/// Writes the implied bytes of a stream starting at `offset`: every four bytes hold their own offset, big-endian. No
/// shift of less than 2^32 bytes maps the pattern to itself, and a dump shows the position in the stream.
pub fn pattern(offset: u32, out: &mut [u8]) {
    let head = (offset.wrapping_neg() as usize & 3).min(out.len());
    let (head, body) = out.split_at_mut(head);
    for (i, b) in head.iter_mut().enumerate() {
        let at = offset.wrapping_add(i as u32);
        *b = (at & !3).to_be_bytes()[at as usize & 3];
    }
    let mut at = offset.wrapping_add(head.len() as u32);
    let mut words = body.chunks_exact_mut(4);
    for word in &mut words {
        word.copy_from_slice(&at.to_be_bytes());
        at = at.wrapping_add(4);
    }
    let tail = words.into_remainder();
    let n = tail.len();
    tail.copy_from_slice(&at.to_be_bytes()[..n]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    #[test]
    fn payload_pattern_depends_only_on_the_offset() {
        let mut all = vec![0; 64];
        let start = u32::MAX - 30; // crosses the wrap
        pattern(start, &mut all);
        for from in 0..all.len() {
            for len in 0..=(all.len() - from).min(9) {
                let mut part = vec![0; len];
                pattern(start.wrapping_add(from as u32), &mut part);
                assert_eq!(part, all[from..from + len], "{from} {len}");
            }
        }
        let mut word = [0; 4];
        pattern(0x0102_0304, &mut word);
        assert_eq!(word, [1, 2, 3, 4]);
    }

    #[test]
    fn datagram_carries_its_stamp() {
        let sent = Time(0x0102_0304_0506_0708);
        let p = Packet::udp(FlowId::new(0, false), 77, 20, sent);
        let mut bytes = [0; 20];
        let implied = Implied::from_packet(&p);
        implied.fill(0, &mut bytes);
        let mut q = Packet::udp(p.flow, 0, 20, Time::ZERO);
        UdpStamp::read(&bytes).unwrap().apply(&mut q);
        assert_eq!(q, p);
        for from in 0..20 {
            let mut part = [0; 5];
            let n = 5.min(20 - from);
            implied.fill(from, &mut part[..n]);
            assert_eq!(part[..n], bytes[from..from + n]);
        }
        assert_eq!(UdpStamp::read(&bytes[..11]), None);
    }
}
