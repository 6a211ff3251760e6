"""Namespaces, programs in them, and tables: common parts of the experiments of field.py."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from roughlink_validation.simulators import Failed

WORK = Path("/run/field")


def sh(line: str) -> str:
    done = subprocess.run(line.split(), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{line}: {done.stderr.strip()}")
    return done.stdout


def host(name: str) -> None:
    """Creates a network namespace, in place of one with this name."""
    with contextlib.suppress(Failed):
        sh(f"ip netns del {name}")
    sh(f"ip netns add {name}")
    sh(f"ip -n {name} link set lo up")


def cable(a: str, device_a: str, b: str, device_b: str) -> None:
    """Connects devices of two namespaces. Packets are single segments, as on a wire."""
    sh(f"ip -n {a} link add {device_a} type veth peer name {device_b} netns {b}")
    for name, device in ((a, device_a), (b, device_b)):
        sh(f"ip -n {name} link set {device} addrgenmode none up gso_max_segs 1")


class Path2:
    """Two hosts `a` and `b`, and a machine `m` between them that routes or bridges."""

    def __init__(self, routes: bool):
        for name in "abm":
            host(name)
        for n, end in enumerate("ab", 1):
            sh(f"ip -n m link add to{end} type veth peer name eth0 netns {end}")
            sh(f"ip -n m link set to{end} up addrgenmode none")
            sh(f"ip -n {end} link set eth0 up addrgenmode none")
            if routes:
                sh(f"ip -n m addr add 10.9.{n}.1/24 dev to{end}")
                sh(f"ip -n {end} addr add 10.9.{n}.2/24 dev eth0")
                sh(f"ip -n {end} route add default via 10.9.{n}.1")
            else:
                sh(f"ip -n {end} addr add 10.9.0.{n}/24 dev eth0")
        self.address = "10.9.2.2" if routes else "10.9.0.2"
        if routes:
            sh("ip netns exec m sysctl -qw net.ipv4.ip_forward=1")


@contextlib.contextmanager
def program(namespace: str, words: list, ready: str | None = None):
    """Runs a program in a namespace until the end of the block; waits until it prints `ready`."""
    err = subprocess.PIPE if ready else subprocess.DEVNULL
    child = subprocess.Popen(["ip", "netns", "exec", namespace, *map(str, words)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=err, text=True)
    try:
        if ready:
            seen = []
            for line in child.stderr:
                seen.append(line)
                if ready in line:
                    break
            else:
                raise Failed(f"{words[0]} ended: {''.join(seen)}")
        else:
            time.sleep(0.3)
        yield child
    finally:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def cpu(child) -> float:
    """Returns the processor time of a program, s."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def table(heading: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [heading, ["---"] * len(heading), *rows])
