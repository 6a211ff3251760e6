//! A capture of a run, as a machine at each host would take it: a pcapng file with one interface per host and link.
//!
//! What is shown is what crosses the border between the host's IP layer and the interface. On the way out that is the
//! datagram cut to the link's MTU, at the instant at which it is handed over: before the interface's own queue, which
//! may still drop it. On the way in it is every packet that survived the link, before reassembly. Packets that a node
//! only forwards are not its own and are not shown.
//!
//! Addresses and ports follow from the numbers of nodes and flows in the scenario: node 0 is 10.0.0.1, node 254
//! 10.0.1.1; flow 0 goes from port 50000 to port 42000. No dissector of Wireshark's claims these ports.
//!
//! A packet without wire form (on a link whose MTU cuts TCP headers in two) is left out and counted.

use super::pcapng::{Interface, Pcapng, TraceError};
use crate::link::pipe::Fragments;
use crate::net::{Crossing, Observer, Way};
use crate::packet::{Fragment, Packet, Sides};
use crate::scenario::Scenario;
use crate::units::Time;
use crate::wire::{Addresses, Implied, IpPair};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::Ipv4Addr;

/// Captures the packets of a run.
#[derive(Debug)]
pub struct Capture<W> {
    file: Pcapng<W>,
    /// For each link, the interfaces at its first and at its second node.
    interfaces: Vec<[Option<Interface>; 2]>,
    mtu: Vec<u16>,
    /// A packet no larger is never cut.
    smallest_mtu: u16,
    addresses: Vec<Addresses>,
    /// For each flow and direction, datagrams that may be cut.
    cut: Vec<[Idents; 2]>,
    skipped: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// Begins a capture of `scenario` into `out` that keeps `snaplen` bytes of each packet (0: all), at the hosts - the
    /// nodes where flows begin or end - for which `wanted` is true.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(scenario: &Scenario, out: W, snaplen: u32, wanted: impl Fn(usize) -> bool) -> io::Result<Self> {
        let mut file = Pcapng::new(out, snaplen)?;
        let mut host = vec![false; scenario.nodes.len()];
        for f in &scenario.flows {
            (host[f.from], host[f.to]) = (true, true);
        }
        let mut interfaces = vec![[None; 2]; scenario.links.len()];
        for (node, name) in scenario.nodes.iter().enumerate().filter(|(n, _)| host[*n] && wanted(*n)) {
            for (link, both) in scenario.links.iter().zip(&mut interfaces) {
                let ends = [link.between.0, link.between.1];
                for (interface, _) in both.iter_mut().zip(ends).filter(|(_, end)| *end == node) {
                    *interface = Some(file.interface(&format!("{name}:{}", link.name))?);
                }
            }
        }
        let mtu: Vec<u16> = scenario.links.iter().map(|l| l.model.mtu()).collect();
        Ok(Capture {
            file,
            interfaces,
            smallest_mtu: mtu.iter().copied().min().unwrap_or(u16::MAX),
            mtu,
            addresses: (0..scenario.flows.len()).map(|f| addresses(scenario, f)).collect(),
            cut: vec![Default::default(); scenario.flows.len()],
            skipped: 0,
            failed: None,
        })
    }

    /// Packets that have no wire form and were left out.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Flushes the writer and gives it back.
    ///
    /// # Errors
    /// The first error of the writer; what came after it is lost.
    pub fn finish(self) -> io::Result<W> {
        match self.failed {
            Some(e) => Err(e),
            None => self.file.finish(),
        }
    }

    fn write(&mut self, now: Time, at: &Crossing, interface: Interface, p: &Packet, sides: &Sides, payload: &Implied) {
        let forward = self.addresses[at.flow];
        let addresses = if p.flow.reverse() { forward.reversed() } else { forward };
        match self.file.packet(interface, now, p, sides.get(p), &addresses, payload) {
            Ok(()) => {}
            Err(TraceError::Encode(_)) => self.skipped += 1,
            Err(TraceError::Io(e)) => self.failed = Some(e),
        }
    }
}

impl<W: Write> Observer for Capture<W> {
    fn packet(&mut self, now: Time, at: Crossing, p: &Packet, sides: &Sides) {
        if self.failed.is_some() {
            return;
        }
        let (link, reverse) = ((at.hop / 2) as usize, at.hop & 1 == 1);
        let direction = usize::from(p.flow.reverse());
        let whole = p.fragment() == Fragment::Whole;
        if at.way == Way::Out && whole && p.size > self.smallest_mtu {
            self.cut[at.flow][direction].remember(p);
        }
        // Out of the first node or into the second when the direction is forward.
        let end = usize::from(reverse != (at.way == Way::In));
        let Some(interface) = self.interfaces[link][end] else { return };
        if !whole {
            match self.cut[at.flow][direction].find(p.ident) {
                Some(bytes) => self.write(now, &at, interface, p, sides, &Implied::new(p, bytes)),
                None => self.skipped += 1,
            }
        } else if at.way == Way::Out && p.size > self.mtu[link] {
            let bytes = p.payload() as usize;
            let mut fragments = Fragments::new(*p, self.mtu[link]);
            while let Some(f) = fragments.next() {
                self.write(now, &at, interface, &f, sides, &Implied::new(&f, bytes));
            }
        } else {
            self.write(now, &at, interface, p, sides, &Implied::of(p));
        }
    }

    fn stop(&self) -> bool {
        self.failed.is_some()
    }
}

/// The address of node `index`.
pub fn node_address(index: usize) -> Ipv4Addr {
    let [low, middle, high] = [index % 254 + 1, index / 254 % 256, index / (254 * 256) % 256].map(|x| x as u8);
    Ipv4Addr::new(10, high, middle, low)
}

/// The addresses of flow `index`, from its source to its destination.
pub fn addresses(scenario: &Scenario, index: usize) -> Addresses {
    let f = &scenario.flows[index];
    Addresses {
        ip: IpPair::V4 { src: node_address(f.from), dst: node_address(f.to) },
        src_port: FIRST_SOURCE_PORT + (index % SOURCE_PORTS) as u16,
        dst_port: FIRST_DESTINATION_PORT + (index / SOURCE_PORTS) as u16,
    }
}

/// Payload of the datagrams that may be cut on their way, by identification: a fragment does not tell how long the
/// whole was. Identifications of a flow's direction count up, so the latest are a range modulo 2^16.
#[derive(Clone, Default, Debug)]
struct Idents {
    latest: VecDeque<(u16, u16)>,
}

impl Idents {
    fn remember(&mut self, p: &Packet) {
        while let Some(oldest) = self.latest.front()
            && (self.latest.len() >= MOST_CUT || p.ident.wrapping_sub(oldest.0) > u16::MAX / 2)
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

/// Datagrams on air, of one flow in one direction, of which the length is known.
const MOST_CUT: usize = 1 << 14;

// Ranges of which no port is registered with a dissector of Wireshark 4.
const FIRST_SOURCE_PORT: u16 = 50_000;
const SOURCE_PORTS: usize = 4096;
const FIRST_DESTINATION_PORT: u16 = 42_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    #[test]
    fn nodes_have_addresses_of_their_own() {
        assert_eq!(node_address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(node_address(253), Ipv4Addr::new(10, 0, 0, 254));
        assert_eq!(node_address(254), Ipv4Addr::new(10, 0, 1, 1));
        assert_eq!(node_address(254 * 256), Ipv4Addr::new(10, 1, 0, 1));
    }

    #[test]
    fn lengths_are_found_over_the_wrap() {
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
        assert!(idents.latest.len() <= MOST_CUT);
    }
}
