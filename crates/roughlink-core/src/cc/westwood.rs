//! Westwood: Reno growth; after a loss, the window becomes the estimated bandwidth times the smallest RTT.
//!
//! - `westwood` is Westwood+ (Grieco and Mascolo, "Performance evaluation and comparison of Westwood+, New Reno and
//!   Vegas TCP", ACM CCR 34(2), 2004): one bandwidth sample per RTT. Defaults are Linux's `tcp_westwood`. The first ACK
//!   later than max(RTT, 50 ms) ends a sample, which passes through two 7/8 filters in a row. A fast recovery starts
//!   with half the window as target and *ends* with bandwidth x RTT. A timeout discards the smallest RTT.
//! - `westwood-classic` is the first Westwood (Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced
//!   Transport over Wireless Links", MobiCom 2001). One sample per ACK passes a Tustin filter with a constant
//!   coefficient (the authors' coefficient depends on the time between ACKs). Versions of ns-3 up to 3.27 had it, but
//!   divided the bytes of one ACK by the whole RTT. For a window of w segments, this underestimates the bandwidth by a
//!   factor of w / 2. The `ns3` preset does the same, because the V2G paper's "Westwood" is this version.
//!
//! Both count the delivered bytes of an ACK with the papers' AckedCount. A duplicate ACK counts as one segment, and the
//! following cumulative ACK counts the segments that no duplicate announced. `ns3` has the Westwood+ of 3.44: a timer
//! of one smoothed RTT, the Tustin filter, ssthresh at once, growth per ACK, and a different count of segments.
//!
//! Not modeled: when header prediction succeeds, Linux counts the full cumulative ACK despite duplicates reported.

use super::entry::BuildAlgorithm;
use super::window::{AdditiveCounter, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, CongestionState, Flow, Permit};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`Westwood`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Duration of a bandwidth sample.
    pub sample: SampleDuration,
    /// Filter of the samples.
    pub filter: Filter,
    /// Weight of the past in the filter (Linux 7/8, ns-3 0.9).
    pub memory: f64,
    /// Least duration of a window sample.
    pub min_sample_ms: f64,
    /// Unit to which RTTs are rounded up (Linux: a jiffy, here of HZ = 1000); 0 = exact.
    pub jiffy_ms: f64,
    /// Rule that counts delivered segments.
    pub count: CountRule,
    /// Set ssthresh to bandwidth x RTT when recovery begins (the papers, ns-3). Otherwise it is half the window at the
    /// beginning of recovery, and bandwidth x RTT at the end (Linux).
    pub at_once: bool,
    /// Discard the smallest RTT at a time-out (Linux).
    pub forget_rtt: bool,
    /// Count acknowledged segments for growth (Linux) instead of ACKs (ns-3).
    pub abc: bool,
    /// With `abc`, maximum number of segments that one ACK adds in slow start: L of RFC 3465, 1 in RFC 5681; 0 = all
    /// acknowledged segments (Linux).
    pub slow_start_limit: u64,
}

/// Duration of a bandwidth sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SampleDuration {
    /// Until the first ACK later than the RTT and `min_sample_ms` (Linux).
    Window,
    /// One smoothed RTT from the first ACK on (ns-3's Westwood+).
    Timer,
    /// From one ACK to the next (the first Westwood).
    Ack,
    /// Bytes that one ACK acknowledges, over the smoothed RTT (ns-3 up to 3.27).
    Rtt,
}

/// The filter of the bandwidth samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    /// Two low-pass filters in a row, filled by the first sample (Linux).
    Double,
    /// Tustin's approximation: memory x last + (1 - memory) x mean of this and the previous sample (ns-3).
    Tustin,
    /// None.
    None,
}

/// Rule that counts delivered segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CountRule {
    /// AckedCount of the papers.
    Acked,
    /// Segments that ns-3 3.44 passes to PktsAcked: one for a duplicate or partial ACK. After disorder, ns-3 subtracts
    /// the number of duplicates from the newly delivered segments, although these already exclude the segments that
    /// caused the duplicates.
    Ns3,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            sample: SampleDuration::Window,
            filter: Filter::Double,
            memory: 0.875,
            min_sample_ms: 50.0,
            jiffy_ms: 1.0,
            count: CountRule::Acked,
            at_once: false,
            forget_rtt: true,
            abc: true,
            slow_start_limit: 0,
        }
    }
}

/// Parameters of `westwood-classic`.
pub const CLASSIC: &str = "sample = \"ack\"\nfilter = \"tustin\"\nmemory = 0.9\njiffy_ms = 0.0\nat_once = true\n\
                           forget_rtt = false";
/// The `ns3` preset of Westwood+.
pub const NS3: &str = "sample = \"timer\"\nfilter = \"tustin\"\nmemory = 0.9\njiffy_ms = 0.0\ncount = \"ns3\"\n\
                       at_once = true\nforget_rtt = false\nabc = false";
/// The `ns2` preset of Westwood+, as in the paper.
pub const PAPER: &str = "jiffy_ms = 0.0\nat_once = true\nforget_rtt = false\nabc = false";
/// The `ns3` preset of the first Westwood.
pub const CLASSIC_NS3: &str = "sample = \"rtt\"\ncount = \"ns3\"\nabc = false";
/// The `rfc` preset of Westwood+: the paper's reduction, the growth of RFC 5681.
pub const RFC: &str = "jiffy_ms = 0.0\nat_once = true\nforget_rtt = false\nslow_start_limit = 1";
/// The `ns2` preset of the first Westwood.
pub const PER_ACK: &str = "abc = false";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct Westwood {
    window: Window,
    counter: AdditiveCounter,
    params: Arc<Params>,
    /// Bytes delivered in the current sample, and its start.
    delivered: u64,
    since: Time,
    /// Length of the current timer sample; zero if none is running.
    timer: Time,
    /// Filtered bandwidth in bit/s, and the filter's state: first stage's output (`Double`) or last sample (`Tustin`).
    bandwidth: f64,
    kept: f64,
    /// Last RTT, zero before the first.
    rtt: Time,
    min_rtt: Time,
    /// True if the next ACK resets the smallest RTT.
    forget: bool,
    /// Granularity of RTTs, and shortest window sample.
    jiffy: Time,
    least: Time,
    /// Bytes that duplicate ACKs announced.
    announced: u64,
    /// Duplicate ACKs since the last ACK that advanced.
    duplicates: u32,
    state: CongestionState,
    cause: Congestion,
    recovered: bool,
}

impl BuildAlgorithm for Westwood {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(0.0..1.0).contains(&p.memory) {
            Err("`memory` must be at least 0 and less than 1".into())
        } else if ![p.min_sample_ms, p.jiffy_ms].iter().all(|t| (0.0..=1e9).contains(t)) {
            Err("times must be between 0 and 1e9 ms".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        Westwood {
            window: Window::with_slow_start_limit(flow, params.slow_start_limit),
            counter: AdditiveCounter::default(),
            params: Arc::clone(params),
            delivered: 0,
            since: flow.now,
            timer: Time::ZERO,
            bandwidth: 0.0,
            kept: 0.0,
            rtt: Time::ZERO,
            min_rtt: Time::MAX,
            forget: true,
            jiffy: Time::from_secs_f64(params.jiffy_ms / 1e3),
            least: Time::from_secs_f64(params.min_sample_ms / 1e3),
            announced: 0,
            duplicates: 0,
            state: CongestionState::Open,
            cause: Congestion::Timeout,
            recovered: false,
        }
    }
}

impl CongestionControl for Westwood {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        match self.params.sample {
            SampleDuration::Window => {
                self.close_window(flow.now);
                self.delivered += self.count(flow, ack);
                // As in Linux, the ACK is counted before its RTT is used.
                if !self.rtt.is_zero() {
                    self.min_rtt = if self.forget { self.rtt } else { self.min_rtt.min(self.rtt) };
                    self.forget = false;
                }
            }
            SampleDuration::Timer => {
                self.close_timer(flow.now);
                let delivered = self.count(flow, ack);
                if let Some(rtt) = ack.rtt.filter(|t| !t.is_zero()) {
                    self.delivered += delivered;
                    if self.timer.is_zero() {
                        (self.since, self.timer) = (flow.now, rtt);
                    }
                }
            }
            SampleDuration::Rtt => {
                let delivered = self.count(flow, ack);
                if let Some(rtt) = ack.rtt.filter(|t| !t.is_zero()) {
                    self.delivered = delivered;
                    self.close(rtt, flow.now);
                }
            }
            SampleDuration::Ack => {
                self.delivered += self.count(flow, ack);
                let interval = flow.now.saturating_sub(self.since);
                if !interval.is_zero() {
                    self.close(interval, flow.now);
                }
            }
        }
        if std::mem::take(&mut self.recovered) {
            self.window.ssthresh = self.capacity(flow);
            self.window.cwnd = self.window.ssthresh;
        }
        self.state = flow.state;
        if let Some(rtt) = ack.rtt.filter(|t| !t.is_zero()) {
            self.rtt = round_up(rtt, self.jiffy);
        }
        if !ack.may_grow || ack.segments == 0 {
            return;
        }
        if self.params.abc {
            self.window.reno(&mut self.counter, flow.mss, ack.segments);
        } else {
            self.window.grow_per_ack(flow.mss, ack.segments);
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        self.close_timer(flow.now);
        let mss = u64::from(flow.mss);
        let ssthresh = if self.params.at_once || cause.is_timeout() {
            self.capacity(flow)
        } else {
            (self.window.segments(flow.mss) / 2 * mss).max(2 * mss)
        };
        let cwnd = self.window.cwnd;
        self.window.reduce(flow, cause, ssthresh);
        if self.params.count == CountRule::Acked {
            self.window.cwnd = self.window.cwnd.min(cwnd); // the papers: a loss never raises the window
        }
        self.counter = AdditiveCounter::default();
        self.cause = cause;
        self.forget |= cause.is_timeout() && self.params.forget_rtt;
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = if self.window.in_slow_start() { "slow start" } else { "congestion avoidance" };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_recovered(&mut self, _flow: &Flow) {
        // `on_ack` sets the window, so that the last ACK of the recovery is counted first, as in Linux.
        self.recovered = !self.params.at_once && !self.cause.is_timeout();
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

impl Westwood {
    /// Returns bandwidth x smallest RTT, at least two segments.
    fn capacity(&self, flow: &Flow) -> u64 {
        let rtt = match self.params.sample {
            SampleDuration::Window if self.min_rtt == Time::MAX => self.rtt,
            SampleDuration::Window => self.min_rtt,
            SampleDuration::Timer | SampleDuration::Ack | SampleDuration::Rtt => flow.min_rtt,
        };
        let mss = u64::from(flow.mss);
        let bytes = self.bandwidth * rtt.as_secs_f64() / 8.0;
        match self.params.sample {
            // Linux uses whole segments. Rounding keeps a floating-point error from losing one.
            SampleDuration::Window => (bytes.round() as u64 / mss).max(2).saturating_mul(mss),
            SampleDuration::Timer | SampleDuration::Ack | SampleDuration::Rtt => (bytes as u64).max(2 * mss),
        }
    }

    /// Returns the bytes that this ACK reports as delivered.
    fn count(&mut self, flow: &Flow, ack: &Ack) -> u64 {
        let mss = u64::from(flow.mss);
        match self.params.count {
            CountRule::Acked if ack.acked == 0 => {
                self.announced += mss;
                mss
            }
            CountRule::Acked if ack.acked <= mss => ack.acked,
            // A delayed ACK, or one that follows a retransmission.
            CountRule::Acked if self.announced >= ack.acked => {
                self.announced -= ack.acked;
                mss
            }
            CountRule::Acked => ack.acked - std::mem::take(&mut self.announced),
            CountRule::Ns3 if ack.acked == 0 => {
                self.duplicates += 1;
                mss
            }
            CountRule::Ns3 if flow.state == CongestionState::Recovery => mss,
            CountRule::Ns3 => {
                let before = std::mem::take(&mut self.duplicates);
                let less = if self.state == CongestionState::Disorder { before } else { 0 };
                u64::from(ack.segments.saturating_sub(less)) * mss
            }
        }
    }

    fn close_window(&mut self, now: Time) {
        let interval = now.saturating_sub(self.since);
        if !self.rtt.is_zero() && interval > self.rtt.max(self.least) {
            self.close(interval, now);
        }
    }

    fn close_timer(&mut self, now: Time) {
        if !self.timer.is_zero() && now.saturating_sub(self.since) >= self.timer {
            self.close(self.timer, now);
            self.timer = Time::ZERO;
        }
    }

    /// Ends the sample: filters it and starts the next.
    fn close(&mut self, interval: Time, now: Time) {
        let sample = self.delivered as f64 * 8.0 / interval.as_secs_f64();
        let m = self.params.memory;
        match self.params.filter {
            Filter::Double if self.kept == 0.0 && self.bandwidth == 0.0 => {
                self.kept = sample;
                self.bandwidth = sample;
            }
            Filter::Double => {
                self.kept = m * self.kept + (1.0 - m) * sample;
                self.bandwidth = m * self.bandwidth + (1.0 - m) * self.kept;
            }
            Filter::Tustin => {
                // In whole bit/s, like ns-3.
                let sample = sample.trunc();
                let mean = ((sample + self.kept) * 0.5).trunc();
                self.bandwidth = (m * self.bandwidth).trunc() + ((1.0 - m) * mean).trunc();
                self.kept = sample;
            }
            Filter::None => self.bandwidth = sample,
        }
        self.delivered = 0;
        self.since = now;
    }
}

/// Rounds `t` up to a multiple of `unit`, which may be zero.
fn round_up(t: Time, unit: Time) -> Time {
    if unit.is_zero() { t } else { Time(t.0.div_ceil(unit.0).saturating_mul(unit.0)) }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    const MSS: u64 = 1000;

    fn flow() -> Flow {
        let ms = Time::from_millis(100);
        Flow {
            mss: MSS as u32,
            initial_window: 40 * MSS,
            initial_ssthresh: 10 * MSS,
            min_rtt: ms,
            srtt: ms,
            ..Flow::default()
        }
    }
    fn params(name: &str, stack: &str) -> Params {
        super::super::algorithm(name).unwrap().parameters(stack).try_into().unwrap()
    }
    fn ack(segments: u32) -> Ack {
        let acked = u64::from(segments) * MSS;
        Ack { acked, segments, rtt: Some(Time::from_millis(100)), ..Ack::default() }
    }
    /// `n` ACKs of one segment every 4 ms: 2 Mbit/s.
    fn steady(cc: &mut Westwood, f: &mut Flow, n: u32) {
        for _ in 0..n {
            f.now += Time::from_millis(4);
            cc.on_ack(f, &ack(1));
        }
    }

    #[test]
    fn every_variant_finds_the_bandwidth() {
        for (name, stack) in
            [("westwood", "linux"), ("westwood", "ns3"), ("westwood", "rfc"), ("westwood-classic", "linux")]
        {
            let (mut f, mut cc) = (flow(), Westwood::new(&Arc::new(params(name, stack)), &flow()));
            steady(&mut cc, &mut f, 5000);
            // 2 Mbit/s x 100 ms = 25 segments.
            let w = cc.capacity(&f) as f64 / MSS as f64;
            assert!((23.9..=26.0).contains(&w), "{name} {stack}: {w}");
        }
    }

    #[test]
    fn linux_sets_the_window_when_recovery_ends() {
        let (mut f, mut cc) = (flow(), Westwood::new(&Arc::new(Params::default()), &flow()));
        steady(&mut cc, &mut f, 1000);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (20 * MSS, 20 * MSS));
        cc.on_recovered(&f);
        cc.on_ack(&f, &ack(1));
        let v = cc.trace();
        assert_eq!((v.cwnd, v.ssthresh), (cc.capacity(&f), cc.capacity(&f)));
        assert!(v.cwnd >= 24 * MSS);
        // After one or two timeouts, ssthresh applies immediately, and the end of the repair changes nothing.
        for cause in [Congestion::Timeout, Congestion::TimeoutAgain] {
            cc.on_congestion(&f, cause);
            assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (MSS, v.ssthresh));
            cc.on_recovered(&f);
            cc.on_ack(&f, &ack(1));
            assert_eq!(cc.trace().cwnd, MSS);
        }
    }

    #[test]
    fn a_loss_never_raises_the_window_of_the_papers() {
        let (mut f, mut cc) = (flow(), Westwood::new(&Arc::new(params("westwood", "ns2")), &flow()));
        steady(&mut cc, &mut f, 5000);
        cc.on_congestion(&f, Congestion::Timeout);
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!((cc.trace().cwnd, cc.trace().ssthresh), (MSS, cc.capacity(&f)));
        assert!(cc.capacity(&f) > 20 * MSS);
    }

    #[test]
    fn timeout_resets_the_smallest_rtt() {
        let (mut f, mut cc) = (flow(), Westwood::new(&Arc::new(Params::default()), &flow()));
        steady(&mut cc, &mut f, 100);
        for _ in 0..2 {
            cc.on_ack(&f, &Ack { rtt: Some(Time::from_millis(300)), ..ack(1) });
        }
        assert_eq!(cc.min_rtt, Time::from_millis(100));
        cc.on_congestion(&f, Congestion::Timeout);
        assert_eq!(cc.min_rtt, Time::from_millis(100)); // still, for this reduction
        cc.on_ack(&f, &ack(1));
        assert_eq!(cc.min_rtt, Time::from_millis(300));
    }

    #[test]
    fn bandwidth_filters_match_their_definitions() {
        let sample = |p: &Params, n: u32| {
            let (mut f, mut cc) = (flow(), Westwood::new(&Arc::new(p.clone()), &flow()));
            cc.rtt = Time::from_millis(10);
            let mut seen = vec![];
            for i in 0..n {
                f.now += Time::from_millis(60);
                cc.delivered = if i == 0 { 60_000 } else { 0 }; // 8 Mbit/s, then nothing
                cc.close(Time::from_millis(60), f.now);
                seen.push((cc.bandwidth / 1e3).round() as u64);
            }
            seen
        };
        // Two 7/8 filters in a row: 8, 8 (7/8 + 7/64), 8 (49/64 + ...).
        assert_eq!(sample(&Params::default(), 3), [8000, 7875, 7656]);
        // Tustin with 0.9: 0.1 x mean(8, 0); then 0.9 of that + 0.1 x mean(0, 8); then 0.9 of that.
        assert_eq!(sample(&params("westwood-classic", "linux"), 3), [400, 760, 684]);
        assert_eq!(sample(&Params { filter: Filter::None, ..Params::default() }, 2), [8000, 0]);
    }

    #[test]
    fn acked_count_matches_the_papers() {
        let (f, mut cc) = (flow(), Westwood::new(&Arc::new(Params::default()), &flow()));
        let mut count = |segments| cc.count(&f, &ack(segments)) / MSS;
        assert_eq!((count(1), count(2)), (1, 2)); // delayed ACKs count in full
        assert_eq!((count(0), count(0), count(0)), (1, 1, 1)); // duplicates: one each
        assert_eq!(count(4), 1); // ACK that fills the hole: only one segment is new
        assert_eq!((count(0), count(0), count(0), count(0), count(2)), (1, 1, 1, 1, 1)); // partial ACK
        assert_eq!(count(3), 1); // duplicates announced two of the three
    }

    #[test]
    fn linux_samples_last_an_rtt_and_at_least_50_ms() {
        for (rtt, least) in [(100, 100), (10, 50)] {
            let (mut f, mut cc) = (flow(), Westwood::new(&Arc::new(Params::default()), &flow()));
            let a = Ack { rtt: Some(Time::from_millis(rtt)), ..ack(1) };
            cc.on_ack(&f, &a);
            f.now = Time::from_millis(least);
            cc.on_ack(&f, &a);
            assert_eq!(cc.bandwidth, 0.0);
            f.now += Time(1);
            cc.on_ack(&f, &a);
            assert!(cc.bandwidth > 0.0);
        }
        assert_eq!(round_up(Time::from_micros(1001), Time::from_millis(1)), Time::from_millis(2));
        assert_eq!(round_up(Time::from_micros(1001), Time::ZERO), Time::from_micros(1001));
    }

    #[test]
    fn extreme_inputs_do_not_panic() {
        for name in ["westwood", "westwood-classic"] {
            for stack in ["linux", "ns3", "ns2"] {
                let mut f = Flow { mss: 1, initial_window: 1, initial_ssthresh: 1, min_rtt: Time::ZERO, ..flow() };
                let mut cc = build(name, stack, "", &f).unwrap();
                cc.on_congestion(&f, Congestion::Loss); // nothing measured yet: two segments
                assert_eq!(cc.trace().ssthresh, 2);
                for i in 0..1000u64 {
                    f.now += Time([0, 1, 1_000_000_000_000][i as usize % 3]);
                    f.min_rtt = Time(i);
                    f.state = [CongestionState::Open, CongestionState::Disorder, CongestionState::Recovery]
                        [i as usize / 7 % 3];
                    let rtt = [None, Some(Time::ZERO), Some(Time(1)), Some(Time::MAX)][i as usize % 4];
                    let acked = [0, 1, 1 << 50][i as usize % 3];
                    cc.on_ack(&f, &Ack { acked, rtt, may_grow: i % 2 == 0, ..ack((i % 3) as u32) });
                    match i % 50 {
                        10 => cc.on_congestion(&f, Congestion::Loss),
                        20 => cc.on_recovered(&f),
                        30 => cc.on_congestion(&f, Congestion::Timeout),
                        40 => cc.on_undo(&f),
                        _ => {}
                    }
                    assert!(cc.trace().cwnd >= 1 && cc.trace().ssthresh >= 1);
                }
            }
        }
        assert!(build("westwood", "linux", "memory = 1.0", &flow()).is_err());
    }
}
