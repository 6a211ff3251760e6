//! HighSpeed TCP (RFC 3649): AIMD with increase a(w) and decrease b(w), for large windows at realistic loss rates.
//!
//! As in Linux and ns-3, a(w) and b(w) come from the table of appendix B, with a row for every integer a(w).
//! [`ResponseTable`] does not store it, but computes rows from the formulas of section 5 when needed.
//!
//! Defaults follow Linux's `tcp_highspeed`. The window grows by a(w) per *ACK*, regardless of the segments that the ACK
//! covers. The decrease uses the b(w) that applied when the window last grew in congestion avoidance, truncated to
//! 256ths. The table ends at 89053 segments.
//!
//! `arithmetic = "ns3"` is ns-3 3.44's TcpHighSpeed. Slow start adds one segment per ACK, and congestion avoidance
//! counts a(w) per acknowledged segment. The decrease starts from the bytes in flight and uses their b(w), rounded to
//! two decimals. The error in ns-3's table, 53667 instead of 53677, is not reproduced.

use super::entry::BuildAlgorithm;
use super::window::{Arithmetic, Window};
use super::{Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, Permit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters of [`HighSpeed`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Window up to which the response is NewReno's, segments (section 5, Low_Window).
    pub low_window: f64,
    /// Window, segments, at which b(w) is `high_decrease` (section 5, High_Window).
    pub high_window: f64,
    /// b(w) at `high_window` (section 5, High_Decrease).
    pub high_decrease: f64,
    /// Divisor in p(w) = 1 / (`response_divisor` w^`response_exponent`): 0.078 / w^1.2 of section 5, in the form of
    /// appendix B.
    pub response_divisor: f64,
    /// Exponent of w in p(w).
    pub response_exponent: f64,
    /// Rows of the table; the last row applies to all larger windows.
    pub rows: usize,
    /// Implementation whose arithmetic applies.
    pub arithmetic: Arithmetic,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            low_window: 38.0,
            high_window: 83_000.0,
            high_decrease: 0.1,
            response_divisor: 12.8,
            response_exponent: 1.2,
            rows: 72,
            arithmetic: Arithmetic::Linux,
        }
    }
}

/// The `ns3` preset.
pub const NS3: &str = "arithmetic = \"ns3\"\nrows = 73";

/// The algorithm.
#[derive(Clone, Debug)]
pub struct HighSpeed {
    window: Window,
    table: ResponseTable,
    row: usize,
    count: u64,
    arithmetic: Arithmetic,
}

impl BuildAlgorithm for HighSpeed {
    type Params = Params;
    fn check(p: &Params) -> Result<(), String> {
        if !(p.low_window >= 1.0 && p.high_window > p.low_window) {
            Err("1 <= low_window < high_window is required".into())
        } else if !(p.high_decrease > 0.0 && p.high_decrease <= 0.5) {
            Err("`high_decrease` must be greater than 0 and at most 0.5".into())
        } else if !(p.response_divisor > 0.0 && p.response_exponent > 0.0 && p.response_exponent < 2.0) {
            Err("`response_divisor` must be greater than 0, `response_exponent` greater than 0 and less than 2".into())
        } else if p.rows == 0 {
            Err("`rows` must be at least 1".into())
        } else {
            Ok(())
        }
    }
    fn new(params: &Arc<Params>, flow: &Flow) -> Self {
        HighSpeed {
            window: Window::new(flow),
            table: ResponseTable::new(params),
            row: 0,
            count: 0,
            arithmetic: params.arithmetic,
        }
    }
}

impl CongestionControl for HighSpeed {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        if !ack.may_grow {
            return;
        }
        let mss = u64::from(flow.mss);
        let mut segments = ack.segments;
        match self.arithmetic {
            Arithmetic::Linux if self.window.in_slow_start() => {
                self.window.slow_start(u64::from(segments) * mss);
                return;
            }
            Arithmetic::Linux => segments = segments.min(1),
            Arithmetic::Ns3 => {
                if self.window.in_slow_start() {
                    segments = self.window.slow_start_per_ack(flow.mss, segments);
                }
                if self.window.in_slow_start() {
                    return;
                }
            }
        }
        let mut w = self.window.segments(flow.mss);
        self.row = self.table.seek(self.row, w);
        self.count += (self.row as u64 + 1) * u64::from(segments); // section 5: w = w + a(w) / w
        if self.count >= w {
            while self.count >= w {
                self.count -= w;
                w += 1;
            }
            self.window.cwnd = w * mss;
        }
    }

    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        let mss = u64::from(flow.mss);
        let left = match self.arithmetic {
            Arithmetic::Linux => {
                let w = self.window.segments(flow.mss);
                self.count = 0;
                w - (w as f64 * (libm::floor(self.table.decrease(self.row) * 256.0) / 256.0)) as u64
            }
            Arithmetic::Ns3 => {
                let w = flow.in_flight / mss;
                self.row = self.table.seek(self.row, w);
                let b = libm::round(self.table.decrease(self.row) * 100.0) / 100.0;
                (w as f64 * (1.0 - b)) as u64 // section 5: w = (1 - b(w)) w
            }
        };
        self.window.reduce(flow, cause, left.max(2) * mss);
    }

    fn permit(&self, flow: &Flow) -> Permit {
        Permit::window(flow.window(self.window.cwnd))
    }

    fn lower_window(&mut self, _flow: &Flow, cwnd: u64, ssthresh: u64) {
        self.window.lower(cwnd, ssthresh);
    }

    fn trace(&self) -> AlgorithmTrace {
        let phase = match self.row {
            _ if self.window.in_slow_start() => "slow start",
            0 => "congestion avoidance",
            _ => "high-speed increase",
        };
        AlgorithmTrace { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, rate: None, phase }
    }

    fn on_undo(&mut self, _flow: &Flow) {
        self.window.undo();
    }
}

/// Table of appendix B. Row `i` has a(w) = `i + 1` for windows above the `w` of row `i - 1`, up to its own.
#[derive(Clone, Debug)]
pub struct ResponseTable {
    rows: Vec<ResponseRow>,
    most: usize,
    low: f64,
    high: f64,
    high_decrease: f64,
    divisor: f64,
    exponent: f64,
}

#[derive(Clone, Copy, Debug)]
struct ResponseRow {
    w: u64,
    a: f64,
    b: f64,
}

impl ResponseTable {
    /// Creates the table for `params`, with its first row.
    pub fn new(params: &Params) -> Self {
        let first = ResponseRow { w: params.low_window as u64, a: 1.0, b: 0.5 };
        ResponseTable {
            rows: vec![first],
            most: params.rows,
            low: params.low_window,
            high: params.high_window,
            high_decrease: params.high_decrease,
            divisor: params.response_divisor,
            exponent: params.response_exponent,
        }
    }

    /// Returns the row for a window of `w` segments, searching upward from `row`.
    #[inline]
    pub fn seek(&mut self, row: usize, w: u64) -> usize {
        let mut row = row;
        while w > self.rows[row].w && (row + 1 < self.rows.len() || self.extend()) {
            row += 1;
        }
        while row > 0 && w <= self.rows[row - 1].w {
            row -= 1;
        }
        row
    }

    /// Returns b(w) of `row`.
    pub fn decrease(&self, row: usize) -> f64 {
        self.rows[row].b
    }

    /// Returns b(w) of section 5: 0.5 at Low_Window, High_Decrease at High_Window, linear in log w between.
    fn b(&self, w: f64) -> f64 {
        (self.high_decrease - 0.5) * (libm::log(w) - libm::log(self.low)) / (libm::log(self.high) - libm::log(self.low))
            + 0.5
    }

    /// Returns a(w) of section 5: w^2 p(w) 2 b(w) / (2 - b(w)).
    fn a(&self, w: f64) -> f64 {
        let b = self.b(w);
        w * w * 2.0 * b / ((2.0 - b) * libm::pow(w, self.exponent) * self.divisor)
    }

    /// Adds the next row: the first window with an a(w) more than 1 above the last row's. Returns false at the end.
    #[cold]
    fn extend(&mut self) -> bool {
        let last = self.rows[self.rows.len() - 1];
        let mut below = last.w;
        let mut above = 2 * self.high as u64;
        if self.rows.len() >= self.most || above <= below || self.a(above as f64) <= last.a + 1.0 {
            return false;
        }
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if self.a(middle as f64) > last.a + 1.0 {
                above = middle;
            } else {
                below = middle;
            }
        }
        self.rows.push(ResponseRow { w: above, a: self.a(above as f64), b: self.b(above as f64) });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    /// Appendix B: w and 100 b(w); a(w) is the number of the row.
    const APPENDIX_B: [(u64, u32); 73] = [
        (38, 50),
        (118, 44),
        (221, 41),
        (347, 38),
        (495, 37),
        (663, 35),
        (851, 34),
        (1058, 33),
        (1284, 32),
        (1529, 31),
        (1793, 30),
        (2076, 29),
        (2378, 28),
        (2699, 28),
        (3039, 27),
        (3399, 27),
        (3778, 26),
        (4177, 26),
        (4596, 25),
        (5036, 25),
        (5497, 24),
        (5979, 24),
        (6483, 23),
        (7009, 23),
        (7558, 22),
        (8130, 22),
        (8726, 22),
        (9346, 21),
        (9991, 21),
        (10661, 21),
        (11358, 20),
        (12082, 20),
        (12834, 20),
        (13614, 19),
        (14424, 19),
        (15265, 19),
        (16137, 19),
        (17042, 18),
        (17981, 18),
        (18955, 18),
        (19965, 17),
        (21013, 17),
        (22101, 17),
        (23230, 17),
        (24402, 16),
        (25618, 16),
        (26881, 16),
        (28193, 16),
        (29557, 15),
        (30975, 15),
        (32450, 15),
        (33986, 15),
        (35586, 14),
        (37253, 14),
        (38992, 14),
        (40808, 14),
        (42707, 13),
        (44694, 13),
        (46776, 13),
        (48961, 13),
        (51258, 13),
        (53677, 12),
        (56230, 12),
        (58932, 12),
        (61799, 12),
        (64851, 11),
        (68113, 11),
        (71617, 11),
        (75401, 10),
        (79517, 10),
        (84035, 10),
        (89053, 10),
        (94717, 9),
    ];

    fn flow(segments: u64) -> Flow {
        Flow { mss: 1000, initial_window: segments * 1000, initial_ssthresh: 2_000, ..Flow::default() }
    }
    fn ack(segments: u32) -> Ack {
        Ack { acked: u64::from(segments) * 1000, segments, may_grow: true, ..Ack::default() }
    }

    #[test]
    fn computed_table_matches_appendix_b() {
        let mut table = ResponseTable::new(&Params { rows: 73, ..Params::default() });
        assert_eq!(table.seek(0, 100_000), 72);
        assert_eq!(table.rows.len(), 73);
        for (i, (row, (w, b))) in table.rows.iter().zip(APPENDIX_B).enumerate() {
            assert_eq!((row.w, row.a as usize), (w, i + 1));
            assert_eq!(libm::round(row.b * 100.0) as u32, b, "b({w})");
            assert_eq!(table.clone().seek(0, w), i);
            assert_eq!(table.clone().seek(72, w + 1), (i + 1).min(72));
        }
    }

    /// Section 5: b(38) = 0.5 and b(83000) = 0.1.
    #[test]
    fn decrease_and_increase_match_section_5() {
        let table = ResponseTable::new(&Params::default());
        assert!((table.b(83_000.0) - 0.1).abs() < 1e-12);
        assert!((table.b(38.0) - 0.5).abs() < 1e-12);
        assert!((table.a(83_000.0) - 70.8).abs() < 0.1, "{}", table.a(83_000.0));
    }

    #[test]
    fn linux_grows_per_ack_and_ns3_per_segment() {
        for (stack, acks) in [("linux", 151), ("ns3", 76)] {
            let f = flow(300);
            let mut cc = build("highspeed", stack, "", &f).unwrap();
            // a(300) = 4: (300 + 301) / 4 segments or ACKs make two segments.
            for _ in 0..acks {
                cc.on_ack(&f, &ack(2));
            }
            assert_eq!(cc.trace().cwnd, 302_000, "{stack}");
        }
    }

    #[test]
    fn decrease_follows_the_window() {
        let mut f = flow(300);
        let mut cc = build("highspeed", "linux", "", &f).unwrap();
        cc.on_ack(&f, &ack(1));
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, (300 - 300 * 98 / 256) * 1000); // b(347) = 98/256
        let mut cc = build("highspeed", "ns3", "", &f).unwrap();
        f.in_flight = 300_000;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 186_000); // 0.62 * 300
        f.in_flight = 38_000;
        cc.on_congestion(&f, Congestion::Loss);
        assert_eq!(cc.trace().ssthresh, 19_000);
    }

    #[test]
    fn window_stays_within_bounds() {
        for stack in ["linux", "ns3"] {
            for segments in [1u64, 89_054, 10_000_000, 1 << 40] {
                let f = Flow { in_flight: segments * 1000, ..flow(segments) };
                let mut cc = build("highspeed", stack, "", &f).unwrap();
                for n in [0, 1, 2, 1000] {
                    cc.on_ack(&f, &ack(n));
                }
                let before = cc.trace().cwnd;
                cc.on_congestion(&f, Congestion::Loss);
                assert!(cc.trace().ssthresh >= 2_000 && cc.trace().ssthresh <= before.max(2_000), "{stack}");
                cc.on_congestion(&f, Congestion::Timeout);
                assert_eq!(cc.trace().cwnd, 1_000);
            }
        }
        assert!(build("highspeed", "linux", "high_window = 38", &flow(1)).is_err());
        assert!(build("highspeed", "linux", "rows = 0", &flow(1)).is_err());
        // The table ends where a(w) stops growing, even if `rows` is larger.
        let mut table = ResponseTable::new(&Params { rows: 1000, ..Params::default() });
        assert!(table.seek(0, u64::MAX) < 100);
    }
}
