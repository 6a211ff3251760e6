//! The loop that carries datagrams between kernels and the network, in real time.
//!
//! It sleeps until the network has something to do or a device has something to give. Then it first replays what was due, each
//! event at its own time, and only then takes in what has come, so that being late does not change what happens. What leaves is late by what
//! [`Lateness`] reports: the time from when a datagram was due until the kernel is given it. The network does not know of a datagram before the
//! loop takes it in; how long it had waited by then is reported beside: since the loop last looked at the device, or, if the loop slept,
//! since it should have run. A datagram that other packets kept in the device's queue may have waited longer. The way through system calls
//! is in neither: over a link without delay an echo takes some 20 us more than over a loopback device.

use crate::carrier::Carrier;
use crate::conversations::Conversations;
use crate::device::Device;
use crate::error::HostError;
use crate::ethernet::{Ready, Switch, datagram};
use crate::live::Watch;
use crate::realtime::{Clock, Effort, Sleeper, hurry};
use nix::poll::{PollFd, PollFlags};
use roughlink_core::net::{Network, Observer};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use serde::Serialize;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// How late datagrams were, us. Quantiles are within 1 % where they exceed 1 us.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Lateness {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// The share of them that was later than 1 ms.
    pub over_1ms: f64,
}

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The scenario's duration is over.
    Over,
    /// It was told to, or its observer did not want more.
    Stopped,
    /// A limit of the network was exceeded.
    Exceeded(roughlink_core::net::Exceeded),
    /// A device is gone.
    Vanished {
        /// Its name.
        device: String,
        /// What the kernel said.
        reason: String,
    },
}

/// How late datagrams were.
#[derive(Default)]
pub(crate) struct Late {
    times: Histogram,
    over: u64,
}

impl Late {
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

/// What the loop counted.
#[derive(Default)]
pub(crate) struct Counts {
    /// Of datagrams that left.
    pub(crate) late: Late,
    /// Of datagrams that came in.
    pub(crate) waited: Late,
    /// The longest time that passed from when the loop should have looked at the devices until it did.
    pub(crate) stall: Time,
    /// Datagrams that the kernel did not take.
    pub(crate) refused: u64,
    /// What a kernel dropped because its device was full, if that is known.
    pub(crate) overruns: Option<u64>,
    /// Frames from attached devices that were longer than the MTU.
    pub(crate) oversized: u64,
    /// Datagrams for hosts behind attached devices of which nobody said where they are.
    pub(crate) unanswered: u64,
    pub(crate) effort: Effort,
    /// How long it ran.
    pub(crate) elapsed: Time,
    /// Why it has no real-time priority, if it has none.
    pub(crate) unhurried: Option<HostError>,
}

/// What the ports of a network are joined to.
pub(crate) struct Edge {
    /// Each at the port of its place in the list.
    pub(crate) devices: Vec<Device>,
    /// Where frames go.
    pub(crate) switch: Switch,
    /// Devices are told when links go down and up, if they are to be.
    pub(crate) carrier: Option<Carrier>,
}

/// Carries datagrams and frames between the devices and the network, until `end` or until `stop` is set. The clock has just been started.
pub(crate) fn carry<O: Observer>(
    network: &mut Network,
    observer: &mut O,
    Edge { devices, switch, carrier }: &mut Edge,
    (conversations, watch): (&mut Conversations, &mut Watch),
    (clock, end): (Clock, Time),
    stop: &AtomicBool,
) -> (Ending, Counts) {
    let mut counts = Counts { unhurried: hurry().err(), ..Counts::default() };
    let start = Effort::so_far();
    let mut polled: Vec<PollFd<'_>> = devices.iter().map(|d| PollFd::new(d.as_fd(), PollFlags::POLLIN)).collect();
    let mut sleeper = Sleeper::new(clock);
    let mut buffer = vec![0; LONGEST];
    // When each device was last looked at, and up to when the network has been waked.
    let (mut looked, mut woken) = (vec![Time::ZERO; devices.len()], Time::ZERO);
    let mut seen = clock.now();
    let told = || stop.load(Ordering::Relaxed);
    let ending = loop {
        let until = network.next_wake().min(end).min(watch.next_wake());
        let wake = match sleeper.sleep(&mut polled, until) {
            Ok(wake) => wake,
            Err(e) => break Ending::Vanished { device: "of all nodes".into(), reason: e.to_string() },
        };
        // Where the network has more to do than there is time, it is still to end when it is told to.
        while woken < wake.at && !told() {
            woken = (woken + LONGEST_STEP).min(wake.at);
            network.wake_observed(woken, observer);
        }
        watch.wake(woken, (network, switch, conversations), observer);
        if let Some(carrier) = carrier {
            carrier.look(network);
        }
        // Since it should have looked, or since it last did: taking in and handing over take time, too.
        let now = clock.now();
        counts.stall = counts.stall.max(now.saturating_sub(wake.due.max(seen)));
        seen = now;
        let taken = polled.iter().zip(&*devices).enumerate().try_for_each(|(port, (polled, device))| {
            // A ready descriptor that gives nothing is one without a device.
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
                    Ok(false) if gone => return Err((device, "it is not there any more".into())),
                    Ok(false) => break,
                    Err(e) => return Err((device, e.to_string())),
                }
            }
            Ok(())
        });
        if let Err((device, reason)) = taken {
            break Ending::Vanished { device: device.name.clone(), reason };
        }
        let now = clock.now();
        // What has waited for an address of Ethernet was there before what is due now.
        hand_over(switch, devices, conversations, &mut counts, now);
        while let Some(out) = network.transmit_observed(now, observer) {
            let late = clock.now().saturating_sub(out.due);
            counts.late.record(late);
            watch.late(late);
            let Some(bytes) = switch.transmit(now, &out) else { continue };
            // A device that is down takes nothing, as an interface that is.
            if devices[out.port].send(bytes).is_ok() {
                let datagram = if out.is_frame { datagram(&out.datagram) } else { &out.datagram };
                conversations.received(out.due, out.since, datagram);
            } else {
                counts.refused += 1;
            }
        }
        hand_over(switch, devices, conversations, &mut counts, now);
        if let Some(limit) = network.exceeded() {
            break Ending::Exceeded(limit);
        }
        if now >= end {
            break Ending::Over;
        }
        if told() || observer.stop() {
            break Ending::Stopped;
        }
    };
    counts.unanswered = switch.unanswered();
    counts.effort = Effort::so_far().since(start);
    counts.elapsed = clock.now();
    (ending, counts)
}

/// Sends what the switch has to send by itself.
fn hand_over(
    switch: &mut Switch,
    devices: &[Device],
    conversations: &mut Conversations,
    counts: &mut Counts,
    now: Time,
) {
    while let Some(Ready { port, frame, waited }) = switch.next() {
        match (devices[port].send(&frame), waited) {
            (Ok(()), Some(out)) => conversations.received(now, out.since, &out.datagram),
            (Err(_), Some(_)) => counts.refused += 1,
            (_, None) => {}
        }
    }
}

/// Datagrams that are taken from a device before what is due is looked at again: some 50 us of work.
const BATCH: usize = 16;
/// Bytes of the longest datagram or frame, and more.
const LONGEST: usize = (1 << 16) + 64;
const LATE: Time = Time::from_millis(1);
/// The network is waked for no more time than this at once.
const LONGEST_STEP: Time = Time::from_millis(5);
