//! The element that `roughlink gateway run` puts on the path: a gateway of the registry, or the split-TCP proxy.

use super::kinds;
use super::status::{GatewayStatus, InstanceFacts, ListedConnection};
use crate::args::gateway::GatewayRun;
use crate::failure::Failure;
use roughlink_core::cc::LinkEvent;
use roughlink_core::gateway::{Gateway, GatewayError, Heading, RegisteredGateway, kind};
use roughlink_core::pep::{self, PepError, Proxy, ProxyConfig};
use roughlink_core::units::Time;
use roughlink_host::{GatewayOnPath, Middlebox, PathDevices};
use roughlink_lab::error::LabError;
use roughlink_lab::nearest;
use serde_json::json;

/// A gateway or proxy whose name and parameters are valid.
pub(super) enum CheckedGateway {
    Registered(&'static RegisteredGateway, Box<dyn Gateway>, toml::Table),
    Proxy(pep::ProxyParams),
}

impl CheckedGateway {
    /// Builds the gateway, or reads the parameters of the proxy.
    pub(super) fn new(args: &GatewayRun) -> Result<Self, Failure> {
        let given = parameters(args)?;
        let refused = |message: String, unknown: Option<(&str, &[String])>| {
            let help = match unknown {
                Some((key, known)) => nearest::suggest(key, "expected", known.iter().map(String::as_str)),
                None => "`roughlink gateway list` explains the parameters".into(),
            };
            Failure::from(LabError::Usage { message, help })
        };
        if args.gateway == pep::NAME {
            return pep::ProxyParams::from_table(&given).map(CheckedGateway::Proxy).map_err(|e| {
                let unknown = match &e {
                    PepError::UnknownParameter { key, known } => Some((key.as_str(), &known[..])),
                    _ => None,
                };
                refused(e.to_string(), unknown)
            });
        }
        let entry = kind(&args.gateway).map_err(|_| LabError::NotFound {
            what: "gateway",
            name: args.gateway.clone(),
            help: nearest::suggest(&args.gateway, "expected", kinds().map(|kind| kind.name).collect::<Vec<_>>()),
        })?;
        let gateway = entry.build(&given).map_err(|e| {
            let unknown = match &e {
                GatewayError::UnknownParameter { key, known, .. } => Some((key.as_str(), &known[..])),
                _ => None,
            };
            refused(e.to_string(), unknown)
        })?;
        let mut parameters = entry.parameters();
        parameters.extend(given);
        Ok(CheckedGateway::Registered(entry, gateway, parameters))
    }

    /// Checks that the options suit the gateway.
    pub(super) fn check(&self, args: &GatewayRun) -> Result<(), LabError> {
        let usage = |message: String, help: &str| Err(LabError::Usage { message, help: help.into() });
        match self {
            CheckedGateway::Registered(entry, ..) if entry.needs_coverage && args.coverage.is_none() => usage(
                format!("`{}` needs reports of coverage: without them it changes nothing", entry.name),
                "name the socket of the agent, such as --coverage /run/roughlink/coverage.sock",
            ),
            CheckedGateway::Proxy(_) if args.dry_run => usage(
                format!("--dry-run: `{}` ends connections, so it cannot only watch", pep::NAME),
                "estimate its effect in a simulation: `roughlink run satellite-pep`",
            ),
            CheckedGateway::Proxy(_) if args.queue.is_some() && args.install && args.inside.is_none() => usage(
                format!("`{}` serves other hosts", pep::NAME),
                "name the device before these hosts, such as --inside eth1",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the facts about the instance `name` at `place`.
    pub(super) fn about(&self, args: &GatewayRun, name: &str, place: String) -> InstanceFacts {
        let (parameters, estimates) = match self {
            CheckedGateway::Registered(entry, _, parameters) => (parameters.clone(), entry.needs_modem),
            CheckedGateway::Proxy(params) => (params.to_table(), false),
        };
        InstanceFacts {
            name: name.to_owned(),
            gateway: args.gateway.clone(),
            parameters,
            place,
            process: std::process::id(),
            dry_run: args.dry_run,
            backlog: estimates.then(|| "estimated from forwarded and acknowledged bytes".to_owned()),
        }
    }

    /// Builds the element for a place.
    pub(super) fn element(self, place: &PathDevices, dry_run: bool) -> Result<Box<dyn RunningElement>, Failure> {
        match self {
            CheckedGateway::Registered(_, gateway, _) => {
                Ok(Box::new(GatewayOnPath::new(gateway, place.framing(), dry_run)))
            }
            CheckedGateway::Proxy(params) => {
                let mut secret = [0; 16];
                getrandom::fill(&mut secret)
                    .map_err(|e| Failure::Machine(format!("cannot get random numbers: {e}"), None))?;
                let secret = u128::from_ne_bytes(secret);
                let config = ProxyConfig { params, over: Heading::Outward, mtu: place.mtu(), secret };
                let proxy = Proxy::new(config).map_err(|e| LabError::Usage {
                    message: e.to_string(),
                    help: "`roughlink gateway list` explains the parameters".into(),
                })?;
                Ok(Box::new(proxy))
            }
        }
    }
}

/// Element on the path, with the parts of its operation that are its own.
pub(super) trait RunningElement: Middlebox {
    /// Passes an event of the rough link on.
    fn on_link(&mut self, _: Time, _: &LinkEvent) {}
    /// Ends all connections that depend on the element.
    fn end(&mut self, _: Time) {}
    /// Describes its work in a few words.
    fn summary(&self) -> String;
    /// Adds its counters and connections to a status.
    fn complete(&self, status: &mut GatewayStatus);
}

impl RunningElement for GatewayOnPath {
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.gateway.on_link(now, event);
    }
    fn summary(&self) -> String {
        let counts = self.counters();
        let those = if self.is_dry_run() { "would have had" } else { "had" };
        format!("{} TCP segments, of which {} {those} a reduced window", counts.segments, counts.rewritten)
    }
    fn complete(&self, status: &mut GatewayStatus) {
        let stats = self.gateway.stats(None);
        status.packets.frames = self.counters();
        status.table = Some(stats.counters);
        status.connections = stats.flows.iter().map(ListedConnection::from).collect();
    }
}

impl RunningElement for Proxy {
    fn end(&mut self, now: Time) {
        self.reset_all(now);
    }
    fn summary(&self) -> String {
        format!("{} connections", self.counters().opened)
    }
    fn complete(&self, status: &mut GatewayStatus) {
        status.proxy = Some(self.counters());
        status.connections = self.connections().map(ListedConnection::from).collect();
    }
}

/// Parses the parameters; words need no quotes.
fn parameters(args: &GatewayRun) -> Result<toml::Table, LabError> {
    let mut text = String::new();
    for (key, value) in &args.parameters {
        let line = [format!("{key} = {value}"), format!("{key} = {}", json!(value))];
        let line = line.into_iter().find(|line| line.parse::<toml::Table>().is_ok());
        text += &line.ok_or_else(|| LabError::Usage {
            message: format!("--set {key}={value}: not a parameter"),
            help: "write KEY=VALUE, such as floor=3".into(),
        })?;
        text.push('\n');
    }
    text.parse().map_err(|e: toml::de::Error| LabError::Usage {
        message: format!("invalid parameters: {}", e.message()),
        help: "set each parameter once".into(),
    })
}
