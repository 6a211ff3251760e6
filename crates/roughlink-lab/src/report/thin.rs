//! Long curves made short enough to draw: the lowest and the highest point of each of a number of equal stretches.

/// Points that a curve is drawn with at most.
pub(super) const MOST: usize = 1600;

/// The points of a curve, all of them if they are few; else of each stretch of x the first, the extremes and the last,
/// so that no spike and no step is lost.
pub(super) fn thinned(x: &[f64], y: &[Option<f64>]) -> Vec<(f64, Option<f64>)> {
    let all = x.iter().copied().zip(y.iter().copied());
    if x.len().min(y.len()) <= MOST {
        return all.collect();
    }
    let points: Vec<(f64, Option<f64>)> = all.collect();
    let (from, to) = (points[0].0, points[points.len() - 1].0);
    let stretches = MOST / 4;
    let stretch = |x: f64| (((x - from) / (to - from) * stretches as f64) as usize).min(stretches - 1);
    let mut out = Vec::with_capacity(MOST);
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
}
