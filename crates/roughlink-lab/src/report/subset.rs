//! The cells of a large grid that its report shows. A page with a figure, a table and a file of a million cells would
//! be useless; the result folder has them all.

use crate::experiment::result::{AxisResult, Cell, ExperimentResult};
use crate::store::{RESULTS, RUNS_TABLE};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Maximum number of cells of an experiment in a report.
pub(super) const MAX_CELLS: usize = 10_000;

/// Returns an experiment with at most [`MAX_CELLS`] cells, of values distributed evenly along each axis, and with a
/// remark on those left out.
pub(super) fn shown(experiment: &ExperimentResult) -> Cow<'_, ExperimentResult> {
    let all: Vec<usize> = experiment.axes.iter().map(|axis| axis.values.len()).collect();
    let grid = all.iter().copied().fold(1, usize::saturating_mul);
    if experiment.cells.len() <= MAX_CELLS || grid <= 1 {
        return Cow::Borrowed(experiment);
    }
    // Cells with the same values of all axes: one for each stack and metric.
    let alike = experiment.cells.len().div_ceil(grid);
    let mut counts = all.clone();
    while counts.iter().copied().fold(alike, usize::saturating_mul) > MAX_CELLS
        && let Some(largest) = counts.iter_mut().max().filter(|n| **n > 1)
    {
        // Both ends of an axis stay.
        *largest = if *largest > 3 { largest.div_ceil(2) } else { *largest - 1 };
    }
    let axes: Vec<AxisResult> =
        experiment.axes.iter().zip(&counts).map(|(axis, count)| thinned(axis, *count)).collect();
    let values: Vec<BTreeSet<&str>> =
        axes.iter().map(|axis| axis.values.iter().map(|value| value.value.as_str()).collect()).collect();
    let is_shown = |cell: &&Cell| {
        let mut each = axes.iter().zip(&values);
        each.all(|(axis, values)| cell.axes.get(&axis.name).is_some_and(|value| values.contains(value)))
    };
    let cells: Vec<Cell> = experiment.cells.iter().filter(is_shown).cloned().collect();
    let parts: Vec<String> = experiment
        .axes
        .iter()
        .zip(&counts)
        .filter(|(axis, count)| **count < axis.values.len())
        .map(|(axis, count)| format!("{count} of {} values of {}", axis.values.len(), axis.name))
        .collect();
    let remark = format!(
        "This report shows {} of {} cells ({}). All are in {RESULTS}, and all runs in {RUNS_TABLE}.",
        cells.len(),
        experiment.cells.len(),
        parts.join(", ")
    );
    let about = format!("{}\n\n{remark}", experiment.about).trim_start().to_owned();
    Cow::Owned(ExperimentResult {
        about,
        axes,
        cells,
        experiment: experiment.experiment.clone(),
        title: experiment.title.clone(),
        place: experiment.place.clone(),
        command: experiment.command.clone(),
        scenario: experiment.scenario.clone(),
        quick: experiment.quick,
        stacks: experiment.stacks.clone(),
        scenario_stacks: experiment.scenario_stacks.clone(),
        metrics: experiment.metrics.clone(),
        figure: experiment.figure.clone(),
        curves: experiment.curves.clone(),
        ranks: experiment.ranks.clone(),
        compared: Vec::new(), // a report compares cells itself
    })
}

/// Returns an axis with `count` of its values.
fn thinned(axis: &AxisResult, count: usize) -> AxisResult {
    let last = axis.values.len() - 1;
    let at = |k: usize| axis.values[if count > 1 { k * last / (count - 1) } else { 0 }].clone();
    AxisResult { values: (0..count).map(at).collect(), ..axis.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::AxisValue;

    fn grid(x: usize, y: usize) -> ExperimentResult {
        let axis = |name: &str, n: usize| AxisResult {
            name: name.into(),
            values: (0..n).map(|i| AxisValue { value: i.to_string(), ..AxisValue::default() }).collect(),
            ..AxisResult::default()
        };
        let cell = |i: usize| Cell {
            axes: [("x", i / y), ("y", i % y)].map(|(name, i)| (name.to_owned(), i.to_string())).into(),
            ..Cell::default()
        };
        ExperimentResult {
            axes: vec![axis("x", x), axis("y", y)],
            cells: (0..x * y).map(cell).collect(),
            ..ExperimentResult::default()
        }
    }

    #[test]
    fn large_grids_are_thinned_along_their_axes() {
        let small = grid(100, 100);
        assert!(matches!(shown(&small), Cow::Borrowed(_)));
        for (x, y) in [(3, 4000), (1, 20_000), (150, 150), (20_000, 1)] {
            let all = grid(x, y);
            let some = shown(&all);
            assert!((MAX_CELLS / 4..=MAX_CELLS).contains(&some.cells.len()), "{x} x {y}: {}", some.cells.len());
            assert_eq!(some.cells.len(), some.axes.iter().map(|axis| axis.values.len()).product::<usize>());
            assert_eq!((some.cells.first(), some.cells.last()), (all.cells.first(), all.cells.last()));
        }
        let about = &shown(&grid(3, 4000)).about.clone();
        let remark = "This report shows 6000 of 12000 cells (2000 of 4000 values of y). All are in results.json, and \
            all runs in runs.parquet.";
        assert_eq!(about, remark);
    }
}
