//! Jitter: a random part of each packet's delay.
//!
//! The normal and Pareto distributions are shaped as in `tc netem`. The uniform one only adds delay, while netem's is
//! centered on the delay. netem's correlation mixes the last uniform number with the next one, which narrows the
//! distribution. Here a first-order autoregression of normal numbers preserves it for any correlation.

use super::Direction;
use crate::packet::Packet;
use crate::rng::{RandomStream, Seed};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Distribution of the random part of a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Uniform from zero to the jitter, added to the delay.
    #[default]
    Uniform,
    /// Normal around the delay; the jitter is the standard deviation.
    Normal,
    /// Pareto of shape 3 around the delay: few values are very large. The jitter is the standard deviation.
    Pareto,
}

/// Shape of jitter; its size is [`Direction::jitter`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JitterShape {
    /// Distribution of each value.
    pub distribution: Distribution,
    /// Correlation of the values of successive packets, 0..1.
    pub correlation: f64,
}

#[derive(Debug)]
pub(super) struct Jitter {
    stream: RandomStream,
    size: Time,
    shape: JitterShape,
    /// The last standard normal number, if successive ones are correlated.
    last: Option<f64>,
}

impl Jitter {
    pub(super) fn new(direction: &Direction, name: &str, seed: &Seed) -> Option<Self> {
        (!direction.jitter.is_zero()).then(|| Jitter {
            stream: seed.stream(name, "jitter"),
            size: direction.jitter,
            shape: direction.jitter_shape,
            last: None,
        })
    }

    /// Returns true if a packet can arrive before the end of the propagation delay.
    pub(super) fn can_be_early(&self) -> bool {
        self.shape.distribution != Distribution::Uniform
    }

    /// Adds jitter to an `arrival` after a propagation delay of `delay`, which never becomes negative.
    pub(super) fn apply(&mut self, arrival: Time, delay: Time) -> Time {
        let JitterShape { distribution, correlation } = self.shape;
        if correlation == 0.0 {
            return jittered(&mut self.stream, (arrival, delay), self.size, distribution);
        }
        let normal = self.normal(correlation);
        moved((arrival, delay), self.size, distribution, normal)
    }

    /// Returns a standard normal number with this correlation to the last one.
    fn normal(&mut self, correlation: f64) -> f64 {
        let fresh = self.stream.normal();
        let next = match self.last {
            Some(last) => correlation * last + libm::sqrt(1.0 - correlation * correlation) * fresh,
            None => fresh,
        };
        self.last = (correlation != 0.0).then_some(next);
        next
    }
}

/// Packets on air that may overtake each other. A packet is inserted in logarithmic time, however many are on air.
#[derive(Debug, Default)]
pub(super) struct Reordered {
    /// Packets by arrival, then by the order of insertion.
    packets: BTreeMap<(Time, u64), Packet>,
    /// Packets inserted so far.
    inserted: u64,
}

impl Reordered {
    pub(super) fn insert(&mut self, arrival: Time, p: Packet) {
        self.packets.insert((arrival, self.inserted), p);
        self.inserted += 1;
    }

    /// Returns the earliest arrival, [`Time::MAX`] if no packet is on air.
    pub(super) fn next_arrival(&self) -> Time {
        self.packets.first_key_value().map_or(Time::MAX, |((arrival, _), _)| *arrival)
    }

    /// Removes the earliest packet if it arrives at `now` or before.
    pub(super) fn pop_until(&mut self, now: Time) -> Option<(Time, Packet)> {
        let first = self.packets.first_entry().filter(|first| first.key().0 <= now)?;
        let ((arrival, _), p) = first.remove_entry();
        Some((arrival, p))
    }

    /// Returns the memory of the packets, bytes: the nodes of the tree may be half empty.
    pub(super) fn bytes(&self) -> usize {
        2 * self.packets.len() * size_of::<((Time, u64), Packet)>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.values()
    }
}

/// Shifts `at`, the end of a `delay`, by a random amount of this size; no delay becomes negative.
pub(crate) fn jittered(
    stream: &mut RandomStream,
    (at, delay): (Time, Time),
    size: Time,
    distribution: Distribution,
) -> Time {
    match distribution {
        Distribution::Uniform => at + Time(stream.range(0, size.0)),
        _ => moved((at, delay), size, distribution, stream.normal()),
    }
}

/// Shifts `at`, the end of a `delay`, by the distribution's value at the quantile of the standard normal `normal`.
fn moved((at, delay): (Time, Time), size: Time, distribution: Distribution, normal: f64) -> Time {
    let moved = size.0 as f64
        * match distribution {
            Distribution::Uniform => share_below(normal),
            Distribution::Normal => normal,
            Distribution::Pareto => {
                // Mean 3/2 and variance 3/4 for a scale of one.
                let x = libm::pow(1.0 - share_below(normal), -1.0 / 3.0);
                (x - 1.5) / libm::sqrt(0.75)
            }
        };
    match moved < 0.0 {
        true => at - Time((-moved) as u64).min(delay),
        false => at.saturating_add(Time(moved as u64)),
    }
}

/// Returns the distribution function of the standard normal distribution.
fn share_below(x: f64) -> f64 {
    // Stay below one, so that the Pareto number is finite.
    (0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)).min(1.0 - f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::noise::Noise;
    use crate::units::{QueueLimit, Rate};

    /// Returns mean, standard deviation and minimum (ms) and the serial correlation of the jitter of 200,000 packets.
    fn moments(distribution: Distribution, correlation: f64, delay: Time) -> [f64; 4] {
        let direction = Direction {
            rate: Rate::from_mbps(1),
            delay,
            queue: QueueLimit::Packets(1),
            noise: Noise::None,
            jitter: Time::from_millis(10),
            jitter_shape: JitterShape { distribution, correlation },
            reorder: true,
            discipline: None,
            timeline: None,
        };
        let mut jitter = Jitter::new(&direction, "x", &Seed { seed: 1, replica: 0 }).unwrap();
        let sent = Time::from_secs(1);
        let n = 200_000;
        let values: Vec<f64> = (0..n)
            .map(|_| (jitter.apply(sent + delay, delay).as_secs_f64() - (sent + delay).as_secs_f64()) * 1e3)
            .collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        let pairs = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / (n - 1) as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        [mean, libm::sqrt(variance), least, pairs / variance]
    }

    #[test]
    fn distributions_have_their_moments() {
        let far = Time::from_secs(1);
        for correlation in [0.0, 0.25, 0.9] {
            let close = |found: f64, wanted: f64| (found - wanted).abs() < 0.02 * (1.0 + 9.0 * correlation) * 10.0;
            // Uniform from 0 to 10 ms: mean 5, standard deviation 10 / sqrt(12).
            let [mean, deviation, least, _] = moments(Distribution::Uniform, correlation, far);
            assert!(close(mean, 5.0) && close(deviation, 2.887) && least >= 0.0, "{mean} {deviation} {least}");
            let [mean, deviation, least, found] = moments(Distribution::Normal, correlation, far);
            assert!(close(mean, 0.0) && close(deviation, 10.0) && least < -30.0, "{mean} {deviation} {least}");
            assert!((found - correlation).abs() < 0.02, "{found} for {correlation}");
            // Pareto of shape 3: the least value is (1 - 1.5) / sqrt(3 / 4) of the standard deviation.
            let [mean, _, least, _] = moments(Distribution::Pareto, correlation, far);
            assert!(close(mean, 0.0) && (least + 5.7735).abs() < 0.01, "{mean} {least}");
        }
    }

    #[test]
    fn packets_do_not_arrive_before_they_are_sent() {
        let [_, _, least, _] = moments(Distribution::Normal, 0.0, Time::from_millis(3));
        assert!((least + 3.0).abs() < 1e-6, "{least}");
    }
}
