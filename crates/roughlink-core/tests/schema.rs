//! The schema agrees with the parser: a key set to its default changes nothing, and a value out of bounds is rejected.

use roughlink_core::cc;
use roughlink_core::scenario::Scenario;
use roughlink_core::tcp::TcpConfig;
use roughlink_scenario::schema;
use serde_json::{Map, Value};

fn text(link: &str, flow: &str, more: &str) -> String {
    format!(
        "duration = \"60 s\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n{more}\n\
         [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n{link}\n\
         [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    )
}

const PIPE: &str = "rate = \"10 Mbit/s\"\ndelay = \"1 ms\"";
const BULK: &str = "kind = \"bulk\"\nbytes = \"1 MB\"";
/// Keys of a coverage that are accepted only with a log.
const OF_A_LOG: [&str; 2] = ["threshold", "hysteresis"];

/// `--set` path of a table of the schema, and a scenario that has the table.
struct Case {
    table: Map<String, Value>,
    path: &'static str,
    scenario: String,
}

/// Returns all tables whose keys have defaults or bounds.
fn cases() -> Vec<Case> {
    let root = schema();
    let keys = |table: &Value| table["properties"].as_object().cloned().unwrap_or_default();
    let of = |name: &str| keys(&root["$defs"][name]);
    let kinds = |name: &str| -> Vec<Value> {
        let all = root["$defs"][name]["oneOf"].as_array().into_iter().flatten();
        all.filter(|kind| kind["properties"].is_object()).cloned().collect() // a name alone has no keys
    };
    let title = |kind: &Value| kind["title"].as_str().unwrap().to_owned();
    let mut cases = vec![
        Case { table: keys(&root), path: "", scenario: text(PIPE, BULK, "") },
        Case { table: of("Tcp"), path: "tcp", scenario: text(PIPE, BULK, "") },
        Case { table: of("Sctp"), path: "sctp", scenario: text(PIPE, &format!("{BULK}\ntransport = \"sctp\""), "") },
        Case {
            table: of("Timeline").into_iter().filter(|(key, _)| key != "interval").collect(),
            path: "link.l.timeline",
            scenario: text(&format!("{PIPE}\ntimeline = {{ steps = [{{ at = \"1 s\", up = false }}] }}"), BULK, ""),
        },
        Case {
            table: of("Timeline").into_iter().filter(|(key, _)| key == "interval").collect(),
            path: "link.l.timeline",
            scenario: text("rate = \"10 Mbit/s\"\ntimeline = { delay_file = \"delays\" }", BULK, ""),
        },
        Case {
            table: of("Coverage").into_iter().filter(|(key, _)| !OF_A_LOG.contains(&key.as_str())).collect(),
            path: "coverage.c",
            scenario: text(
                PIPE,
                BULK,
                "[[coverage]]\nname = \"c\"\nlink = \"l\"\ntimetable = [{ arrive = \"1 s\", depart = \"9 s\" }]",
            ),
        },
        Case {
            table: of("Coverage").into_iter().filter(|(key, _)| OF_A_LOG.contains(&key.as_str())).collect(),
            path: "coverage.c",
            scenario: text(PIPE, BULK, "[[coverage]]\nname = \"c\"\nlink = \"l\"\nlog = \"log\""),
        },
        Case { table: of("Processing"), path: "flow.f.processing", scenario: text(PIPE, "kind = \"request\"", "") },
        Case { table: of("Limits"), path: "flow.f.limits", scenario: text(PIPE, "kind = \"request\"", "") },
        Case {
            table: of("MessageKeys"),
            path: "flow.f.messages.current_demand",
            scenario: text(PIPE, "kind = \"request\"", ""),
        },
        Case {
            table: of("Change"),
            path: "link.l.timeline",
            scenario: text(&format!("{PIPE}\ntimeline = [{{ at = \"1 s\", rate = \"1 Mbit/s\" }}]"), BULK, ""),
        },
    ];
    for kind in kinds("Link") {
        let link = match title(&kind).as_str() {
            "pipe" => PIPE.to_owned(),
            other => format!("kind = \"{other}\""),
        };
        cases.push(Case { table: keys(&kind), path: "link.l", scenario: text(&link, BULK, "") });
        let mac = keys(&kind["properties"]["mac"]);
        cases.push(Case { table: mac, path: "link.l.mac", scenario: text(&link, BULK, "") });
    }
    for kind in kinds("Flow") {
        let more = match title(&kind).as_str() {
            "cbr" | "onoff" => "\nrate = \"1 Mbit/s\"",
            "messages" => "\nsize = \"1 kB\"\ninterval = \"1 s\"",
            _ => "",
        };
        let flow = format!("kind = \"{}\"{more}", title(&kind));
        cases.push(Case { table: keys(&kind), path: "flow.f", scenario: text(PIPE, &flow, "") });
    }
    for kind in kinds("Noise") {
        let name = title(&kind);
        let required = match name.as_str() {
            "random" | "stationary" => ", loss = \"1 %\"",
            "ber" => ", ber = 1e-6",
            "burst" => ", start = \"1 %\", length = [1, 4]",
            "gilbert-elliott" => ", to_bad = \"1 %\", to_good = \"25 %\"",
            "impulse" => ", cyclic = { every = \"10 ms\", length = \"1 ms\" }",
            "list" => ", drop = [1]",
            "recorded" => ", steps = [{ at = \"0 s\", loss = \"1 %\" }]",
            "fading" => ", good = \"5 s\", bad = \"1 s\", loss_bad = \"30 %\"",
            "measured" => ", class = \"heavy\"",
            "markov-middleton" => ", index = 0.1, memory = 0.9, sample = \"1 us\"",
            "events" => ", events = [{ at = \"1 s\", for = \"1 ms\" }]",
            _ => "",
        };
        let noise = format!("noise = {{ kind = \"{name}\"{required} }}");
        let on_pipes = ["none", "random", "ber", "burst", "gilbert-elliott", "impulse", "list", "recorded"];
        let pipe = on_pipes.contains(&name.as_str());
        let link = if pipe { PIPE } else { "kind = \"greenphy\"" };
        let scenario = text(&format!("{link}\n{noise}"), BULK, "");
        // A shared medium has no directions.
        let table = keys(&kind).into_iter().filter(|(key, _)| pipe || key != "direction").collect();
        cases.push(Case { table, path: "link.l.noise", scenario });
    }
    cases
}

impl Case {
    fn read(&self, set: Option<(&str, String)>) -> Result<Scenario, String> {
        let path = |key: &str| if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        let set: Vec<_> = set.into_iter().map(|(key, value)| (path(key), value)).collect();
        let load =
            |name: &str| Ok(if name == "log" { "time_s,signal_dbm\n0,-70\n30,-90\n" } else { "10\n20\n" }.to_owned());
        let read = roughlink_scenario::parse(&self.scenario, "t", &set, &load);
        read.map(|(scenario, _)| scenario).map_err(|e| format!("{e:?}"))
    }
}

/// Returns a value in the syntax of `--set`.
fn said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn a_key_at_its_default_changes_nothing() {
    let mut checked = 0;
    let meaning = |s: &Scenario| format!("{:?}", (s.seed, &s.links, &s.flows, &s.gateways));
    for case in cases() {
        let without = case.read(None).unwrap_or_else(|e| panic!("{}\n{e}", case.scenario));
        for (key, says) in &case.table {
            let Some(default) = says.get("default") else { continue };
            let with = case.read(Some((key, said(default))));
            let with = with.unwrap_or_else(|e| panic!("{}.{key} = {default}: {e}", case.path));
            assert_eq!(meaning(&with), meaning(&without), "{}.{key} = {default}\n{}", case.path, case.scenario);
            checked += 1;
        }
    }
    assert!(checked > 120, "{checked}");
}

#[test]
fn a_value_beyond_its_bounds_is_refused() {
    let mut checked = 0;
    for case in cases() {
        for (key, says) in &case.table {
            let bound = |name: &str| says.get(name).or_else(|| says.get(format!("x-{name}")));
            let below = bound("minimum").map(|least| moved(least, -1.0));
            let above = bound("maximum").map(|most| moved(most, 1.0));
            let at = [bound("exclusiveMinimum"), bound("exclusiveMaximum")].map(|edge| edge.map(said));
            for value in [below, above].into_iter().chain(at).flatten() {
                assert!(case.read(Some((key, value.clone()))).is_err(), "{}.{key} = {value} is taken", case.path);
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
}

/// Returns a quantity increased by `by` of its units.
fn moved(value: &Value, by: f64) -> String {
    match value.as_str() {
        None => (value.as_f64().unwrap() + by).to_string(),
        Some(quantity) => {
            let (number, unit) = quantity.split_once(' ').unwrap();
            format!("{} {unit}", number.parse::<f64>().unwrap() + by)
        }
    }
}

#[test]
fn every_algorithm_names_existing_keys() {
    for algorithm in cc::REGISTRY.iter() {
        let mut keys = toml::Table::try_from(TcpConfig::default()).expect("plain values");
        keys.extend(algorithm.tcp.parse::<toml::Table>().expect("TOML"));
        keys.try_into::<TcpConfig>().unwrap_or_else(|e| panic!("{}: {e}", algorithm.name));
    }
}
