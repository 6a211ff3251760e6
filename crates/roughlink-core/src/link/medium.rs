//! A medium that several directions share: a half-duplex power line, a cable with many stations.
//!
//! While one port sends the others cannot, so the directions cannot be links of their own. A medium has ports, two for
//! each pair of nodes it joins, and the verbs of every element for all of them.

use super::pipe::PipeStats;
use crate::packet::{FlowId, Packet};
use crate::units::Time;
use std::fmt::Debug;

/// A link whose directions share one medium. A port is a direction of a pair: `2 * pair + direction`, where direction 0 goes
/// from the pair's first node to its second.
///
/// `receive` and `wake` may move `next_wake` for all ports. Time never goes back, and `wake` is called no later than
/// `next_wake`; if a packet comes at that very time, `receive` may be called before or after `wake`.
pub trait Medium: Debug + Send {
    /// A packet joins the transmit queue of `port`; larger than the MTU, it does so as fragments. What does not fit is given
    /// to `dropped`.
    fn receive(&mut self, now: Time, port: usize, p: Packet, dropped: &mut dyn FnMut(Packet));

    /// The next packet that has arrived at the far end of its port by `now`, with that port; in the order of arrival.
    fn transmit(&mut self, now: Time) -> Option<(usize, Packet)>;

    /// Processes what is due. A packet that its sender gives up is given to `dropped`.
    fn wake(&mut self, now: Time, dropped: &mut dyn FnMut(Packet));

    /// When something arrives or happens next.
    fn next_wake(&self) -> Time;

    /// Packets of `flow` (a flow and its direction) in the transmit queue of `port`.
    fn backlog(&self, port: usize, flow: FlowId) -> Backlog;

    /// Packets in the transmit queue of `port`, as its limit counts them.
    fn waiting(&self, port: usize) -> usize;

    /// Mean time from one frame with `sdus` packets of the MTU's size to the next, when only one port sends, at the rate that
    /// the medium has `now`.
    fn cycle_time(&self, now: Time, sdus: u32) -> Time;

    /// The most packets of the MTU's size in a frame that is sent `now`, at least one.
    fn limit(&self, now: Time) -> u32;

    /// Moving average of the share of packets of `port` that the receiver requested again; 0 where it is not maintained.
    fn rejected(&self, _port: usize) -> f64 {
        0.0
    }

    /// What `port` counted so far.
    fn stats(&self, port: usize) -> &PipeStats;

    /// All packets inside, to count what is left at the end.
    fn in_transit(&self) -> Box<dyn Iterator<Item = &Packet> + '_>;
}

/// Packets of one flow in a transmit queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Not sent yet.
    pub waiting: u32,
    /// Sent, but not acknowledged by the link's own acknowledgements.
    pub unacknowledged: u32,
}

/// The backlog of every flow at one port.
#[derive(Debug, Default)]
pub(super) struct Backlogs(Vec<Backlog>);

impl Backlogs {
    /// The backlog of `flow`, to change it.
    #[inline]
    pub(super) fn of(&mut self, flow: FlowId) -> &mut Backlog {
        let i = flow.0 as usize;
        if i >= self.0.len() {
            self.0.resize(i + 1, Backlog::default());
        }
        &mut self.0[i]
    }
    /// A packet of `flow` is sent for the first time.
    #[inline]
    pub(super) fn sent(&mut self, flow: FlowId) {
        let b = self.of(flow);
        b.waiting -= 1;
        b.unacknowledged += 1;
    }
    /// The backlog of `flow`.
    pub(super) fn get(&self, flow: FlowId) -> Backlog {
        self.0.get(flow.0 as usize).copied().unwrap_or_default()
    }
}
