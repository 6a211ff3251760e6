//! Programs at the nodes: start, supervision and end.

use crate::emulation::Running;
use crate::error::HostError;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Command that starts this program again and calls [`crate::inside::main`] with further arguments.
#[derive(Clone, Debug)]
pub struct Launcher(OsString);

impl Launcher {
    /// Creates a launcher; `command` is the hidden command of this program that calls [`crate::inside::main`].
    pub fn new(command: impl Into<OsString>) -> Self {
        Launcher(command.into())
    }

    pub(crate) fn command(&self) -> Command {
        // /proc/self/exe is this program even if its file has been replaced.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("roughlink").arg(&self.0);
        command
    }
}

/// Destination of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard streams of this process, including the input.
    Ours,
    /// Standard output and error of this process, line by line, each with the node's name as a prefix.
    Prefixed,
    /// Standard error of this process for both streams, with the same prefix.
    PrefixedError,
}

/// Additional destination of a program's output; write errors are ignored.
pub type OutputSink = Box<dyn Write + Send>;

/// Running program at a node.
#[derive(Debug)]
pub struct Program {
    /// Name of the node.
    pub node: String,
    /// Command line.
    pub words: Vec<OsString>,
    child: Child,
    readers: Vec<JoinHandle<()>>,
    code: Option<u8>,
    stopped: bool,
}

/// Result of a program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Name of the node.
    pub node: String,
    /// Command line.
    pub command: String,
    /// Exit code: 128 plus the number of the signal that ended the program; 126 or 127 if it could not be started.
    pub code: u8,
    /// True after a request to end, in which case the code does not count.
    pub stopped: bool,
}

impl Program {
    /// Starts a command at a node of a list ([`crate::Emulation::directory`]). The program ends with the calling thread
    /// at the latest. Writes the lines of its standard output and error to `copies`, too, unless they are inherited.
    ///
    /// # Errors
    /// Returns an error if this program cannot be started again.
    pub fn start(
        launcher: &Launcher,
        (node, directory): (&str, &Path),
        words: &[OsString],
        output: Output,
        copies: [Option<OutputSink>; 2],
    ) -> Result<Self, HostError> {
        let mut command = launcher.command();
        command.arg(JOIN).arg(std::process::id().to_string()).arg(directory).arg(node).args(words);
        if output != Output::Ours {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(HostError::io("re-execute this program"))?;
        let prefix = format!("{node}| ").into_bytes();
        let [to_out, to_err] = copies;
        let is_error = output == Output::PrefixedError;
        let out = child.stdout.take().map(|pipe| reader(pipe, prefix.clone(), is_error, to_out));
        let err = child.stderr.take().map(|pipe| reader(pipe, prefix, true, to_err));
        let readers = [out, err].into_iter().flatten().collect();
        Ok(Program { node: node.to_owned(), words: words.to_vec(), child, readers, code: None, stopped: false })
    }

    /// Returns the exit code once the program and all its processes have ended.
    pub fn code(&mut self) -> Option<u8> {
        if self.code.is_none() {
            // Count a child that cannot be waited for as ended.
            self.code = match self.child.try_wait() {
                Ok(status) => status.map(code),
                Err(_) => Some(u8::MAX),
            };
        }
        self.code
    }

    /// Waits for the end of the program; requests it once `told` is set.
    pub fn wait(&mut self, told: &AtomicBool) -> u8 {
        loop {
            if let Some(code) = self.code() {
                return code;
            }
            if told.load(Ordering::Relaxed) && !self.stopped {
                self.stop();
            }
            thread::sleep(TICK);
        }
    }

    fn stop(&mut self) {
        if self.code().is_none() {
            self.stopped = true;
            // The child has not been waited for yet, so its number is still valid.
            let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        }
    }

    fn ended(mut self) -> Ended {
        if self.code().is_none() {
            let _ = self.child.kill();
            self.code = self.child.wait().ok().map(code);
        }
        for reader in self.readers {
            let _ = reader.join();
        }
        let words: Vec<_> = self.words.iter().map(|w| w.to_string_lossy()).collect();
        Ended { node: self.node, command: words.join(" "), code: self.code.unwrap_or(u8::MAX), stopped: self.stopped }
    }
}

/// Returns the exit code as shells compute it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(1) as u8
}

/// Copies lines to an output with a prefix, and to `copy` without it.
fn reader(
    pipe: impl Read + Send + 'static,
    prefix: Vec<u8>,
    to_error: bool,
    mut copy: Option<OutputSink>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = prefix.clone();
        while matches!((&mut pipe).take(MAX_LINE_LEN).read_until(b'\n', &mut line), Ok(n) if n > 0) {
            if !line.ends_with(b"\n") {
                line.push(b'\n');
            }
            // Ignore errors: the reader of our output may have ended.
            let _ = copy.as_mut().map(|copy| copy.write_all(&line[prefix.len()..]));
            let _ = if to_error { io::stderr().write_all(&line) } else { io::stdout().write_all(&line) };
            line.truncate(prefix.len());
        }
    })
}

/// Reason for the end of [`attend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// End of all programs, or of the one at node `until`.
    Ended,
    /// Failure of a program.
    Failed,
    /// End of the emulation.
    Over,
    /// Interruption by a signal.
    Interrupted,
    /// Failure to write the results.
    Unwritten,
}

/// Waits until all programs have ended, the one at node `until` has ended, one has failed, the emulation is over, or
/// `stopped` returns a reason. Then requests the end of the other programs, and kills them after 2 s. Without programs
/// waits only for the emulation.
pub fn attend<O>(
    running: &Running<O>,
    mut programs: Vec<Program>,
    until: Option<&OsStr>,
    stopped: impl Fn() -> Option<EndReason>,
) -> (EndReason, Vec<Ended>) {
    let why = loop {
        let codes: Vec<Option<u8>> = programs.iter_mut().map(Program::code).collect();
        let is_last = |p: &Program| until.is_some_and(|node| node == &*p.node);
        let last = programs.iter().zip(&codes).any(|(p, code)| code.is_some() && is_last(p));
        // Ctrl-C ends the programs, too: do not count this as a failure.
        if let Some(why) = stopped() {
            break why;
        }
        if codes.iter().flatten().any(|code| *code != 0) {
            thread::sleep(TICK);
            break stopped().unwrap_or(EndReason::Failed);
        }
        if last || !codes.is_empty() && codes.iter().all(Option::is_some) {
            break EndReason::Ended;
        }
        if running.is_over() {
            break EndReason::Over;
        }
        thread::sleep(TICK);
    };
    programs.iter_mut().for_each(Program::stop);
    for _ in 0..(GRACE.as_millis() / TICK.as_millis()) {
        if programs.iter_mut().all(|p| p.code().is_some()) {
            break;
        }
        thread::sleep(TICK);
    }
    (why, programs.into_iter().map(Program::ended).collect())
}

/// Stage of [`crate::inside::main`] that joins the namespace of a node.
pub(crate) const JOIN: &str = "join";
/// Interval between two checks whether a program has ended.
const TICK: Duration = Duration::from_millis(10);
/// Time for a program to end after the request.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum length of a line, bytes; longer ones are split.
const MAX_LINE_LEN: u64 = 8192;
