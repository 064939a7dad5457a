"""Watching published weights: a token is sampled only from the very bytes that were published.

The trainer updates the engine's network in place, so "current" must be looked at, not assumed. Each step compares
torch's change counters and a few numbers of every tensor (fused optimisers write without moving a counter); after a
pause or an abort, and when something moved, all bytes are compared.
"""

import torch

from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.network import Network
from ropewalk.records.errors import InputError
from ropewalk.records.version import PolicyVersion

_GLIMPSE = 4
"""Numbers of a tensor that are looked at in every step."""


class WeightsWatch:
    """Knows a network's weights as of a version."""

    def __init__(self, network: Network, version: PolicyVersion) -> None:
        """The fingerprint of `network` is that of `version` now."""
        self.version = version
        self._network = network
        self._look()

    def _look(self) -> None:
        self._parameters = list(self._network.parameters())
        self._glimpses = [_glimpse(p) for p in self._parameters if p.is_contiguous()]
        self._mark: tuple[object, ...] | None = self._state()

    def check(self) -> None:
        """Raise `InputError` if the weights are not those published; bytes are compared only where they may differ."""
        if self._state() != self._mark:
            self.check_bytes()

    def check_bytes(self) -> None:
        """The same without trust in counters."""
        actual = fingerprint(self._network)
        if actual != self.version.fingerprint:
            raise InputError(
                f"the engine's weights have changed since version {self.version.step} was published: "
                "publish the new ones before generating"
            )
        self._look()

    def doubt(self) -> None:
        """Compare bytes at the next check."""
        self._mark = None

    def _state(self) -> tuple[object, ...]:
        counters = (x for p in self._parameters for x in (p.data_ptr(), p._version))
        return *counters, torch.cat(self._glimpses).cpu().numpy().tobytes()


def _glimpse(parameter: torch.Tensor) -> torch.Tensor:
    """The bytes of a few numbers from the middle of a tensor, as a view: it follows every change."""
    flat = parameter.detach().view(-1)
    middle = len(flat) // 2
    return flat[middle : middle + _GLIMPSE].view(torch.uint8)


def check_same_tensors(expected: torch.nn.Module, given: torch.nn.Module) -> None:
    """Raise `InputError` naming every tensor that is missing, unknown, or of another shape or dtype."""
    want = {name: (tuple(p.shape), p.dtype) for name, p in expected.named_parameters()}
    have = {name: (tuple(p.shape), p.dtype) for name, p in given.named_parameters()}
    problems = [f"{name} is missing" for name in sorted(want.keys() - have.keys())]
    problems += [f"{name} is unknown" for name in sorted(have.keys() - want.keys())]
    problems += [
        f"{name} is {_form(have[name])} instead of {_form(want[name])}"
        for name in sorted(want.keys() & have.keys())
        if want[name] != have[name]
    ]
    if problems:
        raise InputError(
            f"the weights do not fit the engine's model: {'; '.join(problems)}: publish the network the engine was "
            "built for, or build an engine for this one"
        )


def _form(form: tuple[tuple[int, ...], torch.dtype]) -> str:
    return f"{'x'.join(map(str, form[0]))} {str(form[1]).removeprefix('torch.')}"
