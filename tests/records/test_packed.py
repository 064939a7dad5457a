import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.packed import PackedBatch, concatenate


@st.composite
def batches(draw: st.DrawFn) -> PackedBatch:
    """Roots alone and prompts with children; tokens are numbered so that places can be told apart."""
    segments: list[tuple[int, int, int]] = []

    def segment(parent: int) -> int:
        start = segments[-1][1] if segments else 0
        segments.append((start, start + draw(st.integers(1, 4)), parent))
        return len(segments) - 1

    for children in draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)):
        stem = segment(-1)
        for _ in range(children):
            segment(stem)
    tokens = segments[-1][1]
    batch = PackedBatch(np.arange(tokens) * 7, np.array(segments))
    return batch.with_columns({"column": np.arange(tokens) * 0.5}, {"number": np.arange(batch.rows)})


def sequence(batch: PackedBatch, row: int) -> list[tuple[int, float]]:
    """(token, column) of the parent and the row itself."""
    start, end, parent = batch.segments_S3[batch.row_segments_R[row]]
    stem = batch.segments_S3[parent, :2] if parent >= 0 else (0, 0)
    places = [*range(*stem), *range(start, end)]
    return [(int(batch.tokens_T[t]), float(batch.token_columns["column"][t])) for t in places]


@given(batches(), st.data())
def test_selected_rows_keep_their_sequences(batch: PackedBatch, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, batch.rows - 1), unique=True, min_size=1))
    picked = batch.select(rows)
    assert picked.row_columns["number"].tolist() == rows
    assert [sequence(picked, i) for i in range(len(rows))] == [sequence(batch, row) for row in rows]
    assert batch.tokens_T[batch.positions_of(rows)].tolist() == picked.tokens_T.tolist()


@given(batches(), batches())
def test_concatenated_batches_keep_their_sequences(first: PackedBatch, second: PackedBatch) -> None:
    both = concatenate([first, second])
    expected = [sequence(b, row) for b in (first, second) for row in range(b.rows)]
    assert [sequence(both, row) for row in range(both.rows)] == expected


@given(batches())
def test_following_predecessors_walks_the_sequence_backwards(batch: PackedBatch) -> None:
    for row in range(batch.rows):
        at, walked = int(batch.last_token_R[row]), []
        while at >= 0:
            walked.append(int(batch.tokens_T[at]))
            assert batch.positions_T[at] == len(sequence(batch, row)) - len(walked)
            at = int(batch.predecessor_T[at])
        assert walked[::-1] == [token for token, _ in sequence(batch, row)]


def test_a_column_of_a_wrong_length_is_refused() -> None:
    for columns in ({"token_columns": {"x": np.zeros(2)}}, {"row_columns": {"x": np.zeros(2)}}):
        with pytest.raises(InputError, match="column 'x' has 2 entries"):
            PackedBatch(np.arange(3), np.array([[0, 3, -1]]), **columns)
