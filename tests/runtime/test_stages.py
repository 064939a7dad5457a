"""Chains of stages: one command, any death, the same results."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.runtime import stage_cache
from ropewalk.runtime.recipe import Stage, StagesRecipe, load_recipe, read_recipe
from ropewalk.runtime.run import Run
from ropewalk.runtime.stages import check_stages, needs, ready, stage_recipe
from ropewalk.runtime.train import train
from tests.runtime.runs import PRELOAD, differences, files, lines, story

MARK = "ROPEWALK_TEST_CHAIN"
STAGES = ("sft", "pairs", "rm", "ppo", "grpo")
TRAINED = ("sft", "rm", "ppo", "grpo")


def chain(policy: Path, *, at_once: int = 1) -> str:
    """SFT → pairs → reward model → PPO, and GRPO beside them: a recipe file's text."""
    rl: dict[str, Any] = {"rollout.prompts": 4, "stop.iterations": 4, "checkpoint.every": 2, "hardware.threads": 1}
    rl |= {"task.prompts": 64}

    stages: list[dict[str, Any]] = [
        {
            "name": "sft",
            "recipe": "city-pretrain",
            "set": {"model": "none", "start_from": str(policy), "data.sentences": 120, "sft.epochs": 2},
        },
        {
            "name": "pairs",
            "recipe": "city-pairs",
            "set": {"start_from": "stage:sft", "rollout.prompts": 100, "hardware.threads": 1},
        },
        {
            "name": "rm",
            "recipe": "city-reward-model",
            "set": {"start_from": "stage:sft@best", "data.path": "stage:pairs/pairs.jsonl", "pairwise.epochs": 1},
        },
        {
            "name": "ppo",
            "recipe": "city-ppo",
            "set": {
                **rl,
                "start_from": "stage:sft",
                "reward_model": "stage:rm@best",
                "reward.components.reward_model.normalise.samples": 16,
            },
        },
        {"name": "grpo", "recipe": "city-grpo", "set": {**rl, "start_from": "stage:sft"}},
    ]
    text = f'method = "stages"\nat_once = {at_once}\n'
    for stage in stages:
        settings = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in stage["set"].items())
        text += f'[[stage]]\nname = "{stage["name"]}"\nrecipe = "{stage["recipe"]}"\nset = {{ {settings} }}\n'
    return text


def chain_story(folder: Path) -> dict[str, Any]:
    """What each stage left, wherever the chain's folder is."""
    told: dict[str, Any] = {name: {**story(Run(folder / name)), "recipe": ""} for name in TRAINED}
    for name in TRAINED:
        told[name]["lineage"] = {k: v for k, v in told[name]["lineage"].items() if k != "start"}
    told["pairs"] = {"metrics": lines(folder / "pairs/samples.jsonl"), "pairs": lines(folder / "pairs/pairs.jsonl")}
    return told


def check_chain(folder: Path, expected: dict[str, Any]) -> None:
    found = chain_story(folder)
    for name in STAGES:
        assert not differences(found[name], expected[name]), name


@pytest.fixture(scope="session")
def whole_chain(tiny_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The story of a chain that ran undisturbed, one stage at a time."""
    root = tmp_path_factory.mktemp("chain")
    (root / "chain.toml").write_text(chain(tiny_policy))
    return chain_story(train(root / "chain.toml", out=root / "run").folder)


# --- decisions ------------------------------------------------------------------------------------


def stages_of(*stages: Stage) -> StagesRecipe:
    return StagesRecipe(method="stages", stage=stages)


def test_what_a_stage_needs_is_read_from_its_settings() -> None:
    stage = Stage(
        name="x",
        recipe="city-ppo",
        set={"start_from": "stage:a@best", "reward_model": "stage:b", "data": {"path": "stage:c/pairs.jsonl"}},
    )
    assert needs(stage) == {"a", "b", "c"}
    assert needs(Stage(name="x", recipe="city-grpo", set={"start_from": "runs/stage:a"})) == frozenset()


def test_ready_stages_are_those_whose_needs_are_finished() -> None:
    a, b, c = (
        Stage(name="a", recipe="r"),
        Stage(name="b", recipe="r", set={"x": "stage:a"}),
        Stage(name="c", recipe="r"),
    )
    assert ready([a, b, c], frozenset(), frozenset()) == [a, c]
    assert ready([a, b, c], frozenset(), frozenset({"a"})) == [c]
    assert ready([a, b, c], frozenset({"a"}), frozenset({"c"})) == [b]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((Stage(name="a", recipe="city-grpo"), Stage(name="a", recipe="city-grpo")), "two stages are called 'a'"),
        ((Stage(name="a", recipe="city-grpo", set={"start_from": "stage:b"}),), "which is not an earlier stage"),
        ((Stage(name="a", recipe="city-grpo", set={"start_from": "stage:a"}),), "which is not an earlier stage"),
        ((Stage(name="a", recipe="no-such"),), "there is no recipe no-such"),
    ],
)
def test_a_wrong_chain_is_refused_before_anything_runs(stages: tuple[Stage, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_stages(stages_of(*stages))


def test_a_cached_stage_may_build_on_none() -> None:
    first = Stage(name="a", recipe="city-grpo")
    with pytest.raises(InputError, match="cannot be cached"):
        check_stages(stages_of(first, Stage(name="b", recipe="city-grpo", set={"start_from": "stage:a"}, cache=True)))


def test_a_wrong_key_names_its_stage() -> None:
    stages = stages_of(Stage(name="late", recipe="city-grpo", set={"rollout.promts": 3}))
    with pytest.raises(ConfigError, match=r"^stage late: .*promts.*prompts"):
        check_stages(stages)


def test_references_become_folders(tmp_path: Path) -> None:
    stage = Stage(name="b", recipe="city-ppo", set={"start_from": "stage:a@best", "reward_model": "stage:rm"})
    found = stage_recipe(stages_of(stage), stage, tmp_path)
    assert (found.start_from, found.reward_model) == (f"{tmp_path}/a@best", f"{tmp_path}/rm")  # type: ignore[union-attr]


# --- a killed driver ------------------------------------------------------------------------------


@dataclass
class Killer:
    """Kills its own process at a moment of the chain, in the middle of the driver's work."""

    moment: str
    """`after n` stages are finished, or `inside NAME`."""

    def begin(self, what: str, total: int, done: int = 0) -> None: ...

    def advance(self, done: int, note: str = "") -> None:
        kind, what = self.moment.split()
        inside = [
            part for part in note.split("  ") if part.startswith(f"{what} ") and not part.startswith(f"{what} 0/")
        ]
        if (kind == "after" and done == int(what)) or (kind == "inside" and inside):
            os.kill(os.getpid(), signal.SIGKILL)

    def say(self, line: str) -> None: ...


def _driver(recipe: str, out: str, mark: str, moment: str) -> None:
    os.environ[MARK] = mark
    train(recipe, out=out, progress=Killer(moment))


def marked(mark: str) -> list[int]:
    """Processes whose environment was made with this mark: the driver's children, and theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in environment.split(b"\0"):
                found.append(int(entry.name))
    return found


def gone(pids: Callable[[], list[int]], seconds: float = 60) -> bool:
    """Whether they end. On a busy machine the process that starts the others may need long to have imported torch."""
    give_up = time.monotonic() + seconds
    while pids():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def kill_and_resume(tmp_path: Path, policy: Path, moment: str, expected: dict[str, Any]) -> None:
    recipe, out, mark = tmp_path / "chain.toml", tmp_path / "run", str(tmp_path)
    recipe.write_text(chain(policy, at_once=2))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    driver = context.Process(target=_driver, args=(str(recipe), str(out), mark, moment))
    driver.start()
    driver.join(300)
    assert driver.exitcode == -signal.SIGKILL
    assert gone(lambda: marked(mark)), "a stage outlives its driver"
    finished = [name for name in STAGES if Run(out / name).status().get("state") == "finished"]
    before = {name: touched(out / name) for name in finished}
    train("", resume=out)
    assert {name: touched(out / name) for name in finished} == before, "a finished stage was run again"
    assert Run(out).status() == {"state": "finished"}
    check_chain(out, expected)


def touched(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_mtime_ns for name in files(folder)}


MOMENTS = ["after 0", "inside sft", "after 1", "inside pairs", "after 3", "inside ppo"]


@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_killed_driver_leaves_no_process_and_a_chain_that_goes_on(
    tmp_path: Path, tiny_policy: Path, whole_chain: dict[str, Any], grid_seed: int
) -> None:
    """Faults I3, J3: SIGKILL between or inside stages; finished stages are not run again; two stages at once, killed
    and resumed, give what one at a time gives."""
    kill_and_resume(tmp_path, tiny_policy, random.Random(grid_seed).choice(MOMENTS), whole_chain)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_killed_at_any_moment(
    tmp_path: Path, tiny_policy: Path, whole_chain: dict[str, Any], moment: str
) -> None:
    """Faults I3, J3 in full."""
    kill_and_resume(tmp_path, tiny_policy, moment, whole_chain)


# --- what goes wrong, and the cache ---------------------------------------------------------------


def test_a_failed_stage_names_itself_and_the_chain_goes_on_when_it_is_mended(tmp_path: Path, tiny_policy: Path) -> None:
    """The stage that ran beside it ends; nothing that needs it starts; what is finished stays."""
    rows = tmp_path / "pairs.jsonl"
    text = (
        'method = "stages"\n'
        f'[[stage]]\nname = "bad"\nrecipe = "city-reward-model"\nset = {{ start_from = "{tiny_policy}", '
        f'"data.path" = "{rows}", "data.held_out" = 0.0 }}\n'
        '[[stage]]\nname = "later"\nrecipe = "city-pairs"\n'
        'set = { start_from = "stage:bad", "rollout.prompts" = 4 }\n'
    )
    (tmp_path / "chain.toml").write_text(text)
    out = tmp_path / "run"
    with pytest.raises(RunStopped, match=rf"^stage bad: .*{rows}.*; mend it and resume {out}$"):
        train(tmp_path / "chain.toml", out=out)
    assert not (out / "later").exists()
    assert Run(out).status()["state"] == "stopped"
    (tmp_path / "chain.toml").unlink()
    (out / "later").mkdir()
    with pytest.raises(RunStopped, match=r"^stage bad: "):
        train("", resume=out)


def test_a_begun_chain_keeps_its_recipes(tmp_path: Path) -> None:
    """Whatever becomes of a stage's recipe file, a resumed chain runs what was begun; another chain is refused."""
    from ropewalk.runtime.stages import write_stages
    from ropewalk.runtime.train import run_recipe

    own = tmp_path / "own.toml"
    own.write_text('method = "sft"\nseed = 7\nsft.epochs = 9\nmodel.kind = "fresh"\ndata.kind = "city"\n')
    recipe = stages_of(Stage(name="a", recipe=str(own)))
    write_stages(recipe, tmp_path / "run")
    own.unlink()
    found = stage_recipe(recipe, recipe.stage[0], tmp_path / "run")
    assert found.sft.epochs == 9  # type: ignore[union-attr]
    other = load_recipe({"method": "stages", "seed": 3, "stage": [{"name": "a", "recipe": "city-pretrain"}]})
    with pytest.raises(InputError, match="a chain of another recipe or seed"):
        run_recipe(other, Run(tmp_path / "run"), resume=True)


def test_a_stage_from_the_cache_is_the_stage_that_was_kept(
    tmp_path: Path, tiny_policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal files; nothing half-copied is ever taken for a stage; a changed input is another key."""
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "[ rome is sunny ."}\n')
    settings = {"model": "none", "start_from": str(tiny_policy), "data": {"kind": "documents", "path": str(rows)}}
    recipe = read_recipe("city-pretrain", {**settings, "sft.epochs": 1})
    place = tmp_path / "run" / "a"
    (place / "model").mkdir(parents=True)
    for name in ("status.json", "model/weights", ".lock"):
        (place / name).write_text(name)
    stage_cache.keep(recipe, place)
    assert not stage_cache.take(recipe, place), "a place that is taken is left alone"
    assert stage_cache.take(recipe, tmp_path / "again")
    assert files(tmp_path / "again") == files(place) == ["model/weights", "status.json"]
    assert {(tmp_path / "again" / n).read_text() for n in files(place)} == {"model/weights", "status.json"}
    stage_cache.keep(recipe, place)
    assert len(list((tmp_path / "cache").iterdir())) == 1

    rows.write_text('{"text": "[ rome is rainy ."}\n')
    os.utime(rows, ns=(1, 1))
    assert not stage_cache.take(recipe, tmp_path / "third")


def test_a_chain_takes_its_stage_from_the_cache(
    tmp_path: Path, tiny_policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))
    settings = f'{{ model = "none", start_from = "{tiny_policy}", "data.sentences" = 60, "sft.epochs" = 1 }}'
    (tmp_path / "chain.toml").write_text(
        f'method = "stages"\n[[stage]]\nname = "a"\nrecipe = "city-pretrain"\ncache = true\nset = {settings}\n'
    )
    first = train(tmp_path / "chain.toml", out=tmp_path / "first").folder / "a"
    second = train(tmp_path / "chain.toml", out=tmp_path / "second").folder / "a"
    assert files(first) == files(second)
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files(first))
