"""The words of an advice: what to do, why, and what fails first."""

from collections.abc import Sequence
from typing import Any

from ropewalk.cli.priced import between, figure_json, grid
from ropewalk.cli.said import table
from ropewalk.plan.memory import show
from ropewalk.planner.advice.advise import BATCH_ROWS, Advice, Choice, Need, Question, Stage
from ropewalk.planner.advice.colocate import Rung
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.price.flops import PARTS


def advice_lines(question: Question, advice: Advice) -> list[str]:
    """An advice in full."""
    blocks = [
        table([*_choices("do", advice.methods), *_choices("not", advice.against)]),
        *([f"{stage.method}", *_indented(_stage(stage))] for stage in advice.stages),
        _needs(question, advice),
        _assumed(question),
    ]
    return [line for block in blocks for line in ("", *block)][1:]


def advice_json(question: Question, advice: Advice) -> dict[str, Any]:
    """The same for machines."""
    return {
        "gpus": question.cluster.gpus,
        "methods": [{"method": choice.what, "because": choice.because} for choice in advice.methods],
        "against": [{"method": choice.what, "because": choice.because} for choice in advice.against],
        "stages": [_stage_json(stage) for stage in advice.stages],
        "needs": [
            {"what": need.what, "limit": need.limit, "gpus": need.gpus, "because": need.because, "how": "estimated"}
            for need in advice.needs
        ],
        "days": figure_json(advice.days),
        "enough": advice.enough,
    }


def _choices(word: str, choices: Sequence[Choice]) -> list[tuple[str, str]]:
    return [(f"{word} {choice.what}", choice.because) for choice in choices]


def _stage(stage: Stage) -> list[str]:
    price = stage.price
    shares, _ = price.time_shares()
    rows = [
        ("recipe", f"ropewalk recipes {stage.recipe} is the nearest that is built in"),
        ("time", f"{between(price.gpu_hours)} GPU-hours, {between(price.days)} days on {price.gpus} (estimated)"),
    ]
    if price.engine:
        split = ", ".join(f"{part} {max(1, round(shares[part] * price.gpus))}" for part in PARTS)
        rows.append(("side by side", f"of {price.gpus} GPUs about {split}, by their time (estimated)"))
    if stage.placement is None:
        rows.append(("placement", f"does not fit {price.gpus} GPUs with every call on all of them (estimated)"))
        return [*table(rows), *_ladders(stage)]
    days = stage.planned_days
    rows.append(
        (
            "placement",
            f"every call on all GPUs, {show(stage.placement.bytes)} on each at the fullest moment; "
            f"{days:.2g} days by the planner's cost model (estimated)",
        )
    )
    cuts = [
        (
            f"  {name}",
            cut(choice.strategy),
            f"{choice.seconds:.3g} s",
            show(choice.bytes.static_bytes + choice.bytes.active_bytes),
        )
        for name, choice in stage.placement.choices.items()
    ]
    return [*table(rows), *grid(cuts), *_ladders(stage)]


def _ladders(stage: Stage) -> list[str]:
    """How far each trained model must be sharded, and which way is the fastest."""
    lines = []
    for call, rungs in stage.ladders.items():
        fitting = [rung for rung in rungs if rung.fits]
        lines.append(f"sharding {call}: {_verdict(rungs, fitting)} (estimated)")
        rows = [
            (f"  {r.name}", show(r.bytes), "does not fit" if r.seconds is None else f"{r.seconds:.3g} s") for r in rungs
        ]
        lines += grid(rows)
    return lines


def _verdict(rungs: Sequence[Rung], fitting: Sequence[Rung]) -> str:
    if not fitting:
        return "nothing fits"
    fastest = min(fitting, key=lambda rung: rung.seconds or 0.0)
    if fastest == fitting[0]:
        return f"{fastest.name} is the simplest that fits, and the fastest"
    return f"{fitting[0].name} is the simplest that fits, {fastest.name} the fastest"


def cut(strategy: Strategy) -> str:
    """dp·tp·pp and what else is not usual."""
    more = ["ZeRO-3"] if strategy.shard == "full" else []
    more += [f"{strategy.micro_batches} micro-batches"] if strategy.micro_batches > 1 else []
    more += ["offloaded"] if strategy.offload else []
    return ", ".join([f"dp {strategy.dp} · tp {strategy.tp} · pp {strategy.pp}", *more])


def _needs(question: Question, advice: Advice) -> list[str]:
    have = question.cluster.gpus
    rows = [("fewest GPUs (estimated)", "", "", "")]
    rows += [(need.what, need.limit, _count(need), need.because) for need in advice.needs]
    first = advice.needs[0]
    short = [need for need in advice.needs if need.gpus is None or need.gpus > have]
    days = f"{between(advice.days)} days on {have} (estimated)"
    verdict = (
        f"fails: {short[0].what} ({short[0].limit}) needs {_count(short[0])} of {have} GPUs" if short else "all fit"
    )
    fails_first = (
        f"{first.what} ({first.limit}), below {_count(first)} GPUs" if first.gpus != 1 else "nothing, with 1 GPU"
    )
    return [*grid(rows), *table([("fails first", fails_first), ("here", f"{verdict}; {days}")])]


def _count(need: Need) -> str:
    return "more than 4,096" if need.gpus is None else str(need.gpus)


def _assumed(question: Question) -> list[str]:
    mfu, prompt = question.assumptions.mfu, question.prompt_tokens
    repeated = question.assumptions.retry
    rows = [
        f"{question.prompts:,.0f} prompts, rows of {question.row_tokens} tokens with {prompt} of prompt",
        f"MFU {mfu.low:.0%} to {mfu.high:.0%}, {repeated:.0%} of work repeated, one pass over the data",
        f"iterations of {BATCH_ROWS} rows; stages one after another on all GPUs, all roles of one size",
    ]
    return [*table(("assumed", row) for row in rows), "next     ropewalk plan searches for a better placement"]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _stage_json(stage: Stage) -> dict[str, Any]:
    fast, slow = stage.price.time_shares()
    placement = stage.placement
    return {
        "method": stage.method,
        "recipe": stage.recipe,
        "gpu_hours": figure_json(stage.price.gpu_hours),
        "days": figure_json(stage.price.days),
        "planned_days": {"value": stage.planned_days, "how": "estimated"},
        "time_share": {"fast": fast, "slow": slow},
        "placement": None
        if placement is None
        else {
            name: {
                "dp": choice.strategy.dp,
                "tp": choice.strategy.tp,
                "pp": choice.strategy.pp,
                "shard": choice.strategy.shard,
                "micro_batches": choice.strategy.micro_batches,
                "offload": choice.strategy.offload,
                "seconds": choice.seconds,
                "static_bytes": choice.bytes.static_bytes,
                "active_bytes": choice.bytes.active_bytes,
            }
            for name, choice in placement.choices.items()
        },
        "ladders": {
            call: [{"name": r.name, "bytes": r.bytes, "fits": r.fits, "seconds": r.seconds} for r in rungs]
            for call, rungs in stage.ladders.items()
        },
    }
