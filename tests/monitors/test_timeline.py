"""A timeline is valid JSON at any moment, and comes back as it was written."""

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ropewalk.monitors.timeline import (
    TimelineFile,
    from_chrome,
    read_timeline,
    read_timeline_end,
    to_chrome,
    write_timeline,
)
from ropewalk.records.errors import InputError
from ropewalk.records.span import Span

SPANS = [
    Span("generate", "actor/rank0", 0.0, 0.5, {"iteration": 1, "tokens": 640}),
    Span("score", "reward/rank0", 0.5, 0.75),
    Span("train", "actor/rank1", 0.5, 1.25, {"note": 'quotes " and é'}),
    Span("save", "controller", 1.25, 1.5),
]
SECONDS = st.floats(0, 1e6).map(lambda seconds: round(seconds, 6))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.lists(st.builds(Span, NAMES, NAMES, SECONDS, SECONDS, st.dictionaries(NAMES, st.integers()))))
def test_round_trip(spans: list[Span]) -> None:
    back = from_chrome(json.loads(json.dumps(to_chrome(spans))))
    assert [(s.name, s.lane, s.info) for s in back] == [(s.name, s.lane, s.info) for s in spans]
    for found, span in zip(back, spans, strict=True):
        assert found.start_seconds == pytest.approx(span.start_seconds, abs=2e-9)
        assert found.end_seconds == pytest.approx(span.end_seconds, abs=4e-9)


def test_lanes_become_threads_of_their_process() -> None:
    events = [event for event in to_chrome(SPANS) if isinstance(event, dict)]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["actor/rank0", "actor/rank1", "controller", "reward/rank0"]
    actors = {pid for (pid, _), name in names.items() if name.startswith("actor/")}
    assert len(actors) == 1 and len(names) == 4


def test_the_file_is_whole_after_every_append_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    file = TimelineFile(path)
    assert json.loads(path.read_text()) == []
    for count, span in enumerate(SPANS[:2], 1):
        file.append([span])
        file.append([])
        assert read_timeline(path) == (SPANS[:count], True)
        json.loads(path.read_text())
    file.close()
    again = TimelineFile(path)
    again.append(SPANS[2:])
    again.close()
    assert read_timeline(path) == (SPANS, True)
    assert json.loads(path.read_text()) == to_chrome(SPANS)


def test_a_torn_file_gives_what_was_before_the_tear_and_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    write_timeline(path, SPANS)
    assert read_timeline(path) == (SPANS, True)
    path.write_bytes(path.read_bytes()[:-40])
    assert read_timeline(path) == (SPANS[:3], False)
    file = TimelineFile(path)
    file.append(SPANS[3:])
    file.close()
    assert read_timeline(path) == (SPANS, True)


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path) -> None:
    """Fault O2: the page reads a bounded part, with the right names of lanes."""
    path = tmp_path / "timeline.json"
    spans = [Span("generate", f"actor/rank{k % 2}", k, k + 1.0, {"iteration": k}) for k in range(5000)]
    write_timeline(path, spans)
    found, whole = read_timeline_end(path, 20_000)
    assert not whole and 50 < len(found) < 500 and found == spans[-len(found) :]
    assert read_timeline_end(path, 10_000_000) == (spans, True)


def test_the_wrapped_form_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps({"traceEvents": to_chrome(SPANS)}))
    assert read_timeline(path) == (SPANS, True)


@pytest.mark.parametrize("text", ['{"a": 1}', "3", "[1]", '[{"ph": "X", "name": "a", "ts": "x", "dur": 1}]'])
def test_what_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(text)
    with pytest.raises(InputError, match="timeline"):
        read_timeline(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_timeline(tmp_path / "missing.json")
