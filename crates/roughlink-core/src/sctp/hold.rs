//! Effect of a [`Permit::Hold`](crate::cc::Permit::Hold) on the sending half. As with TCP, the sender is frozen, then
//! starts without back-off. With `partial_reliability`, data in flight is abandoned at the start of the `Hold`, and a
//! FORWARD TSN is the last packet to leave (AVOCA paper, section I); if unanswered, it is repeated at the end.

use super::outstanding::ChunkState;
use super::send::SctpSender;
use crate::cc::CongestionState;
use crate::units::Time;

impl SctpSender {
    /// Returns true if the algorithm holds the association: only a FORWARD TSN may leave.
    pub fn is_held(&self) -> bool {
        self.core.held
    }

    /// Freezes or releases the sender if the algorithm's permit changed.
    pub(super) fn hold_or_release(&mut self, now: Time) {
        match self.core.hold() {
            (false, true) => self.freeze(),
            (true, false) => self.release(now),
            _ => {}
        }
    }

    fn freeze(&mut self) {
        if self.forward_tsn && !self.queue.is_empty() {
            self.abandon(self.queue.all());
            self.forward_due = true;
            self.sync();
        }
    }

    fn release(&mut self, now: Time) {
        let answer_timeout = self.core.end_hold(self.cfg.rtt_estimator());
        self.forced = false;
        if self.probe_at != Time::MAX {
            self.probe_at = Time::MAX;
            self.window_probe = true;
        }
        self.core.flow.state = CongestionState::Open;
        self.forward_due = self.queue.forward_point().is_some();
        if self.queue.is_waiting() {
            self.queue.invalidate_samples();
            // If the head was the only packet to arrive, its SACK may be delayed.
            let delay = if self.cfg.delayed_ack > 1 { self.cfg.delayed_ack_timeout } else { Time::ZERO };
            let on_its_way = self.queue.chunks().next().filter(|c| c.fate == ChunkState::InFlight);
            let due = on_its_way.map(|c| c.at + answer_timeout + delay);
            self.recover = self.queue.next() - 1;
            if self.core.release(now, self.queue.next(), answer_timeout, due) {
                self.repeat_head();
                return;
            }
        }
        self.sync();
        self.start_burst();
    }

    /// Sends the head again, regardless of the window.
    pub(super) fn repeat_head(&mut self) {
        self.queue.mark_head();
        self.forced = true;
        self.sync();
        self.start_burst();
    }

    /// Handles the first SACK after a `Hold`: chunks that it should cover but does not are lost.
    pub(super) fn settle_release(&mut self, now: Time) {
        if let Some((until, overdue)) = self.core.overdue(now, self.queue.first()) {
            self.queue.mark_sent_before(until, overdue);
        }
    }
}
