#!/usr/bin/env python3
"""The city laboratory over several seeds: what comes out with one setting, seed by seed, against the truth.

    python benchmarks/city.py --seeds 0-4 [--exhibits] [--out runs/city-benchmark] [--json]

Every seed has its own corpus draw, model, pairs, reward model and runs (recipe city-lab-full). An interrupted call
goes on where it stopped when it is given the same --out. With --json the last line is one compact object; all shares
are fractions in 0..1; first = first 3 iterations, last = last 10, true_low = lowest mean of 3 in a row, rm_last = on
512 fresh samples of fixed prompts.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rich.console import Console
from rich.table import Table

from ropewalk.cli.progress import Bar
from ropewalk.runtime.jobs.laboratory import RUNS, Facts, RunFacts, laboratory_recipe, run_laboratory
from ropewalk.runtime.run import Run

TABLE = ("ppo", "ppo-no-rope", "grpo-reward-model", "grpo-reward-model-no-rope", "grpo-rule")
REPORTED = ("true_first", "true_last", "true_low", "rm_first", "rm_last", "grammatical", "distinct")


def seeds_of(text: str) -> list[int]:
    """0-4, or 0,2,3."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(part) for part in text.split(",")]


def row(facts: Facts) -> dict[str, object]:
    """One seed as the JSON object has it."""
    runs = {key: {name: round(asdict(run)[name], 4) for name in REPORTED} for key, run in facts.runs.items()}
    judge = facts.judge
    return {
        "seed": facts.seed,
        "ties": round(judge.ties, 4),
        "rm_nonties": round(judge.rm_nonties, 4),
        "shuffle_ge": round(judge.shuffle_ge, 4),
        **runs,
    }


def verdicts(facts: Facts) -> dict[str, bool]:
    """The laboratory's claims for one seed."""
    judge, runs = facts.judge, facts.runs
    rope, loose, rule = runs["ppo"], runs["ppo_nokl"], runs["grpo_rule"]
    return {
        "policy starts within ±0.4 of 0 and ≥ 97 % grammatical": abs(facts.initial_true) <= 0.4
        and facts.initial_grammatical >= 0.97,
        "ties 0.40-0.60": 0.40 <= judge.ties <= 0.60,
        "reward model ≥ 0.87 on ≥ 500 non-ties": judge.rm_nonties >= 0.87 and judge.nonties >= 500,
        "agreement within 0.05 of the ceiling": judge.ceiling - judge.rm_labels <= 0.05,
        "≥ 0.30 of shuffles score as high": judge.shuffle_ge >= 0.30,
        "PPO 0.1: truth +0.5": rope.true_last - rope.true_first >= 0.5,
        "PPO 0.1: reward model up": rope.rm_last > rope.rm_first,
        "PPO 0.1: ≥ 0.93 grammatical": rope.grammatical >= 0.93,
        "PPO 0: truth below": loose.true_last < rope.true_last,
        "PPO 0: ≤ 0.75 grammatical": loose.grammatical <= 0.75,
        "PPO 0: reward model higher": loose.rm_last > rope.rm_last,
        "PPO 0: fewer distinct": loose.distinct < rope.distinct,
        "GRPO rule: truth ≥ PPO 0.1": rule.true_last >= rope.true_last,
        "GRPO rule: ≥ 0.95 grammatical": rule.grammatical >= 0.95,
    }


def show(console: Console, seeds: Sequence[Facts]) -> None:
    """The table, the claims that fail, and what holds over the seeds."""
    table = Table(title="The city laboratory")
    for name in ("seed", "run", *REPORTED):
        table.add_column(name, justify="right" if name != "run" else "left")
    for facts in seeds:
        judge = facts.judge
        about = f"ties {judge.ties:.2f}, reward model {judge.rm_nonties:.3f} on {judge.nonties} non-ties, "
        about += f"labels {judge.rm_labels:.3f} of {judge.ceiling:.3f}, shuffles {judge.shuffle_ge:.2f}, "
        about += f"start {facts.initial_true:+.2f} / {facts.initial_grammatical:.3f}"
        table.add_row(str(facts.seed), about, *[""] * len(REPORTED), style="bold")
        labels = dict(RUNS.values())
        for key, run in facts.runs.items():
            table.add_row("", labels[key], *(f"{asdict(run)[name]:.3f}" for name in REPORTED))
    console.print(table)
    for facts in seeds:
        failed = [claim for claim, holds in verdicts(facts).items() if not holds]
        console.print(f"seed {facts.seed}: " + ("every claim holds" if not failed else f"NOT: {'; '.join(failed)}"))
    rope, loose = (mean([facts.runs[key] for facts in seeds]) for key in ("ppo", "ppo_nokl"))
    below = sum(facts.runs["ppo_nokl"].true_last < -1 for facts in seeds)
    console.print(
        f"without the rope the truth ends {rope - loose:.2f} below that with it in the mean; "
        f"{below} of {len(seeds)} seeds end below -1"
    )


def mean(runs: Sequence[RunFacts]) -> float:
    """Mean true score at the end."""
    return sum(run.true_last for run in runs) / len(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("0-4"))
    parser.add_argument("--exhibits", action="store_true", help="also the babbling reference and the higher rate")
    parser.add_argument("--out", type=Path, default=Path("runs/city-benchmark"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(width=160)
    found: list[Facts] = []
    for seed in arguments.seeds:
        recipe = laboratory_recipe(full=True, seed=seed, only=() if arguments.exhibits else TABLE)
        with Bar(console) as bar:
            found.append(run_laboratory(recipe, Run(arguments.out / f"seed-{seed}"), bar))
    show(console, found)
    if arguments.json:
        content: Mapping[str, object] = {"seeds": [row(facts) for facts in found]}
        console.out(json.dumps(content, separators=(",", ":")), highlight=False)


if __name__ == "__main__":
    main()
