//! Real-time loop over packet devices: waits for time or packets, hands packets in and out, and measures its lateness.
//! A program calls the three methods repeatedly and connects them to a network, a gateway or an endpoint.
//!
//! ```no_run
//! use roughlink_core::units::Time;
//! use roughlink_host::{Device, Loop, Namespace, PacketVerdict};
//!
//! let here = Namespace::here()?;
//! let mut packets = Loop::new(vec![Device::attach(&here, "eth0", 1500)?, Device::attach(&here, "eth1", 1500)?]);
//! loop {
//!     packets.wait(Time::MAX)?;
//!     packets.take_in(|_, port, _| PacketVerdict::Forward(1 - port))?;
//! }
//! # Ok::<(), roughlink_host::HostError>(())
//! ```
//!
//! [`Lateness`] reports how late packets leave: the time from when a packet was due until the kernel gets it. The time
//! that a packet waited before it was read is reported separately. It counts from the loop's last look at the device
//! or, if the loop slept, from when it should have run. A packet behind others in the device's queue may have waited
//! longer. Neither figure includes the time in system calls: over a link without delay an echo takes some 20 us more
//! than over a loopback device.

use crate::device::Device;
use crate::error::LostDevice;
use crate::joining::PacketRun;
use crate::realtime::{Effort, MonotonicClock, Sleeper, WakeUp, raise_priority};
use crate::verdict::PacketVerdict;
use nix::poll::{PollFd, PollFlags};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd as _;

/// Lateness of datagrams, us. Quantiles above 1 us are within 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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

/// Counters of a loop.
#[derive(Clone, Debug)]
pub struct LoopCounters {
    /// Lateness of packets handed over; `None` if there were none.
    pub lateness: Option<Lateness>,
    /// Minimum waiting time of packets taken in; `None` if there were none.
    pub waited: Option<Lateness>,
    /// Longest time from when the loop should have looked at the devices until it did.
    pub stall: Time,
    /// Packets that a kernel rejected because its device was down or full.
    pub refused: u64,
    /// Packets above the MTU, or joined in a way that cannot be divided.
    pub oversized: u64,
    /// Processor time of the loop.
    pub effort: Effort,
    /// Time since the start.
    pub elapsed: Time,
    /// Error that denied the loop real-time priority, if any.
    pub unhurried: Option<String>,
}

/// Real-time loop over packet devices. The thread that creates it must call its methods: that thread gets real-time
/// priority, if permitted.
pub struct Loop {
    clock: MonotonicClock,
    sleeper: Sleeper,
    devices: Vec<Device>,
    /// Events of each device as of the last wait, and the time of the last look at it.
    ready: Vec<(PollFlags, Time)>,
    buffer: Vec<u8>,
    wake: WakeUp,
    /// Time of the last look at the devices.
    seen: Time,
    late: LatenessHistogram,
    waited: LatenessHistogram,
    stall: Time,
    refused: u64,
    unhurried: Option<String>,
    start: Effort,
}

impl Loop {
    /// Creates the loop and starts its clock. The number of a device in the list is its port.
    pub fn new(devices: Vec<Device>) -> Self {
        Loop::with_clock(devices, MonotonicClock::start())
    }

    pub(crate) fn with_clock(devices: Vec<Device>, clock: MonotonicClock) -> Self {
        let unhurried = raise_priority().err().map(|e| e.with_cause());
        Loop {
            clock,
            sleeper: Sleeper::new(clock),
            ready: vec![(PollFlags::empty(), Time::ZERO); devices.len()],
            devices,
            buffer: vec![0; LONGEST],
            wake: WakeUp { due: Time::ZERO, at: Time::ZERO },
            seen: clock.now(),
            late: LatenessHistogram::default(),
            waited: LatenessHistogram::default(),
            stall: Time::ZERO,
            refused: 0,
            unhurried,
            start: Effort::current_thread(),
        }
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Waits until `until` or until a device has a packet, but for at most 20 ms, so that the caller can look for
    /// requests to stop. Returns the time.
    ///
    /// # Errors
    /// Returns an error if waiting for the devices fails.
    pub fn wait(&mut self, until: Time) -> Result<Time, LostDevice> {
        let mut polled: Vec<PollFd<'_>> =
            self.devices.iter().map(|device| PollFd::new(device.as_fd(), PollFlags::POLLIN)).collect();
        let wake = self.sleeper.sleep(&mut polled, until).map_err(|e| LostDevice {
            device: self.devices.iter().map(|device| &*device.name).collect::<Vec<_>>().join(", "),
            reason: e.to_string(),
        })?;
        for (ready, polled) in self.ready.iter_mut().zip(&polled) {
            ready.0 = polled.revents().unwrap_or(PollFlags::empty());
        }
        self.wake = wake;
        Ok(wake.at)
    }

    /// Passes packets that have arrived to `handle`, with the time and the port; at most a few per device, so that the
    /// caller can look for due events again. Checksums are complete, and joined packets are divided.
    ///
    /// # Errors
    /// Returns an error if a device no longer exists or cannot be read.
    pub fn take_in(
        &mut self,
        mut handle: impl FnMut(Time, usize, &mut Datagram<&mut [u8]>) -> PacketVerdict,
    ) -> Result<(), LostDevice> {
        let Loop { clock, devices, ready, buffer, wake, waited, late, refused, .. } = self;
        // Count from when the loop should have looked, or from its last look: reading and sending take time, too.
        let now = clock.now();
        self.stall = self.stall.max(now.saturating_sub(wake.due.max(self.seen)));
        self.seen = now;
        for (port, (device, (events, looked))) in devices.iter().zip(ready).enumerate() {
            // A ready descriptor without data has lost its device.
            let gone = events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL);
            let since = wake.due.max(*looked);
            *looked = wake.at;
            let mut room = if events.is_empty() { 0 } else { BATCH };
            while room > 0 {
                let (mut taken, mut read) = (0, None);
                let received = device.receive(buffer, &mut |datagram| {
                    // Joined packets have arrived together.
                    let now = *read.get_or_insert_with(|| clock.now());
                    *looked = now;
                    taken += 1;
                    waited.record(now.saturating_sub(since));
                    let verdict = handle(now, port, datagram);
                    if let PacketVerdict::Forward(to) = verdict {
                        late.record(clock.now().saturating_sub(now));
                        *refused += u64::from(devices[to].send(datagram.bytes()).is_err());
                    }
                    verdict
                });
                room = room.saturating_sub(taken.max(1));
                let reason = match received {
                    Ok(true) => continue,
                    Ok(false) if gone => "it no longer exists".into(),
                    Ok(false) => break,
                    Err(e) => e.to_string(),
                };
                return Err(LostDevice { device: device.name.clone(), reason });
            }
        }
        Ok(())
    }

    /// Hands a packet that was due at `due` to the kernel at `port`. Returns its lateness; `None` if the kernel
    /// rejected it, as a device that is down does.
    pub fn hand_over(&mut self, port: usize, due: Time, bytes: &[u8]) -> Option<Time> {
        let late = self.clock.now().saturating_sub(due);
        self.late.record(late);
        self.send(port, bytes).then_some(late)
    }

    /// Hands packets of a network to the kernel. Returns the time; `None` if the kernel rejected them.
    pub(crate) fn hand_over_run(&mut self, run: &PacketRun) -> Option<Time> {
        let [first, ..] = run.packets() else { return None };
        let now = self.clock.now();
        run.packets().iter().for_each(|out| self.late.record(now.saturating_sub(out.due)));
        let accepted = run.write(|parts| self.devices[first.port].send_parts(parts)).is_ok();
        self.refused += if accepted { 0 } else { run.packets().len() as u64 };
        accepted.then_some(now)
    }

    /// Hands a packet that was due at no certain time to the kernel at `port`. Returns false if the kernel rejected it.
    pub fn send(&mut self, port: usize, bytes: &[u8]) -> bool {
        let accepted = self.devices[port].send(bytes).is_ok();
        self.refused += u64::from(!accepted);
        accepted
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> LoopCounters {
        LoopCounters {
            lateness: self.late.lateness(),
            waited: self.waited.lateness(),
            stall: self.stall,
            refused: self.refused,
            oversized: self.devices.iter().map(Device::oversized).sum(),
            effort: Effort::current_thread().since(self.start),
            elapsed: self.clock.now(),
            unhurried: self.unhurried.clone(),
        }
    }
}

/// Number of packets from a device after which the caller looks for due events again: some 50 us of work. A read of
/// joined packets is taken in completely.
const BATCH: usize = 16;
/// Buffer size, bytes: more than the largest datagram or frame, with the attributes of a netfilter queue.
const LONGEST: usize = (1 << 16) + 1024;
const LATE: Time = Time::from_millis(1);
