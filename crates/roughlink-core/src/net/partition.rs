//! Partition of a network into components that share no state.

use super::routing::FlowPath;
use crate::scenario::Scenario;
use std::collections::BTreeMap;

/// Elements of a component, by their numbers in the scenario, in ascending order.
#[derive(Debug, Default)]
pub(super) struct ComponentPlan {
    pub flows: Vec<usize>,
    pub links: Vec<usize>,
    pub gateways: Vec<usize>,
    pub proxies: Vec<usize>,
}

impl ComponentPlan {
    /// Returns the plan of one component with all elements of the scenario.
    pub(super) fn of_all(s: &Scenario) -> Self {
        let all = |n: usize| (0..n).collect();
        ComponentPlan {
            flows: all(s.flows.len()),
            links: all(s.links.len()),
            gateways: all(s.gateways.len()),
            proxies: all(s.proxies.len()),
        }
    }
}

/// Returns the components with flows: two links belong together if a flow uses both, or if they share a cable.
pub(super) fn components(paths: &[FlowPath], s: &Scenario) -> Vec<ComponentPlan> {
    let links = s.links.len();
    let mut parent: Vec<usize> = (0..links).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let first = |p: &FlowPath| p.iter().find_map(|hops| hops.first()).map(|h| (h / 2) as usize);
    for p in paths {
        let Some(first) = first(p) else { continue };
        for hop in p.iter().flat_map(|hops| hops.iter()) {
            let (a, b) = (root(&mut parent, first), root(&mut parent, (hop / 2) as usize));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut cables: BTreeMap<&str, usize> = BTreeMap::new();
    for (l, cable) in s.links.iter().enumerate().filter_map(|(l, spec)| Some((l, spec.cable.as_deref()?))) {
        let first = *cables.entry(cable).or_insert(l);
        let (a, b) = (root(&mut parent, first), root(&mut parent, l));
        parent[a.max(b)] = a.min(b);
    }
    let mut number = vec![usize::MAX; links];
    let mut out: Vec<ComponentPlan> = Vec::new();
    for (f, p) in paths.iter().enumerate() {
        let Some(first) = first(p) else { continue };
        let r = root(&mut parent, first);
        if number[r] == usize::MAX {
            number[r] = out.len();
            out.push(ComponentPlan::default());
        }
        out[number[r]].flows.push(f);
    }
    for l in 0..links {
        let r = root(&mut parent, l);
        number[l] = number[r];
        if let Some(component) = out.get_mut(number[l]) {
            component.links.push(l);
        }
    }
    for (g, spec) in s.gateways.iter().enumerate() {
        if let Some(component) = out.get_mut(number[spec.link]) {
            component.gateways.push(g);
        }
    }
    for (g, spec) in s.proxies.iter().enumerate() {
        if let Some(component) = out.get_mut(number[spec.link]) {
            component.proxies.push(g);
        }
    }
    out
}
