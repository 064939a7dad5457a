"""GPU-hours, days and money of a job, before anything is bought.

    GPU-hours of a part = tokens x FLOPs per token / (MFU x peak x 3,600), FLOPs per token from the call graph
    rollout by roofline = prefill as above + decoded tokens x step / batch (decoding.py)
    total               = (rollout + scoring + update) x (1 + retry)

Active parameters compute, all parameters lie in memory. Every result is a range, because MFU and bandwidth are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk.plan.cluster import Gpu
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.price.decoding import Reach, Replica, checked_batch, peak_flops, replica, step_seconds
from ropewalk.planner.price.figure import Figure, positive, share
from ropewalk.planner.price.flops import FORWARD, PARTS, Part, call_flops, per_token
from ropewalk.planner.price.held import Held, held
from ropewalk.records.errors import InputError

HOUR = 3600.0
DAY_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done, counted in rows: documents, samples with their prompts, or both halves of pairs."""

    graph: CallGraph
    shapes: Mapping[str, ModelShape]
    rows: float
    """Of one pass over the data."""
    row_tokens: float
    """Mean, prompt and answer together."""
    generated_tokens: float = 0.0
    """Of a row's tokens, those that are decoded."""
    passes: int = 1
    """Passes over the data, each generating anew where something is generated."""
    update_epochs: int = 1
    """Passes of the optimiser over each generated batch."""
    lora_rank: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        for value, what in ((self.rows, "the number of rows"), (self.row_tokens, "the tokens of a row")):
            positive(value, what)
        positive(self.passes, "the number of passes")
        if not 0 <= self.generated_tokens <= self.row_tokens:
            raise InputError(
                f"of {self.row_tokens:g} tokens a row, {self.generated_tokens:g} cannot be generated: "
                f"prompt and answer together make the row"
            )

    @property
    def tokens(self) -> float:
        return self.rows * self.row_tokens * self.passes


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody has measured yet for this job."""

    mfu: Figure = field(default_factory=lambda: Figure(0.30, 0.45, "assumed"))
    """Of prefill, scoring and training."""
    bandwidth: Figure = field(default_factory=lambda: Figure(0.60, 0.85, "assumed"))
    """Share of the memory bandwidth that decoding reaches."""
    kernels: Figure = field(default_factory=lambda: Figure(0.50, 0.75, "assumed"))
    """Share of the peak that decoding's matrix products reach."""
    retry: float = 0.10
    """Failed and repeated work, relative to the work that counts."""
    batch: int = 128
    """Sequences that a replica decodes at once, where the cache fits."""

    def __post_init__(self) -> None:
        share(self.mfu, "an MFU")
        share(self.bandwidth, "the share of bandwidth")
        share(self.kernels, "the share of the peak")
        checked_batch(self.batch)
        if not 0 <= self.retry < float("inf"):
            raise InputError(f"the retry budget is a share of the work >= 0, got {self.retry:g}: write 0.1 for a tenth")


@dataclass(frozen=True, slots=True)
class PartPrice:
    """One part of the work: rollout, scoring or update."""

    part: Part
    flops: float
    by_mfu: Figure
    """GPU-hours."""
    gpu_hours: Figure
    """The same, with decoding priced by the roofline."""


@dataclass(frozen=True, slots=True)
class Price:
    """A job on one kind of GPU."""

    gpu: Gpu
    gpus: int
    parts: tuple[PartPrice, ...]
    retry: float
    held: Held
    engine: Replica | None
    """What decodes; None where nothing is generated."""

    @property
    def flops(self) -> float:
        return sum(part.flops for part in self.parts)

    @property
    def by_mfu(self) -> Figure:
        """GPU-hours, retries included, if decoding reached the MFU of training. It does not."""
        return _total([part.by_mfu for part in self.parts]).times(1 + self.retry)

    @property
    def gpu_hours(self) -> Figure:
        """Retries included, decoding by the roofline."""
        return _total([part.gpu_hours for part in self.parts]).times(1 + self.retry)

    @property
    def days(self) -> Figure:
        """With all GPUs busy all the time."""
        return self.gpu_hours.times(1 / (self.gpus * DAY_HOURS))

    @property
    def dollars(self) -> Figure | None:
        rate, hours = self.dollars_per_hour, self.gpu_hours
        return None if rate is None else Figure(hours.low * rate.low, hours.high * rate.high)

    @property
    def dollars_per_hour(self) -> Figure | None:
        """Assumed, whoever gave it: no offer was asked for."""
        rate, found = self.gpu.dollars_per_hour, self.gpu.dollars_range
        if found is not None:
            return Figure.between(*found, how="assumed")
        return None if rate is None else Figure.of(rate, "assumed")

    def flops_shares(self) -> dict[Part, float]:
        return {part.part: part.flops / self.flops for part in self.parts}

    def time_shares(self) -> tuple[dict[Part, float], dict[Part, float]]:
        """At the fast and at the slow end of the assumptions; each sums to 1."""
        fast, slow = _total([part.gpu_hours for part in self.parts]).low, self.gpu_hours.high / (1 + self.retry)
        return (
            {part.part: part.gpu_hours.low / fast for part in self.parts},
            {part.part: part.gpu_hours.high / slow for part in self.parts},
        )


def price(job: Job, gpu: Gpu, *, gpus: int, assumptions: Assumptions | None = None) -> Price:
    """The job on `gpus` of one kind."""
    given = assumptions or Assumptions()
    if gpus < 1:
        raise InputError(f"a job needs at least 1 GPU, got {gpus}")
    adapted = frozenset(job.lora_rank or ())
    calls = call_flops(job.graph, update_epochs=job.update_epochs, adapted=adapted)
    active = {role: float(shape.active_parameters) for role, shape in job.shapes.items()}
    by_part = {part: each * job.tokens for part, each in per_token(calls, active).items()}
    engine = _engine(job, gpu, given)
    parts = []
    for part in PARTS:
        by_mfu = mfu_hours(by_part[part], gpu, given.mfu)
        hours = by_mfu if engine is None or part != "rollout" else _rollout_hours(job, gpu, given, engine)
        parts.append(PartPrice(part, by_part[part], by_mfu, hours))
    return Price(gpu, gpus, tuple(parts), given.retry, held(job.graph, job.shapes, job.lora_rank), engine)


def mfu_hours(flops: float, gpu: Gpu, mfu: Figure) -> Figure:
    """GPU-hours = FLOPs / (MFU x peak x 3,600)."""
    one = flops / (peak_flops(gpu) * HOUR)
    return Figure.between(one / mfu.high, one / mfu.low)


def _generating(job: Job) -> ModelShape | None:
    roles = [call.role for call in job.graph.of_kind("generate")]
    return job.shapes[roles[0]] if roles and job.generated_tokens else None


def _engine(job: Job, gpu: Gpu, given: Assumptions) -> Replica | None:
    shape = _generating(job)
    return None if shape is None else replica(shape, gpu, batch=given.batch, longest=int(job.row_tokens))


def _rollout_hours(job: Job, gpu: Gpu, given: Assumptions, engine: Replica) -> Figure:
    shape = _generating(job)
    if shape is None:
        return Figure.of(0.0)
    rows, prompt = job.rows * job.passes, job.row_tokens - job.generated_tokens
    prefill = mfu_hours(rows * prompt * FORWARD * shape.active_parameters, gpu, given.mfu)
    context = prompt + job.generated_tokens / 2

    def decode(peak: float, bandwidth: float) -> float:
        step = step_seconds(
            shape, gpu, batch=engine.batch, context=context, gpus=engine.gpus, reach=Reach(peak, bandwidth)
        )
        return rows * job.generated_tokens / engine.batch * step * engine.gpus / HOUR

    ends = decode(given.kernels.high, given.bandwidth.high), decode(given.kernels.low, given.bandwidth.low)
    return prefill + Figure.between(*ends)


def _total(figures: list[Figure]) -> Figure:
    total = Figure.of(0.0)
    for figure in figures:
        total = total + figure
    return total
