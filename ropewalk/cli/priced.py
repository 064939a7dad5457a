"""The words of a price: every figure with its range and with how it is known."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ropewalk.cli.said import table
from ropewalk.plan.memory import show
from ropewalk.planner.price.figure import Figure
from ropewalk.planner.price.flops import PARTS, TRAIN, attention_share
from ropewalk.planner.price.held import usable_bytes
from ropewalk.planner.price.job_price import Assumptions, Job, Price
from ropewalk.planner.price.published import PublishedHours, PublishedRun
from ropewalk.planner.price.rules_of_thumb import Finding


def price_lines(title: str, job: Job, prices: Sequence[Price], given: Assumptions) -> list[str]:
    """A job on several kinds of GPU side by side."""
    times = [("time (estimated)", *_LAST), *(_row(price) for price in prices)]
    memory = [("memory (estimated)", *_memory_head(prices[0])), *(_memory_row(price) for price in prices)]
    blocks = [_work(job, prices[0]), grid(times), [*grid(memory), *_states(prices[0])], _assumed(prices, given)]
    return [title, *(line for block in blocks for line in ("", *block))]


def price_json(kind: str, job: Job, prices: Sequence[Price], given: Assumptions) -> dict[str, Any]:
    """The same for machines."""
    return {
        "kind": kind,
        "tokens": {"value": job.tokens, "how": "assumed"},
        "models": {
            role: {"parameters": shape.parameters, "active_parameters": shape.active_parameters}
            for role, shape in job.shapes.items()
        },
        "assumptions": {
            "mfu": figure_json(given.mfu),
            "bandwidth": figure_json(given.bandwidth),
            "kernels": figure_json(given.kernels),
            "retry": {"value": given.retry, "how": "assumed"},
            "batch": {"value": given.batch, "how": "assumed"},
        },
        "prices": [_one_json(price) for price in prices],
    }


def published_lines(runs: Iterable[PublishedRun], hours: Iterable[PublishedHours]) -> list[str]:
    """Published runs with the MFU they imply."""
    rows = [("run", "active", "tokens", "GPU-hours (measured)", "implied MFU (estimated)", "published in")]
    rows += [
        (
            run.model,
            f"{run.active_parameters / 1e9:.3g} B",
            f"{run.tokens / 1e12:.3g} T",
            f"{amount(run.gpu_hours)} {run.gpu}",
            f"{run.implied_mfu:.1%} of {run.peak_flops / 1e12:.0f} TFLOP/s",
            run.source,
        )
        for run in runs
    ]
    others = [("run without published tokens", "GPUs", "hours (measured)", "GPU-hours", "published in")]
    others += [
        (run.model, f"{run.gpus} {run.gpu}", f"{run.hours:g}", amount(run.gpu_hours), run.source) for run in hours
    ]
    return [*grid(rows), "", *grid(others), "", "implied MFU = 6 x active parameters x tokens / (hours x 3,600 x peak)"]


def claim_lines(found: Iterable[Finding]) -> list[str]:
    """Rules of thumb with what arithmetic says; each figure says how it is known."""
    lines: list[str] = []
    for finding in found:
        lines.append(f"{finding.verdict:<8}{finding.said}")
        lines += [f"        {v.what}: {with_unit(v.value, v.unit)} ({v.how})" for v in finding.values]
        lines += [f"        {finding.because}", ""]
    return lines[:-1]


def claim_json(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """The same for machines."""
    return [
        {
            "said": finding.said,
            "verdict": finding.verdict,
            "values": {
                value.what: {"value": value.value, "unit": value.unit, "how": value.how} for value in finding.values
            },
            "because": finding.because,
        }
        for finding in found
    ]


def figure_json(figure: Figure | None) -> dict[str, Any] | None:
    """A range and how it is known."""
    return None if figure is None else {"low": figure.low, "high": figure.high, "how": figure.how}


def amount(value: float) -> str:
    """Three digits: 2.66 M, 920, 3.31."""
    for unit, scale in ((" T", 1e12), (" B", 1e9), (" M", 1e6)):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def with_unit(value: float, unit: str) -> str:
    """The amount with its unit where one would write it."""
    return f"${amount(value)}" if unit == "$" else f"{amount(value)} {unit}".strip()


def between(figure: Figure, unit: str = "") -> str:
    """A range in words: one number where both ends print the same."""
    low, high = amount(figure.low), amount(figure.high)
    return f"{unit}{low}" if low == high else f"{unit}{low} to {unit}{high}"


def grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest entry."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


_LAST = ("GPU-hours", "by MFU alone", "days", "dollars (price assumed)", "rollout / scoring / update")
MENTIONED_ATTENTION = 0.05


def _row(price: Price) -> tuple[str, ...]:
    cost, rate = price.dollars, price.dollars_per_hour
    fast, slow = price.time_shares()
    ends = [" / ".join(f"{shares[part]:.0%}" for part in PARTS) for shares in (fast, slow)]
    return (
        price.gpu.name,
        between(price.gpu_hours),
        between(price.by_mfu),
        f"{between(price.days)} on {price.gpus}",
        "no price known" if cost is None or rate is None else f"{between(cost, '$')} at {between(rate, '$')}",
        ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}",
    )


def _work(job: Job, price: Price) -> list[str]:
    """FLOPs and who does them."""
    rows = []
    for role, shape in job.shapes.items():
        active = shape.active_parameters
        about = "all active" if active == shape.parameters else f"{amount(active)} active"
        rows.append((role, f"{amount(shape.parameters)} parameters (estimated), {about}"))
    relative = price.flops / (TRAIN * max(shape.active_parameters for shape in job.shapes.values()) * job.tokens)
    shares = price.flops_shares()
    parts = ", ".join(f"{part} {shares[part]:.0%}" for part in PARTS if shares[part])
    rows.append(("FLOPs", f"{price.flops:.3g} (estimated), k = {relative:.2f} training passes: {parts}"))
    rows.append(("", "2 a forward pass and 6 a trained one, per active parameter and token, counted over the calls"))
    beyond = max(attention_share(shape, job.row_tokens) for shape in job.shapes.values())
    if beyond > MENTIONED_ATTENTION:
        rows.append(("", f"attention's own products add {beyond:.0%} at this length (estimated), not priced here"))
    return table(rows)


def _memory_head(price: Price) -> tuple[str, ...]:
    on = f"on {price.gpus}"
    head = ("usable each", f"states {on}, all split", f"{on}, ZeRO-1", "fewest GPUs", "")
    return (*head, "decoding (assumed)") if price.engine else head


def _memory_row(price: Price) -> tuple[str, ...]:
    states, gpu, engine = price.held, price.gpu, price.engine
    row = (
        gpu.name,
        show(usable_bytes(gpu)),
        show(states.sharded_bytes(price.gpus)),
        show(states.zero1_bytes(price.gpus)),
        str(states.fewest_gpus(gpu)),
        "fits" if states.fits(gpu, price.gpus) else "does not fit",
    )
    if engine is None:
        return row
    limit = ", all that fit" if engine.batch == engine.batch_that_fits else ""
    return (*row, f"{engine.batch} sequences on {engine.gpus}{limit}")


def _states(price: Price) -> list[str]:
    states = price.held
    roles = ", ".join(f"{role} {show(size)}" for role, size in states.by_role.items())
    lines = [f"states of {show(states.bytes)} (estimated): {roles}; activations and KV come on top"]
    if states.engine_copy_bytes:
        lines.append(f"an engine with weights of its own holds {show(states.engine_copy_bytes)} more (estimated)")
    return lines


def _assumed(prices: Sequence[Price], given: Assumptions) -> list[str]:
    def percent(figure: Figure) -> str:
        return f"{figure.low:.0%} to {figure.high:.0%}"

    rows = [f"MFU {percent(given.mfu)} for prefill, scoring and training"]
    if any(price.engine for price in prices):
        decoding = f"decoding reaches {percent(given.bandwidth)} of bandwidth, {percent(given.kernels)} of the peak"
        rows.append(f"{decoding}; no tail of uneven lengths")
    rows.append(f"failed and repeated work adds {given.retry:.0%}; every GPU is busy all day")
    sources: dict[str, list[str]] = {}
    for price in prices:
        sources.setdefault(price.gpu.source, []).append(price.gpu.name)
    rows += [f"{', '.join(names)}: {source}" for source, names in sources.items()]
    return table(("assumed", row) for row in rows)


def _one_json(price: Price) -> dict[str, Any]:
    fast, slow = price.time_shares()
    return {
        "gpu": price.gpu.name,
        "gpus": price.gpus,
        "flops": {"value": price.flops, "how": "estimated"},
        "gpu_hours": figure_json(price.gpu_hours),
        "gpu_hours_by_mfu": figure_json(price.by_mfu),
        "days": figure_json(price.days),
        "dollars": figure_json(price.dollars),
        "dollars_per_gpu_hour": figure_json(price.dollars_per_hour),
        "parts": {
            part.part: {
                "flops": part.flops,
                "flops_share": price.flops_shares()[part.part],
                "time_share": {"fast": fast[part.part], "slow": slow[part.part]},
                "gpu_hours": figure_json(part.gpu_hours),
                "gpu_hours_by_mfu": figure_json(part.by_mfu),
            }
            for part in price.parts
        },
        "memory": _memory_json(price),
        "engine": None if price.engine is None else {"gpus": price.engine.gpus, "batch": price.engine.batch},
    }


def _memory_json(price: Price) -> Mapping[str, Any]:
    states = price.held
    return {
        "how": "estimated",
        "states_bytes": states.bytes,
        "by_role_bytes": dict(states.by_role),
        "engine_copy_bytes": states.engine_copy_bytes,
        "fewest_gpus": states.fewest_gpus(price.gpu),
        "fits": states.fits(price.gpu, price.gpus),
        "zero1_bytes_per_gpu": states.zero1_bytes(price.gpus),
        "all_split_bytes_per_gpu": states.sharded_bytes(price.gpus),
    }
