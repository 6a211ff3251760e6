//! Sending half: decides which segment may leave now. An acknowledgment is processed by `recovery` (counts dupACKs and
//! SACKs, as in RFC 6582, RFC 6675 and ns-3) or by `rack` (RFC 8985, as in Linux). Both work on the same scoreboard and
//! record here what to send. [`TcpSender::poll`] then selects the next segment within the congestion control's permit
//! and the peer's window: first a forced retransmission, then a lost segment, then new data. `timers` handles the
//! absence of acknowledgments.

mod burst;
mod ecn;
mod idle;
mod rack;
mod rate;
mod recovery;
mod run;
mod timers;

use super::config::{AUTO_SEND_BUFFER, Buffer, CwndLimited, LossRecovery, SackRules, TcpConfig};
use super::prr::Prr;
use super::rtt_sample::RttSample;
use super::scoreboard::{PUSHED, Scoreboard};
use crate::cc::{CongestionState, Flow, Sent};
use crate::sender::SenderCore;
use crate::units::{Rate, Time};
use burst::Burst;
use ecn::EcnSender;
use idle::Idle;
use rack::Rack;
pub(super) use recovery::AckInfo;
use std::sync::Arc;

/// Segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingSegment {
    /// Sequence offset of the first byte.
    pub start: u64,
    /// Bytes of payload.
    pub len: u32,
    /// Set if a FIN follows the payload.
    pub fin: bool,
    /// Set on the segment that ends the written data (RFC 9293 section 3.9.1.2).
    pub push: bool,
    /// Set if the segment was sent before.
    pub retransmission: bool,
}

/// A retransmission that leaves regardless of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Force {
    /// The lowest outstanding segment.
    Head,
    /// Result of NextSeg (RFC 6675), or else the lowest outstanding segment.
    Next,
    /// A tail loss probe: new data, otherwise the highest outstanding segment.
    Probe,
}

/// The sending half of a connection. Offsets are 64-bit sequence offsets (SYN = 0).
#[derive(Debug)]
pub struct TcpSender {
    pub(super) cfg: Arc<TcpConfig>,
    pub(super) board: Scoreboard,
    pub(super) core: SenderCore,
    pub(super) prr: Prr,
    pub(super) rack: Rack,
    pub(super) sack: bool,
    pub(super) sack_rules: SackRules,
    pub(super) ecn: EcnSender,
    /// Offset after the last byte in the send buffer.
    written: u64,
    /// Offset after the last byte of an explicit write, which carries PSH; 0 = none. A backlog sets no PSH.
    push: u64,
    /// Bytes that the application will write as space becomes available, and whether it then closes.
    backlog: u64,
    close_after: bool,
    /// The application writes again when no more than this number of bytes are in the send buffer.
    low_water: u64,
    /// Offset of our FIN, once the application closed.
    fin: Option<u64>,
    pub(super) duplicates: u32,
    /// Recovery point (RFC 6582 recover, RFC 6675 RecoveryPoint, Linux high_seq).
    pub(super) recover: u64,
    pub(super) recover_active: bool,
    /// After a time-out, duplicate ACKs count again once more than this offset is acknowledged.
    pub(super) fast_retransmit_off_until: u64,
    pub(super) first_partial: bool,
    /// Bytes acknowledged short of a whole segment, carried to the next ACK.
    pub(super) acked_remainder: u64,
    pub(super) forced: Option<Force>,
    /// Set if the rescue retransmission of this episode was used (RFC 6675 NextSeg rule 4).
    pub(super) rescued: bool,
    pub(super) persist_at: Time,
    pub(super) persist_interval: Time,
    pub(super) probe_window: bool,
    /// Number of unanswered zero-window probes, and the send time of the first.
    pub(super) window_probes: u32,
    pub(super) probing_since: Option<Time>,
    /// Largest window that the peer has offered (MAX.SND.WND of RFC 5961).
    max_window: u64,
    permitted: u64,
    /// Offset whose acknowledgment begins a new measurement of window usage (Linux `cwnd_usage_seq`).
    usage_from: u64,
    idle: Idle,
    burst: Burst,
    /// Set once pacing applies: Linux does not pace the first segments.
    paced: bool,
    /// Nagle (Minshall): end of the last small segment.
    small_end: u64,
}

impl TcpSender {
    /// Creates a sender. A `cautious` one begins with one segment (RFC 5681 section 3.1).
    pub fn new(
        cfg: &Arc<TcpConfig>,
        factory: &crate::cc::Factory,
        mss: u32,
        sack: bool,
        send_window: u64,
        cautious: bool,
    ) -> Self {
        let mut flow = TcpSender::first_flow(cfg, mss, send_window);
        flow.sack = sack;
        let initial_window = flow.initial_window;
        if cautious {
            flow.initial_window = u64::from(mss);
        }
        let mut core = SenderCore::new(flow, factory, cfg.rtt_estimator());
        core.flow.initial_window = initial_window;
        let mut board = Scoreboard::new(1, !cfg.sacked_in_flight, !sack);
        board.losses.are_reported = core.optional_events.lost;
        board.by_stamp = core.optional_events.kept_rate && cfg.recovery != LossRecovery::Rack;
        TcpSender {
            board,
            core,
            prr: Prr::default(),
            rack: Rack::default(),
            sack,
            sack_rules: cfg.sack_rules(sack),
            ecn: EcnSender::default(),
            written: 1,
            push: 0,
            backlog: 0,
            close_after: false,
            low_water: 0,
            fin: None,
            duplicates: 0,
            recover: 0,
            recover_active: false,
            fast_retransmit_off_until: 0,
            first_partial: true,
            acked_remainder: 0,
            forced: None,
            rescued: false,
            persist_at: Time::MAX,
            persist_interval: Time::ZERO,
            probe_window: false,
            window_probes: 0,
            probing_since: None,
            max_window: send_window,
            permitted: 0,
            usage_from: 1,
            idle: Idle::default(),
            burst: Burst::default(),
            paced: !cfg.internal_pacing,
            small_end: 0,
            cfg: Arc::clone(cfg),
        }
    }

    /// Returns the state of a connection that has sent nothing.
    pub(super) fn first_flow(cfg: &TcpConfig, mss: u32, send_window: u64) -> Flow {
        Flow {
            mss,
            snd_una: 1,
            snd_nxt: 1,
            initial_window: cfg.initial_window_bytes(mss),
            initial_ssthresh: cfg.initial_ssthresh.bytes(mss, cfg.rcv_buf),
            send_window,
            min_rtt: Time::MAX,
            rto: cfg.initial_rto,
            ..Flow::default()
        }
    }

    /// Returns the bytes that the application may write now.
    #[inline]
    pub fn room(&self) -> u64 {
        self.cfg.send_buffer().saturating_sub(self.written - self.board.una())
    }
    /// Writes `bytes`; the segment that ends them carries PSH. Writes that wait for the window share segments.
    #[inline]
    pub fn write(&mut self, bytes: u64) {
        debug_assert!(self.fin.is_none(), "write after close");
        self.idle.ended |= self.board.is_empty() && self.written == self.board.nxt();
        self.before_write(bytes);
        self.written += bytes;
        self.push = self.written;
    }
    /// Offers `bytes` to write as space becomes available (`u64::MAX` = endless), then closes if `close_after` is set.
    pub fn offer(&mut self, bytes: u64, close_after: bool) {
        self.backlog = bytes;
        self.close_after = close_after;
        self.expect_whole_write();
        self.refill();
    }
    /// Moves data from the backlog to the send buffer if the application would write now.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if self.backlog > 0 && self.written - self.board.una() <= self.low_water {
            self.take_from_backlog();
        }
    }
    #[inline(never)]
    fn take_from_backlog(&mut self) {
        let n = if self.cfg.partial_writes { self.writes_on_wake_up() } else { self.whole_writes() };
        if n == 0 {
            return;
        }
        self.before_write(n.min(u64::from(self.cfg.write_size)));
        self.written += n;
        if self.backlog != u64::MAX {
            self.backlog -= n;
            if self.backlog == 0 && self.close_after {
                self.close();
            }
            self.expect_whole_write();
        }
    }
    /// Sets the level at which the next whole write fits; the last one may be smaller.
    fn expect_whole_write(&mut self) {
        if !self.cfg.partial_writes {
            self.low_water = self.cfg.send_buffer() - self.whole_write().min(self.backlog);
        }
    }
    /// Returns the bytes that the application writes at once. A write larger than the send buffer would never fit.
    fn whole_write(&self) -> u64 {
        u64::from(self.cfg.write_size).min(self.cfg.send_buffer())
    }
    /// Returns the bytes of the backlog that fit into the send buffer, in whole writes.
    fn whole_writes(&self) -> u64 {
        let n = self.room().min(self.backlog);
        let write = self.whole_write();
        if n < self.backlog { n - n % write } else { n }
    }
    /// Returns the backlog written now, and sets the level at which the application writes again. The application waits
    /// for a writable socket, and Linux wakes it when a third of the memory is free (`sk_stream_write_space`).
    fn writes_on_wake_up(&mut self) -> u64 {
        let room = match self.cfg.snd_buf {
            Buffer::Bytes(payload) => payload,
            Buffer::Auto => self.payload_of(AUTO_SEND_BUFFER),
        };
        let queued = self.written - self.board.una();
        self.low_water = room * 2 / 3;
        let write = u64::from(self.cfg.write_size);
        let writes = (self.low_water + 1).saturating_sub(queued).div_ceil(write);
        (writes * write).min(room.saturating_sub(queued)).min(self.backlog)
    }
    /// Returns the payload for which `memory` has room. Each socket buffer of the sender takes `SKB_OVERHEAD` bytes in
    /// addition to its data. A buffer holds as much data as the pacing rate sends in a millisecond, but at least two
    /// segments (`tcp_tso_autosize`, `tcp_update_pacing_rate`).
    fn payload_of(&self, memory: u64) -> u64 {
        let per_millisecond = self.window_rate(self.core.cc.trace().cwnd).bytes_per_sec() / 1000;
        let at_once = per_millisecond.min(MAX_SKB).max(2 * u64::from(self.core.flow.mss));
        memory * at_once / (at_once + SKB_OVERHEAD)
    }
    /// Ends the stream: a FIN follows the last byte.
    pub fn close(&mut self) {
        if self.fin.is_none() {
            self.fin = Some(self.written);
            self.written += 1;
        }
    }
    /// Returns true if this end's FIN was acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.fin.is_some_and(|f| self.board.una() > f)
    }
    /// Returns true if this end's FIN has left.
    pub fn fin_sent(&self) -> bool {
        self.fin.is_some_and(|f| self.board.nxt() > f)
    }
    /// Returns true if the connection failed after too many time-outs.
    pub fn gave_up(&self) -> bool {
        self.core.gave_up
    }
    /// Returns the memory of unacknowledged segments, bytes.
    pub fn bytes(&self) -> usize {
        self.board.bytes()
    }
    /// Returns the part common to all transports.
    pub fn core(&self) -> &SenderCore {
        &self.core
    }
    /// Returns the first unacknowledged offset.
    #[inline]
    pub fn una(&self) -> u64 {
        self.board.una()
    }
    /// Returns the offset after the last byte sent.
    #[inline]
    pub fn nxt(&self) -> u64 {
        self.board.nxt()
    }
    /// Returns true if nothing is outstanding.
    #[inline]
    pub fn idle(&self) -> bool {
        self.board.is_empty()
    }
    /// Returns true if the application never wrote anything, as at the receiving end of a transfer.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.written == 1 && self.backlog == 0
    }
    /// Returns true if there is nothing to send, now or when a window opens.
    #[inline]
    pub fn has_nothing(&self) -> bool {
        self.board.is_empty() && self.written == self.board.nxt() && self.backlog == 0 && !self.probe_window
    }
    /// Panics unless the state of the segments is consistent: for tests.
    pub fn check(&self) {
        self.board.check();
        assert!(self.board.nxt() <= self.written, "nothing leaves before it is written");
    }
    /// Requests a segment that the peer must answer.
    pub(super) fn probe_peer(&mut self) {
        self.probe_window = true;
    }
    /// Returns true if a zero-window probe must leave, and clears the request.
    pub fn take_window_probe(&mut self) -> bool {
        std::mem::take(&mut self.probe_window)
    }
    /// Handles a link event at this host.
    pub fn on_link(&mut self, now: Time, event: &crate::cc::LinkEvent) {
        self.core.on_link(now, event);
        self.hold_or_release(now);
    }

    /// Brings the algorithm's view up to date.
    #[inline(always)]
    pub(super) fn sync(&mut self) {
        self.core.sync(self.board.in_flight(), self.board.una(), self.board.nxt());
        if self.cfg.internal_pacing {
            self.core.flow.next_departure = self.core.pacing_next;
        }
    }

    /// Sets the payload of a full segment. Outstanding segments that are longer are divided and, if `lost`, sent again
    /// without a reduction of the window, the first one at once.
    pub(super) fn set_mss(&mut self, mss: u32, lost: bool) {
        self.core.flow.mss = mss;
        if self.board.divide(mss, lost) && lost {
            self.sync();
            self.core.report_losses(&mut self.board.losses);
            self.begin_repair();
        }
    }

    pub(super) fn max_window(&self) -> u64 {
        self.max_window
    }

    /// Sets the peer's window, in bytes.
    #[inline]
    pub fn set_window(&mut self, window: u64) {
        self.core.flow.send_window = window;
        self.max_window = self.max_window.max(window);
        if self.persist_at != Time::MAX {
            self.window_probes = 0;
            if window > 0 {
                (self.persist_at, self.probing_since) = (Time::MAX, None);
            }
        }
    }

    #[inline]
    pub(super) fn rtt_sample(&mut self, rtt: RttSample) {
        self.estimate_rto(rtt.measured);
        self.note_rtt(rtt);
    }

    /// Applies an acknowledgment's RTT sample, if any; the algorithm may have a better one for the RTO.
    #[inline(always)]
    pub(super) fn measured_rtt(&mut self, ack: u64, rtt: Option<RttSample>) {
        let mut sample = rtt.map(|rtt| rtt.measured);
        if self.core.optional_events.rto_sample {
            sample = self.core.cc.rto_sample(&self.core.flow, ack, sample);
        }
        if let Some(sample) = sample {
            self.estimate_rto(sample);
        }
        if let Some(rtt) = rtt {
            self.note_rtt(rtt);
        }
    }

    #[inline(always)]
    fn estimate_rto(&mut self, rtt: Time) {
        self.core.estimate_rto(rtt, self.board.una(), self.board.nxt());
    }

    #[inline(always)]
    fn note_rtt(&mut self, rtt: RttSample) {
        let least = if self.cfg.smoothed_min_rtt { self.core.flow.srtt } else { rtt.measured };
        self.core.note_rtt(rtt.measured, least, rtt.passed);
    }

    /// Raises the RTO after a repeated SYN: 1 s may be too short for this path (RFC 6298 rule 5.7).
    pub(super) fn fall_back_rto(&mut self) {
        self.core.rtt.fall_back(self.cfg.fallback_rto);
        self.core.flow.rto = self.core.rtt.rto();
    }

    /// Returns the next segment to send now; call until `None`.
    #[inline(always)]
    pub fn poll(&mut self, now: Time) -> Option<OutgoingSegment> {
        self.core.flow.now = now;
        if !self.cfg.write_on_ack {
            self.refill();
        }
        if self.forced.is_none() && self.written == self.board.nxt() && !self.board.has_repairs() && !self.can_rescue()
        {
            self.on_nothing_left(now);
            return None;
        }
        self.core.flow.in_flight = self.board.in_flight();
        let (window, mut rate) = self.core.permit()?;
        if self.cfg.pacing && rate.is_none() {
            rate = Some(self.window_rate(window));
        }
        self.permitted = window;
        if let Some(force) = self.forced.take()
            && let Some(out) = self.force(now, force, rate)
        {
            return Some(out);
        }
        if !self.cfg.tso_autosizing && self.core.is_paced_out(now, rate) {
            return None;
        }
        (self.burst.deferred, self.burst.paced_out) = (false, false);
        let in_flight = self.core.flow.in_flight;
        let available = window.min(self.core.flow.send_window).saturating_sub(in_flight);
        if available > 0
            && let Some(out) = self.within(now, available, rate)
        {
            return Some(out);
        }
        self.on_window_end(now);
        None
    }

    /// Records that nothing is left to send, if the last available data has just left.
    #[inline(always)]
    fn on_nothing_left(&mut self, now: Time) {
        if self.permitted > 0 {
            self.note_usage(self.board.in_flight() + u64::from(self.core.flow.mss) > self.permitted);
            self.on_starved(now);
        }
    }

    /// Records that the last permit allows no further segment.
    #[inline(always)]
    fn on_window_end(&mut self, now: Time) {
        let flow = &self.core.flow;
        let limited = flow.in_flight + u64::from(flow.mss) > self.permitted || self.burst.deferred;
        if self.burst.paced_out && !limited {
            return; // limited by pacing: says nothing about the use of the window (Linux `tcp_write_xmit`)
        }
        self.note_usage(limited);
        if limited {
            self.idle.on_full(now);
        }
        self.check_persist(now);
    }

    /// Returns the next segment that fits into `available` bytes of window.
    #[inline(always)]
    fn within(&mut self, now: Time, available: u64, rate: Option<Rate>) -> Option<OutgoingSegment> {
        let mss = u64::from(self.core.flow.mss);
        let unsent = self.written - self.board.nxt();
        if let Some(i) = self.next_repair()
            && !(self.rack.prefer_new && unsent > 0)
        {
            let segment = self.board.segment(i);
            let (start, len, before) = (segment.start, u64::from(segment.len), segment.sent_at);
            let leaves = (available >= mss || available >= len) && self.may_leave(now, start, Some(before), rate);
            return leaves.then(|| self.resend(now, i, rate));
        }
        if unsent > 0 {
            let outstanding = self.board.outstanding();
            let room = match self.cfg.window_in_flight {
                true => available,
                false => self.core.flow.send_window.saturating_sub(outstanding),
            };
            if room == 0
                || (self.core.flow.state == CongestionState::Disorder && !self.cfg.limited_transmit && self.sack)
            {
                return None;
            }
            if unsent < available {
                self.refill();
            }
            // Silly window avoidance (RFC 1122 section 4.2.3.4) and Nagle.
            if available < mss && unsent > available && outstanding > 0 {
                return None;
            }
            let unsent = self.written - self.board.nxt();
            let len = available.min(mss).min(room).min(unsent);
            if len < mss && len < unsent && !self.cfg.fill_window && outstanding > 0 {
                return None;
            }
            if self.cfg.nagle && len < mss && self.fin.is_none() && self.small_end > self.board.una() {
                return None;
            }
            return self.may_leave(now, self.board.nxt(), None, rate).then(|| self.send_new(now, len as u32, rate));
        }
        if self.can_rescue() {
            // RFC 6675 NextSeg rules 3 and 4.
            if available < mss {
                return None;
            }
            let rescue = self.cfg.rescue && !self.rescued;
            let next = self.board.next_unsacked(self.board.highest_sacked());
            let i = next.or_else(|| self.board.last_unsacked().filter(|_| rescue))?;
            let (start, before) = (self.board.segment(i).start, self.board.segment(i).sent_at);
            if self.may_leave(now, start, Some(before), rate) {
                self.rescued |= next.is_none();
                return Some(self.resend(now, i, rate));
            }
        }
        None
    }

    /// Returns the lowest segment lost and not retransmitted: RFC 6675 NextSeg rules 1.a and 1.c, and 1.b only with
    /// `repair_below_sack`.
    #[inline]
    fn next_repair(&self) -> Option<usize> {
        let next = self.board.next_repair()?;
        let edge = self.board.highest_sacked();
        let above = self.sack_rules.repair_below_sack && edge > 0 && self.board.segment(next).start >= edge;
        (!above).then_some(next)
    }

    /// Returns true in SACK recovery: without repairs and new data, NextSeg rules 3 and 4 select a segment.
    #[inline]
    fn can_rescue(&self) -> bool {
        self.core.flow.state == CongestionState::Recovery && self.sack && self.cfg.recovery.selects_by_sack()
    }

    #[cold]
    #[inline(never)]
    fn force(&mut self, now: Time, force: Force, rate: Option<Rate>) -> Option<OutgoingSegment> {
        if self.board.is_empty() {
            return None;
        }
        self.begin_burst(now, 1);
        let unsent = self.written - self.board.nxt();
        let room = self.core.flow.send_window.saturating_sub(self.board.outstanding());
        let fresh = unsent.min(room).min(u64::from(self.core.flow.mss)) as u32;
        Some(match force {
            Force::Head => self.resend(now, 0, rate),
            Force::Next => match self.next_repair() {
                Some(i) => self.resend(now, i, rate),
                None if fresh > 0 => self.send_new(now, fresh, rate),
                None => self.resend(now, 0, rate),
            },
            Force::Probe if fresh > 0 => {
                self.rack.on_probe_sent(self.board.nxt() + u64::from(fresh), false);
                self.send_new(now, fresh, rate)
            }
            Force::Probe => {
                self.rack.on_probe_sent(self.board.nxt(), true);
                self.leave_again(now, self.board.last_unsacked()?, rate)
            }
        })
    }

    #[inline(always)]
    fn send_new(&mut self, now: Time, len: u32, rate: Option<Rate>) -> OutgoingSegment {
        let in_flight = self.core.flow.in_flight;
        let idle = in_flight == 0;
        let stamp = self.core.rate.on_sent(now, idle, in_flight + u64::from(len), self.board.losses.total);
        if idle && std::mem::take(&mut self.idle.ended) {
            self.restart_after_idle(now);
        }
        let start = self.board.nxt();
        self.board.send(len, now, stamp);
        if len < self.core.flow.mss {
            self.small_end = start + u64::from(len);
        }
        let push = start + u64::from(len) == self.push;
        if push {
            self.board.mark_pushed();
        }
        OutgoingSegment { push, ..self.left(now, start, len, idle, false, rate) }
    }

    #[inline(never)]
    fn resend(&mut self, now: Time, index: usize, rate: Option<Rate>) -> OutgoingSegment {
        let out = self.leave_again(now, index, rate);
        if self.cfg.recovery == LossRecovery::Rack {
            self.after_resend(now, index);
        }
        out
    }

    fn leave_again(&mut self, now: Time, index: usize, rate: Option<Rate>) -> OutgoingSegment {
        if self.board.segment(index).len < self.core.flow.mss {
            self.board.coalesce(index, self.core.flow.mss, self.cfg.fill_retransmissions);
        }
        let (in_flight, len) = (self.core.flow.in_flight, self.board.segment(index).len);
        let idle = in_flight == 0;
        let stamp = self.core.rate.on_sent(now, idle, in_flight + u64::from(len), self.board.losses.total);
        let s = self.board.resend(index, now, stamp);
        self.core.stats.retransmits += 1;
        OutgoingSegment { push: s.is(PUSHED), ..self.left(now, s.start, s.len, idle, true, rate) }
    }

    #[inline(always)]
    fn left(
        &mut self,
        now: Time,
        start: u64,
        len: u32,
        idle: bool,
        again: bool,
        rate: Option<Rate>,
    ) -> OutgoingSegment {
        self.sync();
        if self.core.flow.state.is_reducing() {
            self.prr.on_sent(u64::from(len));
        }
        if self.cfg.cwnd_limited == CwndLimited::LastSegment {
            self.core.flow.cwnd_limited = self.permitted < self.core.flow.in_flight + u64::from(self.core.flow.mss);
        }
        let header = if self.cfg.pace_headers { 40 } else { 0 };
        let rate = rate.filter(|_| self.paced);
        self.core.on_departed(now, Sent { seq: start, len, retransmission: again, tx_start: idle }, header, rate);
        if self.cfg.recovery == LossRecovery::Rack {
            self.after_send(now);
        }
        let end = start + u64::from(len);
        let fin = self.fin.is_some_and(|f| end > f);
        OutgoingSegment { start, len: len - u32::from(fin), fin, push: false, retransmission: again }
    }

    /// Records whether the window was used since the last window of data began (Linux `tcp_cwnd_validate`).
    #[inline]
    fn note_usage(&mut self, limited: bool) {
        if self.cfg.cwnd_limited == CwndLimited::LastSegment {
            return; // `TcpSender::left` records it for each segment
        }
        let outstanding = self.board.outstanding();
        self.permitted = 0;
        if self.board.una() >= self.usage_from
            || limited
            || (!self.core.flow.cwnd_limited && outstanding > self.core.flow.max_outstanding)
        {
            self.core.flow.cwnd_limited = limited;
            self.core.flow.max_outstanding = outstanding;
            self.usage_from = self.board.nxt();
        }
    }
}

/// Linux: an `sk_buff` and its head, bytes.
const SKB_OVERHEAD: u64 = 256 + 704;
/// Linux `GSO_LEGACY_MAX_SIZE`.
const MAX_SKB: u64 = 65_536;
