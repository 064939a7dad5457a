"""What a completion must say and may not say: phrases, and regular expressions in linear time.

Expressions are matched by RE2 (the package google-re2): an automaton without backtracking, so that no pattern of a data
set and no text of a model can hold a run up.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.scoring.rules.text import refused

MAX_PATTERN = 2_000
"""Characters of a regular expression."""
_MAX_MEMORY = 8 << 20


@dataclass(frozen=True)
class Phrases:
    """Scores 1 if every required phrase and no forbidden one occurs, else 0.

    A prompt's own `info.required` and `info.forbidden` (lists of text) are added to the rule's.
    """

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    case: bool = False
    """Whether capitals must agree."""

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        if fault := self.info_fault(prompt):
            raise InputError(f"prompt {prompt.id} {fault}")
        return refused(sample.text) or Score(float(self._kept(prompt, self._spelt(sample.text))))

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's own phrases; None if nothing is."""
        for name in ("required", "forbidden"):
            given = prompt.info.get(name, [])
            if not isinstance(given, list) or not all(isinstance(phrase, str) and phrase for phrase in given):
                return f"has an info.{name} that is not a list of phrases"
        if not (self.required or self.forbidden or prompt.info.get("required") or prompt.info.get("forbidden")):
            return "has no phrase to look for"
        return None

    def _kept(self, prompt: Prompt, text: str) -> bool:
        required = (*self.required, *_phrases(prompt, "required"))
        forbidden = (*self.forbidden, *_phrases(prompt, "forbidden"))
        return all(self._spelt(p) in text for p in required) and not any(self._spelt(p) in text for p in forbidden)

    def _spelt(self, text: str) -> str:
        return text if self.case else text.casefold()


@dataclass(frozen=True)
class Pattern:
    """Scores 1 if a regular expression (RE2's syntax) matches, else 0; it is `pattern` or the prompt's `info.pattern`.

    RE2 takes time linear in the text whatever the pattern, and so knows no backreferences and no look-around.
    """

    pattern: str | None = None
    match: Literal["anywhere", "whole"] = "anywhere"
    """Whether a part of the text may match or all of it must, but for space around it."""

    def __post_init__(self) -> None:
        if self.pattern is not None and (fault := pattern_fault(self.pattern)):
            raise InputError(f"the regular expression {fault}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        pattern = prompt.info.get("pattern", self.pattern)
        if fault := pattern_fault(pattern):
            raise InputError(f"prompt {prompt.id}: the regular expression {fault}")
        return refused(sample.text) or Score(float(search(str(pattern), sample.text, whole=self.match == "whole")))

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's own expression; None if nothing is."""
        fault = pattern_fault(prompt.info.get("pattern", self.pattern))
        return f"has a regular expression that {fault}" if fault else None


def _phrases(prompt: Prompt, name: str) -> list[str]:
    given = prompt.info.get(name)
    return [str(phrase) for phrase in given] if isinstance(given, list) else []


def search(pattern: str, text: str, *, whole: bool = False) -> bool:
    """Whether a regular expression matches a text, in time linear in it."""
    # Half surrogate pairs are no text; the engine works on UTF-8.
    readable = text.encode("utf-8", "replace").decode()
    engine = compiled(pattern)
    return (engine.fullmatch(readable.strip()) if whole else engine.search(readable)) is not None


def pattern_fault(pattern: Json) -> str | None:
    """Why a regular expression cannot be used; None if it can."""
    if not isinstance(pattern, str) or not pattern:
        return f"is missing or no text: {pattern!r}"[:80]
    if len(pattern) > MAX_PATTERN:
        return f"has {len(pattern)} characters, more than {MAX_PATTERN}"
    try:
        compiled(pattern)
    except InputError as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """A pattern ready to match. Raises InputError for what RE2 does not know, such as a backreference."""
    re2 = optional_module("re2", extra="tasks", need="a rule with a regular expression")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise InputError(
            f"{pattern[:60]!r} cannot be matched in linear time or is malformed ({said}): "
            "use no backreference and no look-around"
        ) from None
