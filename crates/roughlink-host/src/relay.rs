//! Real-time loop that carries datagrams between kernels and the network. The loop sleeps until the network has an
//! event or a device has input. The loop first replays the events that were due, each at its own time, and only then
//! reads new datagrams. So a late loop does not change the network's results.
//!
//! [`Lateness`] reports how late datagrams leave: the time from when a datagram was due until the kernel gets it.
//! Incoming datagrams enter the network only when the loop reads them; their waiting time is reported separately. It
//! counts from the loop's last look at the device or, if the loop slept, from when it should have run. A datagram
//! behind others in the device's queue may have waited longer. Neither figure includes the time in system calls: over a
//! link without delay an echo takes some 20 us more than over a loopback device.

use crate::carrier::Carrier;
use crate::conversations::Conversations;
use crate::device::Device;
use crate::error::HostError;
use crate::ethernet::{OutgoingFrame, Switch, datagram};
use crate::live::LiveWatch;
use crate::realtime::{Effort, MonotonicClock, Sleeper, raise_priority};
use nix::poll::{PollFd, PollFlags};
use roughlink_core::net::{Network, Observer};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use serde::Serialize;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lateness of datagrams, us. Quantiles above 1 us are within 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lateness {
    /// Median, us.
    pub p50: f64,
    /// 99th percentile, us.
    pub p99: f64,
    /// Maximum, us.
    pub max: f64,
    /// Share of datagrams with more than 1 ms.
    pub over_1ms: f64,
}

/// Reason for the end of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// End of the scenario's duration.
    Over,
    /// Stop request, or end by the observer.
    Stopped,
    /// Exceeded limit of the network.
    Exceeded(roughlink_core::net::Exceeded),
    /// Device that no longer exists.
    Vanished {
        /// Name of the device, or of all devices if the kernel can no longer wait for them.
        device: String,
        /// Error from the kernel.
        reason: String,
    },
}

#[derive(Default)]
pub(crate) struct LatenessHistogram {
    times: Histogram,
    over: u64,
}

impl LatenessHistogram {
    #[inline]
    pub(crate) fn record(&mut self, late: Time) {
        self.times.record(late.0);
        self.over += u64::from(late > LATE);
    }

    pub(crate) fn lateness(&self) -> Option<Lateness> {
        let us = |ns: f64| ns / 1e3;
        Some(Lateness {
            p50: us(self.times.quantile(0.5)?),
            p99: us(self.times.quantile(0.99)?),
            max: us(self.times.max()? as f64),
            over_1ms: self.over as f64 / self.times.count() as f64,
        })
    }
}

/// Counters of the loop, as in [`EmulationResults`](crate::EmulationResults).
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) late: LatenessHistogram,
    pub(crate) waited: LatenessHistogram,
    /// Longest time from when the loop should have looked at the devices until it did.
    pub(crate) stall: Time,
    /// Datagrams that the kernel rejected.
    pub(crate) refused: u64,
    /// Datagrams that a kernel dropped because its device's queue was full, if the count is known.
    pub(crate) overruns: Option<u64>,
    pub(crate) oversized: u64,
    /// Datagrams for hosts behind attached devices that did not answer ARP or neighbor discovery.
    pub(crate) unanswered: u64,
    pub(crate) effort: Effort,
    pub(crate) elapsed: Time,
    /// Error that denied the loop real-time priority, if any.
    pub(crate) unhurried: Option<HostError>,
}

/// Devices at the ports of a network, with the switch and the carrier state.
pub(crate) struct NetworkEdge {
    /// Devices, in the order of the ports.
    pub(crate) devices: Vec<Device>,
    pub(crate) switch: Switch,
    /// Carrier of the devices, if it follows their links.
    pub(crate) carrier: Option<Carrier>,
}

/// Carries datagrams and frames between devices and network, until `end` or `stop`. The clock has just been started.
pub(crate) fn carry<O: Observer>(
    network: &mut Network,
    observer: &mut O,
    NetworkEdge { devices, switch, carrier }: &mut NetworkEdge,
    (conversations, watch): (&mut Conversations, &mut LiveWatch),
    (clock, end): (MonotonicClock, Time),
    stop: &AtomicBool,
) -> (LoopEnd, Counts) {
    let mut counts = Counts { unhurried: raise_priority().err(), ..Counts::default() };
    let start = Effort::current_thread();
    let mut polled: Vec<PollFd<'_>> = devices.iter().map(|d| PollFd::new(d.as_fd(), PollFlags::POLLIN)).collect();
    let mut sleeper = Sleeper::new(clock);
    let mut buffer = vec![0; LONGEST];
    // Time of the last look at each device, and time up to which the network has run.
    let (mut looked, mut woken) = (vec![Time::ZERO; devices.len()], Time::ZERO);
    let mut seen = clock.now();
    let told = || stop.load(Ordering::Relaxed);
    let ending = loop {
        let until = network.next_wake().min(end).min(watch.next_wake());
        let wake = match sleeper.sleep(&mut polled, until) {
            Ok(wake) => wake,
            Err(e) => {
                break LoopEnd::Vanished {
                    device: devices.iter().map(|d| &*d.name).collect::<Vec<_>>().join(", "),
                    reason: e.to_string(),
                };
            }
        };
        // Check for a stop request even if the network has more events than it can process in real time.
        while woken < wake.at && !told() {
            woken = (woken + MAX_STEP).min(wake.at);
            network.wake_observed(woken, observer);
        }
        watch.wake(woken, (network, switch, conversations), observer);
        if let Some(carrier) = carrier {
            carrier.update(network);
        }
        // Count from when the loop should have looked, or from its last look: reading and sending take time, too.
        let now = clock.now();
        counts.stall = counts.stall.max(now.saturating_sub(wake.due.max(seen)));
        seen = now;
        let taken = polled.iter().zip(&*devices).enumerate().try_for_each(|(port, (polled, device))| {
            // A ready descriptor without data has lost its device.
            let events = polled.revents().unwrap_or(PollFlags::empty());
            let gone = events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL);
            let since = looked[port].max(wake.due);
            looked[port] = wake.at;
            for _ in 0..if events.is_empty() { 0 } else { BATCH } {
                let mut take = |bytes: &[u8]| {
                    let now = clock.now();
                    looked[port] = now;
                    counts.waited.record(now.saturating_sub(since));
                    let datagram = switch.receive(network, (now, port), bytes, observer);
                    // The network accepts nothing after its end.
                    if now <= end {
                        conversations.sent(now, datagram);
                    }
                };
                match device.receive(&mut buffer, &mut take) {
                    Ok(true) => {}
                    Ok(false) if gone => return Err((device, "it no longer exists".into())),
                    Ok(false) => break,
                    Err(e) => return Err((device, e.to_string())),
                }
            }
            Ok(())
        });
        if let Err((device, reason)) = taken {
            break LoopEnd::Vanished { device: device.name.clone(), reason };
        }
        let now = clock.now();
        // Datagrams that waited for an Ethernet address precede those that are due now.
        send_frames(switch, devices, conversations, &mut counts, now);
        while let Some(out) = network.transmit_observed(now, observer) {
            let late = clock.now().saturating_sub(out.due);
            counts.late.record(late);
            watch.record_lateness(late);
            let Some(bytes) = switch.transmit(now, &out) else { continue };
            // A device that is down takes nothing, like any network interface.
            if devices[out.port].send(bytes).is_ok() {
                let datagram = if out.is_frame { datagram(&out.datagram) } else { &out.datagram };
                conversations.received(out.due, out.since, datagram);
            } else {
                counts.refused += 1;
            }
        }
        send_frames(switch, devices, conversations, &mut counts, now);
        if let Some(limit) = network.exceeded() {
            break LoopEnd::Exceeded(limit);
        }
        if now >= end {
            break LoopEnd::Over;
        }
        if told() || observer.stop() {
            break LoopEnd::Stopped;
        }
    };
    counts.unanswered = switch.unanswered();
    counts.effort = Effort::current_thread().since(start);
    counts.elapsed = clock.now();
    (ending, counts)
}

fn send_frames(
    switch: &mut Switch,
    devices: &[Device],
    conversations: &mut Conversations,
    counts: &mut Counts,
    now: Time,
) {
    while let Some(OutgoingFrame { port, frame, waited }) = switch.next() {
        match (devices[port].send(&frame), waited) {
            (Ok(()), Some(out)) => conversations.received(now, out.since, &out.datagram),
            (Err(_), Some(_)) => counts.refused += 1,
            (_, None) => {}
        }
    }
}

/// Maximum number of reads from a device before the loop looks for due events again: some 50 us of work.
const BATCH: usize = 16;
/// Buffer size, bytes: more than the largest datagram or frame.
const LONGEST: usize = (1 << 16) + 64;
const LATE: Time = Time::from_millis(1);
/// Longest step passed to one `Network::wake_observed`.
const MAX_STEP: Time = Time::from_millis(5);
