"""Jobs from names and amounts: what is counted, and what is refused."""

import pytest

from ropewalk.planner.price.job_price import price
from ropewalk.planner.price.jobs import KINDS, Amount, job, number, trunk
from ropewalk.records.errors import InputError
from tests.planner.price.pricing import A100

TOKENS = Amount(tokens=1e9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_price(kind: str) -> None:
    models = {trunk(kind): "7b", **({"teacher": "13b"} if kind == "distillation" else {})}
    found = price(job(kind, models, TOKENS), A100, gpus=8)
    assert found.gpu_hours.low > 0
    assert found.held.fewest_gpus(A100) >= 1


@pytest.mark.parametrize(("kind", "rows"), [("sft", 1), ("dpo", 2), ("reward-model", 2), ("ppo", 1), ("grpo", 8)])
def test_rows_are_prompts_times_samples(kind: str, rows: int) -> None:
    found = job(kind, {trunk(kind): "7b"}, Amount(prompts=1000, passes=3))
    assert found.rows == 1000 * rows
    assert found.tokens == 3 * 1000 * rows * 1024
    same = job(kind, {trunk(kind): "7b"}, Amount(tokens=1000 * rows * 1024, passes=3))
    assert same.tokens == found.tokens


def test_pretraining_is_six_n_d_and_inference_two() -> None:
    for kind, factor in (("pretraining", 6), ("inference", 2)):
        found = job(kind, {"actor": "30b-a3b"}, TOKENS)
        assert price(found, A100, gpus=1).flops == factor * found.shapes["actor"].active_parameters * 1e9


@pytest.mark.parametrize(
    ("text", "value"), [("14.8T", 14.8e12), ("100k", 1e5), ("2e9", 2e9), ("1,000", 1000), ("7b", 7e9)]
)
def test_numbers(text: str, value: float) -> None:
    assert number(text, "x") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "many", "0", "-3", "nan", "inf", "1kk"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--tokens"):
        number(text, "--tokens")


@pytest.mark.parametrize(
    ("kind", "amount", "lora", "said"),
    [
        ("gprpo", TOKENS, None, "did you mean 'grpo'"),
        ("grpo+rule", TOKENS, None, "rule-reward"),
        ("sft", Amount(), None, "either tokens or prompts"),
        ("sft", Amount(tokens=1, prompts=1), None, "either tokens or prompts"),
        ("dpo", Amount(prompts=5, samples=4), None, "a pair has 2 rows, not 4"),
        ("inference", TOKENS, 16, "trains nothing"),
        ("sft", Amount(tokens=1e9, update_epochs=2), None, "passes over the data instead"),
        ("ppo", Amount(tokens=1e9, prompt_tokens=1024), None, "leaves nothing to generate"),
        ("ppo", TOKENS, 0, "a rank of at least 1"),
    ],
)
def test_impossible_jobs_are_refused(kind: str, amount: Amount, lora: int | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        price(job(kind, {"actor": "7b"}, amount, lora_rank=lora), A100, gpus=1)
