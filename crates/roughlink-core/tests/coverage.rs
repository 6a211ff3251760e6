//! Coverage as scenario files say it: when the link is up, what hosts hear and when, who else is in the station.

use roughlink_core::cc::LinkEvent::{self, Configured, Down, Signal, Up};
use roughlink_core::net::{Network, Options};
use roughlink_core::scenario::{Scenario, ScenarioError, Warning};
use roughlink_core::units::Time;

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
    Scenario::parse(&text, "t.toml", &[], load)
}

fn no_file(name: &str) -> Result<String, String> {
    Err(format!("there is no {name}"))
}

fn states(s: &Scenario) -> Vec<(u64, bool, u64)> {
    let timeline = s.links[0].model.as_pipe().unwrap().forward.timeline.clone().expect("it has coverage");
    timeline.states.iter().map(|(t, s)| (t.as_millis(), s.up, s.rate.0 / 1000)).collect()
}

fn heard(s: &Scenario) -> Vec<(u64, LinkEvent)> {
    s.links[0].notices.iter().map(|n| (n.0.as_millis(), n.1)).collect()
}

#[test]
fn stations_on_the_way() {
    let (s, warnings) = parse(
        "speed = \"36 km/h\"\ndwell = \"20 s\"\nassociate = \"1 s\"\nconfigure = \"2 s\"\nnotice = \"100 ms\"\n\
         stations = [{ name = \"X\", distance = \"1 km\", class = \"busy\" }, { distance = \"500 m\", dwell = \"5 s\" }]\n\
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
        heard(&s),
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
    let result = Network::new(&s).unwrap().run(Options::default());
    // 300 kbit/s in datagrams of 1000 B, of which 28 are headers, from 103 s (before that nothing gets through) to 120 s.
    let kbits = result.flows[1].delivered_bytes * 8 / 1000;
    assert!((4700..=4960).contains(&kbits), "{kbits}");
}

#[test]
fn a_timetable_in_a_loop() {
    let (s, _) = parse(
        "repeat = \"200 s\"\nwarning = \"3 s\"\ntimetable = [{ arrive = \"0 s\", depart = \"50 s\" }, \
         { name = \"Y\", arrive = \"100 s\", depart = \"120 s\" }]",
        &no_file,
    )
    .unwrap();
    let up: Vec<u64> = states(&s).iter().filter(|s| s.1).map(|s| s.0 / 1000).collect();
    assert_eq!(up, [0, 100, 200, 300, 400, 500, 600]);
    let down: Vec<u64> = heard(&s).iter().filter(|h| h.1 == Down).map(|h| h.0 / 1000).collect();
    assert_eq!(down[..4], [0, 47, 117, 247]);
}

#[test]
fn a_log_with_a_threshold() {
    let log = "time_s,signal_dbm,rate_mbps\n0,-90,1\n10,-79,1\n20,-70,2\n30,-79,3\n40,-81,1\n50,-60,0\n60,-60,5\n";
    let load = |_: &str| Ok(log.to_owned());
    let (s, _) = parse("log = \"l.csv\"\nthreshold = \"-80 dBm\"\nhysteresis = \"5 dB\"", &load).unwrap();
    assert_eq!(
        states(&s)[1..],
        [(20_000, true, 2000), (30_000, true, 3000), (40_000, false, 2000), (60_000, true, 5000)]
    );
    let (_, warnings) = parse("log = \"l.csv\"\nthreshold = \"-20 dBm\"", &load).unwrap();
    assert!(warnings[0].message.contains("never has coverage"), "{warnings:?}");
    let gap = |_: &str| Ok("time_s,signal_dbm\n0,-60\n1,-60\n2,-60\n3,-60\n90,-60\n91,-60\n".to_owned());
    let (_, warnings) = parse("log = \"l.csv\"", &gap).unwrap();
    assert!(warnings[0].message.contains("a gap of 87 s after 3 s"), "{warnings:?}");
}

#[test]
fn coverage_that_makes_no_sense_is_refused() {
    let back = |_: &str| Ok("time_s,signal_dbm\n5,-60\n4,-60\n".to_owned());
    let times = |a: &str| format!("timetable = [{{ arrive = \"0 s\", depart = \"50 s\" }}, {a}]");
    for (coverage, said) in [
        ("", "says nothing about when"),
        ("log = \"x\"", "time goes from 5 s to 4 s"),
        ("log = \"x\"\nstations = []", "says twice when"),
        (&times("{ arrive = \"40 s\", depart = \"60 s\" }"), "before the last station is left"),
        (&times("{ arrive = \"60 s\", depart = \"60 s\" }"), "before it came"),
        (&times("{ arrive = \"60 s\", depart = \"-60 s\" }"), "-60 s"),
        (&times("{ arrive = \"60 s\" }"), "has no `depart`"),
        (&times("{ arrive = \"60 s\", depart = \"90 s\", class = \"bsy\" }"), "there is no class `bsy`"),
        ("stations = [{ distance = \"-5 m\" }]\nspeed = \"1 m/s\"\ndwell = \"5 s\"", "length that is possible"),
        ("stations = [{ distance = \"5 m\" }]\ndwell = \"5 s\"", "stations without `speed`"),
        ("stations = [{ distance = \"5 m\" }]\nspeed = \"5\"\ndwell = \"5 s\"", "is not a speed"),
        ("stations = [{ distance = \"5 m\" }]\nspeed = \"1 m/s\"\ndwell = \"-5 s\"", "-5 s"),
        ("repeat = \"10 s\"\ntimetable = [{ arrive = \"0 s\", depart = \"50 s\" }]", "begins again after 10 s"),
        ("link = \"wify\"", "duplicate key"),
    ] {
        let error = parse(coverage, &back).expect_err(coverage);
        let problem = &error.problems[0];
        assert!(problem.message.contains(said) || said == "duplicate key", "{coverage}: {}", problem.message);
        assert!(!problem.labels.is_empty() && problem.help.is_some(), "{coverage}: {problem:?}");
    }
}
