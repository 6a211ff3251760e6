"""Means with what is known of their error."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import variance
from typing import Any, NamedTuple

from . import _native


class Estimate(NamedTuple):
    """A mean."""

    mean: float | None
    """``None`` if it is not known."""
    error: float | None
    """Its standard error; ``None`` if it is not known, and 0 if nothing is random."""
    freedom: float
    """Degrees of freedom of the standard error."""

    @classmethod
    def of(cls, cell: dict[str, Any]) -> Estimate:
        """That of a cell of results."""
        samples, mean = cell["samples"], cell["measured"]
        if mean is None or cell.get("deterministic"):
            return cls(mean, None if mean is None else 0.0, 0.0)
        n = len(samples)
        # Equal values say something once the sign test does: with six.
        if n < 2 or (n < 6 and min(samples) == max(samples)):
            return cls(mean, None, 0.0)
        return cls(mean, sqrt(variance(samples) / n), n - 1.0)

    def interval(self) -> tuple[float | None, float | None]:
        """The 95 % interval (Student)."""
        if self.mean is None or not self.error:
            return None, None
        half = _native.student95(self.freedom) * self.error
        return self.mean - half, self.mean + half

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two."""
        if self is other:
            return Estimate(0.0 if self.mean is not None else None, 0.0, 0.0)
        return _sum([(1.0, self), (-1.0, other)])


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Their mean, each counting the same."""
    return estimates[0] if len(estimates) == 1 else _sum([(1 / len(estimates), each) for each in estimates])


def _sum(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """A weighted sum of independent estimates, with the degrees of freedom of Welch and Satterthwaite."""
    mean, square, slack = 0.0, 0.0, 0.0
    known = True
    for weight, each in parts:
        if each.mean is None:
            return Estimate(None, None, 0.0)
        mean += weight * each.mean
        if each.error is None:
            known = False
        elif each.error:
            part = (weight * each.error) ** 2
            square += part
            slack += part**2 / each.freedom
    return Estimate(mean, sqrt(square) if known else None, square**2 / slack if slack else 0.0)
