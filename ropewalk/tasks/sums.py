"""Short sums made by program, each with its exact answer.

No held-out sum is a training sum in another order of its operands.
"""

import re
from collections.abc import Sequence

import numpy as np

from ropewalk.data.split import is_held_out
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Sample
from ropewalk.tasks.config import SumsTask
from ropewalk.tasks.scoring.numbers import NumberScorer
from ropewalk.tasks.task import HELDOUT, TRAIN, AtOnce, Task

_BARE_NUMBER = re.compile(r"-?[0-9]{1,20}")
_PATIENCE = 5_000
"""Draws in a row without a new sum after which there are taken to be no more."""


def sums_task(config: SumsTask) -> Task:
    """Sums with two scorers: `correct` (the last number is the answer), `format` (nothing but a number is said)."""
    found = _draw(config)
    return Task(
        name="sums",
        prompts={split: [_prompt(config, *one) for one in chosen] for split, chosen in found.items()},
        scorers={"correct": AtOnce(NumberScorer("anywhere")), "format": AtOnce(bare_number)},
    )


def bare_number(prompt: Prompt, sample: Sample) -> bool:
    """Whether the completion is one whole number and nothing else."""
    return _BARE_NUMBER.fullmatch(sample.text.strip()) is not None


def value_of(operands: Sequence[int], operations: Sequence[str]) -> int:
    """The sum's value; multiplication binds first."""
    terms = [operands[0]]
    for operation, operand in zip(operations, operands[1:], strict=True):
        if operation == "*":
            terms[-1] *= operand
        else:
            terms.append(operand if operation == "+" else -operand)
    return sum(terms)


def _draw(config: SumsTask) -> dict[str, list[tuple[tuple[int, ...], tuple[str, ...]]]]:
    """Distinct sums per split, drawn until there are enough or no new one turns up."""
    if config.high < config.low or not config.operations:
        raise InputError("a task of sums needs at least one operation, and high not below low")
    wanted = {TRAIN: config.prompts, HELDOUT: config.heldout_prompts}
    share = wanted[HELDOUT] / sum(wanted.values())
    found: dict[str, list[tuple[tuple[int, ...], tuple[str, ...]]]] = {TRAIN: [], HELDOUT: []}
    seen: set[str] = set()
    rng = np.random.default_rng(config.seed)
    idle = 0
    while idle < _PATIENCE and any(len(found[name]) < wanted[name] for name in wanted):
        operands = tuple(rng.integers(config.low, config.high + 1, config.operands).tolist())
        operations = tuple(config.operations[i] for i in rng.integers(len(config.operations), size=config.operands - 1))
        key = _text(operands, operations)
        order = f"{sorted(operands)} {sorted(operations)}"
        split = HELDOUT if is_held_out(order, share, salt=f"sums-{config.seed}") else TRAIN
        idle += 1
        if key not in seen and len(found[split]) < wanted[split]:
            idle = 0
            seen.add(key)
            found[split].append((operands, operations))
    if not found[TRAIN] or not found[HELDOUT]:
        raise InputError(f"there are too few different sums from {config.low} to {config.high}: widen the range")
    return found


def _text(operands: Sequence[int], operations: Sequence[str]) -> str:
    """The sum as one writes it; a negative number after an operation stands in brackets."""
    text = str(operands[0])
    for operation, operand in zip(operations, operands[1:], strict=True):
        text += f" {operation} {operand}" if operand >= 0 else f" {operation} ({operand})"
    return text


def _prompt(config: SumsTask, operands: tuple[int, ...], operations: tuple[str, ...]) -> Prompt:
    text, gold = _text(operands, operations), value_of(operands, operations)
    if config.style == "plain":
        return Prompt(id=f"sums {text}", dialogue=f"{text} =", gold=gold)
    question = f"What is {text}? Answer with the number only."
    return Prompt(id=f"sums {text}", dialogue=(Message("user", question),), gold=gold)
