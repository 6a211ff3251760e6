//! One direction of a TCP connection, as it passes at the port of the kernel that sends it.
//!
//! **Retransmissions.** A segment that occupies sequence numbers (payload, SYN, FIN) and begins below the highest that the kernel has
//! sent. Probes of an idle connection, which Linux sends without payload, are none.
//!
//! **Round-trip times.** From sending to the first acknowledgement that covers the segment. A selective one (RFC 2018) counts at
//! once, so that a segment behind a hole is not measured until the hole is filled. By Karn's rule (RFC 6298 section 3) a
//! segment that was sent again is not measured, and an acknowledgement that reaches beyond such a one measures nothing: it may have waited
//! for it. What is remembered of a window is bounded: of very many segments on their way, each second, fourth and so on is measured.
//!
//! Sequence numbers are extended to 64 bits, near the highest known, so that they may wrap around.

use roughlink_core::packet::flags;
use roughlink_core::quantiles::Histogram;
use roughlink_core::units::Time;
use std::collections::VecDeque;

/// What is read of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) seq: u32,
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) payload: usize,
    /// The selective acknowledgements that may be new: the first two blocks, of which the first may report a duplicate (RFC 2883).
    pub(super) sacked: [Option<(u32, u32)>; 2],
}

impl Segment {
    /// Of the header at the start of `bytes`, which are what an IP datagram carries. Only what is needed is read: this is done twice for
    /// each packet.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let h = bytes.first_chunk::<HEADER>()?;
        let long = |b: &[u8], at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let header = usize::from(h[12] >> 4) * 4;
        let mut options = bytes.get(HEADER..header)?;
        let is = |flag: u8| h[13] & flag != 0;
        let mut segment = Segment {
            seq: long(h, 4),
            ack: is(flags::ACK).then(|| long(h, 8)),
            syn: is(flags::SYN),
            fin: is(flags::FIN),
            payload: bytes.len() - header,
            sacked: [None; 2],
        };
        while let [kind, rest @ ..] = options {
            options = match (kind, rest) {
                (&END, _) => break,
                (&NOP, rest) => rest,
                (_, [length, ..]) => {
                    let body = options.get(2..usize::from(*length))?;
                    if *kind == SACK {
                        for (block, b) in segment.sacked.iter_mut().zip(body.chunks_exact(8)) {
                            *block = Some((long(b, 0), long(b, 4)));
                        }
                    }
                    &options[usize::from(*length)..]
                }
                _ => break,
            };
        }
        Some(segment)
    }
}

/// What is known of a direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The connection that is open, once something of it was seen.
    open: Option<Open>,
    /// Payload that earlier connections of the same addresses and ports delivered.
    before: u64,
    pub(super) retransmits: u64,
    pub(super) rtt: Histogram,
    /// RFC 6298 section 2: SRTT, ns.
    pub(super) smoothed: Option<f64>,
}

#[derive(Debug)]
struct Open {
    /// Sequence numbers from here on: the first that was seen.
    first: u64,
    /// The first is that of a SYN.
    syn: bool,
    /// That of the FIN.
    fin: Option<u64>,
    /// One more than the highest sent.
    next: u64,
    /// All below is acknowledged: as the receiver has said, and as the sender has heard.
    acknowledged: u64,
    heard: u64,
    /// All that was sent again is below.
    again: u64,
    /// What is on its way, in ascending order.
    flying: VecDeque<Flying>,
    /// Each so many of the segments is remembered.
    every: u32,
    /// Of these, until the next is.
    skip: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    start: u64,
    end: u64,
    /// When it was sent; nothing once it was measured or sent again.
    at: Option<Time>,
}

impl Stream {
    /// A segment passes; `sent` if its kernel sends it. Says whether it is the first time that it is seen.
    pub(super) fn take(&mut self, now: Time, segment: &Segment, sent: bool) -> bool {
        let length = segment.payload as u64 + u64::from(segment.syn) + u64::from(segment.fin);
        if length == 0 {
            return false;
        }
        // Another connection of the same ports: a SYN with another number.
        if segment.syn && self.open.as_ref().is_some_and(|o| o.first as u32 != segment.seq) {
            self.before = self.delivered();
            self.open = None;
        }
        let open = self.open.get_or_insert_with(|| Open::new(segment));
        let start = near(open.next, segment.seq);
        let end = start.wrapping_add(length);
        if segment.fin {
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

    /// A segment of the other direction passes, which acknowledges what was sent in this one; `to_sender` if it is handed to the kernel
    /// that sent it. Says whether it acknowledges something that no other did.
    pub(super) fn acknowledge(&mut self, now: Time, segment: &Segment, to_sender: bool) -> bool {
        let (Some(open), Some(ack)) = (&mut self.open, segment.ack) else { return false };
        let ack = near(open.next, ack);
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
            for (left, right) in segment.sacked.into_iter().flatten() {
                let (left, right) = (near(open.next, left), near(open.next, right));
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

    /// Payload that was acknowledged.
    pub(super) fn delivered(&self) -> u64 {
        self.before + self.open.as_ref().map_or(0, Open::delivered)
    }
}

#[cfg(test)]
impl Stream {
    pub(super) fn flying(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.flying.len())
    }
}

impl Open {
    fn new(segment: &Segment) -> Self {
        // Far enough from 0 for what lies before.
        let first = (1 << 32) + u64::from(segment.seq);
        Open {
            first,
            syn: segment.syn,
            fin: None,
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
        let fin = self.fin.is_some_and(|fin| self.acknowledged > fin);
        numbers - u64::from(syn) - u64::from(fin)
    }

    fn remember(&mut self, flying: Flying) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.flying.len() >= MOST_FLYING {
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

    /// What overlaps with `start` to `end` is not to be measured any more.
    fn forget(&mut self, start: u64, end: u64) {
        let from = self.flying.partition_point(|flying| flying.end <= start);
        for flying in self.flying.range_mut(from..).take_while(|flying| flying.start < end) {
            flying.at = None;
        }
    }

    /// What lies within `left` to `right` and was not acknowledged before: the latest, down to the first that was.
    fn measure_latest(&mut self, left: u64, right: u64, mut sample: impl FnMut(Time)) {
        let to = self.flying.partition_point(|flying| flying.end <= right);
        for flying in self.flying.range_mut(..to).rev().take_while(|flying| flying.start >= left) {
            let Some(sent) = flying.at.take() else { break };
            sample(sent);
        }
    }
}

/// The number whose lower half is `seq` that is nearest to `known`.
fn near(known: u64, seq: u32) -> u64 {
    known.wrapping_add_signed(i64::from(seq.wrapping_sub(known as u32) as i32))
}

/// Bytes of a TCP header without options.
const HEADER: usize = 20;
// Kinds of options: RFC 9293 section 3.1, RFC 2018 section 3.
const END: u8 = 0;
const NOP: u8 = 1;
const SACK: u8 = 5;
/// Segments on their way that are remembered of a direction.
pub(super) const MOST_FLYING: usize = 512;
