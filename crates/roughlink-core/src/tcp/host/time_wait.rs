//! Connections in TIME-WAIT (RFC 9293 section 3.6): small entries, which outlive the buffers of the connection.

use crate::packet::{FlowId, Packet, flags};
use crate::tcp::Stream;
use crate::units::Time;
use crate::wire::{Addresses, Decoded};
use std::collections::{BTreeMap, BTreeSet};

/// State of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWait {
    pub(crate) snd_nxt: u32,
    pub(super) rcv_nxt: u32,
    /// The peer's last timestamp, if the connection used timestamps.
    pub(super) recent: Option<u32>,
    expires: Time,
    /// Time of the last answer.
    answered: Option<Time>,
}

impl TimeWait {
    fn new(snd_nxt: u32, rcv_nxt: u32, recent: Option<u32>) -> Self {
        TimeWait { snd_nxt, rcv_nxt, recent, expires: Time::ZERO, answered: None }
    }

    /// Returns true if a SYN belongs to a new connection, not to the old one: by its timestamp, or else by its
    /// sequence number (RFC 6191 section 3, RFC 9293 section 3.6.1).
    fn is_new(&self, p: &Packet) -> bool {
        let later = p.seq.wrapping_sub(self.rcv_nxt) as i32 > 0;
        match self.recent.filter(|_| p.has_timestamps()) {
            Some(recent) if p.tsval != recent => p.tsval.wrapping_sub(recent) as i32 > 0,
            _ => later,
        }
    }

    /// Returns the acknowledgment that repeats the end of the connection.
    pub(crate) fn acknowledgment(&self, now: Time) -> Packet {
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.seq, p.ack, p.flags) = (self.snd_nxt, self.rcv_nxt, flags::ACK);
        if let Some(recent) = self.recent {
            p.set_timestamps(now.as_millis() as u32, recent);
        }
        p.set_payload(0);
        p
    }
}

/// Action on a segment for a connection in TIME-WAIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimeWaitAction {
    Ignore,
    Acknowledge,
    /// A new connection replaces the old one, if a listener accepts it.
    Reopen,
}

/// All connections in TIME-WAIT, by the addresses of their outgoing segments.
#[derive(Debug)]
pub(crate) struct TimeWaits {
    capacity: usize,
    entries: BTreeMap<Addresses, TimeWait>,
    by_expiry: BTreeSet<(Time, Addresses)>,
}

impl TimeWaits {
    pub(crate) fn new(capacity: usize) -> Self {
        TimeWaits { capacity, entries: BTreeMap::new(), by_expiry: BTreeSet::new() }
    }

    pub(crate) fn get(&self, addresses: &Addresses) -> Option<&TimeWait> {
        self.entries.get(addresses)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a connection whose stream is in TIME-WAIT. Returns the number of entries evicted for it.
    pub(crate) fn take_over(&mut self, now: Time, stream: &Stream) -> u64 {
        let (snd_nxt, rcv_nxt, recent) = stream.endpoint().final_numbers();
        self.insert(now, stream.addresses(), TimeWait::new(snd_nxt, rcv_nxt, recent))
    }

    /// Adds a connection. Returns the number of entries evicted for it.
    fn insert(&mut self, now: Time, addresses: Addresses, entry: TimeWait) -> u64 {
        self.remove(&addresses);
        let mut evicted = 0;
        while self.entries.len() >= self.capacity.max(1)
            && let Some((_, first)) = self.by_expiry.pop_first()
        {
            self.entries.remove(&first);
            evicted += 1;
        }
        self.entries.insert(addresses, TimeWait { expires: now + TIME_WAIT, ..entry });
        self.by_expiry.insert((now + TIME_WAIT, addresses));
        evicted
    }

    pub(crate) fn remove(&mut self, addresses: &Addresses) {
        if let Some(entry) = self.entries.remove(addresses) {
            self.by_expiry.remove(&(entry.expires, *addresses));
        }
    }

    pub(crate) fn next_wake(&self) -> Time {
        self.by_expiry.first().map_or(Time::MAX, |first| first.0)
    }

    pub(crate) fn expire(&mut self, now: Time) {
        while self.next_wake() <= now
            && let Some((_, addresses)) = self.by_expiry.pop_first()
        {
            self.entries.remove(&addresses);
        }
    }

    /// Handles a segment for the connection with these addresses (RFC 9293 section 3.10.7.4), if one waits.
    /// Resets are ignored (RFC 1337). The peer's FIN restarts the wait. Answers are limited, as the peer may be in
    /// TIME-WAIT, too.
    pub(crate) fn receive(&mut self, now: Time, addresses: &Addresses, d: &Decoded) -> Option<TimeWaitAction> {
        let entry = self.entries.get_mut(addresses)?;
        let p = &d.packet;
        if p.is(flags::RST) {
            return Some(TimeWaitAction::Ignore);
        }
        if p.flags & (flags::SYN | flags::ACK | flags::FIN) == flags::SYN && entry.is_new(p) {
            return Some(TimeWaitAction::Reopen);
        }
        let fin = p.is(flags::FIN);
        let end = p.seq.wrapping_add(d.payload.len() as u32 + u32::from(fin));
        let old = entry.recent.is_some_and(|recent| p.has_timestamps() && (p.tsval.wrapping_sub(recent) as i32) < 0);
        if p.seq == entry.rcv_nxt && end == p.seq && !p.is(flags::SYN) && !old {
            return Some(TimeWaitAction::Ignore); // an acknowledgment of our FIN
        }
        if fin && end == entry.rcv_nxt && !old {
            self.by_expiry.remove(&(entry.expires, *addresses));
            entry.expires = now + TIME_WAIT;
            self.by_expiry.insert((entry.expires, *addresses));
        }
        if entry.answered.is_some_and(|last| now < last + ANSWER_INTERVAL) {
            return Some(TimeWaitAction::Ignore);
        }
        entry.answered = Some(now);
        Some(TimeWaitAction::Acknowledge)
    }
}

/// 2 MSL: the maximum segment lifetime is 30 s, as in Linux (`TCP_TIMEWAIT_LEN`).
pub(super) const TIME_WAIT: Time = Time::from_secs(60);
/// Least time between two answers (Linux `tcp_invalid_ratelimit`).
const ANSWER_INTERVAL: Time = Time::from_millis(500);
