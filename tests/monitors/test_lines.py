"""Lines are whole or absent, whatever happened before."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from ropewalk.monitors.lines import LineFile, ends, finite, parse, rows, truncate_after
from ropewalk.records.errors import InputError


def lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_torn_line_is_cut_before_the_next_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"iteration": 1}\n{"iteration": 2, "rew')
    file = LineFile(path)
    file.append({"iteration": 2})
    assert lines(path) == [{"iteration": 1}, {"iteration": 2}]


def test_not_finite_is_null_at_any_depth(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    LineFile(path).append({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}})
    assert lines(path) == [{"a": None, "b": [None, 1.5], "c": {"d": None}}]
    assert finite({"a": [float("nan"), True, 2, "x"]}) == {"a": [None, True, 2, "x"]}


def test_truncate_keeps_up_to_the_restored_iteration_and_drops_what_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"note": 1}\n{"iteration": 1}\n{"iteration": 2}\nnot json\n{"iteration": 3}\n{"iteration": 4, ')
    assert truncate_after(path, 2) == 3
    assert lines(path) == [{"note": 1}, {"iteration": 1}, {"iteration": 2}]
    assert truncate_after(path, 2) == 0
    assert truncate_after(tmp_path / "missing", 2) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("line", [b"[1]\n", b"{}", b"\xff\n", b'{"a": 1} x\n', b"[" * 100_000 + b"\n", b"null\n"])
def test_what_is_no_whole_object_is_none(line: bytes) -> None:
    assert parse(line) is None


def test_rows_of_a_missing_file_are_none_at_all(tmp_path: Path) -> None:
    assert list(rows(tmp_path / "x")) == []
    assert ends(tmp_path / "x", first=1, last=1) == ([], 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 40_000), max_size=12),
    first=st.integers(0, 8),
    last=st.integers(0, 8),
    torn=st.booleans(),
)
def test_ends_are_the_first_and_the_last_without_repetition(
    tmp_path: Path, sizes: list[int], first: int, last: int, torn: bool
) -> None:
    path = tmp_path / "x.jsonl"
    text = "".join(json.dumps({"n": n, "pad": "x" * size}) + "\n" for n, size in enumerate(sizes))
    path.write_text(text + ('{"n": 99, "pa' if torn else ""))
    found, unreadable = ends(path, first=first, last=last)
    everything = list(range(len(sizes))) + ([99] if torn else [])
    head, rest = everything[:first], everything[first:]
    expected = head + (rest[-last:] if last else [])
    assert [row["n"] for row in found] == [n for n in expected if n != 99]
    assert unreadable == (99 in expected)


def test_ends_of_a_huge_file_take_little_memory(tmp_path: Path) -> None:
    """Fault O2: what is read of a file has a bound, however long the run was."""
    path = tmp_path / "x.jsonl"
    line = json.dumps({"pad": "x" * 1000}) + "\n"
    path.write_text(line * 20_000)
    tracemalloc.start()
    found, _ = ends(path, first=10, last=10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 20 and peak < 1_000_000


def test_a_full_disk_stops_with_a_sentence_and_no_torn_line(tmp_path: Path) -> None:
    """The limit on file size stands in for a disk that fills up in the middle of a line."""
    path = tmp_path / "x.jsonl"
    script = (
        "import resource, sys, pathlib\n"
        "from ropewalk.monitors.lines import LineFile\n"
        "from ropewalk.records.errors import RunStopped\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "file = LineFile(pathlib.Path(sys.argv[1]))\n"
        "file.append({'iteration': 1})\n"
        "try:\n"
        "    file.append({'iteration': 2, 'pad': 'x' * 200})\n"
        "except RunStopped as error:\n"
        "    sys.exit(f'stopped: {error}')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("stopped: ") and str(path) in done.stderr
    assert lines(path) == [{"iteration": 1}]


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        LineFile(tmp_path)
