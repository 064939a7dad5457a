"""Queries read a database, are bounded, and can change nothing."""

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.environments.protocol import ToolCall
from ropewalk.tasks.environments.sqlite import Database, QueryLimits, SqlKit
from ropewalk.tasks.environments.tools import Toolbox
from tests.seconds import processor_seconds

ROWS = 1_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("db") / "an odd?name#1%.db"
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE ships (number INTEGER PRIMARY KEY, name TEXT, tons REAL, flag BLOB)")
    rows = [(n, f"ship {n}", n / 2, bytes([n % 256])) for n in range(ROWS)]
    connection.executemany("INSERT INTO ships VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return place


@pytest.fixture
def box(path: Path) -> Iterator[Toolbox]:
    before = hashlib.sha256(path.read_bytes()).digest()
    kit = SqlKit(Database(path), QueryLimits(rows=5, steps=1_000_000, seconds=120))
    kit.begin(Prompt("p", "q"))
    yield Toolbox(kit.tools)
    kit.close()
    assert hashlib.sha256(path.read_bytes()).digest() == before, "nothing has changed"
    assert [each.name for each in path.parent.iterdir()] == [path.name], "and nothing lies beside it"


def ask(box: Toolbox, query: str) -> tuple[str, bool]:
    answer = box.answer(ToolCall("sql", {"query": query}))
    return answer.text, answer.fault


def test_rows_are_shown_with_their_columns_and_cut(box: Toolbox) -> None:
    assert ask(box, "SELECT count(*), sum(number) AS s FROM ships") == (
        f"count(*) | s\n{ROWS} | {sum(range(ROWS))}",
        False,
    )
    assert ask(box, "SELECT name, flag, NULL FROM ships WHERE number = 3") == (
        "name | flag | NULL\nship 3 | x'03' | NULL",
        False,
    )
    text, fault = ask(box, "SELECT number FROM ships ORDER BY number")
    assert (text, fault) == ("number\n0\n1\n2\n3\n4\n[only the first 5 rows are shown]", False)
    assert ask(box, "SELECT number FROM ships WHERE number < 0") == ("number\n(no rows)", False)
    assert "ship 7" in ask(box, "WITH t AS (SELECT * FROM ships) SELECT name FROM t WHERE name LIKE '%7' LIMIT 1")[0]
    assert "tons" in ask(box, "PRAGMA table_info(ships)")[0]
    assert "CREATE TABLE ships" in box.specs[0].description


WRITES = [
    "INSERT INTO ships VALUES (9999, 'x', 1, NULL)",
    "UPDATE ships SET name = 'x'",
    "DELETE FROM ships",
    "DROP TABLE ships",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x (a)",
    "CREATE VIEW v AS SELECT 1",
    "ALTER TABLE ships ADD COLUMN x",
    "ATTACH '/tmp/ropewalk-attached.db' AS x",
    "ATTACH ':memory:' AS x",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO '/tmp/ropewalk-vacuum.db'",
    "PRAGMA journal_mode = wal",
    "PRAGMA query_only = 0",
    "PRAGMA writable_schema = 1",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA temp_store_directory = '/tmp'",
    "BEGIN",
    "SAVEPOINT x",
    "SELECT load_extension('x')",
    ".load_extension x",
    "SELECT writefile('/tmp/x', 'y')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x')",
    "SELECT fts3_tokenizer('simple')",
    "CREATE VIRTUAL TABLE x USING fts5(a)",
    "ANALYZE",
    "SELECT 1; DROP TABLE ships",
    "INSERT INTO sqlite_master VALUES (1)",
    "WITH x AS (SELECT 1) INSERT INTO ships SELECT 1, 'x', 1, NULL",
    "EXPLAIN DROP TABLE ships",
    "SELECT * FROM dbstat",
]


@pytest.mark.parametrize("query", WRITES, ids=range(len(WRITES)))
def test_what_is_no_reading_is_refused(box: Toolbox, query: str) -> None:
    text, fault = ask(box, query)
    assert fault and text.startswith("Error: sql: ") and len(text) < 300
    assert ask(box, "SELECT count(*) FROM ships")[0] == f"count(*)\n{ROWS}"


LONG = (
    "(WITH RECURSIVE r(s, n) AS (SELECT 'a', 0 UNION ALL SELECT s || s, n + 1 FROM r WHERE n < 16) "
    "SELECT max(s) FROM r)"
)
HUGE = [
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n FROM r WHERE n = 2",
    "SELECT a.number FROM ships a, ships b, ships c ORDER BY a.name || b.name || c.name",
    "SELECT group_concat(a.name || b.name) FROM ships a, ships b",
    "SELECT hex(zeroblob(1000000000))",
    "SELECT randomblob(1000000000)",
    "SELECT length(printf('%100000000d', 1)) FROM ships",
    "SELECT replace(printf('%90000d', 0), ' ', 'abc')",
    "SELECT " + "(" * 2_000 + "1" + ")" * 2_000,
    "SELECT " + "1+" * 4_000 + "1",
    " UNION ".join(["SELECT 1"] * 600),
    "SELECT '" + "x" * 20_000 + "'",
    "SELECT 'a\0b'",
    "SELECT '\ud800'",
    "SELECT " + "-" * 5_000 + "1",
    "SELECT * FROM ships WHERE name LIKE '" + "%a" * 200 + "'",
    "WITH RECURSIVE r(n, s) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, s || s FROM r) SELECT count(*) FROM r",
    "SELECT printf('%.*c', 2000000000, 'x')",
    "SELECT format('%.*c', 2000000000, 'x')",
    "SELECT s.name FROM ships s, (SELECT printf('%90000d', number) AS t FROM ships) ORDER BY t || s.name",
]


@pytest.mark.parametrize("query", HUGE, ids=range(len(HUGE)))
def test_what_asks_for_too_much_is_stopped(box: Toolbox, query: str) -> None:
    """Fault G9: by what is counted, long before the time is up."""
    text, _ = ask(box, query)
    assert len(text) < 5_000
    assert processor_seconds(lambda: ask(box, query)) < 20
    assert ask(box, "SELECT count(*) FROM ships")[0] == f"count(*)\n{ROWS}"


@pytest.mark.parametrize("word", ["instr(x, y)", "length(replace(x, y, ''))", "length(quote(x || y))"])
def test_long_steps_end_soon_after_the_time_is_up(word: str, path: Path) -> None:
    """Fault G9: a step may search one long text for another; few of them stand between two looks at the clock."""
    kit = SqlKit(Database(path), QueryLimits(rows=5, seconds=0.5))
    pairs = f"WITH s(x) AS MATERIALIZED (SELECT {LONG}), p(x, y) AS (SELECT x, substr(x, number, 32000) || 'b' FROM s"
    query = f"{pairs}, (SELECT a.number FROM ships a, ships b, ships c)) SELECT sum({word}) FROM p"
    box = Toolbox(kit.tools)
    assert processor_seconds(lambda: ask(box, query)) < 30
    assert ask(box, query)[1]
    kit.close()


def test_the_steps_are_counted_the_same_every_time(box: Toolbox) -> None:
    query = "SELECT count(*) FROM ships a, ships b"
    assert {ask(box, query) for _ in range(3)} == {("Error: sql: the query takes more than 1000000 steps.", True)}


@given(query=st.text(alphabet=st.sampled_from([*"SELECT*FROM ships';()-,1\n", "é", "%"]), max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_text_is_answered(query: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    box = Toolbox(SqlKit(_SHARED["database"]).tools)
    assert isinstance(ask(box, query)[0], str)


_SHARED: dict[str, Database] = {}


@pytest.fixture(autouse=True, scope="module")
def shared(path: Path) -> None:
    _SHARED["database"] = Database(path)


def test_episodes_ask_at_the_same_time(path: Path) -> None:
    database, found = Database(path), []

    def episode(number: int) -> None:
        kit = SqlKit(database)
        box = Toolbox(kit.tools)
        found.append(ask(box, f"SELECT name FROM ships WHERE number = {number}")[0] == f"name\nship {number}")
        kit.close()

    threads = [threading.Thread(target=episode, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no database"):
        Database(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("this is no database, whatever its name says" * 50)
    with pytest.raises(InputError, match="no SQLite database"):
        Database(tmp_path / "text.db")
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(InputError, match="no tables"):
        Database(tmp_path / "empty.db")
    place = tmp_path / "busy.db"
    connection = sqlite3.connect(place)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE t (a)")
    with pytest.raises(InputError, match="wal_checkpoint"):
        Database(place)
    connection.close()
    assert Database(place).schema == "CREATE TABLE t (a)"
