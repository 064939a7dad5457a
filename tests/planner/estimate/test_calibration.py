"""Calibrations: every constant has a source, the reference is frozen, names are checked."""

from dataclasses import fields, replace

import pytest

from ropewalk.planner.estimate.calibration import CALIBRATIONS, DEFAULT, REFERENCE, Calibration, calibration
from ropewalk.records.errors import InputError

FROZEN = {
    "matmul_peak": 0.65,
    "attention_peak": 0.45,
    "memory_share": 0.80,
    "cache_share": 0.72,
    "rows_half": 96,
    "width_half": 256,
    "kernel_seconds": 3e-6,
    "layer_kernels": 14,
    "launch_seconds": 6e-6,
    "graph_decode": True,
    "hop_seconds": 2.5e-6,
    "sampler_passes": 10,
    "sampler_seconds": 30e-6,
    "step_host_seconds": 0.5e-3,
    "minibatch_seconds": 2e-3,
    "usable_share": 0.92,
}


def test_the_reference_never_changes() -> None:
    assert {name: getattr(REFERENCE, name) for name in FROZEN} == FROZEN


@pytest.mark.parametrize("known", CALIBRATIONS.values(), ids=CALIBRATIONS)
def test_every_constant_says_where_it_comes_from(known: Calibration) -> None:
    constants = {field.name for field in fields(known)} - {"name", "sources"}
    assert set(known.sources) == constants
    assert all(source.text for source in known.sources.values())
    bases = [known.basis(basis) for basis in ("measured", "published", "assumed")]
    assert sorted(name for names in bases for name in names) == sorted(constants)


def test_nothing_shipped_claims_to_be_measured_here() -> None:
    assert REFERENCE.basis("measured") == DEFAULT.basis("measured") == ()


def test_names_are_known_or_refused() -> None:
    assert calibration("reference") is REFERENCE and calibration("default") is DEFAULT
    with pytest.raises(InputError, match="reference, default"):
        calibration("mine")


@pytest.mark.parametrize(
    ("field", "value"),
    [("matmul_peak", 1.2), ("memory_share", 0.0), ("hop_seconds", -1e-6), ("device_peaks", {"A100": 1.5})],
)
def test_impossible_constants_are_refused(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        replace(REFERENCE, **{field: value})  # type: ignore[arg-type]


def test_a_constant_without_a_source_is_refused() -> None:
    with pytest.raises(InputError, match="source"):
        replace(REFERENCE, sources={})


def test_known_devices_have_their_own_share() -> None:
    assert DEFAULT.peak_share("A100 80 GB SXM") == DEFAULT.device_peaks["A100"]
    assert DEFAULT.peak_share("something else") == DEFAULT.matmul_peak
