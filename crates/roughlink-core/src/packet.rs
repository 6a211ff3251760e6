//! A packet in flight: 32 bytes, `Copy`, with implied payload. The fields match the wire format and are named for TCP;
//! the table in `packet/sctp.rs` lists their content in SCTP. Sequence and acknowledgment numbers have the 32 bits of
//! the header; endpoints unwrap them to 64-bit stream offsets. Content that does not fit (SACK blocks, SYN options) is
//! stored in a side slot and referred to by a 24-bit index. The other 8 bits of that word are the traffic class: DSCP
//! (RFC 2474) and ECN (RFC 3168). The code that consumes or drops a packet frees the slot ([`Sides::free`]).

mod sctp;
mod sides;

pub use sctp::{COOKIE_BYTES, Chunk, Cookie, Gap, Gaps, Init, STALE_COOKIE, Skipped, chunk_flags};
pub use sides::{SideContent, Sides};

use crate::units::Time;

/// TCP flags as on the wire (RFC 9293 section 3.1).
pub mod flags {
    #![allow(missing_docs, reason = "the names are RFC 9293's")]
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// Flow and direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Creates the id of flow `index`: from source to destination, or back if `reverse`.
    pub const fn new(index: u32, reverse: bool) -> Self {
        FlowId(index << 1 | reverse as u32)
    }
    /// Returns the flow's number.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0 >> 1) as usize
    }
    /// Returns true if the packet travels from the flow's destination to its source.
    #[inline]
    pub const fn reverse(self) -> bool {
        self.0 & 1 == 1
    }
    /// Returns the opposite direction of the same flow.
    pub const fn flipped(self) -> Self {
        FlowId(self.0 ^ 1)
    }
}

/// The transport protocol of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
    /// RFC 9260.
    Sctp,
}

/// The part of an IP datagram that a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fragment {
    /// The whole datagram.
    Whole,
    /// The first fragment: it carries the transport header.
    First,
    /// A fragment neither first nor last; [`Packet::ack`] holds its offset in bytes.
    Middle,
    /// The last fragment; [`Packet::ack`] holds its offset in bytes.
    Last,
}

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecn {
    /// The transport does not support ECN.
    NotEct = 0b00,
    /// ECN-capable transport, codepoint 1.
    Ect1 = 0b01,
    /// ECN-capable transport, codepoint 0: set by TCP.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// Returns the codepoint in the two lowest bits of `bits`.
    #[inline]
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// No side slot.
pub const NO_SIDE: u32 = SIDE;
/// Bits of [`Packet::side`] that hold the index; the bits above hold the traffic class.
const SIDE: u32 = 0x00ff_ffff;
const CLASS_SHIFT: u32 = 24;

const INFO_PROTOCOL: u8 = 0b0000_0011;
const INFO_TCP: u8 = 0;
const INFO_UDP: u8 = 1;
const INFO_SCTP: u8 = 2;
const INFO_TCP_IPV6: u8 = 3;
/// With TCP: timestamps option present.
const INFO_TIMESTAMPS: u8 = 0b0000_0100;
/// With UDP, which has no timestamps: IPv6 header.
const INFO_UDP_IPV6: u8 = 0b0000_0100;
const INFO_FRAGMENT: u8 = 0b0001_1000;
const INFO_SACKS: u8 = 0b1110_0000;

/// A packet in flight.
///
/// ```
/// use roughlink_core::packet::{FlowId, Packet, flags};
///
/// let mut packet = Packet::tcp(FlowId::new(0, false));
/// packet.flags = flags::ACK;
/// packet.set_timestamps(5, 6); // 12 B of options
/// packet.set_payload(1448);
/// assert_eq!((packet.size, packet.payload()), (1500, 1448));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Packet {
    /// Flow and direction.
    pub flow: FlowId,
    /// TCP sequence number; number of a UDP datagram; TSN of SCTP.
    pub seq: u32,
    /// TCP acknowledgment number; verification tag of SCTP; fragment offset in bytes of a fragment after the first.
    pub ack: u32,
    /// TSval (RFC 7323), ms; with UDP the low half of the send time in ns.
    pub tsval: u32,
    /// TSecr (RFC 7323), ms; with UDP the high half of the send time in ns.
    pub tsecr: u32,
    side: u32,
    /// Length of the IP packet in bytes, including its header.
    pub size: u16,
    /// Window field, unscaled as on the wire; chunk flags of SCTP.
    pub window: u16,
    /// IPv4 identification.
    pub ident: u16,
    /// TCP flags; chunk type of SCTP.
    pub flags: u8,
    info: u8,
}

const _: () = assert!(std::mem::size_of::<Packet>() == 32);

impl Packet {
    /// Creates a TCP packet without options or payload; [`Packet::set_payload`] sets `size` once the options are known.
    pub const fn tcp(flow: FlowId) -> Self {
        Packet {
            flow,
            seq: 0,
            ack: 0,
            tsval: 0,
            tsecr: 0,
            side: NO_SIDE,
            size: 40,
            window: 0,
            ident: 0,
            flags: 0,
            info: 0,
        }
    }

    /// Makes this a TCP packet of `flow` without options or payload, like [`Packet::tcp`].
    #[inline(always)]
    pub(crate) fn reset(&mut self, flow: FlowId) {
        let Packet { flow: to, side, window, info, .. } = self;
        (*to, *side, *window, *info) = (flow, NO_SIDE, 0, 0);
        (self.seq, self.ack, self.tsval, self.tsecr) = (0, 0, 0, 0);
        (self.size, self.ident, self.flags) = (40, 0, 0);
    }

    /// Creates a UDP datagram of `payload` bytes with number `seq`, sent at `now`.
    pub const fn udp(flow: FlowId, seq: u32, payload: u16, now: Time) -> Self {
        let mut p = Packet::tcp(flow);
        p.info = INFO_UDP;
        p.seq = seq;
        p.tsval = now.0 as u32;
        p.tsecr = (now.0 >> 32) as u32;
        p.size = 28 + payload;
        p
    }

    /// Creates a packet for an external IP datagram of `size` bytes that entered at `now`; side slot `side` holds its
    /// bytes. The content is not examined: links and queues treat it as UDP.
    pub const fn opaque(flow: FlowId, size: u16, ipv6: bool, side: u32, now: Time) -> Self {
        let mut p = Packet::udp(flow, 0, 0, now);
        p.info = if ipv6 { INFO_UDP | INFO_UDP_IPV6 } else { INFO_UDP };
        p.size = size;
        p.set_side(side);
        p
    }

    /// Returns the index of the side slot, or [`NO_SIDE`].
    #[inline]
    pub const fn side(&self) -> u32 {
        self.side & SIDE
    }

    /// Sets the side slot of the packet's content; [`NO_SIDE`] = no content.
    #[inline]
    pub const fn set_side(&mut self, side: u32) {
        debug_assert!(side <= SIDE);
        self.side = self.side & !SIDE | side;
    }

    /// Returns the traffic class: DSCP and ECN, as in the second byte of an IPv4 header.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        (self.side >> CLASS_SHIFT) as u8
    }

    /// Sets DSCP and ECN.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        self.side = self.side & SIDE | (class as u32) << CLASS_SHIFT;
    }

    /// Returns the ECN codepoint.
    #[inline]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// Sets the ECN codepoint.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.set_traffic_class(self.traffic_class() & !0b11 | ecn as u8);
    }

    /// Marks the packet with CE if its transport supports ECN. Returns true if the packet is marked now.
    ///
    /// ```
    /// use roughlink_core::packet::{Ecn, FlowId, Packet};
    ///
    /// let mut packet = Packet::tcp(FlowId::new(0, false));
    /// assert!(!packet.mark()); // not ECN-capable
    /// packet.set_ecn(Ecn::Ect0);
    /// assert!(packet.mark());
    /// assert_eq!(packet.ecn(), Ecn::Ce);
    /// ```
    pub fn mark(&mut self) -> bool {
        let capable = self.ecn() != Ecn::NotEct;
        if capable {
            self.set_ecn(Ecn::Ce);
        }
        capable
    }

    /// Returns the differentiated services codepoint, 0 to 63.
    #[inline]
    pub const fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Sets the differentiated services codepoint, 0 to 63.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set_traffic_class(dscp << 2 | self.traffic_class() & 0b11);
    }

    /// Returns the time at which a UDP datagram was sent, or an external one entered.
    pub const fn udp_sent_at(&self) -> Time {
        Time(self.tsval as u64 | (self.tsecr as u64) << 32)
    }

    /// Returns the transport protocol.
    #[inline]
    pub const fn protocol(&self) -> Protocol {
        match self.info & INFO_PROTOCOL {
            INFO_TCP | INFO_TCP_IPV6 => Protocol::Tcp,
            INFO_UDP => Protocol::Udp,
            _ => Protocol::Sctp,
        }
    }

    /// Returns true for an IPv6 header, false for an IPv4 header, which is 20 bytes shorter.
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        match self.info & INFO_PROTOCOL {
            INFO_TCP_IPV6 => true,
            INFO_UDP => self.info & INFO_UDP_IPV6 != 0,
            _ => false,
        }
    }

    /// Replaces the IPv4 header of an otherwise complete TCP or UDP packet by an IPv6 header.
    #[inline]
    pub fn set_ipv6(&mut self) {
        debug_assert!(!self.is_ipv6() && matches!(self.protocol(), Protocol::Tcp | Protocol::Udp));
        self.info |= if self.protocol() == Protocol::Tcp { INFO_TCP_IPV6 } else { INFO_UDP_IPV6 };
        self.size += IPV6_EXTRA;
    }

    /// Returns the length of the IP header in bytes, including the fragment header of IPv6 (RFC 8200 section 4.5).
    #[inline]
    pub const fn ip_header_bytes(&self) -> u16 {
        match (self.is_ipv6(), self.fragment()) {
            (false, _) => 20,
            (true, Fragment::Whole) => 20 + IPV6_EXTRA,
            (true, _) => 20 + IPV6_EXTRA + 8,
        }
    }

    /// Returns true if the timestamps option is present.
    #[inline]
    pub const fn has_timestamps(&self) -> bool {
        self.info & INFO_TIMESTAMPS != 0 && self.info & INFO_PROTOCOL != INFO_UDP
    }

    /// Sets the timestamps option.
    #[inline]
    pub fn set_timestamps(&mut self, tsval: u32, tsecr: u32) {
        self.info |= INFO_TIMESTAMPS;
        self.tsval = tsval;
        self.tsecr = tsecr;
    }

    /// Returns the number of SACK blocks in the side slot (0 to 4).
    #[inline]
    pub const fn sacks(&self) -> usize {
        ((self.info & INFO_SACKS) >> 5) as usize
    }

    /// Sets the number of SACK blocks to `n`, held in side slot `side`.
    #[inline]
    pub fn set_sacks(&mut self, n: usize, side: u32) {
        debug_assert!(n <= 4);
        self.info = self.info & !INFO_SACKS | (n as u8) << 5;
        self.set_side(side);
    }

    /// Returns the part of the datagram that this packet carries.
    #[inline]
    pub const fn fragment(&self) -> Fragment {
        match (self.info & INFO_FRAGMENT) >> 3 {
            0 => Fragment::Whole,
            1 => Fragment::First,
            2 => Fragment::Middle,
            _ => Fragment::Last,
        }
    }

    /// Sets the part of the datagram that this packet carries.
    pub fn set_fragment(&mut self, f: Fragment) {
        let bits = match f {
            Fragment::Whole => 0,
            Fragment::First => 1,
            Fragment::Middle => 2,
            Fragment::Last => 3,
        };
        self.info = self.info & !INFO_FRAGMENT | bits << 3;
    }

    /// Returns true if flag `f` (one of [`flags`]) is set.
    #[inline]
    pub const fn is(&self, f: u8) -> bool {
        self.flags & f != 0
    }

    /// Returns the length of the IP and transport headers in bytes, including options, padded as on the wire. For a
    /// SYN, pass the length of its options ([`SynOptions::header_bytes`]) as `syn_options`.
    #[inline]
    pub const fn header_bytes(&self, syn_options: u16) -> u16 {
        match self.protocol() {
            Protocol::Tcp => {}
            Protocol::Udp => return self.ip_header_bytes() + 8,
            Protocol::Sctp => return self.sctp_header_bytes(),
        }
        let mut n = self.ip_header_bytes() + 20 + syn_options;
        if self.info & INFO_TIMESTAMPS != 0 && self.flags & flags::SYN == 0 {
            n += 12; // NOP NOP TS
        }
        let sacks = self.sacks() as u16;
        if sacks > 0 {
            n += 4 + 8 * sacks; // NOP NOP SACK
        }
        n
    }

    /// Returns the payload length in bytes of a plain TCP segment, `None` for any other packet. Plain means whole,
    /// IPv4, traffic class 0, no side slot, and no option except timestamps, which `timestamps` requires or excludes.
    #[inline(always)]
    pub const fn plain_payload(&self, timestamps: bool) -> Option<u16> {
        let (info, header) = if timestamps { (INFO_TCP | INFO_TIMESTAMPS, 52) } else { (INFO_TCP, 40) };
        if self.info == info && self.side == NO_SIDE { Some(self.size - header) } else { None }
    }

    /// Sets the size for `len` bytes of payload. Call it after all options are set.
    #[inline]
    pub fn set_payload(&mut self, len: u16) {
        self.size = self.header_bytes(0) + len;
    }

    /// Returns the payload length in bytes; 0 for a TCP SYN. The packet must not be a fragment.
    #[inline]
    pub const fn payload(&self) -> u32 {
        match self.protocol() {
            // Data on a SYN (TCP Fast Open) is not modeled.
            Protocol::Tcp if self.flags & flags::SYN != 0 => 0,
            Protocol::Tcp | Protocol::Udp => (self.size - self.header_bytes(0)) as u32,
            Protocol::Sctp => (self.size - self.sctp_header_bytes() - self.sctp_padding()) as u32,
        }
    }
}

/// Difference between an IPv6 header (RFC 8200) and an IPv4 header without options, bytes.
pub const IPV6_EXTRA: u16 = 20;

/// A SACK block: `[left, right)` in 32-bit sequence numbers (RFC 2018 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: u32,
    /// Sequence number after the block.
    pub right: u32,
}

/// The options of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SynOptions {
    /// Maximum segment size announced, bytes; 0 = the option is absent.
    pub mss: u16,
    /// Window scale shift, if the option is present.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Timestamps option present.
    pub timestamps: bool,
}

impl SynOptions {
    /// Returns the length of these options in bytes, padded to words as in Linux.
    ///
    /// ```
    /// use roughlink_core::packet::SynOptions;
    ///
    /// let linux = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, timestamps: true };
    /// assert_eq!(linux.header_bytes(), 20); // 60 B with the headers of IPv4 and TCP
    /// ```
    pub const fn header_bytes(&self) -> u16 {
        let mut n = if self.mss > 0 { 4 } else { 0 };
        if self.timestamps {
            n += 12; // with SACK permitted in place of two NOPs
        } else if self.sack_permitted {
            n += 4;
        }
        if self.window_scale.is_some() {
            n += 4;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lengths_match_the_wire() {
        let mut p = Packet::tcp(FlowId::new(3, true));
        p.set_timestamps(5, 6);
        p.set_payload(1448);
        assert_eq!(p.size, 1500);
        assert_eq!(p.payload(), 1448);
        p.set_sacks(3, 0);
        p.set_payload(0);
        assert_eq!(p.size, 40 + 12 + 28);
        assert_eq!(p.fragment(), Fragment::Whole);
        let syn = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, timestamps: true };
        assert_eq!(syn.header_bytes(), 20); // Linux's SYN: 60 bytes of IPv4 and TCP
    }

    #[test]
    fn side_slot_and_traffic_class_share_a_word() {
        let mut p = Packet::tcp(FlowId::new(0, false));
        assert_eq!((p.side(), p.traffic_class(), p.ecn()), (NO_SIDE, 0, Ecn::NotEct));
        assert!(!p.mark() && p.ecn() == Ecn::NotEct);
        p.set_dscp(46);
        p.set_ecn(Ecn::Ect0);
        assert_eq!((p.side(), p.traffic_class()), (NO_SIDE, 0xba));
        p.set_side(7);
        assert!(p.mark());
        assert_eq!((p.side(), p.dscp(), p.ecn()), (7, 46, Ecn::Ce));
        p.set_sacks(2, 9);
        p.set_dscp(0);
        assert_eq!((p.side(), p.traffic_class(), p.sacks()), (9, 3, 2));
    }

    #[test]
    fn an_ipv6_header_is_20_bytes_longer() {
        let mut p = Packet::tcp(FlowId::new(3, true));
        p.set_timestamps(5, 6);
        p.set_sacks(2, 0);
        p.set_payload(1000);
        let mut q = p;
        q.set_ipv6();
        assert_eq!((q.size, q.payload(), q.protocol(), q.sacks()), (p.size + 20, 1000, Protocol::Tcp, 2));
        assert!(q.is_ipv6() && q.has_timestamps() && !p.is_ipv6());
        let mut u = Packet::udp(p.flow, 0, 10, Time::ZERO);
        assert_eq!((u.size, u.is_ipv6()), (38, false));
        u.set_ipv6();
        assert_eq!((u.size, u.payload(), u.protocol(), u.has_timestamps()), (58, 10, Protocol::Udp, false));
        assert!(u.is_ipv6());
    }

    #[test]
    fn flow_id_flips_direction() {
        let f = FlowId::new(21, false);
        assert_eq!((f.index(), f.reverse(), f.flipped().reverse()), (21, false, true));
    }
}
