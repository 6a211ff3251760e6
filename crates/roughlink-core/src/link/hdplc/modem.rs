//! Modem: transmit queue of one direction, and the receiver at its far end.

use super::HdplcConfig;
use crate::link::medium::Backlogs;
use crate::link::pipe::PipeStats;
use crate::packet::Packet;
use crate::rng::{RandomStream, Seed};
use crate::units::{Rate, Time};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct HdplcModem {
    /// SDUs sent and not acknowledged, by number; first in the next PDU.
    pub(super) unacknowledged: VecDeque<Sdu>,
    waiting: VecDeque<WaitingSdu>,
    /// PDU that the SDUs at the front of `waiting` will form.
    forming: FormingPdu,
    /// Number of SDUs of `unacknowledged` in the last PDU.
    loaded: usize,
    /// Number of the next new SDU.
    next: u64,
    receiver: ReorderBuffer,
    access: RandomStream,
    /// Access slots drawn for the next PDU.
    slots: Option<u32>,
    pub(super) backlogs: Backlogs,
    pub(super) stats: PipeStats,
    /// Moving average of the share of SDUs that PLC-ACKs rejected.
    pub(super) rejected: f64,
}

#[derive(Debug)]
pub(super) struct Sdu {
    pub(super) packet: Packet,
    number: u64,
    came: Time,
    first_sent: Time,
    transmissions: u8,
    /// True if the far end has received it, even if the sender has no acknowledgment.
    pub(super) received: bool,
}

#[derive(Debug)]
struct WaitingSdu {
    packet: Packet,
    came: Time,
}

#[derive(Debug, Default)]
struct ReorderBuffer {
    /// Number of the SDU to deliver next.
    expected: u64,
    /// SDUs later than `expected`, by number; `None` if the sender abandoned the SDU.
    held: VecDeque<(u64, Option<Packet>)>,
}

impl HdplcModem {
    pub(super) fn new(name: &str, seed: &Seed) -> Self {
        HdplcModem {
            unacknowledged: VecDeque::new(),
            waiting: VecDeque::new(),
            forming: FormingPdu::default(),
            loaded: 0,
            next: 0,
            receiver: ReorderBuffer::default(),
            access: seed.stream(name, "access"),
            slots: None,
            backlogs: Backlogs::default(),
            stats: PipeStats::default(),
            rejected: 0.0,
        }
    }

    /// Returns the packets that count toward the queue's limit.
    pub(super) fn queued(&self, config: &HdplcConfig) -> usize {
        self.waiting.len() + if config.queue_counts_unacknowledged { self.unacknowledged.len() } else { 0 }
    }

    /// Adds a packet to the queue; returns the packet if the queue is full.
    pub(super) fn enqueue(&mut self, now: Time, packet: Packet, config: &HdplcConfig) -> Option<Packet> {
        let queued = self.queued(config);
        if queued >= config.queue as usize {
            self.stats.dropped += 1;
            return Some(packet);
        }
        self.waiting.push_back(WaitingSdu { packet, came: now });
        self.stats.queue_max = self.stats.queue_max.max(queued as u32 + 1);
        self.backlogs.backlog_mut(packet.flow).waiting += 1;
        None
    }

    /// Returns true if there is nothing to send.
    pub(super) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.waiting.is_empty()
    }

    /// Returns when the next PDU is ready: at once to repeat an SDU, else when it became full or the timer expires.
    fn ready(&mut self, rate: Rate, config: &HdplcConfig) -> Option<Time> {
        if !self.unacknowledged.is_empty() {
            return Some(Time::ZERO);
        }
        let timer = self.waiting.front()?.came + config.aggregation;
        let forming = &mut self.forming;
        if forming.rate != rate {
            *forming = FormingPdu { rate, ..FormingPdu::default() };
        }
        while forming.full.is_none()
            && let Some(w) = self.waiting.get(forming.sdus)
        {
            forming.sdus += 1;
            // The last SDU that may join, or the first that no longer fits, completes the PDU.
            if !forming.load.takes(w.packet.size, rate, config) || forming.sdus == config.max_sdus {
                forming.full = Some(w.came);
            }
        }
        Some(forming.full.map_or(timer, |full| timer.min(full)))
    }

    /// Returns when this modem starts to send if the medium is free from `free` on and no other modem starts.
    pub(super) fn start(&mut self, now: Time, free: Time, config: &HdplcConfig) -> Option<Time> {
        let ready = self.ready(config.rate_at(now), config)?;
        let draw = || self.access.range(0, u64::from(config.access_slots) - 1) as u32;
        let slots = *self.slots.get_or_insert_with(draw);
        Some(free.max(ready) + config.access_gap + config.slot * u64::from(slots))
    }

    /// Draws a new back-off, as every contender does when a PDU has taken the medium.
    pub(super) fn redraw(&mut self) {
        self.slots = None;
    }

    /// Builds the next PDU: unacknowledged SDUs, then new ones. Returns its bytes with overhead.
    pub(super) fn load(&mut self, now: Time, config: &HdplcConfig) -> u64 {
        let rate = config.rate_at(now);
        let mut load = PduLoad::default();
        self.forming = FormingPdu::default();
        self.loaded = 0;
        for sdu in self.unacknowledged.iter_mut().take(config.max_sdus) {
            if !load.takes(sdu.packet.size, rate, config) {
                break;
            }
            self.loaded += 1;
            sdu.transmissions += 1;
            self.stats.arq.repeats += 1;
        }
        while self.loaded == self.unacknowledged.len() && self.loaded < config.max_sdus {
            let Some(w) = self.waiting.front() else { break };
            if !load.takes(w.packet.size, rate, config) {
                break;
            }
            let WaitingSdu { packet, came } = *w;
            self.waiting.pop_front();
            if !config.queue_counts_unacknowledged {
                self.stats.waited(came, now);
            }
            self.stats.packets += 1;
            self.stats.bytes += u64::from(packet.size);
            self.backlogs.sent(packet.flow);
            self.unacknowledged.push_back(Sdu {
                packet,
                number: self.next,
                came,
                first_sent: now,
                transmissions: 1,
                received: false,
            });
            self.next += 1;
            self.loaded += 1;
        }
        self.stats.arq.frames += 1;
        self.stats.arq.blocks += self.loaded as u64;
        load.bytes
    }

    /// Applies `bad`, which gets the bytes up to the end of each SDU, to the SDUs of the PDU just built in order. SDUs
    /// that pass are received; `deliver` gets those that are next in order.
    pub(super) fn pass(
        &mut self,
        config: &HdplcConfig,
        mut bad: impl FnMut(u64) -> bool,
        deliver: &mut impl FnMut(Packet),
    ) {
        let mut end = 0;
        for sdu in self.unacknowledged.iter_mut().take(self.loaded) {
            end += u64::from(sdu.packet.size) + u64::from(config.sdu_overhead);
            if bad(end) {
                self.stats.arq.errors += 1;
            } else if sdu.received {
                self.stats.arq.duplicates += 1;
            } else {
                sdu.received = true;
                if config.in_order {
                    self.receiver.receive(sdu.number, Some(sdu.packet), deliver);
                } else {
                    deliver(sdu.packet);
                }
            }
        }
    }

    /// Ends the exchange of the PDU. If the PLC-ACK arrived, the SDUs that it confirms are done. Abandons the remaining
    /// SDUs that have used up their transmissions or lifetime; `deliver` then gets the SDUs that waited for them.
    pub(super) fn settle(
        &mut self,
        now: Time,
        acknowledged: bool,
        config: &HdplcConfig,
        dropped: &mut dyn FnMut(Packet),
        deliver: &mut impl FnMut(Packet),
    ) {
        let HdplcModem { unacknowledged, receiver, backlogs, stats, loaded, rejected, .. } = self;
        let mut left = std::mem::take(loaded);
        if acknowledged && left > 0 {
            let failed = unacknowledged.iter().take(left).filter(|sdu| !sdu.received).count();
            *rejected += (failed as f64 / left as f64 - *rejected) * config.error_weight;
        }
        unacknowledged.retain(|sdu| {
            if left == 0 {
                return true;
            }
            left -= 1;
            let spent = sdu.transmissions >= config.transmissions || now - sdu.first_sent >= config.lifetime;
            let done = acknowledged && sdu.received;
            if !done && spent && !sdu.received {
                stats.lost += 1;
                if config.in_order {
                    receiver.receive(sdu.number, None, deliver);
                }
                dropped(sdu.packet);
            }
            if done || spent {
                backlogs.backlog_mut(sdu.packet.flow).unacknowledged -= 1;
                if config.queue_counts_unacknowledged {
                    stats.waited(sdu.came, now);
                }
            }
            !(done || spent)
        });
    }

    /// Iterates over the packets in this modem and at the receiver.
    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let unreceived = self.unacknowledged.iter().filter(|s| !s.received).map(|s| &s.packet);
        let held = self.receiver.held.iter().filter_map(|h| h.1.as_ref());
        self.waiting.iter().map(|w| &w.packet).chain(unreceived).chain(held)
    }
}

impl ReorderBuffer {
    /// Receives SDU `number`; `None` if the sender abandoned it.
    fn receive(&mut self, number: u64, packet: Option<Packet>, deliver: &mut impl FnMut(Packet)) {
        if number > self.expected {
            if self.held.back().is_none_or(|last| last.0 < number) {
                self.held.push_back((number, packet));
            } else {
                let at = self.held.partition_point(|h| h.0 < number);
                self.held.insert(at, (number, packet));
            }
            return;
        }
        packet.into_iter().for_each(&mut *deliver);
        self.expected += 1;
        while let Some(h) = self.held.pop_front_if(|h| h.0 == self.expected) {
            h.1.into_iter().for_each(&mut *deliver);
            self.expected += 1;
        }
    }
}

/// Progress of the search for the SDU that completes a PDU.
#[derive(Debug, Default)]
struct FormingPdu {
    /// Rate at which the PDU would leave.
    rate: Rate,
    /// Number of SDUs examined so far, and those among them that fit.
    sdus: usize,
    load: PduLoad,
    /// Time at which the PDU became full.
    full: Option<Time>,
}

/// SDUs in a PDU under construction.
#[derive(Debug, Default)]
struct PduLoad {
    bytes: u64,
}

impl PduLoad {
    /// Adds an SDU of `size` bytes and returns true if it fits. The first always fits.
    fn takes(&mut self, size: u16, rate: Rate, config: &HdplcConfig) -> bool {
        let bytes = self.bytes + u64::from(size) + u64::from(config.sdu_overhead);
        if self.bytes > 0 && rate.time_for(bytes) > config.max_air {
            return false;
        }
        self.bytes = bytes;
        true
    }
}
