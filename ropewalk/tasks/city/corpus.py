"""Sentences of the city language as documents, and what shuffling does to them.

A document is the prompt mark and the sentence, `[ austin has nice views .`: its end token is already in it.
"""

from collections.abc import Sequence

import numpy as np

from ropewalk.records.prompt import Document
from ropewalk.tasks.city.grammar import MARK, Chance, in_language, sentence
from ropewalk.tasks.config import CityCorpus

# Streams of one seed, kept apart.
_SENTENCES, _SHUFFLES, _BABBLE = 0, 1, 2


def sentences(count: int, seed: int) -> list[list[str]]:
    """Sentences from the grammar, the final "." included; the first n of more are these n."""
    chance = Chance((seed, _SENTENCES))
    return [sentence(chance) for _ in range(count)]


def document_text(words: Sequence[str]) -> str:
    """The text of a sentence as the model reads it."""
    return " ".join((MARK, *words))


def documents(config: CityCorpus, seed: int) -> list[Document]:
    """The pretraining corpus of a recipe."""
    if config.shuffled_share > 0:
        return babble(config.sentences, seed, config.shuffled_share)
    return corpus(config.sentences, seed)


def corpus(count: int, seed: int) -> list[Document]:
    """Sentences to pretrain on."""
    return _documents(f"city-{seed}", sentences(count, seed))


def babble(count: int, seed: int, shuffled_share: float = 0.5) -> list[Document]:
    """The corpus of the babbling reference: that share of its sentences are word salad.

    Their first word stays first, so that the model babbles after the very prompts it will be given.
    """
    clean = sentences(count, seed)
    rng = np.random.default_rng((seed, _BABBLE))
    mixed = rng.random(count) < shuffled_share
    words = [shuffled(s, rng, keep_first=True) if mix else s for s, mix in zip(clean, mixed, strict=True)]
    return _documents(f"city-babble-{seed}", words)


def shuffles(originals: Sequence[Sequence[str]], seed: int, *, keep_first: bool = False) -> list[list[str]]:
    """Each sentence with its words shuffled, the final "." kept last; a grammatical shuffle is drawn anew."""
    rng = np.random.default_rng((seed, _SHUFFLES))
    salads = []
    for original in originals:
        salad = shuffled(original, rng, keep_first=keep_first)
        while in_language(salad):
            salad = shuffled(original, rng, keep_first=keep_first)
        salads.append(salad)
    return salads


def shuffled(words: Sequence[str], rng: np.random.Generator, *, keep_first: bool) -> list[str]:
    """The words in a random order, the last one (and, if asked, the first one) in place."""
    start = 1 if keep_first else 0
    middle = list(words[start:-1])
    order = rng.permutation(len(middle))
    return [*words[:start], *(middle[i] for i in order), *words[-1:]]


def _documents(name: str, given: Sequence[Sequence[str]]) -> list[Document]:
    return [Document(f"{name}-{number}", document_text(words)) for number, words in enumerate(given)]
