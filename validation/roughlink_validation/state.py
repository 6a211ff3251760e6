"""State of this machine as sets of lines, to see what a command has changed."""

import ctypes
import os
import re
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from roughlink_validation.simulators import Failed

BPFFS = Path("/sys/fs/bpf")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
# Settings that change by themselves, or whenever any program on the machine registers an algorithm.
UNSTEADY = {"flush", "nf_conntrack_count", "tcp_available_congestion_control", "tcp_allowed_congestion_control"}


def within(namespace: str | None, work: Callable):
    """Runs `work` in a thread that has joined a namespace of `ip netns`."""
    if namespace is None:
        return work()
    done = []

    def joined() -> None:
        with open(f"/run/netns/{namespace}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
                raise OSError(ctypes.get_errno(), f"cannot join the namespace {namespace}")
        done.append(work())

    thread = threading.Thread(target=joined)
    thread.start()
    thread.join()
    if not done:
        raise Failed(f"cannot look into the namespace {namespace}")
    return done[0]


def settings() -> list[str]:
    """Returns the settings of the calling thread's network namespace."""
    found = []
    for folder, _, names in os.walk("/proc/sys/net"):
        for name in names:
            if name in UNSTEADY:
                continue
            try:
                descriptor = os.open(f"{folder}/{name}", os.O_RDONLY)
            except OSError:
                continue  # its device has been removed
            try:
                found.append(f"{folder[10:]}/{name} = {os.read(descriptor, 200).decode().strip()}")
            except OSError:
                pass  # a secret that is not set
            finally:
                os.close(descriptor)
    return found


def output(*words: str, text: str = "") -> list[str]:
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def network(namespace: str | None) -> set[str]:
    """Returns devices, addresses, routes, rules, neighbors, queue disciplines and settings."""
    at = ["-n", namespace] if namespace else []
    asked = "link show\naddr show\nroute show table all\nrule show\nneigh show nud permanent\n"
    lines = output("ip", *at, "-d", "-o", "-batch", "-", text=asked)
    lines += output("ip", *at, "-6", "-o", "-batch", "-", text="route show table all\nrule show\n")
    lines += output("tc", *at, "qdisc", "show")
    # Indices of devices and of links between namespaces are new each time.
    plain = [re.sub(r"^\d+: |(?<=@)if\d+|valid_lft \S+|expires \S+|\s+$", "", line) for line in lines]
    where = f"network of {namespace}" if namespace else "network"
    return {f"{where}: {line}" for line in [*plain, *within(namespace, settings)]}


def processes() -> set[str]:
    """Returns the processes and the namespaces that they hold, except for this process and its parent."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        place = f"/proc/{entry}"
        try:
            with open(f"{place}/stat") as file:
                state = file.read().rpartition(") ")[2][0]
            if state in "ZX":
                continue
            if int(entry) not in (1, os.getpid()):
                with open(f"{place}/cmdline") as file:
                    found.add(f"process {entry}: {file.read().replace(chr(0), ' ').strip()[:150]}")
            held = [f"{place}/ns/{kind}" for kind in ("net", "mnt", "pid", "user")]
            held += [f"{place}/fd/{fd}" for fd in os.listdir(f"{place}/fd")]
            links = [os.readlink(path) for path in held]
        except OSError:
            continue
        found |= {f"namespace: {to}" for to in links if re.match(r"(net|mnt|pid|user):\[", to)}
    return found


def mounts() -> set[str]:
    with open("/proc/self/mountinfo") as file:
        return {"mount: " + " ".join(line.split()[3:]) for line in file}


def files(*folders: Path) -> set[str]:
    found = set()
    for top in folders:
        for folder, inner, names in os.walk(top):
            for name in [*inner, *names]:
                path = os.path.join(folder, name)
                try:
                    is_empty = top != BPFFS and os.path.isfile(path) and not os.path.getsize(path)
                except OSError:
                    continue
                found.add(f"file: {path}{' (empty)' if is_empty else ''}")
    return found


def bpf(command: int, attributes: bytearray) -> int:
    numbers = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
    memory = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    return ctypes.CDLL(None).syscall(numbers[os.uname().machine], command, memory, len(attributes))


def held_algorithms() -> set[str]:
    """Returns the names in the kernel of all algorithms whose programs are still in memory, registered or not."""
    found, number = set(), 0
    next_id, by_id, info_of, lookup = 12, 14, 15, 1  # linux/bpf.h, enum bpf_cmd
    while True:
        attributes = bytearray(struct.pack("=IIQQ", number, 0, 0, 0))
        if bpf(next_id, attributes):
            return found
        number = struct.unpack_from("=I", attributes, 4)[0]
        descriptor = bpf(by_id, bytearray(struct.pack("=IIQQ", number, 0, 0, 0)))
        if descriptor < 0:
            continue
        info = ctypes.create_string_buffer(40)
        if not bpf(info_of, bytearray(struct.pack("=IIQQ", descriptor, 40, ctypes.addressof(info), 0))):
            size, name = struct.unpack_from("=I", info, 12)[0], info.raw[24:40].split(b"\0")[0]
            if name == b".rodata.name" and size < 4096:
                key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(size)
                places = struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
                if not bpf(lookup, bytearray(places)):
                    found.add(value.value.decode("ascii", "replace"))
        os.close(descriptor)


def machine() -> set[str]:
    """Returns the part of the machine's state that commands could reach from outside of the script's namespaces."""
    names = {f"registered: {name}" for name in AVAILABLE.read_text().split()}
    temporary = {f"file: {path}" for top in ("/tmp", "/var/tmp", "/dev/shm", "/run/netns")
                 for path in Path(top).glob("*roughlink*" if top != "/run/netns" else "*")}
    return names | temporary | network(None) | files(BPFFS) | {m for m in mounts() if "nsfs" in m or " bpf" in m}
