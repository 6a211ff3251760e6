//! Table of the flows that pass a gateway: handshake options, RTT, activity and expiry.
//!
//! The RTT is the time from the SYN to the third segment of the handshake, both seen at the gateway (S. Jaiswal et al.,
//! INFOCOM 2004; figure 11 of the PLC paper): the RTT between the ends, whichever side opens. A flow is measured once.
//!
//! Some flows pass unmodified: flows without room in the table and, except in [`super::avoca_rx`], flows whose SYN was
//! not seen, because their window scale and RTT are unknown. A flow also passes unmodified while the latest segment of
//! either end is signed (TCP-MD5, TCP-AO) or belongs to Multipath TCP, whose subflows share one window.
//!
//! **Forged segments.** A segment changes the state of a flow only if the windows of both ends admit it ([`flow`]). One
//! end alone proves nothing. A SYN creates a separate entry beside the flow with the same addresses and ports, and
//! replaces it when the third segment of the handshake has passed. The first segment of a flow whose SYN was not seen
//! also creates an entry, which an answer must confirm. Unconfirmed entries have separate parts of the table, one for
//! handshakes and one for the others, where the oldest is evicted. A confirmed flow evicts only the flow inactive for
//! longest. A flood of SYNs thus competes only with handshakes, as with SYN cookies (RFC 4987 section 3.6), but a
//! gateway must keep the options.
//!
//! **Cost.** Lookup, insertion and eviction cost O(log n). A flow has one timer and one place in the order of eviction,
//! which segments do not update. An entry that reaches the front too early is moved back, at most once per segment.

mod flow;
mod params;
#[cfg(test)]
mod tests;

pub use flow::{FlowEnd, WatchedFlow};
pub use params::Params;

use super::{Control, FlowKey, FlowStats, Heading, Modem, Segment, Stats};
use crate::packet::flags;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The phase of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowPhase {
    /// The SYN has passed, but the third segment of the handshake has not.
    Handshake,
    /// The handshake has passed, and the RTT is known.
    Established,
    /// No SYN was seen: window scale and RTT are unknown.
    MidStream,
    /// TCP-MD5 or TCP-AO.
    Signed,
    /// Multipath TCP.
    Multipath,
    /// The handshake took longer than `max_rtt_ms`.
    Slow,
}

/// Counters of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FlowTableCounters {
    /// Flows with a complete handshake.
    pub established: u64,
    /// Flows whose SYN was not seen, confirmed by both ends.
    pub mid_stream: u64,
    /// Number of times a flow was left unmodified because it is signed.
    pub signed: u64,
    /// Number of times a flow was left unmodified because of Multipath TCP.
    pub multipath: u64,
    /// Flows left unmodified because of a long RTT.
    pub slow: u64,
    /// Handshakes that timed out or were evicted by newer ones.
    pub unfinished: u64,
    /// Inactive flows evicted for a new one.
    pub evicted: u64,
    /// Flows replaced by a new connection with the same ports.
    pub replaced: u64,
    /// Segments of flows that did not fit into the table.
    pub untracked: u64,
}

/// Identifier of an entry. A flow is identified by its key (of the inward direction). A handshake with the same
/// addresses and ports is identified by the heading and the sequence number of its SYN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id {
    /// Addresses and ports of the inward direction.
    pub key: FlowKey,
    handshake: Option<(Heading, u32)>,
}

impl Id {
    /// Returns the identifier of the flow of `key`.
    pub const fn new(key: FlowKey) -> Self {
        Id { key, handshake: None }
    }
}

/// The result of [`Flows::observe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observation {
    /// Flow of the segment, if the windows of both ends admit the segment.
    pub flow: Option<Id>,
    /// True if the segment is admitted and carries an ACK, so that its window counts.
    pub credible: bool,
    /// True if this segment made the flow active.
    pub activated: bool,
    /// True if the acknowledgment number is higher than all before.
    pub advanced: bool,
}

/// The parts of the table, each for `capacity` entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TablePart {
    Handshakes,
    /// Flows whose SYN was not seen and to which the other end has not answered.
    Unanswered,
    Flows,
}

/// The flow table.
#[derive(Clone, Debug)]
pub struct Flows<S> {
    params: Params,
    map: BTreeMap<Id, WatchedFlow<S>>,
    /// Latest confirmed flows that have left the table, in order of removal.
    ended: VecDeque<(FlowKey, WatchedFlow<S>)>,
    /// Entries that may be evicted, by part. Unconfirmed entries are ordered by the time of their first segment,
    /// inactive flows by a time at or before their last segment.
    order: [BTreeSet<(Time, Id)>; 3],
    /// Every entry, by a time at or before its deadline.
    timers: BTreeSet<(Time, Id)>,
    next_expiry: Time,
    /// Number of times a flow became active.
    pub activations: u64,
    /// Number of times a flow became inactive.
    pub deactivations: u64,
    /// Counters.
    pub counters: FlowTableCounters,
    /// Number of entries examined in searches for one to expire or evict.
    #[cfg(test)]
    pub steps: u64,
}

impl<S: Default> Flows<S> {
    /// Creates an empty table.
    pub fn new(params: Params) -> Self {
        Flows {
            params,
            map: BTreeMap::new(),
            ended: VecDeque::new(),
            order: Default::default(),
            timers: BTreeSet::new(),
            next_expiry: Time::MAX,
            activations: 0,
            deactivations: 0,
            counters: FlowTableCounters::default(),
            #[cfg(test)]
            steps: 0,
        }
    }
    /// Returns the flow of `key`.
    pub fn get(&self, key: &FlowKey) -> Option<&WatchedFlow<S>> {
        self.map.get(&Id::new(*key))
    }
    /// Returns the entry `id`.
    pub fn get_mut(&mut self, id: &Id) -> Option<&mut WatchedFlow<S>> {
        self.map.get_mut(id)
    }
    /// Iterates over all flows and handshakes.
    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, &WatchedFlow<S>)> {
        self.map.iter().map(|(id, flow)| (&id.key, flow))
    }
    /// Iterates mutably over all flows and handshakes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&FlowKey, &mut WatchedFlow<S>)> {
        self.map.iter_mut().map(|(id, flow)| (&id.key, flow))
    }
    /// Returns statistics of all flows, with `control` applied to each state; of a key's entries only the first counts.
    pub fn stats(&self, modem: Option<&dyn Modem>, control: impl Fn(&S) -> Option<Control>) -> Stats {
        let occupied = modem.map_or(0, Modem::total_backlog);
        let share = |key: &FlowKey| match modem {
            Some(m) if occupied > 0 => f64::from(m.backlog(key)) / f64::from(occupied),
            _ => 0.0,
        };
        let mut last = None;
        let firsts = self.iter().filter(|&(key, _)| last.replace(*key) != Some(*key));
        let stats_of = |(key, flow): (&FlowKey, &WatchedFlow<S>)| flow.stats(*key, share(key), control(&flow.state));
        Stats { flows: firsts.map(stats_of).collect(), counters: self.counters, ..Stats::default() }
    }
    /// Returns statistics of the latest 1000 confirmed flows that have left the table, the latest last.
    pub fn ended(&self, control: impl Fn(&S) -> Option<Control>) -> Vec<FlowStats> {
        let of = |(key, flow): &(FlowKey, WatchedFlow<S>)| FlowStats {
            active: false,
            ..flow.stats(*key, 0.0, control(&flow.state))
        };
        self.ended.iter().map(of).collect()
    }
    /// Returns the time of the next call of [`Flows::expire`].
    pub fn next_expiry(&self) -> Time {
        self.next_expiry
    }

    /// Processes a segment before the gateway changes it.
    pub fn observe(&mut self, now: Time, heading: Heading, s: &Segment) -> Observation {
        self.expire(now);
        let key = inward(heading, s.key);
        if s.is(flags::RST) {
            self.on_reset(heading, key, s);
            return Observation::default();
        }
        let id = match (s.is(flags::SYN), s.is(flags::ACK)) {
            (true, false) => self.on_syn(now, heading, key, s),
            (true, true) => self.on_syn_ack(heading, key, s),
            (false, _) => self.on_other(now, heading, key, s),
        };
        let Some(id) = id else { return Observation::default() };
        let flow = self.map.get_mut(&id).expect("it was found");
        let advanced = flow.track(now, heading, s);
        if TablePart::for_flow(&id, flow) == TablePart::Unanswered && !self.confirm(id) {
            return Observation::default();
        }
        let activated = self.settle(id, heading == Heading::Inward && s.payload > 0 && !s.is(flags::SYN));
        Observation { flow: Some(id), credible: s.is(flags::ACK), activated, advanced }
    }

    /// Removes expired entries.
    pub fn expire(&mut self, now: Time) {
        if now < self.next_expiry {
            return;
        }
        while let Some(&(at, id)) = self.timers.first() {
            self.step();
            let p = &self.params;
            let flow = self.map.get_mut(&id).expect("a timer belongs to an entry");
            if now >= flow.end(p) {
                self.counters.unfinished += u64::from(flow.known == FlowPhase::Handshake);
                self.end(&id);
                continue;
            }
            if flow.active && now >= flow.inactive_at(p) {
                flow.active = false;
                flow.queued = Some(flow.last_seen);
                self.order[TablePart::Flows as usize].insert((flow.last_seen, id));
                self.deactivations += 1;
            }
            let deadline = flow.deadline(p);
            if at == deadline {
                break;
            }
            flow.due = deadline;
            self.timers.remove(&(at, id));
            self.timers.insert((deadline, id));
        }
        self.next_expiry = self.timers.first().map_or(Time::MAX, |&(at, _)| at);
    }

    fn on_reset(&mut self, heading: Heading, key: FlowKey, s: &Segment) {
        let flow = Id::new(key);
        let opened = self.handshake(key, heading, s.seq);
        let refused = self.handshake(key, heading.opposite(), s.ack);
        if self.map.get(&flow).is_some_and(|f| f.ends_with(heading, s)) {
            self.end(&flow);
        } else if let Some(id) = opened.filter(|id| self.map[id].ends_with(heading, s)) {
            self.take(&id);
        } else if let Some(id) = refused.filter(|id| self.map[id].is_refused_by(heading, s)) {
            self.take(&id);
        } else if !self.map.contains_key(&flow) {
            self.has_place();
        }
    }

    fn on_syn(&mut self, now: Time, heading: Heading, key: FlowKey, s: &Segment) -> Option<Id> {
        if self.get(&key).is_some_and(|f| f.began_with(heading, s)) {
            return None; // a late copy of the flow's SYN
        }
        let id = Id { key, handshake: Some((heading, s.seq)) };
        if let Some(flow) = self.map.get_mut(&id).filter(|f| f.began_with(heading, s)) {
            flow.on_syn_again(now);
            return Some(id);
        }
        self.enter(id, WatchedFlow::from_syn(now, heading, s))
    }

    fn on_syn_ack(&mut self, heading: Heading, key: FlowKey, s: &Segment) -> Option<Id> {
        let id = self.handshake(key, heading.opposite(), s.ack)?;
        self.map.get_mut(&id).expect("it was found").on_syn_ack(heading, s).then_some(id)
    }

    fn on_other(&mut self, now: Time, heading: Heading, key: FlowKey, s: &Segment) -> Option<Id> {
        let id = Id::new(key);
        if let Some(third) = self.handshake(key, heading, s.seq).filter(|id| self.map[id].is_third(heading, s)) {
            // In a simultaneous open (RFC 9293 section 3.5), both ends complete a handshake of the same connection.
            if !self.map.get(&id).is_some_and(|flow| flow.has_numbers_of(&self.map[&third])) {
                return self.establish(now, third);
            }
            self.take(&third);
        }
        let flow = self.map.get(&id);
        if flow.is_some_and(|f| f.admits(heading, s)) {
            return Some(id);
        }
        let early = self.handshake(key, heading.opposite(), s.ack);
        if early.is_some_and(|id| self.map[&id].was_answered() && self.map[&id].admits(heading, s)) {
            return early; // the passive end sends before the third segment has passed
        }
        if flow.is_some_and(|f| f.confirmed) || flow.is_none() && !self.has_place() {
            return None;
        }
        // A new flow whose SYN was not seen; it may replace an unanswered one.
        let data = heading == Heading::Inward && s.payload > 0 && s.is(flags::ACK);
        if data { self.enter(id, WatchedFlow::new(FlowPhase::MidStream, heading, now)) } else { None }
    }

    /// Finds the newest handshake whose SYN has heading `opener` and a sequence number before `number`.
    fn handshake(&self, key: FlowKey, opener: Heading, number: u32) -> Option<Id> {
        if self.order[TablePart::Handshakes as usize].is_empty() {
            return None;
        }
        let id = |seq| Id { key, handshake: Some((opener, seq)) };
        let last = number.wrapping_sub(1);
        let before = self.map.range(id(0)..=id(last)).next_back();
        let found = before.or_else(|| self.map.range(id(last)..=id(u32::MAX)).next_back());
        found.map(|(&id, _)| id)
    }

    /// Processes the third segment of handshake `id`, which becomes the flow of its key.
    fn establish(&mut self, now: Time, id: Id) -> Option<Id> {
        let mut flow = self.take(&id).expect("it was found");
        let id = Id::new(id.key);
        self.counters.replaced += u64::from(self.end(&id));
        if self.flows() >= self.params.capacity && !self.evict(TablePart::Flows) {
            self.counters.untracked += 1;
            return None;
        }
        flow.establish(now, &self.params, &mut self.counters);
        self.insert(id, flow);
        Some(id)
    }

    /// Confirms the unanswered flow `id` if both ends have sent an admitted segment. Returns false if it was removed.
    fn confirm(&mut self, id: Id) -> bool {
        if !self.map[&id].both_sent() {
            return true;
        }
        let mut flow = self.take(&id).expect("it was found");
        if !self.has_place() {
            return false; // only a complete handshake may evict a flow
        }
        self.counters.mid_stream += 1;
        flow.confirmed = true;
        self.insert(id, flow);
        true
    }

    /// Updates flow `id` after a segment, with inward `data` or without. Returns true if the flow became active.
    fn settle(&mut self, id: Id, data: bool) -> bool {
        let flow = self.map.get_mut(&id).expect("it was found");
        let was = flow.active;
        flow.active = flow.phase() == FlowPhase::Established && !flow.finished() && (was || data);
        if flow.active && !was {
            self.activations += 1;
            let at = flow.queued.take().expect("an inactive flow may be evicted");
            self.order[TablePart::Flows as usize].remove(&(at, id));
        } else if was && !flow.active {
            self.deactivations += 1;
            flow.queued = Some(flow.last_seen);
            self.order[TablePart::Flows as usize].insert((flow.last_seen, id));
        }
        let left_alone = flow.confirmed && flow.excluded();
        if left_alone && !flow.left_alone {
            self.counters.signed += u64::from(flow.phase() == FlowPhase::Signed);
            self.counters.multipath += u64::from(flow.phase() == FlowPhase::Multipath);
        }
        flow.left_alone = left_alone;
        let deadline = flow.deadline(&self.params);
        if deadline < flow.due {
            self.timers.remove(&(flow.due, id));
            self.timers.insert((deadline, id));
            flow.due = deadline;
        }
        self.next_expiry = self.next_expiry.min(deadline);
        !was && flow.active
    }

    fn enter(&mut self, id: Id, flow: WatchedFlow<S>) -> Option<Id> {
        self.take(&id);
        let part = TablePart::for_flow(&id, &flow);
        if self.order[part as usize].len() >= self.params.capacity && !self.evict(part) {
            return None;
        }
        self.insert(id, flow);
        Some(id)
    }

    /// Removes the oldest entry of `part`; of confirmed flows, the one that was inactive for longest. Returns false if
    /// `part` has no entries.
    fn evict(&mut self, part: TablePart) -> bool {
        while let Some(&(at, id)) = self.order[part as usize].first() {
            self.step();
            let flow = self.map.get_mut(&id).expect("it has a place in the order");
            let rank = flow.rank();
            if at == rank {
                self.counters.evicted += u64::from(part == TablePart::Flows);
                self.counters.unfinished += u64::from(part == TablePart::Handshakes);
                self.end(&id);
                return true;
            }
            flow.queued = Some(rank);
            self.order[part as usize].remove(&(at, id));
            self.order[part as usize].insert((rank, id));
        }
        false
    }

    fn flows(&self) -> usize {
        let [handshakes, unanswered, _] = self.order.each_ref().map(BTreeSet::len);
        self.map.len() - handshakes - unanswered
    }

    /// Returns true if a flow fits without evicting one. If not, counts the segment as untracked.
    fn has_place(&mut self) -> bool {
        let place = self.flows() < self.params.capacity;
        self.counters.untracked += u64::from(!place);
        place
    }

    fn insert(&mut self, id: Id, mut flow: WatchedFlow<S>) {
        flow.due = flow.deadline(&self.params);
        flow.queued = Some(flow.rank());
        self.timers.insert((flow.due, id));
        self.order[TablePart::for_flow(&id, &flow) as usize].insert((flow.rank(), id));
        self.map.insert(id, flow);
    }

    /// Removes an entry and remembers it if it is a confirmed flow. Returns false if there is no entry.
    fn end(&mut self, id: &Id) -> bool {
        let Some(flow) = self.take(id) else { return false };
        if flow.confirmed {
            if self.ended.len() >= MAX_ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back((id.key, flow));
        }
        true
    }

    fn take(&mut self, id: &Id) -> Option<WatchedFlow<S>> {
        let flow = self.map.remove(id)?;
        self.timers.remove(&(flow.due, *id));
        if let Some(at) = flow.queued {
            self.order[TablePart::for_flow(id, &flow) as usize].remove(&(at, *id));
        }
        self.deactivations += u64::from(flow.active);
        Some(flow)
    }

    fn step(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

impl TablePart {
    fn for_flow<S>(id: &Id, flow: &WatchedFlow<S>) -> Self {
        match (id.handshake, flow.confirmed) {
            (Some(_), _) => TablePart::Handshakes,
            (None, false) => TablePart::Unanswered,
            (None, true) => TablePart::Flows,
        }
    }
}

/// Number of flows remembered after their removal.
const MAX_ENDED: usize = 1000;

/// Returns the key of the inward direction.
pub(super) fn inward(heading: Heading, key: FlowKey) -> FlowKey {
    match heading {
        Heading::Inward => key,
        Heading::Outward => key.reversed(),
    }
}
