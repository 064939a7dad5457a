"""Random planning problems, small enough to enumerate, and larger ones to run."""

import numpy as np

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.search.problem import Candidate, Mesh, Problem
from ropewalk.planner.search.schedule import Mode, schedule

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
GRAPHS = {"ppo": PPO, "grpo": GRPO, "dpo": DPO}


def runs(cells: int, *, aligned: bool) -> tuple[Mesh, ...]:
    """All runs of cells, or only the aligned ones of a power of two."""
    spans = [(first, count) for count in range(1, cells + 1) for first in range(cells - count + 1)]
    if aligned:
        spans = [(first, count) for first, count in spans if count & (count - 1) == 0 and first % count == 0]
    return tuple(Mesh(first, count, first, count) for first, count in spans)


def random_problem(
    seed: int,
    *,
    graph: CallGraph = PPO,
    cells: int = 4,
    per_call: int = 4,
    aligned: bool = False,
    closed: bool = False,
    tight: float = 2.5,
    mode: Mode = "synchronous",
) -> Problem:
    """A problem with a few candidates a call. `closed`: times depend on the size of the mesh alone and every mesh of
    a size is offered, so that mirrored plans are equal."""
    rng = np.random.default_rng(seed)
    meshes = runs(cells, aligned=aligned)
    plan = schedule(graph, mode)
    offered = []
    for call in range(plan.calls):
        train = call in {move.source for move in plan.moves}
        if closed:
            found = sorted({mesh.cells for mesh in meshes})
            sizes = rng.choice(found, size=min(2, len(found)), replace=False)
            places = [i for i, mesh in enumerate(meshes) if mesh.cells in sizes]
        else:
            places = sorted(rng.choice(len(meshes), size=min(per_call, len(meshes)), replace=False))
        by_size: dict[int, tuple[float, float, float]] = {}
        options = []
        for place in places:
            size = meshes[place].cells
            drawn = (rng.uniform(1, 10) / size**0.8, rng.uniform(0, 1) * (2 if train else 1) / size, rng.uniform(0, 1))
            seconds, static, active = by_size.setdefault(size, drawn) if closed else drawn
            options.append((place, seconds, static, active))
        options.sort()
        offered.append(
            tuple(
                Candidate(int(place), Strategy(dp=meshes[place].gpus), number, seconds, static, active)
                for number, (place, seconds, static, active) in enumerate(options)
            )
        )
    moves = []
    for move in plan.moves:
        price = rng.uniform(0, 1.5, size=(cells + 1, cells + 1))
        table = [
            [
                0.0 if a.mesh == b.mesh else price[meshes[a.mesh].cells, meshes[b.mesh].cells]
                for b in offered[move.target]
            ]
            for a in offered[move.source]
        ]
        moves.append(np.array(table, dtype=np.float64))
    return Problem(plan, meshes, tuple(offered), tuple(moves), (1,) * cells, (tight,) * cells)
