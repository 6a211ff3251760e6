//! Result of an emulation: JSON, text and exit code.

use crate::failure::Failure;
use crate::live::timeline::StepRecord;
use crate::show::{digits, size, table};
use roughlink_core::metrics::frames::FrameCount;
use roughlink_core::metrics::{RttResult, RunResult};
use roughlink_core::net::avln::ModemReport;
use roughlink_core::units::Time;
use roughlink_host::conversations::{
    ConversationCounters, ConversationResult, ConversationResults, Others, has_unexpected_pacing,
};
use roughlink_host::{EmulationResults, EndReason, Ended, Lateness, LoopEnd};
use roughlink_lab::error::exceeded_help;
use serde::Serialize;
use std::fmt::Write as _;

/// Output of `--json`: the result of a run, and fields that only an emulation has.
#[derive(Serialize)]
pub(super) struct EmulationOutput<'o> {
    #[serde(flatten)]
    run: &'o RunResult,
    lateness_us: Option<Lateness>,
    waited_us: Option<Lateness>,
    /// Time that programs waited for a processor before a time slice; null if no wait was sampled.
    run_delay_us: Option<Lateness>,
    /// Share of time in which any task of the machine waited for a processor; null if the kernel has no count.
    cpu_pressure: Option<f64>,
    stall_us: f64,
    max_lateness_ms: f64,
    /// Reasons for exit code 4.
    faults: Vec<String>,
    /// Null if the kernel's count cannot be read.
    overruns: Option<u64>,
    refused: u64,
    oversized: u64,
    unanswered: u64,
    uncaptured: u64,
    ports: PortCounters,
    real_time: bool,
    loop_ran_s: f64,
    loop_waited_s: f64,
    ended: &'static str,
    programs: Vec<ProgramResult<'o>>,
    conversations: &'o [ConversationResult],
    #[serde(skip_serializing_if = "Option::is_none")]
    other_conversations: Option<Others>,
    frames: &'o [FrameCount],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    modems: &'o [ModemReport],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'o [StepRecord<'o>],
}

#[derive(Serialize)]
struct PortCounters {
    received: u64,
    sent: u64,
    unreachable: u64,
    unreadable: u64,
}

#[derive(Serialize)]
struct ProgramResult<'o> {
    node: &'o str,
    command: &'o str,
    exit_code: u8,
    stopped: bool,
}

impl<'o> EmulationOutput<'o> {
    pub(super) fn new(
        outcome: &'o EmulationResults,
        why: EndReason,
        ended: &'o [Ended],
        (changes, uncaptured): (&'o [StepRecord<'o>], u64),
        most_late: Time,
    ) -> Self {
        let program =
            |p: &'o Ended| ProgramResult { node: &p.node, command: &p.command, exit_code: p.code, stopped: p.stopped };
        let ports = outcome.ports;
        EmulationOutput {
            run: &outcome.result,
            lateness_us: outcome.lateness,
            waited_us: outcome.waited,
            run_delay_us: outcome.run_delay.per_slice,
            cpu_pressure: outcome.run_delay.pressure,
            stall_us: outcome.stall.0 as f64 / 1e3,
            max_lateness_ms: most_late.as_millis_f64(),
            faults: outcome.faults(most_late),
            overruns: outcome.overruns,
            refused: outcome.refused,
            oversized: outcome.oversized,
            unanswered: outcome.unanswered,
            uncaptured,
            ports: PortCounters {
                received: ports.received,
                sent: ports.sent,
                unreachable: ports.unreachable,
                unreadable: ports.unreadable,
            },
            real_time: outcome.unhurried.is_none(),
            loop_ran_s: outcome.effort.ran.as_secs_f64(),
            loop_waited_s: outcome.effort.waited.as_secs_f64(),
            ended: match (why, &outcome.ending) {
                (_, LoopEnd::Lost(_)) => "vanished",
                (_, LoopEnd::Exceeded(_)) => "exceeded",
                (EndReason::Interrupted, _) => "interrupted",
                (EndReason::Failed, _) => "failed",
                (EndReason::Unwritten, _) => "unwritten",
                (EndReason::Ended, _) => "programs",
                (EndReason::Over, _) => "duration",
            },
            programs: ended.iter().map(program).collect(),
            conversations: &outcome.achieved.conversations,
            other_conversations: outcome.achieved.others,
            frames: &outcome.frames,
            modems: &outcome.modems,
            changes,
        }
    }
}

/// Formats the largest conversations of programs, with a line for each direction that carried something. Shows the
/// congestion controls if the kernel paces, or may pace, a sender whose algorithm does not pace.
pub(super) fn conversations(achieved: &ConversationResults) -> String {
    let mut all: Vec<&ConversationResult> = achieved.conversations.iter().collect();
    all.sort_by_key(|c| std::cmp::Reverse(c.forward.carried().max(c.reverse.carried())));
    let shown = all.iter().take(MAX_SHOWN).flat_map(|c| directions(c));
    let is_unexpected = shown.clone().any(|(.., d)| has_unexpected_pacing(d));
    let mut lines = table(&[
        "from",
        "to",
        "Mbit/s",
        "delivered",
        "in flight",
        "lost",
        "retrans",
        "RTT median",
        "p99",
        "delay median",
        "p99",
        "congestion control",
    ]);
    for (protocol, [from, to], d) in shown {
        let ms = |times: Option<RttResult>, value: fn(&RttResult) -> f64| {
            times.map_or("-".into(), |times| format!("{:.1} ms", value(&times)))
        };
        // Show the end-to-end delay for datagrams, and the sender's RTT for TCP.
        let delay = d.delay_ms.filter(|_| d.retransmits.is_none());
        lines.add_row([
            format!("{protocol} {from}"),
            to.to_owned(),
            d.throughput_mbps.map_or("-".into(), digits),
            d.delivered_bytes.map_or("-".into(), size),
            d.in_flight.map_or("-".into(), |packets| packets.to_string()),
            d.lost.map_or("-".into(), |lost| lost.to_string()),
            d.retransmits.map_or("-".into(), |again| again.to_string()),
            ms(d.rtt_ms, |rtt| rtt.p50),
            ms(d.rtt_ms, |rtt| rtt.p99),
            ms(delay, |delay| delay.p50),
            ms(delay, |delay| delay.p99),
            d.cc_and_pacing().filter(|_| is_unexpected).unwrap_or("-".into()),
        ]);
    }
    if lines.row_count() == 0 {
        return String::new();
    }
    lines.numbers(2);
    lines.less_important(&[10, 8, 3, 4]);
    format!("{lines}\n{}\n", more(all.len(), "conversations"))
}

/// Formats the counts of frames without an IP datagram that were sent most often; empty if there are none.
pub(super) fn frames(counts: &[FrameCount]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut all: Vec<&FrameCount> = counts.iter().collect();
    all.sort_by_key(|c| std::cmp::Reverse(c.sent));
    let mut lines = table(&["frames without IP", "from", "to", "sent", "delivered"]);
    for c in all.iter().take(MAX_SHOWN) {
        let [from, to] = [&c.from, &c.to].map(|node| node.clone().unwrap_or("-".into()));
        lines.add_row([c.protocol.clone(), from, to, c.sent.to_string(), c.delivered.to_string()]);
    }
    lines.numbers(3);
    format!("{lines}\n{}\n", more(all.len(), "kinds of frames"))
}

/// Formats the stays of modems in the AVLN of another modem, and the frames dropped outside of one; empty without
/// modems.
pub(super) fn modems(reports: &[ModemReport]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let mut lines = table(&["modem at", "joined", "from", "until", "unjoined frames"]);
    for modem in reports {
        let seconds = |s: f64| format!("{s:.2} s");
        let unjoined = modem.unjoined.to_string();
        if modem.joined.is_empty() {
            lines.add_row([modem.node.clone(), "-".into(), "-".into(), "-".into(), unjoined.clone()]);
        }
        for stay in modem.joined.iter().take(MAX_SHOWN) {
            let until = stay.until_s.map_or("end".into(), seconds);
            lines.add_row([modem.node.clone(), stay.peer.clone(), seconds(stay.from_s), until, unjoined.clone()]);
        }
    }
    lines.numbers(2);
    format!("{lines}\n")
}

/// Returns a line with the number of rows that a table of [`MAX_SHOWN`] leaves out; empty if there are none.
fn more(count: usize, what: &str) -> String {
    match count.saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        n => format!("and {n} more {what}\n"),
    }
}

/// Returns the protocol, the ends and the results of each direction that carried something.
fn directions(c: &ConversationResult) -> impl Iterator<Item = (&str, [&str; 2], &ConversationCounters)> + Clone {
    c.directions().map(|(ends, d)| (&*c.protocol, ends, d))
}

#[derive(Serialize)]
pub(super) struct SenderResult<'o> {
    from: &'o str,
    to: &'o str,
    cc: &'o str,
    paced: Option<bool>,
}

/// Returns the TCP senders with a known congestion control, in the order of their conversations.
pub(super) fn senders(achieved: &ConversationResults) -> Vec<SenderResult<'_>> {
    let all = achieved.conversations.iter().flat_map(directions);
    all.filter_map(|(_, [from, to], d)| Some(SenderResult { from, to, cc: d.cc.as_deref()?, paced: d.paced })).collect()
}

/// Returns warnings about senders that the kernel paces, or may pace, although their algorithm does not pace.
pub(super) fn pacing_warnings(achieved: &ConversationResults) -> Vec<String> {
    let all = achieved.conversations.iter().flat_map(directions).filter(|(.., d)| has_unexpected_pacing(d));
    let text = |(protocol, [from, to], d): (&str, [&str; 2], &ConversationCounters)| {
        let cc = d.cc.as_deref().unwrap_or_default();
        let paced = match d.paced {
            Some(_) => "the kernel paces the sender: it had another algorithm before, or a program limited its rate",
            None => {
                "the kernel may pace the sender: the node's default algorithm paces, and the kernel does not report \
                 whether the connection began with it"
            }
        };
        format!("{protocol} from {from} to {to}: `{cc}` does not pace, but {paced}")
    };
    let mut warnings: Vec<String> = all.clone().take(MAX_SHOWN).map(text).collect();
    let more = all.count() - warnings.len();
    if more > 0 {
        warnings.push(format!("the kernel paces, or may pace, {more} more senders whose algorithms do not pace"));
    }
    warnings
}

/// Formats lateness and waiting times, and counts of packets, for users.
pub(super) fn timing(outcome: &EmulationResults, uncaptured: u64) -> String {
    let of = |late: Lateness| {
        let Lateness { p50, p99, max, over_1ms } = late;
        let share = over_1ms * 100.0;
        format!("median {p50:.0} us, p99 {p99:.0} us, longest {max:.0} us; over 1 ms: {share:.2} %")
    };
    let late =
        outcome.lateness.map_or_else(|| "no packet reached a kernel node".into(), |l| format!("lateness: {}", of(l)));
    let ports = outcome.ports;
    let mut text = format!("{} packets from kernel nodes, {} to kernel nodes\n{late}\n", ports.received, ports.sent);
    if let Some(waited) = outcome.waited {
        let _ = writeln!(text, "read delay: {}", of(waited));
    }
    if let Some(delay) = outcome.run_delay.per_slice {
        let _ = writeln!(text, "run delay: {}", of(delay));
    }
    if let Some(share) = outcome.run_delay.pressure {
        let _ = writeln!(text, "CPU pressure: some task waited for a processor {:.0} % of the time", share * 100.0);
    }
    let dropped = "packets dropped because the link read them too slowly";
    match outcome.overruns {
        None => drop(writeln!(text, "{dropped}: - (the kernel's counter cannot be read)")),
        Some(0) => {}
        Some(count) => drop(writeln!(text, "{dropped}: {count}")),
    }
    for (count, what) in [
        (outcome.refused, "packets refused by a kernel node whose device was down or full"),
        (outcome.oversized, "frames dropped because they exceed the MTU or were merged by an offload"),
        (outcome.unanswered, "packets dropped because no host answered ARP or neighbor discovery"),
        (uncaptured, "packets missing from the capture because the disk was too slow"),
        (ports.unreachable, "packets to an address or endpoint that does not exist"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{what}: {count}");
        }
    }
    if let Some(reason) = &outcome.unhurried {
        let _ = writeln!(text, "not in real time: {reason}");
    }
    text
}

/// Returns the failure that sets the exit code, or `Ok` if the emulation and its programs succeeded.
pub(super) fn verdict(
    outcome: &EmulationResults,
    why: EndReason,
    ended: &[Ended],
    most_late: Time,
) -> Result<(), Failure> {
    if why == EndReason::Interrupted {
        return Err(Failure::Interrupted("interrupted".into()));
    }
    if let LoopEnd::Lost(device) = &outcome.ending {
        return Err(Failure::Machine(device.to_string(), None));
    }
    if let LoopEnd::Exceeded(limit) = outcome.ending {
        return Err(Failure::Machine(limit.to_string(), Some(exceeded_help(&limit))));
    }
    if let Some(failed) = ended.iter().find(|p| p.code != 0 && !p.stopped) {
        let at_once = if ended.iter().any(|p| p.stopped) { "; the others were stopped" } else { "" };
        let message = format!("`{}` at `{}` failed: exit code {}{at_once}", failed.command, failed.node, failed.code);
        return Err(Failure::Program(message, failed.code));
    }
    match outcome.faults(most_late) {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Failure::Late(faults.join("; ") + &cause(outcome))),
    }
}

/// Returns the likely cause of lateness.
fn cause(outcome: &EmulationResults) -> String {
    let mut text = String::new();
    let spent = outcome.result.wall_s.max(1e-9);
    let (ran, waited) = (outcome.effort.ran.as_secs_f64() / spent, outcome.effort.waited.as_secs_f64() / spent);
    if let Some(reason) = &outcome.unhurried {
        let _ = write!(text, "; {reason}");
    }
    if ran > BUSY {
        let _ = write!(text, "; the rate is too high for this machine: the loop ran {:.0} % of the time", ran * 100.0);
    } else if waited > 0.01 {
        let _ = write!(text, "; the processors were busy: the loop waited for one {:.0} % of the time", waited * 100.0);
    }
    text
}

/// Share of the time above which the loop is overloaded.
const BUSY: f64 = 0.8;
/// Maximum number of conversations, and of frame counts, in the text.
const MAX_SHOWN: usize = 5;
