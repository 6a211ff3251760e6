//! Results of conversations between real programs, measured outside of the kernels. Each datagram is read when a kernel
//! sends it and when a kernel gets it, and counted for its protocol, addresses and ports.
//!
//! All times are the network's, so the lateness of this machine does not affect them. Each kernel is at one port of the
//! network. Packets from a simulated end are counted only if they reach a kernel.
//!
//! | Result | Source |
//! |---|---|
//! | `sent`, `received` | counted at the two ports |
//! | `in_flight` | datagrams still in the network or in the switch |
//! | `lost` | datagrams sent, neither arrived nor in flight |
//! | `delivered_bytes` of TCP | acknowledged bytes without SYN and FIN, each once |
//! | `delivered_bytes` of SCTP | user data of DATA chunks that arrived; data that arrives twice counts twice |
//! | `retransmits` | segments that begin below the highest sequence number that their kernel has sent ([`tcp`]) |
//! | `rtt_ms` | time from a segment at its kernel's port to its first ACK there, cumulative or selective ([`tcp`]) |
//! | `delay_ms` | time from port to port |
//!
//! A conversation that is idle for too long has ended ([`roughlink_core::conversations`]); a later one with the same
//! addresses and ports is separate. At most [`MAX_REPORTED_CONVERSATIONS`] are counted separately: if a further one
//! begins, the ended conversation with the fewest bytes joins the others, which are counted together; if none has
//! ended, the new one does. Fragments have no ports: all fragments of one protocol between two addresses form one
//! conversation, with counts of packets and bytes only.

mod tcp;
#[cfg(test)]
mod tests;

use crate::congestion::paces;
use crate::senders::TcpSenders;
use roughlink_core::conversations::{ConversationId, ConversationKey, ConversationTable};
use roughlink_core::metrics::RttResult;
pub use roughlink_core::metrics::conversation::{
    ConversationCounters, ConversationResult, MAX_REPORTED_CONVERSATIONS, PacketCount,
};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use roughlink_core::wire::{Datagram, Decoded, protocol};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use tcp::TcpDirection;

/// Returns true if the kernel paces or may pace the sender although its algorithm does not pace.
pub fn has_unexpected_pacing(direction: &ConversationCounters) -> bool {
    direction.paced != Some(false) && direction.cc.as_deref().is_some_and(|cc| !paces(cc))
}

/// Results of all conversations so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConversationResults {
    /// Conversations in the order of their first datagrams.
    pub conversations: Vec<ConversationResult>,
    /// Counts of further conversations; null if there are no others.
    pub others: Option<Others>,
}

impl ConversationResults {
    pub(crate) fn add_senders(&mut self, senders: &TcpSenders) {
        for c in self.conversations.iter_mut().filter(|c| c.protocol == "TCP") {
            let ways = [(&mut c.forward, [&c.from, &c.to]), (&mut c.reverse, [&c.to, &c.from])];
            for (direction, ends) in ways {
                let Some(sender) = senders.get(&ends.map(String::clone)) else { continue };
                (direction.cc, direction.paced) = (Some(sender.cc.clone()), sender.paced);
            }
        }
    }
}

/// Counts of conversations beyond the limit, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// Datagrams that kernels sent.
    pub sent: PacketCount,
    /// Datagrams that kernels received.
    pub received: PacketCount,
}

/// Meter of conversations.
///
/// ```
/// # use roughlink_core::packet::{FlowId, Packet};
/// # use roughlink_core::units::Time;
/// # use roughlink_core::wire::{Addresses, Datagram, IpPair, encode};
/// use roughlink_host::conversations::Conversations;
///
/// let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
/// let packet = Packet::udp(FlowId::new(0, false), 0, 100, Time::ZERO);
/// let mut bytes = Vec::new();
/// encode(&packet, None, &Addresses { ip, src_port: 40_000, dst_port: 7 }, &[0_u8; 100][..], &mut bytes)?;
/// let datagram = Datagram::from_ip(&bytes);
///
/// let mut meter = Conversations::new(["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap()));
/// meter.sent(Time::from_millis(1), &datagram);
/// meter.received(Time::from_millis(11), Some(Time::from_millis(1)), &datagram);
/// meter.sent(Time::from_millis(20), &datagram); // does not arrive
///
/// let results = meter.results(1, std::iter::empty());
/// let forward = &results.conversations[0].forward;
/// assert_eq!((forward.delivered_bytes, forward.lost), (Some(100), Some(1)));
/// assert_eq!(forward.delay_ms.map(|delay| delay.max), Some(10.0));
/// # Ok::<(), roughlink_core::wire::EncodeError>(())
/// ```
#[derive(Debug, Default)]
pub struct Conversations {
    kernels: BTreeSet<IpAddr>,
    table: ConversationTable,
    /// Conversations by their places in the table; `None` at free places.
    open: Vec<Option<ConversationState>>,
    ended: Vec<ConversationState>,
    /// Number of conversations so far.
    begun: u64,
    others: Option<Others>,
}

#[derive(Debug)]
struct ConversationState {
    /// Number in the order of the first datagrams.
    number: u64,
    /// Key of the first datagram.
    key: ConversationKey,
    first: Time,
    last: Time,
    /// Directions of the first datagram and opposite.
    ways: [ConversationDirection; 2],
}

#[derive(Debug, Default)]
struct ConversationDirection {
    /// True for a kernel at the source, and for a kernel at the destination.
    kernels: [bool; 2],
    sent: PacketCount,
    received: PacketCount,
    /// Payload received, bytes; not for TCP.
    payload: u64,
    /// Times of the first payload sent and of the last received.
    active: Option<(Time, Time)>,
    delay: Histogram,
    stream: TcpDirection,
}

/// Point of the path at which a datagram is read.
#[derive(Clone, Copy)]
enum PathPoint {
    /// Source: a kernel sends the datagram.
    Sent,
    /// Destination: a kernel gets the datagram, which entered the network at the given time if another kernel sent it.
    Received(Option<Time>),
}

impl Conversations {
    /// Creates a meter for kernels with these addresses.
    pub fn new(kernels: impl IntoIterator<Item = IpAddr>) -> Self {
        Conversations { kernels: kernels.into_iter().collect(), ..Conversations::default() }
    }

    /// Records a datagram that a kernel sends.
    pub fn sent<B: AsRef<[u8]>>(&mut self, now: Time, datagram: &Datagram<B>) {
        self.record(now, datagram, PathPoint::Sent);
    }

    /// Records a datagram that a kernel gets. `since` is when another kernel sent it; `None` for a simulated host.
    pub fn received<B: AsRef<[u8]>>(&mut self, now: Time, since: Option<Time>, datagram: &Datagram<B>) {
        self.record(now, datagram, PathPoint::Received(since));
    }

    fn record<B: AsRef<[u8]>>(&mut self, now: Time, datagram: &Datagram<B>, seen: PathPoint) {
        let Some((key, length)) = key(datagram).zip(datagram.ip().map(<[u8]>::len)) else { return };
        let tcp_flags = datagram.tcp_flags();
        let found = self.table.find(now, &key, tcp_flags).or_else(|| self.begin(now, &key, tcp_flags));
        let Some(id) = found else {
            let others = self.others.get_or_insert_default();
            match seen {
                PathPoint::Sent => others.sent.add(length),
                PathPoint::Received(_) => others.received.add(length),
            }
            return;
        };
        let state = self.open[id.place as usize].as_mut().expect("the place is in use");
        state.last = state.last.max(now);
        let [way, opposite] = match &mut state.ways {
            [forward, reverse] if !id.reverse => [forward, reverse],
            [forward, reverse] => [reverse, forward],
        };
        match seen {
            PathPoint::Sent => {
                way.kernels[0] = true;
                opposite.kernels[1] = true;
                way.sent.add(length);
            }
            PathPoint::Received(since) => {
                way.kernels[1] = true;
                opposite.kernels[0] = true;
                way.received.add(length);
                if let Some(since) = since {
                    way.delay.record(now.saturating_sub(since).0);
                }
            }
        }
        if key.protocol == protocol::TCP && !key.fragments {
            if let Some(segment) = datagram.whole() {
                way.segment(now, segment, seen);
                opposite.acknowledged(now, segment, seen);
            }
        } else {
            way.message(now, datagram.user_bytes(), seen);
        }
    }

    /// Adds a conversation; `None` if there is no room.
    fn begin(&mut self, now: Time, key: &ConversationKey, tcp_flags: Option<u8>) -> Option<ConversationId> {
        while let Some(id) = self.table.expire(now) {
            self.ended.extend(self.open[id.place as usize].take());
        }
        if self.table.len() >= MAX_REPORTED_CONVERSATIONS {
            return None;
        }
        if self.table.len() + self.ended.len() >= MAX_REPORTED_CONVERSATIONS {
            let smallest = (0..self.ended.len()).min_by_key(|&i| self.ended[i].bytes())?;
            let state = self.ended.swap_remove(smallest);
            let others = self.others.get_or_insert_default();
            for way in &state.ways {
                others.sent.join(way.sent);
                others.received.join(way.received);
            }
        }
        let id = self.table.insert(now, key, tcp_flags);
        let [a, b] = key.addresses.ip.addresses().map(|address| self.kernels.contains(&address));
        let way = |kernels| ConversationDirection { kernels, ..ConversationDirection::default() };
        let ways = [way([a, b]), way([b, a])];
        self.open.resize_with(self.open.len().max(id.place as usize + 1), || None);
        self.open[id.place as usize] =
            Some(ConversationState { number: self.begun, key: *key, first: now, last: now, ways });
        self.begun += 1;
        Some(id)
    }

    /// Returns the results so far of the `most` conversations that sent and received the most bytes. `in_flight` are
    /// the IP datagrams of kernels that have neither arrived nor been lost.
    pub fn results<'d>(&self, most: usize, in_flight: impl Iterator<Item = &'d [u8]>) -> ConversationResults {
        let mut flying = vec![[0; 2]; self.open.len()];
        for key in in_flight.filter_map(|bytes| key(&Datagram::from_ip(bytes))) {
            if let Some(id) = self.table.get(&key) {
                flying[id.place as usize][usize::from(id.reverse)] += 1;
            }
        }
        let open = self.open.iter().zip(flying).filter_map(|(state, flying)| Some((state.as_ref()?, flying)));
        let mut chosen: Vec<_> = open.chain(self.ended.iter().map(|state| (state, [0; 2]))).collect();
        if chosen.len() > most {
            chosen.sort_by_key(|(state, _)| (Reverse(state.bytes()), state.number));
            chosen.truncate(most);
        }
        chosen.sort_unstable_by_key(|(state, _)| state.number);
        let conversations = chosen.into_iter().map(|(state, flying)| state.result(flying)).collect();
        ConversationResults { conversations, others: self.others }
    }
}

impl ConversationState {
    fn bytes(&self) -> u64 {
        self.ways.iter().map(|way| way.sent.bytes.max(way.received.bytes)).sum()
    }

    /// Returns the results; `flying` is the number of packets in flight in the direction of the first datagram, and
    /// opposite.
    fn result(&self, flying: [u64; 2]) -> ConversationResult {
        let ConversationKey { addresses, protocol, fragments, .. } = self.key;
        let is_tcp = protocol == protocol::TCP && !fragments;
        let [from, to] = addresses.sockets().map(|end| named(end, protocol::has_ports(protocol) && !fragments));
        let [forward, reverse] = [0, 1].map(|i| self.ways[i].result(is_tcp, flying[i]));
        let protocol = match protocol {
            protocol::TCP => "TCP".into(),
            protocol::UDP => "UDP".into(),
            protocol::SCTP => "SCTP".into(),
            protocol::ICMP => "ICMP".into(),
            protocol::ICMPV6 => "ICMPv6".into(),
            other => format!("IP protocol {other}"),
        };
        ConversationResult {
            protocol: protocol + if fragments { " fragments" } else { "" },
            from,
            to,
            start_s: seconds(self.first),
            end_s: seconds(self.last),
            forward,
            reverse,
        }
    }
}

impl ConversationDirection {
    fn segment(&mut self, now: Time, segment: &Decoded, seen: PathPoint) {
        let sent = matches!(seen, PathPoint::Sent);
        if !sent && self.kernels[0] {
            return; // counted when it was sent
        }
        let is_first = self.stream.take(now, segment, sent);
        if is_first && !segment.payload.is_empty() && self.active.is_none() {
            self.active = Some((now, now));
        }
    }

    /// Records a segment of the opposite direction, which acknowledges data of this one.
    fn acknowledged(&mut self, now: Time, segment: &Decoded, seen: PathPoint) {
        let to_sender = matches!(seen, PathPoint::Received(_));
        if self.stream.acknowledge(now, segment, to_sender)
            && let Some((_, last)) = &mut self.active
        {
            *last = now;
        }
    }

    /// Records a datagram of another protocol than TCP.
    fn message(&mut self, now: Time, payload: usize, seen: PathPoint) {
        if payload == 0 {
            return; // for example an SCTP acknowledgment
        }
        let (_, last) = self.active.get_or_insert((now, now));
        if matches!(seen, PathPoint::Received(_)) {
            *last = now;
            self.payload += payload as u64;
        }
    }

    fn result(&self, is_tcp: bool, flying: u64) -> ConversationCounters {
        let [source, destination] = self.kernels;
        let delivered = if is_tcp { Some(self.stream.delivered()) } else { destination.then_some(self.payload) };
        let active = self.active.map(|(first, last)| seconds(last.saturating_sub(first))).filter(|s| *s > 0.0);
        ConversationCounters {
            sent: source.then_some(self.sent),
            received: destination.then_some(self.received),
            in_flight: (source && destination).then_some(flying),
            // Exclude datagrams that the kernel at the other end did not send: gateways write segments, too.
            lost: (source && destination).then(|| self.sent.packets.saturating_sub(self.delay.count() + flying)),
            delivered_bytes: delivered,
            throughput_mbps: active.zip(delivered).map(|(s, bytes)| bytes as f64 * 8.0 / 1e6 / s),
            retransmits: (is_tcp && source).then_some(self.stream.retransmits),
            rtt_ms: RttResult::from_histogram(&self.stream.rtt),
            srtt_ms: self.stream.smoothed.map(|ns| ns / 1e6),
            delay_ms: RttResult::from_histogram(&self.delay),
            cc: None,
            paced: None,
        }
    }
}

/// Returns the key of a datagram's conversation.
fn key<B: AsRef<[u8]>>(datagram: &Datagram<B>) -> Option<ConversationKey> {
    ConversationKey::new(datagram, [0, 0])
}

fn named(end: SocketAddr, with_port: bool) -> String {
    if with_port { end.to_string() } else { end.ip().to_string() }
}

fn seconds(time: Time) -> f64 {
    time.as_millis_f64() / 1e3
}
