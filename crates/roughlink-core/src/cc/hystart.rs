//! HyStart: ends slow start before it overflows the queue, for any window algorithm.
//!
//! *Classic* HyStart (S. Ha, I. Rhee, "Taming the elephants: new TCP slow start", NCSU TR 2008; Linux's `tcp_cubic`)
//! ends slow start in one of two cases:
//!
//! - Closely spaced ACKs of a round have been arriving for half the minimum RTT: the train fills the pipe.
//! - The smallest of the first RTTs of a round exceeds the minimum by an eighth (limited to 4 ms to 16 ms).
//!
//! *HyStart++* (RFC 9406) considers only the delay from round to round, and does not end slow start immediately. Five
//! rounds of conservative slow start (CSS) with a quarter of the growth follow. If the RTT falls again in these rounds,
//! slow start resumes. HyStart++ applies only to the first slow start of a connection (section 4.2).
//!
//! An algorithm keeps a [`HyStart`] beside its [`Window`], calls [`HyStart::on_ack`] for every ACK in slow start and
//! grows by [`HyStart::slow_start`].

use super::window::{Arithmetic, Window};
use super::{Ack, Congestion, Flow};
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Variant of HyStart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HystartVariant {
    /// Slow start until ssthresh or a loss.
    Off,
    /// Ha and Rhee, as in Linux.
    #[default]
    Classic,
    /// RFC 9406.
    PlusPlus,
}

/// Parameters; the defaults follow Linux and RFC 9406 (section 4.3), which agree where both define one.
#[derive(Clone, Debug)]
pub struct Params {
    /// Variant.
    pub mode: HystartVariant,
    /// Classic: smallest window at which HyStart acts, segments.
    pub low_window: u64,
    /// Classic: largest distance between the ACKs of a train.
    pub ack_delta: Time,
    /// Classic: divisor of the minimum RTT that gives the length of the train that ends slow start.
    pub train_divisor: u64,
    /// Smallest threshold for an increase of delay (MIN_RTT_THRESH).
    pub delay_min: Time,
    /// Largest threshold for an increase of delay (MAX_RTT_THRESH).
    pub delay_max: Time,
    /// Divisor of the RTT that gives the threshold between `delay_min` and `delay_max` (MIN_RTT_DIVISOR).
    pub delay_divisor: u64,
    /// RTT samples needed per round (N_RTT_SAMPLE).
    pub samples: u32,
    /// HyStart++: maximum number of segments that one ACK adds (L).
    pub limit: u64,
    /// HyStart++: divisor of the growth in CSS (CSS_GROWTH_DIVISOR).
    pub css_growth_divisor: u64,
    /// HyStart++: rounds of CSS (CSS_ROUNDS).
    pub css_rounds: u32,
    /// Variant of the classic arithmetic. In ns-3, only the first samples of a round count, and there is no allowance
    /// for offloading. The check comes before the start of a new round, and slow start overshoots ssthresh.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            mode: HystartVariant::Classic,
            low_window: 16,
            ack_delta: Time::from_millis(2),
            train_divisor: 2,
            delay_min: Time::from_millis(4),
            delay_max: Time::from_millis(16),
            delay_divisor: 8,
            samples: 8,
            limit: 8,
            css_growth_divisor: 4,
            css_rounds: 5,
            arithmetic: Arithmetic::Linux,
        }
    }
}

impl Params {
    /// Rejects parameters that would divide by zero.
    pub fn check(&self) -> Result<(), String> {
        if self.train_divisor == 0 || self.delay_divisor == 0 || self.css_growth_divisor == 0 {
            Err("the divisors of HyStart must be at least 1".into())
        } else if self.limit == 0 {
            Err("`hystart_limit` must be at least 1 segment".into())
        } else if self.delay_min > self.delay_max {
            Err("`hystart_delay_min_us` must not exceed `hystart_delay_max_us`".into())
        } else {
            Ok(())
        }
    }
}

/// HyStart state of a connection.
#[derive(Clone, Debug)]
pub struct HyStart {
    params: Params,
    /// True if HyStart has ended slow start or is no longer allowed to.
    done: bool,
    round_start: Time,
    /// Offset whose acknowledgment ends the round.
    round_end: u64,
    /// Arrival of the last ACK of the train.
    last_ack: Time,
    /// Smallest RTT of this round and of the previous one.
    round_rtt: Time,
    last_round_rtt: Time,
    sampled: u32,
    /// In CSS: the RTT that started it, and the number of rounds since.
    css: Option<(Time, u32)>,
}

impl HyStart {
    /// Creates the state for a new connection.
    pub fn new(params: Params, flow: &Flow) -> Self {
        HyStart {
            done: params.mode == HystartVariant::Off,
            params,
            round_start: flow.now,
            round_end: flow.snd_nxt,
            last_ack: flow.now,
            round_rtt: Time::MAX,
            last_round_rtt: Time::MAX,
            sampled: 0,
            css: None,
        }
    }

    /// Processes an ACK; to end slow start, sets ssthresh to the window. `min_rtt` is the algorithm's smallest RTT.
    #[inline]
    pub fn on_ack(&mut self, flow: &Flow, ack: &Ack, window: &mut Window, min_rtt: Time) {
        if self.done {
            return;
        }
        match self.params.mode {
            HystartVariant::Off => {}
            HystartVariant::PlusPlus => self.plusplus(flow, ack.rtt, window),
            HystartVariant::Classic => {
                if let Some(rtt) = ack.rtt {
                    self.classic(flow, rtt, window, min_rtt);
                }
            }
        }
    }

    /// Grows the window by `segments`, or by a quarter of them in CSS (RFC 9406 section 4.2). Returns the segments left
    /// for congestion avoidance.
    #[inline]
    pub fn slow_start(&mut self, flow: &Flow, window: &mut Window, segments: u64) -> u64 {
        let mss = u64::from(flow.mss);
        if self.params.mode != HystartVariant::PlusPlus && self.params.arithmetic == Arithmetic::Ns3 {
            if self.params.mode == HystartVariant::Classic && flow.snd_una > self.round_end {
                self.start_round(flow);
            }
            window.cwnd += segments * mss;
            return 0;
        }
        if self.params.mode != HystartVariant::PlusPlus || self.done {
            return window.slow_start(segments * mss) / mss;
        }
        let divisor = if self.css.is_some() { self.params.css_growth_divisor } else { 1 };
        window.slow_start(segments.min(self.params.limit) * mss / divisor) * divisor / mss
    }

    /// Processes a congestion event. Classic HyStart restarts after a timeout; HyStart++ has no second slow start.
    pub fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        match self.params.mode {
            HystartVariant::Off => {}
            HystartVariant::Classic if cause.is_timeout() => {
                self.done = false;
                self.start_round(flow);
            }
            HystartVariant::Classic => {}
            HystartVariant::PlusPlus => {
                self.done = true;
                self.css = None;
            }
        }
    }

    /// Returns true during conservative slow start.
    pub fn in_css(&self) -> bool {
        self.css.is_some()
    }

    /// Returns true if HyStart has ended slow start or can no longer end it.
    pub fn is_done(&self) -> bool {
        self.done
    }

    fn start_round(&mut self, flow: &Flow) {
        self.round_start = flow.now;
        self.round_end = flow.snd_nxt;
        self.last_ack = flow.now;
        self.last_round_rtt = self.round_rtt;
        self.round_rtt = Time::MAX;
        self.sampled = 0;
    }

    fn classic(&mut self, flow: &Flow, rtt: Time, window: &mut Window, min_rtt: Time) {
        let linux = self.params.arithmetic == Arithmetic::Linux;
        if linux && flow.snd_una > self.round_end {
            self.start_round(flow);
        }
        if window.cwnd < self.params.low_window * u64::from(flow.mss) {
            return;
        }
        let mut found = false;
        if flow.now.saturating_sub(self.last_ack) <= self.params.ack_delta {
            self.last_ack = flow.now;
            let pipe = if linux { min_rtt.saturating_add(offload_delay(flow, window.cwnd)) } else { min_rtt };
            found = flow.now.saturating_sub(self.round_start) > pipe / self.params.train_divisor;
        }
        let enough = self.sampled >= self.params.samples;
        if linux || !enough {
            self.round_rtt = self.round_rtt.min(rtt);
        }
        if enough {
            found |= self.round_rtt > min_rtt.saturating_add(self.threshold(min_rtt));
        } else {
            self.sampled += 1;
        }
        if found {
            self.done = true;
            window.ssthresh = window.cwnd;
        }
    }

    /// RFC 9406 section 4.2.
    fn plusplus(&mut self, flow: &Flow, rtt: Option<Time>, window: &mut Window) {
        if let Some(rtt) = rtt {
            self.round_rtt = self.round_rtt.min(rtt);
            self.sampled += 1;
        }
        if self.sampled >= self.params.samples && self.round_rtt < Time::MAX {
            let last = self.last_round_rtt;
            match self.css {
                None if last < Time::MAX && self.round_rtt >= last.saturating_add(self.threshold(last)) => {
                    self.css = Some((self.round_rtt, 0));
                }
                Some((baseline, _)) if self.round_rtt < baseline => self.css = None, // a false alarm
                _ => {}
            }
        }
        if flow.snd_una >= self.round_end {
            // The round in which CSS started counts.
            if let Some((_, rounds)) = &mut self.css {
                *rounds += 1;
                if *rounds >= self.params.css_rounds {
                    self.css = None;
                    self.done = true;
                    window.ssthresh = window.cwnd;
                }
            }
            self.start_round(flow);
        }
    }

    /// Returns the increase of delay that ends slow start at an RTT of `rtt`.
    fn threshold(&self, rtt: Time) -> Time {
        (rtt / self.params.delay_divisor).clamp(self.params.delay_min, self.params.delay_max)
    }
}

/// Returns Linux's extension of the train (`hystart_ack_delay`): the time to send four GSO packets of maximum size at
/// the pacing rate, at most 1 ms. In slow start this rate is two windows per RTT.
fn offload_delay(flow: &Flow, cwnd: u64) -> Time {
    let nanos = u128::from(4 * OFFLOAD_BYTES) * u128::from(flow.srtt.0) / u128::from((2 * cwnd).max(1));
    Time(nanos.min(1_000_000) as u64)
}

/// Largest packet that Linux passes to a card with segmentation offload (`sk_gso_max_size`).
const OFFLOAD_BYTES: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    struct SlowStartBench {
        hystart: HyStart,
        window: Window,
        flow: Flow,
        min_rtt: Time,
    }

    impl SlowStartBench {
        fn new(params: Params, segments: u64) -> Self {
            let flow = Flow {
                mss: 1000,
                initial_window: segments * 1000,
                initial_ssthresh: u64::MAX,
                snd_nxt: segments * 1000,
                ..Flow::default()
            };
            SlowStartBench {
                hystart: HyStart::new(params, &flow),
                window: Window::new(&flow),
                flow,
                min_rtt: Time::MAX,
            }
        }
        fn ack(&mut self, gap: Time, rtt: Time) {
            let f = &mut self.flow;
            f.now += gap;
            f.snd_una += 1000;
            f.srtt = rtt;
            self.min_rtt = self.min_rtt.min(rtt);
            let ack = Ack { acked: 1000, segments: 1, rtt: Some(rtt), may_grow: true, ..Ack::default() };
            if self.window.in_slow_start() {
                self.hystart.on_ack(f, &ack, &mut self.window, self.min_rtt);
            }
            if self.window.in_slow_start() {
                self.hystart.slow_start(f, &mut self.window, 1);
            }
            self.flow.snd_nxt = self.flow.snd_una + self.window.cwnd;
        }
        fn round(&mut self, rtt: Time) {
            let n = (self.hystart.round_end - self.flow.snd_una).div_ceil(1000);
            for _ in 0..n {
                self.ack(rtt / n, rtt);
            }
        }
        /// Acknowledges everything sent so far and sends a window.
        fn skip_round(&mut self) {
            self.flow.snd_una = self.flow.snd_nxt;
            self.flow.snd_nxt = self.flow.snd_una + self.window.cwnd;
        }
        fn ssthresh(&self) -> u64 {
            self.window.ssthresh
        }
    }

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn a_long_train_ends_slow_start() {
        let mut c = SlowStartBench::new(Params::default(), 200);
        c.skip_round();
        // ACKs 1 ms apart at an RTT of 100 ms: slow start ends after half the RTT and the millisecond of allowance.
        let mut acks = 0;
        while c.window.in_slow_start() {
            c.ack(ms(1), ms(100));
            acks += 1;
        }
        // The first ACK starts the round; 51 more make the train (100 + 1) / 2 ms long.
        assert_eq!(acks, 52);
        assert_eq!(c.ssthresh(), c.window.cwnd);
    }

    #[test]
    fn sparse_acks_form_no_train() {
        let mut c = SlowStartBench::new(Params::default(), 200);
        for _ in 0..1000 {
            c.ack(ms(3), ms(100));
        }
        assert_eq!(c.ssthresh(), u64::MAX);
    }

    #[test]
    fn an_eighth_more_delay_ends_slow_start() {
        for (base, increase, ends) in [(100, 12, false), (100, 13, true), (8, 4, false), (8, 5, true), (800, 17, true)]
        {
            let mut c = SlowStartBench::new(Params { ack_delta: Time::ZERO, ..Params::default() }, 100);
            c.ack(ms(10), ms(base));
            for _ in 0..20 {
                c.ack(ms(10), ms(base + increase));
            }
            // Within one round, the smallest RTT remains the base.
            assert_eq!(c.ssthresh(), u64::MAX);
            c.skip_round();
            for _ in 0..9 {
                c.ack(ms(10), ms(base + increase));
            }
            assert_eq!(!c.window.in_slow_start(), ends, "{base} + {increase}");
        }
    }

    #[test]
    fn small_windows_stay_in_slow_start() {
        let mut c = SlowStartBench::new(Params { low_window: 1000, ..Params::default() }, 20);
        for _ in 0..900 {
            c.ack(Time::from_micros(100), ms(1));
        }
        assert_eq!(c.ssthresh(), u64::MAX);
    }

    #[test]
    fn classic_restarts_only_after_a_timeout() {
        let mut c = SlowStartBench::new(Params::default(), 200);
        c.skip_round();
        for _ in 0..60 {
            c.ack(ms(1), ms(100));
        }
        assert!(c.hystart.is_done());
        c.hystart.on_congestion(&c.flow, Congestion::Loss);
        assert!(c.hystart.is_done());
        c.hystart.on_congestion(&c.flow, Congestion::Timeout);
        assert!(!c.hystart.is_done());
    }

    #[test]
    fn ns3_needs_twice_the_delay_or_a_train_of_an_rtt() {
        let ns3 = Params {
            arithmetic: Arithmetic::Ns3,
            train_divisor: 1,
            delay_divisor: 1,
            delay_max: ms(1000),
            ..Params::default()
        };
        let mut c = SlowStartBench::new(ns3, 200);
        c.skip_round();
        let mut acks = 0;
        while c.window.in_slow_start() {
            c.ack(ms(1), ms(100));
            acks += 1;
        }
        assert_eq!(acks, 102);
    }

    fn plusplus() -> SlowStartBench {
        SlowStartBench::new(Params { mode: HystartVariant::PlusPlus, ..Params::default() }, 20)
    }

    /// Section 4.2: the threshold is an eighth of the last round's RTT, then CSS for five rounds, then ssthresh = cwnd.
    #[test]
    fn conservative_slow_start_lasts_five_rounds() {
        let mut c = plusplus();
        c.round(ms(100));
        assert_eq!(c.window.cwnd, 40_000);
        c.round(ms(112));
        assert!(!c.hystart.in_css());
        c.round(ms(127)); // 112 + 14 = 126
        assert!(c.hystart.in_css());
        let before = c.window.cwnd;
        let mut rounds = 1; // the round in which CSS began
        while c.window.in_slow_start() {
            c.round(ms(130));
            rounds += 1;
            assert!(rounds < 10);
        }
        assert_eq!(rounds, 5);
        // Four rounds at a quarter: 1.25^4 = 2.44.
        let growth = c.window.cwnd as f64 / before as f64;
        assert!((2.3..2.6).contains(&growth), "{growth}");
        assert_eq!(c.ssthresh(), c.window.cwnd);
    }

    #[test]
    fn slow_start_resumes_when_the_delay_falls_again() {
        let mut c = plusplus();
        c.round(ms(100));
        c.round(ms(100));
        c.round(ms(120));
        assert!(c.hystart.in_css());
        c.round(ms(105));
        assert!(!c.hystart.in_css() && !c.hystart.is_done());
        let before = c.window.cwnd;
        c.round(ms(105));
        assert!(c.window.cwnd as f64 > 1.95 * before as f64);
    }

    #[test]
    fn an_ack_adds_eight_segments_at_most_and_two_in_css() {
        let mut c = plusplus();
        assert_eq!(c.hystart.slow_start(&c.flow, &mut c.window, 100), 0);
        assert_eq!(c.window.cwnd, 28_000);
        c.hystart.css = Some((ms(1), 1));
        c.hystart.slow_start(&c.flow, &mut c.window, 100);
        assert_eq!(c.window.cwnd, 30_000);
        c.hystart.slow_start(&c.flow, &mut c.window, 1);
        assert_eq!(c.window.cwnd, 30_250);
    }

    #[test]
    fn hystart_plusplus_applies_to_the_first_slow_start_only() {
        let mut c = plusplus();
        c.hystart.on_congestion(&c.flow, Congestion::Timeout);
        assert!(c.hystart.is_done());
        assert_eq!(c.hystart.slow_start(&c.flow, &mut c.window, 100), 0);
        assert_eq!(c.window.cwnd, 120_000);
    }

    #[test]
    fn degenerate_rtts_do_not_panic() {
        for mode in [HystartVariant::Off, HystartVariant::Classic, HystartVariant::PlusPlus] {
            for arithmetic in [Arithmetic::Linux, Arithmetic::Ns3] {
                let mut c = SlowStartBench::new(Params { mode, arithmetic, ..Params::default() }, 20);
                for rtt in [Time::ZERO, Time(1), Time::MAX, Time::ZERO] {
                    for _ in 0..30 {
                        c.flow.snd_una += 5_000;
                        c.ack(Time::from_secs(40_000), rtt);
                    }
                }
            }
        }
        assert!(Params { delay_divisor: 0, ..Params::default() }.check().is_err());
        assert!(Params { delay_min: ms(20), ..Params::default() }.check().is_err());
        assert!(Params::default().check().is_ok());
    }
}
