"""What plans are compared with: one strategy for all, the usual heuristic, a group per role, a classical chain."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ropewalk.planner.search.kernels import DRAWS, Chains, evaluate, fits, make_room, metropolis, scratch
from ropewalk.planner.search.problem import FAR, SECONDS, Candidate, Problem
from ropewalk.planner.search.temper import LEAST

LEAST_USED = 0.85
"""Share of the GPUs that a split by roles has to use."""
MOST_SPLITS = 300
"""Splits by roles that are looked at, those with the least sum of times first."""
CLASSICAL_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Baseline:
    """A named plan of the same problem; `plan` is None where no plan of that kind fits."""

    name: str
    about: str
    plan: tuple[int, ...] | None
    period_seconds: float | None


def symmetric(problem: Problem) -> Baseline:
    """Every call on all GPUs with one (dp, tp, pp): the best of them."""
    whole = max(range(len(problem.meshes)), key=lambda m: problem.meshes[m].gpus)
    shared = set.intersection(*({_cut(c) for c in options if c.mesh == whole} for options in problem.candidates))
    plans = (_on(problem, partial(_cut_so, whole, cut)) for cut in sorted(shared))
    return _best(problem, "symmetric", "every call on all GPUs with one strategy", plans)


def heuristic(problem: Problem, *, gpus_per_node: int, nodes: int) -> Baseline:
    """Every call on all GPUs, tensor-parallel inside a node, pipelined across nodes."""
    whole = max(range(len(problem.meshes)), key=lambda m: problem.meshes[m].gpus)
    most = {
        call: max((c.strategy.tp for c in options if c.mesh == whole), default=1)
        for call, options in enumerate(problem.candidates)
    }
    tp = min([gpus_per_node, *most.values()])

    def wanted(c: Candidate) -> bool:
        return c.mesh == whole and c.strategy.tp == tp and c.strategy.pp == nodes

    return _best(problem, "heuristic", "every call on all GPUs, tp inside a node, pp across", [_on(problem, wanted)])


def asymmetric(problem: Problem) -> Baseline:
    """A group of GPUs for generation and one for each role, none shared: the best split."""
    groups = _roles(problem)
    options = [set.intersection(*({c.mesh for c in problem.candidates[call]} for call in group)) for group in groups]
    fastest = {
        (call, mesh): min(c.seconds for c in problem.candidates[call] if c.mesh == mesh)
        for group, meshes in zip(groups, options, strict=True)
        for call in group
        for mesh in meshes
    }
    by_sizes: dict[tuple[int, ...], tuple[int, ...]] = {}
    for split in _splits(problem, options, LEAST_USED * sum(problem.cell_gpus)):
        by_sizes.setdefault(tuple(problem.meshes[mesh].cells for mesh in split), split)
    placed = [{call: mesh for g, mesh in zip(groups, split, strict=True) for call in g} for split in by_sizes.values()]
    placed.sort(key=lambda where: sum(fastest[call, mesh] for call, mesh in where.items()))
    plans = (_on(problem, lambda c: True, where) for where in placed[:MOST_SPLITS])
    return _best(problem, "asymmetric", "a group of GPUs for generation and one for each role", plans)


def classical(
    problem: Problem,
    *,
    seed: int = 0,
    steps: int = CLASSICAL_STEPS,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Baseline, float]:
    """Metropolis from the fastest candidate of every call, one call changed at a time; and the seconds it took."""
    tables, orders, room = problem.tables, problem.orders, scratch(problem.tables)
    rng = np.random.default_rng(seed)
    draws = rng.random((steps, DRAWS))
    low, high = tables.call_start[:-1], tables.call_start[1:]
    seconds = tables.candidates[:, SECONDS]
    plan = np.array([a + np.argmin(seconds[a:b]) for a, b in zip(low, high, strict=True)], dtype=np.int64)
    began = clock()
    about = f"Metropolis, {steps} steps from the fastest candidate of every call"
    if not make_room(tables, plan, room.room, rng.random((steps, 2))):
        return Baseline("classical", about, None, None), clock() - began
    cost, _ = evaluate(tables, orders, plan, room)
    chain = Chains(
        plan[None].copy(), np.array([cost]), np.array([100.0 / max(cost, LEAST)]), plan[None].copy(), np.array([cost]),
        np.zeros(3, dtype=np.int64),
    )  # fmt: skip
    metropolis(tables, orders, chain, room, draws)
    taken = clock() - began
    return Baseline("classical", about, tuple(int(k) for k in chain.best[0]), float(chain.best_cost[0])), taken


def _cut_so(mesh: int, cut: tuple[int, int, int], c: Candidate) -> bool:
    return c.mesh == mesh and _cut(c) == cut


def _cut(c: Candidate) -> tuple[int, int, int]:
    return c.strategy.dp, c.strategy.tp, c.strategy.pp


def _roles(problem: Problem) -> list[tuple[int, ...]]:
    """Calls that share a group: a generate call alone, the other calls of a role together."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for call, (role, kind) in enumerate(zip(problem.schedule.roles, problem.schedule.kinds, strict=True)):
        groups.setdefault((role, kind == "generate"), []).append(call)
    return [tuple(calls) for calls in groups.values()]


def _splits(problem: Problem, options: Sequence[set[int]], need: float) -> Iterator[tuple[int, ...]]:
    """Disjoint meshes, one a group, that together use enough GPUs; largest first, packed from the left."""
    meshes = problem.meshes
    by_size: list[dict[int, list[int]]] = []
    for allowed in options:
        sizes: dict[int, list[int]] = {}
        for mesh in sorted(allowed, key=lambda m: meshes[m].first_cell):
            sizes.setdefault(meshes[mesh].cells, []).append(mesh)
        by_size.append(sizes)

    def choose(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(sizes) == len(options):
            packed = _pack(problem, by_size, sizes)
            if packed is not None:
                yield packed
            return
        for size in by_size[len(sizes)]:
            if sum(sizes) + size <= len(problem.cell_gpus):
                yield from choose((*sizes, size))

    for split in choose(()):
        if sum(meshes[mesh].gpus for mesh in split) >= need:
            yield split


def _pack(problem: Problem, by_size: Sequence[dict[int, list[int]]], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """A mesh of each size, disjoint: the largest first, each as far left as it goes."""
    taken, found = 0, {}
    for group in sorted(range(len(sizes)), key=lambda g: -sizes[g]):
        for mesh in by_size[group][sizes[group]]:
            if not taken & problem.meshes[mesh].mask:
                taken |= problem.meshes[mesh].mask
                found[group] = mesh
                break
        else:
            return None
    return tuple(found[group] for group in range(len(sizes)))


def _on(
    problem: Problem, wanted: Callable[[Candidate], bool], meshes: dict[int, int] | None = None
) -> tuple[int, ...] | None:
    """The fastest candidates that are wanted, made to fit in memory by taking slower, smaller ones."""
    plan, options = [], []
    for call, candidates in enumerate(problem.candidates):
        found = [
            problem.offset(call) + i
            for i, c in enumerate(candidates)
            if wanted(c) and (meshes is None or c.mesh == meshes[call])
        ]
        if not found:
            return None
        found.sort(key=lambda k: problem.tables.candidates[k, SECONDS])
        options.append(found)
        plan.append(found[0])
    return _fitted(problem, plan, options)


def _fitted(problem: Problem, plan: list[int], options: list[list[int]]) -> tuple[int, ...] | None:
    """Go to the next slower candidate that frees most memory a second lost, until everything fits."""
    tables, room = problem.tables, scratch(problem.tables)

    def over(trial: list[int]) -> float:
        ok = fits(tables.candidates, tables.meshes, tables.cell_bytes, np.array(trial), room.room)
        return 0.0 if ok else float((room.room.sum(axis=0) / tables.cell_bytes).max())

    now = over(plan)
    while now > 0.0:
        best: tuple[float, list[int], float] | None = None
        for call, found in enumerate(options):
            for k in found:
                trial = [*plan[:call], k, *plan[call + 1 :]]
                then = over(trial)
                lost = max(tables.candidates[k, SECONDS] - tables.candidates[plan[call], SECONDS], 1e-9)
                if then < now and (best is None or (now - then) / lost > best[0]):
                    best = ((now - then) / lost, trial, then)
        if best is None:
            return None
        _, plan, now = best
    return tuple(plan)


def _best(problem: Problem, name: str, about: str, plans: Iterable[tuple[int, ...] | None]) -> Baseline:
    room = scratch(problem.tables)
    best: tuple[float, tuple[int, ...]] | None = None
    for plan in plans:
        if plan is None:
            continue
        period, _ = evaluate(problem.tables, problem.orders, np.array(plan, dtype=np.int64), room)
        if period < FAR and (best is None or period < best[0]):
            best = (float(period), plan)
    return Baseline(name, about, best[1] if best else None, best[0] if best else None)
