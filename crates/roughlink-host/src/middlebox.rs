//! Elements on the path of packets between two sides, gateways and split-TCP proxies: between two Ethernet devices, or
//! at two netfilter queues of a router or host. Both places look the same to the element. Packets of port 0 come from
//! the inner side and travel outward; packets of port 1 come from the outer side.
//!
//! Between two devices, this program is the only path: no packet passes before it starts and after it ends. At queues,
//! the kernel forwards packets itself while no program reads them (`--queue-bypass`).

use crate::attached::mtu;
use crate::device::Device;
use crate::error::{HostError, LostDevice};
use crate::event_loop::Loop;
use crate::namespace::Namespace;
use crate::verdict::PacketVerdict;
use roughlink_core::gateway::bytes::{FrameCounters, FrameGateway, Framing};
use roughlink_core::gateway::{Gateway, Heading, SegmentVerdict};
use roughlink_core::pep::{Proxy, ProxyVerdict};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;

/// Element on the path between two sides (a middlebox, RFC 3234), with the verbs of every element.
pub trait Middlebox {
    /// Processes a frame or datagram, which it may change in place.
    fn receive(&mut self, now: Time, heading: Heading, datagram: &mut Datagram<&mut [u8]>) -> Passage;
    /// Writes the next frame or datagram that the element sends into `bytes`, which is empty, and returns its
    /// direction.
    fn transmit(&mut self, now: Time, bytes: &mut Vec<u8>) -> Option<Heading>;
    /// Runs the timers that are due.
    fn wake(&mut self, now: Time);
    /// Returns when to call `wake`; [`Time::MAX`] = never.
    fn next_wake(&self) -> Time;
}

/// Decision of a middlebox about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// Forward the packet as it was.
    Unchanged,
    /// Forward the packet with the changed bytes.
    Changed,
    /// Forward nothing.
    Stopped,
}

/// Open devices for a middlebox.
pub struct PathDevices {
    devices: [Device; 2],
    framing: Framing,
    mtu: u16,
}

impl PathDevices {
    /// Opens two Ethernet devices of a namespace. No bridge may connect them.
    ///
    /// # Errors
    /// Returns an error if a device is missing or unfit, or if the permission is missing.
    pub fn between(namespace: &Namespace, [inner, outer]: [&str; 2]) -> Result<Self, HostError> {
        // A frame may not be longer than the smaller MTU.
        let mtu = [inner, outer].into_iter().filter_map(|name| namespace.within(|| mtu(name)).ok()?).min();
        let mtu = mtu.unwrap_or(ETHERNET_MTU);
        let attach = |name| Device::attach(namespace, name, mtu);
        Ok(PathDevices { devices: [attach(inner)?, attach(outer)?], framing: Framing::Ethernet, mtu })
    }

    /// Opens two netfilter queues of a namespace. Packets from the inner side are in `outward`, packets to it in
    /// `inward`.
    ///
    /// # Errors
    /// Returns an error if another program reads a queue, or if the permission is missing.
    pub fn queues(namespace: &Namespace, [outward, inward]: [u16; 2]) -> Result<Self, HostError> {
        let devices = [Device::queue(namespace, outward)?, Device::queue(namespace, inward)?];
        Ok(PathDevices { devices, framing: Framing::Ip, mtu: ETHERNET_MTU })
    }

    /// Returns the largest size of IP packets, bytes; at queues the MTU of Ethernet, since routes may change.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the first header of the packets.
    pub fn framing(&self) -> Framing {
        self.framing
    }
}

/// Loop that passes the packets of a place through a middlebox.
pub struct PacketPath {
    packets: Loop,
    framing: Framing,
    /// Frame of the middlebox itself.
    own: Vec<u8>,
}

impl PacketPath {
    /// Starts the loop, in the thread that will call [`PacketPath::turn`]: it gets real-time priority, if permitted.
    pub fn start(place: PathDevices) -> Self {
        PacketPath { packets: Loop::new(place.devices.into()), framing: place.framing, own: Vec::new() }
    }

    /// Returns the loop, for its time and counters.
    pub fn packets(&self) -> &Loop {
        &self.packets
    }

    /// Returns how many packets the kernel dropped, or forwarded past the queues, because the program read too late.
    pub fn missed(&self, namespace: &Namespace) -> u64 {
        self.packets.devices().iter().filter_map(|device| device.dropped(namespace)).sum()
    }

    /// Waits for packets or timers, for at most 20 ms. Passes the packets that have arrived through `middlebox`.
    /// Returns the time.
    ///
    /// # Errors
    /// Returns an error if a device no longer exists or cannot be read.
    pub fn turn(&mut self, middlebox: &mut dyn Middlebox) -> Result<Time, LostDevice> {
        let now = self.packets.wait(middlebox.next_wake())?;
        middlebox.wake(now);
        self.send(now, middlebox);
        let queued = self.framing == Framing::Ip;
        self.packets.take_in(|now, port, datagram| {
            let heading = if port == 0 { Heading::Outward } else { Heading::Inward };
            match middlebox.receive(now, heading, datagram) {
                Passage::Stopped => PacketVerdict::Drop,
                Passage::Unchanged if queued => PacketVerdict::Accept,
                Passage::Changed if queued => PacketVerdict::Replaced,
                Passage::Unchanged | Passage::Changed => PacketVerdict::Forward(1 - port),
            }
        })?;
        self.send(now, middlebox);
        Ok(now)
    }

    /// Sends what `middlebox` itself has ready.
    pub fn send(&mut self, now: Time, middlebox: &mut dyn Middlebox) {
        while let Some(heading) = middlebox.transmit(now, &mut self.own) {
            self.packets.send(usize::from(heading == Heading::Outward), &self.own);
            self.own.clear();
        }
    }
}

/// Default MTU of Ethernet devices, bytes.
const ETHERNET_MTU: u16 = 1500;

/// A gateway on real frames or datagrams.
#[derive(Debug)]
pub struct GatewayOnPath {
    /// The gateway.
    pub gateway: Box<dyn Gateway>,
    frames: FrameGateway,
}

impl GatewayOnPath {
    /// Creates the element for packets that begin with the header `framing`. If `dry_run`, the gateway decides, but no
    /// packet is changed, dropped or sent.
    pub fn new(gateway: Box<dyn Gateway>, framing: Framing, dry_run: bool) -> Self {
        let frames = FrameGateway::new(framing);
        GatewayOnPath { gateway, frames: if dry_run { frames.dry_run() } else { frames } }
    }

    /// Returns true if the decisions of the gateway are only counted.
    pub fn is_dry_run(&self) -> bool {
        self.frames.is_dry_run()
    }

    /// Returns the counters of packets.
    pub fn counters(&self) -> FrameCounters {
        self.frames.counters
    }
}

impl Middlebox for GatewayOnPath {
    fn receive(&mut self, now: Time, heading: Heading, datagram: &mut Datagram<&mut [u8]>) -> Passage {
        let changed = self.frames.counters.rewritten;
        match self.frames.receive(&mut *self.gateway, now, heading, datagram, None) {
            SegmentVerdict::Drop => Passage::Stopped,
            SegmentVerdict::Accept if self.frames.counters.rewritten > changed && !self.frames.is_dry_run() => {
                Passage::Changed
            }
            SegmentVerdict::Accept => Passage::Unchanged,
        }
    }
    fn transmit(&mut self, now: Time, bytes: &mut Vec<u8>) -> Option<Heading> {
        self.frames.transmit(&mut *self.gateway, now, bytes)
    }
    fn wake(&mut self, now: Time) {
        self.gateway.wake(now);
    }
    fn next_wake(&self) -> Time {
        self.gateway.next_wake()
    }
}

impl Middlebox for Proxy {
    fn receive(&mut self, now: Time, heading: Heading, datagram: &mut Datagram<&mut [u8]>) -> Passage {
        match Proxy::receive(self, now, heading, datagram) {
            ProxyVerdict::Forward => Passage::Unchanged,
            ProxyVerdict::Consumed => Passage::Stopped,
        }
    }
    fn transmit(&mut self, now: Time, bytes: &mut Vec<u8>) -> Option<Heading> {
        Proxy::transmit(self, now, bytes)
    }
    fn wake(&mut self, now: Time) {
        Proxy::wake(self, now);
    }
    fn next_wake(&self) -> Time {
        Proxy::next_wake(self)
    }
}
