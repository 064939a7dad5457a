"""What one call takes under a strategy at a place: seconds, by part, and where the figure comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.generation import generation
from ropewalk.planner.estimate.passes import forward, train
from ropewalk.planner.estimate.place import Place
from ropewalk.planner.estimate.readings import NOTHING, grids
from ropewalk.planner.estimate.roofline import device, numbers
from ropewalk.planner.estimate.split import split
from ropewalk.planner.estimate.work import CallWork, Strategy

TIMED = {"generate": generation, "forward": forward, "train": train}
BASES = ("extrapolated", "estimated", "interpolated", "measured")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A call's time. The parts add up to the seconds."""

    seconds: float
    parts: Mapping[str, float]
    """Seconds by part: layers, recomputation, head, prefill, decode, sampler, host, communication, gathering, bubble,
    gradients, optimizer, fixed, offload; those that the kind of call has."""
    source: str
    """What the passes through the model rest on: `estimated` by the roofline, or read from a profile as `measured`,
    `interpolated` or `extrapolated`; several are joined by +."""


def estimate(
    work: CallWork,
    strategy: Strategy,
    place: Place,
    calibration: Calibration,
    profile: ProfileTable | None = None,
) -> Estimate:
    """Time of one iteration's call. Raises InputError where the device has no figure for the dtype."""
    if work.kind == "copy":
        parts, bases = _copy(work, strategy, place, calibration), {"estimated"}
    else:
        found = NOTHING if profile is None else grids(profile, work, strategy, place)
        parts, bases = TIMED[work.kind](work, strategy, place, calibration, found)
    if strategy.offload:
        parts["offload"] = _offload(work, strategy, place)
    return Estimate(sum(parts.values()), parts, " + ".join(basis for basis in BASES if basis in bases))


def _copy(work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> dict[str, float]:
    """One role's weights read and the other's written, on each rank."""
    weights = split(work.shape, strategy).parameters * numbers(work.workload.dtype).weights
    return {"copy": 2 * weights / device(place, work.workload.dtype, calibration).memory}


def _offload(work: CallWork, strategy: Strategy, place: Place) -> float:
    """Weights of a frozen role come from the host; the optimizer of a trained one comes and goes back. Other calls hold
    nothing that could wait there."""
    held, number = split(work.shape, strategy), numbers(work.workload.dtype)
    if work.kind == "train":
        own = held.parameters if strategy.shard == "none" else held.shared
        return 2 * own * number.optimizer / place.host_bytes_per_second
    if work.trained or not work.home:
        return 0.0
    return held.parameters * number.weights / place.host_bytes_per_second
