"""One check for each instruction that IFEval knows: its arguments, and whether a text follows it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ropewalk.records.prompt import Json
from ropewalk.tasks.scoring.rules.language import language_fault, scripts, written_in
from ropewalk.tasks.scoring.rules.structured import NotJson, parse, placed
from ropewalk.tasks.scoring.rules.text import bullets, paragraphs, sentences, words

Arguments: TypeAlias = Mapping[str, Json]
Kind: TypeAlias = Literal["count", "text", "texts", "relation", "letter", "language"]


RELATIONS = ("at least", "less than", "at most", "more than", "exactly")
_TITLE = re.compile(r"<<[^<>\n]+>>")
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]+\]")
_HIGHLIGHT = re.compile(r"\*\*[^*\n]+\*\*|(?<!\*)\*[^*\n]+\*(?!\*)")
_DIVIDER = re.compile(r"^[^\S\n]*\*\*\*[^\S\n]*$", re.MULTILINE)
_OPTIONS = ("my answer is yes.", "my answer is no.", "my answer is maybe.")


@dataclass(frozen=True)
class Check:
    """A test of a text under arguments of given kinds."""

    holds: Callable[[str, Arguments], bool]
    needs: Mapping[str, Kind] = field(default_factory=dict)
    may: Mapping[str, Kind] = field(default_factory=dict)

    def fault(self, given: Arguments) -> str | None:
        """What is wrong with the arguments; None if nothing is. Arguments it does not know are left alone."""
        missing = [name for name in self.needs if name not in given]
        if missing:
            return f"needs the argument {missing[0]!r}"
        for name, kind in {**self.needs, **self.may}.items():
            if name in given and (wrong := _wrong(given[name], kind)):
                return f"has the argument {name!r} = {str(given[name])[:40]!r}, which {wrong}"
        return None


def _wrong(value: Json, kind: Kind) -> str | None:
    if kind == "count":
        return None if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "is no count"
    if kind == "texts":
        listed = isinstance(value, list) and value and all(isinstance(text, str) and text.strip() for text in value)
        return None if listed else "is no list of texts"
    if not isinstance(value, str) or not value.strip():
        return "is no text"
    if kind == "relation" and value.lower() not in RELATIONS:
        return f"is none of {', '.join(RELATIONS)}"
    if kind == "letter" and len(value.strip()) != 1:
        return "is not one letter"
    return language_fault(value) if kind == "language" else None


def _related(count: int, given: Arguments, number: str, relation: str = "relation") -> bool:
    """Whether a count stands in the wanted relation to a wanted number; "at least" if none is said."""
    wanted = _count(given, number)
    match str(given.get(relation, "at least")).lower():
        case "at least":
            return count >= wanted
        case "less than":
            return count < wanted
        case "at most":
            return count <= wanted
        case "more than":
            return count > wanted
    return count == wanted


def _count(given: Arguments, name: str) -> int:
    value = given[name]
    return value if isinstance(value, int) else 0


def _texts(given: Arguments, name: str) -> list[str]:
    value = given[name]
    return [str(text) for text in value] if isinstance(value, list) else []


def _times(text: str, phrase: str) -> int:
    """How often a phrase occurs as whole words, whatever its case."""
    edges = [r"(?<!\w)" if phrase[:1].isalnum() else "", r"(?!\w)" if phrase[-1:].isalnum() else ""]
    return len(re.findall(edges[0] + re.escape(phrase) + edges[1], text, re.IGNORECASE))


def _parts(text: str, divider: re.Pattern[str]) -> list[str]:
    return [part.strip() for part in divider.split(text)]


def _divided(text: str, given: Arguments) -> bool:
    """Paragraphs here are what stands between lines of `***`; an empty one at either end is no paragraph."""
    parts = _parts(text, _DIVIDER)
    parts = parts[not parts[0] : len(parts) - (not parts[-1] and len(parts) > 1)]
    return all(parts) and len(parts) == _count(given, "num_paragraphs")


def _nth_paragraph(text: str, given: Arguments) -> bool:
    found, number = paragraphs(text), _count(given, "nth_paragraph")
    if len(found) != _count(given, "num_paragraphs") or not 1 <= number <= len(found):
        return False
    first = words(found[number - 1])[:1]
    return bool(first) and first[0].casefold() == str(given["first_word"]).strip().casefold()


def _sections(text: str, given: Arguments) -> bool:
    mark = re.escape(str(given["section_spliter"]).strip())
    return len(re.findall(rf"^\W*{mark}\s+\d+", text, re.MULTILINE)) >= _count(given, "num_sections")


def _two_answers(text: str, _: Arguments) -> bool:
    parts = [part.strip() for part in text.split("******")]
    parts = parts[not parts[0] : len(parts) - (not parts[-1] and len(parts) > 1)]
    return len(parts) == 2 and all(parts) and parts[0] != parts[1]


def _postscript(text: str, given: Arguments) -> bool:
    mark = str(given["postscript_marker"]).strip()
    place = text.casefold().rfind(mark.casefold())
    return place >= 0 and bool(text[place + len(mark) :].strip())


def _is_json(text: str, _: Arguments) -> bool:
    try:
        parse(placed(text, "text"))
    except NotJson:
        return False
    return True


def _capitals(text: str, given: Arguments) -> bool:
    count = sum(word.isupper() for word in words(text))
    return _related(count, given, "capital_frequency", "capital_relation")


def _letters(text: str, given: Arguments) -> bool:
    count = text.casefold().count(str(given["letter"]).strip().casefold())
    return _related(count, given, "let_frequency", "let_relation")


def _keyword(text: str, given: Arguments) -> bool:
    return _related(_times(text, str(given["keyword"]).strip()), given, "frequency")


def _ends(text: str, given: Arguments) -> bool:
    return text.strip().strip('"').casefold().endswith(str(given["end_phrase"]).strip().casefold())


def _repeats(text: str, given: Arguments) -> bool:
    return text.strip().casefold().startswith(str(given["prompt_to_repeat"]).strip().casefold())


def _in_language(text: str, given: Arguments) -> bool:
    counts = scripts(text)
    return bool(counts) and written_in(str(given["language"]), counts, 0.9)


def _quoted(text: str, _: Arguments) -> bool:
    said = text.strip()
    return len(said) > 2 and said[0] in '"“' and said[-1] in '"”'


def _one_case(upper: bool) -> Callable[[str, Arguments], bool]:
    def holds(text: str, _: Arguments) -> bool:
        return any(map(str.isalpha, text)) and text == (text.upper() if upper else text.lower())

    return holds


CHECKS: Mapping[str, Check] = {
    "keywords:existence": Check(
        lambda text, given: all(_times(text, word) for word in _texts(given, "keywords")), {"keywords": "texts"}
    ),
    "keywords:forbidden_words": Check(
        lambda text, given: not any(_times(text, word) for word in _texts(given, "forbidden_words")),
        {"forbidden_words": "texts"},
    ),
    "keywords:frequency": Check(_keyword, {"keyword": "text", "frequency": "count"}, {"relation": "relation"}),
    "keywords:letter_frequency": Check(
        _letters, {"letter": "letter", "let_frequency": "count"}, {"let_relation": "relation"}
    ),
    "language:response_language": Check(_in_language, {"language": "language"}),
    "length_constraints:number_sentences": Check(
        lambda text, given: _related(len(sentences(text)), given, "num_sentences"),
        {"num_sentences": "count"},
        {"relation": "relation"},
    ),
    "length_constraints:number_paragraphs": Check(_divided, {"num_paragraphs": "count"}),
    "length_constraints:number_words": Check(
        lambda text, given: _related(len(words(text)), given, "num_words"),
        {"num_words": "count"},
        {"relation": "relation"},
    ),
    "length_constraints:nth_paragraph_first_word": Check(
        _nth_paragraph, {"num_paragraphs": "count", "nth_paragraph": "count", "first_word": "text"}
    ),
    "detectable_content:number_placeholders": Check(
        lambda text, given: len(_PLACEHOLDER.findall(text)) >= _count(given, "num_placeholders"),
        {"num_placeholders": "count"},
    ),
    "detectable_content:postscript": Check(_postscript, {"postscript_marker": "text"}),
    "detectable_format:number_bullet_lists": Check(
        lambda text, given: bullets(text) == _count(given, "num_bullets"), {"num_bullets": "count"}
    ),
    "detectable_format:constrained_response": Check(
        lambda text, _: any(option in text.casefold() for option in _OPTIONS)
    ),
    "detectable_format:number_highlighted_sections": Check(
        lambda text, given: len(_HIGHLIGHT.findall(text)) >= _count(given, "num_highlights"),
        {"num_highlights": "count"},
    ),
    "detectable_format:multiple_sections": Check(_sections, {"section_spliter": "text", "num_sections": "count"}),
    "detectable_format:json_format": Check(_is_json),
    "detectable_format:title": Check(lambda text, _: any(t[2:-2].strip() for t in _TITLE.findall(text))),
    "combination:two_responses": Check(_two_answers),
    "combination:repeat_prompt": Check(_repeats, {"prompt_to_repeat": "text"}),
    "startend:end_checker": Check(_ends, {"end_phrase": "text"}),
    "startend:quotation": Check(_quoted),
    "change_case:capital_word_frequency": Check(
        _capitals, {"capital_frequency": "count"}, {"capital_relation": "relation"}
    ),
    "change_case:english_capital": Check(_one_case(upper=True)),
    "change_case:english_lowercase": Check(_one_case(upper=False)),
    "punctuation:no_comma": Check(lambda text, _: not {",", "，", "、"} & set(text)),
    # Beyond IFEval, asked for as often.
    "startend:start_checker": Check(
        lambda text, given: text.strip().casefold().startswith(str(given["start_phrase"]).strip().casefold()),
        {"start_phrase": "text"},
    ),
    "length_constraints:paragraphs": Check(
        lambda text, given: _related(len(paragraphs(text)), given, "num_paragraphs"),
        {"num_paragraphs": "count"},
        {"relation": "relation"},
    ),
    "length_constraints:bullets": Check(
        lambda text, given: _related(bullets(text), given, "num_bullets"),
        {"num_bullets": "count"},
        {"relation": "relation"},
    ),
}
"""By the name that data give them."""
