"""Published weights: nothing old survives a publish, and nothing is sampled from weights that were not published."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from ropewalk.models.network import Network
from ropewalk.records.errors import InputError
from ropewalk.rollout.probe import trainer_logprobs
from tests.fakes import ARCHITECTURES, nudge, tiny_llama
from tests.rollout.helpers import crowd, ends_often, engine_of, group, run, same_completions, settings, version_of

MAKERS = pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
Maker = Callable[..., Network]


@MAKERS
def test_after_each_update_the_engine_is_as_if_freshly_started(make: Maker) -> None:
    """Fault H1: bit for bit, for a prompt that was generated from before every update."""
    network = make()
    engine = engine_of(network)
    asked = crowd(ends_often(), prompts=3)
    seen = [run(engine, asked)]
    for update in range(1, 4):
        nudge(network, seed=update)
        engine.publish(network, version_of(network, update))
        seen.append(run(engine, asked))
        assert same_completions(seen[-1], run(engine_of(network.copy()), asked))
        assert all((c.versions == update).all() for c in seen[-1].values())
        worst = max(np.abs(trainer_logprobs(network, c) - c.logprobs).max() for c in seen[-1].values())
        assert worst < 1e-5
    assert not same_completions(seen[0], seen[1])


@MAKERS
def test_an_update_in_the_middle_of_a_sample(make: Maker) -> None:
    """Fault K3: each token's log-prob is that of the version stored with it, given its whole prefix."""
    network = make()
    engine = engine_of(network, slots=3)
    engine.submit(group("p", [7, 8, 9], 4, settings(max_new_tokens=6, eos_ids=())))
    for _ in range(3):
        engine.step()
    old = network.copy()
    engine.pause()
    nudge(network, seed=1)
    engine.publish(network, version_of(network, 1))
    engine.resume()
    done = list(engine.stream())
    assert sorted(c.versions.tolist() for c in done) == [[0, 0, 0, 1, 1, 1]] * 3 + [[1] * 6]
    for completion in done:
        by_version = np.stack([trainer_logprobs(old, completion), trainer_logprobs(network, completion)])
        expected = by_version[completion.versions, np.arange(6)]
        assert np.abs(expected - completion.logprobs).max() < 1e-5
        assert np.abs(by_version[0] - by_version[1]).max() > 1e-3


def test_nothing_is_sampled_from_weights_that_were_not_published() -> None:
    """Fault H2: random sequences of update, publish, pause, resume, abort and generate."""
    rng = np.random.default_rng(3)
    network = tiny_llama()
    engine = engine_of(network)
    current, step, refused, served = True, 0, 0, 0
    for turn in range(60):
        action = rng.choice(["update", "publish", "sleep", "abort", "generate"])
        if action == "update":
            nudge(network, seed=turn)
            current = False
        elif action == "publish":
            step += 1
            engine.publish(network, version_of(network, step))
            current = True
        elif action == "abort":
            engine.abort()
        elif action == "sleep":
            engine.pause()
            if current:
                engine.resume()
            else:
                with pytest.raises(InputError, match=f"since version {step}"):
                    engine.resume()
                engine.abort()
        elif current:
            done = run(engine, group("p", [1, 2], 2, settings(max_new_tokens=3)))
            assert all((c.versions == step).all() for c in done.values())
            served += 1
        else:
            engine.submit(group("p", [1, 2], 2, settings(max_new_tokens=3)))
            with pytest.raises(InputError, match="publish the new ones"):
                list(engine.stream())
            engine.abort()
            assert [c.finish for c in engine.stream()] == ["aborted"] * 2
            refused += 1
    assert refused > 2 and served > 2


@pytest.mark.parametrize("fused", [True, False])
def test_an_optimiser_step_is_noticed_between_two_tokens(fused: bool) -> None:
    """Fault H2: also while a stream is open."""
    network = tiny_llama()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=fused)
    engine = engine_of(network)
    engine.submit(group("p", [1, 2], 1, settings(eos_ids=())))
    engine.step()
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    with pytest.raises(InputError, match="changed since version 0"):
        engine.step()


def test_weights_changed_behind_torchs_back_are_noticed_after_a_pause() -> None:
    """Fault H2: `.data` writes do not move the change counters; the bytes are compared."""
    network = tiny_llama()
    engine = engine_of(network)
    engine.pause()
    next(network.parameters()).data.mul_(1.5)
    with pytest.raises(InputError, match="changed since version 0"):
        engine.resume()


class _Planted(Network):
    """A network with one parameter renamed, left out, added or of another form."""

    def plant(self, fault: str) -> "_Planted":
        norm = self.body.norm
        if fault == "renamed":
            norm.scale = norm.weight
            del norm.weight
        elif fault == "omitted":
            del norm.weight
        elif fault == "added":
            norm.extra = nn.Parameter(torch.zeros(3))
        elif fault == "reshaped":
            norm.weight = nn.Parameter(torch.ones(31))
        return self


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("renamed", r"body\.norm\.weight is missing; body\.norm\.scale is unknown"),
        ("omitted", r"body\.norm\.weight is missing"),
        ("added", r"body\.norm\.extra is unknown"),
        ("reshaped", r"body\.norm\.weight is 31 float32 instead of 32 float32"),
    ],
)
def test_tensors_that_do_not_match_are_refused_by_name(fault: str, message: str) -> None:
    """Fault H5."""
    engine = engine_of(tiny_llama())
    other = tiny_llama()
    other.__class__ = _Planted
    with pytest.raises(InputError, match=message):
        engine.publish(other.plant(fault), version_of(other, 1))
    assert engine.version is not None and engine.version.step == 0


def test_a_fingerprint_of_other_weights_is_refused() -> None:
    """Fault H2."""
    network = tiny_llama()
    engine = engine_of(network)
    stale = version_of(network, 1)
    nudge(network, seed=1)
    with pytest.raises(InputError, match="take the fingerprint after the last update"):
        engine.publish(network, stale)
