//! The bytes that arrived and are not yet read, in order or beyond a gap.

use super::{TcpEndpoint, unwrap};
use crate::packet::Packet;
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
        let start = unwrap(receiver.nxt(), p.seq, endpoint.irs);
        if bytes.is_empty() || !endpoint.takes_payload(now, p, start) {
            return;
        }
        let from = start.max(receiver.nxt());
        let until = (start + bytes.len() as u64).min(receiver.edge());
        if from >= until || receiver.finished() {
            return;
        }
        let at = (from - 1 - self.from) as usize;
        let mut bytes = &bytes[(from - start) as usize..(until - start) as usize];
        if at < self.bytes.len() {
            let known;
            (known, bytes) = bytes.split_at(bytes.len().min(self.bytes.len() - at));
            overwrite(&mut self.bytes, at, known);
        } else {
            self.bytes.resize(at, 0);
        }
        self.bytes.extend(bytes);
    }

    /// Moves the first bytes, which have been delivered, to `out`.
    pub(crate) fn read(&mut self, out: &mut [u8]) {
        copy(&self.bytes, 0, out);
        self.bytes.drain(..out.len());
        self.from += out.len() as u64;
        release_memory(&mut self.bytes);
    }

    /// Moves the first `n` bytes, which have been delivered, to the end of `to`.
    pub(super) fn pass(&mut self, n: usize, to: &mut VecDeque<u8>) {
        let (first, second) = self.bytes.as_slices();
        let head = n.min(first.len());
        to.extend(&first[..head]);
        to.extend(&second[..n - head]);
        self.bytes.drain(..n);
        self.from += n as u64;
        release_memory(&mut self.bytes);
    }

    /// Returns the stream offset of the first byte.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Copies the bytes from position `at` on to `out`, at most half the ring at a time.
pub(super) fn copy(ring: &VecDeque<u8>, at: usize, out: &mut [u8]) {
    let (first, second) = ring.as_slices();
    let (head, tail) = out.split_at_mut(first.len().saturating_sub(at).min(out.len()));
    if !head.is_empty() {
        head.copy_from_slice(&first[at..at + head.len()]);
    }
    let at = at.saturating_sub(first.len());
    if !tail.is_empty() {
        tail.copy_from_slice(&second[at..at + tail.len()]);
    }
}

fn overwrite(ring: &mut VecDeque<u8>, at: usize, bytes: &[u8]) {
    let (first, second) = ring.as_mut_slices();
    let (head, tail) = bytes.split_at(first.len().saturating_sub(at).min(bytes.len()));
    if !head.is_empty() {
        first[at..at + head.len()].copy_from_slice(head);
    }
    let at = at.saturating_sub(first.len());
    if !tail.is_empty() {
        second[at..at + tail.len()].copy_from_slice(tail);
    }
}

/// Frees the memory of an empty buffer that was large: idle connections keep none.
pub(super) fn release_memory(ring: &mut VecDeque<u8>) {
    if ring.is_empty() && ring.capacity() > KEPT_CAPACITY {
        *ring = VecDeque::new();
    }
}

/// Largest capacity of an empty buffer, bytes.
const KEPT_CAPACITY: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Copies of slices match copies of single bytes, wherever the ring wraps.
        #[test]
        fn copies_match_single_bytes(rotated in 0..40_usize, len in 0..32_usize, at in 0..32_usize, n in 0..32_usize) {
            let mut ring: VecDeque<u8> = VecDeque::with_capacity(32);
            ring.extend(vec![0; rotated % 32]);
            ring.drain(..);
            ring.extend((0..len as u8).collect::<Vec<_>>());
            let at = at.min(len);
            let n = n.min(len - at);
            let mut out = vec![0; n];
            copy(&ring, at, &mut out);
            prop_assert_eq!(&out, &(at as u8..(at + n) as u8).collect::<Vec<_>>());
            let new: Vec<u8> = (100..100 + n as u8).collect();
            overwrite(&mut ring, at, &new);
            let expected = (0..len).map(|i| if (at..at + n).contains(&i) { 100 + (i - at) as u8 } else { i as u8 });
            prop_assert!(ring.iter().copied().eq(expected));
        }
    }
}
