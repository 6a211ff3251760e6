//! Table of the conversations of real programs: the traffic between two addresses and ports with one protocol.
//!
//! The table forgets. Anything that it forgets and sees again is a new conversation.
//!
//! | Phase | Conversations | Forgotten after an idle time of |
//! |---|---|---|
//! | transitory | TCP connections that are not answered yet, reset, or closed both ways | [`TRANSITORY_TIMEOUT`] |
//! | established | all other TCP connections | [`ESTABLISHED_TIMEOUT`] |
//! | datagrams | other protocols, fragments | [`DATAGRAM_TIMEOUT`] |
//!
//! The number of conversations may be limited for each phase ([`ConversationTable::evict`]). A flood of SYNs or
//! datagrams with forged addresses therefore cannot displace established connections.
//!
//! **Cost.** Lookup costs O(log n), or O(1) for the conversation of the last datagram. Conversations with the same idle
//! time form a list in the order of their last datagrams, so noting a datagram and finding the next conversation to
//! forget cost O(1).

use crate::packet::flags;
use crate::units::Time;
use crate::wire::{Addresses, Datagram, protocol};
use std::collections::BTreeMap;

/// Key of a conversation in the direction of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConversationKey {
    /// Addresses and ports; ports are 0 for protocols without ports and for fragments.
    pub addresses: Addresses,
    /// IP protocol number.
    pub protocol: u8,
    /// True for fragments, which have no ports.
    pub fragments: bool,
    /// Nodes where datagrams enter and leave, if the same addresses may talk between several pairs; otherwise zeros.
    pub nodes: [u32; 2],
}

impl ConversationKey {
    /// Returns the key of a datagram between two nodes; `None` for a frame without an IP datagram.
    pub fn new<B: AsRef<[u8]>>(datagram: &Datagram<B>, nodes: [u32; 2]) -> Option<Self> {
        let envelope = datagram.envelope().ok()?;
        let with_ports = envelope.whole && protocol::has_ports(envelope.protocol);
        let ports = datagram.content().first_chunk::<4>().filter(|_| with_ports);
        let [src_port, dst_port] =
            ports.map_or([0, 0], |&[a, b, c, d]| [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
        let addresses = Addresses { ip: envelope.pair, src_port, dst_port };
        Some(ConversationKey { addresses, protocol: envelope.protocol, fragments: !envelope.whole, nodes })
    }

    /// Returns the key of the opposite direction.
    pub const fn reversed(self) -> Self {
        ConversationKey { addresses: self.addresses.reversed(), nodes: [self.nodes[1], self.nodes[0]], ..self }
    }
}

/// A conversation in the table, with the direction of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConversationId {
    /// Place in the table, from 0; a place is used again after its conversation was forgotten.
    pub place: u32,
    /// Number of conversations that had the place before.
    pub generation: u32,
    /// True against the direction in which the conversation was inserted.
    pub reverse: bool,
}

/// Table of conversations.
///
/// ```
/// use roughlink_core::conversations::{ConversationKey, ConversationTable, DATAGRAM_TIMEOUT};
/// use roughlink_core::units::Time;
/// use roughlink_core::wire::{Addresses, IpPair};
///
/// let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
/// let addresses = Addresses { ip, src_port: 40_000, dst_port: 53 };
/// let query = ConversationKey { addresses, protocol: 17, fragments: false, nodes: [0, 0] };
/// let mut table = ConversationTable::default();
/// assert_eq!(table.find(Time::ZERO, &query, None), None);
/// let id = table.insert(Time::ZERO, &query, None);
/// let answer = table.find(Time::from_millis(20), &query.reversed(), None).unwrap();
/// assert_eq!((answer.place, answer.reverse), (id.place, true));
/// assert_eq!(table.expire(DATAGRAM_TIMEOUT), None);
/// assert_eq!(table.expire(Time::from_millis(20) + DATAGRAM_TIMEOUT), Some(id));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConversationTable {
    /// Places by key, in the direction with the smaller key.
    known: BTreeMap<ConversationKey, u32>,
    slots: Vec<TableSlot>,
    free: Vec<u32>,
    /// List of each phase.
    lists: [List; 3],
    /// Place of the last datagram's conversation.
    last: Option<u32>,
}

/// Conversations of a phase, in the order of their last datagrams.
#[derive(Clone, Debug, Default)]
struct List {
    length: usize,
    first: Option<u32>,
    last: Option<u32>,
}

#[derive(Clone, Debug)]
struct TableSlot {
    /// Key in the direction of insertion.
    key: ConversationKey,
    generation: u32,
    /// List in which it is; `None` if it is never forgotten or its place is free.
    phase: Option<ConversationPhase>,
    tcp: ConnectionEnds,
    seen: Time,
    /// Neighbors in the list, from earlier to later.
    before: Option<u32>,
    after: Option<u32>,
}

/// State of a TCP connection, by direction.
#[derive(Clone, Copy, Default, Debug)]
struct ConnectionEnds {
    sent: [bool; 2],
    closed: [bool; 2],
    /// True if the last segment was a reset. Another segment shows that the reset was not accepted.
    reset: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConversationPhase {
    Transitory,
    Established,
    Datagrams,
}

impl ConversationPhase {
    const ALL: [ConversationPhase; 3] =
        [ConversationPhase::Transitory, ConversationPhase::Established, ConversationPhase::Datagrams];

    const fn timeout(self) -> Time {
        match self {
            ConversationPhase::Transitory => TRANSITORY_TIMEOUT,
            ConversationPhase::Established => ESTABLISHED_TIMEOUT,
            ConversationPhase::Datagrams => DATAGRAM_TIMEOUT,
        }
    }
}

impl ConnectionEnds {
    /// Notes a segment with these flags in direction `way`.
    fn note(&mut self, way: usize, tcp_flags: u8) {
        let is = |flag| tcp_flags & flag != 0;
        if is(flags::SYN) && !is(flags::ACK) {
            *self = ConnectionEnds::default(); // the first segment of a connection, perhaps on ports used before
        }
        self.reset = is(flags::RST);
        self.sent[way] = true;
        self.closed[way] |= is(flags::FIN);
    }

    fn phase(&self) -> ConversationPhase {
        let open = self.sent == [true; 2] && self.closed != [true; 2] && !self.reset;
        if open { ConversationPhase::Established } else { ConversationPhase::Transitory }
    }
}

impl ConversationTable {
    /// Returns the number of conversations in the table.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns true if the table has no conversation.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Finds the conversation of a datagram and notes its time and, for TCP, its flags ([`flags`]).
    pub fn find(&mut self, now: Time, key: &ConversationKey, tcp_flags: Option<u8>) -> Option<ConversationId> {
        let is_last = |place: &u32| {
            let last = &self.slots[*place as usize].key;
            *last == *key || last.reversed() == *key
        };
        let place = match self.last.filter(is_last) {
            Some(place) => place,
            None => *self.known.get(&canonical(key))?,
        };
        self.last = Some(place);
        let id = self.id(place, key);
        self.note(now, id, tcp_flags);
        Some(id)
    }

    /// Returns the conversation with a key, without noting a datagram.
    pub fn get(&self, key: &ConversationKey) -> Option<ConversationId> {
        self.known.get(&canonical(key)).map(|&place| self.id(place, key))
    }

    /// Inserts the conversation of a datagram that [`ConversationTable::find`] did not find.
    pub fn insert(&mut self, now: Time, key: &ConversationKey, tcp_flags: Option<u8>) -> ConversationId {
        let id = self.pin(key);
        self.append(
            id.place,
            if tcp_flags.is_some() { ConversationPhase::Transitory } else { ConversationPhase::Datagrams },
        );
        self.note(now, id, tcp_flags);
        self.last = Some(id.place);
        id
    }

    /// Inserts a conversation that only [`ConversationTable::remove`] removes.
    pub fn pin(&mut self, key: &ConversationKey) -> ConversationId {
        let (key, tcp) = (*key, ConnectionEnds::default());
        let slot = TableSlot { key, generation: 0, phase: None, tcp, seen: Time::ZERO, before: None, after: None };
        let place = match self.free.pop() {
            Some(place) => {
                let old = &mut self.slots[place as usize];
                *old = TableSlot { generation: old.generation.wrapping_add(1), ..slot };
                place
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.known.insert(canonical(&key), place);
        self.id(place, &key)
    }

    /// Forgets the conversation that has been idle for longest, of a phase with more than `most`; call until `None`.
    pub fn evict(&mut self, most: usize) -> Option<ConversationId> {
        let place = self.lists.iter().find(|list| list.length > most)?.first?;
        Some(self.forget(place))
    }

    /// Forgets one conversation whose idle time is over; call until `None`.
    pub fn expire(&mut self, now: Time) -> Option<ConversationId> {
        let place = ConversationPhase::ALL.into_iter().find_map(|phase| {
            let place = self.lists[phase as usize].first?;
            let idle = now.saturating_sub(self.slots[place as usize].seen);
            (idle >= phase.timeout()).then_some(place)
        })?;
        Some(self.forget(place))
    }

    /// Removes a conversation with a key, if there is one.
    pub fn remove(&mut self, key: &ConversationKey) -> Option<ConversationId> {
        let place = *self.known.get(&canonical(key))?;
        Some(self.forget(place))
    }

    fn id(&self, place: u32, key: &ConversationKey) -> ConversationId {
        let slot = &self.slots[place as usize];
        ConversationId { place, generation: slot.generation, reverse: slot.key != *key }
    }

    fn note(&mut self, now: Time, id: ConversationId, tcp_flags: Option<u8>) {
        let slot = &mut self.slots[id.place as usize];
        let Some(phase) = slot.phase else { return };
        // Times never decrease along a list.
        slot.seen = slot.seen.max(now);
        let phase = match tcp_flags {
            Some(tcp_flags) => {
                slot.tcp.note(usize::from(id.reverse), tcp_flags);
                slot.tcp.phase()
            }
            None => phase,
        };
        if Some(phase) != slot.phase || slot.after.is_some() {
            self.unlink(id.place);
            self.append(id.place, phase);
        }
    }

    fn forget(&mut self, place: u32) -> ConversationId {
        self.unlink(place);
        let key = self.slots[place as usize].key;
        self.known.remove(&canonical(&key));
        self.free.push(place);
        self.last = None;
        self.id(place, &key)
    }

    fn append(&mut self, place: u32, phase: ConversationPhase) {
        let list = &mut self.lists[phase as usize];
        let before = list.last.replace(place);
        list.length += 1;
        match before {
            Some(before) => self.slots[before as usize].after = Some(place),
            None => list.first = Some(place),
        }
        let slot = &mut self.slots[place as usize];
        (slot.phase, slot.before, slot.after) = (Some(phase), before, None);
    }

    fn unlink(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        let Some(phase) = slot.phase.take() else { return };
        let (before, after) = (slot.before, slot.after);
        let list = &mut self.lists[phase as usize];
        list.length -= 1;
        match before {
            Some(before) => self.slots[before as usize].after = after,
            None => list.first = after,
        }
        match after {
            Some(after) => self.slots[after as usize].before = before,
            None => list.last = before,
        }
    }
}

/// Returns the smaller of a key and its opposite.
fn canonical(key: &ConversationKey) -> ConversationKey {
    let back = key.reversed();
    if back < *key { back } else { *key }
}

/// Maximum number of conversations of each phase in a network, and at a gateway between real interfaces.
pub const MAX_CONVERSATIONS: usize = 1 << 16;
/// Idle time of a TCP connection that is not established (RFC 5382 section 5); also 2 MSL (RFC 9293 section 3.4.2).
pub const TRANSITORY_TIMEOUT: Time = Time::from_secs(240);
/// Idle time of an established TCP connection: 2 h 4 min (RFC 5382 section 5), longer than the keep-alive interval.
pub const ESTABLISHED_TIMEOUT: Time = Time::from_secs(7440);
/// Idle time of other conversations: 5 min, recommended for UDP (RFC 4787 section 4.3).
pub const DATAGRAM_TIMEOUT: Time = Time::from_secs(300);

#[cfg(test)]
mod tests;
