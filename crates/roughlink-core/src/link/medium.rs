//! Medium shared by several directions: a half-duplex power line, or a cable with many stations.
//!
//! While one port sends, the others cannot, so the directions cannot be separate links. A medium has two ports for each
//! pair of nodes, and the methods of every element, with the port as an argument.

use super::pipe::PipeStats;
use crate::packet::{FlowId, Packet};
use crate::units::Time;
use std::fmt::Debug;

/// Link whose directions share one medium. A port is a direction of a pair: `2 * pair + direction`, where direction 0
/// goes from the pair's first node to its second.
///
/// `receive` and `wake` may move `next_wake` for all ports. Time never goes back, and `wake` is called no later than
/// `next_wake`. If a packet arrives at exactly that time, `receive` may be called before or after `wake`.
pub trait Medium: Debug + Send {
    /// Queues a packet at `port`, fragmented if it is larger than the MTU; calls `dropped` for packets that do not fit.
    fn receive(&mut self, now: Time, port: usize, p: Packet, dropped: &mut dyn FnMut(Packet));

    /// Returns the next packet that arrived at the far end of its port by `now`, in order of arrival, with that port.
    fn transmit(&mut self, now: Time) -> Option<(usize, Packet)>;

    /// Processes events that are due. Calls `dropped` for packets that their sender abandons.
    fn wake(&mut self, now: Time, dropped: &mut dyn FnMut(Packet));

    /// Returns the time of the next arrival or event.
    fn next_wake(&self) -> Time;

    /// Returns the packets of `flow` (a flow and its direction) in the transmit queue of `port`.
    fn backlog(&self, port: usize, flow: FlowId) -> Backlog;

    /// Returns the number of packets in the transmit queue of `port`, as its limit counts them.
    fn waiting(&self, port: usize) -> usize;

    /// Returns the mean time between frames of `port` with `sdus` packets of the MTU's size, at the rate at `now`, if
    /// no other port sends.
    fn cycle_time(&self, now: Time, port: usize, sdus: u32) -> Time;

    /// Returns the largest number of packets of the MTU's size in a frame of `port` sent at `now`, at least one.
    fn limit(&self, now: Time, port: usize) -> u32;

    /// Returns the moving average of the share of packets of `port` that were requested again; 0 if not maintained.
    fn rejected(&self, _port: usize) -> f64 {
        0.0
    }

    /// Returns the counters of `port`.
    fn stats(&self, port: usize) -> &PipeStats;

    /// Iterates over all packets inside, to count those left at the end.
    fn in_transit(&self) -> Box<dyn Iterator<Item = &Packet> + '_>;
}

/// Number of packets of one flow in a transmit queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Not sent yet.
    pub waiting: u32,
    /// Sent, but not acknowledged by the link's own acknowledgments.
    pub unacknowledged: u32,
}

/// Backlog of every flow at one port.
#[derive(Debug, Default)]
pub(super) struct Backlogs(Vec<Backlog>);

impl Backlogs {
    #[inline]
    pub(super) fn backlog_mut(&mut self, flow: FlowId) -> &mut Backlog {
        let i = flow.0 as usize;
        if i >= self.0.len() {
            self.0.resize(i + 1, Backlog::default());
        }
        &mut self.0[i]
    }
    /// Counts a packet of `flow` as sent for the first time.
    #[inline]
    pub(super) fn sent(&mut self, flow: FlowId) {
        let b = self.backlog_mut(flow);
        b.waiting -= 1;
        b.unacknowledged += 1;
    }
    pub(super) fn get(&self, flow: FlowId) -> Backlog {
        self.0.get(flow.0 as usize).copied().unwrap_or_default()
    }
}
