"""Keys and options for the kernel: `interface`, `kernel`, `layer`, `--interface` and `--netns`.

The commands change nothing, even as root: `run` and `scenario check` ignore the keys, `cc load --unit` prints a text,
and `emulate` fails because no case names a network device that exists.
"""

import os
import random

from roughlink_validation.hostile.cases import TEXTS, Bounds, Case, Special, document, network
from roughlink_validation.hostile.scenarios import EVENTS

# Paths in place of that of a network namespace. Some of these files have no end.
PLACES = ["./fifo", "./folder", "./file", "./socket", "./loop", "./missing", "./sparse", "/dev/zero", "/dev/null",
          "/dev/tty", "/dev/random", "/proc/self/ns/net", "/proc/self/ns/mnt", "/proc/self/ns/user", "/proc/self/mem",
          "/proc/self/fd/0", "/proc/kmsg", "/", "//", ".", "..", "", "missing", "../../dev/zero", "/run/netns/",
          "/proc/1/ns/net", "/etc/passwd", "x" * 5000, "./fifo/x", "/proc/self/root/dev/zero"]  # fmt: skip
FILES = {"fifo": Special.FIFO, "folder": Special.FOLDER, "file": b"x", "socket": Special.SOCKET, "loop": Special.LOOP,
         "sparse": Special.SPARSE}  # fmt: skip


def case(r: random.Random) -> Case:
    kind = r.choices(["run", "check", "emulate", "unit"], [2, 2, 4, 1])[0]
    if kind == "unit":
        return unit(r)
    tables = network([f"n{i}" for i in range(r.randrange(2, 5))])
    options: list[str] = []
    for node in tables["node"]:
        if kind == "emulate":
            # A device at each node: none of them exists, so the first attachment fails.
            if r.random() < 0.3:
                options += ["--interface", f"{node['name']}={device(r)}"]
            else:
                node["interface"] = device(r)
        elif r.random() < 0.7:
            node["interface"] = r.choice([device(r), device(r), *TEXTS, 1, [], True])
        if r.random() < 0.3:
            node["kernel"] = r.choice([True] * 5 + [False] * 5 + ["true", 1])
        if r.random() < 0.3:
            node["layer"] = r.choice(["ethernet"] * 9 + ["ip", "", 2])
    arguments = {
        "run": ["run", "scenario.toml", "--max-events", str(EVENTS)],
        "check": ["scenario", "check", "scenario.toml"],
        "emulate": ["emulate", "scenario.toml", "--for", "1 s", *options],
    }[kind]
    if kind == "emulate":
        arguments += r.choice([[], ["--carrier"], ["--layer", "ethernet"], ["-o", "out"], ["--capture", "out.pcapng"]])
    arguments += ["--json"] if r.random() < 0.5 else []
    codes = (2, 3) if kind == "emulate" else (0, 2)
    places = ("namespace", "interface", "device", "scenario")
    return Case(kind, [word.replace("\0", "") for word in arguments],
                {"scenario.toml": document(tables).encode("utf-8", "replace"), **FILES}, Bounds(), codes=codes,
                places=places)  # fmt: skip


def device(r: random.Random) -> str:
    """Returns a name of a network device that does not exist, most often in a namespace that does not exist."""
    name = r.choice(["rl-none", "rl-none", "rl" + r.choice(TEXTS), "rl" + "x" * 300])
    place = r.choice([f"{r.choice(PLACES)}/", f"{r.choice(PLACES)}/", f"{r.choice(TEXTS)}/", ""])
    # The device is the part after the last slash.
    if (place + name).rsplit("/")[-1] in ("", *os.listdir("/sys/class/net")):
        return "./missing/rl-none"
    return place + name


def unit(r: random.Random) -> Case:
    """Returns a case that prints a systemd unit, to which no name may add a line."""
    names = [r.choice([*PLACES, *TEXTS, "a\nExecStart=/bin/false", "%i %n ${HOME} \\x41", "a b'c\"d"])
             for _ in range(r.choice([1, 1, 2, 50]))]  # fmt: skip
    arguments = ["cc", "load", "newreno-sc", "--default", "--pin", "--unit"]
    arguments += [word for name in names for word in ("--netns", name.replace("\0", ""))]
    # A program without algorithms for the kernel reports that the machine lacks them.
    return Case("unit", arguments, dict(FILES), Bounds(), codes=(0, 2, 3), places=("--netns", "namespace", "kernel"))
