#!/usr/bin/env python3
"""Trace of a cell of linux.py's matrix in kernel and simulation: window, threshold, RTT, retransmissions over time.

    validation/trace.py cc=cubic rate_mbit=10 delay_ms=40 queue_pkt=10 loss_pct=1 --seed 2 -o trace

The kernel run takes as long as the cell (needs root or user namespaces) and is sampled every 10 ms (TCP_INFO); the
simulation provides its series. The output is DIR/trace.csv with the same columns for both sides, DIR/trace.svg, and
DIR/kernel.json with all samples of the kernel. Use --from DIR to compare an earlier kernel run with a new simulation.
Exits with 3 if emulation is not possible, or if pyarrow or matplotlib is missing (validation/requirements-trace.txt).
"""

import csv
import json
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli, kernel
from roughlink_validation.matrix import CELL_COLUMNS, Cell
from roughlink_validation.simulators import Missing, call

COLUMNS = ("time_s", "cwnd_pkt", "ssthresh_pkt", "in_flight_pkt", "srtt_ms", "pacing_mbps", "retransmits", "acked_mb")
STEP_S = 0.01
# Rates above this (Mbit/s) mean "no rate yet": before the first RTT, the kernel reports the largest number.
UNLIMITED = 1e9


def options():
    parser = cli.parser(__doc__)
    parser.add_argument("cell", nargs="+", metavar="KEY=VALUE", help=f"the cell: {', '.join(CELL_COLUMNS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flow", type=int, default=0, help="number of the flow to trace")
    parser.add_argument("--until", type=float, metavar="SECONDS", help="draw only this much of the run")
    parser.add_argument("--from", dest="before", type=Path, metavar="DIR",
                        help="use the kernel run of an earlier trace")
    parser.add_argument("-o", dest="out", type=Path, required=True, metavar="DIR")
    return parser.parse_args()


def cell_of(words: list[str]) -> Cell:
    kinds = {name: field.type for name, field in Cell.__dataclass_fields__.items()}
    values = dict(word.split("=", 1) for word in words)
    return Cell(**{key: kinds[key](value) for key, value in values.items()})


def of_kernel(rows: list[dict], flow: int) -> list[dict]:
    return [{
        "time_s": r["time_s"],
        "cwnd_pkt": r["cwnd_pkt"],
        "ssthresh_pkt": r["ssthresh_pkt"],
        "in_flight_pkt": r["unacked_pkt"] - r["sacked_pkt"] - r["lost_pkt"],
        "srtt_ms": r["srtt_ms"],
        "pacing_mbps": r["pacing_mbps"] if r["pacing_mbps"] < UNLIMITED else None,
        "retransmits": r["retransmits"],
        "acked_mb": r["acked_bytes"] / 1e6,
    } for r in rows if r["flow"] == flow]


def of_simulation(roughlink: Path, cell: Cell, seed: int, flow: int) -> list[dict]:
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "link.toml", Path(folder) / "out"
        file.write_text(cell.scenario())
        call([str(roughlink), "run", str(file), "-o", str(out), "--no-capture", "--quiet", "--seed", str(seed)])
        name = f"download{flow}"
        samples = [r for r in pyarrow.parquet.read_table(out / "flows.parquet").to_pylist() if r["flow"] == name]
        again = [r["time_ns"] for r in pyarrow.parquet.read_table(out / "segments.parquet").to_pylist()
                 if r["flow"] == name and r["retransmission"]]
    rows, due, repaired, mss = [], 0.0, 0, 1448
    for before, sample in zip(samples, samples[1:] + [None]):
        # The value at the end of each step is the last sample before it.
        until = sample["time_ns"] / 1e9 if sample else cell.duration_s
        while due < until:
            if due >= before["time_ns"] / 1e9:
                while repaired < len(again) and again[repaired] / 1e9 <= due:
                    repaired += 1
                rows.append({
                    "time_s": due,
                    "cwnd_pkt": before["cwnd_bytes"] / mss,
                    "ssthresh_pkt": before["ssthresh_bytes"] and before["ssthresh_bytes"] / mss,
                    "in_flight_pkt": before["in_flight_bytes"] / mss,
                    "srtt_ms": before["srtt_ms"],
                    "pacing_mbps": before["pacing_mbps"],
                    "retransmits": repaired,
                    "acked_mb": before["snd_una_bytes"] / 1e6,
                })
            due += STEP_S
    return rows


def draw(file: Path, title: str, sides: dict[str, list[dict]], until: float | None) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    panels = [("cwnd, ssthresh: packets", ("cwnd_pkt", "ssthresh_pkt")), ("SRTT: ms", ("srtt_ms",)),
              ("retransmissions", ("retransmits",)), ("acknowledged: MB", ("acked_mb",))]
    figure, axes = pyplot.subplots(len(panels), sharex=True, figsize=(10, 11), constrained_layout=True)
    for (name, rows), color in zip(sides.items(), ("tab:orange", "tab:blue")):
        shown = [r for r in rows if until is None or r["time_s"] <= until]
        for axis, (label, keys) in zip(axes, panels):
            for key, style in zip(keys, ("-", ":")):
                axis.plot([r["time_s"] for r in shown], [r[key] for r in shown], style, color=color, linewidth=1,
                          label=name if style == "-" else None)
            axis.set_ylabel(label)
            axis.grid(alpha=0.3)
    axes[0].legend()
    axes[0].set_title(title)
    axes[-1].set_xlabel("s")
    figure.savefig(file)


def main() -> int:
    o = options()
    try:
        import matplotlib  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as missing:
        raise Missing(f"{missing}: pip install -r validation/requirements-trace.txt") from missing
    if not o.roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {o.roughlink}\n"
            "help: run `cargo build --release`, or pass --roughlink PATH"
        )
    roughlink, cell = o.roughlink.resolve(), cell_of(o.cell)
    o.out.mkdir(parents=True, exist_ok=True)
    if o.before:
        said = json.loads((o.before / "kernel.json").read_text())
    else:
        _, said = kernel.measure(roughlink, cell, o.seed)
        (o.out / "kernel.json").write_text(json.dumps(said))
    sides = {
        f"Linux {kernel.release()}": of_kernel(said, o.flow),
        "roughlink": of_simulation(roughlink, cell, o.seed, o.flow),
    }
    with (o.out / "trace.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["side", *COLUMNS], lineterminator="\n")
        writer.writeheader()
        for side, rows in sides.items():
            for row in rows:
                writer.writerow(
                    {"side": side, **{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}}
                )
    draw(o.out / "trace.svg", f"{cell}, seed {o.seed}", sides, o.until)
    for side, rows in sides.items():
        print(
            f"{side}: {rows[-1]['acked_mb'] * 8 / cell.duration_s:.2f} Mbit/s, {rows[-1]['retransmits']} "
            "retransmissions"
        )
    print(f"{o.out}/trace.svg, {o.out}/trace.csv")
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
