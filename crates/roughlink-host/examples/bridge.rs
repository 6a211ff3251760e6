//! A bridge between two network interfaces that passes TCP segments through a gateway. The hosts that the gateway
//! serves are behind INWARD. The interfaces need no address, and the machine itself takes no part in the traffic.
//!
//! `cargo run --example bridge INWARD OUTWARD [GATEWAY [PARAMETERS]]`, for example `eth1 eth0 avoca-rx`. Ctrl-C ends
//! it. `roughlink gateway run` is the full program.

use roughlink_core::gateway::build;
use roughlink_host::{GatewayOnPath, Namespace, PacketPath, PathDevices};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [inward, outward, rest @ ..] = &arguments[..] else {
        return Err("usage: bridge INWARD OUTWARD [GATEWAY [PARAMETERS]]".into());
    };
    let parameters = rest.get(1).map_or("", String::as_str);
    let gateway = build(rest.first().map_or("avoca-rx", String::as_str), parameters)?;
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    let place = PathDevices::between(&Namespace::here()?, [inward, outward])?;
    let mut gateway = GatewayOnPath::new(gateway, place.framing(), false);
    let mut path = PacketPath::start(place);
    while !stop.load(Ordering::Relaxed) {
        path.turn(&mut gateway)?;
    }
    println!("{:?}", gateway.counters());
    println!("{:?}", path.packets().counters());
    Ok(())
}
