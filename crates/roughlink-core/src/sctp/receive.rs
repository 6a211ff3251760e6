//! Receiving half: TSNs received, delivery in order per stream, and SACK timing (RFC 9260 sections 6.2, 6.5, 6.6, 6.9;
//! RFC 3758 section 3.6). The buffer holds messages that wait for an earlier one of their stream, incomplete messages
//! and, with explicit reads, unread messages. An application that reads at once receives the beginning of a message
//! before its end (partial delivery, section 6.9). TSNs reported in gap ack blocks are never revoked.

use super::assembly::{Assembly, PartRun};
use super::config::SctpConfig;
use super::part::MessagePart;
use crate::packet::{Gap, Gaps};
use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeliveredMessage {
    pub stream: u16,
    pub first: u64,
    pub last: u64,
    pub bytes: u64,
}

/// The receiving half of an association. TSNs are 64-bit, the peer's first is 1.
#[derive(Clone, Debug)]
pub(super) struct SctpReceiver {
    /// Highest TSN up to which all have arrived or were skipped.
    cumulative: u64,
    /// TSNs received beyond `cumulative`, as `[first, last]`, ascending.
    ranges: Vec<(u64, u64)>,
    duplicates: Vec<u64>,
    /// For each stream, the number of the next message to deliver.
    next: Vec<u64>,
    streams: u16,
    /// Messages that wait for an earlier one, by stream and number.
    waiting: BTreeMap<(u16, u64), PartRun>,
    assembly: Assembly,
    buffered: u64,
    delivered: u64,
    skipped: u64,
    /// Packets with DATA since the last SACK.
    pending: u32,
    sack_now: bool,
    sack_at: Time,
    rcv_buf: u32,
    delayed_ack: u32,
    timeout: Time,
    /// State of explicit reads; `None` if the application reads at once.
    by_hand: Option<ExplicitReads>,
    /// Messages delivered, in order: stream, number, bytes.
    #[cfg(test)]
    pub(super) log: Vec<(u16, u64, u64)>,
}

#[derive(Clone, Debug, Default)]
struct ExplicitReads {
    /// Last TSN accepted.
    taken: Option<u64>,
    delivered: VecDeque<DeliveredMessage>,
    /// Ranges of accepted TSNs that will never be delivered, each as first and last TSN.
    dropped: Vec<(u64, u64)>,
    /// Set if a message is longer than the buffer and can never be delivered.
    too_long: bool,
    unread: u64,
    /// Last a_rwnd sent.
    announced: u64,
}

impl SctpReceiver {
    pub(super) fn new(cfg: &SctpConfig) -> Self {
        SctpReceiver {
            cumulative: 0,
            ranges: Vec::new(),
            duplicates: Vec::new(),
            next: Vec::new(),
            streams: cfg.max_streams,
            waiting: BTreeMap::new(),
            assembly: Assembly::default(),
            buffered: 0,
            delivered: 0,
            skipped: 0,
            pending: 0,
            sack_now: false,
            sack_at: Time::MAX,
            rcv_buf: cfg.rcv_buf,
            delayed_ack: cfg.delayed_ack,
            timeout: cfg.delayed_ack_timeout,
            by_hand: None,
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    /// Sets the number of streams granted; data in others is acknowledged and discarded (section 6.5).
    pub(super) fn agree(&mut self, streams: u16) {
        self.streams = streams;
    }
    /// Switches to explicit reads: unread messages occupy the buffer.
    pub(super) fn read_by_hand(&mut self) {
        self.by_hand = Some(ExplicitReads { announced: u64::from(self.rcv_buf), ..ExplicitReads::default() });
    }
    /// Returns the TSN of the last packet if it was accepted.
    pub(super) fn take_arrived(&mut self) -> Option<u64> {
        self.by_hand.as_mut()?.taken.take()
    }
    /// Returns a range of accepted TSNs that will never be delivered, as first and last TSN.
    pub(super) fn take_dropped(&mut self) -> Option<(u64, u64)> {
        self.by_hand.as_mut()?.dropped.pop()
    }
    pub(super) fn take_delivered(&mut self) -> Option<DeliveredMessage> {
        self.by_hand.as_mut()?.delivered.pop_front()
    }
    /// Returns true if a message is longer than the buffer, so that explicit reads can never deliver it.
    pub(super) fn is_too_long(&self) -> bool {
        self.by_hand.as_ref().is_some_and(|b| b.too_long)
    }
    /// Frees `bytes` that the application read. Sends a window update once the window has grown by half the buffer, or
    /// from less than `packet` bytes to at least that many (silly window avoidance, RFC 9260 section 6.2).
    pub(super) fn on_read(&mut self, bytes: u64, packet: u16) {
        let Some(by_hand) = &mut self.by_hand else { return };
        by_hand.unread -= bytes;
        let (announced, packet) = (by_hand.announced, u64::from(packet));
        let room = self.room();
        if (announced < packet && room >= packet) || room >= announced + (u64::from(self.rcv_buf) / 2).max(1) {
            self.sack_soon();
        }
    }
    fn room(&self) -> u64 {
        u64::from(self.rcv_buf).saturating_sub(self.buffered + self.unread())
    }
    fn unread(&self) -> u64 {
        self.by_hand.as_ref().map_or(0, |b| b.unread)
    }
    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }
    /// Returns the bytes delivered to the application.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }
    /// Returns the number of messages that the peer made this end skip.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }
    /// Returns the bytes of skipped messages: `sent_through` (bytes up to a TSN) minus those delivered or buffered.
    pub(super) fn skipped_bytes(&self, sent_through: impl Fn(u64) -> u64) -> u64 {
        let beyond: u64 = self.ranges.iter().map(|&(a, b)| sent_through(b) - sent_through(a - 1)).sum();
        (sent_through(self.cumulative) + beyond).saturating_sub(self.delivered + self.buffered)
    }
    pub(super) fn is_sack_due(&self) -> bool {
        self.sack_now
    }
    /// Returns when the delayed SACK is due.
    pub(super) fn next_wake(&self) -> Time {
        self.sack_at
    }
    pub(super) fn wake(&mut self, now: Time) {
        if self.sack_at <= now {
            self.sack_soon();
        }
    }
    pub(super) fn sack_soon(&mut self) {
        self.sack_now = true;
        self.sack_at = Time::MAX;
    }

    pub(super) fn on_data(&mut self, now: Time, tsn: u64, part: MessagePart) {
        let MessagePart { stream, ssn, len, ordered, .. } = part;
        let had_gap = !self.ranges.is_empty();
        if tsn <= self.cumulative || self.has(tsn) {
            if self.duplicates.len() < Gaps::MAX_DUPLICATES {
                self.duplicates.push(tsn);
            }
            self.sack_soon();
            return;
        }
        // A chunk that can be delivered at once also releases messages that wait for it. Accept such a chunk unless the
        // buffer is full of unread data (section 6.1 rule A). Discard chunks that no gap ack block could report.
        let is_next = |next: Option<&mut u64>| next.is_none_or(|next| !ordered || ssn == *next as u16);
        let deliverable = tsn == self.cumulative + 1 && is_next(self.next_of(stream));
        let full = if deliverable { self.unread() >= u64::from(self.rcv_buf) } else { u64::from(len) > self.room() };
        if full || tsn > self.cumulative + u64::from(u16::MAX) {
            self.sack_soon(); // no room: discarded, which the SACK shows
            return;
        }
        self.note(tsn);
        self.take_in(tsn, part);
        self.drop_broken();
        self.pending += 1;
        if had_gap || !self.ranges.is_empty() || self.pending >= self.delayed_ack {
            self.sack_soon();
        } else {
            self.sack_at = self.sack_at.min(now + self.timeout);
        }
    }

    /// Handles a FORWARD TSN: stops waiting for TSNs up to `tsn`.
    pub(super) fn on_forward(&mut self, tsn: u64, skipped: &[(u16, u16)]) {
        self.sack_soon();
        if tsn <= self.cumulative {
            return;
        }
        self.cumulative = tsn;
        self.advance_cumulative();
        while let Some(run) = self.assembly.abandon(tsn) {
            self.drop_run(run);
        }
        self.drop_broken();
        for &(stream, ssn) in skipped {
            let Some(next) = self.next_of(stream) else { continue };
            if (ssn.wrapping_sub(*next as u16) as i16) < 0 {
                continue; // all had arrived
            }
            let last = unwrap(*next, ssn);
            let from = std::mem::replace(next, last + 1);
            // Deliver the messages that arrived; the rest will never arrive.
            let mut arrived = 0;
            while let Some((&key, &run)) = self.waiting.range((stream, from)..=(stream, last)).next() {
                self.waiting.remove(&key);
                self.buffered -= run.bytes;
                self.deliver_run(run);
                arrived += 1;
            }
            self.skipped += (last + 1).saturating_sub(from) - arrived;
            self.drain(stream);
        }
    }

    /// Returns the contents of the SACK to send now: a_rwnd, and the gap ack blocks and duplicates.
    pub(super) fn sack(&mut self, base: u32) -> (u32, Gaps) {
        let offset = |tsn: u64| u16::try_from(tsn - self.cumulative);
        let gaps = self.ranges.iter().filter_map(|&(a, b)| Some(Gap { start: offset(a).ok()?, end: offset(b).ok()? }));
        let duplicates = self.duplicates.iter().map(|&tsn| base.wrapping_add(tsn as u32));
        let gaps = Gaps::new(gaps, duplicates);
        self.duplicates.clear();
        self.pending = 0;
        self.sack_now = false;
        self.sack_at = Time::MAX;
        let room = self.room();
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.announced = room;
        }
        (room as u32, gaps)
    }

    /// Returns true if `tsn` is in one of the ranges beyond the cumulative TSN.
    fn has(&self, tsn: u64) -> bool {
        let i = self.ranges.partition_point(|r| r.1 < tsn);
        self.ranges.get(i).is_some_and(|r| r.0 <= tsn)
    }

    fn note(&mut self, tsn: u64) {
        let i = self.ranges.partition_point(|r| r.1 + 1 < tsn);
        match self.ranges.get_mut(i) {
            Some(r) if r.1 + 1 == tsn => r.1 = tsn,
            Some(r) if r.0 == tsn + 1 => r.0 = tsn,
            _ => self.ranges.insert(i, (tsn, tsn)),
        }
        if let Some(&(a, b)) = self.ranges.get(i + 1)
            && self.ranges[i].1 + 1 == a
        {
            self.ranges[i].1 = b;
            self.ranges.remove(i + 1);
        }
        self.advance_cumulative();
    }

    fn advance_cumulative(&mut self) {
        while let Some(&(a, b)) = self.ranges.first()
            && a <= self.cumulative + 1
        {
            self.cumulative = self.cumulative.max(b);
            self.ranges.remove(0);
        }
    }

    fn take_in(&mut self, tsn: u64, part: MessagePart) {
        let Some(&mut next) = self.next_of(part.stream) else { return };
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.taken = Some(tsn);
        }
        if part.begins && part.ends {
            self.deliver(PartRun { first: tsn, last: tsn, part, bytes: u64::from(part.len) });
            return;
        }
        let run = self.assembly.add(tsn, part);
        self.buffered += u64::from(part.len);
        if run.is_whole() {
            self.buffered -= run.bytes;
            self.deliver(run);
            return;
        }
        let is_head = run.part.begins && run.last <= self.cumulative;
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.too_long |= run.bytes > u64::from(self.rcv_buf);
        } else if is_head && (!part.ordered || part.ssn == next as u16) {
            self.assembly.mark_delivered(run.first);
            self.buffered -= run.bytes;
            self.delivered += run.bytes;
        }
    }

    /// Delivers a complete message, or stores it until an earlier one arrives.
    fn deliver(&mut self, run: PartRun) {
        let MessagePart { stream, ssn, ordered, .. } = run.part;
        let Some(&mut next) = self.next_of(stream) else { return };
        let number = unwrap(next, ssn);
        if ordered && number != next {
            self.buffered += run.bytes;
            // The peer used a number twice.
            if let Some(before) = self.waiting.insert((stream, number), run) {
                self.drop_run(before);
            }
            return;
        }
        self.deliver_run(run);
        if ordered {
            self.next[usize::from(stream)] += 1;
            self.drain(stream);
        }
    }

    /// Drops chunks that arrived but can never be delivered.
    fn drop_run(&mut self, run: PartRun) {
        self.buffered -= run.bytes;
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.dropped.push((run.first, run.last));
        }
    }

    /// Drops parts of messages whose other parts were skipped or, in violation of section 6.9, never sent.
    fn drop_broken(&mut self) {
        while let Some(run) = self.assembly.broken(self.cumulative) {
            self.drop_run(run);
        }
    }

    fn drain(&mut self, stream: u16) {
        loop {
            let key = (stream, self.next[usize::from(stream)]);
            let Some(run) = self.waiting.remove(&key) else { return };
            self.buffered -= run.bytes;
            self.deliver_run(run);
            self.next[usize::from(stream)] += 1;
        }
    }

    fn deliver_run(&mut self, run: PartRun) {
        let stream = run.part.stream;
        self.delivered += run.bytes;
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.delivered.push_back(DeliveredMessage {
                stream,
                first: run.first,
                last: run.last,
                bytes: run.bytes,
            });
            by_hand.unread += run.bytes;
        }
        #[cfg(test)]
        self.log.push((stream, u64::from(run.part.ssn), run.bytes));
    }

    /// Returns the next number in `stream`; `None` if the stream was not agreed on.
    fn next_of(&mut self, stream: u16) -> Option<&mut u64> {
        let i = usize::from(stream);
        if self.next.len() <= i {
            if stream >= self.streams {
                return None;
            }
            self.next.resize(i + 1, 0);
        }
        Some(&mut self.next[i])
    }
}

/// Returns the message number, `next` or later, that `ssn` represents.
fn unwrap(next: u64, ssn: u16) -> u64 {
    next + u64::from(ssn.wrapping_sub(next as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> SctpReceiver {
        SctpReceiver::new(&SctpConfig { rcv_buf: 1_000, ..SctpConfig::default() })
    }

    fn message(stream: u16, ssn: u16, len: u16) -> MessagePart {
        MessagePart { stream, ssn, len, ordered: true, begins: true, ends: true }
    }

    #[test]
    fn every_second_packet_and_each_gap_are_acknowledged_at_once() {
        let mut r = receiver();
        r.on_data(Time(5), 1, message(0, 0, 100));
        assert_eq!((r.is_sack_due(), r.next_wake()), (false, Time(5) + Time::from_millis(200)));
        r.on_data(Time(6), 2, message(0, 1, 100));
        assert!(r.is_sack_due());
        assert_eq!(r.sack(0), (1_000, Gaps::default()));
        r.on_data(Time(7), 4, message(0, 3, 100));
        assert!(r.is_sack_due());
        r.on_data(Time(7), 7, message(0, 6, 100));
        r.on_data(Time(7), 4, message(0, 3, 100));
        let gaps = [Gap { start: 2, end: 2 }, Gap { start: 5, end: 5 }];
        assert_eq!(r.sack(9), (800, Gaps::new(gaps, [13])));
        r.on_data(Time(8), 3, message(0, 2, 100));
        assert!(r.is_sack_due(), "a gap was closed");
        assert_eq!(r.sack(0), (900, Gaps::new([Gap { start: 3, end: 3 }], [])));
        assert_eq!((r.cumulative(), r.delivered()), (4, 400));
        r.on_data(Time(9), 2, message(0, 1, 100));
        assert_eq!(r.sack(0).1, Gaps::new([Gap { start: 3, end: 3 }], [2]));
        r.wake(Time::MAX);
        assert!(r.is_sack_due());
    }

    #[test]
    fn full_buffer_accepts_only_data_that_closes_the_gap() {
        let mut r = receiver();
        for i in 2..=12 {
            r.on_data(Time(0), i, message(0, i as u16 - 1, 100));
        }
        assert_eq!(r.sack(0), (0, Gaps::new([Gap { start: 2, end: 11 }], [])));
        r.on_data(Time(0), 1, message(0, 0, 100));
        assert_eq!((r.cumulative(), r.delivered(), r.sack(0).0), (11, 1_100, 1_000));
    }

    #[test]
    fn data_of_an_unnegotiated_stream_is_acked_and_discarded() {
        let mut r = receiver();
        r.agree(2);
        r.on_data(Time(0), 1, message(2, 0, 100));
        r.on_data(Time(0), 2, message(1, 0, 100));
        r.on_forward(3, &[(7, 9)]);
        assert_eq!((r.cumulative(), r.delivered(), r.next.len()), (3, 100, 2));
        assert!(r.is_sack_due());
    }

    #[test]
    fn parts_of_a_message_are_delivered_together() {
        let part = |ssn, begins, ends| MessagePart { begins, ends, ..message(0, ssn, 100) };
        let mut r = receiver();
        r.read_by_hand();
        r.on_data(Time(0), 3, part(0, false, true));
        r.on_data(Time(0), 4, message(0, 1, 50));
        r.on_data(Time(0), 1, part(0, true, false));
        assert_eq!((r.delivered(), r.sack(0).0, r.take_delivered()), (0, 750, None));
        r.on_data(Time(0), 2, part(0, false, false));
        assert_eq!(r.take_delivered(), Some(DeliveredMessage { stream: 0, first: 1, last: 3, bytes: 300 }));
        assert_eq!(r.take_delivered(), Some(DeliveredMessage { stream: 0, first: 4, last: 4, bytes: 50 }));
        assert_eq!((r.delivered(), r.buffered, r.cumulative()), (350, 0, 4));
        // Unordered: at once, and without a number.
        r.on_data(Time(0), 6, MessagePart { ordered: false, ..message(0, 9, 30) });
        assert_eq!(r.take_delivered(), Some(DeliveredMessage { stream: 0, first: 6, last: 6, bytes: 30 }));
        // Half of a message that is then skipped.
        r.on_data(Time(0), 5, message(0, 2, 10));
        r.on_data(Time(0), 7, part(3, true, false));
        r.on_forward(8, &[(0, 3)]);
        assert_eq!((r.take_dropped(), r.buffered), (Some((7, 7)), 0));
        r.on_data(Time(0), 9, message(0, 4, 10));
        assert_eq!((r.cumulative(), r.delivered(), r.skipped()), (9, 400, 1));
    }

    /// Parts from a peer that does not divide messages as in section 6.9.
    #[test]
    fn parts_that_cannot_form_a_message_are_discarded() {
        for ((begins, ends), by_hand) in [((true, false), false), ((true, false), true), ((false, true), true)] {
            let mut r = receiver();
            if by_hand {
                r.read_by_hand();
            }
            for tsn in 1..=5_000 {
                r.on_data(Time(0), tsn, MessagePart { begins, ends, ..message(0, 0, 100) });
                assert!(r.buffered <= 200, "{}", r.buffered);
            }
            assert!(std::iter::from_fn(|| r.assembly.broken(u64::MAX)).count() <= 1);
        }
    }

    #[test]
    fn message_can_be_longer_than_the_buffer() {
        let part = |begins, ends| MessagePart { begins, ends, ..message(0, 0, 100) };
        let mut r = receiver();
        r.on_data(Time(0), 1, part(true, false));
        for tsn in 2..=19 {
            r.on_data(Time(0), tsn, part(false, false));
            assert_eq!((r.delivered(), r.sack(0).0), (100 * tsn, 1_000));
        }
        r.on_data(Time(0), 20, part(false, true));
        assert_eq!((r.delivered(), r.buffered, r.next[0]), (2_000, 0, 1));
        // Explicit reads need the whole message.
        let mut r = receiver();
        r.read_by_hand();
        r.on_data(Time(0), 1, part(true, false));
        for tsn in 2..=11 {
            assert!(!r.is_too_long());
            r.on_data(Time(0), tsn, part(false, false));
        }
        assert!(r.is_too_long());
    }

    #[test]
    fn streams_do_not_wait_for_each_other() {
        let mut r = receiver();
        r.on_data(Time(0), 2, message(1, 0, 10));
        r.on_data(Time(0), 4, message(0, 1, 10));
        r.on_data(Time(0), 3, message(1, 1, 10));
        assert_eq!(r.log, [(1, 0, 10), (1, 1, 10)]);
        r.on_data(Time(0), 1, message(0, 0, 10));
        assert_eq!(r.log[2..], [(0, 0, 10), (0, 1, 10)]);
    }

    #[test]
    fn skipped_messages_are_counted_and_never_delivered() {
        let mut r = receiver();
        r.on_data(Time(0), 1, message(0, 0, 10));
        r.on_data(Time(0), 3, message(0, 2, 10)); // waits for number 1
        r.on_data(Time(0), 6, message(0, 4, 10)); // waits for numbers 1 and 3
        r.on_forward(5, &[]);
        assert_eq!((r.cumulative(), r.delivered()), (6, 10));
        let mut r2 = receiver();
        r2.on_data(Time(0), 3, message(0, 2, 10));
        r2.on_data(Time(0), 6, message(0, 5, 10));
        r2.on_forward(5, &[(0, 4), (7, 0)]);
        assert_eq!(r2.log, [(0, 2, 10), (0, 5, 10)]);
        assert_eq!((r2.cumulative(), r2.skipped(), r2.buffered), (6, 4 + 1, 0));
        r2.on_forward(4, &[(0, 9)]);
        let mut r3 = receiver();
        r3.on_data(Time(0), 2, message(0, 0, 10));
        r3.on_data(Time(0), 3, message(0, 1, 10));
        r3.on_forward(3, &[(0, 1), (1, 0)]); // stream 0 has no missing message
        assert_eq!((r3.skipped(), r3.delivered(), r3.next[0]), (1, 20, 2));
        r2.on_data(Time(0), 2, message(0, 1, 10)); // late: a duplicate
        assert_eq!((r2.skipped(), r2.delivered()), (5, 20));
        r2.on_data(Time(0), 7, message(0, 6, 10));
        assert_eq!(r2.delivered(), 30);
    }
}
