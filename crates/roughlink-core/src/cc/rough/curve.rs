//! The window while competing: CUBIC (RFC 9438) in integers, without slow start.

use crate::units::Time;

#[derive(Clone, Copy, Debug)]
pub(super) struct CubicWindow {
    /// Bytes.
    pub(super) window: u64,
    /// W_max: bytes at the plateau.
    plateau: u64,
    /// `None` from a reduction to the next acknowledgment.
    epoch: Option<CubicEpoch>,
}

#[derive(Clone, Copy, Debug)]
struct CubicEpoch {
    start: Time,
    /// K: time from the start to the plateau, ms.
    k: u64,
    /// W_est: window of Reno, in 1/256 bytes.
    reno: u64,
}

impl CubicWindow {
    /// Starts in congestion avoidance at `window`.
    pub(super) fn new(window: u64) -> Self {
        CubicWindow { window, plateau: window, epoch: None }
    }

    /// Reduces the window to 70 % (section 4.6). If the window is below the last plateau, also lowers the plateau (fast
    /// convergence, section 4.7).
    pub(super) fn reduce(&mut self, mss: u64) {
        self.plateau = if self.window < self.plateau { self.window * 17 / 20 } else { self.window };
        self.window = (self.window * 7 / 10).max(2 * mss);
        self.epoch = None;
    }

    /// Grows for `acked` bytes (sections 4.2 to 4.5).
    pub(super) fn grow(&mut self, now: Time, srtt: Time, mss: u64, acked: u64) {
        let CubicWindow { window, plateau, .. } = *self;
        let epoch = self.epoch.get_or_insert_with(|| CubicEpoch {
            start: now,
            k: cube_root((plateau.saturating_sub(window) * 1000 / mss).saturating_mul(2_500_000)),
            reno: window * 256,
        });
        let ms = (now.saturating_sub(epoch.start) + srtt).as_millis();
        let from_plateau = ms.abs_diff(epoch.k).min(MAX_MS);
        // C = 0.4 segments per cubic second.
        let height = from_plateau * from_plateau / 1000 * from_plateau / 1000 * 4 * mss / 10_000;
        let curve = if ms < epoch.k { plateau.saturating_sub(height) } else { plateau + height };
        let rise = curve.clamp(window, window + window / 2) - window;
        epoch.reno += 256 * 9 * mss * acked / (17 * window);
        self.window = (window + rise * acked / window).max(epoch.reno / 256);
    }
}

/// Largest time from the plateau, ms, for which products fit.
const MAX_MS: u64 = 100_000;

/// Returns the largest integer below 2^21 whose cube is at most `x`.
fn cube_root(x: u64) -> u64 {
    let mut root = 0;
    for bit in (0..21).rev() {
        let try_root = root | 1 << bit;
        if try_root * try_root * try_root <= x {
            root = try_root;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Acknowledges a window per RTT of 100 ms, segment by segment, for `seconds`.
    fn run(curve: &mut CubicWindow, now: &mut Time, seconds: u64) -> u64 {
        let end = *now + Time::from_secs(seconds);
        while *now < end {
            *now += Time(100_000_000 * MSS / curve.window);
            curve.grow(*now, Time::from_millis(100), MSS, MSS);
        }
        curve.window / MSS
    }

    /// Figure 1: after a loss at 1000 segments the window is 700, and K = (300 / 0.4)^(1/3) = 9.09 s later 1000 again.
    #[test]
    fn window_follows_the_cubic_function() {
        let (mut curve, mut now) = (CubicWindow::new(1000 * MSS), Time::ZERO);
        curve.reduce(MSS);
        assert_eq!(curve.window, 700 * MSS);
        let mut before = 0;
        for until in [2, 5, 9, 12, 15] {
            let window = run(&mut curve, &mut now, until - before) as f64;
            let t = until as f64 + 0.1 - 9.086;
            assert!((window - 1000.0 - 0.4 * t * t * t).abs() < 12.0, "{window} at {until} s");
            before = until;
        }
        curve.reduce(MSS);
        let second = curve.window;
        curve.reduce(MSS);
        assert_eq!(curve.plateau, second * 17 / 20, "fast convergence");
    }

    /// Section 4.3: in small windows CUBIC grows as Reno, 9/17 of a segment per RTT.
    #[test]
    fn small_window_grows_as_reno() {
        let (mut curve, mut now) = (CubicWindow::new(20 * MSS), Time::ZERO);
        curve.reduce(MSS);
        let mut acked = 0.0;
        while curve.window < 20 * MSS {
            acked += 1.0 / (curve.window as f64 / MSS as f64);
            now += Time::from_micros(100);
            curve.grow(now, Time::from_millis(1), MSS, MSS);
        }
        assert!((acked - 6.0 * 17.0 / 9.0).abs() < 0.5, "{acked} rounds");
    }

    #[test]
    fn cube_root_is_exact() {
        for (x, root) in [(0, 0), (7, 1), (8, 2), (750_000_000_000, 9085), (u64::MAX, (1 << 21) - 1)] {
            assert_eq!(cube_root(x), root);
        }
    }
}
