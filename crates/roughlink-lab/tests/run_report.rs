//! The report of a single run: its curves match the data, results come first, and nothing appears that the run lacks.

mod common;

use common::{Run, run_text};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use roughlink_core::metrics::RunResult;
use roughlink_core::units::Time;
use roughlink_lab::folder::{self, FolderContent};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::output::Manifest;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

fn shipped(name: &str, overrides: &[(&str, &str)]) -> Run {
    run_text(&ScenarioText::scenario(name).unwrap().text, overrides, |s| (s.capture, s.csv) = (None, false))
}

fn report(dir: &Path) -> String {
    let FolderContent::Run(run) = folder::read(dir).unwrap() else { panic!("not a run") };
    let path = dir.join("report.html");
    roughlink_lab::report::write_run(&path, &run).unwrap();
    fs::read_to_string(path).unwrap()
}

/// Returns the page without the chart library.
fn page(html: &str) -> &str {
    html.split("id=\"library\"").next().unwrap()
}

/// Returns the specifications of the charts of section `id`, with their captions.
fn charts(html: &str, id: &str) -> Vec<(String, Value)> {
    let section = html.split(&format!("<section id=\"{id}\">")).nth(1).expect("no such section");
    let section = section.split("</section>").next().unwrap();
    let figures = section.split("<figure>").skip(1);
    figures
        .map(|figure| {
            let caption = figure.split("<figcaption>").nth(1).map_or("", |t| t.split('<').next().unwrap());
            let spec = figure.split("type=\"application/json\"").nth(1).unwrap().split('>').nth(1).unwrap();
            (caption.to_owned(), serde_json::from_str(spec.split('<').next().unwrap()).unwrap())
        })
        .collect()
}

/// Returns time in s and value of the rows of one column, in the order of the file.
fn rows(path: &Path, column: &str, of: impl Fn(&parquet::record::Row) -> bool) -> Vec<(f64, Option<f64>)> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let names: Vec<String> =
        reader.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
    let i = names.iter().position(|n| n == column).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.filter(|r| of(r))
        .map(|r| {
            let value = r.get_double(i).ok().or_else(|| r.get_long(i).ok().map(|v| v as f64));
            (r.get_long(0).unwrap() as f64 * 1e-9, value)
        })
        .collect()
}

/// Returns the lowest and highest value of a step curve in each of `n` equal parts of the time to `end`. The value at
/// the start of a part counts.
fn extremes(steps: &[(f64, Option<f64>)], end: f64, n: usize) -> Vec<Option<(f64, f64)>> {
    let mut out = vec![None; n];
    let mut add = |part: usize, value: Option<f64>| {
        if let (Some(slot), Some(v)) = (out.get_mut(part), value) {
            let (low, high) = slot.unwrap_or((v, v));
            *slot = Some((v.min(low), v.max(high)));
        }
    };
    let part = |t: f64| ((t / end * n as f64) as usize).min(n - 1);
    for (i, &(t, value)) in steps.iter().enumerate() {
        let until = steps.get(i + 1).map_or(end, |next| next.0);
        for p in part(t)..=part(until) {
            // A value that ends exactly where a part begins is not in that part.
            if p == part(t) || until > end * p as f64 / n as f64 {
                add(p, value);
            }
        }
    }
    out
}

/// In a tunnel the congestion window is one segment for minutes. The chart must show this and every spike in between.
#[test]
fn drawn_extremes_match_the_data() {
    let Run { dir, result } = shipped("train-tunnels", &[("duration", "450 s")]);
    let html = report(dir.path());
    let flows = dir.path().join("flows.parquet");
    let all = rows(&flows, "cwnd_bytes", |_| true);
    assert!(all.len() > 20_000, "{} rows: nothing to thin", all.len());
    let drawn = charts(&html, "senders");
    assert_eq!(
        drawn.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(),
        ["Congestion window", "In flight", "Slow-start threshold", "Smoothed RTT"]
    );
    let columns = [("cwnd_bytes", 1e-3), ("in_flight_bytes", 1e-3), ("ssthresh_bytes", 1e-3), ("srtt_ms", 1.0)];
    for ((caption, spec), (column, factor)) in drawn.iter().zip(columns) {
        assert_eq!(spec["steps"], true, "{caption}: a value holds until the next one");
        let trace = &spec["traces"][0];
        assert_eq!(trace["name"], "download");
        let numbers = |key: &str| trace[key].as_array().unwrap().iter().map(Value::as_f64).collect::<Vec<_>>();
        let points: Vec<_> = numbers("x").into_iter().map(Option::unwrap).zip(numbers("y")).collect();
        assert!(points.len() <= 2401, "{caption}: {} points", points.len());
        let data: Vec<_> =
            rows(&flows, column, |_| true).into_iter().map(|(t, v)| (t, v.map(|v| v * factor))).collect();
        // Compare the extremes in each hundredth of the run.
        for (i, (drawn, real)) in
            extremes(&points, result.sim_s, 100).into_iter().zip(extremes(&data, result.sim_s, 100)).enumerate()
        {
            let same = |a: f64, b: f64| (a - b).abs() <= 2e-5 * b.abs().max(1e-9);
            match (drawn, real) {
                (Some(drawn), Some(real)) => {
                    assert!(
                        same(drawn.0, real.0) && same(drawn.1, real.1),
                        "{caption}, part {i}: {drawn:?}, data {real:?}"
                    );
                }
                (drawn, real) => assert_eq!(drawn, real, "{caption}, part {i}"),
            }
        }
    }
    // In the tunnel between the first two stations the window stays at one segment for more than a minute.
    let (_, window) = &drawn[0];
    let stays = Manifest::read(dir.path()).unwrap().coverage;
    let tunnel = (stays[0].until_s + 10.0, stays[1].from_s - 10.0);
    assert!(tunnel.1 - tunnel.0 > 60.0);
    let x: Vec<f64> = window["traces"][0]["x"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let held = x.iter().rposition(|t| *t <= tunnel.0).unwrap();
    assert_eq!(window["traces"][0]["y"][held], 1.448);
    assert!(
        x[held + 1..]
            .iter()
            .zip(held + 1..)
            .take_while(|(t, _)| **t < tunnel.1)
            .all(|(_, i)| window["traces"][0]["y"][i] == 1.448)
    );
}

#[test]
fn outages_are_recorded_and_shaded() {
    let overrides =
        [("duration", "8 s"), ("link.bottleneck.timeline.0.at", "3 s"), ("link.bottleneck.timeline.1.at", "3 s")];
    let Run { dir, .. } = shipped("satellite-handover", &overrides);
    let links = dir.path().join("links.parquet");
    let bottleneck = |r: &parquet::record::Row| r.get_string(1).unwrap() == "bottleneck";
    let reader = SerializedFileReader::new(File::open(&links).unwrap()).unwrap();
    let mut changes: Vec<(f64, bool)> = Vec::new();
    for row in reader.get_row_iter(None).unwrap().map(Result::unwrap).filter(bottleneck) {
        let (time, forward, up) =
            (row.get_long(0).unwrap(), row.get_string(2).unwrap() == "forward", row.get_bool(3).unwrap());
        if forward && changes.last().is_none_or(|c| c.1 != up) {
            changes.push((time as f64 * 1e-9, up));
        }
    }
    assert_eq!(changes[1..], [(3.0, false), (5.0, true)], "the first row says that it is up: {changes:?}");
    let html = report(dir.path());
    for id in ["throughput", "senders", "queues"] {
        for (caption, spec) in charts(&html, id) {
            assert_eq!(spec["shades"], serde_json::json!([[3, 5]]), "{id} {caption}");
        }
    }
    assert!(page(&html).contains("link bottleneck is down"));
    assert!(page(&html).contains("Link bottleneck was down once, for 2 of 8 s."));
}

#[test]
fn emptied_queue_is_not_drawn_full() {
    let Run { dir, .. } = shipped("hello", &[("flow.download.bytes", "1 MB")]);
    let queue = rows(&dir.path().join("links.parquet"), "queue_pkt", |r| r.get_string(2).unwrap() == "forward");
    assert!(queue.iter().any(|q| q.1 > Some(10.0)));
    assert_eq!(queue.last().unwrap().1, Some(0.0));
}

#[test]
fn session_report_lists_its_messages() {
    let Run { dir, result } = shipped("charging-session", &[]);
    let html = report(dir.path());
    let page = page(&html);
    let session = result.flows[0].session().unwrap();
    let table = page.split("aria-label=\"Messages\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(table.matches("<th scope=\"row\">").count(), session.messages.len());
    let row = table.split("<th scope=\"row\">Current<wbr>Demand</th>").nth(1).unwrap().split("</tr>").next().unwrap();
    let demand = session.charging_loop().unwrap();
    let latency = demand.latency_ms.unwrap();
    for shown in [
        format!(">{}<", demand.count),
        format!(">{:.1}<", latency.max),
        ">250<".into(),
        format!(">{}<", demand.violations),
    ] {
        assert!(row.contains(&shown), "{shown} is not in {row}");
    }
    assert!(page.find("aria-label=\"Messages\"") < page.find("class=\"chart\""), "the table comes before the charts");
    for absent in
        ["aria-label=\"Calls\"", "aria-label=\"Transfers\"", "<section id=\"calls\">", "<section id=\"throughput\">"]
    {
        assert!(!page.contains(absent), "{absent}: there is none in this run");
    }
}

#[test]
fn timeout_of_the_scenario_overrides_the_default() {
    let Run { dir, .. } = shipped("charging-session", &[("flow.session.messages.current_demand.timeout", "150 ms")]);
    let html = report(dir.path());
    let row = html.split("<th scope=\"row\">Current<wbr>Demand</th>").nth(1).unwrap().split("</tr>").next().unwrap();
    assert!(row.contains(">150<") && !row.contains(">250<"), "{row}");
}

#[test]
fn calls_and_gateways_are_shown_if_present() {
    let Run { dir, result } = shipped("hdplc-home", &[("duration", "30 s")]);
    let html = report(dir.path());
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let calls = charts(&html, "calls");
    assert_eq!(calls.len(), 2);
    let traces = calls[0].1["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 4, "two calls, heard at both ends");
    let windows = &result.flows[3].voip().unwrap()[0].windows;
    let y: Vec<f64> = traces[0]["y"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert_eq!(y.len(), windows.len() + 1, "the last window is drawn to its end");
    assert!(y.iter().zip(windows).all(|(y, w)| (y - w.mos).abs() < 1e-4));
    assert!(page(&html).contains("aria-label=\"Calls\""));
    let gateways = charts(&html, "gateways");
    assert_eq!(gateways[0].1["traces"].as_array().unwrap().len(), 3, "the flows that it controls");
    assert!(charts(&html, "queues")[0].1["traces"].as_array().unwrap().iter().any(|t| t["name"] == "plc"));
}

fn throughput(html: &str) -> (Vec<f64>, Vec<f64>) {
    let curve = &charts(html, "throughput")[0].1["traces"][0];
    let numbers = |axis: &str| curve[axis].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    (numbers("x"), numbers("y"))
}

#[test]
fn throughput_and_round_trips_match_the_result() {
    let Run { dir, result } = shipped("hello", &[]);
    let RunResult { flows, sim_s, .. } = &result;
    let html = report(dir.path());
    assert!((throughput(&html).0.last().unwrap() - sim_s).abs() < 1e-3);
    let cdf = &charts(&html, "round-trips")[0].1["traces"][0];
    let rtt = flows[0].rtt_ms.unwrap();
    let number = |v: &Value| v.as_f64().unwrap();
    let at = |share: f64| {
        let i = cdf["y"].as_array().unwrap().iter().position(|y| number(y) >= share).unwrap();
        number(&cdf["x"][i])
    };
    for (share, expected) in [(0.0, rtt.min), (0.5, rtt.p50), (0.95, rtt.p95), (1.0, rtt.max)] {
        assert!((at(share) / expected - 1.0).abs() < 0.02, "{share}: {} instead of {expected}", at(share));
    }
}

/// Includes a last flight that arrives while the sender waits, and rows further apart than points.
#[test]
fn throughput_curve_has_every_byte_and_no_false_peak() {
    let far = &[("link.0.delay", "300 ms"), ("flow.download.bytes", "300 kB"), ("duration", "20 s")][..];
    for (overrides, sample_ms) in [(&[][..], 0), (far, 0), (&[], 100), (&[], 2_000), (far, 500)] {
        let source = ScenarioText::scenario("hello").unwrap();
        let Run { dir, result } = run_text(&source.text, overrides, |s| {
            (s.capture, s.csv, s.sample) = (None, false, Time::from_millis(sample_ms));
        });
        let html = report(dir.path());
        let (x, y) = throughput(&html);
        let bits: f64 = x.windows(2).zip(&y).map(|(x, y)| (x[1] - x[0]) * y * 1e6).sum();
        let sent = result.flows[0].delivered_bytes as f64 * 8.0;
        assert!((bits / sent - 1.0).abs() < 0.001, "{overrides:?} each {sample_ms} ms: {bits} of {sent}");
        // The long path loses no packets. After losses, a repair releases more at once than the link carries.
        let most = if overrides.is_empty() { 35.0 } else { 10.0 };
        assert!(y.iter().all(|y| *y <= most), "{overrides:?} each {sample_ms} ms: above {most} Mbit/s in {y:?}");
        let cdf = page(&html).contains("<section id=\"round-trips\">");
        assert_eq!(cdf, sample_ms == 0, "rows at intervals do not have all round-trip times");
        assert_eq!(page(&html).contains("flows.parquet has all"), sample_ms == 0);
    }
}

#[test]
fn unstarted_flow_has_no_negative_time() {
    let Run { dir, .. } = shipped("hello", &[("duration", "5 s"), ("flow.download.start", "7 s")]);
    let html = report(dir.path());
    assert!(page(&html).contains("did not start: the run ended at 5 s"), "{}", page(&html));
}

/// Each of the two links has its own flow.
#[test]
fn stay_counts_only_flows_of_its_link() {
    let mut text = String::from("duration = \"30 s\"\n");
    for (i, rate) in ["2 Mbit/s", "20 Mbit/s"].into_iter().enumerate() {
        text += &format!(
            "[[node]]\nname = \"a{i}\"\n[[node]]\nname = \"b{i}\"\n[[link]]\nname = \"l{i}\"\n\
             between = [\"a{i}\", \"b{i}\"]\n\
             rate = \"{rate}\"\ndelay = \"5 ms\"\n[[coverage]]\nname = \"c{i}\"\nlink = \"l{i}\"\n\
             timetable = [{{ arrive = \"1 s\", depart = \"20 s\" }}]\n\
             [[flow]]\nname = \"f{i}\"\nkind = \"bulk\"\nfrom = \"a{i}\"\nto = \"b{i}\"\n"
        );
    }
    let Run { dir, result } = run_text(&text, &[], |s| (s.capture, s.csv) = (None, false));
    let FolderContent::Run(run) = folder::read(dir.path()).unwrap() else { panic!("not a run") };
    let stays = &run.manifest.as_ref().unwrap().coverage;
    assert_eq!(stays.iter().map(|s| s.flows.join(" ")).collect::<Vec<_>>(), ["f0", "f1"]);
    let html = report(dir.path());
    let table = html.split("aria-label=\"Coverage\"").nth(1).unwrap().split("</table>").next().unwrap();
    let cells: Vec<&str> = table.split("<td").map(|cell| cell.split('<').next().unwrap()).collect();
    for f in &result.flows {
        let mb = format!("{:.3}", f.delivered_bytes as f64 * 1e-6);
        assert!(cells.iter().any(|cell| cell.contains(&mb[..3]) && cell.contains("MB")), "{mb} MB in {cells:?}");
    }
}

#[test]
fn no_chart_is_empty() {
    for (name, duration) in [("hello", "60 s"), ("charging-session", "120 s"), ("satellite-handover", "10 s")] {
        let Run { dir, .. } = shipped(name, &[("duration", duration)]);
        let html = report(dir.path());
        let ids: Vec<&str> =
            page(&html).split("<section id=\"").skip(1).map(|s| s.split('"').next().unwrap()).collect();
        let mut seen = 0;
        for (caption, spec) in ids.iter().filter(|id| **id != "numbers").flat_map(|id| charts(&html, id)) {
            let traces = spec["traces"].as_array().unwrap();
            assert!(!traces.is_empty(), "{name}: {caption} is empty");
            for t in traces {
                let known = t["y"].as_array().unwrap().iter().filter(|y| !y.is_null()).count();
                assert!(known > 1, "{name}: {caption} has a curve of {known} points");
            }
            assert_ne!(spec["kind"], "bar");
            seen += 1;
        }
        assert!(seen >= 4, "{name}: {seen} charts");
    }
}

/// A folder may come from a stranger: a time outside of the run is refused and takes neither memory nor time.
#[test]
fn impossible_times_are_refused() {
    let run = shipped("hello", &[("flow.*.bytes", "1 MB")]);
    let path = run.dir.path().join("summary.json");
    let summary: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (pointer, value) in
        [("/flows/0/start_s", -1e300), ("/flows/0/end_s", 1e300), ("/sim_s", -1.0), ("/sim_s", 1e300)]
    {
        let mut wrong = summary.clone();
        *wrong.pointer_mut(pointer).unwrap() = value.into();
        fs::write(&path, wrong.to_string()).unwrap();
        let error = folder::read(run.dir.path()).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("must be between 0 and"), "{pointer}: {cause}");
    }
    // Possible, but after the end.
    let mut late = summary.clone();
    *late.pointer_mut("/flows/0/start_s").unwrap() = 1e9.into();
    fs::write(&path, late.to_string()).unwrap();
    assert!(folder::read(run.dir.path()).is_ok());
    fs::File::create(&path).unwrap().set_len(2_000_000_000).unwrap();
    let error = folder::read(run.dir.path()).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("more than"), "{error}");
}
