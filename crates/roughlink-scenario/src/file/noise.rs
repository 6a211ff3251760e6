//! `noise` of a link as it is written: losses by packet or by time for pipes, layers in air time for shared media.

use super::{Heading, kinds};
use crate::leaf::{At, Hertz, Leaf, names_of};
use roughlink_core::link::noise::BurstLength;
use roughlink_core::link::noise::impulses::{Length, MeasuredClass};
use roughlink_core::units::{Share, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// What spoils packets.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noise {
    /// Which model.
    #[schemars(required)]
    pub kind: Option<Leaf<NoiseKind>>,
    /// Direction that is affected; pipes only.
    #[schemars(extend("default" = "both"))]
    pub direction: Option<Leaf<Heading>>,
    /// Probability that a packet is lost; on a shared medium, that a block is bad.
    pub loss: Option<Leaf<Share>>,
    /// Probability that a packet starts a burst; excludes `mean`.
    pub start: Option<Leaf<Share>>,
    /// `burst`: average loss, approximately, in place of `start`, which becomes `mean` divided by the mean length.
    /// Named noise of a shared medium: all its probabilities are scaled so that this share of the blocks is bad; on HD-PLC
    /// a block is then a packet of `mtu` size.
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
    /// Loss in the bad state (Gilbert's 1 - h); with `fading`, the probability that a block is bad in it.
    #[schemars(extend("x-default" = { "gilbert-elliott": "100 %" }))]
    pub loss_bad: Option<Leaf<Share>>,
    /// Evenly spaced pulses, as the mains causes them (10 ms at 50 Hz).
    pub cyclic: Option<At<Pulses>>,
    /// Pulses at random times.
    pub asynchronous: Option<At<Pulses>>,
    /// Probability that a packet overlapped by a pulse is lost.
    #[schemars(extend("default" = "100 %"))]
    pub kill: Option<Leaf<Share>>,
    /// Numbers of the packets that are lost, counted from 0 in order of arrival in a direction; of a single TCP flow the SYN
    /// is 0. Every fragment counts.
    pub drop: Option<Leaf<Vec<u64>>>,
    /// A file of lines `seconds,probability`; excludes `steps`.
    pub file: Option<Leaf<String>>,
    /// Loss probability over time, as `[{ at, loss }]`; excludes `file`.
    pub steps: Option<At<Vec<At<Step>>>>,
    /// Mean time in the good state.
    #[schemars(example = "5 s")]
    pub good: Option<Leaf<Time>>,
    /// Mean time in the bad state.
    #[schemars(example = "300 ms")]
    pub bad: Option<Leaf<Time>>,
    /// Mean time from one impulse to the next.
    #[schemars(extend("x-minimum" = { "asynchronous": "10 us", "switching": "10 us" }))]
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
    /// Class of the measurements, `heavy`, `medium` or `weak`, by mean gap and width of the impulses.
    pub class: Option<Leaf<MeasuredClass>>,
    /// Distribution of the times without noise, a mixture of exponential distributions: `[{ share, mean }]`.
    pub gaps: Option<At<Vec<At<Exponential>>>>,
    /// Distribution of the times with noise, likewise.
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
    /// Probabilities that state 1 and that a higher state spoil a block.
    #[schemars(extend("default" = ["10 %", "90 %"]))]
    pub harm: Option<Leaf<[Share; 2]>>,
    /// The times, as `[{ at, for }]`, in order and without overlap.
    pub events: Option<At<Vec<At<Event>>>>,
}

/// A train of noise pulses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pulses {
    /// Time from one start to the next; its mean if the pulses come at random.
    #[schemars(required)]
    pub every: Option<Leaf<Time>>,
    /// Length of a pulse; its mean if the pulses come at random.
    #[schemars(required)]
    pub length: Option<Leaf<Time>>,
}

/// A step of recorded noise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// When it begins.
    #[schemars(required)]
    pub at: Option<Leaf<Time>>,
    /// Probability that a packet is lost, or on a shared medium that a block is bad.
    #[schemars(required)]
    pub loss: Option<Leaf<Share>>,
}

/// A part of a mixture of exponential distributions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exponential {
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
pub(crate) struct Event {
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
pub(crate) enum NoiseKind {
    /// No noise.
    None,
    /// Pipe: each packet is lost with this probability, independently of the others.
    Random,
    /// Pipe: a packet starts a burst with some probability, and the packets of the burst are lost. A packet within a burst
    /// may restart it, so the realised loss is slightly below `start` times the mean length; results report it.
    Burst,
    /// Pipe: a Markov chain of a good and a bad state that moves once per packet, with a loss probability in each state.
    GilbertElliott,
    /// Pipe: packets whose air time overlaps a pulse are lost. Pulses are evenly spaced, random in time, or both.
    Impulse,
    /// Pipe: the listed packets are lost.
    List,
    /// A loss probability that changes over time; on a shared medium the probability that a block is bad, and then no other
    /// noise may be in the list.
    Recorded,
    /// Shared medium: the usual noise of a charging cable. A stationary error of 0.01 %, and the impulses of `asynchronous`
    /// with its defaults.
    Cable,
    /// Shared medium: a quiet line, with a stationary error of 0.01 %.
    Clean,
    /// Shared medium: a stand-in for the inverter lamp of the PLC paper. A stationary error of 0.5 %, and bursts of 0.5 ms
    /// at each peak of the mains.
    Inverter45,
    /// Shared medium: worse than `inverter45` in everything, with fading.
    Stress,
    /// Shared medium: each block is bad with this probability, independently of the others.
    Stationary,
    /// Shared medium: good and bad times alternate, and blocks in bad times have a probability of their own to be bad.
    Fading,
    /// Shared medium: impulses at random times. `every = "40 ms"` is the disturbed line of Hrasnica et al.
    Asynchronous,
    /// Shared medium: impulses as measured by Zimmermann and Dostert.
    Measured,
    /// Shared medium: two impulses in each period of the mains, as with AC charging.
    Mains,
    /// Shared medium: impulses of the power stage of a DC charger; with `from` and `until` while current flows.
    Switching,
    /// Shared medium: the partitioned Markov chain of Zimmermann and Dostert, with gaps and widths of your own.
    Partitioned,
    /// Shared medium: Middleton's class A with memory.
    MarkovMiddleton,
    /// Shared medium: noise at stated times, such as the switching of a contactor.
    Events,
}

/// The keys for which the name of a noise stands: its kind, and a class of the measurements is of the kind `measured`.
pub(crate) fn named(name: &str) -> Vec<(&'static str, String)> {
    if names_of::<MeasuredClass>().iter().any(|class| class == name) {
        return vec![("kind", "measured".into()), ("class", name.into())];
    }
    vec![("kind", name.into())]
}

/// What may stand for a table of noise: the kinds, and the classes of the measurements. A kind that has keys it cannot do
/// without is among them, so that these keys are asked for.
pub(crate) fn noise_names() -> Vec<String> {
    let kinds = kinds("Noise").iter().map(|kind| kind.name.to_owned());
    kinds.chain(names_of::<MeasuredClass>()).collect()
}

/// One table of noise or a list of them.
#[derive(Clone, Debug)]
pub(crate) enum Noises {
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
