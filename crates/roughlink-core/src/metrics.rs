//! The results of a run.

pub mod conversation;
pub mod frames;
mod gateway;

pub use gateway::{GatewayFlowResult, GatewayResult};

use crate::app::messages::MessagesResult;
use crate::app::request::SessionResult;
use crate::app::voip::VoipResult;
use crate::app::web::WebResult;
use crate::app::{ApplicationResult, Traffic, read_result};
use crate::gateway::{FlowStats, Stats};
use crate::link::Model;
use crate::link::pipe::{ArqStats, PipeStats};
use crate::packet::Protocol;
pub use crate::quantiles::RttResult;
use crate::scenario::{FlowSpec, Scenario};
use crate::sender::SenderStats;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// Result of one run, as printed by `--json`. Column names contain units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Title of the scenario.
    pub name: String,
    /// Seed of the run.
    pub seed: u64,
    /// Replica number.
    pub replica: u32,
    /// Simulated time, s: when the last flow ended if all flows have a size and have ended, otherwise the time reached.
    pub sim_s: f64,
    /// Wall-clock time, s; set by the caller, since core has no clock.
    pub wall_s: f64,
    /// Events processed.
    pub events: u64,
    /// Flows in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// Links in the scenario's order.
    pub links: Vec<LinkResult>,
    /// Gateways in the scenario's order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gateways: Vec<GatewayResult>,
    /// Jain's fairness index of the throughputs of the transfers (`bulk`); null if none of them delivered anything.
    pub jain: Option<f64>,
}

/// A flow's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Name.
    pub name: String,
    /// Kind of traffic ([`Traffic::name`]).
    pub kind: String,
    /// Congestion control; null for datagram flows.
    pub cc: Option<String>,
    /// TCP stack; absent for other transports.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stack: Option<String>,
    /// Set for a transfer without a size, which never completes; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unlimited: bool,
    /// Set if the flow did not run because both of its ends are outside the network; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub not_run: bool,
    /// Start, s.
    pub start_s: f64,
    /// Arrival of the last byte, s; null if the flow did not complete.
    pub end_s: Option<f64>,
    /// Set if all bytes arrived (bulk) or left (cbr).
    pub completed: bool,
    /// Set if the connection was aborted: the peer did not answer for too long, or reset it.
    pub failed: bool,
    /// Time of the abort, s; null without an abort.
    #[serde(default)]
    pub failed_s: Option<f64>,
    /// Payload bytes delivered in order to the application.
    pub delivered_bytes: u64,
    /// `delivered_bytes` x 8 / (arrival of the last byte - start), Mbit/s.
    pub throughput_mbps: Option<f64>,
    /// Data segments sent, including retransmissions; for datagram flows, datagrams sent.
    pub segments: u64,
    /// Data segments sent again.
    pub retransmits: u64,
    /// Fast-recovery episodes.
    pub fast_recoveries: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Episodes undone as spurious.
    pub undos: u64,
    /// Segments of either end that arrived and were dropped for an old timestamp (PAWS, RFC 7323 section 5; Linux
    /// `PAWSEstab`); absent if the flow does not use a simulated TCP endpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paws_rejected: Option<u64>,
    /// RTT samples; null for datagram flows.
    pub rtt_ms: Option<RttResult>,
    /// One-way delays of data packets, ms, from the departure (or entry from outside) of the copy that arrived. Without
    /// timestamps (SCTP), only data sent once counts. Absent for calls, sessions, and connections with an end outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ms: Option<RttResult>,
    /// SCTP: payload bytes that the sender abandoned and the receiver skipped (FORWARD TSN, RFC 3758); else absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skipped_bytes: Option<u64>,
    /// Result of the application, under the key `voip`, `web`, `messages` or `session`; absent without such a result.
    #[serde(flatten, deserialize_with = "read_result")]
    pub application: Option<ApplicationResult>,
}

/// Requests or messages of a flow, with their latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// `requests` or `messages`.
    pub unit_of: &'static str,
    /// Number sent.
    pub sent: u64,
    /// Responses, or messages, that arrived.
    pub arrived: u64,
    /// Latency, ms: [`WebResult::response_ms`] or [`MessagesResult::latency_ms`].
    pub latency_ms: Option<RttResult>,
}

/// A link's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Name.
    pub name: String,
    /// From the first node of `between` to the second.
    pub forward: DirectionResult,
    /// From the second node to the first.
    pub reverse: DirectionResult,
}

/// The counts of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// IP packets serialized; each fragment counts.
    pub packets: u64,
    /// Bytes of the serialized packets.
    pub bytes: u64,
    /// Packets dropped by a full queue or by its discipline.
    pub dropped: u64,
    /// Packets lost to noise.
    pub lost: u64,
    /// Actual loss: `lost` over `packets`; null without packets.
    pub loss: Option<f64>,
    /// Time average of the packets waiting, until `sim_s` or, if later, until the last one left the queue.
    pub queue_mean_pkt: f64,
    /// Largest number of waiting packets.
    pub queue_max_pkt: u32,
    /// Waiting times of the packets served, ms; absent without packets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_delay_ms: Option<RttResult>,
    /// Counters of the queue discipline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qdisc: Option<QueueResult>,
    /// Framing and retransmissions on a shared medium.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arq: Option<ArqStats>,
}

/// Counters of a queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueResult {
    /// Packets marked with CE.
    pub marked: u64,
    /// Packets dropped although there was space for them; part of the `dropped` of the link.
    pub dropped: u64,
    /// Queueing delay of packets served; null without packets.
    pub delay_ms: Option<RttResult>,
}

/// Report on a flow by its ends, in the network or in kernels
/// ([`Network::set_report`](crate::net::Network::set_report)).
#[derive(Clone, Debug, Default)]
pub struct FlowReport {
    /// Start.
    pub start: Time,
    /// Time of completion; `None` if the flow has not completed.
    pub end: Option<Time>,
    /// Arrival of the latest data.
    pub last_delivery: Time,
    /// Payload bytes delivered to the application.
    pub delivered: u64,
    /// Set if the flow can complete.
    pub sized: bool,
    /// Time of an abort.
    pub failed: Option<Time>,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Payload bytes that an SCTP receiver skipped.
    pub skipped: u64,
    /// Segments that simulated TCP endpoints dropped for an old timestamp; `None` without TCP or if kernels carry the
    /// flow.
    pub rejected: Option<u64>,
    /// Set if the flow did not run.
    pub not_run: bool,
    /// One-way delays of packets with data.
    pub delay: Option<RttResult>,
    /// Counters of the sender.
    pub sender: SenderReport,
    /// Result of the application.
    pub application: Option<ApplicationResult>,
}

impl FlowReport {
    /// Report on a flow whose component has not run.
    fn before_start(spec: &FlowSpec) -> Self {
        let (start, rejected) = (spec.start, spec.tcp().map(|_| 0));
        FlowReport { start, last_delivery: start, rejected, ..Default::default() }
    }
}

/// Counters of a sender. RTT samples are summarized to save memory, since reports are kept until the network ends.
#[derive(Clone, Debug, Default)]
pub struct SenderReport {
    /// Data segments sent, including retransmissions.
    pub segments: u64,
    /// Data segments sent again.
    pub retransmits: u64,
    /// Fast-recovery episodes.
    pub fast_recoveries: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Episodes undone as spurious.
    pub undos: u64,
    /// RTT samples.
    pub rtt: Option<RttResult>,
}

impl From<&SenderStats> for SenderReport {
    fn from(s: &SenderStats) -> Self {
        SenderReport {
            segments: s.segments,
            retransmits: s.retransmits,
            fast_recoveries: s.fast_recoveries,
            timeouts: s.timeouts,
            undos: s.undos,
            rtt: RttResult::from_histogram(&s.rtt),
        }
    }
}

/// Counters of a link direction; delays are summarized to save memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkReport {
    packets: u64,
    bytes: u64,
    dropped: u64,
    lost: u64,
    waited_ns: u128,
    waited_until: Time,
    queue_max: u32,
    queue_delay: Option<RttResult>,
    queue: Option<Box<QueueResult>>,
    arq: Option<Box<ArqStats>>,
}

impl From<PipeStats> for LinkReport {
    fn from(s: PipeStats) -> Self {
        let queue = s.queue.map(|q| {
            let delay_ms = RttResult::from_histogram(&q.delay);
            Box::new(QueueResult { marked: q.marked, dropped: q.dropped, delay_ms })
        });
        LinkReport {
            packets: s.packets,
            bytes: s.bytes,
            dropped: s.dropped,
            lost: s.lost,
            waited_ns: s.waited_ns,
            waited_until: s.waited_until,
            queue_max: s.queue_max,
            queue_delay: RttResult::from_histogram(&s.delay),
            queue,
            arq: (s.arq != ArqStats::default()).then(|| Box::new(s.arq)),
        }
    }
}

/// Reports on all or, from one component, some elements of a network; each with its number in the scenario.
#[derive(Debug, Default)]
pub(crate) struct ComponentReports {
    pub flows: Vec<(usize, Box<FlowReport>)>,
    /// Directions, numbered like hops: twice the link's number, plus one for the reverse.
    pub links: Vec<(u32, LinkReport)>,
    pub gateways: Vec<(usize, GatewayReport)>,
    pub events: u64,
}

/// Counters of a gateway, and of its flows that have ended.
pub(crate) type GatewayReport = (Stats, Vec<FlowStats>);

#[derive(Clone, Debug)]
pub(crate) struct NetworkReports {
    /// Boxed, so that not all reports are in memory while flows are.
    pub flows: Vec<Option<Box<FlowReport>>>,
    pub links: Vec<[LinkReport; 2]>,
    pub gateways: Vec<Option<GatewayReport>>,
    pub events: u64,
}

impl NetworkReports {
    pub(crate) fn new(s: &Scenario) -> Self {
        NetworkReports {
            flows: s.flows.iter().map(|_| None).collect(),
            links: s.links.iter().map(|_| Default::default()).collect(),
            gateways: s.gateways.iter().map(|_| None).collect(),
            events: 0,
        }
    }

    /// Stores the reports of a component.
    pub(crate) fn add(&mut self, component: ComponentReports) {
        for (flow, report) in component.flows {
            self.flows[flow] = Some(report);
        }
        for (direction, report) in component.links {
            self.links[direction as usize / 2][direction as usize % 2] = report;
        }
        for (gateway, report) in component.gateways {
            self.gateways[gateway] = Some(report);
        }
        self.events += component.events;
    }
}

impl RunResult {
    /// Creates the result as of `now`. An `open` network continues when its own flows are done.
    pub(crate) fn new(s: &Scenario, replica: u32, (now, open): (Time, bool), reports: &NetworkReports) -> Self {
        let NetworkReports { flows, links, gateways, events } = reports;
        let ended = |f: &FlowReport| f.sized && (f.end.is_some() || f.failed.is_some());
        let over = !open && flows.iter().all(|f| f.as_deref().is_some_and(ended));
        let end = || flows.iter().flatten().map(|f| f.end.unwrap_or(now)).max();
        let sim = if over { end().unwrap_or(Time::ZERO) } else { now };
        let result = |(spec, report): (&FlowSpec, &Option<Box<FlowReport>>)| match report {
            Some(report) => FlowResult::new(spec, report),
            None => FlowResult::new(spec, &FlowReport::before_start(spec)),
        };
        let flows: Vec<FlowResult> = s.flows.iter().zip(flows).map(result).collect();
        RunResult {
            name: s.name.clone(),
            seed: s.seed,
            replica,
            sim_s: sim.as_secs_f64(),
            wall_s: 0.0,
            events: *events,
            jain: jain(flows.iter().filter(|f| f.is_transfer()).map(|f| f.throughput_mbps.unwrap_or(0.0))),
            flows,
            links: s
                .links
                .iter()
                .zip(links)
                .map(|(spec, l)| LinkResult {
                    name: spec.name.clone(),
                    forward: DirectionResult::new(&l[0], &spec.model, false, sim),
                    reverse: DirectionResult::new(&l[1], &spec.model, true, sim),
                })
                .collect(),
            gateways: (s.gateways.iter().zip(gateways))
                .map(|(spec, stats)| GatewayResult::new(s, spec, stats.as_ref()))
                .collect(),
        }
    }
}

impl FlowResult {
    /// Returns true if the flow uses all available rate, so that fairness applies to it.
    pub fn is_transfer(&self) -> bool {
        self.kind == "bulk"
    }

    /// Returns the quality of a voice call at `to`, and at `from`.
    pub fn voip(&self) -> Option<&[VoipResult; 2]> {
        if let Some(ApplicationResult::Voip(result)) = &self.application { Some(result) } else { None }
    }

    /// Returns the requests and responses of a `web` flow.
    pub fn web(&self) -> Option<&WebResult> {
        if let Some(ApplicationResult::Web(result)) = &self.application { Some(result) } else { None }
    }

    /// Returns the messages of a `messages` flow.
    pub fn messages(&self) -> Option<&MessagesResult> {
        if let Some(ApplicationResult::Messages(result)) = &self.application { Some(result) } else { None }
    }

    /// Returns the charging session.
    pub fn session(&self) -> Option<&SessionResult> {
        if let Some(ApplicationResult::Session(result)) = &self.application { Some(result) } else { None }
    }

    /// Returns the requests or messages of the flow, if it has any.
    pub fn exchange(&self) -> Option<Exchange> {
        match self.application.as_ref()? {
            ApplicationResult::Web(w) => Some(Exchange {
                unit_of: "requests",
                sent: w.requests,
                arrived: w.responses,
                latency_ms: w.response_ms,
            }),
            ApplicationResult::Messages(m) => {
                Some(Exchange { unit_of: "messages", sent: m.sent, arrived: m.delivered, latency_ms: m.latency_ms })
            }
            _ => None,
        }
    }

    fn new(spec: &FlowSpec, f: &FlowReport) -> Self {
        let spent = f.last_delivery.saturating_sub(f.start);
        FlowResult {
            name: spec.name.clone(),
            kind: spec.traffic.name().into(),
            cc: spec.cc().map(|cc| cc.name.clone()),
            stack: spec.tcp().map(|tcp| tcp.stack.name().into()),
            unlimited: matches!(spec.traffic, Traffic::Bulk { bytes: None }),
            not_run: f.not_run,
            start_s: f.start.as_secs_f64(),
            end_s: f.end.map(Time::as_secs_f64),
            completed: f.end.is_some(),
            failed: f.failed.is_some(),
            failed_s: f.failed.map(Time::as_secs_f64),
            delivered_bytes: f.delivered,
            throughput_mbps: (!spent.is_zero()).then(|| f.delivered as f64 * 8.0 / spent.as_secs_f64() / 1e6),
            segments: f.sender.segments + f.datagrams,
            retransmits: f.sender.retransmits,
            fast_recoveries: f.sender.fast_recoveries,
            timeouts: f.sender.timeouts,
            undos: f.sender.undos,
            paws_rejected: f.rejected,
            rtt_ms: f.sender.rtt,
            delay_ms: f.delay,
            skipped_bytes: (spec.protocol() == Protocol::Sctp).then_some(f.skipped),
            application: f.application.clone(),
        }
    }
}

impl DirectionResult {
    fn new(s: &LinkReport, model: &Model, reverse: bool, sim: Time) -> Self {
        let disciplined = match model {
            Model::Pipe(pipe) => if reverse { &pipe.reverse } else { &pipe.forward }.discipline.is_some(),
            Model::Shared(_) => false,
        };
        // Packets may still wait when the last flow has completed.
        let observed = sim.max(s.waited_until);
        DirectionResult {
            packets: s.packets,
            bytes: s.bytes,
            dropped: s.dropped,
            lost: s.lost,
            loss: (s.packets > 0).then(|| s.lost as f64 / s.packets as f64),
            queue_mean_pkt: if observed.is_zero() { 0.0 } else { s.waited_ns as f64 / observed.0 as f64 },
            queue_max_pkt: s.queue_max,
            queue_delay_ms: s.queue_delay,
            qdisc: disciplined.then(|| s.queue.as_deref().copied().unwrap_or_default()),
            arq: matches!(model, Model::Shared(_)).then(|| s.arq.as_deref().copied().unwrap_or_default()),
        }
    }
}

/// Returns Jain's fairness index (Jain, Chiu, Hawe 1984): `(sum x)^2 / (n sum x^2)`; `None` without samples.
///
/// ```
/// use roughlink_core::metrics::jain;
///
/// assert_eq!(jain([2.0, 2.0, 2.0].into_iter()), Some(1.0));
/// assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
/// assert_eq!(jain(std::iter::empty()), None);
/// ```
pub fn jain(x: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum, squares) = x.fold((0.0, 0.0, 0.0), |(n, s, q), x| (n + 1.0, s + x, q + x * x));
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_index_is_one_for_equal_shares_and_1_over_n_for_one_flow() {
        assert_eq!(jain([2.0, 2.0, 2.0].into_iter()), Some(1.0));
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain(std::iter::empty()), None);
    }
}
