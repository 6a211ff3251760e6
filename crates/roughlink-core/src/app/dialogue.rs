//! Dialogues: applications whose two ends exchange data over one TCP connection, at any time and both ways. A dialogue is
//! pure state of both ends. It writes lengths and acts on the number of bytes that have reached each end. Messages with
//! content become bytes where they leave the network.

use super::ApplicationResult;
use super::request::v2gtp::OutgoingMessages;
use crate::units::Time;
use crate::wire::Addresses;

/// Action that an end of a dialogue requests from its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a datagram with this many bytes of UDP payload to the peer.
    Datagram(u16),
    /// Open the connection.
    Connect,
    /// Write this many bytes to the connection.
    Write(u64),
    /// Close the connection after the written data.
    Close,
}

/// Behavior of two ends over one connection: end 0 connects, end 1 listens. After a call of any other method that
/// changes the dialogue, call [`Dialogue::transmit`] for each end inside the network until it returns `None`.
pub trait Dialogue {
    /// Returns when the dialogue must be woken; [`Time::MAX`] = never.
    fn next_wake(&self) -> Time;
    /// Processes timers due at `now`.
    fn wake(&mut self, _now: Time) {}
    /// Returns the next action of `end`.
    fn transmit(&mut self, now: Time, end: usize) -> Option<Action>;
    /// Handles the completion of the handshake at end 0.
    fn connected(&mut self, _now: Time) {}
    /// Handles in-order delivery of `bytes` to `end` since the connection began.
    fn received(&mut self, now: Time, end: usize, bytes: u64);
    /// Handles the end of the connection of `end`: its peer closed, or TCP failed. Called once.
    fn closed(&mut self, now: Time, end: usize, by_peer: bool);
    /// Handles a write without room in the send buffer, to a peer outside. Returns true if the data waits.
    fn overflowed(&mut self, _now: Time, _end: usize) -> bool {
        true
    }
    /// Returns the end that receives most of the data; `None` if both count.
    fn sink(&self) -> Option<usize>;
    /// Returns true if the dialogue has ended, given the bytes `delivered` to the sink.
    fn is_over(&self, delivered: u64) -> bool;
    /// Returns true if the dialogue ends by itself.
    fn has_end(&self) -> bool {
        true
    }
    /// Returns the results so far.
    fn result(&self) -> Option<ApplicationResult>;
    /// Returns the memory of its records, bytes.
    fn bytes(&self) -> usize {
        0
    }
    /// Returns the messages that `end` has written and its peer has not read, if messages have content and `end` is
    /// inside the network.
    fn messages(&self, _end: usize) -> Option<&OutgoingMessages> {
        None
    }
    /// Handles in-order delivery of these bytes to `end`, from a peer outside the network.
    fn read(&mut self, _now: Time, _end: usize, _bytes: &[u8]) {}
    /// Drops `bytes` written by `end` after a peer outside the network has acknowledged them.
    fn acknowledged(&mut self, _end: usize, _bytes: u64) {}
    /// Returns the payload of a datagram from `end`.
    fn datagram(&self, _end: usize, _addresses: &Addresses) -> Option<Vec<u8>> {
        None
    }
    /// Returns true if a datagram from outside to `end` has the expected payload.
    fn accepts_datagram(&self, _end: usize, _payload: &[u8]) -> bool {
        false
    }
    /// Handles a datagram of the peer at `end`.
    fn receive_datagram(&mut self, _now: Time, _end: usize) {}
}
