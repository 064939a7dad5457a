"""What every engine promises (`RolloutEngine`). A new engine joins by one entry in `ENGINES`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ropewalk.models.network import Network
from ropewalk.records.errors import InputError
from ropewalk.records.sample import Completion, Request, sample_of
from ropewalk.records.version import PolicyVersion
from ropewalk.rollout.protocol import RolloutEngine
from tests.fakes import ScriptedEngine, nudge, tiny_gpt2, tiny_llama
from tests.rollout.helpers import crowd, ends_often, engine_of, group, settings, version_of


@dataclass
class Bench:
    """An engine and the weights it is fed."""

    engine: RolloutEngine
    network: Network
    exact: bool
    """Whether answers are equal bit for bit in any company (else up to near ties, which these requests avoid)."""

    def update(self, step: int) -> PolicyVersion:
        nudge(self.network, seed=step)
        return version_of(self.network, step)

    def run(self, asked: Sequence[Request]) -> dict[tuple[str, int], Completion]:
        self.engine.submit(asked)
        return by_request(list(self.engine.stream()))


def by_request(done: Sequence[Completion]) -> dict[tuple[str, int], Completion]:
    found = {(c.request.group_id, c.request.index): c for c in done}
    assert len(found) == len(done), "a request left twice"
    return found


def uneven() -> list[Request]:
    """Nobody ends by an end token; the lengths allowed are 3 to 12."""
    asked = crowd(settings(eos_ids=()))
    return [replace(r, sampling=settings(eos_ids=(), max_new_tokens=3 + i % 10)) for i, r in enumerate(asked)]


def _scripted() -> Bench:
    network = tiny_llama()
    engine = ScriptedEngine(slots=3)
    engine.publish(network, version_of(network))
    return Bench(engine, network, exact=True)


def _native(make: Callable[..., Network], slots: int) -> Bench:
    network = make()
    return Bench(engine_of(network, slots=slots), network, exact=False)


ENGINES: Mapping[str, Callable[[], Bench]] = {
    "scripted": _scripted,
    "native-llama": lambda: _native(tiny_llama, 3),
    "native-gpt2": lambda: _native(tiny_gpt2, 64),
}


@pytest.fixture(params=ENGINES)
def bench(request: pytest.FixtureRequest) -> Bench:
    return ENGINES[request.param]()


def test_every_request_leaves_once_with_its_own_answer(bench: Bench) -> None:
    """Fault H6: prompts of very different length."""
    asked = crowd(ends_often())
    done = bench.run(asked)
    assert done.keys() == {(r.group_id, r.index) for r in asked}
    for request in asked:
        assert done[request.group_id, request.index].request is request


def test_a_second_call_is_as_good_as_the_first(bench: Bench) -> None:
    """Fault H6: no counter of the first call leaks into the second."""
    first, second = crowd(ends_often(), run_seed=1), crowd(ends_often(), prompts=4, run_seed=2)
    one = bench.run(first)
    assert bench.run(second).keys() == {(r.group_id, r.index) for r in second}
    again = bench.run(first)
    assert {k: c.token_ids.tolist() for k, c in one.items()} == {k: c.token_ids.tolist() for k, c in again.items()}


def test_answers_do_not_depend_on_place_in_line_or_company(bench: Bench) -> None:
    """Fault B6."""
    asked = crowd(ends_often())
    whole = bench.run(asked)
    back = bench.run(asked[::-1])
    alone = {}
    for request in asked[::4]:
        alone |= bench.run([request])
    for other in (back, alone):
        for key, completion in other.items():
            assert completion.token_ids.tolist() == whole[key].token_ids.tolist()
            assert completion.finish == whole[key].finish and completion.text == whole[key].text
            tolerance = 0.0 if bench.exact else 1e-5
            assert np.abs(completion.logprobs - whole[key].logprobs).max(initial=0.0) <= tolerance


def test_samples_of_a_group_differ(bench: Bench) -> None:
    """Fault B6: no two streams are the same."""
    done = bench.run(group("p", [65, 66], 12, settings(eos_ids=())))
    assert len({tuple(c.token_ids) for c in done.values()}) == 12


def test_finish_says_how_it_ended(bench: Bench) -> None:
    """Fault A7: the end token is among the ids, and only at the end."""
    done = bench.run(crowd(ends_often(), prompts=8))
    for completion in done.values():
        ends = completion.request.sampling.eos_ids
        *before, last = completion.token_ids.tolist()
        assert not set(before) & set(ends)
        assert completion.finish == ("stop" if last in ends else "length")
        assert len(completion.token_ids) <= 12
        assert completion.finish == "stop" or len(completion.token_ids) == 12
    assert {c.finish for c in done.values()} == {"stop", "length"}


def test_arrays_belong_together(bench: Bench) -> None:
    """Fault F6: a sample can be made of every completion; banned ids never occur."""
    for completion in bench.run(crowd(ends_often())).values():
        sample = sample_of(completion)
        assert sample.completion_tokens == len(completion.token_ids)
        assert (completion.logprobs <= 0).all()
        assert not set(completion.token_ids.tolist()) & set(completion.request.sampling.banned_ids)
        assert (completion.token_ids.dtype, completion.logprobs.dtype) == (np.int64, np.float32)


def test_tokens_carry_the_version_that_sampled_them(bench: Bench) -> None:
    """Fault K3."""
    for step in (1, 2):
        version = bench.update(step)
        bench.engine.publish(bench.network, version)
        assert bench.engine.version == version
        for completion in bench.run(crowd(ends_often(), prompts=2)).values():
            assert (completion.versions == step).all()


def test_requests_before_the_first_publish_are_refused() -> None:
    with pytest.raises(InputError, match="publish them first"):
        ScriptedEngine().submit(group("p", [1], 1, settings()))


def test_a_request_already_inside_is_refused_and_may_return_once_it_has_left(bench: Bench) -> None:
    asked = group("p", [65], 2, settings())
    bench.engine.submit(asked)
    with pytest.raises(InputError, match="already in the engine"):
        bench.engine.submit(group("p", [65], 3, settings(), first=0))
    with pytest.raises(InputError, match="already in the engine"):
        bench.engine.submit([replace(asked[0], index=7), replace(asked[0], index=7)])
    assert by_request(list(bench.engine.stream())).keys() == {("p", 0), ("p", 1)}
    assert bench.run(asked).keys() == {("p", 0), ("p", 1)}


def test_requests_may_join_while_others_run(bench: Bench) -> None:
    asked = crowd(ends_often())
    bench.engine.submit(asked[:6])
    stream = bench.engine.stream()
    done = [next(stream)]
    bench.engine.submit(asked[6:])
    done += list(stream)
    assert by_request(done).keys() == {(r.group_id, r.index) for r in asked}


def test_pause_keeps_what_runs_and_resume_goes_on(bench: Bench) -> None:
    asked = crowd(ends_often())
    whole = bench.run(asked)
    bench.engine.submit(asked)
    stream = bench.engine.stream()
    done = [next(stream)]
    bench.engine.pause()
    done += list(stream)
    assert len(done) < len(asked)
    assert list(bench.engine.stream()) == []
    bench.engine.resume()
    done += list(bench.engine.stream())
    found = by_request(done)
    assert {k: c.token_ids.tolist() for k, c in found.items()} == {k: c.token_ids.tolist() for k, c in whole.items()}


def test_weights_change_under_running_requests_only_in_a_pause(bench: Bench) -> None:
    """Faults H2 and K3: before a pause the publish is refused; after it every token has its own version."""
    asked = uneven()
    bench.engine.submit(asked)
    stream = bench.engine.stream()
    first = next(stream)
    assert (first.versions == 0).all()
    with pytest.raises(InputError, match="pause the engine first"):
        bench.engine.publish(bench.network, version_of(bench.network, 1))
    bench.engine.pause()
    done = [first, *stream]
    bench.engine.publish(bench.network, bench.update(1))
    bench.engine.resume()
    for completion in bench.engine.stream():
        assert (np.diff(completion.versions) >= 0).all()
        assert completion.versions[-1] == 1
        done.append(completion)
    assert by_request(done).keys() == {(r.group_id, r.index) for r in asked}


def test_abort_ends_everything_as_it_stands(bench: Bench) -> None:
    """Fault G12: an aborted sample is whole in itself and marked."""
    asked = uneven()
    bench.engine.submit(asked)
    first = next(bench.engine.stream())
    bench.engine.abort()
    left = list(bench.engine.stream())
    assert by_request([first, *left]).keys() == {(r.group_id, r.index) for r in asked}
    cut = [c for c in left if c.finish == "aborted"]
    assert cut
    for completion in cut:
        assert sample_of(completion).completion_tokens == len(completion.token_ids)
        assert len(completion.token_ids) < completion.request.sampling.max_new_tokens
    assert bench.run(asked).keys() == {(r.group_id, r.index) for r in asked}


def test_abort_ends_a_pause(bench: Bench) -> None:
    bench.engine.submit(group("p", [65], 1, settings()))
    bench.engine.pause()
    bench.engine.abort()
    assert [c.finish for c in bench.engine.stream()] == ["aborted"]
    assert len(bench.run(group("p", [65], 1, settings()))) == 1


def test_nothing_to_do_is_nothing(bench: Bench) -> None:
    bench.engine.submit([])
    assert list(bench.engine.stream()) == []
    bench.engine.abort()
    assert list(bench.engine.stream()) == []
