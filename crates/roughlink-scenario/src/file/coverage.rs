//! `[[coverage]]` as it is written.

use super::Noise;
use crate::leaf::{At, Dbm, Decibel, Leaf, Length, Name, Speed};
use roughlink_core::units::{Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// When a vehicle has coverage, made into the timeline of a link. It is given by stations and the way between them, by a
/// timetable, or by a log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Coverage {
    /// Its name.
    #[schemars(required)]
    pub name: Option<Leaf<Name>>,
    /// The link that is down without coverage.
    #[schemars(required)]
    pub link: Option<Leaf<String>>,
    /// Stations in the order in which they are reached; with `speed` and `dwell`. Excludes `timetable` and `log`.
    pub stations: Option<At<Vec<At<Station>>>>,
    /// Speed between stations, or along a log by position, such as `"34.2 km/h"` or `"9.5 m/s"`.
    pub speed: Option<Leaf<Speed>>,
    /// Time that the vehicle stays in a station, unless the station states its own.
    pub dwell: Option<Leaf<Time>>,
    /// Stations with their times; excludes `stations` and `log`.
    pub timetable: Option<At<Vec<At<Visit>>>>,
    /// A CSV file of what a vehicle measured, with a heading, the column `time_s` or `position_m`, and any of `signal_dbm`,
    /// `rate_mbps`, `delay_ms` and `loss`. Excludes `stations` and `timetable`.
    pub log: Option<Leaf<String>>,
    /// Names of columns that the `log` calls otherwise, such as `{ time_s = "timestamp", signal_dbm = "RSRP" }`.
    pub columns: Option<At<BTreeMap<String, Leaf<String>>>>,
    /// Delimiter of the `log`; the one that occurs most often in its heading if absent.
    pub delimiter: Option<Leaf<Delimiter>>,
    /// State of the link in stations of a class, by name of the class.
    pub classes: Option<At<BTreeMap<String, At<Class>>>>,
    /// With a `log`: coverage ends where the signal is at or below this. The algorithm `avoca` and the gateway `avoca-rx`
    /// use the same value unless their parameters state another.
    #[schemars(extend("default" = "-80 dBm"))]
    pub threshold: Option<Leaf<Dbm>>,
    /// With a `log`: coverage begins where the signal is more than this above the threshold, so that a signal close to it
    /// does not make the link flap. `avoca` and `avoca-rx` use the same value unless their parameters state another.
    #[schemars(extend("default" = "0 dB"))]
    pub hysteresis: Option<Leaf<Decibel>>,
    /// Time from the start of coverage until layer 2 is associated.
    #[schemars(extend("default" = "0 s"))]
    pub associate: Option<Leaf<Time>>,
    /// Time from association until layer 3 is configured and packets pass.
    #[schemars(extend("default" = "0 s"))]
    pub configure: Option<Leaf<Time>>,
    /// Delay after which hosts and gateways are notified of a change.
    #[schemars(extend("default" = "0 s"))]
    pub notice: Option<Leaf<Time>>,
    /// How long before the end of coverage hosts and gateways are notified of it; they are notified again at the end.
    /// Shorter than the stay, and no longer than the `lead_ms` of an `avoca-rx`.
    pub warning: Option<Leaf<Time>>,
    /// Period after which everything repeats; at least the time to the last departure. A run has at most a million stays.
    pub repeat: Option<Leaf<Time>>,
}

/// What separates the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum Delimiter {
    /// A comma.
    #[serde(rename = ",")]
    Comma,
    /// A semicolon; numbers may have a decimal comma.
    #[serde(rename = ";")]
    Semicolon,
    /// A tab; numbers may have a decimal comma.
    #[serde(rename = "\t")]
    Tab,
}

/// A station on the way.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Station {
    /// Its name.
    pub name: Option<Leaf<String>>,
    /// Distance from the station before, or from the start.
    #[schemars(required, example = "1164 m")]
    pub distance: Option<Leaf<Length>>,
    /// Time that the vehicle stays here; the `dwell` of the coverage if absent.
    pub dwell: Option<Leaf<Time>>,
    /// Its class.
    pub class: Option<Leaf<String>>,
}

/// A station with its times.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Visit {
    /// Its name.
    pub name: Option<Leaf<String>>,
    /// When coverage begins.
    #[schemars(required, example = "123 s")]
    pub arrive: Option<Leaf<Time>>,
    /// When coverage ends.
    #[schemars(required, example = "243 s")]
    pub depart: Option<Leaf<Time>>,
    /// Its class.
    pub class: Option<Leaf<String>>,
}

/// State of a link in stations of a class; a key that is absent is as on the link.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    /// Serialisation rate.
    pub rate: Option<Leaf<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Leaf<Time>>,
    /// Losses.
    pub noise: Option<At<Noise>>,
    /// Signal strength.
    pub signal: Option<Leaf<Dbm>>,
    /// Rate of datagrams of other passengers, from the first node of the link to the second, while the vehicle is in the
    /// station.
    pub load: Option<Leaf<Rate>>,
}
