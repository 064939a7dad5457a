"""Pairs labelled by Bradley–Terry noise, and what the best judge can make of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.intervals import wilson
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import PreferencePair, Prompt
from ropewalk.records.sample import Sample
from ropewalk.tasks.city.corpus import sentences
from ropewalk.tasks.city.grammar import END, true_score
from ropewalk.tasks.city.pairs import (
    first_chosen,
    judge_statistics,
    label_pairs,
    pair_statistics,
)
from tests.tasks.samples import sample

margins = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=60).map(np.array)


def world(count: int, seed: int = 0) -> tuple[dict[str, Prompt], list[Sample]]:
    """Two grammatical completions of each of `count` prompts, as a perfect policy would give them."""
    by_word: dict[str, list[list[str]]] = {}
    for words in sentences(4 * count, seed):
        by_word.setdefault(words[0], []).append(words)
    pairs = [p for found in by_word.values() for p in zip(found[::2], found[1::2], strict=False)][:count]
    prompts = {f"p{i}": Prompt(f"p{i}", f"[ {first[0]}") for i, (first, _) in enumerate(pairs)}
    samples = [
        sample(" ".join(words[1:-1]), prompt_id=f"p{i}", group_id=f"g{i}", index=index)
        for i, pair in enumerate(pairs)
        for index, words in enumerate(pair)
    ]
    return prompts, samples


PROMPTS, SAMPLES = world(2000)
LABELLED = label_pairs(PROMPTS, SAMPLES, seed=0)


def true_margin(pair: PreferencePair) -> float:
    """True score of the chosen minus that of the rejected, read back from the texts of a pair."""
    assert isinstance(pair.dialogue, str), "city prompts are plain text"
    start = pair.dialogue.split()[1:]
    chosen, rejected = ([*start, *text.split()] for text in (pair.chosen, pair.rejected))
    return true_score(chosen, chosen[-1] == END) - true_score(rejected, rejected[-1] == END)


@pytest.mark.parametrize("margin", [-3.0, -1.0, 0.0, 1.0, 2.0])
def test_labels_are_bradley_terry(margin: float) -> None:
    chosen = wilson(sum(first_chosen(margin, f"g{i}", seed=0) for i in range(4000)), 4000)
    assert chosen.low - 0.01 < 1 / (1 + math.exp(-margin)) < chosen.high + 0.01


@given(st.integers(0, 99), st.floats(-3, 3))
def test_swapping_the_two_samples_mirrors_the_odds(seed: int, margin: float) -> None:
    """A label is a threshold on one uniform number: a larger margin never loses where a smaller one won."""
    assert first_chosen(margin, "g", seed) <= first_chosen(margin + 0.5, "g", seed)


def test_pairs_say_what_was_sampled_and_margins_can_be_read_back() -> None:
    assert len(LABELLED.pairs) + LABELLED.identical == 2000
    assert [true_margin(pair) for pair in LABELLED.pairs] == LABELLED.margins_P.tolist()
    texts = {(s.group_id, f"{s.text} .") for s in SAMPLES}
    for pair in LABELLED.pairs:
        assert {(pair.id, pair.chosen), (pair.id, pair.rejected)} <= texts
        assert pair.chosen != pair.rejected
        assert pair.dialogue == PROMPTS["p" + pair.id[1:]].dialogue


def test_statistics_of_corpus_pairs() -> None:
    """Ties and label accuracy near the values that the laboratory is built for."""
    found = pair_statistics(LABELLED.margins_P)
    assert 0.40 < found.ties < 0.60
    assert 0.70 < found.label_accuracy < 0.85
    assert found.ceiling == pytest.approx(found.label_accuracy * (1 - found.ties) + found.ties / 2)


@given(margins)
def test_the_ceiling_is_what_a_perfect_judge_reaches(margins_P: np.ndarray) -> None:
    found, judge = pair_statistics(margins_P), judge_statistics(margins_P, margins_P)
    assert judge.labels == pytest.approx(found.ceiling)
    assert judge.non_ties == round(found.pairs * (1 - found.ties))
    if judge.non_ties:
        assert (judge.truth, found.label_accuracy) == (1.0, pytest.approx((margins_P > 0).sum() / judge.non_ties))
    else:
        assert math.isnan(judge.truth) and math.isnan(found.label_accuracy)


@given(margins)
def test_a_judge_of_the_labels_and_a_blind_one(margins_P: np.ndarray) -> None:
    """Whoever always says "chosen" agrees with all labels; whoever sees nothing is right half of the time."""
    assert judge_statistics(margins_P, np.ones_like(margins_P)).labels == 1.0
    blind = judge_statistics(margins_P, np.zeros_like(margins_P))
    assert blind.labels == 0.5
    assert math.isnan(blind.truth) or blind.truth == 0.5


def test_a_pair_s_label_does_not_hang_on_the_others() -> None:
    half = label_pairs(PROMPTS, SAMPLES[2000:], seed=0)
    known = {pair.id: pair for pair in LABELLED.pairs}
    assert all(known[pair.id] == pair for pair in half.pairs)
    other = label_pairs(PROMPTS, SAMPLES, seed=1)
    assert [p.chosen for p in other.pairs] != [p.chosen for p in LABELLED.pairs]


def test_completions_that_say_the_same_make_no_pair() -> None:
    one, other = SAMPLES[:2]
    found = label_pairs(PROMPTS, [one, replace(other, text=one.text)], seed=0)
    assert (found.pairs, found.identical) == ([], 1)


def test_an_unfinished_completion_has_no_end_word() -> None:
    prompts = {"p": Prompt("p", "[ austin")}
    pair = [sample("has views"), sample("has views", finish="length", index=1)]
    found = label_pairs(prompts, pair, seed=0)
    assert {found.pairs[0].chosen, found.pairs[0].rejected} == {"has views .", "has views"}
    assert abs(found.margins_P[0]) == 4.0
    assert true_margin(found.pairs[0]) == found.margins_P[0]


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(InputError, match="group 'g0' has 1 samples"):
        label_pairs(PROMPTS, SAMPLES[:1], seed=0)
    with pytest.raises(InputError, match="no pairs"):
        pair_statistics(np.array([]))
    with pytest.raises(InputError, match="2 judgements were given for 1 pairs"):
        judge_statistics(np.array([1.0]), np.array([1.0, 2.0]))
