"""What one can see of a scorer's section: what it says of fixed answers, and what it runs programs in."""

from collections.abc import Mapping
from typing import Any

from ropewalk.records.errors import RopewalkError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.runtime.recipe import read_recipe
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.code.scorer import Layered
from ropewalk.tasks.scoring.code.smt import SmtScorer
from ropewalk.tasks.scoring.kinds.build import built
from ropewalk.tasks.scoring.kinds.config import ScorerSection
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import AtOnce
from tests.tasks.samples import sample

Asked = tuple[Json, dict[str, Json], str]

TESTS: dict[str, Json] = {
    "public": [{"call": "add", "args": [20, 22], "expected": 42}, {"call": "add", "args": [0, 0], "expected": 0}],
    "hidden": [{"call": "add", "args": [-1, 1], "expected": 0}, {"call": "add", "args": [1, 1], "expected": 2}],
}
CODE: dict[str, Json] = {"tests": TESTS, "prefix": "def add(a, b):\n    "}
ASKED: Mapping[str, list[Asked]] = {
    "number": [(7, {}, "so 7")],
    "maths": [
        ("1/2", {}, "#### 3\n\\boxed{1/2}"),
        ("1, 2", {}, "\\boxed{2, 1}"),
        ("5 cm", {}, "\\boxed{5}"),
        ("0.5", {}, "\\boxed{50\\%}"),
        ("1234,5", {}, "\\boxed{1.234,5}"),
        ("1/3", {}, "\\boxed{0.333}"),
        ("1/3", {}, "\\boxed{0.3}"),
    ],
    "exact": [("Paris", {}, "paris"), ("Paris", {}, "Paris.")],
    "fuzzy": [("Paris", {}, "Pariz")],
    "choice": [("A", {}, "The answer is D.")],
    "pattern": [(None, {}, "a b")],
    "tags": [
        (None, {}, text)
        for text in (
            "<think>a</think><answer>b</answer>",
            "a</think><answer>b</answer>",
            "so <think>a</think><answer>b</answer>",
            "<think></think><answer>b</answer>",
        )
    ],
    "json": [(None, {}, "{}"), (None, {}, "so\n```json\n{}\n```")],
    "length": [(None, {}, "a b c")],
    "language": [(None, {}, "hello 你好")],
    "phrases": [(None, {}, "Yes and no")],
    "instructions": [
        (None, {"instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"]}, "a, b"),
    ],
    "python": [(None, {}, "abc")],
    "code": [
        (None, CODE, "return a + b"),
        (None, CODE, "```python\ndef add(a, b): return a + b\n```"),
        (None, CODE, "```python\nimport html\ndef add(a, b): return abs(a) + b\n```"),
        (None, CODE, "```python\ndef add(a, b): return a.real + sum([b])\n```"),
        (None, CODE, "```python\ndef add(a, b): return 0\n```"),
        (None, CODE, "```python\ndef add(a, b) return a + b\n```"),
        (None, CODE, "```pseudo\ndef add(a, b): return a + b\n```"),
        (None, CODE, "```python\ndef add(a, b): return a + b\n"),
    ],
}
"""By kind: gold answer, info and completion."""


def section(name: str, settings: Mapping[str, Any]) -> ScorerSection:
    recipe: Any = read_recipe(name, settings)
    found: ScorerSection = recipe.task.scorers["rule"]
    return found


def judged(_: object, name: str, settings: Mapping[str, Any]) -> Any:
    """What the scorer `rule`, and every part of it, says; or why it says nothing."""
    config = section(name, settings)
    try:
        made = built("rule", config)
    except RopewalkError as error:
        return str(error)
    with sandboxes():
        return [
            [f"{part}: {made.fault(prompt) or scorer(prompt, sample(text))}" for part, scorer in made.scorers.items()]
            for gold, info, text in ASKED[config.kind]
            for prompt in [Prompt("p", "?", gold, info)]
        ]


def shut(_: object, name: str, settings: Mapping[str, Any]) -> Any:
    """What programs of the scorer `rule` are shut in by, and how long its solver may take."""
    recipe: Any = read_recipe(name, settings)
    if recipe.task.kind == "gym":
        return load_task(recipe.task).scorers["verified"].score  # type: ignore[attr-defined]
    scorer = built("rule", section(name, settings)).scorers["rule"]
    inner = scorer.scorer if isinstance(scorer, AtOnce) else scorer
    if isinstance(inner, SmtScorer):
        return inner._pool, inner._milliseconds
    assert isinstance(inner, Layered)
    return inner.evaluator._pool
