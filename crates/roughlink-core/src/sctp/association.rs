//! An association that carries real messages in IP datagrams: each message written at one end is read at the other,
//! whole and in order within its stream. An [`SctpEndpoint`] handles only the lengths of messages; this module holds
//! the bytes of those not yet acknowledged or read. A message written fills at most one packet
//! ([`SctpConfig::payload`]). One from another implementation may span several and is read whole, so it must fit into
//! the buffer. If the application does not read, the window offered to the peer closes.
//!
//! ```
//! use roughlink_core::cc;
//! use roughlink_core::event::Event;
//! use roughlink_core::sctp::{Association, SctpConfig};
//! use roughlink_core::units::Time;
//! use roughlink_core::wire::{Addresses, IpPair};
//!
//! let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
//! let addresses = Addresses { ip, src_port: 40_000, dst_port: 7 };
//! let algorithm = || cc::algorithm("sctp").unwrap().default_factory("rfc");
//! let mut a = Association::new(addresses, SctpConfig::default(), algorithm(), 1);
//! let mut b = Association::new(addresses.reversed(), SctpConfig::default(), algorithm(), 2);
//! a.connect();
//! b.listen();
//! let (now, mut datagram) = (Time::ZERO, Vec::new());
//! let mut exchange = |a: &mut Association, b: &mut Association| {
//!     for _ in 0..4 {
//!         while a.transmit(now, &mut datagram) {
//!             b.receive(now, &datagram);
//!         }
//!         while b.transmit(now, &mut datagram) {
//!             a.receive(now, &datagram);
//!         }
//!     }
//! };
//! exchange(&mut a, &mut b);
//! assert_eq!(a.poll_event(), Some(Event::Connected));
//! assert_eq!(a.write(0, b"a charger"), Ok(true));
//! exchange(&mut a, &mut b);
//! let message = b.read().expect("it has arrived");
//! assert_eq!((message.stream, &message.bytes[..]), (0, &b"a charger"[..]));
//! ```

use super::receive::DeliveredMessage;
use super::{AssociationState, SctpConfig, SctpEndpoint};
use crate::cc::{self, LinkEvent};
use crate::event::{Event, Events};
use crate::packet::{Chunk, FlowId, Protocol, Sides};
use crate::tcp::unwrap;
use crate::units::Time;
use crate::wire::{self, Addresses};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum number of bytes that are written and not yet acknowledged: Linux's default (`net.core.wmem_default`).
pub const SEND_BUFFER: usize = 212_992;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Stream of the message.
    pub stream: u16,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Reasons why a message can never be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The handshake is not over, or this end or the peer has closed.
    #[error("the association is not open")]
    NotOpen,
    /// The two ends agreed on fewer streams.
    #[error("stream {stream} is out of range: the association has {agreed} streams")]
    Stream {
        /// Stream requested.
        stream: u16,
        /// Number of streams.
        agreed: u16,
    },
    /// The message is empty (RFC 9260 section 6.2) or does not fit into a packet.
    #[error("a message must have between 1 and {most} bytes to fit into a packet, found {bytes}")]
    Length {
        /// Length of the message.
        bytes: usize,
        /// Greatest length.
        most: u16,
    },
}

/// One end of an association with real messages and the verbs of [`crate`]; datagrams are whole IPv4 or IPv6 ones.
pub struct Association {
    endpoint: SctpEndpoint,
    addresses: Addresses,
    sides: Sides,
    /// Written messages by TSN from `from`, the first unacknowledged one; `bytes` is their total length.
    written: VecDeque<Vec<u8>>,
    from: u64,
    bytes: usize,
    /// Chunks that arrived and were not delivered, by TSN.
    arrived: BTreeMap<u64, Vec<u8>>,
    readable: VecDeque<Message>,
    closed: bool,
    /// Set if a message was refused because the buffer was full.
    refused: bool,
    events: Events,
}

impl Association {
    /// Creates a closed end whose datagrams go from the source to the destination of `addresses`. `tsn` is the initial
    /// TSN, from which the verification tag follows; it should be unpredictable. Each message leaves at least once:
    /// the [`lifetime`](SctpConfig::lifetime) of `cfg` does not apply.
    pub fn new(addresses: Addresses, cfg: impl Into<Arc<SctpConfig>>, factory: cc::Factory, tsn: u32) -> Self {
        let mut endpoint = SctpEndpoint::new(FlowId::new(0, false), cfg.into(), factory, tsn);
        endpoint.rcv.read_by_hand();
        Association {
            endpoint,
            addresses,
            sides: Sides::default(),
            written: VecDeque::new(),
            from: 1,
            bytes: 0,
            arrived: BTreeMap::new(),
            readable: VecDeque::new(),
            closed: false,
            refused: false,
            events: Events::default(),
        }
    }

    /// Opens actively: an INIT will leave.
    pub fn connect(&mut self) {
        self.endpoint.connect();
    }

    /// Opens passively: answers the peer's INIT.
    pub fn listen(&mut self) {
        self.endpoint.listen();
    }

    /// Returns the number of streams to write to; 0 before the end of the handshake.
    pub fn streams(&self) -> u16 {
        self.endpoint.streams()
    }

    /// Writes a message to `stream`; packets may leave. Returns false if the buffer is full, until [`Event::Writable`].
    ///
    /// # Errors
    /// Returns an error if the association is not open, there is no such stream, or the message is empty or too long.
    pub fn write(&mut self, stream: u16, message: &[u8]) -> Result<bool, WriteError> {
        let agreed = self.streams();
        let sender = self.endpoint.snd.as_mut().filter(|_| agreed > 0 && !self.closed).ok_or(WriteError::NotOpen)?;
        if stream >= agreed {
            return Err(WriteError::Stream { stream, agreed });
        }
        let most = self.endpoint.cfg.payload;
        let length = u16::try_from(message.len()).ok().filter(|n| (1..=most).contains(n));
        let length = length.ok_or(WriteError::Length { bytes: message.len(), most })?;
        if self.bytes > 0 && self.bytes + message.len() > SEND_BUFFER {
            self.refused = true;
            return Ok(false);
        }
        sender.write(stream, u32::from(length), Time::MAX); // never too old
        self.bytes += message.len();
        self.written.push_back(message.to_vec());
        Ok(true)
    }

    /// Returns the next message received. Call [`Association::transmit`] then, as a window update may leave.
    #[must_use = "the message is no longer buffered"]
    pub fn read(&mut self) -> Option<Message> {
        let message = self.readable.pop_front()?;
        self.endpoint.rcv.on_read(message.bytes.len() as u64, self.endpoint.cfg.payload);
        Some(message)
    }

    /// Ends writing: the shutdown follows the written data (RFC 9260 section 9.2); packets may leave. During the
    /// handshake the association is dropped silently.
    pub fn close(&mut self) {
        self.closed = true;
        self.endpoint.close();
    }

    /// Returns the next event, in order of occurrence.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.poll()
    }

    /// Returns the endpoint, for inspection.
    pub fn endpoint(&self) -> &SctpEndpoint {
        &self.endpoint
    }

    /// Returns true if both ends have closed, or the association failed or was never opened.
    pub fn is_done(&self) -> bool {
        self.endpoint.state() == AssociationState::Closed
    }

    /// Handles a datagram. Returns true if it belongs to this association: whole, right addresses and checksums.
    pub fn receive(&mut self, now: Time, datagram: &[u8]) -> bool {
        let mut next = wire::decode_of(datagram, Protocol::Sctp, &self.addresses.reversed());
        if next.is_none() {
            return false;
        }
        while let Some(chunk) = next {
            next = chunk.following(datagram).unwrap_or_default();
            let payload = chunk.payload.clone();
            let packet = chunk.into_packet(datagram, FlowId::new(0, true), &mut self.sides);
            self.endpoint.receive(now, &packet, &self.sides);
            self.sides.free(&packet);
            if let Some(tsn) = self.endpoint.rcv.take_arrived() {
                self.arrived.insert(tsn, datagram[payload].to_vec());
            }
            while let Some((first, last)) = self.endpoint.rcv.take_dropped() {
                (first..=last).for_each(|tsn| drop(self.arrived.remove(&tsn)));
            }
        }
        self.forget_acknowledged();
        self.notice();
        true
    }

    /// Replaces the content of `out` with the next datagram to send; call until it returns false.
    #[must_use = "without a datagram `out` is not to be sent"]
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some(p) = self.endpoint.transmit(now, &mut self.sides) else { return false };
        let message: &[u8] = if p.chunk() == Some(Chunk::Data) {
            let tsn = unwrap(self.from, p.seq, self.endpoint.tsn.wrapping_sub(1));
            &self.written[(tsn - self.from) as usize]
        } else {
            self.sides.carried(&p).unwrap_or_default()
        };
        let written = wire::encode(&p, self.sides.get(&p), &self.addresses, message, out);
        self.sides.free(&p);
        debug_assert_eq!(written, Ok(()), "an SCTP packet has a form on the wire");
        true
    }

    /// Processes timers due at `now`; packets may leave.
    pub fn wake(&mut self, now: Time) {
        self.endpoint.wake(now);
        self.notice();
    }

    /// Returns when the association must be woken; [`Time::MAX`] = never.
    pub fn next_wake(&self, now: Time) -> Time {
        self.endpoint.next_wake(now)
    }

    /// Handles a link event at this host; packets may leave.
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.endpoint.on_link(now, event);
    }

    fn forget_acknowledged(&mut self) {
        let Some(sender) = &self.endpoint.snd else { return };
        while self.from < sender.queue.first()
            && let Some(message) = self.written.pop_front()
        {
            self.from += 1;
            self.bytes -= message.len();
        }
        if self.refused && self.bytes < SEND_BUFFER / 2 && !self.closed && self.streams() > 0 {
            self.refused = false;
            self.events.push(Event::Writable);
        }
    }

    fn notice(&mut self) {
        if !matches!(
            self.endpoint.state(),
            AssociationState::Closed
                | AssociationState::Listen
                | AssociationState::CookieWait
                | AssociationState::CookieEchoed
        ) {
            self.events.once(Event::Connected);
        }
        let waiting = !self.readable.is_empty();
        while let Some(DeliveredMessage { stream, first, last, .. }) = self.endpoint.rcv.take_delivered() {
            let mut bytes = self.arrived.remove(&first).expect("what is delivered has arrived");
            for tsn in first + 1..=last {
                bytes.extend(self.arrived.remove(&tsn).expect("what is delivered has arrived"));
            }
            self.readable.push_back(Message { stream, bytes });
        }
        if !waiting && !self.readable.is_empty() {
            self.events.push(Event::Readable);
        }
        if self.endpoint.peer_closed() {
            self.events.once(Event::PeerClosed);
        }
        if self.endpoint.failed() {
            self.events.once(Event::Failed);
        }
    }
}
