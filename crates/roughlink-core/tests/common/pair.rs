//! Two endpoints and a channel that loses, delays, reorders and repeats what passes; the bytes are real.

use roughlink_core::cc::Factory;
use roughlink_core::packet::{FlowId, NO_SIDE, Packet, Side, Sides, flags};
use roughlink_core::rng::{Seed, Stream, threshold};
use roughlink_core::tcp::{Endpoint, TcpConfig};
use roughlink_core::units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Impairments of a channel, the same both ways.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    pub loss: f64,
    pub repeat: f64,
    pub delay: Time,
    pub jitter: Time,
}

/// One end: how it is configured and what it sends.
pub struct End {
    pub tcp: TcpConfig,
    pub factory: Factory,
    pub bytes: u64,
    pub iss: u32,
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    pub delivered: [u64; 2],
    pub failed: bool,
    pub closed: bool,
    pub slots: usize,
    pub at: Time,
}

struct Pair {
    ends: [Endpoint; 2],
    iss: [u32; 2],
    bytes: [u64; 2],
    /// What has arrived of the stream that each end receives, and what of it was read.
    arrived: [Stream64; 2],
    /// Highest right edge advertised to each end.
    edge: [u64; 2],
    /// Window scale shifts that left on SYN and SYN-ACK.
    offers: [Option<u8>; 2],
    sides: Sides,
    air: BinaryHeap<Reverse<(Time, u64, usize)>>,
    packets: BTreeMap<u64, Packet>,
    number: u64,
    random: Stream,
    channel: Channel,
}

/// Bytes received, by offset: the reference that an endpoint's own count is compared with.
#[derive(Default)]
struct Stream64 {
    bytes: Vec<Option<u8>>,
    contiguous: usize,
}

impl Stream64 {
    fn take(&mut self, at: u64, content: impl Iterator<Item = u8>) {
        for (i, byte) in content.enumerate() {
            let i = at as usize + i;
            if self.bytes.len() <= i {
                self.bytes.resize(i + 1, None);
            }
            assert!(self.bytes[i].is_none_or(|b| b == byte), "byte {i} changed");
            self.bytes[i] = Some(byte);
        }
        while self.bytes.get(self.contiguous).is_some_and(Option::is_some) {
            self.contiguous += 1;
        }
    }
}

/// The byte at `offset` of the stream that end `side` sends.
fn content(side: usize, offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (24 + 8 * side)) as u8
}

/// Connects the two, lets each send its bytes and close, and checks every packet.
pub fn run(ends: [End; 2], channel: Channel, seed: u64) -> Outcome {
    let (iss, bytes) = (ends.each_ref().map(|e| e.iss), ends.each_ref().map(|e| e.bytes));
    let endpoints = ends.map(|e| {
        let mut endpoint = Endpoint::new(FlowId::new(0, false), Arc::new(e.tcp), e.factory, e.iss);
        endpoint.offer(e.bytes, true);
        endpoint
    });
    let mut p = Pair {
        ends: endpoints,
        iss,
        bytes,
        arrived: Default::default(),
        edge: [0; 2],
        offers: [None; 2],
        sides: Sides::default(),
        air: BinaryHeap::new(),
        packets: BTreeMap::new(),
        number: 0,
        random: Seed { seed, replica: 0 }.stream("pair", "channel"),
        channel,
    };
    p.ends[1].listen();
    p.ends[0].connect();
    let at = p.exchange();
    Outcome {
        delivered: p.ends.each_ref().map(Endpoint::delivered),
        failed: p.ends.iter().any(Endpoint::failed),
        closed: p.ends.iter().all(Endpoint::is_done),
        slots: p.sides.in_use(),
        at,
    }
}

impl Pair {
    fn exchange(&mut self) -> Time {
        let mut now = Time::ZERO;
        self.pump(0, now);
        for _ in 0..2_000_000 {
            let arrival = self.air.peek().map_or(Time::MAX, |e| e.0.0);
            let timer = [0, 1].map(|i| self.ends[i].next_wake(now));
            let next = arrival.min(timer[0]).min(timer[1]);
            if next == Time::MAX || next > Time::from_secs(36_000) {
                return now;
            }
            now = now.max(next);
            if arrival <= now {
                self.arrive(now);
            } else {
                let i = usize::from(timer[1] < timer[0]);
                self.ends[i].wake(now);
                self.pump(i, now);
            }
        }
        panic!("it does not come to an end: {:?}", self.ends.each_ref().map(Endpoint::state));
    }

    fn pump(&mut self, i: usize, now: Time) {
        for _ in 0..10_000 {
            let Some(p) = self.ends[i].transmit(now, &mut self.sides) else {
                if let Some(s) = self.ends[i].sender() {
                    s.check();
                    assert!(s.cc().vitals().cwnd > 0);
                }
                return;
            };
            self.check_sent(i, &p);
            self.launch(1 - i, now, p);
        }
        panic!("it never stops sending");
    }

    /// No byte leaves that was not written or for which the peer has no room.
    fn check_sent(&mut self, i: usize, p: &Packet) {
        let side = self.sides.get(p).copied();
        if let Some(Side::Syn(o)) = side {
            self.offers[i] = o.window_scale;
            return;
        }
        let start = u64::from(p.seq.wrapping_sub(self.iss[i]).wrapping_sub(1) & 0x7fff_ffff);
        if p.payload() > 0 {
            let end = start + u64::from(p.payload());
            assert!(end <= self.bytes[i], "sent {end} of {}", self.bytes[i]);
            assert!(end <= self.edge[i], "sent {end} into a window that ends at {}", self.edge[i]);
        }
    }

    fn launch(&mut self, to: usize, now: Time, p: Packet) {
        let copies = 1 + u32::from(self.random.hit(threshold(self.channel.repeat)));
        for copy in 0..copies {
            let mut p = p;
            if copy > 0 && p.side() != NO_SIDE {
                p.set_side(self.sides.store(*self.sides.get(&p).expect("a slot")));
            }
            if self.random.hit(threshold(self.channel.loss)) {
                self.sides.free(&p);
                continue;
            }
            let late = Time(self.random.range(0, self.channel.jitter.0));
            self.number += 1;
            self.air.push(Reverse((now + self.channel.delay + late, self.number, to)));
            self.packets.insert(self.number, p);
        }
    }

    fn arrive(&mut self, now: Time) {
        let Reverse((_, number, to)) = self.air.pop().expect("something is on air");
        let p = self.packets.remove(&number).expect("a packet");
        let from = 1 - to;
        let start = u64::from(p.seq.wrapping_sub(self.iss[from]).wrapping_sub(1) & 0x7fff_ffff);
        let payload = u64::from(p.payload());
        if payload > 0 {
            self.arrived[to].take(start, (start..start + payload).map(|k| content(from, k)));
        }
        if p.is(flags::ACK) {
            let shift = match self.offers {
                [Some(_), Some(_)] if !p.is(flags::SYN) => self.offers[from].unwrap_or(0),
                _ => 0,
            };
            let ack = u64::from(p.ack.wrapping_sub(self.iss[to]).wrapping_sub(1) & 0x7fff_ffff);
            if ack <= self.bytes[to] + 1 {
                self.edge[to] = self.edge[to].max(ack + (u64::from(p.window) << shift));
            }
        } else if p.is(flags::SYN) {
            self.edge[to] = u64::from(p.window);
        }
        self.ends[to].receive(now, &p, &self.sides);
        self.sides.free(&p);
        let delivered = self.ends[to].delivered();
        let read = &self.arrived[to];
        assert!(delivered <= read.contiguous as u64, "delivered {delivered} of {} that arrived", read.contiguous);
        self.pump(to, now);
    }
}
