//! The window of each algorithm alone, without endpoint and network: a path of fixed delay, a bottleneck buffer that
//! adds to it, and losses in fixed rounds. One snapshot per algorithm, in packets; `PLOT=folder` draws them instead.
//! Wave has no window; separate tests cover its rate over time in a network: alone, with losses, and with other flows.

use roughlink_core::cc::{
    Ack, Congestion, CongestionControl, CongestionState, Flow, REGISTRY, RateSample, Sent, build,
};
use roughlink_core::net::{Network, NetworkEvent, Observer, RunOptions};
use roughlink_core::units::Time;
use std::fmt::Write as _;
use std::path::Path;

const MSS: u64 = 1000;
const ROUNDS: usize = 80;
/// Packets that the bottleneck passes per propagation delay; more packets wait and add delay.
const CAPACITY: u64 = 40;
const DELAY: Time = Time::from_millis(50);
/// Packets in flight above which the bottleneck's buffer overflows.
const MOST: u64 = 4 * CAPACITY;
/// Round of a fast retransmit and round of a timeout; between them the queue grows without losses.
const LOSSES: [usize; 2] = [25, 45];
const TIMEOUT: usize = 62;

/// State at the start of a round.
#[derive(Clone, Copy)]
struct Point {
    cwnd: u64,
    ssthresh: u64,
    rtt: Time,
    phase: &'static str,
}

/// Feeds `cc` one ACK per packet of its window, round after round.
fn trajectory(cc: &mut dyn CongestionControl, flow: &mut Flow) -> Vec<Point> {
    let mut points = Vec::new();
    for round in 0..ROUNDS {
        let v = cc.trace();
        let packets = (v.cwnd / MSS).max(1);
        // Packets of the window beyond the capacity wait in the bottleneck.
        let rtt = DELAY + Time(DELAY.0 * packets.saturating_sub(CAPACITY) / CAPACITY);
        points.push(Point { cwnd: v.cwnd, ssthresh: v.ssthresh, rtt, phase: v.phase });
        let r = Round { packets, rtt, sent_at: flow.now, delivered_then: flow.delivered };
        flow.cwnd_limited = true;
        flow.max_outstanding = packets * MSS;
        for i in 0..packets {
            flow.in_flight += MSS;
            flow.snd_nxt += MSS;
            flow.outstanding = flow.snd_nxt - flow.snd_una;
            let seq = flow.snd_nxt - MSS;
            cc.on_sent(flow, &Sent { seq, len: MSS as u32, retransmission: false, tx_start: i == 0 && round == 0 });
        }
        if round == TIMEOUT {
            // All packets are lost and are repaired a round later.
            flow.now = r.sent_at + rtt + rtt;
            cc.on_congestion(flow, Congestion::Timeout);
            flow.state = CongestionState::Loss;
            r.repair(cc, flow, packets);
        } else if LOSSES.contains(&round) || packets > MOST {
            // The first packet is lost: the others arrive as SACKs, followed by its repair.
            flow.now = r.acked_at(0);
            cc.on_congestion(flow, Congestion::Loss);
            flow.state = CongestionState::Recovery;
            for i in 1..packets {
                r.ack(cc, flow, i, false);
            }
            flow.now += DELAY;
            r.repair(cc, flow, 1);
        } else {
            for i in 0..packets {
                r.ack(cc, flow, i, true);
            }
        }
    }
    points
}

/// Packets of one round trip, sent together and acknowledged at the bottleneck's pace.
struct Round {
    packets: u64,
    rtt: Time,
    sent_at: Time,
    delivered_then: u64,
}

impl Round {
    fn acked_at(&self, i: u64) -> Time {
        let pace = self.rtt.0 / self.packets;
        (self.sent_at + self.rtt).saturating_sub(Time(pace * (self.packets - 1 - i))).max(self.sent_at + Time(1))
    }

    /// Delivers the ACK of packet `i`: cumulative, or as SACK.
    fn ack(&self, cc: &mut dyn CongestionControl, flow: &mut Flow, i: u64, cumulative: bool) {
        flow.now = self.acked_at(i);
        let (prior_una, prior_in_flight) = (flow.snd_una, flow.in_flight);
        flow.in_flight -= MSS;
        flow.delivered += MSS;
        if cumulative {
            flow.snd_una += MSS;
            flow.outstanding = flow.snd_nxt - flow.snd_una;
        }
        measured(flow, self.rtt);
        let rate = RateSample {
            delivered: self.packets * MSS,
            prior_delivered: self.delivered_then,
            interval: self.rtt,
            rtt: self.rtt,
            acked_sacked: MSS,
            prior_in_flight,
            ..RateSample::default()
        };
        let mut ack = Ack::new(if cumulative { MSS } else { 0 }, MSS, u32::from(cumulative));
        (ack.rtt, ack.may_grow) = (Some(self.rtt), cumulative);
        (ack.prior_una, ack.prior_in_flight, ack.rate) = (prior_una, prior_in_flight, Some(rate));
        cc.on_ack(flow, &ack);
        if cc.timer().is_some_and(|t| t <= flow.now) {
            cc.on_timer(flow);
        }
    }

    /// Delivers the ACK that ends an episode, for all outstanding packets and `missing` ones delivered only now.
    fn repair(&self, cc: &mut dyn CongestionControl, flow: &mut Flow, missing: u64) {
        let (prior_una, prior_in_flight) = (flow.snd_una, flow.in_flight);
        let acked = flow.snd_nxt - flow.snd_una;
        flow.snd_una = flow.snd_nxt;
        flow.delivered += missing * MSS;
        (flow.in_flight, flow.outstanding) = (0, 0);
        flow.state = CongestionState::Open;
        cc.on_recovered(flow);
        let delivered = missing * MSS;
        let mut ack = Ack::new(acked, delivered, 0);
        (ack.prior_una, ack.prior_in_flight) = (prior_una, prior_in_flight);
        cc.on_ack(flow, &ack);
    }
}

fn measured(flow: &mut Flow, rtt: Time) {
    flow.latest_rtt = rtt;
    flow.srtt = if flow.srtt.is_zero() { rtt } else { Time((7 * flow.srtt.0 + rtt.0) / 8) };
    flow.min_rtt = if flow.min_rtt.is_zero() { rtt } else { flow.min_rtt.min(rtt) };
}

#[expect(clippy::disallowed_methods, reason = "`PLOT` names a folder for charts")]
#[test]
fn every_algorithm_has_its_trajectory() {
    let plot = std::env::var("PLOT").ok();
    for a in REGISTRY.iter() {
        let mut flow = Flow::new(MSS as u32, 10 * MSS);
        (flow.now, flow.min_rtt) = (Time::from_secs(1), Time::ZERO);
        flow.send_window = u64::from(u32::MAX);
        (flow.snd_una, flow.snd_nxt) = (1, 1);
        let mut cc = build(a.name, "linux", "", &flow).unwrap_or_else(|e| panic!("{}: {e}", a.name));
        let points = trajectory(cc.as_mut(), &mut flow);
        match &plot {
            Some(folder) => {
                let path = Path::new(folder).join(format!("{}.svg", a.name));
                std::fs::write(&path, chart(a.name, &points)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            }
            None => insta::assert_snapshot!(a.name, table(&points)),
        }
    }
}

/// Formats a round per line; windows in packets with one decimal.
fn table(points: &[Point]) -> String {
    let packets = |bytes: u64| {
        if bytes > 1 << 40 { "-".to_owned() } else { format!("{}.{}", bytes / MSS, bytes % MSS * 10 / MSS) }
    };
    let mut out = String::from("round    cwnd ssthresh  RTT ms  phase\n");
    for (i, p) in points.iter().enumerate() {
        let event = match i {
            TIMEOUT => "  <- time-out",
            _ if LOSSES.contains(&i) || p.cwnd / MSS > MOST => "  <- loss",
            _ => "",
        };
        let (cwnd, ssthresh) = (packets(p.cwnd), packets(p.ssthresh));
        let ms = p.rtt.as_micros();
        let _ = writeln!(out, "{i:5} {cwnd:>7} {ssthresh:>8} {:>5}.{}  {}{event}", ms / 1000, ms % 1000 / 100, p.phase);
    }
    out
}

/// Draws window and threshold over rounds.
fn chart(name: &str, points: &[Point]) -> String {
    let top = points.iter().map(|p| p.cwnd).max().unwrap_or(1).max(MSS) as f64 * 1.05;
    let at = |i: usize, bytes: u64| {
        let x = 50.0 + 640.0 * i as f64 / ROUNDS as f64;
        (x, 330.0 - 300.0 * (bytes as f64).min(top) / top)
    };
    let line = |value: &dyn Fn(&Point) -> u64| {
        let each = points.iter().enumerate().map(|(i, p)| at(i, value(p)));
        each.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    };
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 370' font-family='sans-serif' font-size='12'>\n\
         <rect width='720' height='370' fill='white'/>\n<text x='50' y='20' font-size='15'>{name}</text>\n"
    );
    for packets in (0..(top as u64 / MSS)).step_by(((top as u64 / MSS) / 5).max(1) as usize) {
        let (_, y) = at(0, packets * MSS);
        let _ = writeln!(out, "<text x='44' y='{:.1}' text-anchor='end'>{packets}</text>", y + 4.0);
        let _ = writeln!(out, "<path d='M50 {y:.1}H690' stroke='#ddd'/>");
    }
    for round in (0..ROUNDS).step_by(10) {
        let (x, _) = at(round, 0);
        let _ = writeln!(out, "<text x='{x:.1}' y='346' text-anchor='middle'>{round}</text>");
    }
    let _ =
        writeln!(out, "<text x='370' y='363' text-anchor='middle'>round trips; window and threshold in packets</text>");
    let (ssthresh, cwnd) = (line(&|p| p.ssthresh), line(&|p| p.cwnd));
    let _ = writeln!(out, "<polyline points='{ssthresh}' fill='none' stroke='#e08020' stroke-dasharray='4 3'/>");
    let _ = writeln!(out, "<polyline points='{cwnd}' fill='none' stroke='#2060c0' stroke-width='2'/>\n</svg>");
    out
}

/// Delivered bytes of each flow per interval, and the phase of its sender.
struct Rates {
    step: Time,
    until: Time,
    rows: Vec<Vec<(u64, &'static str)>>,
    present: Vec<(u64, &'static str)>,
}

impl Observer for Rates {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        let NetworkEvent::Sender { flow: index, sender, delivered } = event else { return };
        while self.until <= now {
            self.rows.push(self.present.clone());
            self.until += self.step;
        }
        self.present[index] = (delivered, sender.cc().trace().phase);
    }
}

/// Runs the `flows` (algorithm, start in seconds) over one link and tabulates their rates.
fn rates(link: &str, flows: &[(&str, u64)], seconds: u64, step: Time) -> String {
    let mut text = format!(
        "seed = 1\nduration = \"{seconds} s\"\ntcp = {{ stack = \"ns3\", mss = \"1000 B\", snd_buf = \"2 MiB\", \
         rcv_buf = \"2 MiB\", prr_wraps = false }}\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n{link}\n"
    );
    for (i, (cc, start)) in flows.iter().enumerate() {
        let _ = writeln!(
            text,
            "[[flow]]\nname = \"{i}\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\nstart = \"{start} s\""
        );
    }
    let (s, _) =
        roughlink_scenario::parse(&text, "rates", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}"));
    let present = vec![(0, ""); flows.len()];
    let mut seen = Rates { step, until: step, rows: Vec::new(), present };
    let result =
        Network::new(s.clone(), RunOptions::default()).expect("there is a link").observed_by(&mut seen).run().unwrap();
    let mut out = format!("{}\n   s", link.replace('\n', ", "));
    for (cc, _) in flows {
        let _ = write!(out, "  {cc:>8} Mbit/s phase               ");
    }
    let mut before = vec![0; flows.len()];
    for (i, row) in seen.rows.iter().enumerate() {
        let _ = write!(out, "\n{:4.1}", (step * (i as u64 + 1)).as_secs_f64());
        for (flow, &(delivered, phase)) in row.iter().enumerate() {
            let rate = (delivered - before[flow]) as f64 * 8e-6 / step.as_secs_f64();
            let _ = write!(out, "  {rate:15.2} {phase:20}");
            before[flow] = delivered;
        }
    }
    for f in &result.flows {
        let (of, again) = (f.segments, f.retransmits);
        let _ = write!(out, "\n{}: {again} of {of} segments sent again, {} time-outs", f.name, f.timeouts);
    }
    out.lines().map(|l| format!("{}\n", l.trim_end())).collect()
}

/// Keys of the bottleneck: 8 Mbit/s, 100 packets of queue.
fn bottleneck(delay: &str, more: &str) -> String {
    format!("rate = \"8 Mbit/s\"\ndelay = \"{delay}\"\nqueue = \"100 pkt\"{more}")
}

#[test]
fn wave_starts_up() {
    let quarter = Time::from_millis(250);
    insta::assert_snapshot!(rates(&bottleneck("240 ms", ""), &[("wave", 0)], 5, quarter));
}

#[test]
fn wave_under_random_loss() {
    let noise = "\nnoise = { kind = \"random\", loss = \"5 %\", direction = \"forward\" }";
    for cc in ["wave", "wave-fr"] {
        let name = format!("{cc}-under-random-loss");
        insta::assert_snapshot!(name, rates(&bottleneck("30 ms", noise), &[(cc, 0)], 40, Time::from_secs(1)));
    }
}

#[test]
fn wave_beside_others() {
    for other in ["wave", "newreno", "cubic"] {
        let name = format!("wave-beside-{other}");
        let flows = [("wave", 0), (other, 10)];
        insta::assert_snapshot!(name, rates(&bottleneck("30 ms", ""), &flows, 60, Time::from_secs(2)));
    }
}

/// Steps of the rate or the delay, without an outage.
#[test]
fn wave_after_a_step() {
    for (name, step) in [("rate", "rate = \"2 Mbit/s\""), ("delay", "delay = \"240 ms\"")] {
        let name = format!("wave-after-a-{name}-step");
        let timeline = format!("\ntimeline = [{{ at = \"10 s\", {step} }}]");
        insta::assert_snapshot!(
            name,
            rates(&bottleneck("30 ms", &timeline), &[("wave", 0)], 25, Time::from_millis(500))
        );
    }
}
