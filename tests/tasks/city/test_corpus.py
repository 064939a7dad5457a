"""Documents and shuffles of the laboratory."""

from collections import Counter

import numpy as np
import pytest

from ropewalk.data.intervals import wilson
from ropewalk.tasks.city.corpus import babble, corpus, documents, sentences, shuffles
from ropewalk.tasks.city.grammar import in_language
from ropewalk.tasks.config import CityCorpus

SENTENCES = sentences(400, seed=5)


def words_of(text: str) -> list[str]:
    mark, *words = text.split(" ")
    assert mark == "["
    return words


def test_a_document_is_the_mark_and_a_sentence() -> None:
    found = corpus(300, seed=1)
    assert [words_of(d.text) for d in found] == sentences(300, seed=1)
    assert len({d.id for d in found}) == 300
    assert corpus(300, seed=1) == found != corpus(300, seed=2)


@pytest.mark.parametrize("keep_first", [False, True])
def test_a_shuffle_is_word_salad_of_the_same_words(keep_first: bool) -> None:
    """Grammatical shuffles are drawn anew, the final "." stays last."""
    salads = shuffles(SENTENCES, seed=0, keep_first=keep_first)
    assert len(salads) == len(SENTENCES)
    for salad, original in zip(salads, SENTENCES, strict=True):
        assert Counter(salad) == Counter(original)
        assert salad[-1] == "."
        assert not in_language(salad)
        assert not keep_first or salad[0] == original[0]
    assert salads == shuffles(SENTENCES, seed=0, keep_first=keep_first)
    assert salads != shuffles(SENTENCES, seed=1, keep_first=keep_first)


def test_half_of_the_babble_is_shuffled_after_its_first_word() -> None:
    clean, mixed = corpus(4000, seed=7), babble(4000, seed=7)
    pairs = [(words_of(c.text), words_of(m.text)) for c, m in zip(clean, mixed, strict=True)]
    assert all(c[0] == m[0] and m[-1] == "." and Counter(c) == Counter(m) for c, m in pairs)
    left = wilson(sum(c == m for c, m in pairs), len(pairs))
    # A short sentence may come out of the shuffle as it was.
    assert 0.48 < left.low < left.high < 0.62
    grammatical = np.mean([in_language(m) for _, m in pairs])
    assert 0.5 < grammatical < 0.65
    assert {d.id for d in clean}.isdisjoint(d.id for d in mixed)


def test_a_recipe_chooses_size_seed_and_babble() -> None:
    assert documents(CityCorpus(sentences=20), seed=3) == corpus(20, seed=3)
    assert documents(CityCorpus(sentences=20, shuffled_share=0.5), seed=3) == babble(20, seed=3)
    assert documents(CityCorpus(sentences=20, shuffled_share=1.0), seed=3) == babble(20, seed=3, shuffled_share=1.0)
