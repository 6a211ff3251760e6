//! Losses per packet, in the forms that papers use. Each is judged in the order in which packets arrive at the far
//! end of the link, so a packet that the queue dropped draws nothing.

use crate::units::Time;

/// What a direction of a link loses.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Noise {
    /// Nothing.
    #[default]
    None,
    /// Each packet with probability `loss`.
    Random {
        /// Loss probability, 0..=1.
        loss: f64,
    },
    /// Every packet draws; with probability `start` it begins a burst that takes a random number of packets, itself
    /// included. A hit inside a burst restarts it (ns-3 BurstErrorModel), so the realised loss is a little below
    /// `start` times the mean length.
    Burst {
        /// Probability that a packet starts a burst, 0..=1.
        start: f64,
        /// Length of a burst in packets.
        length: BurstLength,
    },
    /// Two states (Gilbert 1960, Elliott 1963); the chain moves once per packet, then the packet is lost with the
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
    /// As recorded: from each time on, packets are lost with the given probability.
    Recorded {
        /// (from when on, loss probability), ascending; the first entry also covers what lies before it.
        steps: Vec<(Time, f64)>,
    },
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
    /// Mean length in packets.
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
    /// Time from one start to the next; the mean of it if they are random.
    pub every: Time,
    /// Length of a pulse; the mean of it if they are random.
    pub length: Time,
}
