"""The reference of this package: the page is up to date, and the docstrings have all that it needs."""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "site"))

import reference  # noqa: E402
from reference import Entry  # noqa: E402

TYPES = "Types in signatures"
# `TypeError` for arguments of a wrong type is left out, as in Python's own documentation.
UNLISTED = {"TypeError", "NotImplementedError", "AssertionError"}


def public() -> Iterator[Entry]:
    """Yields all names on the page, and public methods without a docstring that override no other of this package."""
    found = reference.definitions()
    for entry in (found[name] for names in reference.SECTIONS.values() for name in names.split()):
        yield entry
        yield from reference.members(entry)
        bases = [found[name] for b in getattr(entry.node, "bases", []) if (name := ast.unparse(b)) in found]
        inherited = {member.path.partition(".")[2] for base in bases for member in reference.members(base)}
        for each in reference.entries(getattr(entry.node, "body", []), entry.source):
            if isinstance(entry.node, ast.ClassDef) and isinstance(each.node, ast.FunctionDef) and not each.doc:
                if not (each.path.startswith("_") or each.path in inherited):
                    yield each._replace(path=f"{entry.path}.{each.path}")


def items(doc: str, title: str) -> dict[str, str]:
    """Returns the entries of a section such as ``Args``, with their lines joined."""
    section = re.search(rf"^{title}:\n((?:(?: .*)?\n)*)", doc + "\n", re.MULTILINE)
    texts = re.split(r"\n {4}(?=\S)", "\n" + section[1].rstrip()) if section else [""]
    return {text.partition(":")[0]: " ".join(text.partition(":")[2].split()) for text in texts[1:]}


def problems(entry: Entry) -> Iterator[str]:
    """Yields the gaps of a docstring."""
    doc, node = entry.doc, entry.constructor() or entry.node
    if not doc:
        yield "has no docstring"
    elif not doc.partition("\n\n")[0].endswith((".", ":", "``")):
        yield "begins with a paragraph without a full stop"
    if entry.is_attribute() and not isinstance(entry.node, ast.ClassDef) or not isinstance(node, ast.FunctionDef):
        return
    is_special = "__" in entry.path
    returns = ast.unparse(node.returns or ast.Constant(None))
    if returns != "None" and not is_special and not re.search(r"^(Returns|Yields)\b", doc, re.MULTILINE):
        yield f"does not describe its result, {returns}"
    every = [*node.args.args, *node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))]
    names = {each.arg for each in every} - {"self", "cls"}
    described = items(doc, "Args")
    for name in described.keys() - names:
        yield f"describes the argument {name}, which does not exist"
    if described and "other arguments" not in doc:
        for name in names - described.keys():
            yield f"does not describe the argument {name}"
    errors = items(doc, "Raises")
    for name, text in errors.items():
        if not hasattr(builtins, name) and name not in reference.SECTIONS["Errors and version"].split():
            if not name.startswith("gymnasium.error."):
                yield f"raises {name}, which is no public error"
        if not re.fullmatch(r"(?:[A-Z`].*|`\S.*)\.", text):
            yield f"describes {name} without a sentence: {text!r}"
    for each in ast.walk(node):
        name = ast.unparse(each.exc).partition("(")[0] if isinstance(each, ast.Raise) and each.exc else ""
        if name and name.removeprefix("_native.") not in {*errors, *UNLISTED}:
            yield f"does not list {name}"


def test_page_is_up_to_date() -> None:
    is_current = reference.PAGE.read_text() == reference.page()
    assert is_current, "docs/reference/python.md is out of date: run `make docs`"


@pytest.mark.parametrize("module", reference.FILES)
def test_page_has_all_public_names(module: str) -> None:
    own = [names for title, names in reference.SECTIONS.items() if title not in {TYPES, *reference.FILES}]
    listed = reference.SECTIONS.get(module, " ".join(own)).split()
    assert sorted(listed) == sorted(pytest.importorskip(module).__all__)


def test_anchors_are_unique() -> None:
    prose = re.sub(r"^```.*?^```$", "", reference.page(), flags=re.DOTALL | re.MULTILINE)
    found = [reference.anchor(title) for title in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)]
    assert sorted(found) == sorted(set(found))
    assert set(re.findall(r"\]\(#(.+?)\)", prose)) <= set(found)


def test_docstrings_describe_arguments_results_and_errors() -> None:
    found = [f"{entry.path} {problem}" for entry in public() for problem in problems(entry)]
    assert not found, "\n".join(found)


def test_page_has_all_types_of_signatures() -> None:
    aliases = {name for name, entry in reference.definitions().items() if is_type(entry.node)}
    listed = {name for names in reference.SECTIONS.values() for name in names.split()}
    for entry in public():
        node = entry.constructor() or entry.node
        if isinstance(node, ast.FunctionDef):
            given = [each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)]
            parts = [part for part in (*given, node.returns) if part]
            used = {each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)}
            assert used & aliases <= listed, f"{entry.path} uses a type that is not in SECTIONS of site/reference.py"


def is_type(node: ast.stmt) -> bool:
    """Returns true for an assignment such as ``Maker = Callable[[Flow], CongestionControl]``."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)


def test_docstrings_become_markdown() -> None:
    doc = """Loads a file, see :func:`load` and ``docs/reference/keys.md`` (``x``).

        >>> load("hello")

    ====  =====
    name  unit
    ====  =====
    time  s | h, more
    ====  =====

    Args:
        name: A path
            or name.

    Raises:
        ValueError: Always.
    """
    assert list(reference.markdown(ast.get_docstring(ast.parse(f"'''{doc}'''")))) == [
        "Loads a file, see [`load`](#load) and [keys.md](keys.md) (`x`).",
        '```pycon\n>>> load("hello")\n```',
        "| name | unit |\n|---|---|\n| time | s \\| h, more |",
        "**Arguments**",
        "- `name`: A path or name.",
        "**Raises**",
        "- `ValueError`: Always.",
    ]


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="unload"):
        reference.inline(":func:`unload`", "")


def test_wrapped_line_does_not_begin_a_list() -> None:
    text = "a " * 59 + "- b 1. c # d"
    assert not [line for line in reference.wrapped(text).split("\n") if re.match(r"[-#]|1\.", line)]


def test_types_of_the_interface_are_known() -> None:
    command = [sys.executable, "-m", "pyright", "--verifytypes", "roughlink", "--ignoreexternal", "--outputjson"]
    # This command takes the first Python on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    symbols = [each for each in json.loads(out.stdout)["typeCompleteness"]["symbols"] if each["isExported"]]
    assert len(symbols) > 50
    unknown = [each for each in symbols if not each["isTypeKnown"] or each["isTypeAmbiguous"]]
    # The base class is in PettingZoo, which has no type information.
    others = [each for each in unknown if each["name"] != "roughlink.multi_agent.TransportParallelEnv"]
    assert not others, json.dumps(others, indent=1)
