"""Completions in a file: the rewards of the run that made them, the forms a row may have, and what is refused."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError
from ropewalk.records.files import read_jsonl
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.score import Failed, Outcome
from ropewalk.runtime.jobs.sample import sample
from ropewalk.runtime.jobs.score_file import Judge, ScoredFile, judge_of, score_file
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train
from ropewalk.tasks.scoring.config import Component, Gate, LinearLength, Reward, ZScore
from ropewalk.tasks.task import Task
from tests.runtime.runs import COMPOSED, ONLINE

PROMPTS = [
    Prompt("a", "say a", gold="a", info={"domain": "letters"}),
    Prompt("b", (Message("system", "be short"), Message("user", "say b")), gold="b"),
]


def graded(prompt: Prompt, answer: Any) -> Outcome | float | None:
    if answer.text == "loop":
        return Failed("timeout", "10 s")
    return None if not answer.text else float(str(prompt.gold) in answer.text)


TASK = Task("letters", {"train": PROMPTS}, {"right": graded, "length": lambda prompt, s: float(len(s.text))})


def scored(rows: Iterable[Mapping[str, Any]], folder: Path, reward: Reward | None = None) -> ScoredFile:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return score_file(Judge(TASK, reward or Reward(), {}), path)


def rewards(found: ScoredFile) -> list[Any]:
    return [record["reward"] for record in found.composed.records]


# --- as a run does --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tiny_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = {**ONLINE, **COMPOSED, "start_from": str(tiny_policy), "hardware.threads": 1, "stop.iterations": 2}
    return train("city-grpo", set=settings, out=tmp_path_factory.mktemp("scored") / "run")


def test_a_file_is_given_the_rewards_of_the_run(run: Run, tmp_path: Path) -> None:
    """Of its first iteration, part by part: by the samples it showed, and by the rollouts it recorded."""
    shown = [row for row in read_jsonl(run.samples_file) if row["iteration"] == 1]
    parts = [{name: row.get(name) for name in ("components", "terms", "reward")} for row in shown]
    assert len({part["reward"] for part in parts}) > 1
    (tmp_path / "shown.jsonl").write_text("".join(json.dumps(row) + "\n" for row in shown))
    for path in (tmp_path / "shown.jsonl", run.rollouts / "iteration-000001.jsonl"):
        found = score_file(str(run.folder), path)
        assert [{name: record.get(name) for name in parts[0]} for record in found.composed.records] == parts
    metrics = run.metrics()[0]
    assert found.summary()["reward"] == metrics["reward/mean"]
    assert found.scorers["truth"]["mean"] == pytest.approx(metrics["score/truth/mean"])
    assert found.scorers["truth"]["adds"] == metrics["reward/part/truth"]


def test_what_sample_writes_is_scored_as_it_was(tiny_policy: Path, tmp_path: Path) -> None:
    settings = {"start_from": str(tiny_policy), "rollout.prompts": 3, "hardware.threads": 1}
    sample("city-pairs", out=tmp_path / "s.jsonl", set=settings)
    found = score_file("city-pairs", tmp_path / "s.jsonl")
    found.write(tmp_path / "again.jsonl")
    before, after = read_jsonl(tmp_path / "s.jsonl"), read_jsonl(tmp_path / "again.jsonl")
    assert [{**row, "components": None} for row in after] == [{**row, "components": None} for row in before]


# --- forms of a row -------------------------------------------------------------------------------


def test_a_prompt_is_named_or_told(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "a", "completion": "a"},
        {"prompt": "say a", "completion": "b"},
        {"prompt_id": "b", "prompt": "system:\nbe short\n\nuser:\nsay b", "completion": "b", "finish": "length"},
        {"prompt": "say c", "gold": "c", "completion": "c", "mine": [1]},
        {"prompt": [{"role": "user", "content": "say d"}], "gold": "d", "completion": "c"},
        {"prompt_id": "a", "gold": "z", "completion": "z"},
    ]
    found = scored(rows, tmp_path)
    assert rewards(found) == [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    assert [line.prompt.id for line in found.lines[:3]] == ["a", "a", "b"]
    assert [about.domain for about in found.about] == ["letters", "letters", "", "", "", "letters"]
    found.write(tmp_path / "out.jsonl")
    assert [
        {k: v for k, v in row.items() if k in rows[i]} for i, row in enumerate(read_jsonl(tmp_path / "out.jsonl"))
    ] == rows


def test_outcomes_stay_apart_in_table_and_file(tmp_path: Path) -> None:
    """Faults E3, G4: a failure, an abstention and a zero are three things."""
    found = scored([{"prompt_id": "a", "completion": text} for text in ("a", "x", "", "loop")], tmp_path)
    assert rewards(found) == [1.0, 0.0, None, None]
    assert found.scorers["right"] == {
        "mean": 0.5,
        "scored": 2,
        "failed": {"timeout": 1},
        "abstained": 1,
        "gated": 0,
        "adds": None,
    }
    assert found.summary() | {"scorers": None} == {
        "task": "letters",
        "rows": 4,
        "rewarded": 2,
        "reward": 0.5,
        "scorers": None,
    }
    found.write(tmp_path / "out.jsonl")
    written = [row["scores"]["right"] for row in read_jsonl(tmp_path / "out.jsonl")]
    assert written == [1.0, 0.0, "abstained", "failed (timeout): 10 s"]


def test_a_lost_rollout_has_no_reward(tmp_path: Path) -> None:
    """Fault G12: neither one that failed nor one that was aborted."""
    rows = [
        {"prompt_id": "a", "completion": "a", "finish": finish} for finish in ("stop", "length", "failed", "aborted")
    ]
    assert rewards(scored(rows, tmp_path)) == [1.0, 1.0, None, None]


def test_a_learned_score_is_the_one_in_the_row(tmp_path: Path) -> None:
    reward = Reward(components={"reward_model": Component(gates=(Gate(on="right"),)), "right": Component()})
    outcomes = [2.5, "abstained: no opinion", "failed (refused): it was asked twice"]
    rows = [{"prompt_id": "a", "completion": "a", "scores": {"reward_model": shown}} for shown in outcomes]
    found = scored(rows, tmp_path, reward)
    assert rewards(found) == [3.5, 1.0, None]
    assert found.scorers["reward_model"]["failed"] == {"refused": 1}
    found.write(tmp_path / "out.jsonl")
    assert [row["scores"]["reward_model"] for row in read_jsonl(tmp_path / "out.jsonl")] == outcomes
    with pytest.raises(InputError, match=r"rows\.jsonl line 1 has no score of 'reward_model', and no model is loaded"):
        scored([{"prompt_id": "a", "completion": "a"}], tmp_path, reward)


def test_the_rows_of_a_file_are_one_batch(tmp_path: Path) -> None:
    reward = Reward(components={"length": Component(normalise=ZScore())}, length=LinearLength(at_tokens=10))
    rows = [{"prompt_id": "a", "completion": "x" * n, "tokens": n} for n in (1, 2, 3)]
    assert rewards(scored(rows, tmp_path, reward)) == pytest.approx([-1.1, -0.2, 0.7])


def test_old_parts_do_not_outlive_a_new_scoring(tmp_path: Path) -> None:
    row = {"prompt_id": "a", "completion": "a", "terms": {"length": -1.0}, "reward": 9.0, "components": {"x": {}}}
    scored([row], tmp_path).write(tmp_path / "out.jsonl")
    (written,) = read_jsonl(tmp_path / "out.jsonl")
    assert written["reward"] == 1.0 and "terms" not in written and [*written["components"]] == ["right"]


def test_half_characters_are_written_as_they_came(tmp_path: Path) -> None:
    row = {"prompt_id": "a", "completion": "a\ud800", "note": "\udfff é"}
    scored([row], tmp_path).write(tmp_path / "out.jsonl")
    (written,) = read_jsonl(tmp_path / "out.jsonl")
    assert {key: written[key] for key in row} == row and written["reward"] is not None


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt_id": "a"}, "has no completion"),
        ({"prompt_id": "a", "completion": 3}, "has no completion"),
        ({"prompt_id": "zz", "completion": "x"}, "prompt 'zz' is none of task 'letters'"),
        ({"completion": "x"}, "without a prompt_id is none of"),
        ({"prompt": "say q", "completion": "q"}, "give its gold answer, or an info"),
        ({"prompt": 3, "gold": "q", "completion": "q"}, "prompt"),
        ({"prompt_id": "a", "prompt": "say b", "completion": "x"}, "prompt 'a' reads otherwise in task"),
        ({"prompt_id": "a", "completion": "x", "tokens": -1}, "tokens = -1"),
        ({"prompt_id": "a", "completion": "x", "tokens": 10**14}, f"tokens = {10**14}"),
        ({"prompt_id": "a", "completion": "x", "tokens": "7"}, "tokens = '7'"),
        ({"prompt_id": "a", "completion": "x", "finish": "eos"}, "finish = 'eos': it is one of stop, length"),
        ({"prompt_id": "a", "completion": "x", "info": []}, "info that is no object"),
        ({"prompt_id": "a", "completion": "x", "info": {"domain": 7}}, "has a int for its domain"),
        ([1], "is not a JSON object"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(row: Any, said: str, tmp_path: Path) -> None:
    """Fault G10: what cannot be judged is refused, never rewarded."""
    with pytest.raises(InputError) as error:
        scored([{"prompt_id": "a", "completion": "a"}, row], tmp_path)
    message = str(error.value)
    assert "rows.jsonl line 2" in message and said in message and "\n" not in message


def test_a_length_that_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1 has no tokens, and the reward looks at length"):
        scored([{"prompt_id": "a", "completion": "a"}], tmp_path, Reward(length=LinearLength(at_tokens=3)))


@pytest.mark.parametrize("text", ["", "\n\n", "{", '{"a": NaN}\n', "\x00\x01"])
def test_a_file_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=r"rows\.jsonl"):
        score_file(Judge(TASK, Reward(), {}), path)


def test_a_row_is_asked_for_by_its_number(tmp_path: Path) -> None:
    found = scored([{"prompt_id": "a", "completion": text} for text in ("a", "x")], tmp_path)
    assert found.explained(2) == [
        "right: raw 0, times the weight 1 adds +0",
        "length: score 1 (recorded only)",
        "reward: +0 = 0",
    ]
    for row in (0, 3, -1):
        with pytest.raises(InputError, match="the file has rows 1 to 2"):
            found.explained(row)


# --- by what --------------------------------------------------------------------------------------


def test_a_task_is_named_in_many_ways(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.py").write_text(
        "from ropewalk import Task\nTASK = Task('mine', ['x', 'y'], {'one': lambda p, s: 1})\n"
    )
    (tmp_path / "t.toml").write_text('[task]\nkind = "sums"\n[reward.components.format]\nweight = 2.0\n')
    mine = judge_of(str(tmp_path / "t.py"), {"reward.components.one.weight": 3.0})
    assert (mine.task.name, mine.reward.components["one"].weight) == ("mine", 3.0)
    file = judge_of(str(tmp_path / "t.toml"), {"task.high": 5})
    assert (file.task.name, [*file.reward.components]) == ("sums", ["format"])
    assert judge_of("city").reward == Reward()
    assert judge_of("city-grpo").task.name == judge_of(str(run.folder)).task.name == "city"


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("nowhere", {}, "there is no recipe nowhere"),
        ("sft-chat", {}, "has no task to score by"),
        ("gone.py", {}, "there is no task file"),
        ("gsm8k", {}, "set data.path"),
        ("sums", {"task.hihg": 3}, "hihg"),
        ("t.py", {"task.high": 3}, "task.high cannot be set"),
        ("t.toml", {}, "t.toml: unknown key 'rewrad'"),
    ],
)
def test_a_wrong_name_is_told(
    name: str, settings: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text('[task]\nkind = "sums"\n[rewrad]\n')
    with pytest.raises((InputError, ConfigError), match=said):
        judge_of(name, settings)


def test_a_run_of_a_task_object_asks_for_its_file(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(
        'method = "grpo"\nstart_from = "x"\n[task]\nkind = "given"\n[rollout]\ngroup_size = 2\n'
    )
    with pytest.raises(InputError, match="name the Python file"):
        judge_of(str(tmp_path))
