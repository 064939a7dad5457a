"""Queries over a given SQLite database, which can only be read.

The file is opened immutable and read-only, an authorizer lets through reading and plain functions alone, and a query is
bounded in steps, seconds, rows, lengths and memory. SQLite's limit of memory counts for the whole process.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.environments.protocol import ToolSpec
from ropewalk.tasks.environments.tools import Arguments, Tool, ToolFault

_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE))
_PRAGMAS = frozenset(("table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"))
_REACHING = ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer")
_BANNED = frozenset((*_REACHING, "zeroblob", "randomblob", "random", "printf", "format"))
"""Functions that reach outside, make much of nothing, differ from run to run, or whose one step no bound ends: printf
counts to its precision, a minute long, though the result is refused."""
_TICK = 100
"""Steps between two looks at the clock: one may search a text of full length for another."""
_HEAP_BYTES = 2**28
_LENGTH_BYTES = 100_000
_SQL_CHARACTERS = 10_000
_CELL_CHARACTERS = 500
_SCHEMA_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Bounds of one query."""

    rows: int = 50
    """Shown; that there are more is said."""
    steps: int = 5_000_000
    """Of SQLite's machine, about ten a row that is looked at."""
    seconds: float = 5.0
    """Wall-clock time, for functions that take long in one step."""


class SqlKit:
    """The tool `sql` over one database, with a connection of its own."""

    def __init__(self, database: "Database", limits: QueryLimits | None = None) -> None:
        self._database = database
        self._limits = limits or QueryLimits()
        self._connection: sqlite3.Connection | None = None
        self._steps = 0
        self._late = 0.0
        self._why = ""

    @property
    def tools(self) -> Sequence[Tool]:
        """One tool; its declaration shows the tables."""
        description = (
            "Runs one SELECT query of SQLite on a database that can only be read, and shows its rows. "
            f"Tables:\n{self._database.schema}"
        )
        parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        return (Tool(ToolSpec("sql", description, parameters), self._run, bounded=True),)  # type: ignore[arg-type]

    def begin(self, prompt: Prompt) -> None:
        """Nothing to do: the database is the same for all prompts."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, arguments: Arguments) -> str:
        query = str(arguments["query"])
        if len(query) > _SQL_CHARACTERS or "\0" in query:
            raise ToolFault(f"a query is at most {_SQL_CHARACTERS} characters of text.")
        if self._connection is None:
            self._connection = self._database.open()
            self._connection.set_authorizer(_allowed)
            self._connection.set_progress_handler(self._tick, _TICK)
        self._steps, self._late, self._why = 0, time.monotonic() + self._limits.seconds, ""
        try:
            query.encode()
            cursor = self._connection.execute(query)
            rows = cursor.fetchmany(self._limits.rows + 1)
            names = [column[0] for column in cursor.description or ()]
            cursor.close()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
            raise ToolFault(f"sql: {str(self._why or error).rstrip(chr(46))}.") from None
        except MemoryError:
            raise ToolFault("sql: the query needs too much memory.") from None
        return _table(names, rows, self._limits.rows)

    def _tick(self) -> int:
        self._steps += _TICK
        if self._steps > self._limits.steps:
            self._why = f"the query takes more than {self._limits.steps} steps"
        elif time.monotonic() > self._late:
            self._why = f"the query takes more than {self._limits.seconds:g} seconds"
        return bool(self._why)


class Database:
    """A database file. Raises InputError where it is none, or has a journal that has not been written into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise InputError(f"there is no database {path}: name a SQLite file")
        for ending in ("-wal", "-journal"):
            beside = path.with_name(path.name + ending)
            if beside.exists() and beside.stat().st_size:
                raise InputError(
                    f"database {path} has changes waiting in {beside.name}: close what writes it, or run "
                    "PRAGMA wal_checkpoint(TRUNCATE)"
                )
        try:
            connection = self.open()
            try:
                statements = [row[0] for row in connection.execute(_TABLES)]
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise InputError(f"{path} is no SQLite database that can be read: {error}") from None
        if not statements:
            raise InputError(f"database {path} has no tables: there is nothing to ask")
        self.schema = "\n".join(statements)[:_SCHEMA_CHARACTERS]
        """How its tables were made."""

    def open(self) -> sqlite3.Connection:
        """A connection that cannot write; usable from any thread, one at a time."""
        place = f"file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1"
        connection = sqlite3.connect(place, uri=True, check_same_thread=False, isolation_level=None)
        connection.text_factory = _text
        for statement in (f"PRAGMA hard_heap_limit={_HEAP_BYTES}", "PRAGMA temp_store=2", "PRAGMA query_only=1"):
            connection.execute(statement).close()
        for kind, most in (
            (sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH_BYTES),
            (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4 * _SQL_CHARACTERS),
            (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
            (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 20),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
            (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
            (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
        ):
            connection.setlimit(kind, most)
        return connection


_TABLES = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'view') ORDER BY name"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _allowed(action: int, first: str | None, second: str | None, database: str | None, inner: str | None) -> int:
    good = (
        action in _READS
        or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _BANNED)
        or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS)
    )
    return sqlite3.SQLITE_OK if good else sqlite3.SQLITE_DENY


def _table(names: Sequence[str], rows: Sequence[Sequence[object]], most: int) -> str:
    if not names:
        return "(no rows)"
    lines = [" | ".join(names), *(" | ".join(map(_cell, row)) for row in rows[:most])]
    if not rows:
        lines.append("(no rows)")
    if len(rows) > most:
        lines.append(f"[only the first {most} rows are shown]")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = f"x'{value[:_CELL_CHARACTERS].hex()}'" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"
