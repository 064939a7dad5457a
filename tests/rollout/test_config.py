"""Resolved sampling settings: every ban becomes ids, and what cannot be meant is refused."""

import pytest
from pydantic import ValidationError

from ropewalk.records.errors import InputError
from ropewalk.rollout.config import NativeEngineConfig, Sampling, resolve

WORDS = {"[": 0, "sunny": 1, "rain": 2, ".": 3, "<pad>": 4}


def resolved(sampling: Sampling, **changes: object) -> object:
    values = {"words": WORDS, "eos_ids": [3], "pad_id": 4, "vocabulary_size": 5}
    return resolve(sampling, **{**values, **changes})  # type: ignore[arg-type]


def test_words_become_ids_and_padding_is_never_said() -> None:
    record = resolve(
        Sampling(temperature=0.7, max_new_tokens=9, stop=("x",), banned=("[",)),
        words=WORDS,
        eos_ids=[3],
        pad_id=4,
        vocabulary_size=5,
    )
    assert record.banned_ids == (0, 4)
    assert (record.temperature, record.max_new_tokens, record.stop_strings, record.eos_ids) == (0.7, 9, ("x",), (3,))


def test_padding_that_also_ends_a_sequence_may_be_said() -> None:
    record = resolve(Sampling(), words=WORDS, eos_ids=[4], pad_id=4, vocabulary_size=5)
    assert record.banned_ids == () and record.eos_ids == (4,)


def test_logits_beyond_the_tokenizer_are_never_said() -> None:
    """Also holes in the vocabulary; ids of words that have no logit need no ban."""
    record = resolve(Sampling(), words={"a": 0, "b": 2, "z": 9}, eos_ids=[2], pad_id=None, vocabulary_size=6)
    assert record.banned_ids == (1, 3, 4, 5)


def test_an_unknown_word_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'suny', which is not a token of the vocabulary; the nearest is 'sunny'"):
        resolved(Sampling(banned=("suny",)))


def test_a_banned_end_is_refused() -> None:
    with pytest.raises(InputError, match="both end-of-sequence and banned"):
        resolved(Sampling(banned=(".",)))


def test_nothing_left_to_say_is_refused() -> None:
    with pytest.raises(InputError, match="every token but the end is banned"):
        resolved(Sampling(banned=("[", "sunny", "rain")))


@pytest.mark.parametrize(("word", "says"), [(".", "ends a completion anyway"), ("<pad>", "would never stop")])
def test_a_stop_string_that_no_text_can_show_is_refused(word: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        resolved(Sampling(stop=("x", word)), special=[".", "<pad>"])
    assert resolved(Sampling(stop=("x", word, word + "\n")), special=[]) is not None


@pytest.mark.parametrize("bad", [{"temperature": -1}, {"max_new_tokens": 0}, {"stop": [""]}, {"top_p": 0.9}])
def test_settings_that_mean_nothing_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Sampling(**bad)  # type: ignore[arg-type]


def test_engine_limits_are_positive() -> None:
    with pytest.raises(ValidationError):
        NativeEngineConfig(slots=0)
