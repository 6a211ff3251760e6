//! Emulation loop: carries datagrams and frames between kernels and the network. The loop sleeps until the network has
//! an event or a device has input. The loop first replays the events that were due, each at its own time, and only then
//! takes in new datagrams. So a late loop does not change the network's results.

use crate::carrier::Carrier;
use crate::conversations::Conversations;
use crate::error::LostDevice;
use crate::ethernet::{OutgoingFrame, Switch};
use crate::event_loop::Loop;
use crate::joining::PacketRun;
use crate::live::LiveWatch;
use crate::verdict::PacketVerdict;
use roughlink_core::net::{Network, Observer};
use roughlink_core::units::Time;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reason for the end of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// End of the scenario's duration.
    Over,
    /// Stop request, or end by the observer.
    Stopped,
    /// Exceeded limit of the network.
    Exceeded(roughlink_core::net::Exceeded),
    /// Lost device.
    Lost(LostDevice),
}

/// Parts of an emulation beside its network and devices.
pub(crate) struct NetworkEdge {
    pub(crate) switch: Switch,
    /// Carrier of the devices, if it follows their links.
    pub(crate) carrier: Option<Carrier>,
    pub(crate) conversations: Conversations,
    pub(crate) watch: LiveWatch,
}

/// Carries datagrams and frames between devices and network, until `end` or `stop`.
pub(crate) fn carry<O: Observer>(
    network: &mut Network<O>,
    packets: &mut Loop,
    edge: &mut NetworkEdge,
    end: Time,
    stop: &AtomicBool,
) -> LoopEnd {
    carry_until(network, packets, edge, end, stop).unwrap_or_else(LoopEnd::Lost)
}

fn carry_until<O: Observer>(
    network: &mut Network<O>,
    packets: &mut Loop,
    NetworkEdge { switch, carrier, conversations, watch }: &mut NetworkEdge,
    end: Time,
    stop: &AtomicBool,
) -> Result<LoopEnd, LostDevice> {
    let told = || stop.load(Ordering::Relaxed);
    let (mut woken, mut run) = (Time::ZERO, PacketRun::default());
    loop {
        let at = packets.wait(network.next_wake().min(end).min(watch.next_wake()))?;
        // Check for a stop request even if the network has more events than it can process in real time.
        while woken < at && !told() {
            woken = (woken + MAX_STEP).min(at);
            network.wake(woken);
        }
        watch.wake(woken, network, switch, conversations);
        if let Some(carrier) = carrier {
            carrier.update(network);
        }
        packets.take_in(|now, port, datagram| {
            // The network accepts nothing after its end.
            if switch.receive(network, (now, port), datagram) && now <= end {
                conversations.sent(now, datagram);
            }
            PacketVerdict::Consumed
        })?;
        let now = packets.now();
        // Datagrams that waited for an Ethernet address precede those that are due now.
        send_frames(switch, packets, conversations, now);
        while let Some(out) = network.transmit(now) {
            let Some(link) = switch.transmit(now, &out) else { continue };
            if !(packets.devices()[out.port].joins() && run.accepts(&out)) {
                hand_over(&mut run, packets, conversations, watch);
            }
            run.push(out, link);
        }
        hand_over(&mut run, packets, conversations, watch);
        send_frames(switch, packets, conversations, now);
        if let Some(limit) = network.exceeded() {
            return Ok(LoopEnd::Exceeded(limit));
        }
        if now >= end {
            return Ok(LoopEnd::Over);
        }
        if told() || network.observer().stop() {
            return Ok(LoopEnd::Stopped);
        }
    }
}

fn hand_over(run: &mut PacketRun, packets: &mut Loop, conversations: &mut Conversations, watch: &mut LiveWatch) {
    let accepted = packets.hand_over_run(run);
    for out in run.drain() {
        if let Some(now) = accepted {
            watch.record_lateness(now.saturating_sub(out.due));
            conversations.received(out.due, out.since, &out.datagram);
        }
    }
}

fn send_frames(switch: &mut Switch, packets: &mut Loop, conversations: &mut Conversations, now: Time) {
    while let Some(OutgoingFrame { port, frame, waited }) = switch.next() {
        if let (true, Some(out)) = (packets.send(port, &frame), waited) {
            conversations.received(now, out.since, &out.datagram);
        }
    }
}

/// Longest step passed to one `Network::wake`.
const MAX_STEP: Time = Time::from_millis(5);
