"""From files and names to nouns: what is read is what was written, and what cannot be is refused with the mend."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import ConfigError
from ropewalk.plan.sizes import shape_of
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.case.describe import Case, describe, read_case, workload
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.case.space import Space, default_space
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, sample_to_json, write_samples
from tests.planner.described import CASES, case_file, recorded_sample

MINIMAL: Mapping[str, Any] = {"models": {"actor": "7b"}, "cluster": "16xa100"}


def case(**changes: Any) -> Case:
    return describe({**MINIMAL, **changes})


def refusal(data: Mapping[str, Any], beside: Path | None = None) -> str:
    with pytest.raises((InputError, ConfigError)) as caught:
        describe(data, beside=beside)
    return str(caught.value)


# --- the reference cases --------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", CASES)
def test_the_reference_cases_are_frozen(gpus: int) -> None:
    """Every figure of them, so that what is measured against them stays comparable."""
    found = read_case(case_file(gpus))
    (group,) = found.cluster.groups
    assert (found.cluster.gpus, group.gpus_per_node) == (gpus, 8)
    assert (group.gpu.flops, group.gpu.memory_bytes, group.gpu.memory_bytes_per_second) == (
        {"bf16": 312e12},
        8e10,
        2e12,
    )
    assert (group.inside_bytes_per_second, group.host_bytes_per_second) == (230e9, 25e9)
    assert (group.inside_latency_seconds, found.cluster.between_latency_seconds) == (10e-6, 20e-6)
    assert found.cluster.between_bytes_per_second == 25e9
    assert found.workload == Workload(512, 1, Lengths.fixed(128), Lengths.fixed(896), minibatches=4, epochs=1)
    slices = {16: (1, 2, 4), 32: (4,), 128: ()}[gpus]
    assert found.space == Space(slices, (1, 2, 4, 8), pp_max=16, offload=True, node_runs=True, uneven_stages=False)
    actor, critic = {16: ("7b", "7b"), 32: ("7b", "34b"), 128: ("70b", "70b")}[gpus]
    assert found.shapes["actor"] == found.shapes["reference"] == shape_of(actor)
    assert found.shapes["critic"] == found.shapes["reward"] == shape_of(critic).with_scalar_head()
    assert found.calibration == "reference" and len(found.graph.calls) == 6


@pytest.mark.parametrize("gpus", CASES)
def test_the_space_of_the_reference_cases_is_the_usual_one_without_full_sharding(gpus: int) -> None:
    found = read_case(case_file(gpus))
    assert replace(default_space(found.cluster, found.shapes), shard=("optimizer",), uneven_stages=False) == found.space


# --- short forms ----------------------------------------------------------------------------------


def test_short_and_long_forms_are_one() -> None:
    long = case(
        cluster={"kind": "named", "name": "16xa100"},
        workload={
            "prompts": 64,
            "group_size": 8,
            "prompt_tokens": {"kind": "fixed", "tokens": 100},
            "generated_tokens": {"kind": "fixed", "tokens": 400},
        },
    )
    assert case(workload="64x8:100+400") == long
    assert case(workload={"prompts": 64, "group_size": 8, "prompt_tokens": 100, "generated_tokens": 400}) == long
    assert workload("64x8:100+400") == workload(" 64x8 : 100 + 400 ") == long.workload


def test_overrides_reach_every_part() -> None:
    changes = {"workload.prompts": 32, "workload.generated_tokens": 7, "cluster": "8xh100", "space.tp": [1, 2]}
    found = read_case(case_file(16), {**changes, "models.critic": "34b", "method": "ppo+old-logprobs"})
    assert found.workload.prompts == 32 and found.workload.generated_tokens == Lengths.fixed(7)
    assert found.cluster.name == "8xh100" and found.space.tp == (1, 2)
    assert found.shapes["reward"] == shape_of("34b").with_scalar_head() and len(found.graph.calls) == 7


def test_a_cluster_file_a_workload_file_and_a_model_beside_the_case(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nbetween_bytes_per_second = 1e9\n[[group]]\ngpu = "l4"\nnodes = 2\ngpus_per_node = 4\n'
        "inside_bytes_per_second = 1e10\nhost_bytes_per_second = 1e10\n"
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work/load.toml").write_text('prompts = 5\ngenerated_tokens = "lengths.jsonl"\n')
    (tmp_path / "work/lengths.jsonl").write_text("3\n3\n9\n")
    (tmp_path / "case.toml").write_text(
        'cluster = "mine.toml"\nworkload = "work/load.toml"\nmethod = "grpo"\nmodels = { actor = "7b" }\n'
    )
    found = read_case(tmp_path / "case.toml")
    assert (found.cluster.name, found.cluster.gpus, found.cluster.groups[0].gpu.name) == ("mine", 8, "L4")
    assert found.workload.generated_tokens == Lengths((3, 9), (2.0, 1.0))
    assert (found.workload.prompts, found.workload.group_size) == (5, 8)


def test_lengths_of_recorded_and_of_kept_samples(tmp_path: Path) -> None:
    samples = [recorded_sample(prompt, answer) for prompt, answer in ((4, 7), (4, 2), (5, 7))]
    write_samples(tmp_path / "recorded.jsonl", samples)
    kept = [{"iteration": 1, "tokens": s.completion_tokens, "completion": "…"} for s in samples]
    plain = [
        {"prompt_tokens": len(s.tokens_T) - s.completion_tokens, "generated_tokens": s.completion_tokens}
        for s in samples
    ]
    for name, rows in {"kept": kept, "plain": plain, "bare": [sample_to_json(s) for s in samples]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(dumps(row) + "\n" for row in rows))
    wanted = Lengths((2, 7), (1.0, 2.0))
    for name in ("recorded", "kept", "plain", "bare"):
        found = describe({**MINIMAL, "workload": {"generated_tokens": f"{name}.jsonl"}}, beside=tmp_path)
        assert found.workload.generated_tokens == wanted, name
    found = describe({**MINIMAL, "workload": {"prompt_tokens": "recorded.jsonl"}}, beside=tmp_path)
    assert found.workload.prompt_tokens == Lengths((4, 5), (2.0, 1.0))


def test_a_histogram_needs_no_kind() -> None:
    found = case(workload={"generated_tokens": {"tokens": [10, 20], "weights": [1, 3]}})
    assert found.workload.generated_tokens == Lengths((10, 20), (1.0, 3.0))


def test_adapters_and_frozen_roles() -> None:
    found = case(workload={"lora_rank": {"actor": 16}, "frozen": ["critic"]})
    assert found.workload.lora_rank == {"actor": 16}
    assert "critic_train" not in [call.name for call in found.graph.calls]


def test_pairs_are_groups_of_two() -> None:
    assert case(method="dpo").workload.group_size == 2 == workload("64:100+100", "dpo").group_size
    assert case(method="sft").workload.group_size == 1


@pytest.mark.parametrize("node", range(1, 17))
def test_every_way_to_cut_a_node_by_tp_is_in_the_space(node: int) -> None:
    group = {"gpu": "a100", "nodes": 2, "gpus_per_node": node, "inside_bytes_per_second": 2e11}
    cluster = {"name": "some", "between_bytes_per_second": 1e10, "group": [group | {"host_bytes_per_second": 2e10}]}
    found = case(cluster=cluster).space.tp
    heads = shape_of("7b").heads
    assert set(found) >= {tp for tp in range(1, node + 1) if node % tp == 0 and heads % tp == 0}
    assert all(heads % tp == 0 for tp in found) and list(found) == sorted(found)


def test_the_space_follows_the_cluster_and_the_models() -> None:
    assert case(cluster="2x2xa100").space.slice_sizes == (1,)
    assert case(cluster="64xa100").space.slice_sizes == (4,)
    assert case(cluster="1024xa100").space.slice_sizes == ()
    assert case(models={"actor": "30b-a3b"}).space.ep == (1, 2, 4, 8, 16, 32, 64)
    assert case(space={"offload": False, "pp_max": 4}).space == Space(
        (1, 2, 4), pp_max=4, offload=False, shard=("optimizer", "full")
    )


# --- bad input ------------------------------------------------------------------------------------

GROUP = {"gpu": "l4", "nodes": 1, "gpus_per_node": 4, "inside_bytes_per_second": 1e10, "host_bytes_per_second": 1e10}
GIVEN = {"name": "mine", "between_bytes_per_second": 1e9, "group": [GROUP]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cluster": "0xa100"}, "has no GPU: give at least 1"),
        ({"cluster": "32xa1000"}, "unknown GPU or cluster 'a1000': did you mean 'a100'"),
        ({"cluster": "12xa100"}, "12 a100 do not fill nodes of 8: ask for 8 or 16"),
        ({"cluster": "32 of a100"}, "is not understood: write '32xa100'"),
        ({"cluster": "gone.toml"}, "there is no file gone.toml: check the path"),
        ({"cluster": {**GIVEN, "group": []}}, "has no GPU: give it a node group"),
        ({"cluster": {**GIVEN, "group": [{**GROUP, "nodes": 0}]}}, "nodes must be at least 1"),
        ({"cluster": {**GIVEN, "group": [{**GROUP, "gpu": "l40"}]}}, "unknown GPU or cluster 'l40': did you mean 'l4'"),
        ({"cluster": {**GIVEN, "between_bytes_per_second": -1e9}}, "cluster.between_bytes_per_second must be greater"),
        (
            {"cluster": {**GIVEN, "group": [{**GROUP, "host_bytes_per_second": 0}]}},
            "host_bytes_per_second must be greater than 0",
        ),
        (
            {"cluster": {**GIVEN, "group": [{**GROUP, "hots_bytes_per_second": 1}]}},
            "unknown key 'hots_bytes_per_second' in section [cluster.group[0]]: did you mean",
        ),
        ({"clutser": "8xa100"}, "unknown key 'clutser' in the top level: did you mean 'cluster'"),
        ({"models": {"actor": "6b"}}, "unknown model size '6b': did you mean '7b'"),
        ({"method": "ppq"}, "unknown method 'ppq': did you mean 'ppo'"),
        ({"workload": {"prompts": 0}}, "workload.prompts must be at least 1"),
        ({"workload": {"group_size": 0}}, "workload.group_size must be at least 1"),
        ({"workload": {"promts": 5}}, "unknown key 'promts' in section [workload]: did you mean 'workload.prompts'"),
        ({"workload": {"generated_tokens": {"tokens": [], "weights": []}}}, "a length histogram needs at least one"),
        ({"workload": {"generated_tokens": {"tokens": [5], "weights": [-1]}}}, "weights >= 0"),
        ({"workload": {"generated_tokens": {"tokens": [5, 6], "weights": [0, 0]}}}, "sum to more than 0"),
        ({"workload": {"generated_tokens": -4}}, "workload.generated_tokens.tokens must be at least 0"),
        ({"workload": {"generated_tokens": "gone.jsonl"}}, "there is no file gone.jsonl"),
        ({"workload": {"dtype": "bf61"}}, "workload.dtype is the text 'bf61': did you mean 'bf16'"),
        ({"workload": {"minibatches": 1000}}, "512 sequences into 1000 mini-batches"),
        ({"workload": {"lora_rank": {"reference": 8}}}, "'reference' is frozen, so adapters on it would never change"),
        (
            {"workload": {"lora_rank": {"critic": 8}, "frozen": ["critic"]}},
            "'critic' is frozen, so adapters on it would never change: give lora_rank to one of actor",
        ),
        ({"workload": {"lora_rank": {"actr": 8}}}, "no role 'actr': did you mean 'actor'"),
        ({"workload": {"lora_rank": {"actor": 0}}}, "have rank 0: give at least 1"),
        ({"workload": {"frozen": ["actor", "critic"]}}, "nothing is trained"),
        ({"workload": "many"}, "workload 'many' is not understood: write prompts x samples"),
        ({"method": "dpo", "workload": {"group_size": 4}}, "dpo trains on pairs, so group_size = 4 means nothing"),
        ({"space": {"tp": [3]}}, "tp = 3 divides no model's attention heads (actor 32"),
        ({"space": {"tp": []}}, "has no plan in it: give at least [1]"),
        ({"space": {"slice_sizes": [8]}}, "a slice of 8 GPUs does not cut a node of 8"),
        ({"space": {"slice_sizes": [3]}}, "a slice of 3 GPUs does not cut a node of 8"),
        ({"space": {"slice_sizes": [0]}}, "give distinct whole numbers of at least 1"),
        ({"space": {"blocks": 0}}, "space.blocks must be at least 1"),
        ({"space": {"pp_max": 0}}, "space.pp_max must be at least 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_planned_is_refused_with_the_mend(change: dict[str, Any], sentence: str) -> None:
    found = refusal({**MINIMAL, **change}, None)
    assert sentence in found and "\n" not in found


def test_a_dtype_that_the_gpu_lacks() -> None:
    no_fp32 = {
        **GROUP,
        "gpu": {"name": "odd", "flops": {"bf16": 1e14}, "memory_bytes": 1e10, "memory_bytes_per_second": 1e12},
    }
    data = {**MINIMAL, "cluster": {**GIVEN, "group": [no_fp32]}, "workload": {"dtype": "fp32"}}
    assert refusal(data) == "GPU 'odd' has no FLOP/s for 'fp32': choose one of bf16"


def test_every_problem_of_a_file_is_said_at_once_and_names_the_file(tmp_path: Path) -> None:
    text = case_file(16).read_text().replace("nodes = 2", "nodes = 0").replace("prompts =", "promts =")
    (tmp_path / "case.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_case(tmp_path / "case.toml")
    assert len(caught.value.problems) == 2
    assert all(problem.startswith(f"{tmp_path / 'case.toml'}: ") for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no lengths in it"),
        ('"seven"\n', "line 1 has no length"),
        ("-3\n", "line 1 has no length"),
        ("5\n{}\n", "line 2 has no length"),
        ("true\n", "line 1 has no length"),
        ("{\n", "is not JSON"),
    ],
)
def test_a_file_of_no_lengths(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "l.jsonl").write_text(text)
    assert sentence in refusal({**MINIMAL, "workload": {"generated_tokens": "l.jsonl"}}, tmp_path)


def test_a_prompt_length_is_not_in_a_kept_sample(tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text('{"tokens": 5}\n')
    assert "a table with prompt_tokens" in refusal({**MINIMAL, "workload": {"prompt_tokens": "l.jsonl"}}, tmp_path)


def test_the_shipped_cases_hold_no_key_by_default() -> None:
    """A case file says all its figures itself, the cluster's too: nothing built in can move it."""
    for gpus in CASES:
        data = tomllib.loads(case_file(gpus).read_text())
        assert isinstance(data["cluster"]["group"][0]["gpu"], dict)
        assert {"prompts", "group_size", "prompt_tokens", "generated_tokens", "minibatches", "epochs", "dtype"} == set(
            data["workload"]
        )
        assert cluster(f"{gpus}xa100-reference").groups[0].gpu.balance("bf16") == 156
