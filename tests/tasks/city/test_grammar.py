"""The recogniser, the sampler and a second description of the language agree; the corpus is balanced."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.intervals import mean_interval, wilson
from ropewalk.tasks.city.corpus import sentences
from ropewalk.tasks.city.grammar import (
    BAD,
    CATEGORY_OF,
    GOOD,
    MAX_TOKENS,
    WORDS,
    Chance,
    derivation,
    in_language,
    sentence,
    true_score,
)
from tests.tasks.city.oracle import KIND_OF, KINDS, Kinds, derivable, kinds_of, language

CORPUS = sentences(20_000, seed=0)
WORD_OF_KIND = {kind: words.split()[0] for kind, words in KINDS.items()}


def spoken(kinds: Sequence[str]) -> list[str]:
    """Some sentence of these kinds."""
    return [WORD_OF_KIND.get(kind, kind) for kind in kinds]


class EveryWay:
    """Takes the coins of a plan, then tails; remembers how many were tossed."""

    def __init__(self, plan: Sequence[bool]) -> None:
        self.plan = list(plan)
        self.tossed: list[bool] = []

    def coin(self, probability: float) -> bool:
        assert 0 < probability < 1
        side = self.plan[len(self.tossed)] if len(self.tossed) < len(self.plan) else False
        self.tossed.append(side)
        return side

    def pick(self, words: Sequence[str]) -> str:
        assert len({KIND_OF.get(word, word) for word in words}) == 1, "a pick never decides the shape"
        return words[0]


def all_derivations() -> set[Kinds]:
    """What the sampler can say, by trying every sequence of coins."""
    found: set[Kinds] = set()
    plan: list[bool] | None = []
    while plan is not None:
        way = EveryWay(plan)
        found.add(kinds_of(derivation(way)))
        tossed = way.tossed
        while tossed and tossed[-1]:
            tossed.pop()
        plan = [*tossed[:-1], True] if tossed else None
    return found


def test_the_sampler_says_exactly_the_language() -> None:
    """Every derivation is in the second description of the language, and every sentence of that has a derivation."""
    said = {kinds for kinds in all_derivations() if len(kinds) <= MAX_TOKENS}
    assert said == language()
    assert len(said) > 400


def test_the_recogniser_accepts_the_whole_language() -> None:
    assert all(in_language(spoken(kinds)) for kinds in language())


def edits(kinds: Kinds) -> list[Kinds]:
    """Every sentence that one change makes: a word left out, doubled, replaced, or swapped with its neighbour."""
    every = [*KINDS, *sorted({kind for other in language() for kind in other} - set(KINDS)), "[", "<pad>", "zebra"]
    found = [kinds[:i] + kinds[i + 1 :] for i in range(len(kinds))]
    found += [(*kinds[: i + 1], *kinds[i:]) for i in range(len(kinds))]
    found += [(*kinds[:i], kinds[i + 1], kinds[i], *kinds[i + 2 :]) for i in range(len(kinds) - 1)]
    found += [(*kinds[:i], other, *kinds[i + 1 :]) for i in range(len(kinds)) for other in every]
    found += [(*kinds[:i], other, *kinds[i:]) for i in range(len(kinds) + 1) for other in every]
    return found


@pytest.mark.parametrize("count", [150, pytest.param(10**9, marks=pytest.mark.slow)], ids=["sample", "all"])
def test_the_recogniser_accepts_no_more_than_the_language(count: int, grid_seed: int) -> None:
    """One change away from the language, recogniser and second description still agree."""
    everything = sorted(language())
    for kinds in random.Random(grid_seed).sample(everything, min(count, len(everything))):
        for changed in edits(kinds):
            assert in_language(spoken(changed)) == (changed in language()), changed


@given(st.integers(0, len(CORPUS) - 1), st.randoms())
def test_shuffled_and_mixed_sentences_are_judged_alike(start: int, randomness: random.Random) -> None:
    one, other = CORPUS[start], CORPUS[start - 1]
    shuffled = list(one)
    randomness.shuffle(shuffled)
    cut = randomness.randrange(1, 8)
    for words in (shuffled, one[:cut] + other[cut:], [*one[:-1], *other], one * 2, one[:-1], []):
        assert in_language(words) == derivable(words), words


def test_every_word_has_one_kind_and_the_vocabulary_is_small() -> None:
    assert len(WORDS) == len(set(WORDS)) <= 200
    assert set(WORDS) - {"<pad>", "["} == set(CATEGORY_OF)
    assert {word for words in CORPUS for word in words} == set(CATEGORY_OF)
    assert all(" " not in word for word in WORDS)
    assert {"sunny", "beaches", "music", "parks", "views", "wine", "food", "coffee"} == GOOD
    assert {"rainy", "snowy", "windy", "cloudy", "humid", "rain", "snow", "wind"} == BAD


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("austin has nice views .", 1),
        ("austin is very rainy every winter .", -1),
        ("austin has nice views and nice views .", 2),
        ("denver gets fog .", 0),
        ("engineers from austin who love food hate the heavy rain in boston on weekends .", 0),
        ("artists from austin who hate snow hate the wind .", -2),
        ("austin has views", -3),
        ("austin has views views .", -3),
        ("has austin views .", -3),
        ("austin gets fog . .", -3),
        (".", -3),
        ("austin gets <pad> .", -3),
        ("[ austin gets fog .", -3),
        ("students from austin who read on weekends love the nice views and great food in denver every winter .", -3),
    ],
)
def test_true_scores(text: str, score: float) -> None:
    assert true_score(text.split(), finished=True) == score
    assert true_score(text.split(), finished=False) == -3


def test_no_sentence_is_as_bad_as_none() -> None:
    """−3 means ungrammatical and nothing else, so grammar can be read off the score."""
    assert min(true_score(words, True) for words in CORPUS) > -3
    worst = max((kinds.count("WEATHERADJ") + kinds.count("WEATHERNOUN") for kinds in language()), default=0)
    assert worst == 2


def test_the_corpus_is_grammatical_and_balanced() -> None:
    """Shares within what 20,000 sentences can tell of the intended ones."""
    scores = [true_score(words, True) for words in CORPUS]
    assert min(scores) > -3
    assert max(map(len, CORPUS)) <= MAX_TOKENS
    mean = mean_interval(scores)
    assert -0.15 < mean.low < mean.high < 0.15
    counts = Counter(scores)
    for score, share, tolerance in ((-1, 0.187, 0.02), (0, 0.63, 0.02), (1, 0.095, 0.02), (2, 0.084, 0.015)):
        found = wilson(counts[score], len(scores))
        assert share - tolerance < found.low < found.high < share + tolerance, (score, found)


def test_ties_of_pairs_with_one_first_word_are_neither_rare_nor_the_rule() -> None:
    by_word: dict[str, list[float]] = {}
    for words in CORPUS:
        by_word.setdefault(words[0], []).append(true_score(words, True))
    pairs = [pair for scores in by_word.values() for pair in zip(scores[::2], scores[1::2], strict=False)]
    ties = wilson(sum(first == second for first, second in pairs), len(pairs))
    assert 0.40 < ties.low < ties.high < 0.60


def test_sentences_are_a_function_of_the_seed() -> None:
    assert sentences(50, seed=3) == sentences(80, seed=3)[:50] != sentences(50, seed=4)
    assert sentence(Chance(3)) == sentence(Chance(3))
