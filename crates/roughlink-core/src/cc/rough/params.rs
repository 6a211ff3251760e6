//! The constants of the algorithm as parameters. `validation/rough_search.py` searches for better ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of [`Rough`](super::Rough).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Data that the flow keeps in the queue, in quarters of a segment.
    pub queue_quarters: u64,
    /// Pacing rate over the window per round trip, percent; startup uses 200.
    pub pacing_percent: u64,
    /// Window of the smallest and the largest RTT, ms. If 60 round trips take longer, these, up to a minute.
    pub rtt_window_ms: u64,
    /// Share of the smallest RTT, percent: a larger queueing delay ends startup even if the rate still grows.
    pub startup_percent: u64,
    /// Average of the rounds' largest RTT increases above which the path has noise, in packets at the delivery rate.
    pub jump_packets: u64,
    /// Noise as a share of the average of the rounds' largest RTT increases, percent; 0 = none.
    pub noise_percent: u64,
    /// Average share of lost bytes above which losses are congestion, in thousandths; 1000 = never.
    pub max_loss_permille: u64,
    /// Rounds with too little in the queue after which the increase of the window doubles per round.
    pub probe_rounds: u64,
    /// Compete with flows that fill the queue.
    pub compete: bool,
    /// Rounds over which the flow judges whether others fill the queue.
    pub patience: u64,
    /// Smallest over largest queueing delay of `patience` rounds above which others fill the queue, percent.
    pub filled_percent: u64,
    /// Smallest over largest queueing delay of `patience` rounds up to which competition is over, percent.
    pub empty_percent: u64,
    /// Position of the largest recent RTT between the smallest and the largest, percent. While competing, a loss at or
    /// above it is congestion.
    pub loss_percent: u64,
    /// Try delay again after an ECN mark, or a loss that is congestion, if the flow has competed for `patience` rounds.
    pub attempt: bool,
    /// Return to the former window after a time-out, and begin again with a train after a longer silence.
    pub restart: bool,
    /// Silence after which the path may be another one, ms, in addition to two round trips and two time-outs.
    pub silence_ms: u64,
    /// Acknowledged segments after which a train gives the rate of the path.
    pub train_segments: u64,
    /// Part of a train's rate that is used at once, percent.
    pub train_percent: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            queue_quarters: 9,
            pacing_percent: 110,
            rtt_window_ms: 10_000,
            startup_percent: 40,
            jump_packets: 3,
            noise_percent: 100,
            max_loss_permille: 150,
            probe_rounds: 4,
            compete: true,
            patience: 10,
            filled_percent: 45,
            empty_percent: 5,
            loss_percent: 70,
            attempt: true,
            restart: true,
            silence_ms: 600,
            train_segments: 7,
            train_percent: 90,
        }
    }
}

impl Params {
    pub(super) fn check(&self) -> Result<(), String> {
        let p = self;
        let at_least_one = [p.queue_quarters, p.pacing_percent, p.rtt_window_ms, p.patience, p.train_segments];
        let others = [
            [p.startup_percent, p.jump_packets, p.noise_percent, p.max_loss_permille, p.probe_rounds],
            [p.filled_percent, p.empty_percent, p.loss_percent, p.silence_ms, p.train_percent],
        ];
        if at_least_one.contains(&0) {
            Err("`queue_quarters`, `pacing_percent`, `rtt_window_ms`, `patience` and `train_segments` must be at \
                 least 1"
                .into())
        } else if others.iter().flatten().chain(&at_least_one).any(|&x| x > MOST) {
            Err(format!("numbers must be at most {MOST}"))
        } else {
            Ok(())
        }
    }
}

/// Largest value of these parameters for which products fit.
const MOST: u64 = 100_000;
