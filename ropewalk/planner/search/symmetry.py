"""Symmetries of a planning problem, each verified on its tables before anything relies on it.

A symmetry renumbers cells so that every call has, on the image of a mesh, the same candidates, and every move the same
price between the images. On a set of candidates that is not closed under it, breaking it would prove falsehoods.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from ropewalk.planner.search.problem import Candidate, Ints, Problem

MOST = 60
"""Symmetries are bits of a signed 64-bit number."""


def symmetries(problem: Problem) -> list[Ints]:
    """Verified symmetries, each as the image of every candidate number."""
    found = []
    for cells in _proposals(len(problem.cell_gpus)):
        image = _image(problem, cells)
        if image is not None and not np.array_equal(image, np.arange(len(image))):
            found.append(image)
        if len(found) == MOST:
            break
    return found


def _proposals(cells: int) -> Iterator[list[int]]:
    """Renumberings worth a look: the mirror, and swaps of two neighbouring blocks of equal size."""
    yield list(range(cells))[::-1]
    size = cells // 2
    while size >= 1:
        for first in range(0, cells - 2 * size + 1, 2 * size):
            order = list(range(cells))
            left, right = order[first : first + size], order[first + size : first + 2 * size]
            order[first : first + 2 * size] = right + left
            yield order
        size //= 2


def _image(problem: Problem, cells: Sequence[int]) -> Ints | None:
    """Image of every candidate, or None where the problem does not have this symmetry."""
    for values in (problem.cell_gpus, problem.cell_bytes):
        if any(values[a] != values[b] for a, b in enumerate(cells)):
            return None
    number = {mesh.mask: i for i, mesh in enumerate(problem.meshes)}

    @cache  # most proposals fail at the first mesh or two
    def image_of(mesh: int) -> int:
        return number.get(_moved(problem.meshes[mesh].mask, cells), -1)

    image: list[int] = []
    geometries = []
    for c, options in enumerate(problem.candidates):
        found = _images(options, image_of)
        if found is None:
            return None
        image += [problem.offset(c) + i for i in found[0]]
        geometries.append(found[1])
    for move, table in zip(problem.schedule.moves, problem.move_seconds, strict=True):
        ends = geometries[move.source], geometries[move.target]
        here, there = np.ix_(*(np.flatnonzero(g >= 0) for g in ends)), np.ix_(*(g[g >= 0] for g in ends))
        if not np.array_equal(table[there], table[here]):
            return None
    return np.array(image, dtype=np.int64)


def _images(options: Sequence[Candidate], image_of: Callable[[int], int]) -> tuple[list[int], Ints] | None:
    """Images of a call's candidates, and of their geometries (−1: no candidate has it); None where one has none."""
    key = {(o.mesh, o.strategy): i for i, o in enumerate(options)}
    geometry = np.full(1 + max(o.geometry for o in options), -1, dtype=np.int64)
    image = []
    for option in options:
        i = key.get((image_of(option.mesh), option.strategy), -1)
        if i < 0:
            return None
        other = options[i]
        same = (option.seconds, option.static_bytes, option.active_bytes)
        if same != (other.seconds, other.static_bytes, other.active_bytes):
            return None
        if geometry[option.geometry] not in (-1, other.geometry):
            return None
        geometry[option.geometry] = other.geometry
        image.append(i)
    return image, geometry


def _moved(mask: int, cells: Sequence[int]) -> int:
    return sum(1 << cells[i] for i in range(len(cells)) if mask >> i & 1)
