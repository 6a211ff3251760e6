"""Simulator of TCP over rough links: power-line cables, satellites, trains, modems.

    >>> import roughlink as rl
    >>> scenario = rl.load("hello").set("tcp.cc", "cubic")
    >>> run = scenario.run()
    >>> run.flows["throughput_mbps"]
    [9.2...]

A scenario is a file, a built-in scenario, or a dictionary with the same keys (``docs/reference/keys.md``). Times, rates
and sizes are text with a unit, such as ``"10 ms"``, ``"2 Mbit/s"`` and ``"1 MB"``. The same scenario, seed and replica
give the same result as on the command line, bit for bit.

Tables have ``__arrow_c_stream__``: ``polars.DataFrame(run.flows)`` and ``pandas.DataFrame.from_arrow(run.flows)`` use
their data without a copy. Tables themselves need no other library.
"""

from ._cc import UNLIMITED, CongestionControl, Permit, register
from ._native import Ack, Congestion, Flow, LinkEvent, RateSample, Sent
from ._emulate import Emulation, emulate
from ._estimate import Estimate
from ._native import Fault, LimitError, RoughlinkError, ScenarioError, __version__
from ._run import Run
from ._scenario import RoughlinkWarning, Scenario, algorithms, load, metrics, quantity, run, scenario, scenarios, schema
from ._experiment import Experiment
from ._sweep import Sweep, merge, sweep
from ._folder import Paper, read
from ._table import Column, Table

__all__ = [
    "Ack",
    "Column",
    "Congestion",
    "CongestionControl",
    "Emulation",
    "Estimate",
    "Experiment",
    "Fault",
    "Flow",
    "LimitError",
    "LinkEvent",
    "Paper",
    "Permit",
    "RateSample",
    "Run",
    "RoughlinkError",
    "RoughlinkWarning",
    "Scenario",
    "ScenarioError",
    "Sent",
    "Sweep",
    "Table",
    "UNLIMITED",
    "__version__",
    "algorithms",
    "emulate",
    "load",
    "merge",
    "metrics",
    "quantity",
    "read",
    "register",
    "run",
    "scenario",
    "scenarios",
    "schema",
    "sweep",
]
