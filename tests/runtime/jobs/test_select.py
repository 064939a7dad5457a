"""Choosing prompts by the policy's own pass rates: they are recovered, kept through a kill, and what is kept trains."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import ConfigError, to_toml
from ropewalk.records.errors import InputError
from ropewalk.records.files import read_jsonl
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.runtime.jobs import select as module
from ropewalk.runtime.jobs.select import SelectedPrompts, select
from ropewalk.runtime.lock import locked
from ropewalk.runtime.recipe import load_recipe
from ropewalk.runtime.train import train
from ropewalk.tasks.config import PromptsTask
from ropewalk.tasks.load import load_task
from ropewalk.tasks.task import Task
from tests.runtime.runs import Crash, Starts, settings_of
from tests.tasks.judging.judge_server import preferring, serving

TRUE = {"never": 0.0, "seldom": 0.2, "often": 0.8, "always": 1.0, "half": 0.5}


def coin(prompt: Prompt, sample: Sample) -> Outcome | bool:
    """Passes at the prompt's true rate, by the sample's own seed; every sixteenth cannot be judged."""
    if prompt.id == "broken" or sample.seed % 16 == 15:
        return Failed("crashed")
    return (sample.seed >> 8) % 1000 < 1000 * TRUE[prompt.id.partition("-")[0]]


def coins(each: int = 4) -> Task:
    prompts = [
        Prompt(f"{name}-{n}", "[ " + ["boston", "denver", "austin", "seattle"][n % 4], gold=n, info={"k": n})
        for n in range(each)
        for name in TRUE
    ]
    return Task(
        "coins", {"train": [*prompts, Prompt("broken", "[ portland")], "heldout": ["[ chicago"]}, {"coin": coin}
    )


def settings(policy: Path, **more: Any) -> dict[str, Any]:
    return {
        "start_from": str(policy),
        "hardware.threads": 1,
        "select.samples": 24,
        "sampling.max_new_tokens": 2,
        **more,
    }


@pytest.fixture(scope="module")
def chosen(tiny_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> SelectedPrompts:
    out = tmp_path_factory.mktemp("select") / "whole"
    return select("city-grpo", out=out, task=coins(), set=settings(tiny_policy))


def test_known_pass_rates_are_recovered_within_their_intervals(chosen: SelectedPrompts) -> None:
    """Of twenty 95 % intervals at most four miss; what is certain is certain."""
    missed = 0
    for row in read_jsonl(chosen.files.prompts):
        if row["prompt_id"] == "broken":
            assert (row["judged"], row["unjudged"], row["rate"], row["fate"]) == (0, 24, None, "unjudged")
            continue
        true = TRUE[row["prompt_id"].partition("-")[0]]
        missed += not row["low"] <= true <= row["high"]
        assert row["judged"] + row["unjudged"] == 24 and row["rate"] == row["passed"] / row["judged"]
        if true in (0, 1):
            assert row["rate"] == true and row["fate"] == ("too_easy" if true else "too_hard")
    assert missed <= 4


def test_what_is_kept_carries_all_that_training_needs(chosen: SelectedPrompts) -> None:
    kept = read_jsonl(chosen.files.kept)
    names = {row["id"].partition("-")[0] for row in kept}
    assert names == {"seldom", "often", "half"}
    table = {row["prompt_id"]: row for row in read_jsonl(chosen.files.prompts)}
    for row in kept:
        assert row["gold"] == row["info"]["k"] and row["info"]["source"] == "coins"
        assert row["info"]["pass_rate"] == table[row["id"]]["rate"] and 0.1 <= row["info"]["pass_rate"] <= 0.9
        assert row["info"]["difficulty"] == table[row["id"]]["bucket"] in ("easy", "medium", "hard")


def test_the_summary_adds_up(chosen: SelectedPrompts) -> None:
    summary = json.loads(chosen.files.summary.read_text())
    assert summary == json.loads(json.dumps(chosen.summary()))
    fates = [summary[name] for name in ("kept", "too_hard", "too_easy", "crowded", "unjudged")]
    assert sum(fates) == summary["prompts"] == 21 and summary["unjudged"] == 1
    assert sum(summary["buckets"].values()) == summary["kept"] == sum(bin["kept"] for bin in summary["histogram"])
    assert sum(bin["prompts"] for bin in summary["histogram"]) == 20
    assert any("more samples might change" in sentence for sentence in summary["words"])


class Stops:
    """Progress that ends the process's work after so many prompts."""

    def __init__(self, after: int) -> None:
        self.after, self.sampling = after, False

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.sampling = what == "sampling"

    def advance(self, done: int, note: str = "") -> None:
        if self.sampling and done >= self.after:
            raise Crash

    def say(self, line: str) -> None: ...


@pytest.mark.parametrize("torn", [0, 1, 500, 5000])
def test_a_killed_selection_goes_on_and_ends_the_same(
    chosen: SelectedPrompts, tiny_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: int
) -> None:
    """Fault I3: whole prompts are kept, a torn tail is drawn anew; file for file what an uninterrupted one leaves,
    whatever the size of the chunks."""
    monkeypatch.setattr(module, "CHUNK_SAMPLES", 72)
    asked = settings(tiny_policy)
    with pytest.raises(Crash):
        select("city-grpo", out=tmp_path / "s", task=coins(), set=asked, progress=Stops(7))
    samples = tmp_path / "s" / "samples.jsonl"
    assert len(read_jsonl(samples)) == 9 * 24
    whole = samples.read_bytes()
    samples.write_bytes(whole[: len(whole) - torn])
    begun: list[tuple[str, int]] = []

    class Listens(Stops):
        def begin(self, what: str, total: int, done: int = 0) -> None:
            begun.append((what, done))

    found = select("city-grpo", out=tmp_path / "s", task=coins(), set=asked, progress=Listens(99))
    assert dict(begun)["sampling"] == (9 if not torn else 8 if torn < 5000 else dict(begun)["sampling"])
    for name in ("samples", "prompts", "kept"):
        assert getattr(found.files, name).read_bytes() == getattr(chosen.files, name).read_bytes(), name


def test_other_bounds_decide_anew_on_the_samples_that_are_there(tiny_policy: Path, tmp_path: Path) -> None:
    asked = settings(tiny_policy)
    first = select("city-grpo", out=tmp_path / "s", task=coins(1), set=asked)
    before = first.files.samples.read_bytes()
    wider = {"select.keep.low": 0.0, "select.keep.high": 1.0, "select.keep.least_judged": 2}
    again = select("city-grpo", out=tmp_path / "s", task=coins(1), set={**asked, **wider})
    assert [one.rate.prompt_id for one in again.selection.kept] == [f"{name}-0" for name in TRUE]
    assert again.files.samples.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"seed": 1}, "task"),
        ({"select.samples": 5}, "samples"),
        ({"sampling.temperature": 0.5}, "sampling"),
        ({"start_from": "@other"}, "policy"),
    ],
    ids=["seed", "samples", "sampling", "policy"],
)
def test_samples_of_another_policy_or_setting_are_never_mixed_in(
    tiny_policy: Path, tmp_path: Path, change: dict[str, Any], other: str
) -> None:
    """Fault I4; --overwrite begins anew."""
    if "start_from" in change:
        more = {"model": "none", "start_from": str(tiny_policy), "data.sentences": 60, "hardware.threads": 1}
        change = {"start_from": str(train("city-pretrain", set=more, out=tmp_path / "other").folder)}
    asked = settings(tiny_policy, **{"select.samples": 4})
    select("city-grpo", out=tmp_path / "s", task=coins(1), set=asked)
    with pytest.raises(InputError, match=f"holds samples of another selection .other {other}"):
        select("city-grpo", out=tmp_path / "s", task=coins(1), set={**asked, **change})
    select("city-grpo", out=tmp_path / "s", task=coins(1), set={**asked, **change}, overwrite=True)


def test_a_folder_of_something_else_is_left_alone(tiny_policy: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no selection"):
        select("city-grpo", out=tmp_path / "precious", task=coins(1), set=settings(tiny_policy), overwrite=True)
    assert (tmp_path / "precious" / "notes.txt").read_text() == "mine"


def test_overwriting_a_selection_leaves_other_files_alone(tiny_policy: Path, tmp_path: Path) -> None:
    asked = settings(tiny_policy, **{"select.samples": 4})
    select("city-grpo", out=tmp_path / "s", task=coins(1), set=asked)
    (tmp_path / "s" / "notes.txt").write_text("mine")
    twice = Task("twice", [Prompt("a", "[ boston"), Prompt("a", "[ denver")], {"coin": coin})
    with pytest.raises(InputError, match="ids must be unique"):
        select("city-grpo", out=tmp_path / "s", task=twice, set=asked, overwrite=True)
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["notes.txt"]


def test_a_folder_in_which_another_process_works_is_left_alone(
    tiny_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with --overwrite, and before the other one has written anything."""
    (tmp_path / "s").mkdir()
    with locked(tmp_path / "s", wait_seconds=0), pytest.raises(InputError, match="another process"):
        monkeypatch.setattr(module, "locked", lambda folder: locked(folder, wait_seconds=0.1))
        select("city-grpo", out=tmp_path / "s", task=coins(1), set=settings(tiny_policy), overwrite=True)
    assert (tmp_path / "s").is_dir()


def test_a_run_folder_asks_its_own_policy(tiny_policy: Path, tmp_path: Path) -> None:
    """RUN and RUN@best; the recipe is the run's, and --set still counts."""
    own = {"start_from": str(tiny_policy), "hardware.threads": 1, "task.prompts": 8, "stop.iterations": 2}
    run = train("city-grpo", set={**own, "rollout.prompts": 2, "rollout.group_size": 2}, out=tmp_path / "run")
    asked = {"select.samples": 2}
    of_run = select(run.folder, out=tmp_path / "a", set=asked)
    same = select("city-grpo", out=tmp_path / "b", set={**own, **asked, "start_from": str(run.folder)})
    best = select(f"{run.folder}@best", out=tmp_path / "c", set={**asked, "select.prompts": 3})
    assert of_run.files.samples.read_bytes() == same.files.samples.read_bytes()
    assert len(best.selection.prompts) == 3
    with pytest.raises(InputError, match="is not a run folder"):
        select("city-grpo@best", out=tmp_path / "d")


def test_what_passes_may_be_said_by_a_scorer(tiny_policy: Path, tmp_path: Path) -> None:
    asked = settings(tiny_policy, **{"task.prompts": 6, "select.samples": 4})
    rule = {"kind": "score", "scorer": "truth", "at_least": -2.0}
    found = select("city-grpo", out=tmp_path / "s", set={**asked, "select.passes": rule})
    rows = read_jsonl(found.files.samples)
    passed = {one.rate.prompt_id: one.rate.passed for one in found.selection.prompts}
    assert sum(passed.values()) == sum(row["scores"]["truth"] >= -2 for row in rows)
    with pytest.raises(InputError, match="is scored by nobody: there are truth, grammatical"):
        select("city-grpo", out=tmp_path / "s", set={**asked, "select.passes": {**rule, "scorer": "truht"}})


def test_what_passes_may_be_said_by_a_judge(tiny_policy: Path, tmp_path: Path) -> None:
    """Only that judge is asked, and its scores stand in the samples."""
    with serving(preferring(lambda text: float(len(text)))) as server:
        by = {"kind": "server", "base_url": server.url, "model": "judge", "retries": 0}
        judge = {"kind": "pairwise", "by": by, "memory": {"kind": "none"}}
        asked = settings(tiny_policy, **{"task.prompts": 3, "select.samples": 4, "judges": {"critic": judge}})
        rule = {"kind": "score", "scorer": "critic", "at_least": 0.5}
        select("city-grpo", out=tmp_path / "plain", set=asked)
        assert not server.asked, "a judge that says nothing of what passes is left alone"
        found = select("city-grpo", out=tmp_path / "s", set={**asked, "select.passes": rule})
        assert server.asked
    rows = read_jsonl(found.files.samples)
    passed = sum(row["scores"]["critic"] >= 0.5 for row in rows if isinstance(row["scores"]["critic"], float))
    assert sum(one.rate.passed for one in found.selection.prompts) == passed > 0


def test_a_selection_trains_by_id_and_as_a_file(tiny_policy: Path, tmp_path: Path) -> None:
    """Prompts of a program train by `rollout.only`; a file of chosen prompts is the file of a task, too."""
    recipe, mixed = settings_of("grpo-mixed", Starts(tiny_policy, tiny_policy, tiny_policy))
    wide = {"select.samples": 4, "select.keep.low": 0, "select.keep.high": 1, "rollout.only": "none"}
    found = select(recipe, out=tmp_path / "s", set={**mixed, **wide})
    ids = {one.rate.prompt_id for one in found.selection.kept}
    assert {id.partition("/")[0] for id in ids} == {"near", "far"} and len(ids) == 19
    only = {"rollout.only": str(found.files.kept), "stop.iterations": 2}
    run = train(recipe, set={**mixed, **only}, out=tmp_path / "run")
    assert {row["prompt_id"] for row in read_jsonl(run.samples_file)} <= ids

    asked = Task(
        "asked",
        {
            "train": [Prompt("a", (Message("system", "Be brief."), Message("user", "2 + 2 ?")), gold=4)],
            "heldout": ["x"],
        },
        {"one": lambda prompt, sample: Score(float(sample.index % 2))},
    )
    module._write(
        SelectedPrompts(module.Files(tmp_path), asked.name, 2, _chosen("a")), {p.id: p for p in asked.split("train")}
    )
    task = load_task(PromptsTask(), tmp_path / "kept.jsonl")
    (prompt,) = task.split("train")
    assert (prompt.id, prompt.dialogue, prompt.gold) == ("a", asked.split("train")[0].dialogue, 4)
    assert prompt.info == {"source": "asked", "difficulty": "medium", "pass_rate": 0.5}


def _chosen(id: str) -> Any:
    from ropewalk.data.config import Buckets, Coverage, Keep
    from ropewalk.data.select.rates import PassRate
    from ropewalk.data.select.selection import choose

    return choose([PassRate(id, "2 + 2 ?", 1, 2)], Keep(), Buckets(), Coverage())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("select.smaples", 7, "samples"),
        ("select.keep.lo", 0.2, "low"),
        ("select.keep.low", 7, "low"),
        ("select.passes.kind", "x", "solved"),
    ],
    ids=lambda value: str(value),
)
def test_unknown_keys_are_refused(tiny_policy: Path, tmp_path: Path, key: str, value: Any, said: str) -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError, match=said):
        select("city-grpo", out=tmp_path / "s", set=settings(tiny_policy, **{key: value}))
    assert not (tmp_path / "s").exists()


def test_wrong_input_leaves_no_folder_behind(tiny_policy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no run or model folder"):
        select("city-grpo", out=tmp_path / "s", task=coins(1), set=settings(tmp_path / "absent"))
    with pytest.raises(InputError, match="ids must be unique"):
        twice = Task("twice", [Prompt("a", "[ boston"), Prompt("a", "[ denver")], {"coin": coin})
        select("city-grpo", out=tmp_path / "s", task=twice, set=settings(tiny_policy))
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"select.samples": 1}, r"select.samples = 1: a band of \[0.1, 0.9\] keeps no prompt of 1 samples"),
        ({"sampling.temperature": 0}, "says the same every time"),
    ],
    ids=["one-sample", "greedy"],
)
def test_what_could_tell_nothing_is_refused_before_anything_is_drawn(
    tiny_policy: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    asked = {"method": "sample", "start_from": str(tiny_policy), "task": {"kind": "city"}}
    (tmp_path / "job.toml").write_text(to_toml(load_recipe(asked)))
    with pytest.raises(InputError, match=said):
        select(tmp_path / "job.toml", out=tmp_path / "s", set=change)
    assert not (tmp_path / "s").exists()


def test_where_nothing_is_kept_the_table_still_says_why(tiny_policy: Path, tmp_path: Path) -> None:
    band = {"select.keep.low": 0.41, "select.keep.high": 0.42}
    found = select("city-grpo", out=tmp_path / "s", task=coins(1), set=settings(tiny_policy, **band))
    assert found.files.kept.read_bytes() == b"" and len(read_jsonl(found.files.prompts)) == 6
    assert math.isclose(sum(bin["prompts"] for bin in found.summary()["histogram"]), 5)
