//! `qdisc` of a link: its kinds, and the discipline that they make.

use super::leaf::{At, Dscp, DscpList, Leaf};
use super::problem::Report;
use roughlink_core::link::Discipline;
use roughlink_core::link::queue::{BucketConfig, CodelConfig};
use roughlink_core::units::{Bytes, QueueLimit, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Who leaves the queue next, and who is marked or dropped. The link's `queue` is its limit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Qdisc {
    /// Which discipline.
    #[schemars(required, extend("x-flat" = true))]
    pub kind: Option<At<QdiscKind>>,
}

/// The queue discipline.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum QdiscKind {
    /// First in, first out, with a marking threshold: the step of DCTCP (RFC 8257 section 3.1).
    Threshold(Marking),
    /// Controlled Delay (RFC 8289), defaults as in `tc`.
    Codel(Codel),
    /// CoDel per flow, flows in turn (RFC 8290), defaults as in `tc`.
    FqCodel(FqCodel),
    /// First in, first out, shaped by a token bucket, as `tbf` of `tc` does it.
    Tbf(TokenBucket),
    /// First in, first out; a packet that finds too few tokens on arrival is dropped, as by a policer (`police` of `tc`, rate
    /// limits of carriers).
    Police(TokenBucket),
    /// Strict priority by DSCP, with Linux's map: EF and the class selectors share the middle band with best effort unless
    /// `first` names them. Each band has the limit of the link's `queue`.
    Prio(Prio),
}

/// A marking threshold.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Marking {
    /// A packet is marked that finds as much waiting; one that is not ECN-capable is dropped.
    #[schemars(with = "Leaf<QueueLimit>")] // required, by its definition
    pub at: Option<Leaf<QueueLimit>>,
}

/// CoDel.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Codel {
    /// Mark packets that are ECN-capable; else they are dropped, too.
    #[schemars(extend("default" = false))]
    pub ecn: Option<Leaf<bool>>,
    /// Which delay it allows.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub delay: Delay,
}

/// CoDel per flow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FqCodel {
    /// Mark packets that are ECN-capable; else they are dropped, too.
    #[schemars(extend("default" = true))]
    pub ecn: Option<Leaf<bool>>,
    /// Queues over which a hash spreads the flows.
    #[schemars(extend("default" = FLOWS, "minimum" = 1, "maximum" = 65536))]
    pub flows: Option<Leaf<u32>>,
    /// Bytes that a flow sends in its turn (IP length).
    #[schemars(extend("default" = QUANTUM, "x-minimum" = "256 B", "x-maximum" = "4294967295 B"))]
    pub quantum: Option<Leaf<Bytes>>,
    /// Which delay it allows.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub delay: Delay,
}

/// The delay that CoDel allows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Delay {
    /// Time in the queue that is acceptable if it persists.
    #[schemars(extend("default" = TARGET, "x-exclusiveMinimum" = "0 s"))]
    pub target: Option<Leaf<Time>>,
    /// How long that is: about a round-trip time.
    #[schemars(extend("default" = INTERVAL, "x-exclusiveMinimum" = "0 s"))]
    pub interval: Option<Leaf<Time>>,
}

/// A token bucket.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenBucket {
    /// Rate at which the bucket fills; the link's own is the peak rate.
    #[schemars(with = "Leaf<Rate>", example = "5 Mbit/s", extend("x-exclusiveMinimum" = "0 bit/s"))]
    // required, by its definition
    pub rate: Option<Leaf<Rate>>,
    /// Size of the bucket (IP length), which is full at the start. A packet that is larger is dropped.
    #[schemars(with = "Leaf<Bytes>", example = "32 kB", extend("x-exclusiveMinimum" = "0 B"))]
    // required, by its definition
    pub burst: Option<Leaf<Bytes>>,
}

/// Priority by DSCP.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prio {
    /// Number of bands; the first goes first.
    #[schemars(extend("default" = BANDS, "minimum" = 2, "maximum" = 16))]
    pub bands: Option<Leaf<u32>>,
    /// DSCPs that belong to the first band whatever Linux's table says, such as `["ef"]`.
    pub first: Option<Leaf<DscpList>>,
}

/// Returns the discipline of a direction. Reports a value that cannot be read.
pub(super) fn discipline(table: &At<Qdisc>, report: &mut Report) -> Option<Discipline> {
    let mut codel = |delay: &Delay, ecn: &Option<Leaf<bool>>, usual: bool| CodelConfig {
        target: report.read(&delay.target).unwrap_or(TARGET),
        interval: report.read(&delay.interval).unwrap_or(INTERVAL),
        ecn: report.read(ecn).unwrap_or(usual),
    };
    Some(match &table.value.kind.as_ref()?.value {
        QdiscKind::Threshold(q) => Discipline::Threshold { at: report.read(&q.at).unwrap_or(QueueLimit::Packets(0)) },
        QdiscKind::Codel(q) => Discipline::Codel(codel(&q.delay, &q.ecn, false)),
        QdiscKind::FqCodel(q) => Discipline::FqCodel {
            codel: codel(&q.delay, &q.ecn, true),
            flows: report.read(&q.flows).unwrap_or(FLOWS),
            quantum: u32::try_from(report.read(&q.quantum).unwrap_or(QUANTUM).0).unwrap_or(u32::MAX),
        },
        QdiscKind::Tbf(q) => Discipline::Tbf(bucket(q, report)),
        QdiscKind::Police(q) => Discipline::Police(bucket(q, report)),
        QdiscKind::Prio(q) => Discipline::Prio {
            bands: report.read(&q.bands).unwrap_or(BANDS) as u8,
            first: report.read(&q.first).map_or(0, |list| list.0.iter().fold(0, |set, Dscp(d)| set | 1 << d)),
        },
    })
}

/// Returns the bucket of a shaper or policer. Reports a value that cannot be read.
fn bucket(table: &TokenBucket, report: &mut Report) -> BucketConfig {
    let rate = report.read(&table.rate).unwrap_or(Rate::from_mbps(1));
    BucketConfig { rate, burst: report.read(&table.burst).unwrap_or(QUANTUM).0 }
}

// Default of `tc`.
const TARGET: Time = Time::from_millis(5);
const INTERVAL: Time = Time::from_millis(100);
const FLOWS: u32 = 1024;
const QUANTUM: Bytes = Bytes(1514);
const BANDS: u32 = 3;
