//! Elements on the path of packets between two sides, such as gateways: between two Ethernet devices, or at two
//! netfilter queues of a router or host. Both places look the same to the element. Port 0 has the packets of the inner
//! side, which travel outward, and port 1 those of the outer side.
//!
//! Between two devices, this program is the only path: no packet passes before it starts and after it ends. At queues,
//! the kernel forwards packets itself while no program reads them (`--queue-bypass`).

use crate::device::Device;
use crate::error::{HostError, LostDevice};
use crate::event_loop::Loop;
use crate::namespace::Namespace;
use crate::verdict::PacketVerdict;
use roughlink_core::gateway::bytes::{FrameCounters, FrameGateway, Framing};
use roughlink_core::gateway::{Gateway, Heading, SegmentVerdict};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;

/// Element on the path between two sides (a middlebox, RFC 3234), with the verbs of every element.
pub trait Middlebox {
    /// Processes a frame or datagram, which it may change in place.
    fn receive(&mut self, now: Time, heading: Heading, datagram: &mut Datagram<&mut [u8]>) -> Passage;
    /// Appends the next frame or datagram of the element itself to `bytes` and returns its direction, if there is one.
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

/// Place of a middlebox on the path of real packets.
pub struct Path {
    packets: Loop,
    framing: Framing,
    /// Frame of the middlebox itself.
    own: Vec<u8>,
}

impl Path {
    /// Places a middlebox between two Ethernet devices of a namespace, for frames with at most `mtu` bytes of payload.
    ///
    /// # Errors
    /// Returns an error if a device is missing or unfit, or if the permission is missing.
    pub fn between(namespace: &Namespace, [inner, outer]: [&str; 2], mtu: u16) -> Result<Self, HostError> {
        let devices = vec![Device::attach(namespace, inner, mtu)?, Device::attach(namespace, outer, mtu)?];
        Ok(Path { packets: Loop::new(devices), framing: Framing::Ethernet, own: Vec::new() })
    }

    /// Places a middlebox at two netfilter queues of a namespace: `outward` has the packets of the inner side, `inward`
    /// those of the outer side.
    ///
    /// # Errors
    /// Returns an error if another program reads a queue, or if the permission is missing.
    pub fn queues(namespace: &Namespace, [outward, inward]: [u16; 2]) -> Result<Self, HostError> {
        let devices = vec![Device::queue(namespace, outward)?, Device::queue(namespace, inward)?];
        Ok(Path { packets: Loop::new(devices), framing: Framing::Ip, own: Vec::new() })
    }

    /// Returns the first header of the packets.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Returns the loop, for its counters.
    pub fn packets(&self) -> &Loop {
        &self.packets
    }

    /// Waits for packets or timers, for at most 20 ms, and passes what has arrived through `middlebox`. Returns the
    /// time.
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

    fn send(&mut self, now: Time, middlebox: &mut dyn Middlebox) {
        while let Some(heading) = middlebox.transmit(now, &mut self.own) {
            self.packets.send(usize::from(heading == Heading::Outward), &self.own);
            self.own.clear();
        }
    }
}

/// A gateway on real frames or datagrams.
#[derive(Debug)]
pub struct GatewayOnPath {
    /// The gateway.
    pub gateway: Box<dyn Gateway>,
    frames: FrameGateway,
    dry_run: bool,
}

impl GatewayOnPath {
    /// Creates the element for packets that begin with the header `framing`. If `dry_run`, the gateway decides, but no
    /// packet is changed, dropped or sent.
    pub fn new(gateway: Box<dyn Gateway>, framing: Framing, dry_run: bool) -> Self {
        let frames = FrameGateway::new(framing);
        GatewayOnPath { gateway, frames: if dry_run { frames.dry_run() } else { frames }, dry_run }
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
            SegmentVerdict::Accept if self.frames.counters.rewritten > changed && !self.dry_run => Passage::Changed,
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
