//! Figures of an algorithm's own functions, which need no run.

use super::result::{Curve, MetricResult};
use roughlink_core::cc::{algorithm, illinois};

/// A function to draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name: one of [`NAMES`].
    pub name: String,
    /// Algorithms that supply the parameters, with their labels.
    pub variants: Vec<(String, String)>,
}

/// The available functions. `illinois`: alpha and beta of Illinois and its variants over the queueing delay.
pub const NAMES: &[&str] = &["illinois"];

impl Function {
    /// Computes the curves and their metrics; a variant without such a function has none.
    ///
    /// ```
    /// use roughlink_lab::experiment::functions::Function;
    ///
    /// let variants = vec![("illinois".to_owned(), "Illinois".to_owned())];
    /// let (curves, _) = Function { name: "illinois".to_owned(), variants }.curves();
    /// let alpha = &curves[0];
    /// assert_eq!((&*alpha.metric, alpha.y[0]), ("alpha", Some(10.0))); // no queueing delay
    /// assert!((alpha.y.last().unwrap().unwrap() - 0.3).abs() < 0.01); // longest delay
    /// ```
    pub fn curves(&self) -> (Vec<Curve>, Vec<MetricResult>) {
        let metric =
            |name: &str, label: &str| MetricResult { name: name.into(), label: label.into(), ..Default::default() };
        let metrics = vec![
            metric("alpha", "alpha, segments per RTT"),
            metric("beta", "beta, share of the window given up at a loss"),
        ];
        let mut curves = Vec::new();
        for (variant, label) in &self.variants {
            // The paper uses the parameters of Linux.
            let Some(p) =
                algorithm(variant).ok().and_then(|a| a.parameters("linux").try_into::<illinois::Params>().ok())
            else {
                continue;
            };
            let x: Vec<f64> = (0..=POINTS).map(|i| LONGEST * i as f64 / POINTS as f64).collect();
            let over = |y: &dyn Fn(f64) -> f64| x.iter().map(|d| Some(y(*d))).collect();
            for (metric, y) in [("alpha", over(&|d| p.alpha(d, LONGEST))), ("beta", over(&|d| p.beta(d, LONGEST)))] {
                curves.push(Curve {
                    axes: [("cc".to_owned(), variant.clone())].into(),
                    label: label.clone(),
                    metric: metric.into(),
                    x: x.clone(),
                    y,
                    ..Default::default()
                });
            }
        }
        (curves, metrics)
    }
}

/// Largest queueing delay, ms.
const LONGEST: f64 = 100.0;
const POINTS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_ends_match_figures_9_and_10() {
        let both = [("illinois".to_owned(), "Illinois".to_owned()), ("illinois-aa".to_owned(), "AA".to_owned())];
        let (curves, _) = Function { name: "illinois".into(), variants: both.into() }.curves();
        let ends: Vec<(f64, f64)> = curves.iter().map(|c| (c.y[0].unwrap(), c.y.last().unwrap().unwrap())).collect();
        let paper = [(10.0, 0.3), (0.125, 0.5), (11.0, 1.0), (0.025, 0.5)];
        assert_eq!(ends.len(), paper.len());
        for (got, want) in ends.iter().zip(paper) {
            assert!((got.0 - want.0).abs() < 0.01 && (got.1 - want.1).abs() < 0.01, "{got:?} for {want:?}");
        }
    }
}
