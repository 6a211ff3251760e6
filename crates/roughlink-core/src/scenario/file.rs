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

pub(super) use coverage::{Class, Coverage, Delimiter};
pub(super) use gateway::Gateway;
pub(super) use greenphy::Profile;
pub(super) use hdplc::RateTrace;
pub(super) use kinds::{GIVEN_BY, KINDS, Kind, RIVALS, kinds};
pub(super) use mac::Mac;
pub(super) use noise::{Exponential, Noise, NoiseKind, Noises, Pulses, named, noise_names};
pub(super) use request::{Limits, MessageKeys, Messages, Processing};

use super::leaf::{At, Cc, Dbm, Leaf, Name, Transfer};
use crate::app::request::{Mode, Policy as AfterLimit};
use crate::app::voip::{Codec, EModel, Reference};
use crate::link::greenphy::Class as Priority;
use crate::tcp::{Amount, Buffer, FrOffUntil, Recovery, RtoFloor, Stack};
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
    /// Seed of all random streams; 1 if absent.
    pub seed: Option<Leaf<u64>>,
    /// Hard stop; a run also ends when every flow has a size and is done.
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
    /// What stands beside links and watches them.
    #[serde(default)]
    pub gateway: Vec<At<Gateway>>,
    /// What flows.
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
    /// Only the first partial ACK restarts the retransmission timer (RFC 6582 section 4); not with `reno` and `rack`.
    pub impatient: Option<Leaf<bool>>,
    /// What must be acknowledged after a time-out before fast retransmit is on again; without `rack` only.
    pub fr_off_until: Option<Leaf<FrOffUntil>>,
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

/// The keys of an SCTP association; defaults are those of RFC 9260.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sctp {
    /// Congestion control; `sctp`, that of RFC 9260, if absent.
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of `cc`; flows with another algorithm do not take them.
    pub cc_params: Option<At<Params>>,
    /// Bytes of user data in a full packet, and of a message.
    pub payload: Option<Leaf<Bytes>>,
    /// Streams to send messages in, turn by turn.
    pub streams: Option<Leaf<u32>>,
    /// Receive buffer.
    pub rcv_buf: Option<Leaf<Bytes>>,
    /// RTO.Initial.
    pub initial_rto: Option<Leaf<Time>>,
    /// RTO.Min.
    pub min_rto: Option<Leaf<Time>>,
    /// RTO.Max.
    pub max_rto: Option<Leaf<Time>>,
    /// G of section 6.3.1.
    pub clock_granularity: Option<Leaf<Time>>,
    /// Association.Max.Retrans: time-outs in a row before the association fails.
    pub data_retries: Option<Leaf<u32>>,
    /// Max.Init.Retransmits.
    pub init_retries: Option<Leaf<u32>>,
    /// Valid.Cookie.Life.
    pub cookie_life: Option<Leaf<Time>>,
    /// Max.Burst: packets that may leave on one SACK or timer.
    pub max_burst: Option<Leaf<u32>>,
    /// Packets per SACK; 1 = no delaying.
    pub delayed_ack: Option<Leaf<u32>>,
    /// How long a SACK may wait.
    pub delayed_ack_timeout: Option<Leaf<Time>>,
    /// Miss indications that make a fast retransmit.
    pub missing_reports: Option<Leaf<u32>>,
    /// Initial window in bytes or full packets (`pkt`).
    pub initial_window: Option<Leaf<Option<Amount>>>,
    /// Initial slow-start threshold in bytes or full packets (`pkt`).
    pub initial_ssthresh: Option<Leaf<Option<Amount>>>,
    /// Give up what is in flight when coverage ends, and tell the receiver to skip it (PR-SCTP, RFC 3758).
    pub partial_reliability: Option<Leaf<bool>>,
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
    /// Serialisation rate, if the timeline does not give it from the start; PHY rate of an HD-PLC link, `18.62 Mbit/s` if
    /// absent.
    #[schemars(example = "10 Mbit/s")]
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way, if the timeline does not give it from the start.
    #[schemars(example = "10 ms")]
    pub delay: Option<Leaf<Time>>,
    /// The set of values to start from; `hpgp-hs` if absent.
    pub profile: Option<Leaf<Profile>>,
    /// Links of the same cable share one medium, which the first of them describes; a medium of its own if absent.
    pub cable: Option<Leaf<Name>>,
    /// Priority class of both directions, or `["ca1", "ca3"]` for forward and reverse; `ca1` if absent.
    pub class: Option<Leaf<[Priority; 2]>>,
    /// How the medium is shared.
    pub mac: Option<Box<At<Mac>>>,
    /// From when on which PHY rate holds; a frame is sent at the rate of its start.
    pub rate_trace: Option<RateTrace>,
    /// What may wait before the serialiser, or before the modem; `100 pkt` if absent, `256 pkt` for an HD-PLC link.
    pub queue: Option<Leaf<QueueLimit>>,
    /// What spoils packets. Pipe: losses, one table for both directions or one direction, or a list with a table for each.
    /// Shared medium: a layer or a list of layers that add up; what the profile has if absent. A name may stand for a table.
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
    /// A trace of one-way delays in ms, one per line and `interval`, as LeoReplayer has it; it repeats, and takes the place of
    /// `delay`.
    pub delay_file: Option<Leaf<String>>,
    /// A trace of loss probabilities (0 to 1), one per line and `interval`; it repeats, and takes the place of `noise`.
    pub loss_file: Option<Leaf<String>>,
    /// How long a line of `delay_file` and of `loss_file` holds; `10 ms` if absent.
    pub interval: Option<Leaf<Time>>,
    /// What the file is, if its name does not end in `.csv` or is misleading.
    pub format: Option<Leaf<TimelineFormat>>,
    /// All of it happens again after this time, and again.
    pub repeat: Option<Leaf<Time>>,
    /// What being down does to packets; `drop` if absent.
    pub policy: Option<Leaf<Policy>>,
    /// How long after a change hosts and gateways hear of it; `0 s` if absent.
    pub notice: Option<Leaf<Time>>,
    /// How long before the link goes down hosts and gateways hear of that, instead of after it.
    pub warning: Option<Leaf<Time>>,
}

/// A change of a link.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// When.
    #[schemars(required, example = "30 s")]
    pub at: Option<Leaf<Time>>,
    /// For how long; until something else is said if absent.
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
    /// Signal strength, which only hosts and gateways hear of.
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
    /// How much; without end if absent.
    pub bytes: Option<Leaf<Transfer>>,
    /// When it starts; `0 s` if absent.
    pub start: Option<Leaf<Time>>,
    /// When it stops.
    pub stop: Option<Leaf<Time>>,
    /// Priority class on Green PHY cables, of its packets both ways; the link's `class` if absent.
    pub priority: Option<Leaf<Priority>>,
    /// IP bit rate.
    pub rate: Option<Leaf<Rate>>,
    /// IP length of a datagram; `1500 B` if absent.
    pub packet: Option<Leaf<Bytes>>,
    /// What speech is coded with; `g711` if absent.
    pub codec: Option<Leaf<Codec>>,
    /// Equipment impairment Ie of the codec without loss, from 0 to 95; that of `codec` if absent.
    pub ie: Option<Leaf<f64>>,
    /// Packet-loss robustness Bpl of the codec, more than 0; that of `codec` if absent.
    pub bpl: Option<Leaf<f64>>,
    /// Speech per packet; that of `codec` if absent, `160 B` with G.711.
    pub payload: Option<Leaf<Bytes>>,
    /// Time between packets of speech; that of `codec` if absent, `20 ms` with G.711.
    pub interval: Option<Leaf<Time>>,
    /// How long the listener holds packets; `60 ms` if absent.
    pub jitter_buffer: Option<Leaf<Time>>,
    /// The packet from which the listener takes the delay of the path; `fastest` if absent.
    pub reference: Option<Leaf<Reference>>,
    /// How delay is judged; `g107` if absent.
    pub emodel: Option<Leaf<EModel>>,
    /// The listener conceals lost packets of G.711, Bpl 25.1 instead of 4.3; false if absent. Other codecs always do.
    pub concealment: Option<Leaf<bool>>,
    /// A call is judged as a whole and in windows of this length; `10 s` if absent.
    pub window: Option<Leaf<Time>>,
    /// Congestion control, instead of the one in `[tcp]`.
    pub cc: Option<Leaf<Cc>>,
    /// Parameters of the algorithm.
    pub cc_params: Option<At<Params>>,
    /// Any other `[tcp]` key, for this flow.
    pub tcp: Option<Box<At<Tcp>>>,
    /// IP version of a flow over TCP, 4 or 6; 6 for a charging session, 4 for a transfer if absent.
    pub ip: Option<Leaf<u32>>,
    /// What carries it; `tcp` if absent.
    pub transport: Option<Leaf<Transport>>,
    /// Any other `[sctp]` key, for this flow.
    pub sctp: Option<Box<At<Sctp>>>,
    /// What is charged with; `dc` if absent.
    pub mode: Option<Leaf<Mode>>,
    /// How long the charging loop lasts; until the scenario ends if absent.
    pub charge: Option<Leaf<Time>>,
    /// From one request of the charging loop to the next; `100 ms` with DC, `1 s` with AC if absent.
    pub period: Option<Leaf<Time>>,
    /// From a response to the next request outside the charging loop; `90 ms` if absent.
    pub pause: Option<Leaf<Time>>,
    /// From a request to its response at the charger; `10 ms` if absent.
    pub turnaround: Option<Leaf<Time>>,
    /// Begin with SECC discovery over UDP; true if absent.
    pub discovery: Option<Leaf<bool>>,
    /// Ask for ServiceDetail; false if absent.
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
