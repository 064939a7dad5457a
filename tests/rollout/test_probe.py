"""The probe passes an honest engine and catches planted stale ones."""

from collections.abc import Callable

import pytest

from ropewalk.models.network import Network
from ropewalk.records.errors import RunStopped
from ropewalk.rollout.native.engine import NativeEngine
from ropewalk.rollout.probe import probe
from tests.fakes import ARCHITECTURES, byte_tokenizer, nudge, tiny_gpt2, tiny_llama
from tests.rollout.helpers import engine_of, settings, version_of


@pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0, 1.3])
def test_an_honest_engine_passes_after_every_update(make: Callable[..., Network], temperature: float) -> None:
    network = make()
    engine = engine_of(network)
    for step in range(3):
        engine.publish(network, version_of(network, step))
        assert probe(engine, network, version_of(network, step), settings(temperature=temperature)) <= 1e-5
        nudge(network, seed=step)


@pytest.mark.parametrize("positions", [2, 6, 9])
def test_short_positions_are_no_obstacle(positions: int) -> None:
    network = tiny_gpt2(max_positions=positions)
    assert probe(engine_of(network), network, version_of(network), settings()) <= 1e-5


def test_an_engine_that_missed_the_publish_is_caught() -> None:
    """Fault H2."""
    network = tiny_llama()
    engine = engine_of(network.copy())
    nudge(network, seed=1)
    with pytest.raises(RunStopped, match=r"the engine holds version 0 \(.*\) where version 1 .* stale"):
        probe(engine, network, version_of(network, 1), settings())


class _Stale(NativeEngine):
    """Takes the version of new weights and goes on with a copy of the old ones."""

    def publish(self, weights: Network, version: object) -> None:
        if self.version is None:
            super().publish(weights.copy(), version)  # type: ignore[arg-type]
        else:
            self._watch.version = version  # type: ignore[union-attr, assignment]


@pytest.mark.parametrize("scale", [0.1, 1e-3])
def test_an_engine_that_only_took_the_version_is_caught(scale: float) -> None:
    """Fault H2: by its log-probs."""
    network = tiny_llama()
    engine = _Stale(network, byte_tokenizer())
    engine.publish(network, version_of(network))
    assert probe(engine, network, version_of(network), settings()) <= 1e-5
    nudge(network, seed=1, scale=scale)
    engine.publish(network, version_of(network, 1))
    with pytest.raises(RunStopped, match=r"disagree by .* after publishing version 1"):
        probe(engine, network, version_of(network, 1), settings())
