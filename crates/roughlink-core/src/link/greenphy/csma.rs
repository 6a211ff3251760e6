//! Contention with back-off and deferral counters (IEEE 1901, HomePlug AV). Entering a stage draws the back-off counter
//! BC from the stage's window and loads the deferral counter DC. An idle slot decrements BC. A busy medium decrements
//! both, unless DC is 0: then the station moves to the next stage without having sent, because the medium is crowded.
//! The station sends when BC reaches 0. Success leads to stage 0, a collision to the next stage.

use crate::rng::RandomStream;

/// Contention windows and deferral counters by stage; stages beyond the last repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Slots to draw from: 0 to this value minus 1.
    pub windows: [u32; 4],
    /// Number of busy periods before the next stage.
    pub deferrals: [u32; 4],
}

impl Backoff {
    /// Classes CA0 and CA1.
    pub const LOW: Backoff = Backoff { windows: [8, 16, 32, 64], deferrals: [0, 1, 3, 15] };
    /// Classes CA2 and CA3.
    pub const HIGH: Backoff = Backoff { windows: [8, 16, 16, 32], deferrals: [0, 1, 3, 15] };
}

#[derive(Debug)]
pub(super) struct Csma {
    backoff: Backoff,
    stage: usize,
    counter: u32,
    deferral: u32,
    stream: RandomStream,
}

impl Csma {
    pub(super) fn new(backoff: &Backoff, stream: RandomStream) -> Self {
        let mut csma = Csma { backoff: *backoff, stage: 0, counter: 0, deferral: 0, stream };
        csma.enter(0);
        csma
    }

    /// Returns the idle slots left before this station sends.
    pub(super) fn slots(&self) -> u32 {
        self.counter
    }

    /// Counts `slots` idle slots, at most [`Csma::slots`]. Returns true if it is now this station's turn.
    pub(super) fn idle(&mut self, slots: u32) -> bool {
        self.counter -= slots;
        self.counter == 0
    }

    /// Counts a transmission of another station.
    pub(super) fn busy(&mut self) {
        if self.deferral == 0 {
            self.enter(self.stage + 1);
        } else {
            self.counter -= 1;
            self.deferral -= 1;
        }
    }

    pub(super) fn sent(&mut self, acknowledged: bool) {
        self.enter(if acknowledged { 0 } else { self.stage + 1 });
    }

    fn enter(&mut self, stage: usize) {
        self.stage = stage.min(self.backoff.windows.len() - 1);
        self.counter = self.stream.range(0, u64::from(self.backoff.windows[self.stage]) - 1) as u32;
        self.deferral = self.backoff.deferrals[self.stage];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn station() -> Csma {
        Csma::new(&Backoff::LOW, Seed { seed: 1, replica: 0 }.stream("x", "access"))
    }

    #[test]
    fn busy_medium_raises_the_stage_at_zero_deferral() {
        let mut c = station();
        let mut stages = vec![c.stage];
        for _ in 0..30 {
            if c.deferral > 0 {
                c.counter = 40; // far from sending
            }
            c.busy();
            stages.push(c.stage);
        }
        // Stage 0 tolerates no busy period, stage 1 one, stage 2 three; stage 3 repeats.
        assert_eq!(stages[..8], [0, 1, 1, 2, 2, 2, 2, 3]);
        assert!(stages[8..].iter().all(|&s| s == 3));
    }

    #[test]
    fn success_returns_to_the_first_window_and_collision_widens_it() {
        let mut c = station();
        let mut largest = [0; 5];
        for _ in 0..2000 {
            for (i, window) in [8, 16, 32, 64, 64].into_iter().enumerate() {
                assert!(c.slots() < window);
                largest[i] = largest[i].max(c.slots());
                c.sent(false);
            }
            c.sent(true);
        }
        assert_eq!(largest, [7, 15, 31, 63, 63]);
    }
}
