"""The example with Stable-Baselines3, and the page that explains it."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "python/examples"
sys.path.insert(0, str(EXAMPLES))

import gymnasium  # noqa: E402
import roughlink as rl  # noqa: E402
import roughlink.gym as rg  # noqa: E402
import sb3  # noqa: E402
from held_out import LINKS  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402

STEPS, ENVS = 600, 8


@pytest.fixture(scope="module")
def model() -> Any:
    return sb3.train(STEPS, 1, envs=ENVS)


def test_checks_of_stable_baselines3_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("roughlink/Transport-v0", scenario="hello"))
        warnings.filterwarnings("ignore", message=".*unconventional shape.*")  # four rows of five features
        check_env(gymnasium.make("roughlink/Transport-v0", **sb3.ENVIRONMENT))


def short(random: np.random.Generator) -> rl.Scenario:
    """Draws a cable on which some downloads are complete before the end."""
    return sb3.cable(random).set({"duration": "3 s", "flow.download.bytes": "1 MB"})


def test_adapter_behaves_like_separate_environments() -> None:
    options: dict[str, Any] = {**sb3.ENVIRONMENT, "scenario": short}
    one = sb3.as_vec_env(rg.TransportVectorEnv(ENVS, autoreset_mode="SameStep", **options))
    separate = make_vec_env("roughlink/Transport-v0", ENVS, env_kwargs={**options, "render_mode": None})
    one.seed(5), separate.seed(5)
    assert np.array_equal(one.reset(), separate.reset())
    random = np.random.default_rng(1)
    ends = set()
    for _ in range(400):
        actions = random.uniform(-0.4, 0.6, (ENVS, 1)).astype(np.float32)
        *arrays, infos = one.step(actions)
        *expected, others = separate.step(actions)
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(arrays, expected, strict=True))
        for i in np.flatnonzero(arrays[2]):
            assert np.array_equal(infos[i]["terminal_observation"], others[i]["terminal_observation"])
            assert infos[i]["TimeLimit.truncated"] == others[i]["TimeLimit.truncated"]
            assert infos[i]["episode"]["l"] == others[i]["episode"]["l"]
            ends.add(infos[i]["TimeLimit.truncated"])
    assert ends == {False, True}


def test_both_kinds_of_environments_train_the_same_model(model: Any) -> None:
    separate = sb3.train(STEPS, 1, separate=True, envs=ENVS)
    assert model.num_timesteps == separate.num_timesteps >= STEPS
    layers, others = (sb3.Policy.from_model(each).layers for each in (model, separate))
    for (weight, bias), (other_weight, other_bias) in zip(layers, others, strict=True):
        assert np.array_equal(weight, other_weight) and np.array_equal(bias, other_bias)


def test_saved_policy_acts_like_the_model(model: Any, tmp_path: Path) -> None:
    sb3.Policy.from_model(model).save(tmp_path / "policy.npz")
    policy = sb3.Policy.load(tmp_path / "policy.npz")
    seen: list[rg.Numbers] = []

    def record(each: rg.Numbers) -> rg.Numbers:
        seen.append(each)
        return policy(each)

    options: dict[str, Any] = dict(history=sb3.HISTORY, max_window=sb3.MAX_WINDOW)
    rl.register("recorded", lambda flow: rg.Deployed(flow, record, **options))
    run = sb3.cable(np.random.default_rng(7)).set("tcp.cc", "recorded").run()
    assert run.flows["throughput_mbps"][0] > 0.5
    assert len(seen) > 100
    actions = np.array([policy(each) for each in seen])
    predicted, _ = model.predict(np.stack([sb3.observe(each) for each in seen]), deterministic=True)
    assert np.abs(actions - predicted).max() < 1e-5
    assert np.ptp(actions) > 1e-3


def test_saved_policy_runs_without_torch(model: Any, tmp_path: Path) -> None:
    sb3.Policy.from_model(model).save(tmp_path / "policy.npz")
    program = (
        "import sys; from pathlib import Path\n"
        "sys.modules['torch'] = sys.modules['stable_baselines3'] = None\n"
        "sys.path.append(sys.argv[2])\n"
        "import roughlink as rl, sb3\n"
        "rl.register('ppo', sb3.Policy.load(Path(sys.argv[1])).algorithm)\n"
        "print(rl.load('hello').set('tcp.cc', 'ppo').run().flows['throughput_mbps'][0])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "policy.npz"), str(EXAMPLES)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert out.returncode == 0, out.stderr
    assert float(out.stdout) > 0.5


def test_comparison_has_a_row_for_each_link(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    links = [link for link in LINKS if link.name in ("cable 5 %", "with its like, 1 %")]
    sb3.compare(sb3.Policy.from_model(model), 2, links)
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[0].lstrip("| ") for row in rows] == [link.name for link in links]
    assert all(row.count(" / ") == 3 * 2 and " to " in row for row in rows)


@pytest.mark.filterwarnings("ignore:.*unconventional shape")
def test_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs/how-to/learning-sb3.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    program, trainings = re.subn(r"learn\([\d_]+\)", f"learn({STEPS})", "\n".join(blocks))
    assert trainings == 1
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(page), "exec"), {"__name__": "example"})
    assert (tmp_path / "policy.npz").exists()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ppo", "cubic", "bbr"]
