//! The keys of an HD-PLC link beside those of every link.

use crate::scenario::leaf::{At, Leaf};
use crate::units::{Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A step of a rate over time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct RateStep {
    /// When it begins.
    #[schemars(required)]
    pub at: Option<Leaf<Time>>,
    /// PHY rate.
    #[schemars(required)]
    pub rate: Option<Leaf<Rate>>,
}

/// A rate trace.
pub(in crate::scenario) type RateTrace = At<Vec<At<RateStep>>>;
