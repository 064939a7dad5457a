"""What published runs took, and the MFU that their figures imply: 6 x active parameters x tokens over hours x peak.

GPU-hours, tokens and parameters are measured by those who published them; the MFU is computed here.
"""

from dataclasses import dataclass

from ropewalk.planner.price.flops import TRAIN

HOUR = 3600.0
A100_BF16 = 312e12
H100_BF16 = 989e12
"""Dense; the H800 has the same."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One pretraining run."""

    model: str
    active_parameters: float
    tokens: float
    gpu: str
    peak_flops: float
    gpu_hours: float
    source: str

    @property
    def implied_mfu(self) -> float:
        """Share of the bf16 peak, by 6 N D."""
        return TRAIN * self.active_parameters * self.tokens / (self.gpu_hours * HOUR * self.peak_flops)


@dataclass(frozen=True, slots=True)
class PublishedHours:
    """A run whose tokens were not published: GPUs and hours only."""

    model: str
    gpu: str
    gpus: int
    hours: float
    source: str

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.hours


_LLAMA1 = "LLaMA paper (Touvron et al. 2023), table 15"
_LLAMA2 = "Llama 2 paper (Touvron et al. 2023) and model card"
_LLAMA3 = "Llama 3 model card"
_LLAMA31 = "Llama 3.1 model card"
_V3 = "DeepSeek-V3 report (2024), pretraining alone"
_R1 = "DeepSeek-R1 paper (2025), table 7"

RUNS: tuple[PublishedRun, ...] = (
    PublishedRun("LLaMA 7B", 6.7e9, 1.0e12, "A100", A100_BF16, 82_432, _LLAMA1),
    PublishedRun("LLaMA 65B", 65.2e9, 1.4e12, "A100", A100_BF16, 1_022_362, _LLAMA1),
    PublishedRun("Llama 2 7B", 6.74e9, 2.0e12, "A100", A100_BF16, 184_320, _LLAMA2),
    PublishedRun("Llama 2 13B", 13.0e9, 2.0e12, "A100", A100_BF16, 368_640, _LLAMA2),
    PublishedRun("Llama 2 70B", 69.0e9, 2.0e12, "A100", A100_BF16, 1_720_320, _LLAMA2),
    PublishedRun("Llama 3 8B", 8.03e9, 15e12, "H100", H100_BF16, 1.3e6, _LLAMA3),
    PublishedRun("Llama 3 70B", 70.6e9, 15e12, "H100", H100_BF16, 6.4e6, _LLAMA3),
    PublishedRun("Llama 3.1 405B", 405e9, 15e12, "H100", H100_BF16, 30.84e6, _LLAMA31),
    PublishedRun("DeepSeek-V3", 37e9, 14.8e12, "H800", H100_BF16, 2.664e6, _V3),
)

R1_TOTAL_GPU_HOURS = 147e3
"""What the paper gives for R1-Zero, R1 and the supervised data (5 K) together: 294 K dollars at 2 an hour."""

HOURS: tuple[PublishedHours, ...] = (
    PublishedHours("DeepSeek-R1-Zero", "H800", 512, 198, _R1),
    PublishedHours("DeepSeek-R1", "H800", 512, 80, _R1),
)


def run(model: str) -> PublishedRun:
    """The published run of a model of the table."""
    return next(found for found in RUNS if found.model == model)
