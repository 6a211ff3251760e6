//! `noise` of a medium that divides its air time into blocks: layers that add up, each of which may hit a block.
//!
//! A layer has a name of its own (`cable`, `inverter45`), or is one source with its parameters. Without `noise` the medium
//! has that of its profile; a list takes its place as a whole, so `{ kind = "none" }` is a line without noise.

use super::file::{Exponential, Link, Noise, NoiseKind};
use super::leaf::{At, Leaf};
use super::link::{Load, noise_tables, recorded, span};
use super::problem::{Problem, Report};
use roughlink_core::link::noise::AirNoise;
use roughlink_core::link::noise::air::Fading;
use roughlink_core::link::noise::impulses::{Impulses, Length, Source};
use roughlink_core::units::{Share, Time};

/// The noise of a shared medium. `usual` is that of its profile; `block` is the air time of the blocks that `mean`
/// refers to.
pub(super) fn air(link: &Link, usual: AirNoise, block: Time, load: Load<'_>, report: &mut Report) -> AirNoise {
    if link.noise.is_none() {
        return usual;
    }
    let tables = noise_tables(link);
    let mut all = AirNoise::default();
    for table in &tables {
        let n = &table.value;
        if let Some(direction) = &n.direction {
            let problem =
                Problem::new("both directions share the medium, and its noise").at(direction.span.clone(), "");
            report.error(problem.help("leave `direction` out"));
        }
        let Some(layer) = report.read(&n.kind).and_then(|kind| layer(table, kind, block, load, report)) else {
            continue;
        };
        if !layer.recorded.is_empty() && tables.len() > 1 {
            let problem = Problem::new("a record takes the place of all other noise").at(table.span.clone(), "");
            report.error(problem.help("keep the record alone, or leave it out"));
        }
        if layer.fading.is_some() && all.fading.is_some() {
            let problem = Problem::new("the noise fades twice").at(table.span.clone(), "the second");
            report.error(problem.help("keep one of them"));
        }
        // Each corrupts blocks independently of the others.
        all.stationary += layer.stationary - all.stationary * layer.stationary;
        all.fading = all.fading.or(layer.fading);
        all.impulses.extend(layer.impulses);
        all.recorded = layer.recorded;
    }
    all
}

/// What one table adds.
fn layer(table: &At<Noise>, kind: NoiseKind, block: Time, load: Load<'_>, report: &mut Report) -> Option<AirNoise> {
    let n = &table.value;
    let named = match kind {
        NoiseKind::None => return None,
        NoiseKind::Cable => AirNoise::cable(),
        NoiseKind::Clean => AirNoise::clean(),
        NoiseKind::Inverter45 => AirNoise::inverter45_at(report.read(&n.mains).map_or(60.0, |hz| hz.0)),
        NoiseKind::Stress => AirNoise::stress_at(report.read(&n.mains).map_or(60.0, |hz| hz.0)),
        NoiseKind::Stationary => {
            return Some(AirNoise { stationary: report.read(&n.loss)?.0, ..AirNoise::default() });
        }
        NoiseKind::Fading => return fading(n, report),
        NoiseKind::Recorded => {
            return Some(AirNoise { recorded: recorded(table, load, report), ..AirNoise::default() });
        }
        NoiseKind::Random | NoiseKind::Burst | NoiseKind::GilbertElliott | NoiseKind::Impulse | NoiseKind::List => {
            let problem =
                Problem::new("this noise takes packets, and a shared medium sends blocks").at(span(&n.kind), "");
            report.error(problem.help(instead(kind)));
            return None;
        }
        _ => {
            let train = impulses(n, kind, report)?;
            return Some(AirNoise { impulses: vec![train], ..AirNoise::default() });
        }
    };
    if let Some(Source::Mains { mains_hz, length, .. }) = named.impulses.first().map(|i| &i.source) {
        fit_mains(*length, *mains_hz, n, report);
    }
    // Each of them has a stationary error, so that scaling reaches any mean.
    Some(match report.read(&n.mean) {
        Some(Share(mean)) => named.with_error(mean, block),
        None => named,
    })
}

/// What to write on a shared medium for a kind that pipes have.
fn instead(kind: NoiseKind) -> &'static str {
    match kind {
        NoiseKind::Random => "write kind = \"stationary\" with a `loss` per block",
        NoiseKind::Burst => "bursts in time are kind = \"asynchronous\", \"measured\" or \"partitioned\"",
        NoiseKind::GilbertElliott => "good and bad times are kind = \"fading\"",
        NoiseKind::Impulse => "pulses of the mains are kind = \"mains\", those at random times kind = \"asynchronous\"",
        _ => "noise at stated times is kind = \"events\"",
    }
}

fn fading(n: &Noise, report: &mut Report) -> Option<AirNoise> {
    let [good, bad] = [&n.good, &n.bad].map(|dwell| not_zero(dwell, report));
    let fading = Fading { good: good?, bad: bad?, stationary: report.read(&n.loss_bad)?.0 };
    Some(AirNoise { fading: Some(fading), ..AirNoise::default() })
}

/// A train of impulses: what its kind has, and the keys over it.
fn impulses(n: &Noise, kind: NoiseKind, report: &mut Report) -> Option<Impulses> {
    let every = not_zero(&n.every, report);
    if let Some(every) = every {
        too_often(every, n, report)?;
    }
    let rate = every.map(|every| 1.0 / every.as_secs_f64());
    let mut train = match kind {
        NoiseKind::Asynchronous => Impulses::asynchronous(rate.unwrap_or(USUAL_IMPULSES)),
        NoiseKind::Switching => Impulses::charger_switching(rate.unwrap_or(USUAL_SWITCHING), ALWAYS),
        NoiseKind::Mains => Impulses::charging_mains(report.read(&n.mains).map_or(50.0, |hz| hz.0)),
        NoiseKind::Measured => Impulses::measured(report.read(&n.class)?),
        NoiseKind::Partitioned => Impulses::partitioned(),
        NoiseKind::MarkovMiddleton => Impulses::new(middleton(n, report)?, 1.0),
        _ => Impulses::new(events(n, report)?, 1.0),
    };
    let given = report.read(&n.width);
    match &mut train.source {
        Source::Poisson { length, harmless, .. } => {
            *length = given.unwrap_or(*length);
            *harmless = report.read(&n.harmless).unwrap_or(*harmless);
            check_width(n, *length, *harmless, report);
        }
        Source::Mains { mains_hz, length, variation, jitter } => {
            match given {
                Some(Length::Exponential(mean)) => *length = mean,
                Some(Length::Uniform(..)) => {
                    let problem = Problem::new("the impulses of the mains are lognormal").at(span(&n.width), "");
                    report.error(problem.help("write their mean, and their `variation`"));
                }
                None => {}
            }
            fit_mains(*length, *mains_hz, n, report);
            *variation = report.read(&n.variation).map_or(*variation, |share| share.0);
            *jitter = report.read(&n.jitter).unwrap_or(*jitter);
        }
        Source::Partitioned { gap, width } if kind == NoiseKind::Partitioned => {
            for (mixture, own) in [(&mut *gap, &n.gaps), (&mut *width, &n.widths)] {
                if let Some(own) = own {
                    *mixture = mixed(own, report)?;
                }
            }
            too_often(mean(gap) + mean(width), n, report)?;
        }
        Source::Partitioned { .. } | Source::MarkovMiddleton { .. } | Source::Events(_) => {}
    }
    train.hit = report.read(&n.hit).map_or(train.hit, |hit| hit.0);
    train.during = (report.read(&n.from).unwrap_or(ALWAYS.0), report.read(&n.until).unwrap_or(ALWAYS.1));
    if train.during.0 >= train.during.1 {
        let problem = Problem::new("the noise ends before it begins").at(span(&n.until), "");
        report.error(problem.help("`until` must be after `from`"));
    }
    Some(train)
}

/// Impulses of the mains must leave room between them.
fn fit_mains(length: Time, mains_hz: f64, n: &Noise, report: &mut Report) {
    if length.is_zero() || length.as_secs_f64() >= 0.25 / mains_hz {
        let problem = Problem::new(format!("impulses of {length} do not fit {mains_hz} Hz"));
        let place = if n.width.is_some() { span(&n.width) } else { span(&n.mains) };
        report.error(problem.at(place, "").help("they are shorter than a quarter of a period"));
    }
}

/// Impulses that can be drawn, and of which some do harm.
fn check_width(n: &Noise, length: Length, harmless: Time, report: &mut Report) {
    let longest = match length {
        Length::Exponential(mean) => mean * LONGEST_IN_MEANS,
        Length::Uniform(a, b) if a > b => {
            let problem = Problem::new("the shortest impulse is longer than the longest").at(span(&n.width), "");
            report.error(problem.help("write the shortest first: [\"20 us\", \"100 us\"]"));
            return;
        }
        Length::Uniform(_, b) => b,
    };
    if longest.is_zero() {
        let problem = Problem::new("impulses of no length").at(span(&n.width), "");
        report.error(problem.help("write a time such as \"100 us\""));
    } else if harmless >= longest {
        let place = if n.harmless.is_some() { span(&n.harmless) } else { span(&n.width) };
        let problem = Problem::new(format!("impulses shorter than {harmless} do no harm, so that none is left"));
        report.error(problem.at(place, "").help("make `width` longer, or `harmless` shorter"));
    }
}

fn middleton(n: &Noise, report: &mut Report) -> Option<Source> {
    let index = report.read(&n.index);
    if let Some(index) = index.filter(|index| !(1e-6..=10.0).contains(index)) {
        let problem = Problem::new(format!("an impulsive index of {index} is beyond the model")).at(span(&n.index), "");
        report.error(problem.help("it is above 0 and at most 10; the literature has 0.01 to 0.3"));
    }
    let memory = report.read(&n.memory);
    if let Some(memory) = memory.filter(|memory| !(0.0..1.0).contains(memory)) {
        let problem = Problem::new(format!("a `memory` of {memory} is no probability below 1")).at(span(&n.memory), "");
        report.error(problem.help("it is from 0, no memory, to just below 1"));
    }
    let sample = not_zero(&n.sample, report);
    if let (Some(index), Some(memory), Some(sample)) = (index, memory, sample) {
        // How long the background lasts: 1 / ((1 - x) (1 - P_0)) samples.
        let background = sample.as_secs_f64() / ((1.0 - memory) * -libm::expm1(-index));
        too_often(Time::from_secs_f64(background), n, report)?;
    }
    let [first, higher] = report.read(&n.harm).unwrap_or([Share(0.1), Share(0.9)]);
    Some(Source::MarkovMiddleton { index: index?, memory: memory?, sample: sample?, harm: [first.0, higher.0] })
}

fn events(n: &Noise, report: &mut Report) -> Option<Source> {
    let list = n.events.as_ref()?;
    let events: Vec<(Time, Time)> =
        (list.value.iter()).filter_map(|e| Some((report.read(&e.value.at)?, report.read(&e.value.lasts)?))).collect();
    if events.windows(2).any(|pair| pair[0].0 + pair[0].1 >= pair[1].0) {
        let problem = Problem::new("an event begins before the one before it is over").at(list.span.clone(), "");
        report.error(problem.help("sort them by time, or join the two"));
    }
    Some(Source::Events(events))
}

/// Refuses noise that comes again so soon that a run would spend its time on drawing it.
fn too_often(every: Time, n: &Noise, report: &mut Report) -> Option<()> {
    if every >= LEAST_GAP {
        return Some(());
    }
    let problem = Problem::new(format!("an impulse every {every} is no impulse but a steady noise"));
    let place = if n.every.is_some() { span(&n.every) } else { span(&n.kind) };
    report.error(problem.at(place, "").help(format!("at least {LEAST_GAP} on average, or kind = \"stationary\"")));
    None
}

fn mean(mixture: &[(f64, Time)]) -> Time {
    Time::from_secs_f64(mixture.iter().map(|(share, mean)| share * mean.as_secs_f64()).sum())
}

/// A mixture of exponential distributions; its shares are those of all draws.
fn mixed(list: &At<Vec<At<Exponential>>>, report: &mut Report) -> Option<Vec<(f64, Time)>> {
    let mut parts = Vec::new();
    for part in &list.value {
        parts.push((report.read(&part.value.share)?.0, not_zero(&part.value.mean, report)?));
    }
    let sum: f64 = parts.iter().map(|part| part.0).sum();
    if (sum - 1.0).abs() > 1e-6 {
        let problem = Problem::new(format!("the shares sum up to {:.1} %", 100.0 * sum)).at(list.span.clone(), "");
        report.error(
            problem.help("write [{ share = \"70 %\", mean = \"15 ms\" }, { share = \"30 %\", mean = \"1 s\" }]"),
        );
        return None;
    }
    Some(parts)
}

/// A time, if it is one.
fn not_zero(leaf: &Option<Leaf<Time>>, report: &mut Report) -> Option<Time> {
    let time = report.read(leaf)?;
    if time.is_zero() {
        let problem = Problem::new("a time of zero makes no sense here").at(span(leaf), "");
        report.error(problem.help("write a time such as \"10 ms\""));
        return None;
    }
    Some(time)
}

/// Impulses a second (Hrasnica et al.; 25 on a disturbed line).
const USUAL_IMPULSES: f64 = 5.0;
/// Impulses of a charger's power stage a second (assumption; 50 to 500).
const USUAL_SWITCHING: f64 = 100.0;
const ALWAYS: (Time, Time) = (Time::ZERO, Time::MAX);
pub(super) const LEAST_GAP: Time = Time::from_micros(10);
/// One impulse in 22 000 is longer than ten means, so drawing one takes 22 000 tries.
const LONGEST_IN_MEANS: u64 = 10;
