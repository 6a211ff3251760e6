//! The report in headless Chromium: it draws all its charts from `file://`, without network and without a complaint.
//!
//! Chromium is taken from `CHROMIUM` or from the path; where there is none the test says so and passes.

mod sample;

use roughlink_lab::experiment::result::ReportInput;
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

/// The page as it stands after its scripts have run, and what the console said.
fn load(browser: &Path, name: &str, input: &ReportInput, dark: bool) -> (String, Vec<String>) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let page = dir.join("report.html");
    roughlink_lab::report::write(&page, input).unwrap();
    let (dom, log) = (dir.join("dom.html"), dir.join("log.txt"));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1280,900"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}", page.display()))
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
    let _ = fs::remove_dir_all(&dir);
    (dom, said.lines().filter(|l| l.contains("CONSOLE")).map(String::from).collect())
}

#[test]
fn charts_are_drawn_in_light_and_dark() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on the path, and CHROMIUM is not set");
        return;
    };
    for (name, input, dark, charts) in
        [("light", sample::paper(), false, 18), ("dark", sample::paper(), true, 18), ("own", sample::own(), true, 4)]
    {
        let (dom, console) = load(&browser, name, &input, dark);
        assert_eq!(console, Vec::<String>::new(), "{name}: the console is not silent");
        assert!(dom.contains("data-charts=\"drawn\""), "{name}: the charts are not finished");
        let theme = if dark { "data-theme=\"dark\"" } else { "data-theme=\"light\"" };
        assert!(dom.contains(theme), "{name}: not the colours that the system asks for");
        // The library and the data hold markup too: count in what follows each chart's element.
        let drawn = dom.split("<div class=\"chart js-plotly-plot\"").skip(1);
        let with_svg =
            drawn.filter(|part| part.split("<script").next().unwrap().contains("<svg class=\"main-svg\"")).count();
        assert_eq!(with_svg, charts, "{name}: charts with a drawing in them");
        assert!(!dom.contains("<title>broken</title>"), "{name}: a name became a script");
    }
}
