//! `roughlink cc` with the kernel.

mod common;

use common::{code, roughlink, stderr};

/// A few short transfers of an experiment with algorithms of the kernel and of roughlink.
const ON_KERNEL: &[&str] = &[
    "reproduce",
    "v2g",
    "linux",
    "--stack",
    "kernel",
    "--only",
    "loss=1 %",
    "--only",
    "cc=cubic,newreno-sc",
    "--set",
    "flow.download.bytes=500 kB",
    "--replicas",
    "2",
    "-o",
    "out",
    "--json",
];

#[cfg(not(all(feature = "kernel", target_os = "linux")))]
#[test]
fn build_without_kernel_support_says_how_to_get_it() {
    for args in [
        &["cc", "load", "illinois-aa"][..],
        &["cc", "check"],
        &["cc", "list", "--kernel"],
        &["cc", "unload", "x"],
        ON_KERNEL,
    ] {
        let out = roughlink(args);
        assert_eq!(code(&out), 3, "{args:?}");
        assert!(stderr(&out).contains("make kernel"), "{}", stderr(&out));
    }
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod built_in {
    use super::common::{json, output, roughlink_in, stdout, with_default_signals};
    use super::*;
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Duration;

    /// Unique name of a test's algorithm, which is unloaded on drop, even if the test fails.
    struct Named(String);

    impl Named {
        /// Returns `None` with a message only if the machine lacks a requirement; a failure to load fails the test.
        fn new(test: &str) -> Option<Self> {
            let check = roughlink(&["cc", "check", "--json"]);
            let needs = json(&check);
            let lacks = |n: &&serde_json::Value| n["name"] != "load" && !n["fix"].is_null();
            if let Some(need) = needs.as_array().and_then(|all| all.iter().find(lacks)) {
                println!("skipped: {}: {}", need["name"], need["found"]);
                return None;
            }
            Some(Named(format!("t{}{test}", std::process::id())))
        }

        fn load(&self, more: &[&str]) -> Child {
            let mut command = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
            command.args(["cc", "load", "newreno-sc", "--as", &self.0]).args(more).env("NO_COLOR", "1");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built")
        }

        fn is_registered(&self) -> bool {
            let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("/proc");
            all.split_whitespace().any(|name| name == self.0)
        }

        /// Waits until the algorithm is registered, or until it no longer is.
        fn wait(&self, registered: bool) {
            let there = (0..1000).any(|_| {
                thread::sleep(Duration::from_millis(10));
                self.is_registered() == registered
            });
            assert!(there, "{} registered: {}", self.0, !registered);
        }

        fn folder(&self) -> String {
            format!("/sys/fs/bpf/roughlink/{}", self.0)
        }

        fn unload(&self) -> std::process::Output {
            roughlink(&["cc", "unload", &self.0])
        }
    }

    impl Drop for Named {
        fn drop(&mut self) {
            self.unload();
        }
    }

    fn kill(child: &Child, signal: &str) {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill").success());
    }

    /// A network namespace with a name, deleted on drop.
    struct Netns(String);

    impl Netns {
        fn new(test: &str) -> Option<Self> {
            let name = format!("rl{}{test}", std::process::id());
            if Command::new("ip").args(["netns", "add", &name]).status().is_ok_and(|s| s.success()) {
                return Some(Netns(name));
            }
            println!("skipped: no network namespace");
            None
        }

        fn default(&self) -> String {
            let args = ["netns", "exec", &self.0, "cat", "/proc/sys/net/ipv4/tcp_congestion_control"];
            stdout(&Command::new("ip").args(args).output().expect("ip")).trim().to_owned()
        }

        fn set_default(&self, name: &str) -> bool {
            let write = format!("echo {name} > /proc/sys/net/ipv4/tcp_congestion_control");
            Command::new("ip").args(["netns", "exec", &self.0, "sh", "-c", &write]).status().is_ok_and(|s| s.success())
        }
    }

    impl Drop for Netns {
        fn drop(&mut self) {
            let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
        }
    }

    #[test]
    fn algorithm_stays_loaded_until_ctrl_c() {
        let Some(name) = Named::new("a") else { return };
        let child = name.load(&[]);
        name.wait(true);
        let listed = json(&roughlink(&["cc", "list", "--kernel", "--json"]));
        let mine = listed["loaded"].as_array().expect("a list").iter().find(|l| l["name"] == name.0.as_str());
        assert_eq!(mine.expect("it is listed")["parameters"]["min_ssthresh"], 10);
        kill(&child, "-INT");
        let out = output(child);
        assert_eq!(out.status.signal(), Some(2), "{}", stderr(&out));
        assert!(stderr(&out).contains(&format!("unloaded `{}` after 0 connections", name.0)), "{}", stderr(&out));
        assert!(!name.is_registered());
        assert!(!Path::new(&name.folder()).exists());
    }

    #[test]
    fn unload_refuses_an_algorithm_with_a_live_loader() {
        let Some(name) = Named::new("d") else { return };
        let child = name.load(&[]);
        name.wait(true);
        let out = name.unload();
        assert_eq!(code(&out), 3);
        assert!(stderr(&out).contains(&format!("process {} holds", child.id())), "{}", stderr(&out));
        assert!(name.is_registered() && Path::new(&name.folder()).exists(), "nothing has changed");
        kill(&child, "-INT");
        assert_eq!(output(child).status.signal(), Some(2));
        assert!(!name.is_registered() && !Path::new(&name.folder()).exists());
    }

    #[test]
    fn separate_mount_namespace_cannot_pin() {
        let Some(name) = Named::new("e") else { return };
        // As in `ip netns exec`, /sys belongs to another network namespace and has no BPF file system.
        let words = ["--net", "--mount", "sh", "-c", "mount -t sysfs sysfs /sys && exec \"$@\"", "sh"];
        let mut command = Command::new("unshare");
        command
            .args(words)
            .arg(env!("CARGO_BIN_EXE_roughlink"))
            .args(["cc", "load", "newreno", "--pin", "--as", &name.0]);
        let out = command.env("NO_COLOR", "1").output().expect("unshare");
        assert_eq!(code(&out), 3, "{}", stderr(&out));
        let message = stderr(&out).replace(['\n', '│'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains("load the algorithm outside, with --netns NAME"), "{message}");
        name.wait(false);
    }

    #[test]
    fn unload_removes_what_a_killed_loader_leaves() {
        let Some(name) = Named::new("b") else { return };
        let child = name.load(&[]);
        name.wait(true);
        kill(&child, "-KILL");
        drop(output(child));
        name.wait(false);
        assert!(Path::new(&name.folder()).exists(), "the maps are pinned");
        let listed = stdout(&roughlink(&["cc", "list", "--kernel"]));
        assert!(listed.contains("loader was killed"), "{listed}");
        let again = name.load(&[]);
        let out = output(again);
        assert_eq!(code(&out), 3);
        assert!(stderr(&out).contains("roughlink cc unload"), "{}", stderr(&out));
        assert_eq!(code(&name.unload()), 0);
        assert!(!Path::new(&name.folder()).exists());
        assert_eq!(code(&name.unload()), 3, "nothing is left");
    }

    #[test]
    fn pinned_default_of_a_namespace_outlives_its_loader() {
        let Some(name) = Named::new("c") else { return };
        let Some(netns) = Netns::new("c") else { return };
        let out = output(name.load(&["--netns", &netns.0, "--default", "--pin", "--param", "min_ssthresh=20"]));
        assert_eq!(code(&out), 0, "{}", stderr(&out));
        assert_eq!(netns.default(), name.0);
        let unit = stdout(&roughlink(&["cc", "load", "illinois", "--as", &name.0, "--unit"]));
        assert!(unit.contains(&name.0), "it may replace what roughlink has loaded: {unit}");
        let stat = stdout(&roughlink(&["cc", "stat", &name.0]));
        assert!(stat.contains("min_ssthresh = 20") && stat.contains("connections: 0 opened"), "{stat}");
        let out = name.unload();
        assert!(stderr(&out).contains(&format!("{} is now `{}`", netns.0, netns.default())), "{}", stderr(&out));
        assert_ne!(netns.default(), name.0);
        assert!(!name.is_registered());
    }

    #[test]
    fn failed_default_unloads_what_was_loaded() {
        let Some(name) = Named::new("undo") else { return };
        let Some(netns) = Netns::new("undo") else { return };
        let before = netns.default();
        // The default cannot be written, as in a container that protects /proc/sys.
        let script = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_roughlink"), "cc", "load", "newreno"]);
        command.args(["--as", &name.0, "--netns", &netns.0, "--default", "--pin"]).env("NO_COLOR", "1");
        let out = command.output().expect("unshare");
        assert_eq!(code(&out), 3, "{}", stderr(&out));
        assert!(stderr(&out).contains("Read-only file system"), "{}", stderr(&out));
        assert!(!name.is_registered() && !Path::new(&name.folder()).exists());
        assert_eq!(netns.default(), before);
    }

    #[test]
    fn unload_restores_the_first_default_in_any_order() {
        let (Some(first), Some(second)) = (Named::new("f"), Named::new("g")) else { return };
        let Some(netns) = Netns::new("f") else { return };
        let own = ["reno", "cubic"].into_iter().find(|own| netns.set_default(own)).expect("the kernel has one of them");
        for last in [&first, &second] {
            for name in [&first, &second] {
                let out = output(name.load(&["--netns", &netns.0, "--default", "--pin"]));
                assert_eq!(code(&out), 0, "{}", stderr(&out));
            }
            let (begin, between) = if last.0 == first.0 { (&second, &first.0) } else { (&first, &second.0) };
            assert_eq!(code(&begin.unload()), 0);
            assert_eq!(netns.default(), *between);
            assert_eq!(code(&last.unload()), 0);
            assert_eq!(netns.default(), own);
        }
    }

    #[test]
    fn following_ends_when_the_algorithm_is_unloaded() {
        let Some(name) = Named::new("h") else { return };
        assert_eq!(code(&output(name.load(&["--pin"]))), 0);
        let mut command = with_default_signals(env!("CARGO_BIN_EXE_roughlink"));
        command.args(["cc", "stat", &name.0, "--follow"]).env("NO_COLOR", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        let mut heading = [0; 10];
        child.stdout.as_mut().expect("piped").read_exact(&mut heading).expect("it follows");
        thread::sleep(Duration::from_millis(300));
        assert_eq!(code(&name.unload()), 0);
        let out = output(child);
        assert_eq!(code(&out), 3);
        assert!(stderr(&out).contains("was unloaded"), "{}", stderr(&out));
    }

    #[test]
    fn bad_input_is_rejected_before_loading() {
        for (args, code_, text) in [
            (&["foo"][..], 2, "roughlink has no kernel program for `foo`"),
            (&["illinios"], 2, "did you mean `illinois`?"),
            (&["newreno-nd"], 2, "quickack 1"),
            (&["illinois", "--param", "alpha_max=x"], 2, "invalid value `x` of `alpha_max`"),
            (&["illinois", "--param", "alpha_max"], 2, "not a setting"),
            (&["illinois", "--param", "alpha_max=-1"], 2, "must be finite and at least"),
            (&["illinois", "--param", "alpha_max=1e9"], 2, "must be between 0 and"),
            (&["illinois", "--param", "alpha=1"], 2, "unknown parameter `alpha`"),
            (&["illinois", "--param", "whole_credit=true"], 2, "cannot be set in the kernel"),
            (&["illinois", "--as", "a-b"], 2, "only letters, digits"),
            (&["illinois", "--as", "sixteencharacter"], 2, "longer than"),
            (&["illinois", "--netns", "x"], 2, "--default"),
            (&["illinois", "--default", "--netns", "there/is/none"], 3, "network namespace"),
        ] {
            let out = roughlink(&[&["cc", "load"], args].concat());
            assert_eq!(code(&out), code_, "{args:?}: {}", stderr(&out));
            assert!(stderr(&out).contains(text), "{args:?}: {}", stderr(&out));
        }
        for command in ["stat", "unload"] {
            let out = roughlink(&["cc", command, "cubic"]);
            assert_eq!(code(&out), 3);
            assert!(stderr(&out).contains("roughlink has not loaded `cubic`"), "{}", stderr(&out));
        }
    }

    #[test]
    fn systemd_unit_repeats_the_command_line() {
        let args = ["cc", "load", "newreno-sc", "--param", "min_ssthresh=20", "--default", "--unit"];
        let out = stdout(&roughlink(&args));
        assert!(out.contains("cc load newreno-sc --param min_ssthresh=20 --default --pin\n"), "{out}");
        assert!(out.contains("cc unload newreno_sc\n"), "{out}");
        let out = stdout(&roughlink(&["cc", "load", "newreno-sc", "--default", "--netns", "there/it/is", "--unit"]));
        assert!(out.contains("--netns /") && out.contains("/there/it/is --pin\n"), "{out}");
        // A line break in an argument makes no new line of the unit.
        let name = "a\nExecStartPre=/bin/false\r%i$x\"\\";
        let out = stdout(&roughlink(&["cc", "load", "newreno-sc", "--default", "--netns", name, "--unit"]));
        assert!(out.lines().all(|line| !line.starts_with("ExecStartPre")), "{out}");
        assert!(out.contains("/a\\x0aExecStartPre=/bin/false\\x0d%%i$$x\\\"\\\\\" --pin\n"), "{out}");
        let out = roughlink(&["cc", "load", "newreno-sc", "--as", "reno", "--unit"]);
        assert_eq!(code(&out), 3, "{}", stderr(&out));
        assert!(stderr(&out).contains("already has an algorithm `reno`"), "{}", stderr(&out));
    }

    /// Returns true if the kernel has an algorithm of runs whose process has ended; other tests may be running.
    fn has_leftovers() -> bool {
        let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("/proc");
        let process = |name: &str| Some(name.strip_prefix('r')?.split_once('_')?.0.to_owned());
        let ended =
            |process: String| process.parse::<u32>().is_ok() && !Path::new(&format!("/proc/{process}")).exists();
        all.split_whitespace().filter_map(process).any(ended)
    }

    #[test]
    fn paper_is_judged_on_the_kernel_too() {
        if Named::new("p").is_none() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let first = roughlink_in(ON_KERNEL, folder.path());
        if code(&first) == 3 && stderr(&first).contains("TUN") {
            println!("skipped: {}", stderr(&first));
            return;
        }
        assert_eq!(code(&first), 0, "{}", stderr(&first));
        let result = json(&first);
        assert_eq!(result["stacks"], serde_json::json!(["linux", "kernel"]));
        let about = result["about"].as_str().expect("a text");
        assert!(about.contains("On `kernel`, TCP of Linux ") && about.contains("2 runs of each cell"), "{about}");
        assert!(!about.contains("10 MB"), "the command line has the last word: {about}");
        let cells = result["cells"].as_array().expect("cells");
        let of = |stack: &str, cc: &str| {
            let mut found = cells.iter().filter(|c| c["stack"] == stack && c["axes"]["cc"] == cc);
            found.next().unwrap_or_else(|| panic!("{cc} on {stack}: {cells:?}"))
        };
        for cc in ["cubic", "newreno-sc"] {
            let (linux, kernel) = (of("linux", cc), of("kernel", cc));
            for cell in [linux, kernel] {
                assert_eq!(cell["samples"].as_array().expect("samples").len(), 2, "{cell}");
                assert!((0.1..10.0).contains(&cell["measured"].as_f64().expect("a value")), "{cell}");
            }
            assert_ne!(linux["measured"], kernel["measured"], "one is a simulation");
        }
        // The kernel removes the algorithms soon after the process has ended.
        let gone = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            !has_leftovers()
        });
        assert!(gone, "they are out of the kernel");
        // Repeating the command measures nothing: new runs would give other values.
        let again = roughlink_in(ON_KERNEL, folder.path());
        assert_eq!(json(&again)["cells"], result["cells"]);
    }

    #[test]
    fn only_supported_experiments_run_on_the_kernel() {
        let out = roughlink(&["reproduce", "wave", "fig4", "--stack", "kernel"]);
        assert_eq!(code(&out), 2, "{}", stderr(&out));
        assert!(stderr(&out).contains("--stack kernel: the selection from `"), "{}", stderr(&out));
    }
}
