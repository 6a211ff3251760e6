//! A bridge between two network interfaces that splits TCP connections. The rough link is behind OUTWARD. The
//! interfaces need no address, and the machine itself takes no part in the traffic.
//!
//! `cargo run --example pep INWARD OUTWARD [CC]`, for example `eth1 eth0 wave`. Ctrl-C resets all connections and ends
//! it.

use roughlink_core::gateway::Heading;
use roughlink_core::pep::{Params, Proxy, ProxyConfig, ProxyVerdict};
use roughlink_host::{Device, Loop, LostDevice, Namespace, PacketVerdict};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Passes frames between port 0 (inward) and port 1 (outward) of `packets` until `stop`, then resets all connections.
pub fn split(packets: &mut Loop, proxy: &mut Proxy, stop: &AtomicBool) -> Result<(), LostDevice> {
    let (mut forwarded, mut frame) = (Vec::new(), Vec::new());
    loop {
        let now = packets.wait(proxy.next_wake())?;
        proxy.wake(now);
        packets.take_in(|now, port, frame| {
            let heading = if port == 0 { Heading::Outward } else { Heading::Inward };
            if proxy.receive(now, heading, frame) == ProxyVerdict::Forward {
                forwarded.push((now, 1 - port, frame.bytes().to_vec()));
            }
            PacketVerdict::Consumed
        })?;
        for (due, port, frame) in forwarded.drain(..) {
            packets.hand_over(port, due, &frame);
        }
        let stopped = stop.load(Ordering::Relaxed);
        if stopped {
            proxy.reset_all(now);
        }
        while let Some(heading) = proxy.transmit(now, &mut frame) {
            packets.send(usize::from(heading == Heading::Outward), &frame);
        }
        if stopped {
            return Ok(());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [inward, outward, rest @ ..] = &arguments[..] else { return Err("usage: pep INWARD OUTWARD [CC]".into()) };
    let mut params = Params::default();
    params.cc = rest.first().cloned().unwrap_or(params.cc);
    let mut secret = [0; 16];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut secret)?;
    let secret = u128::from_ne_bytes(secret);
    let mut proxy = Proxy::new(ProxyConfig { params, over: Heading::Outward, mtu: 1500, secret })?;
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    let here = Namespace::here()?;
    let mut packets = Loop::new(vec![Device::attach(&here, inward, 1500)?, Device::attach(&here, outward, 1500)?]);
    split(&mut packets, &mut proxy, &stop)?;
    println!("{:?}", proxy.counters());
    println!("{:?}", packets.counters());
    Ok(())
}
