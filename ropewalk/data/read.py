"""Files of rows to records, with every refused row counted and named.

Files are JSON lines (`.jsonl`) or one JSON list (`.json`), plain or `.gz`. What is wrong with the *file* is an
`InputError` naming file and line; what is wrong with a *row* refuses that row, and no usable row is an error.
Ids are the rows' own, or a hash of what the row says: they do not depend on the order or size of the file.
"""

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from ropewalk.data.forms import RefusedRow, document_text, parse
from ropewalk.records.errors import InputError
from ropewalk.records.files import parse_json, read_failure
from ropewalk.records.prompt import Demonstration, Dialogue, Document, Json, Message, PreferencePair, Prompt

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
_BOM = b"\xef\xbb\xbf"

R = TypeVar("R", Document, Demonstration, PreferencePair, Prompt)


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it stands in a file."""

    where: str
    """File and line (or row of a JSON list), as errors name it."""
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How many rows became records, and which did not, each with its reason."""

    kept: int
    refused: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        total = self.kept + len(self.refused)
        if not self.refused:
            return f"{total} rows, all usable"
        first: dict[str, str] = {}
        for where, reason in self.refused:
            first.setdefault(reason, where)
        counted = Counter(reason for _, reason in self.refused).most_common()
        reasons = "; ".join(f"{count} because {reason} (first: {first[reason]})" for reason, count in counted)
        return f"{self.kept} of {total} rows are usable; refused: {reasons}"


def read_records(path: str | Path) -> Iterator[Row]:
    """The rows of a file, one by one. Raises `InputError` naming file and line."""
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{file} is a folder: name a file in it")
    if not file.exists():
        raise InputError(f"there is no file {file}: check the path")
    if not file.name.endswith(_SUFFIXES):
        raise InputError(f"{file} is of an unknown kind: use one of {', '.join(_SUFFIXES)}")
    rows = _list_rows if file.name.removesuffix(".gz").endswith(".json") else _line_rows
    found = False
    for row in rows(file):
        found = True
        yield row
    if not found:
        raise InputError(f"{file} is empty: it must hold at least one row")


def documents(path: str | Path) -> tuple[list[Document], ReadReport]:
    """Plain text for continued pretraining."""
    return _collect(path, lambda fields: Document(_id(fields, text := document_text(fields)), text))


def demonstrations(path: str | Path) -> tuple[list[Demonstration], ReadReport]:
    """Dialogues with the completion to imitate; of pairs, the chosen answer."""

    def record(fields: Mapping[str, Any]) -> Demonstration:
        parsed = parse(fields)
        completion = parsed.completion if parsed.completion is not None else parsed.chosen
        if completion is None or not completion.strip():
            raise RefusedRow("it has no answer to imitate")
        return Demonstration(_id(fields, [plain(parsed.dialogue), completion]), parsed.dialogue, completion)

    return _collect(path, record)


def pairs(path: str | Path) -> tuple[list[PreferencePair], ReadReport]:
    """Preference pairs; a missing, empty or equal answer refuses the row."""

    def record(fields: Mapping[str, Any]) -> PreferencePair:
        parsed = parse(fields)
        if parsed.chosen is None or not parsed.chosen.strip():
            raise RefusedRow("it has no chosen answer")
        if parsed.rejected is None or not parsed.rejected.strip():
            raise RefusedRow("it has no rejected answer")
        if parsed.chosen.strip() == parsed.rejected.strip():
            raise RefusedRow("its chosen answer equals the rejected one")
        key = _id(fields, [plain(parsed.dialogue), parsed.chosen, parsed.rejected])
        return PreferencePair(key, parsed.dialogue, parsed.chosen, parsed.rejected)

    return _collect(path, record)


def prompts_rows(
    path: str | Path, *, gold_fault: Callable[[Json], str | None] | None = None
) -> tuple[list[Prompt], ReadReport]:
    """Prompts, with their gold answer where the row has one.

    `gold_fault` says what is wrong with a gold answer (None: nothing); a broken one refuses the row, so that a
    scorer never meets it.
    """

    def record(fields: Mapping[str, Any]) -> Prompt:
        parsed = parse(fields)
        fault = gold_fault(parsed.gold) if gold_fault else None
        if fault is not None:
            raise RefusedRow(f"its gold answer {_short(parsed.gold)} {fault}")
        info = fields.get("info", {})
        if not isinstance(info, Mapping):
            raise RefusedRow("its info is not an object")
        return Prompt(_id(fields, plain(parsed.dialogue)), parsed.dialogue, parsed.gold, dict(info))

    return _collect(path, record)


def plain(dialogue: Dialogue) -> Json:
    """A dialogue as JSON data."""
    return dialogue if isinstance(dialogue, str) else [_turn(message) for message in dialogue]


def content_hash(content: Json) -> str:
    """A short hash of JSON data, the same on every machine."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _turn(message: Message) -> Json:
    return [message.role, message.content]


def _id(fields: Mapping[str, Any], content: Json) -> str:
    given = fields.get("id")
    if given is None:
        return content_hash(content)
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise RefusedRow("its id is neither text nor a whole number")
    return str(given)


def _collect(path: str | Path, record: Callable[[Mapping[str, Any]], R]) -> tuple[list[R], ReadReport]:
    kept: list[R] = []
    refused: list[tuple[str, str]] = []
    seen: set[str] = set()
    for row in read_records(path):
        try:
            made = record(row.fields)
            if made.id in seen:
                raise RefusedRow("its id or content repeats that of an earlier row")
        except RefusedRow as refusal:
            refused.append((row.where, str(refusal)))
            continue
        seen.add(made.id)
        kept.append(made)
    report = ReadReport(len(kept), tuple(refused))
    if not kept:
        raise InputError(f"{path} has no usable row: {report}")
    return kept, report


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


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
