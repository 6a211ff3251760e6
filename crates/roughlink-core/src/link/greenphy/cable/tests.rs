use super::super::{PriorityClass, Robo};
use super::*;
use crate::link::noise::AirNoise;
use crate::link::noise::impulses::{Impulses, TrainForm};

const SEED: Seed = Seed { seed: 5, replica: 0 };

fn packet(port: usize, seq: u32, size: u16) -> Packet {
    let mut p = Packet::udp(FlowId::new(port as u32 / 2, port % 2 == 1), seq, 0, Time::ZERO);
    p.size = size;
    p
}

/// Returns a config without noise and beacons.
fn plain() -> GreenPhyConfig {
    GreenPhyConfig { noise: AirNoise::default(), beacon: Time::ZERO, ..Default::default() }
}

/// A network and its output: (time, port, packet).
struct CableBench {
    link: GreenPhy,
    now: Time,
    sent: Vec<u32>,
    out: Vec<(Time, usize, Packet)>,
    dropped: Vec<Packet>,
    /// Back-off slots and rounds so far.
    rounds: (u64, u64),
}

impl CableBench {
    fn new(config: &GreenPhyConfig, pairs: usize) -> Self {
        CableBench::with_priorities(config, pairs, &[])
    }
    fn with_priorities(config: &GreenPhyConfig, pairs: usize, priorities: &[Option<PriorityClass>]) -> Self {
        let link = GreenPhy::new(config, pairs, priorities, "cable", &SEED);
        let sent = vec![0; 2 * pairs];
        CableBench { link, now: Time::ZERO, sent, out: Vec::new(), dropped: Vec::new(), rounds: (0, 0) }
    }
    fn offer_of(&mut self, flow: u32, port: usize, size: u16) {
        let mut p = packet(port, 0, size);
        p.flow = FlowId::new(flow, port % 2 == 1);
        self.link.receive(self.now, port, p, &mut |p| self.dropped.push(p));
    }
    fn offer(&mut self, port: usize, size: u16) {
        let p = packet(port, self.sent[port], size);
        self.sent[port] += 1;
        self.link.receive(self.now, port, p, &mut |p| self.dropped.push(p));
    }
    fn step(&mut self) {
        self.now = self.link.next_wake();
        if let MediumPhase::Backoff(_, slots) = self.link.phase
            && self.link.next == self.now
        {
            self.rounds = (self.rounds.0 + u64::from(slots), self.rounds.1 + 1);
        }
        self.link.wake(self.now, &mut |p| self.dropped.push(p));
        while let Some((port, p)) = self.link.transmit(self.now) {
            self.out.push((self.now, port, p));
        }
    }
    /// Processes all events up to `end`; keeps 20 packets of `size` bytes waiting at each of these ports.
    fn saturate(&mut self, end: Time, ports: &[usize], size: u16) {
        loop {
            for &port in ports {
                while self.link.waiting(port) < 20 {
                    self.offer(port, size);
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
    fn count(&self, port: usize) -> usize {
        self.out.iter().filter(|o| o.1 == port).count()
    }
    /// Asserts that every packet came out in order or was dropped, and that none is left.
    fn balances(&self) {
        for port in 0..self.sent.len() {
            let of = |p: &Packet| p.flow == packet(port, 0, 0).flow;
            let out: Vec<_> = self.out.iter().filter(|o| o.1 == port).map(|o| o.2.seq).collect();
            assert!(out.is_sorted());
            let mut all: Vec<_> = out.into_iter().chain(self.dropped.iter().filter(|p| of(p)).map(|p| p.seq)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..self.sent[port]), "port {port}");
            assert_eq!(self.link.waiting(port), 0);
            assert_eq!(self.link.backlog(port, packet(port, 0, 0).flow), Backlog::default());
        }
        assert_eq!(self.link.in_transit().count(), 0);
    }
}

#[test]
fn saturated_stations_collide_as_computed() {
    // (stations, collisions per attempt, idle slots per busy period, Mbit/s), class CA1, 3 PBs per MPDU
    let table = [
        (1, 0.0, 3.5, 6.27),
        (2, 0.085, 3.2, 6.02),
        (3, 0.142, 2.9, 5.86),
        (5, 0.211, 2.4, 5.66),
        (7, 0.262, 2.1, 5.49),
        (10, 0.315, 1.8, 5.31),
    ];
    // Frames of exactly 3 PBs; no PB is abandoned because of collisions.
    let config = GreenPhyConfig { max_pbs: 3, mtu: 1518, transmissions: 255, lifetime: Time::MAX, ..plain() };
    for (n, collisions, idle, mbps) in table {
        let mut b = CableBench::new(&config, n);
        let ports: Vec<_> = (0..n).map(|k| 2 * k).collect();
        let secs = 1600.0; // collisions cluster: a shorter test would be off by more than 1 %
        b.saturate(Time::from_secs_f64(secs), &ports, 1518);
        let arq = || ports.iter().map(|&p| &b.link.stats(p).arq);
        let got = arq().map(|a| a.collisions).sum::<u64>() as f64 / arq().map(|a| a.frames).sum::<u64>() as f64;
        assert!((got - collisions).abs() <= 0.03 * collisions, "{n}: {got} for {collisions}");
        let got = b.rounds.0 as f64 / b.rounds.1 as f64;
        assert!((got - idle).abs() <= 0.03 * idle, "{n}: {got} for {idle}");
        let got = b.out.len() as f64 * 1536.0 * 8.0 / secs / 1e6;
        assert!((got - mbps).abs() <= 0.03 * mbps, "{n}: {got} for {mbps}");
    }
}

#[test]
fn all_time_is_accounted_for() {
    for eifs_after_collision in [false, true] {
        let config = GreenPhyConfig { eifs_after_collision, max_pbs: 3, mtu: 1518, ..plain() };
        let mut b = CableBench::new(&config, 3);
        b.saturate(Time::from_secs(20), &[0, 2, 4], 1518);
        let (slots, rounds) = b.rounds;
        let frames = |port| &b.link.stats(port).arq;
        let good: u64 = [0, 2, 4].map(|p| frames(p).frames - frames(p).collisions).iter().sum();
        let collision = if eifs_after_collision { config.delimiter + config.eifs } else { config.busy(3) };
        let total = config.slot * (2 * rounds + slots) + config.busy(3) * good + collision * (rounds - good);
        assert!(total.0.abs_diff(b.now.0) < 5_000_000, "{total:?} of {:?}", b.now);
        assert!(rounds - good > 500);
    }
}

#[test]
fn last_winner_often_wins_again() {
    let mut b = CableBench::new(&GreenPhyConfig { max_pbs: 3, mtu: 1518, ..plain() }, 2);
    b.saturate(Time::from_secs(200), &[0, 2], 1518);
    let same = b.out.windows(2).filter(|w| w[0].1 == w[1].1).count() as f64 / (b.out.len() - 1) as f64;
    assert!((same - 0.83).abs() < 0.02, "{same}");
    let share = b.count(0) as f64 / b.out.len() as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn saturated_pair_fills_its_exchanges() {
    for config in [GreenPhyConfig::hpgp_hs(), GreenPhyConfig::hpgp_std(), GreenPhyConfig::hpgp_mini()] {
        let config = GreenPhyConfig { noise: AirNoise::default(), beacon: Time::ZERO, ..config };
        let mut b = CableBench::new(&config, 1);
        b.saturate(Time::from_secs(60), &[0], 1500);
        let n = config.max_pbs;
        let expected = (config.mode.body_bytes() * n as u64) as f64 / config.exchange_time(n).as_secs_f64() / 1518.0;
        let got = b.out.len() as f64 / 60.0;
        assert!((got / expected - 1.0).abs() < 0.01, "{got} frames/s for {expected}: {:?}", config.mode);
    }
}

#[test]
fn beacons_block_their_region_and_exchanges_that_overlap_it() {
    let share = |beacon, mains_hz| {
        let mut b = CableBench::new(&GreenPhyConfig { beacon, mains_hz, ..plain() }, 1);
        b.saturate(Time::from_secs(60), &[0], 1500);
        let first = b.link.beacon_at;
        let period = b.link.config.beacon_period();
        // Nothing arrives between the start of a region and the end of the shortest exchange after it.
        let latency = b.link.config.latency;
        for (at, ..) in &b.out {
            if let Some(since) = (*at - latency).0.checked_sub(first.0) {
                assert!(beacon.is_zero() || since % period.0 > beacon.0, "{at:?}");
            }
        }
        b.out.len() as f64
    };
    let without = share(Time::ZERO, 50.0);
    for (mains, period) in [(50.0, 40.0), (60.0, 33.333)] {
        let got = share(Time::from_millis(1), mains) / without;
        // A beacon region costs 1 ms, plus an idle time before it shorter than the shortest exchange (1.1 ms).
        assert!(got < 1.0 - 1.0 / period && got > 1.0 - 2.1 / period, "{got} at {mains} Hz");
    }
}

#[test]
fn a_handshake_takes_five_milliseconds() {
    let mut b = CableBench::new(&GreenPhyConfig { beacon: Time::ZERO, ..Default::default() }, 1);
    let mut rtts = Vec::new();
    for i in 0..1000 {
        b.now = Time::from_millis(100 * i);
        b.offer(1, 60);
        let start = b.now;
        while b.out.is_empty() {
            b.step();
        }
        b.offer(0, 60);
        while b.out.len() < 2 {
            b.step();
        }
        rtts.push((b.now - start).as_millis_f64());
        b.drain();
        b.out.clear();
    }
    rtts.sort_by(f64::total_cmp);
    // Captures at the car: 4.9 to 7.9 ms. Here: twice an exchange up to the end of its payload, plus the latency.
    assert!((4.3..5.5).contains(&rtts[500]), "{}", rtts[500]);
}

#[test]
fn higher_class_goes_first() {
    let classes = vec![PriorityClass::Ca1, PriorityClass::Ca1, PriorityClass::Ca3, PriorityClass::Ca1];
    let config = GreenPhyConfig { classes, ..plain() };
    let mut b = CableBench::new(&config, 2);
    b.saturate(Time::from_secs(5), &[0, 2], 1500);
    assert_eq!((b.count(0), b.link.stats(0).arq.frames), (0, 0));
    assert!(b.count(2) > 2000);
    // With little to send, the station takes part only sometimes and never collides with the other.
    let mut b = CableBench::new(&config, 2);
    while b.now < Time::from_secs(20) {
        let next = b.now + Time::from_millis(10);
        b.offer(2, 100);
        b.saturate(next, &[0], 1500);
        b.now = next;
    }
    assert!(b.count(2) >= 1998 && b.count(0) > 9000);
    assert_eq!(b.link.stats(2).arq.collisions, 0);
}

/// At a shared port, the flow of the higher class goes first, and it wins the medium from ports of the lower class.
#[test]
fn flow_of_a_higher_class_goes_first() {
    let priorities = [None, Some(PriorityClass::Ca3)];
    let mut b = CableBench::with_priorities(&plain(), 1, &priorities);
    (0..200).for_each(|_| b.offer(0, 1500));
    assert_eq!((b.dropped.len(), b.link.waiting(0)), (90, 110));
    let exchange = b.link.config.exchange_time(b.link.config.max_pbs) + b.link.config.slot * 8;
    for _ in 0..20 {
        while b.now < Time::from_millis(10) {
            b.step();
        }
        let (since, before) = (b.now, b.out.len());
        b.offer_of(1, 0, 100);
        assert_eq!((b.dropped.len(), b.link.backlog(0, FlowId::new(1, false)).waiting), (90, 1));
        while !b.out[before..].iter().any(|o| o.2.flow.index() == 1) {
            if b.link.waiting(1) < 20 {
                b.offer(1, 1500); // the far end also has a lot to send
            }
            b.step();
        }
        // The higher class waits only for the current exchange.
        let waited = b.now - since - b.link.config.latency;
        assert!(waited < exchange * 2, "{waited:?}");
        b.now = b.link.next_wake();
    }
    b.drain();
    let of = |flow| b.out.iter().filter(|o| o.2.flow == FlowId::new(flow, false)).count();
    assert_eq!((of(0), of(1)), (110, 20));
    // The same without classes: the queue must drain first.
    let mut b = CableBench::with_priorities(&plain(), 1, &[]);
    (0..100).for_each(|_| b.offer(0, 1500));
    b.offer_of(1, 0, 100);
    b.drain();
    assert_eq!(b.out.last().unwrap().2.flow.index(), 1);
    assert!(b.now > exchange * 20);
}

/// Streams of one port share no back-off: an unused class changes nothing.
#[test]
fn silent_class_changes_nothing() {
    let run = |priorities: &[Option<PriorityClass>]| {
        let mut b = CableBench::with_priorities(&GreenPhyConfig::hpgp_hs(), 2, priorities);
        b.saturate(Time::from_secs(3), &[0, 1, 2], 1000);
        b.out.iter().map(|o| (o.0, o.1, o.2.seq)).collect::<Vec<_>>()
    };
    assert_eq!(run(&[]), run(&[None, None, Some(PriorityClass::Ca0), Some(PriorityClass::Ca3)]));
    assert_eq!(run(&[]), run(&[Some(PriorityClass::Ca1)])); // the port's class
    assert_ne!(run(&[]), run(&[Some(PriorityClass::Ca2)]));
}

#[test]
fn bad_blocks_are_repeated_and_frames_stay_in_order() {
    let noise = AirNoise { stationary: 0.1, ..AirNoise::cable() };
    let config = GreenPhyConfig { noise, ..GreenPhyConfig::hpgp_hs() };
    let mut b = CableBench::new(&config, 1);
    b.saturate(Time::from_secs(60), &[0, 1], 700);
    b.drain();
    b.balances();
    for port in 0..2 {
        let stats = b.link.stats(port);
        let p = stats.arq.errors as f64 / stats.arq.blocks as f64;
        // One delimiter in ten is lost, and one attempt in twelve collides: their blocks are not counted as failed.
        let alone = 1.0 - stats.arq.collisions as f64 / stats.arq.frames as f64;
        assert!((p / (0.1 * 0.9 * alone) - 1.0).abs() < 0.05, "{p}");
        assert!(stats.arq.repeats > stats.arq.errors && stats.arq.duplicates > 0);
        assert!(stats.lost < 20, "{}", stats.lost);
    }
}

#[test]
fn abandoned_block_loses_the_whole_frame() {
    for config in [GreenPhyConfig::hpgp_hs(), GreenPhyConfig::hpgp_std(), GreenPhyConfig::hpgp_mini()] {
        let noise = AirNoise { stationary: 0.2, ..Default::default() };
        let mut b = CableBench::new(&GreenPhyConfig { noise, transmissions: 2, ..config.clone() }, 1);
        b.saturate(Time::from_secs(20), &[0], 1500);
        b.drain();
        b.balances();
        let stats = b.link.stats(0);
        assert_eq!(stats.lost, b.dropped.len() as u64);
        // For short MPDUs, both transmissions fail with a probability of at least (1 - 0.8^2)^2.
        let share = stats.lost as f64 / stats.packets as f64;
        let at_least = 1.0 - libm::pow(1.0 - 0.04, 1500.0 / config.mode.body_bytes() as f64);
        assert!(share > at_least && share < 1.0, "{share} for {at_least} at least");
        assert!(b.out.len() > 50);
    }
}

#[test]
fn impulses_corrupt_blocks_as_computed() {
    let source = TrainForm::Mains {
        mains_hz: 50.0,
        length: Time::from_micros(300),
        variation: 0.3,
        jitter: Time::from_micros(100),
    };
    let noise = AirNoise { impulses: vec![Impulses::new(source, 0.3)], ..Default::default() };
    let config = GreenPhyConfig { noise: noise.clone(), robust_share: 0.0, ..plain() };
    let mut b = CableBench::new(&config, 1);
    b.saturate(Time::from_secs(300), &[0], 1500);
    let arq = &b.link.stats(0).arq;
    let (got, expected) = (arq.errors as f64 / arq.blocks as f64, noise.expected_error(config.payload_air(5) / 5, 1.0));
    assert!((got / expected - 1.0).abs() < 0.05, "{got} for {expected}");
}

#[test]
fn an_undecodable_frame_control_silences_the_medium() {
    // All delimiters of the first 100 ms are lost; without collisions, each try takes at least delimiter + EIFS.
    let recorded = vec![(Time::ZERO, 1.0), (Time::from_millis(100), 0.0)];
    let noise = AirNoise { recorded, ..Default::default() };
    let config = GreenPhyConfig { noise, robust_share: 1.0, transmissions: 255, ..plain() };
    let mut b = CableBench::new(&config, 1);
    b.offer(0, 1000);
    b.drain();
    b.balances();
    let tries = b.link.stats(0).arq.unacknowledged;
    let least = (config.delimiter + config.eifs + config.slot * 2).0;
    assert!(tries > 5 && tries <= 100_000_000 / least + 1, "{tries}");
    assert!(b.out[0].0 > Time::from_millis(100));
    // A block whose lifetime ends before that is abandoned.
    let mut b = CableBench::new(&GreenPhyConfig { lifetime: Time::from_millis(50), ..config }, 1);
    b.offer(0, 1000);
    b.drain();
    b.balances();
    assert!(b.dropped.len() == 1 && b.now < Time::from_millis(70), "{:?}", b.now);
}

#[test]
fn the_host_queue_is_finite() {
    let mut b = CableBench::new(&plain(), 1);
    (0..200).for_each(|_| b.offer(0, 1500));
    assert_eq!((b.dropped.len(), b.link.waiting(0), b.link.stats(0).dropped), (90, 110, 90));
    assert_eq!(b.link.in_transit().count(), 110);
    assert_eq!(b.link.backlog(0, packet(0, 0, 0).flow), Backlog { waiting: 110, unacknowledged: 0 });
    // The first MPDU carries 2560 bytes and so reaches into the second frame.
    while b.link.stats(0).packets == 0 {
        b.step();
    }
    assert_eq!(b.link.backlog(0, packet(0, 0, 0).flow), Backlog { waiting: 108, unacknowledged: 2 });
    b.drain();
    b.balances();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed, pairs| {
        let mut b = CableBench::new(&GreenPhyConfig::hpgp_std(), pairs);
        b.link = GreenPhy::new(&GreenPhyConfig::hpgp_std(), pairs, &[], "cable", &Seed { seed, replica: 0 });
        b.saturate(Time::from_secs(3), &[0, 1], 1000);
        b.out.iter().map(|o| (o.0, o.1, o.2.seq)).collect::<Vec<_>>()
    };
    assert_eq!(run(1, 1), run(1, 1));
    assert_eq!(run(1, 1), run(1, 3)); // silent pairs have no effect
    assert_ne!(run(1, 1), run(2, 1));
}

#[test]
fn mini_blocks_hold_a_quarter() {
    let mut b = CableBench::new(&GreenPhyConfig { mode: Robo::Mini, max_pbs: 1, ..plain() }, 1);
    b.offer(0, 1500);
    b.drain();
    assert_eq!(b.link.stats(0).arq.frames, 12); // 1518 / 128
    // The rest of a frame is not sent after one of its blocks is abandoned.
    let noise = AirNoise { recorded: vec![(Time::ZERO, 1.0)], ..Default::default() };
    let mut b = CableBench::new(&GreenPhyConfig { noise, robust_share: 0.0, ..GreenPhyConfig::hpgp_mini() }, 1);
    b.offer(0, 1500);
    b.drain();
    b.balances();
    assert_eq!((b.link.stats(0).arq.frames, b.dropped.len()), (8, 1));
}

#[test]
fn packets_are_conserved() {
    let mut random = SEED.stream("test", "traffic");
    let mut totals = [0; 4];
    let noise = AirNoise { stationary: 0.15, impulses: vec![Impulses::asynchronous(500.0)], ..Default::default() };
    let profiles = [GreenPhyConfig::hpgp_hs(), GreenPhyConfig::hpgp_std(), GreenPhyConfig::hpgp_mini()];
    for (round, profile) in profiles.iter().cycle().take(30).enumerate() {
        let config = GreenPhyConfig {
            transmissions: 1 + (round % 4) as u8,
            noise: noise.clone(),
            host_queue: 10,
            eifs_after_collision: round % 2 == 0,
            classes: vec![PriorityClass::Ca1, PriorityClass::Ca0, PriorityClass::Ca2, PriorityClass::Ca1],
            ..profile.clone()
        };
        let mut b = CableBench::new(&config, 3);
        while b.now < Time::from_secs(1) {
            let next = b.now + Time(random.range(0, 8_000_000));
            while b.link.next_wake() <= next {
                b.step();
            }
            b.now = next;
            for _ in 0..random.range(0, 8) {
                b.offer(random.range(0, 5) as usize, random.range(40, 1500) as u16);
            }
            let inside = b.link.in_transit().count() + b.out.len() + b.dropped.len();
            assert_eq!(inside, b.sent.iter().sum::<u32>() as usize);
        }
        b.drain();
        b.balances();
        let stats = || (0..6).map(|port| b.link.stats(port));
        assert_eq!(stats().map(|s| s.dropped + s.lost).sum::<u64>(), b.dropped.len() as u64);
        for s in stats() {
            totals[0] += s.dropped;
            totals[1] += s.lost;
            totals[2] += s.arq.collisions;
            totals[3] += s.arq.duplicates;
        }
    }
    assert!(totals.iter().all(|&n| n > 50), "{totals:?}"); // every case occurred
}

/// Packets on an unplugged cable are repeated until their sender abandons them. The cable has no effect on other pairs.
#[test]
fn unplugged_cables_deliver_nothing() {
    let period = [Time::from_secs(1), Time::from_secs(3)];
    let config = GreenPhyConfig { unplugged: vec![vec![period]], ..GreenPhyConfig::hpgp_hs() };
    let mut b = CableBench::new(&config, 2);
    b.saturate(Time::from_secs(4), &[0, 1, 2], 1000);
    b.drain();
    b.balances();
    let within = |port: usize, from: u64, until: u64| {
        let time = |s| Time::from_millis(s);
        b.out.iter().filter(|(at, p, _)| *p == port && (time(from)..time(until)).contains(at)).count()
    };
    // Frames that were on the air before still arrive: each takes at most 2.5 ms, and 1 ms of processing.
    assert_eq!([within(0, 1010, 3000), within(1, 1010, 3000)], [0, 0]);
    assert!(within(0, 0, 1000) > 100 && within(0, 3000, 4000) > 100 && within(1, 3000, 4000) > 100);
    assert!(within(2, 1000, 3000) > 200, "the other pair goes on");
    assert!(!b.dropped.is_empty());
}
