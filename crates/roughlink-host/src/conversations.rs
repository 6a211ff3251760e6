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
//! A tree maps the addresses of datagrams to conversations; the last conversation is tried first. After
//! [`MAX_CONVERSATIONS`] conversations, further ones are counted together. Fragments have no ports: all fragments of
//! one protocol between two addresses form one conversation, with counts of packets and bytes only.

mod tcp;
#[cfg(test)]
mod tests;

use crate::congestion::paces;
use crate::senders::TcpSenders;
use roughlink_core::metrics::RttResult;
pub use roughlink_core::metrics::conversation::{ConversationCounters, ConversationResult, PacketCount};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tcp::{SegmentFields, TcpDirection};

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
/// # use roughlink_core::wire::{Addresses, IpPair, encode};
/// use roughlink_host::conversations::Conversations;
///
/// let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
/// let packet = Packet::udp(FlowId::new(0, false), 0, 100, Time::ZERO);
/// let mut datagram = Vec::new();
/// encode(&packet, None, &Addresses { ip, src_port: 40_000, dst_port: 7 }, &[0_u8; 100][..], &mut datagram)?;
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
    /// Indices of the conversations, by addresses, the smaller first, and protocol.
    known: BTreeMap<PacketKey, usize>,
    all: Vec<ConversationState>,
    /// Index of the last datagram's conversation.
    last: usize,
    others: Option<Others>,
}

/// Addresses, protocol, and true for datagrams that are not fragments.
type PacketKey = (Addresses, u8, bool);

#[derive(Debug)]
struct ConversationState {
    key: PacketKey,
    /// True if the first datagram came from the larger address.
    reversed: bool,
    first: Time,
    last: Time,
    /// Directions from the smaller address and from the larger.
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
    pub fn sent(&mut self, now: Time, datagram: &[u8]) {
        self.record(now, datagram, PathPoint::Sent);
    }

    /// Records a datagram that a kernel gets. `since` is when another kernel sent it; `None` for a simulated host.
    pub fn received(&mut self, now: Time, since: Option<Time>, datagram: &[u8]) {
        self.record(now, datagram, PathPoint::Received(since));
    }

    fn record(&mut self, now: Time, bytes: &[u8], seen: PathPoint) {
        let Some((key, reversed, body)) = read(bytes) else { return };
        let (_, protocol, whole) = key;
        let Some(place) = self.place(key, reversed, now) else {
            let others = self.others.get_or_insert_default();
            match seen {
                PathPoint::Sent => others.sent.add(bytes.len()),
                PathPoint::Received(_) => others.received.add(bytes.len()),
            }
            return;
        };
        let state = &mut self.all[place];
        state.last = state.last.max(now);
        let [way, opposite] = match &mut state.ways {
            [forward, reverse] if !reversed => [forward, reverse],
            [forward, reverse] => [reverse, forward],
        };
        match seen {
            PathPoint::Sent => {
                way.kernels[0] = true;
                opposite.kernels[1] = true;
                way.sent.add(bytes.len());
            }
            PathPoint::Received(since) => {
                way.kernels[1] = true;
                opposite.kernels[0] = true;
                way.received.add(bytes.len());
                if let Some(since) = since {
                    way.delay.record(now.saturating_sub(since).0);
                }
            }
        }
        if protocol == TCP && whole {
            if let Some(segment) = SegmentFields::read(body) {
                way.segment(now, &segment, seen);
                opposite.acknowledged(now, &segment, seen);
            }
        } else {
            let payload = match protocol {
                UDP if whole => body.len().saturating_sub(UDP_HEADER),
                SCTP if whole => user_data(body),
                _ => body.len(),
            };
            way.message(now, payload, seen);
        }
    }

    /// Returns the index of a conversation; adds a new one if there is room.
    fn place(&mut self, key: PacketKey, reversed: bool, now: Time) -> Option<usize> {
        if self.all.get(self.last).is_some_and(|state| state.key == key) {
            return Some(self.last);
        }
        if let Some(&place) = self.known.get(&key) {
            self.last = place;
            return Some(place);
        }
        if self.all.len() >= MAX_CONVERSATIONS {
            return None;
        }
        let [a, b] = key.0.sockets().map(|socket| self.kernels.contains(&socket.ip()));
        let way = |kernels| ConversationDirection { kernels, ..ConversationDirection::default() };
        self.last = self.all.len();
        self.known.insert(key, self.last);
        self.all.push(ConversationState { key, reversed, first: now, last: now, ways: [way([a, b]), way([b, a])] });
        Some(self.last)
    }

    /// Returns the results so far of the `most` conversations that sent and received the most bytes. `in_flight` are
    /// the datagrams of kernels that have neither arrived nor been lost.
    pub fn results<'d>(&self, most: usize, in_flight: impl Iterator<Item = &'d [u8]>) -> ConversationResults {
        let mut flying = vec![[0; 2]; self.all.len()];
        for (key, reversed, _) in in_flight.filter_map(read) {
            if let Some(&place) = self.known.get(&key) {
                flying[place][usize::from(reversed)] += 1;
            }
        }
        let mut chosen: Vec<usize> = (0..self.all.len()).collect();
        if chosen.len() > most {
            chosen.sort_by_key(|&i| std::cmp::Reverse(self.all[i].bytes()));
            chosen.truncate(most);
            chosen.sort_unstable();
        }
        let conversations = chosen.into_iter().map(|i| self.all[i].result(flying[i])).collect();
        ConversationResults { conversations, others: self.others }
    }
}

impl ConversationState {
    fn bytes(&self) -> u64 {
        self.ways.iter().map(|way| way.sent.bytes.max(way.received.bytes)).sum()
    }

    /// Returns the results; `flying` is the number of packets in flight from the smaller address and from the larger.
    fn result(&self, flying: [u64; 2]) -> ConversationResult {
        let (addresses, protocol, whole) = self.key;
        let is_tcp = protocol == TCP && whole;
        let [a, b] = addresses.sockets().map(|end| named(end, has_ports(protocol) && whole));
        let [forward, reverse] = [0, 1].map(|i| self.ways[i].result(is_tcp, flying[i]));
        let (from, to, forward, reverse) =
            if self.reversed { (b, a, reverse, forward) } else { (a, b, forward, reverse) };
        let protocol = match protocol {
            TCP => "TCP".into(),
            UDP => "UDP".into(),
            SCTP => "SCTP".into(),
            ICMP => "ICMP".into(),
            ICMP_V6 => "ICMPv6".into(),
            other => format!("IP protocol {other}"),
        };
        ConversationResult {
            protocol: protocol + if whole { "" } else { " fragments" },
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
    fn segment(&mut self, now: Time, segment: &SegmentFields, seen: PathPoint) {
        let sent = matches!(seen, PathPoint::Sent);
        if !sent && self.kernels[0] {
            return; // counted when it was sent
        }
        let is_first = self.stream.take(now, segment, sent);
        if is_first && segment.payload > 0 && self.active.is_none() {
            self.active = Some((now, now));
        }
    }

    /// Records a segment of the opposite direction, which acknowledges data of this one.
    fn acknowledged(&mut self, now: Time, segment: &SegmentFields, seen: PathPoint) {
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

/// Counts user data bytes in DATA (RFC 9260 section 3.3.1) and I-DATA chunks (RFC 8260 section 2.1) of a packet.
fn user_data(packet: &[u8]) -> usize {
    let mut bytes = 0;
    let mut rest = packet.get(SCTP_HEADER..).unwrap_or_default();
    while let &[kind, _, high, low, ..] = rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < CHUNK_HEADER {
            break;
        }
        let header = match kind {
            DATA => Some(DATA_HEADER),
            I_DATA => Some(I_DATA_HEADER),
            _ => None,
        };
        bytes += header.map_or(0, |header| length.min(rest.len()).saturating_sub(header));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    bytes
}

/// Returns the key of a datagram's conversation, true if it comes from the larger address, and its payload.
fn read(bytes: &[u8]) -> Option<(PacketKey, bool, &[u8])> {
    let envelope = wire::envelope(bytes).ok()?;
    let body = &bytes[envelope.transport..envelope.end];
    let ports = body.first_chunk::<4>().filter(|_| envelope.whole && has_ports(envelope.protocol));
    let [src_port, dst_port] =
        ports.map_or([0, 0], |&[a, b, c, d]| [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
    let addresses = Addresses { ip: envelope.pair, src_port, dst_port };
    let back = addresses.reversed();
    let reversed = back < addresses;
    Some(((if reversed { back } else { addresses }, envelope.protocol, envelope.whole), reversed, body))
}

fn named(end: SocketAddr, with_port: bool) -> String {
    if with_port { end.to_string() } else { end.ip().to_string() }
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

fn seconds(time: Time) -> f64 {
    time.as_millis_f64() / 1e3
}

// IP protocol numbers.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const SCTP: u8 = 132;
const UDP_HEADER: usize = 8;
/// Sizes of the header of a packet, of any chunk, and of a DATA chunk including the chunk header.
const SCTP_HEADER: usize = 12;
const CHUNK_HEADER: usize = 4;
const DATA_HEADER: usize = 16;
/// Type of a DATA chunk.
const DATA: u8 = 0;
/// Size of an I-DATA chunk before its user data, bytes.
const I_DATA_HEADER: usize = 20;
const I_DATA: u8 = 64;
/// Maximum number of separately counted conversations.
pub const MAX_CONVERSATIONS: usize = 1000;
