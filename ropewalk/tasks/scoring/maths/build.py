"""From a tree to an answer: arithmetic is done exactly, and lists, relations and sets get their meaning."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from ropewalk.tasks.scoring.maths import tree
from ropewalk.tasks.scoring.maths.algebra import named, negative, quotient
from ropewalk.tasks.scoring.maths.evaluate import Evaluator
from ropewalk.tasks.scoring.maths.exact import Quotient, Value, names
from ropewalk.tasks.scoring.maths.limits import Fuel, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.polynomial import Number
from ropewalk.tasks.scoring.maths.regions import REALS, common, point, union, without
from ropewalk.tasks.scoring.maths.same import constant, minus, same
from ropewalk.tasks.scoring.maths.units import LETTERS, Unit, unit_of
from ropewalk.tasks.scoring.maths.values import (
    Answer,
    Comparison,
    Grid,
    Group,
    Named,
    Piece,
    Proportion,
    Region,
    Scalar,
)

_FUNCTION_NAMES = frozenset("fghFGHP")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CHAIN_STEP = Fraction(1, 20)
"""Two sides of a chain joined by ≈ may differ by this share."""


def build(node: tree.Node, fuel: Fuel) -> Answer:
    """The answer a tree means. Raises Unreadable where it means none, such as 1/0."""
    return _Builder(fuel).answer(node)


class _Builder:
    def __init__(self, fuel: Fuel) -> None:
        self.fuel = fuel
        self.evaluator = Evaluator(fuel)

    def answer(self, node: tree.Node) -> Answer:
        if isinstance(node, tree.Series):
            return self.series(node)
        if isinstance(node, tree.Signed):
            return self.both(node)
        if isinstance(node, tree.Relation):
            return self.relation(node)
        if isinstance(node, tree.Bracketed):
            return self.bracketed(node)
        if isinstance(node, tree.Matrix):
            return Grid(tuple(tuple(map(self.evaluator.value, row)) for row in node.rows))
        if isinstance(node, tree.Ratio):
            return Proportion(tuple(map(self.evaluator.value, node.members)), node.clock, node.half)
        if isinstance(node, tree.Sets | tree.Reals):
            return self.region(node)
        return self.scalar(node)

    def scalar(self, node: tree.Node) -> Scalar:
        """The value with the unit, percent sign and last decimal place it is written with."""
        if isinstance(node, tree.Based):
            return Scalar(int(node.digits), Unit(Fraction(1), (("base", node.base),)))
        if infinite := _infinite(node):
            return Scalar(named("∞") if infinite == "+" else negative(named("∞"), self.fuel))
        self.evaluator.units.clear()
        value = self.evaluator.value(node)
        inner, percent = _peeled(node)
        step, digits = _written(inner)
        if percent:
            value = self.evaluator.value(tree.Product((("*", node), ("*", tree.Num(100)))))
        return Scalar(value, self._unit(), percent, step, digits, None if percent else self._loose(node))

    def _unit(self) -> Unit | None:
        if not self.evaluator.units:
            return None
        units = {unit_of(parts) for parts in self.evaluator.units}
        if len(units) > 1:
            raise Unreadable("two units")
        return next(iter(units), None)

    def _loose(self, node: tree.Node) -> Scalar | None:
        """`5m` may be a length."""
        if not isinstance(node, tree.Product) or len(node.factors) != 2:
            return None
        (_, first), (sign, last) = node.factors
        if (
            sign != "*"
            or not isinstance(first, tree.Num)
            or not isinstance(last, tree.Name)
            or last.text not in LETTERS
        ):
            return None
        step, digits = _written(first)
        return Scalar(first.value, unit_of((last.text,)), False, step, digits)

    def series(self, node: tree.Series) -> Answer:
        members = self._members(node.members)
        self.fuel.spend(len(members))
        variables = [member.name if isinstance(member, Named) else "" for member in members]
        if not variables[0] or any(name not in ("", variables[0]) for name in variables):
            return Group("list", tuple(members))
        values = [member.answer if isinstance(member, Named) else member for member in members]
        if all(isinstance(value, Region) for value in values):
            return Named(variables[0], self._joined(node.link, [v for v in values if isinstance(v, Region)]))
        return Named(variables[0], Group("list", tuple(_flat(values))))

    def _members(self, nodes: Sequence[tree.Node]) -> list[Answer]:
        """The members of a list or set: ±1 in it is two of them, {1, 2} is one."""
        found: list[Answer] = []
        for node in nodes:
            answer = self.answer(node)
            found += _flat([answer]) if isinstance(node, tree.Signed) else [answer]
        return found

    def _joined(self, link: str, regions: list[Region]) -> Answer:
        if link == "or":
            return union((piece for region in regions for piece in region.pieces), self.fuel)
        if link == "and":
            whole = REALS
            for region in regions:
                whole = common(whole, region, self.fuel)
            return whole
        return Group("list", tuple(regions))

    def both(self, node: tree.Signed) -> Answer:
        """The values for the upper and the lower sign of all ± together."""
        found = []
        for sign in (1, -1):
            self.evaluator.upper = sign
            found.append(self.answer(node.value))
        self.evaluator.upper = 1
        if isinstance(found[0], Named) and isinstance(found[1], Named):
            return Named(found[0].name, Group("set", (found[0].answer, found[1].answer)))
        return Group("set", tuple(found))

    def bracketed(self, node: tree.Bracketed) -> Answer:
        if node.opening in ("{", "\\{"):
            return Group("set", tuple(self._members(node.members)))
        if len(node.members) == 2 and any(_infinite(member) for member in node.members):
            return Region((self.piece(node),))
        members = tuple(self.answer(member) for member in node.members)
        if node.opening == "[" and members and all(isinstance(m, Group) and m.kind == "[]" for m in members):
            return self._grid([m for m in members if isinstance(m, Group)])
        return Group(node.opening + node.closing, members)

    def _grid(self, rows: list[Group]) -> Answer:
        if len({len(row.members) for row in rows}) == 1:
            cells = [[cell.value for cell in row.members if isinstance(cell, Scalar)] for row in rows]
            if all(len(row) == len(rows[0].members) for row in cells):
                return Grid(tuple(map(tuple, cells)))
        return Group("[]", tuple(rows))

    def piece(self, node: tree.Bracketed) -> Piece:
        """An interval in brackets; its infinite ends are open."""
        if len(node.members) != 2:
            raise Unreadable("no interval")
        ends = [None if _infinite(member) else self.evaluator.value(member) for member in node.members]
        if (ends[0] is None and _infinite(node.members[0]) != "-") or (
            ends[1] is None and _infinite(node.members[1]) == "-"
        ):
            raise Unreadable("an interval without an end")
        low_closed = ends[0] is not None and node.opening == "["
        return Piece(ends[0], ends[1], low_closed, ends[1] is not None and node.closing == "]")

    def region(self, node: tree.Node) -> Region:
        """A union of intervals and finite sets, or the reals, less some points."""
        if isinstance(node, tree.Reals):
            return REALS
        if isinstance(node, tree.Sets):
            whole = self.region(node.sides[0])
            for sign, side in zip(node.signs, node.sides[1:], strict=True):
                other = self.region(side)
                if sign == "∪":
                    whole = union((*whole.pieces, *other.pieces), self.fuel)
                    continue
                if any(piece.low is None or piece.low is not piece.high for piece in other.pieces):
                    raise Unreadable("a difference of sets")
                whole = without(whole, [piece.low for piece in other.pieces if piece.low is not None], self.fuel)
            return whole
        if isinstance(node, tree.Bracketed) and node.opening in ("{", "\\{"):
            return union((point(self.evaluator.value(member)) for member in node.members), self.fuel)
        if isinstance(node, tree.Bracketed):
            return union((self.piece(node),), self.fuel)
        raise Unreadable("no set")

    def relation(self, node: tree.Relation) -> Answer:
        signs = set(node.signs)
        if signs == {"∈"} and len(node.signs) == 1:
            return Named(_variable(node.sides[0]), self.answer(node.sides[1]))
        if signs <= {"=", "≈"}:
            return self._point(node) or self._chain(node)
        if len(node.signs) == 1:
            return self._inequality(node.signs[0], *map(self.evaluator.value, node.sides))
        if len(node.signs) == 2 and (signs <= {"<", "<="} or signs <= {">", ">="}):
            low, middle, high = map(self.evaluator.value, node.sides)
            first, second = self._inequality(node.signs[0], low, middle), self._inequality(node.signs[1], middle, high)
            if isinstance(first, Named) and isinstance(second, Named) and first.name == second.name:
                return Named(
                    first.name, self._joined("and", [n.answer for n in (first, second) if isinstance(n.answer, Region)])
                )
        raise Unreadable("a chain of relations")

    def _point(self, node: tree.Relation) -> Answer | None:
        """`(x, y) = (1, 2)` is the point (1, 2)."""
        left, right = node.sides[0], node.sides[-1]
        if len(node.sides) != 2 or not isinstance(left, tree.Bracketed) or not isinstance(right, tree.Bracketed):
            return None
        alike = len(left.members) == len(right.members)
        return self.answer(right) if alike and all(isinstance(member, tree.Name) for member in left.members) else None

    def _chain(self, node: tree.Relation) -> Answer:
        """`x = 2 + 3 = 5` is a named value, `48/2 = 24` a value, `x + y = 3` an equation."""
        name = _function_or_variable(node.sides[0])
        sides = node.sides[1:] if name else node.sides
        answers = [self.answer(side) for side in sides]
        if not name and len(sides) == 2 and isinstance(sides[1], tree.Name) and not _names(answers[0]):
            name, sides, answers = _function_or_variable(sides[1]), sides[:1], answers[:1]
        if name and not any(name in _names(answer) for answer in answers):
            return Named(name, self._agreed(answers, node.signs))
        if len(node.sides) == 2:
            left, right = (self.answer(side) for side in node.sides)
            if isinstance(left, Scalar) and isinstance(right, Scalar) and (names(left.value) | names(right.value)):
                return Comparison("=", minus(left.value, right.value, self.fuel))
        return self._agreed(answers, node.signs)

    def _agreed(self, answers: Sequence[Answer], signs: Sequence[str]) -> Answer:
        """The one value of all sides. Raises Unreadable if they differ: 2 + 2 = 5 is no answer."""
        if len(answers) == 1:
            return answers[0]
        scalars = [answer for answer in answers if isinstance(answer, Scalar)]
        if len(scalars) != len(answers):
            raise Unreadable("a chain of other things than values")
        for one, other in pairwise(scalars):
            if not self._chained(one, other, "≈" in signs):
                raise Unreadable("a chain that is not true")
        return scalars[0] if "≈" in signs else scalars[-1]

    def _chained(self, one: Scalar, other: Scalar, roughly: bool) -> bool:
        if same(one.value, other.value, self.fuel):
            return True
        left, right = constant(one.value, self.fuel), constant(other.value, self.fuel)
        if left is None or right is None:
            return False
        steps = [scalar.step for scalar in (one, other) if scalar.step is not None]
        allowed = _CHAIN_STEP * abs(left) if roughly else max(steps, default=Fraction(0)) / 2
        return abs(left - right) <= allowed

    def _inequality(self, sign: str, left: Value, right: Value) -> Answer:
        """Solved where it is linear in one variable."""
        difference = minus(left, right, self.fuel)
        for side in (left, right):
            if isinstance(side, Quotient) and len(side.under) > 1:
                raise Unreadable("an inequality of quotients")
        variables = names(difference)
        if len(variables) == 1:
            (variable,) = variables
            solved = self._solved(sign, difference, variable)
            if solved is not None:
                return Named(variable, solved)
        if not variables:
            raise Unreadable("an inequality of numbers")
        if sign in (">", ">="):
            sign, difference = _MIRRORED[sign], minus(right, left, self.fuel)
        return Comparison(sign, difference)

    def _solved(self, sign: str, difference: Quotient, variable: str) -> Region | None:
        own = frozenset(((variable, 1),))
        slope: Number = difference.over.get(own, 0)
        rest = Quotient({monomial: factor for monomial, factor in difference.over.items() if monomial != own})
        if not slope or names(rest):
            return None
        border = negative(quotient(rest, slope, self.fuel), self.fuel)
        if constant(border, self.fuel) is None:
            raise Unreadable("a border that is no real number")
        if sign == "!=":
            return without(REALS, [border], self.fuel)
        if slope < 0:
            sign = _MIRRORED[sign]
        closed = sign in ("<=", ">=")
        if sign in ("<", "<="):
            return Region((Piece(None, border, False, closed),))
        return Region((Piece(border, None, closed, False),))


def _flat(answers: Sequence[Answer]) -> list[Answer]:
    """Members of sets such as ±1 in a list are members of the list."""
    flat: list[Answer] = []
    for answer in answers:
        flat += answer.members if isinstance(answer, Group) and answer.kind == "set" else [answer]
    if len(flat) > 400:
        raise TooLarge("too many members")
    return flat


def _peeled(node: tree.Node) -> tuple[tree.Node, bool]:
    """The node inside units, a sign and a percent sign."""
    percent = False
    while True:
        if isinstance(node, tree.Measured | tree.Percent):
            percent = percent or isinstance(node, tree.Percent)
            node = node.value
        elif isinstance(node, tree.Sum) and len(node.terms) == 1:
            node = node.terms[0][1]
        else:
            return node, percent


def _written(node: tree.Node) -> tuple[Fraction | None, int]:
    """The last place and the significant digits of a decimal, also of 1.50 · 10^3."""
    if isinstance(node, tree.Num):
        return (None if node.places is None else Fraction(10) ** -node.places), node.digits
    if isinstance(node, tree.Product) and len(node.factors) == 2:
        (_, first), (sign, last) = node.factors
        if sign == "*" and isinstance(first, tree.Num) and first.places is not None and isinstance(last, tree.Power):
            exponent = last.exponent
            if (
                isinstance(exponent, tree.Sum)
                and len(exponent.terms) == 1
                and isinstance(exponent.terms[0][1], tree.Num)
            ):
                exponent = tree.Num(-exponent.terms[0][1].value)
            small = isinstance(exponent, tree.Num) and isinstance(exponent.value, int) and abs(exponent.value) <= 300
            if last.base == tree.Num(10) and small and isinstance(exponent, tree.Num):
                return Fraction(10) ** int(exponent.value) * Fraction(10) ** -first.places, first.digits
    return None, 0


def _infinite(node: tree.Node) -> str:
    """`+` or `-` for an infinite end, else empty."""
    if isinstance(node, tree.Infinity):
        return "+"
    if isinstance(node, tree.Sum) and len(node.terms) == 1 and isinstance(node.terms[0][1], tree.Infinity):
        return node.terms[0][0]
    return ""


def _variable(node: tree.Node) -> str:
    if isinstance(node, tree.Name) and node.text not in ("π", "e", "i"):
        return node.text
    raise Unreadable("no variable")


def _function_or_variable(node: tree.Node) -> str:
    """The name that the left side gives: `x`, or the f of `f(x)`; empty if it gives none."""
    if isinstance(node, tree.Name) and node.text not in ("π", "e", "i"):
        return node.text
    if isinstance(node, tree.Product):
        (_, first), *rest = node.factors
        if isinstance(first, tree.Power):
            # An inverse function.
            first = first.base
        if isinstance(first, tree.Name) and first.text[0] in _FUNCTION_NAMES and len(rest) == 1:
            sign, last = rest[0]
            return first.text if sign == "*" and isinstance(last, tree.Name) else ""
    return ""


def _names(answer: Answer) -> frozenset[str]:
    if isinstance(answer, Scalar):
        return names(answer.value)
    if isinstance(answer, Group):
        return frozenset(name for member in answer.members for name in _names(member))
    return frozenset()
