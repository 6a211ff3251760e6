#!/usr/bin/env python3
"""Search for the parameters of the algorithm `rough` with Optuna.

The score of a set of parameters has two parts: the mean over all goals for loss, delay and fairness
(`rough_links.py`), and the bytes delivered over random links. These bytes are divided by the larger of what BBR and
CUBIC deliver there. The search never uses the links of `rough.py`. A file stores the trials, so that an interrupted
search can continue.

Needs the Python package and Optuna. Run it as `.ci/python search`.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import optuna
from roughlink_validation import rough_links as links

RANDOM_LINKS = 80
SEEDS = range(101, 105)
# Range and step of each parameter.
RANGES = {
    "queue_quarters": (4, 10, 1),
    "pacing_percent": (100, 200, 5),
    "startup_percent": (10, 40, 5),
    "jump_packets": (3, 10, 1),
    "noise_percent": (50, 200, 10),
    "max_loss_permille": (120, 250, 10),
    "patience": (6, 14, 1),
    "filled_percent": (30, 75, 5),
    "empty_percent": (5, 35, 5),
    "loss_percent": (50, 95, 5),
}


def score(params: dict, others: list[int]) -> float:
    made = links.goals("rough", SEEDS, params)
    reached = statistics.fmean(goal.score(values) for goal, values in zip(made, links.measured(made)))
    seeds = range(links.SEARCH, links.SEARCH + RANDOM_LINKS)
    results = links.run_all(links.on_random_link(seed, "rough", params) for seed in seeds)
    ratios = [links.delivered(result) / other for result, other in zip(results, others)]
    low = [min(1.0, ratio / 0.7) for ratio in ratios]
    whole = statistics.fmean(min(1.0, ratio) for ratio in ratios)
    return reached + 0.2 * (statistics.fmean(low) + min(low)) + 0.2 * whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--file", type=Path, default=Path("target/rough-search.log"), help="file of the trials")
    chosen = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    store = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(chosen.file)))
    study = optuna.create_study(study_name="rough", storage=store, load_if_exists=True, direction="maximize",
                                sampler=optuna.samplers.TPESampler(seed=1))
    others = links.best_of_others(range(links.SEARCH, links.SEARCH + RANDOM_LINKS))

    def objective(trial: optuna.Trial) -> float:
        params = {key: trial.suggest_int(key, low, high, step=step) for key, (low, high, step) in RANGES.items()}
        return score(params, others)

    def report(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        best = " *" if study.best_trial.number == trial.number else ""
        print(f"trial {trial.number}: {trial.value:.4f}{best}", flush=True)

    if not study.trials:
        now = current()
        study.enqueue_trial({key: now[key] for key in RANGES})
    study.optimize(objective, n_trials=chosen.trials, callbacks=[report])
    print(f"best of {len(study.trials)}: {study.best_value:.4f}\n{json.dumps(study.best_params, indent=1)}")
    return 0


def current() -> dict:
    """Returns the parameters in the registry."""
    return next(entry["parameters"]["linux"] for entry in links.rl.algorithms() if entry["name"] == "rough")


if __name__ == "__main__":
    sys.exit(main())
