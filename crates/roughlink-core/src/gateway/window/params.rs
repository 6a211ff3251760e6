//! Parameters of the rate control, for points that the PLC paper leaves open.

use crate::gateway::flows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which algorithm moves the windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// The PLC paper, figure 20.
    Muniz,
    /// Mizutani et al. 2010: the PLC paper, figure 12.
    Mizutani,
    /// None: the window of equation 1 stays.
    Fixed,
}

/// How Sample_Awnd is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sample {
    /// Whole PDUs, and what fits into the rest of the RTT.
    Whole,
    /// All PDUs that begin within the RTT, rounded up to whole ones.
    Begun,
    /// RTT times the rate of full PDUs.
    Fluid,
}

/// When a window moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// With each acknowledgement.
    Ack,
    /// With the first acknowledgement after each cycle of a full PDU.
    Cycle,
    /// With the first acknowledgement after each RTT of the flow, as its handshake measured it.
    Rtt,
}

/// Which acknowledgements count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Acks {
    /// Those that acknowledge something new.
    Advancing,
    /// Duplicates and window updates too.
    All,
}

/// Which queue decides whether a window grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// The flow's own SDUs that wait or are not yet acknowledged by the other modem, against L/N.
    Flow,
    /// The flow's own SDUs that wait, against L/N.
    Waiting,
    /// The SDUs of all flows in the modem, against L.
    Total,
}

/// When rho is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rho {
    /// Whenever flows join or leave.
    Current,
    /// Once, when the flow joins, as the paper says.
    Frozen,
}

/// How figure 20, line 9 is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decrease {
    /// 2^(rho - 1).
    Exponent,
    /// 2^rho - 1.
    MinusOne,
}

/// Parameters of [`super::RateControl`]. The paper states none of the defaults except `scheme` and `update`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// The algorithm.
    pub scheme: Scheme,
    /// How Sample_Awnd is counted.
    pub sample: Sample,
    /// Reduce Sample_Awnd by the share of SDUs that have to be repeated. The paper uses the maximum.
    pub error_factor: bool,
    /// When a window moves; the paper says for each TCP ACK.
    pub update: Update,
    /// Which acknowledgements count.
    pub acks: Acks,
    /// Which queue decides whether a window grows. The paper says the flow's for both schemes; its figure 8(a) comes
    /// out only with that of all, which is the default of `mizutani`.
    pub queue: Queue,
    /// The smallest window, SDUs.
    pub floor: f64,
    /// When rho, the RTT of a flow over the smallest RTT, is computed.
    pub rho: Rho,
    /// Largest rho. The paper's is 2.8; without a bound, flows of 1 ms and 1 s would give steps of 2^1000.
    pub max_rho: f64,
    /// How much a window above Sample_Awnd falls (figure 20, line 9).
    pub decrease: Decrease,
    /// A new flow reduces the windows of the others to their new share (equation 1) at once.
    pub join_shrinks: bool,
    /// When a flow leaves, the others get their new share at once.
    pub leave_resets: bool,
    /// Take back the right edge of windows, as a literal reading of the paper does.
    pub allow_retract: bool,
    /// The flow table.
    pub table: flows::Params,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            scheme: Scheme::Muniz,
            sample: Sample::Begun,
            error_factor: false,
            update: Update::Ack,
            acks: Acks::Advancing,
            queue: Queue::Flow,
            floor: 2.0,
            rho: Rho::Current,
            max_rho: 8.0,
            decrease: Decrease::Exponent,
            join_shrinks: true,
            leave_resets: false,
            allow_retract: false,
            table: flows::Params::default(),
        }
    }
}

/// Defaults of the registry's `mizutani`.
pub const MIZUTANI: &str = "scheme = \"mizutani\"\nqueue = \"total\"";
