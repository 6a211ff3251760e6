//! Content of packets beyond their 32 bytes, in side slots that packets refer to by index.

use super::{Cookie, Gaps, Init, NO_SIDE, Packet, SackBlock, Skipped, SynOptions};
use std::ops::Range;

/// Content of a packet beyond the 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SideContent {
    /// SACK blocks, of which the first [`Packet::sacks`] are valid.
    Sacks([SackBlock; 4]),
    /// The options of a SYN.
    Syn(SynOptions),
    /// Gap ack blocks and duplicates of an SCTP SACK.
    Gaps(Gaps),
    /// The content of an INIT or INIT ACK.
    Init(Init),
    /// The cookie of a COOKIE ECHO.
    Cookie(Cookie),
    /// The streams of a FORWARD TSN.
    Skipped(Skipped),
    /// External bytes, by the number under which they are stored ([`Sides::outside`]).
    Outside(u32),
    /// Content of a HEARTBEAT or HEARTBEAT ACK, by the number under which it is stored ([`Sides::carried`]).
    Heartbeat(u32),
}

impl SideContent {
    /// Returns the number under which bytes of this content are stored, if there are any.
    fn number(&self) -> Option<u32> {
        match self {
            SideContent::Outside(number)
            | SideContent::Heartbeat(number)
            | SideContent::Cookie(Cookie::Other { number, .. }) => Some(*number),
            SideContent::Init(Init { cookie: Some(Cookie::Other { number, .. }), .. }) => Some(*number),
            _ => None,
        }
    }
}

/// Side slots of the packets in flight.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    slots: Vec<SideContent>,
    free: Vec<u32>,
    /// External datagrams and frames; `unused` lists the free indices.
    outside: Vec<ExternalBytes>,
    unused: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct ExternalBytes {
    bytes: Vec<u8>,
    datagram: Range<usize>,
}

impl ExternalBytes {
    fn datagram(&self) -> Option<&[u8]> {
        self.bytes.get(self.datagram.clone()).filter(|datagram| !datagram.is_empty())
    }
}

impl Sides {
    /// Stores `side` and returns its index.
    #[inline]
    pub fn store(&mut self, side: SideContent) -> u32 {
        match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = side;
                i
            }
            None => {
                let index = self.slots.len() as u32;
                assert!(index < NO_SIDE, "2^24 packets on air carry something beside their fields");
                self.slots.push(side);
                index
            }
        }
    }
    /// Stores external bytes and returns their side slot; `datagram` is the position of the IP datagram, empty if none.
    pub fn store_outside(&mut self, bytes: &[u8], datagram: Range<usize>) -> u32 {
        let number = self.store_bytes(bytes);
        self.outside[number as usize].datagram = datagram;
        self.store(SideContent::Outside(number))
    }
    /// Stores bytes and returns the number by which a side slot refers to them.
    pub fn store_bytes(&mut self, bytes: &[u8]) -> u32 {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.outside.push(ExternalBytes::default());
            (self.outside.len() - 1) as u32
        });
        self.outside[number as usize].bytes.extend_from_slice(bytes);
        number
    }
    /// Returns the total size of the external bytes.
    pub fn outside_bytes(&self) -> usize {
        self.outside.iter().map(|slot| slot.bytes.len()).sum()
    }
    /// Returns the bytes of an external packet, `None` for others.
    pub fn outside(&self, packet: &Packet) -> Option<&[u8]> {
        self.outside_number(packet).map(|number| &*self.outside[number].bytes)
    }
    /// Returns the number under which the bytes of an external packet are stored; numbers are used again.
    pub fn outside_number(&self, packet: &Packet) -> Option<usize> {
        match self.get(packet) {
            Some(SideContent::Outside(number)) => Some(*number as usize),
            _ => None,
        }
    }
    /// Returns the bytes of an external packet for rewriting.
    pub fn outside_mut(&mut self, packet: &Packet) -> Option<&mut [u8]> {
        let number = self.outside_number(packet)?;
        Some(&mut self.outside[number].bytes)
    }
    /// Takes the bytes of an external packet that leaves. The caller frees the packet next.
    pub fn take_outside(&mut self, packet: &Packet) -> Option<Vec<u8>> {
        let number = self.outside_number(packet)?;
        Some(std::mem::take(&mut self.outside[number].bytes))
    }
    /// Returns the IP datagram of an external packet, if any.
    pub fn datagram(&self, packet: &Packet) -> Option<&[u8]> {
        self.outside[self.outside_number(packet)?].datagram()
    }
    /// Iterates over the IP datagrams of all external packets.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.outside.iter().filter_map(ExternalBytes::datagram)
    }
    /// Returns the IP datagram of an external packet for rewriting, if any.
    pub fn datagram_mut(&mut self, packet: &Packet) -> Option<&mut [u8]> {
        let number = self.outside_number(packet)?;
        let slot = &mut self.outside[number];
        slot.bytes.get_mut(slot.datagram.clone()).filter(|datagram| !datagram.is_empty())
    }
    /// Returns content that only another SCTP implementation can interpret: that of a cookie or a HEARTBEAT.
    pub fn carried(&self, packet: &Packet) -> Option<&[u8]> {
        match self.get(packet) {
            None | Some(SideContent::Outside(_)) => None,
            Some(side) => Some(&self.outside[side.number()? as usize].bytes),
        }
    }
    /// Returns the content of `packet`, if any.
    #[inline]
    pub fn get(&self, packet: &Packet) -> Option<&SideContent> {
        self.slots.get(packet.side() as usize)
    }
    /// Returns the SACK blocks of `packet`, possibly none.
    #[inline]
    pub fn sacks(&self, packet: &Packet) -> &[SackBlock] {
        match self.get(packet) {
            Some(SideContent::Sacks(blocks)) => &blocks[..packet.sacks()],
            _ => &[],
        }
    }
    /// Frees the packet's slot; call it once for every packet that is consumed or dropped.
    #[inline(always)]
    pub fn free(&mut self, packet: &Packet) {
        let side = packet.side();
        if side != NO_SIDE {
            self.free_slot(side);
        }
    }
    #[inline(never)]
    fn free_slot(&mut self, side: u32) {
        if let Some(number) = self.slots[side as usize].number() {
            let slot = &mut self.outside[number as usize];
            slot.bytes.clear();
            slot.datagram = 0..0;
            self.unused.push(number);
        }
        self.free.push(side);
    }
    /// Returns the number of slots in use, for leak tests.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlowId;
    use super::*;

    #[test]
    fn side_slots_are_reused() {
        let mut sides = Sides::default();
        let mut p = Packet::tcp(FlowId::new(0, false));
        let blocks = [SackBlock { left: 1, right: 2 }; 4];
        p.set_sacks(1, sides.store(SideContent::Sacks(blocks)));
        assert_eq!(sides.sacks(&p), &blocks[..1]);
        sides.free(&p);
        assert_eq!(sides.in_use(), 0);
        assert_eq!(sides.store(SideContent::Sacks(blocks)), 0);
    }

    #[test]
    fn only_external_packets_have_datagrams() {
        let (mut sides, mut p) = (Sides::default(), Packet::tcp(FlowId::new(0, false)));
        p.set_side(sides.store_outside(&[9, 4, 5], 1..3));
        assert_eq!(sides.datagrams().collect::<Vec<_>>(), [[4, 5]]);
        sides.free(&p);
        let number = sides.store_bytes(&[1, 2, 3]);
        assert_eq!((number, sides.datagrams().count()), (0, 0), "the space is used again, for other bytes");
    }
}
