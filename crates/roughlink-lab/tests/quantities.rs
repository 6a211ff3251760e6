//! The table of quantities.

use roughlink_lab::metric::{self, Metric};
use roughlink_lab::quantity::QUANTITIES;
use roughlink_lab::watch::{CURVES, FLOW_CURVES, MEANS};
use std::collections::BTreeSet;

#[test]
fn names_are_unique_and_carry_their_unit() {
    let names: BTreeSet<&str> = QUANTITIES.iter().map(|q| q.name).collect();
    assert_eq!(names.len(), QUANTITIES.len());
    for q in QUANTITIES {
        let suffix = match q.unit {
            "" | "times" => String::new(),
            "Mbit/s" => "_mbps".into(),
            "packets" | "segments" => "_pkt".into(),
            "SDUs" => "_sdu".into(),
            "B" => "_bytes".into(),
            unit => format!("_{}", unit.to_lowercase()),
        };
        assert!(q.name.ends_with(&suffix), "{} in {}", q.name, q.unit);
    }
}

#[test]
fn every_quantity_is_a_metric_or_a_curve() {
    // Only the report of a run draws this quantity; it is not a metric.
    let mut used = BTreeSet::from(["ssthresh_kb".to_owned()]);
    used.extend(metric::list().into_iter().map(|m| m.name.replace("[A..B]", "")));
    used.extend(CURVES.iter().chain(FLOW_CURVES).chain(MEANS).map(|q| q.name.to_owned()));
    let all: BTreeSet<String> = QUANTITIES.iter().map(|q| q.name.to_owned()).collect();
    assert_eq!(used, all);
}

#[test]
fn window_metrics_keep_label_and_unit() {
    for name in ["throughput_mbps", "retransmits", "queue_mean_pkt", "dropped", "jain"] {
        let plain = Metric::new(name).unwrap().describe();
        let window = Metric::new(&format!("{name}[10..60]")).unwrap().describe();
        assert_eq!(window.label, format!("{}, 10 s to 60 s", plain.label));
        assert_eq!(window.unit, plain.unit);
    }
}
