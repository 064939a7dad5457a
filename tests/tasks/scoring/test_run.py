"""Running scorers: every return value has one meaning, everywhere, and a failure is never a score."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, get_args

import numpy as np
import pytest

from ropewalk.monitors.config import Health
from ropewalk.monitors.health import diagnose
from ropewalk.monitors.report.catalogue import entry
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, FailureReason, Outcome, Score
from ropewalk.runtime.names import shown
from ropewalk.tasks.scoring.config import Component
from ropewalk.tasks.scoring.run import check_failures, outcome_metrics, score_sample
from ropewalk.tasks.task import Scorer, Task
from tests.tasks.samples import sample
from tests.tasks.scoring.graders import ANSWERS, graded

PROMPT = Prompt("p", "say a number")


def judged_by(scorer: Scorer, given: Sample | None = None) -> Outcome:
    task = Task(name="t", prompts=[PROMPT], scorers={"reward": scorer})
    return score_sample(task, PROMPT, given or sample("7", index=3)).scores["reward"]


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, Abstain()),
        (Abstain("unsure"), Abstain("unsure")),
        (Failed("timeout"), Failed("timeout")),
        (Score(0.5), Score(0.5)),
        (0.5, Score(0.5)),
        (-3, Score(-3.0)),
        (True, Score(1.0)),
        (False, Score(0.0)),
        (np.True_, Score(1.0)),
        (np.float32(0.25), Score(0.25)),
        (np.int64(2), Score(2.0)),
    ],
)
def test_return_values_have_one_meaning(value: Outcome | float | bool | None, outcome: Outcome) -> None:
    """Fault E3: None is no opinion, not 0."""
    assert judged_by(lambda _p, _s: value) == outcome


@pytest.mark.parametrize(
    "value",
    [
        *[float("nan"), float("inf"), -float("inf"), np.float64("nan"), 10**400],
        *[[1.0], [1.0, 0.0], (), np.array([1.0]), np.array(1.0), np.zeros(3)],
        *["1", b"1", {}, {"reward": 1.0}, 1j, object],
    ],
    ids=repr,
)
def test_other_values_name_scorer_and_sample(value: object) -> None:
    """Fault E3: NaN, infinities, a wrong length or type stop with the scorer's and the sample's name."""
    with pytest.raises(InputError, match=r"'reward'.*p/3.*return"):
        judged_by(lambda _p, _s: value)  # type: ignore[arg-type, return-value]


def test_a_nan_inside_a_score_names_scorer_and_sample() -> None:
    """Fault E3."""
    with pytest.raises(InputError, match=r"'reward' on sample p/3: a score must be a finite number"):
        judged_by(lambda _p, _s: Score(float("nan")))


def test_an_exception_is_a_counted_failure_of_that_sample_alone() -> None:
    """Fault G12: two finished, one cut off, one that crashes the scorer: the others keep their scores."""

    def brittle(_prompt: Prompt, given: Sample) -> float:
        return float(given.text)

    task = Task(name="t", prompts=[PROMPT], scorers={"reward": brittle})
    texts = ["1", "2", "0.5", "none"]
    samples = [sample(text, index=i, finish="length" if i == 2 else "stop") for i, text in enumerate(texts)]
    scored = [score_sample(task, PROMPT, one) for one in samples]
    check_failures(scored, 0.5)
    outcomes = [one.scores["reward"] for one in scored]
    assert outcomes[:3] == [Score(1), Score(2), Score(0.5)]
    assert isinstance(outcomes[3], Failed)
    assert outcomes[3].reason == "crashed"
    assert "could not convert" in outcomes[3].detail
    metrics = outcome_metrics([one.scores for one in scored])
    assert metrics["score/reward"].value == pytest.approx(3.5 / 3)
    assert metrics["score/reward/failed_crashed"].value == 0.25
    assert metrics["score/reward/abstained"].value == 0.0


def test_failures_of_every_reason_add_up_under_the_name_that_the_health_rule_reads() -> None:
    """Fault G12: the rule once waited for a name that no run ever wrote."""
    rows: list[Outcome] = [*(Failed(reason) for reason in get_args(FailureReason)), Abstain(), Score(1), Score(1)]
    metrics = outcome_metrics([{"judge": outcome} for outcome in rows])
    reasons = [m.value for name, m in metrics.items() if name.startswith("score/judge/failed_")]
    assert len(reasons) == len(get_args(FailureReason))
    assert metrics["score/judge/failed"].value == pytest.approx(sum(reasons)) == pytest.approx(5 / 8)
    values = {name: metric.value for name, metric in shown(metrics).items()}
    found = diagnose([values] * 3, Health(window=3))
    assert found is not None and found.rule == "failed" and "scorer judge" in found.message
    healthy = {name: m.value for name, m in shown(outcome_metrics([{"judge": Score(1)}])).items()}
    assert healthy["score/judge/failed"] == 0 and diagnose([healthy] * 3, Health(window=3)) is None
    assert all(entry(name).unit == "share" for name in values if "failed" in name or "abstained" in name)


def test_a_rollout_that_did_not_end_is_not_shown_to_the_scorer() -> None:
    """Fault G12: an aborted or failed rollout never gets a number."""

    def never(_prompt: Prompt, _sample: Sample) -> float:
        raise AssertionError("it was called")

    assert isinstance(judged_by(never, sample("7", finish="aborted")), Abstain)
    assert judged_by(never, sample("7", finish="failed")) == Failed("crashed", "the rollout failed")


def test_the_exit_of_a_scorer_is_a_failed_judgement_and_no_end_of_the_run() -> None:
    """Fault G4: `exit()` in a grader must not end the command, least of all with 0 as if all were done."""

    def leaving(_prompt: Prompt, given: Sample) -> float:
        raise SystemExit(0)

    assert judged_by(leaving, sample("7")) == Failed("crashed", "SystemExit: 0")


def test_a_grader_that_always_raises_stops_the_run_with_its_message() -> None:
    """Fault G4: failures are counted and, above a rate, stop the run; they are never rewards of 0."""

    def broken(_prompt: Prompt, given: Sample) -> float:
        raise TimeoutError("signal only works in main thread" if given.index else "other")

    task = Task(name="t", prompts=[PROMPT], scorers={"fine": lambda _p, _s: 1, "math": broken})
    said = r"'math' failed on 4 of 4 samples \(100%\), each time with crashed .*TimeoutError: signal only.*mend the"
    scored = [score_sample(task, PROMPT, sample("7", index=i)) for i in range(4)]
    with pytest.raises(RunStopped, match=said):
        check_failures(scored, 0.5)


def test_abstentions_do_not_hide_failures() -> None:
    """Fault G4: the rate is taken over judgements, so a scorer that mostly abstains cannot pass."""
    rows: list[Outcome] = [Abstain()] * 8 + [Failed("timeout")] * 2 + [Score(1)]
    samples = [sample("7", index=i).with_scores(reward=outcome) for i, outcome in enumerate(rows)]
    with pytest.raises(RunStopped, match="2 of 3 samples"):
        check_failures(samples, 0.5)
    check_failures(samples, 0.7)
    check_failures(samples[:8], 0.0)


@pytest.mark.parametrize(
    ("failed", "counted"),
    [
        ("drop", 6),
        (0.0, 0),
        ({"wrong_format": 0.0}, 3),
        ({"wrong_format": 0.0, "unparsable": -1.0}, 1),
        ({"refused": 0.0}, 6),
    ],
)
def test_a_failure_that_the_reward_names_a_score_for_is_a_judgement(failed: Any, counted: int) -> None:
    """Fault G4: only failures that nobody has decided upon stop a run; all of those count, of any reason."""
    reasons: list[FailureReason] = ["wrong_format"] * 3 + ["unparsable"] * 2 + ["crashed"]
    outcomes = [*map(Failed, reasons), Score(1), Score(1)]
    samples = [sample("7", index=i).with_scores(maths=outcome) for i, outcome in enumerate(outcomes)]
    components = {"maths": Component(failed=failed)}
    if counted:
        check_failures(samples, counted / 8, components)
        with pytest.raises(RunStopped, match=rf"failed on {counted} of 8 samples"):
            check_failures(samples, counted / 8 - 0.01, components)
    else:
        check_failures(samples, 0.0, components)
    with pytest.raises(RunStopped, match="failed on 6 of 8"):
        check_failures(samples, 0.5, {"other": Component(failed=0.0)})
    shares = {
        reason: outcome_metrics([s.scores for s in samples])[f"score/maths/failed_{reason}"] for reason in reasons
    }
    assert {reason: metric.total for reason, metric in shares.items()} == {
        "wrong_format": 3,
        "unparsable": 2,
        "crashed": 1,
    }


def test_the_stop_sentence_names_reason_share_and_mend() -> None:
    """Fault G4: details of one reason are that reason, however they differ."""
    outcomes = [Failed("unparsable", f"text {n}") for n in range(3)] + [Failed("crashed", "KeyError")] * 2 + [Score(1)]
    samples = [sample("7", index=i).with_scores(**{"a/b": outcome}) for i, outcome in enumerate(outcomes)]
    with pytest.raises(RunStopped) as caught:
        check_failures(samples, 0.5)
    assert str(caught.value) == (
        "scorer 'a/b' failed on 5 of 6 samples (83%), 3 times (50%) with unparsable (most often: text 0): say "
        'what such an answer is worth by reward.components."a/b".failed = { unparsable = 0.0 }, '
        "or raise reward.failure_limit"
    )


def test_grading_is_the_same_in_thread_task_and_process() -> None:
    """Fault G4: main thread, worker thread, asyncio task and child process give one result."""

    async def in_task() -> list[float]:
        async def grade() -> list[float]:
            return graded()

        return await asyncio.create_task(grade())

    expected = list(ANSWERS.values())
    assert graded() == expected
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(graded).result() == expected
    assert asyncio.run(in_task()) == expected
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert processes.submit(graded).result() == expected
