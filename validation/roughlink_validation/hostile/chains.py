"""Long chains of links, for commands with small stacks: nothing may recurse along a path."""

import random

from roughlink_validation.hostile.cases import Bounds, Case, document, network
from roughlink_validation.hostile.scenarios import EVENTS

# Sizes of the main thread's stack, bytes. The usual size in Linux is 8 MiB; `ulimit -s` changes it.
STACKS = [512 << 10, 1 << 20, 8 << 20]
CC = ["newreno", "cubic", "bbr", "htcp"]


def case(r: random.Random) -> Case:
    """Returns a case with a chain of up to 20,000 nodes."""
    n = r.choice([100, 1000, 5000, 20_000])
    nodes = [f"n{i}" for i in range(n)]
    tables = network(nodes, duration="60 s")
    kind = r.choices(["run", "check", "sweep", "compare"], [4, 1, 2, 2])[0]
    tables["flow"][0] |= {"bytes": "1 kB"}
    if kind in ("run", "check"):
        tables["flow"][0] = {"name": "f", "from": nodes[0], "to": nodes[-1]} | r.choice([
            {"kind": "bulk"},
            {"kind": "bulk", "bytes": "1 kB", "transport": "sctp"},
            {"kind": "cbr", "rate": "1 kbit/s", "packet": "100 B", "stop": "2 s"},
            {"kind": "voip", "stop": "100 ms"},
            {"kind": "request"},
        ])  # fmt: skip
    r.shuffle(tables["node"])
    match r.randrange(6):
        case 0:
            # A ring: the additional link is the shortest path, and the others carry nothing.
            tables["link"].append(tables["link"][0] | {"name": "last", "between": [nodes[-1], nodes[0]]})
        case 1:
            # A gap: the flow has no path.
            del tables["link"][r.randrange(len(tables["link"]))]
        case 2:
            tables["flow"] += [tables["flow"][0] | {"name": f"f{i}", "from": nodes[i % n]} for i in range(3)]
        case 3:
            tables["link"][0]["timeline"] = [{"at": "1 ms", "for": "1 ms", "up": False}]
        case 4:
            r.shuffle(tables["link"])
    arguments = {
        "run": ["run", "scenario.toml", "--max-events", str(EVENTS)],
        "check": ["scenario", "check", "scenario.toml"],
        "sweep": ["sweep", "scenario.toml", "--set", f"tcp.cc={','.join(r.sample(CC, 2))}", "--replicas", "1"],
        "compare": ["compare", "scenario.toml", "--cc", ",".join(r.sample(CC, 2)), "--replicas", "1"],
    }[kind]
    if kind in ("sweep", "compare"):
        arguments += ["-o", "out", "--jobs", r.choice(["1", "2"])]
    arguments += ["--json"] if r.random() < 0.5 else []
    bounds = Bounds(cpu_s=4.0 if kind in ("sweep", "compare") else 2.0, stack=r.choice(STACKS))
    return Case(kind, arguments, {"scenario.toml": document(tables).encode()}, bounds, places=("scenario", "flow `"))
