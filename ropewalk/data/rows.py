"""From a path to its rows, one by one, whatever the files are.

A row is a mapping from column names to values, with the place it stands at. What is wrong with a *file* is an
`InputError` naming file and line.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ropewalk.data.folders import data_files
from ropewalk.data.tables import Cells, arrow_cells, csv_cells, parquet_cells
from ropewalk.records.errors import InputError
from ropewalk.records.files import parse_json, read_failure

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it stands in a file."""

    where: str
    """File and line (or row, where a file has no lines), as errors name it."""
    fields: Mapping[str, Any]


def read_records(path: str | Path, split: str | None = None) -> Iterator[Row]:
    """The rows of a file, of a folder's files, or of a data set in the hub cache. Raises `InputError`."""
    found = False
    for file in data_files(path, split):
        for row in _reader(file)(file):
            found = True
            yield row
    if not found:
        raise InputError(f"{path} is empty: it must hold at least one row")


def _reader(file: Path) -> Callable[[Path], Iterator[Row]]:
    name = file.name.removesuffix(".gz")
    return next(reader for suffix, reader in _READERS.items() if name.endswith(suffix))


def _line_rows(file: Path) -> Iterator[Row]:
    number = 0
    try:
        with _open(file) as stream:
            for number, line in enumerate(stream, 1):
                text = (line.removeprefix(_BOM) if number == 1 else line).rstrip()
                if text:
                    where = f"{file} line {number}"
                    yield _row(where, parse_json(text, where))
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(file, number, error) from None


def _list_rows(file: Path) -> Iterator[Row]:
    try:
        with _open(file) as stream:
            content = stream.read().removeprefix(_BOM)
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(file, 0, error) from None
    if not content.strip():
        return
    rows = _json_list(file, content)
    for number, row in enumerate(rows, 1):
        yield _row(f"{file} row {number}", row)


def _csv_rows(file: Path) -> Iterator[Row]:
    line = 0
    try:
        with _open(file) as stream:
            for line, fields in csv_cells(file, stream):
                yield Row(f"{file} line {line}", fields)
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(file, line, error) from None


def _table_rows(cells: Callable[[Path], Cells]) -> Callable[[Path], Iterator[Row]]:
    def rows(file: Path) -> Iterator[Row]:
        for number, fields in cells(file):
            yield Row(f"{file} row {number}", fields)

    return rows


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _line_rows,
    ".json": _list_rows,
    ".csv": _csv_rows,
    ".parquet": _table_rows(parquet_cells),
    ".arrow": _table_rows(arrow_cells),
}


def _json_list(file: Path, content: bytes) -> list[Any]:
    try:
        rows = json.loads(content)
    except json.JSONDecodeError as error:
        raise InputError(f"{file} line {error.lineno} is not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError):
        rows = parse_json(content, str(file))
    if not isinstance(rows, list):
        raise InputError(f"{file} is not a JSON list of rows: for one row a line, call it .jsonl")
    return rows


def _row(where: str, fields: object) -> Row:
    if not isinstance(fields, dict):
        raise InputError(f"{where} is not a JSON object with named fields")
    return Row(where, fields)


def _open(file: Path) -> IO[bytes]:
    return gzip.open(file) if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]


def _broken(file: Path, line: int, error: OSError | EOFError | zlib.error) -> InputError:
    after = f" after line {line}" if line else ""
    if isinstance(error, EOFError):
        return InputError(f"{file} is cut short{after}: fetch or compress it again")
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return InputError(f"{file} is not whole gzip data{after}: fetch or compress it again")
    return read_failure(file, error)
