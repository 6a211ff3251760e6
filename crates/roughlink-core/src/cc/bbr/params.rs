//! The constants of BBR as parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of [`Bbr`](super::Bbr).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Pacing and window gain of startup: 2/ln 2 doubles the rate every round (section 4.3.2.1).
    pub high_gain: f64,
    /// Pacing gain of drain.
    pub drain_gain: f64,
    /// Window gain of steady state.
    pub cwnd_gain: f64,
    /// Pacing gains of the phases of steady state (section 4.3.4).
    pub pacing_gains: [f64; 8],
    /// Memory of the bandwidth estimate in rounds.
    pub bandwidth_rounds: u32,
    /// Age at which the smallest RTT expires.
    pub min_rtt_window_ms: f64,
    /// Time spent at the minimum window to measure the RTT again; 0 = never.
    pub probe_rtt_ms: f64,
    /// Smallest window in segments, and the window while the RTT is measured.
    pub min_cwnd: u32,
    /// Share by which pacing stays below the estimate, so that queues drain.
    pub pacing_margin: f64,
    /// Growth factor of the bandwidth estimate: after `full_pipe_rounds` rounds with less growth, the pipe counts as
    /// full.
    pub full_pipe_growth: f64,
    /// Rounds without such growth after which the pipe is full.
    pub full_pipe_rounds: u32,
    /// RTT assumed for the first rate when none has been measured.
    pub initial_rtt_ms: f64,
    /// Segments that leave the host together; a window includes room for three such bursts. 0 = Linux's size: the
    /// amount sent in 2^-10 s at the pacing rate. Such a burst has at most 64 KiB and, at rates from `quantum_rate` up,
    /// at least 2 segments.
    pub quantum: u32,
    /// Rate in bit/s below which Linux sends single segments.
    pub quantum_rate: u64,
    /// Round windows up to an even number of segments, because of delayed ACKs.
    pub even_window: bool,
    /// Weight of ACK aggregation in the window.
    pub aggregation_gain: f64,
    /// Memory of the aggregation estimate, rounds; an excess counts for at least this many rounds and at most twice as
    /// many.
    pub aggregation_rounds: u32,
    /// Limit of the aggregation estimate: the amount that the path carries in this time.
    pub aggregation_limit_ms: f64,
    /// Bytes after which the measurement of aggregation restarts (Linux: 2^20 segments, here of 1448 bytes).
    pub aggregation_reset: u64,
    /// Resolution of the clock that measures the length of an aggregation epoch; 0 = exact (ns-3: whole seconds).
    pub aggregation_tick_ms: f64,
    /// Look for policers: token buckets that drop packets above a long-term rate.
    pub policer: bool,
    /// Minimum number of rounds in an interval for the long-term rate; an interval of more than four times as many is
    /// discarded.
    pub policer_rounds: u32,
    /// Ratio of lost to delivered bytes from which an interval is suspicious.
    pub policer_loss: f64,
    /// Two suspicious intervals reveal a policer if their rates differ by at most this fraction, or by at most
    /// `policer_difference`.
    pub policer_ratio: f64,
    /// Difference of rates, bit/s, up to which two suspicious intervals reveal a policer; see `policer_ratio`.
    pub policer_difference: u64,
    /// Rounds for which the long-term rate of a detected policer is used.
    pub policer_hold_rounds: u32,
    /// Restore the window after a time-out when the losses are repaired.
    pub restore_after_timeout: bool,
    /// Search again for a full pipe after a time-out.
    pub forget_full_pipe: bool,
    /// Fast recovery ends with a window of ssthresh (ns-3).
    pub exit_to_ssthresh: bool,
    /// ACKs without an RTT sample reuse the last one (ns-3).
    pub repeat_rtt: bool,
    /// An RTT equal to the smallest one renews its age (ns-3; Linux since 2020 only takes a smaller one).
    pub refresh_min_rtt: bool,
    /// Rate samples of data sent during ProbeRtt count as application-limited (Linux).
    pub mark_probe_rtt: bool,
    /// A rate sample may reuse the interval of an earlier acknowledgment (ns-3). Segments that left together share the
    /// interval of the first acknowledged one, which overestimates the rate. A small write makes samples
    /// application-limited. No effect with `recovery = "rack"` and in SCTP.
    pub keep_rate_sample: bool,
    /// Start with the handshake's RTT as the smallest, and with the initial window over this RTT as bandwidth, until
    /// the first sample that is not application-limited (ns-3).
    pub initial_bandwidth: bool,
    /// A sample without an interval does not clear the flag that marks the start of a round, and counts for ACK
    /// aggregation (ns-3).
    pub keep_round_start: bool,
    /// The bandwidth filter renews its second and third candidate by their values and ages (ns-3), otherwise by the age
    /// of the first one (Linux).
    pub filter_by_value: bool,
    /// Targets are rounded up to whole segments (Linux).
    pub whole_segments: bool,
    /// Pace the initial window, too (Linux).
    pub pace_initial_window: bool,
    /// Fast recovery begins a round, so that packet conservation lasts for a whole round, and losses also reduce the
    /// window after a time-out (Linux). Otherwise conservation ends with the current round, and only fast recovery
    /// reduces the window (ns-3).
    pub full_conservation: bool,
    /// The window wraps at 32 bits (ns-3): an unlimited one falls to the smallest window.
    pub wrap_window: bool,
    /// Apply the margin to the initial rate, too (Linux).
    pub initial_margin: bool,
    /// Seed of the first phases of the gain cycle.
    pub phase_seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            high_gain: 739.0 / 256.0,
            drain_gain: 88.0 / 256.0,
            cwnd_gain: 2.0,
            pacing_gains: [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            bandwidth_rounds: 10,
            min_rtt_window_ms: 10_000.0,
            probe_rtt_ms: 200.0,
            min_cwnd: 4,
            pacing_margin: 0.01,
            full_pipe_growth: 1.25,
            full_pipe_rounds: 3,
            initial_rtt_ms: 1.0,
            quantum: 0,
            quantum_rate: 1_200_000,
            even_window: true,
            aggregation_gain: 1.0,
            aggregation_rounds: 5,
            aggregation_limit_ms: 100.0,
            aggregation_reset: 1448 << 20,
            aggregation_tick_ms: 0.0,
            policer: true,
            policer_rounds: 4,
            policer_loss: 50.0 / 256.0,
            policer_ratio: 0.125,
            policer_difference: 4000,
            policer_hold_rounds: 48,
            restore_after_timeout: true,
            forget_full_pipe: true,
            exit_to_ssthresh: false,
            repeat_rtt: false,
            refresh_min_rtt: false,
            mark_probe_rtt: true,
            keep_rate_sample: false,
            initial_bandwidth: false,
            keep_round_start: false,
            filter_by_value: false,
            whole_segments: true,
            pace_initial_window: true,
            full_conservation: true,
            wrap_window: false,
            initial_margin: true,
            phase_seed: 0,
        }
    }
}

impl Params {
    pub(super) fn check(&self) -> Result<(), String> {
        let p = self;
        let gains = [p.high_gain, p.drain_gain, p.cwnd_gain, p.full_pipe_growth];
        let others = [
            p.min_rtt_window_ms,
            p.probe_rtt_ms,
            p.aggregation_gain,
            p.aggregation_limit_ms,
            p.aggregation_tick_ms,
            p.policer_loss,
            p.policer_ratio,
        ];
        if gains.iter().chain(&p.pacing_gains).chain([&p.initial_rtt_ms]).any(|x| !(1e-6..=1e6).contains(x)) {
            Err("gains and `initial_rtt_ms` must be between 1e-6 and 1e6".into())
        } else if others.iter().any(|x| !(0.0..=1e9).contains(x)) {
            Err("times, ratios and `aggregation_gain` must be between 0 and 1e9".into())
        } else if !(0.0..1.0).contains(&p.pacing_margin) {
            Err("`pacing_margin` must be at least 0 and less than 1".into())
        } else if p.min_cwnd == 0 || p.bandwidth_rounds == 0 || p.full_pipe_rounds == 0 {
            Err("`min_cwnd`, `bandwidth_rounds` and `full_pipe_rounds` must be at least 1".into())
        } else {
            Ok(())
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "high_gain = 2.89\ndrain_gain = 0.34602076124567477\nquantum = 1\neven_window = false\n\
                       aggregation_reset = 4096\npolicer = false\nrestore_after_timeout = false\n\
                       forget_full_pipe = false\nexit_to_ssthresh = true\nrepeat_rtt = true\nrefresh_min_rtt = true\n\
                       mark_probe_rtt = false\naggregation_tick_ms = 1000.0\nkeep_rate_sample = true\n\
                       initial_bandwidth = true\nkeep_round_start = true\nfilter_by_value = true\n\
                       whole_segments = false\npace_initial_window = false\nfull_conservation = false\n\
                       wrap_window = true\ninitial_margin = false";
