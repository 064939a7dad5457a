"""The words of a price: every figure with its range and with how it is known."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ropewalk.cli.columns import facts, folded, grid
from ropewalk.plan.memory import show
from ropewalk.planner.case.graphs import doubts
from ropewalk.planner.price.figure import Figure
from ropewalk.planner.price.flops import PARTS, TRAIN, attention_share
from ropewalk.planner.price.held import usable_bytes
from ropewalk.planner.price.job_price import Assumptions, Job, Price
from ropewalk.planner.price.published import PublishedHours, PublishedRun
from ropewalk.planner.price.rules_of_thumb import Finding


def price_lines(title: str, job: Job, prices: Sequence[Price], given: Assumptions) -> list[str]:
    """A job on several kinds of GPU side by side."""
    blocks = [_work(job, prices[0]), _times(prices), _parts(prices), _memory(prices), _assumed(job, prices, given)]
    return [title, *(line for block in blocks if block for line in ("", *block))]


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
        "notes": list(doubts(job.shapes)),
    }


def published_lines(runs: Iterable[PublishedRun], hours: Iterable[PublishedHours]) -> list[str]:
    """Published runs with the MFU they imply."""
    rows = [("run", "active", "tokens", "GPU-hours (measured)", "implied MFU (estimated)")]
    rows += [
        (
            run.model,
            f"{run.active_parameters / 1e9:.3g} B",
            f"{run.tokens / 1e12:.3g} T",
            f"{amount(run.gpu_hours)} {run.gpu}",
            f"{run.implied_mfu:.1%} of {run.peak_flops / 1e12:.0f} TFLOP/s",
        )
        for run in runs
    ]
    others = [("run without published tokens", "GPUs", "hours (measured)", "GPU-hours")]
    others += [(run.model, f"{run.gpus} {run.gpu}", f"{run.hours:g}", amount(run.gpu_hours)) for run in hours]
    by_source: dict[str, list[str]] = {}
    for model, source in [(run.model, run.source) for run in runs] + [(run.model, run.source) for run in hours]:
        by_source.setdefault(source, []).append(model)
    notes = [("MFU", "6 x active parameters x tokens / (GPU-hours x 3,600 x dense bf16 peak)")]
    notes.append(("measured", "by those who trained the model; nobody else did"))
    notes += [("from", f"{', '.join(models)}: {source}") for source, models in by_source.items()]
    return [*grid(rows), "", *grid(others), "", *facts(notes)]


def claim_lines(found: Iterable[Finding]) -> list[str]:
    """Rules of thumb with what arithmetic says; each figure says how it is known."""
    lines: list[str] = []
    for finding in found:
        lines += facts([(f"{finding.verdict:<7}", finding.said)])
        for how in dict.fromkeys(value.how for value in finding.values):
            told = [f"{v.what}: {with_unit(v.value, v.unit)}" for v in finding.values if v.how == how]
            lines += folded(f"{'; '.join(told)} ({how})", indent=9)
        lines += [*folded(finding.because, indent=9), ""]
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


MENTIONED_ATTENTION = 0.05


def _times(prices: Sequence[Price]) -> list[str]:
    """Hours, days and money; with what an MFU alone would say where something is decoded."""
    decodes = any(price.engine for price in prices)
    head = ["time (estimated)", "GPU-hours", f"days on {prices[0].gpus}", "dollars"]
    rows = [[*head, "hours by MFU alone"] if decodes else head]
    for price in prices:
        cost = price.dollars
        money = "no price known" if cost is None else between(cost, "$")
        row = [price.gpu.name, between(price.gpu_hours), between(price.days), money]
        rows.append([*row, between(price.by_mfu)] if decodes else row)
    return grid(rows)


def _parts(prices: Sequence[Price]) -> list[str]:
    """Where the time goes, and what decodes; nothing where all time is the update's."""
    if not any(share for price in prices for part, share in price.flops_shares().items() if part != "update"):
        return []
    rows = [("share (estimated)", *PARTS, "decoding at once")]
    for price in prices:
        shares = [_percents(*(end[part] for end in price.time_shares())) for part in PARTS]
        engine = price.engine
        at_once = "" if engine is None else f"{engine.batch} on {engine.gpus}"
        full = "" if engine is None or engine.batch < engine.batch_that_fits else ", all that fit"
        rows.append((price.gpu.name, *shares, f"{at_once}{full}"))
    return grid(rows)


def _percents(fast: float, slow: float) -> str:
    """Over the range of the assumptions."""
    ends = f"{min(fast, slow):.0%}", f"{max(fast, slow):.0%}"
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _memory(prices: Sequence[Price]) -> list[str]:
    """What the states take of each GPU, and how few GPUs hold them."""
    on = f"on {prices[0].gpus}"
    rows = [("memory (estimated)", "usable", f"all split {on}", f"ZeRO-1 {on}", "fewest GPUs", "")]
    for price in prices:
        states, gpu = price.held, price.gpu
        rows.append(
            (
                gpu.name,
                show(usable_bytes(gpu)),
                show(states.sharded_bytes(price.gpus)),
                show(states.zero1_bytes(price.gpus)),
                str(states.fewest_gpus(gpu)),
                "fits" if states.fits(gpu, price.gpus) else "does not fit",
            )
        )
    return [*grid(rows), *_states(prices[0])]


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
    rows.append(("", "2 a forward pass, 6 a training pass, per active parameter and token (estimated)"))
    beyond = max(attention_share(shape, job.row_tokens) for shape in job.shapes.values())
    if beyond > MENTIONED_ATTENTION:
        rows.append(("", f"attention's own products add {beyond:.0%} at this length (estimated), not priced here"))
    for role, shape in job.shapes.items():
        if shape.max_positions and job.row_tokens > shape.max_positions:
            rows.append(("", f"{role} was made for {shape.max_positions:,} positions, and rows are longer than that"))
    return facts(rows)


def _states(price: Price) -> list[str]:
    states = price.held
    roles = ", ".join(f"{role} {show(size)}" for role, size in states.by_role.items())
    told = f"states of {show(states.bytes)} (estimated): {roles}; activations and KV come on top"
    if states.engine_copy_bytes:
        told += f", and {show(states.engine_copy_bytes)} where an engine has weights of its own"
    return folded(told)


def _assumed(job: Job, prices: Sequence[Price], given: Assumptions) -> list[str]:
    def percent(figure: Figure) -> str:
        return f"{figure.low:.0%} to {figure.high:.0%}"

    rows = [f"MFU {percent(given.mfu)} for prefill, scoring and training"]
    if any(price.engine for price in prices):
        decoding = f"decoding reaches {percent(given.bandwidth)} of bandwidth, {percent(given.kernels)} of the peak"
        rows.append(f"{decoding}; no tail of uneven lengths")
    rows.append(f"failed and repeated work adds {given.retry:.0%} (in every figure of time); every GPU is busy all day")
    sources: dict[str, list[str]] = {}
    for price in prices:
        sources.setdefault(price.gpu.source, []).append(price.gpu.name)
    rows += [f"{', '.join(names)}: {source}" for source, names in sources.items()]
    rates = [f"{price.gpu.name} {between(rate, '$')}" for price in prices if (rate := price.dollars_per_hour)]
    if rates:
        rows.append(f"a GPU-hour costs {', '.join(rates)}")
    return facts(("assumed", row) for row in [*doubts(job.shapes), *rows])


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
