//! Time series of the folder: the samples of the live view as CSV (RFC 4180, lines ended by a line feed). Flags are 0
//! or 1, and null is an empty field. Columns that `run -o` also writes have the same names.

use super::files::{Files, TrackedFile};
use crate::failure::Failure;
use roughlink_core::scenario::Scenario;
use roughlink_host::conversations::ConversationCounters;
use roughlink_host::{EmulationSample, INTERVAL, Lateness, Live};
use roughlink_lab::report::csv::as_text;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(super) struct SeriesFiles {
    links: TrackedFile,
    conversations: TrackedFile,
    lateness: TrackedFile,
    /// Names of the links, quoted for CSV.
    names: Vec<String>,
}

impl SeriesFiles {
    pub(super) fn begin(folder: &Path, files: &Arc<Files>, scenario: &Scenario) -> Result<Self, Failure> {
        let begin = |name: &str, columns: &str| {
            let mut kept = files.create(&folder.join(name))?;
            // A write error ends the emulation soon.
            let _ = writeln!(kept, "{columns}");
            Ok::<_, Failure>(kept)
        };
        Ok(SeriesFiles {
            links: begin("links.csv", LINKS)?,
            conversations: begin("conversations.csv", CONVERSATIONS)?,
            lateness: begin("lateness.csv", LATENESS)?,
            names: scenario.links.iter().map(|link| quoted(&link.name)).collect(),
        })
    }

    /// Starts a thread that writes all samples until the emulation has ended.
    pub(super) fn follow(mut self, live: Arc<Live>) -> JoinHandle<()> {
        thread::spawn(move || {
            let mut seen = 0;
            loop {
                // Check this first: no samples follow the end.
                let over = live.is_over();
                // `Files` keeps the error.
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
        for (file, text) in
            [(&mut self.links, links), (&mut self.conversations, conversations), (&mut self.lateness, lateness)]
        {
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

fn or_nothing(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn quoted(name: &str) -> String {
    let name = as_text(name);
    if name.contains([',', '"', '\n', '\r']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.into() }
}

const LINKS: &str =
    "time_ns,link,direction,up,queue_pkt,dropped_pkt,lost_pkt,sent_pkt,sent_bytes,rate_mbps,delay_ms,loss";
const CONVERSATIONS: &str = "time_ns,protocol,from,to,delivered_bytes,in_flight_pkt,lost_pkt,retransmits,srtt_ms";
const LATENESS: &str = "time_ns,p50_us,p99_us,max_us,over_1ms";
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
