//! `roughlink link` in a terminal: the foreground process group, and Ctrl-C. `script` creates the terminal. Without it,
//! or without the necessary rights, the tests are skipped with a message.

#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "what is said in a terminal is not an output")]
mod common;

use common::emulated::can_emulate;
use common::with_default_signals;
use roughlink_host::Namespace;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Command line in a new terminal, in a namespace that stands for a machine.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    said: Receiver<Vec<u8>>,
    all: String,
    _machine: Namespace,
}

impl Terminal {
    /// Runs `words` in a new terminal; `LINK` in them stands for a link command up to its program.
    fn new(words: &str) -> Option<Self> {
        let link = format!("{} link --rate 10Mbit/s --quiet --max-lateness 100s --", env!("CARGO_BIN_EXE_roughlink"));
        let machine = can_emulate().then(Namespace::new);
        let (Some(Ok(machine)), Ok(_)) = (machine, Command::new("script").arg("--version").output()) else {
            eprintln!("skipped: no rights, or no `script`");
            return None;
        };
        let mut script = with_default_signals("script");
        script.args(["-qec", &words.replace("LINK", &link), "/dev/null"]).env("SHELL", "/bin/bash");
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = machine.within(|| script.spawn().unwrap()).unwrap();
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, said) = channel();
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(n) = out.read(&mut part)
                && n > 0
                && sender.send(part[..n].to_vec()).is_ok()
            {}
        });
        Some(Terminal { child, keys, said, all: String::new(), _machine: machine })
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the output contains `what`; returns false if the output ends before.
    fn says(&mut self, what: &str) -> bool {
        while !self.all.contains(what) {
            match self.said.recv_timeout(Duration::from_secs(60)) {
                Ok(part) => self.all += &String::from_utf8_lossy(&part),
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("neither ends nor says {what:?}: {}", self.all),
            }
        }
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Closing the terminal ends all programs in it (SIGHUP).
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn program_becomes_the_foreground_process_group() {
    let Some(mut terminal) = Terminal::new("LINK cut -d ' ' -f 5,8 /proc/self/stat") else { return };
    assert!(!terminal.says("nothing"));
    let groups: Vec<&str> = terminal.all.split_whitespace().collect();
    assert!(matches!(groups[..], [own, foreground] if own == foreground && own != "0"), "{}", terminal.all);
}

/// A pager at the end of a pipeline reads the terminal while the program runs.
#[test]
fn other_programs_of_a_pipeline_keep_the_terminal() {
    let pager = "{ read -r page; echo \"$page\"; read -r typed < /dev/tty; echo \"typed $typed\"; }";
    let Some(mut terminal) = Terminal::new(&format!("LINK sh -c 'echo a page; sleep 1000' | {pager}")) else { return };
    assert!(terminal.says("a page"), "{}", terminal.all);
    terminal.press("q\n");
    assert!(terminal.says("typed q"), "{}", terminal.all);
    // Both programs use the terminal, so Ctrl-C ends both.
    terminal.press("\x03");
    assert!(!terminal.says("nothing"));
}

/// Ctrl-C ends the program and the script around the link, unless the program handles the signal.
#[test]
fn ctrl_c_ends_the_program_and_its_script() {
    for (program, goes_on) in [
        // Not a shell, which may miss input while it starts a command.
        ("sed -u s/go/ready/", false),
        ("LINK sed -u s/go/ready/", false),
        ("bash -c 'trap \"exit 130\" INT; echo ready; while :; do sleep 0.1; done'", true),
    ] {
        let Some(mut terminal) = Terminal::new(&format!("LINK {program}; echo went on after $?")) else { return };
        terminal.press("go\n");
        assert!(terminal.says("ready"), "{}", terminal.all);
        terminal.press("\x03");
        assert_eq!(terminal.says("went on after 130"), goes_on, "{program}: {}", terminal.all);
    }
}
