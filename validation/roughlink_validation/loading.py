"""Loading of roughlink's algorithms into the running kernel for the duration of a comparison."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from roughlink_validation.simulators import Failed, Missing

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def algorithms(roughlink: Path) -> list[str]:
    """Returns the algorithms that this roughlink provides for the kernel."""
    if not roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {roughlink}\n"
            "help: run `make kernel`, or pass --roughlink PATH"
        )
    if os.geteuid():
        raise Missing("loading algorithms into the kernel needs root")
    return [a["name"] for a in json.loads(said(roughlink, "list", "--kernel", "--json"))["available"]]


def said(roughlink: Path, *words: str) -> str:
    done = subprocess.run([roughlink, "cc", *words], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        raise Missing(done.stderr.strip())
    if done.returncode:
        raise Failed(f"roughlink cc {' '.join(words)} failed with code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def loaded(roughlink: Path, wanted: list[str]) -> Iterator[dict[str, tuple[str, int]]]:
    """Loads algorithms and yields, for each, a unique name in the kernel and the id of the process that holds it.

    The processes always end with this process and unload the algorithms.
    """
    with ExitStack() as stack:
        yield {
            cc: stack.enter_context(one(roughlink, cc, f"v{os.getpid()}_{number}")) for number, cc in enumerate(wanted)
        }


@contextmanager
def one(roughlink: Path, cc: str, name: str) -> Iterator[tuple[str, int]]:
    # Use a new session: Ctrl-C must reach only this program, which ends the connections first.
    words = ["setpriv", "--pdeathsig", "TERM", str(roughlink), "cc", "load", cc, "--as", name]
    loader = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        heard = ""
        while "to unload" not in heard:
            line = loader.stderr.readline()
            if not line:
                raise (Missing if loader.wait() == 3 else Failed)(
                    f"{cc} was not loaded into the kernel: {heard.strip()}"
                )
            heard += line
        yield name, loader.pid
    finally:
        loader.send_signal(signal.SIGTERM)
        try:
            loader.wait(timeout=10)
        except subprocess.TimeoutExpired:
            loader.kill()
            loader.wait()
        if name in AVAILABLE.read_text().split() or Path("/sys/fs/bpf/roughlink", name).exists():
            said(roughlink, "unload", name)
