"""A reward model that scores finished samples or rows, outside any training."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Sample
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.roles import FromScorer, RoleSetup, Setup
from ropewalk.training.config import Precision
from ropewalk.training.packing import Row, pack_rows, pack_samples

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RewardScorer:
    """Scores at the last token of each row."""

    crew: Crew

    def samples(self, samples: Sequence[Sample]) -> Floats:
        """One score a sample, in order."""
        return self.batch(pack_samples(samples))

    def rows(self, rows: Sequence[Row]) -> Floats:
        """One score a row of (ids, mask), in order."""
        return self.batch(pack_rows(rows))

    def tokens(self, batch: PackedBatch) -> Floats:
        """One score a token of the completions, of what has been said up to it; 0 elsewhere."""
        outputs = frozenset({"token_scores"})
        found = self.crew.call("forward", role="reward", batch=batch, outputs=outputs, sampling=None).result()
        scores: Floats = found["token_scores"].astype(np.float64)
        return scores

    def batch(self, batch: PackedBatch) -> Floats:
        """One score a row of a packed batch."""
        outputs = frozenset({"scores"})
        found = self.crew.call("forward", role="reward", batch=batch, outputs=outputs, sampling=None).result()
        scores: Floats = found["scores"].astype(np.float64)
        return scores


@contextmanager
def open_scorer(path: str, hardware: Hardware) -> Iterator[RewardScorer]:
    """The reward model of a folder; in memory inside the block only."""
    crew = open_crew(
        Setup(
            roles={"reward": RoleSetup(FromScorer(path), frozenset({"reward"}))},
            seed=0,
            device=hardware.device,
            threads=hardware.threads,
            processes=hardware.processes,
            precision=Precision(),
            micro_batch_tokens=hardware.micro_batch_tokens,
            engine=None,
        )
    )
    try:
        yield RewardScorer(crew)
    finally:
        crew.close()
