//! Plans of emulations, from the arguments of `emulate` or `link`.

use crate::args::RealTime;
use roughlink_core::net::RunLimits;
use roughlink_core::net::addresses::addresses;
use roughlink_core::packet::Protocol;
use roughlink_core::scenario::{FlowSpec, HostInterface, Scenario};
use roughlink_host::{BlockReservation, EmulatedHost, NodeLocation, OWN_NODE, name_in_kernel, variable};
use roughlink_lab::error::LabError;
use roughlink_lab::library::{Overrides, ScenarioText};
use std::ffi::OsString;
use std::path::Path;

pub(super) struct EmulationPlan<'a> {
    pub(super) source: ScenarioText,
    pub(super) overrides: Overrides,
    /// Further nodes that become kernel nodes.
    pub(super) kernels: Vec<String>,
    /// Node that is this machine.
    pub(super) here: Option<&'a str>,
    /// True if devices lose their carrier while their links are down.
    pub(super) carrier: bool,
    /// Reservation of the addresses of a single link from node 0 to node 1.
    pub(super) claim: Option<BlockReservation>,
    pub(super) programs: Vec<(String, Vec<OsString>)>,
    pub(super) until: Option<&'a str>,
    pub(super) capture: Option<&'a Path>,
    pub(super) output: Option<&'a Path>,
    pub(super) captures: bool,
    pub(super) real: &'a RealTime,
    pub(super) limits: RunLimits,
    /// True if the programs use our input and output, and the result goes to standard error.
    pub(super) nested: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
    /// True if the result is printed even without a failure.
    pub(super) prints_result: bool,
}

/// Returns the real nodes of a scenario. Nodes named in `ours` must be on this machine.
pub(super) fn hosts<'p>(
    scenario: &Scenario,
    here: Option<&'p str>,
    ours: impl Iterator<Item = &'p str>,
) -> Result<Vec<EmulatedHost>, LabError> {
    if scenario.kernels().next().is_none() {
        return Err(LabError::Usage {
            message: "nothing to emulate: the scenario has no kernel node".into(),
            help: "name a node with --exec or --kernel, or add `kernel = true` to a node".into(),
        });
    }
    for name in ours.chain(here) {
        let interface = scenario.nodes.iter().find(|node| node.name == name).map(|node| &node.interface);
        if let Some(HostInterface::Attached(device)) = interface {
            return Err(LabError::Usage {
                message: format!("`{name}` is not on this machine: the hosts behind {device} take its place"),
                help: "run the program at one of these hosts, or remove the interface from the node".into(),
            });
        }
    }
    let host = |node: usize| {
        let is_here = here == Some(&scenario.nodes[node].name);
        EmulatedHost { node, place: if is_here { NodeLocation::Here } else { NodeLocation::Own } }
    };
    Ok(scenario.kernels().map(host).collect())
}

/// Returns the kernel's name of `tcp.cc`, if the scenario has this key.
pub(super) fn congestion_control(scenario: &Scenario) -> Option<String> {
    let source: toml::Table = scenario.source.parse().ok()?;
    source.get("tcp")?.get("cc")?.as_str().map(name_in_kernel)
}

/// Describes each flow with one end at a real node: the address and port that the program there uses.
pub(super) fn describe_flows(scenario: &Scenario) -> Vec<String> {
    let is_kernel = |node: usize| scenario.nodes[node].kernel;
    let of = |(i, f): (usize, &FlowSpec)| {
        let [src, dst] = addresses(scenario, i).sockets();
        let over = match f.protocol() {
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
            Protocol::Tcp => "TCP",
        };
        match (is_kernel(f.from), is_kernel(f.to)) {
            (false, true) => {
                Some(format!("flow {}: sends from {src} to {dst}/{over}, starting at {}", f.name, f.start))
            }
            (true, false) => Some(format!("flow {}: receives at {dst}/{over}", f.name)),
            _ => None,
        }
    };
    scenario.flows.iter().enumerate().filter_map(of).collect()
}

pub(super) fn plan_warnings(scenario: &Scenario, programs: &[(String, Vec<OsString>)]) -> Vec<String> {
    let mut all = Vec::new();
    let variables: Vec<_> = scenario.nodes.iter().map(|node| variable(&node.name)).collect();
    for (i, name) in variables.iter().enumerate() {
        let (node, first) = (&scenario.nodes[i].name, variables.iter().position(|other| other == name));
        if name == OWN_NODE {
            all.push(format!(
                "node `{node}` gets no address variable: {name} holds the name of the program's own node"
            ));
        } else if let Some(first) = first.filter(|first| *first < i) {
            all.push(format!("nodes `{}` and `{node}` share the variable {name}", scenario.nodes[first].name));
        }
    }
    let is_kernel = |node: usize| scenario.nodes[node].kernel;
    for flow in scenario.flows.iter().filter(|f| is_kernel(f.from) && is_kernel(f.to)) {
        all.push(format!(
            "flow `{}` does not run: both its ends are kernel nodes, where only programs send; simulate one end to \
             run it",
            flow.name
        ));
    }
    for (node, words) in programs {
        let meant = |word: &&OsString| **word == *EXEC || word.to_string_lossy().starts_with(EXEC_IS);
        if let Some(word) = words.iter().skip(1).find(meant) {
            let word = word.display();
            all.push(format!(
                "`{word}` is passed to the program at `{node}`; start another program with {EXEC} NODE -- COMMAND"
            ));
        }
    }
    all
}

/// Returns the programs of `--exec FIRST -- words`. Within `words`, `--exec NODE --` begins the next program.
pub(super) fn programs(first: &str, words: &[OsString]) -> Result<Vec<(String, Vec<OsString>)>, LabError> {
    let mut all = vec![(first.to_owned(), Vec::new())];
    let mut rest = words;
    while let [word, more @ ..] = rest {
        let is = word.to_str().and_then(|word| word.strip_prefix(EXEC_IS));
        (rest, _) = match (is, more) {
            (Some(node), [dashes, more @ ..]) if dashes == "--" => (more, all.push((node.to_owned(), Vec::new()))),
            (_, [node, dashes, more @ ..]) if word == EXEC && dashes == "--" => {
                (more, all.push((node.to_string_lossy().into_owned(), Vec::new())))
            }
            _ => (more, all.last_mut().expect("it has the first").1.push(word.clone())),
        };
    }
    match all.iter().find(|(_, words)| words.is_empty()) {
        None => Ok(all),
        Some((node, _)) => Err(LabError::Usage {
            message: format!("{EXEC} {node}: the command is missing"),
            help: format!("write {EXEC} {node} -- COMMAND"),
        }),
    }
}

const EXEC: &str = "--exec";
const EXEC_IS: &str = "--exec=";

/// Quotes a name for a path of `--set`, if the name contains dots.
pub(super) fn quoted(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn arguments_split_at_each_exec_node() {
        let all = programs("a", &words("iperf3 -s --exec b -- sh -c x -- y --exec c --exec=d -- true")).unwrap();
        let expected = [("a", "iperf3 -s"), ("b", "sh -c x -- y --exec c"), ("d", "true")];
        assert_eq!(all, expected.map(|(node, line)| (node.to_owned(), words(line))));
        let empty = programs("a", &words("--exec b -- true")).unwrap_err();
        assert_eq!(empty.to_string(), "--exec a: the command is missing");
    }

    #[test]
    fn kernels_use_the_congestion_control_of_the_scenario() {
        let of = |tcp: &str, overrides: &[(String, String)]| {
            let text = format!("duration = \"1 s\"\nnode = [{{ name = \"a\" }}]\n{tcp}");
            let source = ScenarioText { name: "x".into(), text, folder: None };
            congestion_control(&source.parse(overrides).unwrap().scenario)
        };
        assert_eq!(of("", &[]), None);
        assert_eq!(of("[tcp]\nstack = \"linux\"\ncc = \"cubic\"", &[]).as_deref(), Some("cubic"));
        assert_eq!(of("", &[("tcp.cc".into(), "illinois-aa".into())]).as_deref(), Some("illinois_aa"));
    }

    #[test]
    fn suspicious_settings_are_warned_about() {
        let text = "duration = \"1 s\"\nnode = [{ name = \"node\" }, { name = \"a-b\", kernel = true }, \
                    { name = \"a_b\", kernel = true }]\n\
                    [[link]]\nname = \"l\"\nbetween = [\"a-b\", \"a_b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
                    [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a-b\"\nto = \"a_b\"\n";
        let source = ScenarioText { name: "x".into(), text: text.into(), folder: None };
        let scenario = source.parse(&[]).unwrap().scenario;
        let programs = programs("a-b", &words("echo --exec car ls")).unwrap();
        insta::assert_snapshot!(plan_warnings(&scenario, &programs).join("\n"), @r"
        node `node` gets no address variable: ROUGHLINK_NODE holds the name of the program's own node
        nodes `a-b` and `a_b` share the variable ROUGHLINK_A_B
        flow `f` does not run: both its ends are kernel nodes, where only programs send; simulate one end to run it
        `--exec` is passed to the program at `a-b`; start another program with --exec NODE -- COMMAND
        ");
    }
}
