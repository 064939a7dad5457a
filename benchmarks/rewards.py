#!/usr/bin/env python3
"""How fast answers are scored, and how far the scorers can be trusted while they do it.

    python benchmarks/rewards.py [--json]

Mathematics: short texts, each different, are graded against their gold answers: whole numbers in six spellings, nine
tenths of all, and the rows of the conformance table (roots, sets, matrices, functions, hostile ones), of which the
speed is printed apart too. Seconds are those of one processor, the best of three rounds; golds are read once, as for
the samples of a group, answers every time.
`disagreements` counts the rows of the table, read from both sides, on which the grader says something else.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json
from ropewalk.tasks.scoring.maths.policy import GSM8K, Policy, with_row
from ropewalk.tasks.scoring.maths.scorer import compare, grade, parse_gold

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of words")
    asked = parser.parse_args()
    figures = math_figures()
    if asked.json:
        print(json.dumps(figures))
        return
    console = Console()
    console.print(
        f"mathematics: {figures['math_per_second']:,.0f} short answers/s on one core, "
        f"{figures['math_table_per_second']:,.0f}/s on the conformance table alone, "
        f"{figures['math_disagreements']:.0f} disagreements with it"
    )


if __name__ == "__main__":
    main()
