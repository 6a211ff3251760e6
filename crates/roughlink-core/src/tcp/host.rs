//! An IP host with TCP: addresses, listeners and connections, on whole IP datagrams.
//!
//! A [`Host`] has the verbs of [`crate`] and is deterministic: time is an argument, and random numbers depend only on
//! [`HostConfig::secret`]. Each connection is a [`Stream`]. Idle connections cost no time: a queue holds the
//! connections that may transmit, and an ordered set holds the wake-up times.
//!
//! | rule | source |
//! |---|---|
//! | unknown segments are answered with resets, at most [`ANSWER_LIMIT`] | RFC 9293 section 3.10.7.1 |
//! | initial sequence numbers, ephemeral ports | RFC 6528, RFC 6056 section 3.3.3 |
//! | suspicious resets, SYNs and ACKs get challenge ACKs, at most ten in five seconds per connection | RFC 5961 |
//! | a SYN beyond [`HostLimits::half_open`] evicts the oldest half-open connection | RFC 4987 section 3.3 |
//! | a handshake waits while the queue of [`Host::accept`] is full | as Linux |
//! | TIME-WAIT lasts a minute, ignores resets, and yields to a new SYN | RFC 9293 section 3.6, RFC 1337, RFC 6191 |
//! | the path MTU follows ICMP errors that quote a segment in flight, for ten minutes | RFC 1191, RFC 8201, RFC 5927 |
//! | other ICMP errors end attempts to connect, but no connections | RFC 5461 |
//! | fragments are reassembled; overlaps and tiny first fragments are rejected | [`IpReassembly`] |
//! | echo requests are answered if the reply fits the MTU | RFC 792, RFC 4443 |
//!
//! The host never sends fragments: when the path MTU falls, connections divide the segments in flight and send them
//! again. DF is set, except on IPv4 paths below an MTU of 552 bytes, where routers may fragment.
//!
//! **Life of a connection.** [`Host::connect`] and [`Host::accept`] return the id of a connection, which stays valid
//! until [`Host::release`]. [`Host::close`] ends only the direction to the peer. A released connection sends its
//! remaining data and closes; it is reset if more data arrives, or if the peer makes no progress for a minute.
//!
//! ```
//! use roughlink_core::cc;
//! use roughlink_core::event::Event;
//! use roughlink_core::tcp::{Host, HostConfig, HostLimits, TcpConfig};
//! use roughlink_core::units::Time;
//! use roughlink_core::wire::Datagram;
//! use std::net::{IpAddr, SocketAddr};
//!
//! let host = |address: IpAddr, secret| {
//!     Host::new(HostConfig {
//!         addresses: vec![address],
//!         mtu: 1500,
//!         tcp: TcpConfig::default().into(),
//!         congestion_control: cc::default_factory(),
//!         secret,
//!         limits: HostLimits::default(),
//!     })
//! };
//! let here: IpAddr = "10.0.0.1".parse()?;
//! let there: IpAddr = "10.0.0.2".parse()?;
//! let (mut client, mut server) = (host(here, 1), host(there, 2));
//! server.listen(7, 16);
//! let now = Time::ZERO;
//! let from_client = client.connect(now, SocketAddr::new(here, 0), SocketAddr::new(there, 7))?;
//! client.write(from_client, b"a charger");
//! let mut datagram = Vec::new();
//! for _ in 0..3 {
//!     while client.transmit(now, &mut datagram) {
//!         let _ = server.receive(now, &Datagram::from_ip(&datagram));
//!     }
//!     while server.transmit(now, &mut datagram) {
//!         let _ = client.receive(now, &Datagram::from_ip(&datagram));
//!     }
//! }
//! let accepted = server.accept(7).unwrap();
//! assert_eq!(server.poll_event(), Some((accepted, Event::Connected)));
//! let mut text = [0; 20];
//! assert_eq!(server.read(accepted, &mut text), 9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod arrival;
mod config;
mod numbers;
mod path_mtu;
mod schedule;
#[cfg(test)]
mod tests;
mod time_wait;

pub(crate) use answers::{MAX_ANSWERS, SYN_FLAGS, reset_for};
pub use config::{ANSWER_LIMIT, ConnectError, HostConfig, HostCounters, HostLimits, Received};
pub(crate) use numbers::Numbers;
pub(crate) use path_mtu::{MIN_V6, PathMtus, fit_to_mtu};
pub(crate) use schedule::{Schedule, ScheduleEntry};
pub(crate) use time_wait::{TimeWaitAction, TimeWaits};

use super::rate_limit::RateLimit;
use super::{ConnectionState, Stream, TcpConfig};
use crate::cc;
use crate::event::Event;
use crate::packet::Packet;
use crate::units::Time;
use crate::wire::{self, Addresses, IpPair, IpReassembly, is_unicast};
use path_mtu::MIN_MTU;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A connection of a host. A host never uses an id twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(u64);

/// An IP host with TCP.
pub struct Host {
    addresses: BTreeSet<IpAddr>,
    /// Keys of connections over IPv4 and over IPv6.
    tcp: [Arc<TcpConfig>; 2],
    congestion_control: cc::Factory,
    limits: HostLimits,
    numbers: Numbers,
    now: Time,
    listeners: BTreeMap<u16, Listener>,
    connections: BTreeMap<ConnectionId, Box<Connection>>,
    next_id: u64,
    /// Connections by the addresses of their outgoing segments.
    by_addresses: BTreeMap<Addresses, ConnectionId>,
    /// Half-open connections, oldest first.
    half_open: BTreeSet<ConnectionId>,
    time_waits: TimeWaits,
    paths: PathMtus,
    reassembly: IpReassembly,
    /// Datagrams of no connection that wait for transmission: resets and other answers.
    control: VecDeque<Vec<u8>>,
    schedule: Schedule<ConnectionId>,
    /// Connections with events.
    eventful: VecDeque<ConnectionId>,
    answers: RateLimit,
    /// IPv4 identification of the last datagram without DF.
    ident: u16,
    counters: HostCounters,
}

struct Listener {
    backlog: usize,
    /// Connections that [`Host::accept`] has not returned yet.
    queue: VecDeque<ConnectionId>,
}

struct Connection {
    stream: Stream,
    phase: ConnectionPhase,
    /// Set while arriving segments lead here: until TIME-WAIT or the end.
    attached: bool,
    /// Start of the current minute after the release, and the first unacknowledged offset at that time.
    released_at: Option<(Time, u64)>,
    entry: ScheduleEntry,
    is_eventful: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    /// Opened by the peer; the handshake is not over.
    HalfOpen,
    Open,
}

impl Host {
    /// Creates a host without listeners and connections.
    ///
    /// # Panics
    /// Panics if the MTU is too small for the addresses.
    pub fn new(config: HostConfig) -> Self {
        let HostConfig { addresses, mtu, tcp, congestion_control, secret, limits } = config;
        let least = if addresses.iter().any(IpAddr::is_ipv6) { MIN_V6 } else { MIN_MTU };
        assert!(mtu >= least, "an MTU of {mtu} bytes is too small");
        Host {
            addresses: addresses.into_iter().collect(),
            tcp: fit_to_mtu(&tcp, mtu),
            congestion_control,
            limits,
            numbers: Numbers::new(secret),
            now: Time::ZERO,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_id: 0,
            by_addresses: BTreeMap::new(),
            half_open: BTreeSet::new(),
            time_waits: TimeWaits::new(limits.time_waits),
            paths: PathMtus::new(mtu, limits.path_mtus),
            reassembly: IpReassembly::new(limits.reassembly_bytes),
            control: VecDeque::new(),
            schedule: Schedule::new(),
            eventful: VecDeque::new(),
            answers: RateLimit::default(),
            ident: 0,
            counters: HostCounters::default(),
        }
    }

    /// Accepts connections to `port`, at all addresses. At most `backlog` wait for [`Host::accept`]. A second call for
    /// the same port changes `backlog`.
    pub fn listen(&mut self, port: u16, backlog: usize) {
        self.listeners.entry(port).or_insert(Listener { backlog, queue: VecDeque::new() }).backlog = backlog;
    }

    /// Ends the listener of `port`. Connections that wait for [`Host::accept`] and half-open ones are reset.
    pub fn unlisten(&mut self, now: Time, port: u16) {
        let now = self.advance(now);
        let Some(listener) = self.listeners.remove(&port) else { return };
        let of_port = |id: &&ConnectionId| self.connections[*id].stream.addresses().src_port == port;
        let half_open: Vec<ConnectionId> = self.half_open.iter().filter(of_port).copied().collect();
        for id in listener.queue.into_iter().chain(half_open) {
            self.abort(now, id);
            self.remove(id);
        }
    }

    /// Returns the oldest connection to `port` that has not been returned yet; [`Event::Connected`] announces it.
    pub fn accept(&mut self, port: u16) -> Option<ConnectionId> {
        let queue = &mut self.listeners.get_mut(&port)?.queue;
        std::iter::from_fn(|| queue.pop_front()).find(|id| self.connections.contains_key(id))
    }

    /// Begins to connect `source`, one of the host's addresses, to `remote`. With source port 0, the host chooses an
    /// ephemeral port. [`Event::Connected`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// Returns an error if the addresses are invalid or in use, or if the host has too many connections.
    pub fn connect(&mut self, now: Time, source: SocketAddr, remote: SocketAddr) -> Result<ConnectionId, ConnectError> {
        let now = self.advance(now);
        if !self.addresses.contains(&source.ip()) {
            return Err(ConnectError::Source);
        }
        let ip = IpPair::new(source.ip(), remote.ip()).ok_or(ConnectError::Destination)?;
        if !is_unicast(remote.ip()) || self.addresses.contains(&remote.ip()) || remote.port() == 0 {
            return Err(ConnectError::Destination);
        }
        if self.is_full() {
            return Err(ConnectError::Connections);
        }
        let mut addresses = Addresses { ip, src_port: source.port(), dst_port: remote.port() };
        let is_free = |addresses: &Addresses| {
            !self.by_addresses.contains_key(addresses) && self.time_waits.get(addresses).is_none()
        };
        if source.port() == 0 {
            let is_free =
                |src_port| !self.listeners.contains_key(&src_port) && is_free(&Addresses { src_port, ..addresses });
            addresses.src_port = self.numbers.ephemeral_port(addresses, is_free).ok_or(ConnectError::Ports)?;
        } else if !is_free(&addresses) {
            return Err(ConnectError::InUse);
        }
        let mut stream = self.new_stream(addresses, self.numbers.initial_sequence(now, &addresses));
        stream.connect();
        let id = self.insert(stream, ConnectionPhase::Open);
        self.schedule_transmission(id);
        Ok(id)
    }

    /// Writes as much of `bytes` as fits into the send buffer and returns the number of bytes. After a short write,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> usize {
        let Some(connection) = self.connections.get_mut(&id) else { return 0 };
        let written = connection.stream.write(bytes);
        self.schedule_transmission(id);
        written
    }

    /// Reads received bytes into `out` and returns their number.
    pub fn read(&mut self, id: ConnectionId, out: &mut [u8]) -> usize {
        let Some(connection) = self.connections.get_mut(&id) else { return 0 };
        let read = connection.stream.read(out);
        if !connection.stream.endpoint().is_quiet() {
            self.schedule_transmission(id); // the window may have opened
        }
        read
    }

    /// Ends the direction to the peer: a FIN follows the written data. Reading continues.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stream.close();
            self.schedule_transmission(id);
        }
    }

    /// Aborts a connection: data not yet sent is dropped, and a reset leaves (RFC 9293 section 3.10.5). The id stays
    /// valid until [`Host::release`].
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        let now = self.advance(now);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let addresses = connection.stream.addresses();
        if let Some(reset) = connection.stream.abort(now) {
            self.counters.resets_sent += 1;
            self.send_segment(&addresses, &reset);
        }
        self.settle(now, id);
    }

    /// Gives a connection up; its id becomes invalid. If data waits to be read, the connection is reset (RFC 2525
    /// section 2.17). Otherwise it closes in the background, after the data already written.
    pub fn release(&mut self, now: Time, id: ConnectionId) {
        let now = self.advance(now);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let stream = &mut connection.stream;
        let una = stream.endpoint().una();
        connection.released_at = Some((now, una));
        if stream.unread() > 0 || stream.endpoint().state() == ConnectionState::SynSent {
            self.abort(now, id);
        } else {
            stream.close();
            self.schedule_transmission(id);
            self.settle(now, id);
        }
    }

    /// Returns the next event, in order of occurrence on its connection. The first event of a connection to
    /// [`Host::accept`] is [`Event::Connected`].
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(id) = self.eventful.front().copied() {
            if let Some(connection) = self.connections.get_mut(&id) {
                if connection.released_at.is_none()
                    && let Some(event) = connection.stream.poll_event()
                {
                    return Some((id, event));
                }
                connection.is_eventful = false;
            }
            self.eventful.pop_front();
        }
        None
    }

    /// Replaces the content of `out` with the next datagram to send; call until it returns false.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let now = self.advance(now);
        out.clear();
        if let Some(datagram) = self.control.pop_front() {
            out.extend_from_slice(&datagram);
            return true;
        }
        while let Some(id) = self.schedule.pop_ready() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if connection.attached && connection.stream.transmit(now, out) {
                self.schedule.take_turn(id);
                connection.stream.identify(out, &mut self.ident);
                return true;
            }
            connection.entry.pause();
            self.settle(now, id);
        }
        false
    }

    /// Processes timers due at `now`; datagrams may leave.
    pub fn wake(&mut self, now: Time) {
        let now = self.advance(now);
        while let Some(id) = self.schedule.pop_due(now) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.entry.wake();
            if connection.stream.next_wake(now) <= now {
                connection.stream.wake(now);
            }
            if let Some((since, una)) = connection.released_at
                && now >= since + ORPHAN_PATIENCE
            {
                let reached = connection.stream.endpoint().una();
                connection.released_at = Some((now, reached));
                if reached == una {
                    self.counters.orphans_reset += 1;
                    self.abort(now, id);
                    continue;
                }
            }
            self.schedule_transmission(id);
            self.settle(now, id);
        }
        self.time_waits.expire(now);
        self.reassembly.wake(now);
        for remote in self.paths.expire(now) {
            self.apply_path(now, remote, None);
        }
    }

    /// Returns when [`Host::wake`] must be called; [`Time::MAX`] = never. Call it after [`Host::transmit`] returned
    /// false.
    pub fn next_wake(&self) -> Time {
        self.schedule
            .next_wake()
            .min(self.time_waits.next_wake())
            .min(self.reassembly.next_wake())
            .min(self.paths.next_wake())
    }

    /// Returns all connections, released ones included, for inspection.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Stream)> {
        self.connections.iter().map(|(id, connection)| (*id, &connection.stream))
    }

    /// Returns a connection for inspection.
    pub fn stream(&self, id: ConnectionId) -> Option<&Stream> {
        self.connections.get(&id).map(|connection| &connection.stream)
    }

    /// Returns the local address of a connection.
    pub fn local_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.stream(id).map(|stream| stream.addresses().sockets()[0])
    }

    /// Returns the address of the peer of a connection.
    pub fn remote_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.stream(id).map(|stream| stream.addresses().sockets()[1])
    }

    /// Returns the number of connections in TIME-WAIT.
    pub fn time_waits(&self) -> usize {
        self.time_waits.len()
    }

    /// Returns the counters.
    pub fn counters(&self) -> HostCounters {
        HostCounters { reassemblies_failed: self.reassembly.incomplete(), ..self.counters }
    }

    /// Returns the current time, which never goes back.
    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Returns true if there is no room for a further connection.
    fn is_full(&self) -> bool {
        self.connections.len() - self.half_open.len() >= self.limits.connections
    }

    fn new_stream(&self, addresses: Addresses, iss: u32) -> Stream {
        let [local, remote] = addresses.ip.addresses();
        let cfg = &self.tcp[usize::from(local.is_ipv6())];
        let mut stream = Stream::new(addresses, Arc::clone(cfg), self.congestion_control.clone(), iss);
        let (mss, fields) = self.paths.segment_limits(remote);
        stream.set_path(mss, fields, false);
        stream
    }

    fn insert(&mut self, stream: Stream, phase: ConnectionPhase) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.by_addresses.insert(stream.addresses(), id);
        let connection = Connection {
            stream,
            phase,
            attached: true,
            released_at: None,
            entry: ScheduleEntry::new(),
            is_eventful: false,
        };
        self.connections.insert(id, Box::new(connection));
        id
    }

    fn remove(&mut self, id: ConnectionId) {
        self.detach(id);
        self.half_open.remove(&id);
        if self.connections.remove(&id).is_some_and(|connection| connection.is_eventful) {
            self.eventful.retain(|other| *other != id); // even if nobody polls events, the queue stays short
        }
    }

    /// Ends the delivery of segments to a connection. Received bytes can still be read.
    fn detach(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if std::mem::take(&mut connection.attached) {
            self.by_addresses.remove(&connection.stream.addresses());
            self.schedule.cancel(id, &mut connection.entry);
        }
    }

    fn schedule_transmission(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.attached
        {
            self.schedule.transmit_later(id, &mut connection.entry);
        }
    }

    /// Encodes a segment without data for transmission.
    fn send_segment(&mut self, addresses: &Addresses, segment: &Packet) {
        let mut datagram = Vec::new();
        let (_, fields) = self.paths.segment_limits(addresses.ip.addresses()[1]);
        let encoded = wire::encode_with(fields, segment, None, addresses, &[][..], &mut datagram);
        debug_assert_eq!(encoded, Ok(()), "a TCP segment has a form on the wire");
        self.control.push_back(datagram);
    }

    /// Brings the tables up to date after a change of a connection.
    fn settle(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let endpoint = connection.stream.endpoint();
        let state = endpoint.state();
        if connection.phase == ConnectionPhase::HalfOpen {
            if matches!(state, ConnectionState::Listen | ConnectionState::SynReceived) {
                self.schedule_wake(now, id);
                return;
            }
            let addresses = connection.stream.addresses();
            let listener = self.listeners.get_mut(&addresses.src_port);
            let Some(listener) = listener.filter(|_| state != ConnectionState::Closed) else {
                self.remove(id);
                return;
            };
            connection.phase = ConnectionPhase::Open;
            self.half_open.remove(&id);
            self.time_waits.remove(&addresses); // the old connection is over for the peer, too
            listener.queue.push_back(id);
        }
        if connection.released_at.is_none()
            && connection.stream.has_events()
            && !std::mem::replace(&mut connection.is_eventful, true)
        {
            self.eventful.push_back(id);
        }
        let waits = state == ConnectionState::TimeWait && connection.stream.endpoint().is_quiet();
        if connection.attached && (waits || state == ConnectionState::Closed) {
            if waits {
                self.counters.time_waits_evicted += self.time_waits.take_over(now, &connection.stream);
            }
            self.detach(id);
        }
        match self.connections.get(&id) {
            Some(connection) if !connection.attached && connection.released_at.is_some() => self.remove(id),
            _ => self.schedule_wake(now, id),
        }
    }

    fn schedule_wake(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.attached) else { return };
        let patience = connection.released_at.map_or(Time::MAX, |(since, _)| since + ORPHAN_PATIENCE);
        let at = connection.stream.next_wake(now).min(patience);
        self.schedule.wake_by(now, at, id, &mut connection.entry);
    }
}

/// Time without progress after which a released connection is reset (Linux `tcp_fin_timeout`).
const ORPHAN_PATIENCE: Time = Time::from_secs(60);
