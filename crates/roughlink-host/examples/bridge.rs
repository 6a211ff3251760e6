//! A bridge between two network interfaces that passes TCP segments through a gateway. The hosts that the gateway
//! serves are behind INWARD. The interfaces need no address, and the machine itself takes no part in the traffic.
//!
//! `cargo run --example bridge INWARD OUTWARD [GATEWAY [PARAMETERS]]`, for example `eth1 eth0 avoca-rx`. Ctrl-C ends
//! it.

use roughlink_core::gateway::bytes::{FrameCounters, FrameGateway, Framing};
use roughlink_core::gateway::{Gateway, Heading, SegmentVerdict, build};
use roughlink_host::{Device, Loop, LostDevice, Namespace, PacketVerdict};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Passes frames between port 0 (inward) and port 1 (outward) of `packets` until `stop`.
pub fn bridge(packets: &mut Loop, gateway: &mut dyn Gateway, stop: &AtomicBool) -> Result<FrameCounters, LostDevice> {
    let mut frames = FrameGateway::new(Framing::Ethernet);
    let mut forwarded = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let now = packets.wait(gateway.next_wake())?;
        gateway.wake(now);
        packets.take_in(|now, port, frame| {
            let heading = if port == 0 { Heading::Outward } else { Heading::Inward };
            if frames.receive(gateway, now, heading, frame, None) == SegmentVerdict::Accept {
                forwarded.push((now, 1 - port, frame.bytes().to_vec()));
            }
            PacketVerdict::Consumed
        })?;
        for (due, port, frame) in forwarded.drain(..) {
            packets.hand_over(port, due, &frame);
        }
        let mut frame = Vec::new();
        while let Some(heading) = frames.transmit(gateway, now, &mut frame) {
            packets.send(usize::from(heading == Heading::Outward), &frame);
            frame.clear();
        }
    }
    Ok(frames.counters)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [inward, outward, rest @ ..] = &arguments[..] else {
        return Err("usage: bridge INWARD OUTWARD [GATEWAY [PARAMETERS]]".into());
    };
    let parameters = rest.get(1).map_or("", String::as_str);
    let mut gateway = build(rest.first().map_or("avoca-rx", String::as_str), parameters)?;
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    let here = Namespace::here()?;
    let mut packets = Loop::new(vec![Device::attach(&here, inward, 1500)?, Device::attach(&here, outward, 1500)?]);
    println!("{:?}", bridge(&mut packets, &mut *gateway, &stop)?);
    println!("{:?}", packets.counters());
    Ok(())
}
