//! `[[link]] kind = "pipe"`: rates, delays and noise, per direction.

use super::file::LinkDirections;
use super::leaf::{At, Leaf};
use super::link::{FileLoader, TomlLink, delay, queue, rate};
use super::loss::one_noise;
use super::noise::{TomlNoise, tables};
use super::problem::{Problem, Problems};
use super::qdisc::{TomlQdisc, discipline};
use super::timeline::Timelines;
use roughlink_core::link::jitter::{Distribution, JitterShape};
use roughlink_core::link::noise::Noise;
use roughlink_core::link::{Direction, PipeConfig};
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

/// Resolves a pipe. Reports a missing or invalid value and uses a harmless one, so that the rest is checked.
pub(super) fn pipe(link: &TomlLink, own: &TomlPipe, load: FileLoader<'_>, report: &mut Problems) -> PipeConfig {
    let mtu = link.mtu(report);
    let overhead = report.read(&own.overhead).map_or(0, |bytes| bytes.0 as u16);
    let asymmetric = own.asymmetric.as_ref().map(|a| &a.value);
    let (noise, mut reverse_noise) = noises(link, load, report);
    if let Some(noise) = asymmetric.and_then(|a| a.noise.as_ref()) {
        if let Some(direction) = &noise.value.direction {
            let problem = Problem::new("`direction` has no effect: `asymmetric` is the reverse direction");
            report.error(problem.at(direction.span.clone(), "").help("remove `direction`"));
        }
        reverse_noise = one_noise(noise, load, report);
    }
    let forward = Direction {
        rate: rate(&own.rate, report).unwrap_or(Rate::from_mbps(1)),
        delay: delay(&own.delay, report).unwrap_or_default(),
        queue: queue(&own.queue, mtu, report).unwrap_or(QUEUE),
        noise,
        jitter: delay(&own.jitter, report).unwrap_or_default(),
        jitter_shape: JitterShape {
            distribution: report.read(&own.distribution).unwrap_or_default(),
            correlation: report.read(&own.correlation).map_or(0.0, |share| share.0),
        },
        reorder: report.read(&own.reorder).unwrap_or(false),
        discipline: own.qdisc.as_ref().and_then(|q| discipline(q, report)),
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
    for (direction, leaf) in [(&forward, &own.reorder), (&reverse, asymmetric.map_or(&None, |a| &a.reorder))] {
        if let Some(leaf) = leaf.as_ref().filter(|_| direction.reorder && direction.jitter.is_zero()) {
            let warning = Problem::new("`reorder` has no effect without `jitter`").at(leaf.span.clone(), "");
            report.warn(warning.help("add jitter = \"1 ms\", or remove `reorder`"));
        }
    }
    PipeConfig { forward, reverse, mtu, overhead }
}

fn noises(link: &TomlLink, load: FileLoader<'_>, report: &mut Problems) -> (Noise, Noise) {
    let tables = tables(link);
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

const QUEUE: QueueLimit = QueueLimit::Packets(100);
