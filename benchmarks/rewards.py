#!/usr/bin/env python3
"""How fast answers are scored, and how far the scorers can be trusted while they do it.

    python benchmarks/rewards.py [--rows 10000] [--json]

Mathematics: short texts, each different, are graded against their gold answers: whole numbers in six spellings, nine
tenths of all, and the rows of the conformance table (roots, sets, matrices, functions, hostile ones), of which the
speed is printed apart too. Seconds are those of one processor, the best of three rounds; golds are read once, as for
the samples of a group, answers every time. Rows of the table, read from both sides, on which the grader says something
else are counted.

Mixed: rows of all kinds (`mixed.py`), 5 % of them hostile, scored from four threads at once as a run scores them. A row
counts as scored if its scorer gives exactly the score that is planted in it. `leaked` counts processes, files and
sockets that are there afterwards and were not before. With --json one line: these two figures.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mixed import CANARY, SECTIONS, Row, gym_prompts, rows
from rich.console import Console

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.scoring.kinds.build import built
from ropewalk.tasks.scoring.maths.policy import GSM8K, Policy, with_row
from ropewalk.tasks.scoring.maths.scorer import compare, grade, parse_gold
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.scoring.sandbox.watch import family
from ropewalk.tasks.task import Task

TABLE = Path(__file__).resolve().parents[1] / "tests" / "tasks" / "scoring" / "maths" / "table.tsv"
SPELLINGS = (
    "She has {0:,} and so on.\n#### {0:,}",
    "The answer is ${0:,}.",
    "so \\boxed{{{0}}} it is",
    "\\boxed{{{0}.00}}",
    "thus \\boxed{{\\frac{{{1}}}{{3}}}}",
    "in total that makes {0}",
)
NUMBERS = 900
ROUNDS = 3


class Case(NamedTuple):
    """One text to grade."""

    text: str
    gold: Json
    policy: Policy


def math_figures() -> dict[str, float]:
    """Answers graded in a second, of all and of the table alone, and disagreements with the table."""
    table = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")]
    rows = [(first, second, verdict, _policy(text)) for first, second, verdict, text in table]
    answers = [Case(f"\\boxed{{{first}}}", second, policy) for first, second, _, policy in rows if _is_gold(second)]
    disagreements = sum(
        (compare(first, second, policy) != verdict) + (compare(second, first, policy) != verdict)
        for first, second, verdict, policy in rows
    )
    return {
        "math_per_second": _per_second([*_numbers(), *answers]),
        "math_table_per_second": _per_second(answers),
        "math_disagreements": disagreements,
    }


def _policy(text: str) -> Policy:
    return with_row(Policy(), json.loads(text or "null"))


def _is_gold(text: str) -> bool:
    try:
        parse_gold(text)
    except InputError:
        return False
    return True


def _numbers() -> list[Case]:
    """Whole numbers as frequent as in word problems: most have two or three digits."""
    rng = np.random.default_rng(0)
    numbers = sorted({int(10 ** rng.uniform(0, 7)) for _ in range(NUMBERS)})
    return [Case(form.format(number, 3 * number), f"{number:,}", GSM8K) for number in numbers for form in SPELLINGS]


def _per_second(cases: Sequence[Case]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for case in cases:
            grade(case.text, case.gold, case.policy)
        best = min(best, time.process_time() - start)
    return len(cases) / best


# --- mixed ----------------------------------------------------------------------------------------


class Mixed(NamedTuple):
    """What came of the mixed rows."""

    honest_scored: int
    honest_total: int
    leaked: int
    hostile_rewarded: int
    """Hostile rows that earned a full score."""
    wrong: Mapping[str, int]
    """Honest rows by kind that were scored otherwise than planted."""
    seconds: float


def mixed_figures(count: int, threads: int = 4) -> Mixed:
    """Score so many rows of all kinds, some of them hostile."""
    gym = gym_prompts()
    given = rows(count, gym)
    before = left_behind()
    begun = time.perf_counter()
    with sandboxes(), ThreadPoolExecutor(threads) as pool:
        tasks = {kind: Task(kind, ["?"], built(kind, section).scorers) for kind, section in SECTIONS.items()}
        tasks["gym"] = Task("gym", ["?"], {"gym": gym.scorers["solved"]})
        outcomes = list(pool.map(lambda row: _scored(tasks[row.kind], row), given))
    seconds = time.perf_counter() - begun
    values = [outcome.value if isinstance(outcome, Score) else None for outcome in outcomes]
    pairs = list(zip(given, values, strict=True))
    honest = [(row, value) for row, value in pairs if row.planted is not None]
    wrong = Counter(row.kind for row, value in honest if value is None or abs(value - (row.planted or 0.0)) > _ROUNDING)
    rewarded = sum(row.planted is None and (value or 0.0) >= 0.9 for row, value in pairs)
    return Mixed(len(honest) - wrong.total(), len(honest), len(left_behind() - before), rewarded, dict(wrong), seconds)


def _scored(task: Task, row: Row) -> Outcome:
    sample = Sample(
        prompt_id=row.prompt.id,
        group_id=row.prompt.id,
        index=0,
        seed=0,
        tokens_T=np.zeros(1, np.int64),
        policy_mask_T=np.ones(1, np.bool_),
        logprobs_T=np.zeros(1, np.float32),
        versions_T=np.zeros(1, np.int64),
        finish="stop",
        sampling=SamplingRecord(temperature=1.0, max_new_tokens=1, eos_ids=()),
        text=row.text,
    )
    return score_sample(task, row.prompt, sample).scores[task.main_scorer]


def left_behind() -> set[str]:
    """Processes below this one, its open files and sockets, and files that sandboxes and hostile rows could leave."""
    found = {f"process {pid}" for pid in family(os.getpid()) if pid != os.getpid()}
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"open {name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # The descriptor of this very listing.
    places = [*Path(tempfile.gettempdir()).glob("ropewalk-sandbox-*"), Path(CANARY)]
    return found | {f"file {place}" for place in places if place.exists()}


_ROUNDING = 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="mixed rows")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of words")
    asked = parser.parse_args()
    figures, mixed = math_figures(), mixed_figures(asked.rows)
    if asked.json:
        shown = {name: getattr(mixed, name) for name in ("honest_scored", "honest_total", "leaked")}
        print(json.dumps({"math_per_second": figures["math_per_second"], "mixed": shown}))
        return
    console = Console()
    console.print(
        f"mathematics: {figures['math_per_second']:,.0f} short answers/s on one core, "
        f"{figures['math_table_per_second']:,.0f}/s on the conformance table alone, "
        f"{figures['math_disagreements']:.0f} disagreements with it"
    )
    console.print(
        f"mixed: {mixed.honest_scored:,} of {mixed.honest_total:,} honest rows scored as planted"
        f"{f' (otherwise: {mixed.wrong})' if mixed.wrong else ''}, {mixed.leaked} things left behind, "
        f"{mixed.hostile_rewarded} of {asked.rows - mixed.honest_total} hostile rows rewarded, in {mixed.seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
