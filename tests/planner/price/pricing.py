"""Shapes, GPUs and graphs by their data sheets, for the tests of prices."""

from collections.abc import Mapping

from ropewalk.algorithms.config import GRPO, PPO, SFT, KLReward
from ropewalk.algorithms.methods import grpo, ppo, sft
from ropewalk.plan.cluster import Gpu
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import Experts, ModelShape

A100 = Gpu("a100", {"bf16": 312e12, "tf32": 156e12, "fp32": 19.5e12}, 80e9, 2.0e12, 2.0, "data sheet")
H100 = Gpu("h100", {"bf16": 989e12, "tf32": 494.5e12, "fp32": 67e12}, 80e9, 3.35e12, 3.0, "data sheet")

SMALL = ModelShape(152_064, 3584, 28, 28, 4, 128, 18_944, False, 32_768)
"""7.6 B parameters and 4 kv heads."""
LLAMA_7B = ModelShape(32_000, 4096, 32, 32, 32, 128, 11_008, False, 4096)
MIXTURE = ModelShape(
    151_936, 2048, 48, 32, 4, 128, 6144, False, 40_960, experts=Experts(count=128, per_token=8, ffn=768)
)
"""30 B parameters, of which 3 B active."""

PPO_GRAPH = ppo.graph(PPO(kl=KLReward()), learned_reward=True)
GRPO_GRAPH = grpo.graph(GRPO(), learned_reward=False)
SFT_GRAPH = sft.graph(SFT())

GRAPHS: Mapping[str, CallGraph] = {
    "sft": SFT_GRAPH,
    "ppo": PPO_GRAPH,
    "grpo": GRPO_GRAPH,
    "grpo-old": grpo.graph(GRPO(minibatches=2), learned_reward=False),
    "grpo-learned": grpo.graph(GRPO(), learned_reward=True),
}
