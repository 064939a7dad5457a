"""Moves of a model whose experts may be spread in another way than all else.

Routed experts lie in lcm(tp, ep) parts on as many ranks of a stage that follow each other, all else in tp parts. So
they move as a model of their own, cut in their own way, and the two moves follow each other.
"""

import numpy as np

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.transfer import LayerBytes
from ropewalk.planner.moving.kernels import Floats, Ints
from ropewalk.planner.moving.move import FULL, Geometries, Shares, move_table


def model_table(
    shape: ModelShape,
    sources: Geometries,
    targets: Geometries,
    ways: tuple[Ints, Ints],
    cluster: Cluster,
    *,
    shares: Shares = FULL,
) -> Floats:
    """Seconds of moving the model from source s to target t, as [s, t]; `ways` are the ep of sources and targets."""
    whole = move_table(LayerBytes.of(shape), sources, targets, cluster, shares=shares)
    here, there = ways
    if shape.experts is None or (not (here > 1).any() and not (there > 1).any()):
        return whole
    rest, experts = LayerBytes.parts(shape)
    apart = move_table(rest, sources, targets, cluster, shares=shares)
    apart += move_table(experts, _spread(sources, here), _spread(targets, there), cluster, shares=shares)
    together: Floats = np.where((here[:, None] == 1) & (there == 1), whole, apart)
    return together


def _spread(meshes: Geometries, ways: Ints) -> Geometries:
    """The same meshes, cut as their experts are."""
    width = np.lcm(meshes.tp, ways)
    return Geometries(meshes.first, meshes.dp * meshes.tp // width, width, meshes.pp, meshes.full)
