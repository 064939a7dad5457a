"""Ragged rows as plain lists, for the oracles, and the same rows as columns with garbage wherever nothing may look."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

LIVE = ("logprobs", "entropy", "values_now")
FROZEN = ("rollout_logprobs", "reference_logprobs", "old_logprobs", "values")
GARBAGE = (float("nan"), float("inf"), float("-inf"), 1e30, 0.0)


@dataclass
class Row:
    """One answer: a list of numbers per policy token for each name, and its row values."""

    tokens: Mapping[str, list[float]]
    reward: float
    group: int
    finished: bool = True
    valid: bool = True
    extra: Mapping[str, list[float]] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.tokens["logprobs"])


def random_rows(seed: int, count: int = 9, longest: int = 6) -> list[Row]:
    """Rows in groups of 1..4, some unfinished, some without an outcome, one without a policy token."""
    draw = random.Random(seed)
    rows: list[Row] = []
    group = 100
    while len(rows) < count:
        group += draw.randint(1, 50)
        for _ in range(min(draw.randint(1, 4), count - len(rows))):
            length = draw.randint(1, longest) if len(rows) != 2 else 0
            tokens = {name: [draw.uniform(-2.5, -0.1) for _ in range(length)] for name in ("logprobs", *FROZEN)}
            tokens["entropy"] = [draw.uniform(0.1, 2.0) for _ in range(length)]
            tokens["values"] = [draw.uniform(-1.0, 1.0) for _ in range(length)]
            tokens["values_now"] = [value + draw.uniform(-0.5, 0.5) for value in tokens["values"]]
            for name in ("rollout_logprobs", "old_logprobs"):
                tokens[name] = [value + draw.uniform(-0.6, 0.6) for value in tokens["logprobs"]]
            rows.append(Row(tokens, draw.choice([0.0, 1.0, draw.gauss(0, 1)]), group, draw.random() < 0.7))
    draw.shuffle(rows)
    for row in rows:
        row.valid = draw.random() < 0.85
    return rows


def columns(
    rows: Sequence[Row], *, seed: int = 0, old: bool = True, garbage: Sequence[float] = GARBAGE
) -> dict[str, Tensor]:
    """Token and row columns in float64. Each row has a prompt, a tool turn in its middle, and shared tokens before."""
    draw = random.Random(seed)
    names = [name for name in (*LIVE, *FROZEN) if old or name != "old_logprobs"]
    names += rows[0].extra if rows else ("advantages", "returns")
    token: dict[str, list[float]] = {name: [] for name in names}
    mask: list[bool] = []
    row_T: list[int] = []

    def masked_out(row: int, count: int) -> None:
        for _ in range(count):
            mask.append(False)
            row_T.append(row)
            for name in names:
                token[name].append(draw.choice(garbage))

    masked_out(-1, draw.randint(0, 2))
    for number, row in enumerate(rows):
        masked_out(-1, draw.randint(0, 1))
        masked_out(number, draw.randint(1, 3))
        cut = draw.randint(0, row.length)
        for step in range(row.length):
            if step == cut:
                masked_out(number, 1)
            mask.append(True)
            row_T.append(number)
            for name in names:
                source = {**row.tokens, **row.extra}
                token[name].append(source[name][step] if row.valid else draw.choice(garbage))
        masked_out(number, draw.randint(0, 1))
    found = {name: torch.tensor(values, dtype=torch.float64) for name, values in token.items()}
    found["policy_mask"] = torch.tensor(mask, dtype=torch.bool)
    found["row_T"] = torch.tensor(row_T, dtype=torch.int64)
    rewards = [row.reward if row.valid else draw.choice(garbage) for row in rows]
    found["rewards"] = torch.tensor(rewards, dtype=torch.float64)
    found["group"] = torch.tensor([row.group for row in rows], dtype=torch.int64)
    for name in ("finished", "valid"):
        found[name] = torch.tensor([getattr(row, name) for row in rows], dtype=torch.bool)
    return found


def by_row(values_T: Tensor, found: Mapping[str, Tensor]) -> list[list[float]]:
    """A token column as one list of policy tokens per row."""
    rows = range(len(found["valid"]))
    return [values_T[found["policy_mask"] & (found["row_T"] == row)].tolist() for row in rows]
