"""Number guess, a toy: the world thinks of a number and says "higher" or "lower".

    prompt  Guess my number between 1 and 9.     gold 7
    policy  5 → Higher.   8 → Lower.   7 → (done, reward 1)

The prompt's gold is the number; where it has none, the number is a hash of the prompt's id. A turn's guess is the last
whole number in it.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.environments.protocol import Response, ToolSpec, Turn
from ropewalk.tasks.environments.tool_use import opening

_NUMBER = re.compile(r"(?<![\d.,])-?\d{1,9}(?![\d]|[.,]\d)")


@dataclass(frozen=True, slots=True)
class GuessRules:
    """What the game is."""

    low: int = 1
    """Smallest number."""
    high: int = 9
    """Largest number."""
    guesses: int = 4
    """Turns the policy has."""
    later: float = 0.0
    """Taken off the reward of 1 for every guess after the first; never below a tenth."""

    def __post_init__(self) -> None:
        if self.low >= self.high or self.guesses < 1 or not 0 <= self.later < 1:
            raise InputError("a number guess needs low < high, at least one guess, and 0 <= later < 1")


class NumberGuess:
    """One game."""

    def __init__(self, rules: GuessRules | None = None, *, system: str = "") -> None:
        self._rules = rules or GuessRules()
        self._system = system
        self._number = 0
        self._guesses = 0

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """None: the policy says its guess."""
        return ()

    def reset(self, prompt: Prompt) -> Sequence[Message]:
        """The prompt's own messages."""
        self._number = number_of(prompt, self._rules)
        self._guesses = 0
        return opening(prompt, self._system)

    def respond(self, turn: Turn) -> Response:
        """Higher, lower, or the end."""
        rules = self._rules
        self._guesses += 1
        found = _NUMBER.findall(turn.text)
        right = bool(found) and int(found[-1]) == self._number
        left = rules.guesses - self._guesses
        info = {"guesses": self._guesses, "solved": right}
        if right:
            reward = max(1.0 - rules.later * (self._guesses - 1), 0.1)
            return Response(reward=reward, done=True, info=info)
        if not left:
            return Response(done=True, info=info)
        said = "Say a whole number." if not found else "Higher." if int(found[-1]) < self._number else "Lower."
        return Response((Message("user", said),), info=info)

    def close(self) -> None:
        """Nothing is held."""


def number_of(prompt: Prompt, rules: GuessRules) -> int:
    """The number to guess. Raises InputError where the gold is none in the range."""
    if prompt.gold is None:
        digest = hashlib.blake2b(prompt.id.encode(), digest_size=8).digest()
        return rules.low + int.from_bytes(digest, "big") % (rules.high - rules.low + 1)
    try:
        number = int(str(prompt.gold))
    except ValueError:
        number = rules.low - 1
    if not rules.low <= number <= rules.high:
        raise InputError(f"prompt {prompt.id}: the gold {prompt.gold!r} is no number from {rules.low} to {rules.high}")
    return number
