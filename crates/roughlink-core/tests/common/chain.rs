//! A client and a server with proxies between them, in simulated time.

use crate::air::Air;
use roughlink_core::cc;
use roughlink_core::event::Event;
use roughlink_core::gateway::Heading;
use roughlink_core::pep::{Proxy, ProxyConfig, ProxyParams, ProxyVerdict};
use roughlink_core::tcp::{ConnectionId, ConnectionState, Host, HostConfig, HostLimits, TcpConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use std::net::{IpAddr, SocketAddr};

/// Addresses of client and server over IPv4 and IPv6.
pub const CLIENT: [&str; 2] = ["10.0.0.1", "fd00::1"];
pub const SERVER: [&str; 2] = ["10.1.0.2", "fd01::2"];
pub const PORT: u16 = 7;

/// Client, proxies and server in a row. The client is inside, the server outside.
pub struct Chain {
    pub hosts: [Host; 2],
    pub proxies: Vec<Proxy>,
    /// Paths between neighbors, from the client on. A datagram to 1 heads outward.
    pub hops: Vec<Air>,
    pub now: Time,
    /// Datagrams in which one bit changes on each path, percent.
    pub corrupted: u64,
    dice: u64,
}

pub fn socket(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), port)
}

/// Creates a host with these addresses and keys.
pub fn host(addresses: &[&str], tcp: TcpConfig, secret: u128) -> Host {
    let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().expect("an address")).collect();
    let (tcp, congestion_control) = (tcp.into(), cc::default_factory());
    Host::new(HostConfig { addresses, mtu: 1500, tcp, congestion_control, secret, limits: HostLimits::default() })
}

/// Creates a proxy whose rough link lies outward.
pub fn proxy(params: ProxyParams) -> Proxy {
    Proxy::new(ProxyConfig { params, over: Heading::Outward, mtu: 1500, secret: 99 }).expect("valid parameters")
}

impl Chain {
    /// Creates a chain with a listening server. `hops` must be one more than `proxies`.
    pub fn new(tcp: [TcpConfig; 2], proxies: Vec<Proxy>, hops: Vec<Air>) -> Self {
        assert_eq!(hops.len(), proxies.len() + 1);
        let [client, server] = tcp;
        let mut hosts = [host(&CLIENT, client, 1), host(&SERVER, server, 2)];
        hosts[1].listen(PORT, 64);
        Chain { hosts, proxies, hops, now: Time::ZERO, corrupted: 0, dice: 1 }
    }

    /// Begins to connect over IPv4 or IPv6.
    pub fn connect(&mut self, v6: bool) -> ConnectionId {
        let [from, to] = [(CLIENT, 0), (SERVER, PORT)].map(|(hosts, port)| socket(hosts[usize::from(v6)], port));
        self.hosts[0].connect(self.now, from, to).expect("a port is free")
    }

    /// Sends what all members have ready.
    pub fn flush(&mut self) {
        let (now, mut out) = (self.now, Vec::new());
        let last = self.hops.len() - 1;
        while self.hosts[0].transmit(now, &mut out) {
            self.hops[0].send(now, 1, &out);
        }
        while self.hosts[1].transmit(now, &mut out) {
            self.hops[last].send(now, 0, &out);
        }
        for (i, proxy) in self.proxies.iter_mut().enumerate() {
            while let Some(heading) = proxy.transmit(now, &mut out) {
                match heading {
                    Heading::Inward => self.hops[i].send(now, 0, &out),
                    Heading::Outward => self.hops[i + 1].send(now, 1, &out),
                }
            }
        }
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Time {
        let hosts = self.hosts.iter().map(Host::next_wake);
        let proxies = self.proxies.iter().map(Proxy::next_wake);
        hosts.chain(proxies).chain(self.hops.iter().map(Air::next)).min().unwrap_or(Time::MAX)
    }

    /// Advances to `now`: delivers datagrams, then runs timers, then sends.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        for hop in 0..self.hops.len() {
            while let Some((outward, mut bytes)) = self.hops[hop].take(self.now) {
                self.corrupt(&mut bytes);
                self.deliver(hop, outward == 1, &bytes);
            }
        }
        self.hosts.iter_mut().for_each(|host| host.wake(self.now));
        self.proxies.iter_mut().for_each(|proxy| proxy.wake(self.now));
        self.flush();
    }

    fn deliver(&mut self, hop: usize, outward: bool, bytes: &[u8]) {
        let datagram = Datagram::from_ip(bytes);
        let (heading, member) = if outward { (Heading::Outward, hop + 1) } else { (Heading::Inward, hop) };
        if member == 0 || member == self.hops.len() {
            let _ = self.hosts[usize::from(outward)].receive(self.now, &datagram);
        } else if self.proxies[member - 1].receive(self.now, heading, &datagram) == ProxyVerdict::Forward {
            let next = if outward { member } else { member - 1 };
            self.hops[next].send(self.now, usize::from(outward), bytes);
        }
    }

    fn corrupt(&mut self, bytes: &mut [u8]) {
        let mut below = |n: u64| {
            self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.dice >> 33) % n
        };
        if below(100) < self.corrupted {
            let bit = below(8 * bytes.len() as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Runs for `time`.
    pub fn run(&mut self, time: Time) {
        let end = self.now + time;
        self.flush();
        while self.next() <= end {
            let next = self.next();
            self.advance(next);
        }
        self.now = end;
    }

    /// Connects and accepts; returns the ids at client and server.
    pub fn open(&mut self, v6: bool) -> [ConnectionId; 2] {
        let client = self.connect(v6);
        self.run(Time::from_secs(3));
        [client, self.hosts[1].accept(PORT).expect("the handshake is over")]
    }

    pub fn state(&self, host: usize, id: ConnectionId) -> Option<ConnectionState> {
        self.hosts[host].stream(id).map(|stream| stream.endpoint().state())
    }

    /// Returns the events of a host.
    pub fn events(&mut self, host: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.hosts[host].poll_event()).map(|(_, event)| event).collect()
    }

    pub fn read(&mut self, host: usize, id: ConnectionId) -> Vec<u8> {
        let (mut all, mut part) = (Vec::new(), [0; 4_096]);
        loop {
            match self.hosts[host].read(id, &mut part) {
                0 => return all,
                n => all.extend_from_slice(&part[..n]),
            }
        }
    }
}

/// Returns byte `i` of the data written by host `host`.
pub fn byte(host: usize, i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ (host as u8)
}

pub fn text(host: usize, range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(|i| byte(host, i)).collect()
}
