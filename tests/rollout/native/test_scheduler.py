"""The table of slots under random loads: every promise of the module docstring, and each refusal."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.sample import Request, SamplingRecord
from ropewalk.rollout.native.scheduler import Limits, Scheduler
from tests.rollout.helpers import group

SETTINGS = SamplingRecord(temperature=1.0, max_new_tokens=4, eos_ids=(9,))


def request(name: str, prompt: int, new: int, index: int = 0) -> Request:
    return replace(group(name, [1] * prompt, 1, replace(SETTINGS, max_new_tokens=new))[0], index=index)


class Model:
    """A cache that holds tokens instead of keys, carried along by the scheduler's orders alone."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.slots: dict[int, list[int]] = {}

    def make_ready(self) -> None:
        moves = self.scheduler.fill()
        moved = {
            t: self.slots.get(s, []) for s, t in zip(moves.source_N.tolist(), moves.target_N.tolist(), strict=True)
        }
        self.slots |= moved
        shared, fresh = self.scheduler.prefill()
        self.slots |= {s.target: self.slots[s.source][: s.tokens] for s in shared}
        self.slots |= {row: f.tokens_T.tolist() for f in fresh for row in f.rows}

    def check(self, slots: int, budget: int) -> None:
        """Rows are dense, within the budget, and hold exactly what precedes the token to be fed."""
        scheduler = self.scheduler
        assert list(scheduler.rows()) == list(range(scheduler.live))
        assert scheduler.live <= slots
        live = [r for r in scheduler.requests[: scheduler.live] if r is not None]
        assert len(live) == scheduler.live
        longest = max((len(r.prompt_ids) + r.sampling.max_new_tokens - 1 for r in live), default=0)
        assert longest * scheduler.live <= budget
        for row in range(scheduler.live):
            before = scheduler.sequence(row)[:-1].tolist()
            assert scheduler.cached_N[row] == len(before)
            assert self.slots.get(row, [])[: len(before)] == before
            assert scheduler.last_token_N[row] == scheduler.sequence(row)[-1]

    def record(self, ids_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        for row in range(self.scheduler.live):
            self.slots[row] = self.scheduler.sequence(row).tolist()
        return self.scheduler.record(ids_N, np.zeros(len(ids_N), np.float32), 0)


@settings(max_examples=40)
@given(data=st.data(), slots=st.integers(1, 5), budget=st.integers(20, 60))
def test_every_request_leaves_once_in_order_and_the_budget_holds(data: st.DataObject, slots: int, budget: int) -> None:
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 8)), min_size=1, max_size=14))
    asked = [request(f"p{n}", prompt, new) for n, (prompt, new) in enumerate(sizes)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    late = data.draw(st.integers(0, len(asked)))
    scheduler = Scheduler(Limits(slots, budget, None))
    model = Model(scheduler)
    scheduler.submit(asked[:late])
    started: list[str] = []
    ended: list[str] = []
    for step in range(500):
        if step == 3:
            scheduler.submit(asked[late:])
        if rng.random() < 0.1:
            scheduler.forget_cache()
            model.slots.clear()
        model.make_ready()
        model.check(slots, budget)
        names = [r.prompt_id for r in scheduler.requests[: scheduler.live] if r is not None]
        started += [name for name in sorted(names, key=lambda n: int(n[1:])) if name not in started]
        stopped, full = model.record(rng.integers(5, 12, scheduler.live))
        for row in [*stopped.tolist(), *full.tolist()]:
            done = scheduler.end(row)
            assert (done.token_ids[-1] == 9) == (row in stopped)
            assert len(done.token_ids) <= done.request.sampling.max_new_tokens
            ended.append(done.request.prompt_id)
        if scheduler.idle and step >= 3:
            break
    assert sorted(ended) == sorted(r.prompt_id for r in asked)
    assert started == [r.prompt_id for r in asked]


def test_a_groups_prompt_is_computed_once() -> None:
    scheduler = Scheduler(Limits(3, 1000, None))
    scheduler.submit(group("a", [5, 6, 7], 4, SETTINGS) + group("b", [5, 6], 1, SETTINGS))
    scheduler.fill()
    shared, fresh = scheduler.prefill()
    assert not shared
    assert [(f.tokens_T.tolist(), f.rows) for f in fresh] == [([5, 6], (0, 1, 2))]
    scheduler.record(np.array([1, 9, 1]), np.zeros(3, np.float32), 0)
    scheduler.end(1)
    scheduler.fill()
    shared, fresh = scheduler.prefill()
    assert not fresh
    assert [(s.source in (0, 2), s.target, s.tokens) for s in shared] == [(True, 1, 2)]


def test_new_weights_make_every_row_compute_its_whole_prefix_again() -> None:
    """Fault H1."""
    scheduler = Scheduler(Limits(3, 1000, None))
    scheduler.submit(group("a", [5, 6, 7], 2, SETTINGS))
    scheduler.fill()
    scheduler.prefill()
    scheduler.record(np.array([1, 2]), np.zeros(2, np.float32), 0)
    scheduler.forget_cache()
    shared, fresh = scheduler.prefill()
    assert not shared
    assert [f.tokens_T.tolist() for f in fresh] == [[5, 6, 7]]
    assert scheduler.cached_N[:2].tolist() == [3, 3]


def test_versions_are_of_each_token() -> None:
    """Fault K3: not stamped at admission."""
    scheduler = Scheduler(Limits(1, 1000, None))
    scheduler.submit([request("a", 2, 3)])
    scheduler.fill()
    for version in (4, 5, 7):
        scheduler.record(np.array([1]), np.zeros(1, np.float32), version)
    assert scheduler.end(0).versions.tolist() == [4, 5, 7]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request("long", 20, 1), r"'long' has 20 tokens, the model 20 positions: shorten"),
        (request("both", 15, 6), r"'both' has 15 tokens; with max_new_tokens = 6 .* at most 5"),
        (replace(request("none", 1, 1), prompt_ids=np.empty(0, np.int64)), r"'none' has no tokens"),
        (request("fine", 2, 2), r"fine/0 is already in the engine"),
    ],
)
def test_what_cannot_be_served_is_refused_whole(bad: Request, message: str) -> None:
    scheduler = Scheduler(Limits(2, 1000, 20))
    scheduler.submit([request("fine", 2, 2)])
    with pytest.raises(InputError, match=message):
        scheduler.submit([request("other", 2, 2), bad])
    scheduler.submit([request("other", 2, 2)])


def test_a_request_beyond_the_budget_is_refused() -> None:
    with pytest.raises(InputError, match=r"needs 13 cache tokens, the engine has 12: raise engine\.cache_tokens"):
        Scheduler(Limits(2, 12, None)).submit([request("a", 10, 4)])


def test_a_whole_line_is_refused_for_a_duplicate_within_it() -> None:
    scheduler = Scheduler(Limits(2, 1000, None))
    with pytest.raises(InputError, match="already"):
        scheduler.submit([request("a", 1, 1), request("a", 1, 1)])
    assert scheduler.idle


def test_abort_takes_out_running_and_waiting() -> None:
    scheduler = Scheduler(Limits(1, 1000, None))
    asked = [request("a", 1, 5), request("b", 1, 5)]
    scheduler.submit(asked)
    scheduler.fill()
    scheduler.record(np.array([3]), np.zeros(1, np.float32), 0)
    assert [(e.request.prompt_id, e.token_ids.tolist()) for e in scheduler.abort()] == [("a", [3]), ("b", [])]
    assert scheduler.idle
    scheduler.submit(asked)
