//! Common part of the sending halves of TCP and SCTP: the algorithm and its view of the connection, estimates of RTT
//! and delivery rate, retransmission timer, and pacing, with the effect of [`Permit::Hold`] on these. Each transport
//! itself tracks outstanding, lost and pending data (bytes or chunks) and handles losses and time-outs.

mod rate;
mod rtt;

pub(crate) use rate::{DeliveryRate, Losses, Newest, RateStamp};
pub(crate) use rtt::RttEstimator;
pub use rtt::{RtoFloor, RttVar};

use crate::cc::{
    Ack, Congestion, CongestionControl, CongestionState, Factory, Flow, LinkEvent, OptionalEvents, Permit, Sent,
};
use crate::quantiles::Histogram;
use crate::units::{Rate, Time};

/// The counters of a sender.
#[derive(Clone, Debug, Default)]
pub struct SenderStats {
    /// Data segments sent again.
    pub retransmits: u64,
    /// Fast-recovery episodes.
    pub fast_recoveries: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Episodes undone as spurious.
    pub undos: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Reductions of the window because packets were marked (RFC 3168).
    pub ecn_reductions: u64,
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// RTT samples.
    pub rtt: Histogram,
}

/// Limit on time-outs without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Retries(u32),
    /// Any number of time-outs up to this time after the first one.
    Time(Time),
}

/// The part of a sending half that does not depend on the transport.
#[derive(Debug)]
pub struct SenderCore {
    pub(crate) flow: Flow,
    pub(crate) cc: Box<dyn CongestionControl>,
    pub(crate) optional_events: OptionalEvents,
    pub(crate) rtt: RttEstimator,
    pub(crate) rate: DeliveryRate,
    /// Expiry of the retransmission timer (TCP's RTO, SCTP's T3-rtx).
    pub(crate) rto_at: Time,
    /// Time-outs since the last acknowledgment, and the time of the first of them.
    pub(crate) retries: u32,
    pub(crate) retrying_since: Time,
    pub(crate) pacing_next: Time,
    /// Lateness of the current departure, less the part that has already shortened a pause.
    pub(crate) pacing_credit: Time,
    pub(crate) held: bool,
    /// Set from the end of a `Hold` until the data outstanding at that time is acknowledged.
    pub(crate) released: Option<Box<Release>>,
    pub(crate) gave_up: bool,
    pub(crate) stats: SenderStats,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    at: Time,
    /// Next new data at that time: `snd_nxt`, or a TSN.
    until: u64,
    /// Age beyond which data is no longer in flight.
    answer_timeout: Time,
    /// Set if the answer to the head was not overdue: the next expiry of the timer only repairs the head.
    young: bool,
}

impl SenderCore {
    pub(crate) fn new(flow: Flow, factory: &Factory, rtt: RttEstimator) -> Self {
        let cc = factory(&flow);
        SenderCore {
            optional_events: cc.optional_events(),
            cc,
            flow,
            rtt,
            rate: DeliveryRate::default(),
            rto_at: Time::MAX,
            retries: 0,
            retrying_since: Time::ZERO,
            pacing_next: Time::ZERO,
            pacing_credit: Time::ZERO,
            held: false,
            released: None,
            gave_up: false,
            stats: SenderStats::default(),
        }
    }
    /// Returns the state of the connection.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }
    /// Returns the congestion control.
    pub fn cc(&self) -> &dyn CongestionControl {
        &*self.cc
    }
    /// Returns the counters.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    #[inline(always)]
    pub(crate) fn sync(&mut self, in_flight: u64, una: u64, nxt: u64) {
        self.flow.in_flight = in_flight;
        self.flow.outstanding = nxt - una;
        self.flow.snd_una = una;
        self.flow.snd_nxt = nxt;
        self.flow.delivered = self.rate.delivered;
        self.flow.app_limited = self.rate.is_app_limited();
    }
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, ack: &Ack) {
        self.cc.on_ack(&self.flow, ack);
    }
    /// Reports segments newly marked lost, if the algorithm handles them.
    #[inline]
    pub(crate) fn report_losses(&mut self, losses: &mut Losses) {
        if !losses.pending.is_empty() {
            losses.pending.drain(..).for_each(|lost| self.cc.on_lost(&self.flow, &lost));
        }
    }
    pub(crate) fn congestion(&mut self, cause: Congestion) {
        self.cc.on_congestion(&self.flow, cause);
    }
    pub(crate) fn recovered(&mut self) {
        self.flow.state = CongestionState::Open;
        self.cc.on_recovered(&self.flow);
    }
    /// Reports a link event; the permit may have changed.
    pub(crate) fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.flow.now = now;
        self.cc.on_link(&self.flow, event);
    }

    /// Returns the algorithm's window, and its rate if it paces; `None` while it holds the connection.
    #[inline(always)]
    pub(crate) fn permit(&mut self) -> Option<(u64, Option<Rate>)> {
        match self.cc.permit(&self.flow) {
            Permit::Send { window, rate } => Some((window, rate)),
            Permit::Hold => {
                self.held = true; // from the start of the connection
                None
            }
        }
    }
    #[inline(always)]
    pub(crate) fn is_paced_out(&self, now: Time, rate: Option<Rate>) -> bool {
        rate.is_some() && self.pacing_next > now
    }
    /// Records that `sent` left. Starts the timer, and delays the next segment by the time that this one, with `header`
    /// bytes of headers, takes at `rate`. `pacing_credit` covers up to half of that time.
    #[inline(always)]
    pub(crate) fn on_departed(&mut self, now: Time, sent: Sent, header: u64, rate: Option<Rate>) {
        self.stats.segments += 1;
        self.start_rto(now);
        if let Some(rate) = rate {
            let mut time = rate.time_for(u64::from(sent.len) + header);
            let credit = self.pacing_credit.min(time / 2);
            self.pacing_credit -= credit;
            time -= credit;
            self.pacing_next = self.pacing_next.max(now).saturating_add(time);
        }
        if self.optional_events.sent {
            self.cc.on_sent(&self.flow, &sent);
        }
    }

    /// Starts the retransmission timer unless it runs (RFC 6298 rule 5.1, RFC 9260 section 6.3.2 rule R1).
    #[inline(always)]
    pub(crate) fn start_rto(&mut self, now: Time) {
        if self.rto_at == Time::MAX {
            self.rto_at = now + self.rtt.rto();
        }
    }
    #[inline(always)]
    pub(crate) fn rearm_rto(&mut self, now: Time) {
        self.rto_at = now + self.rtt.rto();
    }
    /// Counts another time-out without an answer. Returns false if the connection has failed.
    pub(crate) fn try_again(&mut self, now: Time, patience: Patience) -> bool {
        if self.retries == 0 {
            self.retrying_since = now;
        }
        self.gave_up = match patience {
            Patience::Retries(most) => self.retries >= most,
            Patience::Time(most) => self.retries > 0 && now >= self.retrying_since + most,
        };
        self.retries += 1;
        !self.gave_up
    }
    /// Doubles the RTO (RFC 6298 rule 5.5, RFC 9260 section 6.3.3 rule E2) and restarts pacing.
    pub(crate) fn back_off(&mut self) {
        self.rtt.back_off();
        self.flow.rto = self.rtt.rto();
        self.pacing_next = Time::ZERO;
    }
    #[inline(always)]
    pub(crate) fn estimate_rto(&mut self, rtt: Time, una: u64, nxt: u64) {
        self.rtt.sample(rtt, una, nxt);
        self.flow.srtt = self.rtt.srtt();
        self.flow.rto = self.rtt.rto();
    }
    /// Records an RTT: `measured` for the algorithm, `least` for its minimum, and the exact `passed` for the results.
    #[inline(always)]
    pub(crate) fn note_rtt(&mut self, measured: Time, least: Time, passed: Time) {
        self.flow.latest_rtt = measured;
        self.flow.min_rtt = self.flow.min_rtt.min(least);
        self.stats.rtt.record(passed.0);
    }

    /// Returns when pacing or the algorithm must be woken; [`Time::MAX`] = never.
    #[inline(always)]
    pub(crate) fn next_wake(&self, now: Time) -> Time {
        let mut t = Time::MAX;
        if self.optional_events.timer
            && let Some(c) = self.cc.timer()
        {
            t = c;
        }
        if self.pacing_next > now && !self.held {
            t = t.min(self.pacing_next);
        }
        t
    }
    /// Runs the algorithm's timer if it is due. Returns true if it ran, as the permit may then have changed.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        self.flow.now = now;
        let due = self.cc.timer().is_some_and(|t| t <= now);
        if due {
            self.cc.on_timer(&self.flow);
        }
        due
    }

    /// Updates the hold state. Returns whether the algorithm held the connection before, and whether it does now.
    pub(crate) fn hold(&mut self) -> (bool, bool) {
        let hold = self.cc.permit(&self.flow) == Permit::Hold;
        (std::mem::replace(&mut self.held, hold), hold)
    }
    /// Ends a `Hold`: no timer runs, and back-off is over. If the path has changed, `fresh` replaces the estimator.
    /// Returns the longest time that an answer to earlier packets may take.
    pub(crate) fn end_hold(&mut self, fresh: RttEstimator) -> Time {
        let answer_timeout = self.rtt.answer_timeout();
        if self.cc.starts_anew() {
            self.rtt = fresh;
            self.flow.forget_rtt();
        } else {
            self.rtt.reset_back_off();
        }
        self.flow.rto = self.rtt.rto();
        self.retries = 0;
        self.rto_at = Time::MAX; // until a packet leaves
        self.pacing_next = Time::ZERO;
        answer_timeout
    }
    /// Starts the release after [`SenderCore::end_hold`], with data outstanding below `until`, whose head may be
    /// answered until `due`. Returns true if the head leaves again at once, false if it leaves when the timer expires.
    pub(crate) fn release(&mut self, now: Time, until: u64, answer_timeout: Time, due: Option<Time>) -> bool {
        let due = due.filter(|due| *due > now);
        if let Some(due) = due {
            self.rto_at = due;
        }
        self.flow.state = CongestionState::Loss;
        self.released = Some(Box::new(Release { at: now, until, answer_timeout, young: due.is_some() }));
        due.is_none()
    }
    /// Handles expiry of the timer. Returns true if [`SenderCore::release`] set it; then only the head is resent.
    pub(crate) fn repairs_release(&mut self, una: u64) -> bool {
        self.released.as_mut().is_some_and(|r| std::mem::take(&mut r.young) && una < r.until)
    }
    /// Handles an acknowledgment up to `una` after a `Hold`. Returns an offset and a time: unacknowledged data below
    /// the offset that left before the time is lost, because its answer is overdue.
    #[cold]
    pub(crate) fn overdue(&mut self, now: Time, una: u64) -> Option<(u64, Time)> {
        let r = self.released.as_ref()?;
        if una >= r.until {
            self.released = None;
            return None;
        }
        Some((r.until, r.at.min(now.saturating_sub(r.answer_timeout))))
    }
}
