"""Linux's counters of processes and processors, and the files of numbers that validation/ends.c writes."""

import array
import os
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PROCESSORS = os.sysconf("SC_NPROCESSORS_ONLN")
CALLS = ("read", "recvfrom", "recvmsg", "pread64", "write", "writev", "sendto", "sendmsg", "poll", "ppoll",
         "epoll_wait", "timerfd_settime")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def numbers(file: Path) -> list[int]:
    values = array.array("Q")
    values.frombytes(file.read_bytes())
    return values.tolist()


@dataclass(frozen=True)
class Machine:
    """Cumulative processor time, s: by kind of use, and of the programs that this script started."""

    wall: float
    spent: dict[str, float]
    ours: float

    @classmethod
    def now(cls) -> "Machine":
        with open("/proc/stat") as stat:
            ticks = [int(n) for n in stat.readline().split()[1:]]
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(
            time.monotonic(), {name: n / TICK for name, n in zip(FIELDS, ticks)}, usage.ru_utime + usage.ru_stime
        )

    def since(self, start: "Machine") -> dict:
        """Returns shares of all processors: `steal` by the host of a virtual machine, `others` by other programs."""
        all_of_it = (self.wall - start.wall) * PROCESSORS
        spent = {name: self.spent[name] - start.spent[name] for name in FIELDS}
        busy = sum(spent[name] for name in ("user", "nice", "system", "irq", "softirq"))
        return {"steal": spent["steal"] / all_of_it, "others": max(0.0, busy - (self.ours - start.ours)) / all_of_it,
                "softirq": spent["softirq"] / all_of_it, "load": os.getloadavg()[0]}


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    program: str
    command: str


def tree(root: int) -> list[Process]:
    """Returns the descendants of a process."""
    everyone: dict[int, list[Process]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
                program = os.readlink(f"/proc/{entry}/exe")
                command = Path(f"/proc/{entry}/cmdline").read_text().replace("\0", " ")
            except (OSError, UnicodeDecodeError):
                continue
            found = Process(int(entry), int(stat.rpartition(")")[2].split()[1]), program, command)
            everyone.setdefault(found.parent, []).append(found)
    below, todo = [], [root]
    while todo:
        children = everyone.get(todo.pop(), [])
        below += children
        todo += [child.pid for child in children]
    return below


def processors(root: int, programs: tuple[str, ...], ends: str) -> dict[str, float]:
    """Returns the run time in s of these programs' threads so far, as counted by the scheduler.

    This includes work that the kernel did for others in their context, mainly softirqs, unless the kernel accounts for
    interrupts separately (CONFIG_IRQ_TIME_ACCOUNTING).
    """
    seen = {"ns": time.time_ns(), "emulator": 0.0, "ends": 0.0}
    for process in tree(root):
        who = "emulator" if process.program in programs else "ends" if process.program == ends else None
        if who:
            seen[who] += sum(ran(task) for task in Path(f"/proc/{process.pid}/task").glob("*"))
    return seen


def system_calls(root: int, programs: tuple[str, ...], seconds: float) -> dict[str, float]:
    """Counts the system calls of these programs' threads per second: `all`, and each of CALLS by its name.

    Returns nothing if there is no `perf`, or if it must not count. The counting slows down all system calls.
    """
    pids = [str(process.pid) for process in tree(root) if process.program in programs]
    events = ["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{name}" for name in CALLS)]
    command = ["perf", "stat", "-x,", *(word for event in events for word in ("-e", event)), "-p", ",".join(pids),
               "--", "sleep", str(seconds)]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    except (OSError, subprocess.CalledProcessError):
        time.sleep(seconds)
        return {}
    columns = [line.split(",") for line in lines]
    counts = {column[2].partition("sys_enter_")[2]: int(column[0]) / seconds for column in columns
              if len(column) > 2 and column[0].isdigit()}
    return {"all": counts.pop(""), **counts} if "" in counts else {}


def ran(task: Path) -> float:
    try:
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


def between(first: dict[str, float], last: dict[str, float]) -> dict[str, float]:
    """Returns the processor time used between two samples, and when they were taken (ns, wall clock)."""
    return {"from": first["ns"], "to": last["ns"]} | {who: last[who] - first[who] for who in ("emulator", "ends")}
