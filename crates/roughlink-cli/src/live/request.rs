//! Requests to change a link: JSON with values in scenario syntax, such as `{"link": "plc", "rate": "2 Mbit/s"}`.

use roughlink_core::link::Noise;
use roughlink_core::net::LinkChange;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{Rate, Share, Time, UnitError};
use roughlink_host::ChangeRequest;
use roughlink_lab::nearest;
use serde::Deserialize;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Request to change a link. Absent properties stay unchanged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the name of the link and the changes")]
pub(super) struct LinkRequest {
    link: String,
    #[serde(default)]
    direction: ChangedDirections,
    rate: Option<String>,
    delay: Option<String>,
    /// Share of packets lost at random, which replaces the noise.
    loss: Option<String>,
    up: Option<bool>,
    /// Time for which the link goes down.
    outage: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChangedDirections {
    Forward,
    Reverse,
    #[default]
    Both,
}

impl LinkRequest {
    /// Parses a request. The error is a message for users.
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|e| e.to_string())
    }

    /// Converts the request for the emulation's loop.
    pub(super) fn change(&self, scenario: &Scenario) -> Result<ChangeRequest, String> {
        let names = || scenario.links.iter().map(|link| &*link.name);
        let link = names().position(|name| name == self.link).ok_or_else(|| {
            format!("unknown link `{}`: {}", self.link, nearest::suggest(&self.link, "expected", names()))
        })?;
        let outage = self.outage.as_ref().map(|text| within("outage", text, &OUTAGES)).transpose()?;
        if outage.is_some() && self.up.is_some() {
            return Err("`outage` also sets when the link is up: leave out `up`".into());
        }
        let loss = self.loss.as_ref().map(|text| read::<Share>("loss", text)).transpose()?;
        let change = LinkChange {
            up: outage.map_or(self.up, |_| Some(false)),
            rate: self.rate.as_ref().map(|text| within("rate", text, &RATES)).transpose()?,
            delay: self.delay.as_ref().map(|text| within("delay", text, &DELAYS)).transpose()?,
            noise: loss.map(|share| Noise::random(share.0)),
            ..LinkChange::default()
        };
        if change == LinkChange::default() {
            return Err("nothing changes: set rate, delay, loss, up or outage".into());
        }
        let directions = match self.direction {
            ChangedDirections::Forward => [true, false],
            ChangedDirections::Reverse => [false, true],
            ChangedDirections::Both => [true; 2],
        };
        Ok(ChangeRequest { link, directions, change, outage })
    }
}

fn read<T: FromStr<Err = UnitError>>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|e: UnitError| {
        let help = e.help.map(|help| format!("; {help}")).unwrap_or_default();
        format!("{key}: {}{help}", e.message)
    })
}

fn within<T: FromStr<Err = UnitError> + PartialOrd + Display>(
    key: &str,
    text: &str,
    bounds: &RangeInclusive<T>,
) -> Result<T, String> {
    let value = read(key, text)?;
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(format!("{key}: {value} is not between {} and {}", bounds.start(), bounds.end()))
}

/// Allowed rates. Lower rates are outages, and higher rates are no limit on any machine.
pub(super) const RATES: RangeInclusive<Rate> = Rate(1_000)..=Rate(100_000_000_000);
/// Allowed delays, limited because packets in flight take memory.
pub(super) const DELAYS: RangeInclusive<Time> = Time::ZERO..=Time::from_secs(10);
pub(super) const OUTAGES: RangeInclusive<Time> = Time::from_millis(1)..=Time::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::super::tests::scenario;
    use super::*;

    fn parse(json: &str) -> Result<ChangeRequest, String> {
        LinkRequest::read(json.as_bytes()).and_then(|request| request.change(&scenario()))
    }

    #[test]
    fn link_change_uses_scenario_syntax() {
        let json = r#"{"link": "plc", "direction": "reverse", "rate": "2 Mbit/s", "delay": "40 ms", "loss": "5 %",
                       "up": true}"#;
        let change = LinkChange {
            up: Some(true),
            rate: Some(Rate::from_mbps(2)),
            delay: Some(Time::from_millis(40)),
            noise: Some(Noise::Random { loss: 0.05 }),
            ..LinkChange::default()
        };
        assert_eq!(parse(json), Ok(ChangeRequest { link: 1, directions: [false, true], change, outage: None }));
        let change = LinkChange { up: Some(false), ..LinkChange::default() };
        let outage = Some(Time::from_millis(1500));
        let both = parse(r#"{"link": "plc", "outage": "1.5 s"}"#);
        assert_eq!(both, Ok(ChangeRequest { link: 1, directions: [true; 2], change, outage }));
        assert_eq!(parse(r#"{"link": "plc", "loss": "0 %"}"#).unwrap().change.noise, Some(Noise::None));
    }

    #[test]
    fn invalid_changes_are_explained() {
        for (json, said) in [
            ("", "EOF"),
            ("[]", "an object with the name of the link"),
            (r#"{"rate": "2 Mbit/s"}"#, "missing field `link`"),
            (r#"{"link": "plc"}"#, "nothing changes"),
            (r#"{"link": "plcc", "up": true}"#, "did you mean `plc`"),
            (r#"{"link": "plc", "rte": "2 Mbit/s"}"#, "unknown field `rte`"),
            (r#"{"link": "plc", "rate": 2}"#, "string"),
            (r#"{"link": "plc", "rate": "2"}"#, "rate: "),
            (r#"{"link": "plc", "rate": "0 bit/s"}"#, "is not between 1 kbit/s and 100 Gbit/s"),
            (r#"{"link": "plc", "rate": "101 Gbit/s"}"#, "is not between"),
            (r#"{"link": "plc", "rate": "NaN Mbit/s"}"#, "rate: "),
            (r#"{"link": "plc", "delay": "-1 ms"}"#, "delay: "),
            (r#"{"link": "plc", "delay": "11 s"}"#, "is not between 0 s and 10 s"),
            (r#"{"link": "plc", "loss": "101 %"}"#, "loss: "),
            (r#"{"link": "plc", "outage": "0 s"}"#, "is not between 1 ms and 3600 s"),
            (r#"{"link": "plc", "outage": "1 s", "up": true}"#, "leave out `up`"),
            (r#"{"link": "plc", "up": true, "direction": "left"}"#, "unknown variant `left`"),
            (r#"{"link": "plc", "up": true} x"#, "trailing"),
        ] {
            let why = parse(json).unwrap_err();
            assert!(why.contains(said), "{json}: {why}");
        }
    }
}
