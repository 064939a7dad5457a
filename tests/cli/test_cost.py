"""`ropewalk cost`: prices side by side, tables of what is known, and one sentence for what cannot be priced."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.commands import Command, failed

GRPO = ("cost", "grpo+rule-reward", "--model", "7b", "--prompts", "100k", "--epochs", 3)
HOW = {"measured", "estimated", "assumed"}


@pytest.fixture(autouse=True)
def _a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no phrase that is looked for is folded."""
    monkeypatch.setenv("COLUMNS", "400")


def test_gpus_stand_side_by_side_with_hours_days_dollars_and_memory(ropewalk: Command) -> None:
    told = ropewalk(*GRPO, "--gpu", "a100", "--gpu", "h100", "--gpus", 16)
    assert told.code == 0
    for word in (
        "A100",
        "H100",
        "k = 1.67",
        "rollout 20%",
        "on 16",
        "$",
        "ZeRO-1",
        "fewest GPUs",
        "by MFU alone",
        "decoding at once",
    ):
        assert word in told.out, word
    assert HOW - {"measured"} <= set(re.findall(r"[a-z]+", told.out))


def test_json_says_of_every_figure_how_it_is_known(ropewalk: Command) -> None:
    found = json.loads(ropewalk(*GRPO, "--gpu", "a100", "--json").out)

    def figures(value: object) -> None:
        if isinstance(value, dict):
            if "low" in value or "value" in value:
                assert value["how"] in HOW
            for inner in value.values():
                figures(inner)
        elif isinstance(value, list):
            for inner in value:
                figures(inner)

    figures(found)
    (price,) = found["prices"]
    assert sum(part["flops_share"] for part in price["parts"].values()) == pytest.approx(1)
    for end in ("fast", "slow"):
        assert sum(part["time_share"][end] for part in price["parts"].values()) == pytest.approx(1)
    assert price["days"]["low"] * 24 * 8 == pytest.approx(price["gpu_hours"]["low"])


def test_hours_halve_when_the_mfu_doubles(ropewalk: Command) -> None:
    def hours(mfu: str) -> float:
        words = ("cost", "sft", "--model", "7b", "--tokens", "1B", "--gpu", "a100", "--mfu", mfu, "--json")
        return float(json.loads(ropewalk(*words).out)["prices"][0]["gpu_hours"]["high"])

    assert hours("20-25%") == pytest.approx(2 * hours("0.40-0.5"))


def test_a_given_price_replaces_the_assumed_one(ropewalk: Command) -> None:
    words = ("cost", "sft", "--model", "7b", "--tokens", "1B", "--gpu", "a100", "--gpu", "h100", "--json")
    found = json.loads(ropewalk(*words, "--dollars", "h100=2.5").out)["prices"]
    assert found[1]["dollars_per_gpu_hour"] == {"low": 2.5, "high": 2.5, "how": "assumed"}
    assert found[0]["dollars_per_gpu_hour"]["low"] != 2.5
    both = json.loads(ropewalk(*words, "--dollars", "3").out)["prices"]
    assert [price["dollars_per_gpu_hour"]["high"] for price in both] == [3, 3]


def test_published_runs_are_printed_with_their_mfu(ropewalk: Command) -> None:
    told = ropewalk("cost", "--published")
    for said in ("34.6%", "15.6%", "27.9%", "33.2%", "101,376", "(measured)"):
        assert said in told.out
    rows = json.loads(ropewalk("cost", "--published", "--json").out)
    assert len(rows) == sum("TFLOP/s" in line for line in told.out.splitlines())


def test_rules_of_thumb_are_printed_with_what_comes_out(ropewalk: Command) -> None:
    told = ropewalk("cost", "--claims")
    for said in ("919 GPU-hours", "525 GPU-hours", "152 GB", "37.2 M", "64.2 %", "156", "(measured)"):
        assert said in told.out, said
    rules = json.loads(ropewalk("cost", "--claims", "--json").out)
    assert {rule["verdict"] for rule in rules} == {"wrong", "depends", "holds"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tokens", "0"], "--tokens must be above 0"),
        (["--tokens", "much"], "--tokens is a number such as"),
        ([], "either tokens or prompts"),
        (["--tokens", "1B", "--mfu", "0.5-1.2"], "at most 1, got 0.5 to 1.2"),
        (["--tokens", "1B", "--mfu", "0.5-0.3"], "swap them"),
        (["--tokens", "1B", "--mfu", "35%"], "--mfu is a range"),
        (["--tokens", "1B", "--mfu", "a-b"], "--mfu needs a share"),
        (["--tokens", "1B", "--gpu", "h10"], "did you mean 'h100'"),
        (["--tokens", "1B", "--gpus", "0"], "at least 1 GPU"),
        (["--tokens", "1B", "--retry", "-1"], "retry budget"),
        (["--tokens", "1B", "--dollars", "l4=3"], "--dollars l4=3 names no GPU"),
        (["--tokens", "1B", "--dollars", "cheap"], "a price per GPU-hour is a number"),
        (["--tokens", "1B", "--role", "critic"], "write --role critic=34b"),
        (["--tokens", "1B", "--role", "critic=7b"], "no role 'critic'"),
        (["--tokens", "1B", "--epochs", "0"], "passes must be above 0"),
        (["--tokens", "1B", "--batch", "0"], "at least 1 sequence"),
        (["--tokens", "nan"], "--tokens must be above 0"),
        (["--tokens", "1e999"], "--tokens must be above 0"),
        (["--tokens", "1B", "--mfu", "nan-0.5"], "--mfu needs a share"),
        (["--tokens", "1B", "--retry", "nan"], "--retry needs a share"),
        (["--tokens", "1B", "--gpu", "8xa100"], "--gpu 8xa100 is a cluster"),
        (["--tokens", "1B", "--gpu", "a100+h100"], "is a cluster"),
        (["--tokens", "1B", "--lora", "0"], "a rank of at least 1"),
        (["--tokens", "1B", "--lora", "99999"], "larger than the model's width"),
        (["--prompts", "10", "--samples", "0"], "at least 1 sample"),
        (["--tokens", "1B", "--role", "actor=13b"], "two sizes, 7b and 13b"),
        (["--claims"], "leave the kind of job out"),
    ],
)
def test_what_cannot_be_priced_is_one_sentence(ropewalk: Command, words: list[str], said: str) -> None:
    failed(ropewalk("cost", "sft", "--model", "7b", *words), 2, said)


def test_a_price_needs_a_kind_and_a_known_model(ropewalk: Command) -> None:
    failed(ropewalk("cost"), 2, "a kind of job and a model")
    failed(ropewalk("cost", "grop", "--model", "7b", "--tokens", "1B"), 2, "'grpo'")
    failed(ropewalk("cost", "sft", "--model", "69b", "--tokens", "1B"), 2, "'70b'")


def test_a_mixed_cluster_file_is_priced_kind_by_kind(ropewalk: Command, tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    groups = "".join(
        f'[[group]]\ngpu = "{gpu}"\nnodes = 1\ngpus_per_node = 8\ninside_bytes_per_second = 1e11\n'
        "inside_latency_seconds = 1e-5\nhost_bytes_per_second = 2e10\n"
        for gpu in ("a100", "l4")
    )
    file.write_text(f'name = "mixed"\nbetween_bytes_per_second = 1e10\nbetween_latency_seconds = 2e-5\n{groups}')
    words = ("cost", "sft", "--model", "7b", "--tokens", "1B", "--json", "--gpu")
    both = json.loads(ropewalk(*words, file).out)["prices"]
    each = [json.loads(ropewalk(*words, gpu).out)["prices"][0] for gpu in ("a100", "l4")]
    assert both == each


def test_a_model_by_folder_and_a_mixture_are_priced(ropewalk: Command, tmp_path: Path) -> None:
    config = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008}
    config |= {"max_position_embeddings": 4096, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = ("cost", "sft", "--tokens", "1B", "--gpu", "a100", "--json", "--model")
    assert json.loads(ropewalk(*words, tmp_path).out)["prices"] == json.loads(ropewalk(*words, "7b").out)["prices"]
    moe = json.loads(ropewalk(*words, "30b-a3b").out)
    size, (priced,) = moe["models"]["actor"], moe["prices"]
    assert priced["flops"]["value"] == pytest.approx(6 * size["active_parameters"] * 1e9)
    assert priced["memory"]["states_bytes"] == pytest.approx(16 * size["parameters"])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "words",
    [
        GRPO,
        ("cost", "--published"),
        ("cost", "--claims"),
        ("advise", "--rules", "--cluster", "8xh100"),
        ("advise", "--model", "7b", "--cluster", "16xh100", "--pairs", "1M", "--days", 2),
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_nothing_is_wider_than_the_terminal(
    ropewalk: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told = ropewalk(*words)
    assert told.code == 0
    assert max(map(len, told.out.splitlines())) <= width


def test_advice_names_methods_recipes_placements_and_what_fails_first(ropewalk: Command) -> None:
    told = ropewalk("advise", "--model", "70b", "--cluster", "64xh100", "--pairs", "10M", "--days", 14)
    assert told.code == 0
    for word in ("do reward-model", "do grpo", "not dpo", "not ppo", "ZeRO-3", "proven", "fails first", "all stages"):
        assert word in told.out, word
    found = json.loads(ropewalk("advise", "--model", "7b", "--cluster", "8xa100", "--verifiable", "--json").out)
    assert [choice["method"] for choice in found["methods"]] == ["grpo+rule-reward"]
    plan = found["stages"][0]["plan"]
    assert found["enough"] and plan["calls"]["generate"]["dp"] >= 1
    assert plan["period_seconds"]["value"] >= plan["bound_seconds"] * (1 - 1e-9)


def test_advice_on_too_few_gpus_says_what_is_lacking(ropewalk: Command) -> None:
    told = ropewalk("advise", "--model", "70b", "--cluster", "8xa100", "--pairs", "10M")
    assert told.code == 0
    assert "under every plan" in told.out and "there are 8" in told.out


def test_rules_of_thumb_are_held_against_the_planner(ropewalk: Command) -> None:
    told = ropewalk("advise", "--rules", "--cluster", "8xh100", "--model", "7b")
    assert told.code == 0 and "training by ZeRO 1 of 1" in told.out and "estimated" in told.out
    (row,) = json.loads(ropewalk("advise", "--rules", "--cluster", "8xh100", "--model", "7b", "--json").out)
    for check in row["checks"].values():
        assert check["slower"] == pytest.approx(check["rule_seconds"] / check["best_seconds"] - 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "7b"], "a model and GPUs"),
        (["--model", "7b", "--cluster", "0xa100"], "no GPU"),
        (["--model", "7b", "--cluster", "8xa10"], "did you mean 'a100'"),
        (["--model", "7b", "--cluster", "8xa100", "--pairs", "many"], "--pairs is a number"),
        (["--model", "7b", "--cluster", "8xa100", "--days", "0"], "the number of days"),
        (["--model", "7b", "--cluster", "8xa100", "--days", "nan"], "the number of days"),
        (["--model", "7b", "--cluster", "8xa100", "--pairs", "-3"], "--pairs must be above 0"),
        (["--model", "7b", "--cluster", "8xa100", "--prompts", "0"], "--prompts must be above 0"),
        (["--model", "7b", "--cluster", "8xa100", "--row-tokens", "64"], "leaves nothing to answer"),
        (["--model", "seven", "--cluster", "8xa100"], "did you mean"),
        (["--rules", "--cluster", "8xa10"], "did you mean 'a100'"),
    ],
)
def test_what_cannot_be_advised_on_is_one_sentence(ropewalk: Command, words: list[str], said: str) -> None:
    failed(ropewalk("advise", *words), 2, said)


SFT = ("cost", "sft", "--model", "7b", "--gpu", "a100")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tokens", "0.5"), "--tokens counts things, so it lies between 1 and 1e+18"),
        (("--tokens", "1e308"), "--tokens counts things"),
        (("--tokens", "1e400"), "--tokens must be above 0"),
        (("--prompts", "0.5"), "--prompts counts things"),
        (("--tokens", "1B", "--row-tokens", "0.5"), "--row-tokens counts things"),
        (("--tokens", "1B", "--gpu", "8xa100"), "name the kind, and say --gpus 8"),
        (("--tokens", "1B", "--mfu", "-0.3-0.4"), "got '-0.3-0.4': write 0.30-0.45"),
        (("--tokens", "1B", "--gpu", "/dev/null"), "is missing"),
        (("--tokens", "1B", "--model", "./gone"), "name a folder with a config.json"),
    ],
)
def test_no_price_is_made_of_nonsense(ropewalk: Command, words: tuple[str, ...], said: str) -> None:
    told = ropewalk(*SFT, *words)
    failed(told, 2, said, sentences=len(told.err.splitlines()))


def test_the_figures_that_are_known_from_elsewhere_are_shown(ropewalk: Command) -> None:
    """States of four 7B and four 70B models, the balance of an A100, DeepSeek-V3's MFU, hours of a GRPO run."""
    told = " ".join(ropewalk("cost", "--claims").out.split())
    for said in (
        "PPO, four models: 252 GB", "PPO, four of 70 B: 2,520 GB", "GRPO, reward model: 140 GB", "GRPO, rule: 126 GB",
        "FLOPs per byte: 156", "implied MFU: 34.6 %", "at k = 3.5: 919 GPU-hours", "3,300 A100-hours",
    ):  # fmt: skip
        assert said in told, said
    assert "34.6% of 989 TFLOP/s" in ropewalk("cost", "--published").out
