"""Learned rewards outside training: what a recipe's models say of samples that are already there."""

from collections.abc import Sequence

import numpy as np

from ropewalk.models.language import Language
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Sample
from ropewalk.runtime.assemble import scorer_roles
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.learned.calls import LearnedCalls
from ropewalk.runtime.learned.combine import Floats
from ropewalk.runtime.learned.read import Said
from ropewalk.runtime.learned.readers import reader_of
from ropewalk.runtime.loop import outputs_of, with_outputs
from ropewalk.runtime.roles import Setup
from ropewalk.training.config import Precision
from ropewalk.training.packing import Row, pack_rows


def said_in_row(row: Row, sample: Sample) -> Said:
    """A sample in the ids of another vocabulary."""
    return Said(np.asarray(row[0], np.int64), np.asarray(row[1], np.bool_), sample.finish == "stop")


def learned_scores(
    learned: LearnedCalls, sets: Sequence[Sequence[Said]], language: Language, hardware: Hardware
) -> list[Floats]:
    """A learned reward's score of everything said in each set; `language` is that of its ids.

    The models are in memory inside the call only. Raises `InputError` for a score that is not finite.
    """
    reader = reader_of(learned, language)
    crew = open_crew(
        Setup(
            roles=scorer_roles(learned),
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
        found = []
        for said in sets:
            batch: PackedBatch = pack_rows([(one.tokens_T, one.policy_mask_T) for one in said])
            for call in learned.graph_calls:
                asked = {"role": call.role, "batch": batch, "outputs": outputs_of(call), "sampling": None}
                batch = with_outputs(batch, call, crew.call("forward", **asked).result())
            found.append(reader(batch, said).score_R)
        return found
    finally:
        crew.close()
