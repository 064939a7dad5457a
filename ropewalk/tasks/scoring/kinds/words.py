"""What a scorer saw in a completion, in words: for whoever asks why a row was scored as it was.

One function a class of scorer; a scorer that is not here has said all in its outcome.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed
from ropewalk.tasks.scoring.code.evaluate import Evaluation, Results
from ropewalk.tasks.scoring.code.scorer import CodeScorer, Layered
from ropewalk.tasks.scoring.maths.places import find
from ropewalk.tasks.scoring.maths.policy import with_row
from ropewalk.tasks.scoring.maths.scorer import INFO_KEY, MathScorer
from ropewalk.tasks.scoring.numbers import NumberScorer, extract
from ropewalk.tasks.scoring.rules.answers import Exact, Fuzzy, MultipleChoice, chosen_letter
from ropewalk.tasks.scoring.rules.instructions import Instructions
from ropewalk.tasks.scoring.rules.length import Length
from ropewalk.tasks.scoring.rules.structured import JsonForm
from ropewalk.tasks.scoring.rules.tags import Tags
from ropewalk.tasks.scoring.rules.text import answer_of
from ropewalk.tasks.task import AtOnce, Scorer

_SHOWN = 80
_TESTS_SHOWN = 3


def seen(scorer: Scorer, prompt: Prompt, sample: Sample) -> str | None:
    """What a scorer saw in a completion; None where its outcome says it all."""
    inner = scorer.scorer if isinstance(scorer, AtOnce) else scorer
    words = _WORDS.get(type(inner))
    return None if words is None else words(inner, prompt, sample)


def _number(scorer: NumberScorer, prompt: Prompt, sample: Sample) -> str:
    read = extract(sample.text, answer=scorer.answer)
    return f"the number read is {read if read is not None else 'none'}, the gold answer {_short(prompt.gold)}"


def _maths(scorer: MathScorer, prompt: Prompt, sample: Sample) -> str:
    found = find(sample.text, with_row(scorer.policy, prompt.info.get(INFO_KEY)).places)
    read = "no answer" if found is None else _short(found.text)
    return f"the answer read is {read}, the gold answer {_short(prompt.gold)}"


def _text(scorer: Exact | Fuzzy, prompt: Prompt, sample: Sample) -> str:
    return f"the answer read is {_short(answer_of(sample.text, scorer.at))}, the gold answer {_short(prompt.gold)}"


def _choice(scorer: MultipleChoice, prompt: Prompt, sample: Sample) -> str:
    chosen = chosen_letter(sample.text, scorer.choices_of(prompt))
    return (
        f"{chosen.detail if isinstance(chosen, Failed) else f'it chooses {chosen}'}, the gold answer is {prompt.gold}"
    )


def _tags(scorer: Tags, _: Prompt, sample: Sample) -> str | None:
    return scorer.fault(sample.text)


def _json(scorer: JsonForm, prompt: Prompt, sample: Sample) -> str | None:
    return scorer.fault(prompt, sample.text)


def _length(scorer: Length, _: Prompt, sample: Sample) -> str:
    return f"it has {scorer.measure(sample)} {scorer.unit}"


def _instructions(scorer: Instructions, prompt: Prompt, sample: Sample) -> str:
    broken = [name for name, kept in scorer.followed(prompt, sample.text) if not kept]
    return f"not followed: {', '.join(broken)}" if broken else "all are followed"


def _code(scorer: CodeScorer | Layered, prompt: Prompt, sample: Sample) -> str | None:
    found = scorer.evaluator(prompt, sample)
    if found is None:
        return "there is no program in it"
    return None if isinstance(found, Failed) else _evaluation(found)


def _evaluation(found: Evaluation) -> str:
    text = found.text
    parts = [f"it uses {', '.join(text.forbidden)}"] if text.forbidden else []
    parts += [f"the answers of {text.answers} public examples are written into it"] if text.answers else []
    parts += [] if text.compiles else [f"it does not compile ({text.fault})"]
    for name, results in (("public", found.public), ("hidden", found.hidden)):
        if results is not None:
            parts.append(f"{name} tests: {_results(results)}")
    return "; ".join(parts)


def _results(results: Results) -> str:
    whole = f"{sum(results.passed)} of {len(results.passed)} passed"
    pairs = enumerate(zip(results.findings, results.passed, strict=True), 1)
    wrong = [f"number {n} {f.status if f.status != 'done' else 'wrong'}" for n, (f, good) in pairs if not good]
    more = f" and {len(wrong) - _TESTS_SHOWN} more" if len(wrong) > _TESTS_SHOWN else ""
    return f"{whole} ({', '.join(wrong[:_TESTS_SHOWN])}{more})" if wrong else whole


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_WORDS: Mapping[type, Callable[[Any, Prompt, Sample], str | None]] = {
    NumberScorer: _number,
    MathScorer: _maths,
    Exact: _text,
    Fuzzy: _text,
    MultipleChoice: _choice,
    Tags: _tags,
    JsonForm: _json,
    Length: _length,
    Instructions: _instructions,
    CodeScorer: _code,
    Layered: _code,
}
