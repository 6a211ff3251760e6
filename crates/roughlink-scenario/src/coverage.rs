//! `[[coverage]]`: the times at which a vehicle has coverage, from stations and the distances between them, a timetable
//! or a log. These times become the timeline of a link, the notifications of hosts, and the load of other passengers.
//!
//! Coverage begins on arrival. Layer 2 is associated `associate` later, and hosts are notified (Up). Layer 3 is
//! configured another `configure` later, hosts are notified again (Configured), and packets get through. Coverage ends
//! on departure (Down); hosts may be warned in advance.

use super::leaf::{At, Dbm, Decibel, LONGEST, Leaf, Length, Name, Speed, span};
use super::link::{LinkKind, TomlLink};
use super::names::ElementNames;
use super::noise::{TomlNoise, undirected};
use super::problem::{Problem, Problems, suggest};
use super::table::{Delimiter, FileLoader};
use super::timeline::{Fixed, TomlStep, set_timelines};
use roughlink_core::app::Traffic;
use roughlink_core::cc::LinkEvent;
use roughlink_core::cc::coverage::THRESHOLD_DBM;
use roughlink_core::link::Model;
use roughlink_core::link::noise::Noise;
use roughlink_core::scenario::Notices;
use roughlink_core::scenario::{CoverageStay, FlowSpec, FlowTransport, LinkSpec};
use roughlink_core::units::{Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;

mod log;

use log::{LogRow, from_log};

/// Coverage of a vehicle, which becomes the timeline of a link. The source is a list of stations with the distances
/// between them, a timetable, or a log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlCoverage {
    /// Name of the coverage.
    #[schemars(with = "Leaf<Name>")] // required, by its definition
    pub name: Option<Leaf<Name>>,
    /// The link that is down without coverage.
    #[schemars(required)]
    pub link: Option<Leaf<String>>,
    /// Stations in order of arrival; with `speed` and `dwell`. Excludes `timetable` and `log`.
    #[schemars(extend("x-excludes" = ["timetable", "log"]))]
    pub stations: Option<At<Vec<At<TomlStation>>>>,
    /// Speed between stations, or along a log by position, such as `"34.2 km/h"` or `"9.5 m/s"`.
    pub speed: Option<Leaf<Speed>>,
    /// Time that the vehicle stays in a station, unless the station has a `dwell`.
    pub dwell: Option<Leaf<Time>>,
    /// Stations with their times; excludes `stations` and `log`.
    #[schemars(extend("x-excludes" = ["log"]))]
    pub timetable: Option<At<Vec<At<TomlVisit>>>>,
    /// A CSV file of a vehicle's measurements. The heading names the column `time_s` or `position_m`, and any of
    /// `signal_dbm`, `rate_mbps`, `delay_ms` and `loss`. Excludes `stations` and `timetable`.
    pub log: Option<Leaf<String>>,
    /// Columns with other names in the `log`, such as `{ time_s = "timestamp", signal_dbm = "RSRP" }`.
    pub columns: Option<At<BTreeMap<String, Leaf<String>>>>,
    /// Delimiter of the `log`; the most frequent one in its heading if absent.
    pub delimiter: Option<Leaf<Delimiter>>,
    /// State of the link in stations of a class, by name of the class.
    pub classes: Option<At<BTreeMap<String, At<StationClass>>>>,
    /// With a `log`: signal level at or below which coverage ends. The algorithm `avoca` and the gateway `avoca-rx` use
    /// the same value unless their parameters state another.
    #[schemars(extend("default" = "-80 dBm"))]
    pub threshold: Option<Leaf<Dbm>>,
    /// With a `log`: coverage begins where the signal exceeds the threshold by more than this margin, which keeps the
    /// link from flapping. `avoca` and `avoca-rx` use the same value unless their parameters state another.
    #[schemars(extend("default" = "0 dB"))]
    pub hysteresis: Option<Leaf<Decibel>>,
    /// Time from the start of coverage until layer 2 is associated.
    #[schemars(extend("default" = "0 s"))]
    pub associate: Option<Leaf<Time>>,
    /// Time from association until layer 3 is configured and packets pass.
    #[schemars(extend("default" = "0 s"))]
    pub configure: Option<Leaf<Time>>,
    /// Delay after which hosts and gateways are notified of a change.
    #[schemars(extend("default" = "0 s"))]
    pub notice: Option<Leaf<Time>>,
    /// Time before the end of coverage at which hosts and gateways are warned; they are notified again at the end.
    /// Shorter than the stay, and at most the `lead_ms` of an `avoca-rx`.
    pub warning: Option<Leaf<Time>>,
    /// Period after which all stays repeat; at least the time to the last departure. A run has at most a million stays.
    pub repeat: Option<Leaf<Time>>,
}

/// A station on the way.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlStation {
    /// Name of the station.
    pub name: Option<Leaf<String>>,
    /// Distance from the previous station, or from the start.
    #[schemars(with = "Leaf<Length>", example = "1164 m")] // required, by its definition
    pub distance: Option<Leaf<Length>>,
    /// Time that the vehicle stays here; the `dwell` of the coverage if absent.
    pub dwell: Option<Leaf<Time>>,
    /// Class of the station, a key of `classes`.
    pub class: Option<Leaf<String>>,
}

/// A station with its times.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlVisit {
    /// Name of the station.
    pub name: Option<Leaf<String>>,
    /// Time when coverage begins.
    #[schemars(with = "Leaf<Time>", example = "123 s")] // required, by its definition
    pub arrive: Option<Leaf<Time>>,
    /// Time when coverage ends.
    #[schemars(with = "Leaf<Time>", example = "243 s")] // required, by its definition
    pub depart: Option<Leaf<Time>>,
    /// Class of the station, a key of `classes`.
    pub class: Option<Leaf<String>>,
}

/// State of a link in stations of a class; an absent key keeps the link's value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StationClass")]
pub(super) struct StationClass {
    /// Serialization rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Losses.
    pub noise: Option<At<TomlNoise>>,
    /// Signal strength.
    pub signal: Option<Leaf<Dbm>>,
    /// Rate of datagrams of other passengers, from the first node of the link to the second, while the vehicle is in
    /// the station.
    pub load: Option<Leaf<Rate>>,
}

/// Stay of the vehicle within coverage.
struct Presence {
    name: String,
    arrive: Time,
    depart: Time,
    class: Option<String>,
    /// Further values of a log, with their start times.
    rows: Vec<LogRow>,
}

/// Signal levels at which coverage begins and ends.
struct Levels {
    /// Level at or below which coverage ends, dBm.
    threshold: f64,
    /// Margin above the threshold at which coverage begins, dB.
    hysteresis: f64,
}

/// Sets the timelines and events of the links with coverage; returns the load of other passengers.
pub(super) fn coverage(
    all: &[At<TomlCoverage>],
    (names, written, links): (&ElementNames, &[At<TomlLink>], &mut [LinkSpec]),
    duration: Time,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Vec<FlowSpec> {
    let mut loads = Vec::new();
    let mut repeated = 0;
    let mut taken: BTreeMap<usize, Range<usize>> = BTreeMap::new();
    for one in all {
        let c = &one.value;
        let here = c.name.as_ref().map_or(one.span.clone(), |n| n.span.clone());
        report.read(&c.name);
        let Some(l) = names.find(&c.link, report) else { continue };
        let wanted = &names.all[l];
        if let Some(first) = taken.insert(l, span(&c.link)) {
            let problem = Problem::new(format!("link `{wanted}` has two [[coverage]] tables"));
            let problem = problem.at(span(&c.link), "the second").at(first, "the first");
            report.error(problem.help("put all stations into one [[coverage]]"));
            continue;
        }
        let (name, between) = (links[l].name.clone(), links[l].between);
        let Model::Pipe(pipe) = &mut links[l].model else {
            let problem = Problem::new(format!("link `{name}` cannot have coverage: it is not a pipe"));
            report.error(problem.at(span(&c.link), "").help("name a link of kind = \"pipe\""));
            continue;
        };
        if pipe.forward.timeline.is_some() || pipe.reverse.timeline.is_some() {
            let problem = Problem::new(format!("link `{name}` has both a timeline and coverage")).at(span(&c.link), "");
            report.error(problem.help("state when it is up either in its `timeline` or in [[coverage]]"));
            continue;
        }
        report_ineffective_keys(c, report);
        let classes = classes(c, load, report);
        let levels = Levels {
            threshold: report.read(&c.threshold).map_or(THRESHOLD_DBM, |t| t.0),
            hysteresis: report.read(&c.hysteresis).map_or(0.0, |h| h.0),
        };
        let Some(stays) = stays(c, here.clone(), &levels, load, report) else { continue };
        let Some(stays) = looped(stays, c, here.clone(), duration, &mut repeated, report) else { continue };
        let lag = report.read(&c.associate).unwrap_or_default();
        let ready = lag + report.read(&c.configure).unwrap_or_default();
        let notice = report.read(&c.notice).unwrap_or_default();
        let warning = report.read(&c.warning);
        let mut steps = vec![TomlStep { up: Some(false), ..TomlStep::default() }];
        let mut link_events = vec![(Time::ZERO, LinkEvent::Down)];
        if c.log.is_some() {
            let Levels { threshold: dbm, hysteresis } = levels;
            link_events.push((Time::ZERO, LinkEvent::Threshold { dbm, hysteresis }));
        }
        // Hosts are notified of the initial state without delay.
        let known = |at: Time| if at.is_zero() { at } else { at + notice };
        let mut used = Vec::new();
        let mut hasty = false;
        for stay in &stays {
            let class = stay.class.as_ref().and_then(|name| classes.get(name));
            let up = stay.arrive + ready;
            let end = Some(stay.depart);
            for row in &stay.rows {
                steps.push(TomlStep {
                    at: row.at,
                    until: end,
                    rate: row.rate,
                    delay: row.delay,
                    noise: row.loss.map(|loss| Box::new(Noise::Random { loss })),
                    ..TomlStep::default()
                });
                link_events.extend(row.signal.map(|dbm| (known(row.at), LinkEvent::Signal(dbm))));
            }
            if up >= stay.depart {
                let warning = Problem::new(format!("coverage at {} ends before it can be used", stay.name));
                report.warn(warning.at(here.clone(), "").help(format!(
                    "make the stay of {} longer than `associate` and `configure`, which take {ready} together",
                    stay.depart.saturating_sub(stay.arrive)
                )));
                continue;
            }
            let mut step = TomlStep { at: up, until: end, up: Some(true), ..TomlStep::default() };
            if let Some(class) = class {
                (step.rate, step.delay, step.noise) = (class.rate, class.delay, class.noise.clone().map(Box::new));
                link_events.extend(class.signal.map(|dbm| (known(stay.arrive), LinkEvent::Signal(dbm))));
            }
            steps.push(step);
            link_events.push((known(stay.arrive + lag), LinkEvent::Up));
            link_events.push((known(up), LinkEvent::Configured));
            // Repeat the warning at the end: the recipient may have discarded the first as false.
            let warned = warning.map(|w| stay.depart.saturating_sub(w));
            link_events.extend(warned.map(|at| (at, LinkEvent::Down)));
            link_events.push((stay.depart + notice, LinkEvent::Down));
            used.push(CoverageStay {
                name: stay.name.clone(),
                class: stay.class.clone().unwrap_or_default(),
                from: up,
                until: stay.depart,
                end_known: warned.unwrap_or(stay.depart + notice),
            });
            if let Some(early) = warning.filter(|w| *w >= stay.depart - up && !hasty) {
                hasty = true;
                let warning = Problem::new(format!("the warning comes before coverage at {} can be used", stay.name));
                report.warn(warning.at(span(&c.warning), "").help(format!(
                    "make `warning`, now {early}, shorter than {}, the time from configuration to the end of coverage",
                    stay.depart - up
                )));
            }
            if let Some(rate) = class.and_then(|c| c.load) {
                loads.push(FlowSpec {
                    name: format!("load at {}, {}", stay.name, stay.arrive),
                    from: between.0,
                    to: between.1,
                    start: stay.arrive,
                    traffic: Traffic::Cbr { rate, packet: 1000, bytes: None, stop: end },
                    transport: FlowTransport::Udp,
                    ipv6: false,
                    dscp: 0,
                    priority: None,
                });
            }
        }
        if stays.is_empty() {
            let warning = Problem::new(format!("link `{name}` never has coverage")).at(here, "");
            report.warn(warning.help(match c.log {
                Some(_) => "lower `threshold`: no signal in the log exceeds it",
                None if c.stations.iter().any(|s| s.value.is_empty()) => "add a station to `stations`",
                None if c.timetable.iter().any(|t| t.value.is_empty()) => "add a station to `timetable`",
                None => "make `duration` longer: every station comes after it",
            }));
        }
        link_events.sort_by_key(|n| n.0);
        let fixed = match written[l].value.kind.as_ref().map(|kind| &kind.value) {
            Some(LinkKind::Pipe(keys)) => keys.fixed(),
            _ => Fixed::default(),
        };
        set_timelines(steps, (pipe, fixed), duration, one.span.clone(), report);
        (links[l].notices, links[l].stays) = (Notices::Listed(link_events.into()), used);
    }
    loads
}

fn report_ineffective_keys(c: &TomlCoverage, report: &mut Problems) {
    let ways = [("stations", c.stations.is_some()), ("timetable", c.timetable.is_some()), ("log", c.log.is_some())];
    let mut given = ways.iter().filter(|way| way.1).map(|way| way.0);
    let (Some(way), None) = (given.next(), given.next()) else { return }; // reported elsewhere
    let span_of = |leaf: &Option<Leaf<Time>>| leaf.as_ref().map(|l| l.span.clone());
    for (key, place, belongs_to) in [
        ("threshold", c.threshold.as_ref().map(|l| l.span.clone()), &["log"][..]),
        ("hysteresis", c.hysteresis.as_ref().map(|l| l.span.clone()), &["log"]),
        ("columns", c.columns.as_ref().map(|l| l.span.clone()), &["log"]),
        ("delimiter", c.delimiter.as_ref().map(|l| l.span.clone()), &["log"]),
        ("classes", c.classes.as_ref().map(|l| l.span.clone()), &["stations", "timetable"]),
        ("dwell", span_of(&c.dwell), &["stations"]),
        ("speed", c.speed.as_ref().map(|l| l.span.clone()), &["stations", "log"]),
    ] {
        if let Some(place) = place.filter(|_| !belongs_to.contains(&way)) {
            let problem = Problem::new(format!("`{key}` has no effect in coverage with `{way}`")).at(place, "");
            let others = belongs_to.iter().map(|b| format!("`{b}`")).collect::<Vec<_>>().join(" or ");
            report.error(problem.help(format!("remove it, or use {others}")));
        }
    }
}

struct ResolvedClass {
    rate: Option<Rate>,
    delay: Option<Time>,
    noise: Option<Noise>,
    signal: Option<f64>,
    load: Option<Rate>,
}

fn classes(c: &TomlCoverage, load: FileLoader<'_>, report: &mut Problems) -> BTreeMap<String, ResolvedClass> {
    let mut out = BTreeMap::new();
    for (name, class) in c.classes.iter().flat_map(|classes| &classes.value) {
        let k: &StationClass = &class.value;
        let mut rate = |leaf: &Option<Leaf<Rate>>| {
            let rate = report.read(leaf)?;
            if rate == Rate(0) {
                let problem = Problem::new("this rate must be greater than zero").at(span(leaf), "");
                report.error(problem.help("remove the stations that have no coverage"));
            }
            Some(rate).filter(|r| *r != Rate(0))
        };
        let (rate, load_rate) = (rate(&k.rate), rate(&k.load));
        let resolved = ResolvedClass {
            rate,
            delay: report.read(&k.delay),
            noise: k.noise.as_ref().map(|n| {
                undirected(n, "remove `direction`: noise in a station applies to both directions", load, report)
            }),
            signal: report.read(&k.signal).map(|s| s.0),
            load: load_rate,
        };
        out.insert(name.clone(), resolved);
    }
    let known: Vec<&str> = out.keys().map(String::as_str).collect();
    let stations = c.stations.iter().flat_map(|s| &s.value).map(|s| &s.value.class);
    let visits = c.timetable.iter().flat_map(|t| &t.value).map(|v| &v.value.class);
    let places: Vec<_> = stations.chain(visits).collect();
    for (name, class) in c.classes.iter().flat_map(|classes| &classes.value) {
        let wanted = |leaf: &&&Option<Leaf<String>>| leaf.as_ref().is_some_and(|l| l.value.as_ref() == Ok(name));
        if !places.is_empty() && places.iter().find(wanted).is_none() {
            let warning = Problem::new(format!("no station has class `{name}`")).at(class.span.clone(), "unused");
            report.warn(warning.help("set it as the `class` of a station, or remove it"));
        }
    }
    for leaf in places {
        if let Some(name) = leaf.as_ref().and_then(|l| l.value.as_ref().ok()).filter(|n| !known.contains(&n.as_str())) {
            let problem = Problem::new(format!("unknown class `{name}`")).at(span(leaf), "");
            report.error(problem.help(if known.is_empty() {
                format!("define it: classes.{name} = {{ rate = \"5 Mbit/s\", delay = \"20 ms\" }}")
            } else {
                suggest(name, "use one of", known.iter().copied())
            }));
        }
    }
    out
}

/// Returns the stays in coverage in order of time; reports an error and returns `None` if they cannot be determined.
fn stays(
    c: &TomlCoverage,
    here: Range<usize>,
    levels: &Levels,
    load: FileLoader<'_>,
    report: &mut Problems,
) -> Option<Vec<Presence>> {
    let mut problem = |message: &str, help: &str| {
        report.error(Problem::new(message).at(here.clone(), "").help(help));
        None
    };
    match (&c.stations, &c.timetable, &c.log) {
        (Some(_), None, None) => from_stations(c, here, report),
        (None, Some(_), None) => from_timetable(c, report),
        (None, None, Some(_)) => from_log(c, levels, load, report),
        (None, None, None) => problem(
            "missing key `stations`, `timetable` or `log` in [[coverage]]",
            "add `stations` with `speed` and `dwell`, a `timetable`, or a `log`",
        ),
        _ => problem("`stations`, `timetable` and `log` cannot be used together", "keep one of them"),
    }
}

fn from_stations(c: &TomlCoverage, here: Range<usize>, report: &mut Problems) -> Option<Vec<Presence>> {
    for (key, missing, example) in [("speed", c.speed.is_none(), "34.2 km/h"), ("dwell", c.dwell.is_none(), "120 s")] {
        let everywhere = key == "dwell" && c.stations.iter().flat_map(|s| &s.value).all(|s| s.value.dwell.is_some());
        if missing && !everywhere {
            let problem = Problem::new(format!("missing key `{key}` for `stations`")).at(here.clone(), "");
            report.error(problem.help(format!("add a line such as {key} = \"{example}\"")));
        }
    }
    let speed = report.read(&c.speed)?.0;
    let dwell = report.read(&c.dwell).unwrap_or_default();
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    for (i, station) in c.stations.iter().flat_map(|s| &s.value).enumerate() {
        let s = &station.value;
        let distance = report.read(&s.distance)?.0;
        let arrive = now.saturating_add(Time::from_secs_f64(distance / speed));
        now = arrive.saturating_add(report.read(&s.dwell).unwrap_or(dwell));
        let name = report.read(&s.name).unwrap_or_else(|| format!("station {}", i + 1));
        if now > LONGEST {
            let problem = Problem::new(format!("the stay at {name} ends more than {LONGEST} after the start"));
            report.error(problem.at(station.span.clone(), "").help("make `dwell` and `distance` shorter"));
            return None;
        }
        out.push(Presence { name, arrive, depart: now, class: report.read(&s.class), rows: Vec::new() });
    }
    Some(out)
}

fn from_timetable(c: &TomlCoverage, report: &mut Problems) -> Option<Vec<Presence>> {
    let mut out: Vec<Presence> = Vec::new();
    let mut last: Option<(Time, Range<usize>)> = None;
    for (i, visit) in c.timetable.iter().flat_map(|t| &t.value).enumerate() {
        let v = &visit.value;
        let (arrive, depart) = (report.read(&v.arrive)?, report.read(&v.depart)?);
        let name = report.read(&v.name).unwrap_or_else(|| format!("station {}", i + 1));
        if depart <= arrive {
            let problem =
                Problem::new(format!("departure from {name} at {depart} is not after the arrival at {arrive}"));
            report.error(problem.at(span(&v.depart), "").help("write a `depart` that is after `arrive`"));
            return None;
        }
        if let Some((before, place)) = last.take().filter(|(before, _)| *before > arrive) {
            let problem = Problem::new(format!("arrival at {name} at {arrive} is before the previous departure"));
            let problem = problem.at(span(&v.arrive), "arrival").at(place, format!("departure at {before}"));
            report.error(problem.help("sort the stations by time"));
            return None;
        }
        last = Some((depart, span(&v.depart)));
        out.push(Presence { name, arrive, depart, class: report.read(&v.class), rows: Vec::new() });
    }
    Some(out)
}

/// Repeats the stays until the end of the scenario; reports an error and returns `None` if they cannot be repeated.
fn looped(
    mut stays: Vec<Presence>,
    c: &TomlCoverage,
    here: Range<usize>,
    duration: Time,
    repeated: &mut u64,
    report: &mut Problems,
) -> Option<Vec<Presence>> {
    let Some(repeat) = report.read(&c.repeat) else {
        stays.retain(|s| s.arrive <= duration);
        return Some(stays);
    };
    let end = stays.last().map_or(Time::ZERO, |s| s.depart);
    if repeat < end || repeat.is_zero() {
        let problem = Problem::new(format!("`repeat` must be greater than zero and at least {end}, found {repeat}"));
        report.error(problem.at(span(&c.repeat), "").help("write at least the time to the last departure"));
        return None;
    }
    let lines: usize = stays.iter().map(|s| s.rows.len().max(1)).sum();
    let more = (duration.0 / repeat.0).saturating_mul(lines as u64);
    if repeated.saturating_add(more) > MAX_STAYS {
        let what = if lines > stays.len() { "log lines within stays" } else { "stays" };
        let problem = Problem::new(format!("all coverage together has more than {MAX_STAYS} {what}")).at(here, "");
        report.error(problem.help("make `repeat` longer, or `duration` shorter"));
        return None;
    }
    *repeated += more;
    let once = stays.len();
    let mut shift = repeat;
    while once > 0 && shift <= duration {
        for i in 0..once {
            let s = &stays[i];
            let rows = s.rows.iter().map(|r| LogRow { at: r.at + shift, ..r.clone() }).collect();
            let again = Presence {
                name: s.name.clone(),
                arrive: s.arrive + shift,
                depart: s.depart + shift,
                class: s.class.clone(),
                rows,
            };
            stays.push(again);
        }
        shift += repeat;
    }
    stays.retain(|s| s.arrive <= duration);
    Some(stays)
}

/// Limit on repeated stays, or lines of a log within stays, of all tables together; more would fill the memory.
const MAX_STAYS: u64 = 1_000_000;
