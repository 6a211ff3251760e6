//! Sources of an agent, each watched by a thread.

use crate::failure::print_stderr;
use roughlink_core::cc::LinkEvent;
use roughlink_core::scenario::Notices;
use roughlink_core::units::Time;
use roughlink_host::{DeviceState, LinkWatch};
use std::process::{Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

/// Observation of a source.
#[derive(Debug)]
pub(super) enum Observed {
    Device(DeviceState),
    Event(LinkEvent),
    /// A program that wants to read events.
    Reader(std::os::unix::net::UnixStream),
    /// The end of a replay.
    End,
    /// A source that cannot go on.
    Lost(String),
}

/// Reports the state of a device now and after each change; if `carrier_only`, a device that is up is configured.
pub(super) fn watch(device: LinkWatch, carrier_only: bool, to: SyncSender<Observed>) {
    thread::spawn(move || {
        let mut last = None;
        loop {
            // The timeout bounds the harm of a lost message.
            let state = device.state().map(|s| DeviceState { configured: s.configured || carrier_only && s.up, ..s });
            let seen = match state {
                Ok(state) if last == Some(state) => match device.wait(PATIENCE) {
                    Ok(_) => continue,
                    Err(e) => Observed::Lost(e.with_cause()),
                },
                Ok(state) => {
                    last = Some(state);
                    Observed::Device(state)
                }
                Err(e) => Observed::Lost(e.with_cause()),
            };
            let is_lost = matches!(seen, Observed::Lost(_));
            if to.send(seen).is_err() || is_lost {
                return;
            }
        }
    });
}

/// Runs a shell command again and again and reports the signal levels that it prints.
pub(super) fn ask(command: String, every: Time, to: SyncSender<Observed>) {
    thread::spawn(move || {
        let mut failed = None;
        loop {
            let out = Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).output();
            let level = match out {
                Ok(out) => {
                    let text = String::from_utf8_lossy(&out.stdout).into_owned();
                    level_in(&text).ok_or_else(|| {
                        let error = String::from_utf8_lossy(&out.stderr).into_owned();
                        error.lines().next().unwrap_or("it printed no level").to_owned()
                    })
                }
                Err(e) => Err(e.to_string()),
            };
            match level {
                Ok(dbm) => {
                    failed = None;
                    if to.send(Observed::Event(LinkEvent::Signal(dbm))).is_err() {
                        return;
                    }
                }
                Err(reason) if failed.as_ref() == Some(&reason) => {}
                Err(reason) => {
                    print_stderr(&format!("warning: no signal level from `{command}`: {reason}"));
                    failed = Some(reason);
                }
            }
            thread::sleep(Duration::from_nanos(every.0));
        }
    });
}

/// Plays the events of a link in real time.
pub(super) fn replay(notices: Notices, to: SyncSender<Observed>) {
    #[expect(clippy::disallowed_methods, reason = "a replay in real time")]
    let start = Instant::now();
    thread::spawn(move || {
        for (at, event) in notices.iter() {
            thread::sleep(Duration::from_nanos(at.0).saturating_sub(start.elapsed()));
            if to.send(Observed::Event(event)).is_err() {
                return;
            }
        }
        let _ = to.send(Observed::End);
    });
}

/// Returns the first number that is followed by `dBm`; without the unit, the text must be one number.
fn level_in(text: &str) -> Option<f64> {
    let is_level = |dbm: &f64| (LOWEST..=HIGHEST).contains(dbm);
    let mut words = text.split(|c: char| c.is_whitespace() || "=,;:'\"".contains(c)).filter(|word| !word.is_empty());
    let mut last: Option<f64> = None;
    let with_unit = words.find_map(|word| match word.strip_suffix("dBm") {
        Some("") => last,
        Some(number) => number.parse().ok(),
        None => {
            last = word.parse().ok();
            None
        }
    });
    with_unit.or_else(|| text.trim().parse().ok()).filter(is_level)
}

/// Time after which the state is read even if nothing was reported.
const PATIENCE: Duration = Duration::from_secs(5);
/// Range of levels that receivers report, dBm.
const LOWEST: f64 = -200.0;
const HIGHEST: f64 = 50.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are the forms of `iw` and `mmcli`.
    #[test]
    fn levels_are_found_in_outputs_of_tools() {
        for (text, level) in [
            ("-81.5\n", Some(-81.5)),
            ("Connected to 02:00\n\tfreq: 5180\n\tsignal: -62 dBm\n\ttx bitrate: 866.7 MBit/s\n", Some(-62.0)),
            ("  LTE |  rsrp: '-95.00' dBm\n      |  rsrq: '-9.00' dB\n", Some(-95.0)),
            ("rssi=-70dBm", Some(-70.0)),
            ("Not connected.\n", None),
            ("12 34\n", None),
            ("nan", None),
            ("-1000", None),
            ("", None),
        ] {
            assert_eq!(level_in(text), level, "{text}");
        }
    }
}
