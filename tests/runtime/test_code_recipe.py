"""The layered code reward in a recipe, from rows to metrics: a tiny policy, HumanEval's own solutions, a real model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.files import read_jsonl
from ropewalk.records.prompt import Message, Prompt
from ropewalk.runtime.jobs.score_file import score_file
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.train import train
from ropewalk.tasks.scoring.code.human_eval import human_eval_prompts
from tests.tasks.scoring.sandbox.pools import footprint, need_bubblewrap

CITIES = ("boston", "denver", "austin", "seattle")
LAYERS = ("format", "compile", "public", "hidden")
TESTS: dict[str, Any] = {
    "public": [{"call": "add", "args": [20, 22], "expected": 42}, {"call": "add", "args": [0, 0], "expected": 0}],
    "hidden": [{"call": "add", "args": [-1, 1], "expected": 0}, {"call": "add", "args": [1, 1], "expected": 2}],
}
# What the policy says is a comment behind each of these: the reward is known whatever it says.
BODIES = {
    "right": ("return a + b", 0.9),
    "half": ("return a + b if a >= 0 else 7", 0.1 + 0.5 + 0.15),
    "examples only": ("return {20: 42, 0: 0}.get(a, 99)", 0.6),
    "wrong": ("return 0", 0.1 + 0.25),
    "broken": ("return a +", 0.1),
    "forbidden": ("import subprocess", 0.0),
    "forever": ("[0 for _ in iter(int, 1)]", 0.1),
}


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need_bubblewrap()


def jsonl(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(bodies: Sequence[str]) -> list[dict[str, Any]]:
    """Two rows a body, as both splits want some, each with another prompt."""
    starts = [f"[ {city} is {sky}" for sky in ("sunny", "rainy", "windy", "cloudy") for city in CITIES]
    infos = [(f"{body} {n}", f"def add(a, b):\n    {BODIES[body][0]}  # ") for body in bodies for n in range(2)]
    return [
        {"id": name, "prompt": start, "info": {"tests": TESTS, "prefix": prefix}}
        for start, (name, prefix) in zip(starts, infos, strict=False)
    ]


PATIENT = {"task.scorers.program.sandbox.test_seconds": 60.0, "task.scorers.program.sandbox.program_seconds": 120.0}
"""On a busy machine honest programs may take seconds; what never ends is ended by its processor time."""


def settings(policy: Path, data: Path) -> dict[str, Any]:
    return {
        "model": "none",
        "start_from": str(policy),
        "data.path": str(data),
        "task.scorers.program.form": "continuation",
        **PATIENT,
        "sampling.max_new_tokens": 8,
        "rollout.prompts": 12,
        "rollout.group_size": 2,
        "stop.iterations": 1,
        "hardware.threads": 1,
    }


def test_a_tiny_policy_is_rewarded_by_layers_and_each_is_in_the_metrics(tiny_policy: Path, tmp_path: Path) -> None:
    """Faults G9, G10: from rows through the sandbox to rewards, rows without tests refused, nothing left behind."""
    rows = rows_of([body for body in BODIES if body != "forever"])
    rows.insert(1, {"prompt": "[ austin has", "info": {"tests": {}}})
    before = footprint()
    run = train("grpo-code", set=settings(tiny_policy, jsonl(tmp_path / "rows.jsonl", rows)), out=tmp_path / "run")
    assert not footprint().beyond(before)
    shown = read_jsonl(run.samples_file)
    assert len(shown) >= 8
    for row in shown:
        body = row["prompt_id"].rpartition(" ")[0]
        assert row["reward"] == pytest.approx(BODIES[body][1]), body
        assert row["components"]["program"]["raw"] == pytest.approx(BODIES[body][1])
        assert set(row["scores"]) >= {"program", *(f"program/{layer}" for layer in LAYERS), "program/timeout"}
    (metrics,) = run.metrics()
    for name in ("program", *(f"program/{layer}" for layer in LAYERS), "program/timeout", "program/wrong"):
        assert 0 <= metrics[f"score/{name}/mean"] <= 1
        assert metrics[f"score/{name}/failed"] == 0
    assert metrics["score/program/mean"] == pytest.approx(metrics["reward/mean"])
    assert metrics["score/program/hidden/abstained"] > 0, "hidden tests are run behind a gate only"


def test_the_recipe_passes_a_dry_run_and_names_its_scorers(tiny_policy: Path, tmp_path: Path) -> None:
    data = jsonl(tmp_path / "rows.jsonl", [*rows_of(["right", "wrong"]), {"prompt": "[ austin has"}])
    changed = {key: value for key, value in settings(tiny_policy, data).items() if "program" not in key}
    found = dry_run(read_recipe("grpo-code", changed))
    facts = dict(found.facts)
    assert found.problems == []
    assert "scorers program, program/format, program/compile, program/public, program/hidden" in facts["task"]
    assert "1 rows of the task" in facts["refused"] and "has no tests that can be used" in facts["refused"]
    wrong = dry_run(read_recipe("grpo-code", {**changed, "task.scorers.program.sandbox.packages": ["nowhere"]}))
    assert any("nowhere" in problem for problem in wrong.problems)


def test_a_row_is_explained_in_words(tmp_path: Path) -> None:
    data = jsonl(tmp_path / "rows.jsonl", [*rows_of(["right", "wrong"])])
    asked = {"data.path": str(data), **PATIENT, "task.scorers.program.sandbox.cpu_seconds": 1}
    fenced = {name: f"```python\ndef add(a, b):\n    {body}\n```" for name, (body, _) in BODIES.items()}
    told = [{"prompt_id": "right 0", "completion": text} for text in (*fenced.values(), "no program")]
    found = score_file("grpo-code", jsonl(tmp_path / "told.jsonl", told), set=asked)
    assert [record["reward"] for record in found.composed.records] == pytest.approx(
        [w for _, w in BODIES.values()] + [0]
    )
    said = {name: " ".join(found.explained(n)) for n, name in enumerate((*BODIES, "none"), 1)}
    assert "raw 0.9, times the weight 1 adds +0.9" in said["right"]
    assert "program/public: score 1" in said["right"] and "program/hidden: score 0.5" in said["half"]
    assert "program/format: score 0" in said["forbidden"] and "(it uses import subprocess" in said["forbidden"]
    assert "it does not compile (SyntaxError" in said["broken"]
    assert "public tests: 1 of 2 passed (number 1 wrong)" in said["wrong"]
    assert "there is no program" in said["none"].lower()
    assert "program/hidden: abstained: public is 0.5, below its gate 1" in said["wrong"]


def human_eval_rows(prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
    return [{"id": p.id, "prompt": [_message(m) for m in p.dialogue], "info": p.info} for p in prompts]


def _message(message: Any) -> dict[str, str]:
    assert isinstance(message, Message)
    return {"role": message.role, "content": message.content}


def check_human_eval(prompts: Sequence[Prompt], folder: Path) -> None:
    data = jsonl(folder / "rows.jsonl", human_eval_rows(prompts))
    told = [{"prompt_id": p.id, "completion": f"So:\n```python\n{p.info['prefix']}{p.gold}\n```"} for p in prompts]
    found = score_file("grpo-code", jsonl(folder / "told.jsonl", told), set={"data.path": str(data)})
    wrong = [
        line.prompt.id
        for line, record in zip(found.lines, found.composed.records, strict=True)
        if record["reward"] != 0.9
    ]
    assert wrong == []


def test_canonical_solutions_are_worth_everything(tmp_path: Path) -> None:
    """Of HumanEval, every sixteenth: rows with and without public examples."""
    check_human_eval(human_eval_prompts()[::16], tmp_path)


@pytest.mark.slow
def test_all_canonical_solutions_are_worth_everything(tmp_path: Path) -> None:
    check_human_eval(human_eval_prompts(), tmp_path)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_model_trains_on_programs(smollm2: Path, tmp_path: Path) -> None:
    data = jsonl(tmp_path / "rows.jsonl", human_eval_rows(human_eval_prompts()[:12]))
    asked = {"model.path": str(smollm2), "data.path": str(data), "rollout.prompts": 2, "rollout.group_size": 4}
    before = footprint()
    run = train("grpo-code", set={**asked, "sampling.max_new_tokens": 160, "stop.iterations": 1}, out=tmp_path / "run")
    assert not footprint().descendants - before.descendants
    (metrics,) = run.metrics()
    assert {f"score/program/{layer}/mean" for layer in LAYERS} <= set(metrics)
    assert metrics["score/program/failed"] == 0
    assert (run.folder / "model" / "model.safetensors").is_file()
