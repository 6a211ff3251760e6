//! Detection of spurious reductions by Linux's rules, and their undo. Retransmissions of one episode may still be in
//! flight in the next, so their D-SACKs and echoes prove nothing about the next episode. Retransmissions in flight when
//! an episode begins are therefore counted in that episode, too. The time of the first retransmission is kept until
//! none is in flight.

use super::super::TcpSender;
use crate::tcp::scoreboard::EVER_RETRANS;
use crate::units::Time;

/// Evidence that the last reduction may be spurious.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    /// `snd_una` at the reduction, until the reduction is undone or final (Linux `undo_marker`).
    marker: Option<u64>,
    /// Set if undo restores the window, because the reduction was not for a mark (Linux `prior_ssthresh` is not 0).
    pub(super) restores: bool,
    /// Retransmissions not yet reported as duplicates; negative before the first (Linux `undo_retrans`).
    unreported: i64,
    /// Millisecond timestamp of the first retransmission; cleared when none is in flight (Linux `retrans_stamp`).
    first_ms: Option<u32>,
    /// Total number of segments reported as duplicates.
    reported: u64,
}

impl Default for Undo {
    fn default() -> Self {
        Undo { marker: None, restores: true, unreported: 0, first_ms: None, reported: 0 }
    }
}

impl Undo {
    /// Makes the last reduction final.
    pub(super) fn forget(&mut self) {
        self.marker = None;
    }
    pub(super) fn on_resent(&mut self, now: Time) {
        self.unreported = self.unreported.max(0) + 1;
        self.first_ms.get_or_insert(now.as_millis() as u32);
    }
}

impl TcpSender {
    /// Prepares for a reduction of the window, with `on_their_way` retransmissions in flight.
    pub(super) fn may_prove_spurious(&mut self, on_their_way: u64) {
        self.rack.undo.marker = Some(self.board.una());
        self.rack.undo.unreported = if on_their_way == 0 { -1 } else { on_their_way as i64 };
    }

    /// Returns the number of retransmitted segments in flight.
    pub(super) fn retransmissions(&self) -> u64 {
        self.board.retrans().div_ceil(u64::from(self.core.flow.mss))
    }

    /// Returns true if a retransmission is in flight per the counters and the head (Linux `tcp_any_retrans_done`).
    pub(super) fn any_retransmission(&self) -> bool {
        self.board.retrans() > 0 || self.board.head().is_some_and(|s| s.is(EVER_RETRANS))
    }

    /// Clears the time of the first retransmission if none is in flight.
    pub(super) fn settle_first_retransmission(&mut self) {
        if !self.any_retransmission() {
            self.rack.undo.first_ms = None;
        }
    }

    /// Handles a report that the bytes `left..right` arrived twice. Returns true if this sender may have caused it.
    pub(super) fn on_duplicate_report(&mut self, (left, right): (u64, u64)) -> bool {
        let segments = right.saturating_sub(left).div_ceil(u64::from(self.core.flow.mss));
        let undo = &mut self.rack.undo;
        undo.reported = undo.reported.saturating_add(segments);
        if segments == 0 || undo.reported > self.core.stats.retransmits {
            return false;
        }
        if undo.unreported > 0 && undo.marker.is_some_and(|marker| right > marker) {
            undo.unreported = undo.unreported.saturating_sub_unsigned(segments).max(0);
        }
        true
    }

    /// Returns true if the acknowledged data was only delayed: `echo` is older than the first retransmission, or
    /// nothing was sent again (Linux `tcp_packet_delayed`).
    pub(super) fn was_delayed(&self, echo: Option<u32>) -> bool {
        match self.rack.undo.first_ms {
            Some(first) => is_older(echo, first),
            None => self.sack || self.board.una() < self.recover,
        }
    }

    pub(super) fn can_undo(&self) -> bool {
        self.cfg.undo && self.rack.undo.marker.is_some()
    }

    /// Returns true if all retransmissions were reported as duplicates (RFC 3708).
    pub(super) fn all_were_duplicates(&self) -> bool {
        self.can_undo() && self.rack.undo.unreported == 0
    }

    /// Returns true if the last reduction proves to be spurious (Linux `tcp_may_undo`).
    pub(super) fn may_undo(&self, echo: Option<u32>) -> bool {
        self.can_undo() && (self.rack.undo.unreported == 0 || self.was_delayed(echo))
    }

    pub(super) fn undo(&mut self) {
        self.rack.undo.forget();
        if self.rack.undo.restores {
            self.core.stats.undos += 1;
            self.core.cc.on_undo(&self.core.flow);
            self.ecn.withdraw();
        }
    }
}

/// Returns true if the echoed timestamp is older than `ms`.
pub(super) fn is_older(echo: Option<u32>, ms: u32) -> bool {
    echo.is_some_and(|e| e != 0 && (e.wrapping_sub(ms) as i32) < 0)
}
