//! Segments built by hand, and the handshakes of a proxy with them.

use crate::chain::{CLIENT, PORT, SERVER, socket};
use roughlink_core::gateway::Heading;
use roughlink_core::packet::{FlowId, Packet, SideContent, SynOptions, flags};
use roughlink_core::pep::{Proxy, ProxyVerdict};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Datagram, Decoded, IpPair};

pub fn addresses() -> Addresses {
    let [from, to] = [socket(CLIENT[0], 40_000), socket(SERVER[0], PORT)];
    let ip = IpPair::new(from.ip(), to.ip()).expect("one family");
    Addresses { ip, src_port: from.port(), dst_port: to.port() }
}

/// Segment of a host, built by hand. Only a SYN has options.
#[derive(Clone, Copy)]
pub struct BareSegment<'a> {
    pub addresses: Addresses,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub payload: &'a [u8],
}

impl<'a> BareSegment<'a> {
    pub fn new(addresses: Addresses, flags: u8, seq: u32, ack: u32) -> Self {
        BareSegment { addresses, flags, seq, ack, payload: b"" }
    }
    pub fn bytes(&self) -> Vec<u8> {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.flags, p.seq, p.ack, p.window) = (self.flags, self.seq, self.ack, 60_000);
        let syn = p.is(flags::SYN).then_some(SynOptions { mss: 1460, ..SynOptions::default() });
        p.size = p.header_bytes(syn.map_or(0, |syn| syn.header_bytes())) + self.payload.len() as u16;
        let mut bytes = Vec::new();
        wire::encode(&p, syn.map(SideContent::Syn).as_ref(), &self.addresses, self.payload, &mut bytes)
            .expect("it has a form");
        bytes
    }
}

/// Passes a datagram through a proxy.
pub fn pass(proxy: &mut Proxy, now: Time, heading: Heading, bytes: &[u8]) -> ProxyVerdict {
    proxy.receive(now, heading, &Datagram::from_ip(bytes))
}

/// Returns all that a proxy sends now.
pub fn sent(proxy: &mut Proxy, now: Time) -> Vec<(Heading, Vec<u8>)> {
    let (mut all, mut out) = (Vec::new(), Vec::new());
    while let Some(heading) = proxy.transmit(now, &mut out) {
        all.push((heading, out.clone()));
        assert!(all.len() < 10_000, "it does not end");
    }
    all
}

pub fn segments(proxy: &mut Proxy, now: Time) -> Vec<(Heading, Decoded)> {
    sent(proxy, now).into_iter().map(|(heading, bytes)| (heading, wire::decode(&bytes).expect("valid"))).collect()
}

/// Returns direction, flags, sequence number and acknowledgment number of the segments that a proxy sends now.
pub fn headers(proxy: &mut Proxy, now: Time) -> Vec<(Heading, u8, u32, u32)> {
    let all = segments(proxy, now).into_iter();
    all.map(|(heading, d)| (heading, d.packet.flags & !flags::PSH, d.packet.seq, d.packet.ack)).collect()
}

/// Begins a connection: the client has sent its SYN 1000. Returns the proxy's SYN.
pub fn begin(proxy: &mut Proxy, now: Time, addresses: Addresses) -> Decoded {
    let syn = BareSegment::new(addresses, flags::SYN, 1_000, 0);
    assert_eq!(pass(proxy, now, Heading::Outward, &syn.bytes()), ProxyVerdict::Consumed);
    let mut all = segments(proxy, now);
    assert_eq!(all.len(), 1);
    let (heading, own) = all.remove(0);
    assert_eq!((heading, own.packet.flags, own.addresses), (Heading::Outward, flags::SYN, addresses));
    own
}

/// Opens a connection with a server whose initial sequence number is 9000. Returns the initial sequence numbers of
/// the proxy toward the server and the client.
pub fn open(proxy: &mut Proxy, now: Time, addresses: Addresses) -> [u32; 2] {
    let opened = proxy.counters().opened;
    let own = begin(proxy, now, addresses).packet.seq;
    let back = addresses.reversed();
    let answer = BareSegment::new(back, flags::SYN | flags::ACK, 9_000, own.wrapping_add(1));
    assert_eq!(pass(proxy, now, Heading::Inward, &answer.bytes()), ProxyVerdict::Consumed);
    let all = segments(proxy, now);
    let to_client = all.iter().find(|(heading, _)| *heading == Heading::Inward).expect("a SYN-ACK");
    let iss = to_client.1.packet.seq;
    assert_eq!((to_client.1.packet.flags, to_client.1.packet.ack), (flags::SYN | flags::ACK, 1_001));
    let ack = BareSegment::new(addresses, flags::ACK, 1_001, iss.wrapping_add(1));
    assert_eq!(pass(proxy, now, Heading::Outward, &ack.bytes()), ProxyVerdict::Consumed);
    assert_eq!(headers(proxy, now), []);
    assert_eq!(proxy.counters().opened, opened + 1);
    [own, iss]
}
