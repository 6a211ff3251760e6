//! `qdisc` of a link as it is written.

use crate::leaf::{DscpList, Leaf};
use roughlink_core::units::{Bytes, QueueLimit, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Who leaves the queue next, and who is marked or dropped. The link's `queue` is its limit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Qdisc {
    /// Which discipline.
    #[schemars(required)]
    pub kind: Option<Leaf<QdiscKind>>,
    /// A packet is marked that finds as much waiting; one that is not ECN-capable is dropped.
    pub at: Option<Leaf<QueueLimit>>,
    /// Time in the queue that is acceptable if it persists.
    #[schemars(extend("default" = "5 ms", "x-exclusiveMinimum" = "0 s"))]
    pub target: Option<Leaf<Time>>,
    /// How long that is: about a round-trip time.
    #[schemars(extend("default" = "100 ms", "x-exclusiveMinimum" = "0 s"))]
    pub interval: Option<Leaf<Time>>,
    /// Mark packets that are ECN-capable; else they are dropped, too.
    #[schemars(extend("x-default" = { "codel": false, "fq_codel": true }))]
    pub ecn: Option<Leaf<bool>>,
    /// Queues over which a hash spreads the flows.
    #[schemars(extend("default" = 1024, "minimum" = 1, "maximum" = 65536))]
    pub flows: Option<Leaf<u32>>,
    /// Bytes that a flow sends in its turn (IP length).
    #[schemars(extend("default" = "1514 B", "x-minimum" = "256 B", "x-maximum" = "4294967295 B"))]
    pub quantum: Option<Leaf<Bytes>>,
    /// Number of bands; the first goes first.
    #[schemars(extend("default" = 3, "minimum" = 2, "maximum" = 16))]
    pub bands: Option<Leaf<u32>>,
    /// DSCPs that belong to the first band whatever Linux's table says, such as `["ef"]`.
    pub first: Option<Leaf<DscpList>>,
}

/// The queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QdiscKind {
    /// First in, first out, with a marking threshold: the step of DCTCP (RFC 8257 section 3.1).
    Threshold,
    /// Controlled Delay (RFC 8289), defaults as in `tc`.
    Codel,
    /// CoDel per flow, flows in turn (RFC 8290), defaults as in `tc`.
    FqCodel,
    /// Strict priority by DSCP, with Linux's map: EF and the class selectors share the middle band with best effort unless
    /// `first` names them. Each band has the limit of the link's `queue`.
    Prio,
}
