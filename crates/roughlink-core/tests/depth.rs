//! Scenarios that are valid and deep: no recursion follows the length of a path.

use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, NetworkError, RunOptions};
use std::fmt::Write as _;
use std::thread;

/// Returns a scenario with a chain of `links` pipes, without flows. The pipes have the MTUs in turn.
fn nodes_and_links(links: usize, mtus: &[u16]) -> String {
    let mut text = String::from("duration = \"1 s\"\n");
    for i in 0..=links {
        let _ = write!(text, "[[node]]\nname = \"n{i}\"\n");
    }
    for i in 0..links {
        let (next, mtu) = (i + 1, mtus[i % mtus.len()]);
        let _ = write!(
            text,
            "[[link]]\nname = \"l{i}\"\nbetween = [\"n{i}\", \"n{next}\"]\nrate = \"1 Gbit/s\"\ndelay = \"1 us\"\n\
             mtu = \"{mtu} B\"\n"
        );
    }
    text
}

/// Runs a datagram flow over a chain of `links` pipes in a thread with a small stack.
#[expect(clippy::disallowed_types, reason = "a thread with a small stack")]
fn chain(links: usize, mtus: &[u16]) -> RunResult {
    let mut text = nodes_and_links(links, mtus);
    let _ = write!(
        text,
        "[[flow]]\nname = \"f\"\nkind = \"cbr\"\nfrom = \"n0\"\nto = \"n{links}\"\nrate = \"400 kbit/s\"\n\
         packet = \"1000 B\"\nbytes = \"4 kB\"\n"
    );
    let (scenario, _) = roughlink_scenario::parse(&text, "chain", &[], &|name| Err(name.to_owned())).expect("valid");
    let run = move || Network::new(scenario, RunOptions::default()).expect("a path").run().expect("no limit");
    thread::Builder::new().stack_size(512 << 10).spawn(run).expect("a thread").join().expect("enough stack")
}

#[test]
fn long_chain_needs_no_stack() {
    let result = chain(20_000, &[1500]);
    assert_eq!(result.flows[0].delivered_bytes, 4_000);
}

/// A fragment may be divided again at a later pipe.
#[test]
fn fragments_of_a_long_chain_are_reassembled() {
    let result = chain(3_000, &[1500, 700, 300]);
    assert_eq!(result.flows[0].delivered_bytes, 4_000);
    // Four packets of 980 bytes after the IP header, and one of 120. With an MTU of 700 bytes a fragment has 680 of
    // them, with 300 bytes 280: two fragments, and each is divided in two or three.
    let packets: Vec<u64> = result.links[..4].iter().map(|link| link.forward.packets).collect();
    assert_eq!(packets, [5, 4 * 2 + 1, 4 * (3 + 2) + 1, 21]);
}

/// Paths of flows between the same nodes are stored once; the others are limited.
#[test]
fn paths_of_many_flows_are_limited() {
    let network = |ends: &dyn Fn(usize) -> usize| {
        let mut text = nodes_and_links(5_000, &[1500]);
        for i in 0..2_000 {
            let (from, to) = (ends(i), 5_000 - ends(i));
            let _ = write!(
                text,
                "[[flow]]\nname = \"f{i}\"\nkind = \"cbr\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nrate = \"1 kbit/s\"\n"
            );
        }
        let (scenario, _) =
            roughlink_scenario::parse(&text, "flows", &[], &|name| Err(name.to_owned())).expect("valid");
        Network::new(scenario, RunOptions::default()).map(drop)
    };
    assert_eq!(network(&|_| 0), Ok(()));
    assert_eq!(network(&|i| i), Err(NetworkError::TooManyHops));
}
