"""Whether two answers are the same, under a policy.

Symmetric, and every answer equals itself. Exact wherever no side is written as a decimal.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from ropewalk.tasks.scoring.maths.algebra import named, product
from ropewalk.tasks.scoring.maths.exact import Quotient, Value
from ropewalk.tasks.scoring.maths.limits import Fuel, Unreadable
from ropewalk.tasks.scoring.maths.policy import Exact, Policy, Within
from ropewalk.tasks.scoring.maths.regions import equal_regions, point, union
from ropewalk.tasks.scoring.maths.same import constant, minus, proportional, same
from ropewalk.tasks.scoring.maths.units import Unit
from ropewalk.tasks.scoring.maths.values import (
    Answer,
    Comparison,
    Grid,
    Group,
    Named,
    Option,
    Piece,
    Proportion,
    Region,
    Scalar,
    Text,
)

Verdict: TypeAlias = Literal["equal", "different", "unparsed"]

_DEGREES = Unit(Fraction(1), (("degree", 1),))
_RADIANS = product(named("π"), Fraction(1, 180), Fuel())
_UNORDERED = ("list", "set", "all")


def verdict(first: Answer, second: Answer, policy: Policy) -> Verdict:
    """`unparsed` where it cannot be decided within the limits."""
    if isinstance(first, Scalar) and isinstance(second, Scalar) and _plainly_equal(first, second):
        return "equal"
    try:
        return "equal" if _Comparer(policy, Fuel()).equal(first, second) else "different"
    except Unreadable:
        return "unparsed"


def _plainly_equal(first: Scalar, second: Scalar) -> bool:
    """Two bare equal numbers: no policy says otherwise."""
    if isinstance(first.value, Quotient) or isinstance(second.value, Quotient) or first.value != second.value:
        return False
    return first.unit is None and second.unit is None and first.percent == second.percent


class _Comparer:
    def __init__(self, policy: Policy, fuel: Fuel) -> None:
        self.policy = policy
        self.fuel = fuel

    def equal(self, first: Answer, second: Answer) -> bool:
        self.fuel.spend(2)
        first, second = _single(first), _single(second)
        if isinstance(first, Scalar) and isinstance(second, Scalar):
            return self._scalars(first, second)
        for kinds in _RULES:
            for one, other in ((first, second), (second, first)):
                if isinstance(one, kinds[0]) and isinstance(other, kinds[1]):
                    return kinds[2](self, one, other)
        return False

    def _scalars(self, first: Scalar, second: Scalar) -> bool:
        if self._same_quantity(first, second):
            return True
        return any(
            self._same_quantity(one, other)
            for one, other in ((first.loose, second), (first, second.loose))
            if one is not None and other is not None and (self.policy.units == "ignore" or (one.unit and other.unit))
        )

    def _same_quantity(self, first: Scalar, second: Scalar) -> bool:
        if self.policy.units != "ignore":
            scaled = self._in_one_unit(first, second)
            if scaled is None:
                return False
            first, second = scaled
        pairs = [(first, second)]
        if first.percent != second.percent:
            pairs = [(self._hundredth(first), self._hundredth(second))] if self.policy.percent != "number" else []
            if self.policy.percent != "hundredth":
                pairs.append((first, second))
        pairs += [pair for one, other in pairs if (pair := self._in_radians(one, other))]
        return any(self._close(one, other) for one, other in pairs)

    def _in_radians(self, first: Scalar, second: Scalar) -> tuple[Scalar, Scalar] | None:
        """30° is π/6 where the other side has no unit."""
        if [scalar.unit for scalar in (first, second) if scalar.unit] != [_DEGREES] or self.policy.units == "require":
            return None
        turned = [
            scalar._replace(value=product(scalar.value, _RADIANS, self.fuel), step=None) if scalar.unit else scalar
            for scalar in (first, second)
        ]
        return turned[0], turned[1]

    def _in_one_unit(self, first: Scalar, second: Scalar) -> tuple[Scalar, Scalar] | None:
        """Both in base units; None if they measure different things."""
        one, other = first.unit, second.unit
        if one == other:
            return first, second
        if one is None or other is None:
            return None if self.policy.units == "require" else (first, second)
        if self.policy.units == "require" and one.label != other.label:
            return None
        if not one.powers or not other.powers:
            return (first, second) if self.policy.units == "agree" or one.powers == other.powers else None
        return (self._scaled(first, one), self._scaled(second, other)) if one.powers == other.powers else None

    def _scaled(self, scalar: Scalar, unit: Unit) -> Scalar:
        step = None if scalar.step is None else scalar.step * unit.factor
        return scalar._replace(value=product(scalar.value, unit.factor, self.fuel), step=step)

    def _hundredth(self, scalar: Scalar) -> Scalar:
        return self._scaled(scalar, Unit(Fraction(1, 100), ())) if scalar.percent else scalar

    def _close(self, first: Scalar, second: Scalar) -> bool:
        if same(first.value, second.value, self.fuel):
            return True
        tolerance = self.policy.tolerance
        decimals = [scalar for scalar in (first, second) if scalar.step is not None]
        if isinstance(tolerance, Exact) or not decimals:
            return False
        one, other = constant(first.value, self.fuel), constant(second.value, self.fuel)
        if one is None or other is None:
            return False
        distance = abs(one - other)
        if isinstance(tolerance, Within):
            return distance <= max(tolerance.absolute, tolerance.relative * max(abs(one), abs(other)))
        coarse = max(decimals, key=lambda scalar: scalar.step or 0)
        return coarse.digits >= tolerance.digits and distance <= (coarse.step or 0) / 2

    def _named(self, first: Named, second: Answer) -> bool:
        if not isinstance(second, Named):
            return self.equal(first.answer, second)
        if first.name == second.name:
            return self.equal(first.answer, second.answer)
        one, other = _equation(first, self.fuel), _equation(second, self.fuel)
        return one is not None and other is not None and self._comparisons(one, other)

    def _named_equation(self, first: Named, second: Comparison) -> bool:
        equation = _equation(first, self.fuel)
        return equation is not None and self._comparisons(equation, second)

    def _comparisons(self, first: Comparison, second: Comparison) -> bool:
        """Equations are equal up to a factor, inequalities up to a positive one."""
        if first.sign != second.sign:
            return False
        factor = proportional(first.value, second.value, self.fuel)
        return factor is not None and (factor > 0 or first.sign in ("=", "!="))

    def _groups(self, first: Group, second: Group) -> bool:
        unordered = self._unordered(first, second)
        if unordered is None:
            return self._named_tuple(first, second) or self._named_tuple(second, first)
        if unordered:
            repeats = {first.kind, second.kind} & {"set", "all"} or _repeats(first) == _repeats(second)
            return bool(repeats) and self._as_sets(first.members, second.members)
        if len(first.members) != len(second.members):
            return False
        pairs = zip(first.members, second.members, strict=True)
        return all(self.equal(one, other) for one, other in pairs)

    def _unordered(self, first: Group, second: Group) -> bool | None:
        """Whether order is ignored; None if the two are different things."""
        kinds = {first.kind, second.kind}
        if "all" in kinds or "tuple" in kinds:
            return "all" in kinds
        if self.policy.order != "as_written":
            return self.policy.order == "ignored"
        loose = [group.kind in _UNORDERED for group in (first, second)]
        if loose[0] != loose[1]:
            return None
        # Of two members, brackets may be those of an interval.
        if not loose[0] and len(first.members) == 2 and len(kinds) == 2:
            return None
        return loose[0]

    def _named_tuple(self, first: Group, second: Group) -> bool:
        """`x = 1, y = 2` gives the point (1, 2)."""
        names = [member.name for member in first.members if isinstance(member, Named)]
        if second.kind != "()" or len(set(names)) != len(first.members) or len(names) != len(second.members):
            return False
        pairs = zip(first.members, second.members, strict=True)
        return all(not isinstance(other, Named) and self.equal(one, other) for one, other in pairs)

    def _set_of_one(self, first: Group, second: Scalar) -> bool:
        """{5, 5} and 5 ± 0 are 5; the list 5, 5 is not."""
        return first.kind == "set" and bool(first.members) and all(self.equal(one, second) for one in first.members)

    def _as_sets(self, first: Sequence[Answer], second: Sequence[Answer]) -> bool:
        return self._covered(first, second) and self._covered(second, first)

    def _covered(self, members: Sequence[Answer], others: Sequence[Answer]) -> bool:
        """Whether each member is among the others; plain numbers are looked up, the rest is compared."""
        plain = {other.value for other in others if isinstance(other, Scalar) and _is_bare(other)}
        for member in members:
            self.fuel.spend(1)
            if isinstance(member, Scalar) and _is_bare(member) and member.value in plain:
                continue
            if not any(self.equal(member, other) for other in others):
                return False
        return True

    def _regions(self, first: Region, second: Region) -> bool:
        return equal_regions(first, second, self.fuel)

    def _region_and_group(self, first: Region, second: Group) -> bool:
        """Brackets of two members are an interval here, a list or set of intervals their union."""
        other = self._region_of(second)
        return other is not None and equal_regions(first, other, self.fuel)

    def _region_of(self, answer: Answer) -> Region | None:
        if isinstance(answer, Region):
            return answer
        if isinstance(answer, Named):
            return self._region_of(answer.answer)
        if isinstance(answer, Scalar):
            return Region((point(answer.value),))
        if not isinstance(answer, Group):
            return None
        if answer.kind in _UNORDERED:
            parts = [self._region_of(member) for member in answer.members]
            if any(part is None for part in parts):
                return None
            return union((piece for part in parts if part for piece in part.pieces), self.fuel)
        ends = [member.value for member in answer.members if isinstance(member, Scalar)]
        if len(answer.members) != 2 or len(ends) != 2:
            return None
        return union((Piece(ends[0], ends[1], answer.kind[0] == "[", answer.kind[1] == "]"),), self.fuel)

    def _region_and_scalar(self, first: Region, second: Scalar) -> bool:
        return equal_regions(first, Region((point(second.value),)), self.fuel)

    def _grids(self, first: Grid, second: Grid) -> bool:
        if [len(row) for row in first.rows] != [len(row) for row in second.rows]:
            return False
        cells = zip(first.rows, second.rows, strict=True)
        return all(same(a, b, self.fuel) for row, other in cells for a, b in zip(row, other, strict=True))

    def _grid_and_group(self, first: Grid, second: Group) -> bool:
        """A row or a column is a vector in brackets."""
        if len(first.rows) > 1 and len(first.rows[0]) > 1:
            return False
        cells = tuple(Scalar(cell) for row in first.rows for cell in row)
        if second.kind in _UNORDERED and second.kind != "all" and self.policy.order == "as_written":
            return False
        return self._groups(Group("tuple", cells), second._replace(kind="()") if second.kind != "all" else second)

    def _proportions(self, first: Proportion, second: Proportion) -> bool:
        """3 : 4 is 6 : 8, but 2:30 is not 1:15."""
        if len(first.members) != len(second.members) or {first.half, second.half} == {"am", "pm"}:
            return False
        if first.clock or second.clock:
            return all(same(a, b, self.fuel) for a, b in zip(first.members, second.members, strict=True))
        (head, *tail), (other_head, *other_tail) = first.members, second.members
        return all(
            same(product(a, other_head, self.fuel), product(b, head, self.fuel), self.fuel)
            for a, b in zip(tail, other_tail, strict=True)
        )

    def _texts(self, first: Text, second: Text) -> bool:
        return first.words == second.words

    def _options(self, first: Option, second: Option) -> bool:
        return first.letter == second.letter

    def _option_and_other(self, first: Option, second: Answer) -> bool:
        if isinstance(second, Scalar) and any(
            same(second.value, named(letter), self.fuel) for letter in (first.letter, first.letter.lower())
        ):
            return True
        return first.rest is not None and self.equal(first.rest, second)


_RULES: tuple[tuple[type, type, Callable[[_Comparer, Any, Any], bool]], ...] = (
    (Option, Option, _Comparer._options),
    (Option, object, _Comparer._option_and_other),
    (Text, Text, _Comparer._texts),
    (Named, Comparison, _Comparer._named_equation),
    (Named, object, _Comparer._named),
    (Comparison, Comparison, _Comparer._comparisons),
    (Group, Group, _Comparer._groups),
    (Group, Scalar, _Comparer._set_of_one),
    (Region, Region, _Comparer._regions),
    (Region, Group, _Comparer._region_and_group),
    (Region, Scalar, _Comparer._region_and_scalar),
    (Grid, Grid, _Comparer._grids),
    (Grid, Group, _Comparer._grid_and_group),
    (Proportion, Proportion, _Comparer._proportions),
)


def _single(answer: Answer) -> Answer:
    """{5} is 5; a set of a set is not that set: {∅} is not empty."""
    while isinstance(answer, Group) and len(answer.members) == 1 and answer.kind in _UNORDERED:
        (inner,) = answer.members
        if isinstance(inner, Group) and inner.kind == "set":
            break
        answer = inner
    return answer


def _repeats(group: Group) -> tuple[int, dict[Value, int]]:
    """How many members there are, and how often each plain number: the list `1, 1, 2` is not `1, 2`."""
    plain = Counter(member.value for member in group.members if isinstance(member, Scalar) and _is_bare(member))
    return len(group.members), {value: times for value, times in plain.items() if times > 1}


def _is_bare(scalar: Scalar) -> bool:
    return not isinstance(scalar.value, Quotient) and scalar.unit is None and not scalar.percent


def _equation(answer: Named, fuel: Fuel) -> Comparison | None:
    """`y = 2x` as 0 = y - 2x."""
    value: Value | None = answer.answer.value if isinstance(answer.answer, Scalar) else None
    return None if value is None else Comparison("=", minus(named(answer.name), value, fuel))
