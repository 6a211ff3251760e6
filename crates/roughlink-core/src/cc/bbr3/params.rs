//! The constants of BBR version 3 as parameters. Comments name the sections of the draft.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of [`Bbr3`](super::Bbr3).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Pacing gain of Startup (StartupPacingGain in "Pacing State and Parameters").
    pub startup_pacing_gain: f64,
    /// Pacing gain of Drain (DrainPacingGain in "Pacing State and Parameters").
    pub drain_pacing_gain: f64,
    /// Pacing gain of ProbeBW_DOWN ("ProbeBW_DOWN").
    pub probe_down_pacing_gain: f64,
    /// Pacing gain of ProbeBW_UP ("Accelerating to Probe for Bandwidth").
    pub probe_up_pacing_gain: f64,
    /// Percentage by which pacing stays below the bandwidth (PacingMarginPercent in "Pacing State and Parameters").
    pub pacing_margin_percent: f64,
    /// Window gain of all other states (DefaultCwndGain in "cwnd State and Parameters").
    pub default_cwnd_gain: f64,
    /// Window gain of ProbeBW_UP ("Accelerating to Probe for Bandwidth").
    pub probe_up_cwnd_gain: f64,
    /// Window gain of ProbeRTT (ProbeRTTCwndGain in "Parameters for Scheduling ProbeRTT").
    pub probe_rtt_cwnd_gain: f64,
    /// Share of lost data per round trip above which a probe for bandwidth has gone too far (LossThresh in "Core
    /// Algorithm Design Parameters").
    pub loss_thresh: f64,
    /// Factor of the bounds after a round trip with losses (Beta in "Core Algorithm Design Parameters").
    pub beta: f64,
    /// Share of `inflight_longterm` left to other flows (Headroom in "Core Algorithm Design Parameters").
    pub headroom: f64,
    /// Smallest window in segments (MinPipeCwnd in "Core Algorithm Design Parameters").
    pub min_pipe_cwnd: u32,
    /// Memory of the largest bandwidth in cycles of ProbeBW, the current one included (MaxBwFilterLen in "Estimating
    /// BBR.max_bw").
    pub max_bw_filter_len: u32,
    /// Memory of the aggregation estimate in rounds, once the pipe was full (ExtraAckedFilterLen in "Estimating
    /// BBR.extra_acked").
    pub extra_acked_filter_len: u32,
    /// Growth factor of the delivery rate: after `full_bw_rounds` rounds with less growth, the pipe is full ("Exiting
    /// Acceleration Based on Bandwidth Plateau").
    pub full_bw_growth: f64,
    /// Rounds without such growth after which the pipe is full ("Exiting Acceleration Based on Bandwidth Plateau").
    pub full_bw_rounds: u32,
    /// Separate ranges of data lost in a round from which on Startup may end (StartupFullLossCnt in "Exiting Startup
    /// Based on Packet Loss").
    pub startup_full_loss_count: u32,
    /// Rounds after which Drain ends although the queue remains ("Drain").
    pub drain_rounds: u32,
    /// Shortest time between two probes for bandwidth ("Time Scale for Bandwidth Probing").
    pub probe_wait_ms: f64,
    /// Largest random addition to `probe_wait_ms` ("Time Scale for Bandwidth Probing").
    pub probe_wait_random_ms: f64,
    /// Rounds after which a probe for bandwidth begins at the latest ("Time Scale for Bandwidth Probing").
    pub probe_rounds: u32,
    /// Seed of the random waits for probes ("Time Scale for Bandwidth Probing").
    pub probe_wait_seed: u64,
    /// Age at which the smallest RTT expires (MinRTTFilterLen in "Parameters for Estimating BBR.min_rtt").
    pub min_rtt_filter_len_ms: f64,
    /// Time at a small window in ProbeRTT (ProbeRTTDuration in "Parameters for Scheduling ProbeRTT").
    pub probe_rtt_duration_ms: f64,
    /// Time without a smaller RTT after which ProbeRTT begins (ProbeRTTInterval in "Parameters for Scheduling
    /// ProbeRTT").
    pub probe_rtt_interval_ms: f64,
    /// RTT assumed for the first pacing rate when none has been measured ("Pacing Rate").
    pub initial_rtt_ms: f64,
    /// Time for which one burst lasts at the pacing rate ("Send Quantum").
    pub send_quantum_ms: f64,
    /// Largest burst, bytes ("Send Quantum").
    pub max_send_quantum: u64,
    /// Smallest burst in segments ("Send Quantum").
    pub min_send_quantum: u32,
    /// Bursts that the two hosts hold at full throughput ("TCP Offload Budget").
    pub offload_quanta: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            startup_pacing_gain: 2.77,
            drain_pacing_gain: 0.5,
            probe_down_pacing_gain: 0.9,
            probe_up_pacing_gain: 1.25,
            pacing_margin_percent: 1.0,
            default_cwnd_gain: 2.0,
            probe_up_cwnd_gain: 2.25,
            probe_rtt_cwnd_gain: 0.5,
            loss_thresh: 0.02,
            beta: 0.7,
            headroom: 0.15,
            min_pipe_cwnd: 4,
            max_bw_filter_len: 2,
            extra_acked_filter_len: 10,
            full_bw_growth: 1.25,
            full_bw_rounds: 3,
            startup_full_loss_count: 6,
            drain_rounds: 3,
            probe_wait_ms: 2000.0,
            probe_wait_random_ms: 1000.0,
            probe_rounds: 63,
            probe_wait_seed: 0,
            min_rtt_filter_len_ms: 10_000.0,
            probe_rtt_duration_ms: 200.0,
            probe_rtt_interval_ms: 5000.0,
            initial_rtt_ms: 1.0,
            send_quantum_ms: 1.0,
            max_send_quantum: 65_536,
            min_send_quantum: 2,
            offload_quanta: 3,
        }
    }
}

impl Params {
    pub(super) fn check(&self) -> Result<(), String> {
        let p = self;
        let gains = [
            p.startup_pacing_gain,
            p.drain_pacing_gain,
            p.probe_down_pacing_gain,
            p.probe_up_pacing_gain,
            p.default_cwnd_gain,
            p.probe_up_cwnd_gain,
            p.probe_rtt_cwnd_gain,
            p.full_bw_growth,
            p.initial_rtt_ms,
        ];
        let times = [
            p.probe_wait_ms,
            p.probe_wait_random_ms,
            p.min_rtt_filter_len_ms,
            p.probe_rtt_duration_ms,
            p.probe_rtt_interval_ms,
            p.send_quantum_ms,
        ];
        let counts = [p.min_pipe_cwnd, p.max_bw_filter_len, p.full_bw_rounds];
        if gains.iter().any(|x| !(1e-6..=1e6).contains(x)) {
            Err("gains, `full_bw_growth` and `initial_rtt_ms` must be between 1e-6 and 1e6".into())
        } else if times.iter().any(|x| !(0.0..=1e9).contains(x)) {
            Err("times must be between 0 and 1e9".into())
        } else if !(0.0..100.0).contains(&p.pacing_margin_percent) {
            Err("`pacing_margin_percent` must be at least 0 and less than 100".into())
        } else if [p.loss_thresh, p.beta, p.headroom].iter().any(|x| !(0.0..1.0).contains(x)) {
            Err("`loss_thresh`, `beta` and `headroom` must be at least 0 and less than 1".into())
        } else if counts.contains(&0) {
            Err("`min_pipe_cwnd`, `max_bw_filter_len` and `full_bw_rounds` must be at least 1".into())
        } else {
            Ok(())
        }
    }
}
