"""Nothing piles up from step to step."""

import gc
import os
from pathlib import Path

from ropewalk.training.step import train_batch
from tests.parity.beds import bed, state


def test_memory_is_flat_over_many_steps() -> None:
    """Fault O2: object counts and resident memory at step 50 and step 200 differ by less than 1 %."""
    made = bed("joint-token")
    trained = state("llama", made.heads, token_budget=40)
    counts, resident_bytes = [], []
    for step in range(201):
        train_batch(trained, made.batch, made.objective, sampling=made.sampling, epochs=1, seed=(0, step))
        if step in (50, 200):
            gc.collect()
            counts.append(len(gc.get_objects()))
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident_bytes.append(pages * os.sysconf("SC_PAGE_SIZE"))
    assert counts[1] <= counts[0] * 1.01
    assert resident_bytes[1] <= resident_bytes[0] * 1.01
