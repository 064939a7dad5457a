from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.rules.checks import CHECKS
from ropewalk.tasks.scoring.rules.instructions import Instructions
from tests.tasks.scoring.rules.asked import asked, scored

LEAST, LESS = {"relation": "at least"}, {"relation": "less than"}
TABLE: list[tuple[str, dict[str, Any], str, str]] = [
    ("keywords:existence", {"keywords": ["red", "blue"]}, "Red and BLUE.", "reddish blue"),
    ("keywords:forbidden_words", {"forbidden_words": ["red"]}, "reddish", "It is red."),
    ("keywords:frequency", {"keyword": "ab", "frequency": 2}, "ab, AB abc", "ab abc"),
    ("keywords:frequency", {"keyword": "ab", "frequency": 2, **LESS}, "ab", "ab ab"),
    ("keywords:letter_frequency", {"letter": "q", "let_frequency": 2, "let_relation": "at least"}, "qQ", "q"),
    ("language:response_language", {"language": "ru"}, "Привет, мир", "Hello"),
    ("length_constraints:number_sentences", {"num_sentences": 2, **LEAST}, "A cat. A dog.", "A cat."),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "exactly"},
        "A cat. A dog.",
        "One. Two. Three",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n\nb"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb\n***\n", "a\n***\n***\nb"),
    ("length_constraints:number_words", {"num_words": 3, **LESS}, "one two", "one two three"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "dog"},
        "A cat\n\n“Dog” barks",
        "A dog\n\nA dog",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] at [place]", "[name] at []"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Hi.\nP.S. bye", "Hi. P.S."),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n* b", "* a\n* b\n* c"),
    ("detectable_format:constrained_response", {}, "My answer is maybe.", "Maybe."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a b* and **c**", "*a b* and c * d"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "SECTION", "num_sections": 2},
        "SECTION 1\nx\nSECTION 2\ny",
        "SECTION 1\nx",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', "{'a': 1}"),
    ("detectable_format:title", {}, "<<Joy>>\ntext", "<< >>"),
    ("combination:two_responses", {}, "a\n******\nb", "a\n******\na"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it"}, "say it. Done", "Done. Say it"),
    ("startend:end_checker", {"end_phrase": "Any more?"}, "Yes. any more?\n", "Any more? No"),
    ("startend:start_checker", {"start_phrase": "Well"}, "  well, yes", "Oh well"),
    ("startend:quotation", {}, ' "all of it" ', '"all" of it'),
    ("change_case:capital_word_frequency", {"capital_frequency": 2}, "ONE TWO three", "ONE two"),
    ("change_case:english_capital", {}, "ALL, 1!", "aLL"),
    ("change_case:english_lowercase", {}, "all, 1!", "All"),
    ("punctuation:no_comma", {}, "a b; c", "a, b"),
    ("punctuation:no_comma", {}, "甲和乙", "甲，乙"),
    ("length_constraints:paragraphs", {"num_paragraphs": 2, "relation": "exactly"}, "a\n\nb", "a\nb"),
    ("length_constraints:bullets", {"num_bullets": 1, "relation": "at most"}, "- a", "- a\n- b"),
]


def rows(*named: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"instruction_id_list": [name for name, _ in named], "kwargs": [dict(given_) for _, given_ in named]}


@pytest.mark.parametrize(("name", "given_", "kept", "broken"), TABLE)
def test_each_instruction_is_kept_and_broken(name: str, given_: dict[str, Any], kept: str, broken: str) -> None:
    assert Instructions().info_fault(asked(**rows((name, given_)))) is None
    assert scored(Instructions(), kept, **rows((name, given_))) == 1
    assert scored(Instructions(), broken, **rows((name, given_))) == 0
    filled = {**dict.fromkeys(["num_words", "keyword", "language"]), **given_}
    assert scored(Instructions(), kept, **rows((name, filled))) == 1, "tables fill the arguments of others with null"


def test_the_table_names_every_instruction() -> None:
    assert {name for name, *_ in TABLE} == set(CHECKS)


@given(st.lists(st.sampled_from(TABLE), min_size=1, max_size=4), st.data())
def test_all_or_the_share_of_several(chosen: list[tuple[str, dict[str, Any], str, str]], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([text for _, _, *texts in TABLE for text in texts]))
    info = rows(*((name, given_) for name, given_, *_ in chosen))
    each = [scored(Instructions(), text, **rows((name, given_))) for name, given_, *_ in chosen]
    assert scored(Instructions(), text, **info) == min(each)
    assert scored(Instructions("share"), text, **info) == pytest.approx(sum(each) / len(each))
    assert [kept for _, kept in Instructions().followed(asked(**info), text)] == [bool(one) for one in each]


@pytest.mark.parametrize("name", list(CHECKS))
def test_an_empty_completion_follows_nothing(name: str) -> None:
    given_ = next(arguments for known, arguments, *_ in TABLE if known == name)
    assert scored(Instructions(), " \n", **rows((name, given_))) == 0


@pytest.mark.parametrize(
    ("info", "fault"),
    [
        ({}, "has no instructions"),
        ({"instruction_id_list": []}, "has no instructions"),
        (rows(("punctuation:no_coma", {})), "did you mean 'punctuation:no_comma'?"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "not one object for each"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [7]}, "not one object for each"),
        (rows(("keywords:frequency", {"keyword": "a"})), "needs the argument 'frequency'"),
        (rows(("keywords:frequency", {"keyword": "a", "frequency": -1})), "'-1', which is no count"),
        (rows(("keywords:frequency", {"keyword": "a", "frequency": 1, "relation": "about"})), "none of at least"),
        (rows(("keywords:existence", {"keywords": "a"})), "no list of texts"),
        (rows(("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1})), "not one letter"),
        (rows(("language:response_language", {"language": "xx"})), "unknown language"),
        (rows(("startend:end_checker", {"end_phrase": " "})), "is no text"),
    ],
)
def test_broken_instructions_are_named_when_data_are_read(info: dict[str, Any], fault: str) -> None:
    """Fault G10."""
    assert fault in str(Instructions().info_fault(asked(**info)))
    with pytest.raises(InputError, match="prompt p has"):
        scored(Instructions(), "x", **info)
