//! `[[link]]`: rates, delays and noise of a pipe, per direction.

use super::air::LEAST_GAP;
use super::file::{Asymmetric, Heading, Link, Noise as NoiseTable, NoiseKind, Noises, Pulses as PulsesTable};
use super::leaf::{At, Leaf};
use super::problem::{Problem, Report};
use super::qdisc::discipline;
use roughlink_core::link::noise::{BurstLength, Impulse, Noise, Pulses};
use roughlink_core::link::{Direction, PipeConfig};
use roughlink_core::units::{QueueLimit, Rate, Share, Time};
use std::collections::BTreeSet;
use std::ops::Range;

/// Reads a file that a scenario refers to, by its name as written.
pub(super) type Load<'l> = &'l dyn Fn(&str) -> Result<String, String>;

/// Resolves the model of a pipe. A value that is missing or cannot be read is reported and replaced by something
/// harmless, so that the rest can be checked.
pub(super) fn pipe(link: &Link, load: Load<'_>, report: &mut Report) -> PipeConfig {
    let mtu = mtu(link, report);
    let overhead = report.read(&link.overhead).map_or(0, |bytes| bytes.0 as u16);
    let asymmetric = link.asymmetric.as_ref().map(|a| &a.value);
    let (noise, mut reverse_noise) = noises(link, load, report);
    if let Some(own) = asymmetric.and_then(|a| a.noise.as_ref()) {
        if let Some(direction) = &own.value.direction {
            let problem = Problem::new("`asymmetric` is the reverse direction already");
            report.error(problem.at(direction.span.clone(), "").help("leave `direction` out"));
        }
        reverse_noise = one_noise(own, load, report);
    }
    let forward = Direction {
        rate: rate(&link.rate, report).unwrap_or(Rate::from_mbps(1)),
        delay: delay(&link.delay, report).unwrap_or_default(),
        queue: queue(&link.queue, mtu, report).unwrap_or(QueueLimit::Packets(100)),
        noise,
        jitter: delay(&link.jitter, report).unwrap_or_default(),
        reorder: report.read(&link.reorder).unwrap_or(false),
        discipline: link.qdisc.as_ref().and_then(|q| discipline(q, report)),
        timeline: None,
    };
    let mut reverse = Direction { noise: reverse_noise, ..forward.clone() };
    if let Some(Asymmetric { rate: r, delay: d, queue: q, noise: _, jitter, reorder, qdisc, timeline: _ }) = asymmetric
    {
        reverse.rate = rate(r, report).unwrap_or(reverse.rate);
        reverse.delay = delay(d, report).unwrap_or(reverse.delay);
        reverse.queue = queue(q, mtu, report).unwrap_or(reverse.queue);
        reverse.jitter = delay(jitter, report).unwrap_or(reverse.jitter);
        reverse.reorder = report.read(reorder).unwrap_or(reverse.reorder);
        if let Some(qdisc) = qdisc {
            reverse.discipline = discipline(qdisc, report);
        }
    }
    for (direction, leaf) in [(&forward, &link.reorder), (&reverse, asymmetric.map_or(&None, |a| &a.reorder))] {
        if let Some(leaf) = leaf.as_ref().filter(|_| direction.reorder && direction.jitter.is_zero()) {
            let warning = Problem::new("`reorder` has no effect without `jitter`").at(leaf.span.clone(), "");
            report.warn(warning.help("add jitter = \"1 ms\", or leave `reorder` out"));
        }
    }
    PipeConfig { forward, reverse, mtu, overhead }
}

/// The largest IP packet.
pub(super) fn mtu(link: &Link, report: &mut Report) -> u16 {
    report.read(&link.mtu).map_or(1500, |bytes| bytes.0 as u16)
}

pub(super) fn rate(leaf: &Option<Leaf<Rate>>, report: &mut Report) -> Option<Rate> {
    let rate = report.read(leaf)?;
    if rate == Rate(0) {
        let problem = Problem::new("a rate of zero lets nothing through").at(span(leaf), "");
        report.error(problem.help("write a rate such as \"10 Mbit/s\"; losses are a matter of `noise`"));
        return None;
    }
    Some(rate)
}

fn delay(leaf: &Option<Leaf<Time>>, report: &mut Report) -> Option<Time> {
    let delay = report.read(leaf)?;
    if delay > LONGEST_DELAY {
        let problem = Problem::new(format!("a delay of {delay} is beyond any link")).at(span(leaf), "");
        report.error(problem.help(format!("at most {LONGEST_DELAY}")));
        return None;
    }
    Some(delay)
}

fn queue(leaf: &Option<Leaf<QueueLimit>>, mtu: u16, report: &mut Report) -> Option<QueueLimit> {
    let queue = report.read(leaf)?;
    if let QueueLimit::Bytes(bytes) = queue
        && bytes < u64::from(mtu)
    {
        let warning = Problem::new(format!("no packet of {mtu} B can wait in a queue of {bytes} B"));
        report.warn(warning.at(span(leaf), "").help("make it larger, or count packets: \"100 pkt\""));
    }
    Some(queue)
}

/// The tables of noise as a list, whether or not they are written as one.
pub(super) fn noise_tables(link: &Link) -> Vec<At<NoiseTable>> {
    match link.noise.as_deref() {
        None => Vec::new(),
        Some(At { span, value: Noises::One(one) }) => vec![At { span: span.clone(), value: (**one).clone() }],
        Some(At { value: Noises::Many(many), .. }) => many.clone(),
    }
}

/// The noise of both directions.
fn noises(link: &Link, load: Load<'_>, report: &mut Report) -> (Noise, Noise) {
    let tables = noise_tables(link);
    let mut found: [Option<(Noise, Range<usize>)>; 2] = [None, None];
    for table in &tables {
        let noise = one_noise(table, load, report);
        let hit = match report.read(&table.value.direction).unwrap_or(Heading::Both) {
            Heading::Forward => [true, false],
            Heading::Reverse => [false, true],
            Heading::Both => [true, true],
        };
        for (slot, name) in found.iter_mut().zip(["forward", "reverse"]).zip(hit).filter(|x| x.1).map(|x| x.0) {
            if let Some((_, first)) = slot {
                let problem = Problem::new(format!("the {name} direction has two kinds of noise"));
                let problem = problem.at(table.span.clone(), "the second").at(first.clone(), "the first");
                report.error(problem.help("give each a `direction`, \"forward\" or \"reverse\""));
            }
            *slot = Some((noise.clone(), table.span.clone()));
        }
    }
    let [forward, reverse] = found.map(|f| f.map_or(Noise::None, |(noise, _)| noise));
    (forward, reverse)
}

/// The noise of something that has no direction, or one of its own; `help` is the advice about the key.
pub(super) fn undirected(table: &At<NoiseTable>, help: &str, load: Load<'_>, report: &mut Report) -> Noise {
    if let Some(direction) = &table.value.direction {
        let problem = Problem::new("`direction` has no effect in this noise").at(direction.span.clone(), "");
        report.error(problem.help(help));
    }
    one_noise(table, load, report)
}

pub(super) fn one_noise(table: &At<NoiseTable>, load: Load<'_>, report: &mut Report) -> Noise {
    let n = &table.value;
    let mut share = |leaf: &Option<Leaf<Share>>, absent: f64| report.read(leaf).map_or(absent, |s| s.0);
    let noise =
        match n.kind.as_ref().and_then(|k| k.value.as_ref().ok()) {
            None | Some(NoiseKind::None) => Noise::None,
            Some(NoiseKind::Random) => Noise::Random { loss: share(&n.loss, 0.0) },
            Some(NoiseKind::Burst) => burst(table, report),
            Some(NoiseKind::GilbertElliott) => Noise::GilbertElliott {
                to_bad: share(&n.to_bad, 0.0),
                to_good: share(&n.to_good, 1.0),
                loss_good: share(&n.loss_good, 0.0),
                loss_bad: share(&n.loss_bad, 1.0),
            },
            Some(NoiseKind::Impulse) => {
                let kill = share(&n.kill, 1.0);
                impulse(table, kill, report)
            }
            Some(NoiseKind::List) => {
                let drop = report.read(&n.drop).unwrap_or_default();
                if drop.windows(2).any(|pair| pair[0] >= pair[1]) {
                    let problem = Problem::new("the numbers in `drop` must ascend, each once").at(span(&n.drop), "");
                    report.error(problem.help(format!("write drop = {}", ascending(&drop))));
                }
                Noise::List { drop }
            }
            Some(NoiseKind::Recorded) => Noise::Recorded { steps: recorded(table, load, report) },
            Some(_) => {
                let problem = Problem::new("this noise corrupts blocks on a shared medium, and a pipe has no blocks");
                report.error(problem.at(span(&n.kind), "").help(
                    "on a pipe there are `random`, `burst`, `gilbert-elliott`, `impulse`, `list` and `recorded`",
                ));
                Noise::None
            }
        };
    report.read(&n.kind);
    noise
}

fn burst(table: &At<NoiseTable>, report: &mut Report) -> Noise {
    let n = &table.value;
    let length = report.read(&n.length);
    let sane = match length {
        Some(BurstLength::Uniform(a, b)) => a >= 1 && a <= b && b <= LONGEST_BURST,
        Some(BurstLength::Geometric(mean)) => (1.0..=LONGEST_BURST as f64).contains(&mean),
        None => true,
    };
    if !sane {
        let problem = Problem::new("there is no burst of such a length").at(span(&n.length), "");
        report.error(problem.help("a burst takes at least one packet, and [a, b] ascends: [1, 4]"));
    }
    let length = length.filter(|_| sane).unwrap_or(BurstLength::Uniform(1, 1));
    let start = match (&n.start, &n.mean) {
        (Some(start), Some(mean)) => {
            let problem = Problem::new("`start` and `mean` say the same thing twice");
            let problem = problem.at(mean.span.clone(), "the average loss").at(start.span.clone(), "per packet");
            report.error(problem.help("keep one of them"));
            0.0
        }
        (None, None) => {
            let problem = Problem::new("noise of kind `burst` has no `start`").at(span(&n.kind), "");
            report.error(problem.help(
                "write start = \"2 %\" for the probability that a packet starts a burst, or mean = \"5 %\" for the average loss",
            ));
            0.0
        }
        (start, None) => report.read(start).map_or(0.0, |s| s.0),
        (None, mean) => report.read(mean).map_or(0.0, |m| m.0 / length.mean()),
    };
    Noise::Burst { start, length }
}

fn impulse(table: &At<NoiseTable>, kill: f64, report: &mut Report) -> Noise {
    let n = &table.value;
    let mut pulses = |table: &Option<At<PulsesTable>>, cyclic: bool| {
        let table = table.as_ref()?;
        let (every, length) = (report.read(&table.value.every)?, report.read(&table.value.length)?);
        if every < LEAST_GAP {
            let problem = Problem::new(format!("pulses every {every} are too dense")).at(span(&table.value.every), "");
            report.error(problem.help(format!("at least {LEAST_GAP}; 100 pulses per second come every = \"10 ms\"")));
        } else if cyclic && length >= every {
            let problem = Problem::new(format!("a pulse of {length} every {every} never ends"));
            report.error(problem.at(span(&table.value.length), "").help("`length` must be shorter than `every`"));
        } else if length > every * MOST_OVERLAPS {
            let problem = Problem::new(format!("pulses of {length} every {every} overlap all the time"));
            let help = format!("`length` must be at most {MOST_OVERLAPS} times `every`");
            report.error(problem.at(span(&table.value.length), "").help(help));
        }
        Some(Pulses { every, length })
    };
    let impulse = Impulse { cyclic: pulses(&n.cyclic, true), asynchronous: pulses(&n.asynchronous, false), kill };
    if n.cyclic.is_none() && n.asynchronous.is_none() {
        let problem = Problem::new("noise of kind `impulse` has no pulses").at(span(&n.kind), "");
        report.error(problem.help("add cyclic = { every = \"10 ms\", length = \"300 us\" }, or asynchronous, or both"));
    }
    Noise::Impulse(impulse)
}

/// The steps of a record, ascending; empty if something is wrong with it.
pub(super) fn recorded(table: &At<NoiseTable>, load: Load<'_>, report: &mut Report) -> Vec<(Time, f64)> {
    let n = &table.value;
    let mut steps: Vec<(Time, f64)> = Vec::new();
    let place = match (&n.file, &n.steps) {
        (Some(file), Some(own)) => {
            let problem = Problem::new("`file` and `steps` exclude each other").at(file.span.clone(), "");
            report.error(problem.at(own.span.clone(), "").help("keep one of them"));
            return steps;
        }
        (Some(file), None) => {
            if let Some(name) = report.read(&n.file) {
                match load(&name).and_then(|text| read_steps(&text)) {
                    Ok(read) => steps = read,
                    Err(reason) => {
                        let problem = Problem::new(format!("`{name}` cannot be used: {reason}"));
                        report.error(problem.at(file.span.clone(), "").help(STEPS_HELP));
                        return steps;
                    }
                }
            }
            file.span.clone()
        }
        (None, Some(own)) => {
            for step in &own.value {
                let (at, loss) = (report.read(&step.value.at), report.read(&step.value.loss));
                steps.push((at.unwrap_or_default(), loss.map_or(0.0, |s| s.0)));
            }
            own.span.clone()
        }
        (None, None) => {
            let problem = Problem::new("noise of kind `recorded` has no `steps`").at(span(&n.kind), "");
            report.error(problem.help(NO_STEPS_HELP));
            return steps;
        }
    };
    if steps.is_empty() {
        let help = if n.file.is_some() { STEPS_HELP } else { NO_STEPS_HELP };
        report.error(Problem::new("recorded noise without a step").at(place, "").help(help));
    } else if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let problem = Problem::new("the times of recorded noise must ascend, each once").at(place, "");
        report.error(problem.help(format!("{} follows {}: sort the steps by time", pair[1].0, pair[0].0)));
    }
    steps
}

/// The numbers in order, each once, as a file has them; the first of them if they are many.
fn ascending(numbers: &[u64]) -> String {
    let sorted: BTreeSet<u64> = numbers.iter().copied().collect();
    let shown: Vec<String> = sorted.iter().take(MOST_SHOWN).map(u64::to_string).collect();
    format!("[{}{}]", shown.join(", "), if sorted.len() > MOST_SHOWN { ", ..." } else { "" })
}

/// Reads `seconds,loss probability` per line. Blank lines, `#` and a heading are passed over.
fn read_steps(text: &str) -> Result<Vec<(Time, f64)>, String> {
    let mut steps = Vec::new();
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    for (first, (number, line)) in lines.enumerate() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [at, loss] = fields[..] else { return Err(format!("line {} has not two columns", number + 1)) };
        let step = format!("{at} s").parse::<Time>().ok().zip(loss.parse::<f64>().ok());
        match step {
            Some((at, loss)) if (0.0..=1.0).contains(&loss) => steps.push((at, loss)),
            Some(_) => return Err(format!("line {}: {loss} is not between 0 and 1", number + 1)),
            None if first == 0 => {} // the heading
            None => return Err(format!("line {}: `{line}` is not two numbers", number + 1)),
        }
    }
    Ok(steps)
}

pub(super) fn span<T>(leaf: &Option<Leaf<T>>) -> Range<usize> {
    leaf.as_ref().map_or(0..0, |leaf| leaf.span.clone())
}

/// Pulses at an instant, on average: each packet looks at all of them.
const MOST_OVERLAPS: u64 = 100;
const STEPS_HELP: &str = "each line is `seconds,loss probability`, such as 12.5,0.03";
const NO_STEPS_HELP: &str =
    "add steps = [{ at = \"0 s\", loss = \"1 %\" }, { at = \"10 s\", loss = \"5 %\" }], or a `file`";
/// A day, beyond any real delay; a sum over any number of links stays on the clock.
const LONGEST_DELAY: Time = Time::from_secs(86_400);
const LONGEST_BURST: u64 = 1_000_000_000;
/// Most numbers of a list that a message repeats.
const MOST_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_noise_is_read_from_a_table_of_numbers() {
        let steps = read_steps("time_s,loss\n# quiet\n0,0.001\n\n12.5, 0.03\r\n").unwrap();
        assert_eq!(steps, [(Time::ZERO, 0.001), (Time::from_millis(12_500), 0.03)]);
        for bad in ["1,2", "0,0.1\nx,y", "1", "-1,0.5\n0,1\n-1,0", "0,nan"] {
            assert!(read_steps(bad).is_err(), "{bad}");
        }
    }
}
