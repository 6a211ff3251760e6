//! Coverage in scenario files: state of the link, notifications of hosts and their times, other flows in the station.

use roughlink_core::cc::LinkEvent::{self, Configured, Down, Signal, Up};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use roughlink_scenario::{ScenarioError, Warning};

fn parse(
    coverage: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(Scenario, Vec<Warning>), ScenarioError> {
    let text = format!(
        "duration = \"600 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         [[link]]\nname = \"wifi\"\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"8 ms\"\n\
         [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n\
         [[coverage]]\nname = \"line\"\nlink = \"wifi\"\n{coverage}\n"
    );
    roughlink_scenario::parse(&text, "t.toml", &[], load)
}

fn no_file(name: &str) -> Result<String, String> {
    Err(format!("there is no {name}"))
}

fn states(s: &Scenario) -> Vec<(u64, bool, u64)> {
    let states = s.links[0].model.as_pipe().unwrap().forward.states();
    states.map(|(t, s)| (t.as_millis(), s.up, s.rate.0 / 1000)).collect()
}

fn notices_of(s: &Scenario) -> Vec<(u64, LinkEvent)> {
    s.links[0].notices.iter().map(|n| (n.0.as_millis(), n.1)).collect()
}

#[test]
fn stations_become_link_states() {
    let (s, warnings) = parse(
        "speed = \"36 km/h\"\ndwell = \"20 s\"\nassociate = \"1 s\"\nconfigure = \"2 s\"\nnotice = \"100 ms\"\n\
         stations = [{ name = \"X\", distance = \"1 km\", class = \"busy\" }, \
         { distance = \"500 m\", dwell = \"5 s\" }]\n\
         classes = { busy = { rate = \"1 Mbit/s\", signal = \"-60 dBm\", load = \"300 kbit/s\" } }",
        &no_file,
    )
    .unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(
        states(&s),
        [
            (0, false, 2000),
            (103_000, true, 1000),
            (120_000, false, 2000),
            (173_000, true, 2000),
            (175_000, false, 2000)
        ]
    );
    assert_eq!(
        notices_of(&s),
        [
            (0, Down),
            (100_100, Signal(-60.0)),
            (101_100, Up),
            (103_100, Configured),
            (120_100, Down),
            (171_100, Up),
            (173_100, Configured),
            (175_100, Down),
        ]
    );
    let stays: Vec<_> = s.links[0].stays.iter().map(|s| (s.name.as_str(), s.class.as_str(), s.from, s.until)).collect();
    let at = Time::from_secs;
    assert_eq!(stays, [("X", "busy", at(103), at(120)), ("station 2", "", at(173), at(175))]);
    let load = &s.flows[1];
    assert_eq!((load.name.as_str(), load.start), ("load at X, 100 s", Time::from_secs(100)));
    let result = Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap();
    // 300 kbit/s in datagrams of 1000 B with 28 B of headers, from 103 s (before that nothing gets through) to 120 s.
    let kbits = result.flows[1].delivered_bytes * 8 / 1000;
    assert!((4700..=4960).contains(&kbits), "{kbits}");
}

#[test]
fn looped_timetable_repeats() {
    let (s, _) = parse(
        "repeat = \"200 s\"\nwarning = \"3 s\"\ntimetable = [{ arrive = \"0 s\", depart = \"50 s\" }, \
         { name = \"Y\", arrive = \"100 s\", depart = \"120 s\" }]",
        &no_file,
    )
    .unwrap();
    let up: Vec<u64> = states(&s).iter().filter(|s| s.1).map(|s| s.0 / 1000).collect();
    assert_eq!(up, [0, 100, 200, 300, 400, 500, 600]);
    let down: Vec<u64> = notices_of(&s).iter().filter(|h| h.1 == Down).map(|h| h.0 / 1000).collect();
    // The warning is repeated when it comes true, because a host may have considered it wrong in between.
    assert_eq!(down[..7], [0, 47, 50, 117, 120, 247, 250]);
}

#[test]
fn a_useless_coverage_warning_is_reported() {
    let messages = |coverage: &str| -> Vec<String> {
        parse(coverage, &no_file).unwrap().1.into_iter().map(|w| w.message).collect()
    };
    let visit = "configure = \"5 s\"\ntimetable = [{ name = \"X\", arrive = \"50 s\", depart = \"80 s\" }]\n";
    let agent = "[[gateway]]\nname = \"agent\"\nnode = \"b\"\nlink = \"wifi\"\nkind = \"avoca-rx\"\n";
    assert_eq!(messages(&format!("{visit}warning = \"4 s\"\n{agent}")), Vec::<String>::new());
    let late = messages(&format!("{visit}warning = \"26 s\""));
    assert_eq!(late, ["the warning comes before coverage at X can be used"]);
    let early = messages(&format!("{visit}warning = \"6 s\"\n{agent}"));
    assert_eq!(early, ["`avoca-rx` is warned 6 s before coverage at X ends, but discards warnings after 5 s"]);
    // The end of X becomes known when the train is already in Y: this is not an early warning of the end of Y.
    let close = "notice = \"5 s\"\ntimetable = [{ name = \"X\", arrive = \"50 s\", depart = \"80 s\" }, \
                 { name = \"Y\", arrive = \"82 s\", depart = \"180 s\" }]\n";
    assert_eq!(messages(&format!("{close}{agent}")), [""; 0]);
    assert_eq!(messages(&format!("{visit}warning = \"6 s\"\n{agent}params = {{ lead_ms = 6000 }}")), [""; 0]);
}

/// A threshold above all signals keeps a flow silent while the link is up. Signals outside coverage do not matter.
#[test]
fn a_flow_held_in_coverage_is_reported() {
    let run = |first: &str, second: &str, params: &str| {
        let text = format!(
            "timetable = [{{ arrive = \"10 s\", depart = \"80 s\", class = \"x\" }}, \
             {{ arrive = \"100 s\", depart = \"200 s\", class = \"y\" }}]\nnotice = \"10 ms\"\nwarning = \"1 s\"\n\
             [coverage.classes]\nx = {{ rate = \"1 Mbit/s\"{first} }}\ny = {{ rate = \"1 Mbit/s\"{second} }}\n\
             [tcp]\ncc = \"avoca\"\ncc_params = {{ {params} }}"
        );
        let (s, warnings) = parse(&text, &no_file).unwrap();
        let delivered = Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap().flows[0].delivered_bytes;
        (delivered > 0, warnings.into_iter().map(|w| (w.message, w.help.unwrap())).collect::<Vec<_>>())
    };
    let weak = ", signal = \"-85 dBm\"";
    let (delivered, warnings) = run(weak, weak, "");
    assert!(!delivered);
    assert_eq!(warnings.len(), 1);
    // Coverage lasts 70 s and 100 s. In each, the first 10 ms (until hosts are notified) and the last second (after the
    // warning) do not count.
    let said = "flow `f` sends nothing for 167.98 s of the 170 s that link `wifi` is up, first at 10.01 s";
    assert_eq!(warnings[0].0, said);
    assert!(
        warnings[0].1.contains("`avoca`, which keeps the flow silent") && warnings[0].1.contains("-85 dBm"),
        "{warnings:?}"
    );
    assert!(run(weak, weak, "rss_threshold = -90.0").1.is_empty());
    assert_eq!(run(", signal = \"-60 dBm\"", weak, "rss_threshold = -10.0").1.len(), 1);
    // Weak signal in one of the stations.
    for (first, second, lost) in [(weak, "", "68.99 s of the 170 s"), ("", weak, "98.99 s of the 170 s")] {
        let (delivered, warnings) = run(first, second, "");
        assert!(delivered && warnings[0].0.contains(lost), "{warnings:?}");
    }
}

/// The threshold of the coverage also applies to the algorithm and the agent by default.
#[test]
fn hosts_take_the_threshold_from_the_coverage() {
    let log = "time_s,signal_dbm\n0,-95\n10,-100\n20,-105\n30,-111\n40,-109\n50,-104\n60,-109\n70,-120\n";
    let load = |_: &str| Ok(log.to_owned());
    let run = |keys: &str, cc: &str, params: &str| {
        let text = format!("log = \"l.csv\"\n{keys}\n[tcp]\ncc = \"{cc}\"\ncc_params = {{ {params} }}");
        let (s, warnings) = parse(&text, &load).unwrap();
        let delivered = Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap().flows[0].delivered_bytes;
        (delivered, warnings.into_iter().map(|w| w.message).collect::<Vec<_>>())
    };
    let keys = "threshold = \"-110 dBm\"\nhysteresis = \"5 dB\"\nassociate = \"5 s\"";
    let (plain, _) = run(keys, "cubic", "");
    let (avoca, warnings) = run(keys, "avoca", "inner = \"cubic\"");
    assert_eq!(warnings, [""; 0]);
    assert!(avoca > plain, "{avoca} of {plain}");
    let (stated, warnings) = run(keys, "avoca", "inner = \"cubic\", rss_threshold = -80");
    assert_eq!((stated, warnings.len()), (0, 1), "{warnings:?}");
    // The link is up from 5 s to 30 s and from 55 s to 70 s.
    let said = "flow `f` sends nothing for 40 s of the 40 s that link `wifi` is up, first at 5 s";
    assert_eq!(warnings[0], said);
}

#[test]
fn keys_without_effect_are_rejected_or_reported() {
    let log = |_: &str| Ok("time_s,signal_dbm\n0,-60\n1,-60\n2,-90\n".to_owned());
    let visit = "timetable = [{ arrive = \"0 s\", depart = \"50 s\" }]";
    let station = "stations = [{ distance = \"5 m\" }]\nspeed = \"1 m/s\"\ndwell = \"5 s\"";
    for (coverage, said) in [
        (format!("{visit}\nthreshold = \"-70 dBm\""), "`threshold` has no effect in coverage with `timetable`"),
        (format!("{station}\nhysteresis = \"5 dB\""), "`hysteresis` has no effect in coverage with `stations`"),
        (format!("{visit}\nspeed = \"1 m/s\""), "`speed` has no effect"),
        (format!("{visit}\ndwell = \"1 s\""), "`dwell` has no effect"),
        ("log = \"l\"\ndwell = \"1 s\"".into(), "`dwell` has no effect"),
        ("log = \"l\"\nclasses = { x = { rate = \"1 Mbit/s\" } }".into(), "`classes` has no effect"),
        (
            format!(
                "{visit}\n\
                 classes = {{ x = {{ noise = {{ kind = \"random\", loss = \"1 %\", direction = \"forward\" }} }} }}"
            ),
            "`direction` has no effect",
        ),
        (
            format!("{visit}\nclasses = {{ x = {{ noise = {{ kind = \"random\", loss = \"1 %\", lost = 1 }} }} }}"),
            "unknown key `lost` in noise",
        ),
        (format!("{visit}\nclasses = {{ x = {{ lod = \"1 Mbit/s\" }} }}"), "unknown key `lod` in class `x`"),
    ] {
        let error = parse(&coverage, &log).expect_err(&coverage);
        assert!(error.problems[0].message.contains(said), "{coverage}: {}", error.problems[0].message);
    }
    for (coverage, said) in [
        (format!("{visit}\nclasses = {{ x = {{ rate = \"1 Mbit/s\" }} }}"), "no station has class `x`"),
        ("stations = []\nspeed = \"1 m/s\"\ndwell = \"5 s\"".into(), "never has coverage"),
    ] {
        let (_, warnings) = parse(&coverage, &log).unwrap();
        assert!(warnings.iter().any(|w| w.message.contains(said)), "{coverage}: {warnings:?}");
    }
}

#[test]
fn log_with_a_threshold_gives_coverage() {
    let log = "time_s,signal_dbm,rate_mbps\n0,-90,1\n10,-79,1\n20,-70,2\n30,-79,3\n40,-81,1\n50,-60,0\n60,-60,5\n";
    let load = |_: &str| Ok(log.to_owned());
    let (s, warnings) = parse("log = \"l.csv\"\nthreshold = \"-80 dBm\"\nhysteresis = \"5 dB\"", &load).unwrap();
    assert_eq!(
        states(&s)[1..],
        [
            (20_000, true, 2000),
            (30_000, true, 3000),
            (40_000, false, 2000),
            (60_000, true, 5000),
            (70_000, false, 2000)
        ]
    );
    // The log ends within coverage. The last measurement is valid for as long as the others, or until the log repeats.
    assert!(warnings[0].message.contains("ends within coverage at 60 s"), "{warnings:?}");
    let (s, _) = parse("log = \"l.csv\"\nhysteresis = \"5 dB\"\nrepeat = \"100 s\"", &load).unwrap();
    let up: Vec<u64> = states(&s).iter().filter(|s| s.1 && s.2 == 5000).map(|s| s.0 / 1000).collect();
    assert_eq!(up, [60, 160, 260, 360, 460, 560]);
    assert!(states(&s).contains(&(120_000, true, 2000)));
    let (_, warnings) = parse("log = \"l.csv\"\nthreshold = \"-20 dBm\"", &load).unwrap();
    assert!(warnings[0].message.contains("never has coverage"), "{warnings:?}");
    let gap = |_: &str| Ok("time_s,signal_dbm\n0,-60\n1,-60\n2,-60\n3,-60\n90,-60\n91,-60\n".to_owned());
    let (_, warnings) = parse("log = \"l.csv\"", &gap).unwrap();
    assert!(warnings[0].message.contains("a gap of 87 s after 3 s"), "{warnings:?}");
}

#[test]
fn log_of_a_field_tool_is_read() {
    let log = "Time;Cell;RSRP (dBm);DL (Mbit/s)\n\
               2025-05-04 10:00:00;\"a; 1\";-95,5;12\n2025-05-04 10:00:30;b;-111;\n2025-05-04 10:01:00;b;-100;8,5\n\
               2025-05-04 10:01:10;b;;4\n2025-05-04 10:01:20;b;-115;\n";
    let load = |_: &str| Ok(log.to_owned());
    let keys = "log = \"l.csv\"\nthreshold = \"-110 dBm\"\n\
                columns = { time_s = \"Time\", signal_dbm = \"RSRP (dBm)\", rate_mbps = \"DL (Mbit/s)\" }";
    let wanted = [(0, true, 12_000), (30_000, false, 2000), (60_000, true, 8500), (70_000, true, 4000)];
    for delimiter in ["", "\ndelimiter = \";\""] {
        let (s, warnings) = parse(&format!("{keys}{delimiter}"), &load).unwrap();
        assert_eq!((&states(&s)[..4], warnings), (&wanted[..], vec![]));
        assert!(notices_of(&s).contains(&(0, LinkEvent::Threshold { dbm: -110.0, hysteresis: 0.0 })));
    }
    for (coverage, said) in [
        (format!("{keys}\ndelimiter = \"\\t\""), "missing column `Time`, which `columns` maps to `time_s`"),
        (format!("{keys}\ndelimiter = \"|\""), "`|`"),
        (keys.replace("signal_dbm =", "signal ="), "unknown column `signal`"),
        ("columns = {}\ntimetable = [{ arrive = \"0 s\", depart = \"9 s\" }]".into(), "`columns` has no effect"),
    ] {
        let problem = &parse(&coverage, &load).expect_err(&coverage).problems[0];
        assert!(problem.message.contains(said), "{coverage}: {}", problem.message);
        assert!(!problem.labels.is_empty() && problem.help.is_some(), "{coverage}: {problem:?}");
    }
}

#[test]
fn invalid_coverage_is_rejected() {
    let often = (0..8).map(|i| format!("{},-60\n", f64::from(i) / 2000.0)).collect::<String>();
    let back = |name: &str| {
        let lines = if name == "often" { often.as_str() } else { "5,-60\n4,-60\n" };
        Ok(format!("time_s,signal_dbm\n{lines}"))
    };
    let times = |a: &str| format!("timetable = [{{ arrive = \"0 s\", depart = \"50 s\" }}, {a}]");
    for (coverage, said) in [
        ("", "missing key `stations`, `timetable` or `log`"),
        ("log = \"x\"", "time goes back from 5 s to 4 s"),
        ("log = \"x\"\nstations = []", "cannot be used together"),
        (&times("{ arrive = \"40 s\", depart = \"60 s\" }"), "before the previous departure"),
        (&times("{ arrive = \"60 s\", depart = \"60 s\" }"), "is not after the arrival at 60 s"),
        (&times("{ arrive = \"60 s\", depart = \"-60 s\" }"), "-60 s"),
        (&times("{ arrive = \"60 s\" }"), "missing key `depart`"),
        (&times("{ arrive = \"60 s\", depart = \"90 s\", class = \"bsy\" }"), "unknown class `bsy`"),
        ("stations = [{ distance = \"-5 m\" }]\nspeed = \"1 m/s\"\ndwell = \"5 s\"", "length out of range: `-5 m`"),
        ("stations = [{ distance = \"5 m\" }]\ndwell = \"5 s\"", "missing key `speed` for `stations`"),
        ("stations = [{ distance = \"5 m\" }]\nspeed = \"5\"\ndwell = \"5 s\"", "expected a speed, found `5`"),
        ("stations = [{ distance = \"5 m\" }]\nspeed = \"1 m/s\"\ndwell = \"-5 s\"", "-5 s"),
        (
            "stations = [{ name = \"X\", distance = \"5 m\" }, { name = \"Y\", distance = \"5 m\" }]\n\
             speed = \"1 m/s\"\ndwell = \"16000000 min\"",
            "the stay at Y ends more than",
        ),
        (
            "stations = [{ name = \"X\", distance = \"100000000 m\" }]\nspeed = \"0.001 m/s\"\ndwell = \"1 s\"",
            "the stay at X ends more",
        ),
        (
            "repeat = \"500 us\"\ntimetable = [{ arrive = \"0 s\", depart = \"100 us\" }]",
            "all coverage together has more than 1000000 stays",
        ),
        // Eight lines in one stay: 150,000 stays, but 1,200,000 lines.
        ("repeat = \"4 ms\"\nlog = \"often\"", "all coverage together has more than 1000000 log lines within stays"),
        ("repeat = \"10 s\"\ntimetable = [{ arrive = \"0 s\", depart = \"50 s\" }]", "at least 50 s, found 10 s"),
    ] {
        let error = parse(coverage, &back).expect_err(coverage);
        let problem = &error.problems[0];
        assert!(problem.message.contains(said), "{coverage}: {}", problem.message);
        assert!(!problem.labels.is_empty() && problem.help.is_some(), "{coverage}: {problem:?}");
    }
    let twice = "[[coverage]]\nname = \"other\"\nlink = \"wify\"\ntimetable = [{ arrive = \"0 s\", depart = \"9 s\" }]";
    let error = parse(&format!("{}\n{twice}", times("{ arrive = \"60 s\", depart = \"90 s\" }")), &back).unwrap_err();
    assert_eq!(error.problems[0].message, "unknown link `wify`");
    let error = parse(
        &format!("{}\n{twice}", times("{ arrive = \"60 s\", depart = \"90 s\" }")).replace("wify", "wifi"),
        &back,
    );
    assert_eq!(error.unwrap_err().problems[0].message, "link `wifi` has two [[coverage]] tables");
}

/// Tables of several links are limited together: memory grows with their sum.
#[test]
fn repeated_stays_of_all_links_are_limited_together() {
    let mut text = String::from("duration = \"600 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n");
    for i in 0..2 {
        text += &format!(
            "[[link]]\nname = \"l{i}\"\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
             [[coverage]]\nname = \"c{i}\"\nlink = \"l{i}\"\nrepeat = \"1 ms\"\n\
             timetable = [{{ arrive = \"0 s\", depart = \"0.5 ms\" }}]\n"
        );
    }
    text += "[[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    let error = roughlink_scenario::parse(&text, "t", &[], &|_| Err("no files".into())).unwrap_err();
    let [problem] = &error.problems[..] else { panic!("{error}") };
    assert_eq!(problem.message, "all coverage together has more than 1000000 stays");
}
