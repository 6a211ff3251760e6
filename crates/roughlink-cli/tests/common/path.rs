//! Programs on the path between two hosts, all in namespaces.

use super::{json, roughlink, stdout, with_default_signals};
use roughlink_host::Namespace;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// A client (10.9.1.2 or 10.9.0.1), a machine with the devices `inner` and `outer`, and a server.
pub struct Bench {
    pub client: Namespace,
    pub machine: Namespace,
    pub server: Namespace,
    pub address: &'static str,
}

impl Bench {
    /// Creates the namespaces; `None` if the machine lacks one of the features. The machine routes, or forwards nothing
    /// itself.
    pub fn new(needs: &[&str], routes: bool) -> Option<Self> {
        let able = json(&roughlink(&["gateway", "check", "--json"]));
        let missing = |f: &&Value| needs.contains(&f["name"].as_str().unwrap()) && !f["missing"].is_null();
        if let Some(feature) = able.as_array().unwrap().iter().find(missing) {
            eprintln!("skipped: {}: {}", feature["name"], feature["missing"]);
            return None;
        }
        let new = || Namespace::new().inspect_err(|e| eprintln!("skipped: {e}")).ok();
        let (client, machine, server) = (new()?, new()?, new()?);
        for (n, name, host) in [(1, "inner", &client), (2, "outer", &server)] {
            ip(&machine, &format!("link add {name} type veth peer name eth0 netns {}", host.path().display()));
            ip(&machine, &format!("link set {name} up"));
            ip(host, "link set eth0 up");
            if routes {
                ip(&machine, &format!("address add 10.9.{n}.1/24 dev {name}"));
                ip(host, &format!("address add 10.9.{n}.2/24 dev eth0"));
                ip(host, &format!("route add default via 10.9.{n}.1"));
            } else {
                ip(host, &format!("address add 10.9.0.{n}/24 dev eth0"));
            }
        }
        let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        machine.within(forward).unwrap().unwrap();
        let address = if routes { "10.9.2.2:80" } else { "10.9.0.2:80" };
        Some(Bench { client, machine, server, address })
    }

    /// Returns true if this machine has a feature of gateways.
    pub fn has(&self, feature: &str) -> bool {
        let able = json(&roughlink(&["gateway", "check", "--json"]));
        able.as_array().unwrap().iter().any(|f| f["name"] == feature && f["missing"].is_null())
    }

    /// Starts a gateway and waits until it runs.
    pub fn start(&self, args: &[&str]) -> Child {
        self.service(&[&["gateway", "run"], args].concat())
    }

    /// Starts a command and waits until it runs.
    pub fn service(&self, args: &[&str]) -> Child {
        let mut command = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
        command.args(args).env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.machine.within(|| command.spawn()).unwrap().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("press Ctrl-C") {
            line.clear();
            assert!(messages.read_line(&mut line).unwrap() > 0, "it ended early");
        }
        child.stderr = Some(messages.into_inner());
        child
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.machine.within(|| roughlink(args)).unwrap()
    }

    pub fn listener(&self) -> TcpListener {
        self.server.within(|| TcpListener::bind(self.address).unwrap()).unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = self.client.within(|| TcpStream::connect(self.address).unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends `bytes` from the server to the client and returns those that arrive.
    pub fn download(&self, bytes: &[u8]) -> Vec<u8> {
        let listener = self.listener();
        thread::scope(|scope| {
            scope.spawn(|| listener.accept().unwrap().0.write_all(bytes).unwrap());
            let mut received = Vec::new();
            self.connect().read_to_end(&mut received).unwrap();
            received
        })
    }

    /// Returns the rules of the machine that are roughlink's.
    pub fn rules(&self) -> String {
        let lists = ["nft list ruleset", "iptables-save -t mangle"].map(|line| {
            let mut words = line.split(' ');
            let mut command = Command::new(words.next().unwrap());
            let out = self.machine.within(|| command.args(words).output()).unwrap();
            out.map(|out| stdout(&out)).unwrap_or_default()
        });
        lists.concat().lines().filter(|line| line.contains("roughlink")).collect()
    }
}

pub fn ip(at: &Namespace, line: &str) {
    let done = at.within(|| Command::new("ip").args(line.split(' ')).status()).unwrap().unwrap();
    assert!(done.success(), "ip {line}");
}

pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Returns a name that no other test uses at the same time.
pub fn unique(test: &str) -> String {
    format!("t{}-{test}", std::process::id())
}

pub fn socket(name: &str) -> String {
    format!("/run/roughlink/gateway-{name}.sock")
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not within 20 s: {what}");
}
