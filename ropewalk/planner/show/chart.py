"""A plan's timeline and memory as lines of text: one line a node, one iteration of the steady state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.plan.cluster import Cluster
from ropewalk.planner.placed import Judged
from ropewalk.planner.show.memory import Device, ranks_text

WIDTH = 72
MOST_LINES = 32
SHADES = "█▓▒░▚▞"
IDLE, MOVED = "·", "→"
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of ranks on which at any time one and the same call runs."""

    name: str
    first_rank: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Busy:
    """A stretch of one iteration, as shares of the period."""

    name: str
    begin: float
    end: float


def pieces(judged: Judged, cluster: Cluster, *, most: int = MOST_LINES) -> list[Piece]:
    """Lines of a chart: the parts of every node; where these are too many, runs of nodes with the same work."""
    found = [
        Piece(f"node {node}", first, gpus)
        for start, count, *_ in judged.cell_bytes
        for node, first, gpus in _by_node(cluster, start, count)
    ]
    if len(found) <= most:
        return found
    grouped = []
    for start, count, *_ in judged.cell_bytes:
        low, high = cluster.node_of(start), cluster.node_of(start + count - 1)
        grouped.append(Piece(f"node {low}" if low == high else f"nodes {low}-{high}", start, count))
    return grouped


def steady(judged: Judged, piece: Piece) -> list[Busy]:
    """What runs on a piece in one iteration of the steady state, cut where it crosses the iteration's ends."""
    period, found = judged.period_seconds, []
    for span in judged.spans:
        first, gpus = span.info.get("first_rank"), span.info.get("gpus")
        if span.info.get("iteration") != 1 or not isinstance(first, int) or not isinstance(gpus, int):
            continue
        if first <= piece.first_rank < first + gpus:
            begin = span.start_seconds / period % 1.0
            if begin > 1.0 - 1e-9:
                begin = 0.0
            end = begin + (span.end_seconds - span.start_seconds) / period
            found.append(Busy(span.name, begin, min(end, 1.0)))
            if end > 1.0 + 1e-9:
                found.append(Busy(span.name, 0.0, end - 1.0))
    return sorted(found, key=lambda busy: busy.begin)


def gantt(judged: Judged, cluster: Cluster, *, width: int = WIDTH) -> list[str]:
    """One line a node (or part of one), and a line of seconds under them."""
    shades = shades_of(judged)
    lines = pieces(judged, cluster)
    heads = [f"{piece.name}  {ranks_text(piece.first_rank, piece.gpus)}" for piece in lines]
    left = max(len(head) for head in heads)
    drawn = [
        f"{head:<{left}}  {_line(steady(judged, piece), shades, width)}"
        for head, piece in zip(heads, lines, strict=True)
    ]
    end = f"{judged.period_seconds:.3g} s"
    return [*drawn, f"{'':<{left}}  0{end:>{width - 1}}"]


def shades_of(judged: Judged) -> dict[str, str]:
    """How each call is filled."""
    return {name: SHADES[i % len(SHADES)] for i, name in enumerate(judged.calls)}


def bar(share: float, *, width: int = 24) -> str:
    """A bar of so much of its width; what is over it is marked."""
    if share > 1.0 + 1e-9:
        return "█" * width + "!"
    whole, part = divmod(round(share * width * 8), 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width, "·") + " "


def memory_lines(devices: Sequence[Device], *, most: int = 4) -> list[str]:
    """A bar for each run of GPUs that hold the same: used of usable, and what fills it."""
    left = max(len(device.ranks) for device in devices)
    found = []
    for device in devices:
        share = device.need_bytes / device.usable_bytes
        parts = ", ".join(f"{name} {size / 1e9:.3g}" for name, size in list(device.by_role().items())[:most])
        used = f"{device.need_bytes / 1e9:5.1f} of {device.usable_bytes / 1e9:.1f} GB"
        found.append(f"{device.ranks:<{left}}  {bar(share)} {used}  {parts}")
    return found


def _line(busy: Sequence[Busy], shades: Mapping[str, str], width: int) -> str:
    cells = [IDLE] * width
    for one in busy:
        begin, end = round(one.begin * width), round(one.end * width)
        if one.name not in shades:
            for i in range(begin, min(max(end, begin + 1), width)):
                cells[i] = MOVED if cells[i] == IDLE else cells[i]
            continue
        for i in range(begin, min(end, width)):
            cells[i] = shades[one.name]
        label = one.name[: end - begin - 1]
        if len(label) >= min(3, len(one.name)):
            cells[begin : begin + len(label)] = label
    return "".join(cells)


def _by_node(cluster: Cluster, first: int, gpus: int) -> Iterator[tuple[int, int, int]]:
    """(node, first rank, GPUs) of the parts of a run of ranks."""
    rank = first
    while rank < first + gpus:
        node, begin = cluster.node_of(rank), rank
        while rank < first + gpus and cluster.node_of(rank) == node:
            rank += 1
        yield node, begin, rank - begin
