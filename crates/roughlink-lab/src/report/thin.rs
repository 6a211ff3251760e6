//! Long curves made short enough to draw: of each of a number of equal stretches of x the first point, the lowest, the
//! highest and the last, so that no spike and no step is lost.

/// A point of a curve; no ordinate where there is none.
pub(crate) type Point = (f64, Option<f64>);

/// Points that a curve is drawn with at most.
pub(super) const MOST: usize = 1600;

/// Points that are kept of a stretch at most.
const KEPT: usize = 4;

/// The points of a curve, all of them if they are few.
pub(super) fn thinned(x: &[f64], y: &[Option<f64>]) -> Vec<Point> {
    let points: Vec<Point> = x.iter().copied().zip(y.iter().copied()).collect();
    match points.as_slice() {
        [first, .., last] if points.len() > MOST => thin(&points, (first.0, last.0), MOST / KEPT),
        _ => points,
    }
}

fn thin(points: &[Point], (from, to): (f64, f64), stretches: usize) -> Vec<Point> {
    let stretch = |x: f64| (((x - from) / (to - from) * stretches as f64) as usize).min(stretches - 1);
    let mut out = Vec::with_capacity(points.len().min(KEPT * stretches));
    for part in points.chunk_by(|a, b| stretch(a.0) == stretch(b.0)) {
        let value = |i: &usize| part[*i].1.filter(|v| v.is_finite());
        let by = |a: &usize, b: &usize| value(a).unwrap().total_cmp(&value(b).unwrap());
        let known = || (0..part.len()).filter(|i| value(i).is_some());
        let mut keep = vec![0, part.len() - 1];
        keep.extend(known().min_by(by));
        keep.extend(known().max_by(by));
        keep.sort_unstable();
        keep.dedup();
        out.extend(keep.into_iter().map(|i| part[i]));
    }
    out
}

/// Thins a curve while it is read, in ascending order of x: its memory does not grow with the curve.
#[derive(Clone, Debug)]
pub(crate) struct Thinner {
    range: (f64, f64),
    stretches: usize,
    points: Vec<Point>,
}

impl Thinner {
    /// For abscissae in `range`, cut into `stretches`.
    pub(crate) fn new(range: (f64, f64), stretches: usize) -> Self {
        Thinner { range, stretches: stretches.max(1), points: Vec::new() }
    }

    /// The next point.
    pub(crate) fn push(&mut self, x: f64, y: Option<f64>) {
        if self.points.len() >= 2 * KEPT * self.stretches {
            // The points kept of points kept are those kept of all.
            self.points = thin(&self.points, self.range, self.stretches);
        }
        self.points.push((x, y));
    }

    /// The value is `y` from `x` on: one that repeats the value before adds nothing.
    pub(crate) fn step(&mut self, x: f64, y: Option<f64>) {
        if self.points.last().is_none_or(|last| last.1 != y) {
            self.push(x, y);
        }
    }

    /// The points that are left.
    pub(crate) fn finish(self) -> Vec<Point> {
        if self.points.len() > KEPT * self.stretches {
            thin(&self.points, self.range, self.stretches)
        } else {
            self.points
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_curve_is_kept_whole() {
        let (x, y) = (vec![0.0, 1.0, 2.0], vec![Some(1.0), None, Some(3.0)]);
        assert_eq!(thinned(&x, &y), [(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))]);
    }

    #[test]
    fn a_long_curve_keeps_its_ends_and_its_spikes() {
        let n = 100_000;
        let x: Vec<f64> = (0..n).map(f64::from).collect();
        let mut y: Vec<Option<f64>> = (0..n).map(|i| Some(f64::from(i % 7))).collect();
        y[41_234] = Some(99.0);
        y[77_777] = Some(-5.0);
        let short = thinned(&x, &y);
        assert!(short.len() <= MOST);
        assert_eq!((short[0].0, short[short.len() - 1].0), (0.0, f64::from(n - 1)));
        assert!(short.contains(&(41_234.0, Some(99.0))) && short.contains(&(77_777.0, Some(-5.0))));
        assert!(short.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_curve_that_is_read_piece_by_piece_is_thinned_as_a_whole() {
        let y = |i: u32| (i % 1000 != 3).then(|| f64::from(i.wrapping_mul(2_654_435_761) >> 20));
        let whole: Vec<Point> = (0..50_000).map(|i| (f64::from(i), y(i))).collect();
        let mut thinner = Thinner::new((0.0, 50_000.0), 40);
        let mut most = 0;
        for &(x, y) in &whole {
            thinner.push(x, y);
            most = most.max(thinner.points.len());
        }
        assert_eq!(thinner.finish(), thin(&whole, (0.0, 50_000.0), 40));
        assert!(most <= 2 * KEPT * 40, "{most} points were held");
    }

    #[test]
    fn a_step_that_repeats_the_value_before_is_left_out() {
        let mut thinner = Thinner::new((0.0, 10.0), 100);
        for (x, y) in [(0.0, None), (1.0, None), (2.0, Some(5.0)), (3.0, Some(5.0)), (4.0, Some(6.0))] {
            thinner.step(x, y);
        }
        assert_eq!(thinner.finish(), [(0.0, None), (2.0, Some(5.0)), (4.0, Some(6.0))]);
    }
}
