//! Real endpoints on both sides of a gateway: servers outside, clients inside.

use super::{Gateway, Heading, Key, Modem};
use crate::cc::{self, LinkEvent};
use crate::gateway::{Stats, build, packets};
use crate::packet::{FlowId, NO_SIDE, Packet, Sides};
use crate::tcp::{Buffer, Endpoint, Stack, TcpConfig};
use crate::units::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// A power-line sender without errors: PDUs of up to 31 SDUs, drop-tail.
#[derive(Default)]
struct PowerLine {
    queue: VecDeque<Packet>,
    sent: Vec<Packet>,
    dropped: u64,
}

impl Modem for PowerLine {
    fn waiting(&self, key: &Key) -> u32 {
        self.queue.iter().filter(|p| Key::Simulated(p.flow) == *key).count() as u32
    }
    fn backlog(&self, key: &Key) -> u32 {
        self.waiting(key) + self.sent.iter().filter(|p| Key::Simulated(p.flow) == *key).count() as u32
    }
    fn occupied(&self) -> u32 {
        (self.queue.len() + self.sent.len()) as u32
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        Time(750_000 + 652_202 * u64::from(sdus))
    }
    fn limit(&self) -> u32 {
        31
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// This packet reaches the gateway, or the end that it is for.
    Gateway(usize, Heading),
    End(usize),
    Pdu,
    Link(usize),
}

/// One gateway in the middle. The rough link is a power line inside of it, or the link outside of it.
struct World {
    now: Time,
    ends: Vec<[Endpoint; 2]>,
    gateway: Option<Box<dyn Gateway>>,
    outside: Vec<Time>,
    power_line: Option<PowerLine>,
    /// Nothing passes between outside and the gateway from the first to the second.
    outage: (Time, Time),
    notices: Vec<(Time, LinkEvent)>,
    events: BinaryHeap<Reverse<(Time, usize, Event)>>,
    packets: Vec<Packet>,
    sides: Sides,
    number: usize,
    delivered_at: Vec<(Time, usize, u64)>,
    queue: Vec<(Time, u32)>,
}

const INSIDE: Time = Time(300_000);

impl World {
    /// Servers `rtts` ms away that start to send without end, 5 s after one another.
    fn new(cfg: TcpConfig, cc: &str, gateway: Option<(&str, &str)>, rtts: &[u64]) -> Self {
        let factory = cc::algorithm(cc).unwrap().factory(cfg.stack.name(), &toml::Table::new()).unwrap();
        let cfg = Arc::new(cfg);
        let end = |flow, reverse| Endpoint::new(FlowId::new(flow, reverse), cfg.clone(), factory.clone(), 1);
        let ends = (0..rtts.len() as u32).map(|i| [end(i, false), end(i, true)]).collect();
        World {
            now: Time::ZERO,
            ends,
            gateway: gateway.map(|(name, params)| build(name, params).unwrap()),
            outside: rtts.iter().map(|&ms| Time::from_micros(ms * 500).saturating_sub(INSIDE)).collect(),
            power_line: None,
            outage: (Time::MAX, Time::MAX),
            notices: Vec::new(),
            events: BinaryHeap::new(),
            packets: Vec::new(),
            sides: Sides::default(),
            number: 0,
            delivered_at: Vec::new(),
            queue: Vec::new(),
        }
    }

    fn at(&mut self, when: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((when, self.number, event)));
    }

    fn run(&mut self, until: Time) {
        for (i, (at, _)) in self.notices.clone().into_iter().enumerate() {
            self.at(at, Event::Link(i));
        }
        let mut started = 0;
        loop {
            let start = Time::from_secs(5 * started as u64);
            let start = if started < self.ends.len() { start } else { Time::MAX };
            let timers = self.ends.iter().flatten().map(|e| e.next_wake(self.now)).min().unwrap();
            let gateway = self.gateway.as_ref().map_or(Time::MAX, |g| g.next_wake());
            let event = self.events.peek().map_or(Time::MAX, |e| e.0.0);
            let next = event.min(timers).min(start).min(gateway);
            if next > until {
                return;
            }
            self.now = self.now.max(next);
            if start <= self.now {
                let [server, client] = &mut self.ends[started];
                server.offer(u64::MAX, false);
                client.listen();
                server.connect();
                started += 1;
            } else if gateway <= self.now {
                self.gateway.as_mut().unwrap().wake(self.now);
            } else if event <= self.now {
                let Reverse((_, _, event)) = self.events.pop().unwrap();
                self.happen(event);
            } else {
                self.ends.iter_mut().flatten().for_each(|e| e.wake(self.now));
            }
            self.pump();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Gateway(i, heading) => {
                let mut p = self.packets[i];
                if heading == Heading::Inward && self.lost() {
                    return;
                }
                if let Some(g) = &mut self.gateway {
                    let modem = self.power_line.as_ref().map(|m| m as &dyn Modem);
                    packets::receive(g.as_mut(), self.now, heading, &mut p, &mut self.sides, modem);
                }
                self.onward(heading, p);
            }
            Event::End(i) => {
                let p = self.packets[i];
                let (flow, end) = (p.flow.index(), usize::from(!p.flow.reverse()));
                let before = self.ends[flow][1].delivered();
                self.ends[flow][end].receive(self.now, &p, &self.sides);
                let after = self.ends[flow][1].delivered();
                if after > before {
                    self.delivered_at.push((self.now, flow, after));
                }
            }
            Event::Pdu => {
                let sent = std::mem::take(&mut self.power_line.as_mut().unwrap().sent);
                sent.into_iter().for_each(|p| self.launch(INSIDE, p, Event::End));
                self.serve();
            }
            Event::Link(i) => {
                if let Some(g) = &mut self.gateway {
                    g.on_link(self.now, &self.notices[i].1);
                }
            }
        }
    }

    fn lost(&self) -> bool {
        self.outage.0 <= self.now && self.now < self.outage.1
    }

    /// A packet leaves the gateway.
    fn onward(&mut self, heading: Heading, p: Packet) {
        let lost = self.lost();
        match (heading, &mut self.power_line) {
            (Heading::Inward, Some(modem)) => {
                if modem.occupied() < 256 {
                    modem.queue.push_back(p);
                } else {
                    modem.dropped += 1;
                }
                self.queue.push((self.now, self.power_line.as_ref().unwrap().occupied()));
                self.serve();
            }
            (Heading::Inward, None) => self.launch(INSIDE, p, Event::End),
            (Heading::Outward, _) if lost => {}
            (Heading::Outward, _) => self.launch(self.outside[p.flow.index()], p, Event::End),
        }
    }

    fn serve(&mut self) {
        let Some(modem) = self.power_line.as_mut().filter(|m| m.sent.is_empty() && !m.queue.is_empty()) else { return };
        let n = modem.queue.len().min(31);
        modem.sent = modem.queue.drain(..n).collect();
        let done = self.now + modem.cycle_time(n as u32);
        self.at(done, Event::Pdu);
    }

    fn launch(&mut self, delay: Time, p: Packet, event: impl Fn(usize) -> Event) {
        self.packets.push(p);
        let i = self.packets.len() - 1;
        self.at(self.now + delay, event(i));
    }

    fn pump(&mut self) {
        for flow in 0..self.ends.len() {
            for end in 0..2 {
                while let Some(p) = self.ends[flow][end].transmit(self.now, &mut self.sides) {
                    let (delay, heading) =
                        if end == 0 { (self.outside[flow], Heading::Inward) } else { (INSIDE, Heading::Outward) };
                    self.launch(delay, p, |i| Event::Gateway(i, heading));
                }
            }
        }
        while let Some((heading, p)) = self.gateway.as_mut().and_then(|g| packets::transmit(g.as_mut(), self.now)) {
            assert_eq!((heading, p.side()), (Heading::Outward, NO_SIDE));
            self.onward(heading, p);
        }
    }

    /// Bytes of `flow` delivered in an interval.
    fn bytes(&self, flow: usize, from: u64, to: u64) -> u64 {
        let by = |at| {
            let before = |d: &&(Time, usize, u64)| d.0 <= Time::from_secs(at) && d.1 == flow;
            self.delivered_at.iter().rfind(before).map_or(0, |d| d.2)
        };
        by(to) - by(from)
    }

    /// How long after `at` something new is delivered.
    fn silence_after(&self, at: Time) -> Time {
        self.delivered_at.iter().find(|d| d.0 > at).map_or(Time::MAX, |d| d.0 - at)
    }

    fn timeouts(&self) -> u64 {
        self.ends.iter().map(|e| e[0].sender().unwrap().stats().timeouts).sum()
    }

    fn stats(&self) -> Stats {
        self.gateway.as_ref().unwrap().stats(self.power_line.as_ref().map(|m| m as &dyn Modem))
    }
}

fn jain(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().sum();
    sum * sum / x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

fn after(stack: Stack) -> TcpConfig {
    TcpConfig { rcv_buf: Buffer::Bytes(131_072), ..TcpConfig::preset(stack) }
}

/// The proposed scheme on an error-free power line: full link, short queue, no drops, equal rates. A single flow's upper
/// bound is the bandwidth-delay product without the wait for a PDU, so that it does not fill the link.
#[test]
fn muniz_shares_the_power_line() {
    let capacity = 31.0 * 1448.0 * 8.0 / PowerLine::default().cycle_time(31).as_secs_f64() / 1e6;
    for cc in ["newreno", "cubic"] {
        for (rtts, full) in [(&[66][..], 0.8), (&[66, 186], 0.95), (&[66, 126, 186], 0.95)] {
            let mut w = World::new(TcpConfig::preset(Stack::Linux), cc, Some(("muniz", "")), rtts);
            w.power_line = Some(PowerLine::default());
            w.run(Time::from_secs(60));
            let rates: Vec<f64> = (0..rtts.len()).map(|i| w.bytes(i, 20, 60) as f64 * 8.0 / 40.0 / 1e6).collect();
            let total: f64 = rates.iter().sum();
            let mut queue: Vec<u32> = w.queue.iter().filter(|q| q.0 > Time::from_secs(20)).map(|q| q.1).collect();
            queue.sort_unstable();
            let mean = queue.iter().sum::<u32>() as f64 / queue.len() as f64;
            let p95 = queue[queue.len() * 95 / 100];
            let what = format!("{cc} {rtts:?}: {rates:.2?} of {capacity:.2}, queue {mean:.1}, p95 {p95}");
            assert!(jain(&rates) >= 0.95 && total >= full * capacity, "{what}");
            assert!(mean <= 62.0 && p95 <= 93, "{what}"); // 2 L and 3 L
            assert_eq!((w.power_line.as_ref().unwrap().dropped, w.timeouts()), (0, 0), "{what}");
            let stats = w.stats();
            assert!(stats.flows.iter().all(|f| f.active && f.rewritten > 0));
            let shares: f64 = stats.flows.iter().map(|f| f.queue_share).sum();
            assert!((shares - 1.0).abs() < 1e-9);
        }
    }
    // The previous scheme, without cross traffic: no overflow either, and a longer queue.
    let mut w = World::new(TcpConfig::preset(Stack::Linux), "newreno", Some(("mizutani", "")), &[66, 186]);
    w.power_line = Some(PowerLine::default());
    w.run(Time::from_secs(60));
    let mut queue: Vec<u32> = w.queue.iter().filter(|q| q.0 > Time::from_secs(20)).map(|q| q.1).collect();
    queue.sort_unstable();
    let (p95, dropped) = (queue[queue.len() * 95 / 100], w.power_line.as_ref().unwrap().dropped);
    assert!(p95 < 128 && dropped == 0, "{p95} {dropped}");
    // Without it the queue overflows.
    let mut w = World::new(TcpConfig::preset(Stack::Linux), "newreno", None, &[66, 186]);
    w.power_line = Some(PowerLine::default());
    w.run(Time::from_secs(60));
    assert!(w.power_line.unwrap().dropped > 0);
}

const GONE: Time = Time::from_secs(20);
const BACK: Time = Time::from_secs(40);

fn journey(
    cfg: TcpConfig,
    gateway: Option<(&str, &str)>,
    notices: &[(Time, LinkEvent)],
    outage: (Time, Time),
) -> World {
    let mut w = World::new(cfg, "newreno", gateway, &[60]);
    w.outage = outage;
    w.notices = notices.to_vec();
    w.run(Time::from_secs(100));
    w
}

/// 20 s without coverage. Warned half a second ahead, the sender loses nothing and goes on at once; without an agent it
/// waits for its timer.
#[test]
fn avoca_rx_resumes_at_once() {
    for cfg in [Stack::Linux, Stack::Rfc, Stack::Ns3, Stack::Ns2].map(after) {
        let stack = cfg.stack;
        let plain = journey(cfg.clone(), None, &[], (GONE, BACK));
        let notices = [
            (GONE.saturating_sub(ms(500)), LinkEvent::Signal(-85.0)),
            (GONE + ms(100), LinkEvent::Down),
            (BACK + ms(50), LinkEvent::Up),
            (BACK + ms(80), LinkEvent::Configured),
            (BACK + ms(100), LinkEvent::Signal(-60.0)),
        ];
        let w = journey(cfg, Some(("avoca-rx", "")), &notices, (GONE, BACK));
        let (without, with) = (plain.silence_after(BACK), w.silence_after(BACK + ms(100)));
        println!("{stack:?}: {without} without, {with} with; {:?}", w.stats());
        assert!(plain.timeouts() > 3 && without > Time::from_secs(2), "{stack:?} {without}");
        assert_eq!(w.timeouts(), 0, "{stack:?}");
        assert!(with < ms(65), "{stack:?} {with}");
        assert!(w.bytes(0, 0, 100) > plain.bytes(0, 0, 100));
    }
}

/// Warnings that are late, too late, wrong or missing.
#[test]
fn avoca_rx_does_no_harm() {
    for cfg in [Stack::Linux, Stack::Rfc, Stack::Ns3, Stack::Ns2].map(after) {
        let stack = cfg.stack;
        let gateway = Some(("avoca-rx", ""));
        let plain = journey(cfg.clone(), None, &[], (GONE, BACK));
        let silent = journey(cfg.clone(), gateway, &[], (GONE, BACK));
        assert_eq!(silent.delivered_at, plain.delivered_at, "{stack:?}: transparent");

        for late in [1, 30, 300, 3_000] {
            let back = [LinkEvent::Up, LinkEvent::Configured].map(|e| (BACK + ms(late), e));
            let notices = [&[(GONE + ms(late), LinkEvent::Down)], &back[..]].concat();
            let w = journey(cfg.clone(), gateway, &notices, (GONE, BACK));
            assert!(w.silence_after(BACK) <= plain.silence_after(BACK), "{stack:?}, notified {late} ms late");
            assert!(
                w.bytes(0, 0, 100) as f64 >= 0.99 * plain.bytes(0, 0, 100) as f64,
                "{stack:?}, notified {late} ms late"
            );
        }

        // Nothing follows: the sender's next probe proves the warning wrong.
        let notices = [(GONE, LinkEvent::Signal(-85.0))];
        let w = journey(cfg.clone(), gateway, &notices, (Time::MAX, Time::MAX));
        let stopped = w.silence_after(GONE + ms(200));
        assert!(stopped > Time::from_secs(4) && stopped < Time::from_secs(20), "{stack:?} {stopped}");
        let whole = journey(cfg.clone(), None, &[], (Time::MAX, Time::MAX));
        assert!(w.bytes(0, 60, 100) as f64 > 0.99 * whole.bytes(0, 60, 100) as f64, "{stack:?}");
    }
}
