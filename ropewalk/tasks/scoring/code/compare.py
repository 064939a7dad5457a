"""Whether what a program gave is what was expected. Pure; what the program gave is plain data of bounded size.

Nothing of the program takes part: its values have come over as numbers, texts, lists and pairs.
"""

import math
from collections.abc import Sequence

from ropewalk.records.prompt import Json
from ropewalk.tasks.scoring.code.suite import Output, Test, Value
from ropewalk.tasks.scoring.sandbox.inside.wire import Items, Pairs
from ropewalk.tasks.scoring.sandbox.program import Finding


def passed(test: Test, finding: Finding) -> bool:
    """Whether the finding is what the test expects; only a program that was `done` can pass."""
    if finding.status != "done":
        return False
    if isinstance(test.expected, Output):
        return same_output(finding.stdout, test.expected)
    if isinstance(test.expected, Value):
        return same_value(finding.value, test.expected)
    return True


def same_output(got: str, expected: Output) -> bool:
    """Whether a script printed what it should."""
    if expected.exact:
        return got == expected.text
    mine, theirs = _lines(expected.text), _lines(got)
    if mine == theirs or expected.tolerance is None:
        return mine == theirs
    if len(mine) != len(theirs):
        return False
    return all(_same_words(a.split(), b.split(), expected.tolerance) for a, b in zip(mine, theirs, strict=True))


def same_value(got: object, expected: Value) -> bool:
    """Whether a call returned what it should."""
    if expected.unordered and isinstance(expected.value, list):
        return isinstance(got, list | tuple) and not isinstance(got, Pairs) and _same_bag(list(got), expected)
    return _same(got, expected.value, expected.tolerance)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _same_words(mine: Sequence[str], theirs: Sequence[str], tolerance: float) -> bool:
    return len(mine) == len(theirs) and all(
        a == b or _close(_float(a), _float(b), tolerance) for a, b in zip(mine, theirs, strict=True)
    )


def _float(word: str) -> float:
    try:
        return float(word) if len(word) < 400 else math.nan
    except ValueError:
        return math.nan


def _same(got: object, expected: Json, tolerance: float) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool) or expected is None:
        return type(got) is type(expected) and got == expected
    if isinstance(expected, int | float):
        return isinstance(got, int | float) and _same_number(got, expected, tolerance)
    if isinstance(expected, str):
        return isinstance(got, str) and got == expected
    if isinstance(expected, list | tuple):
        return (
            isinstance(got, list | tuple)
            and not isinstance(got, Pairs | Items)
            and len(got) == len(expected)
            and all(_same(a, b, tolerance) for a, b in zip(got, expected, strict=True))
        )
    if not isinstance(got, Pairs) or len(got) != len(expected):
        return False
    texts = [(key, value) for key, value in got if isinstance(key, str)]
    # Equal lengths and every key expected: none twice, as each is struck off.
    left = dict(expected)
    return len(texts) == len(got) and all(
        key in left and _same(value, left.pop(key), tolerance) for key, value in texts
    )


def _same_number(got: int | float, expected: int | float, tolerance: float) -> bool:
    if got == expected or (isinstance(got, int) and isinstance(expected, int)):
        return got == expected
    try:
        return _close(float(got), float(expected), tolerance)
    except OverflowError:
        return False


def _close(got: float, expected: float, tolerance: float) -> bool:
    if math.isnan(got) or math.isnan(expected) or math.isinf(got) or math.isinf(expected):
        return False
    return math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance)


def _same_bag(got: list[object], expected: Value) -> bool:
    wanted = list(expected.value) if isinstance(expected.value, list) else []
    if len(got) != len(wanted):
        return False
    for item in got:
        place = next((n for n, want in enumerate(wanted) if _same(item, want, expected.tolerance)), None)
        if place is None:
            return False
        del wanted[place]
    return True
