//! Captures for Wireshark and similar tools: pcapng (draft-ietf-opsawg-pcapng), written to any [`Write`]. A capture has
//! one section, interfaces, and one enhanced packet block per packet. Interfaces have a name, a link type and
//! nanosecond timestamps that count from the start of the scenario. Blocks are always little-endian, so equal runs give
//! equal files. Each block is one small write: pass a buffered writer.
//!
//! ```
//! use roughlink_core::trace::pcapng::{LinkType, Pcapng};
//! use roughlink_core::units::Time;
//!
//! let mut capture = Pcapng::new(Vec::<u8>::new(), 0)?;
//! let cable = capture.interface("cable", LinkType::Raw)?;
//! capture.bytes(cable, Time::from_millis(1), &[0x45; 20])?;
//! let file = capture.finish()?;
//! assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]); // section header block
//! assert!(file.len().is_multiple_of(4));
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::packet::{Packet, SideContent};
use crate::units::Time;
use crate::wire::{self, Addresses, EncodeError, Payload};
use std::io::{self, Write};

const NANOSECONDS: u8 = 9; // a power of ten

// Block types and options (sections 4.1 to 4.3 of the draft).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const END_OF_OPTIONS: u16 = 0;
const USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// Reason why a packet was not captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The writer failed; the capture may end within a block.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The packet has no wire form; nothing was written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Content of an interface's packets, with its registered number (LINKTYPE_RAW and so on).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkType {
    /// Ethernet frames without their checksum.
    Ethernet = 1,
    /// Bare IPv4 and IPv6.
    Raw = 101,
}

/// An interface of one capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureInterface(u32);

/// Capture in progress.
#[derive(Debug)]
pub struct Pcapng<W> {
    out: W,
    snaplen: u32,
    /// Bytes to keep of later packets; 0 = all.
    keep: u32,
    interfaces: u32,
    /// Current block and the bytes of its packet: buffers reused so that packets allocate nothing.
    block: Vec<u8>,
    packet: Vec<u8>,
}

impl<W: Write> Pcapng<W> {
    /// Starts a capture that keeps at most `snaplen` bytes of each packet; 0, as in the file format, keeps all.
    pub fn new(out: W, snaplen: u32) -> io::Result<Self> {
        let mut w = Pcapng { out, snaplen, keep: snaplen, interfaces: 0, block: Vec::new(), packet: Vec::new() };
        w.begin(SECTION_HEADER);
        w.u32(BYTE_ORDER_MAGIC);
        w.u16(1); // version 1.0
        w.u16(0);
        w.block.extend_from_slice(&[0xff; 8]); // the length of the section is unknown
        w.option(USER_APPLICATION, b"roughlink");
        w.option(END_OF_OPTIONS, &[]);
        w.end()?;
        Ok(w)
    }

    /// Adds an interface called `name` (at most 65535 bytes), at any time before its first packet.
    pub fn interface(&mut self, name: &str, link_type: LinkType) -> io::Result<CaptureInterface> {
        if name.len() > usize::from(u16::MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "interface name exceeds 65535 bytes"));
        }
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(link_type as u16);
        self.u16(0);
        self.u32(self.snaplen);
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TSRESOL, &[NANOSECONDS]);
        self.option(END_OF_OPTIONS, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(CaptureInterface(self.interfaces - 1))
    }

    /// Keeps at most `bytes` bytes of each packet from now on, which must not exceed the file's `snaplen`; 0 keeps all.
    pub fn keep(&mut self, bytes: u32) {
        debug_assert!(self.snaplen == 0 || (1..=self.snaplen).contains(&bytes));
        self.keep = bytes;
    }

    /// Records `packet`, seen at `interface` at time `at`; see [`wire::encode`] for the other arguments.
    pub fn packet(
        &mut self,
        interface: CaptureInterface,
        at: Time,
        packet: &Packet,
        side: Option<&SideContent>,
        addresses: &Addresses,
        payload: &(impl Payload + ?Sized),
    ) -> Result<(), TraceError> {
        let mut bytes = std::mem::take(&mut self.packet);
        bytes.clear();
        let done = match wire::encode(packet, side, addresses, payload, &mut bytes) {
            Ok(()) => self.bytes(interface, at, &bytes).map_err(TraceError::from),
            Err(e) => Err(e.into()),
        };
        self.packet = bytes;
        done
    }

    /// Records `bytes`, of the interface's link type, seen at `interface` at time `at`.
    pub fn bytes(&mut self, interface: CaptureInterface, at: Time, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(interface.0 < self.interfaces);
        let limit = if self.keep == 0 { usize::MAX } else { self.keep as usize };
        let captured = &bytes[..bytes.len().min(limit)];
        self.begin(ENHANCED_PACKET);
        self.u32(interface.0);
        self.u32((at.0 >> 32) as u32);
        self.u32(at.0 as u32);
        self.u32(captured.len() as u32);
        self.u32(bytes.len() as u32);
        self.block.extend_from_slice(captured);
        self.pad();
        self.end()
    }

    /// Flushes the writer and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0); // placeholder for the length
    }

    fn end(&mut self) -> io::Result<()> {
        let length = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.u32(length);
        self.out.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tshark reads the captures")]
mod tests {
    use super::*;
    use crate::packet::{Chunk, Cookie, FlowId, Fragment, Gap, Gaps, Init, SackBlock, Skipped, SynOptions, flags};
    use crate::wire::{Implied, IpPair};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::process::{Command, Stdio};

    const V4: IpPair = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
    const V6: IpPair =
        IpPair::V6 { src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2) };

    struct CapturedConversation {
        out: Pcapng<Vec<u8>>,
        interface: CaptureInterface,
        addresses: Addresses,
        now: Time,
        ident: u16,
        packets: usize,
        fragments: usize,
    }

    impl CapturedConversation {
        fn new(ip: IpPair, snaplen: u32) -> Self {
            let mut out = Pcapng::new(Vec::new(), snaplen).unwrap();
            let interface = out.interface("plc.forward", LinkType::Raw).unwrap();
            let addresses = Addresses { ip, src_port: 40_000, dst_port: 40_001 };
            CapturedConversation { out, interface, addresses, now: Time::ZERO, ident: 0, packets: 0, fragments: 0 }
        }

        fn send(&mut self, reverse: bool, mut packet: Packet, side: Option<SideContent>, payload: &Implied) {
            if matches!(packet.fragment(), Fragment::Whole | Fragment::First) {
                self.ident += 1;
            }
            packet.ident = self.ident;
            self.now += Time::from_nanos(1_000_001);
            let addresses = if reverse { self.addresses.reversed() } else { self.addresses };
            self.out.packet(self.interface, self.now, &packet, side.as_ref(), &addresses, payload).unwrap();
            self.packets += 1;
        }

        fn tcp(&mut self, reverse: bool, flags: u8, seq: u32, ack: u32, bytes: u16, blocks: &[(u32, u32)]) {
            let mut p = self.segment(flags, seq, ack);
            let mut side = [SackBlock::default(); 4];
            for (b, &(left, right)) in side.iter_mut().zip(blocks) {
                *b = SackBlock { left, right };
            }
            p.set_sacks(blocks.len(), p.side());
            p.set_payload(bytes);
            self.send(reverse, p, (!blocks.is_empty()).then_some(SideContent::Sacks(side)), &Implied::from_packet(&p));
        }

        fn segment(&self, flags: u8, seq: u32, ack: u32) -> Packet {
            let mut p = Packet::tcp(FlowId::new(0, false));
            (p.flags, p.seq, p.ack, p.window) = (flags, seq, ack, 512);
            p.set_timestamps(self.now.as_millis() as u32 + 1, self.now.as_millis() as u32);
            p
        }

        fn syn(&mut self, reverse: bool, flags: u8, seq: u32, ack: u32) {
            let mut p = self.segment(flags, seq, ack);
            let options = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, timestamps: true };
            p.size = p.header_bytes(options.header_bytes());
            self.send(reverse, p, Some(SideContent::Syn(options)), &Implied::from_packet(&p));
        }

        /// One datagram in three parts of at most 800 bytes.
        fn fragmented(&mut self, datagram: Packet, implied: &Implied) {
            let total = datagram.size - 20;
            for (fragment, offset) in [(Fragment::First, 0), (Fragment::Middle, 800), (Fragment::Last, 1600)] {
                let mut p = datagram;
                p.set_fragment(fragment);
                p.size = 20 + (total - offset).min(800);
                if offset > 0 {
                    p.ack = u32::from(offset);
                }
                self.send(false, p, None, implied);
                self.fragments += 1;
            }
        }

        /// Handshake, data, a hole reported by SACK, fragments, UDP, the end.
        fn play(mut self) -> Self {
            let (client, server) = (u32::MAX - 2000, 77); // the client's numbers wrap
            let at = |n: u32| client.wrapping_add(1 + n);
            self.syn(false, flags::SYN, client, 0);
            self.syn(true, flags::SYN | flags::ACK, server, at(0));
            self.tcp(false, flags::ACK, at(0), 78, 0, &[]);
            for i in 0..4 {
                self.tcp(false, flags::ACK | flags::PSH, at(i * 1448), 78, 1448, &[]);
            }
            self.tcp(true, flags::ACK, 78, at(1448), 0, &[(at(2896), at(4344))]);
            self.tcp(
                true,
                flags::ACK,
                78,
                at(1448),
                0,
                &[(at(4344), at(5792)), (at(2896), at(3000)), (at(3100), at(3200))],
            );
            self.tcp(false, flags::ACK, at(1448), 78, 1448, &[]);
            self.tcp(true, flags::ACK, 78, at(5792), 0, &[]);
            let mut p = self.segment(flags::ACK, at(5792), 78);
            p.set_payload(2001);
            self.fragmented(p, &Implied::from_packet(&p));
            let p = Packet::udp(p.flow, 0, 2001, self.now);
            self.fragmented(p, &Implied::from_packet(&p));
            for bytes in [0, 1, 12, 172] {
                let p = Packet::udp(p.flow, 1, bytes, self.now);
                self.send(false, p, None, &Implied::from_packet(&p));
            }
            self.tcp(false, flags::FIN | flags::ACK, at(7793), 78, 0, &[]);
            self.tcp(true, flags::FIN | flags::ACK, 78, at(7794), 0, &[]);
            self.tcp(false, flags::ACK, at(7794), 79, 0, &[]);
            self
        }
    }

    fn every_chunk() -> Vec<(bool, Packet, Option<SideContent>)> {
        let (flow, back) = (FlowId::new(0, false), FlowId::new(0, true));
        let (a, b) = (0x1111_1111, 0x2222_2222); // the tags of client and server
        let init = Init { tag: a, a_rwnd: 131_072, outbound: 2, inbound: 9, tsn: 100, forward_tsn: true, cookie: None };
        let answer = Init { tag: b, tsn: 500, cookie: Some(Cookie::Own([7; 48])), ..init };
        let gaps = Gaps::new([Gap { start: 2, end: 3 }, Gap { start: 5, end: 5 }], [101]);
        let mut skipped = Skipped::default();
        assert!(skipped.note(0, 1) && skipped.note(1, 0));
        let data = |tsn, bytes| (false, Packet::sctp_data(flow, b, tsn, (0, tsn as u16 - 100), bytes), None);
        vec![
            (false, Packet::sctp_init(flow, 0, &init), Some(SideContent::Init(init))),
            (true, Packet::sctp_init(back, a, &answer), Some(SideContent::Init(answer))),
            (
                false,
                Packet::sctp_cookie_echo(flow, b, &Cookie::Own([7; 48])),
                Some(SideContent::Cookie(Cookie::Own([7; 48]))),
            ),
            (true, Packet::sctp_stale_cookie(back, a, 1_000_000), None),
            (true, Packet::sctp(back, a, Chunk::CookieAck), None),
            data(100, 1468),
            data(102, 1),
            data(103, 2),
            data(105, 3),
            (true, Packet::sctp_sack(back, a, 100, 130_000, &gaps), Some(SideContent::Gaps(gaps))),
            (false, Packet::sctp_forward_tsn(flow, b, 101, &skipped), Some(SideContent::Skipped(skipped))),
            (true, Packet::sctp_sack(back, a, 105, 131_072, &Gaps::default()), None),
            (false, Packet::sctp_shutdown(flow, b, 499), None),
            (true, Packet::sctp(back, a, Chunk::ShutdownAck), None),
            (false, Packet::sctp(flow, b, Chunk::ShutdownComplete), None),
            (false, Packet::sctp(flow, b, Chunk::Abort), None),
        ]
    }

    /// The blocks of a capture: type and body.
    fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
        let long = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let mut at = 0;
        let mut all = Vec::new();
        while at < file.len() {
            let length = long(at + 4) as usize;
            assert!(length.is_multiple_of(4));
            assert_eq!(long(at + length - 4) as usize, length);
            all.push((long(at), &file[at + 8..at + length - 4]));
            at += length;
        }
        all
    }

    #[test]
    fn blocks_match_the_draft() {
        let file = CapturedConversation::new(V4, 60).play().out.finish().unwrap();
        let blocks = blocks(&file);
        let (section, interface, first) = (&blocks[0], &blocks[1], &blocks[2]);
        assert_eq!((section.0, &section.1[..8]), (SECTION_HEADER, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..]));
        assert_eq!((interface.0, &interface.1[..8]), (INTERFACE_DESCRIPTION, &[101, 0, 0, 0, 60, 0, 0, 0][..]));
        assert_eq!(interface.1[8..], *b"\x02\0\x0b\0plc.forward\0\x09\0\x01\0\x09\0\0\0\0\0\0\0");
        assert_eq!(first.0, ENHANCED_PACKET);
        assert_eq!(first.1[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x42, 0x0f, 0]); // 1000001 ns
        // A data segment: 60 bytes captured of 1500.
        let data = blocks[5].1;
        assert_eq!((data.len(), &data[12..20]), (20 + 60, &[60, 0, 0, 0, 0xdc, 5, 0, 0][..]));
    }

    #[test]
    fn write_errors_are_returned() {
        struct BufferFull(usize);
        impl Write for BufferFull {
            fn write(&mut self, b: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(b.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(b.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(Pcapng::new(BufferFull(10), 0).is_err());
        let mut w = Pcapng::new(BufferFull(150), 0).unwrap();
        assert!(w.interface(&"x".repeat(70_000), LinkType::Raw).is_err());
        let i = w.interface("x", LinkType::Raw).unwrap();
        let mut p = Packet::tcp(FlowId::new(0, false));
        let a = Addresses { ip: V4, src_port: 1, dst_port: 2 };
        p.set_payload(10);
        let e = w.packet(i, Time::ZERO, &p, None, &a, &Implied::new(&p, 9));
        assert!(matches!(e, Err(TraceError::Encode(EncodeError::Size))));
        p.set_payload(1000);
        let e = w.packet(i, Time::ZERO, &p, None, &a, &Implied::from_packet(&p));
        assert!(matches!(e, Err(TraceError::Io(e)) if e.kind() == io::ErrorKind::StorageFull));
    }

    /// Returns tshark's line of `fields` for each packet that passes `filter`; `None` if tshark is not installed.
    fn tshark(file: &[u8], filter: &str, fields: &[&str]) -> Option<Vec<String>> {
        let mut command = Command::new("tshark");
        command.args(["-n", "-r", "-", "-Y", filter, "-T", "fields"]);
        for on in ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum", "tcp.analyze_sequence_numbers"] {
            command.args(["-o", &format!("{on}:TRUE")]);
        }
        command.args(["-o", "sctp.checksum:CRC 32c"]);
        command.args(fields.iter().flat_map(|f| ["-e", f]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // Bypasses the test harness, which would swallow the message.
                writeln!(io::stderr(), "skipped: no tshark on this machine to judge the capture").unwrap();
                return None;
            }
            Err(e) => panic!("tshark: {e}"),
        };
        let sent = child.stdin.take().unwrap().write_all(file);
        let output = child.wait_with_output().unwrap();
        assert!(sent.is_ok() && output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
    }

    #[test]
    fn tshark_reports_no_errors() {
        for (ip, snaplen) in [(V4, 0), (V6, 0), (V4, 96)] {
            let c = CapturedConversation::new(ip, snaplen).play();
            let (packets, fragments) = (c.packets, c.fragments);
            let file = c.out.finish().unwrap();
            let fields = ["frame.number", "_ws.expert.message", "_ws.col.Info"];
            let Some(all) = tshark(&file, "frame", &fields) else { return };
            assert_eq!(all.len(), packets);
            let bad = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 \
                       || udp.checksum.status == 0 || ip.fragment.error || ipv6.fragment.error";
            assert_eq!(tshark(&file, bad, &fields).unwrap(), Vec::<String>::new());
            if snaplen == 0 {
                // Every transport header has been checked; a fragmented datagram is checked once, at its last fragment.
                let good = "tcp.checksum.status == 1 || udp.checksum.status == 1";
                assert_eq!(tshark(&file, good, &fields).unwrap().len(), packets - fragments * 2 / 3, "{all:#?}");
                let lengths = tshark(&file, "frame.number == 14", &["tcp.len", "tcp.reassembled.length"]).unwrap();
                assert_eq!(lengths, ["2001\t"], "{all:#?}");
            }
            let syn =
                "tcp.options.mss_val == 1460 && tcp.options.wscale.shift == 7 && tcp.options.timestamp.tsval == 1";
            assert_eq!(tshark(&file, syn, &["frame.interface_name"]).unwrap()[0], "plc.forward");
            let sacks = tshark(&file, "tcp.options.sack.count == 3", &["frame.time_epoch"]).unwrap();
            assert_eq!(sacks, ["0.009000009"]);
        }
    }

    #[test]
    fn tshark_reads_frames_beside_packets() {
        let mut c = CapturedConversation::new(V4, 0);
        c.tcp(false, flags::ACK, 1, 1, 9, &[]);
        let cable = c.out.interface("plc (Ethernet)", LinkType::Ethernet).unwrap();
        // CM_SLAC_PARM.REQ of HomePlug AV.
        let mut frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x88, 0xe1, 0x01, 0x64, 0x60], &[0; 14]].concat();
        frame.resize(60, 0);
        c.out.bytes(cable, Time::from_secs(1), &frame).unwrap();
        c.tcp(true, flags::ACK, 1, 10, 0, &[]);
        let file = c.out.finish().unwrap();
        let Some(all) = tshark(&file, "!_ws.malformed", &["frame.interface_name", "frame.protocols"]) else { return };
        let slac = "plc (Ethernet)\teth:ethertype:homeplug-av";
        assert_eq!(all, ["plc.forward\traw:ip:tcp:data", slac, "plc.forward\traw:ip:tcp"]);
        let request = tshark(&file, "homeplug_av.mmhdr.mmtype == 0x6064", &["frame.number"]).unwrap();
        assert_eq!(request, ["2"]);
    }

    #[test]
    fn tshark_reads_every_chunk() {
        for ip in [V4, V6] {
            let mut c = CapturedConversation::new(ip, 0);
            for (reverse, packet, side) in every_chunk() {
                c.send(reverse, packet, side, &Implied::from_packet(&packet));
            }
            let mut cut = Packet::sctp_data(FlowId::new(0, false), 0x2222_2222, 106, (0, 6), 2001);
            cut.ident = 1;
            c.fragmented(cut, &Implied::from_packet(&cut));
            let (packets, fragments) = (c.packets, c.fragments);
            let file = c.out.finish().unwrap();
            let Some(types) = tshark(&file, "sctp", &["sctp.chunk_type"]) else { return };
            assert_eq!(types, "1 2 10 9 11 0 0 0 0 3 192 3 7 8 14 6 0".split(' ').collect::<Vec<_>>());
            let good = "sctp.checksum.status == 1 && !_ws.malformed";
            assert_eq!(tshark(&file, good, &["frame.number"]).unwrap().len(), packets - fragments * 2 / 3);
            let read = |filter, field| tshark(&file, filter, &[field]).unwrap();
            assert_eq!(read("sctp.parameter_type == 0xc000", "sctp.chunk_type"), ["1", "2"]);
            assert_eq!(read("sctp.parameter_state_cookie", "sctp.parameter_length"), ["52,4"]);
            let sack = "sctp.sack_number_of_gap_blocks == 2 && sctp.sack_number_of_duplicated_tsns == 1";
            assert_eq!(read(sack, "sctp.sack_a_rwnd"), ["130000"]);
            assert_eq!(read("sctp.forward_tsn_tsn == 101 && sctp.forward_tsn_sid == 1", "frame.number"), ["11"]);
            assert_eq!(read("sctp.data_tsn_raw == 105", "sctp.data_ssn"), ["5"]);
        }
    }
}
