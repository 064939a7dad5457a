"""From the tree of an expression to its exact value. Nothing but the arithmetic of `algebra` is ever called."""

from collections.abc import Callable
from typing import Any

from ropewalk.tasks.scoring.maths import tree
from ropewalk.tasks.scoring.maths.algebra import function, named, negative, plus, power, product, quotient
from ropewalk.tasks.scoring.maths.exact import Value
from ropewalk.tasks.scoring.maths.limits import Fuel, Unreadable

_ANGLES = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))


class Evaluator:
    """Evaluates trees and notes the units it meets."""

    def __init__(self, fuel: Fuel) -> None:
        self.fuel = fuel
        self.upper = 1
        """1 where ± means plus, -1 where it means minus."""
        self.units: list[tuple[str, ...]] = []

    def value(self, node: tree.Node) -> Value:
        """The value of an expression. Raises Unreadable for what has none."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise Unreadable("no value")
        return rule(self, node)

    def _num(self, node: tree.Num) -> Value:
        return node.value

    def _name(self, node: tree.Name) -> Value:
        return named(node.text)

    def _sum(self, node: tree.Sum) -> Value:
        total: Value = 0
        for sign, term in node.terms:
            value = self.value(term)
            minus = sign == "-" or (sign == "±" and self.upper < 0) or (sign == "∓" and self.upper > 0)
            total = plus(total, negative(value, self.fuel) if minus else value, self.fuel)
        return total

    def _product(self, node: tree.Product) -> Value:
        (_, first), *rest = node.factors
        total = self.value(first)
        for sign, factor in rest:
            combine = product if sign == "*" else quotient
            total = combine(total, self.value(factor), self.fuel)
        return total

    def _power(self, node: tree.Power) -> Value:
        return power(self.value(node.base), self.value(node.exponent), self.fuel)

    def _call(self, node: tree.Call) -> Value:
        first, *rest = node.arguments
        if node.name in _ANGLES and isinstance(first, tree.Measured) and first.unit == ("°",):
            turn = quotient(named("π"), 180, self.fuel)
            return function(node.name, (product(self.value(first.value), turn, self.fuel),), self.fuel)
        return function(node.name, tuple(map(self.value, (first, *rest))), self.fuel)

    def _percent(self, node: tree.Percent) -> Value:
        return quotient(self.value(node.value), 100, self.fuel)

    def _measured(self, node: tree.Measured) -> Value:
        if isinstance(node.value, tree.Measured):
            return self._measured(tree.Measured(node.value.value, node.value.unit + node.unit))
        self.units.append(node.unit)
        return self.value(node.value)


_RULES: dict[type, Callable[[Evaluator, Any], Value]] = {
    tree.Num: Evaluator._num,
    tree.Name: Evaluator._name,
    tree.Sum: Evaluator._sum,
    tree.Product: Evaluator._product,
    tree.Power: Evaluator._power,
    tree.Call: Evaluator._call,
    tree.Percent: Evaluator._percent,
    tree.Measured: Evaluator._measured,
}
