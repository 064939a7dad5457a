"""A policy on texts: −log π per target token, before and after.

A mean over tokens is a ratio of sums over rows; rows are drawn together in its bootstrap, tokens of one row are not
independent.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ropewalk.data.intervals import bootstrap_ratio
from ropewalk.records.errors import InputError
from ropewalk.runtime.config import Hardware, TextRows
from ropewalk.runtime.evaluation.findings import Measure, SetFinding
from ropewalk.runtime.evaluation.policies import PolicyFolder
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.prepare import text_rows
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.sampler import policy_setup
from ropewalk.training.packing import Row, pack_rows

Floats = npt.NDArray[np.float64]

FRESH_SEED = 1_000_003
CHUNK_ROWS = 256
"""Rows between two signs of progress."""


def held_texts(config: TextRows, folder: PolicyFolder, seed: int, progress: Progress) -> Sequence[Row]:
    """The rows that a run held out, as a policy reads them."""
    return text_rows(config, folder.language(), seed, progress).held


def set_texts(config: TextRows, folder: PolicyFolder, seed: int, progress: Progress) -> Sequence[Row]:
    """Every row of a suite's set; a corpus that is drawn is drawn otherwise than for training."""
    texts = text_rows(config, folder.language(), seed + FRESH_SEED, progress)
    return [*texts.train, *texts.held]


def read_texts(
    folder: PolicyFolder, sets: Sequence[tuple[str, Sequence[Row]]], hardware: Hardware, progress: Progress
) -> list[Floats]:
    """−log π of each row of each set, summed over its targets (R,)."""
    progress.begin(f"loading {folder.path}", 1)
    crew = open_crew(policy_setup(folder.path, hardware, None, dtype=folder.dtype))
    try:
        found = []
        for name, rows in sets:
            progress.begin(f"{name}: {folder.path}", len(rows))
            parts: list[Floats] = []
            for start in range(0, len(rows), CHUNK_ROWS):
                batch = pack_rows(rows[start : start + CHUNK_ROWS])
                outputs = frozenset({"logprobs"})
                answer = crew.call("forward", role="actor", batch=batch, outputs=outputs, sampling=None).result()
                targets = batch.token_columns["policy_mask"].astype(bool)
                nll_T = np.where(targets, -answer["logprobs"].astype(np.float64), 0.0)
                nll_R: Floats = np.bincount(batch.row_T, weights=nll_T, minlength=batch.rows).astype(np.float64)
                parts.append(nll_R)
                progress.advance(start + batch.rows)
            found.append(np.concatenate(parts))
        return found
    finally:
        crew.close()


def text_finding(name: str, rows: Sequence[Sequence[Row]], before_R: Floats | None, after_R: Floats) -> SetFinding:
    """−log π per token before and after. `rows`: as each side reads them, the later one last.

    Raises `InputError` where the two sides cut the texts into other tokens: then a mean per token says nothing.
    """
    if any(
        not np.array_equal(first, last) for side in rows for (first, _), (last, _) in zip(side, rows[-1], strict=True)
    ):
        raise InputError(f"the two models cut the texts of {name!r} into different tokens: compare models of one kind")
    tokens_R = np.array([np.asarray(mask).sum() for _, mask in rows[-1]], np.float64)
    after = bootstrap_ratio(after_R, tokens_R)
    if before_R is None:
        measure = Measure("−log π per token", after, higher_is_better=False)
    else:
        difference = bootstrap_ratio(after_R - before_R, tokens_R)
        measure = Measure("−log π per token", after, bootstrap_ratio(before_R, tokens_R), difference, False)
    return SetFinding(name, [measure], {"rows": len(tokens_R), "tokens": int(tokens_R.sum())})
