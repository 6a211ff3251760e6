//! What an application is told of its connection, over TCP or SCTP.

use std::collections::VecDeque;

/// What happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The handshake is over.
    Connected,
    /// There is something to read where there was nothing.
    Readable,
    /// There is room to write after a write that was not, or not wholly, taken.
    Writable,
    /// The peer has closed, and everything that it sent has arrived.
    PeerClosed,
    /// The connection has ended without being closed: a reset, or too many time-outs.
    Failed,
}

/// Events that the application has not asked for yet, and which of them happen only once and have happened.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    told: Vec<Event>,
}

impl Events {
    /// An event that may happen again.
    pub(crate) fn push(&mut self, event: Event) {
        self.waiting.push_back(event);
    }
    /// An event that happens once, unless it has happened already.
    pub(crate) fn once(&mut self, event: Event) {
        if !self.told.contains(&event) {
            self.told.push(event);
            self.push(event);
        }
    }
    /// The next event, in the order in which they happened.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }
}
