//! Result folders: their content, and their state after failures.

mod common;

use common::{Run, SCENARIO, run, run_into, scenario, skip};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::units::Time;
use roughlink_lab::output::{CaptureSettings, MAX_CAPTURES, Manifest, OutputError, OutputSettings};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const EVERYTHING: [&str; 9] = [
    "capture-evcc.pcapng",
    "capture-sa.pcapng",
    "config.toml",
    "flows.parquet",
    "links.parquet",
    "manifest.json",
    "segments.csv",
    "segments.parquet",
    "summary.json",
];

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the result without its wall-clock time.
fn timeless(mut result: RunResult) -> RunResult {
    result.wall_s = 0.0;
    result
}

#[test]
fn finished_folder_has_all_files() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path().join("new/results");
    let s = scenario(SCENARIO, &[("seed", "7")]);
    let settings = OutputSettings { command: vec!["roughlink".into(), "run".into()], ..OutputSettings::default() };
    let result = run_into(&dir, &s, &settings).unwrap();
    assert_eq!(names(&dir), EVERYTHING);
    assert_eq!(fs::read_to_string(dir.join("config.toml")).unwrap(), s.source);
    let summary: RunResult = serde_json::from_slice(&fs::read(dir.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary, result);
    assert!(result.wall_s > 0.0);
    let manifest = Manifest::read(&dir).unwrap();
    manifest.verify(&dir).unwrap();
    assert_eq!(manifest.files.len(), EVERYTHING.len() - 1);
    assert_eq!((manifest.seed, manifest.replica, manifest.command.len()), (7, 0, 2));
    let hosts = manifest.capture.unwrap().hosts;
    let hosts: Vec<_> = hosts.into_iter().map(|(host, e)| (host, e.file, e.addresses[0].to_string())).collect();
    let entry = |host: &str, address: &str| (host.to_owned(), format!("capture-{host}.pcapng"), address.to_owned());
    assert_eq!(hosts, [entry("evcc", "10.0.0.3"), entry("sa", "10.0.0.1")]);
    let Run { dir, .. } = run(&[], |s| (s.csv, s.capture) = (false, None));
    assert_eq!(
        names(dir.path()),
        EVERYTHING.into_iter().filter(|n| !n.contains("csv") && !n.contains("pcap")).collect::<Vec<_>>()
    );
    fs::write(dir.path().join("config.toml"), "seed = 8").unwrap();
    let changed = Manifest::read(dir.path()).unwrap().verify(dir.path());
    assert!(matches!(changed, Err(OutputError::Changed { .. })), "{changed:?}");
}

/// Two runs of the same scenario leave the same files, apart from times of day.
#[test]
fn equal_runs_write_equal_files() {
    let (a, b) = (run(&[], |_| {}), run(&[], |_| {}));
    let files = |r: &Run| Manifest::read(r.dir.path()).unwrap().files;
    let same: Vec<_> = files(&a).into_iter().filter(|f| f.name != "summary.json").collect();
    assert_eq!(same.len(), EVERYTHING.len() - 2); // the manifest does not list itself
    assert!(same.iter().all(|f| files(&b).contains(f)));
}

#[test]
fn observing_changes_nothing() {
    let apart = "
        [[node]]
        name = \"x\"
        [[node]]
        name = \"y\"
        [[link]]
        name = \"other\"
        between = [\"x\", \"y\"]
        rate = \"3 Mbit/s\"
        delay = \"20 ms\"
        noise = { kind = \"random\", loss = \"1 %\" }
        [[flow]]
        name = \"elsewhere\"
        kind = \"bulk\"
        from = \"y\"
        to = \"x\"
        bytes = \"300 kB\"
        [[flow]]
        name = \"upload\"
        kind = \"bulk\"
        from = \"evcc\"
        to = \"sa\"
        bytes = \"500 kB\"
        [[flow]]
        name = \"beside\"
        kind = \"cbr\"
        from = \"sa\"
        to = \"evcc\"
        rate = \"1 Mbit/s\"
        packet = \"3000 B\"
        bytes = \"300 kB\"";
    for (what, text) in [("one", SCENARIO.to_owned()), ("several", SCENARIO.to_owned() + apart)] {
        for stack in ["linux", "ns3", "rfc", "ns2"] {
            for replica in 0..3 {
                let s = Arc::new(scenario(&text, &[("tcp.stack", stack)]));
                let options = RunOptions { replica, ..RunOptions::default() };
                let dir = TempDir::new().unwrap();
                let settings = OutputSettings { sample: Time::from_millis(10), ..OutputSettings::default() };
                let seen = roughlink_lab::output::run_to_folder(&s, options.clone(), dir.path(), &settings).unwrap();
                let plain = Network::new(s, options).unwrap().run().unwrap();
                assert_eq!(timeless(seen), plain, "{what} {stack} {replica}");
            }
        }
    }
}

fn parquet_rows(file: &Path) -> Vec<parquet::record::Row> {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

#[test]
fn series_and_summary_agree() {
    let Run { dir, result } = run(&[("tcp.stack", "linux"), ("link.plc.queue", "30 pkt")], |_| {});
    let flow = &result.flows[0];

    let rows = parquet_rows(&dir.path().join("flows.parquet"));
    assert!(rows.windows(2).all(|w| w[0].get_long(0).unwrap() <= w[1].get_long(0).unwrap()));
    assert!(rows.iter().all(|r| r.get_string(1).unwrap() == "download"));
    assert_eq!(rows.last().unwrap().get_long(11).unwrap() as u64, flow.delivered_bytes);
    let state = |r: &parquet::record::Row| r.get_string(2).unwrap().clone();
    let threshold = |r: &parquet::record::Row| r.get_long(5).ok();
    // The acknowledgment that ends a recovery may begin another one, which has another threshold.
    let begins =
        |from: &_, to: &_| state(to) == "Recovery" && (state(from) != "Recovery" || threshold(from) != threshold(to));
    let episodes = rows.windows(2).filter(|w| begins(&w[0], &w[1])).count();
    assert_eq!(episodes as u64, flow.fast_recoveries);
    assert!(rows[0].is_null(5).unwrap(), "ssthresh is unlimited at first");
    assert!(rows.iter().any(|r| !r.is_null(5).unwrap()));
    let longest = rows.iter().filter_map(|r| r.get_double(12).ok()).fold(0.0, f64::max);
    assert!((longest - flow.rtt_ms.unwrap().max).abs() < 1e-9, "{longest} {:?}", flow.rtt_ms);

    let rows = parquet_rows(&dir.path().join("links.parquet"));
    let plc = |r: &&parquet::record::Row| r.get_string(1).unwrap() == "plc" && r.get_string(2).unwrap() == "forward";
    let most = rows.iter().filter(plc).map(|r| r.get_long(4).unwrap()).max().unwrap();
    assert_eq!(most, i64::from(result.links[1].forward.queue_max_pkt));
    let dropped = rows.iter().rfind(plc).unwrap().get_long(5).unwrap();
    assert_eq!(dropped as u64, result.links[1].forward.dropped);
    assert!(dropped > 0);

    let rows = parquet_rows(&dir.path().join("segments.parquet"));
    assert_eq!(rows.len() as u64, flow.segments);
    assert_eq!(rows.iter().filter(|r| r.get_bool(5).unwrap()).count() as u64, flow.retransmits);
    let once: i64 = rows.iter().filter(|r| !r.get_bool(5).unwrap()).map(|r| r.get_long(3).unwrap()).sum();
    assert_eq!(once as u64, flow.delivered_bytes);

    let csv = fs::read_to_string(dir.path().join("segments.csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time_ns,flow,seq,len,fin,retransmission"));
    let expected = rows.iter().filter(|r| r.get_long(3).unwrap() > 0).map(|r| {
        let long = |i| r.get_long(i).unwrap();
        let flag = |i| u8::from(r.get_bool(i).unwrap());
        format!("{},0,{},{},{},{}", long(0), long(2), long(3), flag(4), flag(5))
    });
    assert!(lines.eq(expected));

    let file = fs::File::open(dir.path().join("flows.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let notes = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(notes.iter().any(|n| n.key == "rtt_ms.unit" && n.value.as_deref() == Some("ms")));
}

#[test]
fn sampling_keeps_state_changes() {
    let states = |dir: &Path| {
        let mut all: Vec<_> = parquet_rows(&dir.join("flows.parquet"))
            .iter()
            .map(|r| (r.get_string(2).unwrap().clone(), r.get_string(3).unwrap().clone()))
            .collect();
        let rows = all.len();
        all.dedup();
        (rows, all)
    };
    let full = run(&[], |_| {});
    let thin = run(&[], |s| s.sample = Time::from_millis(100));
    let ((many, all), (few, kept)) = (states(full.dir.path()), states(thin.dir.path()));
    assert!(few * 2 < many, "{few} of {many}");
    assert_eq!(all, kept);
}

#[test]
fn long_runs_have_several_batches() {
    let Run { dir, result } = run(&[("link.plc.noise.start", "0 %"), ("flow.download.bytes", "120 MB")], |s| {
        s.capture = None;
    });
    let reader = SerializedFileReader::new(fs::File::open(dir.path().join("segments.parquet")).unwrap()).unwrap();
    assert!(reader.num_row_groups() > 1);
    let rows = reader.metadata().file_metadata().num_rows();
    assert_eq!(rows as u64, result.flows[0].segments);
}

/// Python can read the tables with pyarrow and polars; `PYTHON` names the interpreter.
#[test]
fn other_programs_can_read_the_tables() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let Run { dir, result } = run(&[], |_| {});
    let program = "
import sys
folder, module = sys.argv[1:]
try:
    __import__(module)
except ImportError:
    sys.exit(77)
if module == 'pyarrow':
    import pyarrow.parquet as parquet
    read = lambda name: parquet.read_table(f'{folder}/{name}.parquet', read_dictionary=['flow'])
    assert parquet.read_schema(f'{folder}/flows.parquet').metadata[b'cwnd_bytes.unit'] == b'B'
    rows = lambda t: t.num_rows
    column = lambda t, name: t.column(name).to_pylist()
else:
    import polars
    read = lambda name: polars.read_parquet(f'{folder}/{name}.parquet')
    rows = lambda t: t.height
    column = lambda t, name: t[name].to_list()
flows, links, segments = read('flows'), read('links'), read('segments')
print(rows(segments), sum(column(segments, 'retransmission')), max(column(flows, 'delivered_bytes')),
      column(flows, 'ssthresh_bytes')[0], set(column(links, 'direction')) == {'forward', 'reverse'},
      set(column(flows, 'flow')) == {'download'})
";
    let flow = &result.flows[0];
    let expected = format!("{} {} {} None True True", flow.segments, flow.retransmits, flow.delivered_bytes);
    for module in ["pyarrow", "polars"] {
        let output = Command::new(&python).args(["-c", program]).arg(dir.path()).arg(module).output();
        match output {
            Err(e) => skip(&format!("no Python to read Parquet with: {python}: {e}")),
            Ok(o) if o.status.code() == Some(77) => skip(&format!("{python} has no {module} to read Parquet with")),
            Ok(o) => {
                assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
                assert_eq!(String::from_utf8_lossy(&o.stdout).trim(), expected);
            }
        }
    }
}

#[test]
fn existing_results_are_not_replaced_without_force() {
    let Run { dir, .. } = run(&[], |_| {});
    let before = Manifest::read(dir.path()).unwrap();
    let other = scenario(SCENARIO, &[("seed", "2")]);
    let settings = OutputSettings { csv: false, ..OutputSettings::default() };
    let refused = run_into(dir.path(), &other, &settings);
    assert!(matches!(refused, Err(OutputError::Exists(_))), "{refused:?}");
    assert_eq!(names(dir.path()), EVERYTHING);
    before.verify(dir.path()).unwrap();

    let force = OutputSettings { force: true, ..settings };
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let refused = run_into(dir.path(), &other, &force);
    assert!(matches!(&refused, Err(OutputError::Foreign { found, .. }) if found == "notes.txt"), "{refused:?}");
    before.verify(dir.path()).unwrap();
    fs::remove_file(dir.path().join("notes.txt")).unwrap();

    run_into(dir.path(), &other, &force).unwrap();
    let after = Manifest::read(dir.path()).unwrap();
    after.verify(dir.path()).unwrap();
    assert_eq!(after.seed, 2);
    assert!(!dir.path().join("segments.csv").exists(), "the old run's, not the new one's");
}

#[test]
fn failures_are_explained() {
    let dir = TempDir::new().unwrap();
    let s = scenario(SCENARIO, &[]);
    let file = dir.path().join("file");
    fs::write(&file, "precious").unwrap();
    for path in [file.clone(), file.join("below")] {
        let e = run_into(&path, &s, &OutputSettings::default()).unwrap_err();
        assert!(matches!(&e, OutputError::Write { .. }) && e.to_string().contains("file"), "{e}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let capture = Some(CaptureSettings { hosts: Some(vec!["secc".to_owned()]), ..CaptureSettings::default() });
    let e = run_into(&dir.path().join("x"), &s, &OutputSettings { capture, ..OutputSettings::default() }).unwrap_err();
    assert_eq!(e.to_string(), "cannot capture at unknown host `secc`; expected sa, evcc");
    assert_eq!(names(dir.path()), ["file"]);
}

/// A capture has a file per host, or one on request or for many hosts. The files of an earlier run are replaced.
#[test]
fn captures_are_split_by_host() {
    let captures = |dir: &Path| names(dir).into_iter().filter(|n| n.ends_with(".pcapng")).collect::<Vec<_>>();
    let Run { dir, .. } = run(&[], |s| {
        s.capture = Some(CaptureSettings { one_file: true, ..CaptureSettings::default() });
    });
    assert_eq!(captures(dir.path()), ["capture.pcapng"]);
    // Host names that collide on some file systems, or that these reject.
    let text = SCENARIO.replace("\"sa\"", "\"a/b\"").replace("\"evcc\"", "\"A b\"");
    run_into(dir.path(), &scenario(&text, &[]), &OutputSettings { force: true, ..OutputSettings::default() }).unwrap();
    assert_eq!(captures(dir.path()), ["capture-A_b-2.pcapng", "capture-a_b.pcapng"]);
    let hosts = Manifest::read(dir.path()).unwrap().capture.unwrap().hosts;
    assert_eq!(
        (hosts["a/b"].file.as_str(), hosts["A b"].file.as_str()),
        ("capture-a_b.pcapng", "capture-A_b-2.pcapng")
    );

    let many = |hosts: usize| {
        let mut text = "duration = \"1 s\"\n[[node]]\nname = \"server\"\n".to_owned();
        for i in 1..hosts {
            text += &format!(
                "[[node]]\nname = \"c{i}\"\n[[link]]\nname = \"l{i}\"\nbetween = [\"server\", \"c{i}\"]\n\
                 rate = \"1 Mbit/s\"\n\
                 delay = \"1 ms\"\n[[flow]]\nname = \"f{i}\"\nkind = \"bulk\"\nfrom = \"server\"\nto = \"c{i}\"\n\
                 bytes = \"3 kB\"\n"
            );
        }
        let dir = TempDir::new().unwrap();
        run_into(dir.path(), &scenario(&text, &[]), &OutputSettings::default()).unwrap();
        (captures(dir.path()).len(), Manifest::read(dir.path()).unwrap().capture.unwrap().hosts.len())
    };
    assert_eq!(many(MAX_CAPTURES), (MAX_CAPTURES, MAX_CAPTURES));
    assert_eq!(many(MAX_CAPTURES + 1), (1, MAX_CAPTURES + 1));
}

/// Returns a command that runs this test program in `dir` until stopped, with `limit` as its `ulimit -f`.
fn child(dir: &Path, limit: Option<u32>) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match limit {
        None => Command::new(this),
        Some(blocks) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")]).arg(this);
            shell
        }
    };
    command.args(["--exact", "child_process", "--ignored"]).env("RESULTS", dir);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
#[ignore = "the child of other tests"]
fn child_process() {
    let Some(dir) = std::env::var_os("RESULTS") else { return };
    let s = scenario(SCENARIO, &[("flow.download.bytes", "4 GB"), ("duration", "4000 s"), ("seed", "9")]);
    if let Err(e) =
        run_into(Path::new(&dir), &s, &OutputSettings { force: true, capture: None, ..OutputSettings::default() })
    {
        let why = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
        skip(&format!("{e}: {why}"));
    }
}

/// Waits until the run in `dir` has written some rows.
fn under_way(dir: &Path, child: &mut Child) {
    while fs::metadata(dir.join(".unfinished/segments.csv")).map_or(0, |m| m.len()) < 1 << 16 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended too soon");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_run_does_not_look_finished() {
    for finished_before in [false, true] {
        let dir = TempDir::new().unwrap();
        let s = scenario(SCENARIO, &[]);
        if finished_before {
            run_into(dir.path(), &s, &OutputSettings::default()).unwrap();
        }
        let mut run = child(dir.path(), None).spawn().unwrap();
        under_way(dir.path(), &mut run);
        // During a run, no other run may start in the folder.
        let busy = run_into(dir.path(), &s, &OutputSettings::default());
        assert!(matches!(busy, Err(OutputError::Busy(_))), "{busy:?}");
        run.kill().unwrap();
        run.wait().unwrap();
        let left = Manifest::read(dir.path());
        if finished_before {
            let left = left.unwrap();
            assert_eq!(left.seed, s.seed);
            left.verify(dir.path()).unwrap();
            assert!(matches!(run_into(dir.path(), &s, &OutputSettings::default()), Err(OutputError::Exists(_))));
        } else {
            assert!(matches!(left, Err(OutputError::Unfinished(_))), "{left:?}");
            assert_eq!(names(dir.path()), [".unfinished"]);
            // The next run cleans up.
            run_into(dir.path(), &s, &OutputSettings::default()).unwrap();
        }
        assert_eq!(names(dir.path()), EVERYTHING);
    }
}

#[cfg(unix)]
#[test]
fn full_disk_loses_only_the_run_that_fills_it() {
    let dir = TempDir::new().unwrap();
    let fresh = dir.path().join("fresh");
    let full = dir.path().join("full");
    run_into(&full, &scenario(SCENARIO, &[]), &OutputSettings::default()).unwrap();
    let before = Manifest::read(&full).unwrap();
    for results in [&fresh, &full] {
        let output = child(results, Some(200)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot write `") && said.contains("this run leaves no results"), "{said}");
        assert!(said.contains(".unfinished") && said.contains("File too large"), "{said}");
    }
    assert!(!fresh.exists());
    assert_eq!(names(&full), EVERYTHING);
    before.verify(&full).unwrap();
}

/// The state that a run leaves when it is interrupted while its files move into place.
#[test]
fn interrupted_moves_are_completed() {
    let Run { dir, .. } = run(&[], |_| {});
    let manifest = Manifest::read(dir.path()).unwrap();
    let unfinished = dir.path().join(".unfinished");
    fs::create_dir(&unfinished).unwrap();
    for name in ["manifest.json", "links.parquet", "capture-sa.pcapng"] {
        fs::rename(dir.path().join(name), unfinished.join(name)).unwrap();
    }
    fs::write(dir.path().join("links.parquet"), "of the run before").unwrap();
    assert!(matches!(Manifest::read(dir.path()), Err(OutputError::Unfinished(_))));
    let refused = run_into(dir.path(), &scenario(SCENARIO, &[]), &OutputSettings::default());
    assert!(matches!(refused, Err(OutputError::Exists(_))), "{refused:?}");
    assert_eq!(names(dir.path()), EVERYTHING);
    assert_eq!(Manifest::read(dir.path()).unwrap(), manifest);
    manifest.verify(dir.path()).unwrap();
}
