//! `noise`: its kinds. Noise of pipes loses packets (`loss`); noise of shared media corrupts blocks (`air`).

use super::air::{
    Asynchronous, Mains, MarkovMiddleton, Measured, NamedNoise, NamedWithMains, Partitioned, Stationary, Switching,
    TomlEvents, TomlFading,
};
use super::kinds;
use super::leaf::{At, Leaf, names_of};
use super::link_keys::LinkDirections;
use super::loss::{LossList, Random, TomlBitErrors, TomlBurst, TomlGilbertElliott, TomlImpulse, TomlRecorded};
use super::problem::{Problem, Problems};
use super::table::FileLoader;
use roughlink_core::link::noise::impulses::{Impulses, MeasuredClass};
use roughlink_core::link::noise::{AirNoise, Noise};
use roughlink_core::units::{Share, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Noise that loses packets or corrupts blocks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlNoise {
    /// Affected direction; pipes only.
    #[schemars(extend("default" = "both"))]
    pub direction: Option<Leaf<LinkDirections>>,
    /// Model of the noise.
    #[schemars(required, extend("x-flat" = true))]
    pub kind: Option<At<NoiseKind>>,
}

/// The model of noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NoiseKind {
    /// No noise.
    None,
    /// Pipe: each packet is lost with this probability, independently of the others.
    Random(Random),
    /// Pipe: bits are wrong with this probability, and a packet with a wrong bit is lost. Long packets are lost more
    /// often than ACKs.
    #[serde(rename = "ber")]
    BitErrors(TomlBitErrors),
    /// Pipe: a packet starts a burst with some probability, and the packets of the burst are lost. A packet within a
    /// burst may restart it, so the actual loss is slightly below `start` times the mean length; results report it.
    Burst(TomlBurst),
    /// Pipe: a Markov chain of a good and a bad state that moves once per packet, with a loss probability in each
    /// state.
    GilbertElliott(TomlGilbertElliott),
    /// Pipe: packets whose air time overlaps a pulse are lost. Pulses are evenly spaced, random in time, or both.
    Impulse(TomlImpulse),
    /// Pipe: the listed packets are lost.
    List(LossList),
    /// A loss probability that changes over time; on a shared medium the probability that a block is bad. There, no
    /// other noise may be in the list.
    Recorded(TomlRecorded),
    /// Shared medium: the usual noise of a charging cable, with a stationary error of 0.01 % and the impulses of
    /// `asynchronous` with its defaults.
    Cable(NamedNoise),
    /// Shared medium: a quiet line, with a stationary error of 0.01 %.
    Clean(NamedNoise),
    /// Shared medium: a model of the inverter lamp in the PLC paper, with a stationary error of 0.5 % and bursts of 0.5
    /// ms at each peak of the mains.
    Inverter45(NamedWithMains),
    /// Shared medium: worse than `inverter45` in all respects, with fading.
    Stress(NamedWithMains),
    /// Shared medium: each block is bad with this probability, independently of the others.
    Stationary(Stationary),
    /// Shared medium: good and bad times alternate; blocks in bad times are bad with probability `loss_bad`.
    Fading(TomlFading),
    /// Shared medium: impulses at random times. `every = "40 ms"` is the disturbed line of Hrasnica et al.
    Asynchronous(Asynchronous),
    /// Shared medium: impulses as measured by Zimmermann and Dostert.
    Measured(Measured),
    /// Shared medium: two impulses in each period of the mains, as with AC charging.
    Mains(Mains),
    /// Shared medium: impulses of the power stage of a DC charger. Limit them with `from` and `until` to the time when
    /// current flows.
    Switching(Switching),
    /// Shared medium: the partitioned Markov chain of Zimmermann and Dostert, with custom gaps and widths.
    Partitioned(Partitioned),
    /// Shared medium: Middleton's class A with memory.
    MarkovMiddleton(MarkovMiddleton),
    /// Shared medium: noise at stated times, such as the switching of a contactor.
    Events(TomlEvents),
}

/// Returns the keys that the name of a noise stands for: its kind, or `measured` with a class of measurements.
pub(super) fn named(name: &str) -> Vec<(&'static str, String)> {
    if names_of::<MeasuredClass>().iter().any(|class| class == name) {
        return vec![("kind", "measured".into()), ("class", name.into())];
    }
    vec![("kind", name.into())]
}

/// Returns the words allowed in place of a table of noise, in the schema `root`: the kinds, and the classes of the
/// measurements. Includes kinds with required keys, so that the error names the missing keys.
pub(super) fn noise_names(root: &serde_json::Value) -> Vec<String> {
    let kinds = kinds::kinds(&root["$defs"]["Noise"]).iter().map(|kind| kinds::name(kind).to_owned());
    kinds.chain(names_of::<MeasuredClass>()).collect()
}

#[derive(Clone, Debug)]
pub(super) enum Noises {
    One(Box<TomlNoise>),
    Many(Vec<At<TomlNoise>>),
}

impl<'de> Deserialize<'de> for Noises {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Noises;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of noise or a list of them")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Noises, A::Error> {
                TomlNoise::deserialize(MapAccessDeserializer::new(map)).map(|n| Noises::One(Box::new(n)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Noises, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Noises::Many)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Noises {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Noises".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<TomlNoise>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// Returns the tables of noise as a list, even if there is only one.
pub(super) fn tables(noise: Option<&At<Noises>>) -> Vec<At<TomlNoise>> {
    match noise {
        None => Vec::new(),
        Some(At { span, value: Noises::One(one) }) => vec![At { span: span.clone(), value: (**one).clone() }],
        Some(At { value: Noises::Many(many), .. }) => many.clone(),
    }
}

/// Resolves noise of a pipe.
pub(super) fn one_noise(table: &At<TomlNoise>, load: FileLoader<'_>, report: &mut Problems) -> Noise {
    let Some(At { span: here, value: kind }) = &table.value.kind else { return Noise::None };
    let mut share = |leaf: &Option<Leaf<Share>>, absent: f64| report.read(leaf).map_or(absent, |s| s.0);
    match kind {
        NoiseKind::None => Noise::None,
        NoiseKind::Random(n) => Noise::Random { loss: share(&n.loss, 0.0) },
        NoiseKind::BitErrors(n) => Noise::BitErrors { ber: report.read(&n.ber).unwrap_or(0.0) },
        NoiseKind::Burst(n) => n.resolve(here, report),
        NoiseKind::GilbertElliott(n) => Noise::GilbertElliott {
            to_bad: share(&n.to_bad, 0.0),
            to_good: share(&n.to_good, 1.0),
            loss_good: share(&n.loss_good, 0.0),
            loss_bad: share(&n.loss_bad, 1.0),
        },
        NoiseKind::Impulse(n) => {
            let kill = share(&n.kill, 1.0);
            n.resolve(kill, here, report)
        }
        NoiseKind::List(n) => n.resolve(report),
        NoiseKind::Recorded(n) => Noise::Recorded { steps: n.resolve(here, load, report) },
        _ => {
            let problem = Problem::new("noise of this kind applies to shared media; a pipe needs packet noise");
            report.error(
                problem
                    .at(here.clone(), "")
                    .help("use `random`, `ber`, `burst`, `gilbert-elliott`, `impulse`, `list` or `recorded`"),
            );
            Noise::None
        }
    }
}

/// Returns noise without a direction; `help` is the advice about the key `direction`.
pub(super) fn undirected(table: &At<TomlNoise>, help: &str, load: FileLoader<'_>, report: &mut Problems) -> Noise {
    if let Some(direction) = &table.value.direction {
        let problem = Problem::new("`direction` has no effect here").at(direction.span.clone(), "");
        report.error(problem.help(help));
    }
    one_noise(table, load, report)
}

/// Returns the noise of a shared medium. `usual` is its profile's, and `mean` refers to blocks of air time `block`.
pub(super) fn air(
    noise: Option<&At<Noises>>,
    usual: AirNoise,
    block: Time,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> AirNoise {
    if noise.is_none() {
        return usual;
    }
    let tables = tables(noise);
    let mut all = AirNoise::default();
    for table in &tables {
        let n = &table.value;
        if let Some(direction) = &n.direction {
            let problem = Problem::new("`direction` has no effect: both directions share the medium and its noise")
                .at(direction.span.clone(), "");
            report.error(problem.help("remove `direction`"));
        }
        let Some(layer) = n.kind.as_ref().and_then(|kind| layer(kind, block, load, report)) else { continue };
        if !layer.recorded.is_empty() && tables.len() > 1 {
            let problem = Problem::new("`recorded` noise replaces all other noise").at(table.span.clone(), "");
            report.error(problem.help("remove either the `recorded` noise or all other noise"));
        }
        if layer.fading.is_some() && all.fading.is_some() {
            let problem = Problem::new("two layers of noise have fading").at(table.span.clone(), "the second");
            report.error(problem.help("keep one of them"));
        }
        // Layers corrupt blocks independently of each other.
        all.stationary += layer.stationary - all.stationary * layer.stationary;
        all.fading = all.fading.or(layer.fading);
        all.impulses.extend(layer.impulses);
        all.recorded = layer.recorded;
    }
    all
}

fn layer(
    At { span: here, value: kind }: &At<NoiseKind>,
    block: Time,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Option<AirNoise> {
    let none = AirNoise::default();
    let train = |train: Impulses| AirNoise { impulses: vec![train], ..AirNoise::default() };
    match kind {
        NoiseKind::None => None,
        NoiseKind::Cable(n) => Some(n.resolve(AirNoise::cable(), block, report)),
        NoiseKind::Clean(n) => Some(n.resolve(AirNoise::clean(), block, report)),
        NoiseKind::Inverter45(n) => Some(n.resolve(AirNoise::inverter45_at, block, report)),
        NoiseKind::Stress(n) => Some(n.resolve(AirNoise::stress_at, block, report)),
        NoiseKind::Stationary(n) => Some(AirNoise { stationary: report.read(&n.loss)?.0, ..none }),
        NoiseKind::Fading(n) => Some(AirNoise { fading: Some(n.resolve(report)?), ..none }),
        NoiseKind::Recorded(n) => Some(AirNoise { recorded: n.resolve(here, load, report), ..none }),
        NoiseKind::Asynchronous(n) => n.resolve(report).map(train),
        NoiseKind::Measured(n) => n.resolve(report).map(train),
        NoiseKind::Mains(n) => Some(train(n.resolve(report))),
        NoiseKind::Switching(n) => n.resolve(report).map(train),
        NoiseKind::Partitioned(n) => n.resolve(here, report).map(train),
        NoiseKind::MarkovMiddleton(n) => n.resolve(here, report).map(train),
        NoiseKind::Events(n) => n.resolve(report).map(train),
        NoiseKind::Random(_)
        | NoiseKind::BitErrors(_)
        | NoiseKind::Burst(_)
        | NoiseKind::GilbertElliott(_)
        | NoiseKind::Impulse(_)
        | NoiseKind::List(_) => {
            let problem = Problem::new("noise of this kind applies to pipes; a shared medium needs block noise");
            report.error(problem.at(here.clone(), "").help(instead(kind)));
            None
        }
    }
}

/// Returns the kind to use on a shared medium in place of a kind that only pipes support.
fn instead(kind: &NoiseKind) -> &'static str {
    match kind {
        NoiseKind::Random(_) | NoiseKind::BitErrors(_) => "write kind = \"stationary\" with a `loss` per block",
        NoiseKind::Burst(_) => "write kind = \"asynchronous\", \"measured\" or \"partitioned\" for bursts in time",
        NoiseKind::GilbertElliott(_) => "write kind = \"fading\" for good and bad times",
        NoiseKind::Impulse(_) => {
            "write kind = \"mains\" for pulses of the mains, \"asynchronous\" for pulses at random times"
        }
        _ => "write kind = \"events\" for noise at stated times",
    }
}
