"""Random planning problems, small enough to enumerate, and larger ones to run."""

from math import prod

import numpy as np

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.planner.case.graphs import freeze, method_graph
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.search.problem import Candidate, Floats, Mesh, Problem
from ropewalk.planner.search.schedule import MODES, Mode, Schedule, schedule

PPO = CallGraph(
    (
        Call("generate", "actor", "generate", ("prompts",), ("tokens",)),
        Call("reference", "reference", "forward", ("tokens",), ("reference_logprobs",)),
        Call("reward_model", "reward", "forward", ("tokens",), ("scores",)),
        Call("values", "critic", "forward", ("tokens",), ("values",)),
        Call("actor_train", "actor", "train", ("tokens", "reference_logprobs", "scores", "values"), ()),
        Call("critic_train", "critic", "train", ("tokens", "reference_logprobs", "scores", "values"), ()),
    ),
    given=("prompts",),
)
GRPO = CallGraph(
    (
        Call("generate", "actor", "generate", ("prompts",), ("tokens",)),
        Call("reference", "reference", "forward", ("tokens",), ("reference_logprobs",)),
        Call("reward_model", "reward", "forward", ("tokens",), ("scores",)),
        Call("actor_train", "actor", "train", ("tokens", "reference_logprobs", "scores"), ()),
    ),
    given=("prompts",),
)
DPO = CallGraph(
    (
        Call("reference", "reference", "forward", ("tokens",), ("reference_logprobs",), unit="pair"),
        Call("actor_train", "actor", "train", ("tokens", "reference_logprobs"), (), unit="pair"),
    ),
    given=("tokens",),
)
SEVEN = method_graph("ppo+old-logprobs")
"""PPO that recomputes the log-probs of the samples: seven calls, of which three use the parameters of another."""
SFT = method_graph("sft")
CRITIC_ONLY = freeze(method_graph("ppo"), ["actor"])
"""A warm-up of the critic: generation waits for no training, so it is held back."""
FROZEN_SAMPLER = CallGraph(
    (
        Call("generate", "teacher", "generate", ("prompts",), ("tokens",)),
        Call("score", "judge", "forward", ("tokens",), ("scores",)),
        Call("train", "student", "train", ("tokens", "scores"), ()),
    ),
    given=("prompts",),
)
"""The only circle goes through generation twice an iteration apart."""
JUDGED = CallGraph(
    (
        Call("generate", "actor", "generate", ("prompts",), ("tokens",)),
        Call("judge", "judge", "generate", ("tokens",), ("verdicts",)),
        Call("answer", "actor", "generate", ("tokens", "verdicts"), ("answers",)),
        Call("train", "actor", "train", ("tokens", "answers"), ()),
    ),
    given=("prompts",),
)
"""Three generate calls, of which two move the same parameters and one moves none."""
GRAPHS = {"ppo": PPO, "grpo": GRPO, "dpo": DPO, "seven": SEVEN}
ODD_GRAPHS = {"sft": SFT, "critic only": CRITIC_ONLY, "frozen sampler": FROZEN_SAMPLER, "judged": JUDGED}


def runs(cells: int, *, aligned: bool) -> tuple[Mesh, ...]:
    """All runs of cells of one GPU, or only the aligned ones of a power of two."""
    spans = [(first, count) for count in range(1, cells + 1) for first in range(cells - count + 1)]
    if aligned:
        spans = [(first, count) for first, count in spans if count & (count - 1) == 0 and first % count == 0]
    return tuple(Mesh(first, count, first, count) for first, count in spans)


def on_cells(meshes: tuple[Mesh, ...], gpus: tuple[int, ...]) -> tuple[Mesh, ...]:
    """The same runs of cells that have so many GPUs."""
    return tuple(
        Mesh(m.first_cell, m.cells, sum(gpus[: m.first_cell]), sum(gpus[m.first_cell : m.first_cell + m.cells]))
        for m in meshes
    )


def plans_in(problem: Problem) -> int:
    return prod(len(options) for options in problem.candidates)


def random_problem(
    seed: int,
    *,
    graph: CallGraph = PPO,
    cells: int = 4,
    per_call: int = 4,
    variants: int = 1,
    aligned: bool = False,
    closed: bool = False,
    tight: float = 2.5,
    mode: Mode = "synchronous",
    uneven: bool = False,
) -> Problem:
    """A problem with a few meshes a call and up to `variants` candidates on each.

    `closed`: times depend on the size of the mesh alone, prices on sizes and on whether the meshes meet, and every mesh
    of a size is offered, so that mirrored plans are equal. `uneven`: cells differ in GPUs and in memory.
    """
    rng = np.random.default_rng(seed)
    gpus = tuple(int(g) for g in rng.integers(1, 4, cells)) if uneven else (1,) * cells
    room = tuple(float(b) for b in tight * rng.uniform(0.7, 1.3, cells)) if uneven else (tight,) * cells
    meshes = on_cells(runs(cells, aligned=aligned), gpus)
    plan = schedule(graph, mode)
    offered = [
        _options(rng, meshes, places, variants, closed=closed, trains=kind == "train")
        for kind in plan.kinds
        for places in [_places(rng, meshes, per_call, closed=closed)]
    ]
    return Problem(plan, meshes, tuple(offered), _prices(rng, plan, meshes, offered), gpus, room)


def any_problem(seed: int, *, most_plays: int = 400_000, odd: bool = False) -> Problem:
    """One of all kinds of problems, with at most so many plans times orders."""
    rng = np.random.default_rng(seed)
    graphs = ODD_GRAPHS if odd else GRAPHS
    weights = None if odd else [0.45, 0.25, 0.1, 0.2]
    graph = graphs[str(rng.choice(list(graphs), p=weights))]
    while True:
        problem = random_problem(
            int(rng.integers(2**32)),
            graph=graph,
            cells=int(rng.integers(1, 7)),
            per_call=int(rng.integers(2, 7)),
            variants=int(rng.integers(1, 4)),
            aligned=bool(rng.integers(2)),
            closed=bool(rng.integers(2)),
            tight=float(rng.uniform(1.4, 5.0)),
            mode=MODES[int(rng.choice(3, p=[0.5, 0.25, 0.25]))],
            uneven=bool(rng.integers(3) == 0),
        )
        if plans_in(problem) * len(problem.schedule.orders) <= most_plays:
            return problem


def _places(rng: np.random.Generator, meshes: tuple[Mesh, ...], per_call: int, *, closed: bool) -> list[int]:
    if not closed:
        return sorted(int(i) for i in rng.choice(len(meshes), size=min(per_call, len(meshes)), replace=False))
    found = sorted({mesh.cells for mesh in meshes})
    sizes = rng.choice(found, size=min(2, len(found)), replace=False)
    return [i for i, mesh in enumerate(meshes) if mesh.cells in sizes]


def _options(
    rng: np.random.Generator, meshes: tuple[Mesh, ...], places: list[int], variants: int, *, closed: bool, trains: bool
) -> tuple[Candidate, ...]:
    """Candidates of one call; some cut a mesh alike and so share their prices of moves."""
    known: dict[int, list[tuple[int, float, float, float]]] = {}
    options = []
    geometries: dict[tuple[int, int], int] = {}
    for place in places:
        size = meshes[place].cells
        drawn = known.setdefault(size if closed else -1 - place, _drawn(rng, size, variants, trains=trains))
        for tp, seconds, static, active in drawn:
            geometry = geometries.setdefault((place, tp), len(geometries))
            number = sum(1 for o in options if o.mesh == place)
            strategy = Strategy(dp=meshes[place].gpus, tp=tp, micro_batches=1 + number)
            options.append(Candidate(place, strategy, geometry, seconds, static, active))
    return tuple(sorted(options, key=lambda c: (c.mesh, c.seconds)))


def _drawn(
    rng: np.random.Generator, size: int, variants: int, *, trains: bool
) -> list[tuple[int, float, float, float]]:
    """(cut, seconds, static, active) by seconds."""
    count = int(rng.integers(1, variants + 1))
    rows = [
        (
            int(rng.integers(1, 3)),
            float(rng.uniform(1, 10) / size**0.8),
            float(rng.uniform(0, 1) * (2 if trains else 1) / size),
            float(rng.uniform(0, 1)),
        )
        for _ in range(count)
    ]
    return sorted(rows, key=lambda row: row[1])


def _prices(
    rng: np.random.Generator, plan: Schedule, meshes: tuple[Mesh, ...], offered: list[tuple[Candidate, ...]]
) -> tuple[Floats, ...]:
    """By (size, cut) at both ends and whether the meshes are equal, meet, or lie apart."""
    most = 1 + max(mesh.cells for mesh in meshes)
    tables = []
    for move in plan.moves:
        price = rng.uniform(0, 1.5, size=(most, 3, most, 3, 3)) * (rng.random((most, 3, most, 3, 3)) < 0.9)
        sources, targets = (_by_geometry(offered[call]) for call in (move.source, move.target))
        table = np.zeros((len(sources), len(targets)))
        for i, (a, cut_a) in enumerate(sources):
            for j, (b, cut_b) in enumerate(targets):
                near = 2 if a == b else int(meshes[a].mask & meshes[b].mask != 0)
                same = a == b and cut_a == cut_b
                table[i, j] = 0.0 if same else price[meshes[a].cells, cut_a, meshes[b].cells, cut_b, near]
        tables.append(table)
    return tuple(tables)


def _by_geometry(options: tuple[Candidate, ...]) -> list[tuple[int, int]]:
    found = {c.geometry: (c.mesh, c.strategy.tp) for c in options}
    return [found[g] for g in range(len(found))]
