"""Tables of `rough` in the experiments of the four papers, beside the papers' own algorithms.

Networks, traffic, metrics and published values come from the files in `experiments`. Rows are values of the axis that
compares algorithms; some rows set further keys.
"""

import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import roughlink as rl

from roughlink_validation import cli, page
from roughlink_validation.building import ROOT
from roughlink_validation.paper_runs import AtLeast, shown


OURS = "**rough**"
INTRODUCTION = """### In the papers' experiments

Means of the experiments in `experiments`, with the paper's value in parentheses. `.ci/python goals --papers` prints
these tables alone."""


@dataclass(frozen=True)
class Column:
    """A metric at one point of an experiment. Of several experiments, a row uses the last that lists its value, or else
    the last of all.
    """

    heading: str
    experiments: tuple[str, ...]
    metric: str
    at: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """An algorithm: its value on the axis, and keys that replace or add to the settings of the experiment."""

    label: str
    value: str
    keys: dict[str, str] = field(default_factory=dict)
    stack: str = "linux"


@dataclass(frozen=True)
class Table:
    """The experiments of a paper; `axis` is the one that compares algorithms."""

    text: str
    axis: str
    replicas: int
    columns: list[Column]
    rows: list[Row]


def beside(others: tuple[str, ...]) -> list[Row]:
    return [Row(OURS, "rough"), *(Row(name, name) for name in others)]


def v2g() -> Table:
    columns = [Column(f"1 car, {loss} %", ("v2g/fig4",), "throughput_mbps", {"loss": f"{loss} %"})
               for loss in (0, 0.25, 1, 5)]
    columns += [Column(f"21 cars, {loss} %", ("v2g/fig6",), "throughput_mbps", {"loss": f"{loss} %"})
                for loss in (0.25, 1, 5)]
    others = ("newreno", "hybla", "highspeed", "htcp", "vegas", "scalable", "veno", "bic", "illinois",
              "westwood-classic", "newreno-sc", "illinois-aa", "bbr")
    text = """**V2G**, figures 4 and 6: throughput per car over the average loss, Mbit/s. All rows are on `linux`; the
paper's values are from ns-3.27."""
    return Table(text, "cc", 8, columns, beside(others))


def wave() -> Table:
    to_l1 = ("wave/table1-to-l1", "wave/table1-westwood-to-l1", "wave/table1-wave-to-l1")
    columns = [Column(f"to {link}, {outage} s", files, "recovery_s", {"outage": f"{outage} s"})
               for link, files in (("L2", ("wave/table1-to-l2",)), ("L1", to_l1)) for outage in (0.5, 2, 10)]
    others = ("wave", "reno", "newreno", "tahoe", "westwood", "cubic", "hybla", "bbr", "wave-fr")
    text = """**Wave**, table 1: recovery time after a handover to the satellite (L2) or from it (L1), by the length
of the outage, s. All rows are on `linux`; the paper's values are from ns-3.23. The handover from L2 is at 30 s for
`rough`, Wave and BBR, and at 300 s for the others, which need that long to fill L2. A number after `>` is the rest of a
run that did not recover."""
    return Table(text, "cc", 1, columns, beside(others))


def avoca() -> Table:
    columns = [Column("loop, MB", ("avoca/table2",), "covered_mb", {"day": "normal"}),
               Column("one outage, MB", ("avoca/fig4",), "covered_mb"),
               Column("resumes after, s", ("avoca/fig4",), "resume_s")]

    def linux(label: str, cc: str, others: dict[str, str] | None = None) -> Row:
        return Row(label, cc, {"flow.download.transport": "tcp", "tcp.cc": cc} | (others or {}))

    # Keys that `rough` implies and `avoca` does not.
    implied = {"tcp.max_rto": "1 s", "tcp.data_retries": "255"}
    wrapped = {"flow.download.cc": "avoca", "flow.download.cc_params": '{ inner = "rough" }'} | implied
    rows = [
        linux(OURS, "rough"),
        linux(f"{OURS} in AVOCA", "rough", wrapped),
        Row("the paper's TCP (SCTP)", "sctp", stack="ns2"),
        Row("AVOCA (SCTP)", "avoca-sctp", stack="ns2"),
        linux("cubic", "cubic"),
        linux("bbr", "bbr"),
    ]
    text = """**AVOCA**, table 2 (normal day) and figure 4: data delivered, and the time from the return of coverage
until the sender sends again. The rows with SCTP are on `ns2`, the others on `linux`. In figure 4's outage the receive
buffer limits a flow to 32 Mbit/s."""
    return Table(text, "variant", 2, columns, rows)


def plc() -> Table:
    columns = []
    for flows, file, total, jain, queue in (
        ("1 flow", "one-flow", "throughput_mbps[10..30]@flow1", None, "queue_p95_pkt[10..30]@plc"),
        ("2 flows", "two-flows", "throughput_mbps[10..60]:sum", "jain[10..60]", "queue_p95_pkt[10..60]@plc"),
        ("2 flows, cross traffic", "two-flows-cross", "throughput_mbps[10..60]:sum", "jain[30..45]",
         "queue_p95_pkt[30..60]@plc"),
        ("3 flows, cross traffic", "three-flows-cross", "throughput_mbps[10..80]:sum", "jain[40..60]",
         "queue_p95_pkt[40..60]@plc"),
    ):
        for what, metric in (("Mbit/s", total), ("Jain", jain), ("queue", queue)):
            if metric:
                columns.append(Column(f"{flows}: {what}", (f"plc/{file}",), metric, {"error": "7 %"}))

    def linux(label: str, cc: str, scheme: str = "none") -> Row:
        # The scenarios and experiments set recovery and ssthresh as in ns-2; these are the defaults of `linux`.
        return Row(label, scheme, {"tcp.cc": cc, "tcp.recovery": "rack", "tcp.initial_ssthresh": "unlimited"})

    rows = [
        linux(OURS, "rough"),
        linux(f"{OURS}, proposed scheme", "rough", "muniz"),
        Row("newreno on `ns2`", "none", stack="ns2"),
        Row("newreno on `ns2`, previous scheme", "mizutani", stack="ns2"),
        Row("newreno on `ns2`, proposed scheme", "muniz", stack="ns2"),
        linux("newreno", "newreno"),
        linux("cubic", "cubic"),
        linux("bbr", "bbr"),
    ]
    text = """**PLC**, one to three downloads at a mean error of 7 %: total throughput, Jain's index, and the 95th
percentile of the modem's queue in packets. With cross traffic, the index is of the time after it. The paper
prints no values. Rows without a stack are on `linux`."""
    return Table(text, "scheme", 10, columns, rows)


@cache
def experiment(name: str) -> dict:
    return tomllib.loads((ROOT / "experiments" / f"{name}.toml").read_text())


def axis_of(name: str, axis: str) -> dict:
    return next(each for each in experiment(name)["axis"] if each["name"] == axis)


def settings(axis: dict, value: str) -> dict[str, str]:
    """Returns the keys of a value of an axis, listed or not."""
    return ({axis["key"]: value} if "key" in axis else {}) | axis.get("set", {}).get(value, {})


def published(name: str, axis: str, metric: str, at: dict[str, str], value: str) -> float | None:
    """Returns the paper's number at one point."""
    file = experiment(name)
    point = [value if each["name"] == axis else at[each["name"]] for each in file["axis"]]
    for some in file.get("published", []):
        if some.get("metric", file["metrics"][0]) != metric:
            continue
        for *where, number in some.get("points", []):
            if where == point:
                return number
        if len(point) == 2 and point[1] in some.get("columns", []) and point[0] in some["rows"]:
            return some["rows"][point[0]][some["columns"].index(point[1])]
    return None


def cells(table: Table, row: Row, folder: Path) -> Iterator[str]:
    """Runs the experiments of a row, each once for all its columns, and returns the cells."""
    results: dict[str, rl.Sweep] = {}
    for column in table.columns:
        listing = [name for name in column.experiments if row.value in axis_of(name, table.axis)["values"]]
        name = (listing or column.experiments)[-1]
        if name not in results:
            results[name] = sweep(table, row, name, folder / name.replace("/", "-"))
        points = points_of(table, name)
        found = results[name].result["cells"]
        # Cells are in the order of the points for each metric.
        cell = [each for each in found if each["metric"] == column.metric][points.index(column.at)]
        measured = cell["measured"] if cell["measured"] is not None else AtLeast(cell["bound"])
        paper = published(name, table.axis, column.metric, column.at, row.value)
        yield shown(measured) + (f" ({paper:g})" if paper is not None else "")


def points_of(table: Table, name: str) -> list[dict[str, str]]:
    """Returns the points of an experiment that columns of the table use, without the axis of the rows."""
    points = [column.at for column in table.columns if name in column.experiments]
    return [point for number, point in enumerate(points) if point not in points[:number]]


def sweep(table: Table, row: Row, name: str, folder: Path) -> rl.Sweep:
    """Runs one experiment for one row."""
    file = experiment(name)
    keys = file.get("set", {}) | {"tcp.stack": row.stack} | file["stack"].get(row.stack, {}).get("set", {})
    keys |= settings(axis_of(name, table.axis), row.value) | row.keys
    scenario = rl.load(file["scenario"]).set(keys)
    points = [
        {key: value for axis, chosen in point.items() for key, value in settings(axis_of(name, axis), chosen).items()}
        for point in points_of(table, name)
    ]
    vary = points if any(points) else {"seed": [scenario.seed]}
    metrics = list(dict.fromkeys(column.metric for column in table.columns if name in column.experiments))
    return rl.sweep(scenario, vary, replicas=table.replicas, metrics=metrics, folder=folder, progress=False)


def tables() -> str:
    """Runs everything and returns the tables in Markdown."""
    made = [v2g(), wave(), avoca(), plc()]
    rows = sum(len(table.rows) for table in made)
    parts, done = [INTRODUCTION], 0
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", rl.RoughlinkWarning)
        for table in made:
            headings = [column.heading for column in table.columns]
            lines = [["", *headings]]
            for row in table.rows:
                cli.progress(f"the papers' experiments: row {done + 1} of {rows}")
                lines.append([row.label, *cells(table, row, Path(folder) / str(done))])
                done += 1
            parts += [table.text, page.table(lines)]
    cli.progress_end()
    return "\n\n".join(parts)
