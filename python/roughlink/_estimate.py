"""Means with what is known of their error."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, variance
from typing import Any, NamedTuple

from . import _native


class Estimate(NamedTuple):
    """A mean, and how far off it may be."""

    mean: float | None
    """``None`` if it is not known."""
    error: float | None
    """Its standard error; ``None`` if it is not known, and 0 if nothing is random."""
    freedom: float
    """Degrees of freedom of the standard error."""

    @classmethod
    def of(cls, cells: Sequence[dict[str, Any]]) -> Estimate:
        """The mean over cells of results, each counting the same. Cells share their replicas' random numbers, so they are
        averaged replica by replica, and what these averages differ by is the error."""
        if any(cell["measured"] is None for cell in cells):
            return cls(None, None, 0.0)
        if all(cell.get("deterministic") for cell in cells):
            return cls(fmean(cell["measured"] for cell in cells), 0.0, 0.0)
        samples = _by_replica(cells)
        mean = cells[0]["measured"] if len(cells) == 1 else fmean(cell["measured"] for cell in cells)
        return cls(mean, *_error(samples))

    @classmethod
    def of_samples(cls, samples: Sequence[float]) -> Estimate:
        """The mean of independent values, such as those of replicas, or of the differences between two algorithms in the same replicas."""
        return cls(fmean(samples), *_error(samples)) if samples else cls(None, None, 0.0)

    def interval(self) -> tuple[float | None, float | None]:
        """The 95 % interval (Student)."""
        if self.mean is None or not self.error:
            return None, None
        half = _native.student95(self.freedom) * self.error
        return self.mean - half, self.mean + half

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two (Welch)."""
        if self.mean is None or other.mean is None:
            return Estimate(None, None, 0.0)
        mean = self.mean - other.mean
        if self is other or self.error is None or other.error is None:
            return Estimate(mean, None, 0.0)
        squares = [self.error**2, other.error**2]
        slack = sum(s**2 / f for s, f in zip(squares, (self.freedom, other.freedom), strict=True) if s)
        return Estimate(mean, sqrt(sum(squares)), sum(squares) ** 2 / slack if slack else 0.0)


def _error(samples: Sequence[float]) -> tuple[float | None, float]:
    """The standard error of a mean, and its degrees of freedom."""
    n = len(samples)
    # Equal values say something once the sign test does: with six.
    if n < 2 or (n < 6 and min(samples) == max(samples)):
        return None, 0.0
    return sqrt(variance(samples) / n), n - 1.0


def _by_replica(cells: Sequence[dict[str, Any]]) -> list[float]:
    """The mean over the cells in each replica that all of them have; what is not random counts in each."""
    found: list[dict[int, float]] = []
    for cell in cells:
        samples = cell["samples"]
        if not cell.get("deterministic"):
            found.append(dict(zip(cell.get("numbers") or range(len(samples)), samples, strict=False)))
    common = sorted(set.intersection(*(set(each) for each in found)))
    return [fmean(each[replica] for each in found) * len(found) / len(cells) for replica in common]
