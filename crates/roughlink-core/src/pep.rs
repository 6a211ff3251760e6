//! Split TCP: a performance-enhancing proxy (RFC 3135 section 2.1) between hosts and a rough link, such as a satellite.
//!
//! A [`Proxy`] has the verbs of [`crate`], on whole IP datagrams, and is deterministic. A proxy lies on the path
//! between two sides and ends each TCP connection twice. The client sees the addresses and ports of the server, the
//! server sees the client's, and the proxy passes the bytes from one connection to the other. Hosts need no change.
//! The connection over the rough link has its own congestion control, such as `wave`. Since Wave changes only the
//! sender, one proxy at either end of the link is enough for the direction that it sends in; a pair serves both.
//!
//! | rule | source |
//! |---|---|
//! | a SYN first opens the connection to the server; the client gets its SYN-ACK once the server has accepted | below |
//! | a refused connection stays refused: the client gets a reset or the ICMP error | RFC 3135 section 4.1.2 |
//! | a receive window closes while the send buffer of the other side is full | back-pressure |
//! | a FIN passes after all data, a reset or a failure at once | RFC 9293 section 3.6 |
//! | hosts that are silent for two hours are probed, at both sides | RFC 9293 section 3.8.4 |
//! | connections with TCP-MD5, TCP-AO or Multipath TCP pass unchanged | RFC 2385, RFC 5925, RFC 8684 |
//! | segments of unknown connections reset both hosts, at most [`ANSWER_LIMIT`] | RFC 9293 section 3.10.7.1 |
//! | initial sequence numbers are unpredictable | RFC 6528 |
//! | the path MTU follows ICMP errors that quote a segment in flight | RFC 1191, RFC 8201, RFC 5927 |
//! | TCP fragments are reassembled; datagrams without TCP pass unchanged | [`IpReassembly`] |
//!
//! **Opening.** No data is acknowledged before the server has accepted, and no connection that the server refuses
//! appears to open. In return the handshake over the rough link takes its full round trip, as without a proxy.
//! Options that only the hosts would share, such as TCP Fast Open, are not passed on.
//!
//! **End-to-end semantics.** An acknowledgment means that the proxy has the data, not the other host. If the proxy
//! stops, this data is lost. Call [`Proxy::reset_all`] before an orderly stop, so that both hosts notice. After a
//! crash, a new proxy resets a connection with its first segment: the sender gets a reset, and the other host a
//! SYN-ACK. That host must acknowledge the SYN-ACK (RFC 5961 section 4.2), and its acknowledgment is reset. A reset of
//! one host also discards data on its way to the other host.
//!
//! **Memory.** A connection stores at most four buffers: two of [`ProxyParams::buffer`] and two of
//! [`ProxyParams::lan_buffer`], 8.5 MiB with the defaults. Memory is allocated as data arrives and freed when a buffer
//! is empty.
//!
//! ```
//! use roughlink_core::gateway::Heading;
//! use roughlink_core::pep::{ProxyParams, Proxy, ProxyConfig, ProxyVerdict};
//! use roughlink_core::units::Time;
//! use roughlink_core::wire::Datagram;
//!
//! let params = ProxyParams { cc: "wave-fr".into(), ..ProxyParams::default() };
//! let mut proxy = Proxy::new(ProxyConfig { params, over: Heading::Outward, mtu: 1500, secret: 1 })?;
//! let syn = [
//!     [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x26, 0xce].as_slice(), // IPv4, TCP
//!     &[10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 7],                 // addresses and ports
//!     &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0xff, 0x97, 0, 0],
//! ]
//! .concat();
//! let verdict = proxy.receive(Time::ZERO, Heading::Outward, &Datagram::from_ip(&syn));
//! assert_eq!(verdict, ProxyVerdict::Consumed);
//! let mut datagram = Vec::new();
//! assert_eq!(proxy.transmit(Time::ZERO, &mut datagram), Some(Heading::Outward));
//! let own = Datagram::from_ip(&datagram); // the SYN of the proxy's own connection to the server
//! assert_eq!(own.decoded().map(|d| d.addresses.to_string()), Some("10.0.0.1:40000 > 10.0.0.2:7".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrival;
mod connection;
mod counted;
mod counters;
mod params;
mod splice;

pub(crate) use counted::FlowSplit;
pub use counters::{ProxyConnection, ProxyCounters, ProxyVerdict};
pub(crate) use params::EndConfig;
pub use params::{NAME, PepError, ProxyConfig, ProxyParams, SOURCE, SUMMARY, UnknownSegments};

use crate::conversations::ConversationTable;
use crate::gateway::Heading;
use crate::gateway::bytes::LinkHeader;
use crate::packet::{Packet, SideContent, SynOptions, flags};
use crate::tcp::{
    ANSWER_LIMIT, MAX_ANSWERS, Numbers, PathMtus, RateLimit, Schedule, Stream, TcpConfig, TimeWaits, fit_to_mtu,
};
use crate::units::Time;
use crate::wire::{self, Addresses, IpReassembly};
use crate::{cc, tcp};
use connection::SplitConnection;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// A split-TCP proxy between two sides.
pub struct Proxy {
    sides: [ProxySide; 2],
    params: ProxyParams,
    numbers: Numbers,
    now: Time,
    connections: BTreeMap<SplitId, Box<SplitConnection>>,
    next_id: SplitId,
    /// Connections by their addresses, from the inside to the outside host.
    by_addresses: BTreeMap<Addresses, SplitId>,
    /// Connections whose server has not answered, oldest first.
    half_open: BTreeSet<SplitId>,
    /// TCP connections that pass unchanged.
    untouched: ConversationTable,
    time_waits: TimeWaits,
    paths: PathMtus,
    reassembly: IpReassembly,
    /// Datagrams of no connection that wait for transmission; set if one begins with a link header.
    control: VecDeque<(Heading, bool, Vec<u8>)>,
    schedule: Schedule<SplitId>,
    answers: RateLimit,
    /// IPv4 identification of the last datagram without DF.
    ident: u16,
    counters: ProxyCounters,
}

type SplitId = u64;

/// Configuration of connections toward one side.
struct ProxySide {
    /// Keys over IPv4 and over IPv6.
    tcp: [Arc<TcpConfig>; 2],
    congestion_control: cc::Factory,
}

/// Headings by the index of the side to which they lead.
const HEADINGS: [Heading; 2] = [Heading::Inward, Heading::Outward];

/// Returns the index of the side to which `heading` leads.
const fn side(heading: Heading) -> usize {
    match heading {
        Heading::Inward => 0,
        Heading::Outward => 1,
    }
}

impl Proxy {
    /// Creates a proxy without connections.
    ///
    /// # Errors
    /// Returns an error if a parameter is invalid.
    ///
    /// # Panics
    /// Panics if the MTU is below 1280.
    pub fn new(config: ProxyConfig) -> Result<Self, PepError> {
        let ProxyConfig { params, over, mtu, secret } = config;
        assert!(mtu >= params::MIN_MTU, "an MTU of {mtu} bytes is too small");
        let [rough, lan] = params.resolve()?;
        let side = |heading| {
            let end = if heading == over { &rough } else { &lan };
            ProxySide { tcp: fit_to_mtu(&end.tcp, mtu), congestion_control: Arc::clone(&end.congestion_control) }
        };
        Ok(Proxy {
            sides: HEADINGS.map(side),
            numbers: Numbers::new(secret),
            now: Time::ZERO,
            connections: BTreeMap::new(),
            next_id: 0,
            by_addresses: BTreeMap::new(),
            half_open: BTreeSet::new(),
            untouched: ConversationTable::default(),
            time_waits: TimeWaits::new(params.time_waits as usize),
            paths: PathMtus::new(mtu, MAX_PATH_MTUS),
            reassembly: IpReassembly::new(REASSEMBLY_BYTES),
            control: VecDeque::new(),
            schedule: Schedule::new(),
            answers: RateLimit::default(),
            ident: 0,
            counters: ProxyCounters::default(),
            params,
        })
    }

    /// Replaces the content of `out` with the next datagram to send and returns its direction; call until `None`.
    ///
    /// If the proxy received frames, `out` begins with a link header. The last valid frame of the connection in this
    /// direction provides the header. Before the first one, a frame in the opposite direction provides the header with
    /// exchanged addresses.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Heading> {
        self.transmit_from(now, out).map(|(heading, _)| heading)
    }

    /// Like [`Proxy::transmit`]; also returns true if `out` begins with a link header.
    pub(crate) fn transmit_from(&mut self, now: Time, out: &mut Vec<u8>) -> Option<(Heading, bool)> {
        let now = self.advance(now);
        out.clear();
        if let Some((heading, is_frame, datagram)) = self.control.pop_front() {
            out.extend_from_slice(&datagram);
            return Some((heading, is_frame));
        }
        while let Some(id) = self.schedule.pop_ready() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if let Some(end) = connection.transmit(now, out) {
                self.schedule.take_turn(id);
                if let Some(stream) = &connection.streams[end] {
                    stream.identify(out, &mut self.ident);
                }
                if let Some(link) = &connection.links[end] {
                    link.prepend_to(out);
                }
                return Some((HEADINGS[end], connection.links[end].is_some()));
            }
            connection.entry.pause();
            self.settle(now, id);
        }
        None
    }

    /// Processes timers due at `now`; datagrams may leave.
    pub fn wake(&mut self, now: Time) {
        let now = self.advance(now);
        while let Some(id) = self.schedule.pop_due(now) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.entry.wake();
            connection.wake(now);
            if connection.has_no_server() {
                self.counters.timed_out += 1; // the client's SYN remains without an answer, too
                self.remove(now, id);
                continue;
            }
            self.schedule_transmission(id);
            self.settle(now, id);
        }
        self.time_waits.expire(now);
        self.reassembly.wake(now);
        let expired = self.paths.expire(now);
        if !expired.is_empty() {
            self.apply_paths(now, &expired, None);
        }
    }

    /// Returns when [`Proxy::wake`] must be called; [`Time::MAX`] = never. Call it after [`Proxy::transmit`] returned
    /// `None`.
    pub fn next_wake(&self) -> Time {
        self.schedule
            .next_wake()
            .min(self.time_waits.next_wake())
            .min(self.reassembly.next_wake())
            .min(self.paths.next_wake())
    }

    /// Resets all connections at both hosts, before the proxy stops. Call [`Proxy::transmit`] until `None` afterward.
    pub fn reset_all(&mut self, now: Time) {
        let now = self.advance(now);
        while let Some((&id, connection)) = self.connections.first_key_value() {
            let client = connection.client;
            let refusal = connection.syn.as_ref().and_then(|syn| tcp::reset_for(syn));
            self.send_reset(id, client, refusal);
            for end in [0, 1] {
                let stream = self.connections.get_mut(&id).and_then(|connection| connection.streams[end].as_mut());
                let reset = stream.and_then(|stream| stream.abort(now));
                self.send_reset(id, end, reset);
            }
            self.remove(now, id);
        }
    }

    /// Returns the connections, ordered by age.
    pub fn connections(&self) -> impl Iterator<Item = ProxyConnection<'_>> {
        self.connections.values().filter_map(|connection| connection.status())
    }

    /// Returns the number of connections, including those that are not open yet.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns true if the proxy has no connections.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the counters.
    pub fn counters(&self) -> ProxyCounters {
        ProxyCounters { reassemblies_failed: self.reassembly.incomplete(), ..self.counters }
    }

    /// Returns the current time, which never goes back.
    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Creates the connection of a splice with the host on side `end`, from and to these `addresses`.
    fn new_stream(&mut self, now: Time, end: usize, addresses: Addresses) -> Stream {
        // RFC 9293 section 3.6.1: begin beyond the sequence numbers of a connection in TIME-WAIT.
        let old = self.time_waits.get(&addresses).map(|old| old.snd_nxt.wrapping_add(65_537));
        let iss = old.unwrap_or_else(|| self.numbers.initial_sequence(now, &addresses));
        self.time_waits.remove(&addresses);
        let remote = addresses.ip.addresses()[1];
        let ProxySide { tcp, congestion_control } = &self.sides[end];
        let cfg = Arc::clone(&tcp[usize::from(remote.is_ipv6())]);
        let mut stream = Stream::new(addresses, cfg, Arc::clone(congestion_control), iss);
        let (mss, fields) = self.paths.segment_limits(remote);
        stream.set_path(mss, fields, false);
        stream
    }

    /// Passes data, FINs and failures between both ends, and brings the tables up to date.
    fn settle(&mut self, now: Time, id: SplitId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let exchanged = connection.exchange(now);
        for (end, reset) in exchanged.resets.into_iter().enumerate() {
            self.send_reset(id, end, reset);
        }
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.is_over() {
            self.remove(now, id);
            return;
        }
        if exchanged.moved {
            self.schedule_transmission(id);
        }
        self.schedule_wake(now, id);
    }

    fn schedule_transmission(&mut self, id: SplitId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            self.schedule.transmit_later(id, &mut connection.entry);
        }
    }

    fn schedule_wake(&mut self, now: Time, id: SplitId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let at = connection.next_wake(now);
        self.schedule.wake_by(now, at, id, &mut connection.entry);
    }

    /// Removes a connection. Ends in TIME-WAIT continue as small entries.
    fn remove(&mut self, now: Time, id: SplitId) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.by_addresses.remove(&connection.addresses);
        self.half_open.remove(&id);
        self.schedule.cancel(id, &mut connection.entry);
        for stream in connection.streams.iter().flatten() {
            if stream.endpoint().state() == tcp::ConnectionState::TimeWait {
                self.counters.time_waits_evicted += self.time_waits.take_over(now, stream);
            }
        }
    }

    /// Applies the known path MTUs to all connections with `remotes`. The outstanding segments of an end `lossy` that
    /// are larger leave again at once, in smaller ones (RFC 1191 section 6.4).
    fn apply_paths(&mut self, now: Time, remotes: &[IpAddr], lossy: Option<(SplitId, usize)>) {
        let of = |addresses: &Addresses| addresses.ip.addresses().iter().any(|address| remotes.contains(address));
        let ids: Vec<SplitId> = self.by_addresses.iter().filter(|(a, _)| of(a)).map(|(_, id)| *id).collect();
        for id in ids {
            for end in [0, 1] {
                let Some(connection) = self.connections.get_mut(&id) else { continue };
                let Some(stream) = &mut connection.streams[end] else { continue };
                let remote = stream.addresses().ip.addresses()[1];
                if remotes.contains(&remote) {
                    let (mss, fields) = self.paths.segment_limits(remote);
                    stream.set_path(mss, fields, lossy == Some((id, end)));
                }
            }
            self.schedule_transmission(id);
            self.settle(now, id);
        }
    }

    /// Queues a reset that leaves from `end` of a connection.
    fn send_reset(&mut self, id: SplitId, end: usize, reset: Option<Packet>) {
        let Some((connection, reset)) = self.connections.get(&id).zip(reset) else { return };
        let (addresses, link) = (connection.addresses_to(end), connection.links[end]);
        self.counters.resets_sent += 1;
        self.send_segment(HEADINGS[end], &addresses, &reset, link.as_ref());
    }

    /// Queues a segment without data.
    fn send_segment(&mut self, heading: Heading, addresses: &Addresses, segment: &Packet, link: Option<&LinkHeader>) {
        let mut datagram = Vec::new();
        let (_, fields) = self.paths.segment_limits(addresses.ip.addresses()[1]);
        let side = segment.is(flags::SYN).then_some(SideContent::Syn(SynOptions::default()));
        let encoded = wire::encode_with(fields, segment, side.as_ref(), addresses, &[][..], &mut datagram);
        debug_assert_eq!(encoded, Ok(()), "a TCP segment has a form on the wire");
        self.send_datagram(heading, datagram, link);
    }

    fn send_datagram(&mut self, heading: Heading, mut datagram: Vec<u8>, link: Option<&LinkHeader>) {
        if let Some(link) = link {
            link.prepend_to(&mut datagram);
        }
        self.control.push_back((heading, link.is_some(), datagram));
    }

    /// Returns true if an answer to an unexpected segment may leave now.
    fn may_answer(&mut self, now: Time) -> bool {
        let admitted = self.control.len() < MAX_ANSWERS && self.answers.admits(now, ANSWER_LIMIT);
        self.counters.answers_suppressed += u64::from(!admitted);
        admitted
    }
}

/// Destinations with a known path MTU. A further one evicts the one that would expire first.
const MAX_PATH_MTUS: usize = 4_096;
/// Memory of incomplete datagrams, bytes. A further fragment evicts the oldest datagram.
const REASSEMBLY_BYTES: usize = 1 << 20;
