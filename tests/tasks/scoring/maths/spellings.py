"""One whole number as a model may write it at the end of its solution."""

from collections.abc import Callable

SPELLINGS: dict[str, Callable[[int], str]] = {
    "hash": lambda n: f"She has {n + 2} and gives away 2.\n#### {n:,}",
    "dollars": lambda n: f"The answer is ${n:,}.".replace("$-", "-$"),
    "boxed": lambda n: f"so \\boxed{{{n}}} it is",
    "decimal": lambda n: f"\\boxed{{{n}.00}}",
    "fraction": lambda n: f"we get 3 parts, thus\n#### \\frac{{{3 * n}}}{{3}}",
    "unit": lambda n: f"The answer is \\boxed{{{n:,}\\text{{ apples}}}}.".replace(",", "{,}"),
    "named": lambda n: f"\\[ \\boxed{{x = {n}}} \\]",
    "sum": lambda n: f"\\boxed{{{n - 1} + 1 = {n}}}",
    "last": lambda n: f"in total that makes {n}",
    "chinese": lambda n: f"所以答案是{n}。",
    "wide": lambda n: "\\boxed{" + f"{n}".translate(str.maketrans("0123456789-", "０１２３４５６７８９－")) + "}",
}
"""Texts whose answer is the number, for any whole number."""
