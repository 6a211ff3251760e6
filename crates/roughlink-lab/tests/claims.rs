//! Claims: their figures, and the criteria for confirmation.

use roughlink_lab::experiment::claims::{judge, tally};
use roughlink_lab::experiment::result::{
    AxisResult, AxisValue, Cell, ClaimOutcome, ClaimResult, ExperimentResult, MetricResult, Origin, Verdict,
};
use roughlink_lab::library::ScenarioText;
use roughlink_lab::statistics::summary;

/// Returns results of two algorithms at two losses on one stack: two samples each, without randomness.
fn result() -> ExperimentResult {
    let axis = |name: &str, values: [&str; 2]| AxisResult {
        name: name.into(),
        label: name.into(),
        values: values.map(|v| AxisValue { value: v.into(), label: v.to_uppercase(), number: None }).into(),
        narrowed: false,
    };
    let cell = |cc: &str, loss: &str, mean: f64| Cell {
        stack: "ns3".into(),
        axes: [("cc", cc), ("loss", loss)].into(),
        metric: "throughput_mbps".into(),
        measured: Some(mean),
        replicas: 2,
        samples: vec![mean; 2],
        deterministic: true,
        ..Cell::default()
    };
    ExperimentResult {
        experiment: "p/e".into(),
        stacks: vec!["ns3".into(), "linux".into()],
        axes: vec![axis("cc", ["fast", "slow"]), axis("loss", ["1 %", "5 %"])],
        metrics: vec![MetricResult { name: "throughput_mbps".into(), unit: "Mbit/s".into(), ..Default::default() }],
        cells: vec![
            cell("fast", "1 %", 6.0),
            cell("slow", "1 %", 4.0),
            cell("fast", "5 %", 3.0),
            cell("slow", "5 %", 1.0),
        ],
        ..ExperimentResult::default()
    }
}

fn judged(claim: &str) -> Result<ClaimResult, String> {
    judged_by(claim, &result())
}

fn judged_by(claim: &str, result: &ExperimentResult) -> Result<ClaimResult, String> {
    let text = format!("[[claim]]\nid = \"c\"\ntext = \"t\"\nplace = \"p\"\nexperiment = \"e\"\n{claim}\n");
    let source = ScenarioText { name: "claims.toml".into(), text, folder: None };
    judge(&source, "p", std::slice::from_ref(result)).map(|mut all| all.remove(0)).map_err(|e| e.to_string())
}

#[test]
fn claims_give_figures_and_verdicts() {
    let cases = [
        ("kind = \"ratio\"\na = \"fast\"\nb = \"slow\"\nat = { loss = \"1 %\" }\nconfirmed = { min = 1.5 }", 1.5, true),
        ("kind = \"gain\"\na = \"fast\"\nb = \"slow\"\nat = { loss = \"1 %\" }\nconfirmed = { min = 51 }", 50.0, false),
        ("kind = \"more\"\na = \"fast\"\nb = \"slow\"\nat = { loss = \"5 %\" }\nconfirmed = { max = 2 }", 2.0, true),
        ("kind = \"value\"\na = \"slow\"\nat = { loss = \"5 %\" }\nconfirmed = { min = 0.5, max = 1 }", 1.0, true),
        (
            "kind = \"difference\"\na = \"slow\"\nb = \"fast\"\nat = { loss = \"1 %\" }\nconfirmed = { max = 0 }",
            -2.0,
            true,
        ),
        ("kind = \"rank\"\na = \"slow\"\nat = { loss = \"1 %\" }\nconfirmed = { min = 2, max = 2 }", 2.0, true),
        // Over an axis, the worst case decides.
        ("kind = \"ratio\"\na = \"fast\"\nb = \"slow\"\nover = { loss = [] }\nconfirmed = { min = 2 }", 1.5, false),
        ("kind = \"ratio\"\na = \"fast\"\nb = \"slow\"\nover = { loss = [] }\nconfirmed = { max = 2 }", 3.0, false),
        (
            "kind = \"ratio\"\na = \"fast\"\nb = \"slow\"\nover = { loss = [] }\nconfirmed = { max = 2, share = 0.5 }",
            1.5,
            true,
        ),
        ("kind = \"spread\"\na = [\"fast\", \"slow\"]\nover = { loss = [] }\nconfirmed = { max = 2 }", 4.0, false),
        // A strict bound does not accept equality.
        ("kind = \"value\"\na = \"slow\"\nat = { loss = \"5 %\" }\nconfirmed = { above = 1 }", 1.0, false),
        ("kind = \"value\"\na = \"slow\"\nat = { loss = \"5 %\" }\nconfirmed = { below = 1 }", 1.0, false),
        ("kind = \"value\"\na = \"slow\"\nat = { loss = \"5 %\" }\nconfirmed = { above = 0, below = 1.1 }", 1.0, true),
        ("kind = \"largest\"\na = \"fast\"\nover = { loss = [] }\nconfirmed = { min = 5, max = 6 }", 6.0, true),
        ("kind = \"largest\"\na = \"fast\"\nover = { loss = [] }\nconfirmed = { max = 5 }", 6.0, false),
        (
            "kind = \"gain\"\npublished = 40\na = \"fast\"\nb = \"slow\"\nat = { loss = \"1 %\" }\n\
             confirmed = { within = 0.3 }",
            50.0,
            true,
        ),
    ];
    for (claim, measured, confirmed) in cases {
        let judged = judged(claim).unwrap_or_else(|e| panic!("{claim}: {e}"));
        let [ns3, linux] = judged.verdicts.as_slice() else { panic!("{judged:?}") };
        assert!((ns3.measured.unwrap() - measured).abs() < 1e-9, "{claim}: {ns3:?}");
        let expected = if confirmed { ClaimOutcome::Confirmed } else { ClaimOutcome::NotConfirmed };
        assert_eq!(ns3.verdict, expected, "{claim}: {ns3:?}");
        assert_eq!(ns3.interval, None, "it is exact");
        assert_eq!((linux.measured, linux.verdict), (None, ClaimOutcome::NotRun));
    }
}

#[test]
fn claims_are_counted_by_origin() {
    let claim = "kind = \"value\"\na = \"slow\"\nat = { loss = \"5 %\" }";
    let of = |origin: &str, least: u32| judged(&format!("{origin}\n{claim}\nconfirmed = {{ min = {least} }}"));
    let all = [("", 1), ("", 2), ("origin = \"paper\"", 1), ("origin = \"derived\"", 1), ("origin = \"ours\"", 2)];
    let all: Vec<ClaimResult> = all.into_iter().map(|(origin, least)| of(origin, least).unwrap()).collect();
    let origins: Vec<Origin> = all.iter().map(|c| c.origin).collect();
    assert_eq!(origins, [Origin::Paper, Origin::Paper, Origin::Paper, Origin::Derived, Origin::Ours]);
    assert!(serde_json::to_string(&all[4]).unwrap().contains("\"origin\":\"ours\""));
    assert_eq!(
        tally(&all, "ns3"),
        "2 of the paper's 3 tested claims are confirmed, 1 of 1 derived from it, 0 of 1 of ours"
    );
    assert_eq!(tally(&all[4..], "ns3"), "0 of 1 of ours are confirmed");
    assert_eq!(tally(&all[..1], "ns3"), "1 of the paper's 1 tested claim is confirmed");
    assert_eq!(tally(&all, "linux"), "", "nothing was run there");
    assert!(of("origin = \"our\"", 1).unwrap_err().contains("did you mean `ours`?"));
}

#[test]
fn medians_compare_replicas_and_other_experiments() {
    let mut here = result();
    let mut other = result();
    other.experiment = "p/other".into();
    other.metrics[0].name = "goodput".into();
    // Medians 2 and 5; ratios 0.5, 0.4, 0.5; differences -1, -3, -4.2.
    let samples = |r: &mut ExperimentResult, cc: &str, values: [f64; 3]| {
        let cell =
            r.cells.iter_mut().find(|c| c.axes.get("cc") == Some(cc) && c.axes.get("loss") == Some("1 %")).unwrap();
        cell.samples = values.into();
        cell.measured = Some(values.iter().sum::<f64>() / 3.0);
        cell.deterministic = false;
    };
    samples(&mut here, "fast", [1.0, 2.0, 4.2]);
    samples(&mut other, "slow", [2.0, 5.0, 8.4]);
    other.cells.iter_mut().for_each(|c| c.metric = "goodput".into());
    let judged = |statistic: &str, kind: &str, b: &str| {
        let text = format!(
            "{statistic}\n[[claim]]\nid = \"c\"\ntext = \"t\"\nplace = \"p\"\nexperiment = \"e\"\nkind = \"{kind}\"\n\
             a = \"fast\"\n{b}\nat = {{ loss = \"1 %\" }}\nconfirmed = {{ min = 9 }}\n"
        );
        let source = ScenarioText { name: "claims.toml".into(), text, folder: None };
        judge(&source, "p", &[here.clone(), other.clone()]).map(|all| all[0].clone()).map_err(|e| e.to_string())
    };
    let b = "b = \"slow\"\nb_experiment = \"other\"\nb_metric = \"goodput\"";
    let median = "statistic = \"median\"";
    for (statistic, kind, b, measured) in [
        (median, "value", "", 2.0),
        ("", "value", "", 2.4),
        (median, "ratio", b, 0.5),
        ("", "ratio", b, 2.4 / (15.4 / 3.0)),
        (median, "difference", b, -3.0),
    ] {
        let judged = judged(statistic, kind, b).unwrap();
        assert!((judged.verdicts[0].measured.unwrap() - measured).abs() < 1e-9, "{statistic} {kind}: {judged:?}");
        assert_eq!(judged.experiments.len(), if b.is_empty() { 1 } else { 2 });
    }
    let wrong = judged(median, "ratio", "b = \"slow\"\nb_experiment = \"other\"\nb_metric = \"goodptu\"").unwrap_err();
    assert!(wrong.contains("did you mean `goodput`?"), "{wrong}");
}

#[test]
fn ranks_include_all_cells() {
    let rank = |among: &str, narrowed: bool| {
        let claim =
            format!("kind = \"rank\"\na = \"fast\"\nat = {{ loss = \"1 %\" }}\nconfirmed = {{ max = 1 }}\n{among}");
        let mut result = result();
        result.axes[0].narrowed = narrowed;
        judged_by(&claim, &result).unwrap().verdicts[0].verdict
    };
    assert_eq!(rank("", false), ClaimOutcome::Confirmed);
    assert_eq!(rank("", true), ClaimOutcome::NotRun, "a third algorithm was left out");
    assert_eq!(rank("among = [\"fast\", \"slow\"]", true), ClaimOutcome::Confirmed);
    assert_eq!(rank("among = [\"fast\", \"slow\", \"third\"]", true), ClaimOutcome::NotRun);
}

#[test]
fn a_share_over_an_axis_must_be_met_at_each_value_of_the_others() {
    // 6 and 3 of `fast`, 4 and 1 of `slow`, at 1 and 5 %.
    let outcome = |least: u32, more: &str| {
        let claim = "kind = \"value\"\na = [\"fast\", \"slow\"]\nover = { loss = [] }";
        let judged = judged(&format!("{claim}\nconfirmed = {{ min = {least}, share = 0.5 }}\n{more}"));
        judged.map(|mut c| c.verdicts.remove(0).verdict)
    };
    let over = "share_over = \"loss\"";
    assert_eq!(outcome(3, "").unwrap(), ClaimOutcome::Confirmed, "three of four");
    assert_eq!(outcome(3, over).unwrap(), ClaimOutcome::Confirmed, "two and one of two");
    assert_eq!(outcome(5, over).unwrap(), ClaimOutcome::NotConfirmed, "one and none of two");
    assert!(outcome(5, "share_over = \"cc\"").unwrap_err().contains("`over` does not have"));
    let whole = "kind = \"value\"\na = \"fast\"\nover = { loss = [] }\nconfirmed = { min = 1 }\nshare_over = \"loss\"";
    assert!(judged(whole).unwrap_err().contains("`share_over` needs a `share`"));
}

#[test]
fn near_ties_make_a_rank_a_range() {
    let rank = |margin: &str| {
        let claim =
            format!("kind = \"rank\"\na = \"slow\"\nat = {{ loss = \"1 %\" }}\nconfirmed = {{ max = 1 }}\n{margin}");
        judged(&claim).map(|mut c| c.verdicts.remove(0))
    };
    let of = |v: Verdict| (v.verdict, v.measured, v.interval);
    assert_eq!(of(rank("").unwrap()), (ClaimOutcome::NotConfirmed, Some(2.0), None));
    assert_eq!(
        of(rank("margin = 0.49").unwrap()),
        (ClaimOutcome::NotConfirmed, Some(2.0), None),
        "6 and 4 differ by half"
    );
    let tie = rank("margin = 0.5").unwrap();
    assert_eq!(tie.reason, "The intervals of the differences and near ties allow the ranks 1 to 2");
    assert_eq!(of(tie), (ClaimOutcome::Undecided, Some(2.0), Some([1.0, 2.0])));
    assert!(rank("margin = 1").unwrap_err().contains("`margin` needs"));
}

#[test]
fn totals_weigh_runs_without_events() {
    let mut result = result();
    result.metrics.push(MetricResult { name: "timeouts".into(), ..Default::default() });
    // Recoveries 40 and 60, time-outs 2 and 6 in four runs, so 20 and 10 recoveries per time-out.
    let samples = [[8.0, 9.0, 11.0, 12.0], [14.0, 15.0, 15.0, 16.0], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 2.0, 2.0]];
    let cells = [("fast", "throughput_mbps"), ("slow", "throughput_mbps"), ("fast", "timeouts"), ("slow", "timeouts")];
    result.cells.truncate(2);
    for (i, (cc, metric)) in cells.into_iter().enumerate() {
        let mut cell = result.cells[i % 2].clone();
        cell.axes = cell.axes.with("cc", cc);
        (cell.metric, cell.samples, cell.replicas) = (metric.into(), samples[i].into(), 4);
        (cell.deterministic, cell.measured) = (false, Some(1.0));
        if i < 2 { result.cells[i] = cell } else { result.cells.push(cell) }
    }
    let claim =
        "kind = \"ratio\"\nb = \"slow\"\nper = \"timeouts\"\nat = { loss = \"1 %\" }\nconfirmed = { min = 1.5 }";
    let judged = verdict("", claim, &result);
    assert!((judged.measured.unwrap() - 2.0).abs() < 1e-9, "{judged:?}");
    let [from, to] = judged.interval.unwrap();
    assert!(from > 0.0 && from < 1.5 && to > 2.0, "{judged:?}");
    assert_eq!(judged.verdict, ClaimOutcome::Undecided);
    assert_eq!(judged.evidence, "FAST 10 / 0.500, SLOW 15 / 1.50");
    result.cells[2].samples = vec![0.0; 4];
    let none = verdict("", claim, &result);
    assert_eq!((none.measured, none.reason.as_str()), (None, "A total over all runs is zero"));
    for cell in &mut result.cells {
        (cell.deterministic, cell.samples) = (true, vec![2.0]);
    }
    assert_eq!(verdict("", claim, &result).verdict, ClaimOutcome::NotConfirmed, "1 is exact");
}

/// Returns the result with these values of `fast` and `slow` at 1 %, from random runs.
fn random(fast: &[f64], slow: &[f64]) -> ExperimentResult {
    let mut result = result();
    for (i, samples) in [(0, fast), (1, slow)] {
        let s = summary(samples).unwrap();
        let cell = &mut result.cells[i];
        cell.deterministic = false;
        cell.samples = samples.into();
        (cell.measured, cell.ci95) = (Some(s.mean), s.ci95);
    }
    result
}

fn verdict(head: &str, claim: &str, result: &ExperimentResult) -> Verdict {
    let text = format!(
        "{head}\n[[claim]]\nid = \"c\"\ntext = \"t\"\nplace = \"p\"\nexperiment = \"e\"\na = \"fast\"\n\
         reason.ns3 = \"why\"\n{claim}\n"
    );
    let source = ScenarioText { name: "claims.toml".into(), text, folder: None };
    judge(&source, "p", std::slice::from_ref(result)).unwrap_or_else(|e| panic!("{e}")).remove(0).verdicts.remove(0)
}

#[test]
fn interval_decides_instead_of_the_mean() {
    let (value, gain) = ("kind = \"value\"", "kind = \"gain\"\nb = \"slow\"");
    let (rank, median) = ("kind = \"rank\"", "statistic = \"median\"");
    let near: &[f64] = &[9.0, 10.0, 11.0]; // 10 +- 2.5
    let wide: &[f64] = &[1.0, 10.0, 19.0];
    let low: &[f64] = &[4.9, 5.0, 5.1];
    let six: &[f64] = &[1.0, 5.0, 5.0, 5.0, 5.0, 6.0];
    let (yes, no, open) = (ClaimOutcome::Confirmed, ClaimOutcome::NotConfirmed, ClaimOutcome::Undecided);
    let cases = [
        ("", value, "min = 7", near, low, yes),
        ("", value, "min = 8", near, low, open),
        ("", value, "min = 12", near, low, open),
        ("", value, "min = 13", near, low, no),
        ("", value, "min = 0, max = 12", near, low, open),
        ("", gain, "min = 20", near, low, yes),
        ("", gain, "min = 20", wide, low, open), // 100 +- 447 %
        ("", gain, "max = 20", near, low, no),
        // A single run of a random scenario decides nothing.
        ("", value, "min = 1", &[10.0], low, open),
        ("", value, "min = 20", &[10.0], low, open),
        ("", gain, "min = 20", &[10.0], &[5.0], open),
        ("", rank, "max = 1", &[10.0], &[5.0], open),
        ("", rank, "max = 1", near, low, yes),
        ("", rank, "max = 1", low, near, no),
        ("", rank, "max = 1", wide, low, open),
        ("", rank, "max = 2", wide, low, yes),
        // A median has an interval if there are at least six values; it need not be symmetric.
        (median, value, "min = 4", &[5.0, 5.0, 5.0, 5.0, 5.0], low, open),
        (median, value, "min = 4", six, low, open),
        (median, value, "min = 1, max = 6", six, low, yes),
        (median, value, "min = 7", six, low, no),
    ];
    for (head, kind, bounds, fast, slow, expected) in cases {
        let claim = format!("{kind}\nat = {{ loss = \"1 %\" }}\nconfirmed = {{ {bounds} }}");
        let judged = verdict(head, &claim, &random(fast, slow));
        assert_eq!(judged.verdict, expected, "{head} {claim} {fast:?} {slow:?}: {judged:?}");
        // A miss shows the figure, the bound and the reason from the claims file.
        match expected {
            ClaimOutcome::Confirmed => assert_eq!(judged.reason, ""),
            ClaimOutcome::NotConfirmed => assert!(judged.reason.ends_with(". why") && judged.reason.contains(", not ")),
            _ => assert!(!judged.reason.contains("why") && judged.reason.contains("interval"), "{judged:?}"),
        }
    }
    // A spread lies between the largest certain and the largest possible ratio of two cells.
    let spread = |bounds: &str, one: &[f64], five: &[f64]| {
        let mut result = random(one, &[1.0]);
        result.cells[2] = Cell { axes: result.cells[2].axes.clone(), ..random(five, &[1.0]).cells.remove(0) };
        let claim = format!("kind = \"spread\"\nover = {{ loss = [] }}\nconfirmed = {{ {bounds} }}");
        verdict("", &claim, &result).verdict
    };
    let tight: &[f64] = &[9.9, 10.0, 10.1];
    assert_eq!(spread("max = 2.2", tight, low), yes);
    assert_eq!(spread("max = 2", tight, low), open);
    assert_eq!(spread("max = 1.5", tight, low), no);
    assert_eq!(spread("max = 2.2", wide, low), open);
}

#[test]
fn largest_of_several_has_lower_and_upper_bounds() {
    let judged = |bounds: &str, one: &[f64], five: &[f64]| {
        let mut result = random(one, &[1.0]);
        result.cells[2] = Cell { axes: result.cells[2].axes.clone(), ..random(five, &[1.0]).cells.remove(0) };
        let claim = format!("kind = \"largest\"\nover = {{ loss = [] }}\nconfirmed = {{ {bounds} }}");
        verdict("", &claim, &result)
    };
    let (near, low): (&[f64], &[f64]) = (&[9.0, 10.0, 11.0], &[4.9, 5.0, 5.1]); // 10 +- 2.5 and 5 +- 0.25
    let shown = judged("min = 7", low, near);
    assert_eq!(
        (shown.measured, shown.verdict, shown.evidence.as_str()),
        (Some(10.0), ClaimOutcome::Confirmed, "at 5 %")
    );
    assert_eq!(judged("min = 7, max = 12", near, low).verdict, ClaimOutcome::Undecided);
    assert_eq!(judged("max = 7", near, low).verdict, ClaimOutcome::NotConfirmed);
    assert_eq!(judged("min = 7", near, &[5.0]).verdict, ClaimOutcome::Undecided, "a single run has no interval");
}

#[test]
fn criterion_prints_its_bounds_with_enough_digits() {
    let words = |published: &str, bounds: &str| {
        judged(&format!(
            "kind = \"value\"\na = \"slow\"\n{published}\nat = {{ loss = \"5 %\" }}\nconfirmed = {{ {bounds} }}"
        ))
        .unwrap()
        .criterion
    };
    assert_eq!(
        words("published = 12.2871", "within = 0.001"),
        "within 0.1 % of the published figure: 12.275 to 12.299"
    );
    assert_eq!(words("published = 42", "within = 0.1"), "within 10 % of the published figure: 37.8 to 46.2");
    assert_eq!(words("", "above = 0"), "above 0");
    assert_eq!(words("", "min = 1, below = 2"), "at least 1 and below 2");
    assert_eq!(words("", "min = 1, max = 2"), "from 1 to 2");
}

#[test]
fn several_figures_are_confirmed_if_all_are() {
    let judged = |bounds: &str, fast: &[f64]| {
        let claim = format!("kind = \"value\"\nover = {{ loss = [] }}\nconfirmed = {{ {bounds} }}");
        verdict("", &claim, &random(fast, &[1.0])).verdict
    };
    // At 5 % it is exactly 3.
    let near: &[f64] = &[9.0, 10.0, 11.0];
    assert_eq!(judged("min = 3", near), ClaimOutcome::Confirmed);
    assert_eq!(judged("min = 3, max = 11", near), ClaimOutcome::Undecided);
    assert_eq!(judged("min = 4, max = 11", near), ClaimOutcome::NotConfirmed, "one miss is enough");
    assert_eq!(judged("min = 4, max = 11, share = 0.5", near), ClaimOutcome::Undecided);
    assert_eq!(judged("min = 4, share = 0.5", near), ClaimOutcome::Confirmed);
}

#[test]
fn reasons_name_the_figures_of_the_run() {
    let judged = |reason: &str, bounds: &str| {
        let claim = format!(
            "kind = \"gain\"\npublished = 40\na = \"fast\"\nb = \"slow\"\nover = {{ loss = [] }}\n\
             confirmed = {{ {bounds} }}\nreason = {{ ns3 = \"{reason}\" }}"
        );
        self::judged(&claim).map(|mut c| c.verdicts.remove(0).reason)
    };
    let full = "{measured} ({range}) for {published}, {criterion}, with { x = 1 }";
    assert_eq!(judged(full, "min = 60").unwrap(), "50 % (50 to 200 %) for 40 %, at least 60, with { x = 1 }");
    assert_eq!(judged("It is so.", "min = 60").unwrap(), "50 %, not at least 60. It is so.");
    assert_eq!(judged("It is so.", "min = 50").unwrap(), "");
    let error = judged("{measurd}", "min = 50").unwrap_err();
    assert!(error.contains("did you mean `measured`?"), "{error}");
}

#[test]
fn deciding_figure_comes_first() {
    let claim = "kind = \"ratio\"\na = \"fast\"\nb = \"slow\"\nover = { loss = [] }\nconfirmed = { max = 2 }";
    let judged = judged(claim).unwrap();
    assert!(judged.verdicts[0].evidence.starts_with("5 %: 3 (FAST 3, SLOW 1); 1 %: 1.50"), "{judged:?}");
    assert_eq!(judged.criterion, "at most 2");
}

#[test]
fn errors_in_claims_are_explained() {
    let cases = [
        ("kind = \"ratoi\"\na = \"fast\"\nconfirmed = { min = 1 }", "did you mean `ratio`?"),
        ("kind = \"ratio\"\na = \"fast\"\nconfirmed = { min = 1 }", "missing key `b`"),
        ("kind = \"value\"\na = \"fast\"\nat = { los = \"1 %\" }\nconfirmed = { min = 1 }", "did you mean `loss`?"),
        (
            "kind = \"value\"\na = \"fast\"\nmetric = \"throughput\"\nconfirmed = { min = 1 }",
            "unknown metric `throughput`",
        ),
        ("kind = \"value\"\na = \"fast\"\nconfirm = {}", "did you mean `confirmed`?"),
    ];
    for (claim, expected) in cases {
        let error = judged(claim).expect_err(claim);
        assert!(error.contains(expected), "{claim}:\n{error}");
    }
}

#[test]
fn criterion_must_be_able_to_fail_and_to_be_met() {
    for (bounds, expected) in [
        ("", "has no bound"),
        ("share = 0.5", "has no bound"),
        ("min = nan", "not finite"),
        ("max = inf", "not finite"),
        ("within = 0.1", "needs a published figure"),
        ("min = 2, max = 1", "no figure meets"),
        ("above = 1, below = 1", "no figure meets"),
        ("min = 1, above = 1", "two bounds on the same side"),
        ("min = 1, share = 0", "`share` must be above 0"),
        ("min = 1, share = 1.5", "`share` must be above 0"),
    ] {
        let error = judged(&format!("kind = \"value\"\na = \"fast\"\nconfirmed = {{ {bounds} }}")).expect_err(bounds);
        assert!(error.contains(expected) && error.contains("claims.toml"), "{bounds}:\n{error}");
    }
    let published = judged("kind = \"value\"\na = \"fast\"\npublished = 40\nconfirmed = { within = -0.1 }");
    assert!(published.unwrap_err().contains("no figure meets"));
}

#[test]
fn equality_refutes_a_strict_bound() {
    let judged = |bounds: &str| {
        let judged =
            judged(&format!("kind = \"value\"\na = \"fast\"\nat = {{ loss = \"1 %\" }}\nconfirmed = {{ {bounds} }}"));
        let judged = judged.unwrap();
        (judged.verdicts[0].verdict, judged.criterion)
    };
    assert_eq!(judged("max = 6"), (ClaimOutcome::Confirmed, "at most 6".into()));
    assert_eq!(judged("below = 6"), (ClaimOutcome::NotConfirmed, "below 6".into()));
    assert_eq!(judged("above = 6"), (ClaimOutcome::NotConfirmed, "above 6".into()));
    assert_eq!(judged("above = 5, max = 6"), (ClaimOutcome::Confirmed, "above 5 and at most 6".into()));
}

/// Returns the result with a random cell: `samples` of some runs, and lower bounds `at_least` of the others.
fn with_cell(
    mut result: ExperimentResult,
    cc: &str,
    loss: &str,
    samples: &[f64],
    at_least: &[f64],
) -> ExperimentResult {
    let cell =
        result.cells.iter_mut().find(|c| c.axes.get("cc") == Some(cc) && c.axes.get("loss") == Some(loss)).unwrap();
    cell.deterministic = false;
    cell.samples = samples.into();
    cell.at_least = at_least.into();
    cell.measured = summary(samples).map(|s| s.mean).filter(|_| at_least.is_empty());
    cell.replicas = 6;
    result
}

#[test]
fn combinations_that_ran_are_never_left_out() {
    let claim = |kind: &str, bound: &str| {
        format!("kind = \"{kind}\"\nb = \"slow\"\nover = {{ loss = [] }}\nconfirmed = {{ {bound} }}")
    };
    for head in ["", "statistic = \"median\""] {
        // Neither algorithm has a value at 5 %. The values at 1 % alone do not confirm a claim about every loss.
        let neither = with_cell(result(), "fast", "5 %", &[], &[18.0; 6]);
        let neither = with_cell(neither, "slow", "5 %", &[], &[18.0; 6]);
        for kind in ["ratio", "difference"] {
            let judged = verdict(head, &claim(kind, "min = 1"), &neither);
            assert_eq!(judged.verdict, ClaimOutcome::Undecided, "{head} {kind}: {judged:?}");
            assert_eq!(judged.measured, None, "{judged:?}");
            assert_eq!(judged.reason, "The figure has no known bound");
            let first = judged.evidence.split("; ").next().unwrap();
            assert_eq!(first, "5 %: without a known bound (FAST > 18, SLOW > 18)");
        }
        let none = with_cell(result(), "fast", "5 %", &[], &[]);
        for kind in ["value", "ratio", "difference", "rank"] {
            let judged = verdict(head, &claim(kind, "min = 0"), &none);
            assert_eq!(judged.verdict, ClaimOutcome::Undecided, "{head} {kind}: {judged:?}");
            assert!(
                judged.evidence.starts_with("5 %: no value") && judged.evidence.contains("FAST no value"),
                "{judged:?}"
            );
        }
        let judged = verdict(head, &claim("spread", "max = 9"), &none);
        assert_eq!((judged.verdict, judged.measured), (ClaimOutcome::Undecided, None), "{judged:?}");
    }
    // 3 divided by exactly zero is infinite, which decides the claim.
    let mut zero = result();
    zero.cells[3].samples = vec![0.0; 2];
    zero.cells[3].measured = Some(0.0);
    for head in ["", "statistic = \"median\""] {
        let judged = |bound: &str| verdict(head, &claim("ratio", bound), &zero);
        assert_eq!(judged("max = 100").verdict, ClaimOutcome::NotConfirmed, "{:?}", judged("max = 100"));
        assert!(judged("max = 100").evidence.starts_with("5 %: infinite (FAST 3, SLOW 0)"));
        assert_eq!(judged("min = 1.5").verdict, ClaimOutcome::Confirmed);
    }
    let random = with_cell(zero, "slow", "5 %", &[0.0; 6], &[]);
    let judged = verdict("", &claim("ratio", "max = 100"), &random);
    assert_eq!(judged.verdict, ClaimOutcome::Undecided, "{judged:?}");
    assert!(judged.reason.contains("a mean of zero"), "{judged:?}");
}

#[test]
fn bounds_of_both_algorithms_are_marked() {
    let at = "at = { loss = \"1 %\" }";
    let judged = |head: &str, kind: &str, bound: &str, result: &ExperimentResult| {
        verdict(head, &format!("kind = \"{kind}\"\nb = \"slow\"\n{at}\nconfirmed = {{ {bound} }}"), result)
    };
    for head in ["", "statistic = \"median\""] {
        let fast = with_cell(result(), "fast", "1 %", &[], &[18.0; 6]);
        let v = judged(head, "ratio", "min = 4", &fast);
        assert_eq!(
            (v.verdict, v.measured, v.lower_bound, v.upper_bound),
            (ClaimOutcome::Confirmed, Some(4.5), true, false)
        );
        let slow = with_cell(result(), "slow", "1 %", &[], &[18.0; 6]);
        let v = judged(head, "ratio", "max = 0.4", &slow);
        assert_eq!(v.verdict, ClaimOutcome::Confirmed, "{v:?}");
        assert_eq!((v.lower_bound, v.upper_bound), (false, true), "{v:?}");
        assert!((v.measured.unwrap() - 1.0 / 3.0).abs() < 1e-9, "{v:?}");
        let v = judged(head, "difference", "min = 0", &slow);
        assert_eq!((v.verdict, v.measured, v.upper_bound), (ClaimOutcome::NotConfirmed, Some(-12.0), true));
        assert!(v.reason.starts_with("< -12 Mbit/s, not at least 0"), "{v:?}");
    }
    // A spread is a lower bound if one of its values is.
    let fast = with_cell(result(), "fast", "1 %", &[], &[18.0; 6]);
    let v = verdict("", "kind = \"spread\"\nover = { loss = [] }\nconfirmed = { min = 5 }", &fast);
    assert_eq!((v.verdict, v.measured, v.lower_bound), (ClaimOutcome::Confirmed, Some(6.0), true));
    assert_eq!(v.evidence, "3 to > 18");
    // The median depends only on the values in the middle.
    let most = with_cell(result(), "fast", "1 %", &[4.0, 5.0, 6.0, 7.0], &[8.0, 9.0]);
    let v = judged("statistic = \"median\"", "value", "min = 4", &most);
    assert_eq!((v.verdict, v.measured, v.lower_bound), (ClaimOutcome::Confirmed, Some(6.5), false), "{v:?}");
    // A rank among cells with only lower bounds is a range.
    let slow = with_cell(result(), "slow", "1 %", &[], &[5.0; 6]);
    let v = judged("", "rank", "max = 1", &slow);
    assert_eq!((v.verdict, v.measured, v.interval), (ClaimOutcome::Undecided, Some(1.0), None), "{v:?}");
}

#[test]
fn replicas_are_paired_by_their_number() {
    // Replica 0 of `fast` and replica 5 of `slow` have no value.
    let mut result = with_cell(result(), "fast", "1 %", &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &[]);
    result = with_cell(result, "slow", "1 %", &[1.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[]);
    result.cells[0].numbers = vec![1, 2, 3, 4, 5, 6];
    result.cells[1].numbers = vec![0, 1, 2, 3, 4, 6];
    let claim = "kind = \"difference\"\nb = \"slow\"\nat = { loss = \"1 %\" }\nconfirmed = { min = 0 }";
    let judged = verdict("statistic = \"median\"", claim, &result);
    // 2 - 1, 3 - 2, 4 - 3, 5 - 4 and 7 - 5: five differences have no interval.
    assert_eq!((judged.measured, judged.verdict), (Some(1.0), ClaimOutcome::Undecided), "{judged:?}");
}

/// Equal values of random runs have no interval of zero width.
#[test]
fn equal_values_of_random_runs_decide_by_the_sign_test() {
    let judged = |kind: &str, bound: &str, fast: &[f64], slow: &[f64]| {
        let claim = format!("kind = \"{kind}\"\nb = \"slow\"\nat = {{ loss = \"1 %\" }}\nconfirmed = {{ {bound} }}");
        verdict("", &claim, &random(fast, slow))
    };
    let low: &[f64] = &[0.9, 1.0, 1.1];
    for kind in ["value", "ratio", "difference"] {
        let few = judged(kind, "min = 1", &[3.0; 5], low);
        assert_eq!(few.verdict, ClaimOutcome::Undecided, "{kind}: {few:?}");
        assert!(few.reason.starts_with("Fewer than six random runs with equal values"), "{few:?}");
        assert_eq!(judged(kind, "min = 1", &[3.0; 6], low).verdict, ClaimOutcome::Confirmed, "{kind}");
        assert_eq!(judged(kind, "above = 3", &[3.0; 6], &[1.0; 6]).verdict, ClaimOutcome::NotConfirmed, "{kind}");
    }
    assert_eq!(judged("rank", "max = 1", &[3.0; 5], &[1.0; 5]).verdict, ClaimOutcome::Undecided);
    assert_eq!(judged("rank", "max = 1", &[3.0; 6], &[1.0; 6]).verdict, ClaimOutcome::Confirmed);
    // A single run of an exact cell is enough.
    let mut exact = random(&[3.0], low);
    exact.cells[0].deterministic = true;
    let claim = "kind = \"difference\"\nb = \"slow\"\nat = { loss = \"1 %\" }\nconfirmed = { min = 1 }";
    assert_eq!(verdict("", claim, &exact).verdict, ClaimOutcome::Confirmed);
}
