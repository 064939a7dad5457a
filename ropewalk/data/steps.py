"""Completions in steps: where a step ends, in text and in token ids, and what a step is worth by rollouts from it.

A *step* is what stands up to a separator, provided something but white space and separators stands in it: so a
separator that comes twice in a row ends one step. What stands after the last separator is a step if the completion came
to an end; of one that was cut off it is none, unless the completion has no other. There is always at least one step.

In ids, a step ends with the first token with which the text decoded so far holds its whole separator, the last one of
a completion that ended with its last token. Nothing is encoded again: a separator merged into a longer token ends its
step with that token, one in several tokens with the last of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ropewalk.data.intervals import Estimate, wilson
from ropewalk.records.errors import InputError

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Text of ids as they stand, special tokens included."""
Soft: TypeAlias = Literal["rate", "any"]


def separators(text: str, separator: str) -> list[tuple[int, int]]:
    """(start, end) of every separator that ends a step."""
    return _scanned(text, separator)[0]


def _scanned(text: str, separator: str) -> tuple[list[tuple[int, int]], bool]:
    """The separators that end a step, and whether something stands after the last separator."""
    if not separator:
        raise InputError("steps need a separator that is not empty, such as a blank line")
    found: list[tuple[int, int]] = []
    place = 0
    while (at := text.find(separator, place)) >= 0:
        if text[place:at].strip():
            found.append((at, at + len(separator)))
        place = at + len(separator)
    return found, bool(text[place:].strip())


def says_something(step: str, separator: str) -> bool:
    """Whether there is something in a step but white space and separators."""
    return bool(step.replace(separator, "").strip())


def steps_of(text: str, separator: str, *, ended: bool) -> list[str]:
    """The steps of a completion's text. Joined by separators they give the text of one that ended, to the letter."""
    ends, more = _scanned(text, separator)
    cuts = [0, *(end for _, end in ends)]
    steps = [text[start:at] for start, (at, _) in zip(cuts, ends, strict=False)]
    rest = text[cuts[-1] :]
    if not ends or (ended and more):
        return [*steps, rest]
    return [*steps[:-1], steps[-1] + separator + rest] if ended else steps


def text_of_steps(steps: Sequence[str], separator: str, *, finished: bool) -> str:
    """The text that these steps were cut from, up to the end of the last one."""
    return separator.join(steps) + ("" if finished else separator)


def step_ends(
    ids: Sequence[int],
    decode: Decode,
    separator: str,
    *,
    ended: bool,
    eos_ids: Sequence[int],
    piece: Callable[[int], str] | None = None,
) -> list[int]:
    """The place in `ids` of each step's last token, ascending; equal where one token ends two steps.

    `ids`: a completion's, of which a last end token belongs to no text. `piece`: the text of one id alone, which makes
    it fast where the text is that of its pieces. Raises `InputError` for a completion without ids.
    """
    if not ids:
        raise InputError("a completion without tokens has no step: leave it out")
    body = list(ids[:-1] if ids[-1] in eos_ids else ids)
    text = decode(body)
    whole, more = _scanned(text, separator)
    places = _by_pieces(text, [piece(i) for i in body], [end for _, end in whole]) if piece and whole else None
    if places is None:
        places = _crossings(len(body), len(whole), lambda count: len(separators(decode(body[:count]), separator)))
    return [*places, len(ids) - 1] if not whole or (ended and more) else places


def _by_pieces(text: str, pieces: Sequence[str], ends: Sequence[int]) -> list[int] | None:
    """The place of the piece that completes each of these stretches of the text; None if it is not that of its pieces,
    as where words are joined by spaces or a character lies in two tokens."""
    if "".join(pieces) != text or "\ufffd" in text:
        return None
    return [int(place) for place in np.searchsorted(np.cumsum([len(one) for one in pieces]), ends)]


def _crossings(length: int, most: int, ends_within: Callable[[int], int]) -> list[int]:
    """For each k in 1..most, the place of the first token with which there are k ends; by bisection of what is open."""
    found: list[int] = [length - 1] * most
    waiting = [(0, 0, length, most)] if most else []
    while waiting:
        low, before, high, after = waiting.pop()
        if before >= after:
            continue
        if high - low == 1:
            found[before:after] = [low] * (after - before)
            continue
        middle = (low + high) // 2
        between = min(max(ends_within(middle), before), after)
        waiting += [(low, before, middle, between), (middle, between, high, after)]
    return found


@dataclass(frozen=True, slots=True)
class StepValue:
    """How often completions that go on after a step came out right."""

    successes: int
    judged: int
    """Rollouts with a verdict; one whose judgement failed says nothing."""
    rolled: bool = True
    """False: the completion ends with this step, so its own outcome is the value, exactly."""

    def label(self, kind: Soft) -> float:
        """The share of successes (rate), or whether there was any (Wang et al. 2024, Math-Shepherd, eq. 3 and 4)."""
        if not self.judged:
            raise InputError("a step without a judged rollout has no value: leave it out")
        return self.successes / self.judged if kind == "rate" else float(self.successes > 0)

    @property
    def interval(self) -> Estimate:
        """The success rate with Wilson's 95 % interval; a single point where the outcome is known."""
        share = self.label("rate")
        return wilson(self.successes, self.judged) if self.rolled else Estimate(share, share, share, self.judged)
