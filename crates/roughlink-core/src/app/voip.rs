//! Voice over IP: one direction of a call, and its quality at the listener.
//!
//! Packets follow RFC 3550 and 3551. With G.711, a packet has 20 ms of speech: 160 B, or 200 B with RTP, UDP and IPv4
//! headers. A talker sends 50 of them per second. [`codec`] describes the other codecs. The listener has a fixed
//! play-out buffer: packets that arrive after their play-out time are lost. The E-model (`emodel`) rates the whole call
//! and each window of it. Deviations: no silence suppression, no RTCP, no adaptive play-out.

pub mod codec;
pub mod emodel;
pub mod rtp;

pub use codec::{Codec, Speech};
pub use emodel::EModel;

use crate::quantiles::{DelayResult, quantile};
use crate::rng::Seed;
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoipConfig {
    /// Packets and impairment of the codec; the interval is also the packetization delay.
    pub speech: Speech,
    /// Time that the play-out buffer adds to the reference delay (assumption: 60 ms).
    pub jitter_buffer: Time,
    /// Reference delay of the play-out buffer.
    pub reference: ReferencePacket,
    /// Model of delay impairment.
    pub emodel: EModel,
    /// Length of the windows that are rated separately.
    pub window: Time,
}

/// Packet whose delay is the reference delay of a fixed play-out buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReferencePacket {
    /// The fastest packet of the call: a buffer dimensioned for the path, consistent with delay variation in Y.1541.
    #[default]
    Fastest,
    /// The first packet to arrive, for a receiver without other information. A call that starts behind a queue then has
    /// a deep buffer.
    First,
}

impl Default for VoipConfig {
    fn default() -> Self {
        VoipConfig {
            speech: Codec::G711.speech(),
            jitter_buffer: Time::from_millis(60),
            reference: ReferencePacket::Fastest,
            emodel: EModel::G107,
            window: Time::from_secs(10),
        }
    }
}

impl VoipConfig {
    /// Returns the UDP payload of each packet, bytes.
    pub const fn datagram(&self) -> u16 {
        self.speech.payload + rtp::Header::BYTES
    }
}

/// The talker.
#[derive(Clone, Debug)]
pub struct VoipSender {
    /// Departure of the first packet, and its number.
    first: Time,
    base: u32,
    interval: Time,
    stop: Time,
    /// Number of the next packet.
    sent: u32,
}

impl VoipSender {
    /// Creates a talker from `start` to `stop`. The first packet leaves within one interval of `start`, at a random
    /// phase; `name` is the flow's name and selects the random stream.
    pub fn new(cfg: &VoipConfig, (start, stop): (Time, Time), seed: &Seed, name: &str) -> Self {
        let phase = Time(seed.stream(name, "phase").range(0, cfg.speech.interval.0 - 1));
        VoipSender { first: start + phase, stop, ..VoipSender::silent(cfg.speech.interval) }
    }
    fn silent(interval: Time) -> Self {
        VoipSender { first: Time::ZERO, base: 0, interval, stop: Time::ZERO, sent: 0 }
    }
    fn departure(&self, number: u32) -> Time {
        self.first + self.interval * u64::from(number - self.base)
    }
    /// Returns when the next packet leaves; [`Time::MAX`] after the last.
    pub fn next_wake(&self) -> Time {
        let next = self.departure(self.sent);
        if next >= self.stop { Time::MAX } else { next }
    }
    /// Returns the number of the next packet to send now; call until `None`.
    pub fn transmit(&mut self, now: Time) -> Option<u32> {
        if self.next_wake() > now {
            return None;
        }
        self.sent += 1;
        Some(self.sent - 1)
    }
    /// Packets sent.
    pub fn sent(&self) -> u32 {
        self.sent - self.base
    }
}

/// The listener. Keeps the delay of every packet, 8 bytes each, so that all statistics are exact.
#[derive(Clone, Debug, Default)]
pub struct VoipReceiver {
    /// One-way delays by number; [`Time::MAX`] = not received.
    delays: Vec<Time>,
    /// Delay of the packet that arrived first.
    first: Option<Time>,
}

impl VoipReceiver {
    /// Handles packet `number`, sent at `sent_at`. A second copy is ignored.
    pub fn receive(&mut self, now: Time, sent_at: Time, number: u32) {
        let i = number as usize;
        if self.delays.len() <= i {
            self.delays.resize(i + 1, Time::MAX);
        }
        if self.delays[i] == Time::MAX {
            self.delays[i] = now - sent_at;
            self.first.get_or_insert(now - sent_at);
        }
    }

    /// Returns the memory of the delays, bytes.
    pub fn bytes(&self) -> usize {
        self.delays.capacity() * size_of::<Time>()
    }

    /// Returns the quality of the call until `end`. Excludes packets with a later play-out time.
    pub fn result(&self, cfg: &VoipConfig, sender: &VoipSender, end: Time) -> VoipResult {
        let mut sorted: Vec<Time> = self.delays.iter().copied().filter(|&d| d < Time::MAX).collect();
        sorted.sort_unstable();
        let above = |ms| {
            let over = sorted.len() - sorted.partition_point(|&d| d <= Time::from_millis(ms));
            (!sorted.is_empty()).then(|| over as f64 / sorted.len() as f64)
        };
        let fastest = sorted.first().copied();
        let reference = match cfg.reference {
            ReferencePacket::Fastest => fastest,
            ReferencePacket::First => self.first,
        };
        // If nothing arrived, the delay is unknown but irrelevant, because all packets are lost.
        let budget = reference.unwrap_or_default() + cfg.jitter_buffer;
        let base = sender.base as usize;
        let in_time = |n: &u32| sender.departure(*n) + budget <= end;
        let judged = base + (sender.base..sender.sent).take_while(in_time).count();
        let mouth_to_ear = (budget + cfg.speech.interval + cfg.speech.lookahead).as_millis_f64();
        let whole = self.quality(cfg, base..judged, budget, mouth_to_ear);
        let per_window = ((cfg.window.0 / cfg.speech.interval.0) as usize).max(1);
        let windows = (base..judged).step_by(per_window).filter_map(|from| {
            let q = self.quality(cfg, from..judged.min(from + per_window), budget, mouth_to_ear)?;
            Some(VoipWindow { start_s: sender.departure(from as u32).as_secs_f64(), r: q.r, mos: q.mos })
        });
        VoipResult {
            sent: sender.sent(),
            received: sorted.len() as u32,
            delay_ms: DelayResult::from_sorted(&sorted),
            over_100ms: above(100),
            over_150ms: above(150),
            ipdv_ms: quantile(&sorted, 0.999).zip(fastest).map(|(high, low)| (high - low).as_millis_f64()),
            loss: whole.map(|q| q.loss),
            late: whole.map(|q| q.late),
            mouth_to_ear_ms: reference.map(|_| mouth_to_ear),
            emodel: cfg.emodel,
            r: whole.map(|q| q.r),
            mos: whole.map(|q| q.mos),
            windows: windows.collect(),
        }
    }

    /// Returns loss and rating of the packets `numbers`, played `budget` after departure; `None` for an empty range.
    fn quality(
        &self,
        cfg: &VoipConfig,
        numbers: std::ops::Range<usize>,
        budget: Time,
        mouth_to_ear: f64,
    ) -> Option<Quality> {
        let packets = numbers.len() as u64;
        let (mut lost, mut late, mut runs, mut before) = (0, 0, 0, false);
        for n in numbers {
            let delay = self.delays.get(n).copied().unwrap_or(Time::MAX);
            let missing = delay > budget;
            lost += u64::from(missing);
            late += u64::from(missing && delay < Time::MAX);
            runs += u64::from(missing && !before);
            before = missing;
        }
        if packets == 0 {
            return None;
        }
        let share = |n: u64| n as f64 / packets as f64;
        let ie_eff = emodel::loss_impairment(share(lost), emodel::burst_ratio(packets, lost, runs), &cfg.speech);
        let r = emodel::rating(emodel::delay_impairment(cfg.emodel, mouth_to_ear), ie_eff);
        Some(Quality { loss: share(lost), late: share(late), r, mos: emodel::mos(r) })
    }
}

#[derive(Clone, Copy)]
struct Quality {
    loss: f64,
    late: f64,
    r: f64,
    mos: f64,
}

/// The result of one direction of a call. A field without samples is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VoipResult {
    /// Packets sent.
    pub sent: u32,
    /// Packets that arrived, in time or not.
    pub received: u32,
    /// One-way network delays of the packets that arrived.
    pub delay_ms: Option<DelayResult>,
    /// Share of received packets delayed by more than 100 ms (Y.1541 classes 0 and 2).
    pub over_100ms: Option<f64>,
    /// Share of received packets delayed by more than 150 ms (G.114).
    pub over_150ms: Option<f64>,
    /// Delay variation as in Y.1541: the 99.9 % quantile of the delay minus the smallest delay.
    pub ipdv_ms: Option<f64>,
    /// Share of packets not played: lost or too late.
    pub loss: Option<f64>,
    /// Share of packets that arrived too late, part of `loss`.
    pub late: Option<f64>,
    /// Delay from mouth to ear: packetization, reference delay of the path, play-out buffer.
    pub mouth_to_ear_ms: Option<f64>,
    /// Model of delay impairment.
    pub emodel: EModel,
    /// Transmission rating of the call; at 80 or more, users are satisfied (G.109).
    pub r: Option<f64>,
    /// Mean opinion score of the call.
    pub mos: Option<f64>,
    /// Quality per window.
    pub windows: Vec<VoipWindow>,
}

/// Quality within a window of a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VoipWindow {
    /// Departure of the window's first packet, s since the start of the scenario.
    pub start_s: f64,
    /// Transmission rating.
    pub r: f64,
    /// Mean opinion score.
    pub mos: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Packet};

    const SEED: Seed = Seed { seed: 5, replica: 0 };

    /// Simulates a call of `seconds` in which packet `n` takes `delay(n)` ms or is lost.
    fn call(cfg: &VoipConfig, seconds: u64, delay: impl Fn(u32) -> Option<u64>) -> VoipResult {
        let span = (Time::from_secs(100), Time::from_secs(100 + seconds));
        let mut s = VoipSender::new(cfg, span, &SEED, "call");
        let mut r = VoipReceiver::default();
        while s.next_wake() < Time::MAX {
            let now = s.next_wake();
            let n = s.transmit(now).unwrap();
            assert_eq!(s.transmit(now), None);
            if let Some(ms) = delay(n) {
                r.receive(now + Time::from_millis(ms), now, n);
            }
        }
        r.result(cfg, &s, Time::from_secs(200 + seconds))
    }

    fn close(got: Option<f64>, want: f64, tolerance: f64) {
        let got = got.unwrap();
        assert!((got - want).abs() <= tolerance, "{got} for {want}");
    }

    #[test]
    fn g711_sends_fifty_packets_of_200_bytes_per_second() {
        let cfg = VoipConfig::default();
        assert_eq!(Packet::udp(FlowId::new(0, false), 0, cfg.datagram(), Time::ZERO).size, 200);
        let out = call(&cfg, 10, |_| Some(20));
        assert_eq!((out.sent, out.received), (500, 500)); // 80 kbit/s
    }

    #[test]
    fn start_phase_is_random_within_an_interval() {
        let cfg = VoipConfig::default();
        let first = |name: &str| VoipSender::new(&cfg, (Time::from_secs(1), Time::MAX), &SEED, name).next_wake();
        let all: Vec<Time> = (0..50).map(|i| first(&format!("call{i}"))).collect();
        assert!(all.iter().all(|t| (1000..1020).contains(&t.as_millis())));
        assert!(all.iter().any(|t| t.as_millis() < 1005) && all.iter().any(|t| t.as_millis() >= 1015));
        assert_eq!(first("call7"), all[7]);
    }

    #[test]
    fn quiet_path_gives_full_quality() {
        // 20 ms of network, 20 of packetization, 60 of buffer: 100 ms, no impairment.
        let out = call(&VoipConfig::default(), 30, |_| Some(20));
        close(out.mouth_to_ear_ms, 100.0, 1e-9);
        close(out.r, 93.2, 1e-9);
        close(out.mos, 4.41, 0.005);
        assert_eq!((out.loss, out.late, out.ipdv_ms), (Some(0.0), Some(0.0), Some(0.0)));
        assert_eq!((out.over_100ms, out.over_150ms), (Some(0.0), Some(0.0)));
        let d = out.delay_ms.unwrap();
        assert_eq!((d.p50, d.p95, d.p99, d.max), (20.0, 20.0, 20.0, 20.0));
        assert_eq!(out.windows.len(), 3);
        assert!((110.0..110.02).contains(&out.windows[1].start_s));
    }

    #[test]
    fn long_path_reduces_the_score() {
        // 220 + 80 = 300 ms: Idd 14.76, MOS 3.96; by the linear fit Idd 20.7.
        let out = call(&VoipConfig::default(), 10, |_| Some(220));
        close(out.r, 93.2 - 14.76, 0.005);
        close(out.mos, 3.96, 0.005);
        assert_eq!(out.over_150ms, Some(1.0));
        let simple = call(&VoipConfig { emodel: EModel::Simple, ..VoipConfig::default() }, 10, |_| Some(220));
        close(simple.r, 93.2 - 20.7, 0.05);
    }

    #[test]
    fn scattered_loss_reduces_the_score() {
        let lossy = |n: u32| (n % 100 != 7).then_some(10);
        let out = call(&VoipConfig::default(), 20, lossy);
        assert_eq!((out.loss, out.late), (Some(0.01), Some(0.0)));
        close(out.mos, 3.83, 0.005);
        let speech = Speech { bpl: emodel::BPL_CONCEALED, ..Codec::G711.speech() };
        let concealed = call(&VoipConfig { speech, ..VoipConfig::default() }, 20, lossy);
        close(concealed.mos, 4.33, 0.005);
    }

    #[test]
    fn codecs_differ_in_packets_delay_and_robustness() {
        // 20 ms of network, 60 of buffer; 1 % lost in single packets, or nothing.
        for (codec, size, packets, mouth_to_ear, ie) in [
            (Codec::G711, 200, 500, 100.0, 0.0),
            (Codec::G729, 60, 500, 105.0, 11.0),
            (Codec::G7231, 64, 333, 117.5, 15.0),
            (Codec::GsmEfr, 71, 500, 100.0, 5.0),
        ] {
            let cfg = VoipConfig { speech: codec.speech(), ..VoipConfig::default() };
            assert_eq!(Packet::udp(FlowId::new(0, false), 0, cfg.datagram(), Time::ZERO).size, size, "{codec:?}");
            let out = call(&cfg, 10, |_| Some(20));
            assert!(out.sent.abs_diff(packets) <= 1, "{codec:?}: {}", out.sent);
            close(out.mouth_to_ear_ms, mouth_to_ear, 1e-9);
            let idd = emodel::delay_impairment(EModel::G107, mouth_to_ear);
            close(out.r, 93.2 - ie - idd, 1e-9);
            let lossy = call(&cfg, 30, |n| (n % 100 != 7).then_some(20));
            close(lossy.r, 93.2 - ie - idd - (95.0 - ie) / (1.0 + codec.speech().bpl), 0.05);
        }
    }

    #[test]
    fn packets_after_playout_count_as_lost() {
        // Fastest 10 ms, buffer 60 ms: 70 ms is in time, 71 is not.
        let out = call(&VoipConfig::default(), 10, |n| Some([10, 70, 10, 71, 10][n as usize % 5]));
        assert_eq!((out.loss, out.late), (Some(0.2), Some(0.2)));
        assert_eq!(out.received, 500);
        assert_eq!(out.ipdv_ms, Some(61.0));
        // A buffer that starts from a packet of 71 ms plays them all.
        let first = VoipConfig { reference: ReferencePacket::First, ..VoipConfig::default() };
        let out = call(&first, 10, |n| Some([71, 10][n as usize % 2]));
        assert_eq!(out.loss, Some(0.0));
        close(out.mouth_to_ear_ms, 151.0, 1e-9);
    }

    #[test]
    fn bad_windows_are_shown_separately() {
        // The second ten seconds lose runs of five packets, 10 % in all.
        let out = call(&VoipConfig::default(), 30, |n| (!(500..1000).contains(&n) || n % 50 >= 5).then_some(10));
        let r: Vec<f64> = out.windows.iter().map(|w| w.r).collect();
        assert_eq!((r[0], r[2]), (93.2, 93.2));
        // BurstR = 5 / (1 / 0.9) = 4.5; Ie,eff = 95 * 10 / (10 / 4.5 + 4.3) = 145.65: the rating falls from 93.2 to 0.
        assert_eq!(r[1], 0.0);
        assert_eq!(out.windows[1].mos, 1.0);
        close(out.loss, 50.0 / 1500.0, 1e-12);
    }

    #[test]
    fn delay_shares_count_packets_above_100_and_150_ms() {
        let out = call(&VoipConfig::default(), 10, |n| Some([50, 100, 120, 160][n as usize % 4]));
        assert_eq!((out.over_100ms, out.over_150ms), (Some(0.5), Some(0.25)));
        let d = out.delay_ms.unwrap();
        assert_eq!((d.p50, d.p95, d.max), (120.0, 160.0, 160.0));
    }

    #[test]
    fn call_without_arrivals_has_the_lowest_score() {
        let out = call(&VoipConfig::default(), 10, |_| None);
        assert_eq!((out.loss, out.mos, out.received), (Some(1.0), Some(1.0), 0));
        assert_eq!((out.delay_ms, out.ipdv_ms, out.mouth_to_ear_ms), (None, None, None));
    }

    #[test]
    fn packets_in_flight_at_the_end_are_not_counted() {
        let cfg = VoipConfig::default();
        let mut s = VoipSender::new(&cfg, (Time::ZERO, Time::MAX), &SEED, "call");
        let mut r = VoipReceiver::default();
        let end = Time::from_secs(1);
        while s.next_wake() <= end {
            let now = s.next_wake();
            let n = s.transmit(now).unwrap();
            if now + Time::from_millis(40) <= end {
                r.receive(now + Time::from_millis(40), now, n);
            }
        }
        assert_eq!(r.result(&cfg, &s, end).loss, Some(0.0));
        let nothing = VoipReceiver::default().result(&cfg, &VoipSender { sent: 0, ..s }, end);
        assert_eq!((nothing.r, nothing.loss, nothing.windows.len()), (None, None, 0));
    }

    #[test]
    fn duplicate_packets_are_ignored() {
        let mut r = VoipReceiver::default();
        r.receive(Time::from_millis(10), Time::ZERO, 0);
        r.receive(Time::from_millis(90), Time::ZERO, 0);
        assert_eq!(r.delays, [Time::from_millis(10)]);
    }

    #[test]
    fn results_round_trip_through_json() {
        let out = call(&VoipConfig::default(), 20, |n| Some(10 + u64::from(n % 3)));
        let text = serde_json::to_string(&out).unwrap();
        assert!(text.contains(r#""emodel":"g107""#) && text.contains(r#""delay_ms":{"p50":11.0"#), "{text}");
        assert_eq!(serde_json::from_str::<VoipResult>(&text).unwrap(), out);
    }
}
