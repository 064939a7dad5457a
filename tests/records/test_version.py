"""Seeds: no two draws share one."""

import ast
from pathlib import Path

import ropewalk
from ropewalk.records.version import Draw, sample_seed

SOURCES = sorted(Path(ropewalk.__file__).with_name("runtime").rglob("*.py"))


def test_no_draw_outside_of_training_has_an_iteration_or_another_draws_seeds() -> None:
    """Fault B6: what is selected or judged by some samples is not measured on the same ones."""
    iterations = [*map(int, Draw), *range(50)]
    seeds = {sample_seed(0, iteration, "p", index) for iteration in iterations for index in range(4)}
    assert len(seeds) == 4 * len(iterations)
    assert all(draw < 0 for draw in Draw)
    for draw in Draw:
        assert sample_seed(0, draw, "p", 1) == sample_seed(0, int(draw), "p", 1), "a name in place of a number"


def test_every_such_draw_is_among_them() -> None:
    """A number or a constant of a module's own would not be told from another's."""
    own = [
        f"{path.name}:{keyword.value.lineno}"
        for path in SOURCES
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in ("draw", "samples", "requests")
        for keyword in call.keywords
        if keyword.arg == "iteration"
        and not ast.unparse(keyword.value).islower()
        and not ast.unparse(keyword.value).startswith("Draw.")
    ]
    assert own == []
