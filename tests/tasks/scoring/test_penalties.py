"""What length and repetition add, by their published formulas and by what may not matter to them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.config.load import ConfigError, load
from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.tasks.scoring.compose import About, compose
from ropewalk.tasks.scoring.config import CosineLength, LinearLength, OverlongBuffer, RepeatedNgrams, Reward
from ropewalk.tasks.scoring.penalties import length_term, repeated_share, repetition_term
from tests.seconds import processor_seconds

COSINE = CosineLength(on="right", limit_tokens=1000)
RIGHT, WRONG = {"right": Score(1.0)}, {"right": Score(0.0)}


@given(st.integers(0, 40_000), st.integers(1, 30_000), st.integers(1, 30_000))
def test_the_overlong_buffer_is_dapos(tokens: int, longest: int, buffer: int) -> None:
    """Equation 13 of arXiv 2503.14476, in its three cases."""
    buffer = min(buffer, longest)
    if tokens <= longest - buffer:
        expected = 0.0
    elif tokens <= longest:
        expected = ((longest - buffer) - tokens) / buffer
    else:
        expected = -1.0
    config = OverlongBuffer(max_tokens=longest, buffer_tokens=buffer)
    assert length_term(config, tokens, {}) == pytest.approx(expected)
    doubled = config.model_copy(update={"coefficient": 2.0})
    assert length_term(doubled, tokens, {}) == pytest.approx(2 * expected)


@given(st.integers(0, 5000))
def test_a_linear_penalty_is_a_buffer_that_starts_at_nothing(tokens: int) -> None:
    linear, buffer = LinearLength(at_tokens=700), OverlongBuffer(max_tokens=700, buffer_tokens=700)
    assert length_term(linear, tokens, {}) == length_term(buffer, tokens, {})


@pytest.mark.parametrize(
    ("tokens", "right", "wrong"),
    [(0, 1.0, -1.0), (500, 0.75, -0.75), (1000, 0.5, -0.5), (1001, -1.0, -1.0), (250, 0.5 + 0.25 * 1.7071068, None)],
)
def test_the_cosine_prefers_short_right_answers_and_long_wrong_ones(
    tokens: int, right: float, wrong: float | None
) -> None:
    """Yeo et al. 2025, with the values at both ends and half way."""
    assert length_term(COSINE, tokens, RIGHT) == pytest.approx(right)
    assert wrong is None or length_term(COSINE, tokens, WRONG) == pytest.approx(wrong)


@given(st.integers(0, 999))
def test_the_cosine_is_monotone(tokens: int) -> None:
    assert length_term(COSINE, tokens, RIGHT) > length_term(COSINE, tokens + 1, RIGHT)
    assert length_term(COSINE, tokens, WRONG) < length_term(COSINE, tokens + 1, WRONG)


def test_the_cosine_says_nothing_where_right_is_not_known() -> None:
    """Fault E3: neither right nor wrong."""
    assert [length_term(COSINE, 10, {"right": outcome}) for outcome in (Abstain(), Failed("timeout"))] == [0.0, 0.0]
    with pytest.raises(InputError, match="looks at 'right', which was scored by nobody: there are other"):
        length_term(COSINE, 10, {"other": Score(1)})


# --- repetition -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size", "share"),
    [
        ("", 1, 0.0),
        ("one", 2, 0.0),
        ("a b c d", 1, 0.0),
        ("a A a a", 1, 0.75),
        ("so it goes so it goes", 3, 0.25),
        ("!!!!", 1, 0.75),
        ("no\nno   no", 1, 2 / 3),
        ("好好好好", 1, 0.75),
        ("天天向上天天向上", 2, 3 / 7),
        ("ho好ho", 1, 1 / 3),
    ],
)
def test_repeated_ngrams_are_a_share(text: str, size: int, share: float) -> None:
    assert repeated_share(text, size) == pytest.approx(share)
    assert repetition_term(RepeatedNgrams(words=size, coefficient=2.0), text) == pytest.approx(-2.0 * share)


@given(st.text(max_size=60), st.integers(1, 5))
def test_the_share_lies_in_bounds_and_grows_when_a_text_is_said_again(text: str, size: int) -> None:
    once, thrice = repeated_share(text, size), repeated_share(f"{text} {text} {text}", size)
    assert 0 <= once < 1
    assert once <= thrice + 1e-12


def test_a_megabyte_is_counted_in_linear_time() -> None:
    text = "ab " * 300_000 + "\u597d" * 100_000
    assert repeated_share(text, 3) > 0.99
    assert processor_seconds(lambda: repeated_share(text, 3)) < 10


# --- in a reward ----------------------------------------------------------------------------------


@pytest.mark.parametrize("section", [{"length": LinearLength(at_tokens=4)}, {"repetition": RepeatedNgrams()}])
def test_what_is_not_known_is_not_guessed(section: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is not known"):
        compose(Reward(**section), [{"a": Score(1)}], {})


def test_a_term_makes_no_reward_of_its_own() -> None:
    """Fault E3: where nothing was scored a length is no reward."""
    reward = Reward(length=LinearLength(at_tokens=4))
    found = compose(reward, [{"a": Abstain()}, {"a": Score(1)}], {}, [About(tokens=2)] * 2)
    assert found.valid_R.tolist() == [False, True]
    assert found.reward_R.tolist() == [0.0, 0.5]
    assert found.metrics["reward/part/length_term"].value == -0.5


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"kind": "overlong", "max_tokens": 8, "buffer_tokens": 9}, "buffer of 9 tokens is longer"),
        ({"kind": "overlong", "max_tokens": 8}, "buffer_tokens is missing"),
        ({"kind": "linear", "at_tokens": 0}, "at least 1"),
        ({"kind": "linear", "at_tokens": 9, "coefficient": -1.0}, "greater than 0"),
        ({"kind": "linear", "limit_tokens": 9}, "kind = 'cosine'"),
    ],
)
def test_a_penalty_that_cannot_be_is_refused(section: dict[str, Any], said: str) -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError, match=said):
        load(Reward, {"length": section})


def test_cosine_at_every_length_is_between_its_ends() -> None:
    terms = [length_term(COSINE, tokens, RIGHT) for tokens in range(1001)]
    assert math.isclose(max(terms), 1.0) and math.isclose(min(terms), 0.5)
