"""Works, places and devices to estimate on: the reference cases' own, and small ones of one's own."""

from dataclasses import replace

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.plan.graph import Kind
from ropewalk.plan.shape import Experts, ModelShape
from ropewalk.plan.sizes import shape_of
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.estimate.calibration import REFERENCE, Calibration
from ropewalk.planner.estimate.cost import Estimate, estimate
from ropewalk.planner.estimate.place import Place, place
from ropewalk.planner.estimate.work import CallWork, Strategy

A100 = Gpu("A100 80 GB", {"bf16": 312e12, "fp32": 19.5e12}, 80e9, 2.0e12)
WORKLOAD = Workload(512, 1, Lengths.fixed(128), Lengths.fixed(896), minibatches=4)
SKEWED = Lengths((64, 128, 256, 512, 896), (1.0, 2.0, 4.0, 2.0, 1.0))


def cluster(gpus: int = 16, gpu: Gpu = A100) -> Cluster:
    """The reference cases' nodes of 8."""
    node = NodeGroup(gpu, max(1, gpus // 8), min(gpus, 8), 230e9, 10e-6, 25e9)
    return Cluster(f"{gpus} {gpu.name}", (node,), 25e9, 20e-6)


def where(gpus: int = 16, gpu: Gpu = A100) -> Place:
    return place(cluster(gpus, gpu), 0, gpus)


def work(
    kind: Kind,
    size: str | ModelShape = "7b",
    *,
    scalar: bool = False,
    trained: bool = True,
    workload: Workload = WORKLOAD,
    home: bool | None = None,
) -> CallWork:
    """A call; at home if it trains, or if its role is frozen."""
    shape = shape_of(size) if isinstance(size, str) else size
    shape = shape.with_scalar_head() if scalar else shape
    return CallWork(
        name=f"{kind}_{size}" if isinstance(size, str) else kind,
        role="actor",
        kind=kind,
        shape=shape,
        trained=trained,
        workload=workload,
        home=(kind == "train" or not trained) if home is None else home,
    )


def seconds(call: CallWork, strategy: Strategy, at: Place | None = None, calibration: Calibration = REFERENCE) -> float:
    return estimated(call, strategy, at, calibration).seconds


def estimated(
    call: CallWork, strategy: Strategy, at: Place | None = None, calibration: Calibration = REFERENCE
) -> Estimate:
    return estimate(call, strategy, at or where(strategy.gpus), calibration)


def tiny(**changes: object) -> ModelShape:
    """A small dense model."""
    shape = ModelShape(
        vocabulary=1000,
        width=512,
        layers=8,
        heads=8,
        kv_heads=4,
        head_dim=64,
        ffn=1024,
        tied=False,
        max_positions=4096,
    )
    return replace(shape, **changes)  # type: ignore[arg-type]


def mixture(count: int, per_token: int, ffn: int = 1024, *, shared: int = 0, dense_layers: int = 0) -> ModelShape:
    return tiny(experts=Experts(count, per_token, ffn, shared, dense_layers))
