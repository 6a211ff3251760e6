//! Rate control by the advertised window: the schemes of the PLC paper (Muniz, Tsukamoto, Tsuru, Oie 2013).
//!
//! The gateway is the modem that sends over the power line into the house. For each flow, it computes a window in SDUs
//! (IP packets with a full TCP segment) and writes it into the ACKs toward the sender:
//!
//! 1. [`super::flows`] measures the RTT of the handshake (section 5, figure 11).
//! 2. [`sample_awnd`] gives the largest number of SDUs that the link can carry within this RTT (section 5).
//! 3. [`share`] gives the flow's first window (section 5, equation 1).
//! 4. At every ACK, [`mizutani`] (previous scheme: section 5, figure 12) or [`muniz`] (proposed scheme: section 6,
//!    figure 20) moves the window so that a backlog in the modem approaches its target. The target is L/N for the
//!    backlog of the flow, or L for the backlog of all flows (default of `mizutani`).
//!
//! With equation 1 alone, all windows are equal, so rates are proportional to 1/RTT. Equal backlogs make rates equal; a
//! common backlog does not.
//!
//! Points that the paper leaves open are parameters. Two defaults follow from its text: a window changes with every TCP
//! ACK (section 5), and `2^rho[i]-1` of figure 20 means 2^(rho-1) ("rho - 1 is used", section 6). Two defaults deviate:
//!
//! - Section 6 says that rho is not updated. A long flow that comes first would then keep rho = 1 forever, so rho is
//!   updated.
//! - In figure 12 `Queued_pkt[i]` is the queue of the flow. With that queue the previous scheme is fair, but figure
//!   8(a) shows an unfair one. With the queue of all flows the scheme is unfair. The paper's other claims about it have
//!   the same outcome with either queue (docs/validation/plc.md). Therefore `mizutani` uses the queue of all flows.

mod estimate;
mod params;
#[cfg(test)]
mod tests;

pub use estimate::{BacklogSource, EstimateParams};
pub use params::{Acks, AwndSample, Decrease, GrowthQueue, MIZUTANI, Params, Rho, Scheme, Update};

use super::flows::{Flows, Id, Observation};
use super::rewrite::{AdvertisedEdge, WindowLimit};
use super::{
    BacklogError, Control, FlowStats, Gateway, Heading, Modem, Segment, SegmentVerdict, Stats, entry::BuildGateway,
};
use crate::packet::flags;
use crate::units::Time;
use estimate::{InwardPath, ModemEstimate};

/// The gateway.
#[derive(Debug)]
pub struct RateControl {
    windows: FlowWindows,
    estimate: ModemEstimate,
    error: BacklogError,
}

/// The windows of all flows.
#[derive(Debug)]
struct FlowWindows {
    params: Params,
    flows: Flows<WindowState>,
    /// Flows that share the link, as of the table's counts `entered` and `left`.
    sharing: SharingFlows,
    joined: (u64, u64),
    /// L, and the cycle time of a PDU with L SDUs.
    pdu: (u32, Time),
    /// Factor of Sample_Awnd: the share of SDUs that need no repetition, or 1 without `error_factor`.
    usable: f64,
}

#[derive(Clone, Debug, Default)]
struct WindowState {
    edge: AdvertisedEdge,
    control: Option<Control>,
    updated: Option<Time>,
    path: InwardPath,
}

#[derive(Clone, Copy, Debug, Default)]
struct SharingFlows {
    /// N.
    flows: u32,
    /// The sum of 1/RTT, 1/s.
    inverse: f64,
    /// RTT_ref.
    min_rtt: Time,
}

impl BuildGateway for RateControl {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(1.0..=1e6).contains(&p.floor) {
            Err("`floor` must be between 1 and 1000000 SDUs".into())
        } else if !(1.0..=64.0).contains(&p.max_rho) {
            Err("`max_rho` must be between 1 and 64".into())
        } else {
            p.estimate.check().and_then(|()| p.table.check())
        }
    }
    fn new(params: &Params) -> Self {
        let windows = FlowWindows {
            params: params.clone(),
            flows: Flows::new(params.table.clone()),
            sharing: SharingFlows::default(),
            joined: (0, 0),
            pdu: (0, Time::ZERO),
            usable: 1.0,
        };
        let estimate = ModemEstimate::new(params.estimate.clone());
        RateControl { windows, estimate, error: BacklogError::default() }
    }
}

impl Gateway for RateControl {
    fn receive(
        &mut self,
        now: Time,
        heading: Heading,
        segment: &mut Segment,
        modem: Option<&dyn Modem>,
    ) -> SegmentVerdict {
        let mut seen = self.windows.flows.observe(now, heading, segment);
        let reported = modem.filter(|_| self.windows.params.backlog == BacklogSource::Modem);
        let modem = match (reported, seen.flow) {
            (None, Some(id)) => {
                if self.measure(now, heading, segment, &id, &mut seen)
                    && let Some(truth) = modem
                {
                    self.error.record(self.estimate.current, truth.backlog(&id.key));
                }
                self.estimate.is_known().then_some(&self.estimate as &dyn Modem)
            }
            _ => reported,
        };
        self.windows.receive(now, heading, segment, (seen, modem));
        SegmentVerdict::Accept
    }

    fn wake(&mut self, now: Time) {
        self.windows.flows.expire(now);
    }

    fn next_wake(&self) -> Time {
        self.windows.flows.next_expiry()
    }

    fn stats(&self, modem: Option<&dyn Modem>) -> Stats {
        let error = Some(self.error).filter(|error| error.samples > 0);
        Stats { backlog_error: error, ..self.windows.flows.stats(modem, |managed| managed.control) }
    }

    fn ended(&self) -> Vec<FlowStats> {
        self.windows.flows.ended(|managed| managed.control)
    }
}

impl RateControl {
    /// Updates the estimate of the modem by an admitted segment. Returns true if it acknowledges new data.
    fn measure(&mut self, now: Time, heading: Heading, segment: &Segment, id: &Id, seen: &mut Observation) -> bool {
        let Some(flow) = self.windows.flows.get_mut(id) else { return false };
        let activated = seen.activated;
        // A flow that became active before the estimate was known still has no window.
        seen.activated |= flow.active && flow.state.control.is_none();
        let mss = flow.mss();
        let path = &mut flow.state.path;
        match heading {
            Heading::Inward if segment.payload > 0 && !segment.is(flags::SYN) => self.estimate.sent(now, path, segment),
            Heading::Outward if seen.credible && self.estimate.acknowledged(now, path, segment.ack, mss) => {
                return true;
            }
            _ => {}
        }
        if activated {
            let active = self.windows.flows.iter().filter(|(_, flow)| flow.active);
            self.estimate.total = active.map(|(_, flow)| flow.state.path.backlog).sum();
        }
        false
    }
}

impl FlowWindows {
    fn receive(
        &mut self,
        now: Time,
        heading: Heading,
        segment: &mut Segment,
        (seen, modem): (Observation, Option<&dyn Modem>),
    ) {
        if let Some(modem) = modem {
            self.follow(modem);
        }
        let Some(id) = seen.flow else { return };
        if let Some(modem) = modem.filter(|_| seen.activated) {
            self.admit(&id, modem);
        }
        if heading == Heading::Outward && seen.credible {
            if let Some(modem) = modem {
                self.adapt(now, &id, seen, modem);
            }
            self.rewrite(&id, segment, modem.is_some());
        }
    }

    fn follow(&mut self, modem: &dyn Modem) {
        let joined = (self.flows.activations, self.flows.deactivations);
        if joined != self.joined {
            let left = joined.1 != self.joined.1;
            self.joined = joined;
            self.sharing = SharingFlows { min_rtt: Time::MAX, ..SharingFlows::default() };
            for rtt in self.flows.iter().filter(|(_, f)| f.active).filter_map(|(_, f)| f.rtt) {
                self.sharing.flows += 1;
                self.sharing.inverse += 1.0 / rtt.as_secs_f64();
                self.sharing.min_rtt = self.sharing.min_rtt.min(rtt);
            }
            if left && self.params.leave_resets {
                self.each(|c, equation, floor| c.awnd = equation.max(floor));
            }
        }
        let limit = modem.max_sdus();
        let pdu = (limit, modem.cycle_time(limit));
        let usable = if self.params.error_factor { 1.0 - modem.rejected() } else { 1.0 };
        if (pdu, usable) != (self.pdu, self.usable) {
            (self.pdu, self.usable) = (pdu, usable);
            for (_, flow) in self.flows.iter_mut() {
                if let (Some(c), Some(rtt)) = (&mut flow.state.control, flow.rtt) {
                    c.sample = usable_sample(&self.params, rtt, usable, modem);
                }
            }
        }
    }

    /// Calls `f` for every active flow with its window by equation 1 and the floor.
    fn each(&mut self, f: impl Fn(&mut Control, f64, f64)) {
        let (floor, inverse) = (self.params.floor, self.sharing.inverse);
        for (_, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.active) {
            if let (Some(c), Some(rtt)) = (&mut flow.state.control, flow.rtt) {
                f(c, share(c.sample, rtt, inverse), floor);
            }
        }
    }

    /// Adds a flow: sets its window by equation 1 and reduces the others.
    fn admit(&mut self, id: &Id, modem: &dyn Modem) {
        let SharingFlows { inverse, min_rtt, .. } = self.sharing;
        let Some(flow) = self.flows.get_mut(id) else { return };
        let rtt = flow.rtt.expect("an active flow has an RTT");
        match &mut flow.state.control {
            Some(c) => c.awnd = c.awnd.min(share(c.sample, rtt, inverse)).max(self.params.floor), // active again
            None => {
                let sample = usable_sample(&self.params, rtt, self.usable, modem);
                let awnd = share(sample, rtt, inverse).max(self.params.floor);
                // Section 6: rho[i] = RTT[i] / RTT_ref.
                let rho = (rtt.as_secs_f64() / min_rtt.as_secs_f64()).min(self.params.max_rho);
                flow.state.control = Some(Control { awnd, sample, rho });
                if self.params.join_shrinks {
                    self.each(|c, equation, floor| c.awnd = c.awnd.min(equation).max(floor));
                }
            }
        }
    }

    fn adapt(&mut self, now: Time, id: &Id, seen: Observation, modem: &dyn Modem) {
        let (p, sharing) = (&self.params, self.sharing);
        let Some(flow) = self.flows.get_mut(id) else { return };
        let (Some(c), Some(rtt), true) = (&mut flow.state.control, flow.rtt, flow.active) else { return };
        if p.acks == Acks::Advancing && !seen.advanced {
            return;
        }
        let pause = match p.update {
            Update::Ack => Time::ZERO,
            Update::Cycle => self.pdu.1,
            Update::Rtt => rtt,
        };
        if flow.state.updated.is_some_and(|at| now.saturating_sub(at) < pause) {
            return;
        }
        flow.state.updated = Some(now);
        if p.rho == Rho::Current {
            // Section 6, with the current flows.
            c.rho = (rtt.as_secs_f64() / sharing.min_rtt.as_secs_f64()).min(p.max_rho);
        }
        let n = f64::from(sharing.flows);
        let limit = f64::from(self.pdu.0); // L
        let (queue, part) = match p.queue {
            GrowthQueue::Flow => (modem.backlog(&id.key), limit / n),
            GrowthQueue::Waiting => (modem.waiting(&id.key), limit / n),
            GrowthQueue::Total => (modem.total_backlog(), limit),
        };
        let queue = f64::from(queue);
        c.awnd = match p.scheme {
            Scheme::Muniz => muniz(c.awnd, c.sample, queue, part, c.rho, p.decrease),
            Scheme::Mizutani => mizutani(c.awnd, queue, part, n),
            Scheme::Fixed => c.awnd,
        }
        .max(p.floor);
    }

    fn rewrite(&mut self, id: &Id, segment: &mut Segment, controlled: bool) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let (shift, mss) = (flow.shift(Heading::Outward), flow.mss());
        let want = flow.state.control.filter(|_| controlled && !flow.excluded()).map(|c| WindowLimit {
            window: c.awnd as u64 * u64::from(mss),
            mss,
            retract: self.params.allow_retract,
        });
        let window = flow.state.edge.advertise(segment, shift, want);
        if window != segment.window {
            segment.window = window;
            flow.rewritten += 1;
        }
    }
}

/// Sample_Awnd, "the maximum number of transmitted SDUs within the RTT" (section 5): the largest number of SDUs that
/// the link of `modem` can carry within `rtt`, at least 2.
pub fn sample_awnd(sample: AwndSample, rtt: Time, modem: &dyn Modem) -> f64 {
    let limit = modem.max_sdus();
    let cycle = modem.cycle_time(limit).0.max(1);
    let sdus = match sample {
        AwndSample::Begun => rtt.0.div_ceil(cycle) as f64 * f64::from(limit),
        AwndSample::Fluid => rtt.0 as f64 / cycle as f64 * f64::from(limit),
        AwndSample::Whole => {
            let rest = Time(rtt.0 % cycle);
            // The largest n below L whose PDU fits into the rest.
            let (mut n, mut above) = (0, limit.max(1));
            while above - n > 1 {
                let middle = n + (above - n) / 2;
                if modem.cycle_time(middle) <= rest {
                    n = middle;
                } else {
                    above = middle;
                }
            }
            (rtt.0 / cycle) as f64 * f64::from(limit) + f64::from(n)
        }
    };
    sdus.max(MIN_SAMPLE)
}

fn usable_sample(p: &Params, rtt: Time, usable: f64, modem: &dyn Modem) -> f64 {
    (sample_awnd(p.sample, rtt, modem) * usable).max(MIN_SAMPLE)
}

/// Equation 1 (section 5): window of a flow. `inverse` is the sum of 1/RTT, in 1/s, of all flows that share the link.
pub fn share(sample: f64, rtt: Time, inverse: f64) -> f64 {
    sample / rtt.as_secs_f64() / inverse
}

/// Figure 12 (section 5): moves the window by 1/N so that the backlog `queue` approaches `part`: the flow's queue and
/// L/N in the paper, the queue of all flows and L by default ([`GrowthQueue::Total`]).
pub fn mizutani(awnd: f64, queue: f64, part: f64, n: f64) -> f64 {
    if queue >= part { awnd - 1.0 / n } else { awnd + 1.0 / n }
}

/// Figure 20 (section 6): moves the window by 2^rho per window so that the backlog `queue` approaches `part` = L/N.
/// Windows above `sample` fall.
pub fn muniz(awnd: f64, sample: f64, queue: f64, part: f64, rho: f64, decrease: Decrease) -> f64 {
    let power = libm::exp2(rho);
    if awnd > sample {
        return match decrease {
            Decrease::Exponent => awnd - power / 2.0, // 2^(rho - 1)
            Decrease::MinusOne => awnd - (power - 1.0),
        };
    }
    if queue <= part { awnd + power / awnd } else { awnd - power / awnd }
}

/// Least Sample_Awnd, SDUs: with less than two, delayed ACKs would stall the sender.
const MIN_SAMPLE: f64 = 2.0;
