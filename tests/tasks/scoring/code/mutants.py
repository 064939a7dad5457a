"""Small faults planted into a program by its syntax tree: one changed operator, constant or result each."""

import ast
import copy
from collections.abc import Iterator

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip


def mutants(source: str, function: str) -> Iterator[str]:
    """Every program that differs from `source` by one fault within `function`; results that are lost come last."""
    tree = ast.parse(source)
    sites = sum(1 for _ in _sites(tree, function))
    for number in range(sites):
        changed = copy.deepcopy(tree)
        node = list(_sites(changed, function))[number]
        _plant(node)
        yield ast.unparse(ast.fix_missing_locations(changed))


def _sites(tree: ast.Module, function: str) -> Iterator[ast.AST]:
    (body,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function)
    docstring = body.body[0].value if isinstance(body.body[0], ast.Expr) else None
    found = [node for node in ast.walk(body) if node is not docstring and _can_hold_a_fault(node)]
    yield from sorted(found, key=lambda node: isinstance(node, ast.Return))


def _can_hold_a_fault(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _SWAPS
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        return type(node.op) in _SWAPS
    if isinstance(node, ast.Constant):
        return type(node.value) in (bool, int, float, str)
    return isinstance(node, ast.Return) and node.value is not None


def _plant(node: ast.AST) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = _SWAPS[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = _SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Constant):
        value = node.value
        node.value = not value if isinstance(value, bool) else value + "x" if isinstance(value, str) else value + 1  # type: ignore[operator]
    elif isinstance(node, ast.Return):
        node.value = ast.Constant(None)
