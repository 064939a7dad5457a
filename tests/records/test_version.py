"""Seeds: no two draws share one."""

import ast
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ropewalk
from ropewalk.records.version import Draw, sample_seed

SOURCES = sorted(Path(ropewalk.__file__).parent.rglob("*.py"))


def test_no_two_purposes_share_a_seed() -> None:
    """Fault B6: what is selected or judged by some samples is not measured on the same ones."""
    drawn = {
        iteration: {sample_seed(0, iteration, prompt, index) for prompt in "pq" for index in range(4)}
        for iteration in [*map(int, Draw), *range(50)]
    }
    for one, other in itertools.combinations(drawn, 2):
        assert not drawn[one] & drawn[other]
    assert all(len(seeds) == 8 for seeds in drawn.values())
    assert all(draw < 0 for draw in Draw)
    for draw in Draw:
        assert sample_seed(0, draw, "p", 1) == sample_seed(0, int(draw), "p", 1), "a name in place of a number"


def test_each_purpose_is_one_places_own() -> None:
    """Fault B6: two places that draw under one name would draw the same numbers."""
    named = Counter(
        node.attr
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Draw"
    )
    assert named == Counter(draw.name for draw in Draw)


def test_every_seed_is_made_for_an_iteration_or_a_named_purpose() -> None:
    """Fault B6: a number or a constant of a module's own would not be told from another's."""
    laboratory = "sample.py: start"  # its pairs stay those of its recorded figures
    own = [
        f"{path.name}: {ast.unparse(value)}"
        for path, tree in trees()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for value in purposes(call)
        if ast.unparse(value) not in ("iteration", "draw") and not ast.unparse(value).startswith("Draw.")
    ]
    assert own == [laboratory]


def purposes(call: ast.Call) -> Iterator[ast.expr]:
    """What a call hands on in place of an iteration."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "sample_seed":
        yield call.args[1]
    if name == "experience" and len(call.args) == 2:
        yield call.args[0]
    if name in ("draw", "samples", "requests", "experience", "sample_seed"):
        yield from (keyword.value for keyword in call.keywords if keyword.arg in ("iteration", "draw"))


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text("utf-8"))
