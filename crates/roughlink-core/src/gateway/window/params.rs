//! Parameters of the rate control, for points that the PLC paper leaves open.

use super::estimate::{BacklogSource, EstimateParams};
use crate::gateway::flows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Algorithm that moves the windows.
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

/// Method to compute Sample_Awnd.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AwndSample {
    /// Whole PDUs, and the SDUs that fit into the rest of the RTT.
    Whole,
    /// All PDUs that begin within the RTT, rounded up to whole ones.
    Begun,
    /// RTT times the rate of full PDUs.
    Fluid,
}

/// Time when a window moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// With each acknowledgment.
    Ack,
    /// With the first acknowledgment after each cycle of a full PDU.
    Cycle,
    /// With the first acknowledgment after each RTT of the flow, as measured at its handshake.
    Rtt,
}

/// Acknowledgments that move a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Acks {
    /// Acknowledgments of new data.
    Advancing,
    /// Also duplicates and window updates.
    All,
}

/// Queue that decides whether a window grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthQueue {
    /// The flow's own SDUs that wait or are not yet acknowledged by the other modem, against L/N.
    Flow,
    /// The flow's own SDUs that wait, against L/N.
    Waiting,
    /// The SDUs of all flows in the modem, against L.
    Total,
}

/// Time when rho is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rho {
    /// Whenever flows join or leave.
    Current,
    /// Once, when the flow joins, as the paper says.
    Frozen,
}

/// Interpretation of figure 20, line 9.
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
    /// Method to compute Sample_Awnd.
    pub sample: AwndSample,
    /// Reduce Sample_Awnd by the share of repeated SDUs. The paper uses the maximum without this reduction.
    pub error_factor: bool,
    /// Time when a window moves; in the paper with each TCP ACK.
    pub update: Update,
    /// Acknowledgments that move a window.
    pub acks: Acks,
    /// Queue that decides whether a window grows. The paper uses the queue of the flow for both schemes, but its figure
    /// 8(a) is reproducible only with the queue of all flows, the default of `mizutani`.
    pub queue: GrowthQueue,
    /// Source of the modem's state.
    pub backlog: BacklogSource,
    /// Estimate of the modem's state where no modem reports it.
    pub estimate: EstimateParams,
    /// The smallest window, SDUs.
    pub floor: f64,
    /// Time when rho, the RTT of a flow over the smallest RTT, is computed.
    pub rho: Rho,
    /// Upper limit of rho. The largest in the paper is 2.8; without a limit, flows of 1 ms and 1 s would give steps of
    /// 2^1000.
    pub max_rho: f64,
    /// Amount by which a window above Sample_Awnd falls (figure 20, line 9).
    pub decrease: Decrease,
    /// Reduce the windows of other flows to their new share (equation 1) at once when a flow joins.
    pub join_shrinks: bool,
    /// Set the windows of other flows to their new share at once when a flow leaves.
    pub leave_resets: bool,
    /// Allow the right edge of windows to move back, as in a literal reading of the paper.
    pub allow_retract: bool,
    /// The flow table.
    pub table: flows::Params,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            scheme: Scheme::Muniz,
            sample: AwndSample::Begun,
            error_factor: false,
            update: Update::Ack,
            acks: Acks::Advancing,
            queue: GrowthQueue::Flow,
            backlog: BacklogSource::Modem,
            estimate: EstimateParams::default(),
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
