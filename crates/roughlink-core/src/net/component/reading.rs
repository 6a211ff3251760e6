//! Reads the state of a component's links.

use super::Component;
use crate::link::Model;
use crate::net::LinkReading;
use crate::scenario::Scenario;
use crate::units::Time;

impl Component {
    /// Stores the state of each link at `now` under the scenario's numbers.
    pub(in crate::net) fn read(&mut self, now: Time, s: &Scenario, out: &mut [[LinkReading; 2]]) {
        let pipes = self.pipes.len();
        for (i, (hop, _)) in self.places.iter().enumerate() {
            let (link, way) = ((hop / 2) as usize, (hop & 1) as usize);
            out[link][way] = match (&s.links[link].model, self.pipes.get_mut(i)) {
                (Model::Pipe(config), Some(pipe)) => {
                    LinkReading::from_pipe(pipe, [&config.forward, &config.reverse][way], now)
                }
                (model, _) => {
                    let (medium, port) = self.media.port(i - pipes);
                    LinkReading::shared(model.rate(), medium.waiting(port), medium.stats(port))
                }
            };
        }
    }
}
