//! Result of one run as tables.

use super::{digits, on_stacks, size, wrapped};
use crate::table::{TextTable, table};
use roughlink_core::app::request::SessionResult;
use roughlink_core::metrics::{RttResult, RunResult};
use roughlink_core::quantiles::DelayResult;
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(crate) fn run(r: &RunResult) -> String {
    let stacks: BTreeSet<&str> = r.flows.iter().filter_map(|f| f.stack.as_deref()).collect();
    let title = format!("{} (seed {}, replica {}{})", r.name, r.seed, r.replica, on_stacks(stacks));
    let mut out = wrapped(&title, "", "  ");
    let mut flows = table(&[
        "flow",
        "cc",
        "Mbit/s",
        "delivered",
        "time",
        "retransmits",
        "fast rec.",
        "time-outs",
        "RTT mean",
        "p95",
        "p99",
    ]);
    for f in &r.flows {
        let rtt =
            |value: fn(&RttResult) -> f64| f.rtt_ms.as_ref().map_or("-".into(), |r| format!("{:.1} ms", value(r)));
        let end = match (f.end_s, f.failed_s) {
            (Some(end), _) => format!("{} s", digits(end - f.start_s)),
            (None, Some(failed)) => format!("gave up at {} s", digits(failed)),
            (None, None) if f.failed => "gave up".into(),
            (None, None) => "not done".into(),
        };
        flows.add_row([
            f.name.clone(),
            f.cc.clone().unwrap_or_else(|| f.kind.clone()),
            f.throughput_mbps.map_or("-".into(), digits),
            size(f.delivered_bytes),
            end,
            f.retransmits.to_string(),
            f.fast_recoveries.to_string(),
            f.timeouts.to_string(),
            rtt(|r| r.mean),
            rtt(|r| r.p95),
            rtt(|r| r.p99),
        ]);
    }
    flows.numbers(2);
    let mut links = table(&["link", "direction", "packets", "bytes", "lost", "loss", "dropped", "queue mean", "max"]);
    for l in &r.links {
        for (direction, d) in [("forward", &l.forward), ("reverse", &l.reverse)] {
            links.add_row([
                l.name.clone(),
                direction.into(),
                d.packets.to_string(),
                size(d.bytes),
                d.lost.to_string(),
                d.loss.map_or("-".into(), |loss| format!("{:.2} %", loss * 100.0)),
                d.dropped.to_string(),
                format!("{:.1}", d.queue_mean_pkt),
                d.queue_max_pkt.to_string(),
            ]);
        }
    }
    links.numbers(2);
    links.less_important(&[3]);
    if !r.flows.is_empty() {
        let _ = writeln!(out, "{flows}\n");
    }
    let _ = writeln!(out, "{links}\n");
    for (name, result) in r.flows.iter().filter_map(|f| Some((&f.name, f.session()?))) {
        out += &session(name, result);
    }
    for table in [exchanges(r), disciplines(r), calls(r), gateways(r)].into_iter().flatten() {
        let _ = writeln!(out, "{table}\n");
    }
    let transfers = r.flows.iter().filter(|f| f.is_transfer()).count();
    let jain = r.jain.filter(|_| transfers > 1);
    let jain = jain.map_or(String::new(), |j| format!("; Jain's index of the {transfers} transfers {j:.3}"));
    let wall = if r.wall_s < 0.01 { format!("{:.1} ms", r.wall_s * 1e3) } else { format!("{:.2} s", r.wall_s) };
    out + &wrapped(&format!("{} s simulated in {wall}, {} events{jain}", digits(r.sim_s), r.events), "", "  ")
}

/// Formats the outcome of a charging session and the latency of its messages.
fn session(name: &str, s: &SessionResult) -> String {
    let mut out = format!("session {name}: {}", word(&s.outcome));
    if let Some(end) = s.end_s {
        let _ = write!(out, " at {} s", digits(end));
    }
    if let Some(cause) = s.cause {
        let _ = write!(out, " because of {}", word(&cause));
    }
    if let Some(setup) = s.setup_ms {
        let _ = write!(out, ", set up in {setup:.0} ms");
    }
    let passed: Vec<String> = s.violations.iter().map(|(limit, n)| format!("{} {n}", word(limit))).collect();
    let first = s.first_violation_s.map_or(String::new(), |at| format!(", the first at {} s", digits(at)));
    let mut passed = if passed.is_empty() { "none".into() } else { passed.join(", ") };
    if s.slow_responses > 0 {
        let _ = write!(passed, "; {} answers later than the charger's performance time", s.slow_responses);
    }
    let survived = match s.survived {
        true => "yes",
        false if s.never_began() => "never began",
        false => "no",
    };
    let _ = write!(out, "; survived: {survived}");
    out = wrapped(&out, "", "  ") + &wrapped(&format!("limits exceeded: {passed}{first}"), "  ", "    ");
    let mut table = table(&["message", "requests", "answered", "median", "p95", "p99", "longest", "too late"]);
    for m in &s.messages {
        let latency = |value: fn(&DelayResult) -> f64| {
            m.latency_ms.as_ref().map_or("-".into(), |l| format!("{:.1} ms", value(l)))
        };
        table.add_row([
            word(&m.message),
            m.requests.to_string(),
            m.count.to_string(),
            latency(|l| l.p50),
            latency(|l| l.p95),
            latency(|l| l.p99),
            latency(|l| l.max),
            m.violations.to_string(),
        ]);
    }
    table.numbers(1);
    out + &format!("{table}\n\n")
}

/// Returns a word of the results in its JSON form.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(|v| v.replace('_', " "))).unwrap_or_default()
}

/// Returns the table of requests and messages with their latency, if there are any.
fn exchanges(r: &RunResult) -> Option<TextTable> {
    let mut exchanges = table(&["flow", "of", "sent", "arrived", "latency p50", "p95", "p99", "max"]);
    for (f, e) in r.flows.iter().filter_map(|f| Some((f, f.exchange()?))) {
        let latency =
            |value: fn(&RttResult) -> f64| e.latency_ms.as_ref().map_or("-".into(), |l| format!("{:.1} ms", value(l)));
        let latencies = [latency(|l| l.p50), latency(|l| l.p95), latency(|l| l.p99), latency(|l| l.max)];
        let counts = [f.name.clone(), e.unit_of.into(), e.sent.to_string(), e.arrived.to_string()];
        exchanges.add_row(counts.into_iter().chain(latencies));
    }
    exchanges.numbers(2);
    exchanges.less_important(&[5]);
    (exchanges.row_count() > 0).then_some(exchanges)
}

fn disciplines(r: &RunResult) -> Option<TextTable> {
    let mut queues = table(&["queue", "direction", "marked", "dropped early", "wait p50", "p95", "p99", "max"]);
    for l in &r.links {
        for (direction, d) in [("forward", &l.forward), ("reverse", &l.reverse)] {
            let Some(q) = &d.qdisc else { continue };
            let wait = |value: fn(&RttResult) -> f64| {
                q.delay_ms.as_ref().map_or("-".into(), |w| format!("{:.1} ms", value(w)))
            };
            let (marked, dropped) = (q.marked.to_string(), q.dropped.to_string());
            let waits = [wait(|w| w.p50), wait(|w| w.p95), wait(|w| w.p99), wait(|w| w.max)];
            queues.add_row([l.name.clone(), direction.into(), marked, dropped].into_iter().chain(waits));
        }
    }
    queues.numbers(2);
    (queues.row_count() > 0).then_some(queues)
}

fn calls(r: &RunResult) -> Option<TextTable> {
    let mut calls = table(&["call", "receiver", "R", "MOS", "delay p50", "p95", "p99", "above 150 ms", "lost or late"]);
    for f in &r.flows {
        for (place, quality) in
            f.voip().into_iter().flat_map(|both| ["the far end", "the near end"].into_iter().zip(both))
        {
            let share = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2} %", x * 100.0));
            let delay = |value: fn(&DelayResult) -> f64| {
                quality.delay_ms.as_ref().map_or("-".into(), |d| format!("{:.1} ms", value(d)))
            };
            calls.add_row([
                f.name.clone(),
                place.into(),
                quality.r.map_or("-".into(), |r| format!("{:.1}", r.max(0.0))), // the scale ends at 0
                quality.mos.map_or("-".into(), |mos| format!("{mos:.2}")),
                delay(|d| d.p50),
                delay(|d| d.p95),
                delay(|d| d.p99),
                share(quality.over_150ms),
                share(quality.loss),
            ]);
        }
    }
    calls.numbers(2);
    calls.less_important(&[5]);
    (calls.row_count() > 0).then_some(calls)
}

/// Returns the table of windows that gateways allowed. Open flows are shown as of the end of the run, and the latest
/// ended flows as of their own end. `None` if there were no flows.
fn gateways(r: &RunResult) -> Option<TextTable> {
    let mut gateways = table(&["gateway", "flow", "state", "RTT", "window", "maximum", "rho", "rewritten"]);
    for g in &r.gateways {
        let ended = g.ended.iter().rev().take(MAX_ENDED).map(|f| (f, "ended"));
        for (f, state) in g.flows.iter().map(|f| (f, "open")).chain(ended) {
            let number = |x: Option<f64>, unit: &str| x.map_or("-".into(), |x| format!("{x:.1}{unit}"));
            gateways.add_row([
                g.name.clone(),
                f.flow.clone(),
                state.into(),
                number(f.rtt_ms, " ms"),
                number(f.awnd_sdu, " pkt"),
                number(f.sample_sdu, " pkt"),
                number(f.rho, ""),
                f.rewritten.to_string(),
            ]);
        }
    }
    gateways.numbers(3);
    (gateways.row_count() > 0).then_some(gateways)
}

/// Maximum number of ended flows shown for each gateway.
const MAX_ENDED: usize = 10;
