//! The scenario file as it is written: every table and key, in the order of the design. The comments become the
//! descriptions of the JSON Schema, and the schema is what unknown and missing keys are found by: to add a key, add
//! a field here and its meaning in the module that resolves the table.

mod coverage;
mod gateway;
mod greenphy;
mod hdplc;
mod kinds;
mod mac;
mod noise;
mod request;
mod transport;

pub(super) use coverage::{Class, Coverage, Delimiter};
pub(super) use gateway::Gateway;
pub(super) use greenphy::Profile;
pub(super) use hdplc::RateTrace;
pub(super) use kinds::{EXCLUSIVE_KEYS, GIVEN_BY, KINDS, Kind, kinds};
pub(super) use mac::Mac;
pub(super) use noise::{Exponential, Noise, NoiseKind, Noises, Pulses, named, noise_names};
pub(super) use request::{Limits, MessageKeys, Messages, Processing};
pub(super) use transport::{Hystart, Sctp, Tcp};

use super::leaf::{At, Cc, Dbm, Leaf, Name, Transfer};
use crate::app::request::{Mode, Policy as AfterLimit};
use crate::app::voip::{Codec, EModel, Reference};
use crate::link::greenphy::Class as Priority;
use crate::units::{Bytes, QueueLimit, Rate, Time};
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
    /// Seed of all random streams.
    #[schemars(extend("default" = 1))]
    pub seed: Option<Leaf<u64>>,
    /// End of the run; it ends earlier when every flow has a size and is complete.
    #[schemars(required, example = "60 s")]
    pub duration: Option<Leaf<Time>>,
    /// Defaults for every TCP flow.
    pub tcp: Option<Box<At<Tcp>>>,
    /// Defaults for every SCTP flow.
    pub sctp: Option<Box<At<Sctp>>>,
    /// The hosts and routers.
    #[serde(default)]
    pub node: Vec<At<Node>>,
    /// The links between them.
    #[serde(default)]
    pub link: Vec<At<Link>>,
    /// Gateways that watch links and rewrite windows.
    #[serde(default)]
    pub gateway: Vec<At<Gateway>>,
    /// The flows.
    #[serde(default)]
    pub flow: Vec<At<Flow>>,
    /// Where a train or car has coverage.
    #[serde(default)]
    pub coverage: Vec<At<Coverage>>,
}

/// A host or router.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// How links and flows refer to it.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
}

/// A link between two nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
    /// Model of the link.
    #[schemars(extend("default" = "pipe"))]
    pub kind: Option<Leaf<LinkKind>>,
    /// Its two nodes; `forward` is from the first to the second.
    #[schemars(required, length(equal = 2))]
    pub between: Option<At<Vec<Leaf<String>>>>,
    /// Serialisation rate; of an HD-PLC link the PHY rate. May be absent if the timeline of a pipe gives it from the
    /// start.
    #[schemars(extend("x-default" = { "hdplc": "18.62 Mbit/s" }))]
    #[schemars(example = "10 Mbit/s")]
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way; may be absent if the timeline gives it from the start.
    #[schemars(example = "10 ms")]
    pub delay: Option<Leaf<Time>>,
    /// The ROBO mode, a set of values to start from.
    #[schemars(extend("default" = "hpgp-hs"))]
    pub profile: Option<Leaf<Profile>>,
    /// Links of the same cable share one medium, which the first of them describes; a medium of its own if absent.
    pub cable: Option<Leaf<Name>>,
    /// Priority class of both directions, or `["ca1", "ca3"]` for forward and reverse; `ca1` if absent.
    pub class: Option<Leaf<[Priority; 2]>>,
    /// How the medium is shared.
    pub mac: Option<Box<At<Mac>>>,
    /// From when on which PHY rate holds; a frame is sent at the rate of its start.
    pub rate_trace: Option<RateTrace>,
    /// What may wait before the serialiser or the modem, in packets or, for a pipe, bytes; drop-tail. The packet being
    /// serialised does not count.
    #[schemars(extend("x-default" = { "pipe": "100 pkt", "hdplc": "256 pkt", "greenphy": "100 pkt" }))]
    pub queue: Option<Leaf<QueueLimit>>,
    /// What spoils packets. Pipe: losses, one table for both directions or one direction, or a list with a table for
    /// each; none if absent. Shared medium: a layer or a list of layers that add up; that of the profile if absent. A
    /// named noise may be given by its name alone.
    pub noise: Option<Box<At<Noises>>>,
    /// Largest IP packet; larger ones travel as fragments, and losing one fragment loses the packet.
    #[schemars(extend("default" = "1500 B", "x-minimum" = "68 B", "x-maximum" = "65535 B"))]
    pub mtu: Option<Leaf<Bytes>>,
    /// Bytes that framing adds to each packet on the wire: 2 B for the point-to-point link of ns-3, 38 B for Ethernet
    /// with preamble and gap.
    #[schemars(extend("default" = "0 B", "x-maximum" = "1024 B"))]
    pub overhead: Option<Leaf<Bytes>>,
    /// Extra delay per packet, uniform from zero to this.
    #[schemars(extend("default" = "0 s"))]
    pub jitter: Option<Leaf<Time>>,
    /// Let jitter change the order of packets.
    #[schemars(extend("default" = false))]
    pub reorder: Option<Leaf<bool>>,
    /// What is different in the reverse direction.
    pub asymmetric: Option<Box<At<Asymmetric>>>,
    /// What changes and when: a list of changes, the name of a file, or a table that says more.
    pub timeline: Option<Box<At<Timelines>>>,
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
    /// What changes in the reverse direction; the link's own timeline then holds for the forward one only.
    pub timeline: Option<Box<At<Timelines>>>,
}

/// What changes on a link, and how.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeline {
    /// The changes in order of time; this or `file`.
    pub steps: Option<At<Vec<At<Change>>>>,
    /// A table of changes (`.csv`), or a trace of delivery opportunities as Mahimahi has it; this or `steps`.
    pub file: Option<Leaf<String>>,
    /// A trace of one-way delays in ms, one per line and `interval`, as LeoReplayer has it; it repeats, and replaces
    /// `delay`.
    pub delay_file: Option<Leaf<String>>,
    /// A trace of loss probabilities (0 to 1), one per line and `interval`; it repeats, and replaces `noise`.
    pub loss_file: Option<Leaf<String>>,
    /// Duration of a line of `delay_file` and `loss_file`.
    #[schemars(extend("default" = "10 ms"))]
    pub interval: Option<Leaf<Time>>,
    /// What the file is, if its name does not end in `.csv` or is misleading.
    pub format: Option<Leaf<TimelineFormat>>,
    /// All of it happens again after this time, and again.
    pub repeat: Option<Leaf<Time>>,
    /// What being down does to packets.
    #[schemars(extend("default" = "drop"))]
    pub policy: Option<Leaf<Policy>>,
    /// Delay after which hosts and gateways are notified of a change.
    #[schemars(extend("default" = "0 s"))]
    pub notice: Option<Leaf<Time>>,
    /// How long before the link goes down hosts and gateways are notified of it, instead of after it.
    pub warning: Option<Leaf<Time>>,
}

/// A change of a link.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// When.
    #[schemars(required, example = "30 s")]
    pub at: Option<Leaf<Time>>,
    /// Duration of the change; until another change if absent.
    #[serde(rename = "for")]
    pub lasts: Option<Leaf<Time>>,
    /// It happens again after this time, and again.
    pub repeat: Option<Leaf<Time>>,
    /// Whether packets get through.
    pub up: Option<Leaf<bool>>,
    /// Serialisation rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Signal strength, of which hosts and gateways are notified; it does not affect packets.
    pub signal: Option<Leaf<Dbm>>,
    /// Losses.
    pub noise: Option<At<Noise>>,
    /// Which direction changes; both if absent.
    pub direction: Option<Leaf<Heading>>,
}

/// What a file with a timeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TimelineFormat {
    /// A heading and columns `time_s`, and any of `up`, `rate_mbps`, `delay_ms`, `loss`, `signal_dbm`.
    Csv,
    /// A line per 1500-byte delivery opportunity: its time in ms (`mm-link`).
    Mahimahi,
}

/// What being down does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    /// What arrives while the link is down is lost.
    Drop,
    /// Nothing is sent while the link is down, and nothing lost.
    Keep,
}

/// What flows from one node to another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
    /// `bulk`: a transfer over TCP; `cbr`: datagrams at a constant rate; `voip`: a voice call; `request`: a charging session.
    #[schemars(required)]
    pub kind: Option<Leaf<FlowKind>>,
    /// The node that sends; of a charging session, the vehicle.
    #[schemars(required)]
    pub from: Option<Leaf<String>>,
    /// The node that receives; of a charging session, the charger.
    #[schemars(required)]
    pub to: Option<Leaf<String>>,
    /// Payload to transfer; unlimited if absent.
    pub bytes: Option<Leaf<Transfer>>,
    /// Start time.
    #[schemars(extend("default" = "0 s"))]
    pub start: Option<Leaf<Time>>,
    /// End time; the end of the run if absent.
    pub stop: Option<Leaf<Time>>,
    /// Priority class of its packets on Green PHY cables, both ways; the `class` of the link if absent.
    pub priority: Option<Leaf<Priority>>,
    /// IP bit rate.
    pub rate: Option<Leaf<Rate>>,
    /// IP length of a datagram.
    #[schemars(extend("default" = "1500 B", "x-minimum" = "29 B", "x-maximum" = "65535 B"))]
    pub packet: Option<Leaf<Bytes>>,
    /// Codec of the speech; it sets `payload`, `interval`, `ie` and `bpl`.
    #[schemars(extend("default" = "g711"))]
    pub codec: Option<Leaf<Codec>>,
    /// Equipment impairment factor Ie of the codec without loss (ITU-T G.107); that of `codec` if absent.
    #[schemars(extend("minimum" = 0, "maximum" = 95))]
    pub ie: Option<Leaf<f64>>,
    /// Packet-loss robustness factor Bpl of the codec (ITU-T G.107); that of `codec` if absent.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub bpl: Option<Leaf<f64>>,
    /// Speech per packet; that of `codec` if absent, `160 B` with G.711.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "65495 B"))]
    pub payload: Option<Leaf<Bytes>>,
    /// Time between packets of speech; that of `codec` if absent, `20 ms` with G.711.
    pub interval: Option<Leaf<Time>>,
    /// Playout delay of the receiver; packets that arrive later are lost.
    #[schemars(extend("default" = "60 ms"))]
    pub jitter_buffer: Option<Leaf<Time>>,
    /// The packet from which the receiver takes the delay of the path.
    #[schemars(extend("default" = "fastest"))]
    pub reference: Option<Leaf<Reference>>,
    /// How delay is judged.
    #[schemars(extend("default" = "g107"))]
    pub emodel: Option<Leaf<EModel>>,
    /// The receiver conceals lost packets of G.711: Bpl 25.1 instead of 4.3. Other codecs always do.
    #[schemars(extend("default" = false))]
    pub concealment: Option<Leaf<bool>>,
    /// A call is judged as a whole and in windows of this length.
    #[schemars(extend("default" = "10 s", "x-exclusiveMinimum" = "0 s"))]
    pub window: Option<Leaf<Time>>,
    /// Congestion control, instead of the one in `[tcp]`.
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of the algorithm.
    pub cc_params: Option<At<Params>>,
    /// Any other `[tcp]` key, for this flow.
    pub tcp: Option<Box<At<Tcp>>>,
    /// IP version of a flow over TCP; 6 for a charging session, 4 for a transfer if absent.
    #[schemars(extend("enum" = [4, 6]))]
    pub ip: Option<Leaf<u32>>,
    /// Transport protocol.
    #[schemars(extend("default" = "tcp"))]
    pub transport: Option<Leaf<Transport>>,
    /// Any other `[sctp]` key, for this flow.
    pub sctp: Option<Box<At<Sctp>>>,
    /// Charging mode.
    #[schemars(extend("default" = "dc"))]
    pub mode: Option<Leaf<Mode>>,
    /// Duration of the charging loop; until the end of the run if absent.
    pub charge: Option<Leaf<Time>>,
    /// Time from one request of the charging loop to the next; `100 ms` in mode `dc`, `1 s` in mode `ac` if absent.
    pub period: Option<Leaf<Time>>,
    /// Time from a response to the next request outside the charging loop.
    #[schemars(extend("default" = "90 ms"))]
    pub pause: Option<Leaf<Time>>,
    /// Time from a request to its response at the charger.
    #[schemars(extend("default" = "10 ms"))]
    pub turnaround: Option<Leaf<Time>>,
    /// Begin with SECC discovery over UDP, otherwise with the connection.
    #[schemars(extend("default" = true))]
    pub discovery: Option<Leaf<bool>>,
    /// Request ServiceDetail.
    #[schemars(extend("default" = false))]
    pub service_detail: Option<Leaf<bool>>,
    /// What follows when a limit is passed; `report` if absent.
    pub policy: Option<Leaf<AfterLimit>>,
    /// How long the charger is busy with what takes longer than an answer.
    pub processing: Option<Box<At<Processing>>>,
    /// Limits of the session.
    pub limits: Option<Box<At<Limits>>>,
    /// Sizes and times of messages.
    pub messages: Option<Box<At<Messages>>>,
}

/// What carries a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 9260.
    Sctp,
}

/// What flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FlowKind {
    /// A transfer over TCP.
    Bulk,
    /// Datagrams at a constant rate.
    Cbr,
    /// A charging session: requests and responses over TCP.
    Request,
    /// A voice call, both ways.
    Voip,
}

/// The model of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkKind {
    /// Two independent directions: queue, serialiser, noise, delay.
    Pipe,
    /// A home power line between two modems, which share it (IEEE 1901, wavelet).
    Hdplc,
    /// A HomePlug Green PHY charging cable.
    GreenPhy,
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

/// A list of changes, the name of a file, or a table.
#[derive(Clone, Debug)]
pub(super) enum Timelines {
    Steps(Vec<At<Change>>),
    File(String),
    Table(Box<Timeline>),
}

impl<'de> Deserialize<'de> for Timelines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Timelines;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of changes, the name of a file, or a table")
            }
            fn visit_str<E>(self, name: &str) -> Result<Timelines, E> {
                Ok(Timelines::File(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Timelines, A::Error> {
                Timeline::deserialize(MapAccessDeserializer::new(map)).map(|t| Timelines::Table(Box::new(t)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Timelines, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Timelines::Steps)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl JsonSchema for Timelines {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Timelines".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (table, step) = (generator.subschema_for::<Timeline>(), generator.subschema_for::<Change>());
        json_schema!({ "anyOf": [table, { "type": "array", "items": step }, { "type": "string" }] })
    }
}

/// Parameters of an algorithm: which there are is defined by the algorithm.
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
