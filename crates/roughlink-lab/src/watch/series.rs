//! Time series of a run, held in memory: step functions of flows and queues, and the delays of calls.

use crate::quantity::{Quantity, named};
use roughlink_core::app::Traffic;
use roughlink_core::gateway::Stats;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::routing::Hop;
use roughlink_core::net::{Crossing, InterfaceDirection, NetworkEvent, Observer, Sending};
use roughlink_core::packet::Packet;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;

/// Curves of single flows. Rates and delays are means since the previous point.
pub const CURVES: &[Quantity] = &[
    named("throughput_mbps").called("Throughput"),
    named("cwnd_pkt"),
    named("awnd_sdu"),
    named("wnd_pkt"),
    named("backlog_pkt"),
    named("delay_ms"),
];

/// A step function: each value holds until the time of the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Vec<(Time, f64)>);

#[derive(Clone, Debug, Default)]
pub(crate) struct FlowSeries {
    pub name: String,
    /// True for bulk transfers, over which fairness is computed.
    pub bulk: bool,
    pub voip: bool,
    /// Arrival of the last byte.
    pub end: Option<Time>,
    pub delivered: Steps,
    pub cwnd: Steps,
    pub wnd: Steps,
    pub awnd: Steps,
    /// The most SDUs that the link carries within the flow's RTT.
    pub sample: Steps,
    /// Packets in the transmit queues of media.
    pub backlog: Steps,
    pub segments: Steps,
    pub retransmits: Steps,
    pub fast_recoveries: Steps,
    pub timeouts: Steps,
    /// Arrival and one-way delay of voice, forward and reverse, ms.
    pub delays: [Vec<(Time, f64)>; 2],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct QueueSeries {
    pub waiting: Steps,
    pub dropped: Steps,
}

#[derive(Debug)]
pub(crate) struct RunSeries {
    pub flows: Vec<FlowSeries>,
    /// By hop: forward and reverse of each link.
    pub queues: Vec<QueueSeries>,
    pub links: Vec<String>,
    pub end: Time,
}

impl RunSeries {
    pub(crate) fn new(s: &Scenario) -> Self {
        let flow = |f: &roughlink_core::scenario::FlowSpec| FlowSeries {
            name: f.name.clone(),
            bulk: matches!(f.traffic, Traffic::Bulk { .. }),
            voip: matches!(f.traffic, Traffic::Voip { .. }),
            ..FlowSeries::default()
        };
        RunSeries {
            flows: s.flows.iter().map(flow).collect(),
            queues: vec![QueueSeries::default(); 2 * s.links.len()],
            links: s.links.iter().map(|l| l.name.clone()).collect(),
            end: s.duration,
        }
    }

    /// Records when the run and its flows ended.
    pub(crate) fn finish(&mut self, result: &RunResult) {
        self.end = Time::from_secs_f64(result.sim_s);
        for (flow, of) in self.flows.iter_mut().zip(&result.flows) {
            flow.end = of.end_s.map(Time::from_secs_f64);
        }
    }

    fn packet(&mut self, now: Time, at: Crossing, packet: &Packet) {
        let flow = &mut self.flows[at.flow];
        if flow.voip && at.direction == InterfaceDirection::In {
            let delay = now.saturating_sub(packet.udp_sent_at());
            flow.delays[usize::from(packet.flow.reverse())].push((now, delay.as_millis_f64()));
        }
    }

    fn queue(&mut self, now: Time, hop: Hop, waiting: usize, drops: u64) {
        let queue = &mut self.queues[hop as usize];
        queue.waiting.set(now, waiting as f64);
        queue.dropped.set(now, drops as f64);
    }

    /// Records the backlog in forward queues; the reverse direction carries acknowledgments.
    fn backlog(&mut self, now: Time, hop: Hop, of: &dyn Fn(usize) -> u32) {
        if hop & 1 == 0 {
            for (i, flow) in self.flows.iter_mut().enumerate() {
                flow.backlog.set(now, f64::from(of(i)));
            }
        }
    }

    fn gateway(&mut self, now: Time, stats: &Stats) {
        for f in &stats.flows {
            // Flows between two ports have later numbers than the scenario's.
            if let (Some(flow), Some(control)) = (self.flows.get_mut(f.key.flow.index()), f.control) {
                flow.awnd.set(now, control.awnd);
                flow.sample.set(now, control.sample);
            }
        }
    }

    fn flow(&mut self, now: Time, index: usize, sender: Sending<'_>, delivered: u64) {
        let seen = &mut self.flows[index];
        let (flow, stats) = (sender.flow(), sender.stats());
        let mss = f64::from(flow.mss.max(1));
        let cwnd = sender.cc().trace().cwnd;
        seen.delivered.set(now, delivered as f64);
        seen.cwnd.set(now, cwnd as f64 / mss);
        seen.wnd.set(now, cwnd.min(flow.send_window) as f64 / mss);
        seen.segments.set(now, stats.segments as f64);
        seen.retransmits.set(now, stats.retransmits as f64);
        seen.fast_recoveries.set(now, stats.fast_recoveries as f64);
        seen.timeouts.set(now, stats.timeouts as f64);
    }

    /// Returns the curve `name` of each of the `flows` that can have it, called `name@flow`. `total` is the sum, where
    /// a sum is meaningful.
    pub(crate) fn curves(&self, name: &str, flows: &[String], every: Time, points: usize) -> Vec<(String, Vec<f64>)> {
        let own = |wanted: &String| {
            let flow = self.flows.iter().find(|f| f.name == *wanted && f.voip == (name == "delay_ms"))?;
            Some((format!("{name}@{wanted}"), (0..points).map(|k| flow.point(name, every, k)).collect::<Vec<f64>>()))
        };
        let mut all: Vec<(String, Vec<f64>)> = flows.iter().filter_map(own).collect();
        if flows.iter().any(|f| f == TOTAL) && SUMMED.contains(&name) {
            let sum = (0..points).map(|k| all.iter().map(|(_, curve)| curve[k]).sum()).collect();
            all.push((format!("{name}@{TOTAL}"), sum));
        }
        all
    }
}

impl Observer for RunSeries {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Packet { at, packet, .. } => self.packet(now, at, packet),
            NetworkEvent::Queue { hop, waiting, drops } => self.queue(now, hop, waiting, drops),
            NetworkEvent::Backlog { hop, of } => self.backlog(now, hop, of),
            NetworkEvent::Gateway { stats, .. } => self.gateway(now, &stats()),
            NetworkEvent::Sender { flow, sender, delivered } => self.flow(now, flow, sender, delivered),
            _ => {}
        }
    }
}

impl FlowSeries {
    fn point(&self, name: &str, every: Time, k: usize) -> f64 {
        let now = every * k as u64;
        let before = now.saturating_sub(every);
        match name {
            "throughput_mbps" => self.delivered.increase(before, now) * 8e-6 / every.as_secs_f64(),
            "cwnd_pkt" => self.cwnd.at(now),
            "awnd_sdu" => self.awnd.at(now),
            "wnd_pkt" => self.wnd.at(now),
            "backlog_pkt" => self.backlog.at(now),
            _ => mean(&within(&self.delays[0], before, now)).unwrap_or(0.0),
        }
    }
}

impl Steps {
    fn set(&mut self, now: Time, value: f64) {
        match self.0.last_mut() {
            Some(last) if last.1 == value => {}
            Some(last) if last.0 == now => last.1 = value,
            _ => self.0.push((now, value)),
        }
    }

    /// Returns the value at a time; 0 before the first step.
    pub(crate) fn at(&self, time: Time) -> f64 {
        let passed = self.0.partition_point(|step| step.0 <= time);
        passed.checked_sub(1).map_or(0.0, |i| self.0[i].1)
    }

    pub(crate) fn increase(&self, from: Time, to: Time) -> f64 {
        self.at(to) - self.at(from)
    }

    /// Returns the values between two times, each with its duration in s; none before the first step.
    pub(crate) fn pieces(&self, from: Time, to: Time) -> Vec<(f64, f64)> {
        let first = self.0.partition_point(|step| step.0 <= from).saturating_sub(1);
        let mut pieces = Vec::new();
        for (i, &(start, value)) in self.0.iter().enumerate().skip(first) {
            if start >= to {
                break;
            }
            let end = self.0.get(i + 1).map_or(to, |next| next.0.min(to));
            let held = end.saturating_sub(start.max(from)).as_secs_f64();
            if held > 0.0 {
                pieces.push((value, held));
            }
        }
        pieces
    }
}

pub(crate) fn within(sample: &[(Time, f64)], from: Time, to: Time) -> Vec<f64> {
    let range = sample.partition_point(|s| s.0 < from)..sample.partition_point(|s| s.0 < to);
    sample[range].iter().map(|s| s.1).collect()
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

const SUMMED: [&str; 2] = ["throughput_mbps", "backlog_pkt"];
/// Name of the sum over the flows.
pub const TOTAL: &str = "total";
