//! Joins consecutive segments of a TCP connection for one write to the kernel, as network cards do (GRO). The kernel
//! then processes and acknowledges them together.
//!
//! Each joined segment is due at most [`MAX_GAP`] after the one before: only links above some 10 Gbit/s are that fast,
//! and cards join segments at such rates, too. Segments due at the same instant arrived in one block of a medium and
//! are not joined, because a modem passes them on one by one. No segment waits for another. The network, captures and
//! counters have each segment separately.
//!
//! The kernel could divide the joined segments again, bit for bit. Segments differ only in lengths, sequence number,
//! identification and checksums. The last one may be shorter and have PSH. The checksums of all segments must be right,
//! since the kernel does not verify those of joined segments.

use crate::offload::{GSO_TCPV4, GSO_TCPV6, HEADER, NEEDS_CHECKSUM, PSH, TCP_CHECKSUM};
use roughlink_core::net::NetworkOutput;
use roughlink_core::packet::flags::ACK;
use roughlink_core::units::Time;
use roughlink_core::wire::checksum::{add, finish, fold};
use roughlink_core::wire::{Datagram, IpPair, protocol};
use std::io::IoSlice;
use std::ops::Range;

/// Packets that one write hands to the kernel: a single one of any kind, or joined segments.
#[derive(Default)]
pub(crate) struct PacketRun {
    packets: Vec<NetworkOutput>,
    /// Ethernet header of a datagram; empty for a frame, and on devices without Ethernet.
    link: Vec<u8>,
    /// Segment that may follow, if any.
    next: Option<NextSegment>,
}

/// Conditions for the next segment of a run. Offsets count from the start of the packets.
struct NextSegment {
    ip: usize,
    transport: usize,
    payload: usize,
    is_ipv6: bool,
    /// Payload of the first segment, bytes; no other segment may have more.
    size: usize,
    sequence: u32,
    ident: u16,
    /// Length of all segments so far as one IP datagram, bytes.
    length: usize,
    /// Set if the segment before ends the run, being shorter or pushed.
    ended: bool,
}

impl NextSegment {
    /// Returns the segment that may follow a packet; `None` if it is no segment that another can follow.
    fn after(datagram: &Datagram) -> Option<Self> {
        let (envelope, decoded, ip) = (datagram.envelope().ok()?, datagram.whole()?, datagram.ip_range());
        let (bytes, size) = (datagram.bytes(), decoded.payload.len());
        let is_ipv6 = matches!(envelope.pair, IpPair::V6 { .. });
        let is_plain = envelope.protocol == protocol::TCP
            && envelope.transport == if is_ipv6 { 40 } else { 20 } // no options
            && decoded.packet.flags == ACK
            && size > 0
            && ip.end == bytes.len() // no padding
            && decoded.payload.end == ip.len();
        is_plain.then(|| NextSegment {
            ip: ip.start,
            transport: ip.start + envelope.transport,
            payload: ip.start + decoded.payload.start,
            is_ipv6,
            size,
            sequence: decoded.packet.seq.wrapping_add(size as u32),
            ident: word(bytes, ip.start + 4).wrapping_add(1),
            length: ip.len(),
            ended: false,
        })
    }

    /// Returns true if `datagram` is this segment of the run that begins with `first`.
    fn is(&self, first: &Datagram, datagram: &Datagram) -> bool {
        let (a, b) = (first.bytes(), datagram.bytes());
        let size = b.len().saturating_sub(self.payload);
        if self.ended || size == 0 || size > self.size || self.length + size > MAX_LENGTH {
            return false;
        }
        let NextSegment { ip, transport, payload, .. } = *self;
        let same = |range: Range<usize>| a[range.clone()] == b[range];
        let network = if self.is_ipv6 {
            same(0..ip + 4) && same(ip + 6..transport)
        } else {
            let ident = word(b, ip + 4) == self.ident;
            ident && same(0..ip + 2) && same(ip + 6..ip + 10) && same(ip + 12..transport)
        };
        network
            && same(transport..transport + 4)
            && b[transport + 4..transport + 8] == self.sequence.to_be_bytes()
            && same(transport + 8..transport + 13)
            && b[transport + 13] & !PSH == ACK
            && same(transport + 14..transport + TCP_CHECKSUM)
            && same(transport + TCP_CHECKSUM + 2..payload)
            && datagram.ip_range().end == b.len()
            && is_intact(datagram)
    }

    /// Moves on by the segment `datagram`.
    fn advance(&mut self, datagram: &Datagram) {
        let size = datagram.bytes().len() - self.payload;
        self.sequence = self.sequence.wrapping_add(size as u32);
        self.ident = self.ident.wrapping_add(1);
        self.length += size;
        self.ended = size < self.size || datagram.bytes()[self.transport + 13] & PSH != 0;
    }

    /// Returns the offloads and headers of the joined segments from `first` to `last`, for a device on which `link`
    /// bytes precede the packets.
    fn join(&self, [first, last]: [&Datagram; 2], link: usize) -> ([u8; HEADER], Vec<u8>) {
        let NextSegment { ip, transport, payload, length, .. } = *self;
        let mut head = first.bytes()[..payload].to_vec();
        let mut put = |at: usize, word: u16| head[at..at + 2].copy_from_slice(&word.to_be_bytes());
        let addresses = if self.is_ipv6 {
            put(ip + 4, (length - 40) as u16);
            ip + 8..ip + 40
        } else {
            put(ip + 2, length as u16);
            put(ip + 10, 0);
            let sum = finish(add(0, &head[ip..transport]));
            head[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            ip + 12..ip + 20
        };
        head[transport + 13] |= last.bytes()[transport + 13];
        // The kernel completes the checksum, which so far has only the pseudo-header (RFC 9293 section 3.1).
        let content = (ip + length - transport) as u64;
        let sum = fold(add(content + u64::from(protocol::TCP), &head[addresses]));
        head[transport + TCP_CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
        let mut offloads = [0; HEADER];
        offloads[0] = NEEDS_CHECKSUM;
        offloads[1] = if self.is_ipv6 { GSO_TCPV6 } else { GSO_TCPV4 };
        for (at, word) in [(2, link + payload), (4, self.size), (6, link + transport), (8, TCP_CHECKSUM)] {
            offloads[at..at + 2].copy_from_slice(&(word as u16).to_ne_bytes());
        }
        (offloads, head)
    }
}

impl PacketRun {
    /// Returns true if a packet is the next segment of the run.
    pub(crate) fn accepts(&self, out: &NetworkOutput) -> bool {
        let (Some(next), [first, ..], [.., last]) = (&self.next, &self.packets[..], &self.packets[..]) else {
            return false;
        };
        let gap = out.due.saturating_sub(last.due);
        out.port == first.port
            && !gap.is_zero()
            && gap <= MAX_GAP
            && self.packets.len() < MAX_JOINED
            && next.is(&first.datagram, &out.datagram)
            && (self.packets.len() > 1 || is_intact(&first.datagram))
    }

    /// Adds a packet that the run accepts, or the first one. The device gets it after the Ethernet header `link`, which
    /// may be empty.
    pub(crate) fn push(&mut self, out: NetworkOutput, link: &[u8]) {
        if self.packets.is_empty() {
            self.next = NextSegment::after(&out.datagram);
            self.link.clear();
            self.link.extend_from_slice(link);
        } else if let Some(next) = &mut self.next {
            next.advance(&out.datagram);
        }
        self.packets.push(out);
    }

    /// Returns the packets, which all leave at the same port.
    pub(crate) fn packets(&self) -> &[NetworkOutput] {
        &self.packets
    }

    /// Removes and returns the packets.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = NetworkOutput> {
        self.packets.drain(..)
    }

    /// Passes the parts of the frame or datagram for the device to `write`, offloads first.
    pub(crate) fn write<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let (offloads, head) = match (&self.next, &self.packets[..]) {
            (Some(next), [first, .., last]) => next.join([&first.datagram, &last.datagram], self.link.len()),
            _ => ([0; HEADER], Vec::new()),
        };
        let mut parts = [IoSlice::new(&[]); MAX_JOINED + 3];
        parts[0] = IoSlice::new(&offloads);
        parts[1] = IoSlice::new(&self.link);
        parts[2] = IoSlice::new(&head);
        for (part, out) in parts[3..].iter_mut().zip(&self.packets) {
            *part = IoSlice::new(&out.datagram.bytes()[head.len()..]);
        }
        write(&parts[..3 + self.packets.len()])
    }
}

/// Returns true if the checksums of a datagram are right.
fn is_intact(datagram: &Datagram) -> bool {
    datagram.whole().zip(datagram.ip()).is_some_and(|(decoded, ip)| decoded.verify(ip).is_ok())
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Longest time from when a segment was due until the next one is due.
const MAX_GAP: Time = Time::from_micros(1);
/// Maximum number of joined segments.
const MAX_JOINED: usize = 64;
/// Longest IP datagram, bytes; also the longest content of an IPv6 datagram, nearly.
const MAX_LENGTH: usize = u16::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{DeviceLayer, PendingOffloads};
    use crate::verdict::PacketVerdict;
    use roughlink_core::packet::{FlowId, Packet, flags};
    use roughlink_core::wire::{Addresses, Implied, encode};

    fn segments(ip: IpPair, count: usize) -> Vec<NetworkOutput> {
        segments_of(1400, ip, count)
    }

    /// Returns `count` segments of `size` bytes that can be joined, the last with half the size and PSH, due 100 ns
    /// apart.
    fn segments_of(size: u16, ip: IpPair, count: usize) -> Vec<NetworkOutput> {
        let segment = |i: usize| {
            let is_last = i + 1 == count;
            let mut p = Packet::tcp(FlowId::new(0, false));
            let flags = if is_last { flags::ACK | flags::PSH } else { flags::ACK };
            (p.seq, p.ack, p.flags, p.window) =
                (0xffff_f000_u32.wrapping_add(u32::from(size) * i as u32), 7, flags, 500);
            p.ident = 0xfffe_u16.wrapping_add(i as u16);
            p.set_timestamps(3, 4);
            p.set_payload(if is_last { size / 2 } else { size });
            let mut bytes = Vec::new();
            let addresses = Addresses { ip, src_port: 1, dst_port: 2 };
            encode(&p, None, &addresses, &Implied::from_packet(&p), &mut bytes).unwrap();
            let due = Time(5_000 + 100 * i as u64);
            NetworkOutput { due, since: None, port: 1, datagram: Datagram::from_ip(bytes) }
        };
        (0..count).map(segment).collect()
    }

    /// Returns the runs of packets, each as its writes would be read from a device that divides joined segments.
    fn runs(all: &[NetworkOutput], link: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let (mut run, mut divided) = (PacketRun::default(), Vec::new());
        let mut end = |run: &mut PacketRun| {
            let written = run.write(|parts| parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>());
            let (offloads, frame) = written.split_first_chunk().unwrap();
            let layer = if link.is_empty() { DeviceLayer::Ip } else { DeviceLayer::Ethernet };
            let mut parts = Vec::new();
            let lost = PendingOffloads::read(offloads).finish((&mut frame.to_vec(), layer), 1500, &mut |part| {
                parts.push(part.bytes().to_vec());
                PacketVerdict::Consumed
            });
            assert_eq!((lost, run.drain().count()), (0, parts.len()));
            divided.push(parts);
        };
        for out in all {
            if !run.packets().is_empty() && !run.accepts(out) {
                end(&mut run);
            }
            run.push(out.clone(), link);
        }
        end(&mut run);
        divided
    }

    fn both() -> [IpPair; 2] {
        let v4 = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
        [v4, IpPair::V6 { src: [1; 16].into(), dst: [2; 16].into() }]
    }

    fn lengths(all: &[NetworkOutput]) -> Vec<usize> {
        runs(all, &[]).iter().map(Vec::len).collect()
    }

    #[test]
    fn joined_segments_are_divided_into_the_same_bytes() {
        for ip in both() {
            let all = segments(ip, 40);
            let kind = if matches!(ip, IpPair::V4 { .. }) { [8, 0] } else { [0x86, 0xdd] };
            for link in [&[][..], &[&[2; 12][..], &kind].concat()] {
                let frames: Vec<_> = all.iter().map(|out| [link, out.datagram.bytes()].concat()).collect();
                assert_eq!(runs(&all, link), [frames], "one write");
            }
            // Frames that crossed the network as frames.
            let link = [&[2; 12][..], &kind].concat();
            let frames = all.iter().map(|out| {
                let datagram = Datagram::from_frame([&link, out.datagram.bytes()].concat());
                NetworkOutput { datagram, ..out.clone() }
            });
            let frames: Vec<_> = frames.collect();
            let written: Vec<_> = frames.iter().map(|out| out.datagram.bytes().to_vec()).collect();
            let mut run = PacketRun::default();
            frames.into_iter().for_each(|out| {
                assert!(run.packets().is_empty() || run.accepts(&out));
                run.push(out, &[]);
            });
            run.write(|parts| {
                let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
                let (offloads, frame) = bytes.split_first_chunk().unwrap();
                let mut divided = Vec::new();
                PendingOffloads::read(offloads).finish(
                    (&mut frame.to_vec(), DeviceLayer::Ethernet),
                    1500,
                    &mut |part| {
                        divided.push(part.bytes().to_vec());
                        PacketVerdict::Consumed
                    },
                );
                assert_eq!(divided, written);
            });
        }
    }

    #[test]
    fn slow_links_and_blocks_of_media_keep_segments_apart() {
        let mut all = segments(both()[0], 6);
        assert_eq!(lengths(&all), [6]);
        for (gap, expected) in [(0, vec![1; 6]), (1, vec![6]), (1_000, vec![6]), (1_001, vec![1; 6])] {
            all.iter_mut().enumerate().for_each(|(i, out)| out.due = Time(gap * i as u64));
            assert_eq!(lengths(&all), expected, "{gap} ns");
        }
    }

    #[test]
    fn only_consecutive_segments_alike_are_joined() {
        let header_bytes = 52; // IPv4, TCP and timestamps
        for ip in both() {
            let all = segments(ip, 6);
            let transport = if matches!(ip, IpPair::V4 { .. }) { 20 } else { 40 };
            for at in 0..transport + 32 {
                let mut changed = all.clone();
                let mut bytes = changed[3].datagram.bytes().to_vec();
                bytes[at] ^= 0x10; // any change, even one with wrong checksums, such as a damaged segment
                changed[3].datagram = Datagram::from_ip(bytes.clone());
                let runs = runs(&changed, &[]);
                assert_eq!(runs.concat(), changed.iter().map(|o| o.datagram.bytes().to_vec()).collect::<Vec<_>>());
                assert_eq!(runs[0].len(), 3, "byte {at}");
            }
            let mut changed = all.clone();
            let mut bytes = changed[3].datagram.bytes().to_vec();
            bytes[header_bytes + 100] ^= 1;
            changed[3].datagram = Datagram::from_ip(bytes);
            assert_eq!(lengths(&changed), [3, 1, 2], "a damaged payload");
            let mut damaged = all.clone();
            damaged.swap(2, 3);
            assert_eq!(lengths(&damaged)[0], 2, "out of order");
            let mut other = all.clone();
            other[2].port = 0;
            assert_eq!(lengths(&other)[..2], [2, 1], "another port");
        }
    }

    #[test]
    fn runs_are_bounded() {
        assert_eq!(lengths(&segments(both()[0], 150)), [46, 46, 46, 12], "at most 64 KiB");
        assert_eq!(lengths(&segments_of(100, both()[0], 150)), [MAX_JOINED, MAX_JOINED, 22]);
        let short: Vec<_> = segments(both()[1], 6).into_iter().rev().take(2).collect();
        assert_eq!(lengths(&short), [1, 1]);
    }
}
