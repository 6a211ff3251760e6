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

mod params;

pub use params::{Acks, AwndSample, Decrease, GrowthQueue, MIZUTANI, Params, Rho, Scheme, Update};

use super::flows::{Flows, Id, Observation};
use super::rewrite::{AdvertisedEdge, WindowLimit};
use super::{Control, FlowStats, Gateway, Heading, Modem, Segment, SegmentVerdict, Stats, entry::BuildGateway};
use crate::units::Time;

/// The gateway.
#[derive(Debug)]
pub struct RateControl {
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
            p.table.check()
        }
    }
    fn new(params: &Params) -> Self {
        RateControl {
            params: params.clone(),
            flows: Flows::new(params.table.clone()),
            sharing: SharingFlows::default(),
            joined: (0, 0),
            pdu: (0, Time::ZERO),
            usable: 1.0,
        }
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
        let seen = self.flows.observe(now, heading, segment);
        if let Some(modem) = modem {
            self.follow(modem);
        }
        let Some(id) = seen.flow else { return SegmentVerdict::Accept };
        if let Some(modem) = modem.filter(|_| seen.activated) {
            self.admit(&id, modem);
        }
        if heading == Heading::Outward && seen.credible {
            if let Some(modem) = modem {
                self.adapt(now, &id, seen, modem);
            }
            self.rewrite(&id, segment, modem.is_some());
        }
        SegmentVerdict::Accept
    }

    fn wake(&mut self, now: Time) {
        self.flows.expire(now);
    }

    fn next_wake(&self) -> Time {
        self.flows.next_expiry()
    }

    fn stats(&self, modem: Option<&dyn Modem>) -> Stats {
        self.flows.stats(modem, |managed| managed.control)
    }

    fn ended(&self) -> Vec<FlowStats> {
        self.flows.ended(|managed| managed.control)
    }
}

impl RateControl {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{FakeModem, GatewayBench, key_of};
    use super::*;

    const RTTS: [u64; 3] = [66, 126, 186];

    /// Creates a rate control in which Sample_Awnd is 96 SDUs for an RTT of 66 ms.
    fn control(toml: &str) -> RateControl {
        RateControl::new(&Params { sample: AwndSample::Whole, ..toml::from_str(toml).unwrap() })
    }
    fn inverse(rtts: &[u64]) -> f64 {
        rtts.iter().map(|&ms| 1e3 / ms as f64).sum()
    }
    fn control_of(gateway: &RateControl, flow: u32) -> Control {
        let key = key_of(flow);
        gateway.stats(None).flows.iter().find(|f| f.key == key).unwrap().control.unwrap()
    }

    /// A 1500-byte SDU takes 652.2 us at 18.62 Mbit/s, a cycle 0.75 ms more.
    #[test]
    fn sdus_per_rtt_match_the_link_capacity() {
        let modem = FakeModem::default();
        for (ms, whole, begun, fluid) in
            [(66, 96.0, 124.0, 97.6), (126, 186.0, 217.0, 186.3), (186, 274.0, 279.0, 275.0)]
        {
            let rtt = Time::from_millis(ms);
            assert_eq!(sample_awnd(AwndSample::Begun, rtt, &modem), begun, "{ms} ms");
            assert_eq!(sample_awnd(AwndSample::Whole, rtt, &modem), whole, "{ms} ms");
            assert!((sample_awnd(AwndSample::Fluid, rtt, &modem) - fluid).abs() < 0.05, "{ms} ms");
        }
        assert_eq!(sample_awnd(AwndSample::Whole, Time::from_millis(1), &modem), 2.0);
        for limit in [0, 1, u32::MAX] {
            let odd = FakeModem { limit, overhead: Time::ZERO, sdu: Time::ZERO, ..FakeModem::default() };
            assert!(sample_awnd(AwndSample::Whole, Time::from_millis(66), &odd) >= 2.0);
        }
    }

    /// Equation 1: equal windows, rates proportional to 1/RTT, and a sum equal to the capacity.
    #[test]
    fn equation_1_gives_equal_windows() {
        let modem = FakeModem::default();
        for (rtts, shares, jain) in
            [(vec![66, 186], vec![0.738, 0.262], 0.82), (RTTS.to_vec(), vec![0.532, 0.279, 0.189], 0.84)]
        {
            let inverse = inverse(&rtts);
            let rates: Vec<f64> = rtts
                .iter()
                .map(|&ms| {
                    let rtt = Time::from_millis(ms);
                    share(sample_awnd(AwndSample::Fluid, rtt, &modem), rtt, inverse) / rtt.as_secs_f64()
                })
                .collect();
            let total: f64 = rates.iter().sum();
            let capacity = 31.0 / modem.cycle_time(31).as_secs_f64();
            assert!((total / capacity - 1.0).abs() < 1e-12);
            for (rate, share) in rates.iter().zip(&shares) {
                assert!((rate / total - share).abs() < 5e-4, "{rates:?}");
            }
            let squares: f64 = rates.iter().map(|r| r * r).sum();
            assert!((total * total / squares / rates.len() as f64 - jain).abs() < 5e-3);
        }
    }

    /// A window's worth of ACKs changes the window W by W/N in the previous scheme, by about 2^rho in the proposed one.
    #[test]
    fn window_gain_per_rtt_matches_the_papers() {
        let after = |mut w: f64, f: &dyn Fn(f64) -> f64| {
            let start = w;
            (0..start as u32).for_each(|_| w = f(w));
            w - start
        };
        assert_eq!(after(48.0, &|w| mizutani(w, 0.0, 15.5, 2.0)), 24.0);
        assert_eq!(after(48.0, &|w| mizutani(w, 15.5, 15.5, 2.0)), -24.0);
        for (ms, gain) in [(66.0, 2.0), (126.0, 3.8), (186.0, 7.0)] {
            let rho = ms / 66.0;
            let grown = after(96.0, &|w| muniz(w, 1e6, 15.5, 15.5, rho, Decrease::Exponent));
            assert!((grown - gain).abs() < 0.3, "{grown}");
            let shrunk = after(96.0, &|w| muniz(w, 1e6, 15.6, 15.5, rho, Decrease::Exponent));
            assert!((shrunk + gain).abs() < 0.4, "{shrunk}");
        }
        // Above Sample_Awnd: 2^(rho-1), or 2^rho - 1, for any queue.
        for (ms, exponent, minus_one) in [(66.0, 1.0, 1.0), (126.0, 1.9, 2.8), (186.0, 3.5, 6.1)] {
            for (reading, step) in [(Decrease::Exponent, exponent), (Decrease::MinusOne, minus_one)] {
                let fallen = 200.0 - muniz(200.0, 199.0, 0.0, 15.5, ms / 66.0, reading);
                assert!((fallen - step).abs() < 0.06, "{fallen}");
            }
        }
    }

    #[test]
    fn flows_join_and_leave() {
        let mut b = GatewayBench::new(control("scheme = \"fixed\""));
        b.open(0, 66);
        assert!(b.gateway.stats(None).flows[0].control.is_none(), "no data yet");
        b.data(0, 1);
        assert_eq!(control_of(&b.gateway, 0), Control { awnd: 96.0, sample: 96.0, rho: 1.0 });
        b.open(1, 186);
        assert_eq!(control_of(&b.gateway, 0).awnd, 96.0);
        b.data(1, 1);
        let sum = inverse(&[66, 186]);
        let [first, second] = [(96.0, 0.066), (274.0, 0.186)].map(|(s, rtt): (f64, f64)| s / rtt / sum);
        assert!((control_of(&b.gateway, 0).awnd - first).abs() < 1e-9);
        let c = control_of(&b.gateway, 1);
        assert!((c.awnd - second).abs() < 1e-9 && (c.rho - 186.0 / 66.0).abs() < 1e-9);
        // The first flow becomes inactive: it no longer counts, keeps its window, and returns without a larger one.
        b.wait(1_500);
        b.data(1, 1);
        assert_eq!(b.gateway.sharing.flows, 1);
        b.data(0, 1);
        assert_eq!(b.gateway.sharing.flows, 2);
        assert!((control_of(&b.gateway, 0).awnd - first).abs() < 1e-9);
    }

    #[test]
    fn remaining_flows_can_take_over_freed_shares() {
        for (toml, awnd) in [("", 70.0), ("leave_resets = true", 96.0)] {
            let mut b = GatewayBench::new(control(&format!("scheme = \"fixed\"\n{toml}")));
            b.open(0, 66);
            b.data(0, 1);
            b.open(1, 186);
            b.data(1, 1);
            b.data(0, 1);
            b.fin(1, Heading::Inward);
            b.data(0, 1);
            let c = control_of(&b.gateway, 0);
            assert_eq!(b.gateway.sharing.flows, 1);
            assert!((c.awnd - awnd).abs() < 1.0, "{c:?}");
        }
    }

    #[test]
    fn rho_follows_the_sharing_flows_unless_frozen() {
        for (toml, rho) in [("", 186.0 / 66.0), ("rho = \"frozen\"", 1.0), ("max_rho = 2", 2.0)] {
            let mut b = GatewayBench::new(control(toml));
            b.open(0, 186);
            b.data(0, 1);
            b.open(1, 66);
            b.data(1, 1);
            b.ack(0, 60_000);
            assert!((control_of(&b.gateway, 0).rho - rho).abs() < 1e-9, "{toml}");
        }
    }

    #[test]
    fn only_advancing_acknowledgments_count() {
        let cases = [
            ("", 1.0),
            ("acks = \"all\"", 3.0),
            ("update = \"cycle\"\nacks = \"all\"", 1.0),
            ("update = \"rtt\"\nacks = \"all\"", 1.0),
        ];
        for (toml, steps) in cases {
            let mut b = GatewayBench::new(control(&format!("scheme = \"mizutani\"\n{toml}")));
            b.open(0, 66);
            b.data(0, 2);
            for _ in 0..3 {
                b.ack(0, 60_000);
            }
            assert_eq!(control_of(&b.gateway, 0).awnd, 96.0 + steps, "{toml}");
        }
    }

    #[test]
    fn windows_move_as_often_as_configured() {
        // Twelve acknowledgments, 11 ms apart: a cycle takes 21 ms, the handshake took 66.
        for (update, steps) in [("ack", 12.0), ("cycle", 6.0), ("rtt", 2.0)] {
            let mut b = GatewayBench::new(control(&format!("scheme = \"mizutani\"\nupdate = \"{update}\"")));
            b.open(0, 66);
            for _ in 0..12 {
                b.data(0, 1);
                b.wait(11);
                b.ack(0, 60_000);
            }
            assert_eq!(control_of(&b.gateway, 0).awnd, 96.0 + steps, "{update}");
        }
    }

    /// A flow has few SDUs in a full queue: its window grows if its own backlog decides, and shrinks if the total does.
    #[test]
    fn total_queue_can_drive_the_window() {
        for (toml, other, awnd) in [("", 40, 70.5), ("total", 40, 69.5), ("total", 26, 69.5), ("total", 25, 70.5)] {
            let toml = if toml.is_empty() { String::new() } else { format!("queue = \"{toml}\"") };
            let mut b = GatewayBench::new(control(&format!("scheme = \"mizutani\"\n{toml}")));
            for (flow, ms) in [(0, 66), (1, 186)] {
                b.open(flow, ms);
                b.data(flow, 1);
            }
            // L is 31: half per flow, or 31 in all.
            b.modem.backlog.insert(key_of(0), (5, 5));
            b.modem.backlog.insert(key_of(1), (other, other));
            b.gateway.flows.get_mut(&Id::new(key_of(0))).unwrap().state.control.as_mut().unwrap().awnd = 70.0;
            b.ack(0, 60_000);
            assert_eq!(control_of(&b.gateway, 0).awnd, awnd, "{toml}, {other} of the other");
        }
    }

    #[test]
    fn configured_queue_drives_the_window() {
        for (toml, up) in [("", false), ("queue = \"waiting\"", true)] {
            let mut b = GatewayBench::new(control(toml));
            b.modem.backlog.insert(key_of(0), (31, 32));
            b.open(0, 66);
            b.data(0, 1);
            b.gateway.flows.get_mut(&Id::new(key_of(0))).unwrap().state.control.as_mut().unwrap().awnd = 50.0;
            b.ack(0, 60_000);
            assert_eq!(control_of(&b.gateway, 0).awnd, if up { 50.04 } else { 49.96 }, "{toml}");
            assert_eq!(b.gateway.stats(Some(&b.modem)).flows[0].queue_share, 1.0);
        }
    }

    #[test]
    fn window_sample_follows_the_modem() {
        let mut b = GatewayBench::new(control("error_factor = true"));
        b.open(0, 66);
        b.data(0, 1);
        b.modem.limit = 10;
        b.ack(0, 60_000);
        // 66 ms of cycles of 7.272 ms: nine full ones.
        assert_eq!(control_of(&b.gateway, 0), Control { awnd: 95.0, sample: 90.0, rho: 1.0 });
        b.modem.rejected = 0.5;
        b.gateway.flows.get_mut(&Id::new(key_of(0))).unwrap().state.control.as_mut().unwrap().awnd = 50.0;
        b.data(0, 1);
        b.ack(0, 60_000);
        assert_eq!(control_of(&b.gateway, 0), Control { awnd: 49.0, sample: 45.0, rho: 1.0 }, "above half of 90");
        // Equation 1 divides the Sample_Awnd of 45, already reduced for errors, between two flows.
        b.open(1, 66);
        b.data(1, 1);
        assert_eq!([0, 1].map(|flow| control_of(&b.gateway, flow).awnd), [22.5; 2]);
        b.modem.rejected = 1.0;
        b.ack(0, 60_000);
        assert_eq!(control_of(&b.gateway, 0).sample, 2.0, "never less");
    }

    /// Creates a rate control with a window in balance at 2920 bytes; the receiver's window is 60000.
    fn held_bench() -> GatewayBench<RateControl> {
        let mut b = GatewayBench::new(control("scheme = \"fixed\""));
        b.modem.sdu = Time::from_secs(1); // Sample_Awnd is 2
        b.open(0, 66);
        for _ in 0..50 {
            b.data(0, 1);
            b.ack(0, 60_000);
        }
        assert_eq!(b.ack(0, 60_000), 2_920);
        b
    }

    /// Only a segment's first fragment is visible, 960 of 1460 bytes: the acknowledgment of the whole is accepted.
    #[test]
    fn fragments_do_not_move_edges_back() {
        let mut b = held_bench();
        for _ in 0..5 {
            let s = b.segment(0, Heading::Inward);
            b.pass(Heading::Inward, Segment { payload: 960, ..s });
            let s = b.segment(0, Heading::Outward);
            let ack = |ack| Segment { ack, window: 60_000, ..s };
            assert_eq!(b.pass(Heading::Outward, ack(s.ack + 1_460)).window, 2_920);
            b.skip(0, 1_460);
            assert_eq!(b.ack(0, 60_000), 2_920);
        }
    }

    /// An attacker forges data of the server, far ahead of the stream, and the client's acknowledgment of it.
    #[test]
    fn data_outside_the_window_is_ignored() {
        for (ahead, ack_ahead) in [(1 << 30, 1 << 30), (100_000, 100_000), (59_000, 61_000), (1 << 31, 1 << 31)] {
            let mut b = held_bench();
            let data = Segment { payload: 1_460, ..b.segment(0, Heading::Inward) };
            let back = b.segment(0, Heading::Outward);
            b.pass(Heading::Inward, Segment { seq: data.seq.wrapping_add(ahead), ..data });
            b.pass(Heading::Outward, Segment { ack: back.ack.wrapping_add(ack_ahead + 1_460), window: 60_000, ..back });
            for _ in 0..10 {
                b.data(0, 1);
                assert_eq!(b.ack(0, 60_000), 2_920, "{ahead}");
            }
        }
    }

    /// A probe of a closed window lies just beyond the window.
    #[test]
    fn probes_of_closed_windows_are_recognized() {
        let mut b = held_bench();
        b.data(0, 1);
        assert_eq!(b.ack(0, 0), 0);
        // The right edge is still where 2920 bytes were offered.
        b.data(0, 2);
        b.ack(0, 0);
        let s = b.segment(0, Heading::Inward);
        b.pass(Heading::Inward, Segment { payload: 1, ..s });
        let s = b.segment(0, Heading::Outward);
        assert_eq!(b.pass(Heading::Outward, Segment { ack: s.ack + 1, window: 60_000, ..s }).window, 2_920);
    }

    /// With the modem's queue at L/N the window is in balance; the upper bound holds to within a step.
    #[test]
    fn the_window_stays_within_its_bounds() {
        let mut b = GatewayBench::new(control(""));
        b.open(0, 66);
        for _ in 0..2_000 {
            b.data(0, 1);
            b.ack(0, 60_000);
            let c = control_of(&b.gateway, 0);
            assert!(c.awnd <= c.sample + 1.0, "{c:?}");
        }
        b.modem.backlog.insert(key_of(0), (200, 200));
        for _ in 0..20_000 {
            b.data(0, 1);
            b.ack(0, 60_000);
        }
        assert_eq!(control_of(&b.gateway, 0).awnd, 2.0);
    }

    #[test]
    fn windows_are_unchanged_without_a_modem() {
        let mut b = GatewayBench::new(control(""));
        b.open(0, 66);
        let mut s = b.segment(0, Heading::Inward);
        s.payload = 1000;
        assert_eq!(b.gateway.receive(b.now, Heading::Inward, &mut s, None), SegmentVerdict::Accept);
        let mut ack = b.segment(0, Heading::Outward);
        ack.window = 65_535;
        let before = ack;
        assert_eq!((b.gateway.receive(b.now, Heading::Outward, &mut ack, None), ack), (SegmentVerdict::Accept, before));
    }
}
