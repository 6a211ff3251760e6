//! A page in headless Chromium, controlled through its debugging pipe (Chrome DevTools Protocol): JSON messages, each
//! terminated by a zero byte. `CHROMIUM` is the path of Chromium; by default `PATH` is searched.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    sent: u64,
    session: Value,
    /// Console messages and exceptions.
    pub console: VecDeque<String>,
    _profile: tempfile::TempDir,
}

/// Returns the path of Chromium; `None`, with a message on standard error, if it is missing.
fn chromium() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("CHROMIUM") {
        return Some(given.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let dirs: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let found = names.iter().flat_map(|n| dirs.iter().map(move |d| d.join(n))).find(|p| p.is_file());
    if found.is_none() {
        eprintln!("skipped: no Chromium on the path, and CHROMIUM is not set");
    }
    found
}

impl Browser {
    pub fn open(url: &str, width: u32, dark: bool) -> Option<Self> {
        let program = chromium()?;
        let profile = tempfile::tempdir().unwrap();
        // The pipe uses descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-proxy-server"])
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            while output.read_until(0, &mut text).is_ok_and(|n| n > 0) {
                text.pop();
                let Ok(message) = serde_json::from_slice(&text) else { return };
                if sender.send(message).is_err() {
                    return;
                }
                text.clear();
            }
        });
        let mut browser = Browser {
            child,
            input,
            messages,
            sent: 0,
            session: Value::Null,
            console: VecDeque::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let to = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", to)["sessionId"].clone();
        for domain in ["Runtime", "Log", "Page"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width);
        browser.call("Page.navigate", json!({ "url": url }));
        Some(browser)
    }

    pub fn resize(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": params });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == self.sent {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            let method = message["method"].as_str().unwrap_or_default();
            if ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].contains(&method) {
                self.console.push_back(message["params"].to_string());
            }
        }
    }

    pub fn value(&mut self, expression: &str) -> Value {
        self.evaluate(expression).unwrap_or_else(|why| panic!("{expression}: {why}"))
    }

    fn evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let mut result = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        match result.get("exceptionDetails") {
            Some(why) => Err(why.clone()),
            None => Ok(result["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true; it may refer to elements that do not exist yet.
    pub fn until(&mut self, expression: &str) {
        for _ in 0..PATIENCE.as_millis() / 50 {
            if self.evaluate(expression).is_ok_and(|value| value == true) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let page = self.value("document.body.innerText");
        panic!("it does not become true: {expression}; console: {:?}; page: {page}", self.console);
    }

    pub fn press(&mut self, key: &str, code: u32, times: usize) {
        for kind in ["rawKeyDown", "keyUp"].repeat(times) {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code }));
        }
    }

    /// Clicks on the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Killing the first process ends the others.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
