//! Protection against old segments by their timestamps (PAWS, RFC 7323 section 5). The receiver keeps the timestamp of
//! the last segment that advanced the stream (TS.Recent) and drops segments with an older one. Under reordering this
//! also concerns new data: if a retransmission fills a gap and overtakes data that left earlier, that data is dropped,
//! although the network delivered it.

use super::TcpEndpoint;
use crate::packet::{Packet, flags};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rejection of segments with an old timestamp (PAWS, RFC 7323 section 5). No effect without `timestamps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Paws {
    /// No rejection (ns-2, ns-3).
    None,
    /// Drop and answer each segment whose timestamp is older than TS.Recent (RFC 7323 section 5.3, rule R1).
    Rfc,
    /// Like Linux 6.18 (`tcp_validate_incoming`): accept timestamps up to one tick older than TS.Recent and process
    /// duplicate ACKs. Older ACKs without data are dropped, with at most one answer in 500 ms. A duplicate of the last
    /// data acknowledged updates TS.Recent.
    Linux,
}

#[derive(Clone, Debug)]
pub(super) struct PeerTimestamps {
    rule: Paws,
    /// TS.Recent (RFC 7323 section 4.3), and the time of its recording.
    recent: u32,
    recorded: Time,
    /// Time of the last answer to a rejected ACK without data.
    answered: Option<Time>,
    /// Segments dropped for their timestamps (Linux `PAWSEstab`).
    rejected: u64,
}

impl PeerTimestamps {
    pub(super) fn new(rule: Paws) -> Self {
        PeerTimestamps { rule, recent: 0, recorded: Time::ZERO, answered: None, rejected: 0 }
    }
    #[inline]
    pub(super) fn recent(&self) -> u32 {
        self.recent
    }
    #[inline]
    pub(super) fn record(&mut self, now: Time, tsval: u32) {
        (self.recent, self.recorded) = (tsval, now);
    }
    /// Records `tsval` as TS.Recent unless it is older (RFC 7323 section 4.3, step 2).
    #[inline(always)]
    pub(super) fn advance(&mut self, now: Time, tsval: u32) {
        if self.age(tsval) <= 0 || !self.is_valid(now) {
            self.record(now, tsval);
        }
    }
    /// Returns true if a duplicate that ends at offset `end` updates TS.Recent (Linux `tcp_sequence`).
    #[inline]
    pub(super) fn counts_duplicate(&self, end: u64, last_ack_sent: u64) -> bool {
        self.rule == Paws::Linux && end >= last_ack_sent
    }
    /// Returns the ticks by which `tsval` is older than TS.Recent, negative if it is younger.
    #[inline]
    fn age(&self, tsval: u32) -> i32 {
        self.recent.wrapping_sub(tsval) as i32
    }
    #[inline(always)]
    fn is_old(&self, now: Time, tsval: u32) -> bool {
        let age = self.age(tsval);
        age > 0 && self.is_too_old(now, age)
    }
    /// Returns true if PAWS applies to a timestamp that is `age` ticks older than TS.Recent.
    #[cold]
    fn is_too_old(&self, now: Time, age: i32) -> bool {
        let tolerated = match self.rule {
            Paws::None => return false,
            Paws::Rfc => 0,
            Paws::Linux => LINUX_WINDOW,
        };
        age > tolerated && self.is_valid(now)
    }
    /// Returns true if TS.Recent has not expired (RFC 7323 section 5.5) and, in Linux, is not 0 (`tcp_paws_check`).
    fn is_valid(&self, now: Time) -> bool {
        match self.rule {
            Paws::Linux => self.recent != 0 && now - self.recorded < LINUX_VALID,
            Paws::None | Paws::Rfc => now - self.recorded <= VALID,
        }
    }
    /// Returns true if a rejected ACK without data is answered now.
    fn is_answered(&mut self, now: Time) -> bool {
        let answered = self.rule == Paws::Rfc || self.answered.is_none_or(|last| now - last >= LINUX_RATE_LIMIT);
        if answered {
            self.answered = Some(now);
        }
        answered
    }
}

impl TcpEndpoint {
    #[inline(always)]
    pub(super) fn is_old(&self, now: Time, p: &Packet) -> bool {
        self.timestamps && p.has_timestamps() && self.rcv.peer.is_old(now, p.tsval)
    }

    /// Handles a segment at offset `start` whose timestamp is too old. Returns false if it is processed nevertheless.
    #[cold]
    pub(super) fn rejects(&mut self, now: Time, p: &Packet, start: u64) -> bool {
        let end = start + u64::from(p.payload()) + u64::from(p.is(flags::FIN));
        let nxt = self.rcv.nxt();
        if end == start && self.rcv.peer.rule == Paws::Linux {
            if start < nxt {
                return true; // counted separately and not answered (`PAWSOldAck`)
            }
            if start == nxt && self.repeats_acknowledgment(p) {
                return false;
            }
        }
        self.rcv.peer.rejected += 1;
        if end > start {
            self.rcv.report_rejected(start, end);
        } else if self.rcv.peer.is_answered(now) {
            self.rcv.acknowledge_now();
        }
        true
    }

    /// Returns true if `p` is a recent duplicate ACK with the same window (Linux `tcp_disordered_ack_check`).
    fn repeats_acknowledgment(&self, p: &Packet) -> bool {
        let Some(snd) = self.sender() else { return false };
        let window = u64::from(p.window) << self.peer_shift;
        let age = Time::from_millis(self.rcv.peer.age(p.tsval).max(0) as u64);
        p.ack == self.iss.wrapping_add(snd.una() as u32)
            && (1..=snd.core().flow().send_window).contains(&window)
            && age <= snd.core.rtt.rto() + snd.core.rtt.rto() / 5
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.rcv.peer.rejected
    }
}

/// Time for which TS.Recent stays valid without being updated (RFC 7323 section 5.5).
const VALID: Time = Time::from_secs(24 * 24 * 3600);
/// The same time in Linux (`TCP_PAWS_WRAP`).
const LINUX_VALID: Time = Time::from_secs(2_147);
/// Ticks by which a timestamp may be older than TS.Recent in Linux (`TCP_PAWS_WINDOW`).
const LINUX_WINDOW: i32 = 1;
/// Least time between two answers to ACKs without data (Linux `tcp_invalid_ratelimit`).
const LINUX_RATE_LIMIT: Time = Time::from_millis(500);
