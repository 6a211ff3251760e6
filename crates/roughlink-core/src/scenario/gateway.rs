//! `[[gateway]]`: where it stands, which link it watches, what it is.

use super::file::Gateway;
use super::leaf::At;
use super::problem::{Problem, Report, list, suggest};
use super::{GatewaySpec, LinkSpec, Stay};
use crate::cc::LinkEvent;
use crate::gateway::{BuildError, Kind};
use crate::link::{Direction, Model, Noise};
use crate::units::Time;
use std::ops::Range;

/// Resolves a gateway that stands at `node`; `None` if nothing stands there, or if it cannot, which is then reported.
pub(super) fn gateway(
    gateway: &At<Gateway>,
    name: &str,
    node: Option<usize>,
    nodes: &[String],
    links: &[LinkSpec],
    report: &mut Report,
) -> Option<GatewaySpec> {
    let g = &gateway.value;
    let kind = report.read(&g.kind);
    let link = report.read(&g.link);
    let (kind, node) = (kind?.0?, node?);
    let place = g.link.as_ref().map_or(gateway.span.clone(), |l| l.span.clone());
    let link = match link {
        Some(link) => named(&link, node, nodes, links, place.clone(), report)?,
        None if g.link.is_some() => return None,
        None => only_rough(node, nodes, links, place.clone(), report)?,
    };
    if kind.needs_modem && matches!(links[link].model, Model::Pipe(_)) {
        let media = links.iter().filter(|l| matches!(l.model, Model::Shared(_))).map(|l| l.name.as_str());
        let media: Vec<&str> = media.collect();
        let message =
            format!("`{}` asks the modem for its queue, and link `{}` has no modem", kind.name, links[link].name);
        report.error(Problem::new(message).at(place, "").help(match media.as_slice() {
            [] => "make it a link of kind \"hdplc\"".to_owned(),
            media => format!("links with modems are {}", list(media)),
        }));
        return None;
    }
    let params = params(gateway, kind, report)?;
    hears(kind, &params, &links[link], place, report);
    let name = if name.is_empty() { kind.name.to_owned() } else { name.to_owned() };
    Some(GatewaySpec { name, node, link, kind, params })
}

/// Warns if a gateway that goes by warnings hears none of its link, or hears them earlier than it believes them.
fn hears(kind: &Kind, params: &toml::Table, link: &LinkSpec, place: Range<usize>, report: &mut Report) {
    let all = kind.parameters();
    let Some(lead) = params.get("lead_ms").or(all.get("lead_ms")).and_then(toml::Value::as_integer) else { return };
    let lead = Time(u64::try_from(lead).unwrap_or(0).saturating_mul(1_000_000));
    if link.notices.is_empty() {
        let warning = Problem::new(format!("`{}` hears nothing of link `{}`", kind.name, link.name)).at(place, "");
        report.warn(warning.help("give the link a [[coverage]] or a timeline with `up` or `signal`"));
        return;
    }
    let first = |stay: &Stay| {
        let down = |n: &&(Time, LinkEvent)| n.1 == LinkEvent::Down && n.0 >= stay.from && n.0 <= stay.until;
        Some(stay.until - link.notices.iter().find(down)?.0)
    };
    if let Some(early) = link.stays.iter().filter_map(first).max().filter(|early| *early > lead) {
        let message = format!("`{}` is warned {early} before coverage ends, and believes it for {lead}", kind.name);
        report.warn(Problem::new(message).at(place, "").help("make the `warning` shorter, or `lead_ms` longer"));
    }
}

/// The link `name`, which must end at the node.
fn named(
    name: &str,
    node: usize,
    nodes: &[String],
    links: &[LinkSpec],
    place: Range<usize>,
    report: &mut Report,
) -> Option<usize> {
    let here = links.iter().filter(|l| ends_at(l, node)).map(|l| l.name.as_str());
    let Some(i) = links.iter().position(|l| l.name == name) else {
        let problem = Problem::new(format!("there is no link `{name}`")).at(place, "");
        report.error(problem.help(suggest(name, "the links at this node are", here)));
        return None;
    };
    if !ends_at(&links[i], node) {
        let message = format!("link `{name}` does not end at node `{}`", nodes[node]);
        let help = suggest("", "links that do are", here);
        report.error(Problem::new(message).at(place, "").help(help));
        return None;
    }
    Some(i)
}

/// The one link at the node that is more than a wire.
fn only_rough(
    node: usize,
    nodes: &[String],
    links: &[LinkSpec],
    place: Range<usize>,
    report: &mut Report,
) -> Option<usize> {
    let here = || (0..links.len()).filter(|&i| ends_at(&links[i], node));
    let found: Vec<usize> = here().filter(|&i| is_rough(&links[i].model)).collect();
    if let [only] = found.as_slice() {
        return Some(*only);
    }
    let node = &nodes[node];
    let names: Vec<&str> = if found.is_empty() { here().collect() } else { found.clone() }
        .into_iter()
        .map(|i| links[i].name.as_str())
        .collect();
    let message = if found.is_empty() {
        format!("no link at node `{node}` is rough")
    } else {
        format!("node `{node}` has {} rough links", found.len())
    };
    let help = match names.as_slice() {
        [] => format!("`{node}` has no link at all"),
        names => format!("say which one to watch with `link`: {}", list(names)),
    };
    report.error(Problem::new(message).at(place, "").help(help));
    None
}

fn ends_at(link: &LinkSpec, node: usize) -> bool {
    link.between.0 == node || link.between.1 == node
}

/// A medium, or a pipe that loses packets or changes.
fn is_rough(model: &Model) -> bool {
    let rough = |d: &Direction| d.noise != Noise::None || d.timeline.is_some();
    model.as_pipe().is_none_or(|pipe| rough(&pipe.forward) || rough(&pipe.reverse))
}

/// The parameters, tried out.
fn params(gateway: &At<Gateway>, kind: &'static Kind, report: &mut Report) -> Option<toml::Table> {
    let Some(given) = &gateway.value.params else { return Some(toml::Table::new()) };
    let entries = given.value.0.iter();
    let params: toml::Table = entries.map(|(k, v)| (k.get_ref().clone(), v.get_ref().clone())).collect();
    let Err(e) = kind.build(&params) else { return Some(params) };
    let problem = Problem::new(e.to_string());
    report.error(match e {
        BuildError::UnknownParameter { key, known, .. } => {
            let place = given.value.0.keys().find(|k| *k.get_ref() == key).map(toml::Spanned::span);
            let help = suggest(&key, "its parameters are", known.iter().map(String::as_str));
            problem.at(place.unwrap_or_else(|| given.span.clone()), "").help(help)
        }
        _ => {
            let all = kind.parameters();
            let own = params.keys().filter_map(|key| Some(format!("{key} = {}", all.get(key)?)));
            problem.at(given.span.clone(), "").help(format!("the defaults are {}", own.collect::<Vec<_>>().join(", ")))
        }
    });
    None
}
