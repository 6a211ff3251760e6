//! Time series of the folder: the samples of the live view as rows of its CSV files.

use roughlink_core::scenario::Scenario;
use roughlink_host::conversations::ConversationCounters;
use roughlink_host::{EmulationSample, INTERVAL, Lateness, Live};
use roughlink_lab::output::GrowingFile;
use roughlink_lab::report::csv::as_text;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(super) struct SeriesFiles {
    /// Links, conversations and lateness.
    files: [GrowingFile; 3],
    /// Names of the links, quoted for CSV.
    names: Vec<String>,
}

impl SeriesFiles {
    pub(super) fn new(files: [GrowingFile; 3], scenario: &Scenario) -> Self {
        SeriesFiles { files, names: scenario.links.iter().map(|link| quoted(&link.name)).collect() }
    }

    /// Starts a thread that writes all samples until the emulation has ended.
    pub(super) fn follow(mut self, live: Arc<Live>) -> JoinHandle<()> {
        thread::spawn(move || {
            let mut seen = 0;
            loop {
                // Check this first: no samples follow the end.
                let over = live.is_over();
                // `GrowingFiles` keeps the error.
                if self.write(&live.samples(&mut seen)).is_err() || over {
                    return;
                }
                thread::sleep(Duration::from_nanos(INTERVAL.0 / 2));
            }
        })
    }

    fn write(&mut self, samples: &[Arc<EmulationSample>]) -> io::Result<()> {
        let [mut links, mut conversations, mut lateness] = [const { String::new() }; 3];
        for sample in samples {
            let time = sample.at.0;
            for (both, name) in sample.links.iter().zip(&self.names) {
                for (r, direction) in both.iter().zip(DIRECTIONS) {
                    let (up, mbps, delay) = (u8::from(r.up), r.rate.0 as f64 / 1e6, r.delay.as_millis_f64());
                    let _ = writeln!(
                        links,
                        "{time},{name},{direction},{up},{},{},{},{},{},{mbps},{delay},{}",
                        r.waiting,
                        r.dropped,
                        r.lost,
                        r.packets,
                        r.bytes,
                        or_nothing(r.loss),
                    );
                }
            }
            for c in &sample.achieved.conversations {
                for (d, [from, to]) in [(&c.forward, [&c.from, &c.to]), (&c.reverse, [&c.to, &c.from])] {
                    let ConversationCounters { delivered_bytes, in_flight, lost, retransmits, srtt_ms, .. } = d;
                    let _ = writeln!(
                        conversations,
                        "{time},{},{from},{to},{},{},{},{},{}",
                        c.protocol,
                        or_nothing(*delivered_bytes),
                        or_nothing(*in_flight),
                        or_nothing(*lost),
                        or_nothing(*retransmits),
                        or_nothing(*srtt_ms),
                    );
                }
            }
            if let Some(Lateness { p50, p99, max, over_1ms }) = sample.lateness {
                let _ = writeln!(lateness, "{time},{p50},{p99},{max},{over_1ms}");
            }
        }
        let texts = [links, conversations, lateness];
        self.files.iter_mut().zip(texts).try_for_each(|(file, text)| file.write_all(text.as_bytes()))
    }
}

fn or_nothing(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn quoted(name: &str) -> String {
    let name = as_text(name);
    if name.contains([',', '"', '\n', '\r']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.into() }
}

const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_names_are_quoted_if_needed() {
        let names = ["plc", "a,b", "the \"big\" one", "=1,5"].map(quoted);
        assert_eq!(names, ["plc", "\"a,b\"", "\"the \"\"big\"\" one\"", "\"'=1,5\""]);
    }
}
