//! The keys of an HD-PLC link beside those of every link.

use crate::leaf::{At, Leaf};
use roughlink_core::units::{Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A step of a rate over time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateStep {
    /// When it begins.
    #[schemars(required)]
    pub at: Option<Leaf<Time>>,
    /// PHY rate.
    #[schemars(required)]
    pub rate: Option<Leaf<Rate>>,
}

/// A rate trace.
pub(crate) type RateTrace = At<Vec<At<RateStep>>>;
