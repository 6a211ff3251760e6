//! `noise` of a link as it is written: losses by packet or by time for pipes, layers in air time for shared media.

use super::{Heading, kinds};
use crate::link::noise::BurstLength;
use crate::link::noise::impulses::{Length, MeasuredClass};
use crate::scenario::leaf::{At, Hertz, Leaf, names_of};
use crate::units::{Share, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// What spoils packets.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Noise {
    /// Which model.
    #[schemars(required)]
    pub kind: Option<Leaf<NoiseKind>>,
    /// Direction of a pipe that is affected.
    #[schemars(extend("default" = "both"))]
    pub direction: Option<Leaf<Heading>>,
    /// Probability that a packet is lost; on a shared medium, that a block is bad whatever else happens.
    pub loss: Option<Leaf<Share>>,
    /// Probability that a packet starts a burst; excludes `mean`.
    pub start: Option<Leaf<Share>>,
    /// Average loss, approximately: `start` becomes `mean` divided by the mean burst length; excludes `start`. With a
    /// named noise of a shared medium: all its probabilities are scaled so that this share of the blocks is bad.
    pub mean: Option<Leaf<Share>>,
    /// Length of a burst in packets: `[1, 4]` uniform, `{ geometric = 2.5 }` with this mean.
    pub length: Option<Leaf<BurstLength>>,
    /// Probability per packet of a transition from the good to the bad state (Gilbert's p).
    pub to_bad: Option<Leaf<Share>>,
    /// Probability per packet of a transition from the bad to the good state (Gilbert's r).
    pub to_good: Option<Leaf<Share>>,
    /// Loss in the good state (Elliott's 1 - k).
    #[schemars(extend("default" = "0 %"))]
    pub loss_good: Option<Leaf<Share>>,
    /// Loss in the bad state (Gilbert's 1 - h); with `fading`, the stationary error in the bad state.
    #[schemars(extend("x-default" = { "gilbert-elliott": "100 %" }))]
    pub loss_bad: Option<Leaf<Share>>,
    /// Evenly spaced pulses, as the mains causes them (10 ms at 50 Hz).
    pub cyclic: Option<At<Pulses>>,
    /// Pulses at random times.
    pub asynchronous: Option<At<Pulses>>,
    /// Probability that a packet overlapped by a pulse is lost.
    #[schemars(extend("default" = "100 %"))]
    pub kill: Option<Leaf<Share>>,
    /// Numbers of the packets that are lost, counted from 0 in order of arrival; every fragment counts.
    pub drop: Option<Leaf<Vec<u64>>>,
    /// A file of lines `seconds,loss probability`; excludes `steps`.
    pub file: Option<Leaf<String>>,
    /// Loss probability over time; excludes `file`.
    pub steps: Option<At<Vec<At<Step>>>>,
    /// Mean time in the good state.
    #[schemars(example = "5 s")]
    pub good: Option<Leaf<Time>>,
    /// Mean time in the bad state.
    #[schemars(example = "300 ms")]
    pub bad: Option<Leaf<Time>>,
    /// Mean time from one impulse to the next; at least 10 us.
    #[schemars(extend("x-default" = { "asynchronous": "200 ms", "switching": "10 ms" }))]
    pub every: Option<Leaf<Time>>,
    /// Length of an impulse: the mean of an exponential distribution (`mains`: lognormal), or `["20 us", "100 us"]`
    /// uniform between the two.
    #[schemars(extend("x-default" = { "asynchronous": "100 us", "switching": ["20 us", "100 us"], "mains": "0.3 ms" }))]
    pub width: Option<Leaf<Length>>,
    /// Impulses shorter than this have no effect.
    #[schemars(extend("default" = "300 us"))]
    pub harmless: Option<Leaf<Time>>,
    /// Probability that an impulse spoils a block it overlaps.
    #[schemars(extend("x-default" = { "asynchronous": "100 %", "measured": "100 %", "mains": "30 %", "switching": "20 %", "partitioned": "100 %", "markov-middleton": "100 %", "events": "100 %" }))]
    pub hit: Option<Leaf<Share>>,
    /// Impulses begin only from this time on.
    #[schemars(extend("default" = "0 s"))]
    pub from: Option<Leaf<Time>>,
    /// Impulses begin only before this time; unlimited if absent.
    pub until: Option<Leaf<Time>>,
    /// Frequency of the mains.
    #[schemars(extend("x-default" = { "mains": "50 Hz", "inverter45": "60 Hz", "stress": "60 Hz" }))]
    pub mains: Option<Leaf<Hertz>>,
    /// Standard deviation of the impulses' length over its mean.
    #[schemars(extend("default" = "30 %"))]
    pub variation: Option<Leaf<Share>>,
    /// Standard deviation of the impulses' centres.
    #[schemars(extend("default" = "0.1 ms"))]
    pub jitter: Option<Leaf<Time>>,
    /// Class of the measurements by Zimmermann and Dostert: `heavy`, `medium`, `weak`.
    pub class: Option<Leaf<MeasuredClass>>,
    /// Times without noise: a mixture of exponential distributions.
    pub gaps: Option<At<Vec<At<Exponential>>>>,
    /// Times with noise, likewise.
    pub widths: Option<At<Vec<At<Exponential>>>>,
    /// Impulsive index A of Middleton's class A.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 10))]
    pub index: Option<Leaf<f64>>,
    /// Probability that a sample keeps the state of the previous one without a draw.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub memory: Option<Leaf<f64>>,
    /// Time between samples.
    #[schemars(example = "1 us")]
    pub sample: Option<Leaf<Time>>,
    /// Probability that state 1, and that a higher state, spoils a block.
    #[schemars(extend("default" = ["10 %", "90 %"]))]
    pub harm: Option<Leaf<[Share; 2]>>,
    /// Times of noise one by one, such as the switching of a contactor, in order and apart.
    pub events: Option<At<Vec<At<Event>>>>,
}

/// A train of noise pulses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Pulses {
    /// From one start to the next; the mean of it if the pulses come at random.
    #[schemars(required)]
    pub every: Option<Leaf<Time>>,
    /// How long a pulse lasts; the mean of it if the pulses come at random.
    #[schemars(required)]
    pub length: Option<Leaf<Time>>,
}

/// A step of recorded noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Step {
    /// From when on.
    #[schemars(required)]
    pub at: Option<Leaf<Time>>,
    /// Probability that a packet is lost.
    #[schemars(required)]
    pub loss: Option<Leaf<Share>>,
}

/// A part of a mixture of exponential distributions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Exponential {
    /// Its share; those of all parts sum up to 100 %.
    #[schemars(required)]
    pub share: Option<Leaf<Share>>,
    /// Its mean.
    #[schemars(required)]
    pub mean: Option<Leaf<Time>>,
}

/// A time of noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Event {
    /// When it begins.
    #[schemars(required)]
    pub at: Option<Leaf<Time>>,
    /// How long it lasts.
    #[serde(rename = "for")]
    #[schemars(required)]
    pub lasts: Option<Leaf<Time>>,
}

/// The model of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum NoiseKind {
    /// Nothing.
    None,
    /// Pipe: each packet by itself.
    Random,
    /// Pipe: bursts that a packet starts with some probability.
    Burst,
    /// Pipe: a chain of a good and a bad state.
    GilbertElliott,
    /// Pipe: pulses in time.
    Impulse,
    /// Pipe: exactly these packets.
    List,
    /// As measured.
    Recorded,
    /// Shared medium: what a charging cable has by default.
    Cable,
    /// Shared medium: a quiet line.
    Clean,
    /// Shared medium: a stand-in for the inverter lamp of the PLC paper.
    Inverter45,
    /// Shared medium: worse than that in everything.
    Stress,
    /// Shared medium: each block by itself.
    Stationary,
    /// Shared medium: slow changes between a good and a bad state.
    Fading,
    /// Shared medium: impulses at random times.
    Asynchronous,
    /// Shared medium: impulses as measured by Zimmermann and Dostert.
    Measured,
    /// Shared medium: two impulses in each period of the mains.
    Mains,
    /// Shared medium: the power stage of a DC charger.
    Switching,
    /// Shared medium: the partitioned Markov chain of Zimmermann and Dostert.
    Partitioned,
    /// Shared medium: Middleton's class A with memory.
    MarkovMiddleton,
    /// Shared medium: noise at stated times.
    Events,
}

/// The keys for which the name of a noise stands: its kind, and a class of the measurements is of the kind `measured`.
pub(in crate::scenario) fn named(name: &str) -> Vec<(&'static str, String)> {
    if names_of::<MeasuredClass>().iter().any(|class| class == name) {
        return vec![("kind", "measured".into()), ("class", name.into())];
    }
    vec![("kind", name.into())]
}

/// What may stand for a table of noise: the kinds, and the classes of the measurements. A kind that has keys it cannot do
/// without is among them, so that these keys are asked for.
pub(in crate::scenario) fn noise_names() -> Vec<String> {
    let kinds = kinds("Noise").iter().map(|kind| kind.name.to_owned());
    kinds.chain(names_of::<MeasuredClass>()).collect()
}

/// One table of noise or a list of them.
#[derive(Clone, Debug)]
pub(in crate::scenario) enum Noises {
    One(Box<Noise>),
    Many(Vec<At<Noise>>),
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
                Noise::deserialize(MapAccessDeserializer::new(map)).map(|n| Noises::One(Box::new(n)))
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
        let one = generator.subschema_for::<Noise>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}
