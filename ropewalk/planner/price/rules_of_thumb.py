"""Rules of thumb that are passed around, against arithmetic: each figure, and so each verdict, is computed on demand.

A rule holds when every judged figure lies within 5 % of what is claimed, is wrong when none does, else it depends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.plan.cluster import Gpu
from ropewalk.plan.shape import FAMILIES, ModelShape
from ropewalk.planner.case.graphs import method_graph
from ropewalk.planner.price.decoding import balance, decode_mfu
from ropewalk.planner.price.figure import How
from ropewalk.planner.price.flops import TRAIN, relative_cost
from ropewalk.planner.price.held import ZERO1_REPLICATED, ZERO1_SHARDED, Held, held
from ropewalk.planner.price.published import HOUR, HOURS, run

Verdict: TypeAlias = Literal["wrong", "holds", "depends"]
DAY_GPU_HOURS = 24.0
GB = 1e9


TOLERANCE = 0.05
QWEN_7B = ModelShape(152_064, 3584, 28, 28, 4, 128, 18_944, False, 32_768, traits=FAMILIES["qwen2"])
"""Qwen2.5-7B: the 7.6 B parameters of which the rules on memory and decoding speak."""


@dataclass(frozen=True, slots=True)
class Value:
    """One computed figure of a finding."""

    what: str
    value: float
    unit: str = ""
    judged: bool = True
    """False for what is shown beside it."""
    how: How = "estimated"


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule, what is said, and what comes out."""

    name: str
    said: str
    claimed: tuple[float, float]
    """Lowest and highest value that agree with what is said."""
    values: tuple[Value, ...]
    because: str

    @property
    def verdict(self) -> Verdict:
        low, high = self.claimed[0] * (1 - TOLERANCE), self.claimed[1] * (1 + TOLERANCE)
        agreeing = [low <= value.value <= high for value in self.values if value.judged]
        return "holds" if all(agreeing) else "depends" if any(agreeing) else "wrong"

    def __getitem__(self, what: str) -> float:
        for value in self.values:
            if value.what == what:
                return value.value
        raise KeyError(what)


@dataclass(frozen=True, slots=True)
class Material:
    """The GPUs that rules are about."""

    a100: Gpu
    h100: Gpu


def findings(a100: Gpu, h100: Gpu) -> tuple[Finding, ...]:
    """Every rule, computed."""
    material = Material(a100, h100)
    return tuple(rule(material) for rule in RULES)


def formula_hours(parameters: float, tokens: float, *, relative: float, peak_flops: float, mfu: float) -> float:
    """GPU-hours = k x 6 N D / (MFU x peak x 3,600)."""
    return relative * TRAIN * parameters * tokens / (mfu * peak_flops * HOUR)


def _k(method: str, *, update_epochs: int = 1) -> float:
    return relative_cost(method_graph(method), update_epochs=update_epochs)


def _held(method: str, shape: ModelShape) -> Held:
    graph = method_graph(method)
    return held(graph, dict.fromkeys(graph.roles, shape))


def _grpo_factor(_: Material) -> Finding:
    values = (
        Value("counted", _k("grpo+rule-reward")),
        Value("with old log-probs recomputed", _k("grpo+rule-reward+old-logprobs")),
        Value("with a reward model", _k("grpo")),
    )
    because = "generating 2 and the reference 2 beside the update's 6 make 10 FLOPs, of 6 for a training pass"
    return Finding("GRPO factor", "a GRPO token costs 3.5 training passes", (3.5, 3.5), values, because)


def _grpo_hours(m: Material) -> Finding:
    tokens = 100e3 * 8 * 1024 * 3
    peak = m.a100.flops["bf16"]

    def hours(relative: float) -> float:
        return formula_hours(7e9, tokens, relative=relative, peak_flops=peak, mfu=0.35)

    values = (
        Value("at k = 3.5", hours(3.5), "GPU-hours"),
        Value("at k = 2.0", hours(_k("grpo+rule-reward+old-logprobs")), "GPU-hours"),
        Value("at k = 1.67", hours(_k("grpo+rule-reward")), "GPU-hours"),
        Value("8 GPUs in a day", 8 * DAY_GPU_HOURS, "GPU-hours", judged=False),
        Value("at k = 3.5, $2", 2 * hours(3.5), "$", judged=False),
        Value("at k = 2.0, $2", 2 * hours(_k("grpo+rule-reward+old-logprobs")), "$", judged=False),
    )
    said = "7B GRPO, 100k prompts x 8 x 1,024 tokens x 3 epochs, takes 3,300 A100-hours at 35 % MFU"
    because = "that formula gives 3.3 million GPU-seconds, and an hour has 3,600 of them, not 1,000"
    return Finding("GRPO hours", said, (3300, 3300), values, because)


def _one_card(m: Material) -> Finding:
    states = _held("grpo+rule-reward", QWEN_7B)
    trained = states.by_role["actor"]
    values = (
        Value("trained", trained / GB, "GB", judged=False),
        Value(
            "reference and rollout copies", (states.bytes - trained + states.engine_copy_bytes) / GB, "GB", judged=False
        ),
        Value("together", (states.bytes + states.engine_copy_bytes) / GB, "GB"),
        Value("one card", m.a100.memory_bytes / GB, "GB", judged=False, how="assumed"),
    )
    because = "16 bytes a trained parameter and 2 for each copy, before activations and KV"
    return Finding("one card", "7B GRPO fits one 80 GB card", (0, 80), values, because)


def _rlhf_memory(_: Material) -> Finding:
    def states(method: str, parameters: float = 7e9) -> float:
        return _held(method, QWEN_7B).bytes * parameters / QWEN_7B.parameters / GB

    values = (
        Value("GRPO over SFT", states("grpo") / states("sft"), "x"),
        Value("SFT", states("sft"), "GB", judged=False),
        Value("PPO, four models", states("ppo"), "GB", judged=False),
        Value("PPO, four of 70 B", states("ppo", 70e9), "GB", judged=False),
        Value("GRPO, reward model", states("grpo"), "GB", judged=False),
        Value("GRPO, rule", states("grpo+rule-reward"), "GB", judged=False),
        Value("PPO over SFT", states("ppo") / states("sft"), "x"),
    )
    because = (
        "only actor and critic carry 16 bytes a parameter, reference and reward model 2 (7 B parameters where not said)"
    )
    return Finding("RLHF memory", "RLHF needs 4 times the memory of SFT", (4, 4), values, because)


def _zero1(_: Material) -> Finding:
    values = (
        Value("sharded", float(ZERO1_SHARDED), "bytes a parameter"),
        Value("kept by every rank", float(ZERO1_REPLICATED), "bytes a parameter", judged=False),
    )
    because = "the fp32 master and two moments are sharded; bf16 weights and gradients stay on every rank"
    return Finding("ZeRO-1", "ZeRO-1 shards all 16 bytes of a parameter", (16, 16), values, because)


def _ppo_over_sft(_: Material) -> Finding:
    values = tuple(Value(f"e = {e}", _k("ppo", update_epochs=e) / _k("sft"), "x") for e in (1, 2, 3, 4))
    because = "(8 + 12 e)/6 FLOPs for e passes over the batch; in time it may be more, as decoding waits for memory"
    return Finding("PPO over SFT", "PPO costs 5 to 10 times SFT", (5, 10), values, because)


def _grpo_over_ppo(_: Material) -> Finding:
    values = (
        Value("learned reward", _k("grpo") / _k("ppo")),
        Value("rule", _k("grpo+rule-reward") / _k("ppo")),
        Value("learned reward, 4 epochs", _k("grpo", update_epochs=4) / _k("ppo", update_epochs=4)),
    )
    because = (
        "per token and with one epoch; more samples a prompt raise it, and the reward model's training is not saved"
    )
    return Finding("GRPO over PPO", "GRPO costs 60 % of PPO", (0.6, 0.6), values, because)


def _sft_flops(_: Material) -> Finding:
    values = (Value("counted", TRAIN * _k("sft"), "FLOPs a parameter and token"),)
    because = "2 is the forward pass alone; the backward pass takes twice as much"
    return Finding("SFT FLOPs", "SFT costs 2 FLOPs per parameter and token", (2, 2), values, because)


def _deepseek(_: Material) -> Finding:
    published = run("DeepSeek-V3")

    def hours(parameters: float) -> float:
        return formula_hours(parameters, published.tokens, relative=1, peak_flops=published.peak_flops, mfu=0.45) / 1e6

    values = (
        Value("all 671 B at 45 %", hours(671e9), "M GPU-hours"),
        Value("active 37 B at 45 %", hours(published.active_parameters), "M GPU-hours", judged=False),
        Value("published", published.gpu_hours / 1e6, "M GPU-hours", judged=False, how="measured"),
        Value("implied MFU", 100 * published.implied_mfu, "%", judged=False),
    )
    said = "DeepSeek-V3's hours confirm 6 x 671 B x 14.8 T at 45 % MFU"
    because = "only active parameters compute; all of them lie in memory"
    return Finding("DeepSeek-V3", said, (2.664, 2.664), values, because)


def _r1_zero(_: Material) -> Finding:
    zero = next(found for found in HOURS if found.model == "DeepSeek-R1-Zero")
    values = (
        Value("13 days x 512", 13 * DAY_GPU_HOURS * 512, "GPU-hours"),
        Value("published", zero.gpu_hours, "GPU-hours", how="measured"),
    )
    said = "R1-Zero took 128 K GPU-hours: 13 days on 512 GPUs"
    return Finding(
        "R1-Zero", said, (128e3, 128e3), values, "the product is not what it is said to be, nor what was published"
    )


def _llama(_: Material) -> Finding:
    models = ("Llama 3 8B", "Llama 3 70B", "Llama 3.1 405B", "Llama 2 70B")
    values = tuple(Value(name, 100 * run(name).implied_mfu, "%") for name in models)
    return Finding(
        "Llama 3 MFU",
        "large pretraining runs reach 40 to 50 % MFU",
        (40, 50),
        values,
        "hours as published may hold restarts and evaluation, and a faster chip is harder to feed",
    )


def _number_formats(m: Material) -> Finding:
    values = []
    for gpu in (m.a100, m.h100):
        values += [
            Value(f"{gpu.name} over {dtype}", gpu.flops["bf16"] / gpu.flops[dtype], "x")
            for dtype in ("tf32", "fp32")
            if dtype in gpu.flops
        ]
    because = "twice TF32, which rounds products to 10 bits; true fp32 has no tensor cores"
    return Finding("bf16 over fp32", "bf16 is twice as fast as fp32", (2, 2), tuple(values), because)


def _one_mfu(m: Material) -> Finding:
    values = tuple(
        Value(f"batch {batch}", 100 * decode_mfu(QWEN_7B, m.a100, batch=batch, context=DECODE_CONTEXT), "%")
        for batch in (1, 8, 32, 128)
    )
    because = "a step reads all weights however few sequences share it (7.6 B, A100, 576 tokens of context)"
    return Finding("one MFU", "one MFU of 30 to 45 % prices every call, decoding too", (30, 45), values, because)


def _balance(m: Material) -> Finding:
    values = (Value("FLOPs per byte", balance(m.a100)),)
    because = "312 TFLOP/s over 2.0 TB/s; below it a kernel waits for memory, and decoding does about one per sequence"
    return Finding("A100 balance", "an A100 balances at 156 FLOPs a byte", (156, 156), values, because)


DECODE_CONTEXT = 128 + 896 / 2
"""Mean context over an answer of 896 tokens to a prompt of 128."""

RULES: tuple[Callable[[Material], Finding], ...] = (
    _grpo_factor,
    _grpo_hours,
    _one_card,
    _rlhf_memory,
    _zero1,
    _ppo_over_sft,
    _grpo_over_ppo,
    _sft_flops,
    _deepseek,
    _r1_zero,
    _llama,
    _number_formats,
    _one_mfu,
    _balance,
)
