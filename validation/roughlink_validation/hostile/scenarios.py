"""Hostile scenario files for `run`."""

import random
import re
import tomllib
from dataclasses import dataclass, field

from roughlink_validation.hostile.cases import (
    FAR, TEXTS, UNITS, WRONG_UNITS, COMMON, Bare, Case, Special, document, network, toml,
)  # fmt: skip

# Limit of events, which ends long runs.
EVENTS = 100_000


@dataclass
class ScenarioFile:
    """A scenario, the other files in its folder, and options."""

    text: bytes
    sets: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    beside: dict[str, object] = field(default_factory=dict)


class ScenarioMaker:
    """Generator of scenarios from random numbers, the program's schema and the shipped files."""

    def __init__(self, rng: random.Random, schema: dict, shipped: dict[str, str]):
        self.r, self.schema, self.shipped = rng, schema, shipped

    def number(self) -> str:
        r = self.r
        return r.choice(COMMON) if r.random() < 0.8 else r.choice(FAR)

    def quantity(self, units: list[str]) -> str:
        r = self.r
        unit = r.choice(units) if r.random() < 0.93 else r.choice(WRONG_UNITS)
        return f"{self.number()}{r.choice([' ', ' ', ' ', ''])}{unit}"

    def text(self) -> str:
        return (
            self.r.choice(TEXTS)
            if self.r.random() < 0.7
            else "".join(chr(self.r.randrange(1, 0x3000)) for _ in range(8))
        )

    def wrong(self):
        """Returns a value of any type."""
        r = self.r
        return r.choice([
            lambda: r.choice([True, False]),
            lambda: Bare(r.choice(FAR)),
            lambda: r.randrange(-(2**63), 2**63),
            self.text,
            lambda: [],
            lambda: {},
            lambda: [self.text(), 1, 2.5],
            lambda: {self.text(): self.text()},
            lambda: Bare(r.choice([
                "1979-05-27T07:32:00Z", "07:32:00", "''''", "[[[]]]", "{ a.b.c = 1 }", "0b1", "1__0", "@",
            ])),
            lambda: [[[[{"a": [self.text()]}]]]],
        ])()  # fmt: skip

    def value(self, schema: dict, depth: int = 0):
        """Returns a value that the schema allows, in most cases."""
        r = self.r
        if depth > 6 or r.random() < 0.02:
            return self.wrong()
        if "$ref" in schema:
            return self.value(self.schema["$defs"][schema["$ref"].rsplit("/", 1)[1]], depth + 1)
        if "properties" in schema:
            return self.table(schema, depth)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self.value(r.choice(schema[choice]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return r.choice(schema["enum"])
        match schema.get("type"):
            case "boolean":
                return r.choice([True, False])
            case "integer" | "number":
                bounds = [schema.get(k) for k in ("minimum", "maximum") if k in schema]
                if bounds and r.random() < 0.4:
                    return r.choice(bounds) + r.choice([-1, 0, 1])
                return Bare(self.number())
            case "array":
                least, most = schema.get("minItems", 0), schema.get("maxItems", 4)
                count = r.choice([least, most, least + 1, max(least - 1, 0), most + 1])
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "object":
                return self.table(schema, depth)
        if pattern := schema.get("pattern"):
            if schema.get("examples") and r.random() < 0.4:
                return r.choice(schema["examples"])
            return self.quantity(next((units for mark, units in UNITS.items() if mark in pattern), ["", "x"]))
        if r.random() < 0.7:
            return r.choice(["a", "b", "server", "client", "plc", "l0", "f", "download", "trace.csv", "none"])
        return self.text()

    def table(self, schema: dict, depth: int = 0) -> dict:
        r, properties = self.r, schema.get("properties", {})
        keys = [k for k in schema.get("required", []) if r.random() < 0.97]
        keys += [k for k in properties if k not in keys and r.random() < min(0.9, 2.5 / len(properties))]
        made = {k: self.value(properties[k], depth + 1) for k in keys}
        if extra := schema.get("additionalProperties"):
            made |= {self.text(): self.value(extra if isinstance(extra, dict) else {}, depth + 1)
                     for _ in range(r.randrange(3))}
        return made

    # ---- Kinds of files, a method for each -------------------------------------------------------------------------

    def case(self) -> Case:
        kinds = [k for k in dir(self) if k.startswith("of_")]
        weights = {"of_schema": 6, "of_bytes": 4, "of_overrides": 2, "of_values": 6}
        kind = self.r.choices(kinds, [weights.get(k, 1) for k in kinds])[0]
        made = getattr(self, kind)()
        if not isinstance(made, ScenarioFile):
            made = ScenarioFile(made if isinstance(made, bytes) else made.encode("utf-8", "replace"))
        options = [*made.options, *(["--json"] if self.r.random() < 0.7 else [])]
        arguments = ["run", "scenario.toml", "--max-events", str(EVENTS), *options]
        arguments += [word for text in made.sets for word in ("--set", text)]
        return Case(kind.removeprefix("of_"), arguments, {"scenario.toml": made.text, **made.beside})

    def base(self) -> dict:
        """Returns a valid scenario as tables."""
        r = self.r
        if r.random() < 0.4:
            return network([f"n{i}" for i in range(r.randrange(2, 6))])
        return tomllib.loads(self.shipped[r.choice([name for name in self.shipped if name.startswith("scenarios/")])])

    def keys_at(self, tables: dict, path: tuple) -> dict:
        """Returns the keys that the table at a path may have, with their schemas."""
        here, value = self.form(self.schema, tables), tables
        for key in path:
            value = value[key]
            here = here.get("items", {}) if isinstance(key, int) else here.get("properties", {}).get(key, {})
            here = self.form(here, value)
        return here.get("properties", {})

    def form(self, schema: dict, value) -> dict:
        """Returns one of the schema's forms that fits the kind of a value."""
        for _ in range(8):
            if "$ref" in schema:
                schema = self.schema["$defs"][schema["$ref"].rsplit("/", 1)[1]]
            elif "properties" in schema:
                break
            elif forms := schema.get("oneOf", schema.get("anyOf")):
                kind = value.get("kind", "pipe") if isinstance(value, dict) else None
                fits = [
                    f
                    for f in forms
                    if kind in (k := f.get("properties", {}).get("kind", {})).get("enum", [k.get("const")])
                ]
                schema = self.r.choice(fits or forms)
            else:
                break
        return schema

    def places(self, value, path=()) -> list[tuple]:
        """Returns the paths of all tables."""
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
        here = [path] if isinstance(value, dict) else []
        return here + [p for key, v in inner for p in self.places(v, (*path, key))]

    def edit(self, tables: dict, values_only: bool = False):
        """Changes something in one of the tables."""
        r = self.r
        path = r.choice(self.places(tables))
        table = tables
        for key in path:
            table = table[key]
        keys = list(table)
        properties = self.keys_at(tables, path)
        if values_only:
            keys = [k for k in keys if k not in ("name", "kind", "from", "to", "between", "node", "link")]
        what = (
            "value"
            if values_only
            else r.choice(["value"] * 6 + ["add"] * 6 + ["drop", "wrong", "unknown", "double", "name"])
        )
        if what == "value" and keys:
            key = r.choice(keys)
            table[key] = self.value(properties.get(key, {}))
        elif what == "add" and properties:
            key = r.choice(list(properties))
            table[key] = self.value(properties[key])
        elif what == "drop" and keys:
            del table[r.choice(keys)]
        elif what == "wrong" and keys:
            table[r.choice(keys)] = self.wrong()
        elif what == "unknown":
            table[self.text()] = self.wrong()
        elif what == "name" and "name" in table:
            table["name"] = self.text()
        elif what == "double" and (lists := [k for k in keys if isinstance(table[k], list) and table[k]]):
            key = r.choice(lists)
            table[key] = table[key] * r.randrange(2, 20)

    def of_schema(self) -> str:
        tables = self.base()
        while self.r.random() < 0.75:
            self.edit(tables)
        return document(tables)

    def of_values(self) -> str:
        """Changes keys to allowed values only, so that many files are valid."""
        tables = self.base()
        for _ in range(self.r.randrange(1, 3)):
            self.edit(tables, values_only=True)
        return document(tables)

    def of_bytes(self) -> bytes:
        r = self.r
        data = bytearray(r.choice(list(self.shipped.values())).encode())
        for _ in range(r.choice([1, 1, 2, 5, 30])):
            at = r.randrange(len(data) + 1)
            match r.randrange(6):
                case 0:
                    del data[at:]
                    data += b"" if data else b"x"
                case 1 if at < len(data):
                    data[at] ^= 1 << r.randrange(8)
                case 2:
                    del data[at : at + r.randrange(40)]
                    data += b"" if data else b"x"
                case 3:
                    data[at:at] = bytes(r.randrange(256) for _ in range(r.randrange(1, 6)))
                case 4:
                    end = min(len(data), at + r.randrange(200))
                    data[at:at] = data[at:end] * r.randrange(1, 4)
                case 5:
                    numbers = list(re.finditer(rb"[0-9]+", data))
                    if numbers:
                        found = r.choice(numbers)
                        data[found.start() : found.end()] = r.choice(FAR).encode()
        return bytes(data)

    def of_names(self) -> str:
        names = [self.text() for _ in range(self.r.randrange(2, 5))]
        if self.r.random() < 0.6:
            names = [f"{n}{i}" for i, n in enumerate(names)]
        tables = network(names, name=self.text())
        for one in tables["link"] + tables["flow"]:
            if self.r.random() < 0.5:
                one["name"] = self.text()
        if self.r.random() < 0.3:
            tables["link"][0][self.text()] = 1
        return document(tables)

    def of_large(self) -> str:
        r = self.r
        n = r.choice([100, 1000, 5000, 15000])
        tables = network()
        nodes = [f"n{i}" for i in range(n)]
        link = {"rate": "1 Mbit/s", "delay": "1 ms"}
        match r.choice(["chain", "star", "flows", "doubles", "unreachable", "unknown", "deep", "dotted", "long", "many",
                        "sizes"]):
            case "chain":
                tables = network(nodes)
            case "star":
                tables["node"] += [{"name": x} for x in nodes]
                tables["link"] += [{"name": f"m{x}", "between": ["a", x]} | link for x in nodes]
                tables["flow"] += [{"name": f"f{x}", "kind": "bulk", "from": "a", "to": x, "bytes": "1 kB"}
                                   for x in nodes]
            case "flows":
                tables["flow"] = [{"name": f"f{x}", "kind": r.choice(["bulk", "cbr", "voip"]), "from": "a", "to": "b"}
                                  for x in nodes]
                for flow in tables["flow"]:
                    flow.update({"rate": "1 kbit/s"} if flow["kind"] == "cbr" else {})
            case "doubles":
                tables[r.choice(["node", "link", "flow"])] *= n
            case "unreachable":
                tables["node"] += [{"name": x} for x in nodes]
                tables["flow"] += [{"name": f"f{x}", "kind": "bulk", "from": "a", "to": x} for x in nodes]
            case "unknown":
                tables |= {f"{self.r.choice('abxyz')}{x}": 1 for x in nodes}
            case "deep":
                opening, closing = r.choice([("[", "]"), ("{ a = ", " }")])
                tables["link"][0]["noise"] = Bare(opening * n + "1" + closing * n)
            case "dotted":
                return document(tables) + ".".join("a" * n) + " = 1\n"
            case "long":
                value = r.choice(["a" * 70 * n, "\u202e" * n, "1" * n, "1 " + "m" * n])
                tables[r.choice(["name", "duration", "x", "seed"])] = r.choice([value, Bare(value)])
            case "many":
                tables["x"] = [r.choice([1, "a", {}, []])] * n
            case "sizes":
                for flow in tables["flow"]:
                    flow["bytes"] = [{"a": 1}] * n
        return document(tables)

    def of_amounts(self) -> str:
        """Makes a valid file with far too much of something."""
        r = self.r
        tables = network()
        link, flow = tables["link"][0], tables["flow"][0]
        tables["duration"] = r.choice(["2 s", "1000 s", "10000000 min"])
        link["rate"] = r.choice(["1 bit/s", "10000 Gbit/s", "10 Mbit/s", "1 kbit/s", "1000 Gbit/s"])
        link["delay"] = r.choice(["0 ns", "1 ns", "3600 s", "100 s", "1 ms"])
        link["queue"] = r.choice(["4000000000 pkt", "1 pkt", "1 B", "9000000 GB", "100 pkt"])
        link["mtu"] = r.choice(["68 B", "576 B", "1280 B", "1500 B", "65535 B"])
        if r.random() < 0.5:
            link["jitter"] = r.choice(["1 ns", "1 ms", "100000 s"])
            link["reorder"] = r.choice([True, False])
        if r.random() < 0.5:
            link["noise"] = r.choice([
                "none",
                {"kind": "random", "loss": "100 %"},
                {"kind": "burst", "start": "100 %", "length": [1, 9223372036854775807]},
                {"kind": "impulse", "asynchronous": {"every": "10 us", "length": "1 s"}},
                {"kind": "list", "drop": list(range(5000))},
            ])  # fmt: skip
        tables["tcp"] = {
            k: v
            for k, v in {
                "stack": r.choice(["ns3", "linux", "ns2"]),
                "initial_window": r.choice([1, 10, 4294967295, 1000000000]),
                "rcv_buf": r.choice(["1 B", "64 KiB", "1 GiB", "9000000 GB", "auto"]),
                "snd_buf": r.choice(["1 B", "1 GiB", "9000000 GB"]),
                "mss": r.choice(["1 B", "536 B", "1460 B", "65495 B"]),
                "initial_ssthresh": r.choice(["unlimited", "1 pkt", "9000000 GB"]),
                "cc": r.choice(self.schema["$defs"]["CongestionControl"]["enum"]),
            }.items()
            if r.random() < 0.5
        }
        match r.randrange(5):
            case 0:
                tables["flow"] = [{"name": "f", "kind": "cbr", "from": "a", "to": "b",
                                   "packet": r.choice(["1 B", "65000 B"])}]
                tables["flow"][0]["rate"] = r.choice(["1 bit/s", "10000 Gbit/s"])
            case 1:
                tables["flow"] = [{"name": "f", "kind": "voip", "from": "a", "to": "b"}]
            case 2:
                tables["flow"] = [{"name": "f", "kind": "request", "from": "a", "to": "b"}]
            case 3:
                flow["transport"] = "sctp"
        return document(tables)

    def of_timeline(self) -> ScenarioFile:
        r = self.r
        tables = network(duration=r.choice(["2 s", "1000 s", "500000 min"]))
        link, n = tables["link"][0], r.choice([10, 1000, 20000])
        change = lambda i: {"at": f"{i} ms", "rate": f"{i % 9 + 1} Mbit/s"}  # noqa: E731
        csv = "\n".join(f"{i / 100},{i % 9}" for i in range(n))
        case = ScenarioFile(b"")
        match r.choice(["inline", "backward", "repeat", "csv", "opportunities", "coverage", "both", "damaged"]):
            case "inline":
                link["timeline"] = [change(i) for i in range(n)]
            case "backward":
                link["timeline"] = [change(n - i) | {"for": f"{i + 1} us"} for i in range(n)]
            case "repeat":
                link["timeline"] = [
                    {"at": "0 s", "for": r.choice(["1 ns", "1 us", "1 ms"]),
                     "repeat": r.choice(["1 ns", "2 ns", "2 us", "2 ms"]), "up": False}
                ]
            case "csv":
                link["timeline"] = "trace.csv"
                case.beside["trace.csv"] = f"time_s,rate_mbps\n{csv}\n".encode()
            case "opportunities":
                link["timeline"] = "trace"
                case.beside["trace"] = "\n".join(str(i // r.choice([1, 7])) for i in range(n)).encode()
            case "coverage":
                link["coverage"] = {"log": "trace.csv"}
                case.beside["trace.csv"] = f"time_s,signal_dbm\n{csv.replace(',', ',-')}\n".encode()
            case "both":
                link["timeline"] = {"file": "trace.csv", "repeat": r.choice(["1 ns", "1 s", "1000 s"])}
                case.beside["trace.csv"] = f"time_s,rate_mbps\n{csv}\n".encode()
            case "damaged":
                link["timeline"] = r.choice(["trace.csv", "trace", {"file": "trace.csv"}])
                data = bytearray(f"time_s,rate_mbps,up\n{csv}\n".encode())
                for _ in range(r.randrange(1, 20)):
                    data[r.randrange(len(data))] = r.randrange(256)
                case.beside |= {"trace.csv": bytes(data), "trace": bytes(data)}
        case.text = document(tables).encode()
        return case

    def of_references(self) -> ScenarioFile:
        r = self.r
        tables = network()
        name = r.choice(["trace.csv", "../trace.csv", "/dev/zero", "/etc/passwd", "/proc/self/environ", "", ".",
                         "scenario.toml", "x/y", "\x1b[2J"])
        tables["link"][0] |= r.choice([{"timeline": name}, {"coverage": {"log": name}}, {"timeline": {"file": name}}])
        what = r.choice([*Special, bytes(r.randrange(256) for _ in range(2000)), b"", b"\x00" * 99, None])
        case = ScenarioFile(document(tables).encode())
        case.beside = {"trace.csv": what} if what is not None else {}
        case.options = r.choice([[], ["--allow-outside"]])
        return case

    def of_overrides(self) -> ScenarioFile:
        r = self.r
        tables = self.base()
        case = ScenarioFile(document(tables).encode())
        for _ in range(r.choice([1, 1, 2, 3, 50])):
            path = r.choice(self.places(tables))
            properties = self.keys_at(tables, path)
            words, here = [], tables
            for key in path:
                here = here[key]
                # Overrides refer to elements of lists by name.
                word = here.get("name", "*") if isinstance(key, int) and isinstance(here, dict) else key
                words.append(str(word) if r.random() < 0.9 else r.choice(["*", "a", "plc", "0", "99"]))
            words.append(r.choice([*properties, "x"]) if r.random() < 0.95 else self.text())
            value = self.value(properties.get(words[-1], {}))
            value = value if isinstance(value, str) and r.random() < 0.8 else toml(value)
            case.sets.append(f"{'.'.join(words)}{r.choice(['='] * 18 + [' = ', ''])}{value}".replace("\0", ""))
        return case
