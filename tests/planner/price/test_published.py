"""Published runs imply the MFU they imply, and rules of thumb come out as arithmetic says."""

import pytest

from ropewalk.planner.price.published import HOURS, R1_TOTAL_GPU_HOURS, RUNS, run
from ropewalk.planner.price.rules_of_thumb import RULES, Finding, findings
from tests.planner.price.pricing import A100, H100

FOUND = {finding.name: finding for finding in findings(A100, H100)}


@pytest.mark.parametrize(
    ("model", "percent"),
    [("DeepSeek-V3", 34.6), ("Llama 3 8B", 15.6), ("Llama 3 70B", 27.9), ("Llama 3.1 405B", 33.2)],
)
def test_implied_mfu(model: str, percent: float) -> None:
    assert 100 * run(model).implied_mfu == pytest.approx(percent, abs=0.05)


def test_every_published_run_is_possible() -> None:
    assert all(0.1 < found.implied_mfu < 0.6 for found in RUNS)


def test_r1_zero_took_101_thousand_hours() -> None:
    assert HOURS[0].gpu_hours == pytest.approx(101e3, rel=0.005)
    assert sum(found.gpu_hours for found in HOURS) + 5e3 == pytest.approx(R1_TOTAL_GPU_HOURS, rel=0.005)


def test_every_rule_is_found_once() -> None:
    assert len(FOUND) == len(RULES)
    assert all(finding.values and finding.said and finding.because for finding in FOUND.values())


@pytest.mark.parametrize(
    ("rule", "what", "value"),
    [
        ("GRPO factor", "counted", 10 / 6),
        ("GRPO factor", "with old log-probs recomputed", 2.0),
        ("GRPO hours", "at k = 3.5", 919),
        ("GRPO hours", "at k = 2.0", 525),
        ("GRPO hours", "8 GPUs in a day", 192),
        ("GRPO hours", "at k = 3.5, $2", 1838),
        ("GRPO hours", "at k = 2.0, $2", 1050),
        ("one card", "trained", 122),
        ("one card", "reference and rollout copies", 30.5),
        ("one card", "together", 152),
        ("RLHF memory", "PPO, four models", 252),
        ("RLHF memory", "SFT", 112),
        ("RLHF memory", "GRPO, reward model", 140),
        ("RLHF memory", "GRPO, rule", 126),
        ("RLHF memory", "PPO over SFT", 2.25),
        ("ZeRO-1", "sharded", 12),
        ("PPO over SFT", "e = 1", 20 / 6),
        ("PPO over SFT", "e = 2", 32 / 6),
        ("PPO over SFT", "e = 3", 44 / 6),
        ("PPO over SFT", "e = 4", 56 / 6),
        ("GRPO over PPO", "learned reward", 0.60),
        ("GRPO over PPO", "rule", 0.50),
        ("SFT FLOPs", "counted", 6),
        ("DeepSeek-V3", "all 671 B at 45 %", 37.2),
        ("DeepSeek-V3", "active 37 B at 45 %", 2.05),
        ("DeepSeek-V3", "implied MFU", 34.6),
        ("R1-Zero", "13 days x 512", 159_744),
        ("bf16 over fp32", "a100 over tf32", 2),
        ("bf16 over fp32", "a100 over fp32", 16),
        ("bf16 over fp32", "h100 over fp32", 14.8),
        ("one MFU", "batch 1", 0.64),
        ("one MFU", "batch 128", 64.2),
        ("A100 balance", "FLOPs per byte", 156),
    ],
)
def test_figures_come_out(rule: str, what: str, value: float) -> None:
    assert FOUND[rule][what] == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        *((name, "wrong") for name in ("GRPO factor", "GRPO hours", "one card", "RLHF memory", "ZeRO-1", "SFT FLOPs")),
        *((name, "wrong") for name in ("DeepSeek-V3", "R1-Zero", "one MFU")),
        *((name, "depends") for name in ("PPO over SFT", "GRPO over PPO", "Llama 3 MFU", "bf16 over fp32")),
        ("A100 balance", "holds"),
    ],
)
def test_verdicts_follow(rule: str, verdict: str) -> None:
    finding: Finding = FOUND[rule]
    assert finding.verdict == verdict
