//! Coverage as a host sees it from the events of its link: layer 2 associated, layer 3 configured, and a signal above a
//! threshold (AVOCA paper, section IV). Used by [`super::avoca`] and the agent [`crate::gateway::avoca_rx`].
//!
//! The threshold is the one that the link announces ([`LinkEvent::Threshold`]) unless the parameters state another, so
//! host and network use the same threshold. The paper leaves three points open. Without any event there is coverage;
//! otherwise a host on a link without events would never send. Without a signal event the signal is sufficient. Loss of
//! layer 2 discards the layer 3 configuration and the signal.

use super::LinkEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Threshold of a link that announces none, dBm: a signal at which a Wi-Fi card still keeps a connection. The AVOCA
/// paper uses a threshold but gives no value.
pub const THRESHOLD_DBM: f64 = -80.0;

/// A level in a parameter: stated as a number, or taken from the link's coverage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write a number, or \"coverage\" to take it from the [[coverage]] of the link")]
pub enum Level {
    /// This number.
    Stated(f64),
    /// The value that the link announces.
    Announced(Announced),
}

/// Keyword for the announced value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Announced {
    /// `"coverage"`.
    Coverage,
}

impl Level {
    /// The default: the value that the link announces.
    pub const ANNOUNCED: Level = Level::Announced(Announced::Coverage);

    fn or(self, announced: f64) -> f64 {
        match self {
            Level::Stated(x) => x,
            Level::Announced(_) => announced,
        }
    }
}

/// Parameters of coverage.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Signal at or below which coverage ends, dBm.
    pub threshold: Level,
    /// Margin above the threshold at which coverage begins, dB.
    pub hysteresis: Level,
    /// True if layer 3 must be configured after each Up; otherwise Up implies it.
    pub needs_l3: bool,
}

impl Rules {
    /// Rejects invalid levels.
    pub fn check(&self) -> Result<(), String> {
        let number = |level: Level| level.or(0.0).is_finite();
        if number(self.threshold) && number(self.hysteresis) && self.hysteresis.or(0.0) >= 0.0 {
            return Ok(());
        }
        Err("the threshold must be a number (dBm), and the hysteresis a number of at least 0 (dB)".into())
    }
}

/// Coverage as seen by a host.
#[derive(Clone, Debug)]
pub struct Coverage {
    rules: Rules,
    /// Threshold and hysteresis announced by the link.
    announced: (f64, f64),
    associated: bool,
    configured: bool,
    /// True if the signal is strong enough; `None` = unknown.
    strong: Option<bool>,
}

impl Coverage {
    /// Creates the state before any event.
    pub fn new(rules: Rules) -> Self {
        Coverage { rules, announced: (THRESHOLD_DBM, 0.0), associated: true, configured: true, strong: Some(true) }
    }

    /// Processes an event.
    pub fn on_link(&mut self, event: &LinkEvent) {
        match *event {
            LinkEvent::Down => (self.associated, self.configured, self.strong) = (false, false, None),
            LinkEvent::Up => {
                self.associated = true;
                self.configured |= !self.rules.needs_l3;
            }
            LinkEvent::Configured => self.configured = true,
            LinkEvent::Signal(dbm) => {
                let margin = if self.strong == Some(true) { 0.0 } else { self.rules.hysteresis.or(self.announced.1) };
                self.strong = Some(dbm > self.rules.threshold.or(self.announced.0) + margin);
            }
            LinkEvent::Threshold { dbm, hysteresis } => self.announced = (dbm, hysteresis),
            LinkEvent::Rate(_) | LinkEvent::Delay(_) => {}
        }
    }

    /// Returns true if there is coverage.
    pub fn has_coverage(&self) -> bool {
        self.associated && self.configured && self.strong != Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::LinkEvent::*;
    use super::*;

    #[test]
    fn coverage_needs_both_layers_and_signal() {
        let announced = Threshold { dbm: -110.0, hysteresis: 5.0 };
        let stated = |threshold, hysteresis| (Level::Stated(threshold), Level::Stated(hysteresis), true);
        let usual = (Level::ANNOUNCED, Level::ANNOUNCED, true);
        let cases: [(_, &[LinkEvent], bool); 19] = [
            (usual, &[], true),
            (usual, &[Down], false),
            ((Level::ANNOUNCED, Level::ANNOUNCED, false), &[Down, Up], true),
            (usual, &[Down, Up], false),
            (usual, &[Down, Up, Configured], true),
            (usual, &[Down, Configured, Up], true),
            (usual, &[Up, Configured, Down, Up], false),
            (usual, &[Signal(-79.9)], true),
            (usual, &[Signal(-80.0)], false),
            (stated(-70.0, 0.0), &[Signal(-75.0), Down, Up, Configured], true),
            (stated(-70.0, 0.0), &[Down, Signal(-75.0), Up, Configured], false),
            (stated(-80.0, 5.0), &[Signal(-85.0), Signal(-76.0)], false),
            (stated(-80.0, 5.0), &[Signal(-85.0), Signal(-74.0), Signal(-79.0)], true),
            (usual, &[announced, Signal(-109.9)], true),
            (usual, &[announced, Signal(-110.0)], false),
            (usual, &[announced, Signal(-111.0), Signal(-106.0)], false),
            (stated(-80.0, 0.0), &[announced, Signal(-109.9)], false),
            // A signal that fades to a level within the hysteresis before layer 3 is configured is still sufficient.
            (usual, &[announced, Down, Signal(-100.0), Signal(-107.0), Up, Configured], true),
            (usual, &[announced, Down, Signal(-107.0), Up, Configured], false),
        ];
        for ((threshold, hysteresis, needs_l3), events, there) in cases {
            let mut coverage = Coverage::new(Rules { threshold, hysteresis, needs_l3 });
            events.iter().for_each(|e| coverage.on_link(e));
            assert_eq!(coverage.has_coverage(), there, "{threshold:?} {hysteresis:?} {needs_l3} {events:?}");
        }
    }
}
