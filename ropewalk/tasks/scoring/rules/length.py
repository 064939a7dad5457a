"""How long a completion is, in characters, words or the tokens that were sampled."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.scoring.rules.text import refused, words

Unit: TypeAlias = Literal["characters", "words", "tokens"]


@dataclass(frozen=True)
class Length:
    """Scores 1 within the bounds, else 0. A prompt's own `info.length` ({"low": …, "high": …}) goes before them."""

    unit: Unit = "words"
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        if fault := _fault(self.low, self.high):
            raise InputError(f"a rule of length {fault}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        low, high = self._bounds(prompt)
        if low is None and high is None:
            raise InputError("a rule of length needs a bound: give low or high, or info.length in the data")
        length = self.measure(sample)
        return refused(sample.text) or Score(float((low is None or length >= low) and (high is None or length <= high)))

    def measure(self, sample: Sample) -> int:
        """The length in the rule's unit."""
        if self.unit == "tokens":
            return sample.completion_tokens
        return len(sample.text) if self.unit == "characters" else len(words(sample.text))

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's own bounds; None if nothing is."""
        own = prompt.info.get("length")
        if own is None:
            return None if self.low is not None or self.high is not None else "has no info.length and there is no bound"
        if not isinstance(own, dict) or set(own) - {"low", "high"}:
            return "has an info.length that is not {low, high}"
        fault = _fault(own.get("low"), own.get("high"))
        return f"has an info.length that {fault}" if fault else None

    def _bounds(self, prompt: Prompt) -> tuple[int | None, int | None]:
        own = prompt.info.get("length")
        if own is None:
            return self.low, self.high
        if fault := self.info_fault(prompt):
            raise InputError(f"prompt {prompt.id} {fault}")
        assert isinstance(own, dict)
        return _bound(own.get("low")), _bound(own.get("high"))


def _fault(low: Json, high: Json) -> str | None:
    for bound in (low, high):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            return f"has a bound that is no whole number from 0: {bound!r}"
    if isinstance(low, int) and isinstance(high, int) and low > high:
        return f"has a lower bound {low} above its upper bound {high}"
    return None


def _bound(value: Json) -> int | None:
    return value if isinstance(value, int) else None
