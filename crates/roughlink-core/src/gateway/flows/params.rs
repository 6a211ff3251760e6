//! The parameters of the flow table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the flow table, which the papers do not state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Limit on confirmed flows in the table; also the limit on handshakes, and on flows of which only one end has
    /// sent.
    pub capacity: usize,
    /// Time after which an incomplete handshake is removed, milliseconds.
    pub handshake_ms: u64,
    /// Lower limit of RTT estimates, milliseconds.
    pub min_rtt_ms: u64,
    /// RTT above which a flow is left unmodified, milliseconds.
    pub max_rtt_ms: u64,
    /// Time without inward data after which a flow is inactive, milliseconds; at least `inactive_rtts` RTTs.
    pub inactive_ms: u64,
    /// RTTs without inward data after which a flow is inactive; see `inactive_ms`.
    pub inactive_rtts: u32,
    /// RTTs after which a flow is removed when both ends have closed.
    pub closed_rtts: u32,
    /// Time without a segment after which a flow closed by one end is removed, milliseconds.
    pub half_closed_ms: u64,
    /// Time without a segment after which any other flow is removed, milliseconds.
    pub idle_ms: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            capacity: 1024,
            handshake_ms: 30_000,
            min_rtt_ms: 1,
            max_rtt_ms: 3_000,
            inactive_ms: 1_000,
            inactive_rtts: 4,
            closed_rtts: 2,
            half_closed_ms: 60_000,
            idle_ms: 300_000,
        }
    }
}

impl Params {
    /// Rejects values that make no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.capacity == 0 {
            return Err("`table.capacity` must be at least 1: a gateway without a flow table does nothing".into());
        }
        if self.capacity > MAX_FLOWS {
            return Err(format!("`table.capacity` must be at most {MAX_FLOWS}"));
        }
        let times = [self.handshake_ms, self.max_rtt_ms, self.inactive_ms, self.half_closed_ms, self.idle_ms];
        if self.min_rtt_ms == 0 || self.max_rtt_ms < self.min_rtt_ms {
            Err("`table.min_rtt_ms` must be at least 1 and not exceed `table.max_rtt_ms`".into())
        } else if times.iter().any(|&ms| ms == 0 || ms > DAY_MS) {
            Err("timeouts in `table` must be between 1 ms and one day".into())
        } else {
            Ok(())
        }
    }
}

/// Largest table: some 150 MB with all its parts.
const MAX_FLOWS: usize = 65_536;
const DAY_MS: u64 = 86_400_000;
