//! A flow: its two ends as their segments show them, and which segments may change what is known of it.
//!
//! Anybody can send a segment in another's name. So only those count that both ends would accept: that begin in the window
//! which the other end has offered, and acknowledge what that end may have sent (G. van Rooij, Real stateful TCP packet
//! filtering in IP Filter, 2001; netfilter tracks connections by the same four bounds). Where a receiver asks for more than
//! the window, so does the gateway: a RST needs the exact number (RFC 5961 section 3.2), and a FIN counts when the other
//! end has acknowledged it and nothing was sent beyond it.
//!
//! Whoever knows the numbers of a flow, or speaks in the name of both ends, cannot be told from them.

use super::{Counters, Params, Phase};
use crate::gateway::bytes::LinkHeader;
use crate::gateway::{Heading, Key, Segment, before};
use crate::packet::{SynOptions, flags};
use crate::units::Time;
use crate::wire::IpPair;

/// One end of a flow, as its segments show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// Options of its SYN, and the sequence numbers of that and after it.
    pub(super) syn: Option<SynOptions>,
    pub(super) syn_range: Option<(u32, u32)>,
    /// The sequence number after what it has sent, as far as the window allowed it.
    pub next: Option<u32>,
    /// The right edge of the windows it has advertised: the highest acknowledgement plus window. And the widest of them.
    right: Option<u32>,
    widest: u32,
    /// The highest acknowledgement it has sent, and the newest window field that came with it, as it was sent.
    pub ack: Option<(u32, u16)>,
    /// TSval and TSecr of its newest segment that had them.
    pub timestamps: Option<(u32, u32)>,
    /// The sequence number after its FIN.
    fin: Option<u32>,
    /// What its newest segment carried that forbids to write into it.
    mark: Option<Phase>,
}

impl End {
    pub(super) fn of_syn(s: &Segment) -> Self {
        let widest = u32::from(s.window);
        End { syn: s.syn, syn_range: Some((s.seq, s.end())), next: Some(s.end()), widest, ..End::default() }
    }
}

/// A flow, with what the gateway keeps of it.
#[derive(Clone, Debug)]
pub struct Flow<S> {
    /// What is known of it, apart from what excludes it.
    pub(super) known: Phase,
    /// The round-trip time of its handshake; which of two SYNs was answered may be `ambiguous`.
    pub rtt: Option<Time>,
    /// Whether more than one SYN may be the one that was answered.
    pub ambiguous: bool,
    /// Inward data passed lately and will go on: it shares the rough link.
    pub active: bool,
    /// Segments whose window was changed.
    pub rewritten: u64,
    /// What the gateway keeps of it.
    pub state: S,
    /// The link header of what it sends outward.
    pub link: Option<LinkHeader>,
    /// Both ends have shown that they know of it.
    pub(super) confirmed: bool,
    /// It is counted among those that are left alone.
    pub(super) left_alone: bool,
    /// When the table's timer for it fires, and its time in the order of eviction.
    pub(super) due: Time,
    pub(super) queued: Option<Time>,
    pub(super) last_seen: Time,
    /// The ends, by the heading of what they send.
    pub(super) ends: [End; 2],
    /// The heading of the SYN.
    pub(super) opener: Heading,
    /// First SYN, last SYN, and the last before the SYN-ACK.
    opened: Time,
    syn_at: Time,
    answered_syn_at: Option<Time>,
    last_data: Option<Time>,
    /// Bytes of the largest inward segment.
    largest: u32,
    /// Both ends have sent a FIN.
    closed: Option<Time>,
}

impl<S: Default> Flow<S> {
    pub(super) fn new(known: Phase, opener: Heading, now: Time) -> Self {
        Flow {
            known,
            rtt: None,
            ambiguous: false,
            active: false,
            rewritten: 0,
            state: S::default(),
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

    /// The flow that the SYN `s` opens.
    pub(super) fn of_syn(now: Time, heading: Heading, s: &Segment) -> Self {
        let mut flow = Flow::new(Phase::Handshake, heading, now);
        flow.ends[heading as usize] = End::of_syn(s);
        flow
    }
}

impl<S> Flow<S> {
    /// Its phase in the flow table.
    pub fn phase(&self) -> Phase {
        self.ends.iter().find_map(|e| e.mark).unwrap_or(self.known)
    }

    /// Whether its window must not be touched.
    pub fn excluded(&self) -> bool {
        self.ends.iter().any(|e| e.mark.is_some())
    }

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
        self.has_closed(Heading::Inward)
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

    /// Its SYN once more.
    pub(super) fn on_syn_again(&mut self, now: Time) {
        self.syn_at = now;
        self.ambiguous = true;
    }

    /// A SYN-ACK: whether it answers the SYN.
    pub(super) fn on_syn_ack(&mut self, heading: Heading, s: &Segment) -> bool {
        let (first, end) = self.ends[self.opener as usize].syn_range.expect("a handshake begins with a SYN");
        let fits = s.ack.wrapping_sub(first) <= end.wrapping_sub(first) && s.ack != first;
        if fits {
            self.ambiguous |= self.answered_syn_at.is_some();
            self.answered_syn_at = Some(self.syn_at);
            self.ends[heading as usize] = End::of_syn(s);
        }
        fits
    }

    /// Whether `s` is the third segment of the handshake: the first of the opener that acknowledges the SYN-ACK.
    pub(super) fn is_third(&self, heading: Heading, s: &Segment) -> bool {
        let answer = self.ends[self.opener.opposite() as usize].syn_range;
        let fits = answer.is_some_and(|(first, _)| s.ack == first.wrapping_add(1));
        fits && heading == self.opener && self.admits(heading, s)
    }

    /// The third segment has passed.
    pub(super) fn establish(&mut self, now: Time, p: &Params, counters: &mut Counters) {
        let rtt = now.saturating_sub(self.answered_syn_at.expect("the third segment follows the second"));
        self.rtt = Some(rtt.clamp(Time::from_millis(p.min_rtt_ms), Time::from_millis(p.max_rtt_ms)));
        if rtt > Time::from_millis(p.max_rtt_ms) {
            self.known = Phase::Slow;
            counters.slow += 1;
        } else {
            self.known = Phase::Established;
            counters.established += 1;
        }
        self.confirmed = true;
    }

    /// Whether `s` is its SYN.
    pub(super) fn began_with(&self, heading: Heading, s: &Segment) -> bool {
        heading == self.opener && self.ends[heading as usize].syn_range == Some((s.seq, s.end()))
    }

    /// Whether the SYN of the handshake was answered.
    pub(super) fn was_answered(&self) -> bool {
        self.answered_syn_at.is_some()
    }

    /// Whether the RST `s` refuses the handshake: it acknowledges the SYN (RFC 9293 section 3.10.7.3).
    pub(super) fn is_refused_by(&self, heading: Heading, s: &Segment) -> bool {
        let [opener, asked] = [self.opener, self.opener.opposite()].map(|h| &self.ends[h as usize]);
        let fits = opener.next == Some(s.ack) && asked.next.is_none_or(|next| next == s.seq);
        heading != self.opener && s.is(flags::ACK) && fits
    }

    /// Whether segments of both ends were seen.
    pub(super) fn both_sent(&self) -> bool {
        self.ends.iter().all(|e| e.next.is_some())
    }

    /// Its time in the order of eviction.
    pub(super) fn rank(&self) -> Time {
        if self.confirmed { self.last_seen } else { self.opened }
    }

    /// Whether the windows of both ends admit `s`, which is neither SYN nor RST.
    pub(super) fn admits(&self, heading: Heading, s: &Segment) -> bool {
        let (own, peer) = (&self.ends[heading as usize], &self.ends[heading.opposite() as usize]);
        // It begins in the window that the other end has offered, and ends no more than a window before the newest.
        let right = peer.right.or(own.next.map(|next| next.wrapping_add(peer.widest)));
        let newest = own.next.or(peer.ack.map(|(ack, _)| ack));
        let sequence = right.is_none_or(|right| !before(right, s.seq))
            && newest.is_none_or(|next| !before(s.end(), next.wrapping_sub(peer.widest).wrapping_sub(PROBE)));
        // Not all that was sent was seen to its end: a first fragment shows only the beginning of its segment, and
        // there may be another path. But nothing was sent for which there was no room.
        let room = own.right.filter(|_| self.scaled()).is_some_and(|right| !before(right, s.ack));
        let acknowledgement = peer.next.is_none_or(|next| {
            let oldest = next.wrapping_sub(own.widest.max(OLDEST_ACK));
            (room || !before(next, s.ack)) && !before(s.ack, oldest)
        });
        // Without an acknowledgement, nobody accepts it (RFC 9293 section 3.10.7.4).
        s.is(flags::ACK) && sequence && acknowledgement
    }

    /// Whether the RST `s` ends the flow.
    pub(super) fn ends_with(&self, heading: Heading, s: &Segment) -> bool {
        let (own, peer) = (&self.ends[heading as usize], &self.ends[heading.opposite() as usize]);
        own.next == Some(s.seq) || peer.ack.is_some_and(|(ack, _)| ack == s.seq)
    }

    /// Processes an admitted segment: numbers, windows, data, marks and the closing of both ends. Whether it acknowledges more
    /// than any before.
    pub(super) fn track(&mut self, now: Time, heading: Heading, s: &Segment) -> bool {
        self.last_seen = now;
        let offered = self.ends[heading.opposite() as usize].right;
        let window = match (s.is(flags::SYN), self.scaled()) {
            (true, _) => u32::from(s.window), // never scaled (RFC 7323 section 2.2)
            (false, true) => u32::from(s.window) << self.shift(heading),
            (false, false) => ASSUMED_WINDOW,
        };
        let end = &mut self.ends[heading as usize];
        // What its receiver takes of it (RFC 9293 section 3.10.7.4); a probe of a closed window is a byte beyond.
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
        // Nothing is sent beyond a FIN: what was already, or is later, shows that it was not the end's own.
        let last = s.end().wrapping_sub(1);
        let fits = offered.is_none_or(|right| !before(right, last)) && newest.is_none_or(|next| !before(last, next));
        if s.is(flags::FIN) && fits {
            end.fin = Some(s.end());
        } else if end.fin.is_some_and(|fin| before(fin, s.end())) {
            end.fin = None;
        }
        end.mark = match (s.signed, s.multipath) {
            (true, _) => Some(Phase::Signed),
            (_, true) => Some(Phase::Multipath),
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
            // The window of a SYN is not to be repeated by another segment.
            if !s.is(flags::SYN) && (advanced || end.ack.is_none_or(|(ack, _)| ack == s.ack)) {
                end.ack = Some((s.ack, s.window));
            }
        }
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

    /// Whether the end whose segments travel `heading` has sent a FIN that the other has acknowledged.
    fn has_closed(&self, heading: Heading) -> bool {
        let acked = self.ends[heading.opposite() as usize].ack;
        self.ends[heading as usize].fin.is_some_and(|fin| acked.is_some_and(|(ack, _)| !before(ack, fin)))
    }

    /// Whether the scale of its windows is known: both SYNs were seen.
    fn scaled(&self) -> bool {
        self.ends.iter().all(|e| e.syn_range.is_some())
    }

    pub(super) fn inactive_at(&self, p: &Params) -> Time {
        let rtts = self.rtt.map_or(Time::ZERO, |rtt| Time(rtt.0.saturating_mul(u64::from(p.inactive_rtts))));
        self.last_data.unwrap_or(Time::ZERO).saturating_add(Time::from_millis(p.inactive_ms).max(rtts))
    }

    /// When it is removed if nothing more passes.
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

    /// When something about it changes if nothing more passes.
    pub(super) fn deadline(&self, p: &Params) -> Time {
        let end = self.end(p);
        if self.active { end.min(self.inactive_at(p)) } else { end }
    }
}

const BOTH: [Heading; 2] = [Heading::Inward, Heading::Outward];
const MAX_SHIFT: u8 = 14; // RFC 7323 section 2.3
const TIMESTAMPS: u32 = 12; // with the padding that everyone sends (RFC 7323 appendix A)
/// A probe of a closed window lies a byte beyond it.
const PROBE: u32 = 1;
/// How far behind what was sent an acknowledgement may be, bytes, where no window was wider: as netfilter.
const OLDEST_ACK: u32 = 66_000;
/// The window of an end whose scale is not known, bytes.
const ASSUMED_WINDOW: u32 = 1 << 20;
