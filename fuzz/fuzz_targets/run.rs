//! Runs arbitrary text as a scenario file for some events: in parts and at once, with and without an observer. Senders
//! and side slots stay consistent, and runs that end before the limit have the same result both ways.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::net::{Network, NetworkEvent, Observer, RunLimits, RunOptions, Sending};
use roughlink_core::units::Time;
use std::sync::Arc;

/// Event limit: some flights of a few flows.
const MAX_EVENTS: u64 = 3_000;

/// Checks the invariants of senders and side slots.
struct Invariants;

impl Observer for Invariants {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Sender { sender: Sending::Tcp(sender), .. } => sender.check(),
            NetworkEvent::End { slots, held } => {
                assert_eq!(slots, held, "side slots leak");
            }
            _ => {}
        }
    }
}

fuzz_target!(|text: &str| {
    let load = |name: &str| Ok(name.to_owned());
    let Ok((scenario, _)) = roughlink_scenario::parse(text, "fuzz.toml", &[], &load) else { return };
    let scenario = Arc::new(scenario);
    let limits = RunLimits { events: MAX_EVENTS, ..RunLimits::default() };
    let network = |one_component| {
        let options = RunOptions { one_component, limits, ..RunOptions::default() };
        Network::new(Arc::clone(&scenario), options).expect("a scenario has a path for each flow")
    };
    let parts = network(false).run();
    let whole = network(true).observed_by(&mut Invariants).run();
    if let (Ok(parts), Ok(whole)) = (parts, whole) {
        assert_eq!(format!("{parts:?}"), format!("{whole:?}"));
    }
});
