"""Sections of a recipe that this package reads: files of rows, and what their columns mean."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from ropewalk.config.schema import Section


class Columns(Section):
    """What the columns of a file mean, where their names do not tell. Once one is named here, no other is looked at."""

    id: str | None = None
    """A name of the row, unique in the file."""
    text: str | None = None
    """A whole document."""
    prompt: str | None = None
    """What is asked: text, or a list of messages."""
    messages: str | None = None
    """A whole conversation: a list of messages (role and content, or from and value), the JSON text of one, or text in
    Human: / Assistant: turns."""
    system: str | None = None
    """The system message that goes before."""
    answer: str | None = None
    """The gold answer; where it has a `####`, what stands after the last one."""
    solution: str | None = None
    """The completion to imitate."""
    chosen: str | None = None
    """The better of two completions."""
    rejected: str | None = None
    """The worse of two completions."""
    info: Mapping[str, str] = {}
    """Columns that scorers read, by the names they read them under."""


class RowFile(Section):
    """Where rows come from."""

    path: str
    """A file (.jsonl, .json, .csv, .parquet, .arrow; the text forms also as .gz), a folder of such files, one saved by
    the package `datasets`, or OWNER/NAME of a data set in the local hub cache."""
    split: str | None = None
    """Which part of a folder, such as `train` or `test`; by default its train part, or its only one."""
    columns: Columns = Columns()
    """What the columns mean."""
    max_characters: Annotated[int, Field(ge=1)] | None = None
    """Rows that say more than this, question and longest answer together, are refused and counted."""
