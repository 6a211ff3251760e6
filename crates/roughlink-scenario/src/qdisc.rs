//! `qdisc` of a link: its kinds, and their conversion to a discipline.

use super::leaf::{At, Dscp, DscpList, Leaf};
use super::problem::Problems;
use roughlink_core::link::Discipline;
use roughlink_core::link::queue::{BucketConfig, CodelConfig};
use roughlink_core::units::{Bytes, QueueLimit, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Order in which packets leave the queue, and rules for marking and dropping. The link's `queue` is the limit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlQdisc {
    /// Kind of discipline.
    #[schemars(required, extend("x-flat" = true))]
    pub kind: Option<At<QdiscKind>>,
}

/// The queue discipline.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum QdiscKind {
    /// First in, first out, with a marking threshold, as for DCTCP (RFC 8257 section 3.1).
    Threshold(TomlMarking),
    /// Controlled Delay (RFC 8289), defaults as in `tc`.
    Codel(TomlCodel),
    /// CoDel per flow, flows in turn (RFC 8290), defaults as in `tc`.
    FqCodel(TomlFqCodel),
    /// First in, first out, shaped by a token bucket, like `tbf` of `tc`.
    Tbf(TomlTokenBucket),
    /// First in, first out; a packet that finds too few tokens on arrival is dropped (`police` of `tc`, rate limits of
    /// carriers).
    Police(TomlTokenBucket),
    /// Strict priority by DSCP, with Linux's map: EF and the class selectors share the middle band with best effort
    /// unless `first` names them. Each band has the limit of the link's `queue`.
    Prio(TomlPrio),
}

/// A marking threshold.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlMarking {
    /// Queue length at which an arriving packet is marked, or dropped if it is not ECN-capable.
    #[schemars(with = "Leaf<QueueLimit>")] // required, by its definition
    pub at: Option<Leaf<QueueLimit>>,
}

/// CoDel.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlCodel {
    /// Mark ECN-capable packets instead of dropping them.
    #[schemars(extend("default" = false))]
    pub ecn: Option<Leaf<bool>>,
    /// Delay that CoDel allows.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub delay: TomlDelayQdisc,
}

/// CoDel per flow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlFqCodel {
    /// Mark ECN-capable packets instead of dropping them.
    #[schemars(extend("default" = true))]
    pub ecn: Option<Leaf<bool>>,
    /// Number of queues over which a hash spreads the flows.
    #[schemars(extend("default" = FLOWS, "minimum" = 1, "maximum" = 65536))]
    pub flows: Option<Leaf<u32>>,
    /// Bytes that a flow sends per turn (IP length).
    #[schemars(extend("default" = QUANTUM, "x-minimum" = "256 B", "x-maximum" = "4294967295 B"))]
    pub quantum: Option<Leaf<Bytes>>,
    /// Delay that CoDel allows.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub delay: TomlDelayQdisc,
}

/// The delay that CoDel allows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlDelayQdisc {
    /// Acceptable standing delay in the queue.
    #[schemars(extend("default" = TARGET, "x-exclusiveMinimum" = "0 s"))]
    pub target: Option<Leaf<Time>>,
    /// Time for which the delay must exceed `target` before CoDel acts: about a round-trip time.
    #[schemars(extend("default" = INTERVAL, "x-exclusiveMinimum" = "0 s"))]
    pub interval: Option<Leaf<Time>>,
}

/// A token bucket.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlTokenBucket {
    /// Rate at which the bucket fills; the link's rate is the peak rate.
    #[schemars(with = "Leaf<Rate>", example = "5 Mbit/s", extend("x-exclusiveMinimum" = "0 bit/s"))]
    // required, by its definition
    pub rate: Option<Leaf<Rate>>,
    /// Size of the bucket (IP length), which is full at the start. Larger packets are dropped.
    #[schemars(with = "Leaf<Bytes>", example = "32 kB", extend("x-exclusiveMinimum" = "0 B"))]
    // required, by its definition
    pub burst: Option<Leaf<Bytes>>,
}

/// Priority by DSCP.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlPrio {
    /// Number of bands; the first has the highest priority.
    #[schemars(extend("default" = BANDS, "minimum" = 2, "maximum" = 16))]
    pub bands: Option<Leaf<u32>>,
    /// DSCPs that go to the first band regardless of Linux's map, such as `["ef"]`.
    pub first: Option<Leaf<DscpList>>,
}

/// Returns the discipline of a direction. Reports invalid values.
pub(super) fn discipline(table: &At<TomlQdisc>, report: &mut Problems) -> Option<Discipline> {
    let mut codel = |delay: &TomlDelayQdisc, ecn: &Option<Leaf<bool>>, usual: bool| CodelConfig {
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

/// Returns the bucket of a shaper or policer. Reports invalid values.
fn bucket(table: &TomlTokenBucket, report: &mut Problems) -> BucketConfig {
    let rate = report.read(&table.rate).unwrap_or(Rate::from_mbps(1));
    BucketConfig { rate, burst: report.read(&table.burst).unwrap_or(QUANTUM).0 }
}

// Default of `tc`.
const TARGET: Time = Time::from_millis(5);
const INTERVAL: Time = Time::from_millis(100);
const FLOWS: u32 = 1024;
const QUANTUM: Bytes = Bytes(1514);
const BANDS: u32 = 3;
