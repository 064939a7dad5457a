"""Labels of a judge: what is kept, what is left out and counted, and what the statistics say of the judge."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.read import pairs as read_pairs
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.files import dumps
from ropewalk.records.score import Failed
from ropewalk.tasks.judging.config import PairwiseJudge
from ropewalk.tasks.judging.labels import Labelled, Rule, label, pairs_of
from ropewalk.tasks.judging.question import Answer, Question
from tests.tasks.judging.askers import BY, Ruled, judge, prefers
from tests.tasks.judging.test_judge import PROMPTS, group, length

STRICT = Rule(pairs=1, agreement=True, at_least=0.5)
CONFIG = PairwiseJudge(by=BY)


def labelled(texts: list[str], rule: Rule = STRICT, *, place: float = 0.0) -> Labelled:
    return label(judge(CONFIG, Ruled(prefers(length, place=place))), PROMPTS, group(texts), rule)


def test_the_preferred_answer_is_the_chosen_one_whichever_came_first() -> None:
    for texts in (["a", "bbb"], ["bbb", "a"]):
        (row,) = labelled(texts).rows
        assert (row["chosen"], row["rejected"]) == ("bbb", "a")
        assert row["probability"] == pytest.approx(1 / (1 + math.exp(-2)))


def test_rows_can_be_read_as_preference_pairs(tmp_path: object) -> None:
    made = labelled(["a", "bbb", "cc", "dddd"], Rule(6, True, 0.5))
    path = f"{tmp_path}/pairs.jsonl"
    with open(path, "w") as file:
        file.write("".join(dumps(row) + "\n" for row in made.rows))
    found, report = read_pairs(path)
    assert len(found) == 6 and not report.refused
    assert [(p.chosen, p.rejected) for p in found] == [(row["chosen"], row["rejected"]) for row in made.rows]
    assert found[0].dialogue == PROMPTS["p"].dialogue


def test_a_pair_whose_orders_disagree_is_a_tie_and_counted() -> None:
    """The judge likes the first place more than a longer answer."""
    made = labelled(["a", "bb"], place=5.0)
    assert made.rows == [] and made.statistics.ties == 1 and made.statistics.order_agreement == 0.0
    assert made.statistics.position_bias == pytest.approx(0.5, abs=0.02)
    soft = labelled(["a", "bb"], Rule(1, agreement=False, at_least=0.5), place=5.0)
    assert len(soft.rows) == 1 and soft.rows[0]["chosen"] == "bb"


def test_a_weak_preference_is_left_out_where_more_is_asked() -> None:
    weak, strong = ["a", "bb"], ["a", "b" * 9]
    rule = Rule(1, agreement=True, at_least=0.9)
    assert labelled(weak, rule).rows == [] and len(labelled(strong, rule).rows) == 1
    assert labelled(weak, rule).statistics.ties == 1


@pytest.mark.parametrize("agreement", [True, False])
def test_an_even_preference_is_never_a_label(agreement: bool) -> None:
    assert labelled(["aa", "bb"], Rule(1, agreement, 0.5)).rows == []


@given(st.lists(st.text(max_size=6), min_size=2, max_size=6), st.integers(1, 20), st.floats(-4, 4))
def test_every_pair_is_accounted_for(texts: list[str], most: int, place: float) -> None:
    made = labelled(texts, Rule(most, True, 0.5), place=place)
    told = made.statistics
    assert told.pairs == len(made.rows) and told.pairs + told.ties == told.compared
    assert told.compared + told.failed <= most and told.failed == 0
    assert all(row["chosen"] != row["rejected"] and 0.5 < float(str(row["probability"])) <= 1 for row in made.rows)


@given(st.integers(2, 7), st.integers(1, 30))
def test_no_sample_is_in_two_pairs_while_two_are_in_none(size: int, most: int) -> None:
    pairs, identical = pairs_of(group([f"{n}" for n in range(size)]), most)
    assert identical == 0 and len(pairs) == min(most, size * (size - 1) // 2)
    assert len({pair.name for pair in pairs}) == len(pairs)
    met = [sum(n in (pair.first.index, pair.second.index) for pair in pairs) for n in range(size)]
    assert max(met) <= 1 or sum(count == 0 for count in met) <= 1


def test_equal_answers_are_passed_over_and_counted() -> None:
    made = labelled(["a", "a", "bbb"])
    assert made.statistics.identical == 1 and [row["chosen"] for row in made.rows] == ["bbb"]


def test_samples_that_were_cut_or_lost_are_in_no_pair() -> None:
    samples = [replace(sample, finish=finish) for sample, finish in zip(
        group(["a", "bbbbbb", "cc", "dddd"]), ("stop", "length", "stop", "failed"), strict=True)]  # fmt: skip
    made = label(judge(CONFIG, Ruled(prefers(length))), PROMPTS, samples, Rule(9, True, 0.5))
    assert [row["chosen"] for row in made.rows] == ["cc"] and made.statistics.unfinished == 2


def test_length_bias_is_seen() -> None:
    texts = ["a" * n for n in (1, 3, 2, 9, 4, 5)]
    longer = labelled(texts, Rule(15, True, 0.5)).statistics
    assert longer.longer_chosen == 1.0 and longer.length_correlation is not None and longer.length_correlation > 0.7
    shorter = label(
        judge(CONFIG, Ruled(prefers(lambda t: -length(t)))), PROMPTS, group(texts), Rule(15, True, 0.5)
    ).statistics
    assert shorter.longer_chosen == 0.0 and shorter.length_correlation == pytest.approx(-longer.length_correlation)


def test_a_judge_that_mostly_fails_stops_the_job_with_its_reason() -> None:
    def rule(question: Question) -> Answer | Failed:
        return Failed("crashed", "no connection, 5 times")

    with pytest.raises(RunStopped, match=r"judge 'liked' failed on 1 of 1 pairs, 1 times with crashed \(no connection"):
        label(judge(CONFIG, Ruled(rule)), PROMPTS, group(["a", "bb"]), STRICT)


def test_nothing_to_compare_is_no_label() -> None:
    made = labelled(["a", "a"])
    assert made.rows == [] and made.statistics.order_agreement is None and made.statistics.remembered is None


def test_episodes_are_no_pairs() -> None:
    turns = [{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}]
    samples = [replace(one, info={"episode": {"messages": turns}}) for one in group(["a", "b"])]
    with pytest.raises(InputError, match="one turn"):
        label(judge(CONFIG, Ruled(prefers(length))), PROMPTS, samples, STRICT)
