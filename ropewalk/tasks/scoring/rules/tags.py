"""Whether a completion is made of tagged parts, each once and in order, such as <think>…</think><answer>…</answer>."""

import re
from dataclasses import dataclass

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.scoring.rules.text import refused

_NAME = re.compile(r"[A-Za-z][\w-]*")


@dataclass(frozen=True)
class Tags:
    """Scores 1 if the parts are well-formed, else 0: each opened and closed exactly once, none inside another."""

    names: tuple[str, ...] = ("think", "answer")
    """The parts in their order."""
    opened: bool = False
    """The prompt already ends with the first opening tag, so the completion begins inside that part."""
    outside: bool = False
    """Whether text may stand outside the parts."""
    empty: bool = False
    """Whether a part may be empty."""

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names) or not all(map(_NAME.fullmatch, self.names)):
            raise InputError(f"a rule of tags needs different names such as 'think' and 'answer', not {self.names}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        return refused(sample.text) or Score(float(self.fault(sample.text) is None))

    def fault(self, text: str) -> str | None:
        """What is wrong with the parts of a text, in words; None if nothing is."""
        text = f"<{self.names[0]}>{text}" if self.opened else text
        found = list(re.finditer(rf"<(/?)({'|'.join(map(re.escape, self.names))})>", text))
        wanted = [(slash, name) for name in self.names for slash in ("", "/")]
        for (slash, name), match in zip(wanted, found, strict=False):
            if match.groups() != (slash, name):
                return f"{match[0]} stands where <{slash}{name}> should"
        if len(found) != len(wanted):
            extra = len(found) > len(wanted)
            slash, name = found[len(wanted)].groups() if extra else wanted[len(found)]
            return f"<{slash}{name}> {'stands there once too often' if extra else 'is missing'}"
        ends = [0, *(place for match in found for place in match.span()), len(text)]
        pieces = [text[start:end].strip() for start, end in zip(ends[0::2], ends[1::2], strict=True)]
        # Pieces alternate: outside, inside the first part, outside, inside the second, ..., outside.
        if not self.outside and any(pieces[0::2]):
            return "text stands outside the tags"
        if not self.empty and not all(pieces[1::2]):
            return "a part is empty"
        return None
