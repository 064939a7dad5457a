"""A process reward model on labelled steps: which side of ½ it is on, how far off it is, and how well it is calibrated.

Steps of one answer are not independent: in every interval the answers are drawn, with all their steps.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ropewalk.data.calibration import calibration_error, reliability
from ropewalk.data.intervals import Estimate, bootstrap_ratio
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json
from ropewalk.runtime.config import Hardware, StepFile
from ropewalk.runtime.evaluation.findings import Measure, SetFinding
from ropewalk.runtime.learned.combine import sigmoid
from ropewalk.runtime.prepare import language_of, step_rows
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.roles import FromScorer
from ropewalk.runtime.scorer import open_scorer
from ropewalk.training.packing import StepRow, pack_steps

Floats = npt.NDArray[np.float64]

CHUNK_ROWS = 256


def held_steps(config: StepFile, folder: str, seed: int, progress: Progress) -> Sequence[StepRow]:
    """The rows that a run held out."""
    return step_rows(config, language_of(FromScorer(folder)), seed, progress).held


def step_scores(folder: str, rows: Sequence[StepRow], hardware: Hardware, progress: Progress) -> list[Floats]:
    """A model's scores (logits) at the steps of each row."""
    progress.begin(f"scoring by {folder}", len(rows))
    found: list[Floats] = []
    with open_scorer(folder, hardware) as scorer:
        for start in range(0, len(rows), CHUNK_ROWS):
            some = rows[start : start + CHUNK_ROWS]
            batch = pack_steps(some)
            scores_T = scorer.tokens(batch)[batch.token_columns["step_end"].astype(bool)]
            if not np.isfinite(scores_T).all():
                raise InputError(f"{folder} gave a score that is not finite: look at its run before using it")
            found += np.split(scores_T, np.cumsum([len(row.ends) for row in some])[:-1])
            progress.advance(start + len(some))
    return found


def step_finding(
    name: str, rows: Sequence[StepRow], before: Sequence[Floats] | None, after: Sequence[Floats]
) -> SetFinding:
    """Accuracy, squared error and cross-entropy per step, before and after; and the calibration of the later values.

    Steps labelled ½, and those valued ½, are on neither side: they are left out of the accuracy, and counted.
    """
    labels = [np.asarray(row.labels, np.float64) for row in rows]
    measures = [
        measure
        for what, of, good in (
            ("step accuracy", _right, True),
            ("Brier score", _brier, False),
            ("cross-entropy", _entropy, False),
        )
        if (measure := _measure(what, of, labels, before, after, higher_is_better=good)) is not None
    ]
    values, wanted = sigmoid(np.concatenate(after)), np.concatenate(labels)
    shown: dict[str, Json] = {
        "answers": len(rows),
        "steps": len(wanted),
        "mean label": round(float(wanted.mean()), 4),
        "calibration error": round(calibration_error(values, wanted), 4),
        "reliability": " ".join(f"{b.value:.2f}->{b.label:.2f} ({b.size})" for b in reliability(values, wanted)),
    }
    return SetFinding(name, measures, shown)


def _right(scores: Floats, labels: Floats) -> Floats:
    return np.where((labels == 0.5) | (scores == 0), np.nan, (scores > 0) == (labels > 0.5))


def _brier(scores: Floats, labels: Floats) -> Floats:
    found: Floats = (sigmoid(scores) - labels) ** 2
    return found


def _entropy(scores: Floats, labels: Floats) -> Floats:
    found: Floats = np.logaddexp(0.0, scores) - labels * scores
    return found


def _measure(
    what: str,
    of: Callable[[Floats, Floats], Floats],
    labels: Sequence[Floats],
    before: Sequence[Floats] | None,
    after: Sequence[Floats],
    *,
    higher_is_better: bool,
) -> Measure | None:
    """Means per step over the steps that have a value on both sides."""
    later = [of(*pair) for pair in zip(after, labels, strict=True)]
    earlier = later if before is None else [of(*pair) for pair in zip(before, labels, strict=True)]
    there = [np.isfinite(a) & np.isfinite(b) for a, b in zip(later, earlier, strict=True)]
    counts = np.array([one.sum() for one in there], np.float64)
    some = counts > 0
    if not some.any():
        return None

    def mean(values: Sequence[Floats]) -> Estimate:
        sums = np.array([value[one].sum() for value, one in zip(values, there, strict=True)])
        return bootstrap_ratio(sums[some], counts[some])

    if before is None:
        return Measure(what, mean(later), higher_is_better=higher_is_better)
    difference = mean([a - b for a, b in zip(later, earlier, strict=True)])
    return Measure(what, mean(later), mean(earlier), difference, higher_is_better)
