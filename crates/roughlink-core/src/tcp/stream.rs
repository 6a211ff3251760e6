//! A connection that carries real bytes in IP datagrams: bytes written at one end are read at the other.
//!
//! A [`TcpEndpoint`] works on stream ranges. This module holds the bytes written and not yet acknowledged, and the
//! bytes received and not yet read, in order or beyond a gap. The [`TcpConfig`] sets the size of both buffers. A write
//! accepts only as many bytes as fit. If the application does not read, the window offered to the peer closes.
//!
//! ```
//! use roughlink_core::cc::default_factory;
//! use roughlink_core::event::Event;
//! use roughlink_core::tcp::{Stack, Stream, TcpConfig};
//! use roughlink_core::units::Time;
//! use roughlink_core::wire::{Addresses, IpPair};
//!
//! let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
//! let addresses = Addresses { ip, src_port: 40_000, dst_port: 7 };
//! let mut a = Stream::new(addresses, TcpConfig::preset(Stack::Linux), default_factory(), 1);
//! let mut b = Stream::new(addresses.reversed(), TcpConfig::preset(Stack::Linux), default_factory(), 2);
//! a.connect();
//! b.listen();
//! assert_eq!(a.write(b"a charger"), 9);
//! let (now, mut datagram) = (Time::ZERO, Vec::new());
//! for _ in 0..4 {
//!     while a.transmit(now, &mut datagram) {
//!         b.receive(now, &datagram);
//!     }
//!     while b.transmit(now, &mut datagram) {
//!         a.receive(now, &datagram);
//!     }
//! }
//! assert_eq!((b.poll_event(), b.poll_event()), (Some(Event::Connected), Some(Event::Readable)));
//! let mut text = [0; 20];
//! assert_eq!(b.read(&mut text), 9);
//! assert_eq!(&text[..9], b"a charger");
//! ```

use super::unread::{copy, release_memory};
use super::{ConnectionState, TcpConfig, TcpEndpoint, Unread, unwrap};
use crate::cc::{self, LinkEvent};
use crate::event::{Event, Events};
use crate::packet::{FlowId, Packet, Protocol, Sides};
use crate::units::Time;
use crate::wire::{self, Addresses, Decoded, IpFields, Payload};
use std::collections::VecDeque;
use std::sync::Arc;

/// One end of a connection of real bytes, with the verbs of [`crate`]. Datagrams are whole IPv4 or IPv6 datagrams.
pub struct Stream {
    endpoint: TcpEndpoint,
    addresses: Addresses,
    fields: IpFields,
    sides: Sides,
    /// Bytes written, from the first unacknowledged one.
    written: VecDeque<u8>,
    /// Bytes of `written` not yet passed to the endpoint, before the handshake is over.
    waiting: usize,
    closed: bool,
    /// Stream offset of the first byte in `written`.
    from: u64,
    arrived: Unread,
    /// Set if a write was short.
    short: bool,
    events: Events,
}

impl Stream {
    /// Creates a closed end whose datagrams go from the source to the destination of `addresses`. The initial sequence
    /// number `iss` should be unpredictable (RFC 6528).
    pub fn new(addresses: Addresses, cfg: impl Into<Arc<TcpConfig>>, factory: cc::Factory, iss: u32) -> Self {
        let mut endpoint = TcpEndpoint::new(FlowId::new(0, false), cfg.into(), factory, iss);
        endpoint.rcv.read_by_hand();
        Stream {
            endpoint,
            addresses,
            fields: IpFields::default(),
            sides: Sides::default(),
            written: VecDeque::new(),
            waiting: 0,
            closed: false,
            from: 0,
            arrived: Unread::default(),
            short: false,
            events: Events::default(),
        }
    }

    /// Opens actively: a SYN will leave.
    pub fn connect(&mut self) {
        self.endpoint.connect();
    }

    /// Opens passively: answers the peer's SYN.
    pub fn listen(&mut self) {
        self.endpoint.listen();
    }

    /// Writes as much of `bytes` as fits and returns the number of bytes; 0 once this end has closed.
    #[must_use = "only this many bytes were accepted"]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if self.closed || self.endpoint.failed() {
            return 0;
        }
        let n = bytes.len().min(self.room());
        self.written.extend(&bytes[..n]);
        self.waiting += n;
        self.short |= n < bytes.len();
        self.write_pending();
        n
    }

    /// Reads bytes received in order into `out` and returns their number.
    #[must_use = "only this many bytes are filled"]
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let n = out.len().min(self.endpoint.rcv.unread() as usize);
        self.arrived.read(&mut out[..n]);
        self.endpoint.rcv.on_read(n as u64);
        n
    }

    /// Gives a datagram of this stream that routers may fragment the next identification after `last`. Fragments of
    /// different datagrams must differ, across connections (RFC 6864 section 4.3).
    pub(crate) fn identify(&self, datagram: &mut [u8], last: &mut u16) {
        if !self.fields().dont_fragment && self.addresses().ip.is_v4() {
            *last = last.wrapping_add(1);
            wire::set_ident(datagram, *last);
        }
    }

    /// Moves bytes received in order to the send buffer of `to`, as many as fit, and returns their number.
    pub(crate) fn pass(&mut self, to: &mut Stream) -> usize {
        if to.closed || to.endpoint.failed() {
            return 0;
        }
        let n = to.room().min(self.endpoint.rcv.unread() as usize);
        if n > 0 {
            self.arrived.pass(n, &mut to.written);
            self.endpoint.rcv.on_read(n as u64);
            to.waiting += n;
            to.write_pending();
        }
        n
    }

    /// Ends writing: a FIN follows the written data, once the handshake is over.
    pub fn close(&mut self) {
        self.closed = true;
        self.write_pending();
    }

    /// Returns the next event, in order of occurrence.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.poll()
    }

    /// Returns the endpoint, for inspection.
    pub fn endpoint(&self) -> &TcpEndpoint {
        &self.endpoint
    }

    /// Returns true if all written data has been acknowledged and both ends have closed, or the connection has failed.
    pub fn is_done(&self) -> bool {
        self.endpoint.is_done() && self.endpoint.state() != ConnectionState::Listen
    }

    /// Handles a datagram. Returns true if it is whole, with this connection's addresses and right checksums.
    pub fn receive(&mut self, now: Time, datagram: &[u8]) -> bool {
        let ours = wire::decode_of(datagram, Protocol::Tcp, &self.addresses.reversed());
        let Some(decoded) = ours else { return false };
        self.receive_segment(now, decoded, datagram);
        true
    }

    /// Handles a segment of this connection, decoded from `datagram`.
    pub(crate) fn receive_segment(&mut self, now: Time, decoded: Decoded, datagram: &[u8]) {
        let payload = decoded.payload.clone();
        let unread = self.endpoint.rcv.unread();
        self.arrived.keep(now, &self.endpoint, &decoded.packet, &datagram[payload]);
        let packet = decoded.into_packet(datagram, FlowId::new(0, true), &mut self.sides);
        self.endpoint.receive(now, &packet, &self.sides);
        self.sides.free(&packet);
        self.forget_acknowledged();
        self.write_pending();
        if unread == 0 && self.endpoint.rcv.unread() > 0 {
            self.events.once(Event::Connected);
            self.events.push(Event::Readable);
        }
        self.notice();
    }

    /// Replaces the content of `out` with the next datagram to send; call until it returns false.
    #[must_use = "without a datagram `out` is not to be sent"]
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some(p) = self.endpoint.transmit(now, &mut self.sides) else { return false };
        let length = p.payload() as usize;
        let una = self.una();
        // Offset 0 of the sequence space is the SYN.
        let start = if length == 0 { 0 } else { (unwrap(una + 1, p.seq, self.endpoint.iss) - 1 - una) as usize };
        let part = BufferSlice { bytes: &self.written, start, length };
        let written = wire::encode_with(self.fields, &p, self.sides.get(&p), &self.addresses, &part, out);
        self.sides.free(&p);
        debug_assert_eq!(written, Ok(()), "a TCP segment has a form on the wire");
        true
    }

    /// Processes timers due at `now`; packets may leave.
    pub fn wake(&mut self, now: Time) {
        self.endpoint.wake(now);
        self.notice();
    }

    /// Returns when the connection must be woken; [`Time::MAX`] = never.
    pub fn next_wake(&self, now: Time) -> Time {
        self.endpoint.next_wake(now)
    }

    /// Aborts the connection. Returns the reset for the peer, if one must be sent.
    pub(crate) fn abort(&mut self, now: Time) -> Option<Packet> {
        (self.written, self.waiting) = (VecDeque::new(), 0);
        self.endpoint.abort(now)
    }

    /// Ends an attempt to connect, because the network reports the peer unreachable.
    pub(crate) fn refuse_connection(&mut self, now: Time) {
        self.endpoint.refuse_connection(now);
        self.notice();
    }

    /// Sets the largest MSS that fits the path, and the IP header fields with which segments leave; see
    /// [`TcpEndpoint::set_path_mss`].
    pub(crate) fn set_path(&mut self, mss: u32, fields: IpFields, lost: bool) {
        self.fields = fields;
        self.endpoint.set_path_mss(mss, lost);
    }

    pub(crate) fn fields(&self) -> IpFields {
        self.fields
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the bytes received in order and not yet read.
    pub(crate) fn unread(&self) -> u64 {
        self.endpoint.rcv.unread()
    }

    /// Returns the memory of both buffers, bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.written.capacity() + self.arrived.bytes()
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Handles a link event at this host; packets may leave.
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.endpoint.on_link(now, event);
    }

    fn room(&self) -> usize {
        (self.endpoint.cfg.send_buffer() as usize).saturating_sub(self.written.len())
    }

    fn una(&self) -> u64 {
        self.from
    }

    /// Passes written bytes and the close to the endpoint once its state permits.
    fn write_pending(&mut self) {
        if matches!(self.endpoint.state(), ConnectionState::Established | ConnectionState::CloseWait) {
            if self.waiting > 0 {
                self.endpoint.write(self.waiting as u64);
                self.waiting = 0;
            }
            if self.closed {
                self.endpoint.close();
            }
        }
    }

    fn forget_acknowledged(&mut self) {
        let una = self.endpoint.una();
        if una == 0 {
            return;
        }
        let acknowledged = (una - 1 - self.from).min(self.written.len() as u64); // without the FIN
        self.written.drain(..acknowledged as usize);
        self.from += acknowledged;
        release_memory(&mut self.written);
    }

    fn notice(&mut self) {
        if !matches!(
            self.endpoint.state(),
            ConnectionState::Closed | ConnectionState::Listen | ConnectionState::SynSent | ConnectionState::SynReceived
        ) {
            self.events.once(Event::Connected);
        }
        if self.short && self.room() > 0 && !self.closed {
            self.short = false;
            self.events.push(Event::Writable);
        }
        if self.endpoint.peer_closed() {
            self.events.once(Event::PeerClosed);
        }
        if self.endpoint.failed() {
            self.events.once(Event::Failed);
        }
    }
}

/// Bytes of the send buffer as the payload of a segment.
struct BufferSlice<'s> {
    bytes: &'s VecDeque<u8>,
    start: usize,
    length: usize,
}

impl Payload for BufferSlice<'_> {
    fn bytes(&self) -> usize {
        self.length
    }
    fn fill(&self, from: usize, out: &mut [u8]) {
        copy(self.bytes, self.start + from, out);
    }
}
