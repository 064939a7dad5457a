"""Runs that a judge rewards, behind a server or on the crew, and labels that a judge gives."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.config.load import ConfigError
from ropewalk.data.read import pairs as read_pairs
from ropewalk.models.language import load_language
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.runtime.config import Hardware, PairFile
from ropewalk.runtime.jobs.replay import replay
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.prepare import pair_rows
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import load_recipe, read_recipe, recipe_text
from ropewalk.runtime.run import Run
from ropewalk.runtime.scorer import open_scorer
from ropewalk.runtime.train import train
from ropewalk.tasks.city.grammar import END, true_score
from tests.fakes import tiny_llama
from tests.models.folders import policy_folder
from tests.runtime.runs import differences, lines, resumed, stopped_at, story
from tests.tasks.judging.judge_server import Body, JudgeServer, Sent, preferring, request_in, serving

CITY = {
    "method": "grpo",
    "task": {"kind": "city", "prompts": 32, "heldout_prompts": 8},
    "sampling": {"max_new_tokens": 15, "banned": ["<pad>", "["]},
    "rollout": {"prompts": 3, "group_size": 4},
    "stop": {"iterations": 2},
    "checkpoint": {"every": 1},
    "record": {"rollouts": True, "samples_every": 1},
    "hardware": {"threads": 1},
    "health": {"no_variance": "warn", "zero_gradient": "warn"},
    "reward": {"components": {"critic": {"weight": 2.0}}},
}
NONE = {"kind": "none"}


def truth_of(request: str, text: str) -> float:
    """The true score of the sentence that a prompt and a finished completion make."""
    return true_score([*request.split()[1:], *text.split(), END], True)


def by_truth(body: Body) -> Sent:
    """A judge that prefers by the true score, with a liking for the first place."""
    request = request_in(body)
    return preferring(lambda text: truth_of(request, text), place=0.5, sharpness=1.5)(body)


def kindness(text: str) -> float:
    """A rule of the judge's own, that any completion has: words that praise minus words that blame."""
    words = text.split()
    return float(len(words)) + 0.5 * sum(word in ("sunny", "love", "kind", "warm", "beautiful") for word in words)


def recipe(start: Path, judge: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {**CITY, "start_from": str(start), "judges": {"critic": judge}, **changes}


def by_server(server: JudgeServer, **more: Any) -> dict[str, Any]:
    by = {"kind": "server", "base_url": server.url, "model": "judge", "retries": 0}
    return {"kind": "pairwise", "by": by, "memory": NONE, **more}


def run(data: Mapping[str, Any], place: Path, progress: Progress | None = None) -> Run:
    """The recipe as a file, trained."""
    file = place.with_suffix(".toml")
    file.write_text(recipe_text(load_recipe(data)))
    return train(file, out=place, progress=progress)


@contextmanager
def judging(script: Any = None) -> Iterator[JudgeServer]:
    with serving(script or preferring(kindness, place=0.3)) as server:
        yield server


def column(run: Run, name: str) -> list[float]:
    return [float(str(row[name])) for row in run.metrics()]


def test_a_judge_behind_a_server_is_a_component_of_the_reward(tiny_policy: Path, tmp_path: Path) -> None:
    with judging() as server:
        done = run(recipe(tiny_policy, by_server(server)), tmp_path / "run")
    score, reward = column(done, "score/critic/mean"), column(done, "reward/mean")
    assert reward == pytest.approx([2 * value for value in score])
    assert column(done, "judge/critic/questions")[0] > 0 and len(server.asked) > 0
    assert all(abs(value - 0.5) < 0.06 for value in score), "the scores of a group have the mean 1/2"
    assert all(0 < value < 0.5 for value in column(done, "judge/critic/position_bias"))
    assert {"judge/critic"} <= {span["name"] for span in json.loads(done.timeline_file.read_text()) if "name" in span}
    rows = lines(done.samples_file)
    assert all("critic" in row["components"] and 0 <= row["scores"]["critic"] <= 1 for row in rows)


def test_a_replay_asks_nobody_and_gives_the_same(tiny_policy: Path, tmp_path: Path) -> None:
    with judging() as server:
        done = run(recipe(tiny_policy, by_server(server)), tmp_path / "run")
        asked = len(server.asked)
        again = replay(done.folder, out=tmp_path / "again")
        assert len(server.asked) == asked
    for name in ("reward/mean", "score/critic/mean", "judge/critic/position_bias"):
        assert column(again, name) == column(done, name)


def test_those_whose_gate_is_closed_are_not_asked_about(tiny_policy: Path, tmp_path: Path) -> None:
    """The judge counts only where the sentence has some truth."""
    gate = {"on": "truth", "at_least": 0.5, "value": -1.0}
    reward = {"components": {"critic": {"gates": [gate]}}}
    with judging() as server:
        done = run(recipe(tiny_policy, by_server(server), reward=reward), tmp_path / "run")
        asked = json.dumps(server.asked)
    rows = lines(done.samples_file)
    closed = [row for row in rows if row["scores"]["truth"] < 0.5]
    opened = [row for row in rows if row["scores"]["truth"] >= 0.5]
    assert closed and opened
    assert all(row["reward"] == -1.0 and "closed" in row["scores"]["critic"] for row in closed)
    for text in {row["completion"] for row in closed} - {row["completion"] for row in opened}:
        assert json.dumps(f"\n{text}\n</answer")[1:-1] not in asked
    assert any(isinstance(row["scores"]["critic"], float) for row in opened)


def test_answers_are_remembered_between_runs_and_change_nothing(tiny_policy: Path, tmp_path: Path) -> None:
    memory = {"kind": "disk", "folder": str(tmp_path / "memory"), "megabytes": 1}
    with judging() as server:
        plain = run(recipe(tiny_policy, by_server(server)), tmp_path / "plain")
        first = run(recipe(tiny_policy, by_server(server, memory=memory)), tmp_path / "first")
        asked = len(server.asked)
        again = run(recipe(tiny_policy, by_server(server, memory=memory)), tmp_path / "again")
        assert len(server.asked) == asked
    assert column(plain, "reward/mean") == column(first, "reward/mean") == column(again, "reward/mean")
    assert column(again, "judge/critic/remembered") == [1.0, 1.0]


def test_a_server_that_is_not_there_stops_the_run_in_one_sentence(tiny_policy: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        judge = by_server(JudgeServer(f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
        with pytest.raises(RunStopped, match=r"'critic' failed on .* crashed .*refused") as caught:
            run(recipe(tiny_policy, judge), tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_few_failures_cost_their_rows_only(tiny_policy: Path, tmp_path: Path) -> None:
    count = [0]
    good = preferring(kindness)

    def script(body: Body) -> Sent:
        count[0] += 1
        return Sent(b"garbage") if count[0] % 7 == 0 else good(body)

    with judging(script) as server:
        done = run(recipe(tiny_policy, by_server(server)), tmp_path / "run")
    assert len(done.metrics()) == 2 and all(0 <= value < 0.5 for value in column(done, "score/critic/failed"))


def test_a_key_that_is_not_there_is_told_before_anything_is_loaded(tiny_policy: Path, tmp_path: Path) -> None:
    judge = by_server(JudgeServer("http://127.0.0.1:9/v1"))
    judge["by"]["key"] = "ROPEWALK_NO_SUCH_KEY"
    with pytest.raises(InputError, match="ROPEWALK_NO_SUCH_KEY"):
        run(recipe(tiny_policy, judge), tmp_path / "run")


def test_a_judge_may_not_have_the_name_of_a_scorer(tiny_policy: Path, tmp_path: Path) -> None:
    data = recipe(tiny_policy, {})
    judge = by_server(JudgeServer("http://127.0.0.1:9/v1"))
    with pytest.raises(InputError, match="'truth'"):
        run({**data, "judges": {"truth": judge}, "reward": {}}, tmp_path / "run")
    with pytest.raises(ConfigError, match="learned reward"):
        load_recipe({**data, "judges": {"reward_model": judge}})
    with pytest.raises(ConfigError, match="group_size"):
        load_recipe({**data, "method": "ppo", "rollout": {"group_size": 1}, "judges": {"critic": judge}})


# --- a model of the run ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judge of bytes: other words than the policy's."""
    return policy_folder(tmp_path_factory.mktemp("judge"), tiny_llama(5, max_positions=4096, std=0.3))


def by_model(speaker: Path, **more: Any) -> dict[str, Any]:
    return {"kind": "pairwise", "by": {"kind": "model", "path": str(speaker)}, "memory": NONE, **more}


REASONED = {"reasoning": {"kind": "written", "max_new_tokens": 8}}


def test_a_judge_of_other_words_runs_on_the_workers(tiny_policy: Path, speaker: Path, tmp_path: Path) -> None:
    one = run(recipe(tiny_policy, by_model(speaker)), tmp_path / "one")
    hardware = {"threads": 1, "processes": 2}
    two = run(recipe(tiny_policy, by_model(speaker), hardware=hardware), tmp_path / "two")
    for name in ("reward/std", "judge/critic/position_bias"):
        assert column(one, name) == pytest.approx(column(two, name), abs=1e-4) and column(one, name)[0] != 0
    assert "judge/critic" in one.lineage()["frozen"]  # type: ignore[operator]
    assert "judge/critic" in json.loads((one.folder / "plan.json").read_text())["calls"]
    assert column(one, "time/judge/critic_seconds")[0] > 0


@pytest.mark.slow
def test_reasons_are_written_on_the_workers(tiny_policy: Path, speaker: Path, tmp_path: Path) -> None:
    done = run(recipe(tiny_policy, by_model(speaker, **REASONED), stop={"iterations": 1}), tmp_path / "run")
    at_once = run(recipe(tiny_policy, by_model(speaker), stop={"iterations": 1}), tmp_path / "at-once")
    assert column(done, "judge/critic/position_bias") != column(at_once, "judge/critic/position_bias")


def test_a_rubric_that_cannot_be_read_stops_the_run(tiny_policy: Path, speaker: Path, tmp_path: Path) -> None:
    """A judge of random weights says no number: nothing stands in for one."""
    judge = {**by_model(speaker), "kind": "rubric"}
    with pytest.raises(RunStopped, match="unparsable"):
        run(recipe(tiny_policy, judge), tmp_path / "run")


def test_a_dry_run_lists_the_call_and_counts_its_memory(tiny_policy: Path, speaker: Path) -> None:
    found = dry_run(load_recipe(recipe(tiny_policy, by_model(speaker))))
    facts = dict(found.facts)
    assert not found.problems and "judge/critic (judge/critic)" in facts["calls"]
    assert any(what == "memory" and "judge/critic weights" in about for what, about in found.facts)
    assert "pairwise" in facts["judge critic"]
    silent = dry_run(load_recipe(recipe(tiny_policy, by_model(tiny_policy))))
    assert any("no chat template" in problem for problem in silent.problems)


def test_a_run_with_a_judge_resumes_to_the_same(tiny_policy: Path, speaker: Path, tmp_path: Path) -> None:
    data = recipe(tiny_policy, by_model(speaker), stop={"iterations": 3})
    whole = run(data, tmp_path / "whole")
    stopped_at((str(tmp_path / "whole.toml"), {}), tmp_path / "part", 1, "signal")
    assert len(Run(tmp_path / "part").metrics()) < 3
    assert differences(story(whole), story(resumed(tmp_path / "part"))) == []


def test_groups_that_the_judge_finds_equal_are_flat(tiny_policy: Path, tmp_path: Path) -> None:
    """Dynamic sampling sees a judge's outcomes, which are known when samples are drawn."""
    gathering = {"prompts": 3, "group_size": 4, "flat": {"kind": "drop"}}
    with judging(preferring(lambda _: 0.0)) as server:
        even = run(recipe(tiny_policy, by_server(server), rollout=gathering), tmp_path / "even")
    with judging() as server:
        told = run(recipe(tiny_policy, by_server(server), rollout=gathering), tmp_path / "told")
    assert column(even, "group/no_variance") == [1.0, 1.0]
    assert max(column(told, "group/no_variance")) < 1.0


def test_held_out_prompts_are_judged_too(tiny_policy: Path, tmp_path: Path) -> None:
    every = {"kind": "every", "iterations": 1, "prompts": 3, "samples": 2}
    with judging() as server:
        done = run(recipe(tiny_policy, by_server(server), evaluate=every), tmp_path / "run")
    assert column(done, "eval/score/critic") == pytest.approx([0.5, 0.5])


# --- labels ---------------------------------------------------------------------------------------


def job(start: Path, server: JudgeServer, **changes: Any) -> dict[str, Any]:
    return {
        "start_from": str(start),
        "rollout.prompts": 150,
        "rollout.group_size": 4,
        "labels.pairs": 2,
        "judges.critic.by.base_url": server.url,
        "judges.critic.memory": NONE,
        "hardware.threads": 1,
        **changes,
    }


def test_ai_feedback_from_samples_to_a_reward_model_that_agrees_with_its_judge(
    tiny_policy: Path, tmp_path: Path
) -> None:
    """Held-out pairs are those of other samples; the judge's taste is the true score."""
    with judging(by_truth) as server:
        made = train("city-judged-pairs", set=job(tiny_policy, server), out=tmp_path / "pairs")
        held = train("city-judged-pairs", set=job(tiny_policy, server, seed=9), out=tmp_path / "held")
    told = json.loads((made.folder / "pairs.json").read_text())
    rows = lines(made.folder / "pairs.jsonl")
    assert told["pairs"] == len(rows) > 100 and told["failed"] == 0 and 0 < told["position_bias"] < 0.3
    assert told["ties"] > 0 and 0.5 < told["order_agreement"] < 1.0
    for row in rows:
        assert truth_of(row["prompt"], row["chosen"]) > truth_of(row["prompt"], row["rejected"])
        assert 0.5 < row["probability"] < 1
    settings = {
        "start_from": str(tiny_policy),
        "data.path": str(made.folder / "pairs.jsonl"),
        "actor.optimizer.lr": 3e-3,
        "hardware.threads": 1,
    }
    light = train("city-reward-model", set=settings, out=tmp_path / "light")
    assert _agreement(light, held.folder / "pairs.jsonl") > 0.75


def _agreement(light: Run, path: Path) -> float:
    """Share of held-out pairs in which the reward model prefers what the judge preferred."""
    language = load_language(light.model)
    found = pair_rows(PairFile(path=str(path), held_out=0.0), language, 0, Silent()).train
    assert len(found) == len(read_pairs(path)[0]) > 100
    with open_scorer(str(light.model), Hardware(threads=1)) as scorer:
        chosen, rejected = (scorer.rows([pair[side] for pair in found]) for side in (0, 1))
    return float(np.mean(chosen > rejected))


@pytest.mark.slow
def test_the_chain_from_samples_to_a_reward_model_runs(tiny_policy: Path, tmp_path: Path) -> None:
    with judging(by_truth) as server:
        sets = {"start_from": str(tiny_policy), **job(tiny_policy, server, **{"rollout.prompts": 30})}
        chain = (
            'method = "stages"\n[[stage]]\nname = "pairs"\nrecipe = "city-judged-pairs"\n'
            f"set = {_toml(sets)}\n"
            '[[stage]]\nname = "reward-model"\nrecipe = "city-reward-model"\n'
            f'set = {{ start_from = "{tiny_policy}", "data.path" = "stage:pairs/pairs.jsonl" }}\n'
        )
        (tmp_path / "chain.toml").write_text(chain)
        train(tmp_path / "chain.toml", out=tmp_path / "chain")
    assert (tmp_path / "chain" / "reward-model" / "model" / "config.json").is_file()


def _toml(settings: Mapping[str, Any]) -> str:
    parts = []
    for name, value in settings.items():
        shown = '{ kind = "none" }' if value == NONE else json.dumps(value)
        parts.append(f'"{name}" = {shown}')
    return "{ " + ", ".join(parts) + " }"


def test_the_built_in_chain_can_be_looked_at_without_a_server() -> None:
    found = dry_run(read_recipe("city-rlaif"))
    assert not found.problems and any("judge critic" in what for what, _ in found.facts)


@pytest.mark.slow
def test_a_job_with_a_judge_of_the_run_labels_on_the_workers(tiny_policy: Path, speaker: Path, tmp_path: Path) -> None:
    settings = {
        "start_from": str(tiny_policy),
        "rollout.prompts": 6,
        "judges.critic.by": {"kind": "model", "path": str(speaker)},
        "judges.critic.memory": NONE,
        "judges.marker": {"kind": "pairwise", "by": {"kind": "model", "path": str(speaker)}, "memory": NONE},
        "labels.agreement": False,
        "hardware.threads": 1,
    }
    done = train("city-judged-pairs", set=settings, out=tmp_path / "run")
    rows = lines(done.samples_file)
    assert all("marker" in row["scores"] and "critic" not in row["scores"] for row in rows)
    assert json.loads((done.folder / "pairs.json").read_text())["compared"] > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels.judge": "nobody"}, "critic"),
        ({"rollout.group_size": 1}, "group_size"),
        ({"judges.critic.kind": "rubric"}, "single answers"),
        ({"labels.at_least": 0.4}, "at_least"),
        ({"judges.critic.by.kind": "neighbour"}, "server"),
        ({"judges.critic.by.base_url": "http://judge.example/v1"}, "unencrypted"),
    ],
)
def test_labels_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_recipe("city-judged-pairs", changes)
    assert said in str(caught.value)


class Hears(Silent):
    """Progress that keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize("job", ["train", "labels"])
def test_a_run_says_once_that_its_judge_remembers_nothing(tiny_policy: Path, tmp_path: Path, job: str) -> None:
    """Fault Q3: the run goes on, its result is that of a judge without memory, and one line says why it is slow."""
    (tmp_path / "taken").write_text("a file")
    memory = {"kind": "disk", "folder": str(tmp_path / "taken" / "inside")}
    left = []
    for name, kept in (("told", memory), ("plain", NONE)):
        heard = Hears()
        with serving(by_truth) as server:
            given = recipe(tiny_policy, by_server(server, memory=kept))
            if job == "labels":
                names = ("start_from", "task", "sampling", "rollout", "hardware", "judges")
                given = {name: given[name] for name in names}
                given |= {"method": "sample", "labels": {"kind": "judge", "judge": "critic"}}
            done = run(given, tmp_path / name, heard)
        warnings = [line for line in heard.lines if line.startswith("warning: answers of a judge cannot be kept")]
        assert len(warnings) == (name == "told"), heard.lines
        left.append([done.samples_file.read_text(), *pair_lines(done)])
    assert left[0] == left[1]


def pair_lines(run: Run) -> list[str]:
    path = run.folder / "pairs.jsonl"
    return path.read_text().splitlines() if path.exists() else []
