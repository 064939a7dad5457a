"""Potential-based shaping leaves what is best as it was; anything else does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.shaping import shaped

numbers = st.floats(-10, 10, width=32)
episodes = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8)
STATES, GOAL = 5, 4
"""A chain 0 … 4: left, right, or stop where one is; stopping anywhere ends the episode, and only 4 pays well."""


def returns(rewards: np.ndarray, gamma: float) -> np.ndarray:
    found, after = [], 0.0
    for reward in rewards[::-1]:
        after = float(reward) + gamma * after
        found.append(after)
    return np.array(found[::-1])


@given(episodes, st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_every_return_changes_by_the_potential_of_its_state(episode: list[tuple[float, float]], gamma: float) -> None:
    rewards, potentials = (np.array(column, np.float64) for column in zip(*episode, strict=True))
    change = returns(shaped(rewards, potentials, gamma=gamma), gamma) - returns(rewards, gamma)
    np.testing.assert_allclose(change, -potentials, atol=1e-9)


def best(gamma: float, potential: np.ndarray | None, *, at_the_end: float = 0.0) -> tuple[list[int], np.ndarray]:
    """The best action in each state by value iteration, and each action's advantage over it."""
    values = np.zeros(STATES)
    q = np.zeros((STATES, 3))
    for _ in range(400):
        for state in range(STATES):
            for action, after in enumerate((max(state - 1, 0), min(state + 1, GOAL), None)):
                reward = -0.05 if after is not None else (1.0 if state == GOAL else 0.2)
                later = 0.0 if after is None else values[after]
                if potential is not None:
                    end = at_the_end if after is None else potential[after]
                    reward += gamma * end - potential[state]
                q[state, action] = reward + gamma * later
        values = q.max(axis=1)
    return q.argmax(axis=1).tolist(), q - values[:, None]


@given(st.lists(st.floats(-5, 5), min_size=STATES, max_size=STATES), st.sampled_from([0.8, 0.95]))
def test_the_best_policy_of_a_chain_does_not_change(potential: list[float], gamma: float) -> None:
    """Ng, Harada & Russell 1999: nor does any action's advantage."""
    plain, advantages = best(gamma, None)
    with_it, shaped_advantages = best(gamma, np.array(potential))
    assert with_it == plain
    np.testing.assert_allclose(shaped_advantages, advantages, atol=1e-9)


def test_a_potential_of_the_end_would_change_it() -> None:
    """Why the end's potential is 0 and cannot be given: here it pays for stopping at once."""
    plain, _ = best(0.95, None)
    paid, _ = best(0.95, np.zeros(STATES), at_the_end=100.0)
    assert plain == [1, 1, 1, 1, 2] and paid == [2] * STATES


def test_a_sample_with_one_reward_loses_a_constant_of_its_prompt() -> None:
    """So that a group baseline takes it out: shaping is for episodes with several rewards."""
    group = [float(shaped([reward], [3.5])[0]) for reward in (0.0, 1.0, 1.0)]
    assert group == [-3.5, -2.5, -2.5]
    assert shaped([], []).tolist() == []


@pytest.mark.parametrize(
    ("rewards", "potentials", "gamma"),
    [
        ([1.0], [1.0, 2.0], 1.0),
        ([[1.0]], [[1.0]], 1.0),
        ([np.nan], [0.0], 1.0),
        ([0.0], [np.inf], 1.0),
        ([0], [0], 1.1),
    ],
)
def test_what_cannot_be_shaped_is_refused(rewards: list[float], potentials: list[float], gamma: float) -> None:
    with pytest.raises(InputError, match="shaping needs"):
        shaped(rewards, potentials, gamma=gamma)
