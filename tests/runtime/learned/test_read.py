"""From columns to scores: rows keep their place, steps are found among the tokens that were sampled, NaN is named."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.metric import merge
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Sample
from ropewalk.runtime.learned.calls import LearnedCalls, short_form
from ropewalk.runtime.learned.config import Heads, LearnedReward, MeanMinusStd, Min, Process
from ropewalk.runtime.learned.read import Reader, Said, StepCutter, head_names, said_by
from ropewalk.training.packing import pack_samples
from tests.parity.beds import samples

DRAWN = samples(4, groups=3, size=3)
SAID = [said_by(sample) for sample in DRAWN]


def decode(ids: Sequence[int]) -> str:
    """Every third id is a separator."""
    return "".join("|" if i % 3 == 0 else "x" for i in ids)


CUTTER = StepCutter(decode, (2,), "|")


def calls(section: LearnedReward, output: str) -> LearnedCalls:
    names = tuple(f"{output}/n/{i}" for i in range(len(section.folders)))
    return LearnedCalls("n", section, names, names, names)


def of_rows(*columns: np.ndarray, output: str = "scores") -> PackedBatch:
    return pack_samples(DRAWN).with_columns(rows={f"{output}/n/{i}": column for i, column in enumerate(columns)})


def drawn_scores(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=len(DRAWN)).astype(np.float32)


def test_an_ensemble_is_its_members_combined_and_on_record() -> None:
    section = LearnedReward(
        folders=("a", "b"), combine=MeanMinusStd(kind="mean_minus_std", k=0.5), offsets=(0.25, -1.0)
    )
    first, second = drawn_scores(0), drawn_scores(1)
    read = Reader(calls(section, "scores"))(of_rows(first, second), SAID)
    for row in range(len(DRAWN)):
        a, b = float(first[row]) - 0.25, float(second[row]) + 1.0
        mean = (a + b) / 2
        apart = (((a - mean) ** 2 + (b - mean) ** 2) / 2) ** 0.5
        assert read.score_R[row] == pytest.approx(mean - 0.5 * apart, abs=1e-12)
        assert read.records[row]["members"] == [a, b]
        assert read.records[row]["spread"] == pytest.approx(apart, abs=1e-12)
    assert read.metrics["score/n/member/1"].value == pytest.approx(float(second.mean()) + 1.0, abs=1e-6)
    assert read.metrics["score/n/spread_max"].value == pytest.approx(max(r["spread"] for r in read.records))


def test_the_order_of_members_is_irrelevant() -> None:
    there = of_rows(drawn_scores(0), drawn_scores(1), drawn_scores(2))
    back = of_rows(drawn_scores(2), drawn_scores(0), drawn_scores(1))
    for how in (Min(kind="min"), MeanMinusStd(kind="mean_minus_std")):
        section = LearnedReward(folders=("a", "b", "c"), combine=how)
        one, two = (Reader(calls(section, "scores"))(batch, SAID) for batch in (there, back))
        assert np.array_equal(one.score_R, two.score_R)
        assert one.metrics["score/n/spread"] == two.metrics["score/n/spread"]


def test_one_member_is_the_plain_reward_model() -> None:
    scores = drawn_scores(3)
    plain = Reader(short_form("runs/rm"))(pack_samples(DRAWN).with_columns(rows={"scores": scores}), SAID)
    one = Reader(calls(LearnedReward(folders=("runs/rm",)), "scores"))(of_rows(scores), SAID)
    assert np.array_equal(plain.score_R, one.score_R) and np.array_equal(one.score_R, scores.astype(np.float64))
    assert plain.records == one.records == [{}] * len(DRAWN) and plain.metrics == one.metrics == {}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_member_without_a_number_is_named(bad: float) -> None:
    """Fault C4, G12: it stops the run, and is never a reward."""
    scores = drawn_scores(1)
    scores[2] = bad
    section = LearnedReward(folders=("runs/good", "runs/ill"))
    with pytest.raises(InputError, match=r"not finite \(runs/ill\)"):
        Reader(calls(section, "scores"))(of_rows(drawn_scores(0), scores), SAID)


def test_heads_are_weighted_linearly() -> None:
    generator = np.random.default_rng(0)
    scores_RH = generator.normal(size=(len(DRAWN), 3)).astype(np.float32)
    names = ("help", "safe", "true")

    def read(**weights: float) -> np.ndarray:
        section = LearnedReward(folders=("a",), read=Heads(kind="heads", weights=weights))
        return Reader(calls(section, "head_scores"), heads=(names,))(
            of_rows(scores_RH, output="head_scores"), SAID
        ).score_R

    assert np.array_equal(read(safe=1.0), scores_RH[:, 1].astype(np.float64))
    both = read(help=0.5, true=-2.0)
    assert both == pytest.approx(0.5 * read(help=1.0) - 2.0 * read(true=1.0), abs=1e-12)
    with pytest.raises(InputError, match="a has no head 'hlep': did you mean 'help'"):
        read(hlep=1.0)
    section = LearnedReward(folders=("a",), read=Heads(kind="heads", weights={"help": 1.0}))
    whole = Reader(calls(section, "head_scores"), heads=(names,))(of_rows(scores_RH, output="head_scores"), SAID)
    assert list(whole.records[4]["heads"]) == list(names)
    assert whole.metrics["score/n/head/true"].value == pytest.approx(float(scores_RH[:, 2].mean()), abs=1e-6)


def test_heads_have_the_names_of_the_labels() -> None:
    assert head_names({"id2label": {"0": "a", "1": "b", "2": "c"}}) == ("a", "b", "c")
    assert head_names({"id2label": {"1": "b", "0": "a"}}) == ("a", "b")
    assert head_names({"num_labels": 3}) == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert head_names({}) == ("LABEL_0", "LABEL_1")


def token_column(drawn: Sequence[Sample], *, shared: bool) -> PackedBatch:
    """Scores that tell their token: drawn per policy token, NaN nowhere but outside."""
    batch = pack_samples(drawn, share_prompts=shared)
    policy = batch.token_columns["policy_mask"]
    column = np.zeros(batch.tokens, np.float32)
    column[policy] = np.random.default_rng(9).normal(size=int(policy.sum()))
    return batch.with_columns(tokens={"token_scores/n/0": column})


@pytest.mark.parametrize("combine", ["min", "product", "last", "mean"])
def test_steps_are_read_at_their_ends_with_shared_prompts_or_without(combine: str) -> None:
    """Fault D3, N2: by a loop over every sample's own tokens."""
    section = LearnedReward(folders=("a",), read=Process(kind="process", step="|", combine=combine))
    reader = Reader(calls(section, "token_scores"), cutter=CUTTER)
    flat, shared = (reader(token_column(DRAWN, shared=which), SAID) for which in (False, True))
    assert np.array_equal(flat.score_R, shared.score_R) and flat.records == shared.records
    column = np.random.default_rng(9).normal(size=sum(s.completion_tokens for s in DRAWN)).astype(np.float32)
    done = 0
    for row, sample in enumerate(DRAWN):
        values = 1 / (1 + np.exp(-column[done : done + sample.completion_tokens].astype(np.float64)))
        done += sample.completion_tokens
        ids = sample.tokens_T[sample.policy_mask_T].tolist()
        ends, open_step = [], False
        for place, token in enumerate(ids):
            if token % 3:
                open_step = True
            elif open_step:
                ends.append(place)
                open_step = False
        if not ends or (sample.finish == "stop" and open_step):
            ends.append(len(ids) - 1)
        steps = values[ends]
        expected = {"min": steps.min(), "product": steps.prod(), "last": steps[-1], "mean": steps.mean()}[combine]
        assert flat.score_R[row] == pytest.approx(expected, abs=1e-12)
        assert flat.records[row]["steps"] == pytest.approx(steps.tolist(), abs=1e-12)
    assert flat.metrics["score/n/steps"].total == sum(len(record["steps"]) for record in flat.records)


def test_every_turn_of_the_policy_is_cut_by_itself() -> None:
    """What the world says between two turns is no step; a turn ends its last step, also where a limit cut the next."""
    mask = np.array([0, 1, 1, 1, 0, 0, 1, 1, 1, 1], bool)
    tokens = np.array([1, 4, 3, 5, 3, 3, 4, 6, 5, 7])
    assert CUTTER.ends(Said(tokens, mask, ended=True)) == [1, 2, 4, 6]
    assert CUTTER.ends(Said(tokens, mask, ended=False)) == [1, 2, 4]


def test_two_members_that_read_steps_list_them_apart() -> None:
    section = LearnedReward(folders=("a", "b"), read=Process(kind="process", step="|"))
    batch = token_column(DRAWN, shared=False)
    batch = batch.with_columns(tokens={"token_scores/n/1": -batch.token_columns["token_scores/n/0"]})
    read = Reader(calls(section, "token_scores"), cutter=CUTTER)(batch, SAID)
    first, second = read.records[0]["steps"]
    assert first == pytest.approx([1 - value for value in second], abs=1e-6)
    assert merge([read.metrics])["score/n/steps"].value > 0


def test_rows_lost_on_the_way_would_be_noticed() -> None:
    section = LearnedReward(folders=("a",), read=Process(kind="process", step="|"))
    batch = token_column(DRAWN, shared=False)
    with pytest.raises(ValueError, match="zip"):
        Reader(calls(section, "token_scores"), cutter=CUTTER)(batch, SAID[:-1])
    assert replace(DRAWN[0], finish="length").finish != DRAWN[0].finish
