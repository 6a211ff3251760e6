//! The report in headless Chromium: it draws all charts from `file://`, without network and console messages.
//! `CHROMIUM` is its path; by default `PATH` is searched. Without Chromium, the tests are skipped with a message.

mod common;
mod sample;

use roughlink_lab::experiment::result::{AxisValue, Cell, Curve, ExperimentResult, Figure, FigureKind, ReportInput};
use roughlink_lab::folder::{self, FolderContent};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::report;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time that a page may take to draw on a busy machine.
const PATIENCE: u32 = 180;

fn chromium() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("CHROMIUM") {
        return Some(given.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|n| dirs.iter().map(move |d| d.join(n))).find(|p| p.is_file())
}

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Returns the page after its scripts have run, and the console output.
fn load(browser: &Path, dir: &Path, page: &str, dark: bool) -> (String, Vec<String>) {
    let (dom, log) = (dir.join("dom.html"), dir.join("log.txt"));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1500,1000"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "--allow-file-access-from-files"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg("--allow-file-access-from-files") // for a page that measures another one
        .arg(format!("file://{}", dir.join(page).display()))
        .stdout(File::create(&dom).unwrap())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .expect("the browser does not start");
    let mut waited = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if waited >= PATIENCE * 10 {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the page took longer than {PATIENCE} s; see {}", log.display());
        }
        std::thread::sleep(Duration::from_millis(100));
        waited += 1;
    };
    let said = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    assert!(status.success(), "the browser failed: {said}");
    let dom = fs::read_to_string(&dom).unwrap();
    (dom, said.lines().filter(|l| l.contains("CONSOLE")).map(String::from).collect())
}

#[test]
fn charts_are_drawn_in_light_and_dark() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on the path, and CHROMIUM is not set");
        return;
    };
    for (name, input, dark, charts) in
        [("light", sample::paper(), false, 20), ("dark", sample::paper(), true, 20), ("own", sample::own(), true, 4)]
    {
        let dir = folder(name);
        report::write(&dir.join("report.html"), &input).unwrap();
        let dom = drawn(&browser, &dir, name, dark, charts);
        assert!(!dom.contains("<title>broken</title>"), "{name}: a name became a script");
        let _ = fs::remove_dir_all(&dir);
    }
}

/// Loads the page `report.html` of `dir`, checks that all its charts are drawn, and returns it.
fn drawn(browser: &Path, dir: &Path, name: &str, dark: bool, charts: usize) -> String {
    let (dom, console) = load(browser, dir, "report.html", dark);
    assert_eq!(console, Vec::<String>::new(), "{name}: the console is not silent");
    assert!(dom.contains("data-charts=\"drawn\""), "{name}: the charts are not finished");
    let theme = if dark { "data-theme=\"dark\"" } else { "data-theme=\"light\"" };
    assert!(dom.contains(theme), "{name}: not the colours that the system asks for");
    // The library and the data contain markup too, so search only from a chart's element to the next script.
    let drawn = dom.split("<div class=\"chart js-plotly-plot\"").skip(1);
    let with_svg =
        drawn.filter(|part| part.split("<script").next().unwrap().contains("<svg class=\"main-svg\"")).count();
    assert_eq!(with_svg, charts, "{name}: charts with a drawing in them");
    let buttons = dom.split("<script>").next().unwrap();
    assert!(
        buttons.contains("modebar-btn") && !buttons.contains("Cloud"),
        "{name}: a button would send the chart away"
    );
    dom
}

/// A page that measures the report in a frame: the width of its content and the `WANTED` sizes.
const MEASURE: &str = r##"<!DOCTYPE html><body><script>
const frame = document.createElement("iframe");
[frame.width, frame.height] = [WIDTH, HEIGHT];
frame.src = "report.html";
document.body.append(frame);
const timer = setInterval(() => {
  const page = frame.contentDocument;
  if (!page || page.documentElement.dataset.charts !== "drawn") return;
  clearInterval(timer);
  const top = (what) => Math.round(page.querySelector(what).getBoundingClientRect().top);
  const bottom = (what) => Math.round(page.querySelector(what).getBoundingClientRect().bottom);
  const size = [page.documentElement.scrollWidth, WANTED];
  const said = document.createElement("output");
  said.textContent = "measured " + size.join(" ") + " .";
  document.body.append(said);
  frame.remove();
}, 50);
</script></body>"##;

/// Returns the width of the report in `dir` and its `wanted` sizes, in a frame of this size in pixels.
fn measured(browser: &Path, dir: &Path, dark: bool, (width, height): (i32, i32), wanted: &str) -> Vec<i32> {
    let wrapper = MEASURE.replace("WIDTH", &width.to_string()).replace("HEIGHT", &height.to_string());
    fs::write(dir.join("measure.html"), wrapper.replace("WANTED", wanted)).unwrap();
    let (dom, _) = load(browser, dir, "measure.html", dark);
    let said = dom.split("<output>measured ").nth(1).expect("nothing was measured");
    said.split_whitespace().map_while(|n| n.parse().ok()).collect()
}

#[test]
fn run_report_answers_on_the_first_screen() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on the path, and CHROMIUM is not set");
        return;
    };
    for (scenario, duration, dark, charts) in
        [("charging-session", "80 s", false, 4), ("hdplc-home", "25 s", true, 10), ("train-tunnels", "200 s", false, 7)]
    {
        let text = ScenarioText::scenario(scenario).unwrap().text;
        let run = common::run_text(&text, &[("duration", duration)], |s| (s.capture, s.csv) = (None, false));
        let FolderContent::Run(content) = folder::read(run.dir.path()).unwrap() else { panic!("not a run") };
        let dir = folder(scenario);
        report::write_run(&dir.join("report.html"), &content).unwrap();
        drawn(&browser, &dir, scenario, dark, charts);
        for (width, height) in [(1400, 900), (390, 844)] {
            let wanted = "top('#answer'), top('table'), top('.chart')";
            let sizes = measured(&browser, &dir, dark, (width, height), wanted);
            let [content, answer, table, chart] = sizes[..] else { panic!("{scenario}: {sizes:?}") };
            assert!(content <= width, "{scenario} at {width}: the page is {content} wide and scrolls sideways");
            assert!(answer < height / 3 && table < height, "{scenario} at {width}: {sizes:?}");
            assert!(table < chart, "{scenario} at {width}: a chart comes before the answer");
        }
        let _ = fs::remove_dir_all(&dir);
    }
}

/// Creates a comparison of algorithms with these names, and a curve of each.
fn named(names: &[&str]) -> ReportInput {
    let mut input = sample::own();
    let mut compare = input.experiments.remove(1);
    let value = |name: &&str| AxisValue { value: name.to_string(), label: name.to_string(), number: None };
    compare.axes[0].values = names.iter().map(value).collect();
    let mean = compare.cells.remove(0);
    let axes = |name: &&str| [("flow.0.cc".to_owned(), name.to_string())].into();
    compare.cells = names.iter().map(|name| Cell { axes: axes(name), ..mean.clone() }).collect();
    let curve = |name: &&str| Curve {
        axes: axes(name),
        label: name.to_string(),
        metric: mean.metric.clone(),
        x: vec![-7.25, 1.0],
        y: vec![Some(-0.5), None],
        ..Curve::default()
    };
    let mut curves = ExperimentResult { cells: Vec::new(), ..compare.clone() };
    curves.curves = names.iter().map(curve).collect();
    curves.figure = Figure { kind: FigureKind::Function, series: "flow.0.cc".into(), ..Figure::default() };
    ReportInput { experiments: vec![compare, curves], ..input }
}

/// Expression that presses the buttons for the points as drawn, and returns the characters of the saved files.
const SAVED: &str = r##"...(() => {
  const saved = [];
  frame.contentWindow.Blob = function (parts) { saved.push(...parts); };
  frame.contentWindow.URL.createObjectURL = () => "#";
  for (const button of page.querySelectorAll("a[data-drawn]")) {
    button.addEventListener("click", (event) => event.preventDefault());
    button.click();
  }
  return [...saved.join("")].map((c) => c.codePointAt(0));
})()"##;

/// The page's script and the CSV of the cells escape the same names in the same way.
#[test]
fn formulas_in_drawn_points_are_escaped() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on the path, and CHROMIUM is not set");
        return;
    };
    let names = [
        "=1+1",
        "+49 30",
        "-3.5",
        "-3.5 dB",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "-",
        "+.5e3",
        "-0x10",
        "-5.",
        "-1e999",
        "+inf",
        "-5 ",
        "cubic",
        "a \"b\", c",
    ];
    let input = named(&names);
    let table = report::csv::cells(&input.experiments[0]);
    let dir = folder("formulas");
    report::write(&dir.join("report.html"), &input).unwrap();
    let codes = measured(&browser, &dir, false, (1400, 900), SAVED);
    let drawn: String = codes[1..].iter().filter_map(|&code| char::from_u32(code as u32)).collect();
    let fields = |text: &str| -> Vec<String> {
        let rows = csv::Reader::from_reader(text.as_bytes()).into_records().map(Result::unwrap);
        rows.flat_map(|row| row.iter().map(String::from).collect::<Vec<_>>()).collect()
    };
    let (table, drawn) = (fields(&table), fields(&drawn));
    for name in names {
        let quoted = format!("'{name}");
        let number = ["-3.5", "+.5e3", "-5."].contains(&name);
        let shown = if number || name.starts_with(['a', 'c']) { name } else { &quoted };
        let both = [&table, &drawn].map(|fields| fields.iter().any(|field| field == shown));
        assert_eq!(both, [true; 2], "{name:?}: {drawn:?}");
    }
    assert!(drawn.contains(&"-7.25".to_owned()) && drawn.contains(&"-0.5".to_owned()), "{drawn:?}");
    let _ = fs::remove_dir_all(&dir);
}

#[test]
fn picture_of_a_paper_is_on_the_first_screen() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on the path, and CHROMIUM is not set");
        return;
    };
    let dir = folder("paper");
    report::write(&dir.join("report.html"), &sample::paper()).unwrap();
    for (width, height) in [(1400, 900), (390, 844)] {
        let sizes = measured(&browser, &dir, false, (width, height), "top('.chart'), bottom('.chart'), top('#linux')");
        let [content, top, end, linux] = sizes[..] else { panic!("{sizes:?}") };
        assert!(content <= width, "at {width}: the page is {content} wide and scrolls sideways");
        assert!(0 < top && end < height, "at {width}: the picture stands from {top} to {end}");
        assert!(end < linux, "at {width}: {sizes:?}");
    }
    let _ = fs::remove_dir_all(&dir);
}
