"""Means and their standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, variance
from typing import Any, NamedTuple, SupportsFloat

from . import _native


class Estimate(NamedTuple):
    """A mean and its standard error."""

    mean: float | None
    """Mean; ``None`` if unknown."""
    error: float | None
    """Standard error of the mean; ``None`` if unknown, 0 if nothing is random."""
    freedom: float
    """Degrees of freedom of the standard error."""
    values: Mapping[int, float] | None = None
    """Values by replica; ``None`` if nothing is random or the replicas are unknown."""
    is_difference: bool = False
    """True if the values are differences within replicas. Their interval is corrected for skewness
    (``docs/reference/statistics.md``)."""

    @classmethod
    def of(cls, cells: Sequence[dict[str, Any]]) -> Estimate:
        """Returns the mean of result cells, which all have the same weight. Replicas with the same number share their
        random numbers in all cells. The cells are therefore averaged within each replica first, and the result
        has the standard error of these averages."""
        if any(cell["measured"] is None or cell.get("at_least") for cell in cells):
            return cls(None, None, 0.0)
        mean = cells[0]["measured"] if len(cells) == 1 else fmean(cell["measured"] for cell in cells)
        if all(cell.get("deterministic") for cell in cells):
            return cls(mean, 0.0, 0.0)
        if any("quantile" in cell for cell in cells):
            return cls(mean, None, 0.0)
        values = _by_replica(cells)
        if values and any(len(values) < len(cell["samples"]) for cell in cells if not cell.get("deterministic")):
            # An unfinished sweep: use the replicas that all cells have for the mean, too.
            mean = fmean(values.values())
        return cls(mean, *_error(list(values.values())), values)

    @classmethod
    def of_samples(cls, samples: Iterable[SupportsFloat]) -> Estimate:
        """Returns the mean of independent values, such as the values of replicas, or the differences between two
        algorithms within replicas."""
        values = [float(sample) for sample in samples]
        return cls(fmean(values), *_error(values)) if values else cls(None, None, 0.0)

    def interval(self, level: float = 0.95) -> tuple[float | None, float | None]:
        """Returns the confidence interval: Student's, or the one corrected for skewness if `is_difference` is set."""
        if self.is_difference and self.values:
            return _native.interval(list(self.values.values()), level) or (None, None)
        if self.mean is None or not self.error:
            return None, None
        half = _native.student(self.freedom, level) * self.error
        return self.mean - half, self.mean + half

    def minus(self, other: Estimate) -> Estimate:
        """Returns the mean difference within replicas. Both sides of a replica use the same random numbers. If one side
        is exact, it is paired with every replica of the other."""
        if self.mean is None or other.mean is None:
            return Estimate(None, None, 0.0)
        mean = self.mean - other.mean
        if self is other:
            return Estimate(mean, None, 0.0)
        own, others = self.values, other.values
        if own is None and others is None:
            return Estimate(mean, 0.0 if self.error == other.error == 0 else None, 0.0)
        if (own is None and self.error != 0) or (others is None and other.error != 0):
            return Estimate(mean, None, 0.0)
        numbers = set(others or ()) if own is None else set(own) if others is None else set(own) & set(others)
        minuend, subtrahend = own or dict.fromkeys(numbers, self.mean), others or dict.fromkeys(numbers, other.mean)
        differences = {n: minuend[n] - subtrahend[n] for n in sorted(numbers)}
        if not differences:
            return Estimate(mean, None, 0.0)
        return Estimate(fmean(differences.values()), *_error(list(differences.values())), differences, True)


def _error(samples: Sequence[float]) -> tuple[float | None, float]:
    """Returns the standard error of a mean, and its degrees of freedom."""
    n = len(samples)
    # Fewer than six equal values give no interval: their variance is 0, and a sign test of so few is never significant.
    if n < 2 or (n < 6 and min(samples) == max(samples)):
        return None, 0.0
    return sqrt(variance(samples) / n), n - 1.0


def _by_replica(cells: Sequence[dict[str, Any]]) -> dict[int, float]:
    """Returns, for each replica that all cells have, the mean over the cells. Deterministic cells count in every
    replica."""
    found: list[dict[int, float]] = []
    fixed = []
    for cell in cells:
        samples = cell["samples"]
        if cell.get("deterministic"):
            fixed.append(cell["measured"])
        else:
            found.append(dict(zip(cell.get("numbers") or range(len(samples)), samples, strict=False)))
    common = sorted(set.intersection(*(set(each) for each in found)))
    return {n: (sum(fixed) + sum(each[n] for each in found)) / len(cells) for n in common}
