"""Sets of real numbers as disjoint intervals in order: union, common part, what is left out."""

from collections.abc import Iterable, Sequence
from functools import cmp_to_key

from ropewalk.tasks.scoring.maths.exact import Value
from ropewalk.tasks.scoring.maths.limits import Fuel
from ropewalk.tasks.scoring.maths.same import below, same
from ropewalk.tasks.scoring.maths.values import Piece, Region

REALS = Region((Piece(None, None, False, False),))


def point(value: Value) -> Piece:
    return Piece(value, value, True, True)


def union(pieces: Iterable[Piece], fuel: Fuel) -> Region:
    """Pieces that overlap or touch become one; empty ones vanish."""

    def order(one: Piece, other: Piece) -> int:
        fuel.spend(5)
        return _compare_lows(one, other, fuel)

    merged: list[Piece] = []
    for piece in sorted((piece for piece in pieces if not _empty(piece, fuel)), key=cmp_to_key(order)):
        if merged and _touch(merged[-1], piece, fuel):
            merged[-1] = _joined(merged[-1], piece, fuel)
        else:
            merged.append(piece)
    return Region(tuple(merged))


def common(first: Region, second: Region, fuel: Fuel) -> Region:
    fuel.spend(5 * len(first.pieces) * len(second.pieces))
    return union((_overlap(one, other, fuel) for one in first.pieces for other in second.pieces), fuel)


def without(region: Region, points: Sequence[Value], fuel: Fuel) -> Region:
    """The region less some points."""
    for value in points:
        below_it = Piece(None, value, False, False)
        above_it = Piece(value, None, False, False)
        region = common(region, Region((below_it, above_it)), fuel)
    return region


def equal_regions(first: Region, second: Region, fuel: Fuel) -> bool:
    if len(first.pieces) != len(second.pieces):
        return False
    return all(_equal_pieces(one, other, fuel) for one, other in zip(first.pieces, second.pieces, strict=True))


def _equal_pieces(one: Piece, other: Piece, fuel: Fuel) -> bool:
    if (one.low_closed, one.high_closed) != (other.low_closed, other.high_closed):
        return False
    return _same_end(one.low, other.low, fuel) and _same_end(one.high, other.high, fuel)


def _same_end(one: Value | None, other: Value | None, fuel: Fuel) -> bool:
    return one is other if one is None or other is None else same(one, other, fuel)


def _empty(piece: Piece, fuel: Fuel) -> bool:
    if piece.low is None or piece.high is None:
        return False
    if same(piece.low, piece.high, fuel):
        return not (piece.low_closed and piece.high_closed)
    return below(piece.high, piece.low, fuel)


def _compare_lows(one: Piece, other: Piece, fuel: Fuel) -> int:
    if one.low is None or other.low is None:
        return (one.low is not None) - (other.low is not None)
    if same(one.low, other.low, fuel):
        return other.low_closed - one.low_closed
    return -1 if below(one.low, other.low, fuel) else 1


def _compare_highs(one: Piece, other: Piece, fuel: Fuel) -> int:
    if one.high is None or other.high is None:
        return (one.high is None) - (other.high is None)
    if same(one.high, other.high, fuel):
        return one.high_closed - other.high_closed
    return -1 if below(one.high, other.high, fuel) else 1


def _touch(one: Piece, other: Piece, fuel: Fuel) -> bool:
    """Whether `other`, which does not begin before `one`, begins before it ends or where it ends."""
    if one.high is None or other.low is None:
        return True
    if same(one.high, other.low, fuel):
        return one.high_closed or other.low_closed
    return below(other.low, one.high, fuel)


def _joined(one: Piece, other: Piece, fuel: Fuel) -> Piece:
    last = one if _compare_highs(one, other, fuel) >= 0 else other
    return one._replace(high=last.high, high_closed=last.high_closed)


def _overlap(one: Piece, other: Piece, fuel: Fuel) -> Piece:
    first = one if _compare_lows(one, other, fuel) >= 0 else other
    last = one if _compare_highs(one, other, fuel) <= 0 else other
    return Piece(first.low, last.high, first.low_closed, last.high_closed)
