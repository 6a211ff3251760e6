"""Scenarios: reading, changes, and refusals with the messages of the command line."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roughlink as rl
from conftest import Command, said

FLOW = {"name": "download", "kind": "bulk", "from": "server", "to": "car"}
PAIR = {
    "duration": "20 s",
    "node": [{"name": "server"}, {"name": "car"}],
    "link": [
        {
            "name": "plc",
            "between": ["server", "car"],
            "rate": "5 Mbit/s",
            "delay": "10 ms",
            "noise": {"kind": "random", "loss": "1 %"},
        }
    ],
    "flow": [FLOW],
}


def test_a_dictionary_is_a_scenario() -> None:
    s = rl.scenario(PAIR)
    assert (s.nodes, s.links, s.flows, s.duration_s) == (["server", "car"], ["plc"], ["download"], 20.0)
    again = rl.scenario(s.text)
    assert again.run().result["flows"] == s.run().result["flows"]


def test_set_returns_a_changed_scenario() -> None:
    s = rl.load("hello")
    other = s.set({"tcp.cc": "cubic", "seed": 7, "link.wire.rate": "2 Mbit/s"})
    assert (s.seed, other.seed) != (7, s.seed) and "cubic" in other.text and "cubic" not in s.text
    assert other.run().result["flows"][0]["cc"] == "cubic"
    assert other == s.set("tcp.cc", "cubic").set("seed", 7).set("link.wire.rate", "2 Mbit/s") != s


def test_scenarios_can_be_copied_and_pickled() -> None:
    s = rl.load("hello").set("seed", 3)
    for other in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
        assert other == s and hash(other) == hash(s) and other.text == s.text


def test_built_in_scenarios_and_schema_are_listed() -> None:
    assert "hello" in rl.scenarios() and "charging-session" in rl.scenarios()
    assert rl.schema()["$schema"].startswith("https://json-schema.org/")


def test_scenario_warnings_are_python_warnings() -> None:
    with pytest.warns(UserWarning, match="never starts: the scenario ends first"):
        rl.scenario({**PAIR, "duration": "1 s", "flow": [{**FLOW, "start": "2 s"}]})


@pytest.mark.parametrize(
    "text",
    [
        "duration = 3\n",
        'duration = "3 s"\nnodes = []\n',
        'duration = "3 s"\n[[node]]\nname = "a"\n[[link]]\nname = "l"\nbetween = ["a", "b"]\nrate = "5"\n'
        'delay = "1 ms"\n',
        "duration = \n",
        "x\n",
    ],
)
def test_faults_have_the_text_of_the_command(
    text: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.toml").write_text(text)
    out = command("run", "wrong.toml", cwd=tmp_path)
    with pytest.raises(rl.ScenarioError) as error:
        rl.load("wrong.toml")
    assert out.returncode == 2 and str(error.value).strip() == out.stderr.strip()


def test_faults_of_set_have_the_text_of_the_command(command: Command, tmp_path: Path) -> None:
    wrong = [
        ("tcp.cx", "cubic"),
        ("link.wire.rate", "5"),
        ("tcp.cc", "cubik"),
        ("link.*.noise.loss", "200 %"),
        ("seed", str(2**63)),
    ]
    for key, value in wrong:
        out = command("run", "hello", "--set", f"{key}={value}", cwd=tmp_path)
        with pytest.raises(rl.ScenarioError) as error:
            rl.load("hello").set(key, value)
        assert out.returncode == 2 and str(error.value).strip() == out.stderr.strip()


def test_numbers_that_are_too_large_are_named() -> None:
    s = rl.load("hello")
    for number, limit in ((2**63, f"at most {2**63 - 1}"), (-(2**63) - 1, f"at least {-(2**63)}")):
        for key in ("seed", "tcp.initial_window"):
            with pytest.raises(rl.ScenarioError) as error:
                s.set(key, number)
            assert f"override `{key}`: {number} does not fit into 64 bits help: write {limit}" in said(error)
    assert s.set("seed", 2**63 - 1).seed == 2**63 - 1


def test_other_faults_have_the_text_of_the_command(command: Command, tmp_path: Path) -> None:
    for name in ("helo", "no/such.toml"):
        out = command("run", name, cwd=tmp_path)
        with pytest.raises(rl.RoughlinkError) as error:
            rl.load(name)
        assert str(error.value).split() == out.stderr.split()
    with pytest.raises(TypeError):
        rl.load("hello").set("tcp.cc", None)
    with pytest.raises(TypeError):
        rl.scenario({"duration": object()})
    with pytest.raises(TypeError, match="^flow.start cannot be None"):
        rl.scenario({"duration": "3 s", "flow": [{"start": None}]})
    with pytest.raises(TypeError, match="^seed cannot be nan"):
        rl.load("hello").set("seed", float("nan"))
    with pytest.raises(TypeError, match="not int"):
        rl.scenario(3)  # type: ignore[arg-type]


def test_set_accepts_tables() -> None:
    s = rl.scenario(PAIR).set("link.plc.noise", {"kind": "gilbert-elliott", "to_bad": "1 %", "to_good": "30 %"})
    assert "gilbert-elliott" in s.text and s.run().result["links"][0]["forward"]["lost"] > 0


def test_numpy_numbers_are_accepted() -> None:
    s = rl.load("hello")
    assert s.set("seed", np.int64(3)) == s.set("seed", 3)
    assert rl.scenario({**PAIR, "seed": np.int64(5)}).seed == 5


def test_files_outside_the_folder_are_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "trace.txt").write_text("1\n2\n")
    link = {
        "name": "l",
        "between": ["server", "car"],
        "delay": "1 ms",
        "timeline": {"file": "../trace.txt"},
        "rate": "1 Mbit/s",
    }
    with pytest.raises(rl.ScenarioError, match="allow_outside=True"):
        rl.scenario({**PAIR, "link": [link]}, folder=inner)


def test_errors_name_key_line_and_advice() -> None:
    hello = rl.load("hello")
    cases: tuple[tuple[str, Any, str, str], ...] = (
        ("tcp.cc", "cubik", "cc", "did you mean `cubic`?"),
        ("link.wire.rat", "1 Mbit/s", "link.wire.rat", "did you mean `rate`?"),
        ("link.wire.noise", {"kind": "random", "loss": "x"}, "loss", "write a probability"),
        ("tcp.cc_params", {"betta": 1}, "betta", "use one of"),
    )
    for key, value, expected, advice in cases:
        with pytest.raises(rl.ScenarioError) as error:
            hello.set(key, value)
        assert error.value.key == expected and advice in (error.value.help or ""), error.value.__dict__
        line = error.value.line
        assert (line is None) == ("." in expected) and (line is None or f" {line} │" in str(error.value))
    with pytest.raises(rl.ScenarioError) as error:
        rl.scenario("seed = 1\nduration = \"x\"\n")
    assert (error.value.key, error.value.line) == ("duration", 2)
    with pytest.raises(rl.ScenarioError) as error:
        rl.scenario(hello.text.replace('name = "Hello"', 'name = "€Hello = "x"'))
    assert isinstance(error.value.line, int)
    assert (rl.ScenarioError("x").key, rl.ScenarioError("x").line, rl.ScenarioError("x").help) == (None, None, None)


def test_warnings_point_at_the_caller() -> None:
    late = rl.load("hello").set("duration", "1 s")
    with pytest.warns(rl.RoughlinkWarning, match="never starts") as warned:
        late.set("flow.download.start", "2 s")
    assert [Path(each.filename) for each in warned] == [Path(__file__)]


def test_lists_match_the_command(command: Command, tmp_path: Path) -> None:
    def listed(*words: str) -> Any:
        return json.loads(command(*words, "--json", cwd=tmp_path).stdout)

    built_in = [each for each in rl.algorithms() if each["source"] != "a Python class"]
    assert built_in == listed("cc", "list") and rl.metrics() == listed("metric", "list")


def test_keys_have_the_value_that_applies() -> None:
    s = rl.load("three-cars").set({"flow.car2.cc": "wave", "link.segment.queue": "50 pkt"})
    assert s["tcp.cc"] == "newreno" and s["flow.car1.cc"] == "newreno" and s["flow.car2.cc"] == "wave"
    assert s["link.segment.queue"] == "50 pkt" and s["link.1.rate"] == "10 Mbit/s"
    assert s["link.segment.kind"] == "pipe" and s["flow.car1.start"] == "0 s" and s["seed"] == 1
    assert s["link.segment.noise.mean"] == "1 %" and s["link.segment.noise"]["length"] == [1, 4]
    assert s.set("tcp.stack", "rfc")["tcp.min_rto"] == "1 s"
    assert s["tcp.cc_params"] is None and s["flow.car2.bytes"] is None
    assert rl.load("charging-download").set("link.cable.noise", "heavy")["link.cable.noise.class"] == "heavy"
    # An algorithm may require another value than its stack has; then the flows do not agree.
    assert s["flow.car2.tcp.min_rto"] == "1 s" and s["flow.car1.tcp.min_rto"] == "200 ms" == s["tcp.min_rto"]
    assert s.set("tcp.cc", "wave").set("flow.car2.cc", "wave")["tcp.min_rto"] == "1 s"
    for wrong, said in [
        ("tcp.ccc", "did you mean `cc`"),
        ("link.plc.rate", "use one of `internet`, `segment`"),
        ("seed.x", "not a table"),
        ("gateway.0.kind", "has no gateway"),
        ("a..b", "invalid path"),
    ]:
        with pytest.raises(KeyError, match=said):
            s[wrong]


def test_quantities_have_base_units() -> None:
    for text, number in [
        ("10 ms", 0.01), ("5 Mbit/s", 5e6), ("2 MB", 2e6), ("50 pkt", 50), ("2 %", 0.02), ("3", 3), ("1.5 KiB", 1536)
    ]:
        assert rl.quantity(text) == pytest.approx(number), text
    assert rl.quantity(7) == 7
    with pytest.raises(ValueError, match="`fast` is not a quantity"):
        rl.quantity("fast")
