//! Partition of a network into components that share no state.

use super::routing::FlowPath;
use crate::scenario::LinkSpec;
use std::collections::BTreeMap;

/// Returns groups of flows and links: two links belong together if a flow uses both, or if they share a cable.
pub(super) fn components(paths: &[FlowPath], specs: &[LinkSpec]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let links = specs.len();
    let mut parent: Vec<usize> = (0..links).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let used = |p: &FlowPath| p.iter().flat_map(|hops| hops.iter()).map(|h| (h / 2) as usize).collect::<Vec<_>>();
    for p in paths {
        let p = used(p);
        for &l in &p[1..] {
            let (a, b) = (root(&mut parent, p[0]), root(&mut parent, l));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut cables: BTreeMap<&str, usize> = BTreeMap::new();
    for (l, cable) in specs.iter().enumerate().filter_map(|(l, spec)| Some((l, spec.cable.as_deref()?))) {
        let first = *cables.entry(cable).or_insert(l);
        let (a, b) = (root(&mut parent, first), root(&mut parent, l));
        parent[a.max(b)] = a.min(b);
    }
    let mut number = vec![usize::MAX; links];
    let mut out: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (f, p) in paths.iter().enumerate() {
        let r = root(&mut parent, used(p)[0]);
        if number[r] == usize::MAX {
            number[r] = out.len();
            out.push(Default::default());
        }
        out[number[r]].0.push(f);
    }
    for l in 0..links {
        let r = root(&mut parent, l);
        if number[r] != usize::MAX {
            out[number[r]].1.push(l);
        }
    }
    out
}
