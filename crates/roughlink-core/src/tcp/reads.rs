//! Explicit reads of an application that does not read at once.

use super::TcpEndpoint;

impl TcpEndpoint {
    /// Keeps received data until [`TcpEndpoint::read`], so that a slow reader closes the window. Call it before the
    /// handshake.
    pub(crate) fn read_by_hand(&mut self) {
        self.rcv.read_by_hand();
    }

    /// Returns the bytes received in order and not yet read.
    pub(crate) fn unread(&self) -> u64 {
        self.rcv.unread()
    }

    /// Reads `bytes` of those received in order. The window may open.
    pub(crate) fn read(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.unread());
        self.rcv.on_read(bytes);
    }
}
