//! The data behind a figure as CSV (RFC 4180, one header line, `\n` line ends).

use crate::experiment::result::ExperimentResult;

/// One line per cell: stack, axes, metric, unit, published, measured, ci95, replicas, samples.
///
/// Numbers are written so that reading them gives the same bits; absent ones are empty; samples are separated by
/// semicolons.
pub fn cells(experiment: &ExperimentResult) -> String {
    let mut head = vec!["stack".to_string()];
    head.extend(experiment.axes.iter().map(|a| a.name.clone()));
    head.extend(["metric", "unit", "published", "measured", "ci95", "replicas", "samples"].map(String::from));
    let mut out = line(&head);
    for cell in &experiment.cells {
        let mut fields = vec![cell.real_stack().to_string()];
        fields.extend(experiment.axes.iter().map(|a| cell.axes.get(&a.name).cloned().unwrap_or_default()));
        let unit = experiment.metrics.iter().find(|m| m.name == cell.metric).map_or("", |m| m.unit.as_str());
        fields.extend([cell.metric.clone(), unit.to_string()]);
        fields.extend([cell.published, cell.measured, cell.ci95].map(optional));
        fields.push(cell.replicas.to_string());
        fields.push(cell.samples.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(";"));
        out.push_str(&line(&fields));
    }
    out
}

fn optional(x: Option<f64>) -> String {
    x.map(|x| x.to_string()).unwrap_or_default()
}

fn line(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|f| quote(f)).collect();
    quoted.join(",") + "\n"
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::result::{AxisResult, Cell, MetricResult};

    /// A reader of RFC 4180, for the round trip.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut field, mut quoted) = (vec![], vec![], String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(std::mem::take(&mut field)),
                '\n' if !quoted => {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                c => field.push(c),
            }
        }
        assert!(field.is_empty() && row.is_empty() && !quoted, "the last line is not closed");
        rows
    }

    #[test]
    fn cells_survive_a_round_trip() {
        let cell = |cc: &str, measured: Option<f64>| Cell {
            stack: "ns3".into(),
            axes: [("cc".to_string(), cc.to_string()), ("loss".into(), "5 %".into())].into(),
            metric: "throughput_mbps".into(),
            published: Some(0.1 + 0.2),
            measured,
            ci95: Some(1.0 / 3.0),
            replicas: 2,
            samples: vec![0.431_234_567_890_123, 1e-300],
            ..Cell::default()
        };
        let experiment = ExperimentResult {
            axes: ["cc", "loss"].map(|n| AxisResult { name: n.into(), ..AxisResult::default() }).into(),
            metrics: vec![MetricResult { name: "throughput_mbps".into(), label: String::new(), unit: "Mbit/s".into() }],
            cells: vec![cell("a,\"b\"\nc", Some(2.5e-9)), cell("plain", None)],
            ..ExperimentResult::default()
        };
        let rows = read(&cells(&experiment));
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0][..4], ["stack", "cc", "loss", "metric"]);
        for (row, cell) in rows[1..].iter().zip(&experiment.cells) {
            assert_eq!(row[1], cell.axes["cc"]);
            assert_eq!(row[4], "Mbit/s");
            let numbers: Vec<Option<f64>> = row[5..8].iter().map(|f| f.parse().ok()).collect();
            assert_eq!(numbers, [cell.published, cell.measured, cell.ci95]);
            let samples: Vec<f64> = row[9].split(';').map(|s| s.parse().unwrap()).collect();
            assert_eq!(samples, cell.samples);
        }
    }
}
