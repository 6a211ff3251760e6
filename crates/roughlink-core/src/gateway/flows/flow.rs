//! State of a flow: both ends, as their segments show them, and the rules by which segments change it. Segments can be
//! forged, so only those count that begin in the window offered by the other end and acknowledge data that it may have
//! sent. The four bounds are netfilter's (G. van Rooij, Real stateful TCP packet filtering in IP Filter, 2001). A RST
//! needs the exact number (RFC 5961 section 3.2). A FIN counts when the other end has acknowledged it and no data was
//! sent after it. An attacker that knows a flow's numbers, or forges both ends, cannot be detected.

use super::{FlowPhase, FlowTableCounters, Params};
use crate::gateway::bytes::LinkHeader;
use crate::gateway::{Control, FlowKey, FlowStats, Heading, Segment, before};
use crate::packet::{SynOptions, flags};
use crate::units::Time;
use crate::wire::{Addresses, IpPair};

/// One end of a flow, as its segments show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowEnd {
    /// Options of the end's SYN, with the sequence numbers of the SYN and of the byte after it.
    pub(super) syn: Option<SynOptions>,
    pub(super) syn_range: Option<(u32, u32)>,
    /// Sequence number after the data that the end has sent, limited by the window.
    pub next: Option<u32>,
    /// Right edge of the advertised windows: the highest sum of acknowledgment and window.
    right: Option<u32>,
    /// Widest advertised window, bytes.
    widest: u32,
    /// Highest acknowledgment number, with the latest window field sent with it.
    pub ack: Option<(u32, u16)>,
    /// TSval and TSecr of its latest segment with timestamps.
    pub timestamps: Option<(u32, u32)>,
    /// Sequence number after its FIN.
    fin: Option<u32>,
    /// Feature of its latest segment that forbids changing the window.
    mark: Option<FlowPhase>,
}

impl FlowEnd {
    pub(super) fn from_syn(s: &Segment) -> Self {
        let widest = u32::from(s.window);
        FlowEnd { syn: s.syn, syn_range: Some((s.seq, s.end())), next: Some(s.end()), widest, ..FlowEnd::default() }
    }
}

/// A flow, with the gateway's own state `S`.
#[derive(Clone, Debug)]
pub struct WatchedFlow<S> {
    /// Phase apart from `Signed` and `Multipath`, which follow from the latest segments.
    pub(super) known: FlowPhase,
    /// Round-trip time of the handshake.
    pub rtt: Option<Time>,
    /// True if the SYN or its answer was repeated, so that `rtt` may be wrong.
    pub ambiguous: bool,
    /// True if inward data passed lately and more is expected: the flow shares the rough link.
    pub active: bool,
    /// Segments whose window was changed.
    pub rewritten: u64,
    /// State of the gateway.
    pub state: S,
    /// Addresses of inward segments, if they come from outside the simulation.
    pub addresses: Option<Addresses>,
    /// Link header of outward segments.
    pub link: Option<LinkHeader>,
    pub(super) confirmed: bool,
    /// True if the flow is counted as left unmodified.
    pub(super) left_alone: bool,
    /// Time of the table's timer for the flow.
    pub(super) due: Time,
    /// Time that determines the flow's place in the order of eviction; `None` if it is not in the order.
    pub(super) queued: Option<Time>,
    pub(super) last_seen: Time,
    pub(super) ends: [FlowEnd; 2],
    pub(super) opener: Heading,
    /// Times of the first SYN, the last SYN, and the last SYN before the SYN-ACK.
    opened: Time,
    syn_at: Time,
    answered_syn_at: Option<Time>,
    last_data: Option<Time>,
    /// Bytes of the largest inward segment.
    largest: u32,
    /// Time at which both ends had sent a FIN.
    closed: Option<Time>,
}

impl<S: Default> WatchedFlow<S> {
    pub(super) fn new(known: FlowPhase, opener: Heading, now: Time) -> Self {
        WatchedFlow {
            known,
            rtt: None,
            ambiguous: false,
            active: false,
            rewritten: 0,
            state: S::default(),
            addresses: None,
            link: None,
            confirmed: false,
            left_alone: false,
            due: Time::MAX,
            queued: None,
            last_seen: now,
            ends: Default::default(),
            opener,
            opened: now,
            syn_at: now,
            answered_syn_at: None,
            last_data: None,
            largest: 0,
            closed: None,
        }
    }

    pub(super) fn from_syn(now: Time, heading: Heading, s: &Segment) -> Self {
        let mut flow = WatchedFlow::new(FlowPhase::Handshake, heading, now);
        flow.ends[heading as usize] = FlowEnd::from_syn(s);
        flow
    }
}

impl<S> WatchedFlow<S> {
    /// Returns the phase in the flow table.
    pub fn phase(&self) -> FlowPhase {
        self.ends.iter().find_map(|e| e.mark).unwrap_or(self.known)
    }

    pub(super) fn stats(&self, key: FlowKey, queue_share: f64, control: Option<Control>) -> FlowStats {
        FlowStats {
            key,
            addresses: self.addresses,
            phase: self.phase(),
            active: self.active,
            rtt: self.rtt,
            ambiguous: self.ambiguous,
            queue_share,
            rewritten: self.rewritten,
            control,
        }
    }

    /// Returns true if the flow's windows must not be changed.
    pub fn excluded(&self) -> bool {
        self.ends.iter().any(|e| e.mark.is_some())
    }

    /// Returns the end whose segments travel `heading`.
    pub fn end_of(&self, heading: Heading) -> &FlowEnd {
        &self.ends[heading as usize]
    }

    /// Returns true if inward data has passed.
    pub fn has_data(&self) -> bool {
        self.last_data.is_some()
    }

    /// Returns true if no more inward data can follow: the outer end has closed, and its FIN is acknowledged.
    pub fn finished(&self) -> bool {
        self.has_closed(Heading::Inward)
    }

    /// Returns the window shift of segments other than SYNs that travel `heading`: the shift that their sender
    /// announced if both ends announced one, else 0 (RFC 7323 section 2.2).
    pub fn shift(&self, heading: Heading) -> u8 {
        let scale = |h: Heading| self.ends[h as usize].syn.and_then(|o| o.window_scale);
        match (scale(heading), scale(heading.opposite())) {
            (Some(shift), Some(_)) => shift.min(MAX_SHIFT),
            _ => 0,
        }
    }

    /// Returns the payload of a full segment: the smaller announced MSS, or the default, minus timestamps if both ends
    /// use them. The result is at least the largest inward segment, as some simulated stacks never announce an MSS.
    pub fn mss(&self) -> u32 {
        // RFC 9293 section 3.7.1.
        let is_ipv6 = self.addresses.is_some_and(|a| matches!(a.ip, IpPair::V6 { .. }));
        let default = if is_ipv6 { 1220 } else { 536 };
        let syns = self.ends.each_ref().map(|e| e.syn.unwrap_or_default());
        let options = if syns.iter().all(|o| o.timestamps) { TIMESTAMPS } else { 0 };
        let [a, b] = syns.map(|o| if o.mss == 0 { default } else { u32::from(o.mss) });
        let mss = a.min(b).saturating_sub(options).max(1);
        if syns.iter().any(|o| o.mss == 0) { mss.max(self.largest) } else { mss }
    }

    pub(super) fn on_syn_again(&mut self, now: Time) {
        self.syn_at = now;
        self.ambiguous = true;
    }

    /// Processes a SYN-ACK. Returns true if it answers the SYN.
    pub(super) fn on_syn_ack(&mut self, heading: Heading, s: &Segment) -> bool {
        let (first, end) = self.ends[self.opener as usize].syn_range.expect("a handshake begins with a SYN");
        let fits = s.ack.wrapping_sub(first) <= end.wrapping_sub(first) && s.ack != first;
        if fits {
            self.ambiguous |= self.answered_syn_at.is_some();
            self.answered_syn_at = Some(self.syn_at);
            self.ends[heading as usize] = FlowEnd::from_syn(s);
        }
        fits
    }

    /// Returns true if `s` is the third segment of the handshake: the opener's first that acknowledges the SYN-ACK.
    pub(super) fn is_third(&self, heading: Heading, s: &Segment) -> bool {
        let answer = self.ends[self.opener.opposite() as usize].syn_range;
        let fits = answer.is_some_and(|(first, _)| s.ack == first.wrapping_add(1));
        fits && heading == self.opener && self.admits(heading, s)
    }

    /// Returns true if both flows have the same initial sequence numbers: they are one connection.
    pub(super) fn has_numbers_of(&self, other: &Self) -> bool {
        let first = |end: &FlowEnd| end.syn_range.map(|(first, _)| first);
        self.ends.iter().zip(&other.ends).all(|(own, its)| first(own).is_some() && first(own) == first(its))
    }

    pub(super) fn establish(&mut self, now: Time, p: &Params, counters: &mut FlowTableCounters) {
        let rtt = now.saturating_sub(self.answered_syn_at.expect("the third segment follows the second"));
        self.rtt = Some(rtt.clamp(Time::from_millis(p.min_rtt_ms), Time::from_millis(p.max_rtt_ms)));
        if rtt > Time::from_millis(p.max_rtt_ms) {
            self.known = FlowPhase::Slow;
            counters.slow += 1;
        } else {
            self.known = FlowPhase::Established;
            counters.established += 1;
        }
        self.confirmed = true;
    }

    pub(super) fn began_with(&self, heading: Heading, s: &Segment) -> bool {
        heading == self.opener && self.ends[heading as usize].syn_range == Some((s.seq, s.end()))
    }

    pub(super) fn was_answered(&self) -> bool {
        self.answered_syn_at.is_some()
    }

    /// Returns true if the RST `s` refuses the handshake by acknowledging the SYN (RFC 9293 section 3.10.7.3).
    pub(super) fn is_refused_by(&self, heading: Heading, s: &Segment) -> bool {
        let [opener, asked] = [self.opener, self.opener.opposite()].map(|h| &self.ends[h as usize]);
        let fits = opener.next == Some(s.ack) && asked.next.is_none_or(|next| next == s.seq);
        heading != self.opener && s.is(flags::ACK) && fits
    }

    pub(super) fn both_sent(&self) -> bool {
        self.ends.iter().all(|e| e.next.is_some())
    }

    /// Returns the time that determines the flow's place in the order of eviction.
    pub(super) fn rank(&self) -> Time {
        if self.confirmed { self.last_seen } else { self.opened }
    }

    /// Returns true if the windows of both ends admit `s`, which is neither SYN nor RST.
    pub(super) fn admits(&self, heading: Heading, s: &Segment) -> bool {
        let (own, peer) = (&self.ends[heading as usize], &self.ends[heading.opposite() as usize]);
        // The segment begins in the offered window and ends no earlier than one window before the newest data.
        let right = peer.right.or(own.next.map(|next| next.wrapping_add(peer.widest)));
        let newest = own.next.or(peer.ack.map(|(ack, _)| ack));
        let sequence = right.is_none_or(|right| !before(right, s.seq))
            && newest.is_none_or(|next| !before(s.end(), next.wrapping_sub(peer.widest).wrapping_sub(PROBE)));
        // Sent data may be unknown (first fragments, another path), but the window limits the amount sent.
        let room = own.right.filter(|_| self.scaled()).is_some_and(|right| !before(right, s.ack));
        let acknowledgment = peer.next.is_none_or(|next| {
            let oldest = next.wrapping_sub(own.widest.max(OLDEST_ACK));
            (room || !before(next, s.ack)) && !before(s.ack, oldest)
        });
        // Receivers drop segments without ACK (RFC 9293 section 3.10.7.4).
        s.is(flags::ACK) && sequence && acknowledgment
    }

    pub(super) fn ends_with(&self, heading: Heading, s: &Segment) -> bool {
        let (own, peer) = (&self.ends[heading as usize], &self.ends[heading.opposite() as usize]);
        own.next == Some(s.seq) || peer.ack.is_some_and(|(ack, _)| ack == s.seq)
    }

    /// Processes an admitted segment. Returns true if its acknowledgment number is the highest so far.
    pub(super) fn track(&mut self, now: Time, heading: Heading, s: &Segment) -> bool {
        self.last_seen = now;
        let offered = self.ends[heading.opposite() as usize].right;
        let window = match (s.is(flags::SYN), self.scaled()) {
            (true, _) => u32::from(s.window), // never scaled (RFC 7323 section 2.2)
            (false, true) => u32::from(s.window) << self.shift(heading),
            (false, false) => ASSUMED_WINDOW,
        };
        let end = &mut self.ends[heading as usize];
        // The receiver accepts data up to here (RFC 9293 section 3.10.7.4). A zero-window probe lies one byte beyond.
        let reached = match offered {
            Some(right) if before(right, s.end()) => right.wrapping_add(PROBE),
            _ => s.end(),
        };
        let newest = end.next;
        if newest.is_none_or(|next| before(next, reached)) {
            end.next = Some(reached);
        }
        if s.timestamps.is_some() {
            end.timestamps = s.timestamps;
        }
        // Data beyond a FIN shows that the FIN was forged, whether the data was sent before or after it.
        let last = s.end().wrapping_sub(1);
        let fits = offered.is_none_or(|right| !before(right, last)) && newest.is_none_or(|next| !before(last, next));
        if s.is(flags::FIN) && fits {
            end.fin = Some(s.end());
        } else if end.fin.is_some_and(|fin| before(fin, s.end())) {
            end.fin = None;
        }
        end.mark = match (s.signed, s.multipath) {
            (true, _) => Some(FlowPhase::Signed),
            (_, true) => Some(FlowPhase::Multipath),
            _ => None,
        };
        let mut advanced = false;
        if s.is(flags::ACK) {
            end.widest = end.widest.max(window);
            let right = s.ack.wrapping_add(window);
            if end.right.is_none_or(|r| before(r, right)) {
                end.right = Some(right);
            }
            advanced = end.ack.is_some_and(|(ack, _)| before(ack, s.ack));
            // Do not store the window of a SYN: it is never scaled, but the segments that repeat the stored one are.
            if !s.is(flags::SYN) && (advanced || end.ack.is_none_or(|(ack, _)| ack == s.ack)) {
                end.ack = Some((s.ack, s.window));
            }
        }
        self.addresses = s.addresses.map(|a| if heading == Heading::Inward { a } else { a.reversed() });
        if heading == Heading::Outward {
            self.link = s.link;
        } else if s.payload > 0 && !s.is(flags::SYN) {
            self.last_data = Some(now);
            self.largest = self.largest.max(s.payload);
        }
        let both = self.ends.iter().all(|e| e.fin.is_some());
        self.closed = both.then(|| self.closed.unwrap_or(now));
        advanced
    }

    /// Returns true if the end whose segments travel `heading` has sent a FIN that the other end has acknowledged.
    fn has_closed(&self, heading: Heading) -> bool {
        let acked = self.ends[heading.opposite() as usize].ack;
        self.ends[heading as usize].fin.is_some_and(|fin| acked.is_some_and(|(ack, _)| !before(ack, fin)))
    }

    /// Returns true if the window scales are known, because both SYNs were seen.
    fn scaled(&self) -> bool {
        self.ends.iter().all(|e| e.syn_range.is_some())
    }

    pub(super) fn inactive_at(&self, p: &Params) -> Time {
        let rtts = self.rtt.map_or(Time::ZERO, |rtt| Time(rtt.0.saturating_mul(u64::from(p.inactive_rtts))));
        self.last_data.unwrap_or(Time::ZERO).saturating_add(Time::from_millis(p.inactive_ms).max(rtts))
    }

    /// Returns the time of removal if no more segments pass.
    pub(super) fn end(&self, p: &Params) -> Time {
        if !self.confirmed {
            return self.opened.saturating_add(Time::from_millis(p.handshake_ms));
        }
        if let Some(closed) = self.closed.filter(|_| BOTH.into_iter().all(|h| self.has_closed(h))) {
            let rtt = self.rtt.unwrap_or(Time::from_millis(p.inactive_ms));
            return closed.saturating_add(Time(rtt.0.saturating_mul(u64::from(p.closed_rtts))));
        }
        let half_closed = self.ends.iter().any(|e| e.fin.is_some());
        self.last_seen.saturating_add(Time::from_millis(if half_closed { p.half_closed_ms } else { p.idle_ms }))
    }

    /// Returns the time of the next change if no more segments pass.
    pub(super) fn deadline(&self, p: &Params) -> Time {
        let end = self.end(p);
        if self.active { end.min(self.inactive_at(p)) } else { end }
    }
}

const BOTH: [Heading; 2] = [Heading::Inward, Heading::Outward];
const MAX_SHIFT: u8 = 14; // RFC 7323 section 2.3
const TIMESTAMPS: u32 = 12; // with the usual padding (RFC 7323 appendix A)
/// Bytes by which a zero-window probe exceeds the window.
const PROBE: u32 = 1;
/// Largest distance of an acknowledgment behind the sent data, bytes, unless a window was wider (as in netfilter).
const OLDEST_ACK: u32 = 66_000;
/// Assumed window of an end whose scale is unknown, bytes.
const ASSUMED_WINDOW: u32 = 1 << 20;
