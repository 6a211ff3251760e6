//! Messages that wait to be sent: division into chunks (RFC 9260 section 6.9) and stream sequence numbers (6.5).

use super::part::MessagePart;
use crate::units::Time;
use std::collections::VecDeque;

/// User data not yet sent: messages written by the application, then the rest of an offer. The offer is divided into
/// messages that fill a packet each and use the streams in turn.
#[derive(Clone, Debug)]
pub(super) struct SendQueue {
    written: VecDeque<QueuedMessage>,
    bytes: u64,
    /// Rest of the offer (`u64::MAX` = endless).
    backlog: u64,
    /// Number of the next message in each stream, and the stream of the offer's next message.
    numbers: Vec<u16>,
    streams: u16,
    turn: usize,
    ordered: bool,
}

/// A message, or the part of it that has not left.
#[derive(Clone, Copy, Debug)]
struct QueuedMessage {
    stream: u16,
    left: u32,
    begun: bool,
    written: Time,
}

impl SendQueue {
    pub(super) fn new(streams: u16, ordered: bool) -> Self {
        let streams = streams.max(1);
        SendQueue { written: VecDeque::new(), bytes: 0, backlog: 0, numbers: Vec::new(), streams, turn: 0, ordered }
    }
    pub(super) fn streams(&self) -> u16 {
        self.streams
    }
    /// Returns the memory of the counters of streams, bytes, including the receiver's counters of the same streams.
    pub(super) fn memory(&self) -> usize {
        self.numbers.capacity() * (size_of::<u16>() + size_of::<u64>())
    }
    /// Returns the bytes written and not sent.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
    pub(super) fn is_empty(&self) -> bool {
        self.backlog == 0 && self.written.is_empty()
    }
    /// Offers `bytes` to send (`u64::MAX` = endless).
    pub(super) fn offer(&mut self, bytes: u64) {
        self.backlog = bytes;
    }
    pub(super) fn stop_endless(&mut self) {
        if self.backlog == u64::MAX {
            self.backlog = 0;
        }
    }
    pub(super) fn write(&mut self, stream: u16, bytes: u32, written: Time) {
        debug_assert!(stream < self.streams() && bytes > 0);
        self.bytes += u64::from(bytes);
        self.written.push_back(QueuedMessage { stream, left: bytes, begun: false, written });
    }

    /// Returns the next chunk of at most `most` bytes, and when its message was written (`now` for an offer).
    pub(super) fn next(&self, most: u16, now: Time) -> Option<(MessagePart, Time)> {
        let rest = self.backlog.min(u64::from(most)) as u32;
        let offered = || QueuedMessage { stream: self.turn as u16, left: rest, begun: false, written: now };
        let message = self.written.front().copied().or_else(|| (rest > 0).then(offered))?;
        let (len, ends) = (message.left.min(u32::from(most)) as u16, message.left <= u32::from(most));
        let ssn = self.numbers.get(usize::from(message.stream)).copied().unwrap_or(0);
        let part =
            MessagePart { stream: message.stream, ssn, len, ordered: self.ordered, begins: !message.begun, ends };
        Some((part, message.written))
    }

    /// Removes the chunk that [`SendQueue::next`] returned: it leaves.
    pub(super) fn take(&mut self, part: &MessagePart) {
        match self.written.front_mut() {
            Some(message) => {
                message.left -= u32::from(part.len);
                message.begun = true;
                self.bytes -= u64::from(part.len);
                if part.ends {
                    self.written.pop_front();
                }
            }
            None => {
                self.turn = (self.turn + 1) % usize::from(self.streams);
                if self.backlog != u64::MAX {
                    self.backlog -= u64::from(part.len);
                }
            }
        }
        if part.ends {
            self.count(part.stream);
        }
    }

    /// Removes the next message if none of it has left and it was written at an `overdue` time. Returns its bytes.
    pub(super) fn discard(&mut self, overdue: impl Fn(Time) -> bool) -> Option<u64> {
        let message = self.written.pop_front_if(|m| !m.begun && overdue(m.written))?;
        self.bytes -= u64::from(message.left);
        Some(u64::from(message.left))
    }

    /// Removes the rest of a message of which a part has left, if there is one. Returns its bytes.
    pub(super) fn discard_rest(&mut self) -> u64 {
        let Some(message) = self.written.pop_front_if(|m| m.begun) else { return 0 };
        self.bytes -= u64::from(message.left);
        self.count(message.stream);
        u64::from(message.left)
    }

    /// Advances the number of the next message in a stream.
    fn count(&mut self, stream: u16) {
        if self.ordered {
            let i = usize::from(stream);
            if self.numbers.len() <= i {
                self.numbers.resize(i + 1, 0);
            }
            let next = &mut self.numbers[i];
            *next = next.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_leaves_in_parts_with_one_stream_number() {
        let mut m = SendQueue::new(2, true);
        m.write(1, 250, Time(7));
        m.write(1, 100, Time(8));
        m.offer(150);
        let mut sent = Vec::new();
        while let Some((part, written)) = m.next(100, Time(9)) {
            m.take(&part);
            sent.push((part.stream, part.ssn, part.len, part.begins, part.ends, written.0));
        }
        let of_the_first = [(1, 0, 100, true, false, 7), (1, 0, 100, false, false, 7), (1, 0, 50, false, true, 7)];
        let others = [(1, 1, 100, true, true, 8), (0, 0, 100, true, true, 9), (1, 2, 50, true, true, 9)];
        assert_eq!(sent, [of_the_first, others].concat());
        assert!(m.is_empty() && m.bytes() == 0);
    }

    #[test]
    fn counters_of_streams_in_use_are_counted_as_memory() {
        let mut m = SendQueue::new(60_000, true);
        assert_eq!(m.memory(), 0);
        m.write(59_999, 100, Time(7));
        let (part, _) = m.next(100, Time(9)).unwrap();
        m.take(&part);
        assert!(m.memory() >= 60_000 * 10);
    }

    #[test]
    fn only_unsent_messages_are_discarded() {
        let mut m = SendQueue::new(1, true);
        (0..3).for_each(|i| m.write(0, 250, Time(i)));
        let overdue = |written| written <= Time(1);
        let (part, _) = m.next(100, Time(5)).unwrap();
        m.take(&part);
        assert_eq!(m.discard(overdue), None, "a part has left");
        assert_eq!((m.discard_rest(), m.discard_rest()), (150, 0));
        assert_eq!((m.discard(overdue), m.discard(overdue), m.bytes()), (Some(250), None, 250));
        assert_eq!(m.next(100, Time(5)).unwrap().0.ssn, 1, "the number of the message that began is used");
    }
}
