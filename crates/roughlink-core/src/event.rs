//! Events of a connection for its application, over TCP or SCTP.

use std::collections::VecDeque;

/// Event of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The handshake is over.
    Connected,
    /// Data is ready to read; before, there was none.
    Readable,
    /// There is room to write again, after a write that was refused or accepted only in part.
    Writable,
    /// The peer has closed, and everything that it sent has arrived.
    PeerClosed,
    /// The connection has ended without being closed: a reset, or too many time-outs.
    Failed,
}

/// Events not yet polled by the application, and one-time events that have happened.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    told: Vec<Event>,
}

impl Events {
    /// Adds an event, unless it waits already: the queue stays short even if nobody polls it.
    pub(crate) fn push(&mut self, event: Event) {
        if !self.waiting.contains(&event) {
            self.waiting.push_back(event);
        }
    }
    pub(crate) fn once(&mut self, event: Event) {
        if !self.told.contains(&event) {
            self.told.push(event);
            self.push(event);
        }
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }
}
