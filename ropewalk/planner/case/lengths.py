"""Length histograms from sections, and from the JSONL files that runs leave."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ropewalk.plan.workload import Lengths
from ropewalk.planner.case.config import FileLengths, FixedLength, LengthsChoice
from ropewalk.records.errors import InputError
from ropewalk.records.files import read_jsonl

Part: TypeAlias = Literal["prompt_tokens", "generated_tokens"]


def lengths_of(section: LengthsChoice, part: Part, *, beside: Path | None = None) -> Lengths:
    """The histogram of a section; a file is looked for from `beside` on."""
    if isinstance(section, FixedLength):
        return Lengths.fixed(section.tokens)
    if isinstance(section, FileLengths):
        return read_lengths((beside or Path()) / section.path, part)
    try:
        return Lengths(section.tokens, section.weights)
    except InputError as error:
        raise InputError(f"workload.{part}: {error}") from None


def read_lengths(path: Path, part: Part) -> Lengths:
    """One length a line: a number; a table with `prompt_tokens` and `generated_tokens`; a sample kept by a run
    (its `tokens` are those of the answer); or a whole recorded sample (its mask parts prompt from answer)."""
    rows = [row for row in read_jsonl(path) if not (isinstance(row, Mapping) and "format" in row)]
    if not rows:
        raise InputError(f"{path} has no lengths in it: write a number, or a sample, on each line")
    return Lengths.of(_length(row, part, f"{path} line {number}") for number, row in enumerate(rows, 1))


def spelled_lengths(data: Any) -> Any:
    """A number, a path or a table without its kind as the table that a section is read from."""
    if isinstance(data, bool) or not isinstance(data, int | str | Mapping):
        return data
    if isinstance(data, int):
        return {"kind": "fixed", "tokens": data}
    if isinstance(data, str):
        return {"kind": "file", "path": data}
    if "kind" in data:
        return dict(data)
    kinds = {"path": "file", "weights": "histogram"}
    return {"kind": next((kind for key, kind in kinds.items() if key in data), "fixed"), **data}


def _length(row: Any, part: Part, where: str) -> int:
    found = row
    if isinstance(row, Mapping):
        mask, tokens = row.get("mask"), row.get("tokens")
        if isinstance(mask, list):
            answer = sum(map(bool, mask))
            found = answer if part == "generated_tokens" else len(mask) - answer
        else:
            found = row.get(part, tokens if part == "generated_tokens" else None)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise InputError(f"{where} has no length: write a number, or a table with {part}")
    return found
