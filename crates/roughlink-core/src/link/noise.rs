//! Losses per packet, in the forms that papers use. Packets are tested in order of arrival at the far end of the link,
//! so packets dropped by the queue draw no random numbers. Links that divide their air time into blocks use [`air`],
//! where a loss depends on the time of the block on air.

use crate::rng::{RandomStream, Seed, threshold};
use crate::units::{Rate, Time};

pub mod air;
pub mod impulses;

pub use air::AirNoise;

/// The losses of a link direction.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Noise {
    /// No losses.
    #[default]
    None,
    /// Each packet with probability `loss`.
    Random {
        /// Loss probability, 0..=1.
        loss: f64,
    },
    /// Each bit with probability `ber`, so that long packets are lost more often than short ones.
    BitErrors {
        /// Bit error rate, 0..=1.
        ber: f64,
    },
    /// Bursts of losses: with probability `start`, a packet begins a burst of random length and is its first loss. A
    /// packet inside may restart the burst (ns-3 BurstErrorModel), so the loss is slightly below `start` times the mean
    /// length.
    Burst {
        /// Probability that a packet starts a burst, 0..=1.
        start: f64,
        /// Length of a burst in packets.
        length: BurstLength,
    },
    /// Two states (Gilbert 1960, Elliott 1963). The chain moves once per packet; then the packet is lost with the
    /// state's probability.
    GilbertElliott {
        /// Probability of good -> bad per packet.
        to_bad: f64,
        /// Probability of bad -> good per packet.
        to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
    /// Exactly these packets: zero-based numbers in the order of arrival; the SYN is 0, every fragment counts.
    List {
        /// Ascending.
        drop: Vec<u64>,
    },
    /// Noise pulses in time: a packet whose air time overlaps a pulse is lost with probability `kill`.
    Impulse(Impulse),
    /// Recorded noise: from each time on, packets are lost with the given probability.
    Recorded {
        /// (start, loss probability), ascending; the first entry also covers the time before it.
        steps: Vec<(Time, f64)>,
    },
}

impl Noise {
    /// Loses each packet with probability `loss`; draws no random numbers if that is zero.
    pub fn random(loss: f64) -> Self {
        if loss == 0.0 { Noise::None } else { Noise::Random { loss } }
    }
}

/// The length of a loss burst.
#[derive(Clone, Debug, PartialEq)]
pub enum BurstLength {
    /// Uniform over `min..=max` packets.
    Uniform(u64, u64),
    /// Geometric with this mean, at least 1.
    Geometric(f64),
}

impl BurstLength {
    /// Returns the mean length in packets.
    pub fn mean(&self) -> f64 {
        match *self {
            BurstLength::Uniform(a, b) => (a + b) as f64 / 2.0,
            BurstLength::Geometric(m) => m,
        }
    }
}

/// Pulses of noise: cyclic ones (mains-synchronous: twice per period of the mains) and asynchronous ones (Poisson).
#[derive(Clone, Debug, PartialEq)]
pub struct Impulse {
    /// Evenly spaced pulses of one length.
    pub cyclic: Option<Pulses>,
    /// Pulses at random times, of exponentially distributed lengths.
    pub asynchronous: Option<Pulses>,
    /// Probability that an overlapped packet is lost.
    pub kill: f64,
}

/// A train of pulses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulses {
    /// Time from one pulse start to the next; the mean for random pulses.
    pub every: Time,
    /// Length of a pulse; the mean for random pulses.
    pub length: Time,
}

impl Noise {
    /// Returns the mean number of random draws per second, independent of traffic.
    pub fn draws(&self) -> f64 {
        let rate = |pulses: &Option<Pulses>| pulses.map_or(0.0, |p| 1.0 / p.every.as_secs_f64());
        match self {
            Noise::Impulse(impulse) => rate(&impulse.cyclic) + rate(&impulse.asynchronous),
            _ => 0.0,
        }
    }
}

/// Noise in operation, which decides the loss of each packet.
#[derive(Debug)]
pub enum LossProcess {
    #[allow(missing_docs, reason = "as Noise")]
    None,
    #[allow(missing_docs, reason = "as Noise")]
    Random { stream: RandomStream, loss: u64 },
    #[allow(missing_docs, reason = "as Noise")]
    BitErrors(Box<BitErrors>),
    #[allow(missing_docs, reason = "as Noise")]
    Burst { stream: RandomStream, start: u64, length: BurstLength, left: u64 },
    #[allow(missing_docs, reason = "as Noise")]
    GilbertElliott { stream: RandomStream, bad: bool, flip: [u64; 2], loss: [u64; 2] },
    #[allow(missing_docs, reason = "as Noise")]
    List { drop: Vec<u64>, next: usize, seen: u64 },
    #[allow(missing_docs, reason = "as Noise")]
    Impulse(Box<Overlaps>),
    #[allow(missing_docs, reason = "as Noise")]
    Recorded { stream: RandomStream, steps: Vec<(Time, u64)>, at: usize },
}

impl LossProcess {
    /// Creates the noise of direction `name`.
    pub fn new(noise: &Noise, name: &str, seed: &Seed) -> Self {
        let stream = || seed.stream(name, "noise");
        match noise {
            Noise::None => LossProcess::None,
            Noise::Random { loss } => LossProcess::Random { stream: stream(), loss: threshold(*loss) },
            Noise::BitErrors { ber } => LossProcess::BitErrors(Box::new(BitErrors {
                stream: stream(),
                log_good: libm::log1p(-ber),
                last: (0, 0),
            })),
            Noise::Burst { start, length } => {
                LossProcess::Burst { stream: stream(), start: threshold(*start), length: length.clone(), left: 0 }
            }
            Noise::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => LossProcess::GilbertElliott {
                stream: stream(),
                bad: false,
                flip: [threshold(*to_bad), threshold(*to_good)],
                loss: [threshold(*loss_good), threshold(*loss_bad)],
            },
            Noise::List { drop } => LossProcess::List { drop: drop.clone(), next: 0, seen: 0 },
            Noise::Impulse(config) => LossProcess::Impulse(Box::new(Overlaps::new(config.clone(), name, seed))),
            Noise::Recorded { steps } => LossProcess::Recorded {
                stream: stream(),
                steps: steps.iter().map(|&(t, p)| (t, threshold(p))).collect(),
                at: 0,
            },
        }
    }

    /// Returns true if a packet of `size` bytes, whose last bit arrives at `now` over a link of `rate`, is lost.
    #[inline(always)]
    pub fn loses(&mut self, now: Time, size: u16, rate: Rate) -> bool {
        match self {
            LossProcess::None => false,
            LossProcess::Random { stream, loss } => stream.hit(*loss),
            LossProcess::BitErrors(errors) => errors.loses(size),
            LossProcess::Burst { stream, start, length, left } => {
                if stream.hit(*start) {
                    *left = length.draw(stream) - 1;
                    true
                } else if *left > 0 {
                    *left -= 1;
                    true
                } else {
                    false
                }
            }
            LossProcess::GilbertElliott { stream, bad, flip, loss } => {
                if stream.hit(flip[usize::from(*bad)]) {
                    *bad = !*bad;
                }
                stream.hit(loss[usize::from(*bad)])
            }
            LossProcess::List { drop, next, seen } => {
                let hit = drop.get(*next) == Some(seen);
                *next += usize::from(hit);
                *seen += 1;
                hit
            }
            LossProcess::Impulse(pulses) => pulses.loses(now.saturating_sub(rate.time_for(u64::from(size))), now),
            LossProcess::Recorded { stream, steps, at } => {
                while steps.get(*at + 1).is_some_and(|s| s.0 <= now) {
                    *at += 1;
                }
                stream.hit(steps.get(*at).map_or(0, |s| s.1))
            }
        }
    }
}

/// Independent bit errors.
#[derive(Debug)]
pub struct BitErrors {
    stream: RandomStream,
    /// Logarithm of the probability that a bit arrives intact.
    log_good: f64,
    /// The latest size in bytes and the threshold of its loss: successive packets mostly have one of two sizes.
    last: (u16, u64),
}

impl BitErrors {
    fn loses(&mut self, size: u16) -> bool {
        if self.last.0 != size {
            // 1 - (1 - ber)^bits
            self.last = (size, threshold(-libm::expm1(f64::from(size) * 8.0 * self.log_good)));
        }
        self.stream.hit(self.last.1)
    }
}

impl BurstLength {
    #[inline]
    fn draw(&self, stream: &mut RandomStream) -> u64 {
        match *self {
            BurstLength::Uniform(a, b) => stream.range(a, b).max(1),
            BurstLength::Geometric(mean) => {
                let stop = 1.0 / mean;
                let mut n = 1;
                while stream.unit() >= stop {
                    n += 1;
                }
                n
            }
        }
    }
}

/// Noise pulses generated in time as packets pass.
#[derive(Debug)]
pub struct Overlaps {
    config: Impulse,
    kill: u64,
    stream: RandomStream,
    arrivals: RandomStream,
    /// Start of the first cyclic pulse.
    phase: Time,
    next_random: Time,
    /// Random pulses that may still touch a packet.
    recent: Vec<(Time, Time)>,
}

impl Overlaps {
    fn new(config: Impulse, name: &str, seed: &Seed) -> Self {
        let mut arrivals = seed.stream(name, "pulses");
        let phase = config.cyclic.map_or(Time::ZERO, |c| Time(arrivals.range(0, c.every.0 - 1)));
        let next_random = config.asynchronous.map_or(Time::MAX, |p| arrivals.exponential_time(p.every));
        Overlaps {
            kill: threshold(config.kill),
            config,
            stream: seed.stream(name, "noise"),
            arrivals,
            phase,
            next_random,
            recent: Vec::new(),
        }
    }

    fn loses(&mut self, from: Time, to: Time) -> bool {
        (0..self.overlapping(from, to)).any(|_| self.stream.hit(self.kill))
    }

    /// Pulses that overlap `[from, to]`. Times never go back.
    fn overlapping(&mut self, from: Time, to: Time) -> u64 {
        let mut n = 0;
        if let Some(p) = self.config.asynchronous {
            while self.next_random <= to {
                let length = self.arrivals.exponential_time(p.length);
                self.recent.push((self.next_random, self.next_random + length));
                self.next_random += self.arrivals.exponential_time(p.every).max(Time(1));
            }
            self.recent.retain(|p| p.1 >= from);
            n += self.recent.iter().filter(|p| p.0 <= to).count() as u64;
        }
        if let Some(c) = self.config.cyclic {
            // Pulse k covers phase + k every .. + length. Count those begun by `to` minus those over before `from`.
            let begun = |t: Time| if t < self.phase { 0 } else { (t - self.phase).0 / c.every.0 + 1 };
            n += begun(to) - from.0.checked_sub(c.length.0 + 1).map_or(0, |t| begun(Time(t)));
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed { seed: 3, replica: 0 };
    const RATE: Rate = Rate::from_mbps(10);

    fn share(noise: &Noise, n: u64) -> f64 {
        let mut j = LossProcess::new(noise, "x", &SEED);
        (0..n).filter(|&i| j.loses(Time::from_micros(1200 * (i + 1)), 1500, RATE)).count() as f64 / n as f64
    }

    #[test]
    fn burst_loss_matches_its_closed_form() {
        // A packet survives if no draw of the last 4 packets began a burst that reaches it. With start s and lengths
        // uniform over 1..=4, P(loss) follows from the chain of remaining lengths: with restarts, below 2.5 * s.
        let s: f64 = 0.02;
        let noise = Noise::Burst { start: s, length: BurstLength::Uniform(1, 4) };
        // Stationary distribution of `left` (0..=3): left' = L-1 on a hit, else max(left-1, 0).
        let mut pi = [1.0, 0.0, 0.0, 0.0];
        for _ in 0..200 {
            let mut next = [0.0; 4];
            for (l, p) in pi.iter().enumerate() {
                for hit in &mut next {
                    *hit += p * s / 4.0;
                }
                next[l.saturating_sub(1)] += p * (1.0 - s);
            }
            pi = next;
        }
        let expected = s + (1.0 - s) * (1.0 - pi[0]);
        let got = share(&noise, 2_000_000);
        assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
        assert!(expected < 2.5 * s);
    }

    #[test]
    fn geometric_bursts_have_their_mean() {
        let noise = Noise::Burst { start: 0.001, length: BurstLength::Geometric(5.0) };
        let got = share(&noise, 2_000_000);
        assert!((0.0045..0.0052).contains(&got), "{got}");
    }

    #[test]
    fn gilbert_elliott_matches_its_closed_form() {
        let noise = Noise::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.001, loss_bad: 0.3 };
        let bad = 0.01 / 0.21;
        let expected = bad * 0.3 + (1.0 - bad) * 0.001;
        let got = share(&noise, 2_000_000);
        assert!((got / expected - 1.0).abs() < 0.03, "{got} for {expected}");
    }

    #[test]
    fn bit_error_loss_depends_on_packet_length() {
        // 1 - (1 - ber)^(8 size), as ns-3 3.44's RateErrorModel (ERROR_UNIT_BIT): 11.3 % of 1500 B, 0.32 % of 40 B.
        for (ber, size, wanted) in [(1e-5, 1500, 0.113_080), (1e-5, 40, 0.003_195), (0.0, 1500, 0.0), (1.0, 40, 1.0)] {
            let mut judge = LossProcess::new(&Noise::BitErrors { ber }, "x", &SEED);
            let lost = (0..1_000_000).filter(|_| judge.loses(Time::ZERO, size, RATE)).count() as f64 / 1e6;
            assert!((lost - wanted).abs() <= 0.03 * wanted, "{ber}, {size} B: {lost}");
        }
    }

    #[test]
    fn list_drops_exactly_its_packets() {
        let mut j = LossProcess::new(&Noise::List { drop: vec![0, 3, 4] }, "x", &SEED);
        let hits: Vec<_> = (0..6).map(|_| j.loses(Time::ZERO, 1500, RATE)).collect();
        assert_eq!(hits, [true, false, false, true, true, false]);
    }

    #[test]
    fn impulses_hit_overlapping_packets() {
        // 1.2 ms on air, pulses of 0.5 ms at 120 Hz: (1.2 + 0.5) ms * 120 Hz = 0.204 of packets, half of them lost.
        let cyclic = Pulses { every: Time(8_333_333), length: Time::from_micros(500) };
        let got = share(&Noise::Impulse(Impulse { cyclic: Some(cyclic), asynchronous: None, kill: 0.5 }), 1_000_000);
        assert!((got / 0.102 - 1.0).abs() < 0.02, "{got}");
        // Poisson pulses: about rate * (air + mean length) of the packets are touched.
        let random = Pulses { every: Time::from_millis(200), length: Time::from_micros(100) };
        let got = share(&Noise::Impulse(Impulse { cyclic: None, asynchronous: Some(random), kill: 1.0 }), 1_000_000);
        assert!((got / (5.0 * 0.0013) - 1.0).abs() < 0.05, "{got}");
    }

    #[test]
    fn recorded_probabilities_apply_from_their_time() {
        let mut j = LossProcess::new(
            &Noise::Recorded { steps: vec![(Time::ZERO, 0.0), (Time::from_secs(1), 1.0), (Time::from_secs(2), 0.0)] },
            "x",
            &SEED,
        );
        let hits: Vec<_> = [0, 999, 1000, 1999, 2000].map(|ms| j.loses(Time::from_millis(ms), 100, RATE)).into();
        assert_eq!(hits, [false, false, true, true, false]);
    }
}
