//! A station: the frame streams of one port, one for each priority class that its flows have, with their PHY blocks and the
//! receiver at their far end.
//!
//! A HomePlug AV modem sorts Ethernet frames by priority class (VLAN priority or IP precedence) into streams that are cut
//! into blocks, contend and are acknowledged each for itself. Each has a queue of its own here, as the bands of a host's
//! priority queue have (Linux `pfifo_fast`). Assumption: nothing in front of them mixes the classes again.

use super::csma::Csma;
use super::{Class, GreenPhyConfig};
use crate::link::medium::Backlogs;
use crate::link::pipe::PipeStats;
use crate::packet::Packet;
use crate::units::Time;
use std::collections::VecDeque;

/// The sender of one port.
#[derive(Debug)]
pub(super) struct Station {
    /// That of the port's own class is the first.
    pub(super) streams: Vec<Stream>,
    pub(super) tally: Tally,
}

/// What a port counts over all its streams.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) backlogs: Backlogs,
    pub(super) stats: PipeStats,
}

/// The frames of one class.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) class: Class,
    pub(super) csma: Csma,
    /// Takes part in the contention under way.
    pub(super) contends: bool,
    /// Frames in the order of the stream, until all before their end is acknowledged.
    frames: VecDeque<Frame>,
    /// How many of them, at the front, the receiver has passed on or regards as lost.
    settled: usize,
    /// How many of them, at the back, are not begun.
    waiting: usize,
    /// Blocks sent and not acknowledged; the next MPDU begins with them.
    blocks: VecDeque<Block>,
    /// Blocks of the last MPDU.
    loaded: usize,
    /// Where the stream ends, and up to where it is cut into blocks.
    end: u64,
    cut: u64,
}

/// A packet with its place in the stream.
#[derive(Debug)]
struct Frame {
    packet: Packet,
    came: Time,
    start: u64,
    end: u64,
    /// Bytes that the receiver has not got.
    missing: u64,
    lost: bool,
}

/// A piece of the stream in a PHY block.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    end: u64,
    first_sent: Time,
    transmissions: u8,
    /// The far end has it, whether or not the sender has been informed.
    received: bool,
}

impl Station {
    pub(super) fn new(streams: Vec<Stream>) -> Self {
        Station { streams, tally: Tally::default() }
    }

    /// A packet joins the queue of `class`, or of the port's own class; if the queue is full it is returned.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        packet: Packet,
        class: Option<Class>,
        config: &GreenPhyConfig,
    ) -> Option<Packet> {
        let index = class.and_then(|class| self.streams.iter().position(|s| s.class == class)).unwrap_or(0);
        let dropped = self.streams[index].enqueue(now, packet, config);
        let waiting = self.waiting() as u32;
        let stats = &mut self.tally.stats;
        if dropped.is_some() {
            stats.dropped += 1;
        } else {
            self.tally.backlogs.of(packet.flow).waiting += 1;
            stats.queue_max = stats.queue_max.max(waiting);
        }
        dropped
    }

    /// Frames that are not begun.
    pub(super) fn waiting(&self) -> usize {
        self.streams.iter().map(|s| s.waiting).sum()
    }

    /// Packets here and at the far end's receiver.
    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.streams.iter().flat_map(|s| s.frames.range(s.settled..)).filter(|f| !f.lost).map(|f| &f.packet)
    }
}

impl Stream {
    pub(super) fn new(class: Class, csma: Csma) -> Self {
        Stream {
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

    /// Whether there is something to send.
    pub(super) fn is_pending(&self) -> bool {
        !self.blocks.is_empty() || self.cut < self.end
    }

    /// A packet joins the queue; if the queue is full it is returned.
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

    /// Puts an MPDU of up to `most` PBs together: what was not acknowledged, then what the stream has. The number of PBs.
    pub(super) fn load(&mut self, now: Time, most: usize, body: u64, tally: &mut Tally) -> usize {
        let repeats = self.blocks.len().min(most);
        for b in self.blocks.iter_mut().take(repeats) {
            b.transmissions += 1;
        }
        self.loaded = repeats;
        while self.loaded == self.blocks.len() && self.loaded < most && self.cut < self.end {
            let (start, end) = (self.cut, self.end.min(self.cut + body));
            self.blocks.push_back(Block { start, end, first_sent: now, transmissions: 1, received: false });
            self.cut = end;
            self.loaded += 1;
            self.begin_frames(now, tally);
        }
        let arq = &mut tally.stats.arq;
        arq.frames += 1;
        arq.blocks += self.loaded as u64;
        arq.repeats += repeats as u64;
        self.loaded
    }

    /// Frames that the last block has reached no longer wait.
    fn begin_frames(&mut self, now: Time, tally: &mut Tally) {
        while self.waiting > 0 {
            let frame = &self.frames[self.frames.len() - self.waiting];
            if frame.start >= self.cut {
                break;
            }
            self.waiting -= 1;
            tally.stats.packets += 1;
            tally.stats.bytes += u64::from(frame.packet.size);
            tally.stats.waited_ns += u128::from((now - frame.came).0);
            tally.backlogs.sent(frame.packet.flow);
        }
    }

    /// Applies `bad`, which receives a block's number, to the blocks of the MPDU just put together. Those that pass are
    /// received, and `deliver` gets the frames that are complete in turn.
    pub(super) fn pass(
        &mut self,
        mut bad: impl FnMut(usize) -> bool,
        tally: &mut Tally,
        deliver: &mut impl FnMut(Packet),
    ) {
        let mut at = self.settled;
        for i in 0..self.loaded {
            if bad(i) {
                tally.stats.arq.errors += 1;
            } else if self.blocks[i].received {
                tally.stats.arq.duplicates += 1;
            } else {
                self.blocks[i].received = true;
                let Block { start, end, .. } = self.blocks[i];
                // Blocks are in order, and nothing is missing of what has been delivered.
                while self.frames.get(at).is_some_and(|f| f.end <= start) {
                    at += 1;
                }
                let mut touched = at;
                while let Some(f) = self.frames.get_mut(touched).filter(|f| f.start < end) {
                    f.missing -= end.min(f.end) - start.max(f.start);
                    touched += 1;
                }
            }
        }
        self.deliver(deliver);
    }

    /// The exchange of the MPDU is over. If its SACK came, the blocks it names are done; of the others, those that have used
    /// up their transmissions or their lifetime are given up with all frames they touch.
    pub(super) fn settle(
        &mut self,
        now: Time,
        acknowledged: bool,
        config: &GreenPhyConfig,
        tally: &mut Tally,
        dropped: &mut dyn FnMut(Packet),
        deliver: &mut impl FnMut(Packet),
    ) {
        let Stream { blocks, frames, loaded, .. } = self;
        let stats = &mut tally.stats;
        let mut left = std::mem::take(loaded);
        let lost_before = stats.lost;
        if acknowledged && left == blocks.len() && blocks.iter().all(|b| b.received) {
            blocks.clear(); // nearly always
            left = 0;
        }
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
        if stats.lost > lost_before {
            self.forget_lost();
            self.deliver(deliver);
        }
        let acknowledged = self.blocks.front().map_or(self.cut, |b| b.start);
        while self.settled > 0
            && let Some(f) = self.frames.pop_front_if(|f| f.end <= acknowledged)
        {
            self.settled -= 1;
            tally.backlogs.of(f.packet.flow).unacknowledged -= 1;
        }
    }

    /// Blocks that only lost frames need are not sent again, and the rest of these frames is not sent at all.
    fn forget_lost(&mut self) {
        let Stream { blocks, frames, .. } = self;
        blocks.retain(|b| b.received || touched(frames, b.start, b.end).any(|f| !f.lost));
        let begun = self.frames.len() - self.waiting;
        if let Some(last) = begun.checked_sub(1).map(|i| &self.frames[i])
            && last.lost
        {
            self.cut = self.cut.max(last.end);
        }
    }

    /// Passes complete frames on, in order.
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

/// The frames with bytes from `start` to `end`.
fn touched(frames: &mut VecDeque<Frame>, start: u64, end: u64) -> impl Iterator<Item = &mut Frame> {
    let first = frames.partition_point(|f| f.end <= start);
    frames.range_mut(first..).take_while(move |f| f.start < end)
}
