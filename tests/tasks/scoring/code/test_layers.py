"""The layered reward is the sum of what was reached, and each gate does what it says."""

import itertools

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.code.evaluate import Evaluation, Results, TextFacts, summary
from ropewalk.tasks.scoring.code.layers import LAYERS, Layer, Layering, layer_outcomes, layered
from ropewalk.tasks.scoring.sandbox.program import Finding

GRID = (0.0, 0.5, 1.0)


def worth(outcome: Outcome) -> float:
    assert isinstance(outcome, Score), outcome
    return outcome.value


def outcomes(*values: float) -> dict[Layer, Outcome]:
    return {layer: Score(value) for layer, value in zip(LAYERS, values, strict=True)}


@pytest.mark.parametrize("values", list(itertools.product(GRID, repeat=5)))
def test_the_reward_is_the_sum_up_to_the_first_closed_gate(values: tuple[float, ...]) -> None:
    weights, total = (0.1, 0.0, 0.5, 0.3, 0.1), 0.0
    reached = 0
    for weight, value in zip(weights, values, strict=True):
        total += weight * value
        reached += 1
        if value < 1:
            break
    gated, reward = layered(outcomes(*values), Layering())
    assert isinstance(reward, Score)
    assert reward.value == pytest.approx(total)
    assert [isinstance(gated[layer], Score) for layer in LAYERS] == [n < reached for n in range(5)]


def test_all_right_is_one_and_gates_may_be_lower_or_gone() -> None:
    assert worth(layered(outcomes(1, 1, 1, 1, 1), Layering())[1]) == pytest.approx(1.0)
    open_wide = Layering(gates={})
    assert worth(layered(outcomes(0, 1, 0.5, 1, 1), open_wide)[1]) == pytest.approx(0.25 + 0.3 + 0.1)
    half = Layering(gates={"public": 0.5})
    assert half.opens_hidden(0.5) and not half.opens_hidden(0.49)


def test_without_an_opinion_a_layer_adds_nothing_and_closes_nothing() -> None:
    given = outcomes(1, 1, 1, 1, 1) | {"public": Abstain("none"), "judge": Abstain("none")}
    gated, reward = layered(given, Layering())
    assert worth(reward) == pytest.approx(0.1 + 0.3)
    assert gated["hidden"] == Score(1.0)


def test_a_failed_layer_fails_the_reward_and_one_outside_its_range_is_refused() -> None:
    failed = Failed("refused", "why")
    assert layered(outcomes(1, 1, 1, 1, 1) | {"hidden": failed}, Layering())[1] == failed
    assert worth(layered(outcomes(1, 1, 0, 1, 1) | {"hidden": failed}, Layering())[1]) == pytest.approx(0.1)
    _, reward = layered(outcomes(1, 1, 1, 1, 1) | {"judge": Score(7.0)}, Layering())
    assert isinstance(reward, Failed) and "judge gave 7" in reward.detail


def test_unknown_layers_and_gates_are_refused() -> None:
    with pytest.raises(InputError, match="layers are format, compile"):
        Layering(weights={"style": 1.0})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"gates lie in 0\.\.1"):
        Layering(gates={"public": 2.0})


def findings_of(*passed: bool) -> Results:
    return Results(tuple(Finding("done" if good else "timeout") for good in passed), passed)


def test_outcomes_of_an_evaluation() -> None:
    found = summary(TextFacts(True), findings_of(True, False), None)
    assert found.counts == {"passed": 1, "timeout": 1}
    told = layer_outcomes(found, 2, None)
    assert (told["format"], told["compile"], told["public"]) == (Score(1.0), Score(1.0), Score(0.5))
    assert isinstance(told["hidden"], Abstain) and isinstance(told["judge"], Abstain)
    assert layered(layer_outcomes(None, 2, None), Layering())[1] == Score(0.0)


@pytest.mark.parametrize(
    ("text", "examples", "kept"),
    [
        (TextFacts(True), 4, 1.0),
        (TextFacts(False, "SyntaxError"), 4, 1.0),
        (TextFacts(True, forbidden=("._exit",)), 4, 0.0),
        (TextFacts(True, answers=1), 1, 1.0),
        (TextFacts(True, answers=2), 5, 1.0),
        (TextFacts(True, answers=2), 4, 0.0),
        (TextFacts(True, answers=3), 3, 0.0),
    ],
)
def test_the_format_layer(text: TextFacts, examples: int, kept: float) -> None:
    assert layer_outcomes(Evaluation(text), examples, None)["format"] == Score(kept)


def test_a_test_that_cannot_be_put_is_nobodys_wrong_answer() -> None:
    part = Results((Finding("refused", "an object of type set_iterator is no plain data"),), (False,))
    found = summary(TextFacts(True), part, None)
    assert layered(layer_outcomes(found, 1, None), Layering())[1] == Failed("refused", found.fault)


def test_the_weight_of_tests_that_a_prompt_does_not_have_goes_to_those_it_has() -> None:
    """One scale for all prompts: a right program is worth the same everywhere."""
    full: dict[Layer, Outcome] = {layer: Score(1.0) for layer in ("format", "compile", "public", "hidden")}
    totals = set()
    for public, hidden in ((True, True), (True, False), (False, True)):
        there = {
            layer: full[layer] for layer in full if (public or layer != "public") and (hidden or layer != "hidden")
        }
        _, total = layered(there, Layering().fitted(public=public, hidden=hidden))
        totals.add(total)
    assert totals == {Score(0.9)}
