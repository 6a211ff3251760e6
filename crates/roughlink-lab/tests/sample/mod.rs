//! Invented results for testing reports, none simulated: shapes of the V2G paper, its quoted numbers, and noise.

use roughlink_lab::experiment::place::CellPlace;
use roughlink_lab::experiment::result::*;

const CCS: [(&str, &str, f64); 10] = [
    ("newreno", "NewReno", 0.485),
    ("hybla", "Hybla", 0.947),
    ("highspeed", "HighSpeed", 0.968),
    ("htcp", "H-TCP", 0.506),
    ("vegas", "Vegas", 0.765),
    ("scalable", "Scalable", 1.396),
    ("veno", "Veno", 0.544),
    ("bic", "BIC", 0.755),
    ("illinois", "Illinois", 2.266),
    ("westwood-classic", "Westwood", 0.471),
];
const OURS: [(&str, &str, f64); 5] = [
    ("newreno", "NewReno", 0.485),
    ("newreno-nd", "NewReno ND", 0.72),
    ("newreno-sc", "NewReno SC", 2.6),
    ("illinois", "Illinois", 2.266),
    ("illinois-aa", "Illinois AA", 3.2),
];
const LOSSES: [f64; 8] = [0.0, 0.25, 0.5, 1.0, 1.25, 2.5, 3.75, 5.0];

/// A small generator of noise with the same numbers on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }
}

fn map(pairs: &[(&str, &str)]) -> CellPlace {
    pairs.iter().copied().collect()
}

fn axis(name: &str, label: &str, values: Vec<(String, String, Option<f64>)>) -> AxisResult {
    let values = values.into_iter().map(|(value, label, number)| AxisValue { value, label, number }).collect();
    AxisResult { name: name.into(), label: label.into(), values, narrowed: false }
}

fn cc_axis(of: &[(&str, &str, f64)]) -> AxisResult {
    axis("cc", "Congestion control", of.iter().map(|c| (c.0.into(), c.1.into(), None)).collect())
}

fn quantities(name: &str, label: &str, numbers: &[f64], unit: &str) -> AxisResult {
    let value = |n: &f64| (format!("{n} {unit}"), format!("{n} {unit}"), Some(*n));
    axis(name, label, numbers.iter().map(value).collect())
}

fn throughput() -> MetricResult {
    MetricResult { name: "throughput_mbps".into(), label: "Throughput".into(), unit: "Mbit/s".into() }
}

fn cell(
    stack: &str,
    axes: &[(&str, &str)],
    metric: &str,
    mean: f64,
    published: Option<f64>,
    noise: &mut Noise,
) -> Cell {
    let samples: Vec<f64> = (0..6).map(|_| mean * (1.0 + 0.2 * noise.next())).collect();
    let measured = samples.iter().sum::<f64>() / 6.0;
    Cell {
        stack: stack.into(),
        axes: map(axes),
        metric: metric.into(),
        published,
        measured: Some(measured),
        ci95: Some(0.05 * mean),
        replicas: 6,
        samples,
        ..Cell::default()
    }
}

fn stacks() -> Vec<String> {
    vec!["ns3".into(), "linux".into()]
}

/// Returns a throughput that falls as `loss` grows: `full` without loss, about `at_five` at 5 %.
fn falling(at_five: f64, loss: f64, full: f64) -> f64 {
    let scale = at_five * 5.0;
    full * scale / (scale + full * loss)
}

fn table2(noise: &mut Noise) -> ExperimentResult {
    let sizes = [10.0, 50.0, 100.0, 200.0, 400.0, 600.0, 800.0];
    let mut cells = Vec::new();
    for stack in stacks() {
        for size in sizes {
            for (cc, _, value) in CCS {
                let gain = if stack == "linux" { 2.4 - 0.5 * value } else { 1.0 };
                let gain = if cc == "vegas" && stack == "ns3" { 0.55 } else { gain };
                let at = [("cc", cc), ("bytes", &*format!("{size} MB"))];
                cells.push(cell(&stack, &at, "throughput_mbps", value * gain, Some(value), noise));
            }
        }
    }
    ExperimentResult {
        experiment: "v2g/table2".into(),
        title: "Throughput at 5 % loss, by transfer size".into(),
        place: "Table 2".into(),
        about: "A single car. The loss rate is read as an average: a burst starts at 2 % of the packets.\n\n\
                Full segments travel as two IP fragments on the ns3 stack and whole on linux."
            .into(),
        command: "roughlink reproduce v2g table2 --stack ns3,linux".into(),
        scenario: "v2g-single.toml".into(),
        stacks: stacks(),
        axes: vec![quantities("bytes", "Transfer size", &sizes, "MB"), cc_axis(&CCS)],
        metrics: vec![throughput()],
        figure: Figure { kind: FigureKind::Grouped, x: "bytes".into(), series: "cc".into(), ..Figure::default() },
        cells,
        ranks: stacks()
            .into_iter()
            .map(|stack| Rank {
                spearman: if stack == "ns3" { 0.952 } else { 0.61 },
                stack,
                at: map(&[("bytes", "100 MB")]),
                over: "cc".into(),
                metric: "throughput_mbps".into(),
                n: 10,
            })
            .collect(),
        ..ExperimentResult::default()
    }
}

fn losses(
    id: &str,
    title: &str,
    place: &str,
    of: &[(&str, &str, f64)],
    full: f64,
    noise: &mut Noise,
) -> ExperimentResult {
    let mut cells = Vec::new();
    for stack in stacks() {
        for loss in LOSSES {
            for (cc, _, value) in of {
                let gain = if stack == "linux" { 2.2 - 0.3 * value } else { 1.0 };
                let published = match (loss, *cc) {
                    (0.25, "newreno") => Some(7.526 * full / 9.5),
                    (0.25, "illinois") => Some(9.323 * full / 9.5),
                    (5.0, _) if id.ends_with("fig4") => Some(*value),
                    (5.0, "newreno" | "illinois") => Some(*value),
                    _ => None,
                };
                let at = [("cc", *cc), ("loss", &*format!("{loss} %"))];
                let mean = falling(value * gain, loss, full);
                cells.push(cell(&stack, &at, "throughput_mbps", mean, published, noise));
            }
        }
    }
    ExperimentResult {
        experiment: id.into(),
        title: title.into(),
        place: place.into(),
        about: "100 MB to each car.".into(),
        command: format!("roughlink reproduce {} --stack ns3,linux", id.replace('/', " ")),
        scenario: "v2g-single.toml".into(),
        stacks: stacks(),
        axes: vec![quantities("loss", "Average loss rate", &LOSSES, "%"), cc_axis(of)],
        metrics: vec![throughput()],
        figure: Figure { x: "loss".into(), series: "cc".into(), ..Figure::default() },
        cells,
        ..ExperimentResult::default()
    }
}

fn events(noise: &mut Noise) -> ExperimentResult {
    let two = [CCS[0], CCS[8]];
    let metric =
        |name: &str, label: &str| MetricResult { name: name.into(), label: label.into(), unit: "events".into() };
    let mut cells = Vec::new();
    for stack in stacks() {
        for loss in ["0.25 %", "1 %", "5 %"] {
            for (cc, _, _) in two {
                let base = if loss == "5 %" { 2400.0 } else { 400.0 } * if cc == "newreno" { 1.6 } else { 1.0 };
                let share = if cc == "newreno" { 0.5 } else { 0.12 } * if stack == "linux" { 0.3 } else { 1.0 };
                let at = [("cc", cc), ("loss", loss)];
                cells.push(cell(&stack, &at, "slow_starts", base * share, None, noise));
                cells.push(cell(&stack, &at, "fast_recoveries", base, None, noise));
            }
        }
    }
    ExperimentResult {
        experiment: "v2g/fig8".into(),
        title: "Slow-start and fast-recovery events".into(),
        place: "Figure 8a".into(),
        command: "roughlink reproduce v2g fig8 --stack ns3,linux".into(),
        stacks: stacks(),
        axes: vec![quantities("loss", "Average loss rate", &[0.25, 1.0, 5.0], "%"), cc_axis(&two)],
        metrics: vec![metric("slow_starts", "Slow starts"), metric("fast_recoveries", "Fast recoveries")],
        figure: Figure {
            kind: FigureKind::Grouped,
            x: "loss".into(),
            series: "cc".into(),
            panels: "metric".into(),
            ..Figure::default()
        },
        cells,
        ..ExperimentResult::default()
    }
}

fn progress(noise: &mut Noise) -> ExperimentResult {
    let mut curves = Vec::new();
    for stack in stacks() {
        for (cc, label, value) in CCS {
            let (mut sum, mut y) = (0.0, Vec::new());
            for _ in 0..=600 {
                y.push(Some(sum));
                sum += (value * if stack == "linux" { 1.8 } else { 1.0 } / 8.0 * 0.1 * (1.0 + 3.0 * noise.next()))
                    .max(0.0);
            }
            curves.push(Curve {
                stack: stack.clone(),
                axes: map(&[("cc", cc)]),
                label: label.into(),
                metric: "sequence_mb".into(),
                replica: Some(0),
                x: (0..=600).map(|i| f64::from(i) / 10.0).collect(),
                y,
                ..Curve::default()
            });
        }
    }
    ExperimentResult {
        experiment: "v2g/fig7".into(),
        title: "Sequence numbers in the first minute at 5 % loss".into(),
        place: "Figure 7".into(),
        command: "roughlink reproduce v2g fig7 --stack ns3,linux".into(),
        stacks: stacks(),
        axes: vec![cc_axis(&CCS)],
        metrics: vec![MetricResult { name: "sequence_mb".into(), label: "Sequence number".into(), unit: "MB".into() }],
        figure: Figure { kind: FigureKind::Time, series: "cc".into(), x_label: "Time (s)".into(), ..Figure::default() },
        curves,
        ..ExperimentResult::default()
    }
}

fn windows(noise: &mut Noise) -> ExperimentResult {
    let four = [OURS[3], OURS[4], OURS[0], OURS[2]];
    let mut curves = Vec::new();
    for stack in stacks() {
        for (cc, label, value) in four {
            let (mut window, mut x, mut y) = (14_600.0, Vec::new(), Vec::new());
            for i in 0..6000 {
                x.push(f64::from(i) / 100.0);
                y.push(Some(window));
                window += 146.0 * value;
                if noise.next() > 0.47 {
                    window = if noise.next() > 0.35 { 1460.0 } else { (window * 0.6).max(value * 5000.0) };
                }
                window = f64::min(window, 80_000.0);
            }
            let axes = map(&[("cc", cc)]);
            let metric = "cwnd_bytes".into();
            curves.push(Curve {
                stack: stack.clone(),
                axes,
                label: label.into(),
                metric,
                replica: Some(0),
                x,
                y,
                ..Curve::default()
            });
        }
    }
    ExperimentResult {
        experiment: "v2g/fig12".into(),
        title: "Congestion windows of four variants, 21 cars".into(),
        place: "Figure 12".into(),
        command: "roughlink reproduce v2g fig12 --stack ns3,linux".into(),
        stacks: stacks(),
        axes: vec![cc_axis(&four)],
        metrics: vec![MetricResult { name: "cwnd_bytes".into(), label: "Congestion window".into(), unit: "B".into() }],
        figure: Figure { kind: FigureKind::Time, series: "cc".into(), ..Figure::default() },
        curves,
        ..ExperimentResult::default()
    }
}

fn functions() -> ExperimentResult {
    let mut curves = Vec::new();
    for (cc, label, alpha, beta) in [
        ("newreno", "NewReno", [1.0, 1.0], [0.5, 0.5]),
        ("illinois", "Illinois", [10.0, 0.3], [0.125, 0.5]),
        ("illinois-aa", "Illinois AA", [11.0, 1.0], [0.025, 0.5]),
    ] {
        let x: Vec<f64> = (0..=100).map(|i| f64::from(i) / 100.0).collect();
        let hyperbola = |d: f64| {
            let [max, min] = alpha;
            let k2 = if max > min { (0.99 * min) / (max - min) - 0.01 } else { 1.0 };
            if d <= 0.01 || max == min { max } else { max * (k2 + 0.01) / (k2 + d) }
        };
        let line = |d: f64| beta[0] + (beta[1] - beta[0]) * ((d - 0.1) / 0.7).clamp(0.0, 1.0);
        for metric in ["alpha", "beta"] {
            let y = x.iter().map(|&d| Some(if metric == "alpha" { hyperbola(d) } else { line(d) })).collect();
            let axes = map(&[("cc", cc)]);
            curves.push(Curve {
                axes,
                label: label.into(),
                metric: metric.into(),
                x: x.clone(),
                y,
                ..Curve::default()
            });
        }
    }
    let metric = |name: &str, label: &str| MetricResult { name: name.into(), label: label.into(), unit: String::new() };
    ExperimentResult {
        experiment: "v2g/fig9".into(),
        title: "Increase and decrease of Illinois against delay".into(),
        place: "Figures 9 and 10".into(),
        command: "roughlink reproduce v2g fig9".into(),
        metrics: vec![metric("alpha", "alpha, segments per round trip"), metric("beta", "beta, share given up")],
        figure: Figure {
            kind: FigureKind::Function,
            series: "cc".into(),
            x_label: "Queueing delay over its maximum".into(),
            ..Figure::default()
        },
        curves,
        ..ExperimentResult::default()
    }
}

fn claims() -> Vec<ClaimResult> {
    let claim =
        |id: &str, text: &str, place: &str, published: Option<f64>, unit: &str, on: &[(f64, bool)], reason: &str| {
            ClaimResult {
                claim: format!("v2g/{id}"),
                text: text.into(),
                place: place.into(),
                origin: if id == "aa" { Origin::Ours } else { Origin::Paper },
                published,
                unit: unit.into(),
                criterion: "the sign is the same and the figure within a third".into(),
                experiments: vec!["v2g/fig4".into()],
                verdicts: stacks()
                    .into_iter()
                    .zip(on)
                    .map(|(stack, (measured, confirmed))| Verdict {
                        reason: if stack == "linux" { reason.into() } else { String::new() },
                        stack,
                        verdict: if *confirmed { ClaimOutcome::Confirmed } else { ClaimOutcome::NotConfirmed },
                        measured: Some(*measured),
                        interval: Some([measured * 0.96, measured * 1.04]),
                        evidence: "NewReno 0.46, Illinois 1.9 Mbit/s at 5 %".into(),
                        ..Verdict::default()
                    })
                    .collect(),
            }
        };
    let mut untested = claim("no-harm", "The changes cost nothing on a clean link", "Section 5", None, "", &[], "");
    untested.verdicts = vec![];
    vec![
        claim(
            "gain",
            "Illinois carries more than NewReno at 0.25 % loss",
            "Section 3.1",
            Some(23.0),
            "%",
            &[(21.4, true), (2.0, false)],
            "Counting bytes instead of ACKs, NewReno grows twice as fast and fills the link at this loss",
        ),
        claim(
            "gain-5",
            "Illinois carries several times what NewReno does at 5 % loss",
            "Section 3.1",
            Some(3.7),
            "ratio",
            &[(3.4, true), (1.6, false)],
            "Without fragments a segment is lost half as often, and RACK repairs what would be a time-out",
        ),
        claim(
            "aa",
            "Illinois AA gains on Illinois at 5 % loss",
            "Section 5",
            Some(41.0),
            "%",
            &[(12.0, false), (35.0, true)],
            "",
        ),
        untested,
    ]
}

/// Returns an invented report of the whole paper.
pub fn paper() -> ReportInput {
    let mut noise = Noise(7);
    let single = "Throughput against loss, one car";
    let many = "Throughput per car against loss, 21 cars";
    let per_car: Vec<(&str, &str, f64)> = CCS.iter().map(|c| (c.0, c.1, c.2 * 0.64)).collect();
    ReportInput {
        title: "V2G TCP over a noisy charging cable, recomputed".into(),
        intro: "Made-up numbers for looking at a report: nothing here was simulated.\n\n\
                Which TCP gets how much through the cable that charges a car, beside what was published."
            .into(),
        command: "roughlink reproduce v2g --stack ns3,linux -o results".into(),
        facts: [("Version", "0.1.0"), ("Made", "2025-01-01 12:00 UTC"), ("Seed", "1"), ("Replicas", "6")]
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .into(),
        experiments: vec![
            table2(&mut noise),
            losses("v2g/fig4", single, "Figure 4", &CCS, 9.5, &mut noise),
            losses("v2g/fig6", many, "Figure 6", &per_car, 3.16, &mut noise),
            progress(&mut noise),
            events(&mut noise),
            functions(),
            losses("v2g/fig11a", "The proposed variants, one car", "Figure 11a", &OURS, 9.5, &mut noise),
            windows(&mut noise),
        ],
        claims: claims(),
        summary: Some(PaperSummary {
            conclusion: "A sentence about made-up numbers, which no reader should take home.".into(),
            picture: "v2g/fig4".into(),
            linux: Some(Choice {
                experiment: "v2g/fig4".into(),
                axis: "cc".into(),
                shipped: CCS.iter().map(|c| c.0.to_string()).filter(|cc| cc != "westwood-classic").collect(),
                note: "Whatever is at hand.".into(),
                ..Choice::default()
            }),
        }),
    }
}

/// Returns a user's own sweep: three axes, one stack, nothing published, and names that contain markup.
pub fn own() -> ReportInput {
    let mut noise = Noise(11);
    let hostile = "</script><script>document.title='broken'</script>";
    let ccs = [("cubic", "cubic", 4.0), ("bbr", "bbr", 8.0), (hostile, hostile, 2.0)];
    let (delays, queues) = ([1.0, 10.0, 100.0], ["20 pkt", "100 pkt"]);
    let mut cells = Vec::new();
    for delay in delays {
        for queue in queues {
            for (cc, _, value) in ccs {
                let at = [("flow.0.cc", cc), ("link.plc.delay", &*format!("{delay} ms")), ("link.plc.queue", queue)];
                let mean = value * 10.0 / (10.0 + libm::sqrt(delay));
                cells.push(cell("linux", &at, "throughput_mbps", mean, None, &mut noise));
                cells.push(cell("linux", &at, "rtt_p95_ms", delay * 2.3, None, &mut noise));
            }
        }
    }
    cells[3].measured = None;
    let queue = queues.iter().map(|q| (q.to_string(), q.to_string(), None)).collect();
    let mut cc = cc_axis(&ccs);
    cc.name = "flow.0.cc".into();
    let rtt =
        MetricResult { name: "rtt_p95_ms".into(), label: "Round trip, 95th percentile".into(), unit: "ms".into() };
    let sweep = ExperimentResult {
        experiment: "sweep".into(),
        title: "Delay and queue".into(),
        command: "roughlink sweep cable.toml --set 'link.plc.delay=1 ms,10 ms,100 ms' --set 'flow.0.cc=cubic,bbr'"
            .into(),
        scenario: "cable.toml".into(),
        stacks: vec!["linux".into()],
        axes: vec![
            quantities("link.plc.delay", "link.plc.delay", &delays, "ms"),
            axis("link.plc.queue", "link.plc.queue", queue),
            cc,
        ],
        metrics: vec![throughput(), rtt],
        cells,
        ..ExperimentResult::default()
    };
    let mut compare = sweep.clone();
    compare.experiment = "compare".into();
    compare.title = "Three algorithms".into();
    compare.axes.drain(..2);
    compare
        .cells
        .retain(|c| c.axes.get("link.plc.delay") == Some("10 ms") && c.axes.get("link.plc.queue") == Some("100 pkt"));
    compare.cells.iter_mut().for_each(|c| c.axes = c.axes.without("link.plc.delay").without("link.plc.queue"));
    compare.figure.panels = "metric".into();
    ReportInput {
        title: format!("My sweep {hostile}"),
        intro: "A & B < C".into(),
        command: "roughlink report out/".into(),
        experiments: vec![sweep, compare, ExperimentResult { title: "Nothing yet".into(), ..Default::default() }],
        ..ReportInput::default()
    }
}
