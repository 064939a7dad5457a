"""Scorers of a recipe in a run and in `score`: failures decided upon or not, every kind, Ctrl-C in the middle."""

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from ropewalk.cli.app import run as command
from ropewalk.config.load import load
from ropewalk.records.errors import RunStopped
from ropewalk.records.score import Score
from ropewalk.runtime.assemble import the_task
from ropewalk.runtime.config import Judging
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.train import train
from ropewalk.tasks.scoring.kinds.config import ScorerSection
from tests.cli.commands import process
from tests.tasks.samples import sample
from tests.tasks.scoring.sandbox.pools import footprint, need_bubblewrap
from tests.tasks.scoring.sandbox.test_shared import offspring

CITIES, SKIES = ("boston", "denver", "austin", "seattle"), ("sunny", "rainy", "windy")


def jsonl(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- failures in a run ----------------------------------------------------------------------------


def settings(policy: Path, folder: Path) -> dict[str, Any]:
    """A tiny policy that never gives an answer, asked for the maths of the weather."""
    rows = [{"prompt": f"[ {city} is {sky}", "gold": 7} for city in CITIES for sky in SKIES]
    return {
        "start_from": str(policy),
        "task": {"kind": "prompts", "scorers": {"right": {"kind": "maths", "places": ["boxed"]}}},
        "data.path": str(jsonl(folder / "rows.jsonl", rows)),
        "reward.components": {"right": {"weight": 1.0}},
        "rollout.prompts": 4,
        "rollout.group_size": 2,
        "stop.iterations": 2,
        "health.no_variance": "warn",
        "health.zero_gradient": "warn",
        "hardware.threads": 1,
    }


def recipe(folder: Path) -> Path:
    path = folder / "mine.toml"
    path.write_text(
        'method = "grpo"\n[task]\nkind = "sums"\n[sampling]\nmax_new_tokens = 6\n[rollout]\ngroup_size = 2\n'
    )
    return path


def test_failures_that_nobody_decided_upon_stop_the_run(tiny_policy: Path, tmp_path: Path) -> None:
    """Faults G4, G12: with the reason, its share and the mend."""
    with pytest.raises(RunStopped) as caught:
        train(recipe(tmp_path), set=settings(tiny_policy, tmp_path), out=tmp_path / "run")
    assert str(caught.value) == (
        "scorer 'right' failed on 8 of 8 samples (100%), each time with wrong_format (most often: no answer at "
        "boxed): say what such an answer is worth by reward.components.right.failed = { wrong_format = 0.0 }, "
        "or raise reward.failure_limit"
    )


def test_failures_that_the_reward_decides_upon_are_judgements(tiny_policy: Path, tmp_path: Path) -> None:
    """Faults G4, Q4: the mend that the sentence names lets the run go on, and every failure is still counted."""
    decided = {**settings(tiny_policy, tmp_path), "reward.components.right.failed": {"wrong_format": 0.0}}
    run = train(recipe(tmp_path), set=decided, out=tmp_path / "run")
    for row in run.metrics():
        assert row["reward/mean"] == 0.0 and row["reward/invalid"] == 0.0
        assert row["score/right/failed"] == row["score/right/failed_wrong_format"] == 1.0


@pytest.mark.parametrize("name", ["grpo-gsm8k", "grpo-sums"])
def test_the_recipes_with_gold_numbers_drop_no_answer(name: str, tmp_path: Path) -> None:
    """Fault Q4: a policy that gives no answer yet is wrong, not unjudged, so no row is lost."""
    rows = jsonl(tmp_path / "rows.jsonl", [{"question": f"{n}?", "answer": f"#### {n}"} for n in range(4)])
    read: Any = read_recipe(name, {"data.path": str(rows)} if name == "grpo-gsm8k" else {})
    task = the_task(read.task, read.data, None)
    prompt = task.split("train")[0]
    for text in ("", "no", "\\boxed{", "9" * 500, "1/0", "答案是七", "\x00"):
        for scorer in task.scorers.values():
            assert isinstance(scorer(prompt, sample(text)), Score | bool)


# --- score ----------------------------------------------------------------------------------------

EVERY = {
    "number": {"kind": "number"},
    "maths": {"kind": "maths", "places": ["whole"]},
    "exact": {"kind": "exact", "at": "tags"},
    "fuzzy": {"kind": "fuzzy", "at": "marked"},
    "choice": {"kind": "choice"},
    "pattern": {"kind": "pattern", "pattern": "[0-9]"},
    "tags": {"kind": "tags"},
    "json": {"kind": "json", "at": "tags", "json_schema": {"type": "integer"}},
    "length": {"kind": "length", "low": 1},
    "language": {"kind": "language", "language": "en"},
    "phrases": {"kind": "phrases", "required": ["seven"]},
    "instructions": {"kind": "instructions"},
    "code": {"kind": "code", "credit": {"kind": "tests"}, "form": "continuation"},
    "smt": {"kind": "smt"},
    "python": {"kind": "python", "path": "mine.py"},
}
INFO = {
    "choices": ["6", "7"],
    "instruction_id_list": ["punctuation:no_comma"],
    "smt": {"kind": "values", "problem": "(declare-const x Int) (assert (> x 3))"},
    "prefix": "def seven():\n    return 7  # ",
    "tests": {"hidden": [{"call": "seven", "expected": 7}]},
}
SAID = "<think>three and four are seven</think><answer>7</answer>"


def score_folder(folder: Path, scorers: dict[str, Any]) -> None:
    (folder / "mine.py").write_text("def score(prompt, sample):\n    return float(str(prompt.gold) in sample.text)\n")
    lines = ['[data]\npath = "rows.jsonl"\n[task]\nkind = "prompts"']
    for name, section in scorers.items():
        lines.append(f"[task.scorers.{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in section.items()]
    lines.append("[reward.components.maths]\nfailed = { unparsable = 0.25 }" if "maths" in scorers else "")
    (folder / "task.toml").write_text("\n".join(lines))
    jsonl(folder / "rows.jsonl", [{"id": name, "prompt": f"{name}?", "gold": "7", "info": INFO} for name in "ab"])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + " }"
    return json.dumps(value)


def test_every_kind_scores_a_file_and_says_in_words_what_it_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_bubblewrap()
    kinds = {str(variant.model_fields["kind"].default) for variant in get_args(get_args(ScorerSection)[0])}
    assert set(EVERY) == kinds
    monkeypatch.chdir(tmp_path)
    score_folder(tmp_path, EVERY)
    jsonl(tmp_path / "told.jsonl", [{"prompt_id": "a", "completion": SAID}, {"prompt_id": "b", "completion": ""}])
    before = footprint()
    assert command(["score", "task.toml", "told.jsonl", "--explain", "1", "--json"]) == 0
    assert not footprint().beyond(before)
    told = json.loads(capsys.readouterr().out)
    right = {name: about["mean"] for name, about in told["scorers"].items() if about["scored"] == 2}
    assert right["number"] == right["pattern"] == right["tags"] == right["python"] == 0.5
    assert right["code"] == 1.0, "an empty completion leaves the prefix as it is"
    for name in ("maths", "smt"):
        assert told["scorers"][name]["failed"], "a text that is no answer is told from a wrong one"
    words = "\n".join(told["explained"]["words"])
    for said in (
        "maths: failed: unparsable",
        "which counts as raw 0.25",
        "(the number read is 7, the gold answer '7')",
        "(it chooses B, the gold answer is 7)",
        "(it has 10 words)",
        "(all are followed)",
        "(hidden tests: 1 of 1 passed)",
        "python: score 1 (recorded only)",
        "reward: +0.25 = 0.25",
    ):
        assert said in words, (said, words)


def test_a_row_of_a_mixture_is_explained_by_its_own_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.toml").write_text(
        '[task]\nkind = "mixture"\n[task.parts.sums.task]\nkind = "sums"\n'
        '[task.parts.sums.task.scorers.short]\nkind = "length"\nhigh = 1\n'
        '[task.parts.city.task]\nkind = "city"\nprompts = 8\n'
        "[reward.components.short]\n[reward.components.truth]\n"
    )
    read = load(Judging, {"task": {"kind": "mixture", "parts": {"sums": {"task": {"kind": "sums"}}}}})
    asked = the_task(read.task, None, None).split("train")[0].id
    jsonl(tmp_path / "told.jsonl", [{"prompt_id": asked, "completion": "it is 2"}])
    assert command(["score", "task.toml", "told.jsonl", "--explain", "1", "--json"]) == 0
    words = json.loads(capsys.readouterr().out)["explained"]["words"]
    assert words[0] == "short: raw 0, times the weight 1 adds +0 (it has 3 words)"


def test_ctrl_c_in_the_middle_of_scoring_leaves_no_program_behind(tmp_path: Path) -> None:
    """Fault G9."""
    need_bubblewrap()
    patient = "{ test_seconds = 200.0, program_seconds = 200.0, cpu_seconds = 200 }"
    score_folder(tmp_path, {"code": {"kind": "code"}})
    path = tmp_path / "task.toml"
    path.write_text(path.read_text() + f"\nsandbox = {patient}\n")
    jsonl(tmp_path / "told.jsonl", [{"prompt_id": "a", "completion": "```python\nwhile True: pass\n```"}] * 3)
    with process("score", "task.toml", "told.jsonl", cwd=tmp_path) as started:
        try:
            deadline = time.monotonic() + 60
            while len(found := offspring(started.pid)) < 3 and time.monotonic() < deadline:
                assert started.poll() is None, started.communicate()
                time.sleep(0.05)
            assert len(found) >= 3, "a program runs"
            started.send_signal(signal.SIGINT)
            out, err = started.communicate(timeout=120)
            assert started.returncode == 130 and "Traceback" not in err and not out
            deadline = time.monotonic() + 60
            while any(Path(f"/proc/{pid}").exists() for pid in found) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not [pid for pid in found if Path(f"/proc/{pid}").exists()]
        finally:
            started.kill()
