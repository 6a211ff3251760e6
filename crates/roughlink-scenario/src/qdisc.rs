//! `qdisc` of a link, resolved.

use super::file::{Qdisc, QdiscKind};
use super::leaf::{At, Dscp};
use super::problem::Report;
use roughlink_core::link::Discipline;
use roughlink_core::link::queue::CodelConfig;
use roughlink_core::units::{QueueLimit, Time};

/// The discipline of a direction. A value that cannot be read is reported.
pub(super) fn discipline(table: &At<Qdisc>, report: &mut Report) -> Option<Discipline> {
    let q = &table.value;
    let kind = report.read(&q.kind)?;
    let codel = CodelConfig {
        target: report.read(&q.target).unwrap_or(Time::from_millis(5)),
        interval: report.read(&q.interval).unwrap_or(Time::from_millis(100)),
        ecn: report.read(&q.ecn).unwrap_or(kind == QdiscKind::FqCodel),
    };
    let flows = report.read(&q.flows).unwrap_or(1024);
    let quantum = report.read(&q.quantum).map_or(1514, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
    let bands = report.read(&q.bands).unwrap_or(3);
    let first = report.read(&q.first).map_or(0, |list| list.0.iter().fold(0, |set, Dscp(d)| set | 1 << d));
    Some(match kind {
        QdiscKind::Threshold => Discipline::Threshold { at: report.read(&q.at).unwrap_or(QueueLimit::Packets(0)) },
        QdiscKind::Codel => Discipline::Codel(codel),
        QdiscKind::FqCodel => Discipline::FqCodel { codel, flows, quantum },
        QdiscKind::Prio => Discipline::Prio { bands: bands as u8, first },
    })
}
