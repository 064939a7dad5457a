"""The world's reward as a scorer."""

from dataclasses import replace
from typing import Any

import pytest

from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.environments.protocol import EPISODE
from ropewalk.tasks.environments.reward import EpisodeReward
from tests.tasks.samples import sample


@pytest.mark.parametrize(
    ("info", "outcome"),
    [
        ({EPISODE: {"reward": 0.5}}, Score(0.5)),
        ({EPISODE: {"reward": -2}}, Score(-2.0)),
        ({EPISODE: {"reward": 0}}, Score(0.0)),
        ({}, None),
        ({EPISODE: 3}, None),
        ({EPISODE: {}}, None),
        ({EPISODE: {"reward": None}}, None),
        ({EPISODE: {"reward": "1"}}, None),
        ({EPISODE: {"reward": True}}, None),
        ({EPISODE: {"reward": float("nan")}}, None),
        ({EPISODE: {"reward": float("inf")}}, None),
    ],
    ids=range(11),
)
def test_no_reward_is_a_failure_and_never_nought(info: Any, outcome: Score | None) -> None:
    """Fault G12."""
    found = EpisodeReward()(Prompt("p", ""), replace(sample("x"), info=info))
    assert found == outcome if outcome else isinstance(found, Failed) and found.reason == "crashed"
