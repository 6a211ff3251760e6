//! `[[link]] kind = "pipe"`: rates, delays and noise, per direction.

use super::leaf::{At, Leaf, Name, span};
use super::link_keys::{LinkDirections, rate};
use super::noise::{Noises, TomlNoise, one_noise, tables};
use super::problem::{Problem, Problems};
use super::qdisc::{TomlQdisc, discipline};
use super::table::FileLoader;
use super::timeline::{Fixed, TimelineSource, Timelines, source};
use roughlink_core::link::jitter::{Distribution, JitterShape};
use roughlink_core::link::noise::Noise;
use roughlink_core::link::timeline::Opportunities;
use roughlink_core::link::{Direction, PipeConfig};
use roughlink_core::scenario::Notices;
use roughlink_core::units::{Bytes, QueueLimit, Rate, Share, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// The keys of a pipe.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlPipe {
    /// Serialization rate; optional if the timeline sets one from the start.
    #[schemars(with = "Leaf<Rate>", example = "10 Mbit/s", extend("x-given-by" = "timeline"))]
    // required, by its definition
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way; optional if the timeline sets one from the start.
    #[schemars(with = "Leaf<Time>", example = "10 ms", extend("x-given-by" = "timeline"))]
    // required, by its definition
    pub delay: Option<Leaf<Time>>,
    /// Drop-tail queue of each direction before the serializer, in packets or in bytes. The packet being serialized
    /// does not count.
    #[schemars(extend("default" = QUEUE))]
    pub queue: Option<Leaf<QueueLimit>>,
    /// Bytes that framing adds to each packet on the wire: 2 B for the point-to-point link of ns-3, 38 B for Ethernet
    /// with preamble and gap.
    #[schemars(extend("default" = "0 B", "x-maximum" = "1024 B"))]
    pub overhead: Option<Leaf<Bytes>>,
    /// Random part of each packet's delay: the maximum if uniform, otherwise the standard deviation around `delay`.
    #[schemars(extend("default" = "0 s"))]
    pub jitter: Option<Leaf<Time>>,
    /// Distribution of the jitter in both directions.
    #[schemars(extend("default" = "uniform"))]
    pub distribution: Option<Leaf<Distribution>>,
    /// Correlation of the jitter between successive packets, less than 100 %.
    #[schemars(extend("default" = "0 %", "x-exclusiveMaximum" = "100 %"))]
    pub correlation: Option<Leaf<Share>>,
    /// Allow jitter to change the order of packets.
    #[schemars(extend("default" = false))]
    pub reorder: Option<Leaf<bool>>,
    /// Queue discipline of both directions; first in, first out, drop-tail if absent.
    pub qdisc: Option<Box<At<TomlQdisc>>>,
    /// The keys that differ in the reverse direction.
    pub asymmetric: Option<Box<At<TomlAsymmetric>>>,
    /// Changes over time: a list of changes, the name of a file, or a table with either and further keys.
    pub timeline: Option<Box<At<Timelines>>>,
}

/// The reverse direction of a pipe; an absent key keeps the value of the forward direction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlAsymmetric {
    /// Serialization rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Queue before the serializer.
    pub queue: Option<Leaf<QueueLimit>>,
    /// Losses of the reverse direction, without the key `direction`.
    pub noise: Option<At<TomlNoise>>,
    /// Random part of each packet's delay.
    pub jitter: Option<Leaf<Time>>,
    /// Allow jitter to change the order of packets.
    pub reorder: Option<Leaf<bool>>,
    /// Queue discipline of the reverse direction.
    pub qdisc: Option<Box<At<TomlQdisc>>>,
    /// Changes of the reverse direction; the link's own timeline then applies to the forward direction only.
    pub timeline: Option<Box<At<Timelines>>>,
}

impl TomlPipe {
    /// Resolves a pipe, with the `mtu` and the noise of its link; returns the notifications for hosts, too. `name` is
    /// the link's.
    pub(crate) fn resolve(
        &self,
        name: &Option<Leaf<Name>>,
        (mtu, noise): (u16, Option<&At<Noises>>),
        duration: Time,
        load: FileLoader<'_>,
        report: &mut Problems,
    ) -> (PipeConfig, Notices) {
        let mut pipe = self.config(mtu, noise, load, report);
        let notices = self.timelines(name, &mut pipe, duration, load, report);
        (pipe, notices)
    }

    /// Resolves a pipe. Reports a missing or invalid value and uses a harmless one, so that the rest is checked.
    fn config(&self, mtu: u16, noise: Option<&At<Noises>>, load: FileLoader<'_>, report: &mut Problems) -> PipeConfig {
        let overhead = report.read(&self.overhead).map_or(0, |bytes| bytes.0 as u16);
        let asymmetric = self.asymmetric.as_ref().map(|a| &a.value);
        let (noise, mut reverse_noise) = noises(noise, load, report);
        if let Some(noise) = asymmetric.and_then(|a| a.noise.as_ref()) {
            if let Some(direction) = &noise.value.direction {
                let problem = Problem::new("`direction` has no effect: `asymmetric` is the reverse direction");
                report.error(problem.at(direction.span.clone(), "").help("remove `direction`"));
            }
            reverse_noise = one_noise(noise, load, report);
        }
        let forward = Direction {
            rate: rate(&self.rate, report).unwrap_or(Rate::from_mbps(1)),
            delay: delay(&self.delay, report).unwrap_or_default(),
            queue: queue(&self.queue, mtu, report).unwrap_or(QUEUE),
            noise,
            jitter: delay(&self.jitter, report).unwrap_or_default(),
            jitter_shape: JitterShape {
                distribution: report.read(&self.distribution).unwrap_or_default(),
                correlation: report.read(&self.correlation).map_or(0.0, |share| share.0),
            },
            reorder: report.read(&self.reorder).unwrap_or(false),
            discipline: self.qdisc.as_ref().and_then(|q| discipline(q, report)),
            timeline: None,
        };
        let mut reverse = Direction { noise: reverse_noise, ..forward.clone() };
        if let Some(TomlAsymmetric { rate: r, delay: d, queue: q, noise: _, jitter, reorder, qdisc, timeline: _ }) =
            asymmetric
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
        for (direction, leaf) in [(&forward, &self.reorder), (&reverse, asymmetric.map_or(&None, |a| &a.reorder))] {
            if let Some(leaf) = leaf.as_ref().filter(|_| direction.reorder && direction.jitter.is_zero()) {
                let warning = Problem::new("`reorder` has no effect without `jitter`").at(leaf.span.clone(), "");
                report.warn(warning.help("add jitter = \"1 ms\", or remove `reorder`"));
            }
        }
        PipeConfig { forward, reverse, mtu, overhead }
    }

    /// Returns the properties that `asymmetric` sets.
    pub(crate) fn fixed(&self) -> Fixed {
        let of = |own: &At<TomlAsymmetric>| Fixed {
            rate: own.value.rate.is_some(),
            delay: own.value.delay.is_some(),
            noise: own.value.noise.is_some(),
        };
        self.asymmetric.as_deref().map_or_else(Fixed::default, of)
    }

    /// Sets the timelines of a link's directions; returns the notifications for hosts.
    fn timelines(
        &self,
        name: &Option<Leaf<Name>>,
        pipe: &mut PipeConfig,
        duration: Time,
        load: FileLoader<'_>,
        report: &mut Problems,
    ) -> Notices {
        let own = self.asymmetric.as_ref().and_then(|a| a.value.timeline.as_ref());
        let before = report.problems.len();
        let [shared, own] = [self.timeline.as_ref(), own].map(|t| t.map(|t| source(t, duration, load, report)));
        if let Some(shared) = shared.as_ref().filter(|_| report.problems.len() == before) {
            self.set_initial_values(name, pipe, shared, own.as_ref().unwrap_or(shared), report);
        }
        let mut make = |source: &TimelineSource, heading: LinkDirections, fixed: Fixed, place: Range<usize>| {
            source.timeline((heading, fixed), duration, place, report)
        };
        if let Some(shared) = &shared {
            let place = self.timeline.as_ref().map_or(0..0, |t| t.span.clone());
            pipe.forward.timeline = Some(make(shared, LinkDirections::Forward, Fixed::default(), place.clone()));
            if own.is_none() {
                pipe.reverse.timeline = Some(make(shared, LinkDirections::Reverse, self.fixed(), place));
            }
        }
        if let Some(own) = &own {
            let place = self.asymmetric.as_ref().map_or(0..0, |a| a.span.clone());
            pipe.reverse.timeline = Some(make(own, LinkDirections::Reverse, Fixed::default(), place));
        }
        shared.as_ref().or(own.as_ref()).map_or_else(Notices::default, |s| Notices::new(pipe, s.notice, s.warning))
    }

    /// Sets an absent rate or delay of the link to the initial value in its timelines.
    fn set_initial_values(
        &self,
        name: &Option<Leaf<Name>>,
        pipe: &mut PipeConfig,
        forward: &TimelineSource,
        reverse: &TimelineSource,
        report: &mut Problems,
    ) {
        let own = self.asymmetric.as_ref().map(|a| &a.value);
        let missing = |key: &str, example: &str| {
            let here = span(name);
            let name = name.as_ref().and_then(|name| name.value.as_ref().ok()).map_or("", |name| name.0.as_str());
            let problem = Problem::new(format!(
                "missing key `{key}` in link `{name}`: its timeline does not set it from the start"
            ));
            let place = format!("`{key}` is missing here");
            problem.at(here.clone(), place).help(format!("add a line such as {key} = \"{example}\""))
        };
        let reverse_has = [own.is_some_and(|a| a.rate.is_some()), own.is_some_and(|a| a.delay.is_some())];
        for (direction, source, heading, has) in [
            (&mut pipe.forward, forward, LinkDirections::Forward, [false; 2]),
            (&mut pipe.reverse, reverse, LinkDirections::Reverse, reverse_has),
        ] {
            let at_start = || {
                (source.steps.iter())
                    .filter(|s| s.at.is_zero() && s.heading.is_none_or(|h| h == heading || h == LinkDirections::Both))
            };
            if self.rate.is_none() && !has[0] {
                let recorded = source.opportunities.as_ref().map(Opportunities::rate);
                match recorded.or_else(|| at_start().filter_map(|s| s.rate).next_back()) {
                    Some(rate) => direction.rate = rate,
                    None => report.error(missing("rate", "10 Mbit/s")),
                }
            }
            if self.delay.is_none() && !has[1] {
                match at_start().filter_map(|s| s.delay).next_back() {
                    Some(delay) => direction.delay = delay,
                    None => report.error(missing("delay", "10 ms")),
                }
            }
        }
    }
}

fn noises(noise: Option<&At<Noises>>, load: FileLoader<'_>, report: &mut Problems) -> (Noise, Noise) {
    let tables = tables(noise);
    let mut found: [Option<(Noise, Range<usize>)>; 2] = [None, None];
    for table in &tables {
        let noise = one_noise(table, load, report);
        let hit = match report.read(&table.value.direction).unwrap_or(LinkDirections::Both) {
            LinkDirections::Forward => [true, false],
            LinkDirections::Reverse => [false, true],
            LinkDirections::Both => [true, true],
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

fn delay(leaf: &Option<Leaf<Time>>, report: &mut Problems) -> Option<Time> {
    let delay = report.read(leaf)?;
    if delay > MAX_DELAY {
        let problem = Problem::new(format!("a delay of {delay} is too long")).at(span(leaf), "");
        report.error(problem.help(format!("write at most {MAX_DELAY}")));
        return None;
    }
    Some(delay)
}

fn queue(leaf: &Option<Leaf<QueueLimit>>, mtu: u16, report: &mut Problems) -> Option<QueueLimit> {
    let queue = report.read(leaf)?;
    if let QueueLimit::Bytes(bytes) = queue
        && bytes < u64::from(mtu)
    {
        let warning = Problem::new(format!("a queue of {bytes} B cannot hold a packet of {mtu} B"));
        report.warn(warning.at(span(leaf), "").help("make it larger, or write it in packets: \"100 pkt\""));
    }
    Some(queue)
}

const QUEUE: QueueLimit = QueueLimit::Packets(100);
/// A day, longer than any real delay; the sum over any number of links does not overflow the clock.
const MAX_DELAY: Time = Time::from_secs(86_400);
