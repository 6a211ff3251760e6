//! Static shortest-path routing: fewest hops, then least delay, then the link named first.

use crate::units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An undirected link between two nodes with its delay, for routing.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Its nodes.
    pub between: (usize, usize),
    /// One-way delays, forward and reverse.
    pub delay: (Time, Time),
}

/// A link in a direction: twice the link's number, plus one for the reverse.
pub type Hop = u32;

/// The hops from `from` to `to`, or `None` if there is no path.
pub fn path(nodes: usize, edges: &[Edge], adjacency: &[Vec<Hop>], from: usize, to: usize) -> Option<Vec<Hop>> {
    let mut best: Vec<Option<(u32, Time, Hop)>> = vec![None; nodes];
    let mut queue = BinaryHeap::new();
    queue.push(Reverse((0u32, Time::ZERO, Hop::MAX, from)));
    let mut done = vec![false; nodes];
    while let Some(Reverse((hops, delay, via, node))) = queue.pop() {
        if done[node] {
            continue;
        }
        done[node] = true;
        best[node] = Some((hops, delay, via));
        if node == to {
            break;
        }
        for &hop in &adjacency[node] {
            let e = &edges[(hop / 2) as usize];
            let (next, d) = if hop & 1 == 0 { (e.between.1, e.delay.0) } else { (e.between.0, e.delay.1) };
            if !done[next] {
                queue.push(Reverse((hops + 1, delay + d, hop, next)));
            }
        }
    }
    let mut hops = Vec::new();
    let mut node = to;
    while node != from {
        let (_, _, hop) = best[node]?;
        hops.push(hop);
        let e = &edges[(hop / 2) as usize];
        node = if hop & 1 == 0 { e.between.0 } else { e.between.1 };
    }
    hops.reverse();
    Some(hops)
}

/// The hops that leave each node, in the order of links.
pub fn adjacency(nodes: usize, edges: &[Edge]) -> Vec<Vec<Hop>> {
    let mut out = vec![Vec::new(); nodes];
    for (i, e) in edges.iter().enumerate() {
        out[e.between.0].push(2 * i as Hop);
        out[e.between.1].push(2 * i as Hop + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_hops_then_delay_then_order() {
        let ms = Time::from_millis;
        let edge = |a, b, d| Edge { between: (a, b), delay: (ms(d), ms(d)) };
        let edges = [edge(0, 1, 5), edge(1, 2, 5), edge(0, 2, 90), edge(0, 1, 5), edge(1, 0, 1), edge(3, 4, 1)];
        let adj = adjacency(5, &edges);
        assert_eq!(path(5, &edges, &adj, 0, 2), Some(vec![4])); // one slow hop beats two fast
        assert_eq!(path(5, &edges, &adj, 0, 1), Some(vec![9])); // the 1 ms link, backwards
        assert_eq!(path(5, &edges, &adj, 1, 0), Some(vec![8]));
        assert_eq!(path(5, &edges, &adj, 0, 4), None);
    }
}
