"""Sums by program: exact, distinct, and never the same on both sides of the split."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.score import Score
from ropewalk.tasks.config import SumsTask
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.sums import sums_task, value_of
from tests.tasks.samples import sample

configs = st.builds(
    SumsTask,
    low=st.integers(-9, 5),
    high=st.integers(9, 60),
    operations=st.lists(st.sampled_from("+-*"), min_size=1, max_size=3, unique=True).map(tuple),
    operands=st.integers(2, 4),
    style=st.sampled_from(["chat", "plain"]),
    prompts=st.integers(5, 40),
    heldout_prompts=st.integers(5, 20),
    seed=st.integers(0, 99),
)


def asked(prompt: Prompt) -> str:
    text = prompt.dialogue if isinstance(prompt.dialogue, str) else prompt.dialogue[0].content
    return text.removeprefix("What is ").partition("?")[0].removesuffix(" =")


def worked_out(text: str) -> Fraction:
    """The value of a sum as written, by an independent reader: products first, then a running total."""
    tokens = text.replace("(", "").replace(")", "").split()
    stack = [Fraction(tokens[0])]
    for operation, operand in zip(tokens[1::2], tokens[2::2], strict=True):
        if operation == "*":
            stack.append(stack.pop() * int(operand))
        else:
            stack.append(Fraction(operand) * (1 if operation == "+" else -1))
    return sum(stack, Fraction(0))


@given(configs)
def test_golds_are_exact_and_splits_do_not_share_a_sum(config: SumsTask) -> None:
    task = sums_task(config)
    orders: dict[str, set[tuple[str, ...]]] = {}
    for split, wanted in (("train", config.prompts), ("heldout", config.heldout_prompts)):
        prompts = task.split(split)
        assert 0 < len(prompts) <= wanted
        for prompt in prompts:
            assert worked_out(asked(prompt)) == prompt.gold
            numbers = re.findall(r"-?\d+", re.sub(r"(?<=\d) [-+*] ", " ", asked(prompt)))
            assert all(config.low <= int(number) <= config.high for number in numbers)
        orders[split] = {tuple(sorted(asked(p).split())) for p in prompts}
    assert orders["train"].isdisjoint(orders["heldout"])


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=5), st.data())
def test_products_bind_first(operands: list[int], data: st.DataObject) -> None:
    count = len(operands) - 1
    operations = data.draw(st.lists(st.sampled_from("+-*"), min_size=count, max_size=count))
    text = str(operands[0]) + "".join(f" {o} {n}" for o, n in zip(operations, operands[1:], strict=True))
    assert value_of(operands, operations) == worked_out(text)


def test_one_seed_gives_one_task() -> None:
    config = SumsTask(prompts=50, heldout_prompts=20)
    assert sums_task(config).split("train") == sums_task(config).split("train")
    other = sums_task(SumsTask(prompts=50, heldout_prompts=20, seed=1))
    assert sums_task(config).split("train") != other.split("train")


def test_a_small_world_is_used_up_and_no_more() -> None:
    task = sums_task(SumsTask(low=0, high=4, prompts=500, heldout_prompts=100))
    assert len(task.split("train")) + len(task.split("heldout")) == 25


def test_both_styles_ask_the_same() -> None:
    chat, plain = (sums_task(SumsTask(style=style)).split("train")[0] for style in ("chat", "plain"))  # type: ignore[arg-type]
    assert chat.dialogue == (Message("user", f"What is {asked(plain)}? Answer with the number only."),)
    assert chat.gold == plain.gold


def test_the_answer_and_the_form_are_scored_apart() -> None:
    task = load_task(SumsTask())
    prompt = Prompt("p", "8 + 6 =", gold=14)
    table = {"14": (1, 1), " 14 ": (1, 1), "15": (0, 1), "8 + 6 = 14": (1, 0), "14.": (1, 0), "fourteen": (0, 0)}
    for text, (correct, form) in table.items():
        assert score_sample(task, prompt, sample(text)).scores == {"correct": Score(correct), "format": Score(form)}, (
            text
        )


@pytest.mark.parametrize("wrong", [{"low": 3, "high": 2}, {"operations": ()}, {"low": 1, "high": 1}])
def test_settings_without_sums_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="sums"):
        sums_task(SumsTask(**wrong))  # type: ignore[arg-type]
