"""What the judges of a batch of samples did, as metrics: from the notes in their info."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ropewalk.records.metric import Metric
from ropewalk.records.sample import Sample
from ropewalk.tasks.judging.judge import NOTE


def judge_metrics(samples: Sequence[Sample]) -> dict[str, Metric]:
    """By judge: questions, the share that did not have to be asked, and of comparisons the share of ties, of those
    whose two orders prefer different answers, and the position bias: mean P(the one shown first) - 1/2."""
    notes: dict[str, list[Mapping[str, Any]]] = {}
    for sample in samples:
        known = sample.info.get(NOTE)
        for name, note in known.items() if isinstance(known, dict) else ():
            if isinstance(note, Mapping):
                notes.setdefault(name, []).append(note)
    metrics: dict[str, Metric] = {}
    for name, found in sorted(notes.items()):
        questions = _sum(found, "questions")
        metrics[f"judge/{name}/questions"] = Metric.mean(questions, 1)
        metrics[f"judge/{name}/remembered"] = Metric.mean(_sum(found, "remembered"), questions)
        if any("compared" in note for note in found):
            compared = _sum(found, "compared")
            metrics[f"judge/{name}/orders_disagree"] = Metric.mean(_sum(found, "disagreed"), compared)
            metrics[f"judge/{name}/position_bias"] = Metric.mean(_sum(found, "first"), compared)
            metrics[f"judge/{name}/ties"] = Metric.mean(_sum(found, "ties"), _sum(found, "met"))
    return metrics


def _sum(notes: Sequence[Mapping[str, Any]], name: str) -> float:
    return math.fsum(float(note.get(name, 0)) for note in notes)
