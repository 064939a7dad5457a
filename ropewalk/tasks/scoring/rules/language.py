"""In which writing a completion is: the share of its letters that belong to the scripts of a language.

Letters are told apart by their Unicode names, so the result is the same everywhere; languages of one script (English
and French) are not told apart.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.rules.text import refused

_LATIN = "en fr de es it pt nl pl sv da no fi cs hu ro tr vi id ms sw hr sk sl et lv lt ca tl"
LANGUAGES: Mapping[str, frozenset[str]] = {
    **{code: frozenset({"LATIN"}) for code in _LATIN.split()},
    **{code: frozenset({"CYRILLIC"}) for code in ("ru", "uk", "bg", "sr", "mk", "be", "kk")},
    **{code: frozenset({"ARABIC"}) for code in ("ar", "fa", "ur")},
    **{code: frozenset({"DEVANAGARI"}) for code in ("hi", "mr", "ne")},
    "zh": frozenset({"CJK"}),
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    "ko": frozenset({"HANGUL"}),
    "el": frozenset({"GREEK"}),
    "he": frozenset({"HEBREW"}),
    "th": frozenset({"THAI"}),
    "bn": frozenset({"BENGALI"}),
    "ta": frozenset({"TAMIL"}),
    "te": frozenset({"TELUGU"}),
    "kn": frozenset({"KANNADA"}),
    "ml": frozenset({"MALAYALAM"}),
    "gu": frozenset({"GUJARATI"}),
    "pa": frozenset({"GURMUKHI"}),
    "ka": frozenset({"GEORGIAN"}),
    "hy": frozenset({"ARMENIAN"}),
}
"""Scripts by language code."""

SOLE: Mapping[str, frozenset[str]] = {"ja": frozenset({"HIRAGANA", "KATAKANA"})}
"""Scripts of which a text in that language has some: what tells Japanese from Chinese."""

_WIDTHS = {"FULLWIDTH", "HALFWIDTH"}


@dataclass(frozen=True)
class Language:
    """Scores 1 if enough of the letters are of the language's scripts, else 0; without any letter it is no format.

    The language is the prompt's own `info.language`, or `language`.
    """

    language: str | None = None
    share: float = 0.9
    """Least share of the letters; code and names leave some of another script in most texts."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"a rule of language needs a share above 0 and at most 1, not {self.share}")
        if self.language is not None and (fault := language_fault(self.language)):
            raise InputError(f"a rule of language {fault}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        language = prompt.info.get("language", self.language)
        if fault := language_fault(language):
            raise InputError(f"prompt {prompt.id} {fault}")
        if failure := refused(sample.text):
            return failure
        counts = scripts(sample.text)
        if not counts:
            return Failed("wrong_format", "the completion has no letter")
        return Score(float(written_in(str(language), counts, self.share)))

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's own language; None if nothing is."""
        return language_fault(prompt.info.get("language", self.language))


def language_fault(language: Json) -> str | None:
    """Why nothing can be said of a language; None if it is known."""
    if language is None:
        return "has no language: give info.language, or the rule's own"
    if not isinstance(language, str) or language not in LANGUAGES:
        near = get_close_matches(str(language), LANGUAGES, n=1, cutoff=0.0)
        return f"has the unknown language {language!r}: give a code such as {near[0]!r}"
    return None


def written_in(language: str, counts: Counter[str], share: float) -> bool:
    """Whether letters counted by script can be a text of the language."""
    own = sum(counts[script] for script in LANGUAGES[language])
    some = language not in SOLE or any(counts[script] for script in SOLE[language])
    # Chinese has no kana; a little of it may stand in a quotation.
    foreign = sum(counts[script] for script in SOLE["ja"]) if language == "zh" else 0
    return some and own >= share * counts.total() and foreign <= (1 - share) * counts.total()


def scripts(text: str) -> Counter[str]:
    """Letters by script."""
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        if character.isalpha():
            counts[_script(character)] += times
    return counts


@lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    """The first word of a letter's Unicode name: LATIN, CYRILLIC, CJK, HIRAGANA, ..."""
    name = unicodedata.name(letter, "UNKNOWN").split()
    return name[1] if name[0] in _WIDTHS and len(name) > 1 else name[0]
