"""The words of an advice: what to do, why, and what fails first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ropewalk.cli.columns import facts, folded, grid
from ropewalk.cli.priced import amount, between, figure_json
from ropewalk.plan.memory import show
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.advice.advise import BATCH_ROWS, Advice, Choice, Need, Question, Stage
from ropewalk.planner.advice.rules import HOLDS_WITHIN, WAYS, Check, Row, Rule
from ropewalk.planner.case.graphs import doubts
from ropewalk.planner.estimate.work import Shard, Strategy
from ropewalk.planner.placed import PlacedCall
from ropewalk.planner.planning import Planned
from ropewalk.planner.price.flops import PARTS

ZERO: Mapping[Shard, str] = {"none": "z0", "optimizer": "z1", "full": "z3"}


def advice_lines(question: Question, advice: Advice) -> list[str]:
    """An advice in full."""
    blocks = [
        facts([*_choices("do", advice.methods), *_choices("not", advice.against)]),
        *([stage.method, *_stage(stage)] for stage in advice.stages),
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
        "needs": [_need_json(need) for need in advice.needs],
        "days": figure_json(advice.days),
        "enough": advice.enough,
        "notes": [question.model.doubt] if question.model.doubt else [],
    }


def rules_lines(rows: Iterable[Row], kind: str) -> list[str]:
    """Rules of thumb by size beside the best way to run the call."""
    head = ("size", "GPUs", "training", "ZeRO rule", "tp/pp rule", "rollout", "tp rule")
    found, held = [head], dict.fromkeys(WAYS, 0)
    for row in rows:
        zero, grid_rule, rollout = row.checks
        found.append(
            (row.size, str(row.gpus), _best(zero), _beside(zero), _beside(grid_rule), _best(rollout), _beside(rollout))
        )
        for check in row.checks:
            held[check.way] += check.holds
    count = len(found) - 1
    told = ", ".join(f"{way} {holding} of {count}" for way, holding in held.items())
    return [
        *grid(found),
        "",
        *folded(
            f"Every figure is estimated, on {kind}, for {BATCH_ROWS} rows of 1,024 tokens. Under training and rollout "
            "stands the fastest of all ways to cut that call alone that fit, and its seconds; beside a rule, how much "
            "longer it takes on all GPUs. t: tensor parallel, p: pipeline stages, z: ZeRO stage (0, 1 or 3)."
        ),
        *folded(f"A rule holds where that is at most {HOLDS_WITHIN:.0%}: {told}."),
    ]


def rules_json(rows: Iterable[Row], shapes: Mapping[str, ModelShape]) -> list[dict[str, Any]]:
    """The same for machines; `shapes` are those of the sizes."""
    return [
        {
            "size": row.size,
            "gpus": row.gpus,
            "how": "estimated",
            "notes": list(doubts({row.size: shapes[row.size]})),
            "checks": {
                check.way: {**asdict(check), "slower": check.slower, "holds": check.holds} for check in row.checks
            },
        }
        for row in rows
    ]


def cut(strategy: Strategy) -> str:
    """dp·tp·pp and what else is not usual."""
    more = ["ZeRO-3"] if strategy.shard == "full" else []
    more += [f"ep {strategy.ep}"] if strategy.ep > 1 else []
    more += [f"{strategy.micro_batches} micro-batches"] if strategy.micro_batches > 1 else []
    more += ["offloaded"] if strategy.offload else []
    return ", ".join([f"dp {strategy.dp} · tp {strategy.tp} · pp {strategy.pp}", *more])


def _choices(word: str, choices: Sequence[Choice]) -> list[tuple[str, str]]:
    return [(f"{word} {choice.what}", choice.because) for choice in choices]


def _stage(stage: Stage) -> list[str]:
    price = stage.price
    shares, _ = price.time_shares()
    rows = [
        ("recipe", f"ropewalk recipes {stage.recipe} is the nearest that is built in"),
        ("price", f"{between(price.gpu_hours)} GPU-hours, {between(price.days)} days on {price.gpus} (estimated)"),
    ]
    if price.engine:
        split = ", ".join(f"{part} {shares[part]:.0%}" for part in PARTS)
        side = "/".join(str(round(shares[part] * price.gpus)) for part in PARTS)
        rows.append(("time", f"{split}; side by side about {side} of {price.gpus} GPUs (estimated)"))
    if stage.plan is None:
        rows.append(("placement", f"{stage.refused} (estimated)"))
        return facts(rows, indent=2)
    return [
        *facts([*rows, ("placement", _proven(stage, stage.plan))], indent=2),
        *_placed(stage.plan),
        *facts(_by_rules(stage, stage.plan), indent=2),
    ]


def _proven(stage: Stage, plan: Planned) -> str:
    period = plan.judged.period_seconds
    proof = "no plan of the space is faster" if plan.gap < 1e-6 else f"no plan can be more than {plan.gap:.1%} faster"
    return (
        f"{period:.3g} s an iteration of {BATCH_ROWS} rows, {stage.planned_days:.2g} days in all (estimated); "
        f"{proof} (proven, of these estimates)"
    )


def _placed(plan: Planned) -> list[str]:
    rows = [("call", "GPUs", "cut", "time", "memory")]
    for name, call in plan.judged.calls.items():
        spot, need = call.placement, call.footprint
        on = f"{spot.first_rank}-{spot.first_rank + spot.gpus - 1}" if spot.gpus > 1 else f"{spot.first_rank}"
        size = show(need.static_bytes + need.active_bytes)
        rows.append((name, on, cut(spot.strategy), f"{call.estimate.seconds:.3g} s", size))
    return grid(rows, indent=4)


def _by_rules(stage: Stage, plan: Planned) -> list[tuple[str, str]]:
    """What an iteration takes where training is cut by a rule of thumb, and rollout too."""
    told = []
    for way, seconds in stage.by_rules.items():
        if seconds is None:
            told.append(f"{way} does not fit")
        else:
            told.append(f"{way} {seconds:.3g} s, {_more(seconds / plan.judged.period_seconds - 1)}")
    return [("by rules", f"all on all GPUs, {'; '.join(told)} (estimated; ropewalk advise --rules)")]


def _more(slower: float) -> str:
    return "as fast" if abs(slower) < 0.005 else f"{abs(slower):.0%} {'slower' if slower > 0 else 'faster'}"


def _best(check: Check) -> str:
    if check.best is None or check.best_seconds is None:
        return "nothing fits"
    s = check.best
    zero = ZERO[s.shard] if s.dp > 1 and check.way != "rollout by tp" else ""
    return f"{_short(s.tp, s.pp, zero)} {check.best_seconds:.3g} s"


def _beside(check: Check) -> str:
    said: Rule = check.rule
    zero = ZERO[said.shard or "none"] if check.way == "training by ZeRO" else ""
    slower = "no fit" if check.slower is None else f"{max(check.slower, 0):+.0%}"
    return f"{_short(said.tp, said.pp, zero)} {slower}"


def _short(tp: int, pp: int, zero: str) -> str:
    parts = [f"t{tp}" if tp > 1 or not zero else "", f"p{pp}" if pp > 1 else "", zero]
    return " ".join(part for part in parts if part)


def _needs(question: Question, advice: Advice) -> list[str]:
    have = question.cluster.gpus
    rows = [("fewest GPUs (estimated)", "", "", "")]
    rows += [(need.what, need.limit, _count(need, question), need.because) for need in advice.needs]
    first = advice.needs[0]
    short = [need for need in advice.needs if not need.met]
    days = f"{between(advice.days)} days on {have} (estimated)"
    verdict = f"{short[0].what} ({short[0].limit}) fails: {_lacks(short[0], question)}" if short else "all fit"
    fails_first = "nothing, even with 1 GPU"
    if first.gpus is None:
        fails_first = (
            f"{first.what} ({first.limit}), on any number of GPUs up to 4,096 by the cuts of the planner's space"
        )
    elif first.gpus > 1:
        fails_first = f"{first.what} ({first.limit}), below {_count(first, question)} GPUs"
    last = facts([("fails first", fails_first), ("here", f"{verdict}; {days}")])
    return [*grid(rows, fold=True), *last]


def _count(need: Need, question: Question) -> str:
    kind = "" if question.cluster.homogeneous or need.limit == "time" else f" {need.kind}"
    return f"{'more than 4,096' if need.gpus is None else need.gpus}{kind}"


def _lacks(need: Need, question: Question) -> str:
    return f"it needs {_count(need, question)}, and there are {need.have}"


def _assumed(question: Question) -> list[str]:
    mfu, prompt, repeated = question.assumptions.mfu, question.prompt_tokens, question.assumptions.retry
    rows = [
        f"{amount(question.prompts)} prompts, rows of {amount(question.row_tokens)} tokens with {prompt:,} of prompt",
        f"MFU {mfu.low:.0%} to {mfu.high:.0%}, {repeated:.0%} of work repeated, one pass over the data",
        f"iterations of {BATCH_ROWS} rows; stages one after another, all roles of one size",
    ]
    if question.model.doubt:
        rows.insert(0, question.model.doubt)
    if not question.cluster.homogeneous:
        rows.append("prices take every GPU for the slowest kind; the placement takes each for what it is")
    told = "ropewalk plan shows more of a placement: its timeline, its memory, what binds it"
    return facts([*(("assumed", row) for row in rows), ("next", told)])


def _stage_json(stage: Stage) -> dict[str, Any]:
    fast, slow = stage.price.time_shares()
    plan = stage.plan
    return {
        "method": stage.method,
        "recipe": stage.recipe,
        "gpu_hours": figure_json(stage.price.gpu_hours),
        "days": figure_json(stage.price.days),
        "planned_days": {"value": stage.planned_days, "how": "estimated"},
        "time_share": {"fast": fast, "slow": slow},
        "refused": stage.refused or None,
        "plan": None
        if plan is None
        else {
            "period_seconds": {"value": plan.judged.period_seconds, "how": "estimated"},
            "bound_seconds": plan.bound_seconds,
            "gap": plan.gap,
            "calls": {name: _call_json(call) for name, call in plan.judged.calls.items()},
        },
        "by_rules_seconds": dict(stage.by_rules),
    }


def _call_json(call: PlacedCall) -> dict[str, Any]:
    return {
        "first_rank": call.placement.first_rank,
        "gpus": call.placement.gpus,
        **asdict(call.placement.strategy),
        "seconds": call.estimate.seconds,
        "static_bytes": call.footprint.static_bytes,
        "active_bytes": call.footprint.active_bytes,
    }


def _need_json(need: Need) -> dict[str, Any]:
    return {**asdict(need), "met": need.met, "how": "estimated"}
