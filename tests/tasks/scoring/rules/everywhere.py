"""A table of rules, completions and outcomes that can be gone through in any thread, task or process."""

from typing import Any

from ropewalk.records.score import Outcome
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym import gym_task
from ropewalk.tasks.scoring.rules.answers import Exact, Fuzzy, MultipleChoice
from ropewalk.tasks.scoring.rules.instructions import Instructions
from ropewalk.tasks.scoring.rules.language import Language
from ropewalk.tasks.scoring.rules.length import Length
from ropewalk.tasks.scoring.rules.phrases import Pattern, Phrases
from ropewalk.tasks.scoring.rules.structured import JsonForm
from ropewalk.tasks.scoring.rules.tags import Tags
from ropewalk.tasks.task import TRAIN
from tests.tasks.samples import sample
from tests.tasks.scoring.rules.asked import judged

TEXTS = ("<think>a</think><answer>B</answer>", '{"a": 1}', "The answer is (B).", "", "Paris, of course.", "[1", "ВЫ")
RULES: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    (Tags(), None, {}),
    (JsonForm({"type": "object", "patternProperties": {"^a": {"type": "integer"}}}), None, {}),
    (Length("words", 1, 3), None, {}),
    (Language(), None, {"language": "ru"}),
    (Phrases(("a",), ("x",)), None, {}),
    (Pattern("a+.*r"), None, {}),
    (Exact(), "paris of course", {}),
    (Fuzzy(), "paris, of curse", {}),
    (MultipleChoice(), "B", {}),
    (Instructions(), None, {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}),
)


def outcomes() -> list[Outcome]:
    """What every rule says of every text, and a procedural task's verifier of its gold answer."""
    found = [judged(rule, text, gold, **info) for rule, gold, info in RULES for text in TEXTS]
    task = gym_task(GymTask(generator="gcd", prompts=2, heldout_prompts=1))
    prompt = task.split(TRAIN)[0]
    for answer in (f"<answer>{prompt.gold}</answer>", "<answer>no</answer>", "none"):
        outcome = task.scorers["solved"](prompt, sample(answer))
        assert outcome is not None and not isinstance(outcome, bool | float)
        found.append(outcome)
    return found
