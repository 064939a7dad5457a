from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.score import Failed
from ropewalk.tasks.scoring.rules.answers import (
    MAX_ANSWER,
    Exact,
    Fuzzy,
    MultipleChoice,
    chosen_letter,
    letter_of,
    similarity,
)
from ropewalk.tasks.scoring.rules.text import MAX_CHARACTERS
from tests.tasks.scoring.rules.asked import asked, judged, scored

ANIMALS = ["cat", "dog", "cow", "pig", "hen"]
texts = st.text(alphabet="aB ,.é", max_size=10)


@given(texts, texts)
def test_exact_is_an_equivalence_of_spellings(left: str, right: str) -> None:
    def same(a: str, b: str, **how: bool) -> float | None:
        return scored(Exact(**how), a, b) if a.strip() and b.strip() else None

    for how in ({}, {"case": True}, {"punctuation": True}):
        assert same(left, left, **how) in (1, None)
        assert same(left, right, **how) == same(right, left, **how)
    if same(left, right, case=True, punctuation=True) == 1:
        assert same(left, right) == 1, "the stricter rule implies the looser"


@pytest.mark.parametrize(
    ("text", "gold", "score"),
    [
        ("Paris", "paris", 1),
        (" PARIS. ", "paris", 1),
        ("the city of Paris", "paris", 0),
        ("Ｐａｒｉｓ", "paris", 1),
        ("New-York", "new york", 1),
        ("lyon", ["paris", "lyon"], 1),
        ("straße", "STRASSE", 1),
    ],
)
def test_exact_by_hand(text: str, gold: Any, score: float) -> None:
    assert scored(Exact(), text, gold) == score


@pytest.mark.parametrize("rule", [Exact("tags"), Fuzzy("tags"), Exact("marked"), Fuzzy("marked")], ids=repr)
def test_an_answer_is_read_where_it_should_stand(rule: Any) -> None:
    """Fault G7: whole, whatever stands after it; nothing is cut."""
    tail = "\n" + "more words " * 100
    assert scored(rule, f"<answer>no</answer> so <answer> Paris </answer>{tail}", "paris") == 1
    assert judged(rule, "Paris", "paris") == Failed("wrong_format", "it gives no answer where one is looked for")
    if rule.at == "marked":
        for mark in ("\\boxed{Paris}", "#### Paris", "The answer is: Paris", "答案是Paris"):
            assert scored(rule, f"x {mark}{tail}", "paris") == 1


@given(texts, texts)
def test_similarity_is_one_less_the_share_of_edits(left: str, right: str) -> None:
    from ropewalk.tasks.scoring.rules.text import normalised

    a, b = normalised(left), normalised(right)
    table = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, table[0] = table[0], i
        for j, y in enumerate(b, 1):
            last, table[j] = table[j], min(table[j] + 1, table[j - 1] + 1, last + (x != y))
    longest = max(len(a), len(b))
    assert similarity(left, right) == pytest.approx(1 - table[-1] / longest if longest else 1.0)


def test_fuzzy_takes_the_nearest_gold_and_has_a_floor() -> None:
    assert scored(Fuzzy(), "colour", ["hue", "color"]) == pytest.approx(5 / 6)
    assert scored(Fuzzy(least=0.9), "colour", "color") == 0
    failed = judged(Fuzzy(), "x" * (MAX_ANSWER + 1), "x")
    assert isinstance(failed, Failed) and failed.reason == "wrong_format"
    assert "more than" in str(Fuzzy().gold_fault("x" * (MAX_ANSWER + 1)))


@pytest.mark.parametrize("rule", [Exact(), Fuzzy()], ids=repr)
def test_a_gold_that_is_no_text_is_refused(rule: Any) -> None:
    """Fault G10."""
    for gold in (None, "", " ", 7, [], ["a", ""], {"a": 1}):
        assert rule.gold_fault(gold) is not None
    assert rule.gold_fault("a") is None and rule.gold_fault(["a", "b"]) is None
    assert Exact().gold_fault("?!") is not None and Exact(punctuation=True).gold_fault("?!") is None
    with pytest.raises(InputError, match="prompt p"):
        judged(rule, "a", 7)


CHOSEN = [
    ("B", "B"),
    ("b", "B"),
    ("(B)", "B"),
    ("**B**", "B"),
    (" B.\n", "B"),
    ("Ｂ", "B"),
    ("dog", "B"),
    ("The answer is (B).", "B"),
    ("The answer is **B**", "B"),
    ("Answer: B) dog", "B"),
    ("answer: A\nNo, wait: the answer is C.", "C"),
    ("The correct option is D, because A is a cat.", "D"),
    ("答案是B", "B"),
    ("答案：（C）", "C"),
    ("所以选 D", "D"),
    ("<answer>B</answer>", "B"),
    ("<answer>(b)</answer>", "B"),
    ("<answer>B) dog</answer>", "B"),
    ("<answer>dog</answer>", "B"),
    ("<answer>The answer is B</answer>", "B"),
    ("the answer is A <answer>C</answer>", "C"),
    ("so \\boxed{C}", "C"),
    ("so \\boxed{\\text{C}}", "C"),
    ("I take (E), of course.", "E"),
    ("(B) it is. (B)!", "B"),
    ("The answer is A because it purrs", "A"),
    ("Final answer: \\text{B}", "B"),
]
NO_CHOICE = [
    "",
    "   ",
    "A dog",
    "I",
    "F",
    "The answer is F",
    "The answer is B or C",
    "The answer is A and B",
    "the answer is B/C",
    "(A) is wrong, (B) is right",
    "(A)(B)",
    "[A](B)[A](B)",
    "The answer is A dog.",
    "The answer is Dog",
    "<answer>B or C</answer>",
    "<answer>F</answer>",
    "<answer></answer>B",
    "<answer>B) cat</answer>",
    "\\boxed{B, C}",
    "\\boxed{}",
    "ABCDE",
    "A. B. C.",
    "Bread",
    "cat dog",
]


@pytest.mark.parametrize(("text", "letter"), CHOSEN)
def test_the_choice_of_a_text(text: str, letter: str) -> None:
    """Faults G2 and G7."""
    assert chosen_letter(text, ANIMALS) == letter
    for gold in "ABCDE":
        assert scored(MultipleChoice(), text, gold, choices=ANIMALS) == (gold == letter)


@pytest.mark.parametrize("text", NO_CHOICE)
def test_a_text_that_chooses_nothing_or_two_is_no_format(text: str) -> None:
    """Fault G7: it is neither right nor wrong by chance."""
    for gold in "ABCDE":
        outcome = judged(MultipleChoice(), text, gold, choices=ANIMALS)
        assert isinstance(outcome, Failed) and outcome.reason == "wrong_format"


@given(st.sampled_from([c for c in CHOSEN if "answer" in c[0].lower()]), st.text(alphabet="xyz \n.,", max_size=40))
def test_more_text_without_a_marker_changes_no_choice(case: tuple[str, str], tail: str) -> None:
    """Fault G7."""
    assert chosen_letter(f"{case[0]}\n{tail}", ANIMALS) == case[1]


@given(st.text(alphabet="ABCDEF(). \nanswerisor<>/", max_size=40), st.integers(2, 6))
def test_only_choices_that_are_there_are_chosen(text: str, count: int) -> None:
    chosen = chosen_letter(text, [""] * count)
    assert isinstance(chosen, Failed) or chosen in "ABCDEF"[:count]


def test_golds_of_choices() -> None:
    """Fault G10."""
    golds: list[tuple[Any, str | None]] = [("B", "B"), ("(b)", "B"), (1, "B"), ("Dog", "B"), ("F", None), (5, None)]
    golds += [(True, None), (None, None), (-1, None), ("", None), ("BC", None)]
    for gold, letter in golds:
        assert letter_of(gold, ANIMALS) == letter
        assert (MultipleChoice().info_fault(asked(gold, choices=ANIMALS)) is None) == (letter is not None)
    for wrong in ([], ["a"], ["a", "A"], ["a", ""], "ab", ["x"] * 30):
        fault = MultipleChoice().info_fault(asked("A", choices=wrong))
        assert (fault is None) == (wrong == ["a", "A"]) or "equal" in str(fault)


def test_letters_after_e_need_as_many_choices() -> None:
    assert chosen_letter("J", [""] * 10) == "J"
    assert isinstance(chosen_letter("J", [""] * 5), Failed)
    for count in (1, 27):
        with pytest.raises(InputError, match="2 to 26"):
            MultipleChoice(count)


@pytest.mark.parametrize(
    "rule",
    [Exact(), Fuzzy(), MultipleChoice(), Exact("marked")],
    ids=repr,
)
def test_endless_texts_are_refused_at_once(rule: Callable[..., Any]) -> None:
    outcome = judged(rule, "x" * (MAX_CHARACTERS + 1), "A")
    assert isinstance(outcome, Failed) and outcome.reason == "refused"
