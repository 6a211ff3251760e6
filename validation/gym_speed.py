#!/usr/bin/env python3
"""Measurement of steps per second of `roughlink.gym`, and of the same environment in Gymnasium's vector environments.

Gymnasium runs environments in one process each (`AsyncVectorEnv`) or one after the other (`SyncVectorEnv`). Rounds
alternate. The output has medians of steps per second and of steps per second of CPU time, summed over all processes.
The last column is a row's steps per second of CPU time divided by the same figure of the first row in the same round.
CPU time varies less than elapsed time with other load on the machine. A step is a round trip of a flow with 10 segments
in its window. Linux only; needs `roughlink` and `gymnasium`.

    PYTHONPATH=python target/python/bin/python validation/gym_speed.py

`--ns3-gym PROGRAM --ns3-gym-python FOLDER` adds ns3-gym, and the ratios are then to ns3-gym. PROGRAM is its compiled
example rl-tcp. FOLDER is its `model/ns3gym` with `messages_pb2.py`. The flow has the same bottleneck and window,
with a decision in each fixed step of the same length. Needs `pyzmq` and `protobuf`.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import roughlink as rl
import roughlink.gym as rg

SCENARIO = rl.load("hello").set({"flow.download.bytes": "unlimited", "duration": "1 h"})
ID = "roughlink/Transport-v0"


def ways():
    """Yields the name, number and constructor of environments."""
    for count in (1, 2, 4):
        name = f"AsyncVectorEnv, {count} process{'es' if count > 1 else ''}"
        yield name, count, lambda n=count: gymnasium.make_vec(ID, n, vectorization_mode="async", scenario=SCENARIO)
    yield "one TransportEnv", 1, lambda: gymnasium.make(ID, scenario=SCENARIO).unwrapped
    yield "SyncVectorEnv, 100", 100, lambda: gymnasium.make_vec(ID, 100, vectorization_mode="sync", scenario=SCENARIO)
    for count in (100, 1000):
        for threads in (1, 2):
            name = f"TransportVectorEnv, {count}, {threads} thread{'s' if threads > 1 else ''}"
            yield name, count, lambda n=count, t=threads: rg.TransportVectorEnv(n, SCENARIO, threads=t)


class Ns3Gym:
    """Environment of ns3-gym for one flow, with its simulation."""

    def __init__(self, program, folder):
        # ns3-gym was written for older versions of NumPy and Gymnasium.
        np.int, np.float = int, float
        for name in [name for name in sys.modules if name.partition(".")[0] == "gymnasium"]:
            sys.modules[name.replace("gymnasium", "gym", 1)] = sys.modules[name]
        sys.path.insert(0, str(folder))
        from ns3gym.ns3env import Ns3Env

        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        link = ["--bottleneck_bandwidth=10Mbps", "--bottleneck_delay=10ms", "--access_bandwidth=1Gbps",
                "--access_delay=0.01ms", "--mtu=1500"]
        time_based = ["--transport_prot=TcpRlTimeBased", f"--envTimeStep={NS3_STEP_S}", "--duration=1000000",
                      "--data=0"]
        process = subprocess.Popen([program, f"--openGymPort={port}", *time_based, *link], stdout=subprocess.DEVNULL)
        self.processes = [process]
        self.env = Ns3Env(port=port, stepTime=NS3_STEP_S, startSim=False)
        for _ in range(100):  # past the handshake
            self.step(None)

    def reset(self, seed):
        pass

    def step(self, actions):
        self.env.step([65535, 10 * 1440])  # ssthresh and window, bytes

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


NS3_STEP_S = 0.0212
"""Length of a step, s: a round trip of 20 ms plus the transmission time of a packet."""


def cpu(env):
    """Returns the CPU seconds of this process and of an environment's processes."""
    pids = [os.getpid(), *(process.pid for process in getattr(env, "processes", ()))]
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def rate(env, count, seconds):
    """Returns steps per second and per second of CPU time, summed over all environments."""
    env.reset(seed=1)
    actions = np.zeros((count, 1) if hasattr(env, "num_envs") else 1, np.float32)
    env.step(actions)
    steps, begin, spent = 0, time.perf_counter(), cpu(env)
    while time.perf_counter() - begin < seconds:
        for _ in range(10):
            env.step(actions)
        steps += 10 * count
    return steps / (time.perf_counter() - begin), steps / (cpu(env) - spent)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=2.0, help="time for each row in each round")
    p.add_argument("--ns3-gym", metavar="PROGRAM")
    p.add_argument("--ns3-gym-python", metavar="FOLDER")
    args = p.parse_args()
    base = [("ns3-gym, rl-tcp", 1, Ns3Gym(args.ns3_gym, args.ns3_gym_python))] if args.ns3_gym else []
    envs = base + [(name, count, make()) for name, count, make in ways()]
    rates = {name: [] for name, _, _ in envs}
    try:
        for _ in range(args.rounds):
            for name, count, env in envs:
                rates[name].append(rate(env, count, args.seconds))
    finally:
        for _, _, env in envs:
            env.close()
    first = [per_cpu for _, per_cpu in rates[envs[0][0]]]
    for name, found in rates.items():
        ratios = [per_cpu / base for (_, per_cpu), base in zip(found, first, strict=True)]
        wall, per_cpu = (statistics.median(each) for each in zip(*found, strict=True))
        print(
            f"{name:35} {wall:8.0f} /s {per_cpu:8.0f} /s of CPU "
            f"{statistics.median(ratios):6.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        )
    print("load:", *os.getloadavg())


if __name__ == "__main__":
    main()
