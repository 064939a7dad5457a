"""A batch without padding: flat tokens, segments, and named columns.

Every per-token column sits at the token it describes; `predecessor_T` names the position whose hidden
state predicts that token. A segment may have a parent (depth one): the prompt that the samples of a group
share is stored once and its children attend to parent + themselves. A *row* is a segment that is nobody's
parent; per-row columns run over the rows in order of their segments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError

Array: TypeAlias = npt.NDArray[np.generic]
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PackedBatch:
    """`T` tokens in `S` segments, of which `R` are rows."""

    tokens_T: Ints
    segments_S3: Ints
    """Per segment: start, end, index of the parent segment or -1. Parents come before their children."""
    token_columns: Mapping[str, Array] = field(default_factory=dict)
    row_columns: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, column in self.token_columns.items():
            if len(column) != len(self.tokens_T):
                raise InputError(f"token column {name!r} has {len(column)} entries for {len(self.tokens_T)} tokens")
        for name, column in self.row_columns.items():
            if len(column) != self.rows:
                raise InputError(f"row column {name!r} has {len(column)} entries for {self.rows} rows")

    @cached_property
    def row_segments_R(self) -> Ints:
        """Index of each row's segment."""
        parents = set(self.segments_S3[:, 2].tolist())
        return np.array([s for s in range(len(self.segments_S3)) if s not in parents], np.int64)

    @property
    def rows(self) -> int:
        return len(self.row_segments_R)

    @property
    def tokens(self) -> int:
        return len(self.tokens_T)

    @cached_property
    def row_T(self) -> Ints:
        """Row number of each token; -1 in a shared prompt."""
        row = np.full(self.tokens, -1, np.int64)
        for number, segment in enumerate(self.row_segments_R):
            start, end, _ = self.segments_S3[segment]
            row[start:end] = number
        return row

    @cached_property
    def last_token_R(self) -> Ints:
        """Position of each row's last token, by its recorded end."""
        last: Ints = self.segments_S3[self.row_segments_R, 1] - 1
        return last

    @cached_property
    def predecessor_T(self) -> Ints:
        """Position whose hidden state predicts each token; -1 for the first token of a root."""
        before = np.arange(self.tokens, dtype=np.int64) - 1
        for start, end, parent in self.segments_S3:
            if end > start:
                before[start] = self.segments_S3[parent, 1] - 1 if parent >= 0 else -1
        return before

    @cached_property
    def positions_T(self) -> Ints:
        """Position of each token in its own sequence, the parent's tokens counted."""
        positions = np.zeros(self.tokens, np.int64)
        for start, end, parent in self.segments_S3:
            offset = self.segments_S3[parent, 1] - self.segments_S3[parent, 0] if parent >= 0 else 0
            positions[start:end] = np.arange(end - start) + offset
        return positions

    def with_columns(
        self, tokens: Mapping[str, Array] | None = None, rows: Mapping[str, Array] | None = None
    ) -> "PackedBatch":
        """A copy with columns added or replaced."""
        return replace(
            self,
            token_columns={**self.token_columns, **(tokens or {})},
            row_columns={**self.row_columns, **(rows or {})},
        )

    def positions_of(self, rows: Sequence[int] | Ints) -> Ints:
        """Token positions of `select(rows)` in this batch: parents first where they are needed."""
        return np.concatenate([np.arange(s, e) for s, e, _ in self._picked(rows)[0]] or [np.empty(0, np.int64)])

    def select(self, rows: Sequence[int] | Ints) -> "PackedBatch":
        """The batch of these rows only, in this order, with the parents they need."""
        picked, segments = self._picked(rows)
        index = np.concatenate([np.arange(s, e) for s, e, _ in picked] or [np.empty(0, np.int64)])
        chosen = np.asarray(rows, np.int64)
        return PackedBatch(
            tokens_T=self.tokens_T[index],
            segments_S3=segments,
            token_columns={name: column[index] for name, column in self.token_columns.items()},
            row_columns={name: column[chosen] for name, column in self.row_columns.items()},
        )

    def _picked(self, rows: Sequence[int] | Ints) -> tuple[list[Ints], Ints]:
        picked: list[Ints] = []
        segments: list[tuple[int, int, int]] = []
        place: dict[int, int] = {}
        end = 0
        for row in rows:
            own = self.segments_S3[self.row_segments_R[row]]
            parent = int(own[2])
            if parent >= 0 and parent not in place:
                place[parent] = len(segments)
                stem = self.segments_S3[parent]
                picked.append(stem)
                segments.append((end, end + int(stem[1] - stem[0]), -1))
                end = segments[-1][1]
            picked.append(own)
            segments.append((end, end + int(own[1] - own[0]), place[parent] if parent >= 0 else -1))
            end = segments[-1][1]
        return picked, np.array(segments, np.int64).reshape(-1, 3)


def concatenate(batches: Sequence[PackedBatch]) -> PackedBatch:
    """One batch of all rows, in order; the batches must have the same columns."""
    segments, tokens, count = [], 0, 0
    for batch in batches:
        shifted = batch.segments_S3.copy()
        shifted[:, :2] += tokens
        shifted[shifted[:, 2] >= 0, 2] += count
        segments.append(shifted)
        tokens += batch.tokens
        count += len(shifted)
    return PackedBatch(
        tokens_T=np.concatenate([b.tokens_T for b in batches]),
        segments_S3=np.concatenate(segments),
        token_columns={n: np.concatenate([b.token_columns[n] for b in batches]) for n in batches[0].token_columns},
        row_columns={n: np.concatenate([b.row_columns[n] for b in batches]) for n in batches[0].row_columns},
    )
