//! Sender of one port: the frame streams of the priority classes of its flows, and the receiver at the far end. A
//! HomePlug AV modem sorts Ethernet frames by priority class (VLAN priority or IP precedence) into streams, which are
//! cut into blocks, contend and are acknowledged separately. Each stream has its own queue here, like the bands of a
//! host's priority queue (Linux `pfifo_fast`). Assumption: nothing before the modem mixes the classes again.

use super::csma::Csma;
use super::{GreenPhyConfig, PriorityClass};
use crate::link::medium::Backlogs;
use crate::link::pipe::PipeStats;
use crate::packet::Packet;
use crate::units::Time;
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct PortStation {
    /// Streams; the first has the port's class.
    pub(super) streams: Vec<ClassQueue>,
    pub(super) tally: PortTally,
}

/// Counters of a port over all its streams.
#[derive(Debug, Default)]
pub(super) struct PortTally {
    pub(super) backlogs: Backlogs,
    pub(super) stats: PipeStats,
}

#[derive(Debug)]
pub(super) struct ClassQueue {
    pub(super) class: PriorityClass,
    pub(super) csma: Csma,
    pub(super) contends: bool,
    /// Frames in stream order, kept until everything before their end is acknowledged.
    frames: VecDeque<Frame>,
    /// Number of frames, at the front, that the receiver has delivered or regards as lost.
    settled: usize,
    /// Number of frames, at the back, of which nothing has been sent.
    waiting: usize,
    /// Blocks sent and not acknowledged; they come first in the next MPDU.
    blocks: VecDeque<PhyBlock>,
    /// Number of blocks in the last MPDU.
    loaded: usize,
    /// End of the stream, and the offset up to which it is cut into blocks.
    end: u64,
    cut: u64,
}

#[derive(Debug)]
struct Frame {
    packet: Packet,
    came: Time,
    start: u64,
    end: u64,
    /// Bytes that the receiver is missing.
    missing: u64,
    lost: bool,
}

#[derive(Clone, Copy, Debug)]
struct PhyBlock {
    start: u64,
    end: u64,
    first_sent: Time,
    transmissions: u8,
    /// True if the far end has received it, even if the sender has no acknowledgment.
    received: bool,
}

impl PortStation {
    pub(super) fn new(streams: Vec<ClassQueue>) -> Self {
        PortStation { streams, tally: PortTally::default() }
    }

    /// Returns the stream of `class`, or of the port's class.
    pub(super) fn stream_of(&self, class: Option<PriorityClass>) -> usize {
        class.and_then(|class| self.streams.iter().position(|s| s.class == class)).unwrap_or(0)
    }

    /// Adds a packet to the queue of a stream; returns the packet if the queue is full.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        packet: Packet,
        stream: usize,
        config: &GreenPhyConfig,
    ) -> Option<Packet> {
        let dropped = self.streams[stream].enqueue(now, packet, config);
        let waiting = self.waiting() as u32;
        let stats = &mut self.tally.stats;
        if dropped.is_some() {
            stats.dropped += 1;
        } else {
            self.tally.backlogs.backlog_mut(packet.flow).waiting += 1;
            stats.queue_max = stats.queue_max.max(waiting);
        }
        dropped
    }

    pub(super) fn waiting(&self) -> usize {
        self.streams.iter().map(|s| s.waiting).sum()
    }

    /// Iterates over the packets in this station and at the receiver.
    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.streams.iter().flat_map(|s| s.frames.range(s.settled..)).filter(|f| !f.lost).map(|f| &f.packet)
    }
}

impl ClassQueue {
    pub(super) fn new(class: PriorityClass, csma: Csma) -> Self {
        ClassQueue {
            class,
            csma,
            contends: false,
            frames: VecDeque::new(),
            settled: 0,
            waiting: 0,
            blocks: VecDeque::new(),
            loaded: 0,
            end: 0,
            cut: 0,
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.blocks.is_empty() || self.cut < self.end
    }

    fn enqueue(&mut self, now: Time, packet: Packet, config: &GreenPhyConfig) -> Option<Packet> {
        if self.waiting >= config.host_queue as usize + config.modem_ring as usize {
            return Some(packet);
        }
        let start = self.end;
        self.end += u64::from(packet.size) + u64::from(config.frame_overhead);
        self.frames.push_back(Frame {
            packet,
            came: now,
            start,
            end: self.end,
            missing: self.end - start,
            lost: false,
        });
        self.waiting += 1;
        None
    }

    /// Builds an MPDU of up to `most` PBs: unacknowledged blocks, then new ones. Returns the number of PBs.
    pub(super) fn load(&mut self, now: Time, most: usize, body: u64, tally: &mut PortTally) -> usize {
        let repeats = self.blocks.len().min(most);
        for b in self.blocks.iter_mut().take(repeats) {
            b.transmissions += 1;
        }
        self.loaded = repeats;
        if repeats == self.blocks.len() {
            while self.loaded < most && self.cut < self.end {
                let (start, end) = (self.cut, self.end.min(self.cut + body));
                self.blocks.push_back(PhyBlock { start, end, first_sent: now, transmissions: 1, received: false });
                self.cut = end;
                self.loaded += 1;
            }
            self.begin_frames(now, tally);
        }
        let arq = &mut tally.stats.arq;
        arq.frames += 1;
        arq.blocks += self.loaded as u64;
        arq.repeats += repeats as u64;
        self.loaded
    }

    /// Counts the frames whose first byte is in a block by now: they no longer wait.
    fn begin_frames(&mut self, now: Time, tally: &mut PortTally) {
        while self.waiting > 0 {
            let frame = &self.frames[self.frames.len() - self.waiting];
            if frame.start >= self.cut {
                break;
            }
            self.waiting -= 1;
            tally.stats.packets += 1;
            tally.stats.bytes += u64::from(frame.packet.size);
            tally.stats.waited(frame.came, now);
            tally.backlogs.sent(frame.packet.flow);
        }
    }

    /// Applies `bad`, which gets a block's number, to the blocks of the MPDU just built. Blocks that pass are received;
    /// `deliver` gets frames that are complete and next in order.
    pub(super) fn pass(
        &mut self,
        mut bad: impl FnMut(usize) -> bool,
        tally: &mut PortTally,
        deliver: &mut impl FnMut(Packet),
    ) {
        let mut received = 0..0;
        for i in 0..self.loaded {
            let block = &mut self.blocks[i];
            if bad(i) {
                tally.stats.arq.errors += 1;
            } else if block.received {
                tally.stats.arq.duplicates += 1;
            } else {
                block.received = true;
                let PhyBlock { start, end, .. } = *block;
                if start != received.end {
                    self.fill_frames(&received);
                    received.start = start;
                }
                received.end = end;
            }
        }
        self.fill_frames(&received);
        self.deliver(deliver);
    }

    /// Adds received bytes of the stream to their frames. Delivered frames have no missing bytes.
    fn fill_frames(&mut self, received: &Range<u64>) {
        for f in self.frames.range_mut(self.settled..).take_while(|f| f.start < received.end) {
            f.missing -= received.end.min(f.end).saturating_sub(received.start.max(f.start));
        }
    }

    /// Ends the exchange of the MPDU. If the SACK arrived, the blocks that it confirms are done. Abandons the remaining
    /// blocks that have used up their transmissions or lifetime, with all frames that they touch.
    pub(super) fn finish_exchange(
        &mut self,
        now: Time,
        acknowledged: bool,
        config: &GreenPhyConfig,
        tally: &mut PortTally,
        dropped: &mut dyn FnMut(Packet),
        deliver: &mut impl FnMut(Packet),
    ) {
        let ClassQueue { blocks, frames, loaded, .. } = self;
        let stats = &mut tally.stats;
        let mut left = std::mem::take(loaded);
        let lost_before = stats.lost;
        if acknowledged && left == blocks.len() && blocks.iter().all(|b| b.received) {
            blocks.clear(); // the usual case
        } else {
            blocks.retain(|b| {
                if left == 0 {
                    return true;
                }
                left -= 1;
                let spent = b.transmissions >= config.transmissions || now - b.first_sent >= config.lifetime;
                if spent && !b.received {
                    for f in touched(frames, b.start, b.end).filter(|f| !f.lost) {
                        f.lost = true;
                        stats.lost += 1;
                        dropped(f.packet);
                    }
                }
                !(acknowledged && b.received || spent)
            });
        }
        if stats.lost > lost_before {
            self.forget_lost();
            self.deliver(deliver);
        }
        let acknowledged = self.blocks.front().map_or(self.cut, |b| b.start);
        while self.settled > 0
            && let Some(f) = self.frames.pop_front_if(|f| f.end <= acknowledged)
        {
            self.settled -= 1;
            tally.backlogs.backlog_mut(f.packet.flow).unacknowledged -= 1;
        }
    }

    /// Drops the blocks that only lost frames need, and the unsent rest of these frames.
    fn forget_lost(&mut self) {
        let ClassQueue { blocks, frames, .. } = self;
        blocks.retain(|b| b.received || touched(frames, b.start, b.end).any(|f| !f.lost));
        let begun = self.frames.len() - self.waiting;
        if let Some(last) = begun.checked_sub(1).map(|i| &self.frames[i])
            && last.lost
        {
            self.cut = self.cut.max(last.end);
        }
    }

    fn deliver(&mut self, deliver: &mut impl FnMut(Packet)) {
        while let Some(f) = self.frames.get(self.settled)
            && (f.lost || f.missing == 0)
        {
            if !f.lost {
                deliver(f.packet);
            }
            self.settled += 1;
        }
    }
}

/// Iterates over the frames with bytes from `start` to `end`.
fn touched(frames: &mut VecDeque<Frame>, start: u64, end: u64) -> impl Iterator<Item = &mut Frame> {
    let first = frames.partition_point(|f| f.end <= start);
    frames.range_mut(first..).take_while(move |f| f.start < end)
}
