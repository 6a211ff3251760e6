//! Outstanding bursts and the ACK trains that answer them.

use super::{Attribution, Sent};
use crate::units::Time;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
struct SentBurst {
    /// Stream offsets of its first byte and after its last.
    start: u64,
    end: u64,
    sent_at: Time,
    bytes: u64,
    segments: u32,
    /// ACKs that answered it, from the first one on.
    train: Option<AckTrain>,
    /// True if an ACK that ended a loss covered a part of the burst. ACKs then no longer show a pace.
    no_pace: bool,
    /// True if a time-out interrupted the train. The next ACK then ends it.
    interrupted: bool,
}

#[derive(Clone, Copy, Debug)]
struct AckTrain {
    first: Time,
    last: Time,
    acks: u32,
    /// Bytes delivered by all these ACKs, and by the first.
    bytes: u64,
    first_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrainMeasurement {
    /// Time from the departure of the burst to the first ACK.
    pub first_rtt: Time,
    /// Time between the first and the last ACK that show the arrival of a segment; zero with fewer than two.
    pub spread: Time,
    /// Ratio of the duration of a whole burst to `spread`: n ACKs have n - 1 gaps, and the burst may have been short.
    pub scale: f64,
    pub segments: u32,
    /// True if the last ACK ended a loss or followed a time-out.
    pub partial: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Advance {
    /// Stream offset equal to the amount of data that has arrived.
    pub to: u64,
    pub bytes: u64,
    /// True if the ACK ends a loss, so that some of the data arrived earlier.
    pub ends_loss: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AckReport {
    /// RTT, if the ACK is the first of a train.
    pub first_rtt: Option<Time>,
    /// Train that the ACK completed.
    pub train: Option<TrainMeasurement>,
}

/// Bursts that are not completely answered, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Trains {
    bursts: VecDeque<SentBurst>,
    attribution: Attribution,
    /// Bytes of a whole burst.
    whole: u64,
}

impl SentBurst {
    /// Adds an ACK to the train. Returns the RTT if it is the first.
    fn add_ack(&mut self, now: Time, bytes: u64) -> Option<Time> {
        if let Some(t) = &mut self.train {
            t.last = now;
            t.acks += 1;
            t.bytes += bytes;
            return None;
        }
        self.train = Some(AckTrain { first: now, last: now, acks: 1, bytes, first_bytes: bytes });
        Some(now - self.sent_at)
    }

    fn measure(&self, attribution: Attribution, whole: u64, partial: bool) -> Option<TrainMeasurement> {
        let t = self.train?;
        let scale = match attribution {
            Attribution::Acknowledged if !partial => {
                let gaps = f64::from(t.acks) / f64::from((t.acks - 1).max(1));
                gaps * whole as f64 / self.bytes as f64
            }
            // Segments may be missing. All segments after the first ACK arrived within the spread.
            _ => whole as f64 / (t.bytes - t.first_bytes).max(1) as f64,
        };
        Some(TrainMeasurement {
            first_rtt: t.first - self.sent_at,
            spread: if self.no_pace { Time::ZERO } else { t.last - t.first },
            scale,
            segments: self.segments,
            partial,
        })
    }
}

impl Trains {
    pub(super) fn new(attribution: Attribution, whole: u64) -> Self {
        Trains { bursts: VecDeque::new(), attribution, whole }
    }

    /// Records a segment sent at `now`: the `first` of a new burst, or one more of the last burst.
    pub(super) fn on_sent(&mut self, now: Time, sent: &Sent, first: bool) {
        let (start, end) = (sent.seq, sent.seq + u64::from(sent.len));
        match self.bursts.back_mut() {
            Some(b) if !first => {
                b.end = b.end.max(end);
                b.bytes += end - start;
                b.segments += 1;
            }
            _ => self.bursts.push_back(SentBurst {
                start,
                end,
                sent_at: now,
                bytes: end - start,
                segments: 1,
                train: None,
                no_pace: false,
                interrupted: false,
            }),
        }
    }

    /// Processes a time-out: unacknowledged data leaves again in new bursts. The current train ends with the next ACK.
    /// Delivered data still counts for its first burst.
    pub(super) fn on_timeout(&mut self, una: u64) {
        if self.attribution == Attribution::Delivered {
            return;
        }
        let begun = self.bursts.pop_front().filter(|b| b.train.is_some() && b.start < una && una < b.end);
        self.bursts.clear();
        if let Some(mut b) = begun {
            b.end = una + 1;
            b.interrupted = true;
            self.bursts.push_back(b);
        }
    }

    /// Processes an ACK, attributed to bursts in order. An ACK that ends a loss or covers whole later bursts completes
    /// one train but does not count for its pace. If it covers part of the next burst, that burst shows no pace.
    pub(super) fn on_acknowledged(&mut self, now: Time, advance: Advance) -> AckReport {
        let mut report = AckReport::default();
        let next = self.bursts.get(1);
        let jumps = advance.ends_loss || next.is_some_and(|next| next.end <= advance.to);
        // A delayed ACK that covers the end of one burst and the start of the next has waited for the next burst.
        let crosses = next.is_some_and(|next| next.start < advance.to && advance.to < next.end);
        let Some(front) = self.bursts.front_mut().filter(|b| advance.to > b.start) else { return report };
        let late = jumps || (crosses && !front.interrupted);
        if !late || front.train.is_none() {
            report.first_rtt = front.add_ack(now, advance.bytes);
        }
        if advance.to < front.end {
            return report;
        }
        let done = self.bursts.pop_front().expect("there is a front");
        let partial = jumps || done.interrupted;
        report.train = done.measure(self.attribution, self.whole, partial);
        while self.bursts.pop_front_if(|b| b.end <= advance.to).is_some() {}
        if let Some(next) = self.bursts.front_mut().filter(|b| advance.to > b.start) {
            if partial {
                next.no_pace = true;
            } else {
                let rtt = next.add_ack(now, advance.bytes);
                report.first_rtt = report.first_rtt.or(rtt);
            }
        }
        report
    }

    /// Returns the RTT of the burst that this ACK is the first to answer, at most one per ACK. After an interrupted
    /// train it is the RTT of the first burst since the time-out.
    pub(super) fn answered(&self, now: Time, advance: Advance) -> Option<Time> {
        let mut bursts = self.bursts.iter();
        let front = bursts.next().filter(|b| advance.to > b.start)?;
        let burst = if front.train.is_none() {
            front
        } else if advance.to < front.end {
            return None;
        } else if front.interrupted {
            bursts.next()?
        } else {
            bursts.next().filter(|b| advance.to > b.start && advance.to < b.end && !advance.ends_loss)?
        };
        Some(now - burst.sent_at)
    }

    /// Processes an ACK that delivered `bytes`, the latest of them sent at `sent_at`. The ACK counts for the burst sent
    /// at that time. The first ACK of a train completes the previous train.
    pub(super) fn on_delivered(&mut self, now: Time, sent_at: Time, bytes: u64) -> AckReport {
        let mut report = AckReport::default();
        let Ok(i) = self.bursts.binary_search_by_key(&sent_at, |b| b.sent_at) else { return report };
        for b in self.bursts.drain(..i) {
            report.train = b.measure(self.attribution, self.whole, false).or(report.train);
        }
        let b = &mut self.bursts[0];
        report.first_rtt = b.add_ack(now, bytes);
        if b.train.is_some_and(|t| t.bytes >= b.bytes) {
            report.train = b.measure(self.attribution, self.whole, false);
            self.bursts.pop_front();
        }
        report
    }
}
