"""Instructions whose following can be checked by program, in the form of IFEval (Zhou et al. 2023).

A row names them in `info.instruction_id_list` with their arguments in `info.kwargs`, one each; the meanings are those
of the paper with this package's own counting of words, sentences and paragraphs (`rules.text`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.scoring.rules.answers import nearest_of
from ropewalk.tasks.scoring.rules.checks import CHECKS, Arguments
from ropewalk.tasks.scoring.rules.text import refused


@dataclass(frozen=True)
class Instructions:
    """Scores whether all of a prompt's instructions are followed (1 or 0), or the share of them that is."""

    score: Literal["all", "share"] = "all"

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        if fault := self.info_fault(prompt):
            raise InputError(f"prompt {prompt.id} {fault}")
        if failure := refused(sample.text):
            return failure
        followed = [check for _, check in self.followed(prompt, sample.text)]
        return Score(float(all(followed)) if self.score == "all" else sum(followed) / len(followed))

    def followed(self, prompt: Prompt, text: str) -> list[tuple[str, bool]]:
        """Each instruction of a prompt by its name, and whether a text follows it."""
        return [(name, bool(text.strip()) and CHECKS[name].holds(text, given)) for name, given in _asked(prompt)]

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's instructions; None if nothing is."""
        names, arguments = prompt.info.get("instruction_id_list"), prompt.info.get("kwargs")
        if not isinstance(names, list) or not names:
            return "has no instructions: give info.instruction_id_list and info.kwargs"
        if arguments is not None and (not isinstance(arguments, list) or len(arguments) != len(names)):
            return "has an info.kwargs that is not one object for each instruction"
        for name, given in zip(names, arguments or [{}] * len(names), strict=True):
            if not isinstance(name, str) or name not in CHECKS:
                return f"has the unknown instruction {name!r}: did you mean {nearest_of(str(name), list(CHECKS))!r}?"
            if given is not None and not isinstance(given, dict):
                return "has an info.kwargs that is not one object for each instruction"
            if fault := CHECKS[name].fault(_given(given)):
                return f"has the instruction {name!r}, which {fault}"
        return None


def _asked(prompt: Prompt) -> Sequence[tuple[str, Arguments]]:
    names, arguments = prompt.info.get("instruction_id_list"), prompt.info.get("kwargs")
    assert isinstance(names, list)
    listed = arguments if isinstance(arguments, list) else [{}] * len(names)
    return [(str(name), _given(given)) for name, given in zip(names, listed, strict=True)]


def _given(arguments: Json) -> Arguments:
    """Arguments without those that are null, which tables of rows are filled up with."""
    if not isinstance(arguments, Mapping):
        return {}
    return {name: value for name, value in arguments.items() if value is not None}
