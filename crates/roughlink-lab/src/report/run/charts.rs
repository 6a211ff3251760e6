//! The charts of a run. Charts without curves and curves that never change are omitted.

use super::answer::flows_of_kind;
use super::seconds;
use crate::folder::curves::{LinkDirection, united};
use crate::folder::run::SingleRun;
use crate::quantity::{self, Quantity};
use crate::report::html::rounded;
use crate::report::panel::{Drawing, Panel};
use crate::report::slots::{SeriesStyle, Slots};
use crate::report::thin::CurvePoint;
use serde_json::{Value, json};

/// Maximum number of queues to draw, and the length in packets that a queue must reach to be drawn.
const MAX_QUEUES: usize = 4;
const A_QUEUE: f64 = 3.0;
/// Maximum number of flows to draw and of outages to shade.
const MAX_FLOWS: usize = 30;
const MAX_SHADES: usize = 300;

/// A section of the page: charts with one legend.
pub(super) struct Section {
    pub id: &'static str,
    pub title: String,
    pub about: String,
    /// Meaning of the shaded times; empty if there are none.
    pub shaded: String,
    pub drawing: Drawing,
}

pub(super) struct Chart<'a> {
    /// Start and end of the time axis, s; the whole run if absent.
    span: Option<(f64, f64)>,
    caption: String,
    /// Caption of the y axis.
    y: &'a str,
    curves: Vec<(String, &'a [CurvePoint])>,
    /// Ends of the y axis, if they differ from the range of the curves.
    range: Option<(f64, f64)>,
}

impl<'a> Chart<'a> {
    pub(super) fn new(caption: &str, y: &'a str, curves: impl Iterator<Item = (String, &'a [CurvePoint])>) -> Self {
        let drawn = |points: &[CurvePoint]| points.iter().filter(|p| p.1.is_some()).count() > 1;
        Chart { caption: caption.into(), y, curves: curves.filter(|c| drawn(c.1)).collect(), range: None, span: None }
    }

    /// Shows only the time of its curves.
    pub(super) fn close_up(self) -> Self {
        let times = || self.curves.iter().flat_map(|curve| curve.1).map(|point| point.0);
        Chart { span: times().reduce(f64::min).zip(times().reduce(f64::max)), ..self }
    }

    fn from_quantity(quantity: Quantity, curves: impl Iterator<Item = (String, &'a [CurvePoint])>) -> Self {
        Chart::new(quantity.label, quantity.unit, curves)
    }
}

/// Returns the sections, the most important first.
pub(super) fn sections(run: &SingleRun) -> Vec<Section> {
    [calls(run), throughput(run), gateways(run), queues(run), senders(run), round_trips(run)]
        .into_iter()
        .flatten()
        .collect()
}

fn calls(run: &SingleRun) -> Option<Section> {
    let mut curves: Vec<(String, [Vec<CurvePoint>; 2])> = Vec::new();
    for f in flows_of_kind(run, "voip") {
        for (end, v) in ["", ", near end"].into_iter().zip(f.voip().into_iter().flatten()) {
            let windows = &v.windows;
            let [first, second, ..] = windows.as_slice() else { continue };
            let length = second.start_s - first.start_s;
            let over_time = |value: fn(&roughlink_core::app::voip::VoipWindow) -> f64| {
                let mut points: Vec<CurvePoint> = windows.iter().map(|w| (w.start_s, Some(value(w)))).collect();
                points.extend(windows.last().map(|w| ((w.start_s + length).min(run.result.sim_s), Some(value(w)))));
                points
            };
            curves.push((format!("{}{end}", f.name), [over_time(|w| w.mos), over_time(|w| w.r)]));
        }
    }
    let of = |i: usize| curves.iter().take(MAX_FLOWS).map(move |(name, both)| (name.clone(), both[i].as_slice()));
    let mos = Chart { range: Some((0.9, 4.7)), ..Chart::new("Mean opinion score", "MOS", of(0)) };
    let r = Chart { range: Some((-2.0, 102.0)), ..Chart::new("Transmission rating", "R", of(1)) };
    let about = "Rating of each window of the call. Users are satisfied from R = 80 (ITU-T G.109).";
    over_time(run, "calls", "Calls over time", about, vec![mos, r])
}

fn throughput(run: &SingleRun) -> Option<Section> {
    let transfers = flows_of_kind(run, "bulk");
    let is_transfer = |name: &str| transfers.iter().any(|f| f.name == name);
    let all = run.flows.iter().filter(|c| is_transfer(&c.flow));
    let curves = all.clone().take(MAX_FLOWS);
    let step = curves.clone().flat_map(|c| c.throughput_mbps.windows(2)).map(|w| w[1].0 - w[0].0).fold(0.0, f64::max);
    let about =
        format!("Payload that reached the application, mean over {} s.{}", seconds(step), first_of(all.count()));
    let curves = curves.map(|c| (c.flow.clone(), c.throughput_mbps.as_slice()));
    let mut section =
        over_time(run, "throughput", "Throughput over time", &about, vec![Chart::new("", "Mbit/s", curves)])?;
    section.drawing.wide = true;
    Some(section)
}

fn gateways(run: &SingleRun) -> Option<Section> {
    let several = run.result.gateways.len() > 1;
    let name = |gateway: &str, flow: &str| if several { format!("{gateway}: {flow}") } else { flow.to_owned() };
    let windows = run.allowed.iter().take(MAX_FLOWS).map(|a| (name(&a.gateway, &a.flow), a.awnd_sdu.as_slice()));
    let mut section = over_time(
        run,
        "gateways",
        "Windows allowed by the gateway",
        first_of(run.allowed.len()).trim(),
        vec![Chart::new("", "SDU", windows)],
    )?;
    section.drawing.wide = true;
    Some(section)
}

fn queues(run: &SingleRun) -> Option<Section> {
    let mean = |d: &LinkDirection| {
        let link = run.result.links.iter().find(|l| l.name == d.link);
        link.map_or(0.0, |l| if d.reverse { l.reverse.queue_mean_pkt } else { l.forward.queue_mean_pkt })
    };
    let is_one = |points: &[CurvePoint]| points.iter().any(|p| p.1.is_some_and(|v| v >= A_QUEUE));
    let mut longest: Vec<&(LinkDirection, Vec<CurvePoint>)> =
        run.queues.iter().filter(|(_, points)| is_one(points)).collect();
    longest.sort_by(|a, b| mean(&b.0).total_cmp(&mean(&a.0)));
    let left_out = longest.len().saturating_sub(MAX_QUEUES);
    longest.truncate(MAX_QUEUES);
    let curves = longest.into_iter().map(|(direction, points)| {
        (format!("{}{}", direction.link, if direction.reverse { ", reverse" } else { "" }), points.as_slice())
    });
    let about = match left_out {
        0 => String::new(),
        n => format!("The {MAX_QUEUES} queues with the highest mean; packets also waited in {n} others."),
    };
    let mut section = over_time(run, "queues", "Queues", &about, vec![Chart::new("", "Packets waiting", curves)])?;
    section.drawing.wide = true;
    Some(section)
}

fn senders(run: &SingleRun) -> Option<Section> {
    let flows = || run.flows.iter().take(MAX_FLOWS);
    let charts = vec![
        Chart::from_quantity(
            const { quantity::named("cwnd_kb") },
            flows().map(|c| (c.flow.clone(), c.cwnd_kb.as_slice())),
        ),
        Chart::from_quantity(
            const { quantity::named("in_flight_kb") },
            flows().map(|c| (c.flow.clone(), c.in_flight_kb.as_slice())),
        ),
        Chart::from_quantity(
            const { quantity::named("ssthresh_kb") },
            flows().map(|c| (c.flow.clone(), c.ssthresh_kb.as_slice())),
        ),
        Chart::from_quantity(
            const { quantity::named("srtt_ms") },
            flows().map(|c| (c.flow.clone(), c.srtt_ms.as_slice())),
        ),
    ];
    let mut section = over_time(run, "senders", "Senders", first_of(run.flows.len()).trim(), charts)?;
    let sampled = run.manifest.as_ref().map_or(0.0, |m| m.sample_ms);
    let rows = if sampled > 0.0 { format!("a row every {} ms", super::three(sampled)) } else { "all values".into() };
    section.drawing.note = format!(
        "A value holds until the next one. The chart shows the first, lowest, highest and last value of every {}; \
         flows.parquet has {rows}.",
        match run.result.sim_s / run.stretches as f64 {
            s if s < 1.0 => format!("{} ms", super::three(s * 1e3)),
            s => format!("{} s", super::three(s)),
        }
    );
    Some(section)
}

fn round_trips(run: &SingleRun) -> Option<Section> {
    let measured = run.flows.iter().filter(|c| c.rtt_cdf.len() > 1).count();
    let curves: Vec<(String, Vec<CurvePoint>)> = run
        .flows
        .iter()
        .filter(|c| c.rtt_cdf.len() > 1)
        .take(MAX_FLOWS)
        .map(|c| (c.flow.clone(), c.rtt_cdf.iter().map(|&(ms, share)| (ms, Some(share))).collect()))
        .collect();
    let values = || curves.iter().flat_map(|c| &c.1).map(|p| p.0);
    let (low, high) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
    if low <= 0.0 || low >= high {
        return None;
    }
    let x = if high > 20.0 * low {
        let (low, high) = (libm::log10(low) - 0.02, libm::log10(high) + 0.02);
        json!({"title": "Round-trip time (ms)", "type": "log", "range": [rounded(low), rounded(high)]})
    } else {
        json!({"title": "Round-trip time (ms)", "type": "linear", "range": [0, rounded(high * 1.03)]})
    };
    let chart = Chart {
        range: Some((-0.02, 1.03)),
        ..Chart::new("", "Share of samples", curves.iter().map(|(name, points)| (name.clone(), points.as_slice())))
    };
    let drawing = drawing(vec![chart], &x, &[], false)?;
    Some(Section {
        id: "round-trips",
        title: "Round-trip times".into(),
        about: format!("Share of the measured round trips that took at most this time.{}", first_of(measured)),
        shaded: String::new(),
        drawing: Drawing { wide: true, ..drawing },
    })
}

/// Returns a note if not all of `n` flows are drawn.
fn first_of(n: usize) -> String {
    if n > MAX_FLOWS { format!(" The first {MAX_FLOWS} of {n} flows.") } else { String::new() }
}

/// Creates a section of charts over time, all with the same axis and shaded outages.
pub(super) fn over_time(
    run: &SingleRun,
    id: &'static str,
    title: &str,
    about: &str,
    charts: Vec<Chart<'_>>,
) -> Option<Section> {
    let x = json!({"title": "Time (s)", "type": "linear", "range": [0, rounded(run.result.sim_s)]});
    let names: Vec<&str> = run.outages.iter().map(|(link, _)| link.as_str()).collect();
    let mut shades = united(run.outages.iter().flat_map(|(_, spans)| spans.iter().copied()).collect());
    let all = shades.len();
    shades.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
    shades.truncate(MAX_SHADES);
    shades.sort_by(|a, b| a.0.total_cmp(&b.0));
    let some = if all > MAX_SHADES { format!("; the {MAX_SHADES} longest of {all} times") } else { String::new() };
    Some(Section {
        id,
        title: title.into(),
        about: about.into(),
        shaded: match names.as_slice() {
            [] => String::new(),
            [one] => format!("link {one} is down{some}"),
            several => format!("one of the links {} is down{some}", several.join(", ")),
        },
        drawing: drawing(charts, &x, &shades, true)?,
    })
}

/// Creates a drawing; None if there is nothing to draw.
fn drawing(mut charts: Vec<Chart<'_>>, x: &Value, shades: &[(f64, f64)], steps: bool) -> Option<Drawing> {
    charts.retain(|c| !c.curves.is_empty());
    let mut names: Vec<String> = Vec::new();
    for (name, _) in charts.iter().flat_map(|c| &c.curves) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        return None;
    }
    let slots = Slots::default().assign("flow", &names);
    let slot = |name: &str| names.iter().position(|n| n == name).map_or(0, |i| slots[i]);
    let shades: Vec<Value> = shades.iter().map(|(from, to)| json!([rounded(*from), rounded(*to)])).collect();
    let panel = |chart: &Chart<'_>| {
        let highest = chart.curves.iter().flat_map(|c| c.1).filter_map(|p| p.1).fold(0.0, f64::max);
        let (low, high) = chart.range.unwrap_or((0.0, if highest > 0.0 { 1.06 * highest } else { 1.0 }));
        let trace = |(name, points): &(String, &[CurvePoint])| {
            let (x, y): (Vec<Value>, Vec<Value>) =
                points.iter().map(|(x, y)| (rounded(*x), y.map_or(Value::Null, rounded))).unzip();
            json!({"role": "curve", "slot": slot(name), "name": name, "x": x, "y": y, "text": name})
        };
        let mut x = x.clone();
        if let Some((start, end)) = chart.span {
            // A margin keeps the first and the last point off the edges.
            let margin = (end - start).max(0.001) / 50.0;
            x["range"] = json!([rounded(start - margin), rounded(end + margin)]);
        }
        Panel {
            caption: chart.caption.clone(),
            group: String::new(),
            chart: json!({
                "kind": "curve", "dashes": false, "steps": steps, "shades": shades, "x": x,
                "y": {"title": chart.y, "type": "linear", "range": [rounded(low), rounded(high)]},
                "traces": chart.curves.iter().map(trace).collect::<Vec<_>>(),
            }),
            span: None,
            log_span: None,
        }
    };
    Some(Drawing {
        panels: charts.iter().map(panel).collect(),
        series: names.iter().cloned().zip(slots.iter().copied()).collect(),
        form: SeriesStyle::Thin,
        published: false,
        intervals: false,
        wide: false,
        note: String::new(),
    })
}
