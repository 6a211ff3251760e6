//! Arbitrary text as a scenario file, run for some events: in parts and whole, observed and not. Senders and side slots stay
//! consistent, and a run that ends by itself has the same result both ways.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::net::{Limit, Network, Observer, Options, Sending};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;

/// Some flights of a few flows.
const MOST_EVENTS: u64 = 3_000;

/// Checks what must hold at any time.
struct Invariants;

impl Observer for Invariants {
    fn flow(&mut self, _now: Time, _index: usize, sender: Sending<'_>, _delivered: u64) {
        if let Sending::Tcp(sender) = sender {
            sender.check();
        }
    }
    fn end(&mut self, slots: usize, held: usize) {
        assert_eq!(slots, held, "side slots leak");
    }
}

fuzz_target!(|text: &str| {
    let load = |name: &str| Ok(name.to_owned());
    let Ok((scenario, _)) = Scenario::parse(text, "fuzz.toml", &[], &load) else { return };
    let network = Network::new(&scenario).expect("a scenario has a path for each flow");
    let mut limit = Limit::new(MOST_EVENTS);
    let parts = network.run_observed(Options::default(), &mut limit);
    let mut observer = (Invariants, Limit::new(MOST_EVENTS));
    let whole = network.run_observed(Options { one_component: true, ..Options::default() }, &mut observer);
    if !limit.reached() && !observer.1.reached() {
        assert_eq!(format!("{parts:?}"), format!("{whole:?}"));
    }
});
