//! Applied changes in scenario syntax. `run` and `emulate` repeat the changes if a scenario contains these steps.

use roughlink_core::link::Noise;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{Share, Time};
use roughlink_host::AppliedChange;
use serde::Serialize;
use std::fmt::Write as _;

/// Change, with the keys of a timeline's step.
#[derive(Serialize)]
pub(crate) struct StepRecord<'s> {
    link: &'s str,
    at: String,
    direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    up: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise: Option<LossChange>,
}

/// Noise of a change: random loss or none.
#[derive(Serialize)]
struct LossChange {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<String>,
}

pub(crate) fn steps<'s>(scenario: &'s Scenario, changes: &[AppliedChange]) -> Vec<StepRecord<'s>> {
    let of = |AppliedChange { at, link, directions, change }: &AppliedChange| StepRecord {
        link: &scenario.links[*link].name,
        at: at.to_string(),
        direction: match directions {
            [true, true] => "both", // without it, the step would not change the values of `asymmetric`
            [true, _] => "forward",
            _ => "reverse",
        },
        up: change.up,
        rate: change.rate.map(|rate| rate.to_string()),
        delay: change.delay.map(|delay: Time| delay.to_string()),
        noise: change.noise.as_ref().map(|noise| match noise {
            Noise::Random { loss } => LossChange { kind: "random", loss: Some(Share(*loss).to_string()) },
            _ => LossChange { kind: "none", loss: None },
        }),
    };
    changes.iter().map(of).collect()
}

/// Formats the timelines of the changed links for users.
pub(crate) fn text(steps: &[StepRecord<'_>]) -> String {
    let mut links: Vec<&str> = Vec::new();
    for step in steps {
        if !links.contains(&step.link) {
            links.push(step.link);
        }
    }
    let mut out = String::new();
    for link in links {
        let _ =
            writeln!(out, "# changes during the run; add them to link {} to repeat them:\ntimeline = [", quoted(link));
        for step in steps.iter().filter(|step| step.link == link) {
            let _ = writeln!(out, "  {},", step.inline());
        }
        out.push_str("]\n");
    }
    out
}

impl StepRecord<'_> {
    /// Formats the step as an inline table.
    fn inline(&self) -> String {
        let noise = self.noise.as_ref().map(|noise| match &noise.loss {
            Some(loss) => format!("{{ kind = {}, loss = {} }}", quoted(noise.kind), quoted(loss)),
            None => format!("{{ kind = {} }}", quoted(noise.kind)),
        });
        let keys = [
            ("at", Some(quoted(&self.at))),
            ("direction", Some(quoted(self.direction))),
            ("up", self.up.map(|up| up.to_string())),
            ("rate", self.rate.as_deref().map(quoted)),
            ("delay", self.delay.as_deref().map(quoted)),
            ("noise", noise),
        ];
        let keys = keys.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
        format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PAIR, parse};
    use super::*;
    use roughlink_core::net::{LinkChange, Network, RunOptions};
    use roughlink_core::units::Rate;

    #[test]
    fn printed_timeline_replays_the_changes() {
        let at = |ms: u64, directions, change| AppliedChange {
            at: Time::from_micros(1000 * ms + 7),
            link: 1,
            directions,
            change,
        };
        let none = LinkChange::default;
        let changes = [
            at(900, [true; 2], LinkChange { rate: Some(Rate::from_bps(1_234_567)), ..none() }),
            at(1500, [true, false], LinkChange { noise: Some(Noise::random(0.055)), ..none() }),
            at(1700, [false, true], LinkChange { delay: Some(Time(12_345_678)), ..none() }),
            at(2100, [true; 2], LinkChange { up: Some(false), ..none() }),
            at(2400, [true; 2], LinkChange { up: Some(true), ..none() }),
            at(2500, [true; 2], LinkChange { noise: Some(Noise::None), rate: Some(Rate::from_mbps(3)), ..none() }),
            at(2700, [true; 2], LinkChange { noise: Some(Noise::random(0.02)), ..none() }),
        ];
        let asymmetric = "asymmetric = { rate = \"300 kbit/s\", delay = \"7 ms\" }\n# timeline";
        for pair in [PAIR.to_owned(), PAIR.replace("# timeline", asymmetric)] {
            let scenario = parse(&pair);
            let options = RunOptions { changes: true, ..RunOptions::default() };
            let mut network = Network::new(scenario.clone(), options).unwrap();
            for AppliedChange { at, link, directions, change } in &changes {
                network.change(*at, *link, *directions, change).unwrap();
            }
            let changed = network.run().unwrap();
            let timeline = text(&steps(&scenario, &changes));
            let mut planned =
                Network::new(parse(&pair.replace("# timeline", &timeline)), RunOptions::default()).unwrap();
            let planned = planned.run().unwrap();
            assert_eq!(changed, planned, "{timeline}");
            let plain = Network::new(scenario, RunOptions::default()).unwrap().run().unwrap();
            assert_ne!(plain, planned);
        }
    }
}
