//! Time limits of a charging session over TCP, and of the discovery before it.

use super::capture::CapturedPacket;
use super::{AnswerTime, Deadline, DialogueKind, JudgedDialogue, ends};
use roughlink_core::app::request::exi::{DocumentKind, HEAD};
use roughlink_core::app::request::{PORT, SessionLimits, Side, V2GTP_HEADER, v2gtp};
use roughlink_core::packet::{Fragment, Protocol, flags};
use roughlink_core::units::Time;
use roughlink_core::wire::Addresses;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Discovery datagram or complete message at a place.
#[derive(Clone, Copy, Debug)]
struct SeenMessage {
    at: Time,
    place: usize,
    from: SocketAddr,
    to: SocketAddr,
    kind: SeenKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SeenKind {
    Discovery(Side),
    /// Document; `None` if its kind is not known.
    Document(Option<DocumentKind>),
}

/// Messages of charging sessions in a capture.
#[derive(Default)]
pub(super) struct SessionMessages {
    streams: BTreeMap<(usize, Addresses), MessageStream>,
    messages: Vec<SeenMessage>,
}

impl SessionMessages {
    /// Keeps the messages that a packet completes.
    pub(super) fn see(&mut self, packet: &CapturedPacket<'_>) {
        let Some(decoded) = packet.datagram.decoded() else { return };
        let (tcp, addresses) = (&decoded.packet, decoded.addresses);
        if tcp.fragment() != Fragment::Whole || self.messages.len() >= MAX_MESSAGES {
            return;
        }
        let payload = packet.datagram.ip().and_then(|ip| ip.get(decoded.payload.clone())).unwrap_or_default();
        let [from, to] = addresses.sockets();
        let (at, place) = (packet.at, packet.place);
        match tcp.protocol() {
            Protocol::Udp if [from.port(), to.port()].contains(&PORT) => {
                let side = Side::BY_END.into_iter().find(|side| v2gtp::is_sdp(*side, payload));
                let kind = side.map(SeenKind::Discovery);
                self.messages.extend(kind.map(|kind| SeenMessage { at, place, from, to, kind }));
            }
            Protocol::Tcp => {
                let key = (place, addresses);
                if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&key) {
                    return;
                }
                let stream = self.streams.entry(key).or_default();
                if tcp.flags & flags::SYN != 0 {
                    *stream = MessageStream { next: Some(tcp.seq.wrapping_add(1)), ..MessageStream::default() };
                } else {
                    stream.segment(tcp.seq, payload, |kind| {
                        self.messages.push(SeenMessage { at, place, from, to, kind: SeenKind::Document(kind) });
                    });
                }
            }
            _ => {}
        }
    }

    /// Returns the sessions, and discoveries without one, each with the time of its first message. The capture ends at
    /// `end`.
    pub(super) fn judged(&self, end: Time) -> Vec<(Time, JudgedDialogue)> {
        // The side that sends a request is the vehicle. Until a kind is known, it is the side that sends first.
        let mut sessions: Vec<(Time, [SocketAddr; 2])> = Vec::new();
        let mut known = BTreeSet::new();
        for m in &self.messages {
            let SeenKind::Document(kind) = m.kind else { continue };
            let is_response = kind.is_some_and(|kind| kind.is_response);
            let ends = if is_response { [m.to, m.from] } else { [m.from, m.to] };
            if known.len() < MAX_SESSIONS && known.insert([m.from.min(m.to), m.from.max(m.to)]) {
                sessions.push((m.at, ends));
            }
        }
        sessions.sort();
        let mut all = Vec::new();
        // Discovery belongs to the next session of the vehicle.
        let mut since: BTreeMap<IpAddr, Time> = BTreeMap::new();
        for &(first, [vehicle, charger]) in &sessions {
            let mut judged = JudgedDialogue::new(DialogueKind::Session, vehicle.ip());
            let from = since.insert(vehicle.ip(), first).unwrap_or_default();
            judged.deadlines.extend(self.discovery(vehicle.ip(), from..first, end));
            self.session([vehicle, charger], end, &mut judged);
            all.push((first, judged));
        }
        let mut alone: BTreeMap<IpAddr, Time> = BTreeMap::new();
        for m in self.messages.iter().filter(|m| m.kind == SeenKind::Discovery(Side::Evcc)) {
            if since.get(&m.from.ip()).is_none_or(|last| m.at >= *last) && alone.len() < MAX_SESSIONS {
                alone.entry(m.from.ip()).or_insert(m.at);
            }
        }
        for (vehicle, first) in alone {
            let mut judged = JudgedDialogue::new(DialogueKind::Discovery, vehicle);
            judged.deadlines.extend(self.discovery(vehicle, first..Time::MAX, end));
            all.push((first, judged));
        }
        all
    }

    fn session(&self, [vehicle, charger]: [SocketAddr; 2], end: Time, judged: &mut JudgedDialogue) {
        let documents = || {
            self.messages.iter().filter_map(move |m| match m.kind {
                SeenKind::Document(kind) if (m.from, m.to) == (vehicle, charger) => Some((m, Side::Evcc, kind)),
                SeenKind::Document(kind) if (m.to, m.from) == (vehicle, charger) => Some((m, Side::Secc, kind)),
                _ => None,
            })
        };
        let requests = documents().filter(|(_, from, _)| *from == Side::Evcc);
        let Some(places) = ends(requests.map(|(m, ..)| (m.at, m.place))) else { return };
        let ours = |addresses: &Addresses| {
            let [from, to] = addresses.sockets();
            [[vehicle, charger], [charger, vehicle]].contains(&[from, to])
        };
        let streams = self.streams.iter().filter(|((place, addresses), _)| places.contains(place) && ours(addresses));
        judged.gaps = streams.map(|(_, stream)| stream.gaps + u64::from(!stream.early.is_empty())).sum();
        for (side, place) in Side::BY_END.into_iter().zip(places) {
            let mut asked: Option<(Time, Option<DocumentKind>)> = None;
            for (m, from, kind) in documents().filter(|(m, ..)| m.place == place) {
                let before = asked.take();
                match (from, before) {
                    (Side::Evcc, before) => {
                        if let Some((_, unanswered)) = before {
                            judged.count(side, unanswered, None);
                        }
                        asked = Some((m.at, kind));
                    }
                    (Side::Secc, Some((start, request))) => {
                        let took = m.at.saturating_sub(start);
                        judged.count(side, request.or(kind), Some(AnswerTime { at: m.at, took }));
                    }
                    (Side::Secc, None) => {}
                }
            }
            let silent = |(at, kind): &(Time, Option<DocumentKind>)| {
                kind.is_some_and(|kind| end.saturating_sub(*at) > kind.limits().timeout)
            };
            if let Some((_, unanswered)) = asked.filter(silent) {
                judged.count(side, unanswered, None);
            }
        }
        // Both sides of a message, one after the other.
        let order: Vec<&str> = judged.deadlines.iter().map(|d| d.message).collect();
        judged.deadlines.sort_by_key(|d| order.iter().position(|message| *message == d.message));
    }

    /// Judges the discovery by a vehicle in some period.
    fn discovery(&self, vehicle: IpAddr, period: Range<Time>, end: Time) -> Option<Deadline> {
        let limit = SessionLimits::default().discovery_period;
        let mut deadline = Deadline::new("SDP", Side::Evcc, "SDP response", limit);
        let asks = |m: &SeenMessage| m.kind == SeenKind::Discovery(Side::Evcc) && m.from.ip() == vehicle;
        let within = || self.messages.iter().filter(|m| period.contains(&m.at));
        let place = within().find(|m| asks(m))?.place;
        let mut asked: Option<Time> = None;
        for m in within().filter(|m| m.place == place) {
            if asks(m) {
                deadline.unanswered += u64::from(asked.is_some());
                asked = Some(m.at);
            } else if m.kind == SeenKind::Discovery(Side::Secc) && m.to.ip() == vehicle {
                let took = asked.take().map(|start| m.at.saturating_sub(start));
                deadline.answers.extend(took.map(|took| AnswerTime { at: m.at, took }));
            }
        }
        deadline.unanswered += u64::from(asked.is_some_and(|start| end.saturating_sub(start) > limit));
        (!deadline.answers.is_empty() || deadline.unanswered > 0).then_some(deadline)
    }
}

impl JudgedDialogue {
    fn new(kind: DialogueKind, vehicle: IpAddr) -> Self {
        JudgedDialogue { kind, vehicle: vehicle.to_string(), deadlines: Vec::new(), unknown: 0, gaps: 0 }
    }

    /// Counts a response, or a request without one.
    fn count(&mut self, side: Side, kind: Option<DocumentKind>, answer: Option<AnswerTime>) {
        let Some(kind) = kind else {
            self.unknown += u64::from(side == Side::Evcc);
            return;
        };
        let limits = kind.limits();
        let (timer, limit) = match side {
            Side::Evcc => ("V2G_EVCC_Msg_Timeout", Some(limits.timeout)),
            Side::Secc => ("V2G_SECC_Msg_Performance_Time", limits.performance),
        };
        let Some(limit) = limit else { return };
        let found = self.deadlines.iter().position(|d| (d.message, d.side) == (kind.name, side));
        let place = found.unwrap_or(self.deadlines.len());
        if found.is_none() {
            self.deadlines.push(Deadline::new(kind.name, side, timer, limit));
        }
        match answer {
            Some(answer) => self.deadlines[place].answers.push(answer),
            None => self.deadlines[place].unanswered += u64::from(side == Side::Evcc),
        }
    }
}

/// One direction of a connection at a place: bytes in order, and the messages in them.
#[derive(Default)]
struct MessageStream {
    /// Sequence number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// Segments after a gap.
    early: Vec<(u32, Vec<u8>)>,
    reader: MessageReader,
    /// Gaps that were skipped.
    gaps: u64,
    /// True if it carries something else.
    is_ignored: bool,
}

impl MessageStream {
    /// Passes the kinds of the messages that a segment completes to `found`.
    fn segment(&mut self, seq: u32, payload: &[u8], mut found: impl FnMut(Option<DocumentKind>)) {
        if self.is_ignored || payload.is_empty() {
            return;
        }
        self.take_in(seq, payload, &mut found);
        loop {
            if self.early.len() > MAX_EARLY {
                // The segment is missing in the capture: go on after the gap.
                self.next = self.early.iter().map(|(seq, _)| *seq).min_by_key(|seq| self.offset(*seq));
                self.reader = MessageReader::default();
                self.gaps += 1;
            }
            let Some(at) = self.early.iter().position(|(seq, _)| self.offset(*seq) <= 0) else { break };
            let (seq, bytes) = self.early.swap_remove(at);
            self.take_in(seq, &bytes, &mut found);
        }
        if self.is_ignored {
            self.early = Vec::new();
        }
    }

    /// Returns how far a sequence number is ahead of the next byte.
    fn offset(&self, seq: u32) -> i32 {
        seq.wrapping_sub(self.next.unwrap_or(seq)) as i32
    }

    fn take_in(&mut self, seq: u32, bytes: &[u8], found: &mut impl FnMut(Option<DocumentKind>)) {
        let offset = self.offset(seq);
        if offset > 0 {
            return self.early.push((seq, bytes.to_vec()));
        }
        let fresh = bytes.get(offset.unsigned_abs() as usize..).unwrap_or_default();
        self.next = Some(self.next.unwrap_or(seq).wrapping_add(fresh.len() as u32));
        self.is_ignored |= !self.reader.read(fresh, found);
    }
}

/// Reader of the messages of one side, which keeps only the head of a document.
#[derive(Default)]
struct MessageReader {
    header: [u8; HEADER],
    /// Bytes of the header so far.
    have: usize,
    head: Vec<u8>,
    /// Bytes of the document to come.
    rest: usize,
}

impl MessageReader {
    /// Reads bytes in order. Returns false if they are not messages.
    fn read(&mut self, mut bytes: &[u8], found: &mut impl FnMut(Option<DocumentKind>)) -> bool {
        while !bytes.is_empty() {
            if self.rest == 0 {
                let taken = bytes.len().min(HEADER - self.have);
                self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                bytes = &bytes[taken..];
                if self.have == HEADER {
                    let Some(length) = v2gtp::document_length(&self.header) else { return false };
                    self.rest = length as usize;
                }
                continue;
            }
            let taken = bytes.len().min(self.rest);
            self.head.extend(&bytes[..taken.min(HEAD - self.head.len())]);
            self.rest -= taken;
            bytes = &bytes[taken..];
            if self.rest == 0 {
                found(DocumentKind::detect(&self.head));
                self.have = 0;
                self.head.clear();
            }
        }
        true
    }
}

const HEADER: usize = V2GTP_HEADER as usize;
/// Most messages, sessions and streams to keep, and most segments that a stream keeps while one before them is missing.
const MAX_MESSAGES: usize = 1_000_000;
const MAX_SESSIONS: usize = 64;
const MAX_STREAMS: usize = 1_000_000;
const MAX_EARLY: usize = 16;
