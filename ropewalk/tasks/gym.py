"""Procedural tasks of the package reasoning-gym, any of its generators by name, each with its own verifier.

What holds: nothing of what a model wrote is evaluated in this process. A generator whose own verifier would do that is
judged by a check of `gym_checks` instead, integrals in a sandbox. One that takes wrong answers for right, or makes
other prompts each time, is refused by name (`REFUSED`). A gold answer that is not taken is refused when the prompts
are made (of an integral, one that could not be read). No held-out prompt is a training one.
"""

import io
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np

from ropewalk.data.optional import optional_module
from ropewalk.data.split import is_held_out
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym_checks import INTEGRALS, PACKAGES, checks, readable
from ropewalk.tasks.scoring.rules.text import answer_of
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.shared import Shutting
from ropewalk.tasks.task import HELDOUT, TRAIN, Task

_DIFFERS = "it makes other prompts in every process, so that a run cannot be resumed"
_LENIENT = "its verifier takes wrong answers for right"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("isomorphic_strings", "knight_swap", "ransom_note", "word_ladder"), _DIFFERS),
    **dict.fromkeys(("intermediate_integration", "polynomial_multiplication"), _DIFFERS),
    "coin_flip": f"{_LENIENT}: 0 for every probability below 1",
    "game_of_life_halting": f"{_LENIENT}: all that are not empty",
    "codeio": "it runs programs that a language model wrote to make its prompts",
    "composite": "it is a mixture of others: name one of those",
}
"""Generators that cannot be trusted, with why; read from the code of reasoning-gym 0.1.25."""

Judge: TypeAlias = Callable[[str, dict[str, Any]], float | Failed]
"""Scores an answer to an entry, from 0 to 1."""

MAX_ANSWER = 4_000
"""Characters of an answer that a verifier is shown, or four times the gold answer's if that is more."""
_SHORT = {"propositional_logic": 300}
"""Verifiers whose time grows faster than the answer get less of it."""
_MOVES = frozenset({"rubiks_cube", "rush_hour"})
"""Verifiers that carry a move out as often as its number says."""
_LARGE_COUNT = re.compile(r"\d{3}")
_NO_NUMBER = re.compile(r"(?<![a-z])(?:nan|inf|infinity)[ij]?(?![a-z])", re.IGNORECASE)
_HUGE_EXPONENT = re.compile(r"(?<![0-9A-Za-z.])(?:\d++(?:\.\d*+)?|\.\d++)[eE][-+]?\d{4}")
# What a verifier may stumble over in a malformed answer; anything else is a fault of the verifier.
_STUMBLES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

_PATIENCE = 500
"""Draws in a row without a new prompt after which there are taken to be no more."""
_DRAWN_FOR_EACH = 4
"""Draws at most for each prompt that is wanted; some generators make all that may be drawn beforehand."""
_OWN_FIELDS = {"seed", "size"}


def gym_task(config: GymTask) -> Task:
    """Prompts of one generator with two scorers: `verified` (its verifier's score, partial credit included) and
    `solved` (1 if that is full, else 0)."""
    made = _Generator(config)
    prompts, entries, refused = _draw(config, made)
    verifier = Verifier(config.generator, made.score, entries, config.answer)
    return Task(
        name=config.generator,
        prompts=prompts,
        scorers={"verified": verifier, "solved": Solved(verifier)},
        refused=refused,
    )


def generators() -> tuple[str, ...]:
    """Names of the generators that may be used."""
    return tuple(sorted(set(_known()) - set(REFUSED)))


@dataclass(frozen=True)
class Verifier:
    """Asks a generator's own verifier for the score of an answer, a number from 0 to 1.

    Failed: no answer where one is looked for, an answer of absurd length, one that no verifier is shown (a number
    that is none, or would take gigabytes) or that it cannot read.
    """

    generator: str
    score: Judge
    entries: Mapping[str, dict[str, Any]] = field(repr=False)
    """What the generator made, by prompt id."""
    at: str = "tags"

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        entry = self.entries.get(prompt.id)
        if entry is None:
            raise InputError(f"prompt {prompt.id} was not made by this task's generator")
        answer = answer_of(sample.text, "tags" if self.at == "tags" else "text")
        if answer is None:
            return Failed("wrong_format", "it gives no answer where one is looked for")
        return fault_of(self.generator, answer, entry) or self._verify(answer, entry)

    def _verify(self, answer: str, entry: dict[str, Any]) -> Outcome:
        try:
            # A copy, because some verifiers write into what they are given.
            judged = self.score(answer, deepcopy(entry))
            value = judged if isinstance(judged, Failed) else float(judged)
        except _STUMBLES as error:
            return Failed("unparsable", f"{type(error).__name__}: {error}"[:120])
        if isinstance(value, Failed):
            return value
        return Score(min(max(value, 0.0), 1.0)) if value == value else Failed("unparsable", "its score is no number")


@dataclass(frozen=True)
class Solved:
    """Scores 1 where the verifier gives full credit, else 0."""

    verifier: Verifier

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        outcome = self.verifier(prompt, sample)
        return Score(float(outcome.value >= 1.0)) if isinstance(outcome, Score) else outcome


def fault_of(generator: str, answer: str, entry: Mapping[str, Any]) -> Failed | None:
    """Why an answer is not shown to a verifier; None if it is."""
    gold = str(entry.get("answer") or "")
    limit = _SHORT.get(generator, max(MAX_ANSWER, 4 * len(gold)))
    if len(answer) > limit:
        return Failed("wrong_format", f"the answer has {len(answer)} characters, more than {limit}")
    if _NO_NUMBER.search(answer) and not _NO_NUMBER.search(gold):
        return Failed("unparsable", "the answer is not a finite number")
    if _HUGE_EXPONENT.search(answer) or (generator in _MOVES and _LARGE_COUNT.search(answer)):
        return Failed("unparsable", "the answer has a number beyond all bounds")
    return None


class _Generator:
    """One of the package's datasets: its entries by number, the same ones every time."""

    def __init__(self, config: GymTask) -> None:
        dataset, settings = _found(config.generator)
        known = {f.name: f.type for f in fields(settings) if f.name not in _OWN_FIELDS}
        for name, value in config.parameters.items():
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.0)
                mend = f"did you mean {near[0]!r}?" if near else "it has none"
                raise InputError(f"the generator {config.generator!r} has no parameter {name!r}: {mend}")
            if known[name] is int and type(value) is not int:
                raise InputError(f"the parameter {name!r} of {config.generator!r} is a whole number, not {value!r}")
        self.name, self.seed = config.generator, config.seed % 2**32
        self.parameters = dict(config.parameters)
        self.size = _PATIENCE + _DRAWN_FOR_EACH * (config.prompts + config.heldout_prompts)
        with self._faults(), _own_randomness(self.seed):
            made = settings(seed=self.seed, size=self.size, **self.parameters)
            made.validate() if hasattr(made, "validate") else None
            self.dataset = dataset(config=made)
        own = checks(config.isolation).get(self.name)
        if self.name in INTEGRALS:
            Shutting(Limits(), config.isolation, PACKAGES).check()
        elif config.isolation != "bubblewrap":
            raise InputError(
                f"isolation has no effect on {self.name!r}, which is checked without a sandbox: leave it out"
            )
        self.score: Judge = own or self.dataset.score_answer

    def entry(self, number: int) -> dict[str, Any]:
        with self._faults(), _own_randomness(self.seed + number):
            made: dict[str, Any] = self.dataset[number]
        return made

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """What the package says of parameters that it cannot use, as one sentence."""
        try:
            yield
        except (AssertionError, *_STUMBLES) as error:
            said = f" ({error})" if str(error) else ""
            raise InputError(
                f"the generator {self.name!r} cannot work with the parameters {self.parameters}{said}: change them"
            ) from error


@contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """The global generators, which some of the package draws from, seeded here and put back as they were.

    The package also tells of its progress on the standard output, where nobody asked for it.
    """
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _draw(
    config: GymTask, made: _Generator
) -> tuple[dict[str, list[Prompt]], dict[str, dict[str, Any]], tuple[tuple[str, str], ...]]:
    """Distinct prompts per split with their entries, drawn until there are enough or no new one turns up."""
    wanted = {TRAIN: config.prompts, HELDOUT: config.heldout_prompts}
    share = wanted[HELDOUT] / sum(wanted.values())
    prompts: dict[str, list[Prompt]] = {TRAIN: [], HELDOUT: []}
    entries: dict[str, dict[str, Any]] = {}
    refused: list[tuple[str, str]] = []
    seen: set[str] = set()
    number = idle = 0
    while number < made.size and idle < _PATIENCE and any(len(prompts[name]) < wanted[name] for name in wanted):
        entry = made.entry(number)
        question, number, idle = str(entry["question"]), number + 1, idle + 1
        split = HELDOUT if is_held_out(question, share, salt=f"gym-{config.seed}") else TRAIN
        if question in seen or len(prompts[split]) >= wanted[split]:
            continue
        seen.add(question)
        if fault := _gold_fault(made, entry):
            refused.append((f"{config.generator} {number - 1}", fault))
            continue
        idle = 0
        prompt = _prompt(config, number - 1, entry)
        prompts[split].append(prompt)
        entries[prompt.id] = entry
    for name, other in ((HELDOUT, TRAIN), (TRAIN, HELDOUT)):
        if not prompts[name] and len(prompts[other]) > 1:
            prompts[name].append(prompts[other].pop())
    if not prompts[TRAIN]:
        why = f", {refused[0][1]}" if refused else ""
        raise InputError(f"the generator {config.generator!r} makes too few different prompts{why}: widen its range")
    return prompts, entries, tuple(refused)


def _gold_fault(made: _Generator, entry: Mapping[str, Any]) -> str | None:
    """Why a prompt is refused: its own verifier does not take its gold answer, or takes a question mark."""
    shown = dict(entry)
    verifier = Verifier(made.name, made.score, {}, "text")
    gold = entry.get("answer")
    if made.name in INTEGRALS:
        # Right by the package's own integration; to see that again would take a second each.
        return None if readable(str(gold), str(entry["metadata"]["variable"])) else "its gold answer cannot be read"
    if gold is not None:
        outcome = fault_of(made.name, str(gold), shown) or verifier._verify(str(gold), shown)
        if not isinstance(outcome, Score) or outcome.value < 1.0:
            return "its verifier does not take its gold answer"
    junk = verifier._verify("?", shown)
    return _LENIENT if isinstance(junk, Score) and junk.value >= 1.0 and gold != "?" else None


def _prompt(config: GymTask, number: int, entry: Mapping[str, Any]) -> Prompt:
    text = f"{entry['question']}\n{config.instruction}" if config.instruction else str(entry["question"])
    gold = entry.get("answer")
    return Prompt(
        id=f"{config.generator} {config.seed} {number}",
        dialogue=(Message("user", text),),
        gold=None if gold is None else str(gold),
        info={"generator": config.generator, "number": number},
    )


def _known() -> Mapping[str, tuple[Any, Any]]:
    """Dataset and settings by generator name."""
    optional_module("reasoning_gym", extra="tasks", need="a task of kind 'gym'")
    found: Mapping[str, tuple[Any, Any]] = optional_module(
        "reasoning_gym.factory", extra="tasks", need="a task of kind 'gym'"
    ).DATASETS
    return found


def _found(name: str) -> tuple[Any, Any]:
    if name in REFUSED:
        raise InputError(f"the generator {name!r} cannot be used: {REFUSED[name]}")
    known = _known()
    if name not in known:
        near = get_close_matches(name, generators(), n=1, cutoff=0.0)
        raise InputError(f"there is no generator {name!r} in reasoning-gym: did you mean {near[0]!r}?")
    return known[name]
