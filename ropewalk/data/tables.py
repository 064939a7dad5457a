"""Tables as numbered rows of cells: CSV text, Parquet and Arrow files.

Parquet and Arrow are read a batch at a time by pyarrow, the optional package that writes most of them. An empty cell of
CSV text is no value.
"""

import csv
from codecs import iterdecode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.files import read_failure

Cells: TypeAlias = Iterator[tuple[int, Mapping[str, Any]]]
"""Line or row number, and values by column name."""

_BATCH_ROWS = 1024
_MAX_CELL = 1 << 26
"""Characters of a cell; the csv module's own limit is 128 KiB, less than a long document."""


def csv_cells(file: Path, stream: IO[bytes]) -> Cells:
    """Rows of comma-separated text under a header line; every row must have as many cells as the header."""
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(iterdecode(stream, "utf-8-sig"), strict=True)
    try:
        header = next(reader, [])
        if header and (not all(name.strip() for name in header) or len(set(header)) < len(header)):
            raise InputError(f"{file} line 1 is no header: give every column a name of its own")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{file} line {reader.line_num} has {len(cells)} cells under a header of {len(header)}: "
                    "put quotes around cells that hold commas"
                )
            yield reader.line_num, {name: cell or None for name, cell in zip(header, cells, strict=True)}
    except csv.Error as error:
        raise InputError(f"{file} line {reader.line_num} is not CSV: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file} is not UTF-8 text after line {reader.line_num}") from None


def parquet_cells(file: Path) -> Cells:
    """Rows of a Parquet file."""
    parquet = optional_module("pyarrow.parquet", extra="data", need=f"reading {file.name}")
    with _failures(file, "Parquet"), parquet.ParquetFile(file) as table:
        yield from _numbered(table.iter_batches(batch_size=_BATCH_ROWS))


def arrow_cells(file: Path) -> Cells:
    """Rows of an Arrow file, in the stream form that the package `datasets` saves or in the file form."""
    arrow = optional_module("pyarrow", extra="data", need=f"reading {file.name}")
    with _failures(file, "Arrow"), arrow.memory_map(str(file)) as source:
        if source.size() and source.read(6) == b"ARROW1":
            source.seek(0)
            table = arrow.ipc.open_file(source)
            yield from _numbered(table.get_batch(place) for place in range(table.num_record_batches))
        else:
            source.seek(0)
            yield from _numbered(arrow.ipc.open_stream(source))


def _numbered(batches: Iterator[Any]) -> Cells:
    number = 0
    for batch in batches:
        for place in range(0, batch.num_rows, _BATCH_ROWS):
            for fields in batch.slice(place, _BATCH_ROWS).to_pylist():
                number += 1
                yield number, fields


@contextmanager
def _failures(file: Path, form: str) -> Iterator[None]:
    """What pyarrow says of a broken file, as one sentence."""
    arrow = optional_module("pyarrow", extra="data", need=f"reading {file.name}")
    try:
        yield
    # Arrow's own errors are a kind of ValueError or of OSError.
    except arrow.ArrowException as error:
        said = str(error).partition("\n")[0][:120]
        raise InputError(f"{file} is not whole {form} data ({said}): fetch or write it again") from None
    except OSError as error:
        if error.strerror is None:
            said = str(error).partition("\n")[0][:120]
            raise InputError(f"{file} is not whole {form} data ({said}): fetch or write it again") from None
        raise read_failure(file, error) from None
