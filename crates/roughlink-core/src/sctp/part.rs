//! Content of a DATA chunk, which both halves use.

use crate::packet::{Packet, chunk_flags};

/// A DATA chunk: a message, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessagePart {
    /// Stream of the message.
    pub stream: u16,
    /// Stream sequence number (SSN) of the message.
    pub ssn: u16,
    /// Bytes.
    pub len: u16,
    /// Set if the message waits for those before it in its stream.
    pub ordered: bool,
    /// Set if this is the first part of the message.
    pub begins: bool,
    /// Set if this is the last part of the message.
    pub ends: bool,
}

impl MessagePart {
    #[inline]
    pub(super) fn from_packet(p: &Packet) -> Self {
        let ((stream, ssn), has) = (p.stream(), |flag: u8| p.window & u16::from(flag) != 0);
        let (begins, ends) = (has(chunk_flags::BEGIN), has(chunk_flags::END));
        MessagePart { stream, ssn, len: p.payload() as u16, ordered: !has(chunk_flags::UNORDERED), begins, ends }
    }
    /// Returns the flags of the chunk (RFC 9260 section 3.3.1).
    pub(super) fn flags(&self) -> u8 {
        let flags =
            [(self.begins, chunk_flags::BEGIN), (self.ends, chunk_flags::END), (!self.ordered, chunk_flags::UNORDERED)];
        flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum()
    }
}
