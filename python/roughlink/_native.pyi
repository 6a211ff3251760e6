"""What needs Rust; use the names of `roughlink` instead."""

from collections.abc import Callable
from os import PathLike
from typing import final

__all__ = [
    "Fault",
    "LimitError",
    "Plan",
    "RoughlinkError",
    "Run",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "engine",
    "names",
    "read",
    "schema",
    "student95",
    "sweep",
]
__version__: str
engine: str

class RoughlinkError(Exception): ...
class ScenarioError(RoughlinkError): ...
class LimitError(RoughlinkError): ...
class Fault(RoughlinkError): ...

@final
class Scenario:
    name: str
    text: str
    seed: int
    duration_s: float
    nodes: list[str]
    flows: list[str]
    links: list[str]
    warnings: list[str]
    @staticmethod
    def read(name: str, allow_outside: bool) -> Scenario: ...
    @staticmethod
    def of(
        text: str,
        name: str,
        folder: str | PathLike[str] | None,
        allow_outside: bool,
        overrides: list[tuple[str, str]],
    ) -> Scenario: ...
    @staticmethod
    def of_json(json: str, name: str, folder: str | PathLike[str] | None) -> Scenario: ...
    def set(self, pairs: list[tuple[str, str]]) -> Scenario: ...
    def parts(self) -> tuple[str, str, PathLike[str] | None, bool, list[tuple[str, str]]]: ...
    def run(
        self, replica: int, series: tuple[str, int] | None, max_memory: int | None, max_events: int | None
    ) -> Run: ...

@final
class Run:
    def json(self) -> str: ...
    def flows(self) -> Table: ...
    def links(self) -> Table: ...
    def series(self, name: str) -> Table | None: ...
    @staticmethod
    def series_columns() -> list[tuple[str, list[str]]]: ...

@final
class Table:
    def __len__(self) -> int: ...
    def columns(self) -> list[tuple[str, str, str, str]]: ...
    def head(self, count: int) -> Table: ...
    def select(self, names: list[str]) -> Table: ...
    def column(self, name: str) -> list[object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Plan:
    warnings: list[str]
    def __len__(self) -> int: ...
    def folder(self, base: str | PathLike[str]) -> PathLike[str]: ...
    def work(
        self,
        folder: str | PathLike[str],
        threads: int,
        max_memory: int | None,
        report: Callable[[int, int, int, int, int], None],
    ) -> tuple[PathLike[str], str, Table]: ...

def names() -> list[str]: ...
def schema() -> str: ...
def sweep(
    scenario: Scenario,
    vary: list[tuple[str, list[str]]],
    replicas: int,
    seed: int | None,
    metrics: list[str],
    max_runs: int,
) -> Plan: ...
def student95(freedom: float) -> float: ...
def read(folder: str | PathLike[str]) -> tuple[str, str]: ...
