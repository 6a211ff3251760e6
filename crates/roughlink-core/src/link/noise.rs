//! Losses per packet, in the forms that papers use. Each is judged in the order in which packets arrive at the far
//! end of the link, so a packet that the queue dropped draws nothing.

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
        /// (seconds, loss probability), ascending; the first entry also covers what lies before it.
        steps: Vec<(f64, f64)>,
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

/// Pulses of noise: cyclic ones at a fixed frequency (mains-synchronous: twice the mains frequency) and asynchronous
/// ones (Poisson). Times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Impulse {
    /// Cyclic pulses per second; 0 = none.
    pub cyclic_hz: f64,
    /// Length of a cyclic pulse.
    pub cyclic_length_s: f64,
    /// Asynchronous pulses per second; 0 = none.
    pub async_hz: f64,
    /// Mean length of an asynchronous pulse (exponential).
    pub async_length_s: f64,
    /// Probability that an overlapped packet is lost.
    pub kill: f64,
}
