"""Cases, extreme values, and scenarios as TOML."""

import json
import math
import re
from dataclasses import dataclass, field
from enum import Enum


class Special(Enum):
    """Files other than regular ones with contents."""

    FIFO = "FIFO"
    FOLDER = "folder"
    SOCKET = "socket"
    LOOP = "link to itself"
    OUTSIDE = "link to a file outside of the folder"
    SPARSE = "sparse file of 1 GB"
    HUGE = "sparse file of 8 GB"


@dataclass(frozen=True)
class Bounds:
    """Bounds of a case. The CPU time and the memory are those of all threads."""

    cpu_s: float = 2.0
    memory_mb: float = 500
    # Maximum size of the results, in addition to 50 bytes for each byte of the files.
    results_mb: float = 1
    # Limit for the stack of the main thread, bytes.
    stack: int | None = None


@dataclass
class Case:
    """Files, and the command that reads them."""

    kind: str
    # Arguments of the program, or with `python` the folder to read.
    arguments: list[str]
    # By path: bytes, a special file, or the text of a symbolic link.
    files: dict[str, object] = field(default_factory=dict)
    bounds: Bounds = Bounds()
    python: bool = False
    # Exit codes that are no findings.
    codes: tuple[int, ...] = (0, 2)
    # A refusal must contain one of these words, or a position that is accepted for all cases (`running.PLACE`).
    places: tuple[str, ...] = ()

    @property
    def input_size(self) -> int:
        """Size of all files, bytes."""
        return sum(len(what) for what in self.files.values() if isinstance(what, bytes))

    @property
    def has_json_output(self) -> bool:
        return "--json" in self.arguments


class Bare(str):
    """Literal TOML text."""


def toml(value) -> str:
    """Formats a value as TOML, tables inline."""
    match value:
        case Bare():
            return str(value)
        case bool():
            return "true" if value else "false"
        case dict():
            return "{ " + ", ".join(f"{key_of(k)} = {toml(v)}" for k, v in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case float() if math.isinf(value) or math.isnan(value):
            return str(value)
        case int() | float():
            return repr(value)
        case _:
            text = json.dumps(str(value), ensure_ascii=False)
            return "".join(c if c < "\x7f" else f"\\U{ord(c):08X}" for c in text)


def key_of(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml(key)


def document(tables: dict) -> str:
    """Formats a scenario: keys first, then its tables, each list of tables under headings."""
    lines = [f"{key_of(k)} = {toml(v)}" for k, v in tables.items() if not is_heading(v)]
    for name, value in tables.items():
        if is_heading(value):
            for one in value if isinstance(value, list) else [value]:
                lines.append(f"[[{key_of(name)}]]" if isinstance(value, list) else f"[{key_of(name)}]")
                lines += [f"{key_of(k)} = {toml(v)}" for k, v in one.items()]
    return "\n".join(lines) + "\n"


def is_heading(value) -> bool:
    return (
        isinstance(value, dict) or isinstance(value, list) and value != [] and all(isinstance(v, dict) for v in value)
    )


def network(nodes=("a", "b"), **more) -> dict:
    """Returns a chain of links with one transfer over all of them."""
    return {
        "duration": "2 s",
        "node": [{"name": n} for n in nodes],
        "link": [
            {"name": f"l{i}", "between": [a, b], "rate": "10 Mbit/s", "delay": "1 ms"}
            for i, (a, b) in enumerate(zip(nodes, nodes[1:]))
        ],
        "flow": [{"name": "f", "kind": "bulk", "from": nodes[0], "to": nodes[-1]}],
    } | more


UNITS = {
    "ms": ["ns", "us", "ms", "s", "min"],
    "bit/s": ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"],
    "pkt": ["pkt", "B", "kB", "MiB", "GB"],
    "kB": ["B", "kB", "KiB", "MB", "GiB"],
    "%": ["%"],
    "dBm": ["dBm"],
    "Hz": ["Hz", "kHz", "MHz"],
}
WRONG_UNITS = ["", "parsec", "%", "ms", "bit/s", "B", "pkt", "s s", "µs", "\u202es", "mS", "kb/s"]
COMMON = ["0", "1", "2", "5", "10", "50", "100", "1000", "0.5", "0.1"]
FAR = [
    "0", "1e-9", "1e-300", "0.0000000001", "65535", "65536", "4294967295", "4294967296", "9223372036854775807",
    "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e9", "1e12", "1e18", "1e30", "1e308",
    "1e309", "999999999999999999999999999999999999", "-1", "-0", "+5", "1_000", "0x10", "nan", "inf", ".5", "5.", "1e",
    "--1", "1e99999",
]  # fmt: skip
# Text of a script that a report must not contain as it is.
SCRIPT = "<script>alert(1)</script>"
TEXTS = [
    "", " ", "a", "node", "x" * 300, "\x1b]0;owned\x07", "\x1b[2J\x1b[31m", "\u202egnp.exe", "\u2066hidden\u2069",
    "\x00", "\x07", "\x7f", "\x9b31m", "a\nb", "a\rb", "a\tb", "../../etc/passwd", "/dev/zero", "=cmd()", "+1",
    "@SUM(1)", SCRIPT, "{geometric}", "%s%n", "é", "e\u0301", "日本語", "🚗" * 40, "\ufeffname",
    "\u2028line", "\u200bzero", "\U000e0041tag", "*", "a.b", "f*", "a,b", "'", '"', "\\", "total", "nan", "true",
    "none",
]  # fmt: skip
