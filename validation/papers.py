#!/usr/bin/env python3
"""Verdicts on the claims of the Wave, AVOCA and PLC papers, with Linux at the ends and in simulation.

Simulations and emulations have the same runs, and the same code measures both in the captures of their hosts. A claim
is confirmed if every run meets it, refuted if none does, and undecided otherwise; the interval is the range of the
runs. A full pass takes about half an hour, since emulations run in real time. Each result is stored at once, and an
interrupted pass resumes where it stopped.

Needs root, or user namespaces; Linux only. Exits with 3 if emulation is not possible.
"""

import concurrent.futures
import json
import sys
import threading
import time
from pathlib import Path

from roughlink_validation import cli, paper_avoca, paper_plc, paper_wave
from roughlink_validation.paper_runs import COLUMNS, KERNEL, Claim, Run, Store, shown, summary
from roughlink_validation.simulators import CACHE, Missing

SYSTEMS = {"wave": paper_wave, "avoca": paper_avoca, "plc": paper_plc}


def main() -> int:
    parser = cli.parser(__doc__)
    parser.add_argument("systems", nargs="*", choices=[*SYSTEMS, []], help="wave, avoca, plc (default: all)")
    parser.add_argument("--quick", action="store_true", help="one run each of a few cases, three minutes")
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each case (default: 3, with --quick 1)")
    parser.add_argument("--jobs", type=int, default=6, metavar="N", help="parallel emulations (default: 6)")
    parser.add_argument("--simulate", action="store_true", help="run only the simulations")
    parser.add_argument("--store", type=Path, default=CACHE / "papers", metavar="DIR",
                        help="folder for results of runs")
    parser.add_argument("--again", action="store_true", help="discard stored results")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write claims and runs to this file")
    options = parser.parse_args()
    if not options.roughlink.exists():
        raise Missing(
            f"cannot find roughlink at {options.roughlink}\n"
            "help: run `cargo build --release`, or pass --roughlink PATH"
        )
    seeds = options.runs or (1 if options.quick else 3)
    chosen = {name: SYSTEMS[name] for name in options.systems or SYSTEMS}
    runs = {name: system.runs(seeds, options.quick) for name, system in chosen.items()}
    store = Store(options.store, options.roughlink)
    if options.again:
        store.clear()
        store = Store(options.store, options.roughlink)
    wanted = [run for some in runs.values() for run in some if not (options.simulate and run.column == KERNEL)]
    perform(options.roughlink, store, wanted, options.jobs)
    written = {}
    for name, system in chosen.items():
        seen = [result for run in runs[name] if (result := store.get(run))]
        print(f"\n{name}\n\n" + table(system.CLAIMS, seen))
        written[name] = {"claims": judged(system.CLAIMS, seen), "runs": seen}
    late = [run["late_us"] for system in written.values() for run in system["runs"] if run["column"] == KERNEL]
    if late:
        print(
            f"\nlateness p99 of {len(late)} emulations: median {sorted(late)[len(late) // 2]:.0f} us, "
            f"maximum {max(late):.0f} us"
        )
    if options.json:
        options.json.write_text(json.dumps(written, indent=1))
    return 0


def perform(roughlink: Path, store: Store, runs: list[Run], jobs: int) -> None:
    """Runs emulations in parallel, the longest first so that the last do not run alone, and simulations in sequence."""
    missing = [run for run in runs if store.get(run) is None]
    simulated = [run for run in missing if run.column != KERNEL]
    real = sorted((run for run in missing if run.column == KERNEL), key=lambda run: (run.seed, -run.duration_s))
    done, lock = 0, threading.Lock()

    def one(run: Run) -> None:
        nonlocal done
        seen = run.perform(roughlink)
        store.put(run, seen)
        with lock:
            done += 1
            print(f"{done}/{len(missing)} {time.monotonic() - began:.0f} s  {run.name}", file=sys.stderr, flush=True)

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(1) as beside, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [beside.submit(one, run) for run in simulated] + [pool.submit(one, run) for run in real]
        try:
            failed = [wrong for future in concurrent.futures.as_completed(futures) if (wrong := future.exception())]
        except BaseException:
            beside.shutdown(wait=False, cancel_futures=True)
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        raise failed[0]


def values(claim: Claim, seen: list[dict], column: str) -> list[float]:
    by = {(r["case"], r["seed"]): r for r in seen if r["column"] == column}
    found = []
    for seed in sorted({seed for _, seed in by}):
        value = claim.value(lambda case, metric: by.get((case, seed), {}).get(metric))
        if value is not None:
            found.append(value)
    return found


def judged(claims: list[Claim], seen: list[dict]) -> list[dict]:
    def of(claim: Claim, column: str) -> dict:
        found = values(claim, seen, column)
        return {"values": found, "summary": summary(found), "verdict": claim.judge(found)}

    return [{"claim": c.name, "text": c.text, "place": c.place, "origin": c.origin, "published": c.published,
             "unit": c.unit,
             "least": c.least, "most": c.most, **{column: of(c, column) for column in COLUMNS}} for c in claims]


def table(claims: list[Claim], seen: list[dict]) -> str:
    lines = ["| claim | bound | published | " + " | ".join(COLUMNS.values()) + " |", "|---" * (3 + len(COLUMNS)) + "|"]
    for claim in judged(claims, seen):
        if all(claim[column]["verdict"] == "-" for column in COLUMNS):
            continue
        bound = " ".join(f"{sign} {shown(claim[key])}" for key, sign in (("least", "≥"), ("most", "≤"))
                         if claim[key] is not None)
        cells = [f"{claim[column]['summary']} {claim[column]['verdict']}" if claim[column]["values"] else "-"
                 for column in COLUMNS]
        published = "-" if claim["published"] is None else shown(claim["published"])
        unit = f", {claim['unit']}" if claim["unit"] else ""
        lines.append(f"| {claim['claim']}{unit} | {bound} | {published} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
