//! Status of a running gateway: built by its loop, printed by `roughlink gateway stat`.

use crate::failure::{Failure, print, print_json};
use crate::service::ServiceStatus;
use crate::show;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use roughlink_core::gateway::bytes::FrameCounters;
use roughlink_core::gateway::flows::{FlowPhase, FlowTableCounters};
use roughlink_core::gateway::{FlowStats, Heading};
use roughlink_core::pep::{ProxyConnection, ProxyCounters};
use roughlink_host::{CoverageSource, Lateness, LoopCounters};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Status of a running gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct GatewayStatus {
    /// Name of the instance, gateway and place.
    pub(super) about: InstanceFacts,
    /// Time since the start, s.
    pub(super) elapsed_s: f64,
    /// Processor time of the loop, s.
    pub(super) cpu_s: f64,
    /// Agent that reports coverage, if any.
    pub(super) agent: Option<AgentState>,
    pub(super) packets: PacketCounts,
    /// Minimum time that packets waited before they were read, and time that the gateway held them.
    pub(super) waited_us: Option<Lateness>,
    pub(super) held_us: Option<Lateness>,
    /// Counters of a gateway's table of connections.
    pub(super) table: Option<FlowTableCounters>,
    /// Counters of a split-TCP proxy.
    pub(super) proxy: Option<ProxyCounters>,
    pub(super) connections: Vec<ListedConnection>,
}

/// Facts about an instance that do not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct InstanceFacts {
    pub(super) name: String,
    pub(super) gateway: String,
    /// Parameters in effect.
    pub(super) parameters: toml::Table,
    pub(super) place: String,
    pub(super) process: u32,
    pub(super) dry_run: bool,
    /// Source of the modem's backlog, for gateways that need it.
    pub(super) backlog: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AgentState {
    Connected,
    Lost,
}

impl From<&CoverageSource> for AgentState {
    fn from(source: &CoverageSource) -> Self {
        if source.is_connected() { AgentState::Connected } else { AgentState::Lost }
    }
}

/// Counters of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PacketCounts {
    #[serde(flatten)]
    pub(super) frames: FrameCounters,
    /// Packets that the kernel did not accept.
    pub(super) refused: u64,
    /// Packets above the MTU.
    pub(super) oversized: u64,
    /// Packets that the gateway read too late: lost between devices, forwarded unseen at queues.
    pub(super) missed: u64,
}

impl PacketCounts {
    /// Returns name, meaning and value of each counter.
    fn all(&self) -> [(&'static str, &'static str, u64); 11] {
        let f = &self.frames;
        [
            ("segments", "TCP segments", f.segments),
            ("rewritten", "TCP segments whose window was reduced", f.rewritten),
            ("dropped", "TCP segments that the gateway dropped", f.dropped),
            ("originated", "TCP segments that the gateway sent", f.originated),
            ("forbidden", "Requests of the gateway that were not followed", f.forbidden),
            ("other", "Datagrams without a TCP header", f.other),
            ("opaque", "Frames without an IP datagram", f.opaque),
            ("unsent", "Segments of the gateway without a known link header", f.unsent),
            ("refused", "Packets that the kernel did not accept", self.refused),
            ("oversized", "Packets above the MTU", self.oversized),
            ("missed", "Packets read too late: lost between devices, forwarded unseen at queues", self.missed),
        ]
    }
}

/// A connection in the gateway's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ListedConnection {
    /// Socket address of the served host, and of the other end.
    pub(super) inner: Option<String>,
    pub(super) outer: Option<String>,
    pub(super) phase: FlowPhase,
    pub(super) active: bool,
    /// RTT of the handshake, ms.
    pub(super) rtt_ms: Option<f64>,
    /// Allowed window and its upper bound, in full-sized packets.
    pub(super) window: Option<f64>,
    pub(super) bound: Option<f64>,
    /// Segments whose window was reduced.
    pub(super) rewritten: u64,
    /// Memory of a proxy's buffers with data, bytes.
    pub(super) buffered: Option<usize>,
}

impl From<ProxyConnection<'_>> for ListedConnection {
    fn from(connection: ProxyConnection<'_>) -> Self {
        let [client, server] = connection.addresses.sockets().map(|socket| Some(socket.to_string()));
        let [inner, outer] = if connection.heading == Heading::Outward { [client, server] } else { [server, client] };
        let is_open = connection.client.is_some();
        ListedConnection {
            inner,
            outer,
            phase: if is_open { FlowPhase::Established } else { FlowPhase::Handshake },
            active: is_open,
            rtt_ms: None,
            window: None,
            bound: None,
            rewritten: 0,
            buffered: Some(connection.buffer_bytes),
        }
    }
}

impl From<&FlowStats> for ListedConnection {
    fn from(flow: &FlowStats) -> Self {
        let [outer, inner] = match flow.addresses {
            Some(addresses) => addresses.sockets().map(|socket| Some(socket.to_string())),
            None => [None, None],
        };
        ListedConnection {
            inner,
            outer,
            phase: flow.phase,
            active: flow.active,
            rtt_ms: flow.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            window: flow.control.map(|control| control.awnd),
            bound: flow.control.map(|control| control.sample),
            rewritten: flow.rewritten,
            buffered: None,
        }
    }
}

impl GatewayStatus {
    /// Creates the status of an instance; the element on the path adds its part.
    pub(super) fn new(about: &InstanceFacts, packets: LoopCounters, missed: u64, agent: Option<AgentState>) -> Self {
        let LoopCounters { refused, oversized, .. } = packets;
        GatewayStatus {
            about: about.clone(),
            elapsed_s: packets.elapsed.as_secs_f64(),
            cpu_s: packets.effort.ran.as_secs_f64(),
            agent,
            packets: PacketCounts { frames: FrameCounters::default(), refused, oversized, missed },
            waited_us: packets.waited,
            held_us: packets.lateness,
            table: None,
            proxy: None,
            connections: Vec::new(),
        }
    }

    /// Prints the status for people.
    pub(super) fn show(&self) -> Result<(), Failure> {
        let InstanceFacts { name, gateway, place, process, dry_run, backlog, .. } = &self.about;
        let mut text =
            format!("{name}: {gateway} {place}, process {process}{}\n", if *dry_run { ", dry run" } else { "" });
        let share = 100.0 * self.cpu_s / self.elapsed_s.max(1e-9);
        let _ = writeln!(text, "running for {:.0} s, {share:.1} % of a processor", self.elapsed_s);
        if let Some(agent) = self.agent {
            let state = if agent == AgentState::Connected { "connected" } else { "lost, so windows stay open" };
            let _ = writeln!(text, "coverage agent: {state}");
        }
        if let Some(backlog) = backlog {
            let _ = writeln!(text, "backlog of the modem: {backlog}");
        }
        if let Some(waited) = self.waited_us {
            let _ = writeln!(
                text,
                "packets waited p50 {:.0} us, p99 {:.0} us, at most {:.0} us",
                waited.p50, waited.p99, waited.max
            );
        }
        let counts = self.packets.all().into_iter().filter(|(.., n)| *n > 0).map(|(name, _, n)| format!("{n} {name}"));
        if let Some(proxy) = &self.proxy {
            let ProxyCounters { opened, refused, timed_out, unsplittable, overflowed, .. } = proxy;
            let _ = writeln!(
                text,
                "connections: {opened} opened, {refused} refused, {timed_out} without an answer; passed unchanged: \
                 {unsplittable} signed or multipath, {overflowed} beyond the limit"
            );
        }
        let counts = counts.collect::<Vec<_>>().join(", ");
        if !counts.is_empty() || self.proxy.is_none() {
            let kind = if *dry_run { "decisions about packets, all passed unchanged" } else { "packets" };
            let _ = writeln!(text, "{kind}: {}", or_none(counts));
        }
        print(&show::wrapped(&text, "", ""))?;
        if self.connections.is_empty() {
            return print("no connections\n");
        }
        let mut table =
            show::table(&["inner", "outer", "state", "RTT ms", "window", "bound", "rewritten", "kB buffered"]);
        table.numbers(3);
        for c in &self.connections {
            let number = |n: Option<f64>| n.map_or("-".into(), |n| format!("{n:.1}"));
            let state = match (c.phase, c.active) {
                (FlowPhase::Established, true) => "active".to_owned(),
                (FlowPhase::Established, false) => "idle".to_owned(),
                (phase, _) => format!("{phase:?}").to_lowercase(),
            };
            let end = |end: &Option<String>| end.clone().unwrap_or_else(|| "?".into());
            table.add_row([
                end(&c.inner),
                end(&c.outer),
                state,
                number(c.rtt_ms),
                number(c.window),
                number(c.bound),
                c.buffered.map_or_else(|| c.rewritten.to_string(), |_| "-".into()),
                number(c.buffered.map(|bytes| bytes as f64 / 1e3)),
            ]);
        }
        print(&format!("{table}\n"))
    }

    /// Prints the changes since an earlier status in one line.
    pub(super) fn show_changes(&self, before: &Self, json: bool) -> Result<(), Failure> {
        if json {
            return print(&(serde_json::to_string(self).expect("plain data") + "\n"));
        }
        let since = self.elapsed_s - before.elapsed_s;
        let per_s = |n: u64, earlier: u64| n.saturating_sub(earlier) as f64 / since.max(1e-9);
        let (now, then) = (&self.packets, &before.packets);
        print(&format!(
            "{:>9.1}  {:>10}  {:>11.0}  {:>12.0}  {:>6.1}\n",
            self.elapsed_s,
            self.connections.iter().filter(|c| c.active).count(),
            per_s(now.frames.segments, then.frames.segments),
            per_s(now.frames.rewritten, then.frames.rewritten),
            100.0 * (self.cpu_s - before.cpu_s) / since.max(1e-9)
        ))
    }

    pub(super) fn print_json(&self) -> Result<(), Failure> {
        print_json(self)
    }
}

/// Heading of the lines of [`GatewayStatus::show_changes`].
pub(super) const HEADING: &str = "   time s  active     segments/s  rewritten/s   CPU %\n";

fn or_none(text: String) -> String {
    if text.is_empty() { "none".into() } else { text }
}

impl ServiceStatus for GatewayStatus {
    fn register(&self, registry: &mut Registry) {
        let labels = [("gateway", &self.about.gateway), ("name", &self.about.name)];
        let labels = labels.map(|(key, value)| (key.into(), value.clone().into()));
        let registry = registry.sub_registry_with_labels(labels.into_iter());
        let registry = registry.sub_registry_with_prefix("gateway");
        for (name, meaning, n) in self.packets.all() {
            registry.register(name, meaning, ConstCounter::new(n));
        }
        let table = self.table.iter().flat_map(|t| {
            [
                ("connections_established", "Connections with a complete handshake", t.established),
                ("connections_untracked", "Segments of connections without room in the table", t.untracked),
            ]
        });
        let proxy = self.proxy.iter().flat_map(|p| {
            [
                ("connections_opened", "Connections opened at both sides", p.opened),
                ("connections_refused", "Connections that the server refused", p.refused),
                ("connections_overflowed", "Connections beyond the limit, which pass unchanged", p.overflowed),
            ]
        });
        for (name, meaning, n) in table.chain(proxy) {
            registry.register(name, meaning, ConstCounter::new(n));
        }
        let active = self.connections.iter().filter(|c| c.active).count() as i64;
        registry.register("connections", "Connections in the table", ConstGauge::new(self.connections.len() as i64));
        registry.register("connections_active", "Connections that share the rough link", ConstGauge::new(active));
        let connected = i64::from(self.agent != Some(AgentState::Lost));
        registry.register(
            "coverage_agent_connected",
            "1 unless the coverage agent is lost",
            ConstGauge::new(connected),
        );
        let cpu = ConstCounter::new(self.cpu_s);
        registry.register_with_unit("cpu", "Processor time of the loop", Unit::Seconds, cpu);
        for (quantile, us) in self.waited_us.iter().flat_map(|w| [("p50", w.p50), ("p99", w.p99), ("max", w.max)]) {
            let name = format!("wait_{quantile}");
            let meaning = "Time that packets waited before they were read";
            registry.register_with_unit(name, meaning, Unit::Seconds, ConstGauge::new(us / 1e6));
        }
    }
}
