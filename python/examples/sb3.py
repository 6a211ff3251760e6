#!/usr/bin/env python3
"""Trains a congestion control with PPO from Stable-Baselines3, and compares it with CUBIC and BBR on other links.

    python python/examples/sb3.py --steps 1000000 --seed 1 -o ppo
    python python/examples/sb3.py --policy ppo/policy.npz

The first command trains and compares. The second compares a saved policy and needs neither PyTorch nor
Stable-Baselines3. The program trains and compares on the same links as `learn.py`. docs/how-to/learning-sb3.md explains
the details.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import roughlink as rl
import roughlink.gym as rg
from held_out import LINKS, SEED, Link, metrics
from learn import Floats, drawn

HISTORY, MAX_WINDOW = 4, 500
"""Round trips that the policy sees, and the largest window in segments."""
ALGORITHMS = ["ppo", "cubic", "bbr"]


def observe(seen: rg.Numbers, info: rg.Info | None = None) -> rg.Numbers:
    """Returns five features of each row: queueing delay, loss, use of the window, recovery and size of the window."""
    _, _, rtt, least, lost, window, in_flight, recovering, _ = seen.T
    queued = np.where(rtt > 0, np.minimum(rtt / np.maximum(least, 1e-3) - 1, 4), 0)
    window = np.maximum(window, 1)  # all numbers are 0 before the first reset
    return np.stack([queued, lost, in_flight / window, recovering, np.log2(window) / 8], axis=1)


def reward(seen: rg.Numbers, info: rg.Info) -> Floats:
    """Returns the delivered share of the link's rate, minus penalties for queueing and loss, as in `learn.py`."""
    delivered, _, rtt, least, lost = seen.T[:5].astype(np.float64)
    queued = np.where(rtt > 0, 1 - least / np.where(rtt > 0, rtt, 1), 0)
    rewards: Floats = delivered / info["rate_mbps"] - 0.5 * queued - lost
    return rewards


def cable(random: np.random.Generator) -> rl.Scenario:
    """Draws a noisy charging cable for an episode of 15 s."""
    return drawn(random)[0].set("duration", "15 s")


ENVIRONMENT: dict[str, Any] = dict(
    scenario=cable, observe=observe, reward=reward, privileged=True, history=HISTORY, max_window=MAX_WINDOW
)


def as_vec_env(env: rg.TransportVectorEnv) -> Any:
    """Returns the environments as a `VecEnv` of Stable-Baselines3. Their autoreset mode must be ``SAME_STEP``."""
    from stable_baselines3.common.vec_env import VecEnv, VecMonitor

    class Adapter(VecEnv):  # type: ignore[misc]  # Any if Stable-Baselines3 is not installed
        set_attr = env_method = None  # abstract in `VecEnv`, not used by PPO

        def reset(self) -> rg.Numbers:
            seen, _ = env.reset(seed=self._seeds)
            self._reset_seeds()
            return seen

        def step_async(self, actions: rg.Numbers) -> None:
            self.actions = actions

        def step_wait(self) -> tuple[Any, ...]:
            seen, rewards, terminated, truncated, info = env.step(self.actions)
            over = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in over]
            for i in np.flatnonzero(over):
                infos[i] = {"terminal_observation": info["final_obs"][i], "TimeLimit.truncated": bool(truncated[i])}
            return seen, rewards.astype(np.float32), over, infos

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(env, attr_name)] * self.num_envs

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * self.num_envs

        def close(self) -> None:
            env.close()

    return VecMonitor(Adapter(env.num_envs, env.single_observation_space, env.single_action_space))


def train(steps: int, seed: int, separate: bool = False, envs: int = 64) -> Any:
    """Trains PPO and returns the model. `separate` environments are slower and give the same model."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    if separate:
        many = make_vec_env("roughlink/Transport-v0", envs, env_kwargs={**ENVIRONMENT, "render_mode": None})
    else:
        many = as_vec_env(rg.TransportVectorEnv(envs, autoreset_mode="SameStep", **ENVIRONMENT))
    spread = {"log_std_init": -1.0}  # with PPO's usual 0, the first windows are too random
    model = PPO("MlpPolicy", many, n_steps=64, batch_size=16 * envs, policy_kwargs=spread, seed=seed, device="cpu")
    return model.learn(steps)


@dataclass(frozen=True)
class Policy:
    """Trained network: weights and biases of its layers."""

    layers: list[tuple[rg.Numbers, rg.Numbers]]

    def __call__(self, seen: rg.Numbers) -> rg.Numbers:
        """Returns the action for the last observations, one per row. `model.predict` differs only in the last bits."""
        x = observe(seen).reshape(-1)
        for weight, bias in self.layers[:-1]:
            x = np.tanh(weight @ x + bias)
        weight, bias = self.layers[-1]
        action: rg.Numbers = np.clip(weight @ x + bias, -1, 1)
        return action

    def algorithm(self, flow: rl.Flow) -> rl.CongestionControl:
        """Returns the policy as an algorithm for a flow: ``roughlink.register("ppo", policy.algorithm)``."""
        return rg.Deployed(flow, self, history=HISTORY, max_window=MAX_WINDOW)

    @classmethod
    def from_model(cls, model: Any) -> Policy:
        """Copies the network of a PPO model with the policy ``"MlpPolicy"``."""
        hidden = [layer for layer in model.policy.mlp_extractor.policy_net if hasattr(layer, "weight")]
        arrays = [(layer.weight.detach(), layer.bias.detach()) for layer in [*hidden, model.policy.action_net]]
        return cls([(weight.numpy().copy(), bias.numpy().copy()) for weight, bias in arrays])

    def save(self, path: Path) -> None:
        """Writes the arrays to a file that NumPy reads."""
        np.savez(path, *[array for layer in self.layers for array in layer])

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Reads a file that :meth:`save` wrote."""
        with np.load(path) as file:
            arrays = [file[name] for name in file.files]
        return cls(list(zip(arrays[::2], arrays[1::2], strict=True)))


def measure(link: Link, algorithm: str, replicas: int) -> list[list[float]]:
    """Returns a list for each metric, with a value for each replica. `learn.py` uses the same links and noise."""
    found = []
    for replica in range(replicas):
        scenario = link.make(np.random.default_rng([SEED, replica]))
        keys = {f"flow.{name}.cc": algorithm for name in [link.flow, *(["other"] if link.alike else [])]}
        flows = scenario.set(keys).run(replica=SEED + replica).result["flows"]
        found.append(metrics(next(flow for flow in flows if flow["name"] == link.flow), None))
    return [[sample[name] for sample in found] for name in found[0]]


def compare(policy: Policy, replicas: int, links: list[Link] = LINKS) -> None:
    """Prints a Markdown table. Each cell has the means of all algorithms."""
    rl.register("ppo", policy.algorithm)
    print("| link | throughput, Mbit/s | ppo - cubic | 95th percentile of the RTT, ms | retransmissions, % |")
    print("|---|---|---|---|---|")
    for link in links:
        found = [measure(link, name, replicas) for name in ALGORITHMS]
        cells = [" / ".join(f"{np.mean(each):.3g}" for each in metric) for metric in zip(*found, strict=True)]
        ppo, cubic = (np.array(metric[0]) for metric in found[:2])
        low, high = rl.Estimate.of_samples((ppo - cubic).tolist()).interval()
        interval = "" if low is None or high is None else f" ({low:+.3g} to {high:+.3g})"
        cells.insert(1, f"{np.mean(ppo - cubic):+.3g}{interval}")
        print(f"| {link.name} | " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=1_000_000, help="steps of the training (default: 1000000)")
    p.add_argument("--seed", type=int, default=1, help="seed of the training (default: 1)")
    p.add_argument("--separate", action="store_true", help="use an object for each environment, which is slower")
    p.add_argument("--replicas", type=int, default=24, help="runs of each algorithm on each link; 0 to train only (24)")
    p.add_argument("--policy", type=Path, metavar="FILE", help="compare this policy instead of training one")
    p.add_argument("-o", "--output", type=Path, default=Path("ppo"), metavar="FOLDER", help="folder for the policy")
    args = p.parse_args()
    if args.policy:
        policy = Policy.load(args.policy)
    else:
        begin = time.process_time()
        model = train(args.steps, args.seed, args.separate)
        print(f"{model.num_timesteps} steps in {time.process_time() - begin:.0f} s of CPU time", file=sys.stderr)
        args.output.mkdir(parents=True, exist_ok=True)
        model.save(args.output / "model.zip")
        policy = Policy.from_model(model)
        policy.save(args.output / "policy.npz")
    if args.replicas:
        compare(policy, args.replicas)
    return 0


if __name__ == "__main__":
    sys.exit(main())
