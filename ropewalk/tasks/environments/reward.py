"""The reward that a world itself gave, as a scorer."""

from dataclasses import dataclass

from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.environments.protocol import EPISODE

REWARD = "reward"
"""Name of the scorer."""


@dataclass(frozen=True)
class EpisodeReward:
    """Scores what the world gave over the episode.

    Failed: the sample is of no episode, or of one that gave no number.
    """

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        episode: Json = sample.info.get(EPISODE)
        if not isinstance(episode, dict):
            return Failed("crashed", "the sample has no episode: its task's environment was not played")
        reward = episode.get("reward")
        if isinstance(reward, bool) or not isinstance(reward, int | float) or reward - reward != 0:
            return Failed("crashed", f"the episode gave the reward {reward!r}, which is no number"[:200])
        return Score(float(reward))
