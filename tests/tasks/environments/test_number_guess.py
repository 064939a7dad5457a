"""Number guess, the toy: what it says, what it gives, and when it is over."""

from typing import Any

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.environments.number_guess import GuessRules, NumberGuess, number_of
from tests.tasks.environments.player import play

ASKED = Prompt("p", "Guess!", gold=7)


@pytest.mark.parametrize(
    ("turns", "heard", "reward", "done"),
    [
        (["7"], [], 1.0, True),
        (["5", "8", "7"], ["Higher.", "Lower."], 0.6, True),
        (["It is 5, no, 7."], [], 1.0, True),
        (["seven", "7"], ["Say a whole number."], 0.8, True),
        (["1", "2", "3", "4", "7"], ["Higher.", "Higher.", "Higher."], 0.0, True),
        (["7.5", "-7", "７"], ["Say a whole number.", "Higher."], 0.6, True),
        (["70", "0007"], ["Lower."], 0.8, True),
        (["9" * 5_000, ""], ["Say a whole number.", "Say a whole number."], 0.0, False),
    ],
    ids=range(8),
)
def test_a_game(turns: list[str], heard: list[str], reward: float, done: bool) -> None:
    played = play(NumberGuess(GuessRules(later=0.2)), ASKED, turns)
    assert [message.content for message in played.heard] == heard
    assert (played.reward, played.done) == (pytest.approx(reward), done)
    assert played.info["guesses"] == min(len(turns), 4) and played.info["solved"] == (reward > 0)


def test_a_late_find_is_worth_a_tenth_at_least() -> None:
    rules = GuessRules(guesses=9, later=0.5)
    assert play(NumberGuess(rules), ASKED, [*"123456", "7"]).reward == pytest.approx(0.1)


def test_the_number_is_the_gold_or_a_hash_of_the_id() -> None:
    rules = GuessRules(low=-3, high=3)
    assert number_of(Prompt("a", "", gold="-2"), rules) == -2
    found = [number_of(Prompt(f"p{n}", ""), rules) for n in range(200)]
    assert set(found) == set(range(-3, 4)) and found == [number_of(Prompt(f"p{n}", ""), rules) for n in range(200)]


@pytest.mark.parametrize("gold", [0, 10, "x", 1.5, True, [3], "9" * 5_000], ids=range(7))
def test_a_gold_out_of_the_range_is_refused(gold: Any) -> None:
    with pytest.raises(InputError, match="is no number from 1 to 9"):
        number_of(Prompt("p", "", gold=gold), GuessRules())


@pytest.mark.parametrize(
    "rules", [{"low": 9, "high": 9}, {"guesses": 0}, {"later": 1.0}, {"later": -0.1}], ids=range(4)
)
def test_rules_that_are_none_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="number guess needs"):
        GuessRules(**rules)
