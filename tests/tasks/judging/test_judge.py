"""What a judge makes of finished samples: equalities that hold whatever it thinks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise as neighbours

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.tasks.judging import pairwise
from ropewalk.tasks.judging.config import NoReasoning, PairwiseJudge, Reasoning, ReferenceAnswer, RubricJudge, Siblings
from ropewalk.tasks.judging.judge import NOTE, ring
from ropewalk.tasks.judging.measure import judge_metrics
from ropewalk.tasks.judging.question import Answer, Question
from ropewalk.tasks.scoring.code.layers import GATES, WEIGHTS, Layer, Layering, layered
from ropewalk.tasks.scoring.compose import compose
from ropewalk.tasks.scoring.config import Reward
from tests.tasks.judging.askers import BY, Ruled, judge, prefers
from tests.tasks.samples import sample

PAIRWISE, RUBRIC = PairwiseJudge(by=BY), RubricJudge(by=BY)
PROMPT = Prompt("p", (Message("user", "Name a fruit."),), gold="apple", info={"good": "pear"})
PROMPTS = {"p": PROMPT}
WORDS = st.text(min_size=0, max_size=12)


def everybody(_: Sample) -> str | None:
    return None


def group(texts: Sequence[str], name: str = "g") -> list[Sample]:
    return [sample(text, index=n, group_id=name) for n, text in enumerate(texts)]


def length(text: str) -> float:
    return float(len(text))


def scores(samples: Sequence[Sample]) -> list[float | None]:
    outcomes = [s.scores["liked"] for s in samples]
    return [o.value if isinstance(o, Score) else None for o in outcomes]


# --- pairs ----------------------------------------------------------------------------------------


@given(WORDS, WORDS, st.floats(-20, 20))
def test_the_preferences_of_both_sides_add_up_to_one(first: str, second: str, place: float) -> None:
    """Whatever the judge's liking for a place."""
    asked = judge(PAIRWISE, Ruled(prefers(length, place=place)))
    one, other = asked.compare([(PROMPT, first, second), (PROMPT, second, first)])
    assert isinstance(one.preference, Score) and isinstance(other.preference, Score)
    assert one.preference.value + other.preference.value == pytest.approx(1.0, abs=1e-12)
    assert 0.0 <= one.preference.value <= 1.0


@given(st.dictionaries(st.sampled_from(["A", " A", "B", " B"]), st.floats(-50, 0), min_size=1))
def test_probability_is_a_softmax_over_the_candidates(logprobs: dict[str, float]) -> None:
    found = pairwise.probability(logprobs)
    mass = {name: math.exp(value) for name, value in logprobs.items()}
    a, b = (math.fsum(mass.get(name, 0.0) for name in names) for names in (("A", " A"), ("B", " B")))
    assert isinstance(found, Score) and found.value == pytest.approx(a / (a + b), rel=1e-9, abs=1e-12)
    swapped = {name.translate(str.maketrans("AB", "BA")): value for name, value in logprobs.items()}
    other = pairwise.probability(swapped)
    assert isinstance(other, Score) and other.value == pytest.approx(1 - found.value, abs=1e-12)


@pytest.mark.parametrize("logprobs", [{}, {"C": -1.0}, {"A": -math.inf, "B": -math.inf}, {"A": math.nan}])
def test_no_candidate_is_no_verdict(logprobs: dict[str, float]) -> None:
    assert isinstance(pairwise.probability(logprobs), Failed)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A", 1), (" B\n", 0), ("**A**", 1), ("(B)", 0), ("[[A]]", 1), ("Answer B", 0), ("Verdict: A", 1),
        ("Verdict: **B**.", 0), ("Both are fine.\nVerdict: tie", 0.5), ("Verdict: A, I thought.\nVerdict: B", 0),
        ('It says "Verdict: A".\n\nVerdict: B\nThat is all.', 0), ("The better answer A", 1), ("Verdict:\nA", 1),
    ],
)  # fmt: skip
def test_a_written_verdict_is_the_last_one(text: str, value: float) -> None:
    assert pairwise.read(Answer(text)) == Score(value)


@pytest.mark.parametrize(
    "text", ["", "C", "A or B", "Verdict: A or B", "Apple", "a", "Verdict: both", "AB", "Verdict:"]
)
def test_what_is_no_verdict_is_a_failure(text: str) -> None:
    assert isinstance(pairwise.read(Answer(text)), Failed)


@given(st.integers(2, 12), st.integers(2, 14))
def test_in_a_ring_all_meet_equally_many_and_nobody_twice(count: int, opponents: int) -> None:
    pairs = ring(count, opponents)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) and all(i != j for i, j in pairs)
    met = [sum(place in pair for pair in pairs) for place in range(count)]
    assert set(met) == {min(opponents - opponents % 2 if opponents < count - 1 else opponents, count - 1)}


@given(st.lists(WORDS, min_size=2, max_size=8), st.integers(2, 9), st.floats(-5, 5))
def test_the_scores_of_a_group_have_the_mean_one_half(texts: list[str], opponents: int, place: float) -> None:
    config = replaced(PAIRWISE, against=Siblings(opponents=opponents))
    found = scores(judge(config, Ruled(prefers(length, place=place))).judge(PROMPTS, group(texts), everybody))
    assert all(value is not None and 0 <= value <= 1 for value in found)
    assert math.fsum(value or 0 for value in found) / len(found) == pytest.approx(0.5)


def replaced(config: PairwiseJudge, **changes: object) -> PairwiseJudge:
    return config.model_copy(update=changes)


def test_against_all_siblings_the_order_of_scores_is_that_of_the_rule() -> None:
    texts = ["a", "aaa", "aa", "aaaaa"]
    found = scores(judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, group(texts), everybody))
    ordered = [value for _, value in sorted(zip(texts, found, strict=True))]
    assert all(low is not None and high is not None and low < high for low, high in neighbours(ordered))


def test_equal_answers_tie_without_a_question() -> None:
    asker = Ruled(prefers(length))
    found = judge(PAIRWISE, asker).judge(PROMPTS, group(["same", "same"]), everybody)
    assert scores(found) == [0.5, 0.5] and asker.asked == []
    assert judge_metrics(found)["judge/liked/ties"].value == 1.0


def test_who_meets_nobody_has_no_score() -> None:
    found = judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, group(["alone"]), everybody)
    assert isinstance(found[0].scores["liked"], Abstain)


def test_those_not_to_be_judged_are_neither_asked_about_nor_opponents() -> None:
    asker = Ruled(prefers(length))
    found = judge(PAIRWISE, asker).judge(
        PROMPTS, group(["a", "closed", "bbb"]), lambda s: "its gate is closed" if s.text == "closed" else None
    )
    assert scores(found)[1] is None and found[1].scores["liked"] == Abstain("its gate is closed")
    assert not any("closed" in question.messages[0].content for question in asker.asked)
    alone = judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, group(["a", "bbb"]), everybody)
    assert [scores(found)[0], scores(found)[2]] == scores(alone)


@pytest.mark.parametrize(("finish", "kind"), [("failed", Failed), ("aborted", Abstain)])
def test_lost_rollouts_are_not_judged(finish: str, kind: type) -> None:
    """Fault G12."""
    asker = Ruled(prefers(length))
    lost = replace(sample("lost", index=2), finish=finish)  # type: ignore[arg-type]
    found = judge(PAIRWISE, asker).judge(PROMPTS, [*group(["a", "bb"]), lost], everybody)
    assert isinstance(found[2].scores["liked"], kind)
    assert not any("lost" in question.messages[0].content for question in asker.asked)


def test_each_group_is_judged_as_if_it_were_alone() -> None:
    whole = [*group(["a", "bb", "ccc"], "one"), *group(["a", "dddd"], "two")]
    together = judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, whole, everybody)
    apart = [
        s
        for part in (whole[:3], whole[3:])
        for s in judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, part, everybody)
    ]
    assert scores(together) == scores(apart)


def test_order_of_samples_does_not_matter() -> None:
    texts = group(["a", "bb", "ccc", "dddd", "eeeee", "f", "gg"])
    straight = judge(PAIRWISE, Ruled(prefers(length, place=1.0))).judge(PROMPTS, texts, everybody)
    turned = judge(PAIRWISE, Ruled(prefers(length, place=1.0))).judge(PROMPTS, texts[::-1], everybody)
    assert scores(straight) == scores(turned)[::-1]


def test_both_orders_are_questions_of_their_own() -> None:
    asker = Ruled(prefers(length))
    judge(PAIRWISE, asker).judge(PROMPTS, group(["a", "bb"]), everybody)
    assert len(asker.asked) == 2 and asker.asked[0].key("x") != asker.asked[1].key("x")


def test_position_bias_and_disagreement_are_measured() -> None:
    """A judge that always likes what is shown first says nothing, and is seen to."""
    found = judge(PAIRWISE, Ruled(prefers(lambda _: 0.0, place=30.0))).judge(PROMPTS, group(["a", "bb"]), everybody)
    assert scores(found) == [pytest.approx(0.5), pytest.approx(0.5)]
    metrics = judge_metrics(found)
    assert metrics["judge/liked/position_bias"].value == pytest.approx(0.5)
    assert metrics["judge/liked/orders_disagree"].value == 1.0
    fair = judge_metrics(judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, group(["a", "bb"]), everybody))
    assert fair["judge/liked/position_bias"].value == pytest.approx(0.0)
    assert fair["judge/liked/orders_disagree"].value == 0.0


def test_a_failed_question_fails_its_comparison_and_no_other() -> None:
    def rule(question: Question) -> Answer | Failed:
        return Failed("timeout") if "bad" in question.messages[0].content else prefers(length)(question)

    found = judge(PAIRWISE, Ruled(rule)).judge(PROMPTS, group(["a", "bad", "ccc"]), everybody)
    assert found[1].scores["liked"] == Failed("timeout")
    alone = judge(PAIRWISE, Ruled(prefers(length))).judge(PROMPTS, group(["a", "ccc"]), everybody)
    assert [scores(found)[0], scores(found)[2]] == scores(alone)


# --- references and marks -------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "reference"), [("gold", "apple"), ("good", "pear")])
def test_a_reference_is_compared_in_both_orders(field: str, reference: str) -> None:
    config = replaced(PAIRWISE, against=ReferenceAnswer(field=field))
    asker = Ruled(prefers(length, place=2.0))
    found = judge(config, asker).judge(PROMPTS, [sample("kiwis"), sample("fig", index=1)], everybody)
    assert all(reference in question.messages[0].content for question in asker.asked) and len(asker.asked) == 4
    (one,) = judge(config, Ruled(prefers(length, place=2.0))).compare([(PROMPT, "kiwis", reference)])
    assert found[0].scores["liked"] == one.preference


@pytest.mark.parametrize("gold", [None, "", " ", True, ["a"], {}])
def test_a_prompt_without_a_reference_fails_and_is_not_asked(gold: object) -> None:
    config = replaced(PAIRWISE, against=ReferenceAnswer())
    asker = Ruled(prefers(length))
    found = judge(config, asker).judge({"p": Prompt("p", "x", gold=gold)}, [sample("a")], everybody)  # type: ignore[arg-type]
    assert isinstance(found[0].scores["liked"], Failed) and asker.asked == []


def test_a_rubric_asks_once_for_each_sample_and_equal_ones_once() -> None:
    asker = Ruled(lambda _: Answer("7/10"))
    found = judge(RUBRIC, asker).judge(PROMPTS, group(["a", "bb", "a"]), everybody)
    assert scores(found) == [6 / 9] * 3 and len(asker.asked) == 2
    metrics = judge_metrics(found)
    assert metrics["judge/liked/questions"].value == 3 and metrics["judge/liked/remembered"].value == 1 / 3


def test_batching_does_not_matter() -> None:
    texts = group(["a", "bb", "ccc"])

    def mark(question: Question) -> Answer:
        return Answer(str(1 + len(question.messages[0].content) % 10))

    together = judge(RUBRIC, Ruled(mark)).judge(PROMPTS, texts, everybody)
    assert scores(together) == [scores(judge(RUBRIC, Ruled(mark)).judge(PROMPTS, [one], everybody))[0] for one in texts]


def test_what_a_sample_knew_stays() -> None:
    known = replace(sample("a"), info={"domain": "x", NOTE: {"other": {"questions": 1}}}).with_scores(right=Score(1.0))
    (found,) = judge(RUBRIC, Ruled(lambda _: Answer("7"))).judge(PROMPTS, [known], everybody)
    assert found.info["domain"] == "x" and found.scores["right"] == Score(1.0)
    assert set(found.info[NOTE]) == {"other", "liked"}  # type: ignore[arg-type]


# --- reasons --------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [PAIRWISE, RUBRIC])
def test_reasons_are_asked_for_and_bounded(config: PairwiseJudge | RubricJudge) -> None:
    asked: dict[str, Question] = {}
    for kind in (NoReasoning(), Reasoning(max_new_tokens=77, temperature=0.5)):
        asker = Ruled(lambda _: Answer("Verdict: A\nScore: 3"))
        judge(config.model_copy(update={"reasoning": kind}), asker).judge(PROMPTS, group(["a", "bb"]), everybody)
        asked[kind.kind] = asker.asked[0]
    assert asked["written"].max_new_tokens == 77 and asked["written"].temperature == 0.5
    assert asked["none"].max_new_tokens < 20 and asked["none"].temperature == 0
    assert "sentences" in asked["written"].messages[0].content
    assert "nothing else" in asked["none"].messages[0].content


def test_criteria_reach_the_judge() -> None:
    made: list[Callable[[], str]] = []
    for config in (PAIRWISE, RUBRIC):
        asker = Ruled(lambda _: Answer("A", {"A": -0.1}))
        judge(config.model_copy(update={"criteria": "Rhyme {counts}."}), asker).judge(
            PROMPTS, group(["a", "bb"]), everybody
        )
        made.append(lambda asker=asker: asker.asked[0].messages[0].content)  # type: ignore[misc]
    assert all("Rhyme {counts}." in text() for text in made)


# --- episodes and the code reward -----------------------------------------------------------------


def test_of_an_episode_all_turns_are_judged() -> None:
    turns = [
        ("system", "Use tools."),
        ("user", "2 + 2?"),
        ("assistant", "calc(2 + 2)"),
        ("tool", "4"),
        ("assistant", "4"),
    ]
    messages = [{"role": role, "content": content} for role, content in turns]
    asker = Ruled(lambda _: Answer("7"))
    judge(RUBRIC, asker).judge(PROMPTS, [replace(sample("4"), info={"episode": {"messages": messages}})], everybody)
    (question,) = asker.asked
    assert "assistant: calc(2 + 2)\n\ntool: 4\n\nassistant: 4\n</answer" in question.messages[0].content
    assert "Use tools." not in question.messages[0].content
    one_turn = replace(sample("4"), info={"episode": {"messages": messages[1:3]}})
    judge(RUBRIC, asker).judge(PROMPTS, [one_turn], everybody)
    assert f"\n{one_turn.text}\n</answer" in asker.asked[-1].messages[0].content


LAYER = st.sampled_from([Score(0.0), Score(0.5), Score(1.0), Abstain("no tests")])


@given(LAYER, LAYER, LAYER, LAYER, st.floats(0, 1))
def test_a_judge_behind_gates_is_the_judges_layer_of_the_code_reward(
    form: Score | Abstain, compiles: Score | Abstain, public: Score | Abstain, hidden: Score | Abstain, mark: float
) -> None:
    """A component of weight 0.1 that counts where every layer before it is full, or has nothing to say."""
    told: dict[Layer, Score | Abstain] = {"format": form, "compile": compiles, "public": public, "hidden": hidden}
    whole = layered({**told, "judge": Score(mark)}, Layering())[1]
    gated, without = layered(told, Layering())
    gates = [{"on": f"code_{name}", "at_least": GATES[name], "abstained": "open"} for name in told]
    reward = Reward.model_validate({"components": {"code": {}, "critic": {"weight": WEIGHTS["judge"], "gates": gates}}})
    row = {"code": without, "critic": Score(mark), **{f"code_{name}": gated[name] for name in told}}
    composed = compose(reward, [row], {})
    assert isinstance(whole, Score) and composed.reward_R[0] == pytest.approx(whole.value, abs=1e-6)
