//! Fast paths of a transfer in which nothing unusual happens. An acknowledgment usually covers two segments and
//! releases two more, which leave together. One look at the rarely changing state serves both.

use super::TcpSender;
use crate::cc::{Ack, CongestionState};
use crate::tcp::acknowledgment::Acknowledgment;
use crate::tcp::config::LossRecovery;
use crate::tcp::rtt_sample::RttSample;
use crate::tcp::scoreboard::NO_SAMPLE;
use crate::units::Time;

/// Full segments of new data that leave together.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct SegmentRun {
    /// Offset of the first segment.
    pub(in crate::tcp) start: u64,
    pub(in crate::tcp) segments: u32,
    /// Set if no further segment may leave now, so that [`TcpSender::poll`] would return `None`.
    pub(in crate::tcp) is_last: bool,
}

impl TcpSender {
    /// Processes an acknowledgment without SACK blocks that covers whole segments, all sent once, while no segment is
    /// missing. Does the same as [`on_ack`](crate::tcp::acknowledgment::on_ack). Returns false, without changes, for
    /// any other acknowledgment.
    #[inline(always)]
    pub(in crate::tcp) fn on_plain_ack(&mut self, now: Time, a: &Acknowledgment) -> bool {
        let by_time = self.cfg.recovery == LossRecovery::Rack;
        let settles = self.core.released.is_some() || self.recover_active || self.duplicates > 0 || a.congestion;
        let by_stamp = self.board.by_stamp || (by_time && (!self.sack || self.rack.probe_end != 0));
        if self.core.flow.state != CongestionState::Open || settles || by_stamp {
            return false;
        }
        let Some(run) = self.board.run_before(a.ack) else { return false };
        let (prior_una, prior_in_flight) = (self.board.una(), self.board.in_flight());
        self.core.flow.now = now;
        self.set_window(a.window);
        let sample = match (self.cfg.timestamp_rtt, a.echo) {
            (true, _) if run.first.is(NO_SAMPLE) => None,
            (true, Some(echo)) => Some(RttSample::by_echo(echo, run.first.sent_at, now)),
            _ => Some(RttSample::since(run.first.sent_at, now)),
        };
        self.measured_rtt(a.ack, sample);
        self.board.acknowledge_run(&run);
        let acked = a.ack - prior_una;
        let (mut rtt, mut segments) = (self.core.flow.latest_rtt, run.segments);
        if by_time {
            self.rack.on_run(now, &run, self.core.flow.mss);
            rtt = now - run.last.sent_at;
        } else {
            segments = self.whole_segments(acked);
        }
        let mut rate = None;
        if self.core.optional_events.rate {
            let (newest, lost) = (run.last.as_newest(false), (0, self.board.losses.total));
            let delivered = (acked, Some(&newest));
            rate = self.core.rate.on_ack(now, delivered, lost, prior_in_flight, self.core.flow.min_rtt, rtt);
        } else {
            self.core.rate.count(now, acked);
        }
        self.restart_rto(now);
        self.sync();
        if !by_time && self.cfg.report_srtt {
            rtt = self.core.flow.srtt;
        }
        let ack = Ack {
            acked,
            delivered: acked,
            segments,
            rtt: Some(rtt),
            may_grow: (!by_time && self.cfg.grow_when_limited) || self.window_was_used(),
            prior_una,
            prior_in_flight,
            rate,
            ecn_echo: false,
        };
        self.core.acknowledged(&ack);
        if by_time {
            self.schedule_probe(now);
        }
        true
    }

    /// Sends up to `most` full segments of new data, as that many calls of [`TcpSender::poll`] would. The run ends
    /// early at anything else.
    #[inline(always)]
    pub(in crate::tcp) fn poll_run(&mut self, now: Time, most: u32) -> SegmentRun {
        let mut run = SegmentRun { start: self.board.nxt(), segments: 0, is_last: false };
        if self.core.flow.state != CongestionState::Open || self.forced.is_some() || self.board.has_repairs() {
            return run;
        }
        self.core.flow.now = now;
        self.core.flow.in_flight = self.board.in_flight();
        let mss = u64::from(self.core.flow.mss);
        while run.segments < most {
            if !self.cfg.write_on_ack {
                self.refill();
            }
            let (nxt, in_flight) = (self.board.nxt(), self.core.flow.in_flight);
            let (end, unsent) = (nxt + mss, self.written - nxt);
            if unsent == 0 {
                self.on_nothing_left(now);
                run.is_last = true;
                return run;
            }
            if unsent < mss || in_flight == 0 || end == self.push || self.fin.is_some() {
                return run;
            }
            let Some((window, mut rate)) = self.core.permit() else {
                run.is_last = true;
                return run;
            };
            if self.cfg.pacing && rate.is_none() {
                rate = Some(self.window_rate(window));
            }
            self.permitted = window;
            if !self.cfg.tso_autosizing && self.core.is_paced_out(now, rate) {
                run.is_last = true;
                return run;
            }
            (self.burst.deferred, self.burst.paced_out) = (false, false);
            let available = window.min(self.core.flow.send_window).saturating_sub(in_flight);
            if available < mss {
                // A smaller segment would leave only if it contained all unsent data, or if nothing were outstanding.
                run.is_last = unsent > available && self.board.outstanding() > 0;
                if run.is_last {
                    self.on_window_end(now);
                }
                return run;
            }
            let beyond = self.core.flow.send_window.saturating_sub(self.board.outstanding());
            if !self.cfg.window_in_flight && beyond < mss {
                return run;
            }
            if unsent < available {
                self.refill();
            }
            if !self.may_leave(now, nxt, None, rate) {
                self.on_window_end(now);
                run.is_last = true;
                return run;
            }
            self.send_new(now, mss as u32, rate);
            run.segments += 1;
        }
        run
    }
}
