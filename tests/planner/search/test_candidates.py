"""Candidates: everything that can be cut and fits, and of what is left out nothing could have been best."""

import numpy as np
import pytest

from ropewalk.planner.case.describe import Case, describe
from ropewalk.planner.estimate.calibration import calibration
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.work import works
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.candidates import Option, problem_of, undominated
from ropewalk.planner.search.problem import Problem
from ropewalk.planner.search.prove import Proof, prove
from ropewalk.planner.search.temper import search
from ropewalk.records.errors import InputError

TINY = {
    "grpo on 4": ("grpo", "0.5b", "4xa100", 4),
    "ppo on 2": ("ppo", "0.5b", "2xl4", 4),
    "dpo on 8": ("dpo", "0.5b", "8xa100", 16),
    "sft on 1": ("sft", "0.5b", "1xa100", 4),
    "ppo on 6": ("ppo", "0.5b", "6xa100", 6),
    "ppo on two kinds": ("ppo", "0.5b", "2xa100+2xl4", 4),
    "grpo short of memory": ("grpo", "1.5b", "4xl4", 8),
    "ppo short of memory": ("ppo", "0.5b", "3xl4", 8),
}
FEW = ("ppo on 2", "sft on 1")


def case(method: str, model: str, cluster: str, prompts: int) -> Case:
    workload = {"prompts": prompts, "prompt_tokens": 64, "generated_tokens": 64}
    return describe({"method": method, "models": {"actor": model}, "cluster": cluster, "workload": workload})


def best(problem: Problem) -> Proof:
    start = search(problem, budget_seconds=0.05).plan
    proof = prove(problem, start, budget_seconds=1e9)
    assert proof.epsilon == 0.0
    return proof


@pytest.mark.parametrize("name", TINY if COMPILED else FEW)
def test_pruning_loses_no_plan_that_could_be_best(name: str) -> None:
    described = case(*TINY[name])
    pruned, whole = problem_of(described), problem_of(described, prune=False)
    assert all(len(few) <= len(all_) for few, all_ in zip(pruned.candidates, whole.candidates, strict=True))
    one, other = best(pruned), best(whole)
    assert one.period_seconds == pytest.approx(other.period_seconds, rel=1e-9)
    assert one.bound_seconds == pytest.approx(other.bound_seconds, rel=1e-9)


@pytest.mark.parametrize("name", TINY if COMPILED else FEW)
def test_every_candidate_fits_alone_and_is_a_cut_of_its_mesh(name: str) -> None:
    described = case(*TINY[name])
    problem = problem_of(described)
    jobs = works(described.graph, described.shapes, described.workload)
    constants = calibration(described.calibration)
    for job, options in zip(jobs, problem.candidates, strict=True):
        keys = [(c.mesh, c.seconds) for c in options]
        assert keys == sorted(keys)
        for c in options:
            mesh, s = problem.meshes[c.mesh], c.strategy
            assert s.dp * s.tp * s.pp == mesh.gpus
            assert job.shape.heads % s.tp == 0
            need = footprint(job, s, constants)
            assert (need.static_bytes, need.active_bytes) == (c.static_bytes, c.active_bytes)
            room = min(problem.cell_bytes[mesh.first_cell : mesh.first_cell + mesh.cells])
            assert c.static_bytes + c.active_bytes <= room
            assert c.seconds > 0


def test_more_nodes_never_make_the_best_plan_worse() -> None:
    # two cards an L4 node: the nodes of the smaller cluster are nodes of the larger one
    group = {"nodes": 1, "gpus_per_node": 2, "inside_bytes_per_second": 3e10, "host_bytes_per_second": 1.6e10}
    periods = []
    for nodes in (1, 2, 3):
        cluster = {"name": "some", "between_bytes_per_second": 1e10, "group": [{**group, "nodes": nodes, "gpu": "l4"}]}
        workload = {"prompts": 12, "prompt_tokens": 64, "generated_tokens": 64}
        data = {"method": "grpo", "models": {"actor": "0.5b"}, "cluster": cluster, "workload": workload}
        periods.append(best(problem_of(describe({**data, "space": {"slice_sizes": [1]}}))).period_seconds)
    assert periods == sorted(periods, reverse=True)


def test_what_is_worse_in_everything_goes_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    strategy = problem_of(case(*TINY["sft on 1"])).candidates[0][0].strategy
    for _ in range(50):
        options = [Option(strategy, *(float(x) for x in rng.integers(1, 5, 3))) for _ in range(12)]
        kept = undominated(options)

        def beats(a: Option, b: Option) -> bool:
            return a.seconds <= b.seconds and a.static_bytes <= b.static_bytes and a.peak_bytes <= b.peak_bytes

        for option in options:
            assert any(beats(k, option) for k in kept)
        for i, k in enumerate(kept):
            assert not any(beats(other, k) for j, other in enumerate(kept) if i != j)


def test_what_fits_nowhere_is_named_with_a_mend() -> None:
    with pytest.raises(InputError, match=r"call 'actor_train'.*needs at least .* GB on each GPU.*take more GPUs"):
        problem_of(case("sft", "7b", "1xl4", 4))
    with pytest.raises(InputError, match="needs at least"):
        problem_of(case("ppo", "70b", "8xl4", 4))


@pytest.mark.parametrize(
    ("cluster", "space", "said"),
    [
        ("1000000xa100", {}, "has 16 sequences of a step, too few for the replicas that"),
        ("2xa100", {"ep": [3]}, r"no ep of \[3\] spreads no experts"),
        ("3x4xa100", {"slice_sizes": [], "tp": [7]}, r"no tp of \[7\] divides the 14 heads"),
    ],
)
def test_what_cannot_be_cut_is_told_by_its_reason(cluster: str, space: dict[str, object], said: str) -> None:
    data = {"method": "sft", "models": {"actor": "0.5b"}, "cluster": cluster, "workload": "16:8+8"}
    with pytest.raises(InputError, match=f"{said}.*: (take|give)"):
        problem_of(describe({**data, "space": space}))


@pytest.mark.parametrize("prompts", [10**12, 10**24])
def test_a_call_of_a_thousand_years_is_a_mistake_of_what_was_given(prompts: int) -> None:
    data = {"method": "sft", "models": {"actor": "0.5b"}, "cluster": "2xa100", "workload": f"{prompts}:8+8"}
    if prompts < 10**20:
        assert all(c.seconds < 1e10 for c in problem_of(describe(data)).candidates[0])
        return
    with pytest.raises(InputError, match=r"takes .* s under every plan, which is over 1000 years: check the FLOP/s"):
        problem_of(describe(data))


def test_a_gpu_that_computes_next_to_nothing_has_no_plan() -> None:
    """Its seconds were above what counts as infinite, and the period came out negative."""
    gpu = {"name": "x", "flops": {"bf16": 1e-300}, "memory_bytes": 80e9, "memory_bytes_per_second": 2e12}
    group = {"gpu": gpu, "nodes": 1, "gpus_per_node": 2, "inside_bytes_per_second": 2e11, "host_bytes_per_second": 2e10}
    cluster = {"name": "slow", "between_bytes_per_second": 2e10, "group": [group]}
    data = {"method": "sft", "models": {"actor": "0.5b"}, "cluster": cluster, "workload": "16:8+8"}
    with pytest.raises(InputError, match="over 1000 years"):
        problem_of(describe(data))
