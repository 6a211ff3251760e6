//! Thins long curves for drawing. The x axis is divided into equal stretches; the first, lowest, highest and last point
//! of each are kept, so that no spike and no step is lost. For step functions the points after the lowest and the
//! highest are kept too, so that a spike keeps its width.

/// A point of a curve; the ordinate may be absent.
pub(crate) type CurvePoint = (f64, Option<f64>);

/// Maximum number of points of a drawn curve.
pub(super) const MOST: usize = 1600;

/// Maximum number of points kept in a stretch, for curves and for steps.
const KEPT: usize = 4;
const KEPT_OF_STEPS: usize = 6;

pub(super) fn thinned(x: &[f64], y: &[Option<f64>]) -> Vec<CurvePoint> {
    let points: Vec<CurvePoint> = x.iter().copied().zip(y.iter().copied()).collect();
    match points.as_slice() {
        [first, .., last] if points.len() > MOST => thin(&points, (first.0, last.0), MOST / KEPT, false),
        _ => points,
    }
}

fn thin(points: &[CurvePoint], (from, to): (f64, f64), stretches: usize, steps: bool) -> Vec<CurvePoint> {
    let stretch = |x: f64| (((x - from) / (to - from) * stretches as f64) as usize).min(stretches - 1);
    let mut out = Vec::new();
    for part in points.chunk_by(|a, b| stretch(a.0) == stretch(b.0)) {
        let value = |i: &usize| part[*i].1.filter(|v| v.is_finite());
        let by = |a: &usize, b: &usize| value(a).unwrap().total_cmp(&value(b).unwrap());
        let known = || (0..part.len()).filter(|i| value(i).is_some());
        let mut keep = vec![0, part.len() - 1];
        for extreme in [known().min_by(by), known().max_by(by)].into_iter().flatten() {
            keep.push(extreme);
            keep.extend((steps && extreme + 1 < part.len()).then_some(extreme + 1));
        }
        keep.sort_unstable();
        keep.dedup();
        out.extend(keep.into_iter().map(|i| part[i]));
    }
    out
}

/// Thins steps while they are read, in ascending order of x; the memory used does not grow with their number.
#[derive(Clone, Debug)]
pub(crate) struct Thinner {
    range: (f64, f64),
    stretches: usize,
    points: Vec<CurvePoint>,
}

impl Thinner {
    /// Creates a thinner for abscissae in `range`, cut into `stretches`.
    pub(crate) fn new(range: (f64, f64), stretches: usize) -> Self {
        Thinner { range, stretches: stretches.max(1), points: Vec::new() }
    }

    /// Sets the value to `y` from `x` on; a repeated value adds nothing.
    pub(crate) fn step(&mut self, x: f64, y: Option<f64>) {
        if self.points.last().is_some_and(|last| last.1 == y) {
            return;
        }
        if self.points.len() >= 2 * KEPT_OF_STEPS * self.stretches {
            // Thinning thinned points again keeps the same points as thinning them all at once.
            self.points = thin(&self.points, self.range, self.stretches, true);
        }
        self.points.push((x, y));
    }

    pub(crate) fn finish(self) -> Vec<CurvePoint> {
        if self.points.len() > KEPT_OF_STEPS * self.stretches {
            thin(&self.points, self.range, self.stretches, true)
        } else {
            self.points
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_curve_is_kept_unchanged() {
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
    fn incremental_thinning_equals_thinning_at_once() {
        let y = |i: u32| (i % 1000 != 3).then(|| f64::from(i.wrapping_mul(2_654_435_761) >> 20));
        let whole: Vec<CurvePoint> = (0..50_000).map(|i| (f64::from(i), y(i))).collect();
        let mut thinner = Thinner::new((0.0, 50_000.0), 40);
        let mut most = 0;
        for &(x, y) in &whole {
            thinner.step(x, y);
            most = most.max(thinner.points.len());
        }
        let mut changes = whole;
        changes.dedup_by(|later, before| later.1 == before.1);
        assert_eq!(thinner.finish(), thin(&changes, (0.0, 50_000.0), 40, true));
        assert!(most <= 2 * KEPT_OF_STEPS * 40, "{most} points were held");
    }

    #[test]
    fn step_spike_keeps_its_width() {
        let mut thinner = Thinner::new((0.0, 100.0), 2);
        for i in 0..100 {
            thinner.step(f64::from(i), Some(if i == 10 { 99.0 } else { f64::from(i % 2) }));
        }
        let short = thinner.finish();
        let spike = short.iter().position(|p| p.1 == Some(99.0)).unwrap();
        assert_eq!(short[spike..spike + 2], [(10.0, Some(99.0)), (11.0, Some(1.0))]);
        assert!(short.len() <= 12, "{short:?}");
    }

    #[test]
    fn repeated_step_values_are_dropped() {
        let mut thinner = Thinner::new((0.0, 10.0), 100);
        for (x, y) in [(0.0, None), (1.0, None), (2.0, Some(5.0)), (3.0, Some(5.0)), (4.0, Some(6.0))] {
            thinner.step(x, y);
        }
        assert_eq!(thinner.finish(), [(0.0, None), (2.0, Some(5.0)), (4.0, Some(6.0))]);
    }
}
