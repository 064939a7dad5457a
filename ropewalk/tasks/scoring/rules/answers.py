"""Answers compared with the gold one as text: exact, nearly, or as one of several choices.

Edits are counted by the package rapidfuzz, in compiled code: a distance of long texts in plain Python takes seconds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.rules.text import AnswerAt, answer_of, bare, boxed, last_tagged, normalised, refused

MAX_ANSWER = 10_000
"""Characters of an answer that is compared by its distance, which costs the product of both lengths."""
MAX_CHOICES = 26
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WIDE = str.maketrans({chr(ord("Ａ") + i): letter for i, letter in enumerate(_LETTERS)})

_SAID = re.compile(
    r"(?:(?:answer|option|choice)\s*(?:is\b|=|:)|(?:答案|选项)(?:是|为|[:：])|(?:应选|选择|故选|选))[\s:：]*",
    re.IGNORECASE,
)
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{(.*)\}", re.DOTALL)
_WRAPPED = r"(?:[\s*_`\"'“(\[（]|\\(?:text|textbf|mathrm|mathbf)\{)*+"
_MARKED_LETTER = re.compile(rf"{_WRAPPED}(?:option\s+|choice\s+)?{_WRAPPED}([A-Z])(?![^\W_]|['’])")
_GOES_ON = re.compile(r"\s+(?!(?:because|since|as|for|which|and|or|is|by|due|but|so)\b)[a-z]")
_LISTED = re.compile(r"(?<!\w)(?:\(([A-Z])\)|\[([A-Z])\])")
_ANOTHER = re.compile(
    r"[\s*_`\"'”)\].]*+(?:or|and|/|&|,|或|和|、)[\s*_`\"'“(\[]*+([A-Z])(?![^\W_]|['’])", re.IGNORECASE
)


@dataclass(frozen=True)
class Exact:
    """Scores 1 if the answer is the gold text (or one of a list of them) but for spelling, else 0.

    Without an answer where one is looked for, the format is wrong.
    """

    at: AnswerAt = "text"
    case: bool = False
    """Whether capitals must agree."""
    punctuation: bool = False
    """Whether punctuation must agree."""

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        golds = [self._spelt(gold) for gold in _golds(prompt)]
        answer = _answer(sample.text, self.at)
        return answer if isinstance(answer, Failed) else Score(float(self._spelt(answer) in golds))

    def gold_fault(self, gold: Json) -> str | None:
        """What is wrong with a gold answer; None if it can be compared with."""
        if fault := gold_text_fault(gold):
            return fault
        empty = not all(self._spelt(text) for text in _texts(gold))
        return "is nothing but punctuation" if empty else None

    def _spelt(self, text: str) -> str:
        return normalised(text, case=self.case, punctuation=self.punctuation)


@dataclass(frozen=True)
class Fuzzy:
    """Scores how near the answer is to the gold text: 1 − (edits / longer length), the best of several golds.

    Below `least` it scores 0: long wrong answers share many letters.
    """

    at: AnswerAt = "text"
    least: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise InputError(f"a fuzzy rule needs least between 0 and 1, not {self.least}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        golds = _golds(prompt)
        answer = _answer(sample.text, self.at)
        if isinstance(answer, Failed):
            return answer
        if len(answer) > MAX_ANSWER:
            return Failed("wrong_format", f"the answer has {len(answer)} characters, more than {MAX_ANSWER}")
        nearest = max(similarity(answer, gold) for gold in golds)
        return Score(nearest if nearest >= self.least else 0.0)

    def gold_fault(self, gold: Json) -> str | None:
        """What is wrong with a gold answer; None if it can be compared with."""
        if fault := gold_text_fault(gold):
            return fault
        longest = max(map(len, _texts(gold)))
        return f"has {longest} characters, more than {MAX_ANSWER}" if longest > MAX_ANSWER else None


@dataclass(frozen=True)
class MultipleChoice:
    """Scores 1 if the letter that the completion chooses is the gold one, else 0; to choose none or two is no format.

    The gold answer is a letter, or the text of one of the prompt's `info.choices` (a list; without it there are
    `choices` of them). A completion's choice is what its `<answer>` or last box holds; else what follows its last
    "answer is"; else a letter that is all it says; else the one letter that stands in brackets.
    """

    choices: int = 5

    def __post_init__(self) -> None:
        if not 2 <= self.choices <= MAX_CHOICES:
            raise InputError(f"a rule of multiple choice needs 2 to {MAX_CHOICES} choices, not {self.choices}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        texts = self.choices_of(prompt)
        gold = letter_of(prompt.gold, texts)
        if gold is None:
            raise InputError(f"prompt {prompt.id} has the gold answer {prompt.gold!r}, which is none of its choices")
        if failure := refused(sample.text):
            return failure
        chosen = chosen_letter(sample.text, texts)
        return chosen if isinstance(chosen, Failed) else Score(float(chosen == gold))

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's gold answer or choices; None if nothing is."""
        given = prompt.info.get("choices")
        if given is not None:
            if not isinstance(given, list) or not all(isinstance(c, str) and c.strip() for c in given):
                return "has info.choices that are not a list of texts"
            if not 2 <= len(given) <= MAX_CHOICES:
                return f"has {len(given)} choices instead of 2 to {MAX_CHOICES}"
            if len({normalised(str(choice), punctuation=True) for choice in given}) < len(given):
                return "has two equal choices"
        if letter_of(prompt.gold, self.choices_of(prompt)) is None:
            return f"has the gold answer {prompt.gold!r}, which is none of its choices"
        return None

    def choices_of(self, prompt: Prompt) -> list[str]:
        """The texts of a prompt's choices; empty ones if it lists none."""
        given = prompt.info.get("choices")
        return [str(choice) for choice in given] if isinstance(given, list) else [""] * self.choices


def similarity(left: str, right: str) -> float:
    """1 − Levenshtein distance / length of the longer text, of the normalised texts; 1 for two empty ones."""
    distance = optional_module("rapidfuzz.distance", extra="tasks", need="a fuzzy rule")
    ratio: float = distance.Levenshtein.normalized_similarity(normalised(left), normalised(right))
    return ratio


def letter_of(gold: Json, choices: Sequence[str]) -> str | None:
    """The letter of a gold answer: a letter, its number from 0, or a choice's text; None if it is none of them."""
    if isinstance(gold, int) and not isinstance(gold, bool):
        return _LETTERS[gold] if 0 <= gold < len(choices) else None
    if not isinstance(gold, str):
        return None
    for place, text in enumerate(choices):
        if text and normalised(text, punctuation=True) == normalised(gold, punctuation=True):
            return _LETTERS[place]
    letter = bare(gold).translate(_WIDE).upper()
    return letter if letter and letter in _LETTERS[: len(choices)] and len(letter) == 1 else None


def chosen_letter(text: str, choices: Sequence[str]) -> str | Failed:
    """The letter that a completion chooses, or why it chooses none."""
    text = text.translate(_WIDE)
    letters = _LETTERS[: len(choices)]
    for part in (last_tagged(text, "answer"), boxed(text)):
        if part is not None:
            return _only(part, letters, choices)
    if (stated := _stated(text, letters)) is not None:
        return stated
    if (alone := _alone(text, letters, choices)) is not None:
        return alone
    listed = sorted({match[1] or match[2] for match in _LISTED.finditer(text)} & set(letters))
    if len(listed) == 1:
        return str(listed[0])
    return Failed("wrong_format", "it chooses several letters" if listed else "it chooses no letter")


def _only(part: str, letters: str, choices: Sequence[str]) -> str | Failed:
    """What a marked place holds: a letter, a letter with its choice's text, or the text alone."""
    if (alone := _alone(part, letters, choices)) is not None:
        return alone
    if (stated := _stated(part, letters)) is not None:
        return stated
    match = _MARKED_LETTER.match(part)
    if match is None or match[1] not in letters:
        return Failed("wrong_format", f"{part[:40]!r} is none of the choices {letters}")
    if _ANOTHER.match(part, match.end()):
        return Failed("wrong_format", f"{part[:40]!r} chooses several letters")
    text = choices[letters.index(match[1])]
    rest = normalised(part[match.end() :])
    if text and rest and rest != normalised(text):
        return Failed("wrong_format", f"{part[:40]!r} is a letter with the text of another choice")
    return match[1] if text or part[match.end() : match.end() + 1] in ").:]" else Failed("wrong_format", part[:40])


def _stated(text: str, letters: str) -> str | Failed | None:
    """What the last "answer is" with a letter says; None if there is none."""
    letter = None
    for said in _SAID.finditer(text):
        match = _MARKED_LETTER.match(text, said.end())
        # "The answer is A dog": a word, not a letter.
        if match and not (match[1] in "AI" and _GOES_ON.match(text, match.end())):
            letter = match
    if letter is None:
        return None
    if letter[1] not in letters:
        return Failed("wrong_format", f"{letter[1]} is none of the choices {letters}")
    other = _ANOTHER.match(text, letter.end())
    if other and other[1].upper() in letters and other[1].upper() != letter[1]:
        return Failed("wrong_format", f"it chooses {letter[1]} and {other[1].upper()}")
    return letter[1]


def _alone(text: str, letters: str, choices: Sequence[str]) -> str | None:
    """The letter that is all a text says (of either case), or whose choice's text is all it says."""
    wrapped = _TEXT.fullmatch(text.strip())
    said = bare(wrapped[1] if wrapped else text)
    if len(said) == 1 and said.upper() in letters:
        return said.upper()
    spelt = normalised(text)
    same = [letter for letter, choice in zip(letters, choices, strict=True) if choice and normalised(choice) == spelt]
    return same[0] if len(same) == 1 else None


def gold_text_fault(gold: Json) -> str | None:
    """What is wrong with a gold answer that is to be text or a list of texts; None if nothing is."""
    texts = gold if isinstance(gold, list) else [gold]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        return "is no text"
    return None


def nearest_of(name: str, known: Sequence[str]) -> str:
    """The known name most like a given one."""
    return (get_close_matches(name, known, n=1, cutoff=0.0) or list(known)[:1])[0]


def _golds(prompt: Prompt) -> list[str]:
    if fault := gold_text_fault(prompt.gold):
        raise InputError(f"prompt {prompt.id} has a gold answer that {fault}")
    return _texts(prompt.gold)


def _texts(gold: Json) -> list[str]:
    return [str(text) for text in gold] if isinstance(gold, list) else [str(gold)]


def _answer(text: str, at: AnswerAt) -> str | Failed:
    if failure := refused(text):
        return failure
    answer = answer_of(text, at)
    return answer if answer is not None else Failed("wrong_format", "it gives no answer where one is looked for")
