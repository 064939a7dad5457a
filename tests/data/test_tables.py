import csv
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.config import Columns, RowFile
from ropewalk.data.folders import cached_dataset, data_files, split_of
from ropewalk.data.read import demonstrations, documents, pairs, prompts_rows
from ropewalk.data.rows import read_records
from ropewalk.data.tables import csv_cells
from ropewalk.records.errors import InputError

ROWS: list[dict[str, Any]] = [{"prompt": f'q{i}\n, "é"', "chosen": "a", "rejected": "b"} for i in range(5)]


def csv_text(rows: list[dict[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def arrow(path: Path, rows: list[dict[str, Any]], *, stream: bool) -> None:
    table = pa.Table.from_pylist(rows)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), table.schema) as writer:
        writer.write_table(table)


def lay(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows in the form that a file's name asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if name.endswith(".arrow"):
        arrow(path, rows, stream="file" not in name)
        return path
    text = csv_text(rows) if name.endswith(".csv") else json.dumps(rows)
    text = "".join(json.dumps(row) + "\n" for row in rows) if name.endswith(".jsonl") else text
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.parquet", "x.arrow", "x.file.arrow"])
def test_every_kind_of_table_gives_the_records_of_json_lines(tmp_path: Path, name: str) -> None:
    assert pairs(lay(tmp_path / name, ROWS)) == pairs(lay(tmp_path / "x.jsonl", ROWS))


def test_tables_hold_lists_and_more_than_a_batch(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    rows = [{"messages": talk, "n": i} for i in range(2500)]
    path = lay(tmp_path / "x.parquet", rows)
    assert (
        demonstrations(lay(tmp_path / "y.parquet", rows[:1]))[0]
        == demonstrations(lay(tmp_path / "y.jsonl", rows[:1]))[0]
    )
    read = list(read_records(path))
    assert [row.fields["n"] for row in read] == list(range(2500))
    assert (read[0].where, read[-1].where) == (f"{path} row 1", f"{path} row 2500")


cells = st.text(alphabet='ab",\n\r é', max_size=6)


@given(st.lists(st.tuples(cells, cells), max_size=5))
def test_csv_is_read_as_it_was_written(made: list[tuple[str, str]]) -> None:
    rows = [{"a": a, "b": b} for a, b in made]
    text = csv_text(rows or [{"a": "x", "b": "y"}])
    found = [dict(fields) for _, fields in csv_cells(Path("x.csv"), io.BytesIO(b"\xef\xbb\xbf" + text.encode()))]
    wanted = [{name: value or None for name, value in row.items()} for row in rows or [{"a": "x", "b": "y"}]]
    assert found == wanted, "an empty cell is no value"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"", "is empty"),
        ("x.csv", b"a,b\n", "is empty"),
        ("x.csv", b"a,a\n1,2\n", "line 1 is no header"),
        ("x.csv", b"a,\n1,2\n", "line 1 is no header"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells under a header of 2"),
        ("x.csv", b'a,b\n"1"2,3\n', "line 2 is not CSV"),
        ("x.csv", b'a,b\n"1,3\n', "is not CSV"),
        ("x.csv", b"a,b\n\xff,1\n", "is not UTF-8 text"),
        ("x.csv.gz", b"not gzip", "is not whole gzip data"),
        ("x.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9000, mtime=0)[:-40], "is cut short"),
        ("x.parquet", b"PAR1 not parquet", "is not whole Parquet data"),
        ("x.parquet", b"", "is not whole Parquet data"),
        ("x.arrow", b"ARROW1\0\0 no", "is not whole Arrow data"),
        ("x.arrow", b"nothing at all", "is not whole Arrow data"),
        ("x.arrow", b"", "is not whole Arrow data"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for read in (documents, pairs, lambda path: list(read_records(path))):
        with pytest.raises(InputError, match=said) as caught:
            read(tmp_path / name)
        assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_half_a_parquet_file(tmp_path: Path) -> None:
    path = lay(tmp_path / "x.parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is not whole Parquet data"):
        list(read_records(path))


def test_without_the_extra_a_table_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lay(tmp_path / "x.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"needs pyarrow, which is not installed: pip install 'ropewalk\[data\]'"):
        list(read_records(path))
    assert list(read_records(lay(tmp_path / "x.csv", ROWS)))


# --- folders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "split"),
    [
        ("train.jsonl", "train"),
        ("train-00000-of-00002.parquet", "train"),
        ("data/test-00001-of-00002.parquet", "test"),
        ("gsm8k_train.jsonl.gz", "train"),
        ("train_sft-00000-of-00001.parquet", "train_sft"),
        ("validation/part.csv", "validation"),
        ("data/rows.json", "rows"),
        ("Test.csv", "Test"),
    ],
)
def test_a_files_name_tells_its_split(tmp_path: Path, file: str, split: str) -> None:
    assert split_of(tmp_path / file, tmp_path) == split


def numbered(path: Path, first: int, count: int = 2) -> Path:
    return lay(path, [{"text": f"{i}"} for i in range(first, first + count)])


def texts(path: Path | str, split: str | None = None) -> list[str]:
    return [d.text for d in documents(RowFile(path=str(path), split=split))[0]]


def test_a_folder_is_its_train_files_in_order_unless_another_split_is_named(tmp_path: Path) -> None:
    numbered(tmp_path / "data/train-00001-of-00002.parquet", 2)
    numbered(tmp_path / "data/train-00000-of-00002.parquet", 0)
    numbered(tmp_path / "data/test-00000-of-00001.parquet", 9)
    (tmp_path / "dataset_info.json").write_text("{}")
    numbered(tmp_path / ".hidden/train.jsonl", 50)
    assert texts(tmp_path) == texts(tmp_path, "train") == ["0", "1", "2", "3"]
    assert texts(tmp_path, "test") == ["9", "10"]
    with pytest.raises(InputError, match="has no split 'tset': did you mean 'test'"):
        texts(tmp_path, "tset")
    with pytest.raises(InputError, match="is one file and has no split 'test'"):
        texts(tmp_path / "data/test-00000-of-00001.parquet", "test")


def test_a_folder_that_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    numbered(tmp_path / "one/a.jsonl", 0)
    assert texts(tmp_path / "one") == ["0", "1"], "its only part"
    numbered(tmp_path / "one/b.jsonl", 5)
    with pytest.raises(InputError, match=r"name one as split \(a, b\)"):
        texts(tmp_path / "one")
    numbered(tmp_path / "two/main/train.jsonl", 0)
    numbered(tmp_path / "two/other/train.jsonl", 5)
    with pytest.raises(InputError, match=r"in several folders \(main, other\): name one of them"):
        texts(tmp_path / "two")
    assert texts(tmp_path / "two/other") == ["5", "6"]


def test_what_the_package_datasets_saves(tmp_path: Path) -> None:
    """The form of `Dataset.save_to_disk`: Arrow streams, listed in state.json, under dataset_dict.json for splits."""
    for split, first in (("train", 0), ("test", 9)):
        numbered(tmp_path / split / "data-00000-of-00002.arrow", first)
        numbered(tmp_path / split / "data-00001-of-00002.arrow", first + 2)
        files = [{"filename": f"data-0000{i}-of-00002.arrow"} for i in (0, 1)]
        (tmp_path / split / "state.json").write_text(json.dumps({"_data_files": files}))
        (tmp_path / split / "dataset_info.json").write_text("{}")
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert texts(tmp_path) == texts(tmp_path / "train") == ["0", "1", "2", "3"]
    assert texts(tmp_path, "test") == ["9", "10", "11", "12"]
    for broken in ({"_data_files": []}, {"_data_files": [{"filename": "../x.arrow"}]}, [], {}):
        (tmp_path / "test" / "state.json").write_text(json.dumps(broken))
        with pytest.raises(InputError, match="does not list the parts"):
            texts(tmp_path, "test")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with one data set in it."""
    from huggingface_hub import constants

    root = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(root))
    home = root / "datasets--some--sums"
    numbered(home / "snapshots/abc/main/train-00000-of-00001.parquet", 0)
    numbered(home / "snapshots/abc/main/test-00000-of-00001.parquet", 9)
    (home / "refs").mkdir()
    (home / "refs/main").write_text("abc")
    return root


def test_a_data_set_by_name_is_read_from_the_cache_alone(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("something connects"))
    assert texts("some/sums") == texts("some/sums/main") == ["0", "1"] and texts("some/sums", "test") == ["9", "10"]
    for name in ("some/other", "some/sums/absent", "../some/sums", "some/sums/../../../x"):
        assert cached_dataset(name) is None or hub in Path(str(cached_dataset(name))).parents
    with pytest.raises(InputError, match="nor a data set of that name in the local cache; nothing is fetched here"):
        texts("some/other")
    with pytest.raises(InputError, match=r"there is no file some/absent.jsonl: check the path"):
        data_files("some/absent.jsonl")


def test_gold_answers_of_a_table(tmp_path: Path) -> None:
    """Fault G10: rows are named by file and row."""
    rows = [{"Q": "a", "A": 3}, {"Q": "b", "A": None}, {"Q": None, "A": 4}, {"Q": "", "A": 5}]
    path = lay(tmp_path / "x.parquet", rows)
    named = RowFile(path=str(path), columns=Columns(prompt="Q", answer="A"))
    found, report = prompts_rows(named, gold_fault=lambda gold: None if gold is not None else "is missing")
    assert [p.gold for p in found] == [3]
    assert report.refused == (
        (f"{path} row 2", "its gold answer null is missing"),
        (f"{path} row 3", "prompt is not text"),
        (f"{path} row 4", "its prompt is empty"),
    )
