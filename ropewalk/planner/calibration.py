"""The constants of the cost model, each with where it comes from. None of those shipped here was measured by us.

`REFERENCE` is frozen: the planner's own test cases are judged under it, so it never changes. `DEFAULT` is our best
judgement from what is published for current GPUs; a `ProfileTable` overrides whatever it has measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError

Basis: TypeAlias = Literal["measured", "published", "assumed"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a constant comes from."""

    basis: Basis
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Constants of the roofline. Two calibrations are the same only if they are the same object."""

    name: str

    matmul_peak: float
    """Share of peak FLOP/s that a large matrix product reaches."""
    rows_half: float
    """Rows at which a product reaches half of that: the small-batch loss is m / (m + rows_half)."""
    width_half: float
    """The same for the smaller of the two other sides, which tp cuts."""
    attention_peak: float
    """Share of peak FLOP/s of attention over whole sequences."""
    memory_share: float
    """Share of memory bandwidth that products and elementwise passes reach."""
    cache_share: float
    """Share of memory bandwidth at which a decoding step reads keys and values."""
    elementwise_passes: float
    """Reads and writes of one hidden state per layer beside the products."""
    split_elementwise_train: bool
    """Sequence parallelism: in training the tp ranks share the elementwise passes."""
    split_elementwise_forward: bool
    """The same in forward and generate calls."""

    kernel_seconds: float
    """Least time of a kernel."""
    layer_kernels: int
    """Kernels of one layer's forward pass."""
    launch_seconds: float
    """Time of the host to launch one kernel, where no captured graph replaces it."""
    graph_decode: bool
    """Decoding steps are captured graphs."""
    graph_train: bool
    """Forward and training passes are free of the launch floor too."""

    hop_seconds: float
    """Added to a collective's latency by every rank beyond the first."""
    link_share: float
    """Share of a link's bandwidth that messages reach."""
    gradient_overlap: float
    """Share of the gradient reduction that hides behind the backward pass, as far as that is long enough."""
    gather_overlap: float
    """The same of gathering parameters under shard="full"."""

    sampler_passes: float
    """Reads and writes of the fp32 logits of a step, on every tp rank."""
    sampler_seconds: float
    """Beside them, per group of sequences."""
    step_host_seconds: float
    """Host time of a decoding step; hidden where another group of sequences is in flight."""
    shared_prompts: bool
    """The samples of a group pass their prompt once."""
    minibatch_seconds: float
    """Fixed time of an optimizer step."""
    optimizer_bytes: float
    """Memory traffic of an optimizer step, per parameter."""

    usable_share: float
    """Share of a device's memory that a plan may fill."""
    workspace_bytes: float
    """Contexts, communicators, captured graphs: on every GPU that runs a call."""
    chunk_logits: float
    """Most logits at once on a rank in a forward call; a call without a vocabulary head has none."""
    train_chunk_logits: float
    """The same in a train call."""

    sources: Mapping[str, Source]
    """By field."""

    def __post_init__(self) -> None:
        constants = {field.name for field in fields(self)} - {"name", "sources"}
        if constants != set(self.sources):
            raise InputError(f"calibration {self.name!r} needs a source for each of {sorted(constants)}")
        for name in sorted(constants):
            value = getattr(self, name)
            if not value >= 0 or (name.endswith(("_peak", "_share")) and not 0 < value <= 1):
                raise InputError(
                    f"calibration {self.name!r} has {name} = {value!r}: give a share of at most 1, or >= 0"
                )

    def basis(self, basis: Basis) -> tuple[str, ...]:
        """The constants that are measured, published or assumed."""
        return tuple(sorted(name for name, source in self.sources.items() if source.basis == basis))


_FROZEN = Source("assumed", "frozen for the reference cases: plausible for A100 nodes, never measured")
_DEFINITION = Source("assumed", "how the reference cases are defined")
_ADAM = Source(
    "published", "mixed-precision Adam (Rajbhandari et al. 2020, ZeRO): reads 14 and writes 14 bytes a parameter"
)

REFERENCE = Calibration(
    name="reference",
    matmul_peak=0.65,
    rows_half=96,
    width_half=256,
    attention_peak=0.45,
    memory_share=0.80,
    cache_share=0.72,
    elementwise_passes=12,
    split_elementwise_train=True,
    split_elementwise_forward=False,
    kernel_seconds=3e-6,
    layer_kernels=14,
    launch_seconds=6e-6,
    graph_decode=True,
    graph_train=True,
    hop_seconds=2.5e-6,
    link_share=1.0,
    gradient_overlap=0.0,
    gather_overlap=0.0,
    sampler_passes=10,
    sampler_seconds=30e-6,
    step_host_seconds=0.5e-3,
    shared_prompts=False,
    minibatch_seconds=2e-3,
    optimizer_bytes=28,
    usable_share=0.92,
    workspace_bytes=0,
    chunk_logits=2**25,
    train_chunk_logits=float("inf"),
    sources={
        **dict.fromkeys(
            (
                "matmul_peak", "rows_half", "width_half", "attention_peak", "memory_share", "cache_share",
                "elementwise_passes", "kernel_seconds", "layer_kernels", "launch_seconds", "hop_seconds",
                "sampler_passes", "sampler_seconds", "step_host_seconds", "minibatch_seconds", "usable_share",
            ),
            _FROZEN,
        ),
        **dict.fromkeys(
            (
                "split_elementwise_train", "split_elementwise_forward", "graph_decode", "graph_train", "link_share",
                "gradient_overlap", "gather_overlap", "shared_prompts", "workspace_bytes", "chunk_logits",
                "train_chunk_logits",
            ),
            _DEFINITION,
        ),
        "optimizer_bytes": _ADAM,
    },
)  # fmt: skip


def calibration(name: str) -> Calibration:
    """One of those shipped, by name. Raises InputError."""
    if name not in CALIBRATIONS:
        raise InputError(f"there is no calibration {name!r}: choose one of {', '.join(CALIBRATIONS)}")
    return CALIBRATIONS[name]


CALIBRATIONS: Mapping[str, Calibration] = {"reference": REFERENCE}
