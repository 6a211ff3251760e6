//! Processing of an acknowledgment by the sending half: window, RTT, scoreboard, then recovery. RTT samples follow
//! Karn's rule (RFC 6298 section 3), or RFC 7323's millisecond timestamps where only they are unambiguous.

use super::config::LossRecovery;
use super::rtt_sample::RttSample;
use super::scoreboard::{EVER_RETRANS, NO_SAMPLE, NewlyDelivered, SACKED};
use super::send::AckInfo;
use super::{TcpSender, unwrap};
use crate::packet::SackBlock;
use crate::units::Time;

pub(super) struct Acknowledgment {
    /// Offset of the next byte that the peer expects.
    pub(super) ack: u64,
    /// Offered window, bytes.
    pub(super) window: u64,
    /// Set if the segment carries data or a FIN.
    pub(super) payload: bool,
    /// Set if the segment carries ECE and ECN was negotiated.
    pub(super) congestion: bool,
    pub(super) echo: Option<u32>,
    /// Our initial sequence number, to which the peer's SACK blocks refer.
    pub(super) iss: u32,
}

#[inline(never)]
pub(super) fn on_ack(snd: &mut TcpSender, now: Time, a: &Acknowledgment, sacks: &[SackBlock]) {
    let una = snd.una();
    if a.ack > snd.nxt() || a.ack < una {
        return; // stale, or acknowledges data never sent
    }
    let prior_in_flight = snd.board.in_flight();
    let (prior_lost, prior_losses) = (snd.board.lost(), snd.board.losses.total);
    let same_window = a.window == snd.core.flow.send_window;
    snd.core.flow.now = now;
    snd.set_window(a.window);
    let mut d = NewlyDelivered { lowest_original: u64::MAX, ..NewlyDelivered::default() };
    let mut rtt = if snd.cfg.timestamp_rtt { sample_by_timestamp(snd, now, a) } else { None };
    let (mut dsack, mut repeats) = (None, false);
    for (i, b) in sacks.iter().enumerate() {
        let (left, right) = (unwrap(una, b.left, a.iss), unwrap(una, b.right, a.iss));
        if i == 0 && right <= a.ack || (i == 0 && sacks.len() > 1 && covers(&sacks[1], b)) {
            dsack = Some((left, right)); // RFC 2883: a block below the ACK, or within the next one
            continue;
        }
        snd.board.sack(left, right, &mut d);
        repeats |= snd.sack_rules.count_repeated_sacks && snd.board.beginning_at(left).is_some_and(|s| s.is(SACKED));
    }
    let arrival = AckInfo {
        ack: a.ack,
        pure: !a.payload && same_window,
        congestion: a.congestion,
        sacked: d.bytes,
        repeats,
        prior_in_flight,
        prior_lost,
        prior_losses,
    };
    if !snd.cfg.timestamp_rtt {
        rtt = sample_by_send_time(snd, now, a, &d);
    }
    snd.measured_rtt(a.ack, rtt);
    if snd.cfg.recovery == LossRecovery::Rack {
        snd.on_ack_by_time(now, &arrival, &mut d, (a.echo, rtt), dsack);
    } else {
        snd.on_ack_by_count(now, &arrival, &mut d);
    }
}

/// Returns the sample that ns-3 takes: the RTT of the lowest newly acknowledged segment, if it was sent only once.
fn sample_by_timestamp(snd: &TcpSender, now: Time, a: &Acknowledgment) -> Option<RttSample> {
    let head = snd.board.head()?;
    if head.end() > a.ack || head.is(EVER_RETRANS | NO_SAMPLE) {
        return None;
    }
    Some(match a.echo {
        Some(echo) => RttSample::by_echo(echo, head.sent_at, now),
        None => RttSample::since(head.sent_at, now),
    })
}

/// Returns the sample by Karn's rule (Linux `tcp_ack_update_rtt`): the age of the lowest newly acknowledged segment. If
/// any acknowledged segment was retransmitted, returns the age of the first newly SACKed segment.
fn sample_by_send_time(snd: &TcpSender, now: Time, a: &Acknowledgment, d: &NewlyDelivered) -> Option<RttSample> {
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
        return Some(RttSample::since(t, now));
    }
    // Only timestamps show which copy was acknowledged.
    let echo = a.echo.filter(|&e| e != 0 && a.ack > snd.una() && !clean)?;
    Some(RttSample::from_echo(echo, now))
}

fn covers(outer: &SackBlock, inner: &SackBlock) -> bool {
    inner.left.wrapping_sub(outer.left) < 1 << 31 && outer.right.wrapping_sub(inner.right) < 1 << 31
}
