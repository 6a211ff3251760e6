//! What a report contains, and that it is one safe file.

mod sample;

use roughlink_lab::report::{csv, render, write};
use sha2::{Digest as _, Sha256};

/// The page without the chart library, which is most of it.
fn page(html: &str) -> &str {
    html.split("* plotly.js (").next().unwrap()
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
    assert!(page.contains("ns3 stack: of the paper&#39;s 2 claims that were tested 2 are confirmed, of 1 of ours 0."));
    assert!(page.contains("Confirmed on ns3 but not on linux: Illinois carries more"));
}

#[test]
fn the_data_in_the_page_is_the_csv() {
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
fn it_is_one_file_of_reasonable_size() {
    let html = render(&sample::paper());
    let ours = html.replace(page(&html).rsplit("<script>").next().unwrap(), "");
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("* plotly.js (basic - minified) v").count(), 1);
    assert!(!ours.contains("<script src") && !ours.contains("<link") && !ours.contains("@import"));
    assert!(html.contains("default-src 'none'"));
}

/// Each row of the table in `vendor/README.md` names a file and the hash of what was published.
#[test]
fn vendored_files_are_as_published() {
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
fn nothing_at_all_is_a_report_too() {
    let html = render(&Default::default());
    assert!(html.contains("<h1>roughlink report</h1>"));
}
