"""What a scorer saw is told in words, whatever was scored, and never changes an outcome."""

from typing import Any

import pytest

from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.scoring.kinds.build import built
from ropewalk.tasks.scoring.kinds.words import seen
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from tests.tasks.samples import sample
from tests.tasks.scoring.kinds.test_kinds import ADD, BROKEN, CASES, HALF, RIGHT, TABLED, section

COUNTED: dict[str, Json] = {"instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"]}
SAID: list[tuple[dict[str, Any], Json, dict[str, Json], str, str | None]] = [
    ({"kind": "number"}, 7, {}, "7 or 8", "the number read is 8, the gold answer 7"),
    ({"kind": "maths"}, "1/2", {}, r"so \boxed{0.5}", "the answer read is '0.5', the gold answer '1/2'"),
    ({"kind": "maths"}, "1/2", {}, "", "the answer read is no answer, the gold answer '1/2'"),
    ({"kind": "exact", "at": "tags"}, "a", {}, "x", "the answer read is None, the gold answer 'a'"),
    ({"kind": "choice"}, "A", {}, "The answer is B", "it chooses B, the gold answer is A"),
    ({"kind": "choice"}, "A", {}, "hm", "it chooses no letter, the gold answer is A"),
    ({"kind": "tags"}, None, {}, "<answer>1</answer>", "<answer> stands where <think> should"),
    ({"kind": "tags"}, None, {}, "<think>1</think><answer>1</answer>", None),
    ({"kind": "json", "json_schema": {"type": "object"}}, None, {}, "[1]", "at $: [1] is not of type 'object'"),
    ({"kind": "json"}, None, {}, "[1", "it is no JSON: Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ({"kind": "length", "high": 3}, None, {}, "a b", "it has 2 words"),
    ({"kind": "instructions"}, None, COUNTED, "A b", "not followed: change_case:english_lowercase"),
    ({"kind": "pattern", "pattern": "a"}, None, {}, "a", None),
    ({"kind": "code"}, None, ADD, RIGHT, "public tests: 2 of 2 passed; hidden tests: 2 of 2 passed"),
    (
        {"kind": "code"},
        None,
        ADD,
        HALF,
        "public tests: 2 of 2 passed; hidden tests: 1 of 2 passed (number 2 wrong)",
    ),
    ({"kind": "code"}, None, ADD, TABLED, "the answers of 2 public examples are written into it; public tests: 2 of 2"),
    ({"kind": "code"}, None, ADD, BROKEN, "it does not compile (SyntaxError"),
    ({"kind": "code"}, None, ADD, "no", "there is no program in it"),
]


@pytest.mark.parametrize(("settings", "gold", "info", "text", "words"), SAID, ids=lambda value: str(value)[:40])
def test_what_was_seen(
    settings: dict[str, Any], gold: Json, info: dict[str, Json], text: str, words: str | None
) -> None:
    scorer = built("rule", section(**settings)).scorers["rule"]
    said = seen(scorer, Prompt("p", "?", gold, info), sample(text))
    assert said is None if words is None else said is not None and said.startswith(words), said


HOSTILE = ("", "\x00", "[" * 5000, "\\boxed{" * 3000, "9" * 5000, "\ud800", "<think>" * 2000, "答案是" * 1000)


def test_anything_can_be_told_of() -> None:
    """Fault G6: explaining is as safe as scoring."""
    with sandboxes():
        for settings, gold, info, _ in CASES:
            prompt = Prompt("p", "?", gold, info)
            for name, scorer in built("rule", section(**settings)).scorers.items():
                for text in HOSTILE if name == "rule" else HOSTILE[:1]:
                    before = scorer(prompt, sample(text))
                    seen(scorer, prompt, sample(text))
                    assert scorer(prompt, sample(text)) == before
