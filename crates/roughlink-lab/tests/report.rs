//! The content of reports; each is one self-contained file.

mod sample;

use roughlink_lab::drawing::Plain;
use roughlink_lab::experiment::result::{
    AxisResult, AxisValue, Cell, ExperimentResult, Figure, FigureKind, MetricResult, ReportInput,
};
use roughlink_lab::folder::grid;
use roughlink_lab::report::index::{self, PaperEntry};
use roughlink_lab::report::{csv, render, verdict, write};
use roughlink_lab::store::RESULTS;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const LIBRARY: &str = "<script type=\"application/gzip\" id=\"library\">";

/// Returns the page without the chart library, its largest part.
fn page(html: &str) -> &str {
    html.split(LIBRARY).next().unwrap()
}

#[test]
fn a_cell_without_a_value_of_an_axis_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let read = |input: &ReportInput| {
        std::fs::write(folder.path().join(RESULTS), serde_json::to_string(input).unwrap()).unwrap();
        grid(folder.path()).map(drop).map_err(|e| Plain::new(&e, None).to_string())
    };
    let mut input = sample::paper();
    assert_eq!(read(&input), Ok(()));
    let varied = input.experiments.iter_mut().find(|e| !e.axes.is_empty()).unwrap();
    let axis = varied.axes[0].name.clone();
    varied.cells[0].axes = varied.cells[0].axes.without(&axis);
    let error = read(&input).unwrap_err();
    assert!(error.ends_with(&format!("a cell has no value of `{axis}`")), "{error}");
}

/// Returns a sweep over two numeric axes with a cell for each combination.
fn sweep(of: [usize; 2]) -> ExperimentResult {
    let value = |i: usize| AxisValue { value: i.to_string(), label: i.to_string(), number: Some(i as f64) };
    let axis = |(name, n): (&str, usize)| AxisResult {
        name: name.into(),
        label: name.into(),
        values: (0..n).map(value).collect(),
        ..AxisResult::default()
    };
    let cell = |i: usize| Cell {
        axes: [("a", (i / of[1]).to_string()), ("b", (i % of[1]).to_string())].into(),
        metric: "throughput_mbps".into(),
        measured: Some(i as f64),
        samples: vec![i as f64],
        replicas: 1,
        ..Cell::default()
    };
    ExperimentResult {
        title: "Sweep".into(),
        stacks: vec![String::new()],
        axes: [("a", of[0]), ("b", of[1])].map(axis).into(),
        metrics: vec![MetricResult { name: "throughput_mbps".into(), ..MetricResult::default() }],
        cells: (0..of[0] * of[1]).map(cell).collect(),
        ..ExperimentResult::default()
    }
}

#[test]
fn report_of_a_huge_sweep_shows_a_part_and_says_so() {
    let of = |experiment| render(&ReportInput { experiments: vec![experiment], ..ReportInput::default() });
    let rows = |html: &str| page(html).split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap().to_owned();
    let html = of(sweep([300, 100]));
    let shown = rows(&html).matches("<tr>").count();
    assert!((1000..=10_000).contains(&shown), "{shown}");
    assert!(page(&html).contains(&format!("This report shows {shown} of 30000 cells")));
    let whole = of(sweep([100, 60]));
    assert!(page(&whole).contains("10 more series are in the table only."));
    assert_eq!(rows(&whole).matches("<tr>").count(), 6000);
    assert!(!page(&whole).contains("This report shows"));
}

#[test]
fn results_above_the_limit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join(RESULTS)).unwrap();
    file.set_len(2_000_000_001).unwrap();
    let error = Plain::new(&grid(folder.path()).unwrap_err(), None).to_string();
    assert!(error.contains("it has more than 2000000000 bytes"), "{error}");
}

#[test]
fn every_experiment_and_every_cell_appears() {
    let input = sample::paper();
    let html = render(&input);
    let page = page(&html);
    for experiment in &input.experiments {
        assert!(page.contains(&experiment.title), "no heading of {}", experiment.experiment);
        assert!(page.contains(&experiment.command), "no command of {}", experiment.experiment);
        let id = experiment.experiment.replace('/', "-");
        let section = page.split(&format!("<section id=\"{id}\">")).nth(1).expect("no section");
        let section = section.split("</section>").next().unwrap();
        assert!(section.contains("class=\"chart\""), "no chart of {id}");
        let table = section.split("<tbody>").nth(1).map(|t| t.split("</tbody>").next().unwrap());
        let stacks = experiment.stacks.len().max(1);
        assert_eq!(table.map_or(0, |t| t.matches("<tr>").count()) * stacks, experiment.cells.len(), "rows of {id}");
        for cell in &experiment.cells {
            // Four digits, as the table shows them; the chart and the CSV have more.
            let shown = cell.measured.unwrap();
            let places = if shown >= 1000.0 {
                0
            } else if shown >= 100.0 {
                1
            } else if shown >= 10.0 {
                2
            } else {
                3
            };
            assert!(table.unwrap().contains(&format!("{shown:.places$}")), "{id} lacks {shown}");
            for value in cell.axes.values() {
                let axis = experiment.axes.iter().flat_map(|a| &a.values).find(|v| v.value == *value).unwrap();
                assert!(table.unwrap().contains(&axis.label));
            }
        }
        for curve in &experiment.curves {
            assert!(section.contains(&format!("\"name\":\"{}\"", curve.label)), "{id} lacks {}", curve.label);
        }
    }
    for claim in &input.claims {
        assert!(page.contains(&claim.text));
    }
    for (label, value) in &input.facts {
        assert!(page.contains(&format!("<dt>{label}</dt><dd>{value}</dd>")));
    }
    assert!(
        page.contains("and 2 of 2 claims of the paper are confirmed; on linux, "),
        "the verdict counts the paper's claims that were tested"
    );
    assert!(page.contains("ns3 stack: 2 of the paper&#39;s 2 tested claims are confirmed, 0 of 1 of ours."));
}

#[test]
fn data_in_the_page_equals_the_csv() {
    let input = sample::own();
    let html = render(&input);
    let text = html.split("<template id=\"csv-sweep-cells\">").nth(1).unwrap().split("</template>").next().unwrap();
    let text = ["&lt;<", "&gt;>", "&quot;\"", "&#39;'", "&amp;&"]
        .iter()
        .fold(text.to_string(), |t, pair| t.replace(&pair[..pair.len() - 1], &pair[pair.len() - 1..]));
    assert_eq!(text, csv::cells(&input.experiments[0]));
    assert_eq!(text.lines().count(), 1 + input.experiments[0].cells.len());
}

#[test]
fn names_that_are_markup_stay_text() {
    let html = render(&sample::own());
    assert!(!html.contains("<script>document"));
    assert!(html.contains("&lt;script&gt;document.title=&#39;broken&#39;"));
    let (open, closed) = (html.matches("<script").count(), html.matches("</script>").count());
    assert!(open >= closed, "an element was closed early: {open} opened, {closed} closed");
    assert!(html.ends_with("</script>\n</body>\n</html>\n"));
}

#[test]
fn the_same_input_gives_the_same_file() {
    assert!(render(&sample::paper()) == render(&sample::paper()));
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("same.html");
    write(&path, &sample::own()).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap() == render(&sample::own()));
}

#[test]
fn report_is_one_file_of_reasonable_size() {
    let html = render(&sample::paper());
    assert!(html.len() < 1_400_000, "{} bytes", html.len());
    assert_eq!(html.matches(LIBRARY).count(), 1);
    assert!(!html.contains("<script src") && !html.contains("<link") && !html.contains("@import"));
    assert!(html.contains("default-src 'none'"));
}

/// Each row of the table in `vendor/README.md` has the name and the hash of a published file.
#[test]
fn vendored_files_match_their_published_hashes() {
    let vendor = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor");
    let readme = std::fs::read_to_string(vendor.join("README.md")).unwrap();
    let rows: Vec<Vec<&str>> =
        readme.lines().filter(|l| l.starts_with("| `")).map(|l| l.split('|').map(str::trim).collect()).collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let (file, hash) = (row[1].trim_matches('`'), row[5].trim_matches('`'));
        let found = Sha256::digest(std::fs::read(vendor.join(file)).unwrap());
        let found: String = found.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(found, hash, "{file} is not what was published");
    }
}

#[test]
fn empty_input_gives_a_report() {
    let html = render(&Default::default());
    assert!(html.contains("<h1>roughlink report</h1>"));
}

fn in_order(page: &str, texts: &[&str]) {
    let places: Vec<usize> = texts.iter().map(|t| page.find(t).unwrap_or_else(|| panic!("no {t}"))).collect();
    assert!(places.is_sorted(), "{texts:?} at {places:?}");
}

#[test]
fn answer_of_a_paper_comes_first() {
    let input = sample::paper();
    let html = render(&input);
    let page = page(&html);
    in_order(
        page,
        &[
            "<h1>",
            "published values are reproduced within a factor of 1.5",
            "which no reader should take home.",
            "id=\"chart-picture-1\"",
            "<h2>What to use on Linux</h2>",
            "Whatever is at hand.",
            "<details class=\"claim\">",
            "<h2>The paper and this run</h2>",
            "nothing here was simulated",
            "<section id=\"v2g-table2\">",
        ],
    );
    // Each claim has one line and is folded.
    assert_eq!(page.matches("<details class=\"claim\"><summary>").count(), input.claims.len());
    assert!(page.contains(
        "<span class=\"verdict yes\">ns3: confirmed</span><span class=\"verdict no\">linux: not confirmed</span>"
    ));
    assert!(page.contains("<span class=\"verdict unknown\">not run</span>"));
    // The picture shows the experiment that the paper selects.
    let at = |id: &str| {
        let text = html.split(&format!("id=\"spec-{id}\">")).nth(1).unwrap().split("</script>").next().unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    };
    assert_eq!(at("picture-1"), at("v2g-fig4-1-1"));

    // A user's own grid has no such screen.
    let own = render(&sample::own());
    assert!(!own.contains("class=\"picture\"") && !own.contains("What to use on Linux"));
    in_order(&own, &["A &amp; B &lt; C", "<section id=\"sweep\">"]);
}

#[test]
fn recommendation_for_linux_follows_from_the_cells() {
    let mut input = sample::paper();
    input.experiments.retain(|e| e.experiment == "v2g/fig4");
    let set = |input: &mut ReportInput, cc: &str, samples: [f64; 3]| {
        let cells = input.experiments[0].cells.iter_mut();
        for cell in
            cells.filter(|c| c.stack == "linux" && c.axes.get("loss") == Some("5 %") && c.axes.get("cc") == Some(cc))
        {
            cell.samples = samples.into();
            cell.measured = Some(samples.iter().sum::<f64>() / 3.0);
            cell.ci95 = Some(0.25);
        }
    };
    set(&mut input, "veno", [50.0, 50.1, 49.9]);
    set(&mut input, "bic", [49.9, 50.1, 49.8]);
    set(&mut input, "westwood-classic", [70.0, 70.1, 69.9]);
    let row = |input: &ReportInput| {
        let html = render(input);
        let rows = html.split("class=\"choices\"").nth(1).unwrap().split("</ul>").next().unwrap();
        assert_eq!(rows.matches("<li>").count(), 8, "one for each loss rate");
        rows.split("<li>").last().unwrap().trim().to_owned()
    };
    assert_eq!(
        row(&input),
        "<span class=\"at\">5 %</span> <b>Veno</b> 50.00 ± 0.25 Mbit/s <span class=\"note\">\
         BIC not told apart; better, but not in Linux: Westwood 70.00 ± 0.25 Mbit/s</span></li>"
    );
    let linux = input.summary.as_mut().unwrap().linux.as_mut().unwrap();
    linux.shipped.clear();
    assert!(row(&input).contains("<b>Westwood</b>"), "all are candidates");
    input.summary.as_mut().unwrap().linux.as_mut().unwrap().lowest = true;
    assert!(!row(&input).contains("Westwood") && !row(&input).contains("<b>Veno"));

    input.experiments[0].cells.retain(|c| c.stack == "ns3");
    assert!(!render(&input).contains("What to use on Linux"), "it was not run there");
}

#[test]
fn stacks_that_did_not_run_have_no_column() {
    let mut input = sample::paper();
    for experiment in &mut input.experiments {
        experiment.stacks.push("rfc".into());
    }
    let html = render(&input);
    assert!(!page(&html).contains("rfc"));
}

/// Returns results in which one value of the axis ran on another stack.
fn mixed() -> ExperimentResult {
    let values = [("tcp", "TCP"), ("cubic", "CUBIC (linux)")];
    let value = |(value, label): (&str, &str)| AxisValue { value: value.into(), label: label.into(), number: None };
    let cell = |(name, _): (&str, &str)| Cell {
        stack: "ns2".into(),
        ran_on: if name == "cubic" { "linux".into() } else { String::new() },
        axes: [("variant".to_owned(), name.to_owned())].into(),
        metric: "covered_mb".into(),
        measured: Some(7.5),
        replicas: 1,
        samples: vec![7.5],
        ..Cell::default()
    };
    ExperimentResult {
        experiment: "avoca/others".into(),
        stacks: vec!["ns2".into()],
        axes: vec![AxisResult {
            name: "variant".into(),
            label: "Variant".into(),
            values: values.map(value).into(),
            ..AxisResult::default()
        }],
        metrics: vec![MetricResult { name: "covered_mb".into(), ..MetricResult::default() }],
        figure: Figure { kind: FigureKind::Bar, x: "variant".into(), ..Figure::default() },
        cells: values.map(cell).into(),
        ..ExperimentResult::default()
    }
}

#[test]
fn values_of_another_stack_are_labeled() {
    let html = render(&ReportInput { experiments: vec![mixed()], ..ReportInput::default() });
    let page = page(&html);
    assert!(page.contains("<figcaption>ns2 stack, linux where named</figcaption>"));
    assert!(page.contains("class=\"first\">ns2 stack, linux where named</th>"));
    assert!(!page.contains(">ns2 stack<"));
    assert!(page.contains("<th scope=\"row\">CUBIC (linux)</th>"));
    let csv = csv::cells(&mixed());
    assert!(csv.contains("\nns2,tcp,") && csv.contains("\nlinux,cubic,"), "{csv}");
}

/// Every drawn series is in the legend of its figure or is named below its bar.
#[test]
fn every_drawn_series_is_named() {
    let mut days = sample::paper();
    days.experiments.retain(|e| e.experiment == "v2g/fig7");
    // Two curves of the same algorithm in one chart: its name cannot distinguish them.
    let mut twice = days.experiments[0].curves[0].clone();
    twice.axes = twice.axes.with("day", "sunday");
    twice.label = "NewReno, Sunday".into();
    days.experiments[0].curves.push(twice);
    assert!(render(&days).contains("</svg>NewReno, Sunday</button>"));
    for input in
        [days, sample::paper(), sample::own(), ReportInput { experiments: vec![mixed()], ..ReportInput::default() }]
    {
        let html = render(&input);
        let mut drawn = 0;
        for drawing in page(&html).split("<div class=\"drawing\">").skip(1) {
            let specs = drawing.split("<script type=\"application/json\"").skip(1).map(|s| {
                let json = s.split_once('>').unwrap().1.split("</script>").next().unwrap();
                serde_json::from_str::<Value>(json).unwrap()
            });
            for trace in specs.flat_map(|s| s["traces"].as_array().unwrap().clone()) {
                let slot = format!("data-slot=\"{}\"", trace["slot"]);
                let named = trace["name"] == "Measured" || drawing.contains(&slot);
                assert!(named, "{} is not in the legend", trace["name"]);
                drawn += 1;
            }
        }
        assert!(drawn > 0);
    }
}

#[test]
fn index_links_to_every_paper() {
    let entry =
        |name: &str, input| PaperEntry { title: format!("Paper {name}"), link: format!("{name}/report.html"), input };
    let mut entries = vec![entry("a", Some(sample::paper())), entry("b", None)];
    let html = index::render(&entries, "roughlink reproduce all");
    let text = page(&html);
    in_order(
        text,
        &[
            "1 of 2 papers so far",
            "<a href=\"a/report.html\">Paper a</a>",
            "published values are reproduced",
            "href=\"a/report.html#v2g-fig4\"",
            "id=\"chart-picture-1-1\"",
            "Paper b",
            "Not computed yet.",
        ],
    );
    entries[1].input = Some(sample::paper());
    let html = index::render(&entries, "");
    assert!(!html.contains("so far") && html.contains("id=\"chart-picture-2-1\""));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.html");
    index::write(&path, &entries, "").unwrap();
    index::write(&path, &entries, "").unwrap();
    std::fs::write(&path, "my home page").unwrap();
    assert_eq!(index::write(&path, &entries, "").unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my home page");
}

#[test]
fn published_values_without_measurement_count_as_misses() {
    let cell = |published: f64, measured: Option<f64>, at_least: &[f64]| Cell {
        stack: "ns3".into(),
        published: Some(published),
        measured,
        at_least: at_least.into(),
        replicas: 6,
        ..mixed().cells.remove(0)
    };
    let cells = vec![
        cell(3.0, Some(3.1), &[]),
        cell(3.0, Some(9.0), &[]),
        cell(3.0, None, &[18.0; 6]),
        cell(3.0, None, &[]),
        cell(0.0, Some(0.0), &[]),
        cell(0.0, Some(0.1), &[]),
    ];
    let mut input = ReportInput { experiments: vec![ExperimentResult { cells, ..mixed() }], ..ReportInput::default() };
    assert_eq!(verdict(&input), "On the ns3 stack, 2 of 6 published values are reproduced within a factor of 1.5.");
    input.experiments[0].cells.truncate(3);
    input.experiments[0].cells.remove(0);
    assert_eq!(verdict(&input), "On the ns3 stack, 0 of 2 published values are reproduced within a factor of 1.5.");
}

#[test]
fn runs_count_with_or_without_a_value() {
    let mut experiment = mixed();
    experiment.cells[0] = Cell {
        samples: vec![],
        measured: None,
        quantile: Some(0.5),
        bound: Some(18.0),
        at_least: vec![18.0; 6],
        replicas: 6,
        ..experiment.cells[0].clone()
    };
    experiment.cells[1].replicas = 5;
    let html = render(&ReportInput { experiments: vec![experiment], ..ReportInput::default() });
    assert!(page(&html).contains(
        "<td class=\"num first\">&gt; 18 <span class=\"ci\">0 of 6 runs</span></td><td class=\"num\">6</td>"
    ));
}

#[test]
fn equal_values_of_random_runs_are_labeled() {
    let mut experiment = mixed();
    experiment.cells[0] = Cell { samples: vec![7.5; 6], replicas: 6, ..experiment.cells[0].clone() };
    let html = render(&ReportInput { experiments: vec![experiment.clone()], ..ReportInput::default() });
    assert!(
        page(&html).contains("7.500 <span class=\"ci\">in all 6</span>")
            && page(&html).contains("its spread is unknown")
    );
    experiment.cells[0].deterministic = true;
    let html = render(&ReportInput { experiments: vec![experiment], ..ReportInput::default() });
    assert!(!page(&html).contains("in all 6"));
}

#[test]
fn single_runs_do_not_rank_algorithms() {
    let mut input = sample::paper();
    input.experiments.retain(|e| e.experiment == "v2g/fig4");
    for cell in &mut input.experiments[0].cells {
        cell.samples.truncate(1);
        cell.measured = cell.samples.first().copied();
        (cell.ci95, cell.replicas) = (None, 1);
    }
    let section = |input: &ReportInput| {
        let html = render(input);
        html.split("<section id=\"linux\">").nth(1).unwrap().split("</section>").next().unwrap().to_owned()
    };
    let single = section(&input);
    assert!(single.contains(", in one run of each.") && single.contains("A single run does not tell"), "{single}");
    assert!(!single.contains("confidence interval") && !single.contains("better, but"), "{single}");
    let rows = single.matches("<li>").count();
    assert_eq!(single.matches("one run cannot tell it from the other").count(), rows, "{single}");
    // Exact values need no further runs.
    input.experiments[0].cells.iter_mut().for_each(|c| c.deterministic = true);
    let exact = section(&input);
    assert!(!exact.contains("in one run of each") && !exact.contains("cannot tell it"), "{exact}");
}
