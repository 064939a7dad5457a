"""Samples of prompts, drawn by the crew's engine and scored by the task: for training, evaluation and jobs alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.rollout.episode import requests
from ropewalk.runtime.crew import Crew, samples_of
from ropewalk.tasks.scoring.run import score_samples
from ropewalk.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Rollouts:
    """A task asked of a crew's actor; (seed, iteration) decides what is drawn."""

    crew: Crew
    task: Task
    sampling: SamplingRecord
    seed: int

    def draw(
        self,
        asked: Sequence[tuple[Prompt, npt.NDArray[np.int64]]],
        *,
        group_size: int,
        iteration: int,
        earlier: Sequence[str] = (),
    ) -> list[Sample]:
        """`group_size` scored samples of each prompt with its ids, group by group; lost ones are among them.

        `earlier` are the ids of the prompts that were drawn in this iteration before.
        """
        wanted = requests(
            asked,
            group_size=group_size,
            sampling=self.sampling,
            run_seed=self.seed,
            iteration=iteration,
            earlier=earlier,
        )
        drawn = samples_of(self.crew, wanted)
        return score_samples(self.task, {prompt.id: prompt for prompt, _ in asked}, drawn)
