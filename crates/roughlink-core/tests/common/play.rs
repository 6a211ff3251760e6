//! Plays a script against one endpoint.

use super::script::{Assertion, Event, Options, Script, Segment, When};
use roughlink_core::cc::{Factory, Permit};
use roughlink_core::packet::{Ecn, FlowId, Packet, SackBlock, SideContent, Sides, SynOptions, flags};
use roughlink_core::scenario::FlowTransport;
use roughlink_core::tcp::{TcpConfig, TcpEndpoint};
use roughlink_core::units::Time;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

/// Key of `[[off]]` only: `timer = "persist"` disables the zero-window timer, for which `[tcp]` has no switch.
const TIMER: &str = "timer";

/// Plays `script` with the keys `over` replacing its keys. Returns an error with the mismatch and the exchange so far.
pub fn play(script: &Script, over: &toml::Table) -> Result<(), String> {
    let mut tcp = script.tcp.clone();
    tcp.extend(over.clone());
    let without_persist = tcp.remove(TIMER).is_some();
    let (config, factory) = configure(tcp)?;
    let endpoint = TcpEndpoint::new(FlowId::new(0, false), config, factory, script.iss);
    let mut player = Player {
        endpoint,
        sides: Sides::default(),
        iss: script.iss,
        irs: script.irs,
        clock: Time::ZERO,
        base: Time::ZERO,
        out: VecDeque::new(),
        window: 65_535,
        without_persist,
        log: String::new(),
    };
    for line in &script.lines {
        player
            .step(line.when, &line.event)
            .map_err(|why| format!("line {}: {}\n  {}\nthe exchange:\n{}", line.number, line.text, why, player.log))?;
    }
    player.nothing_left().map_err(|why| format!("at the end: {why}\nthe exchange:\n{}", player.log))
}

/// Builds the configuration through a scenario file, so that keys have the same meaning as there.
fn configure(tcp: toml::Table) -> Result<(Arc<TcpConfig>, Factory), String> {
    let mut file = toml::Table::new();
    file.insert("duration".into(), "1 s".into());
    file.insert("tcp".into(), tcp.into());
    let rest = r#"
        node = [{ name = "a" }, { name = "b" }]
        link = [{ name = "l", between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }]
        flow = [{ name = "f", kind = "bulk", from = "a", to = "b", bytes = "1 B" }]
    "#;
    file.extend(rest.parse::<toml::Table>().expect("TOML"));
    let (mut s, _) = roughlink_scenario::parse(&file.to_string(), "script", &[], &|_| Err("no files".into()))
        .map_err(|e| format!("header: {e}"))?;
    let FlowTransport::Tcp(tcp, cc) = s.flows.remove(0).transport else { panic!("a transfer uses TCP") };
    Ok((tcp, Arc::clone(&cc.factory)))
}

struct Player {
    endpoint: TcpEndpoint,
    sides: Sides,
    iss: u32,
    irs: u32,
    /// Time of the last event; time of the last line.
    clock: Time,
    base: Time,
    /// Packets that were sent and not expected yet.
    out: VecDeque<(Time, Packet)>,
    /// Window field of the peer.
    window: u16,
    without_persist: bool,
    log: String,
}

impl Player {
    fn step(&mut self, when: When, event: &Event) -> Result<(), String> {
        let (from, to) = match when {
            When::At(t) => (t, t),
            When::After(a, b) => (self.base + a, self.base + b),
        };
        if from < self.base {
            return Err(format!("the line before was at {}", self.base));
        }
        if let Event::Expect(segment) = event {
            return self.expect(from, to, segment);
        }
        self.advance(to)?;
        self.base = to;
        self.clock = self.clock.max(to);
        if !matches!(event, Event::Assert(_)) {
            self.nothing_left()?;
        }
        match event {
            Event::Connect => self.endpoint.connect(),
            Event::Listen => self.endpoint.listen(),
            Event::Write(n) => self.endpoint.write(*n),
            Event::Close => self.endpoint.close(),
            Event::Inject(segment) => {
                let p = self.build(segment);
                let text = self.show(&p, false);
                let _ = writeln!(self.log, "  {:.6} < {text}", self.clock.as_secs_f64());
                self.endpoint.receive(self.clock, &p, &self.sides);
                self.sides.free(&p);
            }
            Event::Assert(all) => return all.iter().try_for_each(|a| self.assert(a)),
            Event::Expect(_) | Event::Nothing => {}
        }
        self.pump()
    }

    /// Fires the endpoint's timers up to and including `to`.
    fn advance(&mut self, to: Time) -> Result<(), String> {
        for _ in 0..1000 {
            let at = self.endpoint.next_wake(self.clock);
            let persisting = self.endpoint.sender().is_some_and(|s| s.idle() && s.core().flow().send_window == 0);
            if at > to || (self.without_persist && persisting) {
                return Ok(());
            }
            self.clock = self.clock.max(at);
            self.endpoint.wake(self.clock);
            self.pump()?;
        }
        Err(format!("timers run out without end at {}", self.clock))
    }

    fn pump(&mut self) -> Result<(), String> {
        for _ in 0..100_000 {
            let Some(p) = self.endpoint.transmit(self.clock, &mut self.sides) else { return Ok(()) };
            let text = self.show(&p, true);
            let _ = writeln!(self.log, "  {:.6} > {text}", self.clock.as_secs_f64());
            self.out.push_back((self.clock, p));
        }
        Err("it never stops sending".into())
    }

    fn nothing_left(&self) -> Result<(), String> {
        match self.out.front() {
            None => Ok(()),
            Some((at, p)) => Err(format!("at {:.6} left unexpectedly {}", at.as_secs_f64(), self.show(p, true))),
        }
    }

    fn expect(&mut self, from: Time, to: Time, want: &Segment) -> Result<(), String> {
        self.advance(to + SLACK)?;
        self.base = to;
        let mss = self.endpoint.sender().map_or(1, |s| u64::from(s.core().flow().mss));
        let (mut seq, mut left) = (want.seq, want.len);
        loop {
            let Some((at, p)) = self.out.pop_front() else { return Err("nothing left".into()) };
            let got = self.show(&p, true);
            if at + SLACK < from || at > to + SLACK {
                return Err(format!("left at {:.6}: {got}", at.as_secs_f64()));
            }
            if from != to {
                self.base = at;
            }
            let len = if left > mss { mss } else { left };
            self.compare(&p, want, seq, len).map_err(|what| format!("{what} differs: {got}"))?;
            self.sides.free(&p);
            seq += len;
            left -= len;
            if left == 0 {
                return Ok(());
            }
        }
    }

    fn compare(&self, p: &Packet, want: &Segment, seq: u64, len: u64) -> Result<(), &'static str> {
        let equal = |is: bool, what| if is { Ok(()) } else { Err(what) };
        equal(p.ecn() == want.ecn.unwrap_or(Ecn::NotEct), "ECN")?;
        equal((p.flags ^ want.flags) & !flags::PSH == 0, "a flag")?;
        equal(p.seq == self.iss.wrapping_add(seq as u32), "the sequence number")?;
        equal(u64::from(p.payload()) == len, "the length")?;
        equal(want.ack.is_none_or(|a| p.ack == self.irs.wrapping_add(a as u32)), "the acknowledgment")?;
        equal(want.win.is_none_or(|w| p.window == w), "the window")?;
        let Some(o) = &want.options else { return Ok(()) };
        if let Some(SideContent::Syn(got)) = self.sides.get(p) {
            equal(*got == o.syn, "an option of the SYN")?;
        } else {
            equal(self.relative(self.sides.sacks(p), self.irs) == o.sacks, "SACK")?;
        }
        match o.timestamps {
            None => Ok(()),
            Some(None) => equal(p.has_timestamps(), "TS"),
            Some(Some(ts)) => equal(p.has_timestamps() && (p.tsval, p.tsecr) == ts, "TS"),
        }
    }

    fn relative(&self, blocks: &[SackBlock], base: u32) -> Vec<SackBlock> {
        let relative = |b: &SackBlock| SackBlock { left: b.left.wrapping_sub(base), right: b.right.wrapping_sub(base) };
        blocks.iter().map(relative).collect()
    }

    fn build(&mut self, s: &Segment) -> Packet {
        let mut p = Packet::tcp(FlowId::new(0, true));
        p.flags = s.flags;
        p.set_ecn(s.ecn.unwrap_or(Ecn::NotEct));
        p.seq = self.irs.wrapping_add(s.seq as u32);
        if let Some(ack) = s.ack {
            p.ack = self.iss.wrapping_add(ack as u32);
        }
        let none = Options::default();
        let o = s.options.as_ref().unwrap_or(&none);
        if let Some((val, ecr)) = o.timestamps.flatten() {
            p.set_timestamps(val, ecr);
        }
        if p.is(flags::SYN) {
            p.window = s.win.unwrap_or(65_535);
            p.set_side(self.sides.store(SideContent::Syn(o.syn)));
            p.size = 40 + o.syn.header_bytes();
            return p;
        }
        self.window = s.win.unwrap_or(self.window);
        p.window = self.window;
        if !o.sacks.is_empty() {
            let mut blocks = [SackBlock::default(); 4];
            for (b, given) in blocks.iter_mut().zip(&o.sacks) {
                b.left = self.iss.wrapping_add(given.left);
                b.right = self.iss.wrapping_add(given.right);
            }
            p.set_sacks(o.sacks.len(), self.sides.store(SideContent::Sacks(blocks)));
        }
        p.set_payload(s.len as u16);
        p
    }

    /// Formats a packet in the notation of scripts, for reading or pasting.
    fn show(&self, p: &Packet, ours: bool) -> String {
        let (base, other) = if ours { (self.iss, self.irs) } else { (self.irs, self.iss) };
        let mut text = String::new();
        text.push_str(["", "[ect1] ", "[ect0] ", "[ce] "][p.ecn() as usize]);
        let letters = [
            (flags::SYN, 'S'),
            (flags::FIN, 'F'),
            (flags::RST, 'R'),
            (flags::ECE, 'E'),
            (flags::CWR, 'W'),
            (flags::ACK, '.'),
        ];
        text.extend(letters.iter().filter(|(flag, _)| p.is(*flag)).map(|(_, letter)| letter));
        let (seq, len) = (p.seq.wrapping_sub(base), p.payload());
        let _ = write!(text, " {seq}:{}({len})", seq.wrapping_add(len));
        if p.is(flags::ACK) {
            let _ = write!(text, " ack {}", p.ack.wrapping_sub(other));
        }
        let _ = write!(text, " win {}", p.window);
        let mut options = Vec::new();
        if let Some(SideContent::Syn(SynOptions { mss, window_scale, sack_permitted, .. })) = self.sides.get(p) {
            options.extend((*mss > 0).then(|| format!("mss {mss}")));
            options.extend(sack_permitted.then(|| "sackOK".to_owned()));
            options.extend(window_scale.map(|s| format!("wscale {s}")));
        }
        let sacks = self.relative(self.sides.sacks(p), other);
        if !sacks.is_empty() {
            let blocks: Vec<_> = sacks.iter().map(|b| format!("{}:{}", b.left, b.right)).collect();
            options.push(format!("sack {}", blocks.join(" ")));
        }
        if p.has_timestamps() {
            options.push(format!("TS val {} ecr {}", p.tsval, p.tsecr));
        }
        if !options.is_empty() {
            let _ = write!(text, " <{}>", options.join(","));
        }
        text
    }

    fn assert(&self, a: &Assertion) -> Result<(), String> {
        let e = &self.endpoint;
        let words = |got: String| compare_words(&got, a);
        match a.name.as_str() {
            "conn" => return words(format!("{:?}", e.state())),
            "failed" => return words(e.failed().to_string()),
            "peer_closed" => return words(e.peer_closed().to_string()),
            "delivered" => return numbers(e.delivered() as f64, 1.0, a),
            _ => {}
        }
        let Some(s) = e.sender() else { return Err("there is no sender yet".into()) };
        let (flow, vitals) = (s.core().flow(), s.core().cc().trace());
        let mss = f64::from(flow.mss);
        let bytes = |n: u64| numbers(n as f64, mss, a);
        match a.name.as_str() {
            "state" => words(format!("{:?}", flow.state)),
            "cwnd" => bytes(vitals.cwnd),
            "ssthresh" => bytes(vitals.ssthresh),
            "in_flight" => bytes(flow.in_flight),
            "window" => match s.core().cc().permit(flow) {
                Permit::Send { window, .. } => bytes(window),
                _ => Err("it holds".into()),
            },
            "mss" => numbers(mss, 1.0, a),
            "peer_window" => numbers(flow.send_window as f64, 1.0, a),
            "retransmits" => numbers(s.core().stats().retransmits as f64, 1.0, a),
            "fast_recoveries" => numbers(s.core().stats().fast_recoveries as f64, 1.0, a),
            "timeouts" => numbers(s.core().stats().timeouts as f64, 1.0, a),
            "undos" => numbers(s.core().stats().undos as f64, 1.0, a),
            "ecn_reductions" => numbers(s.core().stats().ecn_reductions as f64, 1.0, a),
            "probes" => numbers(s.core().stats().probes as f64, 1.0, a),
            "rto_ms" => numbers(flow.rto.as_millis_f64(), 1.0, a),
            "srtt_ms" => numbers(flow.srtt.as_millis_f64(), 1.0, a),
            "rtt_samples" => numbers(s.core().stats().rtt.count() as f64, 1.0, a),
            name => Err(format!("there is no `{name}` to ask for")),
        }
    }
}

fn compare_words(got: &str, a: &Assertion) -> Result<(), String> {
    let holds = match a.operator.as_str() {
        "==" => got == a.value,
        "!=" => got != a.value,
        other => return Err(format!("words are not compared with {other}")),
    };
    if holds { Ok(()) } else { Err(format!("{} is {got}", a.name)) }
}

/// Compares `got` with the assertion's number of `unit`s, to a millionth of a unit.
fn numbers(got: f64, unit: f64, a: &Assertion) -> Result<(), String> {
    let want: f64 = a.value.parse().map_err(|_| format!("{} is no number", a.value))?;
    let (got, near) = (got / unit, 1e-6 * unit.max(1.0) / unit);
    let holds = match a.operator.as_str() {
        "==" => (got - want).abs() < near,
        "!=" => (got - want).abs() >= near,
        "<=" => got <= want + near,
        ">=" => got >= want - near,
        "<" => got < want,
        ">" => got > want,
        other => return Err(format!("there is no operator {other}")),
    };
    if holds { Ok(()) } else { Err(format!("{} is {got}", a.name)) }
}

/// Tolerance for the time of a line: RTT arithmetic rounds to nanoseconds.
const SLACK: Time = Time::from_micros(10);
