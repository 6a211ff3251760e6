//! Reductions of the window for marks that the peer reports: the sender's part of [`crate::tcp::ecn`].

use super::TcpSender;
use crate::cc::{Congestion, CongestionState};

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct EcnSender {
    pub(in crate::tcp) agreed: bool,
    /// Set if the next new segment carries CWR.
    pub(in crate::tcp) announce: bool,
    /// `snd_nxt` at the last reduction of the window. Congestion of earlier data does not reduce the window again.
    until: u64,
    /// `snd_nxt` at the last reduction for a mark.
    marked_until: u64,
    /// Offset after the last byte that has left.
    pub(in crate::tcp) sent: u64,
}

impl EcnSender {
    /// Records a reduction of the window while `nxt` was the next new byte.
    pub(super) fn reduced(&mut self, nxt: u64) {
        if self.agreed {
            (self.announce, self.until) = (true, nxt);
        }
    }

    /// Cancels the announcement of a reduction that was undone.
    pub(super) fn withdraw(&mut self) {
        self.announce = false;
    }

    /// Returns true if the window was reduced for a mark at `una`: a loss there does not reduce it again.
    pub(super) fn covers(&self, una: u64) -> bool {
        una < self.marked_until
    }
}

impl TcpSender {
    /// Handles ECE with every kind of loss recovery except `rack`.
    pub(super) fn on_echo_by_count(&mut self) {
        let calm = matches!(self.core.flow.state, CongestionState::Open | CongestionState::Disorder);
        // Until the segment with CWR is acknowledged, ECE may report marks for which the window was already reduced.
        if calm && (self.board.una() > self.ecn.until) {
            self.core.stats.ecn_reductions += 1;
            self.core.congestion(Congestion::Ecn);
            self.ecn.reduced(self.board.nxt());
            self.ecn.marked_until = self.ecn.until;
        }
    }
}
