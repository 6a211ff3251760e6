//! The keys of a Green PHY cable beside those of every link.

use schemars::JsonSchema;
use serde::Deserialize;

/// A set of values for a shared medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum Profile {
    /// Green PHY, ROBO mode HS: 9.8 Mbit/s on the wire, at best 7.3 Mbit/s of payload.
    #[serde(rename = "hpgp-hs")]
    Hs,
    /// Green PHY, ROBO mode STD: 4.9 Mbit/s on the wire, at best 3.4 Mbit/s of payload.
    #[serde(rename = "hpgp-std")]
    Std,
    /// Green PHY, ROBO mode MINI: 3.8 Mbit/s on the wire, at best 1.1 Mbit/s of payload.
    #[serde(rename = "hpgp-mini")]
    Mini,
}
