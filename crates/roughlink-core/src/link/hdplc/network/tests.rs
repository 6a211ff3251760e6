use super::*;
use crate::link::SharedConfig;
use crate::link::hdplc::{Channel, Duplex};
use crate::link::noise::AirNoise;
use crate::units::Rate;

const SEED: Seed = Seed { seed: 5, replica: 0 };
const FLOW: FlowId = FlowId::new(0, false);

fn packet(flow: FlowId, seq: u32, size: u16) -> Packet {
    let mut p = Packet::udp(flow, seq, 0, Time::ZERO);
    p.size = size;
    p
}

fn silent() -> HdplcConfig {
    HdplcConfig { noise: AirNoise::default(), ..Default::default() }
}

/// A link and its output: (time, port, packet).
struct HdplcBench {
    link: Box<dyn Medium>,
    now: Time,
    sent: Vec<u32>,
    out: Vec<(Time, usize, Packet)>,
    dropped: Vec<Packet>,
}

impl HdplcBench {
    fn new(config: &HdplcConfig) -> Self {
        HdplcBench::with_seed(config, &SEED)
    }
    fn with_seed(config: &HdplcConfig, seed: &Seed) -> Self {
        HdplcBench::with_pairs(1, config, seed)
    }
    fn with_pairs(pairs: usize, config: &HdplcConfig, seed: &Seed) -> Self {
        let link = SharedConfig::Hdplc(Box::new(config.clone())).build(pairs, &[], "plc", seed);
        HdplcBench { link, now: Time::ZERO, sent: vec![0; 2 * pairs], out: Vec::new(), dropped: Vec::new() }
    }
    fn offer(&mut self, port: usize, size: u16) {
        let flow = FlowId::new(port as u32 / 2, port % 2 == 1);
        let p = packet(flow, self.sent[port], size);
        self.sent[port] += 1;
        self.link.receive(self.now, port, p, &mut |p| self.dropped.push(p));
    }
    fn step(&mut self) {
        self.now = self.link.next_wake();
        self.link.wake(self.now, &mut |p| self.dropped.push(p));
        while let Some((port, p)) = self.link.transmit(self.now) {
            self.out.push((self.now, port, p));
        }
    }
    /// Processes all events up to `end`; keeps each port's queue filled to its `depth` with packets of `size` bytes.
    fn saturate<const PORTS: usize>(&mut self, end: Time, depth: [usize; PORTS], size: [u16; PORTS]) {
        loop {
            for port in 0..PORTS {
                while self.link.waiting(port) < depth[port] {
                    self.offer(port, size[port]);
                }
            }
            if self.link.next_wake() > end {
                return;
            }
            self.step();
        }
    }
    fn drain(&mut self) {
        while self.link.next_wake() < Time::MAX {
            self.step();
        }
    }
    fn numbers(&self, port: usize) -> Vec<u32> {
        self.out.iter().filter(|o| o.1 == port).map(|o| o.2.seq).collect()
    }
}

/// SDUs per second of a saturated direction: full PDUs, minus the loss of SDUs, headers and PLC-ACKs by noise.
fn prediction(c: &HdplcConfig) -> f64 {
    let kept = |p: f64| 1.0 - p;
    let robust =
        kept(c.noise.expected_error(c.header, c.robust_share)) * kept(c.noise.expected_error(c.ack, c.robust_share));
    let sdus = c.sdus_per_pdu(c.rate);
    sdus as f64 / c.cycle_time(sdus, c.rate).as_secs_f64() * kept(c.sdu_error(1500)) * robust
}

#[test]
fn saturated_flow_matches_the_cycle_time() {
    let secs = 120;
    for (config, tolerance) in [
        (silent(), 0.002),
        (HdplcConfig { noise: AirNoise::clean(), ..Default::default() }, 0.002),
        (HdplcConfig::default(), 0.01),
        (HdplcConfig::default().with_sdu_error(0.14), 0.01),
        (HdplcConfig { max_air: Time::from_millis(5), ..silent() }, 0.002),
    ] {
        let mut b = HdplcBench::new(&config);
        b.saturate(Time::from_secs(secs), [100, 0], [1500, 0]);
        let (got, expected) = (b.out.len() as f64 / secs as f64, prediction(&config));
        assert!((got / expected - 1.0).abs() < tolerance, "{got} SDU/s for {expected}");
        assert!(b.numbers(0).is_sorted() && b.dropped.is_empty());
    }
}

#[test]
fn sdus_fail_as_often_as_the_overlap_formula_says() {
    for (target, size) in [(0.01, 1500), (0.07, 1500), (0.14, 1500), (0.14, 200)] {
        let config = HdplcConfig::default().with_sdu_error(target);
        let mut b = HdplcBench::new(&config);
        b.saturate(Time::from_secs(300), [100, 0], [size, 0]);
        let arq = &b.link.stats(0).arq;
        let (got, expected) = (arq.errors as f64 / arq.blocks as f64, config.sdu_error(size));
        // `blocks` includes those under lost headers, 1 to 2 % here.
        assert!((got / expected - 1.0).abs() < 0.05, "{got} for {expected}");
        assert!(arq.unacknowledged > 0 && arq.duplicates > 0);
        assert!(arq.repeats as f64 > 0.95 * arq.errors as f64);
    }
}

#[test]
fn eight_transmissions_leave_almost_no_loss() {
    let config = HdplcConfig::default().with_sdu_error(0.14);
    let mut b = HdplcBench::new(&config);
    let mut delivered = 0;
    while delivered < 2_500_000 {
        let end = b.now + Time::from_secs(10);
        b.saturate(end, [100, 0], [1500, 0]);
        delivered += b.out.len();
        b.out.clear();
    }
    let lost = b.link.stats(0).lost;
    assert!((lost as f64) < 1e-6 * delivered as f64, "{lost} of {delivered}");
}

#[test]
fn abandoned_packets_do_not_break_order() {
    let config = HdplcConfig { transmissions: 2, ..HdplcConfig::default().with_sdu_error(0.14) };
    let mut b = HdplcBench::new(&config);
    b.saturate(Time::from_secs(60), [100, 0], [1500, 0]);
    b.drain();
    let lost = b.link.stats(0).lost as usize;
    assert!(lost > 100, "{lost}");
    assert!(b.numbers(0).is_sorted());
    assert_eq!(b.out.len() + b.dropped.len(), b.sent[0] as usize);
    assert_eq!(b.dropped.len(), lost);
    let mut all: Vec<_> = b.numbers(0).into_iter().chain(b.dropped.iter().map(|p| p.seq)).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..b.sent[0]));
    assert_eq!((b.link.waiting(0), b.link.in_transit().count()), (0, 0));
    assert_eq!(b.link.backlog(0, FLOW), Backlog::default());
}

#[test]
fn packets_expire_in_a_long_outage() {
    // Noise destroys everything for 0.4 s; 8 transmissions take about 170 ms. Without that limit, the lifetime decides.
    let noise = AirNoise { recorded: vec![(Time::ZERO, 1.0), (Time::from_millis(400), 0.0)], ..Default::default() };
    let run = |transmissions, lifetime| {
        let mut b =
            HdplcBench::new(&HdplcConfig { transmissions, lifetime, noise: noise.clone(), ..Default::default() });
        (0..20).for_each(|_| b.offer(0, 1500));
        b.drain();
        (b.out.len(), b.dropped.len())
    };
    assert_eq!(run(8, Time::from_millis(500)), (0, 20));
    assert_eq!(run(200, Time::from_millis(500)), (20, 0));
    assert_eq!(run(200, Time::from_millis(300)), (0, 20));
}

#[test]
fn later_sdus_overtake_without_in_order_delivery() {
    let config = HdplcConfig { in_order: false, ..Default::default() };
    let mut b = HdplcBench::new(&config);
    b.saturate(Time::from_secs(5), [100, 0], [1500, 0]);
    b.drain();
    let mut numbers = b.numbers(0);
    assert!(!numbers.is_sorted());
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..b.sent[0])); // each exactly once
}

#[test]
fn the_queue_counts_unacknowledged_sdus_by_default() {
    for (counts, room) in [(true, 256), (false, 256 + 31)] {
        let mut b = HdplcBench::new(&HdplcConfig { queue_counts_unacknowledged: counts, ..silent() });
        (0..100).for_each(|_| b.offer(0, 1500));
        while b.link.stats(0).packets == 0 {
            b.step();
        }
        assert_eq!(b.link.backlog(0, FLOW), Backlog { waiting: 69, unacknowledged: 31 });
        (0..300).for_each(|_| b.offer(0, 1500));
        assert_eq!(b.dropped.len(), 400 - room);
        assert_eq!((b.link.waiting(0), b.link.stats(0).dropped), (256, 400 - room as u64));
        assert_eq!(b.link.in_transit().count(), room);
    }
}

#[test]
fn a_lone_packet_waits_for_the_timer_and_a_full_pdu_does_not() {
    let config = HdplcConfig { access_slots: 1, ..silent() };
    let mut b = HdplcBench::new(&config);
    b.offer(0, 1500);
    b.drain();
    // timer, gap, header, 80 symbols of 8.192 us
    let air = Time(80 * 8_192);
    assert_eq!(b.out[0].0, Time::from_micros(2_000 + 100 + 213) + air);
    let start = b.now;
    (0..31).for_each(|_| b.offer(0, 1500));
    b.drain();
    let full = config.in_symbols(config.rate.time_for(31 * 1518));
    assert_eq!(b.out[1].0, start + Time::from_micros(100 + 213) + full);
    assert!(b.out[1..].iter().all(|o| o.0 == b.out[1].0)); // a PDU arrives as one
}

#[test]
fn missing_acknowledgment_is_detected_a_slot_late() {
    let recorded = vec![(Time::ZERO, 1.0), (Time::from_millis(3), 0.0)];
    let noise = AirNoise { recorded, ..Default::default() };
    let c = HdplcConfig { access_slots: 1, robust_share: 1.0, noise, ..Default::default() };
    let mut b = HdplcBench::new(&c);
    b.offer(0, 1500);
    b.drain();
    let pdu = c.access_gap + c.header + Time(80 * 8_192);
    assert_eq!(b.out[0].0, c.aggregation + pdu + c.rifs + c.ack + c.slot + pdu);
    let arq = &b.link.stats(0).arq;
    assert_eq!((arq.frames, arq.unacknowledged, arq.repeats, arq.errors), (2, 1, 1, 0));
}

#[test]
fn both_directions_share_the_medium() {
    for collisions in [false, true] {
        let mut b = HdplcBench::new(&HdplcConfig { collisions, ..silent() });
        b.saturate(Time::from_secs(60), [100, 100], [1500, 1500]);
        let one_way = prediction(&silent()) * 60.0;
        let got = [0, 1].map(|port| b.numbers(port).len() as f64 / one_way);
        let total = got[0] + got[1];
        assert!((got[0] / got[1] - 1.0).abs() < 0.1, "{got:?}");
        let arq = &b.link.stats(0).arq;
        assert_eq!(arq.collisions, b.link.stats(1).arq.collisions);
        // Two draws out of eight are equal with probability 1/8; a collision takes as long as a PDU that arrives.
        if collisions {
            let frames = (arq.frames + b.link.stats(1).arq.frames - arq.collisions) as f64;
            let share = arq.collisions as f64 / frames;
            assert!((share - 0.125).abs() < 0.02, "{share}");
            assert!((total - 0.875).abs() < 0.03, "{total}");
        } else {
            assert_eq!(arq.collisions, 0);
            assert!((total - 1.0).abs() < 0.01, "{total}");
        }
    }
}

#[test]
fn full_duplex_directions_do_not_slow_each_other() {
    for noise in [AirNoise::default(), AirNoise::inverter45()] {
        let full = HdplcConfig { duplex: Duplex::Full, noise: noise.clone(), ..Default::default() };
        let forward = |config: &HdplcConfig, reverse: [usize; 2]| {
            let mut b = HdplcBench::new(config);
            b.saturate(Time::from_secs(60), [100, reverse[0]], [1500, reverse[1] as u16]);
            assert!(b.out.is_sorted_by_key(|o| o.0) && b.numbers(0).is_sorted() && b.numbers(1).is_sorted());
            let back = b.numbers(1).len() as f64;
            let there: Vec<_> = b.out.iter().filter(|o| o.1 == 0).map(|o| (o.0, o.2.seq)).collect();
            (there, back, b.link.stats(0).packets)
        };
        let (alone, none, sent) = forward(&full, [0, 0]);
        let (beside, back, sent_beside) = forward(&full, [100, 1500]);
        // The other direction does not change the forward one, packet for packet, and has the same throughput.
        assert_eq!(alone, beside);
        assert_eq!((none, sent), (0.0, sent_beside));
        let one_way = prediction(&full) * 60.0;
        for got in [alone.len() as f64, back] {
            assert!((got / one_way - 1.0).abs() < 0.02, "{got} for {one_way}");
        }
        // In half duplex, the other direction does change it, even with small reverse packets.
        let half = HdplcConfig { duplex: Duplex::Half, ..full };
        let (shared, ..) = forward(&half, [100, 1500]);
        assert!(shared.len() as f64 / one_way < 0.6, "{}", shared.len());
        let (acks, ..) = forward(&half, [2, 52]);
        assert!((acks.len() as f64) < 0.99 * alone.len() as f64, "{} of {}", acks.len(), alone.len());
        assert_eq!(forward(&half, [0, 0]).0, alone, "of one direction both are the same link");
    }
}

#[test]
fn acks_return_between_pdus() {
    // A reply of 52 bytes to every second data packet. (With a reply to each, a PDU would carry 31 replies. Both
    // directions would then contend with full PDUs as equals, and the queue of replies would overflow.)
    let mut b = HdplcBench::new(&silent());
    let (mut seen, mut data) = (0, 0);
    while b.now < Time::from_secs(20) {
        while b.link.waiting(0) < 100 {
            b.offer(0, 1500);
        }
        b.step();
        while seen < b.out.len() {
            if b.out[seen].1 == 0 {
                data += 1;
                if data % 2 == 0 {
                    b.offer(1, 52);
                }
            }
            seen += 1;
        }
    }
    assert!(b.dropped.is_empty());
    assert!(b.numbers(1).len() + 100 > data / 2, "{} for {data}", b.numbers(1).len());
    // At the slowest rate, a PDU of acknowledgments follows every PDU of data; at the fastest rate, none does.
    let c = silent();
    let acks = c.cycle_time(0, c.rate) + c.in_symbols(c.rate.time_for(16 * 70));
    let slowest = 31.0 * 20.0 / (c.cycle_time(31, c.rate) + acks).as_secs_f64();
    let fastest = prediction(&c) * 20.0;
    assert!((slowest..0.98 * fastest).contains(&(data as f64)), "{data} in {slowest}..{fastest}");
}

#[test]
fn pdu_keeps_the_rate_at_its_start() {
    let trace = vec![(Time::from_secs(10), Rate::from_bps(9_310_000))];
    let mut b = HdplcBench::new(&HdplcConfig { rate_trace: trace, ..silent() });
    b.saturate(Time::from_secs(20), [100, 0], [1500, 0]);
    let early = b.out.iter().filter(|o| o.0 < Time::from_secs(10)).count() as f64 / 10.0;
    let late = b.out.len() as f64 / 10.0 - early;
    let at = |rate| prediction(&HdplcConfig { rate: Rate::from_bps(rate), ..silent() });
    assert!((early / at(18_620_000) - 1.0).abs() < 0.01, "{early}");
    assert!((late / at(9_310_000) - 1.0).abs() < 0.01, "{late}");
}

#[test]
fn large_packets_become_fragments() {
    let mut b = HdplcBench::new(&silent());
    b.offer(0, 1512);
    b.drain();
    assert_eq!(b.out.iter().map(|o| o.2.size).collect::<Vec<_>>(), [1500, 32]);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut b = HdplcBench::with_seed(&HdplcConfig::default(), &Seed { seed, replica: 0 });
        b.saturate(Time::from_secs(3), [100, 3], [1500, 52]);
        b.out.iter().map(|o| (o.0, o.1, o.2.seq)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn packets_are_conserved() {
    let mut random = SEED.stream("test", "traffic");
    let mut totals = [0; 4];
    for round in 0..40 {
        let config = HdplcConfig {
            duplex: if round % 4 == 3 { Duplex::Full } else { Duplex::Half },
            collisions: round % 2 == 0,
            in_order: round % 3 != 0,
            queue_counts_unacknowledged: round % 5 != 0,
            max_air: if round % 4 == 0 { Time::from_millis(3) } else { Time::MAX },
            transmissions: 1 + (round % 4) as u8,
            rate_trace: (1..20).map(|i| (Time::from_millis(50 * i), Rate::from_mbps(1 + i % 7 * 4))).collect(),
            noise: AirNoise::stress(),
            queue: 60,
            ..Default::default()
        };
        let mut b = HdplcBench::new(&config);
        while b.now < Time::from_secs(1) {
            let next = b.now + Time(random.range(0, 4_000_000));
            while b.link.next_wake() <= next {
                b.step();
            }
            b.now = next;
            for _ in 0..random.range(0, 6) {
                b.offer(random.range(0, 1) as usize, random.range(40, 1500) as u16);
            }
            let inside = b.link.in_transit().count();
            assert_eq!(b.out.len() + b.dropped.len() + inside, (b.sent[0] + b.sent[1]) as usize);
        }
        b.drain();
        for port in 0..2 {
            let flow = FlowId::new(0, port == 1);
            let dropped = b.dropped.iter().filter(|p| p.flow == flow).map(|p| p.seq);
            let mut all = b.numbers(port);
            assert!(all.is_sorted() || !config.in_order);
            all.extend(dropped);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..b.sent[port]));
            assert_eq!((b.link.waiting(port), b.link.backlog(port, flow)), (0, Backlog::default()));
        }
        let stats = [0, 1].map(|port| b.link.stats(port).clone());
        assert!(stats.iter().map(|s| s.dropped + s.lost).sum::<u64>() == b.dropped.len() as u64);
        for s in &stats {
            totals[0] += s.dropped;
            totals[1] += s.lost;
            totals[2] += s.arq.collisions;
            totals[3] += s.arq.duplicates;
            assert!(config.collisions || s.arq.collisions == 0);
        }
    }
    assert!(totals.iter().all(|&n| n > 50), "{totals:?}"); // every case occurred
}

#[test]
fn pairs_on_one_medium_share_its_capacity() {
    let end = Time::from_secs(60);
    // (configuration, tolerance of a share): random slots without collisions, then modems that take turns.
    let random = silent();
    let turns = HdplcConfig { access_slots: 1, access_gap: Time::from_micros(225), ..silent() };
    for (config, tolerance) in [(random, 0.03), (turns, 0.001)] {
        let alone = prediction(&HdplcConfig { access_slots: 1, ..config.clone() });
        for pairs in [2, 3] {
            let mut b = HdplcBench::with_pairs(pairs, &config, &SEED);
            match pairs {
                2 => b.saturate(end, [60, 0, 60, 0], [1500; 4]),
                _ => b.saturate(end, [60, 0, 60, 0, 60, 0], [1500; 6]),
            }
            let carried = |pair: usize| b.numbers(2 * pair).len() as f64 / end.as_secs_f64();
            let total: f64 = (0..pairs).map(carried).sum();
            // The fewest slots win, so the mean access time is between zero and that of a single sender.
            assert!(
                total >= prediction(&config) * 0.998 && total <= alone * 1.002,
                "{pairs} pairs: {total} of {alone}"
            );
            for pair in 0..pairs {
                let share = carried(pair) / total * pairs as f64;
                assert!((share - 1.0).abs() < tolerance, "{pairs} pairs: {share} of a fair share");
            }
        }
    }
}

/// A silent pair changes neither the times nor the packets of another pair.
#[test]
fn silent_pairs_change_nothing() {
    for duplex in [Duplex::Half, Duplex::Full] {
        let config = HdplcConfig { duplex, ..HdplcConfig::default() };
        let run = |pairs| {
            let mut b = HdplcBench::with_pairs(pairs, &config, &SEED);
            b.saturate(Time::from_secs(5), [40, 3], [1500, 52]);
            b.out.iter().map(|(at, port, p)| (*at, *port, p.seq)).collect::<Vec<_>>()
        };
        assert!(run(1).len() > 5_000);
        assert_eq!(run(1), run(3));
    }
}

#[test]
fn full_duplex_pairs_share_each_direction() {
    let config = HdplcConfig { duplex: Duplex::Full, access_slots: 1, ..silent() };
    let end = Time::from_secs(30);
    let mut b = HdplcBench::with_pairs(2, &config, &SEED);
    b.saturate(end, [60; 4], [1500; 4]);
    let carried: Vec<f64> = (0..4).map(|port| b.numbers(port).len() as f64 / end.as_secs_f64()).collect();
    let half = prediction(&config) / 2.0;
    assert!(carried.iter().all(|c| (c / half - 1.0).abs() < 0.005), "{carried:?} for {half}");
}

/// With turns, each pair sends a full PDU per cycle at its channel's rate; noise corrupts only the pair's own packets.
#[test]
fn pairs_have_separate_channels() {
    let slow = Channel { rate: Rate::from_mbps(6), noise: AirNoise::default(), ..silent().channel() };
    let config = HdplcConfig { access_slots: 1, channels: vec![silent().channel(), slow.clone()], ..silent() };
    let end = Time::from_secs(30);
    let mut b = HdplcBench::with_pairs(2, &config, &SEED);
    b.saturate(end, [60, 0, 60, 0], [1500; 4]);
    let cycle = config.cycle_time(31, config.rate) + config.cycle_time(31, slow.rate);
    for port in [0, 2] {
        let carried = b.numbers(port).len() as f64 / end.as_secs_f64();
        assert!((carried * cycle.as_secs_f64() / 31.0 - 1.0).abs() < 0.005, "port {port}: {carried}");
    }
    assert_eq!(
        [0, 2].map(|port| b.link.cycle_time(end, port, 31)),
        [config.rate, slow.rate].map(|r| config.cycle_time(31, r))
    );
    let noisy = Channel { noise: AirNoise::inverter45(), ..slow };
    let config = HdplcConfig { channels: vec![silent().channel(), noisy], ..silent() };
    let mut b = HdplcBench::with_pairs(2, &config, &SEED);
    b.saturate(end, [60, 0, 60, 0], [1500; 4]);
    assert_eq!(b.link.stats(0).arq.errors, 0);
    assert!(b.link.stats(2).arq.errors > 100, "{:?}", b.link.stats(2).arq);
}

/// With turns, every PDU of two pairs would start at the same time as another: all collide.
#[test]
fn pairs_collide_if_collisions_are_enabled() {
    let config = HdplcConfig { collisions: true, access_slots: 1, ..silent() };
    let mut b = HdplcBench::with_pairs(3, &config, &SEED);
    b.saturate(Time::from_secs(2), [5, 0, 5, 0, 5, 0], [1500; 6]);
    assert!(b.out.is_empty());
    assert!((0..3).all(|pair| b.link.stats(2 * pair).arq.collisions > 10));
    // With slots, some collide. Packets are lost only if abandoned, and none arrives twice.
    let config = HdplcConfig { collisions: true, ..silent() };
    let mut b = HdplcBench::with_pairs(3, &config, &SEED);
    b.saturate(Time::from_secs(2), [60, 0, 60, 0, 60, 0], [1500; 6]);
    b.drain();
    let collisions: u64 = (0..3).map(|pair| b.link.stats(2 * pair).arq.collisions).sum();
    assert!(collisions > 20, "{collisions}");
    for port in [0, 2, 4] {
        let mut seen = b.numbers(port);
        seen.extend(b.dropped.iter().filter(|p| p.flow == FlowId::new(port as u32 / 2, false)).map(|p| p.seq));
        seen.sort_unstable();
        assert_eq!(seen, (0..b.sent[port]).collect::<Vec<_>>());
    }
}
