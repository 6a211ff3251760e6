#!/usr/bin/env python3
"""Trains a small congestion control on noisy power-line cables, and compares it with others on other links.

    python python/examples/learn.py train --out policy.json --curve curve.png
    python python/examples/learn.py evaluate --policy policy.json --picture learned.png

Once per round trip the policy multiplies the window by a factor. The binary logarithm of the factor is a weighted sum
of nine features of the last round trip, plus a constant. An evolution strategy with antithetic sampling trains the
policy. All training runs of a generation share one `roughlink.gym.TransportVectorEnv`. docs/how-to/learning.md explains
the details. The same options give the same policy bit for bit, with any number of threads.

Needs `roughlink[gym]`, and matplotlib for pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import roughlink as rl
import roughlink.gym as rg
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEATURES = ("queued", "queued slowly", "lost", "lost slowly", "used", "recovering", "trend", "of best", "last action")
PARAMETERS = len(FEATURES) + 1  # and a constant
COMMITTED = Path(__file__).with_name("policy.json")


class PolicyError(ValueError):
    """A file is not a valid policy; the message gives the reason."""


class Actor:
    """Executes policies, one for each row of weights, each with its own averages and last action.

    The code uses only elementwise arithmetic in a fixed order, because the last bits of NumPy's powers and matrix
    products depend on the machine.
    """

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self.queued, self.lost, self.before, self.best, self.last = np.zeros((5, len(weights)))

    def features(self, seen: rg.Numbers) -> list[Floats]:
        """Returns the features of the last interval for each row, in the order of `FEATURES`.

        Features have no unit, so that links of any rate and length look alike.
        """
        delivered, _, rtt, least, lost, window, in_flight, recovering, _ = seen.astype(np.float64).T
        # With few segments in flight a delayed acknowledgment looks like a queue, and a small window would stay small.
        believed = (rtt > 0) & (window >= 4)
        queued = np.where(believed, np.minimum(rtt / np.where(believed, least, 1) - 1, 4), 0)
        self.queued = self.queued + (queued - self.queued) / 8
        self.lost = self.lost + (lost - self.lost) / 16
        both = delivered + self.before
        trend = np.where(both > 0, (delivered - self.before) / np.where(both > 0, both, 1), 0)
        self.before = delivered
        self.best = np.maximum(delivered, self.best * 0.98)
        of_best = np.where(self.best > 0, delivered / np.where(self.best > 0, self.best, 1), 0)
        used = np.minimum(in_flight / window, 1)
        return [queued, self.queued, lost, self.lost, used, recovering, trend, of_best, self.last]

    def act(self, seen: rg.Numbers) -> rg.Numbers:
        """Returns an action for each row: the binary logarithm of the factor for the window, from -1 to 1."""
        out = self.weights[:, -1]
        for i, feature in enumerate(self.features(seen)):
            out = out + self.weights[:, i] * feature
        actions: rg.Numbers = np.clip(out, -1, 1).astype(np.float32)
        self.last = actions.astype(np.float64)
        return actions[:, None]


@dataclass(frozen=True)
class Policy:
    """A trained policy and the options that made it."""

    weights: Floats
    made: dict[str, Any]

    def algorithm(self, flow: rl.Flow) -> rl.CongestionControl:
        """Returns the policy as an algorithm for a flow: ``roughlink.register("learned", policy.algorithm)``."""
        actor = Actor(self.weights[None])
        return rg.Deployed(flow, lambda seen: actor.act(seen[None]), max_window=MAX_WINDOW)

    def save(self, path: Path) -> None:
        """Writes the policy atomically."""
        text = {"policy": FORMAT, "features": FEATURES, "made": self.made, "weights": self.weights.tolist()}
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(text, indent=1) + "\n")
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Reads a policy.

        Raises:
            PolicyError: The file is not a policy, or a policy with other features.
        """
        try:
            found = json.loads(path.read_text())
        except OSError as e:
            raise PolicyError(f"{path}: {e.strerror}") from None
        except ValueError as e:
            raise PolicyError(f"{path} is not JSON: {e}") from None
        if not isinstance(found, dict) or found.get("policy") != FORMAT:
            raise PolicyError(f"{path} is not a policy: expected \"policy\": {FORMAT!r}, as `learn.py train` writes it")
        if found.get("features") != list(FEATURES):
            raise PolicyError(f"{path} is a policy with other features than this program: train it again")
        weights = found.get("weights")
        if not isinstance(weights, list) or not all(type(w) in (int, float) for w in weights):
            raise PolicyError(f"{path}: \"weights\" must be a list of numbers")
        if len(weights) != PARAMETERS or not np.isfinite(weights).all():
            raise PolicyError(f"{path} has {len(weights)} weights; expected {PARAMETERS} finite numbers")
        return cls(np.array(weights, np.float64), found.get("made") or {})


FORMAT = "roughlink learn.py 1"
MAX_WINDOW = 500
"""Maximum window in segments."""


def cable(rate_mbps: float, delay_ms: float, loss_percent: float, queue: int, burst: int = 4) -> rl.Scenario:
    """Returns a download to a car over a charging cable that loses packets in bursts of 1 to `burst`.

    The path is that of the scenario v2g-one-car, but with packets of 1500 bytes and the Linux stack. The other
    arguments are the rate, one-way delay, mean loss and queue of the path.
    """
    noise: dict[str, Any] = {"kind": "burst", "mean": f"{loss_percent} %", "length": [1, burst], "direction": "forward"}
    plc: dict[str, Any] = {"rate": f"{rate_mbps} Mbit/s", "delay": "0.9 ms", "queue": f"{queue} pkt"}
    return rl.scenario(
        {
            "name": "Cable",
            "duration": "60 s",
            "tcp": {"stack": "linux", "cc": "cubic"},
            "node": [{"name": "server"}, {"name": "charger"}, {"name": "car"}],
            "link": [
                {
                    "name": "internet",
                    "between": ["server", "charger"],
                    "rate": "500 Mbit/s",
                    "delay": f"{delay_ms - 0.9} ms",
                },
                {"name": "plc", "between": ["charger", "car"], **plc, **({"noise": noise} if loss_percent else {})},
            ],
            "flow": [{"name": "download", "kind": "bulk", "from": "server", "to": "car"}],
        }
    )


def drawn(random: np.random.Generator) -> tuple[rl.Scenario, float]:
    """Draws a cable for training; returns it with its rate in Mbit/s."""
    rate = between(random, 2, 20)
    delay = between(random, 4, 40)
    loss = 0.0 if random.random() < 0.25 else between(random, 0.1, 2.5)
    return cable(rate, delay, loss, int(random.integers(25, 201))), rate


def between(random: np.random.Generator, low: float, high: float) -> float:
    """Draws a number, uniform in its logarithm, rounded to three decimals."""
    return float(round(low * (high / low) ** random.random(), 3))


def returns(
    weights: Floats, links: list[tuple[rl.Scenario, float]], steps: int, seed: int, threads: int
) -> Floats:
    """Computes the return of each policy (row) on each link (column). All policies meet the same noise.

    The return is the time average of `delivered / rate - DELAY * queued - LOSS * lost` over an episode. `queued` is the
    share of the round-trip time that is spent in queues, and `lost` the share of bytes that are lost.
    """
    many, count = len(weights), len(links)
    scenarios = [scenario for scenario, _ in links] * many
    rates = np.array([rate for _, rate in links] * many)
    env = rg.TransportVectorEnv(many * count, scenarios, max_window=MAX_WINDOW, threads=threads)
    seen, _ = env.reset(seed=[seed + i for i in range(count)] * many)
    actor = Actor(np.repeat(weights, count, axis=0))
    got, time_s = np.zeros((2, many * count))
    for _ in range(steps):
        seen, _, _, _, _ = env.step(actor.act(seen))
        delivered, _, rtt, least, lost, _, _, _, took = seen.astype(np.float64).T
        queued = np.where(rtt > 0, 1 - least / np.where(rtt > 0, rtt, 1), 0)
        got = got + (delivered / rates - DELAY * queued - LOSS * lost) * took
        time_s = time_s + took
    result: Floats = (got / time_s).reshape(many, count)
    return result


DELAY, LOSS = 0.5, 1.0


@dataclass(frozen=True)
class Plan:
    """Options of a training run."""

    seed: int = 1
    generations: int = 100
    pairs: int = 16
    cables: int = 8
    steps: int = 150
    spread: float = 0.1
    rate: float = 0.03


def train(
    plan: Plan, threads: int = 1, report: Callable[[int, float, Floats], None] | None = None, every: int = 10
) -> Floats:
    """Trains a policy and returns its weights.

    In each generation, pairs of policies on both sides of the current one run on the same newly drawn links. The
    current policy moves toward the better ones, with Adam and a shrinking step.

    Args:
        plan: Options of the training; `plan.seed` determines all random numbers.
        threads: Threads for the simulations.
        report: Called with the generation, the mean return on links that training does not use, and the weights.
        every: Generations between reports.
    """
    random = np.random.default_rng([plan.seed, 0])
    apart = np.random.default_rng([plan.seed, 1])
    check = [drawn(apart) for _ in range(CHECKED)]
    weights = np.zeros(PARAMETERS)
    mean, square = np.zeros((2, PARAMETERS))
    fade_mean = fade_square = 1.0
    for generation in range(plan.generations + 1):
        if report and (generation % every == 0 or generation == plan.generations):
            seed = FIRST_SEED - CHECKED
            report(generation, mean_of(returns(weights[None], check, plan.steps, seed, threads)[0]), weights)
        if generation == plan.generations:
            break
        noise = random.standard_normal((plan.pairs, PARAMETERS))
        links = [drawn(random) for _ in range(plan.cables)]
        tried = np.concatenate([weights + plan.spread * noise, weights - plan.spread * noise])
        seed = FIRST_SEED + generation * plan.cables
        values = np.array([mean_of(row) for row in returns(tried, links, plan.steps, seed, threads)])
        better = values[: plan.pairs] - values[plan.pairs :]
        gradient = np.zeros(PARAMETERS)
        for share, direction in zip(better, noise, strict=True):
            gradient = gradient + share * direction
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient * gradient
        fade_mean, fade_square = fade_mean * 0.9, fade_square * 0.99
        step = plan.rate * (1 - generation / plan.generations)
        weights = weights + step * (mean / (1 - fade_mean)) / (np.sqrt(square / (1 - fade_square)) + 1e-8)
    return weights


def mean_of(values: Floats) -> float:
    """Returns the mean. The values are added in a fixed order."""
    return float(sum(values.tolist()) / len(values))


FIRST_SEED = 1_000_000
CHECKED = 32
"""Number of links for the training curve. Training does not use them."""


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")
    usual = Plan()
    t = commands.add_parser("train", help="train a policy", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    t.add_argument("--out", type=Path, default=Path("policy.json"), help="file for the policy")
    t.add_argument("--curve", type=Path, help="draw the returns by generation into this file")
    t.add_argument("--threads", type=int, default=1, help="threads for the simulations (1)")
    t.add_argument("--seed", type=int, default=usual.seed, help="seed of all random numbers")
    t.add_argument("--generations", type=int, default=usual.generations, help="number of generations")
    t.add_argument("--pairs", type=int, default=usual.pairs, help="pairs of policies in a generation")
    t.add_argument("--cables", type=int, default=usual.cables, help="links for each policy in a generation")
    t.add_argument("--steps", type=int, default=usual.steps, help="round trips on each link")
    e = commands.add_parser("evaluate", help="compare a policy with other algorithms on links not used in training")
    e.add_argument("--policy", type=Path, default=COMMITTED, help="file of the policy; the committed one by default")
    e.add_argument("--replicas", type=int, default=24, help="runs of each algorithm on each link (default: 24)")
    e.add_argument("--link", action="append", metavar="NAME", help="compare on this link only; may be repeated")
    e.add_argument("--picture", type=Path, help="draw the comparison into this file")
    args = p.parse_args()
    for name in ("generations", "pairs", "cables", "steps", "replicas"):
        if getattr(args, name, 1) < 1:
            p.error(f"--{name} must be at least 1")
    try:
        if args.command == "train":
            return train_and_save(args)
        from held_out import evaluate

        return evaluate(Policy.load(args.policy), args.replicas, args.link, args.picture)
    except (PolicyError, rl.RoughlinkError, OSError) as error:
        print(f"learn.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlearn.py: stopped", file=sys.stderr)
        return 130


def train_and_save(args: argparse.Namespace) -> int:
    """Runs the command `train`. The policy is saved every ten generations, so that Ctrl-C loses little."""
    plan = Plan(args.seed, args.generations, args.pairs, args.cables, args.steps)
    begin = time.monotonic()
    curve: list[tuple[int, float]] = []
    command = (
        f"learn.py train --seed {plan.seed} --generations {plan.generations} --pairs {plan.pairs} "
        f"--cables {plan.cables} --steps {plan.steps}"
    )

    def report(generation: int, value: float, weights: Floats) -> None:
        curve.append((generation, value))
        made = {"command": command, "version": rl.__version__, "generations": generation, "returns": curve}
        Policy(weights, made).save(args.out)
        print(
            f"generation {generation:4} of {plan.generations}  return {value:.4f}  {time.monotonic() - begin:.0f} s",
            flush=True,
        )

    try:
        train(plan, args.threads, report)
    finally:
        if args.curve and len(curve) > 1:
            draw(curve, args.curve)
    print(f"wrote {args.out}")
    return 0


def draw(curve: list[tuple[int, float]], path: Path) -> None:
    """Draws the training curve: the mean return by generation."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axes.plot(*zip(*curve, strict=True), color="#1f5fa8", linewidth=2)
    axes.set_xlabel("generation", fontsize=13)
    axes.set_ylabel(f"return, mean of {CHECKED} links", fontsize=13)
    axes.tick_params(labelsize=12)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    sys.exit(main())
