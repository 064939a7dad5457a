"""A dry run finds every problem at once, makes nothing, and agrees with what a run then does."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.models.load import load_policy, load_scorer
from ropewalk.plan.memory import AUTOCAST, FP32
from ropewalk.records.errors import InputError
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.look.folders import model_facts
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.look.machine import machine_bytes
from ropewalk.runtime.recipe import built_in, read_recipe
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train

PAIR = {"prompt": "[ artists", "chosen": "love the parks .", "rejected": "love the rain ."}


def look(name: str, settings: Mapping[str, Any] | None = None) -> Look:
    return dry_run(read_recipe(name, settings))


def about(found: Look, what: str) -> str:
    return "\n".join(text for name, text in found.facts if name.strip() == what)


@pytest.mark.parametrize("name", sorted(built_in()))
@pytest.mark.parametrize("deep", [True, False])
def test_every_built_in_recipe_can_be_looked_at(name: str, deep: bool) -> None:
    found = dry_run(read_recipe(name), deep=deep)
    assert found.facts
    assert all("\n" not in problem for problem in found.problems)


def test_a_good_recipe_has_no_problem_and_tells_its_plan(tiny_policy: Path) -> None:
    found = look("city-grpo", {"start_from": str(tiny_policy)})
    assert found.problems == []
    assert about(found, "calls") == "generate (actor) → reference (reference) → actor_train (actor)"
    assert "240: 60 iterations of 16 prompts x 4 samples" in about(found, "steps")
    assert "minimise over π" in about(found, "formula")
    assert "it fits" in about(found, "memory")


def test_all_problems_are_found_at_once(tmp_path: Path) -> None:
    settings = {
        "start_from": str(tmp_path / "a"),
        "reward_model": str(tmp_path / "b"),
        "reference.path": str(tmp_path / "c"),
        "task": {"kind": "file", "path": str(tmp_path / "d.py")},
    }
    problems = look("city-ppo", settings).problems
    assert [name for name in "abcd" if any(str(tmp_path / name) in problem for problem in problems)] == list("abcd")


MIXED = {
    "kind": "mixture",
    "parts": {
        "city": {"task": {"kind": "city", "prompts": 8}},
        "sums": {"task": {"kind": "sums", "high": 9, "prompts": 8}},
    },
}
TRUTH, CORRECT = {"truth": {"weight": 1.0}}, {"correct": {"weight": 1.0}}
BOTH = {**TRUTH, **CORRECT}
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"task": MIXED, "reward.components": {**BOTH, "correct": {"gates": [{"on": "truth"}]}}}, "which part 'sums' does"),
    ({"task": MIXED, "reward.components": TRUTH}, "part 'sums' is scored by none"),
    ({"reward.components.truths.weight": 1.0}, "reward.components.truths is scored by nobody: did you mean 'truth'"),
    ({"reward.components.truth.gates": [{"on": "sense"}]}, "gates.0.on = 'sense' is scored by nobody"),
    ({"reward.length": {"kind": "cosine", "on": "sense", "limit_tokens": 9}}, "reward.length.on = 'sense'"),
    (
        {"reward.mix": {"kind": "judged", "judged": ["truth"], "domains": {"maths": 0.1}}},
        "reward.mix.domains names 'maths', a domain that no training prompt is of",
    ),
]
"""Settings by which a reward does not fit what it is given to, and why."""


@pytest.mark.parametrize(("settings", "said"), UNFIT)
def test_a_reward_that_does_not_fit_its_task_is_refused_by_a_look_and_before_a_run(
    tiny_policy: Path, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    """Faults Q3, G12: by both, in the same sentence; nothing has been drawn."""
    given = {"start_from": str(tiny_policy), "hardware.threads": 1, **settings}
    problems = look("city-grpo", given).problems
    assert any(said in problem for problem in problems), problems
    with pytest.raises(InputError) as told:
        train("city-grpo", set=given, out=tmp_path / "run")
    assert str(told.value) in problems and said in str(told.value)
    assert not Run(tmp_path / "run").metrics()


def test_a_judge_alone_may_say_which_groups_are_flat(tiny_policy: Path) -> None:
    """It has been asked when groups are looked at; a reward model has not."""
    critic = {"kind": "rubric", "by": {"kind": "server", "model": "m"}}
    settings: dict[str, Any] = {
        "start_from": str(tiny_policy),
        "rollout.flat.kind": "drop",
        "judges": {"critic": critic},
        "reward.components": {"truth": {"gates": [{"on": "critic"}]}},
    }
    assert look("city-grpo", settings).problems == []


def test_a_task_file_is_loaded_and_its_scorers_are_known(tiny_policy: Path, tmp_path: Path) -> None:
    task = tmp_path / "mine.py"
    task.write_text(
        "from ropewalk.tasks.task import Task\n"
        "TASK = Task(name='mine', prompts=['[ artists', '[ museums'], scorers={'good': lambda p, s: 1.0})\n"
    )
    settings = {"start_from": str(tiny_policy), "task": {"kind": "file", "path": str(task)}}
    found = look("city-grpo", settings)
    assert "mine: " in about(found, "task")
    assert found.problems == ["reward.components.truth is scored by nobody: did you mean 'good'?"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "is empty"),
        ([json.dumps(PAIR), "{"], "line 2 is not JSON"),
        ([json.dumps({**PAIR, "chosen": None})], "no chosen answer"),
        ([json.dumps({**PAIR, "rejected": PAIR["chosen"]})], "equals the rejected one"),
        ([json.dumps({**PAIR, "chosen": "love " * 99})], "all 1 rows have more than 32 tokens"),
        ([json.dumps({**PAIR, "chosen": "Atlantis"})], "cannot spell"),
    ],
)
def test_wrong_data_is_found_before_any_work(tiny_policy: Path, tmp_path: Path, lines: list[str], said: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{line}\n" for line in lines))
    settings = {"start_from": str(tiny_policy), "data.path": str(rows), "data.held_out": 0.0}
    (problem,) = look("city-reward-model", settings).problems
    assert said in problem


def test_refused_rows_are_counted(tiny_policy: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    given = [PAIR, {**PAIR, "chosen": ""}, {**PAIR, "chosen": "love " * 99}]
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in given))
    settings = {"start_from": str(tiny_policy), "data.path": str(rows), "data.held_out": 0.0}
    found = look("city-reward-model", settings)
    assert found.problems == []
    assert "2 of 3 rows are usable" in about(found, "data")
    assert "at least 1 of 2 rows" in about(found, "refused")
    assert "over 1 pairs" in about(found, "steps")


def test_over_long_prompts_are_found(tiny_policy: Path) -> None:
    (problem,) = look("city-grpo", {"start_from": str(tiny_policy), "sampling.max_new_tokens": 31}).problems
    assert "all 4096 prompts have more than the 1 tokens" in problem


def test_a_plan_that_does_not_fit_is_a_problem_with_its_mend() -> None:
    sizes = {"model.width": 65536, "model.heads": 64, "model.kv_heads": 64, "model.ffn": 262144, "model.layers": 64}
    (problem,) = look("city-pretrain", {**sizes, "data.sentences": 100, "hardware.device": "cpu"}).problems
    assert "GB usable" in problem
    assert "actor optimizer" in problem


def test_processes_share_the_memory_of_the_machine() -> None:
    """A model that takes 0.6 of it fits once and not twice."""
    available = machine_bytes()
    assert available is not None
    layers = int(0.6 * available / 16 / (12 * 8192**2))
    sizes = {"model.width": 8192, "model.heads": 64, "model.kv_heads": 64, "model.ffn": 4 * 8192 * 2 // 3}
    settings = {**sizes, "model.layers": layers, "data.sentences": 100, "hardware.device": "cpu"}
    assert look("city-pretrain", settings).problems == []
    assert len(look("city-pretrain", {**settings, "hardware.processes": 2}).problems) == 1


def test_an_accelerator_is_not_guessed_at() -> None:
    assert "not compared" in about(look("city-pretrain", {"hardware.device": "cuda"}), "memory")


def test_bf16_passes_need_less_for_activations() -> None:
    bills = [about(look("city-pretrain", {"precision.dtype": dtype}), "memory") for dtype in ("fp32", "bf16")]
    assert bills[0] != bills[1]
    assert replace(FP32, activations=2) == AUTOCAST


def test_a_chain_is_looked_at_stage_by_stage() -> None:
    found = look("city-lab")
    assert found.problems == []
    assert "from stage pretrain" in about(found, "model")
    assert "from stage pairs" in about(found, "data")


# -- folders -------------------------------------------------------------------------------------------------------


def damaged_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "no config": lambda folder: (folder / "config.json").unlink(),
    "a config that is not JSON": lambda folder: (folder / "config.json").write_text("{"),
    "code of its own": lambda folder: damaged_config(folder, auto_map={"AutoModel": "x.Y"}),
    "only pickled weights": lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "an encoder-decoder": lambda folder: damaged_config(folder, is_encoder_decoder=True),
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "weights cut short": lambda folder: _cut(folder / "model.safetensors"),
    "no size": lambda folder: damaged_config(folder, hidden_size=None),
}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_what_loading_refuses_is_refused_by_a_look(tiny_policy: Path, tmp_path: Path, damage: str) -> None:
    folder = Path(shutil.copytree(tiny_policy / "model", tmp_path / "model"))
    DAMAGES[damage](folder)
    with pytest.raises(InputError, match=str(folder) if damage != "no size" else "hidden_size"):
        model_facts(folder, "policy")
    if damage != "no size":
        with pytest.raises(InputError):
            load_policy(folder)


def test_a_look_sees_what_loading_sees(tiny_policy: Path, tiny_reward_model: Path) -> None:
    for folder, kind, load in ((tiny_policy, "policy", load_policy), (tiny_reward_model, "scorer", load_scorer)):
        facts = model_facts(folder / "model", kind)  # type: ignore[arg-type]
        loaded = load(folder / "model")
        assert facts.shape.parameters == sum(p.numel() for p in loaded.network.parameters())
        assert facts.eos_ids == loaded.eos_ids
        assert facts.pad_id == loaded.pad_id
        assert facts.words == loaded.tokenizer.get_vocab()


def test_a_reward_model_is_no_policy(tiny_reward_model: Path) -> None:
    for find in (lambda folder: model_facts(folder, "policy"), load_policy):
        with pytest.raises(InputError, match=r"reward model|does not fit"):
            find(tiny_reward_model / "model")


def test_a_policy_is_no_reward_model(tiny_policy: Path) -> None:
    settings = {"start_from": str(tiny_policy), "reward_model": str(tiny_policy)}
    (problem,) = look("city-ppo", settings).problems
    assert "holds a language model, not a reward model" in problem


def test_vocabularies_must_agree(tiny_policy: Path, tiny_reward_model: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(tiny_reward_model / "model", tmp_path / "other"))
    damaged_config(other, vocab_size=12)
    settings = {"start_from": str(tiny_policy), "reward_model": str(other)}
    (problem,) = look("city-ppo", settings).problems
    assert "the reward model has 12 words" in problem


@pytest.mark.parametrize("method", ["city-ppo", "city-grpo-reward-model"])
def test_every_role_of_a_method_is_in_the_bill(tiny_policy: Path, tiny_reward_model: Path, method: str) -> None:
    found = look(method, {"start_from": str(tiny_policy), "reward_model": str(tiny_reward_model)})
    assert found.problems == []
    roles = {"actor", "reference", "reward"} | ({"critic"} if method == "city-ppo" else set())
    assert {line.split()[0] for line in about(found, "memory").splitlines() if " weights: " in line} == roles
