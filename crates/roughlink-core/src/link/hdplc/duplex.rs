//! Full duplex: each direction has a separate medium, on which only its modems send.

use super::HdplcConfig;
use super::network::Hdplc;
use crate::link::medium::{Backlog, Medium};
use crate::link::pipe::PipeStats;
use crate::packet::{FlowId, Packet};
use crate::rng::Seed;
use crate::units::Time;

/// HD-PLC network whose directions do not contend ([`super::Duplex::Full`]), with the ports of [`Hdplc`]. Framing,
/// PLC-ACKs, repeats and noise are as in half duplex. Noise is a function of time, so both directions have the same.
#[derive(Debug)]
pub struct FullDuplex {
    /// Networks by direction; each uses only the ports of its direction.
    directions: [Hdplc; 2],
}

impl FullDuplex {
    /// Creates the network `name` of `pairs` pairs.
    pub fn new(config: &HdplcConfig, pairs: usize, name: &str, seed: &Seed) -> Self {
        FullDuplex { directions: [(); 2].map(|()| Hdplc::new(config, pairs, name, seed)) }
    }
}

impl Medium for FullDuplex {
    fn receive(&mut self, now: Time, port: usize, p: Packet, dropped: &mut dyn FnMut(Packet)) {
        self.directions[port % 2].receive(now, port, p, dropped);
    }

    fn transmit(&mut self, now: Time) -> Option<(usize, Packet)> {
        let [forward, reverse] = self.directions.each_ref().map(Hdplc::next_arrival);
        self.directions[usize::from(reverse < forward)].transmit(now)
    }

    fn wake(&mut self, now: Time, dropped: &mut dyn FnMut(Packet)) {
        self.directions.iter_mut().for_each(|way| way.wake(now, dropped));
    }

    fn next_wake(&self) -> Time {
        let [forward, reverse] = self.directions.each_ref().map(Hdplc::next_wake);
        forward.min(reverse)
    }

    fn backlog(&self, port: usize, flow: FlowId) -> Backlog {
        self.directions[port % 2].backlog(port, flow)
    }

    fn waiting(&self, port: usize) -> usize {
        self.directions[port % 2].waiting(port)
    }

    fn cycle_time(&self, now: Time, port: usize, sdus: u32) -> Time {
        self.directions[port % 2].cycle_time(now, port, sdus)
    }

    fn limit(&self, now: Time, port: usize) -> u32 {
        self.directions[port % 2].limit(now, port)
    }

    fn rejected(&self, port: usize) -> f64 {
        self.directions[port % 2].rejected(port)
    }

    fn stats(&self, port: usize) -> &PipeStats {
        self.directions[port % 2].stats(port)
    }

    fn in_transit(&self) -> Box<dyn Iterator<Item = &Packet> + '_> {
        Box::new(self.directions.iter().flat_map(|way| way.in_transit()))
    }
}
