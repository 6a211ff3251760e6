//! The bytes that arrived and are not yet read, in order or beyond a gap.

use super::{ConnectionState, TcpEndpoint, is_before_all, unwrap};
use crate::packet::{Packet, flags};
use crate::units::Time;
use std::collections::VecDeque;

/// Bytes of the peer's stream from the first unread one on. There may be gaps after the delivered bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    /// Stream offset of the first byte.
    from: u64,
    bytes: VecDeque<u8>,
}

impl Unread {
    /// Keeps the bytes of a segment beyond those delivered, up to the limit of `endpoint`, which processes it next.
    pub(crate) fn keep(&mut self, now: Time, endpoint: &TcpEndpoint, p: &Packet, bytes: &[u8]) {
        let receiver = &endpoint.rcv;
        let established =
            !matches!(endpoint.state, ConnectionState::Closed | ConnectionState::Listen | ConnectionState::SynSent);
        let current = (p.has_timestamps() || !endpoint.timestamps) && !endpoint.is_old(now, p);
        let data = !p.is(flags::SYN | flags::RST) && current;
        let start = unwrap(receiver.nxt(), p.seq, endpoint.irs);
        if bytes.is_empty() || !established || !data || is_before_all(start) || receiver.is_beyond(start) {
            return;
        }
        let from = start.max(receiver.nxt());
        let until = (start + bytes.len() as u64).min(receiver.edge());
        if from >= until || receiver.finished() {
            return;
        }
        let at = (from - 1 - self.from) as usize;
        let bytes = &bytes[(from - start) as usize..(until - start) as usize];
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        for (to, byte) in self.bytes.range_mut(at..).zip(bytes) {
            *to = *byte;
        }
    }

    /// Takes the bytes up to offset `until`, which have been delivered.
    pub(crate) fn read(&mut self, until: u64) -> impl Iterator<Item = u8> {
        let n = (until - self.from) as usize;
        self.from = until;
        self.bytes.drain(..n.min(self.bytes.len()))
    }

    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
