//! Capture of a run as `tcpdump` on each host would record it: pcapng with one interface per host and link. Outgoing
//! datagrams are shown after fragmentation and before the interface's queue, which may still drop them, and incoming
//! packets after the link and before reassembly. Packets that a node only forwards are not shown.
//!
//! Frames without an IP datagram have a second interface, declared before the first such frame.
//! [`net::addresses`](crate::net::addresses) gives addresses and ports. A charging session has ISO 15118-2 framing
//! ([`v2gtp`]) and multicast discovery. Packets without wire form (an MTU cuts the TCP header) are only counted.

use super::pcapng::{CaptureInterface, LinkType, Pcapng, TraceError};
use crate::app::Traffic;
use crate::app::request::v2gtp::OutgoingMessages;
use crate::app::request::{Side, v2gtp};
use crate::link::fragments::Fragments;
use crate::net::addresses::addresses;
use crate::net::{Crossing, InterfaceDirection, NetworkEvent, Observer};
use crate::packet::{Fragment, Packet, Protocol, Sides};
use crate::scenario::Scenario;
use crate::tcp::unwrap;
use crate::units::Time;
use crate::wire::{Addresses, Implied, IpPair, Payload};
use std::collections::VecDeque;
use std::io::{self, Write};

/// Captures the packets of a run, into one file or several.
#[derive(Debug)]
pub struct Capture<W> {
    files: Vec<Pcapng<W>>,
    /// For each link, capture points at its first and second node.
    points: Vec<[Option<CapturePoint>; 2]>,
    mtu: Vec<u16>,
    /// Packets up to this size are never cut.
    smallest_mtu: u16,
    flows: Vec<CapturedFlow>,
    /// Maximum bytes of a packet that the files keep; 0: all.
    most: u32,
    skipped: u64,
    failed: Option<(usize, io::Error)>,
}

#[derive(Debug)]
struct CapturePoint {
    file: usize,
    name: String,
    raw: CaptureInterface,
    ethernet: Option<CaptureInterface>,
}

#[derive(Debug)]
struct CapturedFlow {
    /// Addresses from source to destination.
    addresses: Addresses,
    /// Bytes kept of each packet; 0: all.
    snaplen: u32,
    /// Datagrams that may be cut, per direction.
    cut: [Idents; 2],
    /// Bytes written by each side of a session; `None` for other flows.
    session: Option<[OutgoingMessages; 2]>,
}

impl<W: Write> Capture<W> {
    /// Starts a capture of `scenario` into `files`. Each file comes with the hosts (the nodes where flows begin or end)
    /// whose packets it records. Keeps `snaplen` bytes of each packet (0: all); by default, [`snaplen`] of its flow.
    ///
    /// # Errors
    /// Returns the index of the failed file with its error.
    pub fn new(
        scenario: &Scenario,
        files: Vec<(W, Vec<usize>)>,
        snaplen: Option<u32>,
    ) -> Result<Self, (usize, io::Error)> {
        let kept: Vec<u32> = (0..scenario.flows.len()).map(|f| snaplen.unwrap_or(self::snaplen(scenario, f))).collect();
        let most = if kept.contains(&0) { 0 } else { kept.iter().copied().max().unwrap_or(0) };
        let mut points: Vec<[Option<CapturePoint>; 2]> = scenario.links.iter().map(|_| [None, None]).collect();
        let mut ends: Vec<Vec<(usize, usize)>> = vec![Vec::new(); scenario.nodes.len()];
        for (l, link) in scenario.links.iter().enumerate() {
            ends[link.between.0].push((l, 0));
            ends[link.between.1].push((l, 1));
        }
        let mut begun = Vec::with_capacity(files.len());
        for (i, (out, hosts)) in files.into_iter().enumerate() {
            let begin = || -> io::Result<Pcapng<W>> {
                let mut file = Pcapng::new(out, most)?;
                for node in hosts {
                    for &(link, end) in &ends[node] {
                        let name = format!("{}:{}", scenario.nodes[node].name, scenario.links[link].name);
                        let raw = file.interface(&name, LinkType::Raw)?;
                        points[link][end] = Some(CapturePoint { file: i, name, raw, ethernet: None });
                    }
                }
                Ok(file)
            };
            begun.push(begin().map_err(|e| (i, e))?);
        }
        let mtu: Vec<u16> = scenario.links.iter().map(|l| l.model.mtu()).collect();
        let flow = |(i, snaplen)| CapturedFlow {
            addresses: addresses(scenario, i),
            snaplen,
            cut: Default::default(),
            session: is_session(scenario, i).then(Default::default),
        };
        Ok(Capture {
            files: begun,
            points,
            smallest_mtu: mtu.iter().copied().min().unwrap_or(u16::MAX),
            mtu,
            flows: kept.into_iter().enumerate().map(flow).collect(),
            most,
            skipped: 0,
            failed: None,
        })
    }

    /// Returns the number of packets left out because they have no wire form.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Flushes the writers and returns them.
    ///
    /// # Errors
    /// Returns the first failed writer and its error; later output is lost.
    pub fn finish(self) -> Result<Vec<W>, (usize, io::Error)> {
        match self.failed {
            Some(e) => Err(e),
            None => self.files.into_iter().enumerate().map(|(i, f)| f.finish().map_err(|e| (i, e))).collect(),
        }
    }

    fn interface(&self, at: Crossing) -> Option<(usize, CaptureInterface)> {
        let [link, end] = place(at);
        self.points[link][end].as_ref().map(|point| (point.file, point.raw))
    }

    /// Writes a whole packet, or the part of a datagram with `bytes` of payload.
    fn write(
        &mut self,
        now: Time,
        flow: usize,
        (file, interface): (usize, CaptureInterface),
        p: &Packet,
        sides: &Sides,
        bytes: usize,
    ) {
        let CapturedFlow { addresses, snaplen, session, .. } = &self.flows[flow];
        let reverse = p.flow.reverse();
        let mut addresses = if reverse { addresses.reversed() } else { *addresses };
        let implied;
        let part;
        let datagram;
        let payload: &dyn Payload = match session {
            Some(written) if p.protocol() == Protocol::Tcp => {
                let written = &written[usize::from(reverse)];
                // Streams begin after the SYN, whose number is 0.
                let offset = unwrap(written.end(), p.seq, 1);
                part = written.part(offset, bytes);
                &part
            }
            Some(_) => {
                datagram = v2gtp::sdp(Side::BY_END[usize::from(reverse)], &addresses);
                if let (IpPair::V6 { dst, .. }, false) = (&mut addresses.ip, reverse) {
                    *dst = v2gtp::ALL_NODES;
                }
                &datagram
            }
            None => {
                implied = Implied::new(p, bytes);
                &implied
            }
        };
        let out = &mut self.files[file];
        out.keep(*snaplen);
        let written = match sides.carried(p) {
            Some(carried) => out.packet(interface, now, p, sides.get(p), &addresses, carried),
            None => out.packet(interface, now, p, sides.get(p), &addresses, payload),
        };
        match written {
            Ok(()) => {}
            Err(TraceError::Encode(_)) => self.skipped += 1,
            Err(TraceError::Io(e)) => self.failed = Some((file, e)),
        }
    }
}

impl<W: Write> Capture<W> {
    fn messages(&mut self, flow: usize, written: [Option<&OutgoingMessages>; 2]) {
        for (known, new) in self.flows[flow].session.iter_mut().flatten().zip(written) {
            new.into_iter().for_each(|new| known.extend(new));
        }
    }

    fn packet(&mut self, now: Time, at: Crossing, p: &Packet, sides: &Sides) {
        let link = (at.hop / 2) as usize;
        let interface = self.interface(at);
        let cut = &mut self.flows[at.flow].cut[usize::from(p.flow.reverse())];
        let whole = p.fragment() == Fragment::Whole;
        if at.direction == InterfaceDirection::Out && whole && p.size > self.smallest_mtu {
            cut.remember(p);
        }
        let Some(interface) = interface else { return };
        if !whole {
            match cut.find(p.ident) {
                Some(bytes) => self.write(now, at.flow, interface, p, sides, bytes),
                None => self.skipped += 1,
            }
        } else if at.direction == InterfaceDirection::Out && p.size > self.mtu[link] {
            let bytes = p.payload() as usize;
            let mut fragments = Fragments::new(*p, self.mtu[link]);
            while let Some(f) = fragments.next() {
                self.write(now, at.flow, interface, &f, sides, bytes);
            }
        } else {
            self.write(now, at.flow, interface, p, sides, p.payload() as usize);
        }
    }

    fn datagram(&mut self, now: Time, at: Crossing, bytes: &[u8]) {
        let Some((file, interface)) = self.interface(at) else { return };
        let out = &mut self.files[file];
        out.keep(self.most);
        if let Err(e) = out.bytes(interface, now, bytes) {
            self.failed = Some((file, e));
        }
    }

    fn frame(&mut self, now: Time, at: Crossing, bytes: &[u8]) {
        let [link, end] = place(at);
        let Some(point) = &mut self.points[link][end] else { return };
        let out = &mut self.files[point.file];
        out.keep(self.most);
        let mut write = || {
            let interface = match point.ethernet {
                Some(interface) => interface,
                None => out.interface(&format!("{} (Ethernet)", point.name), LinkType::Ethernet)?,
            };
            point.ethernet = Some(interface);
            out.bytes(interface, now, bytes)
        };
        if let Err(e) = write() {
            self.failed = Some((point.file, e));
        }
    }
}

impl<W: Write> Observer for Capture<W> {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Messages { flow, written } => self.messages(flow, written),
            _ if self.failed.is_some() => {}
            NetworkEvent::Packet { at, packet, sides } => self.packet(now, at, packet, sides),
            NetworkEvent::Datagram { at, bytes } => self.datagram(now, at, bytes),
            NetworkEvent::Frame { at, bytes, .. } => self.frame(now, at, bytes),
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        self.failed.is_some()
    }
}

/// Returns the link at which a packet is seen, and its end: 0 at its first node.
fn place(at: Crossing) -> [usize; 2] {
    // Forward means out of the first node or into the second.
    [(at.hop / 2) as usize, usize::from((at.hop & 1 == 1) != (at.direction == InterfaceDirection::In))]
}

/// Returns the nodes of a scenario where flows begin or end.
pub fn hosts(scenario: &Scenario) -> Vec<usize> {
    let mut host = vec![false; scenario.nodes.len()];
    for f in &scenario.flows {
        (host[f.from], host[f.to]) = (true, true);
    }
    (0..host.len()).filter(|n| host[*n]).collect()
}

/// Returns how many bytes to keep of each packet of flow `index` by default: the headers, or everything (0) for SCTP,
/// whose chunks and CRC32c dissectors cannot check when truncated, and for the messages of a charging session.
pub fn snaplen(scenario: &Scenario, index: usize) -> u32 {
    if scenario.flows[index].protocol() == Protocol::Sctp || is_session(scenario, index) { 0 } else { HEADERS }
}

fn is_session(scenario: &Scenario, index: usize) -> bool {
    matches!(scenario.flows[index].traffic, Traffic::Request { .. })
}

/// Payload length of datagrams that may be cut on their way, by identification: a fragment does not show the length of
/// the whole. The identifications of a flow's direction count up, so the latest ones form a range modulo 2^16.
#[derive(Clone, Default, Debug)]
struct Idents {
    latest: VecDeque<(u16, u16)>,
}

impl Idents {
    fn remember(&mut self, p: &Packet) {
        while let Some(oldest) = self.latest.front()
            && (self.latest.len() >= MAX_CUT || p.ident.wrapping_sub(oldest.0) > u16::MAX / 2)
        {
            self.latest.pop_front();
        }
        self.latest.push_back((p.ident, p.payload() as u16));
    }

    fn find(&self, ident: u16) -> Option<usize> {
        let oldest = self.latest.front()?.0;
        let i = self.latest.partition_point(|d| d.0.wrapping_sub(oldest) < ident.wrapping_sub(oldest));
        self.latest.get(i).filter(|d| d.0 == ident).map(|d| usize::from(d.1))
    }
}

/// Bytes sufficient for all headers and options.
const HEADERS: u32 = 128;
/// Maximum number of datagrams on air with known length, per flow and direction.
const MAX_CUT: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    #[test]
    fn lengths_are_found_across_the_ident_wrap() {
        let mut idents = Idents::default();
        let mut p = Packet::tcp(FlowId::new(0, false));
        for i in 0..100_000_u32 {
            p.ident = (i * 3) as u16; // every third is large
            p.set_payload((i % 1000) as u16);
            idents.remember(&p);
            let back = i.saturating_sub(9000);
            assert_eq!(idents.find((back * 3) as u16), Some((back % 1000) as usize), "{i}");
            assert_eq!(idents.find((i * 3 + 1) as u16), None);
        }
        assert!(idents.latest.len() <= MAX_CUT);
    }
}
