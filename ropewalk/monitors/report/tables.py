"""Tables of the page: findings, evaluations, both ends of every metric, what differs between recipes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.monitors.report.catalogue import is_call_time
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.verdict import KEY_METRICS, change
from ropewalk.monitors.report.words import cell, clean, flat
from ropewalk.records.prompt import Json

Look: TypeAlias = Literal["text", "number", "yes", "no"]
_ROWS = 500


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `text` is unescaped."""

    text: str
    look: Look = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def table_of_rows(rows: Sequence[Mapping[str, object]], title: str = "") -> Table:
    """A table of mappings: columns in order of first appearance; booleans become a mark and a word."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    body = tuple(tuple(_cell(row[c]) if c in row else Cell("–") for c in columns) for row in rows[:_ROWS])
    return Table(title, tuple(clean(c, 80) for c in columns), body)


def evaluation_tables(value: Json) -> list[Table]:
    """`eval.json` as tables: a list of records, a mapping of records, or plain values, nested under their names."""
    if isinstance(value, list):
        listed = [row for row in value if isinstance(row, dict)]
        return [table_of_rows(listed)] if listed else [_plain({"values": value}, "")]
    if not isinstance(value, dict) or not value:
        return []
    found: list[Table] = []
    records = {name: part for name, part in value.items() if isinstance(part, dict) and _is_record(part)}
    if records:
        found.append(table_of_rows([{"": name, **part} for name, part in records.items()]))
    plain: dict[str, Json] = {}
    for name, part in value.items():
        if name in records:
            continue
        if isinstance(part, dict | list) and part and not _is_interval(part):
            for inner in evaluation_tables(part):
                under = f"{name}: {inner.title}" if inner.title else name
                found.append(Table(clean(under, 120), inner.columns, inner.rows))
        else:
            plain[name] = part
    return [_plain(plain, ""), *found] if plain else found


def numbers(run: Run) -> Table:
    """Both ends and extremes of every metric."""
    rows = []
    for name in run.names:
        found = change(run, name)
        if found is not None and not is_call_time(name):
            rows.append((Cell(clean(name, 120)), *(Cell(text, "number") for text in found.texts)))
    return Table("", ("metric", "first", "last", "lowest", "highest"), tuple(rows[:_ROWS]))


def runs_table(runs: Mapping[str, Run]) -> Table:
    """One row per run: both ends of the key metrics."""
    names = [name for name in KEY_METRICS if any(name in run.names for run in runs.values())]
    titles = [found.entry.title for name in names for run in runs.values() if (found := change(run, name))]
    rows = []
    for label, run in runs.items():
        changes = [change(run, name) for name in names]
        ends = [Cell(f"{c.texts[0]} → {c.texts[1]}" if c else "–", "number") for c in changes]
        rows.append((Cell(clean(label, 120)), *ends))
    return Table("", ("run", *dict.fromkeys(titles)), tuple(rows))


def recipe_differences(runs: Mapping[str, Run]) -> Table:
    """The keys in which the recipes differ, a column per run."""
    recipes = {label: flat(dict(run.recipe)) for label, run in runs.items()}
    keys = dict.fromkeys(key for recipe in recipes.values() for key in recipe)
    rows = []
    for key in keys:
        values = [recipe.get(key, "–") for recipe in recipes.values()]
        if len(set(values)) > 1:
            rows.append((Cell(clean(key, 120)), *(Cell(clean(value, 120)) for value in values)))
    return Table("", ("key", *(clean(label, 120) for label in recipes)), tuple(rows[:_ROWS]))


def lineage(run: Run) -> Table:
    """Where the run came from, as dotted names and values."""
    rows = [(Cell(clean(name, 120)), Cell(text)) for name, text in flat(dict(run.lineage)).items() if name]
    return Table("", ("what", "value"), tuple(rows[:_ROWS]))


def _cell(value: object) -> Cell:
    if isinstance(value, bool):
        return Cell("✓ yes", "yes") if value else Cell("✗ no", "no")
    is_number = isinstance(value, int | float)
    return Cell(cell(value), "number" if is_number else "text")


def _plain(values: Mapping[str, Json], title: str) -> Table:
    rows = tuple((Cell(clean(name, 120)), _cell(value)) for name, value in values.items())
    return Table(title, ("what", "value"), rows[:_ROWS])


def _is_record(part: Mapping[str, Json]) -> bool:
    """A flat mapping, intervals allowed: one row of a table."""
    return bool(part) and all(not isinstance(v, dict | list) or _is_interval(v) for v in part.values())


def _is_interval(value: Json) -> bool:
    return isinstance(value, list) and len(value) <= 4 and all(isinstance(v, int | float) or v is None for v in value)
