"""From a file's own columns to the fields that `forms.parse` reads."""

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from ropewalk.data.config import Columns
from ropewalk.data.forms import GOLD_MARK, RefusedRow
from ropewalk.records.prompt import Json


def renamed(fields: Mapping[str, Any], columns: Columns) -> Mapping[str, Any]:
    """The fields of a row by what its columns mean; as they are where no column is named."""
    named = {
        "id": columns.id,
        "text": columns.text,
        "prompt": columns.prompt,
        "messages": columns.messages,
        "system": columns.system,
        "gold": columns.answer,
        "completion": columns.solution,
        "chosen": columns.chosen,
        "rejected": columns.rejected,
        "steps": columns.steps,
        "labels": columns.labels,
    }
    chosen = {name: column for name, column in named.items() if column is not None}
    if not chosen and not columns.info:
        return fields
    found = {name: _column(fields, column) for name, column in chosen.items()}
    if isinstance(gold := found.get("gold"), str) and GOLD_MARK in gold:
        found["gold"] = gold.rpartition(GOLD_MARK)[2].strip()
    found["info"] = {name: json_value(_column(fields, column), column) for name, column in columns.info.items()}
    return found


def json_value(value: object, name: str) -> Json:
    """A cell as JSON data: dates and decimals become text. Raises `RefusedRow` for what has no such form."""
    if isinstance(value, Mapping):
        return {str(key): json_value(inner, name) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner, name) for inner in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise RefusedRow(f"its {name} is {value}, which is no number") from None
        return value
    raise RefusedRow(f"its {name} is {type(value).__name__}, not text, a number or a list of them")


def _column(fields: Mapping[str, Any], column: str) -> Any:
    if column not in fields:
        near = get_close_matches(column, map(str, fields), n=1)
        mend = f"did you mean {near[0]!r}?" if near else f"its columns: {', '.join(map(str, fields)) or 'none'}"
        raise RefusedRow(f"it has no column {column!r} ({mend})")
    return fields[column]
