//! Tests of Wave's arithmetic against its rules.

use super::super::{RateSample, build};
use super::*;

const MSS: u64 = 1000;

/// A sender on a simulated path: the test sets the packets that leave, the acknowledgments, and their times.
struct WaveBench {
    cc: Box<dyn CongestionControl>,
    flow: Flow,
    sent_at: Vec<Time>,
}

impl WaveBench {
    fn new(name: &str, params: &str) -> Self {
        let flow = Flow { mss: MSS as u32, snd_una: 1, snd_nxt: 1, ..Flow::default() };
        WaveBench { cc: build(name, "ns3", params, &flow).unwrap(), flow, sent_at: Vec::new() }
    }
    fn allowed(&self) -> u64 {
        match self.cc.permit(&self.flow) {
            Permit::Send { window, rate: None } => (window - self.flow.in_flight) / MSS,
            other => panic!("{other:?}"),
        }
    }
    fn left(&mut self, segment: usize, retransmission: bool) {
        self.sent_at[segment] = self.flow.now;
        let seq = 1 + segment as u64 * MSS;
        self.cc.on_sent(&self.flow, &Sent { seq, len: MSS as u32, retransmission, tx_start: false });
    }
    /// Sends the whole burst, if there is one; returns its segments.
    fn burst(&mut self) -> u64 {
        let n = self.allowed();
        for _ in 0..n {
            self.sent_at.push(Time::ZERO);
            self.flow.snd_nxt += MSS;
            self.flow.in_flight += MSS;
            self.left(self.sent_at.len() - 1, false);
        }
        n
    }
    fn until(&mut self, ms: f64) {
        let end = milliseconds(ms);
        while let Some(at) = self.cc.timer().filter(|&t| t <= end) {
            self.flow.now = at;
            self.cc.on_timer(&self.flow);
            self.burst();
        }
        self.flow.now = end;
    }
    /// Delivers an ACK up to segment `n` (exclusive) at `ms`. Returns its sample for the RTO.
    fn ack(&mut self, ms: f64, n: u64) -> Option<Time> {
        self.until(ms);
        let (prior_una, una) = (self.flow.snd_una, 1 + n * MSS);
        let sample = self.cc.rto_sample(&self.flow, una, Some(Time(7)));
        let acked = una - prior_una;
        (self.flow.snd_una, self.flow.in_flight) = (una, self.flow.in_flight.saturating_sub(acked));
        let rate = RateSample { sent_at: self.sent_at[n as usize - 1], ..RateSample::default() };
        let rate = (acked > 0).then_some(rate);
        self.cc.on_ack(&self.flow, &Ack { acked, delivered: acked, prior_una, rate, ..Ack::default() });
        sample
    }
    /// Segments `from..to` acknowledged one by one, `gap` ms apart from `ms` on.
    fn acks(&mut self, ms: f64, from: u64, to: u64, gap: f64) {
        for i in from..to {
            self.ack(ms + (i - from) as f64 * gap, i + 1);
        }
    }
    fn sack(&mut self, ms: f64, segment: usize, retransmitted: bool) {
        self.until(ms);
        let rate = RateSample { sent_at: self.sent_at[segment], retransmitted, ..RateSample::default() };
        self.cc.on_ack(&self.flow, &Ack { delivered: MSS, rate: Some(rate), ..Ack::default() });
    }
    /// Returns the current interval, from the rate: a burst of ten per interval.
    fn interval_ms(&self) -> f64 {
        let v = self.cc.trace();
        v.cwnd as f64 * 8e3 / v.rate.unwrap().0 as f64
    }
    fn phase(&self) -> &'static str {
        self.cc.trace().phase
    }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 2e-3 * b, "{a} is not {b}");
}

#[test]
fn clock_releases_bursts_and_acks_do_not() {
    let mut c = WaveBench::new("wave", "");
    assert_eq!(c.cc.timer(), None, "no clock before there is something to send");
    assert_eq!(c.burst(), 10);
    assert_eq!(c.allowed(), 0);
    c.acks(60.0, 0, 3, 4.0);
    assert_eq!(c.allowed(), 0);
    assert_eq!(c.cc.timer(), Some(milliseconds(500.0)));
    c.until(499.0);
    assert_eq!(c.sent_at.len(), 10);
    c.until(500.0);
    assert_eq!(c.sent_at.len(), 20);
}

#[test]
fn interval_equals_the_duration_of_the_ack_train() {
    // 2 Mbit/s: 4 ms per segment. The update comes with the last ACK; the scheduled burst keeps its time.
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    near(c.interval_ms(), 40.0);
    assert_eq!((c.phase(), c.cc.timer()), (TRACKING, Some(milliseconds(500.0))));
    c.until(500.0);
    assert_eq!(c.cc.timer(), Some(milliseconds(540.0)));
    // In pairs: 5 ACKs, 4 gaps of two segments. Without scaling, the train appears 20 % too short.
    for (params, interval) in [("", 40.0), ("scale_dispersion = false", 32.0)] {
        let mut c = WaveBench::new("wave", params);
        c.burst();
        for i in 1..=5 {
            c.ack(60.0 + 8.0 * i as f64, 2 * i);
        }
        near(c.interval_ms(), interval);
    }
}

#[test]
fn a_queue_lengthens_the_interval_by_half_its_delay() {
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(500.0);
    // first RTT 164 ms, min 64: a = 100/164, avg = a 64 + (1 - a) 164 = 103.02, dRTT = 39.02; the duration grows from
    // 40 to 60 ms. This counts with weight alpha = 39.02/350, which gives 42.23 ms; the interval is 42.23 + 39.02/2.
    c.acks(664.0, 10, 20, 6.0);
    near(c.interval_ms(), 61.74);
    // A shorter duration counts in full; the RTT is the smallest again: avg = min.
    let before = c.sent_at.len() as u64 / 10;
    assert!(before > 2);
    let sent = c.sent_at[20].as_millis_f64();
    c.acks(sent + 200.0, 20, 21, 1.0);
    let first = 200.0f64;
    let (a, avg) = ((first - 64.0) / first, 103.02);
    let avg = a * avg + (1.0 - a) * first;
    c.acks(sent + 203.0, 21, 30, 3.0);
    near(c.interval_ms(), 30.0 + (avg - 64.0) / 2.0);
}

#[test]
fn too_long_a_queue_restarts_adjustment() {
    let mut c = WaveBench::new("wave", "beta_ms = 150");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(500.0);
    // first RTT 800 ms: a = 736/800, avg = 122.9; dRTT 58.9.
    c.acks(1300.0, 10, 20, 4.0);
    near(c.interval_ms(), 40.0 + 58.88 / 2.0);
    // The next: avg = 0.92 x 122.9 + 64 = 177.1, the third 226.9: dRTT 162.9 > beta.
    for k in 2..4 {
        let sent = c.sent_at[10 * k].as_millis_f64();
        c.acks(sent + 800.0, 10 * k as u64, 10 * k as u64 + 10, 4.0);
    }
    assert_eq!(c.phase(), ADJUSTMENT);
    near(c.interval_ms(), 500.0);
    // stab = floor(226.9 / (40 + 113.1 / 2)) = 2 trains are skipped, then the smallest RTT since then counts.
    for k in 4..7 {
        assert_eq!(c.phase(), ADJUSTMENT, "train {k}");
        let sent = c.sent_at[10 * k].as_millis_f64();
        c.acks(sent + 300.0, 10 * k as u64, 10 * k as u64 + 10, 4.0);
    }
    assert_eq!(c.phase(), TRACKING);
    near(c.interval_ms(), 40.0);
    // The adjustment uses the largest RTT, 800 ms, as the average. The smallest RTT is now 300 ms, and the first train
    // that counts has an RTT of 330 ms: avg = 30/330 x 800 + 300 = 372.7.
    let mut c = WaveBench::new("wave", "beta_ms = 150");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(500.0);
    for (k, rtt) in (1..).zip([800.0, 800.0, 800.0, 300.0, 300.0, 330.0]) {
        let sent = c.sent_at[10 * k].as_millis_f64();
        c.acks(sent + rtt, 10 * k as u64, 10 * k as u64 + 10, 4.0);
        assert_eq!(c.phase(), if (3..6).contains(&k) { ADJUSTMENT } else { TRACKING }, "train {k}");
    }
    near(c.interval_ms(), 40.0 + 72.73 / 2.0);
}

#[test]
fn burst_without_pace_halves_the_interval_within_bounds() {
    // A single cumulative ACK per burst shows no pace, so each burst halves the interval until a train shows a pace.
    let mut c = WaveBench::new("wave", "min_txtime_ms = 200");
    c.burst();
    c.ack(60.0, 10);
    near(c.interval_ms(), 250.0);
    c.ack(560.0, 20);
    near(c.interval_ms(), 200.0);
    c.acks(900.0, 20, 30, 0.1);
    near(c.interval_ms(), 200.0);
    // The interval never exceeds its initial value.
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(60.0, 0, 10, 90.0);
    near(c.interval_ms(), 500.0);
    // Once a pace is known, a cumulative ACK does not change it.
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(60.0, 0, 10, 4.0);
    c.ack(560.0, 20);
    near(c.interval_ms(), 40.0);
    assert!(build("wave", "ns3", "burst0 = 0", &Flow::default()).is_err());
    assert!(build("wave", "ns3", "beta_ms = 0", &Flow::default()).is_err());
    for bad in ["min_txtime_ms = 501", "max_ack_segments = 0", "max_alpha = 1.5", "blind_factor = -1.0"] {
        assert!(build("wave", "ns3", bad, &Flow::default()).is_err(), "{bad}");
    }
}

#[test]
fn a_fast_retransmission_takes_a_packet_from_the_next_burst() {
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.ack(60.0, 1);
    c.left(1, true);
    c.left(2, true);
    c.until(500.0);
    assert_eq!(c.sent_at.len(), 18);
    c.until(1000.0);
    assert_eq!(c.sent_at.len(), 28);
    // A debt of more than a burst: the next burst is omitted, and the rest of the debt shortens the one after it.
    for i in 10..23 {
        c.left(i, true);
    }
    c.until(1500.0);
    assert_eq!(c.sent_at.len(), 28);
    c.until(2000.0);
    assert_eq!(c.sent_at.len(), 35);
}

#[test]
fn repair_ends_the_train_and_gives_no_pace() {
    let mut c = WaveBench::new("wave", "duplicates = \"ignored\"");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(600.0); // bursts at 500, 540, 580
    // Segment 13 is lost: three ACKs arrive, then duplicates until the repair, which also covers the third burst and a
    // part of the fourth.
    assert_eq!(c.ack(564.0, 11), Some(milliseconds(64.0)), "the first ACK of a train is a sample");
    c.ack(568.0, 12);
    assert_eq!(c.ack(572.0, 13), None, "the others are not");
    for i in 0..12 {
        assert_eq!(c.ack(580.0 + i as f64 * 4.0, 13), None);
    }
    assert_eq!(c.ack(660.0, 35), None, "the train had its sample");
    near(c.interval_ms(), 40.0); // from the ACKs before the repair
    // The repair's ACK covers part of the fourth burst and hides arrival times: the burst gives an RTT but no pace.
    assert_eq!(c.ack(664.0, 36), Some(milliseconds(84.0)));
    c.acks(664.5, 36, 40, 0.5);
    // a = 20/84, avg = a 64 + (1 - a) 84 = 79.24, dRTT = 15.24.
    near(c.interval_ms(), 40.0 + 15.24 / 2.0);
    let sent = c.sent_at[40].as_millis_f64();
    assert_eq!(c.ack(sent + 64.0, 41), Some(milliseconds(64.0)), "the fifth is whole again");
    c.acks(sent + 66.0, 41, 50, 2.0);
    near(c.interval_ms(), 20.0);
}

#[test]
fn duplicate_acks_form_trains() {
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(560.0); // bursts at 500 and 540
    c.flow.state = CongestionState::Recovery;
    // Segment 12 is lost. ACKs of the second and third burst arrive one segment late.
    c.acks(564.0, 10, 12, 2.0);
    for i in 0..8 {
        assert_eq!(c.ack(568.0 + f64::from(i) * 2.0, 12), None);
    }
    assert_eq!(c.ack(606.0, 12), Some(milliseconds(66.0)), "the third burst's first");
    for i in 0..8 {
        assert_eq!(c.ack(608.0 + f64::from(i) * 2.0, 12), None);
    }
    near(c.interval_ms(), 2.0 * 10.0);
    // The repair counts as one segment and does not end the train: ten ACKs in 34 ms; avg = 2/66 x 64 + 64, dRTT =
    // 1.94. The longer train counts with weight 1.94/350.
    assert_eq!(c.ack(640.0, 30), None);
    near(c.interval_ms(), 20.0 + 17.78 * 1.94 / 350.0 + 1.94 / 2.0);
    // After a time-out, duplicate ACKs may answer needless copies.
    c.until(1640.0);
    c.flow.state = CongestionState::Loss;
    c.cc.on_congestion(&c.flow, Congestion::Timeout);
    c.flow.in_flight = 0;
    for i in 30..40 {
        c.left(i, true);
    }
    let (sent, again) = (c.sent_at.len() as u64, milliseconds(1900.0) - c.flow.now);
    assert_eq!(c.ack(1900.0, 30), None);
    assert_eq!(c.ack(1900.0, 31), Some(again));
    c.flow.state = CongestionState::Open;
    c.ack(1901.0, sent);
    c.cc.on_recovered(&c.flow);
    assert_eq!(c.ack(1902.0, sent), None);
}

#[test]
fn jumping_ack_is_excluded_from_the_pace() {
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(600.0); // bursts at 500, 540, 580
    // Five ACKs of the second burst, then one for nine segments, more than a delayed ACK covers: four gaps of 2 ms.
    c.acks(564.0, 10, 15, 2.0);
    assert_eq!(c.ack(700.0, 24), None);
    near(c.interval_ms(), 20.0);
    // The next ACK is the first of the third burst that shows an RTT: a = 97/161, avg = 102.56. There is no pace.
    assert_eq!(c.ack(701.0, 25), Some(milliseconds(161.0)));
    c.acks(702.0, 25, 30, 0.5);
    near(c.interval_ms(), 20.0 + 38.56 / 2.0);
    // One ACK before an ACK that ends a loss shows no pace either; the millisecond between them does not count.
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(540.0);
    c.ack(564.0, 11);
    c.ack(565.0, 30);
    near(c.interval_ms(), 40.0);
    // A receiver that acknowledges every fifth segment.
    let mut c = WaveBench::new("wave", "max_ack_segments = 5");
    c.burst();
    c.ack(80.0, 5);
    c.ack(100.0, 10);
    near(c.interval_ms(), 40.0);
}

#[test]
fn repair_time_is_excluded_from_the_pace() {
    // A train interrupted by a time-out lasts longer than the average RTT and so shows no pace. Without an earlier
    // pace, the interval halves.
    let timeout = |c: &mut WaveBench, first: usize| {
        c.flow.state = CongestionState::Loss;
        c.cc.on_congestion(&c.flow, Congestion::Timeout);
        c.flow.in_flight = 0;
        for i in first..c.sent_at.len().min(first + 10) {
            c.left(i, true);
        }
    };
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 2, 4.0);
    c.until(499.0);
    timeout(&mut c, 2);
    c.ack(900.0, 4);
    near(c.interval_ms(), 250.0);
    // Here the queueing delay would let the longer train count: a = 100/164, dRTT = 39.02.
    let mut c = WaveBench::new("wave", "timeout_forgets_min_rtt = false");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(500.0);
    c.acks(664.0, 10, 13, 4.0);
    c.until(1700.0);
    timeout(&mut c, 13);
    c.ack(2150.0, 15);
    near(c.interval_ms(), 40.0 + 39.02 / 2.0);
}

#[test]
fn lost_first_packet_gives_a_long_rtt_sample() {
    for (params, first, repaired) in [("duplicates = \"ignored\"", None, Some(150.0)), ("", Some(68.0), None)] {
        let mut c = WaveBench::new("wave", params);
        c.burst();
        c.acks(64.0, 0, 10, 4.0);
        c.until(540.0);
        c.flow.state = CongestionState::Recovery;
        assert_eq!(c.ack(568.0, 10), first.map(milliseconds));
        for i in 1..9 {
            c.ack(568.0 + f64::from(i) * 4.0, 10);
        }
        assert_eq!(c.ack(650.0, 20), repaired.map(milliseconds), "since the first transmission: no Karn");
    }
}

#[test]
fn a_timeout_restarts_bursts_from_the_first_unacknowledged() {
    let mut c = WaveBench::new("wave", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(700.0);
    c.ack(700.0, 13); // the second train has begun
    c.until(1700.0);
    let old = c.sent_at.len();
    c.flow.state = CongestionState::Loss;
    c.cc.on_congestion(&c.flow, Congestion::Timeout);
    c.flow.in_flight = 0;
    assert_eq!((c.phase(), c.allowed()), (TIMEOUT, 10), "a burst at once");
    for i in 13..23 {
        c.left(i, true);
    }
    assert_eq!((c.allowed(), c.cc.timer()), (0, Some(milliseconds(2200.0))), "then by the first interval");
    // Two more segments had arrived before. Their ACK ends the current train without a pace, and the previous interval
    // returns. This ACK is also the first answer to the retransmitted burst, and that burst's age raises the RTO.
    assert_eq!(c.ack(2150.0, 15), Some(milliseconds(450.0)));
    assert_eq!(c.phase(), TRACKING);
    near(c.interval_ms(), 40.0);
    assert_eq!(c.sent_at.len(), old);
}

#[test]
fn timeout_resets_the_smallest_rtt() {
    for (params, interval) in [("", 10.0), ("timeout_forgets_min_rtt = false", 10.0 + 50.96 / 2.0)] {
        let mut c = WaveBench::new("wave", params);
        c.burst();
        c.acks(64.0, 0, 10, 4.0);
        c.until(499.0);
        c.cc.on_congestion(&c.flow, Congestion::Timeout);
        c.burst();
        // A longer, faster path: 314 ms. avg = 64 + dRTT x 64/314.
        c.acks(499.0 + 314.0, 10, 20, 1.0);
        near(c.interval_ms(), interval);
    }
}

#[test]
fn deliveries_are_measured_during_a_repair() {
    let mut c = WaveBench::new("wave-fr", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    near(c.interval_ms(), 40.0);
    c.until(600.0); // bursts at 500, 540, 580
    // The second burst is lost. SACKs answer the third, of which two segments are missing, at another pace.
    for i in [20, 21, 22, 24, 25, 26, 28, 29] {
        c.sack(604.0 + (i - 20) as f64 * 2.0, i, false);
    }
    near(c.interval_ms(), 40.0);
    // The repairs of the second burst form a normal burst. The first answer to them completes the third train: after
    // its first SACK, 7 more segments arrived within 18 ms.
    let due = c.cc.timer().unwrap().as_millis_f64();
    c.flow.now = milliseconds(due);
    c.cc.on_timer(&c.flow);
    for i in 10..20 {
        c.left(i, true);
    }
    c.sack(due + 64.0, 10, true);
    near(c.interval_ms(), 18.0 * 10.0 / 7.0);
    for i in 11..20 {
        c.sack(due + 64.0 + (i - 10) as f64 * 3.0, i, true);
    }
    // The duration grows without a queue that confirms it.
    near(c.interval_ms(), 18.0 * 10.0 / 7.0);
    // An answer faster than the path belongs to the original.
    let mut c = WaveBench::new("wave-fr", "");
    c.burst();
    c.acks(64.0, 0, 10, 4.0);
    c.until(500.0);
    c.left(10, true);
    c.sack(501.0, 10, true);
    c.acks(564.0, 10, 20, 4.0);
    near(c.interval_ms(), 40.0);
}

#[test]
fn wave_fr_leaves_rto_samples_to_the_endpoint() {
    let mut c = WaveBench::new("wave-fr", "");
    c.burst();
    assert_eq!(c.ack(64.0, 1), Some(Time(7)), "wave-fr leaves it to the endpoint");
}

#[test]
fn delayed_ack_across_bursts_belongs_to_the_later_burst() {
    let mut c = WaveBench::new("wave", "");
    c.burst();
    // After an ACK of the first segment alone, each ACK covers two segments, 8 ms after the previous one. The tenth
    // segment is acknowledged only with the first of the second burst, which leaves at 500 ms.
    for (ms, n) in [(64.0, 1), (72.0, 3), (80.0, 5), (88.0, 7), (96.0, 9)] {
        c.ack(ms, n);
    }
    near(c.interval_ms(), 500.0);
    assert_eq!(c.ack(564.0, 11), Some(milliseconds(64.0)));
    near(c.interval_ms(), 40.0);
    for (ms, n) in [(570.0, 13), (576.0, 15), (582.0, 17), (588.0, 19)] {
        c.ack(ms, n);
    }
    c.until(1000.0);
    let third = c.sent_at[20].as_millis_f64();
    c.ack(third + 64.0, 21);
    near(c.interval_ms(), 30.0);
}
