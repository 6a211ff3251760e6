//! The window of each algorithm alone: no endpoint, no network, but a path of a given delay, a bottleneck buffer that
//! adds to it, and losses in stated rounds. One snapshot per algorithm, in packets; `PLOT=folder` draws them instead.

use roughlink_core::cc::{
    Ack, Congestion, CongestionControl, CongestionState, Flow, REGISTRY, RateSample, Sent, build,
};
use roughlink_core::units::Time;
use std::fmt::Write as _;
use std::path::Path;

const MSS: u64 = 1000;
const ROUNDS: usize = 80;
/// The bottleneck passes this many packets per propagation delay; what is more waits and delays.
const CAPACITY: u64 = 40;
const DELAY: Time = Time::from_millis(50);
/// More than this in flight overflows the bottleneck's buffer.
const MOST: u64 = 4 * CAPACITY;
/// A fast retransmit in this round and the time-out in that; between them the queue grows by itself.
const LOSSES: [usize; 2] = [25, 45];
const TIMEOUT: usize = 62;

/// The state at the start of a round.
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
        let v = cc.vitals();
        let packets = (v.cwnd / MSS).max(1);
        // What the window holds beyond the capacity waits in the bottleneck.
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
            // Everything is lost and repaired a round later.
            flow.now = r.sent_at + rtt + rtt;
            cc.on_congestion(flow, Congestion::Timeout);
            flow.state = CongestionState::Loss;
            r.repair(cc, flow, packets);
        } else if LOSSES.contains(&round) || packets > MOST {
            // The first packet is lost: the others come as SACKs, then its repair.
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

/// A round trip's worth of packets, sent together, acknowledged at the bottleneck's pace.
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

    /// The ACK of packet `i`: cumulative, or a SACK of it.
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
        let ack = Ack {
            acked: if cumulative { MSS } else { 0 },
            delivered: MSS,
            segments: u32::from(cumulative),
            rtt: Some(self.rtt),
            may_grow: cumulative,
            prior_una,
            prior_in_flight,
            rate: Some(rate),
        };
        cc.on_ack(flow, &ack);
        if cc.timer().is_some_and(|t| t <= flow.now) {
            cc.on_timer(flow);
        }
    }

    /// The ACK that ends an episode covers everything that was out, `missing` packets of it delivered only now.
    fn repair(&self, cc: &mut dyn CongestionControl, flow: &mut Flow, missing: u64) {
        let (prior_una, prior_in_flight) = (flow.snd_una, flow.in_flight);
        let acked = flow.snd_nxt - flow.snd_una;
        flow.snd_una = flow.snd_nxt;
        flow.delivered += missing * MSS;
        (flow.in_flight, flow.outstanding) = (0, 0);
        flow.state = CongestionState::Open;
        cc.on_recovered(flow);
        let delivered = missing * MSS;
        cc.on_ack(flow, &Ack { acked, delivered, segments: 0, prior_una, prior_in_flight, ..Ack::default() });
    }
}

fn measured(flow: &mut Flow, rtt: Time) {
    flow.latest_rtt = rtt;
    flow.srtt = if flow.srtt.is_zero() { rtt } else { Time((7 * flow.srtt.0 + rtt.0) / 8) };
    flow.min_rtt = if flow.min_rtt.is_zero() { rtt } else { flow.min_rtt.min(rtt) };
}

#[test]
fn every_algorithm() {
    let plot = std::env::var("PLOT").ok();
    for a in REGISTRY {
        let mut flow = Flow {
            mss: MSS as u32,
            now: Time::from_secs(1),
            initial_window: 10 * MSS,
            initial_ssthresh: u64::MAX,
            send_window: u64::from(u32::MAX),
            snd_una: 1,
            snd_nxt: 1,
            ..Flow::default()
        };
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

/// A round per line; windows in packets with one decimal.
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

/// The same as a picture: window and threshold over rounds.
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
