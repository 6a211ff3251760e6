//! The scenario file as it is written: every table and key, in the order of the design. The comments become the
//! descriptions of the JSON Schema, and the schema is what unknown and missing keys are found by: to add a key, add
//! a field here and its meaning in the module that resolves the table.

mod coverage;
mod gateway;
mod greenphy;
mod hdplc;
mod kinds;
mod noise;
mod qdisc;
mod request;
mod transport;

pub(super) use coverage::{Class, Coverage, Delimiter};
pub(super) use gateway::Gateway;
pub(super) use greenphy::Profile;
pub(super) use hdplc::RateTrace;
pub(super) use kinds::{EXCLUSIVE_KEYS, GIVEN_BY, KINDS, Kind, kinds};
pub(super) use noise::{Exponential, Noise, NoiseKind, Noises, Pulses, named, noise_names};
pub(super) use qdisc::{Qdisc, QdiscKind};
pub(super) use request::Messages;
pub(super) use transport::{Hystart, Sctp, Tcp};

use super::given::Given;
use super::leaf::{At, Cc, Dbm, Dscp, Leaf, Name, Transfer};
use roughlink_core::app::request::{Limits, Mode, Policy as AfterLimit, Processing};
use roughlink_core::app::voip::{Codec, EModel, Reference};
use roughlink_core::link::greenphy::{Class as Priority, GreenPhyConfig};
use roughlink_core::link::hdplc::HdplcConfig;
use roughlink_core::units::{Bytes, QueueLimit, Rate, Time};
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
    /// The links between the nodes.
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
    /// Its two nodes; `forward` is the direction from the first to the second.
    #[schemars(required, length(equal = 2))]
    pub between: Option<At<Vec<Leaf<String>>>>,
    /// Serialisation rate; of an HD-PLC link the PHY rate. A pipe may leave it out if its timeline gives it from the start.
    #[schemars(extend("x-default" = { "hdplc": "18.62 Mbit/s" }))]
    #[schemars(example = "10 Mbit/s")]
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way. It may be left out if the timeline gives it from the start.
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
    #[serde(default)]
    #[schemars(schema_with = "mac")]
    pub mac: Option<Box<At<Given<()>>>>,
    /// PHY rate over time, such as `[{ at = "10 s", rate = "9 Mbit/s" }]`; a frame is sent at the rate that holds at its
    /// start.
    pub rate_trace: Option<RateTrace>,
    /// Drop-tail queue of each direction before the serialiser or modem; on Green PHY it is the queue of the operating
    /// system. In packets, or in bytes for a pipe. The packet being serialised does not count.
    #[schemars(extend("x-default" = { "pipe": "100 pkt", "hdplc": "256 pkt", "greenphy": "100 pkt" }))]
    #[schemars(extend("x-minimum" = { "hdplc": "1 pkt" }))]
    pub queue: Option<Leaf<QueueLimit>>,
    /// What spoils packets. Pipe: losses, one table for both directions or one direction, or a list with a table for
    /// each; none if absent. Shared medium: a layer or a list of layers that add up; if absent `inverter45` on HD-PLC and
    /// `cable` on Green PHY. A noise without further keys may be given by its name alone.
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
    /// Queue discipline, of both directions; if absent, the queue is first in, first out, drop-tail.
    pub qdisc: Option<Box<At<Qdisc>>>,
    /// The keys that differ in the reverse direction.
    pub asymmetric: Option<Box<At<Asymmetric>>>,
    /// What changes and when: a list of changes, the name of a file, or a table with either and further keys.
    pub timeline: Option<Box<At<Timelines>>>,
}

/// The keys of `mac` are those of the model that the link has.
fn mac(generator: &mut SchemaGenerator) -> Schema {
    let [hdplc, greenphy] =
        [generator.subschema_for::<Given<HdplcConfig>>(), generator.subschema_for::<Given<GreenPhyConfig>>()];
    json_schema!({ "type": "object", "x-of-kind": { "hdplc": hdplc, "greenphy": greenphy } })
}

/// The reverse direction of a pipe; a key that is absent is as in the forward direction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asymmetric {
    /// Serialisation rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Queue before the serialiser.
    pub queue: Option<Leaf<QueueLimit>>,
    /// Losses of the reverse direction, without the key `direction`.
    pub noise: Option<At<Noise>>,
    /// Extra delay per packet, uniform between zero and this.
    pub jitter: Option<Leaf<Time>>,
    /// Let jitter change the order of packets.
    pub reorder: Option<Leaf<bool>>,
    /// Queue discipline of the reverse direction.
    pub qdisc: Option<Box<At<Qdisc>>>,
    /// What changes in the reverse direction; the link's own timeline then holds for the forward one only.
    pub timeline: Option<Box<At<Timelines>>>,
}

/// What changes on a link, and how.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeline {
    /// The changes in order of time; excludes `file`.
    pub steps: Option<At<Vec<At<Change>>>>,
    /// A file with a table of changes (`.csv`), or with a Mahimahi trace of delivery opportunities; excludes `steps`.
    pub file: Option<Leaf<String>>,
    /// A file with one-way delays in ms, one per line and `interval`, as LeoReplayer has it; it repeats after its own
    /// length, and replaces `delay`.
    pub delay_file: Option<Leaf<String>>,
    /// A file with loss probabilities (0 to 1), one per line and `interval`; it repeats after its own length, and replaces
    /// `noise`.
    pub loss_file: Option<Leaf<String>>,
    /// Duration of a line of `delay_file` and `loss_file`.
    #[schemars(extend("default" = "10 ms"))]
    pub interval: Option<Leaf<Time>>,
    /// Format of `file`; if absent `csv` for a name that ends in `.csv`, otherwise `mahimahi`.
    pub format: Option<Leaf<TimelineFormat>>,
    /// All changes recur with this period, which is longer than the time from the first of them to the last.
    pub repeat: Option<Leaf<Time>>,
    /// What happens to packets while the link is down.
    #[schemars(extend("default" = "drop"))]
    pub policy: Option<Leaf<Policy>>,
    /// Delay after which hosts and gateways are notified of a change.
    #[schemars(extend("default" = "0 s"))]
    pub notice: Option<Leaf<Time>>,
    /// How long before the link goes down hosts and gateways are notified of it, instead of after it.
    pub warning: Option<Leaf<Time>>,
}

/// A change of a pipe; it holds until it ends or a later change of the same property begins.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// When it begins.
    #[schemars(required, example = "30 s")]
    pub at: Option<Leaf<Time>>,
    /// Duration of the change; until another change of the same property if absent.
    #[serde(rename = "for")]
    pub lasts: Option<Leaf<Time>>,
    /// It recurs with this period.
    pub repeat: Option<Leaf<Time>>,
    /// Whether packets get through.
    pub up: Option<Leaf<bool>>,
    /// Serialisation rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Signal strength such as `"-70 dBm"`; hosts and gateways are notified of it, and it does not affect packets.
    pub signal: Option<Leaf<Dbm>>,
    /// Losses.
    pub noise: Option<At<Noise>>,
    /// Direction that changes.
    #[schemars(extend("default" = "both"))]
    pub direction: Option<Leaf<Heading>>,
}

/// What a file with a timeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TimelineFormat {
    /// A heading with the columns `time_s` and any of `up` (0, 1, true or false), `rate_mbps`, `delay_ms`, `loss` (0 to 1)
    /// and `signal_dbm`; each line holds until the next.
    Csv,
    /// A trace of `mm-link`: for each opportunity to send 1500 B a line with its time in ms. It repeats, and replaces `rate`.
    Mahimahi,
}

/// What happens to packets while a link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    /// The serialiser continues, and what arrives at the far end while the link is down is lost.
    Drop,
    /// Nothing is sent, and nothing is lost.
    Keep,
}

/// What flows from one node to another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
    /// `bulk`: a transfer; `cbr`: datagrams at a constant rate; `voip`: a voice call; `request`: a charging session.
    #[schemars(required)]
    pub kind: Option<Leaf<FlowKind>>,
    /// The node that sends; of a charging session, the vehicle.
    #[schemars(required)]
    pub from: Option<Leaf<String>>,
    /// The node that receives; of a charging session, the charger.
    #[schemars(required)]
    pub to: Option<Leaf<String>>,
    /// Payload to transfer; unlimited if absent, and the flow then sends until the end of the run.
    pub bytes: Option<Leaf<Transfer>>,
    /// Start time.
    #[schemars(extend("default" = "0 s"))]
    pub start: Option<Leaf<Time>>,
    /// End time; the end of the run if absent.
    pub stop: Option<Leaf<Time>>,
    /// Priority class of its packets on Green PHY cables, both ways; the `class` of the link if absent. Such a cable must be
    /// on the path.
    pub priority: Option<Leaf<Priority>>,
    /// Differentiated services codepoint of its packets, both ways: by it the queue discipline `prio` chooses the band.
    #[schemars(extend("default" = "cs0"))]
    pub dscp: Option<Leaf<Dscp>>,
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
    /// Packet-loss robustness factor Bpl of the codec (ITU-T G.107); that of `codec` if absent. Excludes `concealment`.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub bpl: Option<Leaf<f64>>,
    /// Speech per packet; that of `codec` if absent.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "65495 B"))]
    pub payload: Option<Leaf<Bytes>>,
    /// Time between packets of speech; that of `codec` if absent.
    // A byte of G.711 takes 125 us; much below that a call fills memory with what the listener keeps of every packet.
    #[schemars(extend("x-minimum" = "100 us"))]
    pub interval: Option<Leaf<Time>>,
    /// Playout delay of the receiver; packets that arrive later are lost.
    #[schemars(extend("default" = "60 ms"))]
    pub jitter_buffer: Option<Leaf<Time>>,
    /// The packet from which the receiver takes the delay of the path.
    #[schemars(extend("default" = "fastest"))]
    pub reference: Option<Leaf<Reference>>,
    /// How the E-model judges delay.
    #[schemars(extend("default" = "g107"))]
    pub emodel: Option<Leaf<EModel>>,
    /// The receiver conceals lost packets of G.711, which raises Bpl; excludes `bpl`. Other codecs always do.
    #[schemars(extend("default" = false))]
    pub concealment: Option<Leaf<bool>>,
    /// Length of the windows in which a call is judged, beside the whole call.
    #[schemars(extend("default" = "10 s", "x-exclusiveMinimum" = "0 s"))]
    pub window: Option<Leaf<Time>>,
    /// Congestion control, instead of that in `[tcp]` or, over SCTP, in `[sctp]`.
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of the algorithm.
    pub cc_params: Option<At<Params>>,
    /// Any other `[tcp]` key, for this flow.
    pub tcp: Option<Box<At<Tcp>>>,
    /// IP version of a flow over TCP; if absent 6 for a charging session and 4 for a transfer. An IPv6 header has 20 B more,
    /// and the default `mss` is 20 B smaller. Links fragment packets above their `mtu` as with IPv4, although with IPv6 only
    /// the source may.
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
    /// Duration of the charging loop; it lasts until the end of the run if absent.
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
    /// What follows when a limit is passed.
    #[schemars(extend("default" = "report"))]
    pub policy: Option<Leaf<AfterLimit>>,
    /// How long the charger answers that it is not done yet, by step of the session.
    pub processing: Option<Box<At<Given<Processing>>>>,
    /// Time limits of the session, and of the discovery before it.
    pub limits: Option<Box<At<Given<Limits>>>>,
    /// Sizes and times of messages, such as `current_demand = { request = "57 B", timeout = "250 ms" }`.
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
    /// A transfer over TCP or SCTP at the highest rate that the path allows.
    Bulk,
    /// Datagrams at a constant rate.
    Cbr,
    /// A charging session of ISO 15118-2: requests and responses over TCP.
    Request,
    /// A voice call, both ways.
    Voip,
}

/// The model of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkKind {
    /// Two independent directions, each with a queue, a serialiser, noise and a delay.
    Pipe,
    /// A home power line that two modems share: HD-PLC, the wavelet form of IEEE 1901.
    Hdplc,
    /// A charging cable that two modems share: HomePlug Green PHY.
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
