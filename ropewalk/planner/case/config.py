"""Sections of the files that describe what is to be planned: a cluster, a workload, a case of both."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ropewalk.config.schema import Section


class GivenGpu(Section):
    """A device by its figures."""

    kind: Literal["given"] = "given"
    name: str
    """What it is called."""
    flops: dict[str, float]
    """Dense peak FLOP/s by dtype: bf16, fp16, fp32, tf32, fp8. Figures with sparsity are twice as high: halve them."""
    memory_bytes: float = Field(gt=0)
    """All of its memory."""
    memory_bytes_per_second: float = Field(gt=0)
    """Of its own memory."""
    dollars_per_hour: float | None = Field(default=None, ge=0)
    """Price of one GPU-hour."""
    dollars_range: tuple[float, float] | None = None
    """Lowest and highest price."""
    dollars_source: Literal["given", "assumed"] = "given"
    """Whether somebody was asked for the price."""
    source: str = "given"
    """Where the figures come from."""


class NamedGpu(Section):
    """A device that is built in."""

    kind: Literal["named"] = "named"
    name: str
    """For example "a100", "h100", "l4"."""
    dollars_per_hour: float | None = Field(default=None, ge=0)
    """Your price of one GPU-hour, in place of the assumed one."""


GpuChoice: TypeAlias = Annotated[GivenGpu | NamedGpu, Field(discriminator="kind")]


class NodeGroupSection(Section):
    """Equal nodes."""

    gpu: GpuChoice
    """What is in them: a table, or the name of a built-in device."""
    nodes: int = Field(ge=1)
    """How many."""
    gpus_per_node: int = Field(ge=1)
    """Devices of one node."""
    inside_bytes_per_second: float = Field(gt=0)
    """Of one GPU's links to the others of its node, one direction."""
    inside_latency_seconds: float = Field(default=10e-6, ge=0)
    """Of a message inside a node."""
    host_bytes_per_second: float = Field(gt=0)
    """Of one GPU to its host's memory, one direction."""


class GivenCluster(Section):
    """A cluster by its figures: the form of a cluster file."""

    kind: Literal["given"] = "given"
    name: str
    """What it is called."""
    group: tuple[NodeGroupSection, ...]
    """Groups of equal nodes; several for a heterogeneous cluster."""
    between_bytes_per_second: float = Field(gt=0)
    """Of one GPU's share of the network between nodes, one direction."""
    between_latency_seconds: float = Field(default=20e-6, ge=0)
    """Of a message between nodes."""


class NamedCluster(Section):
    """A cluster by name: "32xa100", "16xh100+16xl4", "this-machine", or the path of a cluster file."""

    kind: Literal["named"] = "named"
    name: str
    """The name or the path."""


ClusterChoice: TypeAlias = Annotated[GivenCluster | NamedCluster, Field(discriminator="kind")]


class FixedLength(Section):
    """All sequences are equally long."""

    kind: Literal["fixed"] = "fixed"
    tokens: int = Field(ge=0)
    """Their length."""


class HistogramLengths(Section):
    """Lengths with their weights."""

    kind: Literal["histogram"] = "histogram"
    tokens: tuple[int, ...]
    """Lengths."""
    weights: tuple[float, ...]
    """How often each is met; need not sum to one."""


class FileLengths(Section):
    """Lengths observed in a JSONL file: recorded or kept samples of a run, or a number a line."""

    kind: Literal["file"] = "file"
    path: str
    """From the folder of this file on."""


LengthsChoice: TypeAlias = Annotated[FixedLength | HistogramLengths | FileLengths, Field(discriminator="kind")]


class WorkloadSection(Section):
    """One iteration's batch and how it is trained on: the form of a workload file."""

    prompts: int = Field(default=512, ge=1)
    """Prompts of an iteration; without generation the rows, or the pairs, of a step."""
    group_size: int | None = Field(default=None, ge=1)
    """Samples of a prompt; the method's own number unless given."""
    prompt_tokens: LengthsChoice = FixedLength(tokens=128)
    """Lengths of prompts: a number, a table of tokens and weights, or a path."""
    generated_tokens: LengthsChoice = FixedLength(tokens=896)
    """Lengths of answers: likewise."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps of a pass."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the batch."""
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    """What calls compute in."""
    frozen: tuple[str, ...] = ()
    """Roles that the method would train and that are not trained here."""
    lora_rank: dict[str, int] = Field(default_factory=dict)
    """By trained role, the rank of its adapters."""


class SpaceSection(Section):
    """The plans that are looked at; what is left out follows from the cluster."""

    slice_sizes: tuple[int, ...] | None = None
    """Sizes of aligned slices of one node that may be a mesh."""
    tp: tuple[int, ...] | None = None
    """Degrees of tensor parallelism."""
    ep: tuple[int, ...] | None = None
    """Ways to spread the experts of a layer."""
    pp_max: int | None = Field(default=None, ge=1)
    """Most pipeline stages."""
    offload: bool | None = None
    """Whether frozen parameters may wait in the host's memory."""
    shard: tuple[Literal["none", "optimizer", "full"], ...] | None = None
    """What the dp ranks of a train call may share: nothing, the optimizer (ZeRO-1), or all of it (ZeRO-3)."""
    uneven_stages: bool | None = None
    """Whether pipeline stages may differ by a layer."""
    blocks: int | None = Field(default=None, ge=1)
    """Most pieces that whole nodes are grouped in; meshes are runs of them."""
    node_runs: bool | None = None
    """Whether several nodes may be one mesh."""


class CaseSection(Section):
    """All that a plan is made from."""

    name: str = "case"
    """What it is called."""
    method: str = "ppo"
    """A method and its options, such as "ppo", "ppo+old-logprobs", "grpo+rule-reward"."""
    models: dict[str, str]
    """By role a size such as "7b", or a folder; the reference follows the actor, the reward the critic."""
    cluster: ClusterChoice
    """A table of the form of a cluster file, or a name."""
    workload: WorkloadSection = WorkloadSection()
    """A table of the form of a workload file."""
    calibration: str = "default"
    """Which constants the estimates use."""
    space: SpaceSection = SpaceSection()
    """The plans that are looked at."""
