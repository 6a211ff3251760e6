//! Places of a component: which one each hop has, and which follow each other on the paths of flows.

use super::NetworkFlow;
use crate::link::pipe::Pipe;
use crate::net::routing::Hop;

/// Marks the host at the far end instead of a place.
pub(super) const HOST: u32 = u32::MAX - 1;
/// Marks places whose next place depends on the flow.
pub(super) const VARIES: u32 = u32::MAX - 2;

/// Places of the hops over a component's links.
pub(super) struct Local<'p> {
    links: &'p [usize],
    places: Vec<[u32; 2]>,
}

impl<'p> Local<'p> {
    /// Creates the table for `links`, in ascending order.
    pub(super) fn new(links: &'p [usize]) -> Self {
        Local { links, places: vec![[u32::MAX; 2]; links.len()] }
    }
    fn position(&self, hop: Hop) -> usize {
        self.links.binary_search(&(hop as usize / 2)).expect("a link of the component")
    }
    pub(super) fn set(&mut self, hop: Hop, place: usize) {
        let position = self.position(hop);
        self.places[position][hop as usize % 2] = place as u32;
    }
    pub(super) fn place(&self, hop: Hop) -> u32 {
        self.places[self.position(hop)][hop as usize % 2]
    }
}

/// Appends the places of a path's hops to `paths`. Returns the starts of its forward and reverse parts, and the end.
pub(super) fn append(paths: &mut Vec<u32>, hops: &[impl AsRef<[Hop]>; 2], place: impl Fn(Hop) -> u32) -> [u32; 3] {
    let mut path = [paths.len() as u32; 3];
    for (i, hops) in hops.iter().enumerate() {
        paths.extend(hops.as_ref().iter().map(|&hop| place(hop)));
        path[i + 1] = paths.len() as u32;
    }
    path
}

/// Places before and after each place on the paths that use it: a place, [`HOST`], [`VARIES`], or `u32::MAX` if unused.
pub(super) struct Neighbors {
    pub(super) next: Vec<u32>,
    feeder: Vec<u32>,
}

impl Neighbors {
    pub(super) fn new(flows: &[NetworkFlow], paths: &[u32], places: usize) -> Self {
        let note = |slot: &mut u32, value| *slot = if [u32::MAX, value].contains(slot) { value } else { VARIES };
        let mut neighbors = Neighbors { next: vec![u32::MAX; places], feeder: vec![u32::MAX; places] };
        for f in flows {
            for r in 0..2 {
                let path = &paths[f.path[r] as usize..f.path[r + 1] as usize];
                let mut before = HOST;
                for (i, &place) in path.iter().enumerate() {
                    note(&mut neighbors.feeder[place as usize], before);
                    note(&mut neighbors.next[place as usize], path.get(i + 1).copied().unwrap_or(HOST));
                    before = place;
                }
            }
        }
        neighbors
    }

    /// Returns the pipe into which each pipe cascades: all flows that use the first continue to the second, and only
    /// they use it. `gated` marks places whose far end has an observing gateway.
    pub(super) fn cascades(&self, pipes: &[Pipe], gated: impl Fn(usize) -> bool) -> Vec<u32> {
        let second = |i: usize| self.next[i];
        (0..pipes.len())
            .map(|i| match pipes.get(second(i) as usize) {
                Some(pipe)
                    if self.feeder[second(i) as usize] == i as u32
                        && pipes[i].is_transparent()
                        && !pipe.has_timeline()
                        && !gated(i) =>
                {
                    second(i)
                }
                _ => u32::MAX,
            })
            .collect()
    }
}
