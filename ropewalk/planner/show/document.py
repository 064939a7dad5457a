"""A plan and all that is shown of it as one JSON document with stable names."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ropewalk.planner.case.describe import Case
from ropewalk.planner.placed import Judged, PlacedCall, Placement
from ropewalk.planner.planning import Compared
from ropewalk.planner.search.robust import NOISE, Robust
from ropewalk.planner.show.explain import Second, binding, busy_share, certificate, why
from ropewalk.planner.show.gather import Gathered
from ropewalk.planner.show.memory import Device, Need, devices
from ropewalk.planner.show.mend import Mend
from ropewalk.planner.show.sensitivity import ITERATIONS, Cost, WhatIf
from ropewalk.planner.written import fingerprint, workload_text, written

FORMAT = 1


def document(found: Gathered) -> dict[str, Any]:
    """Everything that is shown of a plan."""
    planned, judged = found.planned, found.planned.judged
    return {
        "format": FORMAT,
        "case": case_document(planned.case, found.notes),
        "mode": planned.asked.mode,
        "seed": planned.asked.seed,
        "period_seconds": judged.period_seconds,
        "bound_seconds": planned.bound_seconds,
        "gap": planned.gap,
        "optimal": planned.optimal,
        "certificate": certificate(planned.gap, planned.bound_seconds, optimal=planned.optimal),
        "robust": _robust(planned.robust),
        "cost": _cost(found.cost),
        **judged_document(judged, planned.case),
        "second_best": [_second(second) for second in found.second],
        "baselines": [_baseline(compared) for compared in planned.compared],
        "sensitivity": [_what_if(change) for change in found.what_if],
        "search": {
            "candidates": planned.candidates,
            "orders": planned.orders,
            "nodes": planned.nodes,
            "proposals": planned.proposals,
        },
        "seconds": found.seconds,
        "plan": json.loads(written(planned).to_json()),
    }


def _robust(found: Robust | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"noise": NOISE, "chosen": asdict(found.worst), "fastest": asdict(found.fastest), "of": found.looked_at}


def judged_document(judged: Judged, case: Case) -> dict[str, Any]:
    """What is said of any plan, found or given."""
    gpus = case.cluster.gpus
    chain = [{"operation": part.name, "seconds": part.seconds, "share": part.share} for part in binding(judged)]
    return {
        "fits": judged.fits,
        "calls": {name: _call(placed, judged.period_seconds) for name, placed in judged.calls.items()},
        "moves": [asdict(move) for move in judged.moves],
        "order": list(judged.order),
        "late": list(judged.late),
        "early": list(judged.early),
        "why": {
            "binding": chain,
            "plan_bound_seconds": judged.plan_bound_seconds,
            "busy_share": busy_share(judged, gpus),
            "sentences": why(judged, gpus),
        },
        "memory": memory_document(devices(judged)),
        "timeline": [
            {"operation": span.name, "start_seconds": span.start_seconds, "end_seconds": span.end_seconds, **span.info}
            for span in judged.spans
        ],
    }


def case_document(case: Case, notes: Iterable[str] = ()) -> dict[str, Any]:
    """What was planned."""
    return {
        "name": case.name,
        "method": case.method,
        "calibration": case.calibration,
        "cluster": {
            "name": case.cluster.name,
            "fingerprint": fingerprint(case.cluster),
            "gpus": case.cluster.gpus,
            "nodes": case.cluster.nodes,
        },
        "models": {role: {"parameters": shape.parameters} for role, shape in case.shapes.items()},
        "workload": workload_text(case.workload),
        "notes": list(notes),
    }


def memory_document(found: Iterable[Device]) -> list[dict[str, Any]]:
    """Bills by runs of GPUs that hold the same."""
    return [
        {
            "first_rank": device.first_rank,
            "gpus": device.gpus,
            "need_bytes": device.need_bytes,
            "usable_bytes": device.usable_bytes,
            "fits": device.fits,
            "fullest_call": device.fullest,
            "items": [asdict(item) for item in device.items],
        }
        for device in found
    ]


def needs_document(needs: Iterable[Need], mends: Iterable[Mend]) -> dict[str, Any]:
    """Where nothing fits: the least that each call needs, and what was tried."""
    return {
        "needs": [
            {
                "call": need.call,
                "role": need.role,
                "bytes": need.bytes,
                "usable_bytes": need.usable_bytes,
                "fits": need.fits,
                "gpus": need.gpus,
                "strategy": asdict(need.strategy),
                "items": [asdict(item) for item in need.items],
            }
            for need in needs
        ],
        "mends": mends_document(mends),
    }


def mends_document(mends: Iterable[Mend]) -> list[dict[str, Any]]:
    """What was tried, and whether it helps."""
    return [{**asdict(mend), "fits": mend.period_seconds is not None} for mend in mends]


def _call(placed: PlacedCall, period: float) -> dict[str, Any]:
    return {
        "role": placed.work.role,
        "kind": placed.work.kind,
        **_placement(placed.placement),
        "seconds": placed.estimate.seconds,
        "share": placed.estimate.seconds / period,
        "parts": dict(placed.estimate.parts),
        "source": placed.estimate.source,
        "static_bytes": dict(placed.footprint.static),
        "active_bytes": dict(placed.footprint.active),
    }


def _placement(spot: Placement) -> dict[str, Any]:
    return {"first_rank": spot.first_rank, "gpus": spot.gpus, **asdict(spot.strategy)}


def _second(second: Second) -> dict[str, Any]:
    return {
        "call": second.call,
        "chosen": _placement(second.chosen),
        "other": _placement(second.other) if second.other is not None else None,
        "period_seconds": second.period_seconds,
        "ratio": second.ratio,
    }


def _baseline(compared: Compared) -> dict[str, Any]:
    placements: Mapping[str, Placement] = compared.placements
    return {
        "name": compared.name,
        "about": compared.about,
        "period_seconds": compared.period_seconds,
        "ratio": compared.ratio,
        "placements": {name: _placement(spot) for name, spot in placements.items()},
    }


def _what_if(change: WhatIf) -> dict[str, Any]:
    return {
        "name": change.name,
        "words": change.words,
        "gpus": change.gpus,
        "same_plan": _cost(change.same),
        "new_plan": _cost(change.new),
    }


def _cost(cost: Cost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "period_seconds": cost.period_seconds,
        "iterations": ITERATIONS,
        "gpu_hours": cost.gpu_hours,
        "dollars": None if cost.dollars is None else {"value": cost.dollars, "how": cost.dollars_how},
    }
