//! `[[gateway]]`: its node, its link and its kind.

use super::leaf::{At, GatewayKind, Leaf, Name};
use super::names::ElementNames;
use super::problem::{Problem, Problems, list, suggest};
use super::struct_keys::Params;
use roughlink_core::gateway::{GatewayError, Heading, REGISTRY, RegisteredGateway};
use roughlink_core::link::{Direction, Model, Noise};
use roughlink_core::net::routing::Hop;
use roughlink_core::pep::{self, PepError};
use roughlink_core::scenario::{CoverageStay, GatewaySpec, LinkSpec, ProxySpec};
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A gateway at a node. Watches the TCP flows over a rough link and may rewrite the window that receivers advertise.
/// The kind `pep` splits their connections instead.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlGateway {
    /// Name in results and overrides; the name of the kind if absent.
    pub name: Option<Leaf<Name>>,
    /// Node of the gateway, one end of the link.
    #[schemars(required)]
    pub node: Option<Leaf<String>>,
    /// Link to watch: a shared medium, or a pipe with noise or a timeline; the node's only such link if absent.
    pub link: Option<Leaf<String>>,
    /// Kind of gateway; `roughlink gateway list` describes all, and `none` adds no gateway.
    #[schemars(with = "Leaf<GatewayKind>")] // required, by its definition
    pub kind: Option<Leaf<GatewayKind>>,
    /// Parameters of the kind, such as `{ floor = 4 }`.
    pub params: Option<At<Params>>,
}

/// A gateway that has been resolved.
pub(super) enum ResolvedGateway {
    Rewriter(GatewaySpec),
    Proxy(ProxySpec),
}

/// Resolves a gateway at `node`; returns `None` for the kind `none`, and after a fault, which is reported.
pub(super) fn gateway(
    gateway: &At<TomlGateway>,
    name: &str,
    node: Option<usize>,
    nodes: &[String],
    (names, links, links_at): (&ElementNames, &[LinkSpec], &[Vec<usize>]),
    report: &mut Problems,
) -> Option<ResolvedGateway> {
    let g = &gateway.value;
    let kind = report.read(&g.kind);
    let link = report.read(&g.link);
    if let (Some(GatewayKind::None), Some(given)) = (kind, &g.params) {
        unused(given, report);
    }
    let (kind, node) = (kind?, node?);
    let place = g.link.as_ref().map_or(gateway.span.clone(), |l| l.span.clone());
    let link = match link {
        Some(link) => named(&link, node, nodes, (names, links, &links_at[node]), place.clone(), report)?,
        None if g.link.is_some() => return None,
        None => only_rough(&nodes[node], links, &links_at[node], place.clone(), report)?,
    };
    let kind = match kind {
        GatewayKind::None => return None,
        GatewayKind::Registered(kind) => kind,
        GatewayKind::Pep => {
            let params = proxy_params(gateway, report)?;
            let name = if name.is_empty() { pep::NAME } else { name }.to_owned();
            return Some(ResolvedGateway::Proxy(ProxySpec { name, node, link, params }));
        }
    };
    if kind.needs_modem && matches!(links[link].model, Model::Pipe(_)) {
        let media = links.iter().filter(|l| matches!(l.model, Model::Shared(_))).map(|l| l.name.as_str());
        let media: Vec<&str> = media.collect();
        let message = format!("`{}` needs a modem, but link `{}` has none", kind.name, links[link].name);
        report.error(Problem::new(message).at(place, "").help(match media.as_slice() {
            [] => "use a link of kind = \"hdplc\"".to_owned(),
            media => format!("use a link with modems: {}", list(media)),
        }));
        return None;
    }
    let params = params(gateway, kind, report)?;
    check_warnings(kind, &params, &links[link], place, report);
    let name = if name.is_empty() { kind.name.to_owned() } else { name.to_owned() };
    Some(ResolvedGateway::Rewriter(GatewaySpec { name, node, link, kind, params }))
}

/// Checks parameters of the kind `none`, which may belong to any gateway.
fn unused(given: &At<Params>, report: &mut Problems) {
    let known: BTreeSet<String> = REGISTRY
        .iter()
        .map(RegisteredGateway::parameters)
        .chain([pep::ProxyParams::default().to_table()])
        .flatten()
        .map(|(key, _)| key)
        .collect();
    for key in given.value.0.keys().filter(|key| !known.contains(&key.get_ref().to_string())) {
        let problem = Problem::new(format!("unknown gateway parameter `{}`", key.get_ref())).at(key.span(), "");
        report.error(problem.help(suggest(key.get_ref(), "use one of", known.iter().map(String::as_str))));
    }
}

/// Rejects gateways that work against each other: two of a kind, or two rate controls, at the same end of a link.
pub(super) fn conflicting(all: &[(Range<usize>, GatewaySpec)], report: &mut Problems) {
    // Rate controls count as one kind.
    let mut standing: BTreeMap<(usize, usize, &str), &(Range<usize>, GatewaySpec)> = BTreeMap::new();
    for this @ (place, g) in all {
        let kind = if g.kind.needs_modem { "" } else { g.kind.name };
        let (first, other) = *standing.entry((g.node, g.link, kind)).or_insert(this);
        if !std::ptr::eq(other, g) {
            let what = if g.kind.needs_modem { "two rate controls" } else { "two gateways of the same kind" };
            let problem = Problem::new(format!("{what} at one end of a link: `{}` and `{}`", other.name, g.name));
            let problem = problem.at(place.clone(), "the second").at(first.clone(), "the first");
            report.error(problem.help("keep one of them"));
        }
    }
}

/// Warns of a gateway in whose direction no flow carries data. `paths` are the hops that the data of TCP flows take.
pub(super) fn idle(
    all: &[(Range<usize>, GatewaySpec)],
    paths: &[Vec<Hop>],
    nodes: &[String],
    links: &[LinkSpec],
    report: &mut Problems,
) {
    let taken: BTreeSet<Hop> = paths.iter().flatten().copied().collect();
    for (place, g) in all {
        let link = &links[g.link];
        let leaves = 2 * g.link as Hop + Hop::from(link.between.0 != g.node);
        let other = if link.between.0 == g.node { link.between.1 } else { link.between.0 };
        // Traffic that leaves over the link either heads for the hosts that the gateway serves or comes from them.
        let (hop, way) = match g.kind.over {
            Heading::Inward => (leaves, "from"),
            Heading::Outward => (leaves ^ 1, "to"),
        };
        let used = |hop: Hop| taken.contains(&hop);
        if used(hop) {
            continue;
        }
        let (name, here) = (&g.name, &nodes[g.node]);
        let message = format!(
            "gateway `{name}` has no effect: no TCP flow carries data {way} `{here}` over link `{}`",
            link.name
        );
        let help = if used(hop ^ 1) {
            format!("move it to the other end of the link: node = \"{}\"", nodes[other])
        } else {
            "add a flow of kind \"bulk\" that passes it, or remove the gateway".to_owned()
        };
        report.warn(Problem::new(message).at(place.clone(), "").help(help));
    }
}

/// Rejects two proxies at one end of a link, and warns of a proxy in the middle of no flow's path. `paths` are the hops
/// that the data of TCP flows take; `kernels` is set if there are kernel nodes.
pub(super) fn check_proxies(
    all: &[(Range<usize>, ProxySpec)],
    (paths, kernels): (&[Vec<Hop>], bool),
    nodes: &[String],
    links: &[LinkSpec],
    report: &mut Problems,
) {
    for (i, (place, proxy)) in all.iter().enumerate() {
        if let Some((first, other)) = all[..i].iter().find(|(_, p)| (p.node, p.link) == (proxy.node, proxy.link)) {
            let message = format!("two proxies at one end of a link: `{}` and `{}`", other.name, proxy.name);
            let problem = Problem::new(message).at(place.clone(), "the second").at(first.clone(), "the first");
            report.error(problem.help("keep one of them"));
        }
        let leaves = 2 * proxy.link as Hop + Hop::from(links[proxy.link].between.0 != proxy.node);
        let splits = |path: &Vec<Hop>| path[1..].contains(&leaves) || path[..path.len() - 1].contains(&(leaves ^ 1));
        // Programs at kernel nodes open connections, too.
        if !kernels && !paths.iter().filter(|path| !path.is_empty()).any(splits) {
            let (name, here, link) = (&proxy.name, &nodes[proxy.node], &links[proxy.link].name);
            let message =
                format!("proxy `{name}` has no effect: no TCP flow passes `{here}` between link `{link}` and another");
            let help = "place it at a node in the middle of a flow's path, or add a flow that passes it";
            report.warn(Problem::new(message).at(place.clone(), "").help(help));
        }
    }
}

/// Warns if a gateway that relies on warnings gets none from its link, or gets them too early to accept them.
fn check_warnings(
    kind: &RegisteredGateway,
    params: &toml::Table,
    link: &LinkSpec,
    place: Range<usize>,
    report: &mut Problems,
) {
    let all = kind.parameters();
    let Some(lead) = params.get("lead_ms").or(all.get("lead_ms")).and_then(toml::Value::as_integer) else { return };
    let lead = Time(u64::try_from(lead).unwrap_or(0).saturating_mul(1_000_000));
    if link.notices.is_empty() {
        let warning =
            Problem::new(format!("`{}` receives no notifications about link `{}`", kind.name, link.name)).at(place, "");
        report.warn(warning.help("add [[coverage]], or a timeline with `up` or `signal`, to the link"));
        return;
    }
    let early = |stay: &CoverageStay| stay.until.saturating_sub(stay.end_known);
    if let Some(stay) = link.stays.iter().max_by_key(|stay| early(stay)).filter(|stay| early(stay) > lead) {
        let (early, at) = (early(stay), &stay.name);
        let message = format!(
            "`{}` is warned {early} before coverage at {at} ends, but discards warnings after {lead}",
            kind.name
        );
        report.warn(Problem::new(message).at(place, "").help("decrease `warning` or increase `lead_ms`"));
    }
}

/// Returns the link `name`, which must end at the node.
fn named(
    name: &str,
    node: usize,
    nodes: &[String],
    (names, links, here): (&ElementNames, &[LinkSpec], &[usize]),
    place: Range<usize>,
    report: &mut Problems,
) -> Option<usize> {
    let own = here.iter().map(|&i| links[i].name.as_str());
    let Some(i) = names.index(name) else {
        let problem = Problem::new(format!("unknown link `{name}`")).at(place, "");
        report.error(problem.help(suggest(name, "use a link of this node:", own)));
        return None;
    };
    if !here.contains(&i) {
        let message = format!("link `{name}` does not end at node `{}`", nodes[node]);
        let help = suggest("", "use a link of this node:", own);
        report.error(Problem::new(message).at(place, "").help(help));
        return None;
    }
    Some(i)
}

fn only_rough(
    node: &str,
    links: &[LinkSpec],
    here: &[usize],
    place: Range<usize>,
    report: &mut Problems,
) -> Option<usize> {
    let found: Vec<usize> = here.iter().copied().filter(|&i| is_rough(&links[i].model)).collect();
    if let [only] = found.as_slice() {
        return Some(*only);
    }
    let named = if found.is_empty() { here } else { &found };
    let names: Vec<&str> = named.iter().map(|&i| links[i].name.as_str()).collect();
    let message = if found.is_empty() {
        format!("node `{node}` has no rough link")
    } else {
        format!("node `{node}` has {} rough links", found.len())
    };
    let help = match names.as_slice() {
        [] => format!("add a [[link]] to `{node}`"),
        names => format!("select the link to watch with `link`: {}", list(names)),
    };
    report.error(Problem::new(message).at(place, "").help(help));
    None
}

/// Returns true for a medium, or for a pipe that loses packets or changes.
fn is_rough(model: &Model) -> bool {
    let rough = |d: &Direction| d.noise != Noise::None || d.timeline.is_some();
    model.as_pipe().is_none_or(|pipe| rough(&pipe.forward) || rough(&pipe.reverse))
}

/// Returns the parameters of a proxy, checked.
fn proxy_params(gateway: &At<TomlGateway>, report: &mut Problems) -> Option<pep::ProxyParams> {
    let Some(given) = &gateway.value.params else { return Some(pep::ProxyParams::default()) };
    let error = match pep::ProxyParams::from_table(&table(given)) {
        Ok(params) => return Some(params),
        Err(error) => error,
    };
    let problem = Problem::new(error.to_string());
    report.error(match error {
        PepError::UnknownParameter { key, known } => unknown_parameter(problem, given, &key, &known),
        _ => {
            problem.at(given.span.clone(), "").help("`roughlink gateway list` shows all parameters and their defaults")
        }
    });
    None
}

/// Returns written parameters without their places.
fn table(given: &At<Params>) -> toml::Table {
    given.value.0.iter().map(|(k, v)| (k.get_ref().clone(), v.get_ref().clone())).collect()
}

/// Adds place and help to the problem of an unknown parameter.
fn unknown_parameter(problem: Problem, given: &At<Params>, key: &str, known: &[String]) -> Problem {
    let place = given.value.0.keys().find(|k| *k.get_ref() == key).map(toml::Spanned::span);
    let help = suggest(key, "use one of", known.iter().map(String::as_str));
    problem.at(place.unwrap_or_else(|| given.span.clone()), "").help(help)
}

/// Returns the parameters, checked by building the gateway.
fn params(gateway: &At<TomlGateway>, kind: &'static RegisteredGateway, report: &mut Problems) -> Option<toml::Table> {
    let Some(given) = &gateway.value.params else { return Some(toml::Table::new()) };
    let params = table(given);
    let Err(e) = kind.build(&params) else { return Some(params) };
    let problem = Problem::new(e.to_string());
    report.error(match e {
        GatewayError::UnknownParameter { key, known, .. } => unknown_parameter(problem, given, &key, &known),
        _ => {
            let all = kind.parameters();
            let own = params.keys().filter_map(|key| Some(format!("{key} = {}", all.get(key)?)));
            problem
                .at(given.span.clone(), "")
                .help(format!("for the defaults, write {}", own.collect::<Vec<_>>().join(", ")))
        }
    });
    None
}
