//! The scenario file as it is written: every table and key, in the order of the design. The comments become the
//! descriptions of the JSON Schema, and the schema is what unknown and missing keys are found by: to add a key, add
//! a field here and its meaning in the module that resolves the table.

use super::leaf::{At, Cc, Leaf, Name, Transfer};
use crate::link::noise::BurstLength;
use crate::tcp::{Amount, Buffer, Recovery, RtoFloor, Stack};
use crate::units::{Bytes, QueueLimit, Rate, Share, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A network, what flows through it, and the seed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Title; the name of the file if absent.
    pub name: Option<Leaf<String>>,
    /// Seed of all random streams; 1 if absent.
    pub seed: Option<Leaf<u64>>,
    /// Hard stop; a run also ends when every flow has a size and is done.
    #[schemars(required, example = "60 s")]
    pub duration: Option<Leaf<Time>>,
    /// Defaults for every TCP flow.
    pub tcp: Option<Box<At<Tcp>>>,
    /// The hosts and routers.
    #[serde(default)]
    pub node: Vec<At<Node>>,
    /// The links between them.
    #[serde(default)]
    pub link: Vec<At<Link>>,
    /// What flows.
    #[serde(default)]
    pub flow: Vec<At<Flow>>,
}

/// A host or router.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// How links and flows refer to it.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
}

/// The keys of a TCP connection. What is absent comes from the algorithm, then from the stack.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tcp {
    /// The set of values to start from; `linux` if absent.
    pub stack: Option<Leaf<Stack>>,
    /// Congestion control; `cubic` if absent.
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of `cc`; flows with another algorithm do not take them.
    pub cc_params: Option<At<Params>>,
    /// Slow-start exit, for algorithms that have the choice.
    pub hystart: Option<Leaf<Hystart>>,
    /// Loss detection and repair.
    pub recovery: Option<Leaf<Recovery>>,
    /// Offer and accept SACK (RFC 2018).
    pub sack: Option<Leaf<bool>>,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: Option<Leaf<bool>>,
    /// Offer and accept window scaling (RFC 7323).
    pub window_scaling: Option<Leaf<bool>>,
    /// Initial window in segments.
    pub initial_window: Option<Leaf<u32>>,
    /// Initial slow-start threshold in bytes or full segments (`pkt`).
    pub initial_ssthresh: Option<Leaf<Option<Amount>>>,
    /// Segments per ACK; 1 = no delaying.
    pub delayed_ack: Option<Leaf<u32>>,
    /// How long an ACK may wait.
    pub delayed_ack_timeout: Option<Leaf<Time>>,
    /// Acknowledge at once while the connection starts and after a gap.
    pub quick_ack: Option<Leaf<bool>>,
    /// Lower bound of the retransmission time-out.
    pub min_rto: Option<Leaf<Time>>,
    /// Where `min_rto` applies.
    pub rto_floor: Option<Leaf<RtoFloor>>,
    /// Retransmission time-out before the first sample.
    pub initial_rto: Option<Leaf<Time>>,
    /// Upper bound of the retransmission time-out.
    pub max_rto: Option<Leaf<Time>>,
    /// Retransmission time-out of the SYN.
    pub syn_rto: Option<Leaf<Time>>,
    /// G of RFC 6298.
    pub clock_granularity: Option<Leaf<Time>>,
    /// Time-outs in a row before the connection gives up.
    pub data_retries: Option<Leaf<u32>>,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: Option<Leaf<bool>>,
    /// Tail loss probes (RFC 8985); with `rack` only.
    pub tlp: Option<Leaf<bool>>,
    /// Detect spurious reductions and take them back; with `rack` only.
    pub undo: Option<Leaf<bool>>,
    /// Hold back small segments while data is outstanding (RFC 896).
    pub nagle: Option<Leaf<bool>>,
    /// Send what fits into the peer's window even if it is less than a segment (ns-3).
    pub fill_window: Option<Leaf<bool>>,
    /// Take RTT samples from the millisecond timestamps (ns-3), else from the time the segment left.
    pub timestamp_rtt: Option<Leaf<bool>>,
    /// Grow the window also when the application or the peer limits sending (ns-3, ns-2).
    pub grow_when_limited: Option<Leaf<bool>>,
    /// Proportional rate reduction multiplies in 32 bits (ns-3 3.44).
    pub prr_wraps: Option<Leaf<bool>>,
    /// Bytes that a bulk application hands over per write (ns-3: 512 B).
    pub write_size: Option<Leaf<Bytes>>,
    /// Send buffer.
    pub snd_buf: Option<Leaf<Buffer>>,
    /// Receive buffer.
    pub rcv_buf: Option<Leaf<Buffer>>,
    /// Maximum segment size announced.
    pub mss: Option<Leaf<Bytes>>,
    /// Announce `mss` in the SYN; ns-3 does not.
    pub mss_option: Option<Leaf<bool>>,
    /// Payload per segment is `mss` minus option bytes (RFC 6691), else `mss` itself.
    pub mss_includes_options: Option<Leaf<bool>>,
}

/// A link between two nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
    /// Its model; `pipe` if absent.
    pub kind: Option<Leaf<LinkKind>>,
    /// Its two nodes; `forward` is from the first to the second.
    #[schemars(required, length(equal = 2))]
    pub between: Option<At<Vec<Leaf<String>>>>,
    /// Serialisation rate.
    #[schemars(required)]
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    #[schemars(required)]
    pub delay: Option<Leaf<Time>>,
    /// What may wait before the serialiser; `100 pkt` if absent.
    pub queue: Option<Leaf<QueueLimit>>,
    /// Losses; one table for both directions or one direction, or a list with a table for each.
    pub noise: Option<Box<At<Noises>>>,
    /// Largest IP packet; larger ones travel as fragments. `1500 B` if absent.
    pub mtu: Option<Leaf<Bytes>>,
    /// Bytes that framing adds to each packet on the wire; `0 B` if absent (ns-3's point-to-point link: `2 B`).
    pub overhead: Option<Leaf<Bytes>>,
    /// Extra delay per packet, uniform between zero and this.
    pub jitter: Option<Leaf<Time>>,
    /// Let jitter change the order of packets; false if absent.
    pub reorder: Option<Leaf<bool>>,
    /// What is different in the reverse direction.
    pub asymmetric: Option<Box<At<Asymmetric>>>,
}

/// The reverse direction of a link, where it is not like the forward one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asymmetric {
    /// Serialisation rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// What may wait before the serialiser.
    pub queue: Option<Leaf<QueueLimit>>,
    /// Losses of the reverse direction, without the key `direction`.
    pub noise: Option<At<Noise>>,
    /// Extra delay per packet, uniform between zero and this.
    pub jitter: Option<Leaf<Time>>,
    /// Let jitter change the order of packets.
    pub reorder: Option<Leaf<bool>>,
}

/// Losses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Noise {
    /// Which model.
    #[schemars(required)]
    pub kind: Option<Leaf<NoiseKind>>,
    /// Which direction is hit; both if absent.
    pub direction: Option<Leaf<Heading>>,
    /// Probability that a packet is lost.
    pub loss: Option<Leaf<Share>>,
    /// Probability that a packet starts a burst; this or `mean`.
    pub start: Option<Leaf<Share>>,
    /// Average loss, about: `start` becomes `mean` divided by the mean length. This or `start`.
    pub mean: Option<Leaf<Share>>,
    /// Length of a burst in packets: `[1, 4]` uniform, `{ geometric = 2.5 }` with this mean.
    pub length: Option<Leaf<BurstLength>>,
    /// Probability per packet that the good state turns bad (Gilbert's p).
    pub to_bad: Option<Leaf<Share>>,
    /// Probability per packet that the bad state turns good (Gilbert's r).
    pub to_good: Option<Leaf<Share>>,
    /// Loss in the good state (Elliott's 1 - k); none if absent.
    pub loss_good: Option<Leaf<Share>>,
    /// Loss in the bad state (Gilbert's 1 - h); all if absent.
    pub loss_bad: Option<Leaf<Share>>,
    /// Pulses that follow each other evenly, as the mains makes them (10 ms at 50 Hz).
    pub cyclic: Option<At<Pulses>>,
    /// Pulses at random times.
    pub asynchronous: Option<At<Pulses>>,
    /// Probability that a packet overlapped by a pulse is lost; `100 %` if absent.
    pub kill: Option<Leaf<Share>>,
    /// Numbers of the packets that are lost, counted from 0 as they arrive; every fragment counts.
    pub drop: Option<Leaf<Vec<u64>>>,
    /// A file of lines `seconds,loss probability`; this or `steps`.
    pub file: Option<Leaf<String>>,
    /// From when on which share of the packets is lost; this or `file`.
    pub steps: Option<At<Vec<At<Step>>>>,
}

/// A train of noise pulses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Pulses {
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
pub(super) struct Step {
    /// From when on.
    #[schemars(required)]
    pub at: Option<Leaf<Time>>,
    /// Probability that a packet is lost.
    #[schemars(required)]
    pub loss: Option<Leaf<Share>>,
}

/// What flows from one node to another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
    /// `bulk`: a transfer over TCP; `cbr`: datagrams at a constant rate.
    #[schemars(required)]
    pub kind: Option<Leaf<FlowKind>>,
    /// The node that sends.
    #[schemars(required)]
    pub from: Option<Leaf<String>>,
    /// The node that receives.
    #[schemars(required)]
    pub to: Option<Leaf<String>>,
    /// How much; without end if absent.
    pub bytes: Option<Leaf<Transfer>>,
    /// When it starts; `0 s` if absent.
    pub start: Option<Leaf<Time>>,
    /// When it stops.
    pub stop: Option<Leaf<Time>>,
    /// IP bit rate.
    pub rate: Option<Leaf<Rate>>,
    /// IP length of a datagram; `1500 B` if absent.
    pub packet: Option<Leaf<Bytes>>,
    /// Congestion control, instead of the one in `[tcp]`.
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of the algorithm.
    pub cc_params: Option<At<Params>>,
    /// Any other `[tcp]` key, for this flow.
    pub tcp: Option<Box<At<Tcp>>>,
}

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FlowKind {
    /// A transfer over TCP.
    Bulk,
    /// Datagrams at a constant rate.
    Cbr,
}

/// The model of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkKind {
    /// Two independent directions: queue, serialiser, noise, delay.
    Pipe,
}

/// The model of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NoiseKind {
    /// No losses.
    None,
    /// Each packet by itself.
    Random,
    /// Bursts that a packet starts with some probability.
    Burst,
    /// A chain of a good and a bad state.
    GilbertElliott,
    /// Pulses in time.
    Impulse,
    /// Exactly these packets.
    List,
    /// As measured.
    Recorded,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Heading {
    /// From the first node of `between` to the second.
    Forward,
    /// From the second to the first.
    Reverse,
    /// Both.
    Both,
}

/// How slow start may end before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hystart {
    /// It does not.
    Off,
    /// HyStart as in Linux and ns-3.
    Classic,
    /// HyStart++ (RFC 9406).
    Plusplus,
}

/// The keys that belong to one `kind` of a table; what no kind lists belongs to all.
#[derive(Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
}

/// The tables that have kinds, by their names in the schema.
pub(super) const KINDS: &[(&str, &[Kind])] = &[
    (
        "Noise",
        &[
            Kind { name: "none", required: &[], optional: &[] },
            Kind { name: "random", required: &["loss"], optional: &[] },
            Kind { name: "burst", required: &["length"], optional: &["start", "mean"] },
            Kind { name: "gilbert-elliott", required: &["to_bad", "to_good"], optional: &["loss_good", "loss_bad"] },
            Kind { name: "impulse", required: &[], optional: &["cyclic", "asynchronous", "kill"] },
            Kind { name: "list", required: &["drop"], optional: &[] },
            Kind { name: "recorded", required: &[], optional: &["file", "steps"] },
        ],
    ),
    (
        "Flow",
        &[
            Kind { name: "bulk", required: &[], optional: &["cc", "cc_params", "tcp"] },
            Kind { name: "cbr", required: &["rate"], optional: &["packet", "stop"] },
        ],
    ),
];

/// Keys of which one excludes the other.
pub(super) const RIVALS: &[(&str, &str, &str)] = &[("Noise", "start", "mean"), ("Noise", "file", "steps")];

impl Kind {
    /// Whether `key` belongs to this kind and not to all.
    pub fn has(&self, key: &str) -> bool {
        self.required.contains(&key) || self.optional.contains(&key)
    }
}

/// The kinds of the table that the schema calls `table`.
pub(super) fn kinds(table: &str) -> &'static [Kind] {
    KINDS.iter().find(|(name, _)| *name == table).map_or(&[], |(_, kinds)| kinds)
}

/// One table of noise or a list of them.
#[derive(Clone, Debug)]
pub(super) enum Noises {
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

/// Parameters of an algorithm: which there are is the algorithm's affair.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Params(pub BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>>);

impl JsonSchema for Params {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Params".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
