"""Common parts of the commands: the --roughlink option, exit codes, small statistics and tables."""

import argparse
import math
import statistics
import sys
from pathlib import Path

from roughlink_validation.simulators import DEFAULT_BINARY, Failed, Missing

ENVIRONMENT = 3
EXPECTATION = 5


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--roughlink", type=Path, default=DEFAULT_BINARY, metavar="PATH",
                      help="the roughlink program (default: target/release/roughlink of this repository)")
    return made


def guarded(main) -> int:
    """Runs a command and returns its exit code: 3 if a prerequisite is missing, 1 if a run failed."""
    try:
        return main() or 0
    except Missing as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return ENVIRONMENT
    except Failed as failed:
        print(f"error: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def progress_end() -> None:
    progress("")


# Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
       2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def mean_ci(values: list[float]) -> tuple[float, float]:
    """Returns the mean and the half width of its 95 % confidence interval."""
    if len(values) < 2:
        return values[0], float("nan")
    t = T95[min(len(values) - 1, len(T95)) - 1]
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def quantile(values: list[float], q: float) -> float:
    """Returns a quantile, interpolated linearly between the order statistics."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))
