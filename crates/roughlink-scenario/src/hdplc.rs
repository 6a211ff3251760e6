//! `[[link]] kind = "hdplc"`: the keys of a home power line.

use super::leaf::{At, Leaf, span};
use super::link_keys::{TomlMedium, rate};
use super::noise::{Noises, air};
use super::problem::{Problem, Problems};
use super::struct_keys::StructKeys;
use super::table::FileLoader;
use roughlink_core::link::hdplc::{Duplex, HdplcConfig};
use roughlink_core::units::{QueueLimit, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of an HD-PLC link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlHdplc {
    /// PHY rate between the two modems.
    #[schemars(example = "10 Mbit/s", extend("default" = HdplcConfig::default().rate))]
    pub rate: Option<Leaf<Rate>>,
    /// PHY rate over time, such as `[{ at = "10 s", rate = "9 Mbit/s" }]`; a frame uses the rate at its start.
    pub rate_trace: Option<At<Vec<At<RateStep>>>>,
    /// Drop-tail queue of each direction before the modem, in packets.
    #[schemars(extend("default" = QueueLimit::Packets(HdplcConfig::default().queue), "x-minimum" = "1 pkt"))]
    pub queue: Option<Leaf<QueueLimit>>,
    /// Parameters of medium access.
    pub mac: Option<Box<At<StructKeys<HdplcConfig>>>>,
    /// Keys of the shared medium.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub medium: TomlMedium,
}

/// A step of a rate over time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RateStep {
    /// Start time.
    #[schemars(with = "Leaf<Time>")] // required, by its definition
    pub at: Option<Leaf<Time>>,
    /// PHY rate.
    #[schemars(with = "Leaf<Rate>")] // required, by its definition
    pub rate: Option<Leaf<Rate>>,
}

impl TomlHdplc {
    /// Returns true if the link sets keys that all links of its cable share.
    pub(crate) fn describes(&self) -> bool {
        self.queue.is_some() || self.mac.is_some()
    }

    /// Resolves an HD-PLC link. Reports a missing or invalid value and uses the default, so that the rest is checked.
    pub(crate) fn resolve(
        &self,
        mtu: u16,
        noise: Option<&At<Noises>>,
        load: FileLoader<'_>,
        report: &mut Problems,
    ) -> HdplcConfig {
        let mut c = HdplcConfig::default();
        if let Some(mac) = &self.mac {
            mac.value.apply(&mut c, report);
            if let Some(place) = mac.value.span("collisions").filter(|_| c.collisions && c.duplex == Duplex::Full) {
                let problem = Problem::new("`collisions` has no effect in full duplex: the directions do not contend")
                    .at(place, "");
                report.error(problem.help("remove `collisions`, or write duplex = \"half\""));
            }
        }
        c.mtu = mtu;
        c.rate = rate(&self.rate, report).unwrap_or(c.rate);
        c.rate_trace = self.rate_trace.as_ref().map(|t| rate_trace(t, report)).unwrap_or_default();
        match report.read(&self.queue) {
            None => {}
            Some(QueueLimit::Packets(n)) => c.queue = n,
            Some(QueueLimit::Bytes(_)) => {
                let problem = Problem::new("`queue` of an HD-PLC link must be in packets").at(span(&self.queue), "");
                report.error(problem.help("write queue = \"256 pkt\""));
            }
        }
        c.noise = air(noise, c.noise.clone(), c.sdu_air(c.mtu), load, report);
        c
    }
}

fn rate_trace(trace: &At<Vec<At<RateStep>>>, report: &mut Problems) -> Vec<(Time, Rate)> {
    let steps: Vec<(Time, Rate)> = trace
        .value
        .iter()
        .filter_map(|step| Some((report.read(&step.value.at)?, rate(&step.value.rate, report)?)))
        .collect();
    if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let problem = Problem::new("the times of `rate_trace` must increase").at(trace.span.clone(), "");
        report.error(problem.help(format!("sort the steps by time: {} follows {}", pair[1].0, pair[0].0)));
    }
    steps
}
