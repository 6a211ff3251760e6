//! Colors and markers of series, the same in every figure of a report as far as possible.

use crate::experiment::result::ReportInput;
use std::collections::BTreeMap;

/// Number of colors, and of markers.
pub(super) const COUNT: usize = 10;

/// The preferred slot of every value of every series axis.
#[derive(Default)]
pub(super) struct Slots {
    wishes: BTreeMap<(String, String), usize>,
    used: BTreeMap<String, usize>,
}

impl Slots {
    /// Returns preferred slots, in the order in which the values first occur in a report.
    pub(crate) fn new(input: &ReportInput) -> Self {
        let mut slots = Self::default();
        for experiment in &input.experiments {
            for axis in &experiment.axes {
                for value in &axis.values {
                    slots.request(&axis.name, &value.value);
                }
            }
        }
        slots
    }

    fn request(&mut self, axis: &str, value: &str) {
        let key = (axis.to_string(), value.to_string());
        if !self.wishes.contains_key(&key) {
            let next = self.used.entry(axis.into()).or_default();
            self.wishes.insert(key, *next);
            *next += 1;
        }
    }

    /// Assigns slots to the series of a figure: the preferred one if it is free, else the next free one.
    pub(crate) fn assign(&self, axis: &str, values: &[String]) -> Vec<usize> {
        let wish = |v: &String| self.wishes.get(&(axis.to_string(), v.clone())).copied();
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|&i| wish(&values[i]).unwrap_or(usize::MAX));
        let mut taken = vec![false; values.len().max(COUNT)];
        let mut out = vec![0; values.len()];
        for i in order {
            let wanted = wish(&values[i]).map(|w| w % COUNT).filter(|&w| !taken[w]);
            let slot = wanted.or_else(|| taken.iter().position(|t| !t)).unwrap_or(0);
            taken[slot] = true;
            out[i] = slot;
        }
        out
    }
}

/// Renders the sample of a series in a legend: line and marker in the color of the slot.
pub(super) fn sample(slot: usize, form: SeriesStyle) -> String {
    let shape = match form {
        SeriesStyle::Bar => "<rect x=\"6\" y=\"2\" width=\"12\" height=\"10\" fill=\"currentColor\"/>".to_string(),
        SeriesStyle::Thin | SeriesStyle::Line | SeriesStyle::Marked => {
            // Solid lines first, then dashed ones; dotted if there are more series than colors.
            let dash = match slot {
                _ if form == SeriesStyle::Thin => "",
                slot if slot < COUNT / 2 => "",
                slot if slot < COUNT => " stroke-dasharray=\"5 3\"",
                _ => " stroke-dasharray=\"2 3\"",
            };
            let line = format!("<path d=\"M0 7H24\" stroke=\"currentColor\" stroke-width=\"2\"{dash}/>");
            let mark = MARKS[slot % COUNT];
            if form == SeriesStyle::Marked { format!("{line}<path d=\"{mark}\" fill=\"currentColor\"/>") } else { line }
        }
    };
    format!("<svg width=\"24\" height=\"14\" viewBox=\"0 0 24 14\" aria-hidden=\"true\">{shape}</svg>")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SeriesStyle {
    /// A line of many points, never dashed.
    Thin,
    /// A line alone.
    Line,
    /// A line with a marker at each point.
    Marked,
    Bar,
}

/// Outlines of the markers, in the order in which the page's script names them.
const MARKS: [&str; COUNT] = [
    "M8 7a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "M8 3H16V11H8Z",
    "M12 2L17 7L12 12L7 7Z",
    "M12 2L17 11H7Z",
    "M12 12L17 3H7Z",
    "M10.5 2.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
    "M12 2L17 5.6L15 11.5H9L7 5.6Z",
    "M7 7L16 2V12Z",
    "M17 7L8 2V12Z",
    "M7.5 2.5H16.5L12 7L16.5 11.5H7.5L12 7Z",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::{AxisResult, AxisValue, ExperimentResult};

    fn report(figures: &[&[&str]]) -> ReportInput {
        let axis = |values: &[&str]| AxisResult {
            narrowed: false,
            name: "cc".into(),
            values: values.iter().map(|v| AxisValue { value: v.to_string(), ..AxisValue::default() }).collect(),
            ..AxisResult::default()
        };
        let experiments = figures.iter().map(|v| ExperimentResult { axes: vec![axis(v)], ..Default::default() });
        ReportInput { experiments: experiments.collect(), ..ReportInput::default() }
    }

    #[test]
    fn series_keeps_its_color_across_figures() {
        let all = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let slots = Slots::new(&report(&[&all, &["a", "k", "i", "l"]]));
        let assign = |v: &[&str]| slots.assign("cc", &v.iter().map(|v| v.to_string()).collect::<Vec<_>>());
        assert_eq!(assign(&all), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(assign(&["a", "k", "i", "l"]), [0, 1, 8, 2]);
        assert_eq!(assign(&["i", "unknown"]), [8, 0]);
    }

    #[test]
    fn more_series_than_colors_have_different_slots() {
        let names: Vec<String> = (0..25).map(|i| i.to_string()).collect();
        let slots = Slots::default().assign("x", &names);
        assert_eq!(slots, (0..25).collect::<Vec<_>>());
    }
}
