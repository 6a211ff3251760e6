//! Timed packet scripts: parser. The notation is the part of packetdrill's that one endpoint needs.
//!
//! ```text
//! # what the script shows
//! [tcp]                       # keys of a scenario's [tcp], and
//! stack = "linux"
//! [[off]]                     # keys with which the script must fail
//! tlp = false
//! ---
//! 0.000 connect               # also: listen, write N, close
//! +0    > SEW 0:0(0)          # E and W are ECE and CWR
//! +0    < [ce] . 1:1(0) ack 1 # ECN codepoint: [ect0], [ect1] or [ce]; without, the packet is not ECN-capable
//! +0    > S 0:0(0) <mss 1460,sackOK>      # must leave exactly now; "." = ACK; P is not compared
//! +.02  < S. 0:0(0) ack 1 win 65535 <mss 1460>   # arrives; without win: as before
//! +0    > . 1:10001(10000) ack 1          # a train: consecutive full segments
//! +.2~.3 > . 1:1001(1000)                 # leaves between .2 and .3 s from now
//! %{ cwnd == 10 ; state == Open }%        # windows count segments of the connection
//! ```
//!
//! Times are absolute, or relative to the previous line with `+`. Numbers are relative to the initial sequence numbers
//! of their side. Any packet that is sent unexpectedly is a mismatch.

use roughlink_core::packet::{Ecn, SackBlock, SynOptions, flags};
use roughlink_core::units::Time;

#[derive(Debug)]
pub struct Script {
    /// Table `tcp` of the header, and the tables `off`.
    pub tcp: toml::Table,
    pub off: Vec<toml::Table>,
    /// Initial sequence numbers, ours and the peer's.
    pub iss: u32,
    pub irs: u32,
    pub lines: Vec<Line>,
}

/// Line with its place in the file.
#[derive(Clone, Debug)]
pub struct Line {
    pub number: usize,
    pub text: String,
    pub when: When,
    pub event: Event,
}

#[derive(Clone, Copy, Debug)]
pub enum When {
    At(Time),
    /// Time since the previous line, within `.0 ..= .1`.
    After(Time, Time),
}

#[derive(Clone, Debug)]
pub enum Event {
    Connect,
    Listen,
    Write(u64),
    Close,
    Expect(Segment),
    Inject(Segment),
    Assert(Vec<Assertion>),
    /// Only time passes.
    Nothing,
}

/// Segment as written.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub ecn: Option<Ecn>,
    pub flags: u8,
    pub seq: u64,
    pub len: u64,
    pub ack: Option<u64>,
    pub win: Option<u16>,
    /// `None` without `<...>`.
    pub options: Option<Options>,
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub syn: SynOptions,
    /// TSval and TSecr; the inner option is `None` if the script has only `TS`.
    pub timestamps: Option<Option<(u32, u32)>>,
    pub sacks: Vec<SackBlock>,
}

#[derive(Clone, Debug)]
pub struct Assertion {
    pub name: String,
    pub operator: String,
    pub value: String,
}

impl Script {
    pub fn parse(text: &str) -> Result<Script, String> {
        let (header, body) = text.split_once("\n---\n").ok_or("no `---` line ends the header")?;
        let header: toml::Table = header.parse().map_err(|e| format!("header: {e}"))?;
        let table = |v: &toml::Value| v.as_table().cloned().ok_or("not a table".to_owned());
        let number = |key: &str| header.get(key).and_then(toml::Value::as_integer).unwrap_or(0) as u32;
        let off = header.get("off").and_then(toml::Value::as_array).map(|a| a.iter().map(table).collect());
        let mut lines = Vec::new();
        let skipped = text.lines().take_while(|l| *l != "---").count() + 1;
        for (i, raw) in body.lines().enumerate() {
            let text = raw.split('#').next().unwrap_or("").trim();
            if text.is_empty() {
                continue;
            }
            let number = skipped + i + 1;
            let line = line(number, text).ok_or_else(|| format!("line {number}: cannot be read: {text}"))?;
            lines.push(line);
        }
        Ok(Script {
            tcp: header.get("tcp").map_or(Ok(toml::Table::new()), table)?,
            off: off.unwrap_or(Ok(Vec::new()))?,
            iss: number("iss"),
            irs: number("irs"),
            lines,
        })
    }
}

fn line(number: usize, text: &str) -> Option<Line> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let timed = first.starts_with(|c: char| c == '+' || c == '.' && first.len() > 1 || c.is_ascii_digit());
    let (when, rest) = if timed { (when(first)?, rest.trim()) } else { (When::After(Time::ZERO, Time::ZERO), text) };
    let event = event(rest)?;
    Some(Line { number, text: text.to_owned(), when, event })
}

fn when(text: &str) -> Option<When> {
    let Some(relative) = text.strip_prefix('+') else { return Some(When::At(seconds(text)?)) };
    let (from, to) = relative.split_once('~').unwrap_or((relative, relative));
    Some(When::After(seconds(from)?, seconds(to.trim_start_matches('+'))?))
}

/// Parses decimal seconds exactly.
fn seconds(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = format!("{fraction:0<9}");
    Some(Time(whole * 1_000_000_000 + digits.get(..9)?.parse::<u64>().ok()?))
}

fn event(text: &str) -> Option<Event> {
    if let Some(inner) = text.strip_prefix("%{") {
        let inner = inner.strip_suffix("}%")?;
        let all = inner.split(';').map(str::trim).filter(|a| !a.is_empty());
        return Some(Event::Assert(all.map(assertion).collect::<Option<_>>()?));
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "" => Event::Nothing,
        "connect" => Event::Connect,
        "listen" => Event::Listen,
        "close" => Event::Close,
        "write" => Event::Write(rest.trim().parse().ok()?),
        ">" => Event::Expect(segment(rest.trim())?),
        "<" => Event::Inject(segment(rest.trim())?),
        _ => return None,
    })
}

fn assertion(text: &str) -> Option<Assertion> {
    let [name, operator, value] = text.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    Some(Assertion { name: name.to_owned(), operator: operator.to_owned(), value: value.to_owned() })
}

fn segment(text: &str) -> Option<Segment> {
    let (plain, options) = match text.split_once('<') {
        Some((plain, o)) => (plain, Some(parse_options(o.strip_suffix('>')?)?)),
        None => (text, None),
    };
    let mut words = plain.split_whitespace().peekable();
    let ecn = match *words.peek()? {
        "[ect0]" => Some(Ecn::Ect0),
        "[ect1]" => Some(Ecn::Ect1),
        "[ce]" => Some(Ecn::Ce),
        _ => None,
    };
    words.next_if(|_| ecn.is_some());
    let mut s = Segment { ecn, options, ..Segment::default() };
    for c in words.next()?.chars() {
        s.flags |= match c {
            'S' => flags::SYN,
            'F' => flags::FIN,
            'R' => flags::RST,
            'P' => flags::PSH,
            'E' => flags::ECE,
            'W' => flags::CWR,
            '.' => flags::ACK,
            _ => return None,
        };
    }
    let (range, len) = words.next()?.strip_suffix(')')?.split_once('(')?;
    let (seq, end) = range.split_once(':')?;
    (s.seq, s.len) = (seq.parse().ok()?, len.parse().ok()?);
    if end.parse::<u64>().ok()? != s.seq + s.len {
        return None;
    }
    while let Some(word) = words.next() {
        match word {
            "ack" => s.ack = Some(words.next()?.parse().ok()?),
            "win" => s.win = Some(words.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some(s)
}

fn parse_options(text: &str) -> Option<Options> {
    let mut o = Options::default();
    for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        let words: Vec<&str> = item.split_whitespace().collect();
        match words[..] {
            ["nop" | "eol"] => {}
            ["sackOK"] => o.syn.sack_permitted = true,
            ["mss", n] => o.syn.mss = n.parse().ok()?,
            ["wscale", n] => o.syn.window_scale = Some(n.parse().ok()?),
            ["TS"] => o.timestamps = Some(None),
            ["TS", "val", val, "ecr", ecr] => o.timestamps = Some(Some((val.parse().ok()?, ecr.parse().ok()?))),
            ["sack", ref blocks @ ..] => {
                for block in blocks {
                    let (left, right) = block.split_once(':')?;
                    o.sacks.push(SackBlock { left: left.parse().ok()?, right: right.parse().ok()? });
                }
            }
            _ => return None,
        }
    }
    o.syn.timestamps = o.timestamps.is_some();
    Some(o)
}
