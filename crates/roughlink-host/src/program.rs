//! Programs at the nodes: started, watched, ended.

use crate::emulation::Running;
use crate::error::HostError;
use crate::inside::JOIN;
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

/// How this program starts itself again, to call [`crate::inside::main`] with the words that follow.
#[derive(Clone, Debug)]
pub struct Launcher(OsString);

impl Launcher {
    /// `command` is the hidden command of this program that does so.
    pub fn new(command: impl Into<OsString>) -> Self {
        Launcher(command.into())
    }

    pub(crate) fn command(&self) -> Command {
        // The program itself, also if its file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("roughlink").arg(&self.0);
        command
    }
}

/// Where a program's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// To ours, and its input is ours.
    Ours,
    /// Line by line to our standard output or error, each line after the node's name.
    Prefixed,
    /// The same, all to our standard error.
    PrefixedError,
}

/// Where a program's output goes, too. An error is the writer's business.
pub type Sink = Box<dyn Write + Send>;

/// A program at a node.
#[derive(Debug)]
pub struct Program {
    /// The node.
    pub node: String,
    /// The command.
    pub words: Vec<OsString>,
    child: Child,
    readers: Vec<JoinHandle<()>>,
    code: Option<u8>,
    /// It was told to end.
    stopped: bool,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its node.
    pub node: String,
    /// The command.
    pub command: String,
    /// Its exit code; 128 and the number of the signal that ended it; 126 and 127 if it could not be started.
    pub code: u8,
    /// It was told to end, so that the code does not count.
    pub stopped: bool,
}

impl Program {
    /// Starts a command at a node of a list ([`crate::Emulation::directory`]). It ends with the calling thread, if not before. The lines of
    /// its standard output and error, unless they are ours, go to `copies`, too.
    ///
    /// # Errors
    /// This program cannot be started again.
    pub fn start(
        launcher: &Launcher,
        (node, directory): (&str, &Path),
        words: &[OsString],
        output: Output,
        copies: [Option<Sink>; 2],
    ) -> Result<Self, HostError> {
        let mut command = launcher.command();
        command.arg(JOIN).arg(std::process::id().to_string()).arg(directory).arg(node).args(words);
        if output != Output::Ours {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(HostError::of("start this program again"))?;
        let prefix = format!("{node}| ").into_bytes();
        let [to_out, to_err] = copies;
        let is_error = output == Output::PrefixedError;
        let out = child.stdout.take().map(|pipe| reader(pipe, prefix.clone(), is_error, to_out));
        let err = child.stderr.take().map(|pipe| reader(pipe, prefix, true, to_err));
        let readers = [out, err].into_iter().flatten().collect();
        Ok(Program { node: node.to_owned(), words: words.to_vec(), child, readers, code: None, stopped: false })
    }

    /// Its exit code, once it has ended; nothing of it runs any more then.
    pub fn code(&mut self) -> Option<u8> {
        if self.code.is_none() {
            // A child that cannot be waited for is none any more.
            self.code = match self.child.try_wait() {
                Ok(status) => status.map(code),
                Err(_) => Some(u8::MAX),
            };
        }
        self.code
    }

    /// Waits for its end; once `told` is set, it is told to end.
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

    /// Tells it to end.
    fn stop(&mut self) {
        if self.code().is_none() {
            self.stopped = true;
            // Not waited for yet, so the number is still its own.
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

/// As shells count it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(1) as u8
}

/// Copies lines, each after a prefix; and without it, if that is wanted.
fn reader(pipe: impl Read + Send + 'static, prefix: Vec<u8>, to_error: bool, mut copy: Option<Sink>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = prefix.clone();
        while matches!((&mut pipe).take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(n) if n > 0) {
            if !line.ends_with(b"\n") {
                line.push(b'\n');
            }
            // Whoever reads our output may be gone.
            let _ = copy.as_mut().map(|copy| copy.write_all(&line[prefix.len()..]));
            let _ = if to_error { io::stderr().write_all(&line) } else { io::stdout().write_all(&line) };
            line.truncate(prefix.len());
        }
    })
}

/// Why nobody waits for the programs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attended {
    /// All have ended, or the one that was waited for.
    Ended,
    /// One ended with a failure.
    Failed,
    /// The emulation ended before them.
    Over,
    /// Somebody said so.
    Interrupted,
    /// What was to be kept of it could not be written.
    Unwritten,
}

/// Waits until all programs have ended, or the one at node `until`, or one has failed, or the emulation is over, or `stopped` says
/// why; then the others are told to end, and after a while ended. Without programs the emulation alone is waited for.
pub fn attend<O>(
    running: &Running<O>,
    mut programs: Vec<Program>,
    until: Option<&OsStr>,
    stopped: impl Fn() -> Option<Attended>,
) -> (Attended, Vec<Ended>) {
    let why = loop {
        let codes: Vec<Option<u8>> = programs.iter_mut().map(Program::code).collect();
        let is_last = |p: &Program| until.is_some_and(|node| node == &*p.node);
        let last = programs.iter().zip(&codes).any(|(p, code)| code.is_some() && is_last(p));
        // Ctrl-C ends the programs, too: that is no failure of theirs.
        if let Some(why) = stopped() {
            break why;
        }
        if codes.iter().flatten().any(|code| *code != 0) {
            thread::sleep(TICK);
            break stopped().unwrap_or(Attended::Failed);
        }
        if last || !codes.is_empty() && codes.iter().all(Option::is_some) {
            break Attended::Ended;
        }
        if running.is_over() {
            break Attended::Over;
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

/// How often it is looked whether a program has ended.
const TICK: Duration = Duration::from_millis(10);
/// Time for a program to end when it is told to.
const GRACE: Duration = Duration::from_secs(2);
/// Longer lines are divided.
const LONGEST_LINE: u64 = 8192;
