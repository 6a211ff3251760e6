//! Path heartbeat (RFC 9260 section 8.3): a HEARTBEAT leaves at the end of each heartbeat period without new DATA. A
//! period lasts HB.interval plus the RTO, with a jitter of half the RTO either way. A HEARTBEAT that is not answered
//! within an RTO counts as an error of the association (section 8.1) and doubles the RTO. The answer clears the errors
//! if no data are outstanding, and gives an RTT sample, which ends the back-off (section 6.3.3). In the RFC, data waits
//! for T3-rtx although the answer shows that the path works. Here, chunks overdue by the new RTO leave at once, both
//! after the answer and when the peer's HEARTBEAT arrives. In usrsctp, any arriving packet has the same effect, because
//! the window of one packet after a time-out still has room.

use super::send::SctpSender;
use crate::rng::RandomStream;
use crate::units::Time;

#[derive(Debug)]
pub(super) struct Heartbeat {
    interval: Time,
    jitter: RandomStream,
    /// End of the period; [`Time::MAX`] outside of an association and while a HEARTBEAT waits for its answer.
    period_end: Time,
    /// First TSN of the period: the path is idle if this is still the next TSN at the end.
    next_tsn: u64,
    /// Set if a HEARTBEAT must leave.
    due: bool,
    /// Send time of the unanswered HEARTBEAT, and the time at which it becomes an error.
    waiting: Option<(Time, Time)>,
}

impl Heartbeat {
    /// Creates a heartbeat that sends nothing before [`Heartbeat::begin`], and never with an `interval` of zero.
    pub(super) fn new(interval: Time, jitter: RandomStream) -> Self {
        Heartbeat { interval, jitter, period_end: Time::MAX, next_tsn: 0, due: false, waiting: None }
    }
    pub(super) fn set_jitter(&mut self, stream: RandomStream) {
        self.jitter = stream;
    }
    pub(super) fn begin(&mut self, from: Time, snd: &SctpSender) {
        (self.due, self.waiting, self.next_tsn) = (false, None, snd.queue.next());
        if !self.interval.is_zero() {
            let rto = snd.rto();
            self.period_end = from + self.interval + rto / 2 + Time(self.jitter.range(0, rto.0));
        }
    }
    /// Ends the heartbeat: the association shuts down.
    pub(super) fn stop(&mut self) {
        (self.period_end, self.due, self.waiting) = (Time::MAX, false, None);
    }
    pub(super) fn is_due(&self) -> bool {
        self.due
    }
    /// Returns when the heartbeat must be woken; [`Time::MAX`] = never.
    pub(super) fn next_wake(&self) -> Time {
        self.waiting.map_or(self.period_end, |(_, error_at)| error_at)
    }
    pub(super) fn wake(&mut self, now: Time, snd: &mut SctpSender) {
        if let Some((sent_at, _)) = self.waiting.take_if(|(_, error_at)| *error_at <= now) {
            snd.on_heartbeat_unanswered(now);
            self.begin(sent_at, snd);
        }
        if self.period_end <= now {
            if snd.queue.next() == self.next_tsn {
                (self.due, self.period_end) = (true, Time::MAX);
            } else {
                self.begin(now, snd);
            }
        }
    }
    /// Sends a HEARTBEAT now. Returns its Heartbeat Information parameter (section 3.3.5), which holds the time.
    pub(super) fn send(&mut self, now: Time, snd: &SctpSender) -> [u8; INFORMATION] {
        self.due = false;
        self.waiting = Some((now, now + snd.rto()));
        let mut info = [0; INFORMATION];
        info[..4].copy_from_slice(&[0, 1, 0, INFORMATION as u8]);
        info[4..].copy_from_slice(&now.0.to_be_bytes());
        info
    }
    /// Handles a HEARTBEAT ACK. Discards it if no HEARTBEAT is unanswered.
    pub(super) fn on_ack(&mut self, now: Time, info: &[u8], snd: &mut SctpSender) {
        let time = info.get(4..INFORMATION).and_then(|time| time.try_into().ok()).map(u64::from_be_bytes);
        let Some((sent_at, _)) = self.waiting.take_if(|(sent_at, _)| time == Some(sent_at.0)) else { return };
        snd.on_heartbeat_ack(now, now - sent_at);
        self.begin(sent_at, snd);
    }
}

/// Bytes of the Heartbeat Information parameter.
const INFORMATION: usize = 12;
