//! The loop that carries datagrams between kernels and the network, in real time.
//!
//! It sleeps until the network has something to do or a device has something to give. Then it first replays what was due, each
//! event at its own time, and only then takes in what has come, so that being late does not change what happens. What leaves is late by what
//! [`Lateness`] reports: the time from when a datagram was due until the kernel is given it. The way into the loop and out of it is not
//! in it: over a link without delay an echo takes some 20 us more than over a loopback device.

use crate::device::Device;
use crate::error::HostError;
use crate::realtime::{Clock, Effort, Sleeper, hurry};
use nix::poll::{PollFd, PollFlags};
use roughlink_core::net::{Network, Observer};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use serde::Serialize;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// How late datagrams were that left the network, us. Quantiles are within 1 % where they exceed 1 us.
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

/// What the loop counted.
pub(crate) struct Counts {
    lateness: Histogram,
    late: u64,
    /// Datagrams that the kernel did not take.
    pub(crate) refused: u64,
    pub(crate) effort: Effort,
    /// How long it ran.
    pub(crate) elapsed: Time,
    /// Why it has no real-time priority, if it has none.
    pub(crate) unhurried: Option<HostError>,
}

impl Counts {
    pub(crate) fn lateness(&self) -> Option<Lateness> {
        let us = |ns: f64| ns / 1e3;
        Some(Lateness {
            p50: us(self.lateness.quantile(0.5)?),
            p99: us(self.lateness.quantile(0.99)?),
            max: us(self.lateness.max()? as f64),
            over_1ms: self.late as f64 / self.lateness.count() as f64,
        })
    }
}

/// Carries datagrams between the devices, each at the port of its place in the list, and the network, until `end` or until `stop`
/// is set. The clock has just been started.
pub(crate) fn carry<O: Observer>(
    network: &mut Network,
    observer: &mut O,
    devices: &[Device],
    (clock, end): (Clock, Time),
    stop: &AtomicBool,
) -> (Ending, Counts) {
    let unhurried = hurry().err();
    let start = Effort::so_far();
    let mut counts = Counts {
        lateness: Histogram::default(),
        late: 0,
        refused: 0,
        effort: Effort::default(),
        elapsed: Time::ZERO,
        unhurried,
    };
    let mut polled: Vec<PollFd<'_>> = devices.iter().map(|d| PollFd::new(d.as_fd(), PollFlags::POLLIN)).collect();
    let mut sleeper = Sleeper::new(clock);
    let mut buffer = vec![0; LONGEST];
    let ending = loop {
        if let Err(e) = sleeper.sleep(&mut polled, network.next_wake().min(end)) {
            break Ending::Vanished { device: "of all nodes".into(), reason: e.to_string() };
        }
        network.wake_observed(clock.now(), observer);
        let taken = polled.iter().zip(devices).enumerate().try_for_each(|(port, (polled, device))| {
            // A ready descriptor that gives nothing is one without a device.
            let events = polled.revents().unwrap_or(PollFlags::empty());
            let gone = events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL);
            for _ in 0..if events.is_empty() { 0 } else { BATCH } {
                match device.receive(&mut buffer) {
                    Ok(Some(n)) => network.receive_observed(clock.now(), port, &buffer[..n], observer),
                    Ok(None) if gone => return Err((device, "it is not there any more".into())),
                    Ok(None) => break,
                    Err(e) => return Err((device, e.to_string())),
                }
            }
            Ok(())
        });
        if let Err((device, reason)) = taken {
            break Ending::Vanished { device: device.name.clone(), reason };
        }
        let now = clock.now();
        while let Some(out) = network.transmit_observed(now, observer) {
            let late = clock.now().saturating_sub(out.due);
            counts.lateness.record(late.0);
            counts.late += u64::from(late > LATE);
            // A device that is down takes nothing, as an interface that is.
            if devices[out.port].send(&out.datagram).is_err() {
                counts.refused += 1;
            }
        }
        if let Some(limit) = network.exceeded() {
            break Ending::Exceeded(limit);
        }
        if now >= end {
            break Ending::Over;
        }
        if stop.load(Ordering::Relaxed) || observer.stop() {
            break Ending::Stopped;
        }
    };
    counts.effort = Effort::so_far().since(start);
    counts.elapsed = clock.now();
    (ending, counts)
}

/// Datagrams that are taken from a device before what is due is looked at again: some 50 us of work.
const BATCH: usize = 16;
/// Bytes of the longest datagram.
const LONGEST: usize = 1 << 16;
const LATE: Time = Time::from_millis(1);
