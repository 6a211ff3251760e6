"""Hostile result folders: valid folders that the program made, with changes, for `report`, `merge` and Python."""

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from roughlink_validation.hostile.cases import FAR, TEXTS, Bounds, Case, Special, document, network
from roughlink_validation.hostile.checksum import signed

# A report renders charts, and Python starts with each case.
BOUNDS = Bounds(cpu_s=4.0)
Files = dict[str, object]

# Files that only emulations have, in place of `links.parquet`. They are invented, since an emulation may need root.
EMULATION = {
    "emulation.json": {"version": "0.1.0", "revision": "0", "command": "roughlink emulate s.toml", "kernel": "6.18.0"},
    "links.csv": "time_ns,link,direction,up,queue_pkt,dropped_pkt,lost_pkt,sent_pkt,sent_bytes,rate_mbps,delay_ms,loss",
    "conversations.csv": "time_ns,protocol,from,to,delivered_bytes,in_flight_pkt,lost_pkt,retransmits,srtt_ms",
    "lateness.csv": "time_ns,p50_us,p99_us,max_us,over_1ms",
}
LATENESS = {"p50": 20.5, "p99": 80.0, "max": 1500.0, "over_1ms": 0.001}
DIRECTION = {"sent": {"packets": 90, "bytes": 90000}, "received": {"packets": 89, "bytes": 89000}, "in_flight": 1,
             "lost": 0, "delivered_bytes": 85000, "throughput_mbps": 1.5, "retransmits": 2, "srtt_ms": 3.1,
             "cc": "cubic", "paced": False}  # fmt: skip
OUTCOME = {
    "lateness_us": LATENESS, "waited_us": LATENESS, "run_delay_us": None, "max_lateness_ms": 1.0, "faults": [],
    "ended": "duration", "overruns": 0, "refused": 0, "programs": [],
    "conversations": [{"protocol": "TCP", "from": "n0:5001", "to": "n2:40000", "start_s": 0.1, "end_s": 1.9,
                       "forward": DIRECTION, "reverse": DIRECTION | {"cc": None}}],
    "frames": [{"protocol": "ARP", "from": "n0", "to": "n2", "sent": 3, "delivered": 2}],
    "changes": [{"link": "l0", "at": "500 ms", "direction": "forward", "up": False, "rate": "2 Mbit/s",
                 "delay": "3 ms", "noise": {"kind": "random", "loss": "1 %"}}],
}  # fmt: skip
# Parts of `results.json` that only papers have.
PAPER = {
    "summary": {"conclusion": "As published.", "picture": "sweep-scenario",
                "linux": {"experiment": "sweep-scenario", "axis": "tcp.cc", "metric": "", "lowest": False,
                          "shipped": [], "note": "A note."}},
    "claims": [{"claim": "a/b", "text": "It is faster.", "place": "Figure 1", "published": 2.0, "unit": "ratio",
                "criterion": "from 1 to 3", "experiments": ["sweep-scenario"],
                "verdicts": [{"stack": "", "verdict": "confirmed", "measured": 2.1, "interval": [2.0, 2.2],
                              "evidence": "2.1", "reason": ""}]}],
}  # fmt: skip
CURVE = {"stack": "", "axes": {"tcp.cc": "cubic"}, "label": "CUBIC", "metric": "throughput_mbps", "replica": 0,
         "x": [0.0, 0.5, 1.0, 1.5], "y": [1.0, None, 2.0, 3.0]}  # fmt: skip
RANK = {"stack": "", "at": {}, "over": "tcp.cc", "metric": "throughput_mbps", "spearman": 0.5, "n": 2}


def templates(program: Path, folder: Path) -> dict[str, Files]:
    """Makes valid result folders. Returns the files of each."""
    tables = network(["n0", "n1", "n2"], duration="1 s")
    tables["link"][0] |= {"timeline": [{"at": "500 ms", "for": "100 ms", "up": False}],
                          "noise": {"kind": "random", "loss": "1 %"}}  # fmt: skip
    tables["flow"] = [
        {"name": "f", "kind": "bulk", "from": "n0", "to": "n2", "bytes": "60 kB"},
        {"name": "call", "kind": "voip", "from": "n0", "to": "n2"},
    ]
    (folder / "scenario.toml").write_text(document(tables))
    grid = ["scenario.toml", "--set", "tcp.cc=newreno,cubic", "--replicas", "2", "--jobs", "1"]
    commands = {
        "run": ["run", "scenario.toml", "--set", "seed=7"],
        "sweep": ["sweep", *grid],
        "part1": ["sweep", *grid, "--part", "1/2"],
        "part2": ["sweep", *grid, "--part", "2/2"],
        "compare": ["compare", "scenario.toml", "--cc", "newreno,cubic", "--replicas", "6", "--jobs", "1"],
    }
    made: dict[str, Files] = {}
    for name, words in commands.items():
        subprocess.run([program, *words, "-o", name, "--quiet"], cwd=folder, check=True, capture_output=True)
        names = (path for path in sorted((folder / name).iterdir()) if path.name not in ("report.html", "runs.lock"))
        made[name] = {path.name: timeless(path.name, path.read_bytes()) for path in names}
    made["emulation"] = emulation(made["run"])
    results = json.loads(made["sweep"]["results.json"])
    results["experiments"][0] |= {"curves": [CURVE], "ranks": [RANK]}
    made["paper"] = {"results.json": encoded(results | PAPER)}
    return made


def timeless(name: str, text: bytes) -> bytes:
    """Removes the times of measurement from a file, so that a seed always makes the same files."""
    if name == "runs.jsonl":
        lines = text.splitlines(keepends=True)
        return b"".join(signed(timeless("", unsigned(line))) if b'"check"' in line else line for line in lines)
    if name.endswith(".json") or not name:
        text = re.sub(rb'("wall_s": ?)[0-9.e-]+', rb"\g<1>0.5", text)
        text = re.sub(rb'("started": ?)"[^"]*"', rb'\g<1>"2026-01-01T00:00:00Z"', text)
    return text


def emulation(run: Files) -> Files:
    """Returns the folder of an emulation, made from that of a run."""
    files = {name: what for name, what in run.items() if name.endswith((".json", ".toml"))}
    files["summary.json"] = encoded(json.loads(run["summary.json"]) | OUTCOME)
    files["emulation.json"] = encoded(EMULATION["emulation.json"])
    rows = {
        "links.csv": lambda t: [f"{t},l0,{d},1,3,0,0,{t // 10**7},{t // 10**4},10,1,0.01"
                                for d in ("forward", "reverse")],
        "conversations.csv": lambda t: [f"{t},TCP,n0:5001,n2:40000,{t // 10**4},3,0,1,2.5"],
        "lateness.csv": lambda t: [f"{t},20.5,80,1500,0.001"],
    }  # fmt: skip
    for name, row in rows.items():
        lines = [EMULATION[name], *(line for i in range(1, 10) for line in row(i * 100_000_000))]
        files[name] = ("\n".join(lines) + "\n").encode()
    return files


class Token(str):
    """Literal JSON text."""


def encoded(value, indent: int | None = 1) -> bytes:
    """Formats a value as JSON, with tokens as they are."""
    tokens: list[str] = []

    def marked(value):
        match value:
            case Token():
                tokens.append(value)
                return f"\x00{len(tokens) - 1}\x00"
            case dict():
                return {k: marked(v) for k, v in value.items()}
            case list():
                return [marked(v) for v in value]
        return value

    separators = (",", ":") if indent is None else None
    text = json.dumps(marked(value), indent=indent, separators=separators, ensure_ascii=False)
    text = re.sub(r'"\\u0000(\d+)\\u0000"', lambda found: tokens[int(found[1])], text)
    return text.encode("utf-8", "replace")


def unsigned(line: bytes) -> bytes:
    """Returns a line of `runs.jsonl` without its checksum."""
    return re.sub(rb',"check":"[0-9a-f]*"}\n$', b"", line)


class FolderMaker:
    """Generator of changed result folders."""

    def __init__(self, rng: random.Random, made: dict[str, Files], reads: bool):
        self.r, self.made, self.reads = rng, made, reads

    def case(self) -> Case:
        r = self.r
        kind = r.choices(["report", "read", "merge"], [5, 4, 4])[0]
        if kind == "read" and not self.reads:
            kind = "report"
        if kind == "merge":
            return self.merge()
        names = [*self.made] if kind == "read" else [name for name in self.made if not name.startswith("part")]
        name = r.choice(["folder"] * 9 + ["folder\x1b[2J", "folder\n", "folder \u202egpj", "folder é"])
        files = dict(self.made[r.choice(names)])
        self.change(files)
        files = {f"{name}/{inner}": what for inner, what in files.items()}
        return Case(kind, ["report", name] if kind == "report" else [name], files, BOUNDS, python=kind == "read",
                    codes=(0, 2, 3), places=("folder",))  # fmt: skip

    def merge(self) -> Case:
        r = self.r
        parts = {"part1": dict(self.made["part1"]), "part2": dict(self.made["part2"])}
        if r.random() < 0.2:
            parts["part3"] = dict(self.made[r.choice(["part1", "part2", "sweep", "compare", "run"])])
        for name in parts if r.random() < 0.2 else [r.choice([*parts])]:
            self.change(parts[name])
        order = [*parts]
        if r.random() < 0.1:
            order += r.choice([["part1"], ["missing"], ["whole"], ["part1"] * 50])
        files = {f"{name}/{inner}": what for name, inside in parts.items() for inner, what in inside.items()}
        if r.random() < 0.15:
            # Merge into a folder that exists.
            whole = dict(self.made[r.choice(["sweep", "part1", "compare", "run"])])
            self.change(whole)
            files |= {f"whole/{inner}": what for inner, what in whole.items()}
        options = r.choice([[], [], ["--json"], ["--max-runs", r.choice(["1", "4", "1000000000000"])]])
        return Case("merge", ["merge", *order, "-o", "whole", *options], files, BOUNDS, codes=(0, 2, 3),
                    places=("part1", "part2", "part3", "missing", "whole", "runs are missing"))  # fmt: skip

    # ---- Changes -----------------------------------------------------------------------------------------------------

    def change(self, files: Files) -> None:
        """Changes files of a folder."""
        r = self.r
        for _ in range(r.choice([1, 1, 1, 2, 3])):
            name = r.choice([name for name in files if isinstance(files[name], bytes)] or [""])
            if not name:
                return
            if r.random() < 0.12:
                self.replace(files, name)
            elif name.endswith(".json") and r.random() < 0.9:
                files[name] = self.changed_json(files[name])
            elif name.endswith((".jsonl", ".csv")) and r.random() < 0.8:
                files[name] = self.changed_lines(files[name])
            else:
                files[name] = self.changed_bytes(files[name])

    def replace(self, files: Files, name: str) -> None:
        """Replaces a file by something else, or adds one."""
        r = self.r
        special = r.choice(list(Special))
        match r.randrange(6):
            case 0:
                del files[name]
            case 1:
                files[name] = b""
            case 2:
                added = r.choice([".unfinished", "report.html", "runs.lock", ".report.html.new", "runs.damaged.jsonl",
                                  "\x1b]0;owned\x07", "a\nb", "\u202egnp.exe", "x" * 255])  # fmt: skip
                files[added] = r.choice([special, b"x\n"])
            case 3:
                # The same file of another folder.
                others = [made[name] for made in self.made.values() if name in made]
                files[name] = r.choice(others) if others else b"{}"
            case _:
                files[name] = special

    def changed_bytes(self, text: bytes) -> bytes:
        r, data = self.r, bytearray(text)
        # Parquet files end with a description of their contents.
        last = max(0, len(data) - 600) if r.random() < 0.5 else 0
        for _ in range(r.choice([1, 1, 2, 5, 30])):
            at = r.randrange(min(last, len(data)), len(data) + 1)
            match r.randrange(5):
                case 0:
                    del data[at:]
                case 1 | 2 if at < len(data):
                    data[at] = r.choice([data[at] ^ 1 << r.randrange(8), r.randrange(256), 0, 255])
                case 3:
                    data[at:at] = bytes(r.randrange(256) for _ in range(r.randrange(1, 6)))
                case 4:
                    data[at:at] = data[at : at + r.randrange(200)] * r.randrange(1, 4)
        return bytes(data)

    def changed_lines(self, text: bytes) -> bytes:
        r, lines = self.r, text.splitlines(keepends=True)
        at = r.randrange(len(lines)) if lines else 0
        match r.randrange(8):
            case 0:
                lines[at:] = [lines[at][: r.randrange(len(lines[at]))]] if lines else []
            case 1:
                lines[at:at] = lines[at : at + 1] * r.choice([1, 2, 2000])
            case 2:
                lines[at : at + 1] = [self.changed_bytes(line) for line in lines[at : at + 1]]
            case 3:
                r.shuffle(lines)
            case 4 if lines and b'"check"' not in text:
                # A number or a word of a table.
                cells = lines[at].rstrip(b"\n").split(b",")
                cells[r.randrange(len(cells))] = r.choice([*FAR, *TEXTS]).encode("utf-8", "replace")
                lines[at] = b",".join(cells) + b"\n"
            case _:
                # Valid checksums let the changes pass.
                many = range(len(lines)) if r.random() < 0.3 else [at]
                lines = [self.resigned(line) if i in many else line for i, line in enumerate(lines)]
        return b"".join(lines)

    def resigned(self, line: bytes) -> bytes:
        """Changes a line of `runs.jsonl` and gives it a valid checksum."""
        if b'"check"' not in line:
            return self.changed_bytes(line)
        body = self.changed_json(unsigned(line) + b"}", None)
        return signed(body[:-1] if body.endswith(b"}") else body)

    def changed_json(self, text: bytes, indent: int | None = 1) -> bytes:
        """Changes a value, a key or the nesting of a JSON text."""
        r = self.r
        try:
            root = json.loads(text)
        except (ValueError, RecursionError):
            return self.changed_bytes(text)
        places = list(inner(root))
        if not places:
            return self.changed_bytes(text)
        for _ in range(r.choice([1, 1, 2, 4])):
            holder, key = r.choice(places)
            # Earlier changes may have removed the place.
            if isinstance(holder, dict) and key not in holder or isinstance(holder, list) and key >= len(holder):
                continue
            holder[key] = self.changed_value(holder, key)
            if r.random() < 0.1:
                del holder[key]
            elif isinstance(holder, dict) and r.random() < 0.1:
                holder[r.choice(TEXTS)] = r.choice([1, "x", [], {}, None])
        done = encoded(root, indent)
        if r.random() < 0.05 and (keys := list(re.finditer(rb'"(\w+)": ?', done))):
            # Two values of a key.
            found = r.choice(keys)
            done = done[: found.start()] + found[0] + r.choice([b"1", b"null", b'"x"']) + b"," + done[found.start() :]
        return done

    def changed_value(self, holder, key):
        r, old = self.r, holder[key]
        deep: Callable[[], str] = lambda: self.nested(r.choice([60, 200, 100_000]))  # noqa: E731
        if r.random() < 0.06:
            return Token(deep())
        if r.random() < 0.08:
            return r.choice([None, True, -1, "", "x", [], {}, [[]], {"a": 1}])
        match old:
            case bool() | None:
                return r.choice([True, False, None, 0, 1])
            case int() | float():
                return Token(r.choice([*FAR, "-1e300", "1e300", "5e-324", "NaN", "Infinity", "1" * 400, str(-(2**63))]))
            case str():
                return r.choice([*TEXTS, "x" * 100_000, *FAR])
            case list():
                return old * min(r.choice([2, 30, 1000, 100_000]), 1 + 300_000 // (1 + len(encoded(old))))
            case dict():
                return {**old, r.choice(TEXTS): next(iter(old.values()), 1)}
        return old

    def nested(self, depth: int) -> str:
        opening, closing = self.r.choice([("[", "]"), ('{"a":', "}")])
        return opening * depth + "1" + closing * depth


def inner(value):
    """Yields the places of all values in a JSON value: the holder, and the key or index."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from inner(value[key])
