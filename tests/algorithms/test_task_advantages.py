"""Advantages in the units of their task: equal to loops, and blind to the scale of a task's rewards."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ropewalk.algorithms.advantages import task_advantages
from ropewalk.algorithms.config import GRPO, PPO, MaskUnfinished
from ropewalk.algorithms.credit import gae_credit, group_credit
from ropewalk.algorithms.masked import Columns
from ropewalk.algorithms.methods.grpo import formula
from ropewalk.algorithms.methods.ppo import formula as ppo_formula
from ropewalk.training.outputs import columns_of
from tests.parity.beds import policy_batch

ROW = st.tuples(st.floats(-3, 3, width=32), st.integers(0, 2), st.booleans())


def by_loops(rows: list[tuple[float, int, bool]]) -> list[float]:
    found = []
    for advantage, task, valid in rows:
        own = [a for a, t, v in rows if t == task and v]
        spread = math.sqrt(sum(a * a for a in own) / len(own)) if own else 0.0
        found.append(advantage / spread if valid and spread > 1e-30 else 0.0)
    return found


def tensors(rows: list[tuple[float, int, bool]]) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.tensor([float(a) if v else math.nan for a, _, v in rows]),
        torch.tensor([t for _, t, _ in rows], dtype=torch.long),
        torch.tensor([v for _, _, v in rows], dtype=torch.bool),
    )


@given(st.lists(ROW, max_size=12))
def test_it_is_what_loops_say(rows: list[tuple[float, int, bool]]) -> None:
    """Fault C4 as well: rows that are not valid may hold anything."""
    rows = [(0.0 if abs(a) < 1e-20 else a, t, v) for a, t, v in rows]
    assert task_advantages(*tensors(rows)).tolist() == pytest.approx(by_loops(rows), rel=1e-5, abs=1e-7)


def found_by(cfg: GRPO | PPO, columns: Columns) -> Tensor:
    return (group_credit(cfg, columns) if isinstance(cfg, GRPO) else gae_credit(cfg, columns))["advantages"]


def credit(cfg: GRPO | PPO, scale: float, *, shuffle: bool = False) -> Tensor:
    """Advantages of a batch of two tasks, the second's rewards multiplied."""
    batch = policy_batch(groups=4, size=4)
    generator = torch.Generator().manual_seed(5)
    task = torch.arange(batch.rows) // 4 % 2
    rewards = torch.randn(batch.rows, generator=generator) * torch.where(task == 1, scale, 1.0)
    batch = batch.with_columns(rows={"rewards": rewards.numpy(), "task": task.numpy()})
    if shuffle:
        order = torch.randperm(batch.rows, generator=generator).tolist()
        back = torch.tensor(order).argsort()
        columns = columns_of(batch.select(order))
        found = found_by(cfg, columns)
        rows = [found[columns["row_T"] == row] for row in range(batch.rows)]
        return torch.cat([rows[int(place)] for place in back])
    columns = columns_of(batch)
    found = found_by(cfg, columns)
    return found[columns["row_T"] >= 0]


@pytest.mark.parametrize("scale", [0.01, 8.0, 1e6])
def test_multiplying_a_tasks_rewards_changes_nothing(scale: float) -> None:
    cfg = GRPO(scale="none", normalise_by="task")
    torch.testing.assert_close(credit(cfg, scale), credit(cfg, 1.0), rtol=1e-4, atol=1e-6)
    without = GRPO(scale="none")
    assert not torch.allclose(credit(without, scale), credit(without, 1.0), rtol=1e-2)


@pytest.mark.parametrize("cfg", [GRPO(scale="none", normalise_by="task"), PPO(whiten="task")], ids=["grpo", "ppo"])
def test_the_order_of_the_rows_is_no_matter(cfg: GRPO | PPO) -> None:
    torch.testing.assert_close(credit(cfg, 3.0, shuffle=True), credit(cfg, 3.0), rtol=1e-5, atol=1e-6)


def test_every_task_has_a_spread_of_one() -> None:
    """Each by itself, over the rows that train; a task without spread keeps its zeros."""
    advantages = torch.tensor([1.0, -1.0, 30.0, -10.0, -20.0, 0.0, 0.0])
    task = torch.tensor([0, 0, 7, 7, 7, 2, 2])
    found = task_advantages(advantages, task, torch.ones(7, dtype=torch.bool))
    assert found[:2].square().mean() == pytest.approx(1) and found[2:5].square().mean() == pytest.approx(1)
    assert found[5:].tolist() == [0, 0]
    assert float(found.sum()) == pytest.approx(0, abs=1e-6), "a mean of 0 stays one"


def test_a_row_that_does_not_train_has_no_part_in_its_tasks_spread() -> None:
    """Fault A3."""
    batch = policy_batch(groups=4, size=4)
    rewards = torch.linspace(-1, 2, batch.rows)
    task = torch.zeros(batch.rows, dtype=torch.long)
    finished = torch.arange(batch.rows) % 4 != 1
    cfg = GRPO(normalise_by="task", unfinished=MaskUnfinished())
    whole = batch.with_columns(rows={"rewards": rewards.numpy(), "task": task.numpy(), "finished": finished.numpy()})
    kept = torch.nonzero(finished)[:, 0].tolist()
    columns, fewer = columns_of(whole), columns_of(whole.select(kept))
    found = group_credit(cfg, columns)["advantages"]
    mine = torch.cat([found[columns["row_T"] == row] for row in kept])
    torch.testing.assert_close(mine, group_credit(cfg, fewer)["advantages"], rtol=1e-6, atol=1e-7)


def test_one_task_whitens_as_all_tokens_do() -> None:
    batch = policy_batch(groups=4, size=4)
    rows = {"rewards": torch.linspace(-1, 2, batch.rows).numpy(), "task": torch.full((batch.rows,), 3).numpy()}
    columns = columns_of(batch.with_columns(rows=rows))
    one, all_tokens = gae_credit(PPO(whiten="task"), columns), gae_credit(PPO(whiten="tokens"), columns)
    torch.testing.assert_close(one["advantages"], all_tokens["advantages"], rtol=0, atol=0)
    torch.testing.assert_close(one["returns"], all_tokens["returns"], rtol=0, atol=0)


def test_the_formula_shows_it() -> None:
    assert "A' / rms(A' of the task),  A' = r − mean(group)" in formula(GRPO(scale="none", normalise_by="task"))
    assert "rms" not in formula(GRPO())
    assert "whitened over the tokens of each task" in ppo_formula(PPO(whiten="task"))
