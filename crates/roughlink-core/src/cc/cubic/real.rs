//! The curve as RFC 9438 has it, in real numbers.

use super::super::window::Window;
use super::super::{Congestion, Flow};
use super::{CONCAVE, CONVEX, FRIENDLY, Params};
use crate::units::Time;

/// Windows in segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Real {
    /// W_max; `None` before the first event and after a time-out.
    pub(super) w_max: Option<f64>,
    cwnd_prior: f64,
    /// t_epoch, and W_max and K at that time.
    pub(super) epoch: Option<(Time, f64, f64)>,
    /// W_est.
    pub(super) w_est: f64,
    /// Growth of less than a byte, carried to the next ACK.
    fraction: f64,
}

impl Real {
    pub(super) fn grow(&mut self, params: &Params, window: &mut Window, flow: &Flow, segments: u64) -> &'static str {
        let mss = f64::from(flow.mss);
        let cwnd = window.cwnd as f64 / mss;
        let acked = segments as f64;
        if self.epoch.is_none() {
            self.w_est = cwnd;
        }
        let (start, w_max, k) = *self.epoch.get_or_insert_with(|| match self.w_max {
            Some(w_max) if w_max > cwnd => (flow.now, w_max, libm::cbrt((w_max - cwnd) / params.c)), // Figure 2
            _ => (flow.now, cwnd, 0.0), // sections 4.8 and 4.10
        });
        // Section 4.3, Figure 4.
        let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - params.beta) / (1.0 + params.beta) };
        self.w_est += alpha * acked / cwnd;
        let w_cubic = |t: f64| params.c * (t - k) * (t - k) * (t - k) + w_max; // Figure 1
        let t = flow.now.saturating_sub(start).as_secs_f64();
        let (growth, phase) = if params.reno_friendly && w_cubic(t) < self.w_est {
            ((self.w_est - cwnd).max(0.0), FRIENDLY)
        } else {
            let target = w_cubic(t + flow.srtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd); // section 4.2
            ((target - cwnd) / cwnd * acked, if t < k { CONCAVE } else { CONVEX }) // sections 4.4 and 4.5
        };
        self.fraction += growth * mss;
        let whole = libm::floor(self.fraction);
        self.fraction -= whole;
        window.cwnd = window.cwnd.saturating_add(whole as u64);
        phase
    }

    /// Applies a congestion event at a window of `cwnd` segments.
    pub(super) fn reduce(&mut self, params: &Params, cwnd: f64, cause: Congestion) {
        match cause {
            Congestion::Loss | Congestion::Ecn => {
                let lower = params.fast_convergence && self.w_max.is_some_and(|w_max| cwnd < w_max);
                self.w_max = Some(if lower { cwnd * (1.0 + params.beta) / 2.0 } else { cwnd }); // section 4.7
            }
            Congestion::Timeout | Congestion::TimeoutAgain => self.w_max = None, // section 4.8
        }
        if cause != Congestion::TimeoutAgain {
            self.cwnd_prior = cwnd;
        }
        self.epoch = None;
        self.fraction = 0.0;
    }
}
