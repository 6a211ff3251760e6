#!/usr/bin/env python3
"""Writes the reference of the Python package, `docs/reference/python.md`, from its annotations and docstrings.

Reads only the sources. `make docs` runs it, and `python/tests/test_reference.py` checks the page and the docstrings.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "roughlink"
PAGE = PACKAGE.parents[1] / "docs" / "reference" / "python.md"
FILES = {"roughlink": "__init__", "roughlink.gym": "gym", "roughlink.multi_agent": "multi_agent"}
SECTIONS = {
    "Scenarios and runs": "load scenario scenarios Scenario run Run emulate Emulation quantity schema algorithms",
    "Tables and result folders": "Table Column read Paper",
    "Sweeps": "sweep merge metrics Sweep Experiment Estimate",
    "Congestion control": "CongestionControl register Permit UNLIMITED Flow Ack RateSample Sent LinkEvent Congestion",
    "Errors and version": "RoughlinkError ScenarioError LimitError Fault RoughlinkWarning __version__",
    "roughlink.gym": "TransportEnv TransportVectorEnv OBSERVATION Numbers Info Reward Deployed",
    "roughlink.multi_agent": "TransportParallelEnv",
    "Types in signatures": "Value Maker ScenarioLike ScenarioMaker Observe Rate",
}
INTRODUCTION = "All public names. [Python and notebooks](../how-to/python.md) explains how to use them."
TITLES = {"Args:": "Arguments", "Returns:": "Returns", "Yields:": "Yields", "Raises:": "Raises"}


class Entry(NamedTuple):
    """A definition or an assignment with its docstring."""

    path: str
    """Name on the page, such as ``Scenario.set``."""
    node: ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
    doc: str
    source: str

    def heading(self) -> str:
        return f"class `{self.path}`" if isinstance(self.node, ast.ClassDef) else f"`{self.path}`"

    def is_attribute(self) -> bool:
        return not isinstance(self.node, ast.FunctionDef) or "property" in ast.unparse(self.node).partition("def ")[0]

    def constructor(self) -> ast.FunctionDef | None:
        return next((n for n in getattr(self.node, "body", []) if getattr(n, "name", "") == "__init__"), None)


def entries(body: list[ast.stmt], source: str, owner: str = "") -> Iterator[Entry]:
    """Yields definitions and assignments. The docstring of an assignment is the string after it."""
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=False):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield Entry(owner + node.name, node, ast.get_docstring(node) or "", source)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            text = getattr(after.value, "value", "") if isinstance(after, ast.Expr) else ""
            yield Entry(owner + name.removeprefix("self."), node, cleandoc(text), source)


@cache
def definitions() -> dict[str, Entry]:
    """Returns the definitions of all modules by name. Those of the compiled module yield to others of the same name."""
    found: dict[str, Entry] = {}
    for path in [PACKAGE / "_native.pyi", *sorted(PACKAGE.glob("_[!_]*.py")), *sorted(PACKAGE.glob("[!_]*.py"))]:
        found |= {each.path: each for each in entries(ast.parse(path.read_text()).body, path.read_text())}
    return found


def members(entry: Entry) -> list[Entry]:
    """Returns the attributes and methods of a class that have a docstring."""
    body = entry.node.body if isinstance(entry.node, ast.ClassDef) else []
    inside = getattr(entry.constructor(), "body", [])
    found = entries([*body, ast.Pass(), *inside], entry.source, f"{entry.path}.")
    return [each for each in found if each.doc and not re.search(r"\._[^_]", each.path)]


@cache
def anchors() -> dict[str, str]:
    """Returns the anchors of all names on the page."""
    found = {module: anchor(module) for module in FILES}
    for entry in (definitions()[name] for names in SECTIONS.values() for name in names.split()):
        found[entry.path] = anchor(entry.heading())
        found |= {each.path: anchor((entry if each.is_attribute() else each).heading()) for each in members(entry)}
    return found


def anchor(title: str) -> str:
    """Returns the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def link(name: str, owner: str = "") -> str:
    """Returns a link to a member of a class, or else to a name on the page."""
    name = re.sub(r"^roughlink\.(?:gym\.|multi_agent\.)?(?=[A-Z])", "", name)
    return f"[`{name}`](#{anchors().get(f'{owner}.{name}') or anchors()[name]})"


def signature(entry: Entry) -> str:
    """Returns the signature of a function or a class as in the source, but without `self`; or an assignment."""
    node = entry.constructor() or entry.node
    if not isinstance(node, ast.FunctionDef):
        return ast.unparse(node)
    lines = entry.source.splitlines()[node.lineno - 1 : max(node.lineno, node.body[0].lineno - 1)]
    text = re.sub(r"  # .*", "", textwrap.dedent("\n".join(lines))).removesuffix("...").rstrip(": ")
    text = re.sub(r"(\(\s*)(?:self|cls)(?:,\s*|(?=\)))", r"\1", text)
    return re.sub(r"^def __init__((?s:.*)) -> None$", rf"class {entry.path}\1", text)


def type_of(entry: Entry, owner: Entry) -> str:
    """Returns the type of an attribute with its default. Without an annotation, the constructor's argument has it."""
    given = {a.arg: a.annotation for a in ast.walk(owner.constructor() or ast.Pass()) if isinstance(a, ast.arg)}
    node = getattr(entry.node, "returns", None) or getattr(entry.node, "annotation", None)
    default = getattr(entry.node, "value", None)
    text = ast.unparse(node or given[entry.path.rpartition(".")[2]] or ast.Pass())
    return f"{text} = {ast.unparse(default)}" if isinstance(default, ast.Constant) else text


def inline(text: str, owner: str) -> str:
    """Converts roles, literals and paths of pages from reStructuredText to Markdown, in one line."""
    text = re.sub(r":[a-z]+:`([^`]+)`", lambda match: link(match[1], owner), " ".join(text.split()))
    text = re.sub(r"``docs/(\S+/)?(\S+\.md)``", r"[\2](../\1\2)", text).replace("](../reference/", "](")
    return text.replace("``", "`")


def wrapped(text: str) -> str:
    """Wraps a paragraph or an item. No line begins with a sign that Markdown takes for a list, heading or quotation."""
    text = re.sub(r"(?<=.) (?=(?:[-+*#>]|\d+[.)])(?: |$))", "\0", text)
    indent = "  " * text.startswith("- ")
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False).replace("\0", " ")


def table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def markdown(doc: str | None, owner: str = "") -> Iterator[str]:
    """Converts a docstring: paragraphs, lists, examples, tables with a heading, and sections in Google's style."""
    title = ""
    for block in doc.split("\n\n") if doc else []:
        first, _, rest = block.partition("\n")
        title = first if first in TITLES else title if block.startswith(" ") else ""
        text = textwrap.dedent(rest if first in TITLES else block)
        if first in TITLES:
            yield f"**{TITLES[title]}**"
        if title in ("Args:", "Raises:") or text.startswith("- "):
            items = [re.sub(r"^([\w.]+): ", r"- ``\1``: ", item) for item in re.split(r"\n(?=\S)", text)]
            yield "\n".join(wrapped(inline(item, owner)) for item in items)
        elif text.startswith(">>>"):
            yield f"```pycon\n{text}\n```"
        elif text.startswith("==="):
            border, *lines = text.splitlines()
            ends = [match.end() for match in re.finditer("=+ +", border)]
            spans = [*zip([0, *ends], [*ends, None], strict=True)]
            yield table([[inline(line[a:b], owner) for a, b in spans] for line in lines if line[0] != "="])
        else:
            yield wrapped(inline(text, owner))


def described(entry: Entry) -> Iterator[str]:
    """Yields the parts of the page about a name."""
    node, owner = entry.node, entry.path.partition(".")[0]
    yield f"{'####' if '.' in entry.path else '###'} {entry.heading()}"
    if not isinstance(node, ast.ClassDef) or "\nArgs:\n" in entry.doc:
        yield f"```python\n{signature(entry)}\n```"
    bases = (ast.unparse(base) for base in getattr(node, "bases", []))
    yield from (f"Subclass of {link(name)}." for name in bases if name in anchors())
    yield from markdown(entry.doc, owner)
    rows = [
        [f"`{each.path.partition('.')[2]}`", f"`{type_of(each, entry)}`", inline(each.doc, owner)]
        for each in members(entry)
        if each.is_attribute()
    ]
    if rows:
        yield table([["attribute", "type", "meaning"], *rows])
    for method in members(entry):
        yield from [] if method.is_attribute() else described(method)


def page() -> str:
    """Returns the page."""
    docs = {name: ast.get_docstring(ast.parse((PACKAGE / f"{file}.py").read_text())) for name, file in FILES.items()}
    parts = ["# Python package", "<!-- Made by `make docs`; do not edit. -->", INTRODUCTION]
    links = {title: ", ".join(map(link, names.split())) for title, names in SECTIONS.items()}
    parts += ["\n".join(wrapped(f"- [{title}](#{anchor(title)}): {names}") for title, names in links.items())]
    parts += markdown(docs["roughlink"])
    for title, names in SECTIONS.items():
        parts += [f"## {title}", *markdown(docs.get(title))]
        parts += [part for name in names.split() for part in described(definitions()[name])]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
