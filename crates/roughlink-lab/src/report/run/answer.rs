//! The results of a run in sentences.

use super::{percent, seconds, size, three, total};
use crate::folder::run::SingleRun;
use roughlink_core::app::request::{EndCause, SessionOutcome, SessionResult, V2gMessage};
use roughlink_core::metrics::{DirectionResult, FlowResult, jain};
use std::collections::BTreeMap;

/// Maximum number of flows of a kind that are described one by one.
const MAX_DESCRIBED: usize = 2;

/// Returns the sentences, those on the flows first.
pub(super) fn sentences(run: &SingleRun) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(describe_sessions(run));
    out.extend(describe_calls(run));
    out.extend(describe_transfers(run));
    out.extend(describe_flows_not_run(run));
    out.extend(describe_queues(run));
    out.extend(describe_outages(run));
    if out.is_empty() {
        out.extend(describe_datagrams(run));
    }
    out
}

/// Returns the flows of a kind that ran.
pub(super) fn flows_of_kind<'a>(run: &'a SingleRun, kind: &'a str) -> Vec<&'a FlowResult> {
    run.result.flows.iter().filter(|f| f.kind == kind && !f.not_run).collect()
}

fn describe_flows_not_run(run: &SingleRun) -> Option<String> {
    let names: Vec<&str> = run.result.flows.iter().filter(|f| f.not_run).map(|f| &*f.name).collect();
    let (flows, did) = if names.len() == 1 { ("Flow", "its") } else { ("Flows", "their") };
    (!names.is_empty()).then(|| {
        format!("{flows} {} did not run: only programs send between the kernel nodes at {did} ends.", names.join(", "))
    })
}

/// Returns a function that names flows, unless there is only one.
fn naming(flows: &[&FlowResult], what: &'static str) -> impl Fn(&FlowResult) -> String + use<> {
    let several = flows.len() > 1;
    move |f| if several { format!("The {what} {}", f.name) } else { format!("The {what}") }
}

/// Returns how long a vehicle waits for the answer to a message, ms: the run's value if known, else the standard's.
pub(super) fn timeout(run: &SingleRun, session: &str, message: V2gMessage) -> f64 {
    let own = run.manifest.as_ref().and_then(|m| m.message_timeouts_ms.get(session)).and_then(|m| m.get(&message));
    own.copied().unwrap_or_else(|| message.spec().timeout.as_millis_f64())
}

fn describe_sessions(run: &SingleRun) -> Vec<String> {
    let sessions: Vec<(&FlowResult, &SessionResult)> =
        flows_of_kind(run, "request").into_iter().filter_map(|f| Some((f, f.session()?))).collect();
    if sessions.len() > MAX_DESCRIBED {
        let late = total(sessions.iter().map(|(_, s)| too_late(s)));
        let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, s) in &sessions {
            *outcomes.entry(outcome(s)).or_default() += 1;
        }
        let outcomes: Vec<String> =
            outcomes.iter().map(|(what, n)| format!("{n} {}", what.trim_start_matches("was "))).collect();
        return vec![format!(
            "{} charging sessions: {}; {late} answers came too late.",
            sessions.len(),
            outcomes.join(", ")
        )];
    }
    let name = naming(&flows_of_kind(run, "request"), "charging session");
    sessions.into_iter().flat_map(|(f, s)| describe_session(run, f, s, name(f))).collect()
}

fn describe_session(run: &SingleRun, f: &FlowResult, s: &SessionResult, name: String) -> Vec<String> {
    let mut first = format!("{name} {}", outcome(s));
    if let Some(end) = s.end_s {
        first += &format!(" at {} s", seconds(end));
    }
    if let Some(cause) = s.cause {
        first += &format!(": {}", because(cause));
    }
    let answers = total(s.messages.iter().map(|m| m.count));
    let late = too_late(s);
    let mut second = match late {
        0 => format!("None of {answers} answers came too late"),
        1 => format!("One of {answers} answers came too late"),
        n => format!("{n} of {answers} answers came too late"),
    };
    if s.slow_responses > 0 {
        second += &format!("; the charger sent {} after its performance time", count(s.slow_responses, "answer"));
    }
    if let Some((m, latency)) = s.charging_loop().and_then(|m| Some((m, m.latency_ms?))) {
        second += &format!(
            "; {:?} took {} ms at the 99th percentile and at most {} ms, with a limit of {} ms",
            m.message,
            three(latency.p99),
            three(latency.max),
            three(timeout(run, &f.name, m.message))
        );
    }
    let mut out = vec![first + ".", second + "."];
    if let Some(at) = s.first_violation_s.filter(|_| s.survived) {
        out.push(format!(
            "A vehicle that ends the session at the first exceeded limit would have ended it at {} s.",
            seconds(at)
        ));
    }
    out
}

fn too_late(s: &SessionResult) -> u64 {
    total(s.messages.iter().map(|m| m.violations))
}

pub(super) fn outcome(session: &SessionResult) -> &'static str {
    match session.outcome {
        _ if session.never_began() => "never began",
        SessionOutcome::Running => "was still running at the end",
        SessionOutcome::Completed => "completed",
        SessionOutcome::Aborted => "was aborted",
        SessionOutcome::Failed => "failed",
    }
}

fn because(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Message => "an answer came too late",
        EndCause::CommunicationSetup => "the vehicle received no SessionSetupRes in time",
        EndCause::SeccCommunicationSetup => "the charger sent no SessionSetupRes in time",
        EndCause::Ongoing => "the charger's processing took too long",
        EndCause::CableCheck => "the insulation test took too long",
        EndCause::PreCharge => "matching the voltage took too long",
        EndCause::Sequence => "the charger waited too long for a request",
        EndCause::SequenceError => "a request came out of order",
        EndCause::Discovery => "no charger was found",
        EndCause::Connection => "the connection was lost",
        EndCause::Protocol => "the other side sent something other than a session message",
    }
}

fn describe_calls(run: &SingleRun) -> Vec<String> {
    let calls = flows_of_kind(run, "voip");
    let opinions = |f: &FlowResult| f.voip().map(|both| [both[0].mos, both[1].mos]);
    if calls.len() > MAX_DESCRIBED {
        let all = || calls.iter().filter_map(|f| opinions(f)).flatten().flatten();
        let (low, high) = (all().reduce(f64::min), all().reduce(f64::max));
        let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
        return vec![format!("{} calls: MOS from {low:.2} to {high:.2}.", calls.len())];
    }
    let name = naming(&calls, "call");
    let sentence = |f: &&FlowResult| {
        let both = f.voip()?;
        let ends: Vec<String> = ["far", "near"]
            .into_iter()
            .zip(both)
            .filter_map(|(end, v)| {
                let lost = v.loss.map_or(String::new(), |l| format!(", {} lost or late", percent(l)));
                Some(format!("MOS {:.2} at the {end} end ({}{lost})", v.mos?, satisfaction(v.r?)))
            })
            .collect();
        (!ends.is_empty()).then(|| format!("{}: {}.", name(f), ends.join(", ")))
    };
    calls.iter().filter_map(sentence).collect()
}

/// Returns the meaning of a rating (ITU-T G.109, table 1).
pub(super) fn satisfaction(r: f64) -> &'static str {
    match r {
        r if r >= 90.0 => "very satisfied",
        r if r >= 80.0 => "satisfied",
        r if r >= 70.0 => "some users dissatisfied",
        r if r >= 60.0 => "many users dissatisfied",
        r if r >= 50.0 => "nearly all users dissatisfied",
        _ => "not acceptable",
    }
}

fn describe_transfers(run: &SingleRun) -> Vec<String> {
    let transfers = flows_of_kind(run, "bulk");
    if transfers.len() <= MAX_DESCRIBED {
        let name = naming(&transfers, "transfer");
        return transfers.into_iter().map(|f| describe_transfer(run, f, name(f))).collect();
    }
    let rates: Vec<f64> = transfers.iter().filter_map(|f| f.throughput_mbps).collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let bytes = total(transfers.iter().map(|f| f.delivered_bytes));
    let failed = transfers.iter().filter(|f| f.failed).count();
    let mut out = format!("{} transfers delivered {}", transfers.len(), size(bytes as f64));
    if !rates.is_empty() {
        out += &format!(", each at {} to {} Mbit/s", three(low), three(high));
    }
    if let Some(jain) = jain(rates.into_iter()) {
        out += &format!(" (Jain's index {jain:.3})");
    }
    if failed > 0 {
        out += &format!("; {failed} gave up");
    }
    vec![out + "."]
}

fn describe_transfer(run: &SingleRun, f: &FlowResult, name: String) -> String {
    let bytes = size(f.delivered_bytes as f64);
    let mut out = match (f.end_s, f.failed) {
        (Some(end), _) => format!("{name} delivered {bytes} in {} s", seconds(end - f.start_s)),
        (None, true) => {
            let at = f.failed_s.map(|at| format!(" at {} s", seconds(at))).unwrap_or_default();
            format!("{name} gave up{at} after too long without an answer; it had delivered {bytes}")
        }
        (None, false) if f.start_s >= run.result.sim_s => {
            return format!("{name} did not start: the run ended at {} s.", seconds(run.result.sim_s));
        }
        (None, false) => {
            let time = seconds(run.result.sim_s - f.start_s);
            format!("{name} delivered {bytes} in {time} s before the run ended")
        }
    };
    if let Some(rate) = f.throughput_mbps {
        out += &format!(": {} Mbit/s", three(rate));
    }
    let again = f.retransmits as f64 / (f.segments.max(1)) as f64;
    out += &match (f.retransmits, f.timeouts) {
        (0, 0) => "; nothing was retransmitted".to_owned(),
        (_, timeouts) => {
            format!("; {} of the segments were retransmitted, {}", percent(again), count(timeouts, "time-out"))
        }
    };
    out + "."
}

/// Formats a count: `no time-out`, `1 time-out`, `2 time-outs`.
fn count(n: u64, what: &str) -> String {
    match n {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Describes the queue in which packets waited longest, which explains the delays.
fn describe_queues(run: &SingleRun) -> Option<String> {
    let all = run.result.links.iter().flat_map(|l| [(l, "", &l.forward), (l, ", reverse", &l.reverse)]);
    let (link, way, d): (_, _, &DirectionResult) =
        all.max_by(|a, b| a.2.queue_mean_pkt.total_cmp(&b.2.queue_mean_pkt))?;
    if d.queue_mean_pkt < 0.5 {
        return None;
    }
    let controls = run.result.gateways.iter().find(|g| g.flows.iter().any(|f| f.awnd_sdu.is_some()));
    let gateway = controls.map_or(String::new(), |g| format!("Under gateway {} ({}), ", g.name, g.kind));
    let the = if gateway.is_empty() { "The" } else { "the" };
    Some(format!(
        "{gateway}{the} longest queue is at link {}{way}: {} packets on average and {} at most; {} dropped.",
        link.name,
        three(d.queue_mean_pkt),
        d.queue_max_pkt,
        if d.dropped == 0 { "none was".to_owned() } else { format!("{} were", d.dropped) },
    ))
}

fn describe_outages(run: &SingleRun) -> Option<String> {
    let parts: Vec<String> = run
        .outages
        .iter()
        .map(|(link, spans)| {
            let total: f64 = spans.iter().map(|(from, to)| to - from).sum();
            let times = if spans.len() == 1 { "once".to_owned() } else { format!("{} times", spans.len()) };
            format!("Link {link} was down {times}, for {} of {} s", three(total), seconds(run.result.sim_s))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; ") + ".")
}

fn describe_datagrams(run: &SingleRun) -> Vec<String> {
    let flows = flows_of_kind(run, "cbr");
    let rate = |f: &FlowResult| f.throughput_mbps.map_or(String::new(), |r| format!(", {} Mbit/s", three(r)));
    let one =
        |f: &FlowResult| format!("Datagrams {}: {} delivered{}.", f.name, size(f.delivered_bytes as f64), rate(f));
    flows.into_iter().take(MAX_DESCRIBED).map(one).collect()
}
