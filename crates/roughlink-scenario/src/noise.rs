//! `noise`: its kinds. Noise of pipes loses packets (`loss`); noise of shared media corrupts blocks (`air`).

use super::air::{
    Asynchronous, Mains, MarkovMiddleton, Measured, NamedNoise, NamedWithMains, Partitioned, Stationary, Switching,
    TomlEvents, TomlFading,
};
use super::file::LinkDirections;
use super::kinds;
use super::leaf::{At, Leaf, names_of};
use super::link::{FileLoader, TomlLink};
use super::loss::{
    LossList, Random, TomlBitErrors, TomlBurst, TomlGilbertElliott, TomlImpulse, TomlRecorded, one_noise,
};
use super::problem::{Problem, Problems};
use roughlink_core::link::noise::Noise;
use roughlink_core::link::noise::impulses::MeasuredClass;
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
pub(super) fn tables(link: &TomlLink) -> Vec<At<TomlNoise>> {
    match link.noise.as_deref() {
        None => Vec::new(),
        Some(At { span, value: Noises::One(one) }) => vec![At { span: span.clone(), value: (**one).clone() }],
        Some(At { value: Noises::Many(many), .. }) => many.clone(),
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
