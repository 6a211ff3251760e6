//! Dialogues: applications whose two ends exchange data over one TCP connection, in both directions at any time. A
//! dialogue is the state of both ends, without I/O: an end writes a number of bytes and reacts to the number that has
//! arrived. Messages with content become bytes when they leave the network.

use super::ApplicationResult;
use super::request::v2gtp::OutgoingMessages;
use crate::units::Time;
use crate::wire::Addresses;

/// Action of one end, performed by the caller of [`Dialogue::transmit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a datagram with this many bytes of UDP payload to the peer.
    Datagram(u16),
    /// Open the connection.
    Connect,
    /// Write this many bytes to the connection, once it is open and its send buffer has room.
    Write(u64),
    /// Close the connection after the written data.
    Close,
}

/// Progress of the connecting end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialogueState {
    Closed,
    Connecting,
    Connected,
    Closing,
}

/// Behavior of two ends over one connection: end 0 connects, end 1 listens. After any other `&mut self` method, call
/// [`Dialogue::transmit`] for each end inside the network until it returns `None`.
pub trait Dialogue {
    /// Returns when the dialogue must be woken; [`Time::MAX`] = never.
    fn next_wake(&self) -> Time;
    /// Processes timers due at `now`.
    fn wake(&mut self, _now: Time) {}
    /// Returns the next action of `end` that is due at `now`.
    fn transmit(&mut self, now: Time, end: usize) -> Option<Action>;
    /// Handles the completion of the handshake at end 0.
    fn connected(&mut self, _now: Time) {}
    /// Handles in-order delivery to `end`; `bytes` is the total since the connection began and may be unchanged.
    fn received(&mut self, _now: Time, _end: usize, _bytes: u64) {}
    /// Handles the close of the connection by the peer of `end` (`by_peer`), or the failure of the connection. Called
    /// at most once for each end.
    fn closed(&mut self, now: Time, end: usize, by_peer: bool);
    /// Handles a write to a peer outside for which the send buffer has no room. Returns true to queue the data, false
    /// to discard it.
    fn overflowed(&mut self, _now: Time, _end: usize) -> bool {
        true
    }
    /// Returns the end whose deliveries count as the flow's; `None` if the deliveries of both ends count.
    fn sink(&self) -> Option<usize>;
    /// Returns true if the dialogue has ended, given the bytes `delivered` to the sink.
    fn is_over(&self, delivered: u64) -> bool;
    /// Returns true if [`Dialogue::is_over`] can become true.
    fn has_end(&self) -> bool {
        true
    }
    /// Returns the results so far, if there are any beyond those of all flows.
    fn result(&self) -> Option<ApplicationResult> {
        None
    }
    /// Returns the memory of its records, bytes.
    fn bytes(&self) -> usize {
        0
    }
    /// Returns the messages that `end` has written and its peer has not read, if messages have content and `end` is
    /// inside the network.
    fn messages(&self, _end: usize) -> Option<&OutgoingMessages> {
        None
    }
    /// Handles `bytes` delivered in order to `end` from a peer outside the network.
    fn read(&mut self, _now: Time, _end: usize, _bytes: &[u8]) {}
    /// Drops the messages of `end` that lie within the first `bytes` bytes of its stream, which a peer outside has
    /// acknowledged.
    fn acknowledged(&mut self, _end: usize, _bytes: u64) {}
    /// Returns the payload of a datagram from `end`.
    fn datagram(&self, _end: usize, _addresses: &Addresses) -> Option<Vec<u8>> {
        None
    }
    /// Returns true if a datagram from outside to `end` has the expected payload.
    fn accepts_datagram(&self, _end: usize, _payload: &[u8]) -> bool {
        false
    }
    /// Handles a datagram from the peer that has reached `end`.
    fn receive_datagram(&mut self, _now: Time, _end: usize) {}
}
