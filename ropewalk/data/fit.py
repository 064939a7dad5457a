"""Rows of token ids cut to a budget, by one rule that leaves nothing empty.

An answer is cut at its end, by its own length; a prompt is never cut. What is left without a target, or equal
to its opponent, is refused with a reason, for the caller to count and name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.data.forms import RefusedRow


@dataclass(frozen=True, slots=True)
class Fitted:
    """Ids with their target mask, and whether something was cut off."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    cut: bool


def fit_row(ids: Sequence[int], mask: Sequence[bool], max_tokens: int) -> Fitted:
    """The first `max_tokens` ids. Raises `RefusedRow` if no target is left."""
    kept = tuple(bool(m) for m in mask[:max_tokens])
    if not any(kept[1:]):
        raise RefusedRow(f"no answer token is left within {max_tokens} tokens (it has {len(ids)})")
    return Fitted(tuple(ids[:max_tokens]), kept, len(ids) > max_tokens)


def fit_pair(
    chosen: tuple[Sequence[int], Sequence[bool]], rejected: tuple[Sequence[int], Sequence[bool]], max_tokens: int
) -> tuple[Fitted, Fitted]:
    """Both (ids, mask) sides by the same rule. Raises `RefusedRow` if a side is left empty or both are equal."""
    better, worse = fit_row(*chosen, max_tokens), fit_row(*rejected, max_tokens)
    if better.ids == worse.ids:
        raise RefusedRow(f"chosen and rejected are equal within {max_tokens} tokens")
    return better, worse
