//! `[[coverage]]`: when a vehicle has coverage, from stations and the way between them, a timetable or a log, made into the
//! timeline of a link, what hosts hear of it, and the load of other passengers.
//!
//! Coverage begins on arrival. Layer 2 is associated after `associate` (hosts hear Up), layer 3 configured after `configure`
//! more (Configured), and only then do packets get through. It ends on departure (Down), of which hosts may be warned.

use super::file::{Class, Coverage};
use super::leaf::{At, Leaf};
use super::link::{Load, undirected};
use super::problem::{Problem, Report, suggest};
use super::timeline::{Step, lay, repeated, table};
use super::{FlowSpec, LinkSpec, Stay};
use crate::app::Traffic;
use crate::cc::LinkEvent;
use crate::link::Model;
use crate::link::noise::Noise;
use crate::tcp::TcpConfig;
use crate::units::{Rate, Time};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// When the vehicle is where there is coverage.
struct Presence {
    name: String,
    arrive: Time,
    depart: Time,
    class: Option<String>,
    /// What else a log says, from when on.
    rows: Vec<Row>,
}

/// A line of a log.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    at: Time,
    signal: Option<f64>,
    rate: Option<Rate>,
    delay: Option<Time>,
    loss: Option<f64>,
}

/// Gives the links that have coverage their timelines and news; returns the load of other passengers.
pub(super) fn coverage(
    all: &[At<Coverage>],
    links: &mut [LinkSpec],
    duration: Time,
    load: Load<'_>,
    tcp: &Arc<TcpConfig>,
    report: &mut Report,
) -> Vec<FlowSpec> {
    let mut loads = Vec::new();
    let mut taken: BTreeMap<usize, Range<usize>> = BTreeMap::new();
    for one in all {
        let c = &one.value;
        let here = c.name.as_ref().map_or(one.span.clone(), |n| n.span.clone());
        report.read(&c.name);
        let Some(wanted) = report.read(&c.link) else { continue };
        let Some(l) = links.iter().position(|l| l.name == wanted) else {
            let problem = Problem::new(format!("there is no link `{wanted}`")).at(span(&c.link), "");
            report.error(problem.help(suggest(&wanted, "the links are", links.iter().map(|l| l.name.as_str()))));
            continue;
        };
        if let Some(first) = taken.insert(l, span(&c.link)) {
            let problem = Problem::new(format!("link `{wanted}` has coverage twice"));
            let problem = problem.at(span(&c.link), "the second").at(first, "the first");
            report.error(problem.help("put all stations into one [[coverage]]"));
            continue;
        }
        let (name, between) = (links[l].name.clone(), links[l].between);
        let Model::Pipe(pipe) = &mut links[l].model else {
            let problem = Problem::new(format!("link `{name}` is no pipe, and cannot lose coverage"));
            report.error(problem.at(span(&c.link), "").help("coverage is for links of kind \"pipe\""));
            continue;
        };
        if pipe.forward.timeline.is_some() || pipe.reverse.timeline.is_some() {
            let problem = Problem::new(format!("link `{name}` has a timeline already")).at(span(&c.link), "");
            report.error(problem.help("let either its `timeline` or the coverage say when it is up"));
            continue;
        }
        without_effect(c, report);
        let classes = classes(c, load, report);
        let Some(stays) = stays(c, here.clone(), load, report) else { continue };
        let stays = looped(stays, c, duration, report);
        let lag = report.read(&c.associate).unwrap_or_default();
        let ready = lag + report.read(&c.configure).unwrap_or_default();
        let notice = report.read(&c.notice).unwrap_or_default();
        let warning = report.read(&c.warning);
        let mut steps = vec![Step { up: Some(false), ..Step::default() }];
        let mut news = vec![(Time::ZERO, LinkEvent::Down)];
        let mut used = Vec::new();
        let mut hasty = false;
        for stay in &stays {
            let class = stay.class.as_ref().and_then(|name| classes.get(name));
            let up = stay.arrive + ready;
            let end = Some(stay.depart);
            for row in &stay.rows {
                steps.push(Step {
                    at: row.at,
                    until: end,
                    rate: row.rate,
                    delay: row.delay,
                    noise: row.loss.map(|loss| Noise::Random { loss }),
                    ..Step::default()
                });
                news.extend(row.signal.map(|dbm| (row.at + notice, LinkEvent::Signal(dbm))));
            }
            if up >= stay.depart {
                let warning = Problem::new(format!("coverage at {} is over before it can be used", stay.name));
                report.warn(warning.at(here.clone(), "").help(format!(
                    "it lasts {}, and associating and configuring take {ready}",
                    stay.depart.saturating_sub(stay.arrive)
                )));
                continue;
            }
            let mut step = Step { at: up, until: end, up: Some(true), ..Step::default() };
            if let Some(class) = class {
                (step.rate, step.delay, step.noise) = (class.rate, class.delay, class.noise.clone());
                news.extend(class.signal.map(|dbm| (stay.arrive + notice, LinkEvent::Signal(dbm))));
            }
            steps.push(step);
            used.push(Stay {
                name: stay.name.clone(),
                class: stay.class.clone().unwrap_or_default(),
                from: up,
                until: stay.depart,
            });
            news.push((stay.arrive + lag + notice, LinkEvent::Up));
            news.push((up + notice, LinkEvent::Configured));
            // A warning is said again when it comes true: meanwhile it may have been taken for wrong.
            news.extend(warning.map(|w| (stay.depart.saturating_sub(w), LinkEvent::Down)));
            news.push((stay.depart + notice, LinkEvent::Down));
            if let Some(early) = warning.filter(|w| *w >= stay.depart - up && !hasty) {
                hasty = true;
                let warning = Problem::new(format!("the warning comes before coverage at {} can be used", stay.name));
                report.warn(warning.at(span(&c.warning), "").help(format!(
                    "it lasts {} once layer 3 is configured, and the warning comes {early} before its end",
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
                    tcp: Arc::clone(tcp),
                    sctp: None,
                    cc: String::new(),
                    factory: None,
                    ipv6: false,
                    priority: None,
                });
            }
        }
        if stays.is_empty() {
            let warning = Problem::new(format!("link `{name}` never has coverage")).at(here, "");
            report.warn(warning.help(match c.log {
                Some(_) => "no signal in the log is above the `threshold`: lower it",
                None if c.stations.iter().any(|s| s.value.is_empty()) => "`stations` has none",
                None if c.timetable.iter().any(|t| t.value.is_empty()) => "`timetable` has no station",
                None => "every station comes after the scenario's `duration`",
            }));
        }
        steps.sort_by_key(|s| s.at);
        news.sort_by_key(|n| n.0);
        lay(steps, pipe, duration, one.span.clone(), report);
        (links[l].notices, links[l].stays) = (news, used);
    }
    loads
}

/// Keys that belong to another way of saying when there is coverage.
fn without_effect(c: &Coverage, report: &mut Report) {
    let ways = [("stations", c.stations.is_some()), ("timetable", c.timetable.is_some()), ("log", c.log.is_some())];
    let mut given = ways.iter().filter(|way| way.1).map(|way| way.0);
    let (Some(way), None) = (given.next(), given.next()) else { return }; // reported elsewhere
    let span_of = |leaf: &Option<Leaf<Time>>| leaf.as_ref().map(|l| l.span.clone());
    for (key, place, belongs_to) in [
        ("threshold", c.threshold.as_ref().map(|l| l.span.clone()), &["log"][..]),
        ("hysteresis", c.hysteresis.as_ref().map(|l| l.span.clone()), &["log"]),
        ("classes", c.classes.as_ref().map(|l| l.span.clone()), &["stations", "timetable"]),
        ("dwell", span_of(&c.dwell), &["stations"]),
        ("speed", c.speed.as_ref().map(|l| l.span.clone()), &["stations", "log"]),
    ] {
        if let Some(place) = place.filter(|_| !belongs_to.contains(&way)) {
            let problem = Problem::new(format!("`{key}` has no effect on a coverage with `{way}`")).at(place, "");
            let others = belongs_to.iter().map(|b| format!("`{b}`")).collect::<Vec<_>>().join(" or ");
            report.error(problem.help(format!("it goes with {others}: leave it out")));
        }
    }
}

/// A class as it is used.
struct Resolved {
    rate: Option<Rate>,
    delay: Option<Time>,
    noise: Option<Noise>,
    signal: Option<f64>,
    load: Option<Rate>,
}

fn classes(c: &Coverage, load: Load<'_>, report: &mut Report) -> BTreeMap<String, Resolved> {
    let mut out = BTreeMap::new();
    for (name, class) in c.classes.iter().flat_map(|classes| &classes.value) {
        let k: &Class = &class.value;
        let mut rate = |leaf: &Option<Leaf<Rate>>| {
            let rate = report.read(leaf)?;
            if rate == Rate(0) {
                let problem = Problem::new("a rate of zero lets nothing through").at(span(leaf), "");
                report.error(problem.help("leave the class out of the stations that have no coverage"));
            }
            Some(rate).filter(|r| *r != Rate(0))
        };
        let (rate, load_rate) = (rate(&k.rate), rate(&k.load));
        let resolved = Resolved {
            rate,
            delay: report.read(&k.delay),
            noise: k
                .noise
                .as_ref()
                .map(|n| undirected(n, "leave it out: in a station both directions are alike", load, report)),
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
            let warning = Problem::new(format!("no station is of class `{name}`")).at(class.span.clone(), "unused");
            report.warn(warning.help("name it as the `class` of a station, or leave it out"));
        }
    }
    for leaf in places {
        if let Some(name) = leaf.as_ref().and_then(|l| l.value.as_ref().ok()).filter(|n| !known.contains(&n.as_str())) {
            let problem = Problem::new(format!("there is no class `{name}`")).at(span(leaf), "");
            report.error(problem.help(if known.is_empty() {
                format!("say what it is like: classes.{name} = {{ rate = \"5 Mbit/s\", delay = \"20 ms\" }}")
            } else {
                suggest(name, "the classes are", known.iter().copied())
            }));
        }
    }
    out
}

/// The stays in coverage in order of time; `None` if they cannot be told, which is then reported.
fn stays(c: &Coverage, here: Range<usize>, load: Load<'_>, report: &mut Report) -> Option<Vec<Presence>> {
    let mut problem = |message: &str, help: &str| {
        report.error(Problem::new(message).at(here.clone(), "").help(help));
        None
    };
    match (&c.stations, &c.timetable, &c.log) {
        (Some(_), None, None) => from_stations(c, here, report),
        (None, Some(_), None) => from_timetable(c, report),
        (None, None, Some(_)) => from_log(c, load, report),
        (None, None, None) => problem(
            "this coverage says nothing about when",
            "add `stations` with `speed` and `dwell`, a `timetable`, or a `log`",
        ),
        _ => problem("this coverage says twice when", "keep one of `stations`, `timetable` and `log`"),
    }
}

fn from_stations(c: &Coverage, here: Range<usize>, report: &mut Report) -> Option<Vec<Presence>> {
    for (key, missing, example) in [("speed", c.speed.is_none(), "34.2 km/h"), ("dwell", c.dwell.is_none(), "120 s")] {
        let everywhere = key == "dwell" && c.stations.iter().flat_map(|s| &s.value).all(|s| s.value.dwell.is_some());
        if missing && !everywhere {
            let problem = Problem::new(format!("stations without `{key}`")).at(here.clone(), "");
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
        let arrive = now + Time::from_secs_f64(distance / speed);
        now = arrive + report.read(&s.dwell).unwrap_or(dwell);
        let name = report.read(&s.name).unwrap_or_else(|| format!("station {}", i + 1));
        out.push(Presence { name, arrive, depart: now, class: report.read(&s.class), rows: Vec::new() });
    }
    Some(out)
}

fn from_timetable(c: &Coverage, report: &mut Report) -> Option<Vec<Presence>> {
    let mut out: Vec<Presence> = Vec::new();
    let mut last: Option<(Time, Range<usize>)> = None;
    for (i, visit) in c.timetable.iter().flat_map(|t| &t.value).enumerate() {
        let v = &visit.value;
        let (arrive, depart) = (report.read(&v.arrive)?, report.read(&v.depart)?);
        let name = report.read(&v.name).unwrap_or_else(|| format!("station {}", i + 1));
        if depart <= arrive {
            let problem = Problem::new(format!("the train leaves {name} at {depart}, before it came at {arrive}"));
            report.error(problem.at(span(&v.depart), "").help("`depart` comes after `arrive`"));
            return None;
        }
        if let Some((before, place)) = last.take().filter(|(before, _)| *before > arrive) {
            let problem = Problem::new(format!("{name} is reached at {arrive}, before the last station is left"));
            let problem = problem.at(span(&v.arrive), "this is earlier").at(place, format!("than this, {before}"));
            report.error(problem.help("write the stations in the order in which they are reached"));
            return None;
        }
        last = Some((depart, span(&v.depart)));
        out.push(Presence { name, arrive, depart, class: report.read(&v.class), rows: Vec::new() });
    }
    Some(out)
}

fn from_log(c: &Coverage, load: Load<'_>, report: &mut Report) -> Option<Vec<Presence>> {
    let file = report.read(&c.log)?;
    let speed = report.read(&c.speed).map(|s| s.0);
    let threshold = report.read(&c.threshold).map_or(THRESHOLD_DBM, |t| t.0);
    let hysteresis = report.read(&c.hysteresis).map_or(0.0, |h| h.0);
    let rows = match load(&file).and_then(|text| read_log(&text, speed)) {
        Ok(rows) => rows,
        Err(reason) => {
            let problem = Problem::new(format!("`{file}` cannot be used: {reason}")).at(span(&c.log), "");
            report.error(problem.help(LOG_HELP));
            return None;
        }
    };
    let mut gaps: Vec<Time> = rows.windows(2).map(|w| w[1].at - w[0].at).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied();
    let last_line = rows.last().map_or(Time::ZERO, |row| row.at);
    if let (Some(usual), Some(&longest)) = (usual, gaps.last())
        && longest > usual * GAP
    {
        let after = rows.windows(2).find(|w| w[1].at - w[0].at == longest).map_or(Time::ZERO, |w| w[0].at);
        let warning = Problem::new(format!("`{file}` has a gap of {longest} after {after}")).at(span(&c.log), "");
        report.warn(warning.help("what was last measured is taken to hold until the next line"));
    }
    let mut out: Vec<Presence> = Vec::new();
    let mut covered = false;
    for row in rows {
        let strong = match row.signal {
            Some(dbm) if covered => dbm > threshold,
            Some(dbm) => dbm > threshold + hysteresis,
            None => true,
        };
        let was = std::mem::replace(&mut covered, strong && row.rate != Some(Rate(0)));
        match (was, covered) {
            (false, true) => out.push(Presence {
                name: format!("{}", row.at),
                arrive: row.at,
                depart: Time::MAX,
                class: None,
                rows: vec![row],
            }),
            (true, true) => out.last_mut()?.rows.push(row),
            (true, false) => out.last_mut()?.depart = row.at,
            (false, false) => {}
        }
    }
    if let Some(last) = out.last_mut().filter(|s| s.depart == Time::MAX) {
        // What was measured last holds as long as others did, or until the loop closes.
        let until = last_line + usual.unwrap_or(Time::from_secs(1));
        last.depart = report.read(&c.repeat).filter(|repeat| *repeat > last_line).unwrap_or(until);
        let warning = Problem::new(format!("`{file}` ends within coverage, at {last_line}")).at(span(&c.log), "");
        report.warn(warning.help(format!("coverage is taken to end at {}", last.depart)));
    }
    Some(out)
}

/// The same again and again, until the scenario is over.
fn looped(mut stays: Vec<Presence>, c: &Coverage, duration: Time, report: &mut Report) -> Vec<Presence> {
    let Some(repeat) = report.read(&c.repeat) else {
        stays.retain(|s| s.arrive <= duration);
        return stays;
    };
    let end = stays.last().map_or(Time::ZERO, |s| s.depart);
    if repeat < end || repeat.is_zero() {
        let problem = Problem::new(format!("the loop takes {end}, but begins again after {repeat}"));
        report.error(problem.at(span(&c.repeat), "").help("`repeat` is at least the time to the last departure"));
        return stays;
    }
    let once = stays.len();
    let mut shift = repeat;
    while once > 0 && shift <= duration && stays.len() < MOST_STAYS {
        for i in 0..once {
            let s = &stays[i];
            let rows = s.rows.iter().map(|r| Row { at: r.at + shift, ..r.clone() }).collect();
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
    stays
}

/// Reads a log of what a vehicle measured; by position it needs the `speed`.
fn read_log(text: &str, speed: Option<f64>) -> Result<Vec<Row>, String> {
    let (columns, lines) = table(text, &COLUMNS)?;
    if let Some(twice) = repeated(&columns) {
        return Err(format!("it has the column `{twice}` twice"));
    }
    let scale = match (columns.contains(&"time_s"), columns.contains(&"position_m"), speed) {
        (true, false, _) => 1.0,
        (false, true, Some(speed)) => 1.0 / speed,
        (false, true, None) => return Err("it goes by position, which needs a `speed`".into()),
        _ => return Err("it needs either a column `time_s` or a column `position_m`".into()),
    };
    let mut out: Vec<Row> = Vec::new();
    for (number, line) in lines {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != columns.len() || fields.iter().any(|f| f.is_empty()) {
            return Err(format!("line {number} has a gap: {} columns are wanted", columns.len()));
        }
        let mut row = Row::default();
        for (column, field) in columns.iter().zip(&fields) {
            let x: f64 = field.parse().map_err(|_| format!("line {number}: `{field}` is not a number"))?;
            let (least, most) = match *column {
                "time_s" | "position_m" => (0.0, LATEST_S / scale),
                "signal_dbm" => (-200.0, 100.0),
                "rate_mbps" => (0.0, 1e7),
                "delay_ms" => (0.0, 86_400_000.0),
                _ => (0.0, f64::MAX),
            };
            if !(least..=most).contains(&x) {
                return Err(format!("line {number}: {column} = {field} is out of range"));
            }
            match *column {
                "time_s" | "position_m" => row.at = Time::from_secs_f64(x * scale),
                "signal_dbm" => row.signal = Some(x),
                "rate_mbps" => row.rate = Some(Rate((x * 1e6) as u64)),
                "delay_ms" => row.delay = Some(Time::from_secs_f64(x / 1e3)),
                _ if x > 1.0 => return Err(format!("line {number}: a loss of {field} is more than 1")),
                _ => row.loss = Some(x),
            }
        }
        if let Some(last) = out.last().filter(|last| last.at >= row.at) {
            return Err(format!("line {number}: time goes from {} to {}", last.at, row.at));
        }
        out.push(row);
    }
    if out.is_empty() { Err("it has a heading and nothing else".into()) } else { Ok(out) }
}

fn span<T>(leaf: &Option<Leaf<T>>) -> Range<usize> {
    leaf.as_ref().map_or(0..0, |leaf| leaf.span.clone())
}

const COLUMNS: [&str; 6] = ["time_s", "position_m", "signal_dbm", "rate_mbps", "delay_ms", "loss"];
const LOG_HELP: &str =
    "the first line names the columns: time_s or position_m, and any of signal_dbm, rate_mbps, delay_ms, loss";
/// What a Wi-Fi card still holds a connection at; the AVOCA paper has a threshold, but no value.
const THRESHOLD_DBM: f64 = -80.0;
/// So many times the usual distance between lines is a gap.
const GAP: u64 = 10;
/// Thirty years.
const LATEST_S: f64 = 1e9;
const MOST_STAYS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_by_position_goes_by_speed() {
        let rows = read_log("\u{feff}position_m,signal_dbm,loss\n0,-60,0.01\n95,-90,0.5\n", Some(9.5)).unwrap();
        assert_eq!((rows[1].at, rows[1].signal, rows[1].loss), (Time::from_secs(10), Some(-90.0), Some(0.5)));
    }

    #[test]
    fn logs_that_make_no_sense_are_refused_with_their_line() {
        for (bad, said) in [
            ("", "empty"),
            ("time_s\n", "nothing else"),
            ("signal_dbm\n-60\n", "either a column"),
            ("position_m\n5\n", "needs a `speed`"),
            ("time_s,signal_dbm\n0,-60\n1,\n", "line 3 has a gap"),
            ("time_s,signal_dbm\n5,-60\n4,-60\n", "line 3: time goes from 5 s to 4 s"),
            ("time_s,signal_dbm\n-5,-60\n", "line 2: time_s = -5 is out of range"),
            ("time_s,loss\n5,7\n", "line 2: a loss of 7"),
            ("time_s,rssi\n5,7\n", "no column `rssi`"),
            ("time_s,loss,loss\n5,0,0\n", "the column `loss` twice"),
            ("time_s,signal_dbm\n0,5000\n", "line 2: signal_dbm = 5000 is out of range"),
            ("time_s,signal_dbm\n0,-60\n1e300,-60\n", "line 3: time_s = 1e300 is out of range"),
            ("time_s,signal_dbm\n0,NaN\n", "line 2: signal_dbm = NaN is out of range"),
        ] {
            let reason = read_log(bad, None).unwrap_err();
            assert!(reason.contains(said), "{bad:?}: {reason}");
        }
    }
}
