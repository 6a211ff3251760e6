//! Tests of hosts. A test's comment names the clause that it checks.

mod close;
mod handshake;
mod hostile;
mod icmp;
mod resets;
mod time_wait;
mod transfers;

use super::*;
use crate::packet::{FlowId, SideContent, SynOptions, flags};
use crate::tcp::Stack;
use crate::wire::{Datagram, Decoded};

const PEER: &str = "10.0.0.1";
const HOST: &str = "10.0.0.2";
const PORT: u16 = 7;
/// Initial sequence numbers of the peer and of the host.
const ISS: u32 = 1_000;
const HOST_ISS: u32 = 5_000;
const MS: fn(u64) -> Time = Time::from_millis;
const S: fn(u64) -> Time = Time::from_secs;

impl Host {
    fn receive_bytes(&mut self, now: Time, datagram: &[u8]) -> Received {
        self.receive(now, &Datagram::from_ip(datagram))
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn config(addresses: &[&str], tcp: TcpConfig) -> HostConfig {
    let algorithm = cc::algorithm("newreno").expect("it is in the registry");
    HostConfig {
        addresses: addresses.iter().map(|a| address(a)).collect(),
        mtu: 1500,
        congestion_control: algorithm.factory(tcp.stack.name(), &toml::Table::new()).expect("valid defaults"),
        tcp: tcp.into(),
        secret: 42,
        limits: HostLimits::default(),
    }
}

fn rfc() -> TcpConfig {
    TcpConfig::preset(Stack::Rfc)
}

/// Creates a host that listens, with known sequence numbers.
fn listening(config: HostConfig) -> Host {
    let mut host = Host::new(config);
    host.numbers.fixed_iss = Some(HOST_ISS);
    host.listen(PORT, 4);
    host
}

fn server() -> Host {
    listening(config(&[HOST, "fd00::2"], rfc()))
}

/// Segment of a peer, built by hand. The peer offers neither timestamps nor SACK.
#[derive(Clone, Copy)]
struct SeenSegment<'a> {
    port: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    timestamps: Option<(u32, u32)>,
    payload: &'a [u8],
}

impl Default for SeenSegment<'_> {
    fn default() -> Self {
        SeenSegment { port: 40_000, flags: flags::ACK, seq: 0, ack: 0, window: 60_000, timestamps: None, payload: b"" }
    }
}

impl SeenSegment<'_> {
    fn addresses(&self) -> Addresses {
        let ip = IpPair::new(address(PEER), address(HOST)).expect("one family");
        Addresses { ip, src_port: self.port, dst_port: PORT }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes_between(&self.addresses())
    }

    fn bytes_between(&self, addresses: &Addresses) -> Vec<u8> {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.flags, p.seq, p.ack, p.window) = (self.flags, self.seq, self.ack, self.window);
        if let Some((tsval, tsecr)) = self.timestamps {
            p.set_timestamps(tsval, tsecr);
        }
        let syn = SynOptions { mss: 1460, timestamps: self.timestamps.is_some(), ..SynOptions::default() };
        let syn = p.is(flags::SYN).then_some(syn);
        let options = syn.map_or(0, |syn| syn.header_bytes());
        p.size = p.header_bytes(options) + self.payload.len() as u16;
        let mut bytes = Vec::new();
        let side = syn.map(SideContent::Syn);
        wire::encode(&p, side.as_ref(), addresses, self.payload, &mut bytes).expect("it has a form");
        bytes
    }
}

/// Returns all that a host sends now.
fn sent(host: &mut Host, now: Time) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut datagram = Vec::new();
    while host.transmit(now, &mut datagram) {
        all.push(datagram.clone());
        assert!(all.len() < 10_000, "it does not end");
    }
    all
}

fn segments(host: &mut Host, now: Time) -> Vec<Decoded> {
    sent(host, now).iter().map(|bytes| wire::decode(bytes).expect("valid")).collect()
}

/// Returns flags, sequence number and acknowledgment number of the segments that a host sends now.
fn headers(host: &mut Host, now: Time) -> Vec<(u8, u32, u32)> {
    segments(host, now).iter().map(|d| (d.packet.flags & !flags::PSH, d.packet.seq, d.packet.ack)).collect()
}

/// Passes a segment to a host; returns the headers of the answers.
fn answers(host: &mut Host, now: Time, segment: SeenSegment<'_>) -> Vec<(u8, u32, u32)> {
    assert_eq!(host.receive_bytes(now, &segment.bytes()), Received::Consumed);
    headers(host, now)
}

/// Opens a connection from `port` of the peer. Both sides have sent only their SYN afterwards.
fn open(host: &mut Host, now: Time, port: u16) -> ConnectionId {
    let syn = SeenSegment { port, flags: flags::SYN, seq: ISS, ..SeenSegment::default() };
    assert_eq!(answers(host, now, syn), [(flags::SYN | flags::ACK, HOST_ISS, ISS + 1)]);
    let ack = SeenSegment { port, seq: ISS + 1, ack: HOST_ISS + 1, ..SeenSegment::default() };
    assert_eq!(answers(host, now, ack), []);
    host.accept(PORT).expect("the handshake is over")
}

/// The next segment of the peer after [`open`].
fn next<'a>() -> SeenSegment<'a> {
    SeenSegment { seq: ISS + 1, ack: HOST_ISS + 1, ..SeenSegment::default() }
}

fn events(host: &mut Host) -> Vec<(ConnectionId, Event)> {
    std::iter::from_fn(|| host.poll_event()).collect()
}

/// Two hosts on a link with a constant delay, without losses.
struct HostPair {
    hosts: [Host; 2],
    now: Time,
    delay: Time,
    /// Arrival, receiver, bytes.
    link: VecDeque<(Time, usize, Vec<u8>)>,
    /// All datagrams sent, with their senders.
    log: Vec<(usize, Vec<u8>)>,
}

impl HostPair {
    fn new(tcp: TcpConfig) -> Self {
        let server = Host::new(config(&[HOST, "fd00::2"], tcp.clone()));
        let client = Host::new(HostConfig { secret: 43, ..config(&[PEER, "fd00::1"], tcp) });
        let mut hosts = [client, server];
        hosts[1].listen(PORT, 4);
        HostPair { hosts, now: Time::ZERO, delay: MS(5), link: VecDeque::new(), log: Vec::new() }
    }

    fn connect(&mut self) -> ConnectionId {
        let (from, to) = (SocketAddr::new(address(PEER), 0), SocketAddr::new(address(HOST), PORT));
        self.hosts[0].connect(self.now, from, to).expect("a port is free")
    }

    /// Connects and accepts; returns the ids at both ends.
    fn open(&mut self) -> [ConnectionId; 2] {
        let id = self.connect();
        self.run(MS(50));
        [id, self.hosts[1].accept(PORT).expect("the handshake is over")]
    }

    fn flush(&mut self) {
        for i in [0, 1] {
            for bytes in sent(&mut self.hosts[i], self.now) {
                self.log.push((i, bytes.clone()));
                self.link.push_back((self.now + self.delay, 1 - i, bytes));
            }
        }
    }

    /// Runs both hosts for `time`.
    fn run(&mut self, time: Time) {
        let end = self.now + time;
        self.flush();
        loop {
            let arrival = self.link.front().map_or(Time::MAX, |first| first.0);
            let next = self.hosts.iter().map(Host::next_wake).min().expect("two hosts").min(arrival);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            while let Some((_, to, bytes)) = self.link.pop_front_if(|first| first.0 <= self.now) {
                let _ = self.hosts[to].receive_bytes(self.now, &bytes);
            }
            self.hosts.iter_mut().for_each(|host| host.wake(self.now));
            self.flush();
        }
        self.now = end;
    }

    fn read(&mut self, end: usize, id: ConnectionId) -> Vec<u8> {
        let mut all = Vec::new();
        let mut part = [0; 1_000];
        loop {
            match self.hosts[end].read(id, &mut part) {
                0 => return all,
                n => all.extend_from_slice(&part[..n]),
            }
        }
    }

    fn state(&self, end: usize, id: ConnectionId) -> Option<ConnectionState> {
        self.hosts[end].stream(id).map(|stream| stream.endpoint().state())
    }
}

/// Returns `n` bytes that differ from one another over any short distance.
fn text(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
