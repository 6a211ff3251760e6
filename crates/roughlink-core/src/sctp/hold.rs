//! What a [`Permit::Hold`] means to the sending half: as for TCP, frozen while it lasts, a start without back-off after it.
//!
//! With `partial_reliability` what is in flight is given up when it begins, and a FORWARD TSN is the last packet to leave
//! (AVOCA paper, section I). It leaves again, if it was not answered, when the `Hold` ends.

use super::outstanding::Fate;
use super::send::Sender;
use crate::cc::{CongestionState, Permit};
use crate::tcp::hold::Release;
use crate::tcp::rtt::RttEstimator;
use crate::units::Time;

impl Sender {
    /// The algorithm holds the association: nothing may leave but a FORWARD TSN.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// The algorithm's permit may have changed: freeze, or go on.
    pub(super) fn hold_or_release(&mut self, now: Time) {
        let hold = self.cc.permit(&self.flow) == Permit::Hold;
        match (self.held, hold) {
            (false, true) => self.freeze(),
            (true, false) => self.release(now),
            _ => {}
        }
        self.held = hold;
    }

    fn freeze(&mut self) {
        if self.forward_tsn && !self.queue.is_empty() {
            let (messages, bytes) = self.queue.abandon();
            self.abandoned = (self.abandoned.0 + messages, self.abandoned.1 + bytes);
            self.forward_due = true;
            self.sync();
        }
    }

    fn release(&mut self, now: Time) {
        let answer_timeout = self.rtt.answer_timeout();
        if self.cc.starts_anew() {
            let c = &self.cfg;
            self.rtt = RttEstimator::rfc6298(c.initial_rto, (c.min_rto, c.max_rto), c.clock_granularity);
            self.flow.forget_rtt();
        } else {
            self.rtt.reset_back_off();
        }
        self.flow.rto = self.rtt.rto();
        self.errors = 0;
        self.t3_at = Time::MAX; // until something leaves
        self.pacing_next = Time::ZERO;
        self.forced = false;
        if self.probe_at != Time::MAX {
            self.probe_at = Time::MAX;
            self.window_probe = true;
        }
        self.flow.state = CongestionState::Open;
        self.forward_due = self.queue.forward_point().is_some();
        if self.queue.is_waiting() {
            self.queue.invalidate_samples();
            // A lone packet may have arrived and its SACK be delayed.
            let delay = if self.cfg.delayed_ack > 1 { self.cfg.delayed_ack_timeout } else { Time::ZERO };
            let on_its_way = self.queue.chunks().next().filter(|c| c.fate == Fate::InFlight);
            let due = on_its_way.map_or(now, |c| c.at + answer_timeout + delay);
            let young = due > now;
            if young {
                self.t3_at = due;
            } else {
                self.queue.mark_head();
                self.forced = true;
            }
            self.flow.state = CongestionState::Loss;
            self.recover = self.queue.next() - 1;
            self.released = Some(Release { at: now, until: self.queue.next(), answer_timeout, young });
        }
        self.sync();
        self.start_burst();
    }

    /// T3 expired. If it was that of a head that was young when a `Hold` ended, the head leaves again.
    pub(super) fn repairs_release(&mut self) -> bool {
        let Some(r) = &mut self.released else { return false };
        let repairs = std::mem::take(&mut r.young) && self.queue.first() < r.until && self.queue.is_waiting();
        if repairs {
            self.queue.mark_head();
            self.forced = true;
            self.forward_due = self.queue.forward_point().is_some();
            self.sync();
            self.start_burst();
        }
        repairs
    }

    /// A SACK arrived after a `Hold`: what it does not cover and should have been answered is lost.
    pub(super) fn settle_release(&mut self, now: Time) {
        let Some(r) = self.released else { return };
        if self.queue.first() >= r.until {
            self.released = None;
            return;
        }
        self.queue.mark_sent_before(r.until, r.overdue(now));
    }
}
