//! The flows that pass a gateway: the options of their handshake, their RTT, which are active, when they are removed.
//!
//! The RTT is that of S. Jaiswal et al. (INFOCOM 2004), figure 11 of the PLC paper: from the SYN to the third segment of
//! the handshake, both seen here. All three cross both halves of the path, so it is the RTT between the ends whichever
//! side opens. It is taken once and never refreshed, as in the paper.
//!
//! A flow whose SYN was not seen passes unmodified: its window scale and RTT are unknown. So does one whose header is
//! signed (TCP-MD5, TCP-AO), whose window is shared (Multipath TCP), or for which the table has no room. Table and
//! work are bounded: a scan of the table happens at most about once per shortest timeout, or when a SYN finds it full.

use super::{Control, FlowStats, Heading, Key, Modem, Segment, Stats, before};
use crate::packet::{SynOptions, flags};
use crate::units::Time;
use crate::wire::IpPair;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters of the flow table. None of them is in the papers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// The most flows that are remembered.
    pub capacity: usize,
    /// A handshake that takes longer is removed, milliseconds.
    pub handshake_ms: u64,
    /// RTT estimates below this count as this, milliseconds.
    pub min_rtt_ms: u64,
    /// A flow with a longer RTT is left alone, milliseconds.
    pub max_rtt_ms: u64,
    /// A flow without inward data is inactive after this, milliseconds, or after `inactive_rtts`, whichever is longer.
    pub inactive_ms: u64,
    /// RTTs without inward data after which a flow is inactive; see `inactive_ms`.
    pub inactive_rtts: u32,
    /// RTTs after which a flow is removed when both ends have closed.
    pub closed_rtts: u32,
    /// A flow that one end has closed is removed after this without a segment, milliseconds.
    pub half_closed_ms: u64,
    /// Any other flow is removed after this without a segment, milliseconds.
    pub idle_ms: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            capacity: 1024,
            handshake_ms: 30_000,
            min_rtt_ms: 1,
            max_rtt_ms: 3_000,
            inactive_ms: 1_000,
            inactive_rtts: 4,
            closed_rtts: 2,
            half_closed_ms: 60_000,
            idle_ms: 300_000,
        }
    }
}

impl Params {
    /// Refuses values that make no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.capacity == 0 {
            return Err("table: capacity must be at least 1; a gateway without a flow table does nothing".into());
        }
        let times = [self.handshake_ms, self.max_rtt_ms, self.inactive_ms, self.half_closed_ms, self.idle_ms];
        if self.min_rtt_ms == 0 || self.max_rtt_ms < self.min_rtt_ms {
            Err("table: min_rtt_ms must be at least 1 and not exceed max_rtt_ms".into())
        } else if times.iter().any(|&ms| ms == 0 || ms > DAY_MS) {
            Err("table: a timeout must be from 1 ms to a day".into())
        } else {
            Ok(())
        }
    }
}

/// The phase of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The SYN has passed; the third segment of the handshake has not.
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

/// What the table counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Flows whose handshake was seen to its end.
    pub established: u64,
    /// Flows whose beginning was not seen.
    pub mid_stream: u64,
    /// Flows left alone for their signature.
    pub signed: u64,
    /// Flows left alone for Multipath TCP.
    pub multipath: u64,
    /// Flows left alone for their long RTT.
    pub slow: u64,
    /// Handshakes that did not end in time.
    pub unfinished: u64,
    /// Inactive flows that were evicted for a new one.
    pub evicted: u64,
    /// Flows whose ports were used again.
    pub replaced: u64,
    /// Segments of flows that did not fit into the table.
    pub untracked: u64,
}

/// One end of a flow, as its segments show it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    /// Options of its SYN, and the sequence numbers of that and after it.
    syn: Option<SynOptions>,
    syn_range: Option<(u32, u32)>,
    /// The sequence number after what it has sent, as far as the window allowed it.
    pub next: Option<u32>,
    /// The right edge of the windows it has advertised: the highest acknowledgement plus window.
    right: Option<u32>,
    /// The highest acknowledgement it has sent, and the newest window field that came with it, as it was sent.
    pub ack: Option<(u32, u16)>,
    pub timestamps: Option<(u32, u32)>,
    /// The sequence number after its FIN.
    pub fin: Option<u32>,
}

/// A flow, with what the gateway keeps of it.
#[derive(Clone, Debug)]
pub(super) struct Flow<S> {
    pub phase: Phase,
    pub rtt: Option<Time>,
    pub ambiguous: bool,
    /// Inward data passed lately and will go on: it shares the rough link.
    pub active: bool,
    /// Segments whose window was changed.
    pub rewritten: u64,
    pub state: S,
    /// The ends, by the heading of what they send.
    ends: [End; 2],
    /// The heading of the SYN.
    opener: Heading,
    /// First SYN, last SYN, and the last before the SYN-ACK.
    opened: Time,
    syn_at: Time,
    answered_syn_at: Option<Time>,
    last_seen: Time,
    last_data: Option<Time>,
    /// Bytes of the largest inward segment.
    largest: u32,
    /// Both ends have sent a FIN.
    closed: Option<Time>,
    /// The FIN of the end outside is acknowledged: no more data come in.
    finished: bool,
}

/// The result of [`Flows::observe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// The flow became active with this segment.
    pub activated: bool,
    /// Its acknowledgement number is higher than any before.
    pub advanced: bool,
    /// It acknowledges data that may have been sent: that were seen, or for which there was room in the window. What it
    /// advertises is accepted.
    pub credible: bool,
}

/// The flow table. Keys are those of the inward direction.
#[derive(Clone, Debug)]
pub(super) struct Flows<S> {
    params: Params,
    map: BTreeMap<Key, Flow<S>>,
    next_expiry: Time,
    /// How often a flow became active, and stopped being so.
    pub entered: u64,
    pub left: u64,
    pub counters: Counters,
}

impl<S: Default> Flows<S> {
    pub fn new(params: Params) -> Self {
        Flows {
            params,
            map: BTreeMap::new(),
            next_expiry: Time::MAX,
            entered: 0,
            left: 0,
            counters: Counters::default(),
        }
    }
    pub fn get(&self, key: &Key) -> Option<&Flow<S>> {
        self.map.get(key)
    }
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Flow<S>> {
        self.map.get_mut(key)
    }
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Flow<S>)> {
        self.map.iter()
    }
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Flow<S>)> {
        self.map.iter_mut()
    }
    /// The numbers of all flows; `control` are those of a flow's state.
    pub fn stats(&self, modem: Option<&dyn Modem>, control: impl Fn(&S) -> Option<Control>) -> Stats {
        let occupied = modem.map_or(0, Modem::occupied);
        let share = |key: &Key| match modem {
            Some(m) if occupied > 0 => f64::from(m.backlog(key)) / f64::from(occupied),
            _ => 0.0,
        };
        let of = |(key, flow): (&Key, &Flow<S>)| FlowStats {
            key: *key,
            phase: flow.phase,
            active: flow.active,
            rtt: flow.rtt,
            ambiguous: flow.ambiguous,
            queue_share: share(key),
            rewritten: flow.rewritten,
            control: control(&flow.state),
        };
        Stats { flows: self.map.iter().map(of).collect(), counters: self.counters, originated: 0 }
    }
    /// When [`Flows::expire`] may have something to do.
    pub fn next_expiry(&self) -> Time {
        self.next_expiry
    }

    /// Processes a segment, before it is changed.
    pub fn observe(&mut self, now: Time, heading: Heading, s: &Segment) -> Seen {
        self.expire(now);
        let key = inward(heading, s.key);
        if s.is(flags::SYN) && !s.is(flags::RST) {
            self.on_syn(now, heading, key, s);
        } else if !self.map.contains_key(&key) {
            self.on_stranger(now, heading, key, s);
        }
        let Some(flow) = self.map.get_mut(&key) else { return Seen::default() };
        if s.is(flags::RST) {
            if flow.in_window(heading, s.seq) {
                self.remove(&key);
            }
            return Seen::default();
        }
        flow.last_seen = now;
        if s.signed || s.multipath {
            let was = flow.active;
            flow.exclude(s, &mut self.counters);
            self.left += u64::from(was);
        }
        if !s.is(flags::SYN) && flow.phase == Phase::Handshake && heading == flow.opener {
            flow.on_third(now, s, &self.params, &mut self.counters);
        }
        let mut seen = flow.track(now, heading, s);
        if flow.finished && flow.active {
            flow.active = false;
            self.left += 1;
        }
        if heading == Heading::Inward && s.payload > 0 && !s.is(flags::SYN) {
            flow.last_data = Some(now);
            flow.largest = flow.largest.max(s.payload);
            if flow.phase == Phase::Established && !flow.active && !flow.finished {
                flow.active = true;
                seen.activated = true;
                self.entered += 1;
            }
        }
        self.next_expiry = self.next_expiry.min(flow.deadline(&self.params));
        seen
    }

    /// Removes what has timed out.
    pub fn expire(&mut self, now: Time) {
        if now < self.next_expiry {
            return;
        }
        let (p, mut next) = (&self.params, Time::MAX);
        let (left, unfinished) = (&mut self.left, &mut self.counters.unfinished);
        self.map.retain(|_, flow| {
            let stay = now < flow.end(p);
            if flow.active && (!stay || now >= flow.inactive_at(p)) {
                flow.active = false;
                *left += 1;
            }
            *unfinished += u64::from(!stay && flow.phase == Phase::Handshake);
            if stay {
                next = next.min(flow.deadline(p));
            }
            stay
        });
        self.next_expiry = next;
    }

    fn on_syn(&mut self, now: Time, heading: Heading, key: Key, s: &Segment) {
        let known = self.map.get_mut(&key);
        if s.is(flags::ACK) {
            // A SYN-ACK belongs to the handshake that it answers, or to none.
            if let Some(flow) = known.filter(|f| f.phase == Phase::Handshake && f.opener != heading) {
                let (first, end) = flow.ends[flow.opener as usize].syn_range.expect("a handshake begins with a SYN");
                if s.ack.wrapping_sub(first) <= end.wrapping_sub(first) && s.ack != first {
                    flow.ambiguous |= flow.answered_syn_at.is_some();
                    flow.answered_syn_at = Some(flow.syn_at);
                    flow.ends[heading as usize] = End::of_syn(s);
                }
            }
            return;
        }
        let range = Some((s.seq, s.end()));
        if let Some(flow) = known.filter(|f| f.opener == heading && f.ends[heading as usize].syn_range == range) {
            if flow.phase == Phase::Handshake {
                flow.syn_at = now;
                flow.ambiguous = true;
            }
            return;
        }
        if self.map.contains_key(&key) {
            self.counters.replaced += 1;
            self.remove(&key);
        }
        if self.map.len() >= self.params.capacity && !self.evict() {
            self.counters.untracked += 1;
            return;
        }
        let mut flow = Flow::new(Phase::Handshake, heading, now);
        flow.ends[heading as usize] = End::of_syn(s);
        self.map.insert(key, flow);
    }

    /// A segment of a flow that is not in the table.
    fn on_stranger(&mut self, now: Time, heading: Heading, key: Key, s: &Segment) {
        if self.map.len() >= self.params.capacity {
            self.counters.untracked += 1; // it evicts no flow: a SYN may
        } else if heading == Heading::Inward && s.payload > 0 && !s.is(flags::RST) {
            self.counters.mid_stream += 1;
            self.map.insert(key, Flow::new(Phase::MidStream, heading, now));
        }
    }

    /// Removes the flow that has been inactive for longest, if there is one.
    fn evict(&mut self) -> bool {
        let oldest = self.map.iter().filter(|(_, f)| !f.active).min_by_key(|(_, f)| f.last_seen).map(|(&key, _)| key);
        let Some(key) = oldest else { return false };
        self.counters.evicted += 1;
        self.remove(&key);
        true
    }

    fn remove(&mut self, key: &Key) {
        let active = self.map.remove(key).is_some_and(|f| f.active);
        self.left += u64::from(active);
    }
}

impl End {
    fn of_syn(s: &Segment) -> Self {
        End { syn: s.syn, syn_range: Some((s.seq, s.end())), next: Some(s.end()), ..End::default() }
    }
}

impl<S: Default> Flow<S> {
    fn new(phase: Phase, opener: Heading, now: Time) -> Self {
        Flow {
            phase,
            rtt: None,
            ambiguous: false,
            active: false,
            rewritten: 0,
            state: S::default(),
            ends: Default::default(),
            opener,
            opened: now,
            syn_at: now,
            answered_syn_at: None,
            last_seen: now,
            last_data: None,
            largest: 0,
            closed: None,
            finished: false,
        }
    }
}

impl<S> Flow<S> {
    /// The end whose segments travel `heading`.
    pub fn end_of(&self, heading: Heading) -> &End {
        &self.ends[heading as usize]
    }

    /// Whether data have come in.
    pub fn has_data(&self) -> bool {
        self.last_data.is_some()
    }

    /// Whether no more data come in: the end outside has closed, and that is acknowledged.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether its window must not be touched.
    pub fn excluded(&self) -> bool {
        matches!(self.phase, Phase::Signed | Phase::Multipath)
    }

    /// The shift of the window field of segments that travel `heading`, other than SYNs: the one that their sender
    /// announced, if both ends did (RFC 7323 section 2.2).
    pub fn shift(&self, heading: Heading) -> u8 {
        let scale = |h: Heading| self.ends[h as usize].syn.and_then(|o| o.window_scale);
        match (scale(heading), scale(heading.opposite())) {
            (Some(shift), Some(_)) => shift.min(MAX_SHIFT),
            _ => 0,
        }
    }

    /// Payload bytes of a full segment: the smaller MSS announced, less the timestamps if both ends use them. A MSS that
    /// was not announced is the default, or the largest segment that came in: simulated stacks announce none.
    pub fn mss(&self, key: &Key) -> u32 {
        // RFC 9293 section 3.7.1.
        let default = match key {
            Key::Real(a) if matches!(a.ip, IpPair::V6 { .. }) => 1220,
            _ => 536,
        };
        let syns = self.ends.each_ref().map(|e| e.syn.unwrap_or_default());
        let options = if syns.iter().all(|o| o.timestamps) { TIMESTAMPS } else { 0 };
        let [a, b] = syns.map(|o| if o.mss == 0 { default } else { u32::from(o.mss) });
        let mss = a.min(b).saturating_sub(options).max(1);
        if syns.iter().any(|o| o.mss == 0) { mss.max(self.largest) } else { mss }
    }

    /// The third segment of the handshake, maybe: the first of the opener that acknowledges the SYN-ACK.
    fn on_third(&mut self, now: Time, s: &Segment, p: &Params, counters: &mut Counters) {
        let answer = self.ends[self.opener.opposite() as usize].syn_range;
        let (Some((first, _)), Some(syn_at)) = (answer, self.answered_syn_at) else { return };
        if !s.is(flags::ACK) || s.ack != first.wrapping_add(1) {
            return;
        }
        let rtt = now.saturating_sub(syn_at);
        self.rtt = Some(rtt.clamp(Time::from_millis(p.min_rtt_ms), Time::from_millis(p.max_rtt_ms)));
        if rtt > Time::from_millis(p.max_rtt_ms) {
            self.phase = Phase::Slow;
            counters.slow += 1;
        } else {
            self.phase = Phase::Established;
            counters.established += 1;
        }
    }

    fn exclude(&mut self, s: &Segment, counters: &mut Counters) {
        if self.excluded() {
            return;
        }
        self.active = false;
        if s.signed {
            self.phase = Phase::Signed;
            counters.signed += 1;
        } else {
            self.phase = Phase::Multipath;
            counters.multipath += 1;
        }
    }

    /// Follows sequence and acknowledgement numbers, and the closing of both ends.
    fn track(&mut self, now: Time, heading: Heading, s: &Segment) -> Seen {
        let mut seen = Seen::default();
        if s.is(flags::FIN) && self.in_window(heading, s.end().wrapping_sub(1)) {
            self.ends[heading as usize].fin = Some(s.end());
        }
        let reached = self.reached(heading, s);
        let end = &mut self.ends[heading as usize];
        if reached.is_some_and(|r| end.next.is_none_or(|next| before(next, r))) {
            end.next = reached;
        }
        if s.timestamps.is_some() {
            end.timestamps = s.timestamps;
        }
        let (peer, shift) = (self.ends[heading.opposite() as usize], self.shift(heading));
        // Not all that was sent was seen to its end: a first fragment shows only the beginning of its segment, and
        // there may be another path. But nothing was sent for which there was no room.
        let room = self.ends[heading as usize].right.filter(|_| self.scaled());
        let sent = |ack| peer.next.is_none_or(|next| !before(next, ack));
        seen.credible = s.is(flags::ACK) && (sent(s.ack) || room.is_some_and(|right| !before(right, s.ack)));
        if seen.credible {
            let end = &mut self.ends[heading as usize];
            let shift = if s.is(flags::SYN) { 0 } else { shift };
            let right = s.ack.wrapping_add(u32::from(s.window) << shift);
            if end.right.is_none_or(|r| before(r, right)) {
                end.right = Some(right);
            }
            seen.advanced = end.ack.is_some_and(|(ack, _)| before(ack, s.ack));
            // The window of a SYN is never scaled (RFC 7323 section 2.2): not to be repeated by another segment.
            if s.is(flags::SYN) {
                return seen;
            }
            if seen.advanced || end.ack.is_none_or(|(ack, _)| ack == s.ack) {
                end.ack = Some((s.ack, s.window));
            }
            if heading == Heading::Outward && peer.fin.is_some_and(|fin| !before(s.ack, fin)) {
                self.finished = true;
            }
        }
        if self.closed.is_none() && self.ends.iter().all(|e| e.fin.is_some()) {
            self.closed = Some(now);
        }
        seen
    }

    /// The sequence number after the part of `s` that its receiver takes (RFC 9293 section 3.10.7.4): what begins in the window
    /// that was offered, to the window's end; a probe of a closed window is a byte beyond. `None` if there is none.
    fn reached(&self, heading: Heading, s: &Segment) -> Option<u32> {
        match self.ends[heading.opposite() as usize].right.filter(|_| self.scaled()) {
            None => Some(s.end()),
            Some(right) if before(right, s.seq) => None,
            Some(right) => Some(if before(right, s.end()) { right.wrapping_add(1) } else { s.end() }),
        }
    }

    /// Whether the scale of its windows is known: both SYNs were seen.
    fn scaled(&self) -> bool {
        self.ends.iter().all(|e| e.syn_range.is_some())
    }

    /// Whether `seq` lies in the window that the other end has offered, as far as that is known.
    fn in_window(&self, heading: Heading, seq: u32) -> bool {
        let other = heading.opposite();
        self.ends[other as usize]
            .ack
            .is_none_or(|(ack, window)| seq.wrapping_sub(ack) <= u32::from(window) << self.shift(other))
    }

    fn inactive_at(&self, p: &Params) -> Time {
        let rtts = self.rtt.map_or(Time::ZERO, |rtt| Time(rtt.0.saturating_mul(u64::from(p.inactive_rtts))));
        self.last_data.unwrap_or(Time::ZERO).saturating_add(Time::from_millis(p.inactive_ms).max(rtts))
    }

    /// When it is removed if nothing more passes.
    fn end(&self, p: &Params) -> Time {
        if self.phase == Phase::Handshake {
            return self.opened.saturating_add(Time::from_millis(p.handshake_ms));
        }
        if let Some(closed) = self.closed {
            let rtt = self.rtt.unwrap_or(Time::from_millis(p.inactive_ms));
            return closed.saturating_add(Time(rtt.0.saturating_mul(u64::from(p.closed_rtts))));
        }
        let half_closed = self.ends.iter().any(|e| e.fin.is_some());
        self.last_seen.saturating_add(Time::from_millis(if half_closed { p.half_closed_ms } else { p.idle_ms }))
    }

    /// When something about it changes if nothing more passes.
    fn deadline(&self, p: &Params) -> Time {
        let end = self.end(p);
        if self.active { end.min(self.inactive_at(p)) } else { end }
    }
}

/// The key of the inward direction.
pub(super) fn inward(heading: Heading, key: Key) -> Key {
    match heading {
        Heading::Inward => key,
        Heading::Outward => key.reversed(),
    }
}

const MAX_SHIFT: u8 = 14; // RFC 7323 section 2.3
const TIMESTAMPS: u32 = 12; // with the padding that everyone sends (RFC 7323 appendix A)
const DAY_MS: u64 = 86_400_000;

#[cfg(test)]
mod tests;
