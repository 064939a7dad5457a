"""Our own checks against the package's: where its verifier would evaluate, the same scores come out without."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.score import Failed, Score
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym import gym_task
from ropewalk.tasks.gym_checks import INTEGRALS, checks, readable, value_of
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import TRAIN
from tests.tasks.samples import sample
from tests.tasks.scoring.sandbox.pools import need_bubblewrap

# --- arithmetic -----------------------------------------------------------------------------------

Tree = Any
trees = st.recursive(
    st.integers(0, 99),
    lambda inner: st.tuples(st.sampled_from("+-*/"), inner, inner) | st.tuples(st.just("n"), inner),
    max_leaves=12,
)


def spelt(tree: Tree) -> str:
    """With all its brackets."""
    if isinstance(tree, int):
        return str(tree)
    return f"(-{spelt(tree[1])})" if tree[0] == "n" else f"({spelt(tree[1])} {tree[0]} {spelt(tree[2])})"


def worth(tree: Tree) -> Fraction | None:
    if isinstance(tree, int):
        return Fraction(tree)
    parts = [worth(part) for part in tree[1:]]
    if None in parts or (tree[0] == "/" and parts[1] == 0):
        return None
    first, *rest = (part for part in parts if part is not None)
    if tree[0] == "n":
        return -first
    return (
        {"+": first + rest[0], "-": first - rest[0], "*": first * rest[0]}.get(tree[0])
        if tree[0] != "/"
        else first / rest[0]
    )


@given(trees)
def test_brackets_say_what_is_meant(tree: Tree) -> None:
    assert value_of(spelt(tree)) == worth(tree)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3*4", 14),
        ("2*3+4", 10),
        ("10-4-3", 3),
        ("8/4/2", 1),
        ("2*-3", -6),
        ("-2*-3", 6),
        ("--3", 3),
        ("-(1+2)*3", -9),
        (" 49*(85 - 1)/14 - 42 - 73 ", 179),
        ("1/3", Fraction(1, 3)),
        *(
            (text, None)
            for text in (
                "", " ", "()", "(", ")", "1)", "(1", "1 2", "2(3)", "+", "1+", "*1", "1/0", "1/(2-2)", "2**3", "2^3",
                "1.5", "1e3", "x", "abs(1)", "__import__('os')", "1,2", "٣", "9" * 13, "(" * 2000, "1+" * 2000,
            )
        ),
    ],
)  # fmt: skip
def test_arithmetic_by_hand(text: str, value: Any) -> None:
    """Fault G6: numbers, four operations and brackets; whatever else there is, it has no value."""
    assert value_of(text) == value


# --- against the package --------------------------------------------------------------------------


def variants(generator: str, entry: dict[str, Any]) -> list[str]:
    """Right, nearly right and wrong answers that are harmless to evaluate."""
    gold = str(entry["answer"])
    rows = [line.split(" ") for line in gold.splitlines()]
    numbers = entry["metadata"].get("numbers", [1])
    listed = [str(rows), str(gold.split(" ")), str(list(gold)), gold.replace(" ", ", "), f"[{gold.replace(' ', ', ')}]"]
    whole = (
        [str([[int(item) for item in row] for row in rows])]
        if gold.replace(" ", "").replace("\n", "").isdigit()
        else []
    )
    sums = (
        [" + ".join(map(str, numbers)), f"({gold}) * 1", f"{gold} + 1", f"({gold})"]
        if "numbers" in entry["metadata"]
        else []
    )
    return [gold, f"{gold} ", gold[::-1], "?", "1", "[", *listed, *whole, *sums]


@pytest.mark.parametrize("generator", sorted(set(checks("bubblewrap")) - set(INTEGRALS)))
def test_scores_are_the_packages(generator: str) -> None:
    """On answers that are safe to evaluate; 24 made of other numbers is the stated exception."""
    import reasoning_gym  # noqa: F401
    from reasoning_gym.factory import DATASETS

    dataset, settings = DATASETS[generator]
    made = dataset(settings(seed=5, size=8))
    check = checks("bubblewrap")[generator]
    for number in range(8):
        entry = made[number]
        for text in variants(generator, entry):
            theirs, ours = made.score_answer(text.strip(), entry), check(text.strip(), entry)
            assert ours == theirs or (generator == "puzzle24" and ours < theirs), text


def test_other_numbers_than_those_of_the_puzzle_do_not_make_24() -> None:
    entry = {"metadata": {"numbers": [4, 8, 6, 2]}}
    found = {
        text: checks("bubblewrap")["puzzle24"](text, entry) for text in ("4*8-6-2", "(4+8)*(6/2-1)", "6*4*1*1", "24")
    }
    assert found == {"4*8-6-2": 1.0, "(4+8)*(6/2-1)": 0.01, "6*4*1*1": 0.01, "24": 0.01}


# --- integrals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2*x**3/3 + C", True),
        ("E**(x) - log(2*x) + 0.5*sin(x)", True),
        ("Integral(x, x)", False),
        ("integrate(x, x)", False),
        ("y", False),
        ("x.func", False),
        ("x^2", False),
        ("'x'", False),
        ("x\nx", True),
        ("__import__", False),
        ("lambda: x", False),
        ("x[0]", False),
        ("", False),
        ("x+" * 300, False),
    ],
)
def test_what_sympy_is_shown(text: str, good: bool) -> None:
    """Fault G6: no name but those of functions, no attribute, no index, no text."""
    assert readable(text, "x") is good


def test_integrals_are_checked_in_a_sandbox() -> None:
    """Faults G6, G9: the derivative decides."""
    need_bubblewrap()
    verify, gold, variable = integral()
    texts = (gold, f"{gold} + {variable}", f"{variable} +")
    with sandboxes():
        right, wrong, broken = (verify(text) for text in texts)
    assert (right, wrong) == (Score(1.0), Score(0.0))
    assert isinstance(broken, Failed) and broken.reason == "unparsable"


@pytest.mark.slow
def test_a_tower_of_powers_ends_at_the_sandboxs_limits() -> None:
    """Fault G9."""
    need_bubblewrap()
    verify, gold, _ = integral()
    with sandboxes():
        tower = verify("9**9**9**9")
        assert verify(gold.replace("C", "7")) == Score(1.0)
    assert isinstance(tower, Failed) and tower.reason in ("timeout", "refused", "unparsable")


def integral() -> tuple[Callable[[str], Any], str, str]:
    """What judges answers to an integral, the gold one, and its variable."""
    task = gym_task(GymTask(generator="simple_integration", prompts=2, heldout_prompts=1))
    prompt = task.split(TRAIN)[0]
    gold = str(prompt.gold)
    verified = task.scorers["verified"]
    return lambda text: verified(prompt, sample(f"<answer>{text}</answer>")), gold, "X" if "X" in gold else "x"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_gold_integrals_are_right() -> None:
    need_bubblewrap()
    task = gym_task(GymTask(generator="simple_integration", prompts=40, heldout_prompts=1))
    with sandboxes():
        found = [task.scorers["verified"](p, sample(f"<answer>{p.gold}</answer>")) for p in task.split(TRAIN)]
    assert found == [Score(1.0)] * len(found)
