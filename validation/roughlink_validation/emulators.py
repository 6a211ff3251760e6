"""Emulators that peers.py compares, and runs of them with programs outside and inside a path.

Every run has new namespaces for processes, mounts and the network. The kernel removes them when their first process
ends, and that process ends with this one. Therefore nothing remains: no device, address, rule, process or mount.
"""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from roughlink_validation import machine
from roughlink_validation.simulators import Failed, Missing, parse

# The ends get normal priority; otherwise they would inherit the emulator's real-time priority.
ORDINARY = "chrt -o 0 sh"
# Mahimahi refuses to run as root.
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
NEEDED = ("unshare", "nsenter", "setpriv", "chrt", "ip")
APART = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
         "--mount-proc"]
# A private /run, which also holds named network namespaces.
PREPARE = "set -e\nip link set lo up\nmount -t tmpfs none /run\nmkdir /run/netns\n"


@dataclass(frozen=True)
class Link:
    """Properties of each direction of a path."""

    delay_ms: int = 0
    rate_mbit: float | None = None
    loss: float = 0.0


QUEUE = 1000  # packets, on links with a rate


@dataclass(frozen=True)
class Emulator:
    """An emulator. `peer` is the environment variable with the outside address for the program inside."""

    name: str
    program: str
    peer: str
    version: str
    fifo: bool = False

    def script(self, link: Link, folder: Path) -> str:
        raise NotImplementedError

    def programs(self) -> tuple[str, ...]:
        """Returns the programs whose processor time counts as the emulator's."""
        return (self.program,)

    def settled(self, stdout: str) -> dict:
        """Returns the emulator's own report of a run."""
        return {}

    @property
    def delays(self) -> bool:
        """True if the emulator can delay packets."""
        return True

    @property
    def first(self) -> str:
        return "chrt -f 1 " if self.fifo else ""


class Roughlink(Emulator):
    """roughlink, which requests SCHED_FIFO itself."""

    def script(self, link: Link, folder: Path) -> str:
        keys = [f'rate = "{link.rate_mbit or 100_000} Mbit/s"', f'delay = "{link.delay_ms} ms"',
                f'queue = "{QUEUE if link.rate_mbit else 10_000} pkt"']
        if link.loss:
            keys.append(f'noise = {{ kind = "random", loss = "{link.loss * 100} %" }}')
        scenario = folder / "path.toml"
        scenario.write_text('duration = "600 s"\nnode = [{ name = "outside" }, { name = "inside" }]\n'
                            '[[link]]\nname = "path"\nbetween = ["outside", "inside"]\n' + "\n".join(keys) + "\n")
        rights = "" if self.fifo else "setpriv --bounding-set -sys_nice prlimit --rtprio=0 "
        return (f"{rights}{self.program} emulate {scenario} --json --max-lateness '100 s'"
                f" --exec outside -- {ORDINARY} {folder}/outside --exec inside -- {ORDINARY} {folder}/inside\n")

    def settled(self, stdout: str) -> dict:
        result = parse("roughlink", stdout)
        late = result["lateness_us"]
        return {"lateness_us": late, "overruns": result["overruns"], "real_time": result["real_time"],
                "loop_ran": result["loop_ran_s"] / result["wall_s"],
                "loop_waited": result["loop_waited_s"] / result["wall_s"]}


@dataclass(frozen=True)
class Rattan(Emulator):
    """Rattan with only the cells that a path needs; without cells, packets go from one device to the other."""

    threads: int = 1

    def script(self, link: Link, folder: Path) -> str:
        text, cells = ['[env]\nmode = "Isolated"\n'], []
        for way in ("up", "down"):
            chain = []
            if link.loss:
                chain.append((f"{way}_loss", f'type = "Loss"\npattern = [{link.loss}]\n'))
            if link.rate_mbit:
                chain.append(
                    (
                        f"{way}_rate",
                        f'type = "Bw"\nqueue = "DropTail"\nqueue_config = {{ packet_limit = {QUEUE} }}\n'
                        f'bandwidth = "{link.rate_mbit * 1000:g}Kbps"\n',
                    )
                )
            if link.delay_ms:
                chain.append((f"{way}_delay", f'type = "Delay"\ndelay = "{link.delay_ms}ms"\n'))
            cells.append(chain)
        text += [f"[cells.{name}]\n{keys}" for chain in cells for name, keys in chain]
        text.append("[links]\n")
        for chain, (start, end) in zip(cells, (("left", "right"), ("right", "left"))):
            names = [start, *(name for name, _ in chain), end]
            text += [f'{a} = "{b}"\n' for a, b in zip(names, names[1:])]
        text.append(f"[resource]\ncpu = {list(range(self.threads))}\n")
        commands = {"left": "inside", "right": "outside"}
        text.append(
            "[commands]\n"
            + "".join(f'{side} = {[*ORDINARY.split(), str(folder / end)]}\n' for side, end in commands.items())
        )
        (folder / "path.toml").write_text("".join(text).replace("'", '"'))
        # Rattan locks addresses in /tmp/rattan; give each run a separate one.
        return (f"mkdir -p /tmp/rattan\nmount -t tmpfs none /tmp/rattan\n"
                f"{self.first}{self.program} run -c {folder}/path.toml --left-stderr --right-stderr\n")


class Mahimahi(Emulator):
    """Mahimahi: nested shells, one for each effect. A rate is a list of milliseconds in which a packet may leave."""

    def programs(self) -> tuple[str, ...]:
        return tuple(str(Path(self.program) / name) for name in ("mm-delay", "mm-link", "mm-loss"))

    def script(self, link: Link, folder: Path) -> str:
        delay, rate, loss = self.programs()
        shells = [f"{delay} {link.delay_ms}"] if link.delay_ms or not (link.rate_mbit or link.loss) else []
        if link.rate_mbit:
            trace = folder / "path.trace"
            trace.write_text("".join(f"{ms}\n" for ms in opportunities(link.rate_mbit)))
            queue = " ".join(f"--{way}link-queue=droptail --{way}link-queue-args=packets={QUEUE}"
                             for way in ("up", "down"))
            shells.append(f"{rate} {trace} {trace} {queue} --")
        if link.loss:
            shells.append(f"{loss} uplink {link.loss}")
        # A nested shell needs IP forwarding in its namespace, which normally comes from the machine's setting. Enable
        # forwarding in the namespace only.
        (folder / "between").write_text(
            f"echo $$ > {folder}/pid\n"
            "until [ $(cat /proc/sys/net/ipv4/ip_forward) = 1 ]; do sleep 0.01; done\nexec \"$@\"\n"
        )
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        nested = (f"(until [ -s {folder}/pid ]; do sleep 0.01; done; "
                  f"nsenter --net=/proc/$(cat {folder}/pid)/ns/net sh -c '{forward}') &\n" if len(shells) > 1 else "")
        # Mahimahi requires a name server but never queries it.
        return (f"echo nameserver 127.0.0.1 > /run/resolv.conf\nmount --bind /run/resolv.conf /etc/resolv.conf\n"
                f"{forward}\n{nested}{ORDINARY} {folder}/outside &\n"
                f"{self.first}{NOBODY} {f' sh {folder}/between '.join(shells)} {ORDINARY} {folder}/inside\nwait\n")


class Veth(Emulator):
    """A plain pair of virtual Ethernet devices: the baseline cost of the ends and the kernel.

    Segments are as long as packets (`gso_max_segs`), as with the other emulators.
    """

    def script(self, link: Link, folder: Path) -> str:
        lines = [
            "ip netns add inside",
            "ip link add out type veth peer name in netns inside",
            "ip addr add 10.9.0.1/24 dev out",
            "ip -n inside addr add 10.9.0.2/24 dev in",
            "ip -n inside link set lo up",
            "ip link set out up gso_max_segs 1",
            "ip -n inside link set in up gso_max_segs 1",
            *self.effects(link),
            f"{ORDINARY} {folder}/outside &",
            f"{self.peer}=10.9.0.1 ip netns exec inside {ORDINARY} {folder}/inside",
            "wait",
        ]
        return "\n".join(lines) + "\n"

    @property
    def delays(self) -> bool:
        return False

    def effects(self, link: Link) -> list[str]:
        return []

    def programs(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Copier(Emulator):
    """The program of validation/copier.c between TUN devices, which copies packets without any effect."""

    joined: bool = False

    def script(self, link: Link, folder: Path) -> str:
        lines = [
            "set -e",
            "ip netns add inside",
            "ip link set inside0 netns inside",
            "ip link set outside0 up txqueuelen 5000",
            "ip addr add 10.9.0.1 peer 10.9.0.2 dev outside0",
            "ip -n inside link set inside0 up txqueuelen 5000",
            "ip -n inside addr add 10.9.0.2 peer 10.9.0.1 dev inside0",
            f"{ORDINARY} {folder}/outside &",
            f"{self.peer}=10.9.0.1 ip netns exec inside {ORDINARY} {folder}/inside",
            "wait",
        ]
        (folder / "setup").write_text("\n".join(lines) + "\n")
        return f"{self.first}{self.program} {'--joined ' if self.joined else ''}{folder}/setup\n"

    @property
    def delays(self) -> bool:
        return False


@dataclass(frozen=True)
class Netem(Veth):
    """The same devices with netem at both; the Ethernet header is excluded (-14)."""

    seed: str = ""

    @property
    def delays(self) -> bool:
        return True

    def effects(self, link: Link) -> list[str]:
        words = f"limit {QUEUE if link.rate_mbit else 100_000}"
        words += f" delay {link.delay_ms}ms" if link.delay_ms else ""
        words += f" rate {link.rate_mbit * 1000:g}kbit -14" if link.rate_mbit else ""
        words += f" loss random {link.loss * 100}%{self.seed}" if link.loss else ""
        return [f"tc qdisc add dev out root netem {words}", f"tc -n inside qdisc add dev in root netem {words}"]


def opportunities(rate_mbit: float) -> list[int]:
    """Returns the shortest list of whole milliseconds in which packets of 1500 B leave at exactly this rate."""
    for length in range(1, 60_001):
        packets = rate_mbit * length / 12
        if packets >= 1 and abs(packets - round(packets)) < 1e-9:
            return [max(1, round(n * 12 / rate_mbit)) for n in range(1, round(packets) + 1)]
    raise Failed(f"no trace of less than a minute has {rate_mbit} Mbit/s")


def found(roughlink: Path, rattan: str, mahimahi: str, built: dict[str, str]) -> tuple[list[Emulator], list[str]]:
    """Returns the available emulators, and the reasons why others are missing."""
    for tool in NEEDED:
        if not shutil.which(tool):
            raise Missing(f"{tool} is missing: install util-linux and iproute2")
    if os.geteuid():
        raise Missing("starting the emulators in namespaces needs root")
    if not roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {roughlink}\n"
            "help: run `cargo build --release`, or pass --roughlink PATH"
        )
    kernel = "Linux " + os.uname().release
    here: list[Emulator] = [Veth("veth", "", "PEER", kernel)]
    absent = []
    netem = "ip link add a type veth peer name b\ntc qdisc add dev a root netem loss random 1%"
    if succeeds(netem):
        here.append(Netem("netem", "", "PEER", kernel, seed=" seed 1" if succeeds(netem + " seed 1") else ""))
    else:
        absent.append("netem: this kernel has none (CONFIG_NET_SCH_NETEM), or there is no tc")
    ours = str(roughlink.resolve())
    version = said(ours, "--version")
    here += [Roughlink("roughlink", ours, "ROUGHLINK_OUTSIDE", version, fifo=True),
             Roughlink("roughlink, ordinary priority", ours, "ROUGHLINK_OUTSIDE", version)]
    if program := shutil.which(rattan):
        program = str(Path(program).resolve())
        version = " ".join([said(program, "--version"), built.get("rattan", "")]).strip()
        here += [Rattan("Rattan", program, "RATTAN_BASE", version),
                 Rattan("Rattan, two threads", program, "RATTAN_BASE", version, threads=2),
                 Rattan("Rattan, SCHED_FIFO", program, "RATTAN_BASE", version, fifo=True)]
    else:
        absent.append("Rattan: no program at --rattan; the crate is `rattan`, 0.1.1 was tried")
    folder = (
        Path(mahimahi).resolve() if mahimahi else Path(shutil.which("mm-delay") or "/nowhere/mm-delay").resolve().parent
    )
    needed = Mahimahi("Mahimahi", str(folder), "MAHIMAHI_BASE", built.get("mahimahi", "version not stated"))
    if all(os.access(program, os.X_OK) for program in needed.programs()):
        here += [needed, Mahimahi("Mahimahi, SCHED_FIFO", needed.program, needed.peer, needed.version, fifo=True)]
    else:
        absent.append(
            "Mahimahi: mm-delay, mm-link and mm-loss are not in PATH or in --mahimahi; 0.98 was tried, setuid root; "
            "it needs iptables and dnsmasq"
        )
    return here, absent


def said(*command: str) -> str:
    return " ".join(subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()[:2])


def succeeds(script: str) -> bool:
    return not subprocess.run([*APART, "sh", "-ec", script], capture_output=True, check=False).returncode


@dataclass
class Run:
    """Output of a run: numbers by end program, processor times and state of the machine, and the one-way delay."""

    way_ms: float = 0.0
    saw: dict[str, list[int]] = field(default_factory=dict)
    settled: dict = field(default_factory=dict)
    machine: dict = field(default_factory=dict)
    cpu: dict = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)


def run(emulator: Emulator, link: Link, outside: list[str], inside: list[str], folder: Path, ends: Path,
        seconds: float, count: bool = False) -> Run:
    """Runs programs of `ends` at both ends, each given as its arguments.

    `OUT` stands for the output file, which is named after the program's mode. The processor time of the emulator and
    the ends is measured in the middle of the run. With `count`, the emulator's system calls are counted meanwhile,
    which takes processor time, too.
    """
    for stale in folder.iterdir():
        stale.unlink()
    for name, programs in (("outside", outside), ("inside", inside)):
        lines = [f"{ends} {words.replace('OUT', str(folder / (words.split()[0] + '.out')))}" for words in programs]
        (folder / name).write_text(f"PEER=${emulator.peer}\n" + "".join(f"{line} &\n" for line in lines[:-1])
                                   + f"{lines[-1]}\nwait\n")
    (folder / "run").write_text(PREPARE + emulator.script(link, folder))
    for name in ("outside", "inside", "run"):
        (folder / name).chmod(0o755)
    start, done = machine.Machine.now(), Run(link.delay_ms if emulator.delays else 0.0)
    with open(folder / "stdout", "w+") as stdout, open(folder / "stderr", "w+") as stderr:
        process = subprocess.Popen([*APART, "sh", str(folder / "run")], stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=stderr, start_new_session=True)
        try:
            file = folder / f"{inside[-1].split()[0]}.out"
            done.cpu, done.calls = watch(process, emulator.programs(), (ends, file), seconds, count)
            process.wait(timeout=seconds + 20)
        except subprocess.TimeoutExpired:
            raise Failed(f"{emulator.name} did not end in time") from None
        finally:
            process.kill()
            process.wait()
        stdout.seek(0)
        stderr.seek(0)
        text, problem = stdout.read(), stderr.read().strip()
    done.machine = machine.Machine.now().since(start)
    if process.returncode:
        raise Failed(f"{emulator.name} failed with code {process.returncode}: {problem[-1500:] or 'no message'}")
    done.settled = emulator.settled(text)
    for file in folder.glob("*.out"):
        done.saw[file.stem] = machine.numbers(file)
    return done


def watch(process: subprocess.Popen, programs: tuple[str, ...], ends: tuple[Path, Path], seconds: float,
          count: bool) -> tuple[dict, dict[str, float]]:
    """Returns the processor time in s of the emulator and the ends in the middle of the run, and the emulator's system
    calls per second if `count` is set.

    The measurement starts half a second after the last program of the ends has created its file.
    """
    program, file = ends
    begin = time.monotonic()
    while not file.exists() and process.poll() is None and time.monotonic() < begin + 15:
        time.sleep(0.01)
    time.sleep(0.5)
    middle, calls = max(0.1, seconds - 1.2), {}
    first = machine.processors(process.pid, programs, str(program))
    if count:
        calls = machine.system_calls(process.pid, programs, middle)
    else:
        time.sleep(middle)
    return machine.between(first, machine.processors(process.pid, programs, str(program))), calls
