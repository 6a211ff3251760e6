//! Flows that their own congestion control keeps silent although their link has coverage, for example by a threshold
//! above the signal. The algorithm depends on link events only, so this can be computed before the run.

use super::problem::{Problem, Problems};
use roughlink_core::cc::{Factory, Flow, LinkEvent, Permit};
use roughlink_core::scenario::LinkSpec;
use roughlink_core::units::Time;
use std::ops::Range;

/// Warns if the algorithm `cc` holds flow `name`, whose links are `path`, while the link is up and its hosts have been
/// notified of that. At most `budget` notifications are examined and subtracted from it.
pub(super) fn warn_of_silence(
    (name, place): (&str, Range<usize>),
    (cc, factory): (&str, &Factory),
    (path, links): (&[usize], &[LinkSpec]),
    duration: Time,
    budget: &mut usize,
    report: &mut Problems,
) {
    // With several links that have events the cause could not be named.
    let mut with_events = path.iter().map(|&l| &links[l]).filter(|l| !l.notices.is_empty());
    let (Some(link), None) = (with_events.next(), with_events.next()) else { return };
    let mss = 1460;
    let mut flow = Flow::new(mss, 4 * u64::from(mss));
    let mut algorithm = factory(&flow);
    // Times in which hosts are notified that the link is up but the algorithm holds, and the strongest signal in them.
    let mut silent: Vec<Range<Time>> = Vec::new();
    let mut strongest: Option<f64> = None;
    let (mut known_up, mut signal) = (true, None);
    let mut notices: Vec<_> = link.notices.iter().take_while(|n| n.0 <= duration).take(*budget).collect();
    *budget -= notices.len();
    let duration = if *budget == 0 { notices.pop().map_or(Time::ZERO, |n| n.0) } else { duration };
    let mut notices = notices.into_iter().peekable();
    while let Some((at, event)) = notices.next() {
        flow.now = at;
        algorithm.on_link(&flow, &event);
        match event {
            LinkEvent::Down => (known_up, signal) = (false, None),
            LinkEvent::Configured => known_up = true,
            LinkEvent::Signal(dbm) => signal = Some(dbm),
            _ => {}
        }
        if known_up && algorithm.permit(&flow) == Permit::Hold {
            silent.push(at..notices.peek().map_or(duration, |n| n.0));
            strongest = strongest.into_iter().chain(signal).reduce(f64::max);
        }
    }
    let (mut covered, mut lost, mut first) = (Time::ZERO, Time::ZERO, None);
    let mut silent = silent.into_iter().peekable();
    for up in up_times(link, duration) {
        covered += up.end - up.start;
        while let Some(gap) = silent.peek().filter(|gap| gap.start < up.end) {
            let (from, until) = (gap.start.max(up.start), gap.end.min(up.end));
            if from < until {
                lost += until - from;
                first = first.or(Some(from));
            }
            if gap.end > up.end {
                break; // the silence continues in the next stay
            }
            silent.next();
        }
    }
    let Some(first) = first else { return };
    let message = format!(
        "flow `{name}` sends nothing for {lost} of the {covered} that link `{}` is up, first at {first}",
        link.name
    );
    report.warn(Problem::new(message).at(place, "").help(match strongest {
        Some(dbm) => {
            format!("check the parameters of `{cc}`, which keeps the flow silent at signals of up to {dbm} dBm")
        }
        None => format!("check the parameters of `{cc}`, which keeps the flow silent"),
    }));
}

/// Returns the times when the link is up, each stay once.
fn up_times(link: &LinkSpec, duration: Time) -> Vec<Range<Time>> {
    let Some(direction) = link.model.as_pipe().map(|p| &p.forward) else { return Vec::new() };
    let mut out: Vec<Range<Time>> = Vec::new();
    let mut up = Some(Time::ZERO);
    for (at, state) in direction.states().take_while(|s| s.0 < duration) {
        match (up, state.up) {
            (None, true) => up = Some(at),
            (Some(from), false) => {
                out.push(from..at);
                up = None;
            }
            _ => {}
        }
    }
    out.extend(up.map(|from| from..duration));
    out
}
