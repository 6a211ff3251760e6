//! Link events from an agent, over a Unix socket: one JSON object per line, such as `{"event":"signal","dbm":-81.5}`.
//! An agent first sends the present state. If it ends, the link counts as up and configured, so that no window stays
//! closed; the socket is tried again every second.

use roughlink_core::cc::LinkEvent;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Message of an agent: a link event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase", deny_unknown_fields)]
pub enum CoverageMessage {
    /// The link is down.
    Down,
    /// The link is up.
    Up,
    /// Addresses are valid here.
    Configured,
    /// Signal strength.
    Signal {
        /// Strength, dBm.
        dbm: f64,
    },
    /// Signal level of coverage on this link.
    Threshold {
        /// Signal at or below which coverage ends, dBm.
        dbm: f64,
        /// Margin above it at which coverage begins, dB.
        hysteresis_db: f64,
    },
}

impl CoverageMessage {
    /// Returns the event; `None` if a level is not a finite number.
    pub fn event(self) -> Option<LinkEvent> {
        Some(match self {
            CoverageMessage::Down => LinkEvent::Down,
            CoverageMessage::Up => LinkEvent::Up,
            CoverageMessage::Configured => LinkEvent::Configured,
            CoverageMessage::Signal { dbm } => LinkEvent::Signal(Some(dbm).filter(|dbm| dbm.is_finite())?),
            CoverageMessage::Threshold { dbm, hysteresis_db } => {
                let is_valid = dbm.is_finite() && hysteresis_db.is_finite() && hysteresis_db >= 0.0;
                is_valid.then_some(LinkEvent::Threshold { dbm, hysteresis: hysteresis_db })?
            }
        })
    }
}

/// Link events of an agent, received by a thread.
#[derive(Debug)]
pub struct CoverageSource {
    events: Receiver<LinkEvent>,
    connected: Arc<AtomicBool>,
}

impl CoverageSource {
    /// Starts to follow the agent at `socket`.
    ///
    /// # Errors
    /// Returns an error if there is no agent now.
    pub fn follow(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let (sender, events) = sync_channel(WAITING);
        let connected = Arc::new(AtomicBool::new(true));
        let (path, is_connected) = (socket.to_owned(), Arc::clone(&connected));
        thread::spawn(move || keep_following(stream, &path, &is_connected, &sender));
        Ok(CoverageSource { events, connected })
    }

    /// Returns the events since the last call.
    pub fn events(&self) -> impl Iterator<Item = LinkEvent> {
        self.events.try_iter()
    }

    /// Returns true if the agent is connected.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }
}

/// Passes events on until the receiver is dropped.
fn keep_following(first: UnixStream, path: &PathBuf, connected: &AtomicBool, events: &SyncSender<LinkEvent>) {
    let mut stream = Some(first);
    loop {
        if let Some(stream) = stream.take().or_else(|| UnixStream::connect(path).ok()) {
            connected.store(true, Ordering::Relaxed);
            // An error of the stream is the end of the agent, too.
            let _ = pass_on(stream, events);
            connected.store(false, Ordering::Relaxed);
            if [LinkEvent::Up, LinkEvent::Configured].into_iter().any(|event| events.send(event).is_err()) {
                return;
            }
        }
        thread::sleep(RETRY);
    }
}

fn pass_on(stream: UnixStream, events: &SyncSender<LinkEvent>) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    let mut line = Vec::new();
    while input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
        let message: CoverageMessage = serde_json::from_slice(&line)?;
        let event = message.event().ok_or(io::ErrorKind::InvalidData)?;
        events.send(event).map_err(io::Error::other)?;
        line.clear();
    }
    Ok(())
}

/// Events that wait for the loop; an agent that sends faster waits.
const WAITING: usize = 64;
const LONGEST_LINE: u64 = 4096;
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn events_arrive_and_the_link_counts_as_up_when_the_agent_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        assert!(CoverageSource::follow(&path).is_err(), "there is no agent");
        let listener = UnixListener::bind(&path).unwrap();
        let source = CoverageSource::follow(&path).unwrap();
        let (mut agent, _) = listener.accept().unwrap();
        let next = || source.events.recv_timeout(Duration::from_secs(20)).unwrap();
        let all = [
            CoverageMessage::Threshold { dbm: -95.0, hysteresis_db: 3.0 },
            CoverageMessage::Signal { dbm: -81.5 },
            CoverageMessage::Down,
        ];
        for message in all {
            writeln!(agent, "{}", serde_json::to_string(&message).unwrap()).unwrap();
            assert_eq!(next(), message.event().unwrap());
        }
        assert!(source.is_connected());
        assert_eq!(serde_json::to_string(&all[1]).unwrap(), r#"{"event":"signal","dbm":-81.5}"#);
        // A message that cannot be read ends the connection; the next one counts again.
        for wrong in ["{\"event\":\"left\"}\n", "{\"event\":\"threshold\",\"dbm\":-9,\"hysteresis_db\":-1}\n", ""] {
            agent.write_all(wrong.as_bytes()).unwrap();
            drop(agent);
            assert_eq!([next(), next()], [LinkEvent::Up, LinkEvent::Configured]);
            (agent, _) = listener.accept().unwrap();
        }
        writeln!(agent, "{{\"event\":\"down\"}}").unwrap();
        assert_eq!(next(), LinkEvent::Down);
    }
}
