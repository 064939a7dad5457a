"""The city language once more, written from its description as rewriting rules over kinds of words.

Nothing here is shared with the product but the words. The language of kinds is finite, so it is simply listed.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product

# Alternatives of each rule; lower-case words stand for themselves, capitals for rules or kinds of words.
RULES: dict[str, list[str]] = {
    "SENTENCE": ["CITY CITYPART WHEN .", "PEOPLE from CITY WHO PEOPLEPART WHEN ."],
    "CITYPART": ["is WEATHERADJ", "is very WEATHERADJ", "has THINGS", "gets WEATHERNOUN"],
    "PEOPLEPART": [
        "LIKE the THINGS WHERE",
        "hate the WEATHERNOUN WHERE",
        "hate the heavy WEATHERNOUN WHERE",
        "visit CITY",
    ],
    "WHO": ["", "who READ TIME", "who live in CITY", "who LIKE NOUN", "who hate WEATHERNOUN"],
    "THINGS": ["THING", "THING and THING"],
    "THING": ["NOUN", "ADJ NOUN"],
    "WHERE": ["", "in CITY"],
    "WHEN": ["", "TIME"],
    "TIME": ["every SEASON", "on weekends", "in SEASON"],
}

KINDS: dict[str, str] = {
    "CITY": "austin boston denver portland seattle chicago",
    "PEOPLE": "engineers students artists",
    "SEASON": "winter spring summer autumn",
    "ADJ": "nice great big old",
    "NOUN": "beaches music parks views wine food coffee streets museums shops bridges trains houses",
    "WEATHERADJ": "sunny rainy snowy windy cloudy humid mild warm cool",
    "WEATHERNOUN": "rain snow wind fog heat",
    "LIKE": "love enjoy",
    "READ": "read work",
}

KIND_OF = {word: kind for kind, words in KINDS.items() for word in words.split()}
Kinds = tuple[str, ...]


def kinds_of(words: list[str]) -> Kinds:
    return tuple(KIND_OF.get(word, word) for word in words)


def expansions(rule: str) -> Iterator[Kinds]:
    for alternative in RULES[rule]:
        parts = [list(expansions(symbol)) if symbol in RULES else [(symbol,)] for symbol in alternative.split()]
        for choice in product(*parts):
            yield tuple(kind for part in choice for kind in part)


@cache
def language(longest: int = 16) -> frozenset[Kinds]:
    """Every sentence of at most `longest` words, as kinds of words."""
    return frozenset(kinds for kinds in expansions("SENTENCE") if len(kinds) <= longest)


def derivable(words: list[str]) -> bool:
    return kinds_of(words) in language()
