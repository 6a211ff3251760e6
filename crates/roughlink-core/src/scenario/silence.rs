//! Flows that their own congestion control keeps silent to the end though their link is up: a threshold that no signal
//! reaches, say. It goes by what links say, so it can be known before the run.

use super::LinkSpec;
use super::problem::{Problem, Report};
use crate::cc::{Factory, Flow, LinkEvent, Permit};
use crate::units::Time;
use std::ops::Range;

/// Warns if the algorithm `cc` holds flow `name`, whose links are `path`, from some point to the end of the scenario, and the
/// link comes up meanwhile.
pub(super) fn warn_of_silence(
    (name, place): (&str, Range<usize>),
    (cc, factory): (&str, &Factory),
    (path, links): (&[usize], &[LinkSpec]),
    duration: Time,
    report: &mut Report,
) {
    // With several links that speak it would have to be known which of them is to blame.
    let mut speaking = path.iter().map(|&l| &links[l]).filter(|l| !l.notices.is_empty());
    let (Some(link), None) = (speaking.next(), speaking.next()) else { return };
    let mss = 1460;
    let flow = Flow {
        mss,
        initial_window: 4 * u64::from(mss),
        initial_ssthresh: u64::MAX,
        min_rtt: Time::MAX,
        ..Flow::default()
    };
    let mut cc_heard = factory(&flow);
    let mut since = None;
    for (at, event) in link.notices.iter().filter(|n| n.0 <= duration) {
        let now = Flow { now: *at, ..flow.clone() };
        cc_heard.on_link(&now, event);
        since = if cc_heard.permit(&now) == Permit::Hold { since.or(Some(*at)) } else { None };
    }
    let Some(since) = since else { return };
    if let Some(up) = ups(link, duration).find(|up| up.start >= since && is_told(link, up)) {
        let message =
            format!("flow `{name}` sends nothing from {since} on, though link `{}` is up at {}", link.name, up.start);
        let signals =
            link.notices.iter().filter_map(|n| if let LinkEvent::Signal(dbm) = n.1 { Some(dbm) } else { None });
        let strongest = signals.fold(None, |most: Option<f64>, dbm| Some(most.map_or(dbm, |m| m.max(dbm))));
        report.warn(Problem::new(message).at(place, "").help(match strongest {
            Some(dbm) => format!("`{cc}` holds it: see its parameters; the strongest signal is {dbm} dBm"),
            None => format!("`{cc}` holds it: see its parameters"),
        }));
    }
}

/// When the link is up.
fn ups(link: &LinkSpec, duration: Time) -> impl Iterator<Item = Range<Time>> {
    let timeline = link.model.as_pipe().and_then(|p| p.forward.timeline.as_deref());
    let states = timeline.map_or(&[][..], |t| &t.states);
    states.iter().enumerate().filter(move |(_, s)| s.1.up && s.0 < duration).map(move |(i, s)| {
        let end = states[i..].iter().find(|s| !s.1.up).map_or(duration, |s| s.0.min(duration));
        s.0..end
    })
}

/// Hosts hear of the link while it is up.
fn is_told(link: &LinkSpec, up: &Range<Time>) -> bool {
    link.notices.iter().any(|n| up.contains(&n.0) && n.1 != LinkEvent::Down)
}
