"""Tasks: what a user writes, and the splits that come of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.tasks.task import Task, Vocabulary, at_least_one, prompt_id

texts = st.lists(st.text(min_size=1), min_size=2, max_size=30, unique=True)


def one(_prompt: object, _sample: object) -> float:
    return 1.0


def task(prompts: object) -> Task:
    return Task(name="mine", prompts=prompts, scorers={"reward": one})  # type: ignore[arg-type]


@given(texts)
def test_a_list_is_split_without_loss_and_neither_side_is_empty(prompts: list[str]) -> None:
    mine = task(prompts)
    train, heldout = mine.split("train"), mine.split("heldout")
    assert train and heldout
    assert sorted(p.dialogue for p in (*train, *heldout)) == sorted(prompts)
    assert {p.id for p in train}.isdisjoint(p.id for p in heldout)


@given(texts, st.randoms())
def test_the_split_of_a_prompt_does_not_hang_on_the_order(prompts: list[str], random: object) -> None:
    other = list(prompts)
    random.shuffle(other)  # type: ignore[attr-defined]
    assert {p.id for p in task(prompts).split("train")} == {p.id for p in task(other).split("train")}


def test_plain_text_has_a_stable_id() -> None:
    (found,) = task({"train": ["Name a fruit."]}).split("train")
    assert found == Prompt(id=prompt_id("Name a fruit."), dialogue="Name a fruit.")
    assert found.id == "a5863d007da8ec15"


def test_splits_of_a_mapping_and_of_a_function_keep_their_names() -> None:
    by_name = {"train": ["a"], "heldout": ["b"], "hard": ["c", "d"]}
    for source in (by_name, lambda name: by_name[name]):
        assert [p.dialogue for p in task(source).split("hard")] == ["c", "d"]
        assert [p.dialogue for p in task(source).split("train")] == ["a"]


@pytest.mark.parametrize(
    ("prompts", "split", "part"),
    [
        (["a", "b"], "hard", "has no split 'hard'"),
        ({"train": ["a"]}, "heldout", "has no split 'heldout'"),
        ({"train": []}, "train", "has no prompts"),
        (["a"], "heldout", "has no prompts"),
        (["a", "a"], "train", "occurs twice"),
        ({"train": ["a"], "heldout": ["a"]}, "train", "occurs twice"),
    ],
)
def test_what_cannot_be_asked_is_said(prompts: object, split: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        task(prompts).split(split)


def test_wrong_tasks_are_refused_when_written() -> None:
    with pytest.raises(InputError, match="a text for its prompts"):
        task("abc")
    with pytest.raises(InputError, match="has no scorer"):
        Task(name="mine", prompts=["a"], scorers={})
    with pytest.raises(InputError, match="'reward' of task 'mine' is no function"):
        Task(name="mine", prompts=["a"], scorers={"reward": 1.0})  # type: ignore[dict-item]


def test_solved_is_a_score_of_at_least_one() -> None:
    outcomes = [Score(1), Score(2.5), Score(0.99), Abstain(), Failed("timeout")]
    assert [at_least_one(outcome) for outcome in outcomes] == [True, True, False, False, False]


def test_a_vocabulary_that_cannot_work_is_refused() -> None:
    words = ("<pad>", "a", ".")
    assert Vocabulary(words, eos=".", pad="<pad>", banned=("<pad>",)).words == words
    for wrong in (
        {"eos": "!", "pad": "<pad>"},
        {"eos": ".", "pad": "<pad>", "banned": (".",)},
        {"eos": ".", "pad": "<pad>", "banned": ("b",)},
    ):
        with pytest.raises(InputError):
            Vocabulary(words, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        Vocabulary((*words, "a"), eos=".", pad="<pad>")
