"""Random expressions, and two ways to write each of them down."""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st


@dataclass(frozen=True)
class Leaf:
    latex: str
    plain: str


@dataclass(frozen=True)
class Node:
    sign: str
    parts: "tuple[Leaf | Node, ...]"


Tree = Leaf | Node

numbers = st.integers(0, 60).map(lambda n: Leaf(str(n), str(n)))
decimals = st.integers(1, 999).map(lambda n: Leaf(f"{n / 8}", f"{Fraction(n, 8)}"))
variables = st.sampled_from([Leaf(name, name) for name in "xyabn"])
constants = st.sampled_from([Leaf("\\pi", "π"), Leaf("e", "e"), Leaf("\\alpha", "α"), Leaf("i", "i")])
roots = st.integers(2, 60).map(lambda n: Leaf(f"\\sqrt{{{n}}}", f"sqrt({n})")) | st.integers(2, 20).map(
    lambda n: Leaf(f"\\sqrt[3]{{{n}}}", f"{n}^(1/3)")
)
functions = st.sampled_from(["sin", "cos", "ln"]).flatmap(
    lambda name: st.sampled_from("xy").map(lambda of: Leaf(f"\\{name}({of}+2)", f"{name}(2+{of})"))
)


def nodes(of: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    pair = st.tuples(of, of)
    power = st.tuples(of, st.integers(1, 3).map(lambda n: Leaf(str(n), str(n))))
    many = st.lists(of, min_size=2, max_size=3).map(tuple)
    return (
        st.builds(Node, st.sampled_from("+*"), many)
        | st.builds(Node, st.sampled_from("-/"), pair)
        | st.builds(Node, st.just("^"), power)
    )


arithmetic = st.recursive(numbers, nodes, max_leaves=8)
algebra = st.recursive(numbers | variables | constants | roots | decimals, nodes, max_leaves=6)
everything = st.recursive(numbers | variables | functions | roots, nodes, max_leaves=4)


def latex(tree: Tree) -> str:
    r"""With \frac, \cdot, ^{} and \left( \right), in the order given."""
    if isinstance(tree, Leaf):
        return tree.latex
    parts = [latex(part) for part in tree.parts]
    if tree.sign == "/":
        return f"\\frac{{{parts[0]}}}{{{parts[1]}}}"
    wrapped = [
        part if isinstance(of, Leaf) else f"\\left({part}\\right)" for part, of in zip(parts, tree.parts, strict=True)
    ]
    if tree.sign == "^":
        return f"\\left({parts[0]}\\right)^{{{parts[1]}}}"
    return {"+": " + ", "-": " - ", "*": " \\cdot "}[tree.sign].join(wrapped)


def plain(tree: Tree) -> str:
    """With / and *, from right to left where order does not matter, powers multiplied out."""
    if isinstance(tree, Leaf):
        return tree.plain
    parts = [f"({plain(part)})" for part in tree.parts]
    if tree.sign == "^":
        return "*".join([parts[0]] * int(tree.parts[1].plain))  # type: ignore[union-attr]
    if tree.sign == "-":
        return f"-{parts[1]}+{parts[0]}"
    return tree.sign.join(reversed(parts) if tree.sign in "+*" else parts)


def value(tree: Tree) -> Fraction | None:
    """The value of a tree of whole numbers; None at a division by zero."""
    if isinstance(tree, Leaf):
        return Fraction(tree.plain)
    parts = [value(part) for part in tree.parts]
    if any(part is None for part in parts):
        return None
    first, *rest = (part for part in parts if part is not None)
    for part in rest:
        if tree.sign == "/" and part == 0:
            return None
        first = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b,
            "^": lambda a, b: a**b,
        }[tree.sign](first, part)
    return first
