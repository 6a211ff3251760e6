#!/usr/bin/env python3
"""Kill, at random times, each command that changes the machine or a result folder, and check what is left.

A command first runs to its end three times, which gives its duration. The script then kills it (SIGKILL) N times, once
in each of N equal parts of the duration; the seed determines the times. After each kill the script checks:

1. No change remains, except for documented ones. A killed `cc load` may leave its folder of pins, for example.
2. The same command works afterward, with the same effect as without a kill. A documented cleanup may be necessary
   first, if the command names the cleanup: `roughlink cc unload NAME`, or a new result folder.
3. After this cleanup, the state is the same as before the command.

The state consists of processes, namespaces, mounts and files; of network devices, addresses, routes, rules, permanent
neighbors, queue disciplines and settings (/proc/sys/net); and of the BPF file system and loaded algorithms.

The script creates namespaces for processes, mounts and the network, and runs all commands there. The namespaces have
a separate BPF file system, default congestion control and temporary folder. The machine's files are read-only in them.
The kernel removes the namespaces when the script ends, also after Ctrl-C or `kill -9`. Only registrations of algorithms
are global; their names contain the script's process ID. The script also compares the machine before and after.

The table counts kills, runs that ended before their kill and were repeated, kills that left documented changes, and
cleanups. `waited` is the time until the kernel had also freed the programs of unloaded algorithms, which it keeps as
long as connections use them. `--only COMMAND --number N` repeats one kill.

The script needs root. Commands that load algorithms need a kernel that accepts them and `make kernel`. If something is
missing, the script names it and exits with code 3. The exit code is 5 if there are findings. Linux only.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.emulators import APART, NEEDED
from roughlink_validation.loading import algorithms
from roughlink_validation.simulators import Failed, Missing
from roughlink_validation.state import (
    AVAILABLE, BPFFS, files, held_algorithms, machine, mounts, network, processes, within,
)  # fmt: skip

WORK = Path("/run/kills")
HOSTS = ("car", "charger")
# Time in s that the kernel may take to remove what belonged to a killed process.
PATIENCE = 5.0
# Time in s after which the kernel has given up the connections of a killed process (tcp_orphan_retries).
PATIENCE_TCP = 300.0
# Time in s that the kernel may take to free resources after a run without a kill. The script cannot wait for a certain
# state then, since this run shows which changes last.
FREEING = 0.5
# Maximum number of starts for one kill, as the command may end before it.
ATTEMPTS = 20
# Time in s after which a command counts as hanging.
LONGEST = 60.0

# Private temporary folders and BPF file system; two hosts behind devices of this network namespace.
INSIDE = """set -e
mount -t tmpfs none /run
mkdir -p /run/netns /run/kills/tmp
touch /run/roughlink
mount --bind "$1" /run/roughlink
mount -t tmpfs none /dev/shm
mount -t bpf -o mode=0755 bpf /sys/fs/bpf
for folder in / /tmp /var /var/tmp /home /root; do
    if mountpoint -q $folder; then mount -o remount,bind,ro $folder; fi
done
ip link set lo up
n=1
for host in car charger; do
    ip netns add $host
    ip link add eth$n type veth peer name eth0 netns $host
    ip link set dev eth$n addrgenmode none up
    ip -n $host link set lo up
    ip -n $host link set dev eth0 addrgenmode none up
    ip -n $host addr add 192.168.7.$n/24 dev eth0
    n=$((n + 1))
done
shift
"$@"
"""

SCENARIO = """duration = "60 s"
node = [{ name = "server" }, { name = "car" }]
[[link]]
name = "plc"
between = ["server", "car"]
rate = "10 Mbit/s"
delay = "2 ms"
"""
SHORT = SCENARIO.replace("60 s", "3 s") + """noise = { kind = "random", loss = "1 %" }
[[flow]]
name = "download"
kind = "bulk"
from = "server"
to = "car"
bytes = "1 MB"
"""
# Processes that are hard to end: in the background and in a new session.
STUBBORN = "sleep 1000 & setsid sleep 1000 & "


# ---- Commands --------------------------------------------------------------------------------------------------------


@dataclass
class Command:
    """A command that changes the machine, or files in a folder."""

    name: str
    words: list[str] | Callable[[], list[str]]
    # Prepares the state before each run.
    prepare: Callable[[], None] = lambda: None
    # Removes all changes of a complete run.
    finish: Callable[[], None] = lambda: None
    # Output after which the command gets SIGINT.
    until: str = ""
    codes: tuple[int, ...] = (0,)
    # Regular expression of the documented leftovers of a kill.
    leaves: str = r"(?!)"
    # Cleans up as documented, so that the same command works again.
    clear: Callable[[], None] = lambda: None
    # Returns faults of the state after a kill.
    check: Callable[[], list[str]] = list
    # Returns a result that must not depend on an earlier kill.
    result: Callable[[], str] = str
    # True if the command may report that there is nothing left to do, with exit code 3.
    is_done: Callable[[], bool] = lambda: False
    needs_kernel: bool = False


@dataclass
class Done:
    code: int
    text: str
    seconds: float


class Bench:
    """The commands, and the processes in the background that some of them need."""

    def __init__(self, program: str, prefix: str) -> None:
        self.program, self.prefix = program, prefix
        self.background: list[subprocess.Popen] = []
        self.started: list[int] = []
        self.sockets: list[socket.socket] = []

    def start(self, words: list[str]) -> tuple[subprocess.Popen, int]:
        said = os.memfd_create("output")
        process = subprocess.Popen([self.program, *words], cwd=WORK, stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, start_new_session=True)
        if "kernel" in words:  # `reproduce` names algorithms after its process
            self.started.append(process.pid)
        return process, said

    def run(self, words: list[str], until: str = "", kill_at: float = LONGEST) -> Done:
        """Runs a command to its end, or kills it after a time; a killed command has the code -9."""
        begin, waiting = time.monotonic(), until.encode()
        process, said = self.start(words)
        while process.poll() is None and (left := begin + kill_at - time.monotonic()) > 0:
            if waiting and waiting in os.pread(said, 1 << 16, 0):
                process.send_signal(signal.SIGINT)
                waiting = b""
            time.sleep(min(left, 0.001))
        seconds = time.monotonic() - begin
        if process.poll() is None:
            process.kill()
        process.wait()
        text = os.pread(said, 1 << 16, 0).decode("utf-8", "replace")
        os.close(said)
        return Done(process.returncode, text, seconds)

    def complete(self, words: list[str], until: str = "") -> Done:
        """Runs a command to its end. Repeats it if the machine was too busy for an emulated link."""
        for _ in range(10):
            done = self.run(words, until)
            if done.code != 3 or "attempts failed" not in done.text:
                break
        return done

    def must(self, *words: str) -> str:
        done = self.run(list(words))
        if done.code:
            raise Failed(f"roughlink {' '.join(words)} ended with code {done.code}: {done.text.strip()[-500:]}")
        return done.text

    def start_emulation(self) -> subprocess.Popen:
        words = ["emulate", "pair.toml", "--kernel", "*", "--for", "600s", "--max-lateness", "100 s"]
        return self.start_background(words, "car: default")

    def start_background(self, words: list[str], ready: str) -> subprocess.Popen:
        process, said = self.start(words)
        self.background.append(process)
        begin = time.monotonic()
        while ready.encode() not in os.pread(said, 1 << 16, 0):
            if process.poll() is not None or time.monotonic() > begin + LONGEST:
                raise Failed(f"roughlink {' '.join(words)} did not start: {os.pread(said, 1 << 16, 0).decode()[-500:]}")
            time.sleep(0.002)
        os.close(said)
        return process

    def end_background(self) -> None:
        for process in self.background:
            process.kill()
            process.wait()
        self.background.clear()

    def state(self) -> set[str]:
        ours = re.compile("|".join([f"{self.prefix}.*", *(rf"r{pid}_\d+" for pid in self.started)]))
        names = {f"registered: {name}" for name in AVAILABLE.read_text().split() if ours.fullmatch(name)}
        names |= {f"in memory: {name}" for name in held_algorithms() if ours.fullmatch(name)}
        networks = set().union(*(network(at) for at in (None, *HOSTS)))
        found = processes() | mounts() | networks | names
        return found | files(BPFFS, Path("/run"), Path("/dev/shm"))

    # ---- The commands ------------------------------------------------------------------------------------------------

    def commands(self) -> list[Command]:
        return [*self.emulations(), *self.kernel(), *self.folders()]

    def emulations(self) -> list[Command]:
        late = ["--max-lateness", "100 s"]
        both = [word for node in HOSTS[:1] + ("server",) for word in
                ("--exec", node, "--", "sh", "-c", STUBBORN + "sleep 0.1")]
        between = ["--interface", "car=eth1", "--interface", "server=eth2"]
        out, capture = WORK / "out", WORK / "capture.pcapng"

        def remove_out() -> None:
            shutil.rmtree(out, ignore_errors=True)
            capture.unlink(missing_ok=True)

        def readable() -> list[str]:
            done = self.run(["report", "out"]) if out.exists() else Done(0, "", 0)
            (out / "report.html").unlink(missing_ok=True)
            return [] if done.code in (0, 2, 3) else [f"`report` ended with code {done.code}: {done.text[-300:]}"]

        def shell(*program: str) -> list[str]:
            return ["shell", "car", "--process", str(self.background[0].pid), "--", *program]

        def leftover() -> None:
            emulation = self.start_emulation()
            self.start_background(shell("sh", "-c", "echo ready; sleep 1000"), "ready")
            emulation.kill()
            emulation.wait()

        return [
            Command("emulate", ["emulate", "pair.toml", "--serve", "0", *late, *both]),
            Command("emulate -o", ["emulate", "pair.toml", "--layer", "ethernet", "--carrier", "-o", "out", *late,
                                   *both],
                    finish=remove_out, clear=remove_out, leaves=rf"\+ file: {out}", check=readable),
            Command("emulate --here", ["emulate", "pair.toml", "--here", "server", *late, *both[:7]]),
            Command("emulate --interface", ["emulate", "pair.toml", *between, "--for", "100ms", "--capture",
                                            "capture.pcapng", *late],
                    finish=remove_out, clear=remove_out, leaves=rf"\+ file: {capture}"),
            Command("link", ["link", "--rate", "10Mbit/s", "--delay", "2ms", *late, "--", "sh", "-c",
                             STUBBORN + "sleep 0.1"]),
            Command("link --between", ["link", "--between", "eth1,eth2", "--rate", "10Mbit/s", "--for", "100ms",
                                       *late]),
            Command("shell", lambda: shell("sh", "-c", STUBBORN + "sleep 0.1"), prepare=self.start_emulation,
                    finish=self.end_background),
            Command("doctor --clean", ["doctor", "--clean"], prepare=leftover, finish=self.end_background,
                    leaves=r"- (process|namespace)"),
        ]

    def kernel(self) -> list[Command]:
        name, other = f"{self.prefix}a", f"{self.prefix}b"
        load = ["cc", "load", "newreno-sc", "--as", name]
        pinned = [*load, "--default", "--pin"]
        everywhere = [*pinned, *(word for host in HOSTS for word in ("--netns", host))]
        folder = rf"\+ file: {BPFFS}/roughlink(/{self.prefix}.*)?$"
        default = r"[+-] network( of \w+)?: net/ipv4/tcp_congestion_control = "
        registered = rf"\+ registered: {self.prefix}"

        def unload() -> None:
            for loaded in (name, other):
                if Path(f"{BPFFS}/roughlink/{loaded}").exists():
                    self.must("cc", "unload", loaded)
            # The documentation says that this folder stays.
            with contextlib.suppress(FileNotFoundError):
                Path(f"{BPFFS}/roughlink").rmdir()

        def load_both() -> None:
            self.must(*everywhere)
            self.must("cc", "load", "illinois-aa", "--as", other, "--default", "--pin")

        def load_avoca() -> None:
            self.must("cc", "load", "avoca", "--as", name, "--pin")
            self.must("cc", "coverage", name, "off")
            within(HOSTS[1], connect)

        def connect() -> None:
            listener = socket.create_server(("192.168.7.2", 0))
            sender = socket.socket()
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            sender.connect(listener.getsockname())
            self.sockets += [listener, sender, listener.accept()[0]]

        def restarts() -> str:
            """Returns how often connections began with the algorithm, which includes restarts by new coverage."""
            counters = json.loads(self.must("cc", "stat", name, "--json"))["counters"]
            return f"{counters['opened']} connections opened"

        def disconnect() -> None:
            for each in self.sockets:
                each.close()
            self.sockets.clear()
            unload()

        def is_gone() -> bool:
            return not Path(f"{BPFFS}/roughlink/{name}").exists()

        # Unload the algorithm, or the rest of a killed load, before the next load.
        plain = dict(finish=unload, clear=unload, needs_kernel=True)
        removed = rf"- file: |- registered|{default}"
        kernel = ["reproduce", "v2g", "table2", "--stack", "kernel", "--quick", "--only", "cc=newreno", "--set",
                  "axis.bytes.values=100 kB", "--replicas", "1", "-o", "paper"]
        return [
            Command("cc load", load, until="to unload", codes=(-2,), leaves=folder, **plain),
            Command("cc load --default", [*load, "--default"], until="to unload", codes=(-2,),
                    leaves=f"{folder}|{default}", **plain),
            Command("cc load --pin", [*load, "--pin"], leaves=f"{folder}|{registered}", **plain),
            Command("cc load --default --pin", pinned, leaves=f"{folder}|{default}|{registered}", **plain),
            Command("cc load --netns", everywhere, leaves=f"{folder}|{default}|{registered}", **plain),
            Command("cc load --unit", [*pinned, "--unit"], needs_kernel=True),
            Command("cc unload", ["cc", "unload", name], prepare=lambda: self.must(*everywhere), finish=unload,
                    leaves=removed, is_done=is_gone, needs_kernel=True),
            Command("cc unload --all", ["cc", "unload", "--all"], prepare=load_both, finish=unload, leaves=removed,
                    needs_kernel=True),
            Command("cc coverage", ["cc", "coverage", name, "on"], prepare=load_avoca, finish=disconnect,
                    result=restarts, needs_kernel=True),
            Command("cc stat --follow", ["cc", "stat", name, "--follow", "--acks"], until="srtt ms", codes=(-2,),
                    prepare=lambda: self.must(*pinned), finish=unload, needs_kernel=True),
            Command("reproduce --stack kernel", kernel, finish=lambda: shutil.rmtree(WORK / "paper", True),
                    leaves=rf"\+ file: {WORK}/paper", needs_kernel=True),
        ]

    def folders(self) -> list[Command]:
        out, results = WORK / "out", WORK / "results"
        mine = rf"[+-] file: {WORK}/(\.?out|copy|results)"

        def remove() -> None:
            for path in (out, WORK / ".out.replaced", results):
                shutil.rmtree(path, ignore_errors=True)
            for path in WORK.glob("copy*"):
                path.unlink()

        def run_before() -> None:
            self.must("run", "short.toml", "-o", "out", "-q")

        def parts() -> None:
            for part in "12":
                self.must(*grid, "--part", f"{part}/2", "-o", f"results/{part}")

        def old_or_new() -> list[str]:
            return readable(out, "after a kill, the folder contains neither old nor new results")

        def readable(path: Path, message: str) -> list[str]:
            done = self.run(["report", str(path), "-o", str(WORK / "copy.html")])
            (WORK / "copy.html").unlink(missing_ok=True)
            return [f"{message}: {done.text[-300:]}"] if done.code else []

        def whole_copy() -> list[str]:
            done = self.run(["scenario", "check", "copy.toml"])
            return [f"the old scenario is lost and the new one incomplete: {done.text[-300:]}"] if done.code else []

        def digest(*names: str) -> Callable[[], str]:
            def read() -> str:
                return " ".join(hashlib.sha256((WORK / name).read_bytes()).hexdigest()[:12] for name in names)

            return read

        statistics_of_grid, of_run = digest("out/results.json"), digest("out/flows.parquet", "out/segments.csv")
        grid = ["sweep", "short.toml", "--set", "tcp.cc=newreno,cubic", "--replicas", "10", "-q"]
        both = ["compare", "short.toml", "--cc", "newreno,cubic", "--replicas", "10", "-q"]
        paper = ["reproduce", "v2g", "table2", "--quick", "--stack", "ns3", "--only", "cc=newreno", "--replicas", "1",
                 "--set", "axis.bytes.values=100 kB,1 MB", "-o", "out", "-q"]
        plain = dict(finish=remove, leaves=mine)
        return [
            Command("run -o", ["run", "short.toml", "-o", "out", "--force", "-q"], result=of_run, **plain),
            Command("run -o --force", ["run", "short.toml", "-o", "out", "--force", "-q", "--seed", "2"],
                    prepare=run_before, check=old_or_new, result=of_run, **plain),
            Command("sweep", [*grid, "-o", "out"], result=statistics_of_grid, **plain),
            Command("compare", [*both, "-o", "out"], result=statistics_of_grid, **plain),
            Command("merge", ["merge", "results/1", "results/2", "-o", "out"], prepare=parts,
                    result=statistics_of_grid, **plain),
            Command("report", ["report", "out"], prepare=run_before, result=digest("out/report.html"), **plain),
            Command("scenario copy", ["scenario", "copy", "hello", "copy.toml", "--force"],
                    prepare=lambda: self.must("scenario", "copy", "v2g-one-car", "copy.toml"), check=whole_copy,
                    result=digest("copy.toml"), **plain),
            Command("reproduce", paper, result=statistics_of_grid, **plain),
        ]


# ---- Kills -----------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    duration_ms: float = 0.0
    killed: int = 0
    # Time of the latest kill in s. On a busy machine it is later than planned.
    killed_at: float = 0.0
    ended: int = 0
    left: int = 0
    cleared: int = 0
    # Time in s until the kernel had removed the last leftovers.
    waited: float = 0.0
    findings: list[str] = field(default_factory=list)


def changes(before: set[str], after: set[str]) -> set[str]:
    return {f"- {line}" for line in before - after} | {f"+ {line}" for line in after - before}


def kinds(changed: set[str]) -> list[str]:
    """Returns changes without the numbers of processes and namespaces, which differ between runs."""
    return sorted(re.sub(r"\d+", "N", line) if re.match(r". (process|namespace)", line) else line for line in changed)


def without_memory(changed: set[str]) -> set[str]:
    """Leaves out programs in memory: the kernel frees them with their last connection, and late on a busy machine."""
    return {line for line in changed if "in memory: " not in line}


def lasting(bench: Bench, before: set[str], is_expected: Callable[[set[str]], bool]) -> set[str]:
    """Returns the changes since `before` as soon as `is_expected` accepts them, or after `PATIENCE`."""
    begin = time.monotonic()
    while True:
        changed = without_memory(changes(before, bench.state()))
        if is_expected(changed) or time.monotonic() > begin + PATIENCE:
            return changed
        time.sleep(0.02)


def shown(changed: set[str]) -> str:
    lines = sorted(changed)
    return "".join(f"\n    {line[:300]}" for line in lines[:12]) + (f"\n    and {n} more" if (n := len(lines) - 12) > 0
                                                                     else "")


def words_of(command: Command) -> list[str]:
    return command.words() if callable(command.words) else command.words


def undisturbed(bench: Bench, command: Command, base: set[str]) -> tuple[float, tuple[set[str], str]]:
    """Runs a command to its end; returns its duration in s, its lasting changes and its result."""
    command.prepare()
    prepared = settled(bench)
    done = bench.complete(words_of(command), command.until)
    if done.code not in command.codes:
        raise Failed(f"{command.name}: ended with code {done.code} without a kill: {done.text.strip()[-800:]}")
    time.sleep(FREEING)
    after = without_memory(changes(prepared, settled(bench)))
    result = command.result()
    command.finish()
    if changed := lasting(bench, base, lambda c: not c):
        raise Failed(f"{command.name}: without a kill, these changes remain:{shown(changed)}")
    return done.seconds, (after, result)


def settled(bench: Bench) -> set[str]:
    """Returns the state once processes no longer start or end."""
    last = processes()
    for _ in range(50):
        time.sleep(0.005)
        now = processes()
        if now == last:
            break
        last = now
    return bench.state()


def kill(bench: Bench, command: Command, moment: float, times: list[float], base: set[str],
         expected: tuple[set[str], str], tally: Tally) -> list[str]:
    """Kills a command after a share of its median duration and returns the faults.

    A command that ends earlier is started again, and its duration is added to `times`.
    """
    for attempt in range(ATTEMPTS):
        command.prepare()
        prepared = settled(bench)
        done = bench.run(words_of(command), command.until, moment * statistics.median(times))
        if done.code == -9:
            tally.killed += 1
            tally.killed_at = done.seconds
            break
        tally.ended += 1
        times.append(done.seconds)
        if done.code not in command.codes:
            return [f"ended with code {done.code}: {done.text.strip()[-500:]}"]
        if attempt < ATTEMPTS - 1:
            command.finish()
    faults = []
    documented = re.compile(command.leaves)
    left = lasting(bench, prepared, lambda c: all(documented.match(line) for line in c))
    tally.left += bool(left)
    if undocumented := {line for line in left if not documented.match(line)}:
        faults.append(f"left behind:{shown(undocumented)}")
    faults += command.check()
    faults += repeat(bench, command, prepared, expected, tally)
    command.finish()
    if changed := lasting(bench, base, lambda c: not c):
        faults.append(f"at the end, these changes remain:{shown(changed)}")
    return faults


def repeat(bench: Bench, command: Command, prepared: set[str], expected: tuple[set[str], str],
           tally: Tally) -> list[str]:
    """Repeats a killed command; returns the faults."""
    again = bench.complete(words_of(command), command.until)
    if again.code == 3 and command.is_done():
        return []
    if again.code in (2, 3):
        before = again
        command.clear()
        if changed := lasting(bench, prepared, lambda c: not c):
            return [f"cleaning up leaves:{shown(changed)}"]
        again = bench.complete(words_of(command), command.until)
        if again.code in command.codes:
            tally.cleared += 1
            # The message must say what to do.
            message = re.sub(r"\s+(│ +)?", " ", before.text)
            if not re.search(r"roughlink cc unload \w+|name (a new|another)", message):
                return [f"the refusal names no remedy: {message.strip()[-500:]}"]
    if again.code not in command.codes:
        return [f"the same command then ended with code {again.code}: {again.text.strip()[-500:]}"]
    wanted, result = expected
    changed = lasting(bench, prepared, lambda c: kinds(c) == kinds(wanted))
    if kinds(changed) != kinds(wanted):
        return [f"the same command then made other changes than without a kill:{shown(changed ^ wanted)}"]
    if (got := command.result()) != result:
        return [f"the same command then had another result than without a kill: {got} instead of {result}"]
    return []


def try_command(bench: Bench, command: Command, kills: int, seed: int, only: int | None) -> Tally:
    tally, times, r = Tally(), [], random.Random(f"{seed}:{command.name}")
    base = settled(bench)
    for _ in range(3):
        seconds, expected = undisturbed(bench, command, base)
        times.append(seconds)
    moments = [(number + r.random()) / kills for number in range(kills)]
    for number, moment in enumerate(moments):
        if only is not None and number != only:
            continue
        cli.progress(f"{command.name}: kill {number + 1} of {kills}")
        try:
            faults = kill(bench, command, moment, times, base, expected, tally)
        except Failed as failed:
            faults = [str(failed)]
        tally.duration_ms = 1000 * statistics.median(times)
        for fault in faults:
            when = f"after {1000 * tally.killed_at:.1f} of {tally.duration_ms:.0f} ms"
            text = f"{command.name}, kill {number} {when}: {fault}"
            tally.findings.append(text)
            cli.progress_end()
            print(text, flush=True)
        if faults:
            bench.end_background()
            base = without_memory(settled(bench))  # report later kills only for what they add
    begin = time.monotonic()
    while (changed := changes(base, bench.state())) and time.monotonic() < begin + PATIENCE_TCP:
        time.sleep(0.1)
    if changed:
        tally.findings.append(f"{command.name}: after {PATIENCE_TCP:.0f} s, these changes remain:{shown(changed)}")
        print(tally.findings[-1], flush=True)
    tally.waited = time.monotonic() - begin
    cli.progress_end()
    return tally


def inside(o) -> int:
    (WORK / "pair.toml").write_text(SCENARIO)
    (WORK / "short.toml").write_text(SHORT)
    bench = Bench("/run/roughlink", o.inside)
    chosen = [command for command in bench.commands() if not o.only or command.name in o.only]
    print(f"{'command':<26}{'duration, ms':>13}{'killed':>8}{'ended':>8}{'left':>6}{'cleaned':>9}"
          f"{'waited, s':>11}{'findings':>10}", flush=True)
    findings = 0
    for command in chosen:
        t = try_command(bench, command, o.kills, o.seed, o.number)
        print(f"{command.name:<26}{t.duration_ms:>13.0f}{t.killed:>8}{t.ended:>8}{t.left:>6}{t.cleared:>9}"
              f"{t.waited:>11.1f}{len(t.findings):>10}", flush=True)
        findings += len(t.findings)
    return cli.EXPECTATION if findings else 0


# ---- Outside ---------------------------------------------------------------------------------------------------------


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="kills of each command (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="COMMAND", help="names as in the table; quote names with options")
    parser.add_argument("--number", type=int, help="number of one kill to repeat")
    parser.add_argument("--inside", help="internal: prefix of names in the kernel")
    o = parser.parse_args()
    if o.kills < 1:
        parser.error("--kills must be at least 1")
    return o


def check_requirements(o, program: Path) -> None:
    if sys.platform != "linux" or os.geteuid():
        raise Missing("killing commands in namespaces needs Linux and root")
    for tool in (*NEEDED, "tc", "mount", "mountpoint"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is missing: install util-linux and iproute2")
    if not program.exists():
        raise Missing(f"cannot find roughlink at {program}\nhelp: run `make kernel`, or pass --roughlink PATH")
    all_commands = {command.name: command.needs_kernel for command in Bench("", "").commands()}
    if unknown := set(o.only or []) - set(all_commands):
        raise Failed(f"unknown command {', '.join(sorted(unknown))}; expected {', '.join(all_commands)}")
    if any(all_commands[name] for name in o.only or all_commands):
        algorithms(program)
        done = subprocess.run([program, "cc", "check"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"this machine cannot load algorithms into its kernel; choose other commands with --only\n"
                          f"{done.stdout}{done.stderr}".strip())


def main() -> int:
    o = options()
    if o.inside:
        return inside(o)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    program = o.roughlink.resolve()
    check_requirements(o, program)
    before = machine()
    words = [*APART, "sh", "-c", INSIDE, "sh", str(program), sys.executable, "-B", str(Path(__file__).resolve()),
             "--inside", f"k{os.getpid()}", *sys.argv[1:]]
    # In a new session, Ctrl-C reaches only this process, which ends the namespaces and then compares.
    process = subprocess.Popen(words, start_new_session=True, env=os.environ | {"TMPDIR": str(WORK / "tmp"),
                                                                                "HOME": str(WORK / "tmp")})
    try:
        code = process.wait()
    finally:
        process.kill()
        process.wait()
        begin = time.monotonic()
        while (changed := changes(before, machine())) and time.monotonic() < begin + PATIENCE:
            time.sleep(0.1)
        if changed:
            print(f"the machine changed, by this script or by other programs:{shown(changed)}", flush=True)
    return cli.EXPECTATION if changed and not code else code


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
