import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.rules.tags import Tags
from tests.tasks.scoring.rules.asked import scored

GOOD = "<think>a</think>\n<answer>b</answer>"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD, None),
        (f"  {GOOD}\n", None),
        ("<think>a <b>c</b></think><answer>b</answer>", None),
        ("", "<think> is missing"),
        ("<think>a</think>", "<answer> is missing"),
        ("<think>a</think><answer>b", "</answer> is missing"),
        ("<answer>b</answer><think>a</think>", "<answer> stands where <think> should"),
        ("<think>a<answer>b</answer></think>", "<answer> stands where </think> should"),
        ("<think>a</think><think>a</think><answer>b</answer>", "<think> stands where <answer> should"),
        (f"{GOOD}<answer>c</answer>", "<answer> stands there once too often"),
        (f"{GOOD}</answer>", "</answer> stands there once too often"),
        (f"so {GOOD}", "text stands outside the tags"),
        (f"{GOOD} so", "text stands outside the tags"),
        ("<think>a</think> so <answer>b</answer>", "text stands outside the tags"),
        ("<think> </think><answer>b</answer>", "a part is empty"),
        ("<THINK>a</THINK><answer>b</answer>", "<answer> stands where <think> should"),
        ("< think>a</think><answer>b</answer>", "</think> stands where <think> should"),
    ],
)
def test_parts_stand_once_in_order_and_closed(text: str, fault: str | None) -> None:
    assert Tags().fault(text) == fault
    assert scored(Tags(), text) == (fault is None)


def test_what_may_be_otherwise() -> None:
    assert scored(Tags(outside=True), f"so {GOOD} so") == 1
    assert scored(Tags(empty=True), "<think></think><answer></answer>") == 1
    assert scored(Tags(("sql",)), "<sql>select 1</sql>") == 1
    assert scored(Tags(opened=True), GOOD.removeprefix("<think>")) == 1
    assert scored(Tags(opened=True), GOOD) == 0, "the prompt has opened it already"


pieces = st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "x", " ", "<", ">"]), max_size=9)


@given(pieces)
def test_a_text_is_well_formed_exactly_if_it_can_be_put_together_so(made: list[str]) -> None:
    """Against the definition: cut at the tags, in the only order there is."""
    text = "".join(made)
    whole = ["<think>", "</think>", "<answer>", "</answer>"]
    places = [text.find(tag) for tag in whole]
    right = (
        all(text.count(tag) == 1 for tag in whole)
        and places == sorted(places)
        and not text[: places[0]].strip()
        and text[places[0] + 7 : places[1]].strip() != ""
        and not text[places[1] + 8 : places[2]].strip()
        and text[places[2] + 8 : places[3]].strip() != ""
        and not text[places[3] + 9 :].strip()
    )
    assert scored(Tags(), text) == right


@pytest.mark.parametrize("names", [(), ("a", "a"), ("a b",), ("",), ("(",)])
def test_names_that_are_none(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="different names"):
        Tags(names)
