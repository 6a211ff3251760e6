use super::super::{CongestionControl, build};
use super::*;
use std::collections::VecDeque;

mod ns3;

const MSS: u64 = 1448;

fn flow() -> Flow {
    Flow { mss: MSS as u32, initial_window: 10 * MSS, initial_ssthresh: u64::MAX, ..Flow::default() }
}

fn bbr(params: &str) -> Bbr {
    let mut all = toml::Table::try_from(Params::default()).unwrap();
    all.extend(params.parse::<toml::Table>().unwrap());
    Bbr::new(&Arc::new(all.try_into().unwrap()), &flow())
}

/// Linux `bbr_packets_in_net_at_edt`: whole segments are delivered, and a departing burst counts at a gain above 1.
#[test]
fn in_flight_is_estimated_at_the_next_departure() {
    let mut cc = bbr("");
    let mut f = flow();
    cc.rate = 1_000_000; // two segments leave together
    cc.bandwidth.update(10, 1, 1_000_000);
    for (wait_us, gain, segments) in
        [(0, 1.0, 20), (0, 1.25, 22), (1_500, 0.75, 19), (3_000, 1.25, 20), (90_000, 1.0, 0)]
    {
        f.next_departure = f.now + Time::from_micros(wait_us);
        cc.pacing_gain = gain;
        assert_eq!(cc.in_flight(&f, 20 * MSS), segments * MSS, "{wait_us} {gain}");
    }
}

/// A segment in flight: arrival time of its ACK (never if lost), and the stamp of the delivery-rate estimate.
struct PathSegment {
    ack_at: Option<Time>,
    sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
}

/// One sender with unlimited data on a path with one bottleneck. The receiver acknowledges every segment, and the next
/// ACK reveals a loss. Lost data leaves again at once as new data, and recovery lasts until it has arrived.
struct Path {
    cc: Bbr,
    flow: Flow,
    rate: Rate,
    delay: Time,
    /// Queue limit in segments.
    queue: u64,
    /// One segment in this many is lost.
    lose_each: u64,
    /// Bytes per second and bucket of a policer.
    policer: Option<(u64, u64)>,
    tokens: u64,
    tokens_at: Time,
    free_at: Time,
    next_send: Time,
    sent: u64,
    on_air: VecDeque<PathSegment>,
    delivered_at: Time,
    first_sent: Time,
    /// Number of segments sent when recovery began, and number of acknowledged segments that ends it.
    recovery: u64,
    repaired: u64,
    acked: u64,
    /// Smallest window and longest RTT since the last reset.
    least_cwnd: u64,
    max_rtt: Time,
}

impl Path {
    fn new(cc: Bbr, rate: Rate, delay: Time) -> Self {
        Path {
            cc,
            flow: flow(),
            rate,
            delay,
            queue: 10_000,
            lose_each: u64::MAX,
            policer: None,
            tokens: 0,
            tokens_at: Time::ZERO,
            free_at: Time::ZERO,
            next_send: Time::ZERO,
            sent: 0,
            on_air: VecDeque::new(),
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            recovery: 0,
            repaired: 0,
            acked: 0,
            least_cwnd: u64::MAX,
            max_rtt: Time::ZERO,
        }
    }

    /// Runs until `end` and returns the delivery rate in bit/s.
    fn run(&mut self, end: Time) -> f64 {
        let (from, start) = (self.flow.delivered, self.flow.now);
        self.least_cwnd = u64::MAX;
        self.max_rtt = Time::ZERO;
        while self.flow.now < end {
            let Permit::Send { window, rate } = self.cc.permit(&self.flow) else { unreachable!() };
            self.least_cwnd = self.least_cwnd.min(window);
            let send_at = (self.flow.in_flight + MSS <= window).then(|| self.next_send.max(self.flow.now));
            let ack_at = self.on_air.iter().find_map(|s| s.ack_at);
            match (send_at, ack_at) {
                (Some(s), a) if a.is_none_or(|a| s <= a) => {
                    self.flow.now = s;
                    self.next_send = s + rate.map_or(Time::ZERO, |rate| rate.time_for(MSS));
                    self.send();
                }
                (_, Some(a)) => {
                    self.flow.now = a;
                    self.acknowledge();
                }
                _ => self.time_out(),
            }
        }
        (self.flow.delivered - from) as f64 * 8.0 / (self.flow.now - start).as_secs_f64()
    }

    fn send(&mut self) {
        let now = self.flow.now;
        let idle = self.flow.in_flight == 0;
        if idle {
            (self.delivered_at, self.first_sent) = (now, now);
        }
        self.sent += 1;
        let mut hash = SipHasher24::new();
        hash.write_u64(self.sent);
        let mut lost = hash.finish().is_multiple_of(self.lose_each);
        if let Some((rate, bucket)) = self.policer {
            let earned = (u128::from(rate) * u128::from((now - self.tokens_at).0) / 1_000_000_000) as u64;
            if earned > 0 {
                (self.tokens, self.tokens_at) = ((self.tokens + earned).min(bucket), now);
            }
            lost |= self.tokens < MSS;
            self.tokens = if lost { self.tokens } else { self.tokens - MSS };
        }
        let wait = self.free_at.saturating_sub(now);
        lost |= wait > self.rate.time_for(self.queue * MSS);
        if !lost {
            self.free_at = self.free_at.max(now) + self.rate.time_for(MSS);
        }
        self.on_air.push_back(PathSegment {
            ack_at: (!lost).then(|| self.free_at + self.delay),
            sent_at: now,
            delivered: self.flow.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        });
        self.flow.in_flight += MSS;
        self.flow.snd_nxt += MSS;
        self.cc.on_sent(
            &self.flow,
            &Sent { seq: self.flow.snd_nxt - MSS, len: MSS as u32, retransmission: false, tx_start: idle },
        );
    }

    fn acknowledge(&mut self) {
        let now = self.flow.now;
        let index = self.on_air.iter().position(|s| s.ack_at.is_some()).unwrap();
        let s = self.on_air.remove(index).unwrap();
        let prior_in_flight = self.flow.in_flight;
        let losses = self.on_air.drain(..index).count() as u64;
        self.acked += 1 + losses;
        self.flow.in_flight -= (1 + losses) * MSS;
        self.flow.delivered += MSS;
        let rtt = now - s.sent_at;
        self.max_rtt = self.max_rtt.max(rtt);
        self.flow.latest_rtt = rtt;
        self.flow.srtt = if self.flow.srtt.is_zero() { rtt } else { Time((self.flow.srtt.0 * 7 + rtt.0) / 8) };
        self.first_sent = s.sent_at;
        let interval = (s.sent_at - s.first_sent).max(now - s.delivered_at);
        self.delivered_at = now;
        if losses > 0 && self.flow.state == CongestionState::Open {
            self.cc.on_congestion(&self.flow, Congestion::Loss);
            self.flow.state = CongestionState::Recovery;
            self.recovery = self.sent;
        }
        if losses > 0 && self.acked - losses <= self.recovery {
            self.repaired = self.sent + losses;
        }
        if self.flow.state != CongestionState::Open && self.acked >= self.repaired {
            self.flow.state = CongestionState::Open;
            self.cc.on_recovered(&self.flow);
        }
        let rate = RateSample {
            delivered: self.flow.delivered - s.delivered,
            prior_delivered: s.delivered,
            interval,
            rtt,
            sent_at: self.flow.now - rtt,
            losses: losses * MSS,
            acked_sacked: MSS,
            prior_in_flight,
            ..RateSample::default()
        };
        self.cc.on_ack(
            &self.flow,
            &Ack { acked: MSS, delivered: MSS, segments: 1, rtt: Some(rtt), rate: Some(rate), ..Ack::default() },
        );
    }

    fn time_out(&mut self) {
        self.flow.now += Time::from_millis(300);
        self.cc.on_congestion(&self.flow, Congestion::Timeout);
        self.flow.state = CongestionState::Loss;
        self.acked += self.on_air.len() as u64;
        self.on_air.clear();
        self.flow.in_flight = 0;
        (self.recovery, self.repaired) = (self.sent, self.sent + 1);
    }

    fn mode(&self) -> BbrMode {
        self.cc.mode
    }
}

const TEN: Rate = Rate::from_mbps(10);
const DELAY: Time = Time::from_millis(40);

#[test]
fn first_rate_is_startup_gain_times_window_per_rtt() {
    let b = bbr("");
    // 2.887 x 0.99 x 10 x 1448 B / 1 ms.
    let Permit::Send { window, rate } = b.permit(&flow()) else { unreachable!() };
    assert_eq!(window, 14_480);
    assert_eq!(rate.unwrap().0 / 1_000_000, 331);
    let with_rtt = Flow { srtt: DELAY, ..flow() };
    let Permit::Send { rate, .. } = b.permit(&with_rtt) else { unreachable!() };
    assert_eq!(rate.unwrap().0 / 1000, 8276);
    let ns3 = build("bbr", "ns3", "", &flow()).unwrap();
    let paced = Flow { snd_nxt: 10 * MSS + 1, ..with_rtt };
    let Permit::Send { rate, .. } = ns3.permit(&paced) else { unreachable!() };
    assert_eq!(rate.unwrap().0 / 1000, 8369); // 2.89, no margin
}

#[test]
fn bbr_fills_the_pipe_then_drains_the_queue() {
    let mut p = Path::new(bbr(""), TEN, DELAY);
    // The rate doubles from 10 segments per RTT to 35. Three more rounds show that the pipe is full, and one drains it.
    p.run(Time::from_millis(1000));
    assert_eq!(p.mode(), BbrMode::ProbeBw);
    let goodput = p.run(Time::from_secs(9));
    assert!(goodput > 9.7e6, "{goodput}");
    let estimate = p.cc.bandwidth() as f64 * 8.0;
    assert!((9.9e6..10.2e6).contains(&estimate), "{estimate}");
    // Smallest RTT: the delay and the segment's own time on the wire, 1.158 ms.
    assert!((p.cc.min_rtt.0 as f64 / 41.158e6 - 1.0).abs() < 0.01, "{:?}", p.cc.min_rtt);
    // A probe queues a quarter of the bandwidth-delay product, no more.
    assert!(p.max_rtt < Time::from_millis(60), "{:?}", p.max_rtt);
    // Window: 2 x 35.5 segments plus three quanta of two, made even, plus two while probing and a small ACK excess.
    let w = p.cc.cwnd / MSS;
    assert!((76..=84).contains(&w), "{w}");
}

#[test]
fn the_gain_cycle_runs_in_order() {
    let mut p = Path::new(bbr(""), TEN, DELAY);
    p.run(Time::from_secs(2));
    let (mut phases, mut last) = (vec![p.cc.phase], p.cc.phase);
    for ms in 2000..3000 {
        p.run(Time::from_millis(ms));
        if p.cc.phase != last {
            last = p.cc.phase;
            phases.push(last);
        }
    }
    assert!(phases.len() > 16);
    for pair in phases.windows(2) {
        assert_eq!(pair[1], (pair[0] + 1) % 8);
    }
}

#[test]
fn first_phase_is_random_but_never_draining() {
    let mut seen = [0; 8];
    for seed in 0..7000u64 {
        let mut b = bbr(&format!("phase_seed = {seed}"));
        b.enter_probe_bw(&flow());
        seen[b.phase] += 1;
        let mut again = bbr(&format!("phase_seed = {seed}"));
        again.enter_probe_bw(&flow());
        assert_eq!(b.phase, again.phase);
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(i, n)| i == 1 || (880..1120).contains(n)), "{seen:?}");
}

#[test]
fn bbr_probes_the_rtt_every_ten_seconds() {
    let mut p = Path::new(bbr(""), TEN, DELAY);
    p.run(Time::from_secs(9));
    // The path becomes longer, which shows only when the queue is drained.
    p.delay = Time::from_millis(60);
    let mut entered = Time::ZERO;
    let mut left = Time::ZERO;
    for ms in 9000..21_000 {
        p.run(Time::from_millis(ms));
        if p.mode() == BbrMode::ProbeRtt {
            assert!(p.cc.cwnd <= 4 * MSS);
            entered = if entered.is_zero() { p.flow.now } else { entered };
        } else if !entered.is_zero() && left.is_zero() {
            left = p.flow.now;
            assert!(p.cc.cwnd >= 60 * MSS, "{}", p.cc.cwnd);
            let estimate = p.cc.bandwidth() as f64 * 8.0;
            assert!(estimate > 9.5e6, "what ProbeRtt sent was taken for the path: {estimate}");
        }
    }
    let length = left - entered;
    assert!((200..350).contains(&length.as_millis()), "{entered:?} {left:?}");
    assert!((p.cc.min_rtt.0 as f64 / 61.158e6 - 1.0).abs() < 0.02, "{:?}", p.cc.min_rtt);
}

/// Linux has compared with `<` since 2020 (6.18 `bbr_update_min_rtt`). Equal RTTs of a clean path do not renew the
/// smallest one, so ProbeRtt runs every 10 s. In contrast, ns-3.44 `TcpBbr::UpdateRTprop` compares with `<=`.
#[test]
fn equal_rtt_renews_the_minimum_only_in_ns3() {
    for (stack, expected) in [("linux", 5), ("ns3", 0)] {
        let table = super::super::algorithm("bbr").unwrap().parameters(stack);
        let mut b = Bbr::new(&Arc::new(table.try_into().unwrap()), &flow());
        let mut f = Flow { srtt: DELAY, in_flight: 2 * MSS, ..flow() };
        let (mut entries, mut before) = (0, b.mode);
        while f.now < Time::from_secs(60) {
            f.now += DELAY;
            let prior = f.delivered;
            f.delivered += 2 * MSS;
            let rate = RateSample { rtt: DELAY, interval: DELAY, delivered: 2 * MSS, ..RateSample::default() };
            let rate = RateSample { prior_delivered: prior, acked_sacked: 2 * MSS, ..rate };
            b.on_ack(&f, &Ack { rate: Some(rate), ..Ack::default() });
            entries += u32::from(b.mode == BbrMode::ProbeRtt && before != BbrMode::ProbeRtt);
            before = b.mode;
        }
        assert_eq!(entries, expected, "{stack}");
    }
}

/// Linux `FLAG_ACK_MAYBE_DELAYED`: the delayed ACK of a lone runt does not become the new smallest RTT.
#[test]
fn delayed_ack_of_a_runt_does_not_set_min_rtt() {
    for (bytes, expected) in [(100, DELAY), (MSS, Time(2 * DELAY.0))] {
        let mut b = bbr("");
        let mut f = Flow { srtt: DELAY, in_flight: 2 * MSS, ..flow() };
        for (at, rtt, bytes) in [(1, DELAY, MSS), (20, Time(2 * DELAY.0), bytes)] {
            f.now = Time::from_secs(at);
            let prior_delivered = f.delivered;
            f.delivered += bytes;
            let rate =
                RateSample { rtt, interval: rtt, delivered: bytes, acked_sacked: bytes, ..RateSample::default() };
            b.on_ack(&f, &Ack { rate: Some(RateSample { prior_delivered, ..rate }), ..Ack::default() });
        }
        assert_eq!(b.min_rtt, expected);
    }
}

#[test]
fn random_losses_hardly_reduce_goodput() {
    for each in [100, 20] {
        let mut p = Path::new(bbr(""), TEN, DELAY);
        p.lose_each = each;
        p.run(Time::from_secs(2));
        let goodput = p.run(Time::from_secs(20));
        assert!(goodput > 9.3e6, "one in {each}: {goodput}");
    }
}

#[test]
fn estimate_follows_the_bandwidth_down_within_its_window() {
    let mut p = Path::new(bbr(""), TEN, DELAY);
    p.run(Time::from_secs(3));
    p.rate = Rate::from_mbps(2);
    p.run(Time::from_secs(9));
    let estimate = p.cc.bandwidth() as f64 * 8.0;
    assert!((1.9e6..2.2e6).contains(&estimate), "{estimate}");
}

#[test]
fn bbr_detects_a_policer() {
    let mut p = Path::new(bbr(""), Rate::from_mbps(100), DELAY);
    p.policer = Some((Rate::from_mbps(5).bytes_per_sec(), 50_000));
    let mut found = None;
    for ms in 1..10_000 {
        p.run(Time::from_millis(ms));
        if let Some(rate) = p.cc.policer.rate() {
            found = Some(rate * 8);
            break;
        }
    }
    let rate = found.expect("no policer found") as f64;
    assert!((4.0e6..6.0e6).contains(&rate), "{rate}");
    let mut p = Path::new(bbr("policer = false"), Rate::from_mbps(100), DELAY);
    p.policer = Some((Rate::from_mbps(5).bytes_per_sec(), 50_000));
    p.run(Time::from_secs(5));
    assert_eq!(p.cc.policer.rate(), None);
}

/// An ACK that delivered `n` segments, sent when `prior` bytes had been delivered.
fn ack(n: u64, prior: u64, losses: u64) -> Ack {
    let rate = RateSample {
        delivered: n * MSS,
        prior_delivered: prior,
        interval: DELAY,
        rtt: DELAY,
        losses: losses * MSS,
        acked_sacked: n * MSS,
        ..RateSample::default()
    };
    Ack { acked: n * MSS, delivered: n * MSS, segments: n as u32, rate: Some(rate), ..Ack::default() }
}

#[test]
fn first_round_of_recovery_conserves_packets() {
    let mut f = Flow { delivered: 100 * MSS, in_flight: 50 * MSS, srtt: DELAY, ..flow() };
    let mut b = bbr("");
    b.cwnd = 60 * MSS;
    b.on_congestion(&f, Congestion::Loss);
    f.state = CongestionState::Recovery;
    f.recovery_window = Some(MSS);
    (f.delivered, f.in_flight) = (101 * MSS, 39 * MSS);
    b.on_ack(&f, &ack(1, 50 * MSS, 10));
    assert_eq!(b.permit(&f), Permit::Send { window: 40 * MSS, rate: Some(Rate(b.rate * 8)) });
    (f.delivered, f.in_flight) = (102 * MSS, 39 * MSS);
    b.on_ack(&f, &ack(1, 51 * MSS, 0));
    assert_eq!(b.cwnd, 40 * MSS);
    // A round later, each ACK releases two segments.
    (f.delivered, f.in_flight) = (103 * MSS, 39 * MSS);
    b.bandwidth.update(10, b.rounds, 100_000_000);
    b.on_ack(&f, &ack(1, 101 * MSS, 0));
    assert_eq!(b.cwnd, 41 * MSS);
    // The end of recovery restores the window.
    f.state = CongestionState::Open;
    b.on_ack(&f, &ack(1, 102 * MSS, 0));
    assert!(b.cwnd >= 60 * MSS);
}

#[test]
fn timeout_leaves_one_segment_until_recovery_ends() {
    let mut f = Flow { delivered: 100 * MSS, in_flight: 50 * MSS, srtt: DELAY, ..flow() };
    for (params, restored) in [("", true), ("restore_after_timeout = false", false)] {
        let mut b = bbr(params);
        b.bandwidth.update(10, 0, 10_000_000);
        b.cwnd = 60 * MSS;
        f.state = CongestionState::Open;
        b.on_congestion(&f, Congestion::Timeout);
        b.on_congestion(&f, Congestion::Timeout);
        assert_eq!(b.cwnd, MSS);
        f.state = CongestionState::Loss;
        b.on_ack(&f, &ack(1, 0, 0));
        assert_eq!(b.cwnd, 4 * MSS);
        f.state = CongestionState::Open;
        b.on_ack(&f, &ack(1, 0, 0));
        assert_eq!(b.cwnd >= 60 * MSS, restored);
    }
}

#[test]
fn idle_restart_paces_at_the_estimate() {
    let mut p = Path::new(bbr(""), TEN, DELAY);
    p.run(Time::from_secs(2));
    let mut b = p.cc.clone();
    b.phase = 0;
    b.update_gains();
    b.set_rate(&p.flow, b.pacing_gain);
    let f = Flow { now: Time::from_secs(100), in_flight: 0, app_limited: true, ..p.flow.clone() };
    b.on_sent(&f, &Sent { seq: f.snd_nxt, len: MSS as u32, retransmission: false, tx_start: true });
    assert_eq!(b.rate, (b.bandwidth() as f64 * (1.0 - 0.01)) as u64);
    // The smallest RTT is stale, but a path that was idle needs no draining.
    b.on_ack(&f, &ack(1, f.delivered, 0));
    assert_eq!(b.mode, BbrMode::ProbeBw);
}

#[test]
fn quantum_matches_linux() {
    let f = flow();
    let mut b = bbr("");
    for (mbps, segments) in [(1, 1), (2, 2), (24, 2), (100, 8), (1000, 45), (100_000, 45)] {
        b.rate = Rate::from_mbps(mbps).bytes_per_sec();
        assert_eq!(b.quantum(&f) / MSS, segments, "{mbps} Mbit/s");
    }
    assert_eq!(b.quantum(&Flow { mss: 100, ..f.clone() }) / 100, 127);
    assert_eq!(bbr("quantum = 1").quantum(&f), MSS);
}

#[test]
fn ns3_fills_the_pipe_too() {
    let table = super::super::algorithm("bbr").unwrap().parameters("ns3");
    let mut p = Path::new(Bbr::new(&Arc::new(table.try_into().unwrap()), &flow()), TEN, DELAY);
    p.lose_each = 200;
    p.run(Time::from_secs(2));
    let goodput = p.run(Time::from_secs(20));
    assert!(goodput > 9.2e6, "{goodput}");
    assert!(p.cc.cwnd <= 80 * MSS);
}

#[test]
fn extreme_samples_do_not_panic() {
    for stack in ["linux", "ns3", "ns2", "rfc"] {
        let mut f = Flow { mss: 1, initial_window: 1, ..Flow::default() };
        let mut cc = build("bbr", stack, "", &f).unwrap();
        for i in 0..3000u64 {
            f.now += Time([0, 1, 1_000_000, 400_000_000_000][i as usize % 4]);
            f.delivered += i % 3;
            f.in_flight = [0, 1, 1 << 40][i as usize % 3];
            f.app_limited = i % 13 == 0;
            let big = [0, 1, 1 << 40, 1 << 50][i as usize % 4];
            let rate = RateSample {
                delivered: big,
                prior_delivered: f.delivered.saturating_sub(big),
                interval: Time([0, 1, 1_000_000][i as usize % 3]),
                rtt: Time([0, 1, u64::MAX / 4][i as usize % 3]),
                sent_at: f.now,
                losses: big / 2,
                acked_sacked: big,
                prior_in_flight: f.in_flight,
                app_limited: i % 5 == 0,
                ..RateSample::default()
            };
            cc.on_ack(&f, &Ack { rate: (i % 7 != 0).then_some(rate), ..Ack::default() });
            match i % 50 {
                10 => cc.on_congestion(&f, Congestion::Loss),
                20 => cc.on_congestion(&f, Congestion::Timeout),
                30 => cc.on_undo(&f),
                40 => cc.on_recovered(&f),
                _ => {}
            }
            cc.on_sent(&f, &Sent { seq: 0, len: 1, retransmission: false, tx_start: i % 11 == 0 });
            assert!(matches!(cc.permit(&f), Permit::Send { window: 1.., .. }));
        }
        assert!(f.now > Time::from_secs(200_000));
    }
    for wrong in ["high_gain = 0.0", "pacing_margin = 1.0", "min_cwnd = 0", "probe_rtt_ms = -1.0", "cwnd_gain = nan"] {
        assert!(build("bbr", "linux", wrong, &flow()).is_err(), "{wrong}");
    }
}

/// Linux 5.11 and later renew the smallest RTT only by a smaller one (`bbr_update_min_rtt`).
#[test]
fn path_without_queues_is_probed_every_ten_seconds() {
    let mut p = Path::new(bbr(""), TEN, Time::from_millis(100));
    let (mut entered, mut before) = (0, BbrMode::Startup);
    for ms in (0..35_000).step_by(10) {
        p.run(Time::from_millis(ms));
        entered += u32::from(p.mode() == BbrMode::ProbeRtt && before != BbrMode::ProbeRtt);
        before = p.mode();
    }
    assert_eq!(entered, 3);
}
