"""What is called the fewest GPUs fits where one mesh size less does not, whatever way calls are run."""

from collections.abc import Iterator
from itertools import product

import pytest

from ropewalk.plan.sizes import shape_of
from ropewalk.planner.advice.advise import Question, case_of
from ropewalk.planner.advice.fewest import fewest_gpus, fits, mesh_sizes, resized
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.estimate.calibration import REFERENCE
from ropewalk.planner.estimate.footprint import Footprint, footprint
from ropewalk.planner.estimate.place import place
from ropewalk.planner.estimate.work import CallWork, works
from ropewalk.planner.planning import Asked, plan_case
from ropewalk.planner.search.candidates import cuts

CASES = [("ppo", "7b", "8xa100"), ("grpo", "70b", "64xh100"), ("reward-model", "34b", "16xa100"), ("sft", "8b", "8xl4")]


def case(method: str, size: str, machines: str) -> Case:
    return case_of(Question(cluster(machines), shape_of(size), verifiable=True), method, REFERENCE)


def jobs(one: Case) -> tuple[CallWork, ...]:
    return works(one.graph, one.shapes, one.workload)


@pytest.mark.parametrize(("method", "size", "machines"), CASES)
def test_fewest_is_fewest(method: str, size: str, machines: str) -> None:
    one = case(method, size, machines)
    (group,) = one.cluster.groups
    few = fewest_gpus(one)
    assert few.gpus is not None and few.have == one.cluster.gpus and few.kind == group.gpu.name
    sizes = [size for size in mesh_sizes(group.gpus_per_node) if size <= few.gpus]
    assert sizes[-1] == few.gpus and fits(resized(one, group, few.gpus), jobs(one))
    assert not any(fits(resized(one, group, less), jobs(one)) for less in sizes[:-1])


@pytest.mark.parametrize(("method", "size", "machines"), CASES)
def test_states_are_a_floor_of_the_fewest(method: str, size: str, machines: str) -> None:
    one = case(method, size, machines)
    trained = sum(4 * job.shape.parameters for job in jobs(one) if job.kind == "train")
    usable = REFERENCE.usable_share * one.cluster.groups[0].gpu.memory_bytes
    assert (fewest_gpus(one).gpus or 0) >= trained / usable
    for job in jobs(one):
        assert (fewest_gpus(one, [job.name]).gpus or 0) <= (fewest_gpus(one).gpus or 0)


def needs(one: Case, job: CallWork) -> Iterator[Footprint]:
    for cut in cuts(job, place(one.cluster, 0, one.cluster.gpus), one.space):
        yield from (footprint(job, strategy, REFERENCE) for strategy in cut)


@pytest.mark.parametrize("machines", ["1xa100", "2xa100", "2xl4", "4xl4", "8xl4"])
def test_it_fits_where_some_choice_of_ways_does(machines: str) -> None:
    one = case("grpo+rule-reward", "1b", machines)
    usable = REFERENCE.usable_share * one.cluster.groups[0].gpu.memory_bytes
    distinct = [sorted({(n.static_bytes, n.active_bytes) for n in needs(one, job)})[:60] for job in jobs(one)]
    brute = any(sum(s for s, _ in pick) + max(a for _, a in pick) <= usable for pick in product(*distinct))
    assert fits(one, jobs(one)) == brute


def test_what_the_planner_places_on_as_many_fits_there() -> None:
    one = case("grpo", "7b", "8xa100")
    few = fewest_gpus(one)
    assert few.gpus is not None
    smaller = resized(one, one.cluster.groups[0], few.gpus)
    assert plan_case(smaller, Asked(budget_seconds=0.2, baselines=False)).judged.fits


def test_of_two_kinds_the_one_is_named_that_needs_the_smaller_share() -> None:
    few = fewest_gpus(case("sft", "7b", "8xh100+8xl4"))
    assert few.kind == "H100 SXM" and few.have == 8 and few.met
    assert fewest_gpus(case("sft", "7b", "8xl4+8xh100")) == few


def test_what_fits_nowhere_has_no_number() -> None:
    few = fewest_gpus(case("sft", "405b", "8xl4"))
    assert few.gpus is None or few.gpus > 100
    assert not few.met
