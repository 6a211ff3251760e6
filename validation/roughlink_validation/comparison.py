"""Comparison of the kernel's results in each cell with simulations of the cell with the same seeds."""

import os
import statistics
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from roughlink_validation import cli, matrix
from roughlink_validation.matrix import Cell, Outcome
from roughlink_validation.simulators import run_cell


def compare(roughlink: Path, rows: dict[Cell, list[matrix.Row]], names: Mapping[str, str] | None = None) -> list[dict]:
    """Returns both sides' means of each cell over the same seeds; `names` maps algorithms to names in simulation."""
    jobs = [(cell, row.seed) for cell, runs in rows.items() for row in runs]

    def simulate(cell: Cell, seed: int) -> Outcome:
        return run_cell(roughlink, replace(cell, cc=(names or {}).get(cell.cc, cell.cc)), seed)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ours = dict(zip(jobs, pool.map(lambda job: simulate(*job), jobs), strict=True))
    compared = []
    for cell, runs in rows.items():
        theirs, here = [row.outcome for row in runs], [ours[cell, row.seed] for row in runs]
        compared.append({
            **{key: getattr(cell, key) for key in matrix.CELL_COLUMNS},
            "block": cell.block,
            "cell": str(cell),
            "runs": len(runs),
            "ratio": mean("goodput_mbps", here) / mean("goodput_mbps", theirs),
            "spread": spread(here, theirs),
            "ratio_error": error([o.goodput_mbps for o in here], [o.goodput_mbps for o in theirs]),
            **{f"linux_{key}": mean(key, theirs) for key in matrix.OUTCOME_COLUMNS},
            **{f"roughlink_{key}": mean(key, here) for key in matrix.OUTCOME_COLUMNS},
        })
    return compared


def mean(key: str, outcomes: list[Outcome]) -> float:
    return statistics.fmean(getattr(o, key) for o in outcomes)


def spread(ours: list[Outcome], theirs: list[Outcome]) -> float | None:
    """Returns the largest ratio of a single seed minus the smallest."""
    ratios = [a.goodput_mbps / b.goodput_mbps for a, b in zip(ours, theirs, strict=True)]
    return max(ratios) - min(ratios) if len(ratios) > 1 else None


def error(ours: list[float], theirs: list[float]) -> float | None:
    """Returns half of the 95 % interval of the ratio of means, from differences of runs with the same seed."""
    if len(ours) < 2:
        return None
    ratio = sum(ours) / sum(theirs)
    return cli.mean_ci([a - ratio * b for a, b in zip(ours, theirs, strict=True)])[1] / statistics.fmean(theirs)


def summary(cells: list[dict]) -> dict:
    off = [abs(c["ratio"] - 1) for c in cells]
    return {
        "cells": len(cells),
        "runs": sum(c["runs"] for c in cells),
        "median_ratio": statistics.median(c["ratio"] for c in cells),
        "median_off": statistics.median(off),
        "p90_off": cli.quantile(off, 0.9),
        "within_5": sum(o <= 0.05 for o in off) / len(off),
        "within_15": sum(o <= 0.15 for o in off) / len(off),
    }
