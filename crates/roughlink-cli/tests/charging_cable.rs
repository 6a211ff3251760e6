//! SLAC between programs behind modems: the built-in scenario `charging-cable`.

#![cfg(target_os = "linux")]

mod common;

use common::emulated::can_emulate;
use common::{code, roughlink_in, stderr};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Car and station, which match by SLAC.
const SLAC: &str = include_str!("slac.py");

/// Runs the built-in scenario with two stations and a car. Returns the output of the car, the result and the capture.
/// Returns `None` if this machine cannot emulate or has no Python.
fn charge(more: &[&str]) -> Option<(Value, Value, Vec<u8>)> {
    if !can_emulate() {
        return None;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is missing");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("slac.py"), SLAC).unwrap();
    let shell = |node, command| ["--exec", node, "--", "sh", "-c", command];
    let arguments = [
        &["emulate", "charging-cable", "--max-lateness", "10 s", "--until", "car", "-o", "out"][..],
        more,
        &shell("station", "exec python3 slac.py station cable0"),
        &shell("neighbor", "exec python3 slac.py station crosstalk0"),
        &shell("car", "sleep 1; exec python3 slac.py car net0 $ROUGHLINK_STATION"),
    ];
    let out = roughlink_in(&arguments.concat(), folder.path());
    let said = stderr(&out);
    assert_eq!(code(&out), 0, "{said}");
    let read = |name: &str| fs::read(folder.path().join("out").join(name)).unwrap();
    let car = String::from_utf8(read("output-car.txt")).unwrap();
    let printed = car.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{car}"));
    let summary = serde_json::from_slice(&read("summary.json")).unwrap();
    Some((serde_json::from_str(printed).unwrap(), summary, read("capture.pcapng")))
}

/// Returns the result of the modem at a node.
fn modem<'a>(result: &'a Value, node: &str) -> &'a Value {
    result["modems"].as_array().unwrap().iter().find(|modem| modem["node"] == node).unwrap()
}

#[test]
fn car_matches_the_nearest_station_and_joins_its_network() {
    let Some((car, result, capture)) = charge(&[]) else { return };
    let [station, neighbor] = ["02:00:00:00:00:01", "02:00:00:00:00:03"];
    assert_eq!((&car["stations"], &car["best"]), (&2.into(), &station.into()), "{car}");
    assert_eq!((&car["levels"][station], &car["levels"][neighbor]), (&10.0.into(), &45.0.into()));
    assert_eq!((&car["linked_at_once"], &car["linked"], &car["reaches"]), (&false.into(), &true.into(), &true.into()));

    let stay = |node: &str| modem(&result, node)["joined"].as_array().unwrap().clone();
    assert_eq!((stay("car").len(), stay("station").len(), stay("neighbor").len()), (1, 1, 0));
    assert_eq!((&stay("car")[0]["peer"], &stay("car")[0]["until_s"]), (&"station".into(), &Value::Null));
    let count = |node: &str, kind: &str, way: &str| modem(&result, node)["messages"][kind][way].as_u64();
    for node in ["station", "neighbor"] {
        assert_eq!(count(node, "CM_MNBC_SOUND.IND", "to_host"), count(node, "CM_ATTEN_PROFILE.IND", "to_host"));
    }
    assert_eq!(count("car", "CM_MNBC_SOUND.IND", "from_host"), Some(10));
    assert_eq!(count("station", "CM_SLAC_MATCH.CNF", "from_host"), Some(1));
    assert_eq!(count("neighbor", "CM_SLAC_MATCH.REQ", "to_host"), None);
    let has = |wanted: &[u8]| capture.windows(wanted.len()).any(|part| part == wanted);
    assert!(has(&[0x88, 0xe1, 1, 0x76, 0x60]) && has(&[0x88, 0xe1, 1, 0x7d, 0x60]), "SLAC is captured");
    assert!(!has(&[0x88, 0xe1, 1, 0x08, 0x60]), "keys stay between host and modem");
}

/// The order of the stations in the scenario, and in time, plays no part: only the attenuation decides.
#[test]
fn attenuation_of_the_scenario_decides_the_match() {
    let exchanged = ["--set", "link.cable.attenuation=50 dB", "--set", "link.crosstalk.attenuation=12 dB"];
    let Some((car, result, _)) = charge(&exchanged) else { return };
    assert_eq!(car["best"], "02:00:00:00:00:03", "{car}");
    assert_eq!(modem(&result, "car")["joined"][0]["peer"], "neighbor");
    assert_eq!(car["reaches"], false, "the other station has another key");
}
