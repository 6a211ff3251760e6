//! The live view of an emulation: a browser shows it and changes its link, which affects a real program. Without
//! emulation or Chromium, the tests are skipped with a message.

#![cfg(target_os = "linux")]

#[path = "common/browser.rs"]
mod browser;
mod common;

use browser::Browser;
use common::emulated::folder_of;
use common::{code, roughlink_in, stderr, with_default_signals};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

/// If the page did not escape names, this name would become an element with a script.
const PAIR: &str = "name = \"<img src=x onerror='document.title=1'>\"\nduration = \"600 s\"\n\
                    node = [{ name = \"server\" }, { name = \"car\" }]\n\
                    [[link]]\nname = \"plc\"\nbetween = [\"server\", \"car\"]\n\
                    rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n";

/// Programs at nodes: a server that writes its number of received bytes to a file, and a client that always sends.
#[test]
#[ignore = "it is a program that another test runs"]
fn as_program() {
    match std::env::var("PART").as_deref() {
        Ok("server") => {
            let mut stream = TcpListener::bind("10.0.0.1:7000").unwrap().accept().unwrap().0;
            let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
            while let Ok(n) = stream.read(&mut buffer) {
                total += n;
                fs::write("received.new", total.to_string()).unwrap();
                fs::rename("received.new", "received").unwrap();
            }
        }
        Ok("client") => {
            let connect = || TcpStream::connect("10.0.0.1:7000").map_err(|_| sleep(Duration::from_millis(20)));
            let mut stream = (0..3000).find_map(|_| connect().ok()).expect("the server listens");
            while stream.write_all(&[7; 10_000]).is_ok() {}
        }
        _ => {}
    }
}

/// Emulation with a live view, and the address of its page.
struct Shown {
    child: Child,
    url: String,
}

impl Shown {
    fn start(folder: &Path) -> Self {
        let own = std::env::current_exe().unwrap();
        let part = |name: &str| {
            let own = own.to_str().unwrap();
            ["env", &format!("PART={name}"), own, "as_program", "--exact", "--ignored", "--nocapture"]
                .map(str::to_owned)
        };
        let mut child = with_default_signals(env!("CARGO_BIN_EXE_roughlink"))
            .args(["emulate", "pair.toml", "--json", "--max-lateness", "100 s", "--serve", "127.0.0.1:0"])
            .args(["--exec", "server", "--"])
            .args(part("server"))
            .args(["--exec", "car", "--"])
            .args(part("client"))
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.strip_prefix("live view: ")?.to_owned())).expect("it says where");
        thread::spawn(move || lines.for_each(drop));
        Shown { child, url }
    }

    /// Ends the emulation as Ctrl-C does, and returns its result.
    fn interrupt(mut self) -> Value {
        assert!(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap().success());
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(2), "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn received(folder: &Path) -> f64 {
    fs::read_to_string(folder.join("received")).map_or(0.0, |text| text.parse().unwrap())
}

/// Returns the number of bytes received within 1.5 s.
fn growth(folder: &Path) -> f64 {
    let before = received(folder);
    sleep(Duration::from_millis(1500));
    received(folder) - before
}

#[test]
fn slider_and_outage_affect_a_real_program() {
    let Some(folder) = folder_of(PAIR) else { return };
    let folder = folder.path();
    let shown = Shown::start(folder);
    let Some(mut page) = Browser::open(&shown.url, 1400, false) else { return };
    page.until("document.querySelector('#state').textContent === 'live'");
    page.until("document.querySelectorAll('.plot path').length >= 6");
    assert_eq!(page.value("document.querySelector('#name').textContent"), "<img src=x onerror='document.title=1'>");
    let mbps = "(() => { const [x, unit] = document.querySelector('.link td').nextElementSibling ? \
                document.querySelectorAll('.link tbody tr')[1].cells[1].textContent.split(' ') : []; \
                return x * { 'Gbit/s': 1e3, 'Mbit/s': 1, 'kbit/s': 1e-3, 'bit/s': 1e-6 }[unit]; })()";
    page.until(&format!("{mbps} > 5"));
    while received(folder) == 0.0 {
        sleep(Duration::from_millis(20));
    }
    let fast = growth(folder);

    // By keyboard: 30 steps, 24 per decade.
    page.value("document.querySelector('[data-key=rate] input').focus()");
    page.press("ArrowLeft", 37, 30);
    page.until("document.querySelector('[data-key=rate] output').textContent === '1.1 Mbit/s'");
    page.until(&format!("{mbps} < 2"));
    let slow = growth(folder);
    assert!(slow < fast / 3.0, "{slow} after {fast}");

    // By mouse: an outage until the button is pressed again.
    page.value("document.querySelector('.outage select').value = ''");
    page.click(".outage button");
    page.until("document.querySelector('.link.down') !== null");
    page.until("document.querySelector('.outage button').getAttribute('aria-pressed') === 'true'");
    // Data that arrived before the outage may still be read.
    let nothing = (0..20).any(|_| growth(folder) == 0.0);
    assert!(nothing, "something arrives while the link is down");
    page.click(".outage button");
    page.until("document.querySelector('.link.down') === null");
    // The connection continues with its next retransmission.
    let still = received(folder);
    for _ in 0..600 {
        if received(folder) > still {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    assert!(received(folder) > still, "the link is up again");

    for width in [1400, 390] {
        page.resize(width);
        let content = page.value("document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(content <= u64::from(width), "the page is {content} wide at {width}");
    }
    let result = shown.interrupt();
    page.until("document.querySelector('#state').textContent === 'ended'");
    page.until("!document.querySelector('#ended').hidden && document.querySelector('.controls').disabled");
    assert_eq!(page.value("document.querySelectorAll('#totals tr').length"), 2);
    let reason = "document.querySelector('#reason').textContent";
    assert_eq!(page.value(&format!("{reason}.endsWith('too slowly: {}.')", result["overruns"])), true);
    let timeline = page.value("document.querySelector('#timeline').textContent");
    let (timeline, changes) = (timeline.as_str().unwrap(), result["changes"].as_array().unwrap());
    assert!(timeline.contains("rate = \"1.1 Mbit/s\" }"), "{timeline}");
    assert!(changes.iter().any(|c| c["link"] == "plc" && c["rate"] == "1.1 Mbit/s"), "{changes:?}");
    let ups: Vec<_> = changes.iter().filter_map(|c| c["up"].as_bool()).collect();
    assert_eq!(ups, [false, true], "{changes:?}");
    assert!(page.console.is_empty(), "the console is not silent: {:?}", page.console);
    assert_ne!(page.value("document.title"), "1");
}

#[test]
fn lost_connection_is_shown() {
    let Some(folder) = folder_of(PAIR) else { return };
    let mut shown = Shown::start(folder.path());
    let Some(mut page) = Browser::open(&shown.url, 390, true) else { return };
    page.until("document.querySelector('#state').textContent === 'live'");
    assert_eq!(page.value("document.documentElement.dataset.theme"), "dark");
    shown.child.kill().unwrap();
    page.until("document.querySelector('#state').dataset.state === 'lost'");
    // A count that cannot be read is shown as a dash, not as zero.
    let shown = Shown::start(folder.path());
    let mut page = Browser::open(&shown.url, 390, false).unwrap();
    page.until("document.querySelector('#state').textContent === 'live'");
    let process = shown.child.id().to_string();
    let deletes = ["shell", "--process", &process, "car", "--", "ip", "link", "delete", "plc0"];
    assert_eq!(code(&roughlink_in(&deletes, folder.path())), 0);
    page.until("document.querySelector('#reason').textContent.endsWith('too slowly: \u{2013}.')");
    // Without the token, the page shows nothing.
    let wrong = Shown::start(folder.path());
    let (address, _) = wrong.url.split_once('?').unwrap();
    let mut page = Browser::open(address, 390, false).unwrap();
    page.until("document.body.innerText.includes('token')");
    assert_eq!(page.value("document.querySelector('#links')"), Value::Null);
}

/// Idle connections neither exhaust descriptors nor stop a viewer's samples nor block the next connection.
#[test]
fn idle_connections_do_not_block_the_live_view() {
    let Some(folder) = folder_of(PAIR) else { return };
    let shown = Shown::start(folder.path());
    let (address, query) = shown.url.strip_prefix("http://").unwrap().split_once("/?").unwrap();
    let open = |text: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let get = |path: &str| open(&format!("GET {path}?{query} HTTP/1.1\r\nhost: {address}\r\n\r\n"));
    let mut samples = BufReader::new(get("/events")).lines().map(Result::unwrap).filter(|line| line == "event: sample");
    samples.next().expect("a sample");
    // The minimum excludes files that are open only for a moment.
    let count = || fs::read_dir(format!("/proc/{}/fd", shown.child.id())).unwrap().count();
    let descriptors = || (0..10).map(|_| count()).min().unwrap();
    let before = descriptors();
    let kinds = [
        String::new(),
        "GET / HTTP/1.1\r\nhost:".into(),
        format!(
            "POST /change?{query} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: 9\r\n\r\n"
        ),
    ];
    let idle: Vec<_> = kinds.iter().cycle().take(150).map(|text| open(text)).collect();
    for _ in 0..15 {
        samples.next().expect("a sample");
    }
    assert!(descriptors() <= before + 64, "{} after {before}", descriptors());
    let mut first = [0; 12];
    get("/").read_exact(&mut first).expect("an answer, although all the others are still there");
    assert_eq!(first, *b"HTTP/1.1 200");
    samples.next().expect("a sample");
    drop(idle);
    shown.interrupt();
}

#[test]
fn occupied_address_fails_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pair.toml"), PAIR).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let with = |serve: &str| {
        let args = ["emulate", "pair.toml", "--serve", serve, "--exec", "car", "--", "touch", "started"];
        roughlink_in(&args, folder.path())
    };
    let out = with(&address);
    assert_eq!(code(&out), 3, "{}", stderr(&out));
    assert!(
        stderr(&out).contains("cannot serve the live view at") && stderr(&out).contains("another port"),
        "{}",
        stderr(&out)
    );
    let out = with("everywhere");
    assert_eq!(code(&out), 2, "{}", stderr(&out));
    assert!(stderr(&out).contains("such as 127.0.0.1:8080"), "{}", stderr(&out));
    assert!(!folder.path().join("started").exists());
}
