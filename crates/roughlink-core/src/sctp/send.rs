//! Sending half: decides when each chunk may leave (RFC 9260 sections 6.1, 6.3, 7.2; RFC 3758 section 3.5). Windows are
//! bytes of user data. The congestion control determines their size; this module detects lost chunks and full windows.
//! By section 6.1 rule B a packet may leave while less than the window is in flight, even if it then exceeds the
//! window. A packet has one chunk: a message, or a part of one ([`SendQueue`]).

use super::config::SctpConfig;
use super::messages::SendQueue;
use super::outstanding::{ChunkState, NewlyCovered, Outstanding, SentChunk};
use super::part::MessagePart;
use crate::cc::{self, Ack, Congestion, CongestionState, Flow, LinkEvent};
use crate::packet::{Gap, Skipped};
use crate::sender::{Newest, Patience, SenderCore};
use crate::units::{Rate, Time};
use std::ops::Range;
use std::sync::Arc;

/// Chunk to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingChunk {
    /// A DATA chunk.
    Data {
        /// TSN of the chunk.
        tsn: u64,
        /// Content of the chunk.
        part: MessagePart,
    },
    /// A FORWARD TSN.
    Forward {
        /// New cumulative TSN.
        tsn: u64,
        /// Skipped messages.
        skipped: Skipped,
    },
}

/// The sending half of an association. TSNs are 64-bit, the first is 1.
#[derive(Debug)]
pub struct SctpSender {
    pub(super) cfg: Arc<SctpConfig>,
    pub(super) queue: Outstanding,
    pub(super) core: SenderCore,
    messages: SendQueue,
    /// Set if a SACK arrived since the last time-out.
    sack_seen: bool,
    /// Fast recovery or time-out recovery ends when this TSN is acknowledged.
    pub(super) recover: u64,
    /// Set if the lowest marked chunk leaves regardless of the window.
    pub(super) forced: bool,
    /// Maximum number of bytes in flight in this burst.
    burst_end: u64,
    /// Time of the next zero window probe.
    pub(super) probe_at: Time,
    /// Set if a probe may leave.
    pub(super) window_probe: bool,
    /// TSN of the last probe.
    probe: Option<u64>,
    /// Set if the peer supports FORWARD TSN.
    pub(super) forward_tsn: bool,
    /// Set if a FORWARD TSN must leave.
    pub(super) forward_due: bool,
    /// Messages and bytes abandoned.
    pub(super) abandoned: (u64, u64),
}

impl SctpSender {
    /// Creates a sender for a peer with `streams` streams and a window of `send_window` bytes.
    pub fn new(
        cfg: &Arc<SctpConfig>,
        factory: &cc::Factory,
        streams: u16,
        send_window: u64,
        forward_tsn: bool,
    ) -> Self {
        let core = SenderCore::new(SctpSender::first_flow(cfg, send_window), factory, cfg.rtt_estimator());
        let mut queue = Outstanding::new(1);
        queue.losses.are_reported = core.optional_events.lost;
        SctpSender {
            queue,
            core,
            messages: SendQueue::new(streams, cfg.ordered),
            sack_seen: false,
            recover: 0,
            forced: false,
            burst_end: 0,
            probe_at: Time::MAX,
            window_probe: false,
            probe: None,
            forward_tsn,
            forward_due: false,
            abandoned: (0, 0),
            cfg: Arc::clone(cfg),
        }
    }

    /// Returns the state of an association that has sent nothing.
    pub(super) fn first_flow(cfg: &SctpConfig, send_window: u64) -> Flow {
        let mss = u32::from(cfg.payload);
        Flow {
            sack: true,
            mss,
            initial_window: cfg.initial_window(),
            initial_ssthresh: cfg.initial_ssthresh.map_or(u64::MAX, |a| a.bytes(mss)),
            send_window,
            min_rtt: Time::MAX,
            rto: cfg.initial_rto,
            ..Flow::default()
        }
    }

    /// Offers `bytes` to send (`u64::MAX` = endless).
    pub fn offer(&mut self, bytes: u64) {
        self.messages.offer(bytes);
    }
    /// Writes a message to `stream`, which must be agreed on. The lifetime counts from `written`.
    pub fn write(&mut self, stream: u16, bytes: u32, written: Time) {
        self.messages.write(stream, bytes, written);
    }
    /// Returns the bytes written and not acknowledged.
    pub(super) fn buffered(&self) -> u64 {
        self.queue.bytes() + self.messages.bytes()
    }
    /// Returns the number of messages acknowledged and not abandoned.
    pub fn messages(&self) -> u64 {
        self.queue.messages()
    }
    /// Returns the number of streams agreed on.
    pub fn streams(&self) -> u16 {
        self.messages.streams()
    }
    /// Ends an endless offer; other data still leave.
    pub fn stop_endless(&mut self) {
        self.messages.stop_endless();
    }
    /// Returns true if all data offered are sent and acknowledged, or abandoned.
    pub fn is_done(&self) -> bool {
        self.has_sent_all() && self.queue.is_empty()
    }
    /// Returns true if all data offered have left at least once.
    pub fn has_sent_all(&self) -> bool {
        self.messages.is_empty()
    }
    /// Returns true if there is nothing to send, now or when a window opens.
    pub fn has_nothing(&self) -> bool {
        self.is_done() && !self.forward_due
    }
    /// Returns true if the association failed after too many time-outs.
    pub fn gave_up(&self) -> bool {
        self.core.gave_up
    }
    /// Returns the memory of unacknowledged chunks and of the counters of streams, bytes.
    pub fn bytes(&self) -> usize {
        self.queue.memory() + self.messages.memory()
    }
    /// Returns the part common to all transports.
    pub fn core(&self) -> &SenderCore {
        &self.core
    }
    /// Abandons messages beyond `lifetime` or `max_retransmissions`, if they have not left or one of their chunks is
    /// lost (RFC 3758 section 3.5, RFC 7496 section 3.1). Late messages without a lost chunk may still arrive.
    pub(super) fn abandon_overdue(&mut self, now: Time) {
        let SctpConfig { lifetime, max_retransmissions, .. } = *self.cfg;
        if !self.forward_tsn || self.core.held || (lifetime, max_retransmissions) == (None, None) {
            return;
        }
        let is_old = |written: Time| lifetime.is_some_and(|most| written.saturating_add(most) <= now);
        while let Some(bytes) = self.messages.discard(is_old) {
            self.note_abandoned((1, bytes));
        }
        let is_overdue = |c: &SentChunk| is_old(c.written) || max_retransmissions.is_some_and(|most| c.repeats >= most);
        let mut from = 0;
        while let Some(message) = self.queue.overdue(from, is_overdue) {
            from = message.end;
            self.abandon(message);
        }
        if from > 0 {
            self.sync();
            self.forward_due |= self.queue.forward_point().is_some();
        }
    }

    /// Abandons the chunks of whole messages, and the rest of the last one if it has begun to leave.
    pub(super) fn abandon(&mut self, mut chunks: Range<usize>) {
        if chunks.end == self.queue.all().end && self.queue.is_cut_short() {
            let rest = self.messages.discard_rest();
            self.note_abandoned((0, rest));
            self.queue.cut_short();
            chunks.end += 1;
        }
        let abandoned = self.queue.abandon(chunks);
        self.note_abandoned(abandoned);
    }

    fn note_abandoned(&mut self, (messages, bytes): (u64, u64)) {
        self.abandoned = (self.abandoned.0 + messages, self.abandoned.1 + bytes);
    }

    /// Returns the number of abandoned messages and their bytes (RFC 3758).
    pub fn abandoned(&self) -> (u64, u64) {
        self.abandoned
    }
    /// Returns the current RTO.
    pub fn rto(&self) -> Time {
        self.core.rtt.rto()
    }
    /// Handles a link event at this host.
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.core.on_link(now, event);
        self.hold_or_release(now);
    }

    /// Returns the next time-out of any kind.
    pub fn next_wake(&self, now: Time) -> Time {
        let t = self.core.next_wake(now);
        if self.core.held { t } else { t.min(self.core.rto_at).min(self.probe_at) }
    }

    /// Processes timers due at `now`.
    pub fn wake(&mut self, now: Time) {
        if self.core.wake(now) {
            self.hold_or_release(now);
        }
        if self.core.held {
            return;
        }
        if self.probe_at <= now {
            self.probe_at = Time::MAX;
            self.window_probe = true;
        }
        if self.core.rto_at <= now {
            self.on_t3(now);
        }
    }

    /// Handles expiry of T3-rtx (section 6.3.3).
    fn on_t3(&mut self, now: Time) {
        self.core.rto_at = Time::MAX;
        if self.queue.is_empty() {
            return;
        }
        if self.core.repairs_release(self.queue.first()) && self.queue.is_waiting() {
            self.forward_due = self.queue.forward_point().is_some();
            self.repeat_head();
            return;
        }
        // A zero window probe that was answered: only the window is closed, nothing is lost (section 6.1 rule A).
        let probing = self.core.flow.send_window == 0 && self.sack_seen;
        self.sack_seen = false;
        if !probing && !self.core.try_again(now, Patience::Retries(self.cfg.data_retries)) {
            return;
        }
        self.core.back_off();
        self.forward_due = self.queue.forward_point().is_some();
        if !self.queue.is_waiting() {
            return; // only the FORWARD TSN was lost
        }
        if probing {
            self.core.stats.probes += 1;
            self.probe = Some(self.queue.first());
            self.queue.mark_all();
        } else {
            self.core.stats.timeouts += 1;
            self.queue.mark_all();
            self.core.report_losses(&mut self.queue.losses);
            let again = self.core.flow.state == CongestionState::Loss && self.core.retries > 1;
            self.core.congestion(if again { Congestion::TimeoutAgain } else { Congestion::Timeout });
            self.core.flow.state = CongestionState::Loss;
            self.recover = self.queue.next() - 1;
        }
        self.forced = true;
        self.sync();
        self.start_burst();
    }

    /// Handles a SACK, or the cumulative TSN of a SHUTDOWN.
    pub fn on_sack(&mut self, now: Time, cumulative: u64, a_rwnd: u64, gaps: &[Gap]) {
        let first = self.queue.first();
        if cumulative + 1 < first || cumulative >= self.queue.next() {
            return; // stale, or acknowledges TSNs never sent
        }
        self.core.flow.now = now;
        self.sack_seen = true;
        let prior_una = self.queue.acked();
        let (prior_in_flight, prior_losses) = (self.queue.in_flight(), self.queue.losses.total);
        let full = prior_in_flight >= self.core.cc.trace().cwnd;
        let covered = self.queue.cover(cumulative, gaps);
        let advanced = self.queue.first() > first;
        let rtt = covered.timed.map(|at| (now - at).max(Time::from_nanos(1)));
        if let Some(rtt) = rtt {
            self.core.estimate_rto(rtt, 0, 0);
            self.core.note_rtt(rtt, rtt, rtt);
        }
        if covered.highest > 0 {
            self.core.retries = 0;
        }
        // Section 7.2.4, with HTNA: chunks count as missing only below a newly acknowledged TSN. In fast recovery, a
        // SACK that advances counts all chunks that it reports missing.
        let below = match self.core.flow.state {
            CongestionState::Recovery if advanced => self.queue.highest_reported(cumulative, gaps),
            _ => covered.highest,
        };
        let missed = !gaps.is_empty() && self.queue.miss(below, self.cfg.missing_reports);
        self.settle_release(now);
        let lost = self.queue.losses.total.wrapping_sub(prior_losses);
        let rate = self.rate_sample(now, &covered, lost, prior_in_flight, rtt);
        self.sync();
        self.on_progress(cumulative, !gaps.is_empty());
        if missed && self.core.flow.state != CongestionState::Recovery {
            self.enter_fast_recovery();
        }
        self.core.flow.cwnd_limited = full;
        self.core.flow.max_outstanding = prior_in_flight;
        let ack = Ack {
            acked: covered.acked,
            delivered: covered.delivered,
            segments: covered.chunks,
            rtt,
            may_grow: full && self.core.flow.state != CongestionState::Recovery,
            prior_una,
            prior_in_flight,
            rate,
            ecn_echo: false,
        };
        self.core.report_losses(&mut self.queue.losses);
        self.core.acknowledged(&ack);
        self.set_window(a_rwnd);
        if self.queue.is_empty() {
            self.core.rto_at = Time::MAX;
        } else if advanced {
            self.core.rto_at = now + self.core.rtt.rto();
        }
        self.forward_due |= !self.core.held && self.queue.forward_point().is_some();
        self.start_burst();
    }

    /// Handles a HEARTBEAT unanswered within an RTO: counts an error (section 8.1) and doubles the RTO (section 8.3).
    pub(super) fn on_heartbeat_unanswered(&mut self, now: Time) {
        if self.core.try_again(now, Patience::Retries(self.cfg.data_retries)) {
            self.core.back_off();
        }
    }

    /// Handles the answer to a HEARTBEAT after `rtt` (section 8.3).
    pub(super) fn on_heartbeat_ack(&mut self, now: Time, rtt: Time) {
        self.core.estimate_rto(rtt.max(Time::from_nanos(1)), 0, 0);
        self.repeat_overdue(now);
        if self.queue.is_empty() {
            self.core.retries = 0; // optional with DATA outstanding (section 8.1): a path may pass only HEARTBEATs
        }
    }

    /// Sends the head again at once after a time-out if its answer is overdue, since the peer is reachable.
    pub(super) fn repeat_overdue(&mut self, now: Time) {
        let due =
            |head: &SentChunk| head.fate == ChunkState::InFlight && head.at + self.core.rtt.answer_timeout() <= now;
        if self.core.flow.state == CongestionState::Loss
            && !self.core.held
            && self.queue.chunks().next().is_some_and(due)
        {
            self.core.rto_at = Time::MAX; // until it leaves
            self.repeat_head();
        }
    }

    /// Checks whether this cumulative TSN ends a recovery episode.
    fn on_progress(&mut self, cumulative: u64, gaps: bool) {
        match self.core.flow.state {
            CongestionState::Recovery | CongestionState::Loss if cumulative >= self.recover => {
                self.core.recovered();
            }
            CongestionState::Recovery | CongestionState::Loss => {}
            _ if gaps => self.core.flow.state = CongestionState::Disorder,
            _ => self.core.flow.state = CongestionState::Open,
        }
    }

    fn enter_fast_recovery(&mut self) {
        self.core.stats.fast_recoveries += 1;
        self.recover = self.queue.next() - 1;
        self.core.congestion(Congestion::Loss);
        self.core.flow.state = CongestionState::Recovery;
        self.forced = true;
        if self.queue.chunks().next().is_some_and(|c| c.fate == ChunkState::Marked) {
            self.core.rto_at = Time::MAX; // restarted when the head leaves (section 7.2.4 step 4)
        }
    }

    fn rate_sample(
        &mut self,
        now: Time,
        c: &NewlyCovered,
        lost: u32,
        prior_in_flight: u64,
        rtt: Option<Time>,
    ) -> Option<cc::RateSample> {
        let newest = c.newest.map(|s| Newest {
            end: s.offset + u64::from(s.part.len),
            sent_at: s.at,
            retransmitted: s.resent,
            stamp: s.stamp,
        });
        let core = &mut self.core;
        let min_rtt = core.flow.min_rtt;
        let (delivered, lost) = ((c.delivered, newest.as_ref()), (lost.into(), self.queue.losses.total));
        core.rate.on_ack(now, delivered, lost, prior_in_flight, min_rtt, rtt.unwrap_or_default())
    }

    /// Sets the peer's window. If it opens, a probe that found no room leaves again at once.
    fn set_window(&mut self, a_rwnd: u64) {
        self.core.flow.send_window = a_rwnd;
        if a_rwnd > 0 {
            self.probe_at = Time::MAX;
            if self.probe.take() == Some(self.queue.first()) && !self.queue.is_empty() {
                self.queue.mark_head();
                self.forced = true;
            }
        }
    }

    /// Brings the algorithm's view up to date.
    pub(super) fn sync(&mut self) {
        let una = self.queue.acked();
        self.core.sync(self.queue.in_flight(), una, una + self.queue.bytes());
    }

    /// Starts a burst (section 6.1 rule D).
    pub(super) fn start_burst(&mut self) {
        let most = self.cfg.max_burst.map_or(u64::MAX, |n| u64::from(n) * u64::from(self.cfg.payload));
        self.burst_end = self.queue.in_flight().saturating_add(most);
    }

    /// Returns the next chunk to send now; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<OutgoingChunk> {
        self.core.flow.now = now;
        self.abandon_overdue(now);
        if self.forward_due {
            self.forward_due = false;
            if let Some((tsn, skipped)) = self.queue.forward_point() {
                self.core.start_rto(now);
                return Some(OutgoingChunk::Forward { tsn, skipped });
            }
        }
        if self.core.held || (!self.queue.has_marked() && self.has_sent_all()) {
            if self.has_sent_all() && !self.core.held {
                self.core.rate.on_app_limited(self.queue.in_flight());
            }
            return None;
        }
        let (window, rate) = self.core.permit()?;
        if std::mem::take(&mut self.forced) && self.queue.has_marked() {
            return self.resend(now, rate);
        }
        if self.core.is_paced_out(now, rate) {
            return None;
        }
        let in_flight = self.queue.in_flight();
        if in_flight == 0 {
            self.start_burst();
        }
        if in_flight >= if rate.is_some() { window } else { window.min(self.burst_end) } {
            return None;
        }
        if self.queue.has_marked() {
            return self.resend(now, rate);
        }
        let message = self.messages.next(self.cfg.payload, now)?;
        let len = message.0.len;
        // A peer with any room accepts one chunk (section 6.1 rule A).
        let alone = self.queue.is_empty() && self.core.flow.send_window > 0;
        if alone || in_flight + u64::from(len) <= self.core.flow.send_window {
            return Some(self.send_new(now, message, rate));
        }
        if std::mem::take(&mut self.window_probe) && self.queue.is_empty() {
            self.probe = Some(self.queue.next());
            return Some(self.send_new(now, message, rate));
        }
        if self.queue.is_empty() && self.probe_at == Time::MAX {
            self.probe_at = now + self.core.rtt.rto();
        }
        None
    }

    fn send_new(&mut self, now: Time, message: (MessagePart, Time), rate: Option<Rate>) -> OutgoingChunk {
        let part = message.0;
        let in_flight = self.queue.in_flight();
        let idle = in_flight == 0;
        let stamp = self.core.rate.on_sent(now, idle, in_flight + u64::from(part.len), self.queue.losses.total);
        self.messages.take(&part);
        let tsn = self.queue.next();
        let seq = self.queue.acked() + self.queue.bytes();
        self.queue.send(message, now, stamp);
        self.left(now, rate, cc::Sent { seq, len: u32::from(part.len), retransmission: false, tx_start: idle });
        OutgoingChunk::Data { tsn, part }
    }

    fn resend(&mut self, now: Time, rate: Option<Rate>) -> Option<OutgoingChunk> {
        let (tsn, marked) = self.queue.lowest_marked()?;
        let (in_flight, len) = (self.queue.in_flight(), u64::from(marked.part.len));
        let idle = in_flight == 0;
        let stamp = self.core.rate.on_sent(now, idle, in_flight + len, self.queue.losses.total);
        let c = self.queue.resend(tsn, now, stamp);
        self.core.stats.retransmits += 1;
        let sent = cc::Sent { seq: c.offset, len: u32::from(c.part.len), retransmission: true, tx_start: idle };
        self.left(now, rate, sent);
        Some(OutgoingChunk::Data { tsn, part: c.part })
    }

    fn left(&mut self, now: Time, rate: Option<Rate>, sent: cc::Sent) {
        self.sync();
        self.core.on_departed(now, sent, 48, rate);
    }
}
