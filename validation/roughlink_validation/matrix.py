"""Links of the comparison with Linux, each as a scenario for both sides, and the table of the kernel's results."""

import csv
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

ALGORITHMS = ("reno", "cubic", "bbr")

# Buffers of both sides: `tcp_rmem` and `tcp_wmem` of the two namespaces. The `linux` stack grows its buffers up to
# these limits; Linux 6.18 itself has 32 MiB for receiving.
SYSCTLS = {
    "tcp_rmem": "4096 131072 6291456",
    "tcp_wmem": "4096 16384 4194304",
}


@dataclass(frozen=True, order=True)
class Cell:
    """A link and its flows. `loss` is the average; losses come in bursts of one to four packets of the data."""

    cc: str
    rate_mbit: int
    delay_ms: int
    queue_pkt: int
    loss_pct: float = 0.0
    jitter_ms: int = 0  # uniform and independent for each packet, so that packets overtake each other
    flows: int = 1
    ack: str = "delayed"  # or "each": acknowledge every segment at once
    duration_s: int = 0  # 0 = 20, or 40 for round trips of 300 ms, because windows grow slowly there between losses

    def __post_init__(self) -> None:
        if not self.duration_s:
            object.__setattr__(self, "duration_s", 40 if self.delay_ms >= 150 else 20)

    @property
    def random(self) -> bool:
        return self.loss_pct > 0 or self.jitter_ms > 0

    @property
    def block(self) -> str:
        """Part of the matrix that contains the cell."""
        if self.flows > 1:
            return f"{self.flows} flows"
        if self.jitter_ms:
            return "reordering"
        if self.ack != "delayed":
            return "no delayed ACK"
        return f"{self.loss_pct:g} % loss"

    def __str__(self) -> str:
        more = [f"{self.loss_pct:g} %"] if self.loss_pct else []
        more += [f"jitter {self.jitter_ms} ms"] if self.jitter_ms else []
        more += [f"{self.flows} flows"] if self.flows > 1 else []
        more += [f"ack {self.ack}"] if self.ack != "delayed" else []
        return " ".join([self.cc, f"{self.rate_mbit} Mbit/s {self.delay_ms} ms {self.queue_pkt} pkt", *more])

    def scenario(self, traffic: bool = True) -> str:
        """Returns the link as a scenario, with its flows for a simulation, without them for programs at both nodes."""
        lines = [
            f'name = "{self}"',
            f'duration = "{self.duration_s} s"',
            "",
            "[tcp]",
            'stack = "linux"',
            f'cc = "{self.cc}"',
            'write_size = "256 KiB"',  # like the sending program in kernel runs
            *(["delayed_ack = 1"] if self.ack == "each" else []),
            "",
            "[[node]]",
            'name = "server"',
            "[[node]]",
            'name = "client"',
            "",
            "[[link]]",
            'name = "link"',
            'between = ["server", "client"]',
            f'rate = "{self.rate_mbit} Mbit/s"',
            f'delay = "{self.delay_ms} ms"',
            f'queue = "{self.queue_pkt} pkt"',
        ]
        if self.jitter_ms:
            lines += [f'jitter = "{self.jitter_ms} ms"', "reorder = true"]
        if self.loss_pct:
            lines.append(
                f'noise = {{ kind = "burst", mean = "{self.loss_pct:g} %", length = [1, 4], direction = "forward" }}'
            )
        for number in range(self.flows if traffic else 0):
            lines += ["", "[[flow]]", f'name = "download{number}"', 'kind = "bulk"', 'from = "server"', 'to = "client"']
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Outcome:
    """Results of a run: goodput of all flows, the sender's retransmissions and mean RTT, the link's queue."""

    goodput_mbps: float
    retransmits: int
    rtt_ms: float
    queue_pkt_mean: float
    queue_drops: int
    lost: int


@dataclass(frozen=True)
class Row:
    """A run of the kernel: one line of the table."""

    cell: Cell
    seed: int
    outcome: Outcome
    late_p50_us: float
    late_p99_us: float
    kernel: str


CELL_COLUMNS = [f.name for f in fields(Cell)]
OUTCOME_COLUMNS = [f.name for f in fields(Outcome)]
COLUMNS = [*CELL_COLUMNS, "seed", *OUTCOME_COLUMNS, "late_p50_us", "late_p99_us", "kernel"]


def cells() -> Iterator[Cell]:
    """Yields all cells: algorithm x rate x delay x queue without loss and with 1 %, then the edges."""
    for loss, rate, delay, queue, cc in itertools.product(
        (0, 1), (2, 10, 100), (2, 10, 40, 150), (10, 100), ALGORITHMS
    ):
        yield Cell(cc, rate, delay, queue, loss)
    for loss, delay, cc in itertools.product((0.1, 3, 5), (10, 40), ALGORITHMS):
        yield Cell(cc, 10, delay, 100, loss)
    for loss, cc in itertools.product((3, 5), ALGORITHMS):
        yield Cell(cc, 2, 40, 100, loss)
    for loss, delay, cc in itertools.product((0, 1), (2, 10, 40), ALGORITHMS):
        yield Cell(cc, 10, delay, 100, loss, jitter_ms=3)
    for loss, delay, queue, cc in itertools.product((0, 1), (10, 150), (10, 100), ALGORITHMS):
        yield Cell(cc, 10, delay, queue, loss, flows=4)
    for cc in ALGORITHMS:
        yield Cell(cc, 100, 40, 100, flows=4)
    for loss, delay, queue, cc in itertools.product((0, 1), (10, 40), (10, 100), ALGORITHMS):
        yield Cell(cc, 10, delay, queue, loss, ack="each")


def chosen(all_cells: Iterator[Cell], only: list[str]) -> list[Cell]:
    """Returns the cells that match every KEY=VALUE[,VALUE...] of `only`; keys are the columns that describe a cell."""
    wanted = {}
    for word in only:
        key, _, values = word.partition("=")
        if key not in CELL_COLUMNS or not values:
            raise ValueError(f"--only {word}: give KEY=VALUE[,VALUE...] with one of {', '.join(CELL_COLUMNS)}")
        wanted[key] = set(values.split(","))
    return [
        c
        for c in all_cells
        if all(f"{getattr(c, key)}" in v or text(getattr(c, key)) in v for key, v in wanted.items())
    ]


def text(value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    rows = []
    with file.open(newline="") as stream:
        for line in csv.DictReader(stream):
            cell = Cell(**{f.name: f.type(line[f.name]) for f in fields(Cell)})
            outcome = Outcome(**{f.name: f.type(line[f.name]) for f in fields(Outcome)})
            rows.append(
                Row(
                    cell,
                    int(line["seed"]),
                    outcome,
                    float(line["late_p50_us"]),
                    float(line["late_p99_us"]),
                    line["kernel"],
                )
            )
    return rows


def append_line(file: Path, columns: Sequence[str], values: Sequence) -> None:
    """Appends one line atomically, with the heading if the file is new."""
    new = not file.exists()
    with file.open("a", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if new:
            writer.writerow(columns)
        writer.writerow(values)


def append(file: Path, row: Row) -> None:
    outcome = [f"{v:.4f}" if isinstance(v, float) else v for v in astuple(row.outcome)]
    late = [f"{us:.1f}" for us in (row.late_p50_us, row.late_p99_us)]
    append_line(file, COLUMNS, [*map(text, astuple(row.cell)), row.seed, *outcome, *late, row.kernel])


def by_cell(rows: list[Row]) -> dict[Cell, list[Row]]:
    grouped = defaultdict(list)
    for row in rows:
        grouped[row.cell].append(row)
    return {
        cell: sorted(grouped[cell], key=lambda r: r.seed)
        for cell in dict.fromkeys([*cells(), *grouped])
        if cell in grouped
    }
