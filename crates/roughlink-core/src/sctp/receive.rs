//! The receiving half: which TSNs have arrived, delivery in order per stream, and when to acknowledge (RFC 9260
//! sections 6.2, 6.5, 6.6; RFC 3758 section 3.6). Messages that wait for an earlier one of their stream occupy the buffer, and
//! those not yet read by an application that reads by hand. What gap ack blocks have reported is never taken back.

use super::config::SctpConfig;
use crate::packet::{Gap, Gaps};
use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// The receiving half of an association. TSNs are 64-bit, the peer's first is 1.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Everything up to here has arrived or was skipped.
    cumulative: u64,
    /// What arrived beyond, as `[first, last]`, ascending.
    ranges: Vec<(u64, u64)>,
    /// TSNs to report as duplicates.
    duplicates: Vec<u64>,
    /// For each stream, the number of the next message to deliver.
    next: Vec<u64>,
    /// Streams agreed on.
    streams: u16,
    /// Messages that wait for an earlier one: stream and number, and bytes.
    waiting: BTreeMap<(u16, u64), u16>,
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
    /// The application reads by hand; else it reads at once.
    by_hand: Option<ByHand>,
    /// What was delivered, in order: stream, number, bytes.
    #[cfg(test)]
    pub(super) log: Vec<(u16, u64, u16)>,
}

/// What an application that reads by hand has to know.
#[derive(Clone, Debug, Default)]
struct ByHand {
    /// The message last taken in: stream and number.
    taken: Option<(u16, u64)>,
    /// Messages delivered, in order.
    delivered: VecDeque<(u16, u64)>,
    /// Bytes delivered and not read.
    unread: u64,
    /// The a_rwnd sent last.
    announced: u64,
}

impl Receiver {
    /// Before the first message.
    pub(super) fn new(cfg: &SctpConfig) -> Self {
        Receiver {
            cumulative: 0,
            ranges: Vec::new(),
            duplicates: Vec::new(),
            next: Vec::new(),
            streams: cfg.max_streams,
            waiting: BTreeMap::new(),
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

    /// The number of streams granted to the peer. Data in others is acknowledged and discarded (section 6.5).
    pub(super) fn agree(&mut self, streams: u16) {
        self.streams = streams;
    }
    /// From now on the application reads by hand: what it has not read occupies the buffer.
    pub(super) fn read_by_hand(&mut self) {
        self.by_hand = Some(ByHand { announced: u64::from(self.rcv_buf), ..ByHand::default() });
    }
    /// The message that the last packet brought, if it was taken in: stream and number.
    pub(super) fn take_arrived(&mut self) -> Option<(u16, u64)> {
        self.by_hand.as_mut()?.taken.take()
    }
    /// The next message delivered to an application that reads by hand.
    pub(super) fn take_delivered(&mut self) -> Option<(u16, u64)> {
        self.by_hand.as_mut()?.delivered.pop_front()
    }
    /// The application read `bytes`. The window is announced again when it takes a packet of `packet` bytes, and did not, or has
    /// grown by half the buffer (the receiver's part of silly window avoidance, RFC 9260 section 6.2).
    pub(super) fn on_read(&mut self, bytes: u64, packet: u16) {
        let Some(by_hand) = &mut self.by_hand else { return };
        by_hand.unread -= bytes;
        let (announced, packet) = (by_hand.announced, u64::from(packet));
        let room = self.room();
        if (announced < packet && room >= packet) || room >= announced + (u64::from(self.rcv_buf) / 2).max(1) {
            self.sack_soon();
        }
    }
    /// Bytes that the buffer has room for.
    fn room(&self) -> u64 {
        u64::from(self.rcv_buf).saturating_sub(self.buffered + self.unread())
    }
    fn unread(&self) -> u64 {
        self.by_hand.as_ref().map_or(0, |b| b.unread)
    }
    /// Everything up to this TSN has arrived or was skipped.
    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }
    /// Bytes delivered to the application.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }
    /// Messages that the peer made this end skip.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }
    /// Their bytes, given how many were sent with TSNs up to one of ours: what came of them is delivered or waits.
    pub(super) fn skipped_bytes(&self, sent_through: impl Fn(u64) -> u64) -> u64 {
        let beyond: u64 = self.ranges.iter().map(|&(a, b)| sent_through(b) - sent_through(a - 1)).sum();
        (sent_through(self.cumulative) + beyond).saturating_sub(self.delivered + self.buffered)
    }
    /// Whether a SACK must leave now.
    pub(super) fn wants_sack(&self) -> bool {
        self.sack_now
    }
    /// When the delayed SACK is due.
    pub(super) fn next_wake(&self) -> Time {
        self.sack_at
    }
    /// Processes what is due.
    pub(super) fn wake(&mut self, now: Time) {
        if self.sack_at <= now {
            self.sack_soon();
        }
    }
    /// Acknowledge at once.
    pub(super) fn sack_soon(&mut self) {
        self.sack_now = true;
        self.sack_at = Time::MAX;
    }

    /// A DATA chunk arrived.
    pub(super) fn on_data(&mut self, now: Time, tsn: u64, (stream, ssn): (u16, u16), len: u16) {
        let had_gap = !self.ranges.is_empty();
        if tsn <= self.cumulative || self.ranges.iter().any(|&(a, b)| (a..=b).contains(&tsn)) {
            if self.duplicates.len() < Gaps::MOST_DUPLICATES {
                self.duplicates.push(tsn);
            }
            self.sack_soon();
            return;
        }
        // What is delivered at once frees what waits for it: it is taken while anything at all can be left unread (section 6.1
        // rule A). What no gap ack block could report is not.
        let deliverable = tsn == self.cumulative + 1 && self.next_of(stream).is_none_or(|next| ssn == *next as u16);
        let full = if deliverable { self.unread() >= u64::from(self.rcv_buf) } else { u64::from(len) > self.room() };
        if full || tsn > self.cumulative + u64::from(u16::MAX) {
            self.sack_soon(); // no room: discarded, which the SACK shows
            return;
        }
        self.note(tsn);
        self.deliver(stream, ssn, len);
        self.pending += 1;
        if had_gap || !self.ranges.is_empty() || self.pending >= self.delayed_ack {
            self.sack_soon();
        } else {
            self.sack_at = self.sack_at.min(now + self.timeout);
        }
    }

    /// A FORWARD TSN arrived: nothing up to `tsn` is worth waiting for.
    pub(super) fn on_forward(&mut self, tsn: u64, skipped: &[(u16, u16)]) {
        self.sack_soon();
        if tsn <= self.cumulative {
            return;
        }
        self.cumulative = tsn;
        self.absorb();
        for &(stream, ssn) in skipped {
            let Some(next) = self.next_of(stream) else { continue };
            if (ssn.wrapping_sub(*next as u16) as i16) < 0 {
                continue; // all of them had arrived
            }
            let last = unwrap(*next, ssn);
            let from = std::mem::replace(next, last + 1);
            // What arrived of them is delivered, the rest never will be.
            let mut arrived = 0;
            while let Some((&key, &len)) = self.waiting.range((stream, from)..=(stream, last)).next() {
                self.waiting.remove(&key);
                self.buffered -= u64::from(len);
                self.hand_over(key, len);
                arrived += 1;
            }
            self.skipped += (last + 1).saturating_sub(from) - arrived;
            self.drain(stream);
        }
    }

    /// The contents of a SACK: a_rwnd and what is beyond the cumulative TSN. To be sent now.
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
        self.absorb();
    }

    /// Ranges that the cumulative TSN has reached.
    fn absorb(&mut self) {
        while let Some(&(a, b)) = self.ranges.first()
            && a <= self.cumulative + 1
        {
            self.cumulative = self.cumulative.max(b);
            self.ranges.remove(0);
        }
    }

    fn deliver(&mut self, stream: u16, ssn: u16, len: u16) {
        let Some(&mut next) = self.next_of(stream) else { return };
        let number = unwrap(next, ssn);
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.taken = Some((stream, number));
        }
        if number != next {
            let before = self.waiting.insert((stream, number), len).unwrap_or(0); // a peer that uses a number twice
            self.buffered += u64::from(len);
            self.buffered -= u64::from(before);
            return;
        }
        self.hand_over((stream, number), len);
        self.next[usize::from(stream)] += 1;
        self.drain(stream);
    }

    fn drain(&mut self, stream: u16) {
        loop {
            let key = (stream, self.next[usize::from(stream)]);
            let Some(len) = self.waiting.remove(&key) else { return };
            self.buffered -= u64::from(len);
            self.hand_over(key, len);
            self.next[usize::from(stream)] += 1;
        }
    }

    fn hand_over(&mut self, key: (u16, u64), len: u16) {
        self.delivered += u64::from(len);
        if let Some(by_hand) = &mut self.by_hand {
            by_hand.delivered.push_back(key);
            by_hand.unread += u64::from(len);
        }
        #[cfg(test)]
        self.log.push((key.0, key.1, len));
    }

    /// `None` if the stream was not agreed on.
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

/// The message number, `next` or later, that `ssn` stands for.
fn unwrap(next: u64, ssn: u16) -> u64 {
    next + u64::from(ssn.wrapping_sub(next as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        Receiver::new(&SctpConfig { rcv_buf: 1_000, ..SctpConfig::default() })
    }

    #[test]
    fn every_second_packet_is_acknowledged_and_a_gap_at_once() {
        let mut r = receiver();
        r.on_data(Time(5), 1, (0, 0), 100);
        assert_eq!((r.wants_sack(), r.next_wake()), (false, Time(5) + Time::from_millis(200)));
        r.on_data(Time(6), 2, (0, 1), 100);
        assert!(r.wants_sack());
        assert_eq!(r.sack(0), (1_000, Gaps::default()));
        r.on_data(Time(7), 4, (0, 3), 100);
        assert!(r.wants_sack());
        r.on_data(Time(7), 7, (0, 6), 100);
        r.on_data(Time(7), 4, (0, 3), 100);
        let gaps = [Gap { start: 2, end: 2 }, Gap { start: 5, end: 5 }];
        assert_eq!(r.sack(9), (800, Gaps::new(gaps, [13])));
        r.on_data(Time(8), 3, (0, 2), 100);
        assert!(r.wants_sack(), "a gap was closed");
        assert_eq!(r.sack(0), (900, Gaps::new([Gap { start: 3, end: 3 }], [])));
        assert_eq!((r.cumulative(), r.delivered()), (4, 400));
        r.on_data(Time(9), 2, (0, 1), 100);
        assert_eq!(r.sack(0).1, Gaps::new([Gap { start: 3, end: 3 }], [2]));
        r.wake(Time::MAX);
        assert!(r.wants_sack());
    }

    #[test]
    fn a_full_buffer_takes_only_what_closes_the_gap() {
        let mut r = receiver();
        for i in 2..=12 {
            r.on_data(Time(0), i, (0, i as u16 - 1), 100);
        }
        assert_eq!(r.sack(0), (0, Gaps::new([Gap { start: 2, end: 11 }], [])));
        r.on_data(Time(0), 1, (0, 0), 100);
        assert_eq!((r.cumulative(), r.delivered(), r.sack(0).0), (11, 1_100, 1_000));
    }

    #[test]
    fn data_of_a_stream_not_agreed_on_is_acknowledged_and_discarded() {
        let mut r = receiver();
        r.agree(2);
        r.on_data(Time(0), 1, (2, 0), 100);
        r.on_data(Time(0), 2, (1, 0), 100);
        r.on_forward(3, &[(7, 9)]);
        assert_eq!((r.cumulative(), r.delivered(), r.next.len()), (3, 100, 2));
        assert!(r.wants_sack());
    }

    #[test]
    fn streams_do_not_wait_for_each_other() {
        let mut r = receiver();
        r.on_data(Time(0), 2, (1, 0), 10);
        r.on_data(Time(0), 4, (0, 1), 10);
        r.on_data(Time(0), 3, (1, 1), 10);
        assert_eq!(r.log, [(1, 0, 10), (1, 1, 10)]);
        r.on_data(Time(0), 1, (0, 0), 10);
        assert_eq!(r.log[2..], [(0, 0, 10), (0, 1, 10)]);
    }

    #[test]
    fn skipped_messages_are_counted_and_never_delivered() {
        let mut r = receiver();
        r.on_data(Time(0), 1, (0, 0), 10);
        r.on_data(Time(0), 3, (0, 2), 10); // waits for number 1
        r.on_data(Time(0), 6, (0, 4), 10); // waits for numbers 1 and 3
        r.on_forward(5, &[]);
        assert_eq!((r.cumulative(), r.delivered()), (6, 10));
        let mut r2 = receiver();
        r2.on_data(Time(0), 3, (0, 2), 10);
        r2.on_data(Time(0), 6, (0, 5), 10);
        r2.on_forward(5, &[(0, 4), (7, 0)]);
        assert_eq!(r2.log, [(0, 2, 10), (0, 5, 10)]);
        assert_eq!((r2.cumulative(), r2.skipped(), r2.buffered), (6, 4 + 1, 0));
        r2.on_forward(4, &[(0, 9)]);
        let mut r3 = receiver();
        r3.on_data(Time(0), 2, (0, 0), 10);
        r3.on_data(Time(0), 3, (0, 1), 10);
        r3.on_forward(3, &[(0, 1), (1, 0)]); // of stream 0 nothing is missing
        assert_eq!((r3.skipped(), r3.delivered(), r3.next[0]), (1, 20, 2));
        r2.on_data(Time(0), 2, (0, 1), 10); // late: a duplicate
        assert_eq!((r2.skipped(), r2.delivered()), (5, 20));
        r2.on_data(Time(0), 7, (0, 6), 10);
        assert_eq!(r2.delivered(), 30);
    }
}
