"""HumanEval's canonical solutions all pass and all planted faults fail; an oracle written apart agrees."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.scoring.code.human_eval import human_eval_prompts
from ropewalk.tasks.scoring.code.scorer import CodeEvaluator, CodeScorer
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from tests.tasks.samples import sample
from tests.tasks.scoring.code.mutants import mutants
from tests.tasks.scoring.sandbox.pools import bubblewrap_pool

PROMPTS = human_eval_prompts()
PLANTED: list[int] = json.loads((Path(__file__).parent / "planted.json").read_text())
"""Per problem the number of the first fault that the oracle saw an assertion fail on (33: its check calls the faulty
function itself, and ends in a ValueError)."""

ORACLE = """
import json, sys
for number, (program, test, entry) in enumerate(json.load(sys.stdin)):
    space = {}
    try:
        exec(program, space)
        space["candidate"] = space[entry]
        exec(test, space)
    except Exception as error:
        print(number, type(error).__name__)
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with bubblewrap_pool() as made:
        yield made


def canonical(prompt: Prompt) -> str:
    return f"{prompt.info['prefix']}{prompt.gold}"


def entry_of(prompt: Prompt) -> str:
    return prompt.info["tests"]["hidden"][0]["names"]["candidate"]  # type: ignore[index,call-overload,return-value]


def planted(prompt: Prompt, number: int) -> str:
    return list(mutants(canonical(prompt), entry_of(prompt)))[PLANTED[number]]


def scored(pool: SandboxPool, numbers: list[int]) -> list[tuple[Outcome, Outcome]]:
    """Outcomes of the canonical and of the faulty program of each problem, through the scorer that training uses."""
    evaluator = CodeEvaluator(pool)
    scorer = CodeScorer(evaluator)
    found = []
    for number in numbers:
        prompt = PROMPTS[number]
        texts = [f"Here:\n```python\n{source}\n```\n" for source in (canonical(prompt), planted(prompt, number))]
        good, bad = (scorer(prompt, sample(text, prompt_id=prompt.id)) for text in texts)
        found.append((good, bad))
    return found


def test_a_sample_passes_and_its_faults_fail(pool: SandboxPool, grid_seed: int) -> None:
    numbers = random.Random(grid_seed).sample(range(164), 8)
    assert scored(pool, numbers) == [(Score(1.0), Score(0.0))] * len(numbers), numbers


@pytest.mark.slow
def test_all_canonical_solutions_pass_and_all_planted_faults_fail(pool: SandboxPool) -> None:
    results = scored(pool, list(range(164)))
    assert [n for n, result in enumerate(results) if result != (Score(1.0), Score(0.0))] == []


@pytest.mark.slow
def test_the_oracle_agrees_that_every_planted_program_is_faulty_and_no_canonical_one() -> None:
    """Each in one plain interpreter, in the way HumanEval was published: the fault is in the program, not in us."""
    told = {}
    for kind, make in (("canonical", lambda p, n: canonical(p)), ("planted", planted)):
        work = [
            (make(prompt, number), prompt.info["tests"]["hidden"][0]["assert"], entry_of(prompt))  # type: ignore[index,call-overload]
            for number, prompt in enumerate(PROMPTS)
        ]
        command = [sys.executable, "-I", "-c", ORACLE]
        done = subprocess.run(command, input=json.dumps(work), capture_output=True, text=True, timeout=280, check=True)
        told[kind] = [line.split() for line in done.stdout.splitlines()]
    assert told["canonical"] == []
    assert [int(number) for number, _ in told["planted"]] == list(range(164))
    assert {name for _, name in told["planted"]} == {"AssertionError", "ValueError"}


def test_all_problems_are_there() -> None:
    assert len(PROMPTS) == len({prompt.id for prompt in PROMPTS}) == 164
    assert all(entry_of(prompt) in str(prompt.info["prefix"]) for prompt in PROMPTS)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"task_id": "x", "prompt": "def f():\\n"}\n')
    with pytest.raises(InputError, match=r"rows.jsonl:1 lacks entry_point, canonical_solution, test"):
        human_eval_prompts(file)
