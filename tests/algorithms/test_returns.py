"""GAE runs on the compacted policy tokens and nowhere else."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.algorithms.config import PPO, KLNone, MaskUnfinished, PenaliseUnfinished, Unfinished
from ropewalk.algorithms.credit import gae_credit
from ropewalk.algorithms.returns import at_last_token, gae
from tests.oracle.ppo import gae as slow_gae


@pytest.mark.parametrize("beyond", [50.0, 0.0, math.nan, math.inf])
def test_the_value_after_the_last_policy_token_is_no_bootstrap(beyond: float) -> None:
    """Fault D1: rewards [0, 2], values [0.5, 1, garbage], γ 1, λ 0.9."""
    advantages, returns = gae(
        torch.tensor([0.0, 2.0, beyond]),
        torch.tensor([0.5, 1.0, beyond]),
        torch.tensor([True, True, False]),
        torch.zeros(3, dtype=torch.int64),
        rows=1,
        gamma=1.0,
        lam=0.9,
    )
    assert advantages.tolist() == pytest.approx([1.4, 1.0, 0.0])
    assert returns.tolist() == pytest.approx([1.9, 2.0, 0.0])


step = st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.booleans())


@given(st.lists(st.lists(step, max_size=6), max_size=5), st.floats(0, 1), st.floats(0, 1))
def test_any_mask_equals_the_list_of_policy_tokens(
    rows: list[list[tuple[float, float, bool]]], gamma: float, lam: float
) -> None:
    """Fault D1: prompts, tool turns and tails may lie anywhere in a row."""
    flat = [(n, *s) for n, row in enumerate(rows) for s in row]
    rewards, values = (torch.tensor([s[k] for s in flat], dtype=torch.float64) for k in (1, 2))
    mask = torch.tensor([s[3] for s in flat], dtype=torch.bool)
    row_T = torch.tensor([s[0] for s in flat], dtype=torch.int64)
    advantages, returns = gae(rewards, values, mask, row_T, rows=len(rows), gamma=gamma, lam=lam)
    for n, row in enumerate(rows):
        kept = [s for s in row if s[2]]
        wanted = slow_gae([s[0] for s in kept], [s[1] for s in kept], gamma, lam)
        assert advantages[mask & (row_T == n)].tolist() == pytest.approx(wanted, abs=1e-9)
        assert returns[mask & (row_T == n)].tolist() == pytest.approx(
            [a + s[1] for a, s in zip(wanted, kept, strict=True)], abs=1e-9
        )
    assert not advantages[~mask].any() and not returns[~mask].any()


def test_the_reward_lands_on_the_last_policy_token() -> None:
    """Fault D3: response [t, t, end, pad] gets [0, 0, 1, 0]; a full-length one has it on its last token."""
    mask = torch.tensor([True, True, True, False, True, True, False])
    row_T = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    assert at_last_token(torch.tensor([1.0, 2.0, 5.0]), mask, row_T).tolist() == [0, 0, 1, 0, 0, 2, 0]


@pytest.mark.parametrize(
    ("unfinished", "wanted"), [(PenaliseUnfinished(score=-3.0), -3.0), (MaskUnfinished(), 0.0), (None, 4.0)]
)
def test_with_no_discount_every_token_gets_the_score_and_an_unfinished_row_its_rule_once(
    unfinished: Unfinished | None, wanted: float
) -> None:
    """Fault D3, A3: γ = λ = 1, values 0, no KL; keyed on the finish reason, not on a token."""
    how = {} if unfinished is None else {"unfinished": unfinished}
    cfg = PPO(gamma=1, lam=1, whiten="none", kl=KLNone(), **how)  # type: ignore[arg-type]
    found = {
        "row_T": torch.tensor([0, 0, 0, 1, 1]),
        "policy_mask": torch.tensor([False, True, True, True, True]),
        "values": torch.zeros(5),
        "rewards": torch.tensor([1.0, 4.0]),
        "valid": torch.tensor([True, True]),
        "finished": torch.tensor([True, False]),
    }
    credit = gae_credit(cfg, found)
    assert credit["advantages"].tolist() == [0, 1, 1, wanted, wanted]
    assert torch.equal(credit["advantages"], credit["returns"])
