//! `qdisc` of a link, resolved.

use super::file::{Qdisc, QdiscKind};
use super::leaf::{At, Dscp, Leaf};
use super::problem::{Problem, Report};
use roughlink_core::link::Discipline;
use roughlink_core::link::queue::CodelConfig;
use roughlink_core::units::{Bytes, QueueLimit, Time};
use std::fmt::Display;

/// The discipline of a direction. A value that cannot be read, or is out of range, is reported.
pub(super) fn discipline(table: &At<Qdisc>, report: &mut Report) -> Option<Discipline> {
    let q = &table.value;
    let kind = report.read(&q.kind)?;
    let codel = CodelConfig {
        target: within(&q.target, "target", (Time(1), Time::MAX), report).unwrap_or(Time::from_millis(5)),
        interval: within(&q.interval, "interval", (Time(1), Time::MAX), report).unwrap_or(Time::from_millis(100)),
        ecn: report.read(&q.ecn).unwrap_or(kind == QdiscKind::FqCodel),
    };
    let flows = within(&q.flows, "flows", (1, 65_536), report).unwrap_or(1024);
    let most = u64::from(u32::MAX);
    let quantum = within(&q.quantum, "quantum", (Bytes(256), Bytes(most)), report).unwrap_or(Bytes(1514));
    let bands = within(&q.bands, "bands", (2, 16), report).unwrap_or(3);
    let first = report.read(&q.first).map_or(0, |list| list.0.iter().fold(0, |set, Dscp(d)| set | 1 << d));
    Some(match kind {
        QdiscKind::Threshold => Discipline::Threshold { at: report.read(&q.at).unwrap_or(QueueLimit::Packets(0)) },
        QdiscKind::Codel => Discipline::Codel(codel),
        QdiscKind::FqCodel => Discipline::FqCodel { codel, flows, quantum: quantum.0.min(most) as u32 },
        QdiscKind::Prio => Discipline::Prio { bands: bands.min(16) as u8, first },
    })
}

/// A value between two others.
fn within<T: PartialOrd + Display + Clone>(
    leaf: &Option<Leaf<T>>,
    key: &str,
    (least, most): (T, T),
    report: &mut Report,
) -> Option<T> {
    let value = report.read(leaf)?;
    if value >= least && value <= most {
        return Some(value);
    }
    let place = leaf.as_ref().map_or(0..0, |leaf| leaf.span.clone());
    let help = if value < least { format!("it is at least {least}") } else { format!("it is at most {most}") };
    report.error(Problem::new(format!("a `{key}` of {value} is not possible")).at(place, "").help(help));
    None
}
