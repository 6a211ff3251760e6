//! The TCP header (RFC 9293 section 3.1) and its options, written as in Linux: a SYN carries MSS, SACK permitted with
//! timestamps (NOPs replace a missing one), NOP and window scale; other segments carry NOP NOP timestamps, NOP NOP
//! SACK. Any order and padding is accepted.

use super::ip::{IpPair, long, put, put_long, word};
use super::protocol::TCP;
use super::{EncodeError, WireError, checksum};
use crate::packet::{Fragment, Packet, SackBlock, SideContent, SynOptions, flags};

pub(super) const HEADER: usize = 20;
const HEADER_MAX: usize = 60;

const SEQ: usize = 4;
const ACK: usize = 8;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;

// Option kinds: RFC 9293, 7323, 2018, 2385, 8684, 5925.
const EOL: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const MD5: u8 = 19;
const AO: u8 = 29;
const MPTCP: u8 = 30;

/// Larger shifts count as this one (RFC 7323 section 2.3).
const MAX_SHIFT: u8 = 14;

#[derive(Clone, Copy, Default)]
pub(super) struct TcpOptions {
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: Option<(u32, u32)>,
    pub(super) sacks: usize,
    pub(super) blocks: [SackBlock; 4],
    pub(super) signed: bool,
    pub(super) multipath: bool,
}

pub(super) struct TcpHeader {
    pub(super) ports: (u16, u16),
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    /// Bytes of the header.
    pub(super) header: usize,
    pub(super) options: TcpOptions,
}

impl TcpHeader {
    pub(super) fn parse(bytes: &[u8]) -> Result<TcpHeader, WireError> {
        let h: &[u8; HEADER] = bytes.first_chunk().ok_or(WireError::Truncated("TCP header"))?;
        let header = usize::from(h[12] >> 4) * 4;
        if header < HEADER {
            return Err(WireError::Length("TCP header"));
        }
        let options = bytes.get(HEADER..header).ok_or(WireError::Truncated("TCP header"))?;
        Ok(TcpHeader {
            ports: (word(h, 0), word(h, 2)),
            seq: long(h, SEQ),
            ack: long(h, ACK),
            flags: h[13],
            window: word(h, WINDOW),
            header,
            options: TcpOptions::parse(options)?,
        })
    }
}

impl TcpOptions {
    fn parse(bytes: &[u8]) -> Result<TcpOptions, WireError> {
        let mut o = TcpOptions::default();
        let mut rest = bytes;
        while let Some((&kind, tail)) = rest.split_first() {
            match kind {
                EOL => break,
                NOP => {
                    rest = tail;
                    continue;
                }
                _ => {}
            }
            let length = usize::from(*tail.first().ok_or(WireError::Options)?);
            let body = rest.get(2..length).ok_or(WireError::Options)?;
            rest = &rest[length..];
            // Skip a known kind of unexpected length like an unknown one.
            match (kind, body.len()) {
                (MSS, 2) => o.mss = Some(word(body, 0)),
                (WINDOW_SCALE, 1) => o.window_scale = Some(body[0].min(MAX_SHIFT)),
                (SACK_PERMITTED, 0) => o.sack_permitted = true,
                (TIMESTAMPS, 8) => o.timestamps = Some((long(body, 0), long(body, 4))),
                (SACK, 8 | 16 | 24 | 32) => {
                    o.sacks = body.len() / 8;
                    o.blocks = Default::default(); // the last of repeated options counts
                    for (block, b) in o.blocks.iter_mut().zip(body.chunks_exact(8)) {
                        *block = SackBlock { left: long(b, 0), right: long(b, 4) };
                    }
                }
                (MD5 | AO, _) => o.signed = true,
                (MPTCP, _) => o.multipath = true,
                _ => {}
            }
        }
        Ok(o)
    }
}

pub(super) fn header_length(packet: &Packet, side: Option<&SideContent>) -> Result<usize, EncodeError> {
    let options = match side {
        Some(SideContent::Syn(o)) if packet.is(flags::SYN) => {
            if packet.sacks() > 0 || packet.has_timestamps() != o.timestamps {
                return Err(EncodeError::Side);
            }
            o.header_bytes()
        }
        _ if packet.is(flags::SYN) => return Err(EncodeError::Side),
        // Later fragments need only the number of blocks.
        Some(SideContent::Sacks(_)) => 0,
        _ if packet.sacks() > 0 && matches!(packet.fragment(), Fragment::Whole | Fragment::First) => {
            return Err(EncodeError::Side);
        }
        _ => 0,
    };
    let length = usize::from(packet.header_bytes(options) - packet.ip_header_bytes());
    if length > HEADER_MAX { Err(EncodeError::Options) } else { Ok(length) }
}

/// Writes a header of `header` bytes at the start of `bytes`, which already contain the whole payload.
pub(super) fn write(
    packet: &Packet,
    side: Option<&SideContent>,
    pair: &IpPair,
    ports: (u16, u16),
    header: usize,
    bytes: &mut [u8],
) {
    let (h, options) = bytes[..header].split_at_mut(HEADER);
    h.fill(0);
    put(h, 0, ports.0);
    put(h, 2, ports.1);
    put_long(h, SEQ, packet.seq);
    put_long(h, ACK, packet.ack);
    h[12] = (header as u8 / 4) << 4;
    h[13] = packet.flags;
    put(h, WINDOW, packet.window);

    let mut o = OptionWriter { out: options, at: 0 };
    match side {
        Some(SideContent::Syn(syn)) => o.syn(packet, syn),
        Some(SideContent::Sacks(blocks)) => o.segment(packet, &blocks[..packet.sacks()]),
        _ => o.segment(packet, &[]),
    }
    debug_assert_eq!(o.at, o.out.len(), "Packet::header_bytes foretells the options");

    let sum = checksum::finish(checksum::add(pair.pseudo_header(TCP, bytes.len()), bytes));
    put(bytes, CHECKSUM, sum);
}

struct OptionWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl OptionWriter<'_> {
    fn syn(&mut self, packet: &Packet, syn: &SynOptions) {
        if syn.mss > 0 {
            self.bytes(&[MSS, 4]);
            self.bytes(&syn.mss.to_be_bytes());
        }
        if syn.timestamps || syn.sack_permitted {
            self.bytes(if syn.sack_permitted { &[SACK_PERMITTED, 2] } else { &[NOP, NOP] });
            if syn.timestamps {
                self.timestamps(packet);
            } else {
                self.bytes(&[NOP, NOP]);
            }
        }
        if let Some(shift) = syn.window_scale {
            self.bytes(&[NOP, WINDOW_SCALE, 3, shift]);
        }
    }

    fn segment(&mut self, packet: &Packet, blocks: &[SackBlock]) {
        if packet.has_timestamps() {
            self.bytes(&[NOP, NOP]);
            self.timestamps(packet);
        }
        if !blocks.is_empty() {
            self.bytes(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            for b in blocks {
                self.bytes(&b.left.to_be_bytes());
                self.bytes(&b.right.to_be_bytes());
            }
        }
    }

    fn timestamps(&mut self, packet: &Packet) {
        self.bytes(&[TIMESTAMPS, 10]);
        self.bytes(&packet.tsval.to_be_bytes());
        self.bytes(&packet.tsecr.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

pub(super) fn verify(pair: &IpPair, bytes: &[u8]) -> bool {
    checksum::fold(checksum::add(pair.pseudo_header(TCP, bytes.len()), bytes)) == 0xffff
}

/// A TCP header in place, for rewriting.
#[derive(Debug)]
pub struct TcpHeaderMut<'a>(&'a mut [u8; HEADER]);

impl<'a> TcpHeaderMut<'a> {
    pub(super) fn new(segment: &'a mut [u8]) -> Option<Self> {
        segment.first_chunk_mut().map(TcpHeaderMut)
    }
    /// Returns the window field, unscaled.
    pub fn window(&self) -> u16 {
        word(self.0, WINDOW)
    }
    /// Returns the checksum field.
    pub fn checksum(&self) -> u16 {
        word(self.0, CHECKSUM)
    }
    /// Sets the window field and updates the checksum. A correct checksum stays correct and a wrong one wrong.
    pub fn set_window(&mut self, window: u16) {
        let sum = checksum::update_checksum(self.checksum(), self.window(), window);
        put(self.0, WINDOW, window);
        put(self.0, CHECKSUM, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;
    use std::net::Ipv4Addr;

    const PAIR: IpPair = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };

    fn header(packet: &Packet, side: Option<&SideContent>) -> Vec<u8> {
        let n = header_length(packet, side).unwrap();
        let mut b = vec![0; n];
        write(packet, side, &PAIR, (1, 2), n, &mut b);
        assert!(verify(&PAIR, &b));
        b
    }

    #[test]
    fn syn_layout_matches_linux() {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.flags = flags::SYN;
        let mut syn = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, timestamps: true };
        p.set_timestamps(0x0102_0304, 0);
        let all = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(header(&p, Some(&SideContent::Syn(syn)))[HEADER..], all);
        syn.sack_permitted = false;
        let no_sack = [2, 4, 5, 180, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(header(&p, Some(&SideContent::Syn(syn)))[HEADER..], no_sack);
        let mut p = Packet::tcp(p.flow);
        p.flags = flags::SYN;
        syn = SynOptions { mss: 536, window_scale: None, sack_permitted: true, timestamps: false };
        let b = header(&p, Some(&SideContent::Syn(syn)));
        assert_eq!(b[HEADER..HEADER + 6], [2, 4, 2, 24, 4, 2]);
        assert_eq!(b.len(), HEADER + usize::from(syn.header_bytes()));
    }

    #[test]
    fn segment_layout_matches_linux() {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.set_timestamps(1, 2);
        p.set_sacks(1, 0);
        let blocks = [SackBlock { left: 3, right: 4 }; 4];
        let b = header(&p, Some(&SideContent::Sacks(blocks)));
        assert_eq!(b[HEADER..], [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
        assert_eq!(b.len() + 20, usize::from(p.header_bytes(0)));
    }

    #[test]
    fn options_that_do_not_fit_are_rejected() {
        let mut p = Packet::tcp(FlowId::new(0, false));
        let sacks = SideContent::Sacks([SackBlock::default(); 4]);
        p.set_sacks(4, 0);
        assert_eq!(header_length(&p, Some(&sacks)), Ok(56));
        p.set_timestamps(1, 2);
        assert_eq!(header_length(&p, Some(&sacks)), Err(EncodeError::Options)); // 48 bytes of options
        assert_eq!(header_length(&p, None), Err(EncodeError::Side));
        p.set_sacks(0, 0);
        p.flags = flags::SYN;
        assert_eq!(header_length(&p, Some(&sacks)), Err(EncodeError::Side));
        assert_eq!(header_length(&p, Some(&SideContent::Syn(SynOptions::default()))), Err(EncodeError::Side));
    }

    #[test]
    fn foreign_option_layouts_are_parsed() {
        let o = TcpOptions::parse(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 254, 6, 9, 9, 9, 9, 3, 3, 99, 0, 77]).unwrap();
        assert_eq!((o.timestamps, o.window_scale, o.mss), (Some((1, 2)), Some(14), None));
        let o = TcpOptions::parse(&[5, 2, 5, 3, 0, 2, 3, 0, 4, 3, 1]).unwrap();
        assert_eq!((o.sacks, o.mss, o.sack_permitted), (0, None, false), "odd lengths are skipped");
        assert!(TcpOptions::parse(&[19, 4, 0, 0]).unwrap().signed);
        assert!(TcpOptions::parse(&[29, 4, 0, 0]).unwrap().signed);
        assert!(TcpOptions::parse(&[30, 3, 0, 1]).unwrap().multipath);
        let twice =
            [[5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4].as_slice(), &[5, 10, 0, 0, 0, 5, 0, 0, 0, 6]];
        let o = TcpOptions::parse(&twice.concat()).unwrap();
        let none = SackBlock::default();
        assert_eq!((o.sacks, o.blocks), (1, [SackBlock { left: 5, right: 6 }, none, none, none]));
        for bad in [&[2][..], &[2, 0, 1, 1], &[2, 1], &[2, 5, 0, 0]] {
            assert_eq!(TcpOptions::parse(bad).err(), Some(WireError::Options));
        }
    }
}
