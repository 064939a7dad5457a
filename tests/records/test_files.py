import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.files import (
    append_jsonl,
    dumps,
    mend_jsonl,
    parse_json,
    read_jsonl,
    read_samples,
    rollout_file,
    rollout_files,
    sample_from_json,
    sample_to_json,
    write_atomic,
    write_samples,
)
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.records.score import Abstain, Failed, Score

float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
outcomes = (
    st.builds(Score, st.floats(allow_nan=False, allow_infinity=False))
    | st.builds(Abstain, texts)
    | st.builds(Failed, st.sampled_from(["timeout", "crashed", "unparsable"]), texts)
)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    mask = np.array(draw(st.lists(st.booleans(), max_size=8)), np.bool_)
    logprobs = np.array([draw(float32s) if m else math.nan for m in mask], np.float32)
    ids = st.integers(0, 2**31)
    banned = draw(st.lists(ids, max_size=3))
    return Sample(
        prompt_id=draw(texts),
        group_id=draw(texts),
        index=draw(st.integers(0, 100)),
        seed=draw(st.integers(0, 2**63 - 1)),
        tokens_T=np.array(draw(st.lists(ids, min_size=len(mask), max_size=len(mask))), np.int64),
        policy_mask_T=mask,
        logprobs_T=logprobs,
        versions_T=np.where(mask, draw(st.integers(0, 1000)), -1).astype(np.int64),
        finish=draw(st.sampled_from(["stop", "length", "aborted", "failed"])),
        sampling=SamplingRecord(
            temperature=draw(st.floats(0, 2)),
            max_new_tokens=draw(st.integers(1, 99)),
            eos_ids=(2**31 + 1,),
            stop_strings=tuple(draw(st.lists(texts, max_size=2))),
            banned_ids=tuple(banned),
        ),
        text=draw(texts),
        scores=draw(st.dictionaries(texts, outcomes, max_size=3)),
        info=draw(st.dictionaries(texts, json_data, max_size=3)),
    )


def as_bytes(sample: Sample) -> dict[str, Any]:
    """Every field, arrays as their bytes: equality of these is equality bit for bit."""
    names = Sample.__dataclass_fields__
    values = {name: getattr(sample, name) for name in names}
    return {n: (v.dtype, v.tobytes()) if isinstance(v, np.ndarray) else v for n, v in values.items()}


@given(samples())
def test_a_sample_comes_back_bit_for_bit(sample: Sample) -> None:
    line = dumps(sample_to_json(sample))
    assert "\n" not in line
    assert as_bytes(sample_from_json(parse_json(line, "the line"))) == as_bytes(sample)


@given(st.lists(samples(), max_size=3))
def test_a_batch_comes_back_in_order(batch: list[Sample]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.jsonl"
        write_samples(path, batch)
        assert [as_bytes(s) for s in read_samples(path)] == [as_bytes(s) for s in batch]


def a_sample(**changes: Any) -> Sample:
    fields: dict[str, Any] = {
        "prompt_id": "p",
        "group_id": "g",
        "index": 0,
        "seed": 1,
        "tokens_T": np.array([5, 6]),
        "policy_mask_T": np.array([False, True]),
        "logprobs_T": np.array([math.nan, -0.1], np.float32),
        "versions_T": np.array([-1, 3]),
        "finish": "stop",
        "sampling": SamplingRecord(1.0, 4, (6,)),
        "text": "a",
    }
    return Sample(**{**fields, **changes})


def test_a_batch_of_another_form_or_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write_samples(path, [a_sample(), a_sample(index=1)])
    lines = path.read_text().splitlines(keepends=True)
    for content, said in (
        ("".join(lines[:2]), "was cut short: 1 of 2 samples"),
        ("".join(lines[1:]), "is not a file of samples"),
        (lines[0].replace('"version":1', '"version":9') + lines[1], "has version 9"),
        (lines[0] + lines[1] + lines[2][:40], "line 3 is not JSON"),
        (lines[0] + lines[1] + "{}\n", "record 2 is not a sample record .KeyError"),
        (lines[0] + lines[1] + lines[2].replace('"tokens":[5,6]', '"tokens":[5]'), "unequal lengths"),
        ("", "is not a file of samples"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=said):
            read_samples(path)


def test_what_is_not_finite_is_written_as_null() -> None:
    record = {"a": math.nan, "b": [np.float32("inf"), np.int64(3)], "c": np.array([1.5, math.nan]), "d": Path("x")}
    assert dumps(record) == '{"a":null,"b":[null,3],"c":[1.5,null],"d":"x"}'


def test_a_line_is_appended_whole_after_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    append_jsonl(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": 2, "b')
    assert read_jsonl(path, torn_tail=True) == [{"a": 1}]
    with pytest.raises(InputError, match=r"m\.jsonl line 2 is not JSON"):
        read_jsonl(path)
    append_jsonl(path, {"a": 3})
    assert read_jsonl(path) == [{"a": 1}, {"a": 3}]


def test_a_whole_last_line_without_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"a":1}\n{"a":2}')
    append_jsonl(path, {"a": 3})
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert mend_jsonl(path) is False


def test_a_broken_line_in_the_middle_is_never_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"a":1}\n{"a"\n{"a":3}\n')
    with pytest.raises(InputError, match="line 2"):
        read_jsonl(path, torn_tail=True)


@pytest.mark.parametrize("line", ["NaN", "[1", "{'a': 1}", "[" * 100_000, "1" * 5000])
def test_text_that_is_not_json_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=r"m\.jsonl line 1 is not JSON"):
        read_jsonl(path)


def test_places_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_jsonl(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match="is a folder"):
        read_jsonl(tmp_path)
    for write in (write_atomic, append_jsonl):
        with pytest.raises(InputError, match=r"its folder .* does not exist"):
            write(tmp_path / "absent" / "x.jsonl", "x")
        with pytest.raises(InputError, match="cannot be written"):
            write(tmp_path, "x")


FULL_DISK = """
import resource, signal, sys
from ropewalk.records.errors import RunStopped
from ropewalk.records.files import append_jsonl, write_atomic
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    {call}
except RunStopped as stopped:
    sys.exit(f"stopped: {{stopped}}")
"""


@pytest.mark.parametrize(
    ("name", "call"),
    [("whole.bin", "write_atomic(sys.argv[1], b'x' * 10000)"), ("m.jsonl", "append_jsonl(sys.argv[1], 'x' * 10000)")],
)
def test_a_full_disk_stops_the_run_and_leaves_the_old_file(tmp_path: Path, name: str, call: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"1\n")
    command = [sys.executable, "-c", FULL_DISK.format(call=call), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"stopped: there is no room to write {path}: free some space and resume; what was there is untouched"
    )
    assert path.read_bytes() == b"1\n"
    assert [file.name for file in tmp_path.iterdir()] == [name], "no temporary file stays"


def test_a_failed_rename_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "inside").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomic(tmp_path / "full", "y")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full"]


def test_rollout_files_come_in_order(tmp_path: Path) -> None:
    for iteration in (10, 2, 1):
        write_samples(rollout_file(tmp_path, iteration), [])
    (tmp_path / "iteration-x.jsonl").write_text("")
    assert [number for number, _ in rollout_files(tmp_path)] == [1, 2, 10]
