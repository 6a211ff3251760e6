//! One direction of a TCP connection, measured at the port of the kernel that sends it.
//!
//! **Retransmissions.** A segment is a retransmission if it occupies sequence numbers (payload, SYN, FIN) and begins
//! below the highest number sent. Linux sends probes of an idle connection without payload, so they do not count.
//!
//! **Round-trip times.** The time runs from sending to the first acknowledgment that covers the segment. A selective
//! acknowledgment (RFC 2018) counts at once, so that the time of a segment behind a hole does not include the wait
//! until the hole is filled. By Karn's rule (RFC 6298 section 3) a retransmitted segment is not measured. An
//! acknowledgment that reaches beyond such a segment measures nothing, because the receiver may have waited for it.
//! Memory is bounded: with very many segments in flight, only every second, fourth and so on is measured.
//!
//! Sequence numbers are extended to 64 bits against wraparound: the value nearest to the highest known number counts.

use roughlink_core::packet::{SackBlock, flags};
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use roughlink_core::wire::Decoded;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct TcpDirection {
    open: Option<OpenConnection>,
    /// Payload that earlier connections with the same addresses and ports delivered, bytes.
    before: u64,
    pub(super) retransmits: u64,
    pub(super) rtt: Histogram,
    /// Smoothed round-trip time, SRTT of RFC 6298 section 2, ns.
    pub(super) smoothed: Option<f64>,
}

#[derive(Debug)]
struct OpenConnection {
    /// First sequence number seen; smaller ones do not count.
    first: u64,
    /// True if the first number belongs to a SYN.
    syn: bool,
    fin: Option<u64>,
    /// Payload of all segments, bytes. The delivered bytes are at most this, even if sequence numbers suggest more.
    payload: u64,
    /// Highest sequence number sent, plus one.
    next: u64,
    /// Cumulative acknowledgment: as sent by the receiver, and as received by the sender.
    acknowledged: u64,
    heard: u64,
    /// Upper end of all retransmitted ranges.
    again: u64,
    /// Remembered segments in flight, in ascending order.
    flying: VecDeque<Flying>,
    /// Interval of remembered segments: every n-th is remembered.
    every: u32,
    /// Number of segments to skip before the next is remembered.
    skip: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    start: u64,
    end: u64,
    /// Time of sending; `None` after a measurement or a retransmission.
    at: Option<Time>,
}

impl TcpDirection {
    /// Records a segment of this direction; `sent` is true if its kernel sends it. Returns true if it begins with new
    /// sequence numbers.
    pub(super) fn take(&mut self, now: Time, segment: &Decoded, sent: bool) -> bool {
        let (syn, fin) = (segment.packet.is(flags::SYN), segment.packet.is(flags::FIN));
        let (seq, payload) = (segment.packet.seq, segment.payload.len() as u64);
        let length = payload + u64::from(syn) + u64::from(fin);
        if length == 0 {
            return false;
        }
        // A SYN with another sequence number starts another connection of the same ports.
        if syn && self.open.as_ref().is_some_and(|o| o.first as u32 != seq) {
            self.before = self.delivered();
            self.open = None;
        }
        let open = self.open.get_or_insert_with(|| OpenConnection::new(seq, syn));
        let start = near(open.next, seq);
        let end = start.wrapping_add(length);
        open.payload += payload;
        if fin {
            open.fin = Some(end - 1);
        }
        let again = start < open.next;
        if sent && again {
            self.retransmits += 1;
            open.again = open.again.max(end.min(open.next));
            open.forget(start, end);
        }
        if sent && end > open.next {
            open.remember(Flying { start: start.max(open.next), end, at: Some(now) });
        }
        open.next = open.next.max(end);
        !again
    }

    /// Records a segment of the other direction, which acknowledges data of this one; `to_sender` is true if the
    /// sending kernel gets it. Returns true if it acknowledges new data.
    pub(super) fn acknowledge(&mut self, now: Time, segment: &Decoded, to_sender: bool) -> bool {
        let Some(open) = self.open.as_mut().filter(|_| segment.packet.is(flags::ACK)) else { return false };
        let ack = near(open.next, segment.packet.ack);
        if ack < open.first || ack > open.next {
            return false;
        }
        if to_sender {
            let mut oldest = None;
            let rtt = &mut self.rtt;
            let mut sample = |sent: Time| {
                let took = now.saturating_sub(sent);
                rtt.record(took.0);
                oldest = oldest.max(Some(took));
            };
            if ack > open.heard {
                let ambiguous = open.heard < open.again;
                while let Some(flying) = open.flying.front().filter(|flying| flying.end <= ack) {
                    flying.at.filter(|_| !ambiguous).into_iter().for_each(&mut sample);
                    open.flying.pop_front();
                }
                open.heard = ack;
                if open.flying.is_empty() {
                    open.every = 1;
                }
            }
            // Only the first two blocks may be new, and the first may report a duplicate (RFC 2883).
            for SackBlock { left, right } in segment.sacks().iter().take(2) {
                let (left, right) = (near(open.next, *left), near(open.next, *right));
                open.measure_latest(left, right, &mut sample);
            }
            if let Some(sample) = oldest {
                let sample = sample.0 as f64;
                self.smoothed = Some(self.smoothed.map_or(sample, |s| s + (sample - s) / 8.0));
            }
        }
        let new = ack > open.acknowledged;
        open.acknowledged = open.acknowledged.max(ack);
        new
    }

    pub(super) fn delivered(&self) -> u64 {
        self.before + self.open.as_ref().map_or(0, OpenConnection::delivered)
    }
}

#[cfg(test)]
impl TcpDirection {
    pub(super) fn flying(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.flying.len())
    }
}

impl OpenConnection {
    fn new(seq: u32, syn: bool) -> Self {
        // Keep a distance from 0, so that earlier sequence numbers do not underflow.
        let first = (1 << 32) + u64::from(seq);
        OpenConnection {
            first,
            syn,
            fin: None,
            payload: 0,
            next: first,
            acknowledged: first,
            heard: first,
            again: first,
            flying: VecDeque::new(),
            every: 1,
            skip: 0,
        }
    }

    fn delivered(&self) -> u64 {
        let numbers = self.acknowledged - self.first;
        let syn = self.syn && numbers > 0;
        let fin = self.fin.is_some_and(|fin| (self.first..self.acknowledged).contains(&fin));
        numbers.saturating_sub(u64::from(syn) + u64::from(fin)).min(self.payload)
    }

    fn remember(&mut self, flying: Flying) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.flying.len() >= MAX_FLYING {
            let mut odd = false;
            self.flying.retain(|_| {
                odd = !odd;
                odd
            });
            self.every *= 2;
        }
        self.skip = self.every - 1;
        self.flying.push_back(flying);
    }

    /// Excludes segments that overlap with `start` to `end` from measurements.
    fn forget(&mut self, start: u64, end: u64) {
        let from = self.flying.partition_point(|flying| flying.end <= start);
        for flying in self.flying.range_mut(from..).take_while(|flying| flying.start < end) {
            flying.at = None;
        }
    }

    /// Measures the segments between `left` and `right`, the latest first. Stops at one that is already acknowledged.
    fn measure_latest(&mut self, left: u64, right: u64, mut sample: impl FnMut(Time)) {
        let to = self.flying.partition_point(|flying| flying.end <= right);
        for flying in self.flying.range_mut(..to).rev().take_while(|flying| flying.start >= left) {
            let Some(sent) = flying.at.take() else { break };
            sample(sent);
        }
    }
}

/// Returns the number nearest to `known` whose lower half is `seq`.
fn near(known: u64, seq: u32) -> u64 {
    known.wrapping_add_signed(i64::from(seq.wrapping_sub(known as u32) as i32))
}

/// Maximum number of remembered segments in flight per direction.
pub(super) const MAX_FLYING: usize = 512;
