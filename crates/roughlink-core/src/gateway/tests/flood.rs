//! Honest flows among many forged segments, generated from a seed, in each gateway. Control of every honest flow must
//! be exact, and the work per segment must not grow with the table.
//!
//! The attackers use real addresses, ports and link headers, but at most one of the two sequence numbers of a flow:
//! with both, every receiver would accept the segment. The attackers send:
//!
//! - forged segments of honest flows in both directions: SYN, SYN-ACK, RST, FIN, data, acknowledgments and marks;
//! - SYNs, handshakes without their third segment, data and acknowledgments of flows that do not exist;
//! - copies of honest segments, some of connections that ended long ago.
//!
//! Meanwhile honest flows open, transfer, fall silent, close and are reset. On the train, coverage ends and returns.

use super::{FlowKey, Gateway, Heading, Modem, Segment, SegmentVerdict};
use crate::cc::LinkEvent;
use crate::gateway::bytes::LinkHeader;
use crate::gateway::flows::{self, FlowPhase, Flows};
use crate::gateway::{REGISTRY, Stats, build};
use crate::packet::{FlowId, SynOptions, flags};
use crate::rng::{RandomStream, Seed};
use crate::units::Time;
use std::collections::VecDeque;

const CAPACITY: usize = 64;
const HONEST: usize = 28;
/// Number of honest flows whose SYN the gateway has not seen, if it serves such flows.
const MID_STREAM: usize = 4;
const MSS: u32 = 1_460;

/// A modem with a full queue, in which two SDUs outlast any RTT, so every window is the smallest: two segments.
struct Slow;

impl Modem for Slow {
    fn waiting(&self, _key: &FlowKey) -> u32 {
        200
    }
    fn backlog(&self, _key: &FlowKey) -> u32 {
        200
    }
    fn total_backlog(&self) -> u32 {
        10_000
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        Time::from_secs(1 + u64::from(sdus))
    }
    fn max_sdus(&self) -> u32 {
        31
    }
}

struct Honest {
    key: FlowKey,
    shift: u8,
    open: bool,
    served: bool,
    mid_stream: bool,
    /// Next sequence number of server and client, by heading.
    next: [u32; 2],
    /// Last window advertised by the client, and the right edge seen by the server.
    window: u16,
    right: u32,
}

impl Honest {
    fn segment(&self, heading: Heading) -> Segment {
        let [server, client] = self.next;
        let (key, seq, ack) = match heading {
            Heading::Inward => (self.key, server, client),
            Heading::Outward => (self.key.reversed(), client, server),
        };
        let link = LinkHeader::detect(&[heading as u8 + 1; 14]);
        Segment { seq, ack, flags: flags::ACK, window: 60_000 >> self.shift, link, ..Segment::new(key) }
    }
}

struct Flood<'g> {
    gateway: &'g mut dyn Gateway,
    /// True if the gateway closes and opens windows.
    on_train: bool,
    /// True if the gateway keeps windows small.
    in_modem: bool,
    rng: RandomStream,
    now: Time,
    honest: Vec<Honest>,
    past: VecDeque<(Heading, Segment)>,
    forged: u64,
    outage: bool,
    windows_checked: u64,
    originated: u64,
}

fn key(inside: u32, port: u16) -> FlowKey {
    FlowKey::new(FlowId::new((inside & 0x7fff) << 16 | u32::from(port), false))
}

impl<'g> Flood<'g> {
    fn new(gateway: &'g mut dyn Gateway, on_train: bool, in_modem: bool, seed: u64) -> Self {
        let honest = (0..HONEST).map(|i| Honest {
            key: key(2 + i as u32 % 5, 40_000 + i as u16),
            shift: if i % 3 == 0 { 7 } else { 0 },
            open: false,
            served: false,
            mid_stream: on_train && i < MID_STREAM,
            next: [0; 2],
            window: 0,
            right: 0,
        });
        Flood {
            honest: honest.collect(),
            gateway,
            on_train,
            in_modem,
            rng: Seed { seed, replica: 0 }.stream("flood", "segments"),
            now: Time::ZERO,
            past: VecDeque::new(),
            forged: 0,
            outage: false,
            windows_checked: 0,
            originated: 0,
        }
    }

    fn number(&mut self) -> u32 {
        self.rng.bits() as u32
    }
    fn below(&mut self, n: u64) -> u64 {
        self.rng.range(0, n - 1)
    }
    fn either(&mut self) -> Heading {
        if self.outage || self.below(2) == 0 { Heading::Outward } else { Heading::Inward }
    }
    /// Returns a number too far from `number` for any window.
    fn far(&mut self, number: u32) -> u32 {
        number.wrapping_add(self.rng.range(1 << 26, (1 << 32) - (1 << 26)) as u32)
    }

    fn pass(&mut self, heading: Heading, s: Segment) -> Segment {
        let mut s = s;
        let modem: Option<&dyn Modem> = if self.in_modem { Some(&Slow) } else { None };
        assert_eq!(self.gateway.receive(self.now, heading, &mut s, modem), SegmentVerdict::Accept);
        s
    }

    fn send(&mut self, heading: Heading, s: Segment) -> Segment {
        self.now += Time::from_micros(self.rng.range(0, 200));
        if !s.is(flags::RST) && s.flags != flags::SYN | flags::ACK {
            self.past.push_back((heading, s));
            if self.past.len() > 4_096 {
                self.past.pop_front();
            }
        }
        self.pass(heading, s)
    }

    fn noise(&mut self, most: u64) {
        for _ in 0..self.below(most + 1) {
            self.now += Time::from_micros(self.rng.range(0, 20));
            let (heading, s) = self.forge();
            let passed = self.pass(heading, s);
            self.forged += 1;
            // A repeated old acknowledgment offers its old window, rounded up to a unit.
            let flow = self.honest.iter_mut().find(|h| heading == Heading::Outward && h.key.reversed() == s.key);
            if let Some(h) = flow {
                let edge = s.ack.wrapping_add(u32::from(passed.window) << h.shift);
                let ahead = edge.wrapping_sub(h.right);
                h.right = if ahead < 1 << h.shift { edge } else { h.right };
            }
        }
    }

    fn forge(&mut self) -> (Heading, Segment) {
        let heading = self.either();
        let victim = self.below(HONEST as u64) as usize;
        // The attacker has a different link header.
        let s = Segment { link: LinkHeader::detect(&[0xee; 14]), ..self.honest[victim].segment(heading) };
        let (seq, ack, far_seq, far_ack) = (self.number(), self.number(), self.far(s.seq), self.far(s.ack));
        let options = SynOptions { mss: 9, window_scale: Some(self.below(15) as u8), ..SynOptions::default() };
        let of = |key| Segment { link: s.link, ..Segment::new(key) };
        let syn = |key, seq| Segment { seq, flags: flags::SYN, syn: Some(options), window: 65_535, ..of(key) };
        let stranger = key(self.number() >> 8, seq as u16);
        let stranger = if heading == Heading::Inward { stranger } else { stranger.reversed() };
        let fin = flags::FIN | flags::ACK;
        let forged = match self.below(16) {
            0 => syn(s.key, seq),
            1 => syn(s.key, s.seq.wrapping_add(self.below(4) as u32)),
            2 => Segment { ack, flags: flags::SYN | flags::ACK, ..syn(s.key, seq) },
            3 => Segment { ack: s.ack, flags: flags::SYN | flags::ACK, ..syn(s.key, seq) },
            4 => Segment { seq, ack, flags: flags::RST, ..s },
            5 => {
                Segment { seq: s.seq.wrapping_add(1 + self.below(50_000) as u32), flags: flags::RST | flags::ACK, ..s }
            }
            6 => Segment { seq: far_seq, signed: true, ..s },
            7 => Segment { ack: far_ack, multipath: true, payload: MSS, ..s },
            8 => Segment { seq, ack, flags: fin, ..s },
            9 => Segment { seq: far_seq, payload: MSS, window: 0, timestamps: Some((seq, ack)), ..s },
            10 => Segment { ack: far_ack, payload: MSS, window: 65_535, ..s },
            11 => Segment { ack: far_ack, flags: if seq % 2 == 0 { fin } else { flags::ACK }, window: 65_535, ..s },
            12 | 13 => syn(stranger, seq),
            14 => {
                // A handshake up to its second segment, or the segments after a handshake that was not seen.
                if ack % 2 == 0 && !self.outage {
                    self.pass(heading, syn(stranger, seq));
                    let answer = Segment { ack: seq.wrapping_add(1), ..syn(stranger.reversed(), ack) };
                    let answer = Segment { flags: flags::SYN | flags::ACK, ..answer };
                    return (heading.opposite(), answer);
                }
                Segment { seq, ack, payload: ack % 3 * 700, flags: flags::ACK, ..of(stranger) }
            }
            _ if self.past.is_empty() => syn(stranger, seq),
            _ => {
                let which = self.below(self.past.len() as u64) as usize;
                let (heading, again) = self.past[which];
                // Old segments of both ends could replay a finished connection from beginning to end.
                let open = self.honest.iter().any(|h| h.open && h.key == again.key);
                if heading == Heading::Inward && (self.outage || !open) {
                    return (Heading::Outward, syn(self.honest[victim].key.reversed(), seq));
                }
                return (heading, again);
            }
        };
        (heading, forged)
    }

    fn open(&mut self, i: usize) {
        let numbers = [self.number(), self.number()];
        self.honest[i].next = numbers;
        let [server, client] = numbers.map(|n| n.wrapping_add(1));
        let opener = if i % 4 == 1 { Heading::Inward } else { Heading::Outward };
        if !self.honest[i].mid_stream {
            let window_scale = Some(self.honest[i].shift);
            let syn = Some(SynOptions { mss: MSS as u16, window_scale, ..SynOptions::default() });
            let first = Segment { ack: 0, flags: flags::SYN, syn, window: 60_000, ..self.honest[i].segment(opener) };
            self.send(opener, first);
            self.now += Time::from_millis(30);
            self.noise(CAPACITY as u64 / 2);
            let s = self.honest[i].segment(opener.opposite());
            let second =
                Segment { ack: s.ack.wrapping_add(1), flags: flags::SYN | flags::ACK, syn, window: 60_000, ..s };
            self.send(opener.opposite(), second);
            self.noise(CAPACITY as u64 / 4);
            self.honest[i].next = [server, client];
            let third = self.honest[i].segment(opener);
            self.send(opener, third);
        }
        let h = &mut self.honest[i];
        (h.open, h.served, h.next) = (true, false, [server, client]);
        let offered = if opener == Heading::Inward { 60_000 } else { 60_000 >> h.shift << h.shift };
        h.right = server.wrapping_add(offered);
        if h.mid_stream {
            self.exchange(i);
        }
        self.noise(8);
    }

    fn exchange(&mut self, i: usize) {
        // Before the other end answers, the gateway cannot verify the newest segment of a flow whose SYN was not seen.
        let most = if self.honest[i].mid_stream && !self.honest[i].served { 0 } else { 6 };
        for _ in 0..self.rng.range(1, 2) {
            let data = Segment { payload: MSS, ..self.honest[i].segment(Heading::Inward) };
            self.send(Heading::Inward, data);
            self.honest[i].next[0] = data.end();
            self.noise(most);
        }
        let mut s = self.honest[i].segment(Heading::Outward);
        s.payload = if self.below(4) == 0 { 500 } else { 0 };
        self.acknowledge(i, s);
        self.noise(6);
        if s.payload > 0 {
            let answer = self.honest[i].segment(Heading::Inward);
            self.send(Heading::Inward, answer);
            self.noise(6);
        }
    }

    /// Passes `s` from the client and asserts that it gets the right window.
    fn acknowledge(&mut self, i: usize, s: Segment) {
        let passed = self.send(Heading::Outward, s).window;
        let (on_train, in_modem, outage) = (self.on_train, self.in_modem, self.outage);
        let h = &mut self.honest[i];
        h.next[1] = s.end();
        (h.window, h.served) = (s.window, true);
        let right = if !in_modem || h.right.wrapping_sub(s.ack) as i32 <= 0 { 0 } else { h.right.wrapping_sub(s.ack) };
        let held = right.max(2 * MSS).div_ceil(1 << h.shift);
        let due = match (in_modem, on_train && outage) {
            (true, _) => held.min(u32::from(s.window)) as u16,
            (_, true) => 0,
            _ => s.window,
        };
        assert_eq!(passed, due, "flow {i} after {} forged segments", self.forged);
        let edge = s.ack.wrapping_add(u32::from(passed) << h.shift);
        h.right = if edge.wrapping_sub(h.right) as i32 > 0 { edge } else { h.right };
        self.windows_checked += 1;
    }

    /// Closes both ends or resets one; the ports may be reused immediately.
    fn close(&mut self, i: usize) {
        for heading in [Heading::Inward, Heading::Outward] {
            let s = self.honest[i].segment(heading);
            if self.below(8) == 0 {
                self.send(heading, Segment { flags: flags::RST, ..s });
                break;
            }
            let fin = Segment { flags: flags::FIN | flags::ACK, ..s };
            self.send(heading, fin);
            self.honest[i].next[heading as usize] = fin.end();
            self.noise(6);
            let answer = self.honest[i].segment(heading.opposite());
            self.send(heading.opposite(), answer);
        }
        self.honest[i].open = false;
        self.noise(20);
    }

    fn tunnel(&mut self) {
        self.outage = true;
        self.gateway.on_link(self.now, &LinkEvent::Down);
        self.check_originated(1);
        self.noise(4 * CAPACITY as u64);
        for i in 0..HONEST {
            if self.honest[i].served && self.honest[i].open && self.below(4) == 0 {
                let s = self.honest[i].segment(Heading::Outward);
                self.acknowledge(i, s);
            }
            self.noise(12);
        }
        self.now += Time::from_millis(self.rng.range(0, 20_000));
        self.outage = false;
        [LinkEvent::Up, LinkEvent::Configured].iter().for_each(|e| self.gateway.on_link(self.now, e));
        self.check_originated(3);
    }

    /// Asserts that the gateway sends `times` segments for each honest flow that it serves, and none for any other.
    fn check_originated(&mut self, times: usize) {
        let mut said: Vec<_> = std::iter::from_fn(|| self.gateway.transmit(self.now)).collect();
        let mut due = Vec::new();
        for h in self.honest.iter().filter(|h| h.open && h.served) {
            let s = h.segment(Heading::Outward);
            let s = Segment { window: if self.outage { 0 } else { h.window }, ..s };
            due.extend(std::iter::repeat_n((Heading::Outward, s), times));
        }
        said.sort_by_key(|(_, s)| s.key);
        due.sort_by_key(|(_, s)| s.key);
        assert_eq!(said, due, "after {} forged segments", self.forged);
        self.originated += said.len() as u64;
    }

    fn run(&mut self, forged: u64) {
        for i in 0..HONEST {
            self.open(i);
        }
        while self.forged < forged {
            let i = self.below(HONEST as u64) as usize;
            match self.below(200) {
                0 if self.on_train => self.tunnel(),
                0..4 => {
                    self.now += Time::from_millis(self.rng.range(0, 1_500));
                    self.gateway.wake(self.now);
                }
                4..8 if self.honest[i].open && !self.honest[i].mid_stream => self.close(i),
                _ if !self.honest[i].open => self.open(i),
                _ => self.exchange(i),
            }
        }
    }

    fn check_end(&self) {
        let stats = self.gateway.stats(None);
        for h in self.honest.iter().filter(|h| h.open) {
            let phase = if h.mid_stream { FlowPhase::MidStream } else { FlowPhase::Established };
            assert!(stats.flows.iter().any(|f| f.key == h.key && f.phase == phase), "{:?}", h.key);
        }
        assert_eq!(stats.counters.evicted, 0);
    }
}

fn control_is_kept(forged: u64) {
    for kind in REGISTRY.iter() {
        let whole = if kind.needs_modem { "sample = \"whole\"\n" } else { "" };
        let mut gateway = build(kind.name, &format!("{whole}table = {{ capacity = {CAPACITY} }}")).unwrap();
        let mut flood = Flood::new(gateway.as_mut(), !kind.needs_modem, kind.needs_modem, 1);
        flood.run(forged);
        flood.check_end();
        assert!(flood.windows_checked > forged / 50, "{}: {}", kind.name, flood.windows_checked);
        assert!(!flood.on_train || flood.originated > forged / 100, "{}: {}", kind.name, flood.originated);
    }
}

#[test]
fn flood_does_not_end_control() {
    control_is_kept(100_000);
}

/// Ten million segments for each gateway of the registry; takes some minutes:
/// `cargo test --workspace --lib gateway::tests::flood -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn long_flood_does_not_end_control() {
    control_is_kept(10_000_000);
}

#[derive(Debug)]
struct BareFlowTable(Flows<()>);

impl Gateway for BareFlowTable {
    fn receive(&mut self, now: Time, heading: Heading, s: &mut Segment, _modem: Option<&dyn Modem>) -> SegmentVerdict {
        self.0.observe(now, heading, s);
        SegmentVerdict::Accept
    }
    fn wake(&mut self, now: Time) {
        self.0.expire(now);
    }
    fn next_wake(&self) -> Time {
        self.0.next_expiry()
    }
    fn stats(&self, modem: Option<&dyn Modem>) -> Stats {
        self.0.stats(modem, |()| None)
    }
}

/// Expiry and eviction examine a few entries per segment, in full tables of 64 and of 4096.
#[test]
fn the_work_per_segment_does_not_grow_with_the_table() {
    for capacity in [CAPACITY, 4_096] {
        let params = flows::Params { capacity, handshake_ms: 2_000, ..flows::Params::default() };
        let mut table = BareFlowTable(Flows::new(params));
        // Flows that never end, each silent since a different instant.
        for i in 0..capacity as u16 {
            let inward = key(1_000, i);
            let data = Segment { seq: 1, ack: 1, payload: 1, flags: flags::ACK, ..Segment::new(inward) };
            table.0.observe(Time(u64::from(i)), Heading::Inward, &data);
            let answer = Segment { seq: 1, ack: 2, flags: flags::ACK, ..Segment::new(inward.reversed()) };
            table.0.observe(Time(u64::from(i)), Heading::Outward, &answer);
        }
        assert_eq!(table.0.counters.mid_stream, capacity as u64);
        let mut flood = Flood::new(&mut table, false, false, 2);
        flood.run(100_000);
        let c = table.0.counters;
        assert!(c.unfinished > 10_000 && c.evicted > 10, "{c:?}");
        assert!(table.0.steps < 300_000, "{} of {capacity}", table.0.steps);
    }
}
