"""The city language: its words, an exact recogniser, the true score, and a sampler of sentences.

    sentence = (CITY city-part | PEOPLE from CITY [who clause] people-part) [time] .
    city-part   = is [very] WEATHER-ADJ | has NP [and NP] | gets WEATHER-NOUN
    people-part = (love|enjoy) the NP [and NP] [in CITY] | hate the [heavy] WEATHER-NOUN [in CITY] | visit CITY
    clause      = (read|work) time | live in CITY | (love|enjoy) NOUN | hate WEATHER-NOUN
    NP          = [ADJ] NOUN            time = every SEASON | on weekends | in SEASON

A sentence has at most `MAX_TOKENS` = 16 words, the final "." counted and the prompt mark "[" not. What the
sampler can say is exactly what the recogniser accepts (tested by enumeration of the whole language).

Weather words and other nouns stand in places of their own, so that good and bad words are told apart by
their context; with interchangeable nouns 2,000 noisy pairs do not teach a reward model the difference.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

PAD, MARK, END = "<pad>", "[", "."
MAX_TOKENS = 16
UNGRAMMATICAL = -3.0

CITIES = ("austin", "boston", "denver", "portland", "seattle", "chicago")
PEOPLE = ("engineers", "students", "artists")
SEASONS = ("winter", "spring", "summer", "autumn")
ADJECTIVES = ("nice", "great", "big", "old")
GOOD_NOUNS = ("beaches", "music", "parks", "views", "wine", "food", "coffee")
PLAIN_NOUNS = ("streets", "museums", "shops", "bridges", "trains", "houses")
GOOD_WEATHER_ADJECTIVES = ("sunny",)
BAD_WEATHER_ADJECTIVES = ("rainy", "snowy", "windy", "cloudy", "humid")
PLAIN_WEATHER_ADJECTIVES = ("mild", "warm", "cool")
BAD_WEATHER_NOUNS = ("rain", "snow", "wind")
PLAIN_WEATHER_NOUNS = ("fog", "heat")

GOOD = frozenset((*GOOD_NOUNS, *GOOD_WEATHER_ADJECTIVES))
BAD = frozenset((*BAD_WEATHER_ADJECTIVES, *BAD_WEATHER_NOUNS))

# Each word of the language as one letter, its category; a word that stands for itself is its own category.
_CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "C": CITIES,
    "P": PEOPLE,
    "S": SEASONS,
    "A": ADJECTIVES,
    "N": GOOD_NOUNS + PLAIN_NOUNS,
    "W": GOOD_WEATHER_ADJECTIVES + BAD_WEATHER_ADJECTIVES + PLAIN_WEATHER_ADJECTIVES,
    "R": BAD_WEATHER_NOUNS + PLAIN_WEATHER_NOUNS,
    "i": ("is",),
    "h": ("has",),
    "g": ("gets",),
    "v": ("very",),
    "&": ("and",),
    "f": ("from",),
    "w": ("who",),
    "l": ("love", "enjoy"),
    "t": ("the",),
    "n": ("in",),
    "H": ("hate",),
    "y": ("heavy",),
    "V": ("visit",),
    "r": ("read", "work"),
    "L": ("live",),
    "e": ("every",),
    "o": ("on",),
    "k": ("weekends",),
    ".": (END,),
}
CATEGORY_OF: Mapping[str, str] = {word: letter for letter, words in _CATEGORIES.items() for word in words}
WORDS: tuple[str, ...] = (PAD, MARK, *CATEGORY_OF)
"""All tokens of the laboratory's vocabulary."""

_TIME = r"(?:eS|ok|nS)"
_NP = r"A?N(?:&A?N)?"
_SENTENCE = re.compile(
    rf"(?:C(?:iv?W|h{_NP}|gR)"
    rf"|PfC(?:w(?:r{_TIME}|LnC|lN|HR))?(?:lt{_NP}(?:nC)?|Hty?R(?:nC)?|VC))"
    rf"{_TIME}?\."
)


def in_language(words: Sequence[str]) -> bool:
    """Whether these words, the final "." included, are a sentence."""
    return len(words) <= MAX_TOKENS and bool(_SENTENCE.fullmatch("".join(CATEGORY_OF.get(w, "?") for w in words)))


def true_score(words: Sequence[str], finished: bool) -> float:
    """#good − #bad of a finished sentence of the language (its final "." included), else −3."""
    if not finished or not in_language(words):
        return UNGRAMMATICAL
    return float(sum(word in GOOD for word in words) - sum(word in BAD for word in words))


class Chooser(Protocol):
    """Where a derivation gets its decisions from: chance, or a test that tries them all."""

    def coin(self, probability: float) -> bool: ...

    def pick(self, words: Sequence[str]) -> str: ...


class Chance:
    """Decisions from an own generator."""

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._uniform: Callable[[], float] = np.random.default_rng(seed).random

    def coin(self, probability: float) -> bool:
        return self._uniform() < probability

    def pick(self, words: Sequence[str]) -> str:
        return words[int(self._uniform() * len(words))]


def sentence(chooser: Chooser) -> list[str]:
    """A sentence drawn from the corpus's distribution; one of more than `MAX_TOKENS` words is drawn anew."""
    while True:
        words = derivation(chooser)
        if len(words) <= MAX_TOKENS:
            return words


def first_word(chooser: Chooser) -> str:
    """The first word of a sentence: what a prompt gives."""
    return chooser.pick(CITIES) if chooser.coin(0.5) else chooser.pick(PEOPLE)


def derivation(chooser: Chooser) -> list[str]:
    """One derivation of the grammar, of any length."""
    first = first_word(chooser)
    words = [first, *(_city_part(chooser) if first in CITIES else _people_part(chooser))]
    if chooser.coin(0.3):
        words += _time(chooser)
    return [*words, END]


def _city_part(chooser: Chooser) -> list[str]:
    if chooser.coin(0.5):
        return ["is", *_maybe(chooser, 0.3, "very"), _weather_adjective(chooser)]
    if chooser.coin(0.70):
        return ["has", *_noun_phrases(chooser)]
    return ["gets", _weather_noun(chooser)]


def _people_part(chooser: Chooser) -> list[str]:
    words = ["from", chooser.pick(CITIES)]
    if chooser.coin(0.3):
        words += ["who", *_clause(chooser)]
    if chooser.coin(0.38):
        words += [chooser.pick(("love", "enjoy")), "the", *_noun_phrases(chooser), *_place(chooser)]
    elif chooser.coin(0.36):
        words += ["hate", "the", *_maybe(chooser, 0.4, "heavy"), _weather_noun(chooser), *_place(chooser)]
    else:
        words += ["visit", chooser.pick(CITIES)]
    return words


def _clause(chooser: Chooser) -> list[str]:
    if chooser.coin(0.4):
        return [chooser.pick(("read", "work")), *_time(chooser)]
    if chooser.coin(0.4):
        return ["live", "in", chooser.pick(CITIES)]
    if chooser.coin(0.6):
        return [chooser.pick(("love", "enjoy")), chooser.pick(GOOD_NOUNS if chooser.coin(0.6) else PLAIN_NOUNS)]
    return ["hate", _weather_noun(chooser)]


def _noun_phrases(chooser: Chooser) -> list[str]:
    """One noun phrase or two; the second tends to be of the first one's class."""
    good = chooser.coin(0.36)
    words = _noun_phrase(chooser, good)
    if chooser.coin(0.7):
        same = chooser.coin(0.9)
        words += ["and", *_noun_phrase(chooser, good if same else chooser.coin(0.36))]
    return words


def _noun_phrase(chooser: Chooser, good: bool) -> list[str]:
    adjective = [chooser.pick(ADJECTIVES)] if chooser.coin(0.35) else []
    return [*adjective, chooser.pick(GOOD_NOUNS if good else PLAIN_NOUNS)]


def _weather_adjective(chooser: Chooser) -> str:
    if chooser.coin(0.12):
        return chooser.pick(GOOD_WEATHER_ADJECTIVES)
    return chooser.pick(BAD_WEATHER_ADJECTIVES if chooser.coin(0.24) else PLAIN_WEATHER_ADJECTIVES)


def _weather_noun(chooser: Chooser) -> str:
    return chooser.pick(BAD_WEATHER_NOUNS if chooser.coin(0.7) else PLAIN_WEATHER_NOUNS)


def _place(chooser: Chooser) -> list[str]:
    return ["in", chooser.pick(CITIES)] if chooser.coin(0.25) else []


def _time(chooser: Chooser) -> list[str]:
    if chooser.coin(0.4):
        return ["every", chooser.pick(SEASONS)]
    return ["on", "weekends"] if chooser.coin(0.5) else ["in", chooser.pick(SEASONS)]


def _maybe(chooser: Chooser, probability: float, word: str) -> list[str]:
    return [word] if chooser.coin(probability) else []
