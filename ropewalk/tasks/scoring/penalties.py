"""What length and repetition add to a reward. Both are functions of the one sample alone.

Length is counted in sampled tokens, the end token among them; repetition in words of the text, so that it is the
same whatever the tokeniser.
"""

import math
import re
from typing import TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.records.score import Score
from ropewalk.tasks.scoring.config import (
    CosineLength,
    LinearLength,
    NoLength,
    NoRepetition,
    OverlongBuffer,
    RepeatedNgrams,
)
from ropewalk.tasks.scoring.gates import Row

LengthTerm: TypeAlias = NoLength | LinearLength | OverlongBuffer | CosineLength
RepetitionTerm: TypeAlias = NoRepetition | RepeatedNgrams

_ONE_BY_ONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Kana, Chinese characters and Hangul: words are not told apart by spaces."""
_WORD = re.compile(rf"[{_ONE_BY_ONE}]|[^\W{_ONE_BY_ONE}]+|[^\w\s]")


def length_term(config: LengthTerm, tokens: int, row: Row) -> float:
    """What a completion of so many tokens has added to its reward."""
    match config:
        case LinearLength():
            return 0.0 - config.coefficient * min(1.0, tokens / config.at_tokens)
        case OverlongBuffer():
            over = tokens - (config.max_tokens - config.buffer_tokens)
            return 0.0 - config.coefficient * min(max(over / config.buffer_tokens, 0.0), 1.0)
        case CosineLength():
            return _cosine(config, tokens, row)
        case NoLength():
            return 0.0


def repetition_term(config: RepetitionTerm, text: str) -> float:
    """What the share of repeated n-grams has added to the reward of a text."""
    if isinstance(config, NoRepetition):
        return 0.0
    return 0.0 - config.coefficient * repeated_share(text, config.words)


def repeated_share(text: str, size: int) -> float:
    """1 - distinct n-grams / all n-grams, letter case aside; 0 for a text with fewer words than an n-gram."""
    words = _WORD.findall(text.lower())
    grams = list(zip(*(words[start:] for start in range(size)), strict=False))
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def _cosine(config: CosineLength, tokens: int, row: Row) -> float:
    if config.on not in row:
        there = ", ".join(row)
        raise InputError(f"reward.length looks at {config.on!r}, which was scored by nobody: there are {there}")
    outcome = row[config.on]
    if not isinstance(outcome, Score):
        return 0.0
    if tokens > config.limit_tokens:
        return config.beyond
    right = outcome.value >= config.at_least
    short, long = (config.right_short, config.right_long) if right else (config.wrong_short, config.wrong_long)
    return long + (short - long) * (1 + math.cos(math.pi * tokens / config.limit_tokens)) / 2
