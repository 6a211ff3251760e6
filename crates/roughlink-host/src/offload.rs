//! Completes offloads of network cards, so that the network gets frames in their form on a cable. This module writes
//! checksums that the card was to compute. TCP segments and UDP datagrams that the kernel has joined (GRO) or has left
//! to the card to divide (TSO, USO) are divided here. USO is `UDP_SEGMENT` of udp(7). The header cannot express SCTP
//! packets that the card was to divide (GSO), so they do not get here.

use crate::verdict::PacketVerdict;
use roughlink_core::wire::checksum::{add, finish};
use roughlink_core::wire::{Datagram, Envelope, IpPair, ethernet, protocol};

/// DeviceLayer of a device's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceLayer {
    Ip,
    Ethernet,
}

impl DeviceLayer {
    pub(crate) fn parse<B: AsRef<[u8]>>(self, bytes: B) -> Datagram<B> {
        match self {
            DeviceLayer::Ip => Datagram::from_ip(bytes),
            DeviceLayer::Ethernet => Datagram::from_frame(bytes),
        }
    }

    /// Returns the offset of the part that the MTU limits.
    fn payload_offset(self, bytes: &[u8]) -> Option<usize> {
        match self {
            DeviceLayer::Ip => Some(0),
            DeviceLayer::Ethernet => ethernet::payload_offset(bytes).ok(),
        }
    }
}

/// Pending offloads of a frame: `virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingOffloads {
    /// Start of the summed bytes, and offset of the checksum in them, if the checksum is still to be written.
    checksum: Option<(usize, usize)>,
    /// Kind of the joined packets, and the payload of each, bytes.
    joined: Option<(MergedKind, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergedKind {
    Tcp,
    Udp,
    /// Remaining kinds of the kernel, which no current card produces.
    Other,
}

impl PendingOffloads {
    pub(crate) fn read(header: &[u8; HEADER]) -> Self {
        let word = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let checksum = (header[0] & NEEDS_CHECKSUM != 0).then(|| (word(6), word(8)));
        let joined = match header[1] & !ECN {
            GSO_NONE => None,
            GSO_TCPV4 | GSO_TCPV6 => Some(MergedKind::Tcp),
            GSO_UDP_L4 => Some(MergedKind::Udp),
            _ => Some(MergedKind::Other),
        };
        let joined = joined.map(|kind| (kind, word(4)));
        PendingOffloads { checksum, joined }
    }

    /// Adjusts the offsets to a VLAN tag of 4 bytes inserted before the summed bytes.
    pub(crate) fn tagged(self) -> Self {
        PendingOffloads { checksum: self.checksum.map(|(start, at)| (start + 4, at)), ..self }
    }

    /// Passes the frames or IP datagrams as they would be on a cable to `each`. None has more than `longest` bytes
    /// after its addresses, tags and type. Returns the number of frames that are longer or cannot be divided.
    pub(crate) fn finish(
        self,
        (frame, layer): (&mut [u8], DeviceLayer),
        longest: usize,
        each: &mut dyn FnMut(&mut Datagram<&mut [u8]>) -> PacketVerdict,
    ) -> u64 {
        let fits = |frame: &[u8]| layer.payload_offset(frame).is_some_and(|at| frame.len() <= at + longest);
        let mut frame = layer.parse(frame);
        // On a cable, joined packets are separate frames. Divide them even if a link would accept them as one.
        if let (Some((kind, size)), Ok(envelope)) = (self.joined, frame.envelope())
            && matches!((kind, envelope.protocol), (MergedKind::Tcp, protocol::TCP) | (MergedKind::Udp, protocol::UDP))
            && let ip = frame.ip_range().start
            // The joined header must not belong to a tunnel.
            && self.checksum.is_none_or(|(start, _)| start == ip + envelope.transport)
        {
            return divide((frame.bytes(), ip, envelope), (size, layer), &fits, each).map_or(1, |()| 0);
        }
        if let Some((start, at)) = self.checksum {
            frame.complete_checksum(start, at);
        }
        if fits(frame.bytes()) {
            each(&mut frame);
            return 0;
        }
        1
    }
}

/// Returns the header form of a checksum: 0 means "no checksum" in UDP (RFC 768), so it becomes its equivalent 0xffff.
fn written(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

/// Divides a frame with its IP header at `ip` into the joined TCP segments or UDP datagrams, and passes them to `each`.
/// Each has `size` bytes of payload, except the last. Returns `None` if they do not fit.
fn divide(
    (frame, ip, envelope): (&[u8], usize, &Envelope),
    (size, layer): (usize, DeviceLayer),
    fits: &dyn Fn(&[u8]) -> bool,
    each: &mut dyn FnMut(&mut Datagram<&mut [u8]>) -> PacketVerdict,
) -> Option<()> {
    let whole = &frame[ip..];
    let transport = envelope.transport;
    let is_tcp = envelope.protocol == protocol::TCP;
    let (least, checksum) = if is_tcp { (20, TCP_CHECKSUM) } else { (8, 6) };
    let own = if is_tcp { usize::from(*whole.get(transport + 12)? >> 4) * 4 } else { least };
    let header = transport + own;
    let payload = whole.get(header..envelope.end)?;
    // A frame of more parts, each with its headers, would take many times its size.
    let most = if is_tcp { MAX_TCP_SEGMENTS } else { MAX_UDP_DATAGRAMS };
    if size == 0 || payload.len() > size * most || own < least || !fits(&frame[..(ip + header + size).min(frame.len())])
    {
        return None;
    }
    let last = payload.len().div_ceil(size).saturating_sub(1);
    let sequence = u32::from_be_bytes(*whole[transport + 4..].first_chunk()?);
    // A UDP datagram over IPv4 may have no checksum (RFC 768).
    let has_checksum = is_tcp || whole[transport + checksum..][..2] != [0; 2];
    let ident = u16::from_be_bytes([whole[4], whole[5]]);
    let mut out = Vec::with_capacity(ip + header + size);
    for (i, part) in payload.chunks(size).enumerate() {
        out.clear();
        out.extend_from_slice(&frame[..ip + header]);
        out.extend_from_slice(part);
        let datagram = &mut out[ip..];
        let length = datagram.len();
        let mut put = |at: usize, word: u16| datagram[at..at + 2].copy_from_slice(&word.to_be_bytes());
        if is_tcp {
            let next = sequence.wrapping_add((i * size) as u32);
            put(transport + 4, (next >> 16) as u16);
            put(transport + 6, next as u16);
        } else {
            put(transport + 4, (length - transport) as u16);
        }
        put(transport + checksum, 0);
        let addresses = match envelope.pair {
            IpPair::V4 { .. } => {
                put(2, length as u16);
                put(4, ident.wrapping_add(i as u16));
                put(10, 0);
                let sum = finish(add(0, &datagram[..transport]));
                datagram[10..12].copy_from_slice(&sum.to_be_bytes());
                12..20
            }
            IpPair::V6 { .. } => {
                put(4, (length - 40) as u16);
                8..40
            }
        };
        if is_tcp {
            // Keep CWR only in the first segment, FIN and PSH only in the last.
            let not_first = if i > 0 { CWR } else { 0 };
            let not_last = if i < last { FIN | PSH } else { 0 };
            datagram[transport + 13] &= !(not_first | not_last);
        }
        if has_checksum {
            let pseudo = add((length - transport) as u64 + u64::from(envelope.protocol), &datagram[addresses]);
            let sum = written(finish(add(pseudo, &datagram[transport..])));
            datagram[transport + checksum..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        each(&mut layer.parse(&mut out));
    }
    Some(())
}

/// Maximum number of joined TCP segments: 64 KiB in segments of 8 bytes, the least in Linux (`TCP_MIN_GSO_SIZE`).
const MAX_TCP_SEGMENTS: usize = 8192;
/// Maximum number of joined UDP datagrams (Linux `UDP_MAX_SEGMENTS`).
const MAX_UDP_DATAGRAMS: usize = 128;

/// Size of the header before each frame, bytes.
pub(crate) const HEADER: usize = 10;
// linux/virtio_net.h
pub(crate) const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCPV4: u8 = 1;
pub(crate) const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const ECN: u8 = 0x80;
// RFC 9293 section 3.1
/// Offset of the checksum in the TCP header.
pub(crate) const TCP_CHECKSUM: usize = 16;
const FIN: u8 = 0x01;
pub(crate) const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use roughlink_core::packet::{Chunk, FlowId, Packet, flags};
    use roughlink_core::wire::{self, Addresses, IpPair};

    const V4: IpPair =
        IpPair::V4 { src: std::net::Ipv4Addr::new(192, 168, 7, 1), dst: std::net::Ipv4Addr::new(192, 168, 7, 2) };
    const V6: IpPair = IpPair::V6 { src: std::net::Ipv6Addr::LOCALHOST, dst: std::net::Ipv6Addr::UNSPECIFIED };

    /// Returns a frame with the last segment of a connection.
    fn frame(ip: IpPair, payload: &[u8]) -> Vec<u8> {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.seq, p.ack, p.flags, p.window) = (0xffff_f000, 7, flags::ACK | flags::FIN | PSH | CWR, 500);
        p.set_timestamps(3, 4);
        p.set_payload(payload.len() as u16);
        let kind = if ip == V4 { [8, 0] } else { [0x86, 0xdd] };
        let mut out = [&[2; 12][..], &[0x81, 0, 0, 5], &kind].concat();
        wire::encode(&p, None, &Addresses { ip, src_port: 1, dst_port: 2 }, payload, &mut out).unwrap();
        out
    }

    fn finished(undone: PendingOffloads, frame: &[u8], longest: usize) -> (Vec<Vec<u8>>, u64) {
        let mut all = Vec::new();
        let lost = undone.finish((&mut frame.to_vec(), DeviceLayer::Ethernet), longest, &mut |frame| {
            all.push(frame.bytes().to_vec());
            PacketVerdict::Consumed
        });
        (all, lost)
    }

    #[test]
    fn joined_segments_are_divided() {
        let payload: Vec<u8> = (0..6000_u32).map(|i| (i * 7) as u8).collect();
        for ip in [V4, V6] {
            let joined = frame(ip, &payload);
            let undone = PendingOffloads { checksum: None, joined: Some((MergedKind::Tcp, 1400)) };
            let (parts, lost) = finished(undone, &joined, 1500);
            assert_eq!((parts.len(), lost), (5, 0));
            let mut got = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                assert_eq!(part[..18], joined[..18], "with its tag");
                let d = wire::decode(&part[18..]).expect("checksums are right");
                assert_eq!(d.packet.seq, 0xffff_f000_u32.wrapping_add(got.len() as u32));
                assert_eq!(d.packet.is(CWR), i == 0);
                assert_eq!((d.packet.is(flags::FIN), d.packet.is(PSH)), (i == 4, i == 4));
                got.extend_from_slice(&part[18..][d.payload]);
            }
            assert_eq!(got, payload);
            assert_eq!(finished(undone, &joined, 1000), (vec![], 1), "the parts are too long as well");
            assert_eq!(finished(PendingOffloads { joined: None, ..undone }, &joined, 1500), (vec![], 1));
            assert_eq!(finished(undone, &joined, 9000), (parts, 0), "they are several also where they fit as one");
        }
        // Few small segments may be joined, but not so many that they take a thousand times the memory.
        for (payload, size, expected) in [(60, 1, (60, 0)), (60_000, 8, (7500, 0)), (60_000, 1, (0, 1))] {
            let joined = Some((MergedKind::Tcp, size));
            let (parts, lost) =
                finished(PendingOffloads { checksum: None, joined }, &frame(V4, &vec![1; payload]), 1500);
            assert_eq!((parts.len(), lost), expected, "{payload} {size}");
        }
        let noise = [&[2; 12][..], &[0x08, 0x06], &[1; 2000]].concat();
        let joined = Some((MergedKind::Tcp, 1400));
        assert_eq!(finished(PendingOffloads { checksum: None, joined }, &noise, 1500), (vec![], 1));
    }

    /// Each datagram has its own length and checksum (RFC 768), and its own IP identification, which Linux increments.
    #[test]
    fn joined_datagrams_are_divided() {
        let payload: Vec<u8> = (0..3000_u32).map(|i| (i * 11) as u8).collect();
        let undone = PendingOffloads { checksum: None, joined: Some((MergedKind::Udp, 1200)) };
        for ip in [V4, V6] {
            let p = Packet::udp(FlowId::new(0, false), 0, payload.len() as u16, roughlink_core::units::Time::ZERO);
            let mut joined = [&[2; 12][..], if ip == V4 { &[8, 0] } else { &[0x86, 0xdd] }].concat();
            wire::encode(&p, None, &Addresses { ip, src_port: 1, dst_port: 2 }, &payload[..], &mut joined).unwrap();
            let udp = 14 + if ip == V4 { 20 } else { 40 };
            let (parts, lost) = finished(undone, &joined, 1500);
            assert_eq!(
                (parts.iter().map(|part| part.len() - udp - 8).collect::<Vec<_>>(), lost),
                (vec![1200, 1200, 600], 0)
            );
            let mut got = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                wire::decode(&part[14..]).expect("lengths and checksums are right");
                assert_eq!(part[udp..udp + 4], joined[udp..udp + 4], "the ports");
                if ip == V4 {
                    let ident = |frame: &[u8]| u16::from_be_bytes([frame[18], frame[19]]);
                    assert_eq!(ident(part), ident(&joined).wrapping_add(i as u16));
                }
                got.extend_from_slice(&part[udp + 8..]);
            }
            assert_eq!(got, payload);
            assert_eq!(finished(undone, &joined, 1227), (vec![], 1), "the parts are too long as well");
            // If the joined datagram has no checksum, its parts have none either.
            joined[udp + 6..udp + 8].fill(0);
            assert!(finished(undone, &joined, 1500).0.iter().all(|part| part[udp + 6..udp + 8] == [0; 2]));
            // Joined packets inside a tunnel are not divided.
            let inner = PendingOffloads { joined: Some((MergedKind::Tcp, 1200)), ..undone };
            assert_eq!(finished(inner, &joined, 1500), (vec![], 1));
            let inner = PendingOffloads { checksum: Some((udp + 24, 6)), ..undone };
            assert_eq!(finished(inner, &joined, 1500), (vec![], 1));
        }
    }

    /// The CRC of SCTP covers the whole packet, with zeros in the place of the checksum (RFC 9260).
    #[test]
    fn sctp_checksum_is_completed_as_crc32c() {
        let p = Packet::sctp(FlowId::new(0, false), 7, Chunk::ShutdownComplete);
        let mut right = [&[2; 12][..], &[8, 0]].concat();
        wire::encode(&p, None, &Addresses { ip: V4, src_port: 1, dst_port: 2 }, &[][..], &mut right).unwrap();
        let mut partial = right.clone();
        partial[14 + 20 + 8..14 + 20 + 12].fill(0x55);
        partial.extend([0; 6]); // padding of a short frame, which is not summed
        right.extend([0; 6]);
        let undone = PendingOffloads { checksum: Some((14 + 20, 8)), joined: None };
        assert_eq!(finished(undone, &partial, 1500), (vec![right], 0));
    }

    #[test]
    fn partial_checksums_are_completed() {
        for ip in [V4, V6] {
            let right = frame(ip, b"data");
            let start = 18 + if ip == V4 { 20 } else { 40 };
            let mut partial = right.clone();
            let addresses = if ip == V4 { 18 + 12..18 + 20 } else { 18 + 8..18 + 40 };
            let length = (right.len() - start) as u64;
            let pseudo = wire::checksum::fold(add(length + 6, &right[addresses]));
            partial[start + 16..start + 18].copy_from_slice(&pseudo.to_be_bytes());
            let mut header = [0; HEADER];
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
            header[8..10].copy_from_slice(&16_u16.to_ne_bytes());
            assert_eq!(finished(PendingOffloads::read(&header), &partial, 1500), (vec![right.clone()], 0));
            header[0] = 0;
            assert_eq!(finished(PendingOffloads::read(&header), &right, 1500), (vec![right], 0));
            // Offsets beyond the frame are ignored.
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&u16::MAX.to_ne_bytes());
            assert_eq!(finished(PendingOffloads::read(&header), &partial, 1500), (vec![partial.clone()], 0));
        }
    }
}
