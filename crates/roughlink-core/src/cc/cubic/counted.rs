//! The curve as Linux and ns-3 have it: how many segments must be acknowledged for one more segment of window.

use super::super::window::{AdditiveCounter, Window};
use super::super::{Ack, Congestion, Flow};
use super::{CONCAVE, CONVEX, CubicArithmetic, FRIENDLY, Params};
use crate::units::Time;

/// Curve of Linux and ns-3: a count of acknowledged segments per segment of growth.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    c: f64,
    beta: f64,
    /// 8 / alpha_cubic, truncated: number of windows, in 8ths, in which Reno's window grows by a segment.
    reno_scale: u64,
    counter: AdditiveCounter,
    /// Segments acknowledged since the last growth (ns-3).
    acknowledged: u64,
    count: u64,
    last_window: u64,
    last_time: Option<Time>,
    /// Window at the last event, segments; 0 = none yet.
    pub(super) last_max: u64,
    epoch: Option<Epoch>,
    /// Smallest RTT since the last time-out.
    min_rtt: Option<Time>,
    pub(super) last_sent: Time,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Segments at the plateau.
    origin: u64,
    /// K: seconds to the plateau.
    k: f64,
    /// Segments acknowledged that have not yet made Reno's window grow.
    reno_acked: u64,
    /// Estimated window of Reno, segments (W_est).
    reno: u64,
}

impl Counted {
    pub(super) fn new(params: &Params) -> Self {
        let beta_1024 = libm::round(params.beta * 1024.0);
        let linux = params.arithmetic == CubicArithmetic::Linux;
        let numerator = 1024.0 + if linux { beta_1024 } else { params.beta * 1024.0 };
        let denominator = 1024.0 - if linux { beta_1024 } else { params.beta * 1024.0 };
        let scale = 8.0 * numerator / 3.0;
        Counted {
            // Linux: bic_scale / 1024 per 0.1 s of RTT.
            c: if linux { libm::round(params.c * 102.4) / 102.4 } else { params.c },
            beta: if linux { beta_1024 / 1024.0 } else { params.beta },
            reno_scale: (if linux { libm::floor(scale) } else { scale } / denominator) as u64,
            counter: AdditiveCounter::default(),
            acknowledged: 0,
            count: 0,
            last_window: 0,
            last_time: None,
            last_max: 0,
            epoch: None,
            min_rtt: None,
            last_sent: Time::ZERO,
        }
    }

    /// Adds an RTT sample. Returns the smallest RTT if the sample counts.
    pub(super) fn measure(&mut self, params: &Params, flow: &Flow, ack: &Ack) -> Option<Time> {
        let rtt = ack.rtt?;
        let settled = Time::from_millis(params.settle_ms);
        if self.epoch.is_some_and(|e| flow.now.saturating_sub(e.start) < settled) {
            return None;
        }
        let rtt = rtt.max(Time::from_micros(1));
        let least = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(least);
        Some(least)
    }

    /// Grows `window` for `segments` acknowledged beyond slow start; returns the phase.
    pub(super) fn grow(&mut self, params: &Params, window: &mut Window, flow: &Flow, segments: u64) -> &'static str {
        let w = window.segments(flow.mss);
        let phase = self.update(params, flow.now, w, segments);
        if params.arithmetic == CubicArithmetic::Linux {
            self.counter.advance(&mut window.cwnd, flow.mss, self.count, segments);
        } else {
            self.acknowledged += segments;
            if self.acknowledged >= self.count {
                self.acknowledged -= self.count;
                window.cwnd += u64::from(flow.mss);
            }
        }
        phase
    }

    /// Sets `count` for a window of `w` segments (`bictcp_update`).
    fn update(&mut self, params: &Params, now: Time, w: u64, acked: u64) -> &'static str {
        let linux = params.arithmetic == CubicArithmetic::Linux;
        if let Some(e) = &mut self.epoch {
            e.reno_acked += acked;
        }
        let mut renew = true;
        if linux {
            let since = |t: Time| now.as_millis().saturating_sub(t.as_millis());
            if self.last_window == w && self.last_time.is_some_and(|t| since(t) <= RENEWAL_MS) {
                return self.phase(w, now);
            }
            // The curve is recomputed at most once per jiffy, the Reno-friendly window whenever the window has changed.
            renew = self.epoch.is_none() || self.last_time.is_none_or(|t| since(t) > 0);
        }
        let last_max = self.last_max;
        let e = self.epoch.get_or_insert_with(|| {
            let k = if last_max <= w { 0.0 } else { libm::cbrt((last_max - w) as f64 / self.c) }; // Figure 2
            let k = if linux { libm::floor(k * 1024.0) / 1024.0 } else { k };
            Epoch { start: now, origin: last_max.max(w), k, reno_acked: acked, reno: w }
        });
        if renew {
            self.last_window = w;
            self.last_time = Some(now);
            let rtt = self.min_rtt.unwrap_or(Time::ZERO);
            let t = if linux {
                let ms = now.as_millis().saturating_sub(e.start.as_millis()) + rtt.as_micros().div_ceil(1000);
                libm::floor(ms as f64 * 1.024) / 1024.0
            } else {
                now.saturating_sub(e.start).saturating_add(rtt).as_secs_f64()
            };
            let off = t - e.k;
            let delta = (self.c * (off * off * off)).abs() as u64; // Figure 1
            let target = if off < 0.0 { e.origin.saturating_sub(delta) } else { e.origin.saturating_add(delta) };
            self.count = if target > w { w / (target - w) } else { 100 * w };
            if last_max == 0 {
                self.count = self.count.min(params.first_count);
            }
        }
        if params.reno_friendly {
            let per_segment = ((w * self.reno_scale) >> 3).max(1);
            if e.reno_acked > per_segment {
                let n = (e.reno_acked - 1) / per_segment; // Linux subtracts while more is left
                e.reno_acked -= n * per_segment;
                e.reno += n;
            }
            if e.reno > w {
                self.count = self.count.min(w / (e.reno - w));
            }
        }
        self.count = self.count.max(2); // section 4.2: at most 1.5 windows per RTT
        self.phase(w, now)
    }

    fn phase(&self, w: u64, now: Time) -> &'static str {
        match self.epoch {
            Some(e) if e.reno > w => FRIENDLY,
            Some(e) if now.saturating_sub(e.start).as_secs_f64() > e.k => CONVEX,
            _ => CONCAVE,
        }
    }

    /// Applies a congestion event at a window of `w` segments; returns ssthresh in segments.
    pub(super) fn reduce(&mut self, params: &Params, w: u64, cause: Congestion) -> u64 {
        if cause != Congestion::TimeoutAgain {
            let lower = params.fast_convergence && w < self.last_max;
            self.last_max = if lower { (w as f64 * (1.0 + self.beta) / 2.0) as u64 } else { w }; // section 4.7
        }
        self.epoch = None;
        self.counter = AdditiveCounter::default();
        if cause.is_timeout() {
            self.min_rtt = None;
            if params.arithmetic == CubicArithmetic::Linux {
                self.last_max = 0;
                self.count = 0;
                self.last_window = 0;
                self.last_time = None;
            }
        }
        ((w as f64 * self.beta) as u64).max(2) // section 4.6
    }

    /// Shifts the epoch past an idle period, so that this time does not count.
    pub(super) fn idle_until(&mut self, now: Time) {
        if let Some(e) = &mut self.epoch {
            e.start = e.start.saturating_add(now.saturating_sub(self.last_sent)).min(now);
        }
    }
}

/// HZ / 32 in whole jiffies of 1 ms.
const RENEWAL_MS: u64 = 31;
