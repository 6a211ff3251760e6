//! Static shortest-path routing: fewest hops, then least delay, then the link that comes first in the scenario.
//!
//! ```
//! use roughlink_core::net::routing::{Edge, Routes};
//! use roughlink_core::units::Time;
//!
//! let edge = |a, b, ms| Edge { between: (a, b), delay: (Time::from_millis(ms), Time::from_millis(ms)) };
//! let mut routes = Routes::new(5, vec![edge(0, 1, 5), edge(1, 2, 5), edge(0, 2, 90), edge(3, 4, 1)]);
//! assert_eq!(routes.path(0, 2), Some(vec![4])); // one slow hop, forward over link 2
//! assert_eq!(routes.path(0, 4), None);
//! ```

use super::NetworkError;
use crate::scenario::{FlowSpec, Scenario};
use crate::units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// An undirected link between two nodes with its delay, for routing.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Nodes of the link.
    pub between: (usize, usize),
    /// One-way delays, forward and reverse.
    pub delay: (Time, Time),
}

/// A link in a direction: twice the link's number, plus one for the reverse.
pub type Hop = u32;

/// A flow has no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow `{flow}` has no path from `{from}` to `{to}`")]
pub struct NoPath {
    /// Name of the flow.
    pub flow: String,
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
}

/// Hops of a flow, forward and reverse. Flows between the same nodes share them.
pub type FlowPath = [Arc<[Hop]>; 2];

/// Returns the paths of the flows of a scenario.
///
/// # Errors
/// Returns an error if a flow has no path, or if the paths are too long together.
pub fn paths(s: &Scenario) -> Result<Vec<FlowPath>, NetworkError> {
    let mut routes = Routes::from_scenario(s);
    let mut route = |f: &FlowSpec, from: usize, to: usize| match routes.path(from, to) {
        Some(hops) => Ok(Arc::<[Hop]>::from(hops)),
        None if routes.is_exhausted() => Err(NetworkError::TooManySearches),
        None => {
            let [from, to] = [f.from, f.to].map(|node| s.nodes[node].name.clone());
            Err(NoPath { flow: f.name.clone(), from, to }.into())
        }
    };
    let mut known: BTreeMap<(usize, usize), FlowPath> = BTreeMap::new();
    let mut hops = 0;
    let mut path = |f: &FlowSpec| {
        if let Some(path) = known.get(&(f.from, f.to)) {
            return Ok(path.clone());
        }
        let path = [route(f, f.from, f.to)?, route(f, f.to, f.from)?];
        hops += path.iter().map(|hops| hops.len()).sum::<usize>();
        if hops > MAX_HOPS {
            return Err(NetworkError::TooManyHops);
        }
        known.insert((f.from, f.to), path.clone());
        Ok(path)
    };
    s.flows.iter().map(&mut path).collect()
}

/// Routes of a network. All routes from a source form a tree, which serves every flow from there. A host with only one
/// neighbor has no tree: its routes are the neighbor's plus one hop. A star of any size needs one tree.
#[derive(Debug)]
pub struct Routes {
    edges: Vec<Edge>,
    /// Hops that leave each node, in the order of links.
    adjacency: Vec<Vec<Hop>>,
    /// Tree of each source.
    trees: BTreeMap<usize, Tree>,
    /// Nodes of all trees together.
    remembered: usize,
    /// Marks the nodes that the current search has reached; clear between searches.
    done: Vec<bool>,
    /// Hops examined in all searches.
    searched: u64,
    limit: u64,
}

/// Nodes that a source reaches, in ascending order, with the last hop to each; without the source.
type Tree = Arc<[(usize, Hop)]>;

impl Routes {
    /// Creates the routes of a scenario.
    pub fn from_scenario(s: &Scenario) -> Self {
        let edges = s.links.iter().map(|l| Edge { between: l.between, delay: l.model.delay() }).collect();
        Routes::new(s.nodes.len(), edges)
    }

    /// Creates the routes of `nodes` nodes over `edges`.
    pub fn new(nodes: usize, edges: Vec<Edge>) -> Self {
        let mut adjacency = vec![Vec::new(); nodes];
        for (i, e) in edges.iter().enumerate() {
            adjacency[e.between.0].push(2 * i as Hop);
            adjacency[e.between.1].push(2 * i as Hop + 1);
        }
        let done = vec![false; nodes];
        Routes { edges, adjacency, trees: BTreeMap::new(), remembered: 0, done, searched: 0, limit: MAX_SEARCHED }
    }

    /// Lifts the limit of [`MAX_SEARCHED`], for searches that have another limit.
    pub(super) fn without_limit(self) -> Self {
        Routes { limit: u64::MAX, ..self }
    }

    /// Returns the hops from `from` to `to`, or `None` if there is no path.
    pub fn path(&mut self, from: usize, to: usize) -> Option<Vec<Hop>> {
        if from == to {
            return Some(Vec::new());
        }
        let first = self.only_neighbor(from).map(|near| self.best(from, near));
        let start = first.map_or(from, |hop| self.end(hop));
        if start == to {
            return Some(first.into_iter().collect());
        }
        let last = self.only_neighbor(to).map(|near| self.best(near, to));
        let goal = last.map_or(to, |hop| self.end(hop ^ 1));
        let tree = self.tree(start);
        let mut hops: Vec<Hop> = last.into_iter().collect();
        let mut node = goal;
        while node != start {
            let (_, hop) = tree[tree.binary_search_by_key(&node, |entry| entry.0).ok()?];
            hops.push(hop);
            node = self.end(hop ^ 1);
        }
        hops.extend(first);
        hops.reverse();
        Some(hops)
    }

    /// Returns true if the searches examined more than [`MAX_SEARCHED`] hops. No further search takes place, and paths
    /// may be missing.
    pub fn is_exhausted(&self) -> bool {
        self.searched > self.limit
    }

    /// Returns the nodes that packets from `from` can reach, without `from`.
    pub fn reachable(&mut self, from: usize) -> impl Iterator<Item = usize> {
        let tree = self.tree(from);
        (0..tree.len()).map(move |i| tree[i].0)
    }

    fn end(&self, hop: Hop) -> usize {
        let e = &self.edges[(hop / 2) as usize];
        if hop & 1 == 0 { e.between.1 } else { e.between.0 }
    }

    fn delay(&self, hop: Hop) -> Time {
        let e = &self.edges[(hop / 2) as usize];
        if hop & 1 == 0 { e.delay.0 } else { e.delay.1 }
    }

    fn only_neighbor(&self, node: usize) -> Option<usize> {
        let mut ends = self.adjacency[node].iter().map(|&hop| self.end(hop));
        let first = ends.next()?;
        (first != node && ends.all(|end| end == first)).then_some(first)
    }

    /// Returns the best hop between two nodes, one of which is the other's only neighbor.
    fn best(&self, from: usize, to: usize) -> Hop {
        let fewer = if self.adjacency[from].len() < self.adjacency[to].len() { from } else { to };
        let hops = self.adjacency[fewer].iter().map(|&hop| if fewer == from { hop } else { hop ^ 1 });
        hops.min_by_key(|&hop| (self.delay(hop), hop)).expect("they are neighbors")
    }

    fn tree(&mut self, from: usize) -> Tree {
        if let Some(tree) = self.trees.get(&from) {
            return Arc::clone(tree);
        }
        if self.is_exhausted() {
            return Arc::new([]);
        }
        let mut tree = Vec::new();
        let mut queue = BinaryHeap::from([Reverse((0u32, Time::ZERO, Hop::MAX, from))]);
        while let Some(Reverse((hops, delay, via, node))) = queue.pop() {
            if std::mem::replace(&mut self.done[node], true) {
                continue;
            }
            if node != from {
                tree.push((node, via));
            }
            self.searched += self.adjacency[node].len() as u64;
            for &hop in &self.adjacency[node] {
                let next = self.end(hop);
                if !self.done[next] {
                    queue.push(Reverse((hops + 1, delay.saturating_add(self.delay(hop)), hop, next)));
                }
            }
        }
        self.done[from] = false;
        tree.iter().for_each(|&(node, _)| self.done[node] = false);
        tree.sort_unstable();
        let tree: Tree = tree.into();
        if self.remembered + tree.len() > MAX_REMEMBERED {
            self.trees.clear();
            self.remembered = 0;
        }
        self.remembered += tree.len();
        self.trees.insert(from, Arc::clone(&tree));
        tree
    }
}

/// Maximum number of hops of all paths together. A hop takes 8 bytes, here and in the component.
pub(super) const MAX_HOPS: usize = 10_000_000;
/// Maximum number of hops that the searches for paths examine. A search examines each hop that it reaches once.
pub const MAX_SEARCHED: u64 = 1_000_000_000;
/// Maximum number of nodes stored in all trees together, 16 bytes each.
const MAX_REMEMBERED: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_prefer_fewest_hops_then_delay_then_order() {
        let ms = Time::from_millis;
        let edge = |a, b, d| Edge { between: (a, b), delay: (ms(d), ms(d)) };
        let edges = [edge(0, 1, 5), edge(1, 2, 5), edge(0, 2, 90), edge(0, 1, 5), edge(1, 0, 1), edge(3, 4, 1)];
        let mut routes = Routes::new(5, edges.to_vec());
        assert_eq!(routes.path(0, 2), Some(vec![4])); // one slow hop beats two fast
        assert_eq!(routes.path(0, 1), Some(vec![9])); // the 1 ms link, backwards
        assert_eq!(routes.path(1, 0), Some(vec![8]));
        assert_eq!(routes.path(0, 4), None);
        assert_eq!(routes.path(3, 4), Some(vec![10]));
        assert_eq!(routes.reachable(0).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn searches_are_limited() {
        let edge = |a, b| Edge { between: (a, b), delay: (Time(1), Time(1)) };
        // Each of the leaves has two neighbors, the hubs 0 and 1.
        let edges = (2..102).flat_map(|leaf| [edge(0, leaf), edge(1, leaf)]).collect();
        let mut routes = Routes::new(102, edges);
        (2..102).for_each(|leaf| drop(routes.path(leaf, 0)));
        let each = 400;
        assert_eq!(routes.searched, 100 * each);
        (routes.searched, routes.trees) = (MAX_SEARCHED, BTreeMap::new());
        assert!(routes.path(2, 0).is_some() && routes.is_exhausted());
        assert_eq!((routes.path(3, 0), routes.searched), (None, MAX_SEARCHED + each));
    }

    /// Trees, each a search through the whole network, exist only for sources with several neighbors.
    #[test]
    fn route_trees_are_built_once_per_source() {
        let edge = |a, b| Edge { between: (a, b), delay: (Time(1), Time(1)) };
        let trees = |edges: Vec<Edge>, routes: &[(usize, usize)]| {
            let mut network = Routes::new(1_001, edges);
            routes.iter().for_each(|&(from, to)| drop(network.path(from, to)));
            network.trees.len()
        };
        let all: Vec<(usize, usize)> = (1..1_001).map(|n| (n, 1 + n * 7 % 1_000)).collect();
        let from_hub: Vec<_> = (1..1_001).map(|n| (0, n)).collect();
        let to_hub: Vec<_> = (1..1_001).map(|n| (n, 0)).collect();
        let star = (1..1_001).map(|n| edge(0, n)).collect();
        assert_eq!(trees(star, &[all, from_hub.clone(), to_hub].concat()), 1);
        let chain = (0..1_000).map(|n| edge(n, n + 1)).collect();
        let from_three: Vec<_> = (0..1_001).flat_map(|n| [(1, n), (500, n), (999, n)]).collect();
        assert_eq!(trees(chain, &from_three), 3);
        // Nodes without a link are found unreachable by the same tree.
        assert_eq!(trees(vec![edge(0, 1)], &from_hub), 1);
    }

    /// Returns the shortest of all paths without repeated nodes, by the rule of the module.
    fn by_search(edges: &[Edge], from: usize, to: usize) -> Option<(usize, Time)> {
        let mut best: Option<(usize, Time)> = None;
        let mut open = vec![(from, 0, Time::ZERO, vec![from])];
        while let Some((node, hops, delay, seen)) = open.pop() {
            if node == to {
                best = Some(best.map_or((hops, delay), |b| b.min((hops, delay))));
                continue;
            }
            for e in edges {
                for (a, b, d) in [(e.between.0, e.between.1, e.delay.0), (e.between.1, e.between.0, e.delay.1)] {
                    if a == node && !seen.contains(&b) {
                        open.push((b, hops + 1, delay + d, [&seen[..], &[b]].concat()));
                    }
                }
            }
        }
        best
    }

    proptest::proptest! {
        #[test]
        fn paths_are_shortest_paths(ends in proptest::collection::vec((0usize..6, 0usize..6, 1u64..4, 1u64..4), 1..9)) {
            let ends = ends.into_iter().filter(|e| e.0 != e.1);
            let edges: Vec<Edge> =
                ends.map(|(a, b, f, r)| Edge { between: (a, b), delay: (Time(f), Time(r)) }).collect();
            let mut routes = Routes::new(6, edges.clone());
            for from in 0..6 {
                for to in 0..6 {
                    let path = routes.path(from, to);
                    let mut node = from;
                    for hop in path.iter().flatten() {
                        assert_eq!(routes.end(hop ^ 1), node, "hops that do not follow each other");
                        node = routes.end(*hop);
                    }
                    let cost = path.map(|p| (p.len(), Time(p.iter().map(|&hop| routes.delay(hop).0).sum())));
                    assert_eq!(cost, by_search(&edges, from, to), "from {from} to {to} over {edges:?}");
                }
            }
        }
    }
}
