//! How the sending half processes an acknowledgement: window, RTT, scoreboard, and then recovery.
//!
//! RTT samples follow Karn's rule (RFC 6298 section 3), or RFC 7323's timestamps where only they are unambiguous.

use super::config::Recovery;
use super::recovery::Arrival;
use super::scoreboard::{Delivered, EVER_RETRANS, NO_SAMPLE, SACKED};
use super::{Sender, unwrap};
use crate::packet::SackBlock;
use crate::units::Time;

/// The fields of an arriving acknowledgement.
pub(super) struct Acknowledgement {
    /// Offset of the next byte that the peer expects.
    pub(super) ack: u64,
    /// The window that it offers, bytes.
    pub(super) window: u64,
    /// It carries data or a FIN.
    pub(super) payload: bool,
    /// The timestamp that it echoes.
    pub(super) echo: Option<u32>,
    /// Base of the peer's view of our sequence space.
    pub(super) irs: u32,
}

/// Brings an acknowledgement to the sender: window, RTT, scoreboard, recovery.
#[inline]
pub(super) fn on_ack(snd: &mut Sender, now: Time, a: &Acknowledgement, sacks: &[SackBlock]) {
    let una = snd.una();
    if a.ack > snd.nxt() || a.ack < una {
        return; // acknowledges what was never sent, or is stale
    }
    let prior_in_flight = snd.board.in_flight();
    let same_window = a.window == snd.flow.send_window;
    snd.flow.now = now;
    snd.set_window(a.window);
    let mut d = Delivered { lowest_original: u64::MAX, ..Delivered::default() };
    let mut rtt = if snd.cfg.timestamp_rtt { sample_by_timestamp(snd, now, a) } else { None };
    let mut dsack = false;
    for (i, b) in sacks.iter().enumerate() {
        let (left, right) = (unwrap(una, b.left, a.irs), unwrap(una, b.right, a.irs));
        if i == 0 && right <= a.ack || (i == 0 && sacks.len() > 1 && covers(&sacks[1], b)) {
            dsack = true; // RFC 2883: a block below the ACK, or within the next one
            continue;
        }
        snd.board.sack(left, right, &mut d);
    }
    let arrival = Arrival { ack: a.ack, pure: !a.payload && same_window, sacked: d.bytes, prior_in_flight };
    if !snd.cfg.timestamp_rtt {
        rtt = sample_by_send_time(snd, now, a, &d);
    }
    snd.measured_rtt(a.ack, rtt);
    if snd.cfg.recovery == Recovery::Rack {
        snd.on_ack_by_time(now, arrival, d, a.echo, dsack);
    } else {
        snd.on_ack_by_count(now, arrival, d);
    }
}

/// ns-3: if the lowest newly acknowledged segment was sent once, the age of the timestamp it echoes.
fn sample_by_timestamp(snd: &Sender, now: Time, a: &Acknowledgement) -> Option<Time> {
    let head = snd.board.head()?;
    if head.end() > a.ack || head.is(EVER_RETRANS | NO_SAMPLE) {
        return None;
    }
    Some(sample(a.echo.is_some(), now, a.echo.unwrap_or(0), head.sent_at))
}

/// Karn's rule: the age of the lowest newly acknowledged segment, if none of the acknowledged was retransmitted;
/// else, of the first newly SACKed one (Linux `tcp_ack_update_rtt`).
fn sample_by_send_time(snd: &Sender, now: Time, a: &Acknowledgement, d: &Delivered) -> Option<Time> {
    let mut sent = None;
    let mut clean = true;
    for s in snd.board.segments().take_while(|s| s.end() <= a.ack) {
        clean &= !s.is(EVER_RETRANS);
        if !s.is(SACKED) {
            sent = sent.or(Some(s.sent_at));
        }
        if !clean {
            break;
        }
    }
    if let Some(t) = sent.filter(|_| clean).or(d.first_sent) {
        return Some(now - t);
    }
    // Only timestamps show which copy was acknowledged.
    let echo = a.echo.filter(|&e| e != 0 && a.ack > snd.una() && !clean)?;
    Some(sample(true, now, echo, now))
}

/// An RTT sample: from the echoed millisecond timestamp, or from the time the segment left.
pub(super) fn sample(by_timestamp: bool, now: Time, echo: u32, sent_at: Time) -> Time {
    if by_timestamp {
        let ms = (now.as_millis() as u32).wrapping_sub(echo);
        Time::from_millis(u64::from(ms)).max(Time::from_micros(1))
    } else {
        (now - sent_at).max(Time::from_nanos(1))
    }
}

fn covers(outer: &SackBlock, inner: &SackBlock) -> bool {
    inner.left.wrapping_sub(outer.left) < 1 << 31 && outer.right.wrapping_sub(inner.right) < 1 << 31
}
