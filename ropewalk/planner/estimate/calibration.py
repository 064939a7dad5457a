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
    device_peaks: Mapping[str, float]
    """The same for devices with that word in their names, where it is known better."""
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
    train_elementwise_passes: float
    """The same in one pass of training."""
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
    between_hop_seconds: float
    """The same over several nodes."""
    ramp_bytes: float
    """Of a collective's message, the first so many take twice their time: links fill up slowly."""
    inside_share: float
    """Share of the links' bandwidth inside a node that messages reach."""
    between_share: float
    """The same of the network between nodes."""
    pooled_adapters: bool
    """A collective over several nodes uses the network adapters of all its ranks on a node, not of one."""
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
            for one in value.values() if isinstance(value, Mapping) else (value,):
                if not one >= 0 or (name.endswith(("_peak", "_peaks", "_share")) and not 0 < one <= 1):
                    raise InputError(
                        f"calibration {self.name!r} has {name} = {one!r}: give a share above 0 and up to 1, or a "
                        "number of at least 0 for what is no share"
                    )

    def peak_share(self, device: str) -> float:
        """Of large matrix products on a device, by its name."""
        return next((share for word, share in self.device_peaks.items() if word in device), self.matmul_peak)

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
    device_peaks={},
    rows_half=96,
    width_half=256,
    attention_peak=0.45,
    memory_share=0.80,
    cache_share=0.72,
    elementwise_passes=12,
    train_elementwise_passes=12,
    split_elementwise_train=True,
    split_elementwise_forward=False,
    kernel_seconds=3e-6,
    layer_kernels=14,
    launch_seconds=6e-6,
    graph_decode=True,
    graph_train=True,
    hop_seconds=2.5e-6,
    between_hop_seconds=2.5e-6,
    ramp_bytes=0,
    inside_share=1.0,
    between_share=1.0,
    pooled_adapters=False,
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
                "elementwise_passes", "train_elementwise_passes", "kernel_seconds", "layer_kernels",
                "launch_seconds", "hop_seconds", "between_hop_seconds", "sampler_passes", "sampler_seconds",
                "step_host_seconds", "minibatch_seconds", "usable_share",
            ),
            _FROZEN,
        ),
        **dict.fromkeys(
            (
                "split_elementwise_train", "split_elementwise_forward", "graph_decode", "graph_train", "inside_share",
                "between_share", "pooled_adapters", "device_peaks", "ramp_bytes",
                "gradient_overlap", "gather_overlap", "shared_prompts", "workspace_bytes", "chunk_logits",
                "train_chunk_logits",
            ),
            _DEFINITION,
        ),
        "optimizer_bytes": _ADAM,
    },
)  # fmt: skip


_FITTED = Source(
    "published",
    "fitted, with attention, to 56 published throughputs of training MPT 1B to 70B on 8 to 128 A100 and H100 "
    "(llm-foundry, scripts/train/benchmarking): median error 7 %, 96 % of them within 20 %",
)
_PRODUCTS = Source("assumed", "between what the fit gives for A100 and for H100")
_SMALL = Source("assumed", "a tensor core tile is 64 to 256 wide: products narrower than that waste part of it")
_ATTENTION = Source(
    "published",
    "between what the fit to MPT's kernel gives, 0.30, and FlashAttention-2 (Dao 2023): 0.5 to 0.73 of an A100's peak",
)
_MEMORY = Source("assumed", "copies are reported at 0.85 to 0.92 of the data sheet's bandwidth on A100 and H100")
_CACHE = Source("assumed", "a paged cache reads in blocks, and its last ones are not full")
_FUSED = Source("assumed", "two norms, two residual sums, rotary positions and a gated product, fused as engines do")
_KERNELS = Source("assumed", "a dependent kernel in a captured graph starts about 2 microseconds after the one before")
_LAUNCH = Source("assumed", "launching a kernel takes the host 4 to 10 microseconds through a framework")
_HOPS = Source(
    "published",
    "all-reduces of 32 to 64 kB take 18 microseconds among 8 H200 and 98 among 4 nodes of 8 B200 (ml-engineering, "
    "network/benchmarks), and about 6 among 2 H100 in captured graphs (NCCL issue 1259)",
)
_LINKS = Source(
    "published",
    "bus bandwidth of an all-reduce: about 200 of 300 GB/s among 8 A100 (nccl-tests issue 149); among 8 H200 145 of "
    "450 at 4 MB, 369 at 64 MB, 482 at 16 GB; 377 of 400 among 4 nodes of 8 B200 (ml-engineering, network/benchmarks); "
    "0.85 lies between A100 and H200",
)
_POOLED = Source(
    "published", "the same 4 nodes: rings enter and leave a node by all of its adapters; 13B on 16 to 128 A100 as on 8"
)
_OVERLAP = Source("assumed", "bucketed reductions and prefetched gathers hide mostly, not wholly")
_SAMPLER = Source("assumed", "temperature, softmax, a draw and its log-prob, partly fused")
_HOST = Source("assumed", "scheduling, detokenizing and copying of a step, partly beside the device")
_ENGINE = Source("assumed", "how current engines and trainers work")
_ROOM = Source("assumed", "the allocator loses some, and a plan that runs out of memory is worth nothing")
_WORKSPACE = Source("assumed", "CUDA context, communicators' buffers, product workspaces and captured graphs")
_CHUNKS = Source("assumed", "log-probs are computed by chunks of tokens, as the trainer here does")

DEFAULT = Calibration(
    name="default",
    matmul_peak=0.60,
    device_peaks={"A100": 0.78, "H100": 0.58, "H200": 0.58},
    rows_half=64,
    width_half=128,
    attention_peak=0.40,
    memory_share=0.85,
    cache_share=0.75,
    elementwise_passes=12,
    train_elementwise_passes=28,
    split_elementwise_train=True,
    split_elementwise_forward=False,
    kernel_seconds=2e-6,
    layer_kernels=12,
    launch_seconds=6e-6,
    graph_decode=True,
    graph_train=False,
    hop_seconds=1.2e-6,
    between_hop_seconds=2.5e-6,
    ramp_bytes=2**23,
    inside_share=0.85,
    between_share=0.94,
    pooled_adapters=True,
    gradient_overlap=0.5,
    gather_overlap=0.5,
    sampler_passes=6,
    sampler_seconds=30e-6,
    step_host_seconds=1e-3,
    shared_prompts=True,
    minibatch_seconds=5e-3,
    optimizer_bytes=28,
    usable_share=0.90,
    workspace_bytes=2.5e9,
    chunk_logits=2**25,
    train_chunk_logits=2**25,
    sources={
        "matmul_peak": _PRODUCTS,
        "device_peaks": _FITTED,
        "rows_half": _SMALL,
        "width_half": _SMALL,
        "attention_peak": _ATTENTION,
        "memory_share": _MEMORY,
        "cache_share": _CACHE,
        "elementwise_passes": _FUSED,
        "train_elementwise_passes": _FITTED,
        "split_elementwise_train": _ENGINE,
        "split_elementwise_forward": _ENGINE,
        "kernel_seconds": _KERNELS,
        "layer_kernels": _FUSED,
        "launch_seconds": _LAUNCH,
        "graph_decode": _ENGINE,
        "graph_train": _ENGINE,
        "hop_seconds": _HOPS,
        "between_hop_seconds": _HOPS,
        "ramp_bytes": _LINKS,
        "inside_share": _LINKS,
        "between_share": _LINKS,
        "pooled_adapters": _POOLED,
        "gradient_overlap": _OVERLAP,
        "gather_overlap": _OVERLAP,
        "sampler_passes": _SAMPLER,
        "sampler_seconds": _SAMPLER,
        "step_host_seconds": _HOST,
        "shared_prompts": _ENGINE,
        "minibatch_seconds": Source("assumed", "clipping, schedule, metrics and gaps around an optimizer step"),
        "optimizer_bytes": _ADAM,
        "usable_share": _ROOM,
        "workspace_bytes": _WORKSPACE,
        "chunk_logits": _CHUNKS,
        "train_chunk_logits": _CHUNKS,
    },
)


def calibration(name: str) -> Calibration:
    """One of those shipped, by name. Raises InputError."""
    if name not in CALIBRATIONS:
        raise InputError(f"there is no calibration {name!r}: choose one of {', '.join(CALIBRATIONS)}")
    return CALIBRATIONS[name]


CALIBRATIONS: Mapping[str, Calibration] = {"reference": REFERENCE, "default": DEFAULT}
