"""The rows of the table for episodes and for scoring beside generation; see `fields_table`."""

from tests.runtime.fields_table import Row

EPISODES: list[Row] = [
    Row("Gathering.scorers", "grpo", {"rollout.scorers": 1}, "scoring_threads"),
    Row("Rollouts.scorers", "sample", {"rollout.scorers": 1}, "scoring_threads"),
    Row("Sampling.episode Episode.turns", "grpo", {"sampling.episode.turns": 2}, "played"),
    Row("Episode.tokens", "grpo", {"sampling.episode.tokens": 5}, "played"),
    Row("Episode.seconds", "grpo", {"sampling.episode.seconds": 0.01}, "played"),
    Row("Episode.cut_turns", "grpo", {"sampling.episode.cut_turns": "go_on"}, "played"),
    Row("Episode.calls", "grpo", {"sampling.episode.calls": "python"}, "played"),
    Row("Episode.at_once", "grpo", {"sampling.episode.at_once": 1}, "played"),
]
