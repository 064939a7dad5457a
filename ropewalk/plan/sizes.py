"""Models by the name of their size, each with the shape of a public model; or by a folder, or its config.json."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ropewalk.plan.shape import FAMILIES, Experts, LatentAttention, ModelShape
from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Size:
    """A named size."""

    shape: ModelShape
    like: str
    """The public model that has this shape."""


def _llama(vocabulary: int, width: int, layers: int, heads: int, kv_heads: int, ffn: int) -> ModelShape:
    return ModelShape(
        vocabulary, width, layers, heads, kv_heads, width // heads, ffn, tied=width < 4096, max_positions=131_072
    )


def _llama2(width: int, layers: int, heads: int, kv_heads: int, ffn: int) -> ModelShape:
    return ModelShape(32_000, width, layers, heads, kv_heads, 128, ffn, tied=False, max_positions=4096)


def _qwen2(vocabulary: int, width: int, layers: int, heads: int, kv_heads: int, ffn: int) -> ModelShape:
    return ModelShape(
        vocabulary,
        width,
        layers,
        heads,
        kv_heads,
        width // heads,
        ffn,
        tied=width < 3584,
        max_positions=32_768,
        traits=FAMILIES["qwen2"],
    )


def _qwen3(
    width: int, layers: int, heads: int, kv_heads: int, ffn: int, *, tied: bool = False, experts: Experts | None = None
) -> ModelShape:
    return ModelShape(
        151_936,
        width,
        layers,
        heads,
        kv_heads,
        128,
        ffn,
        tied=tied,
        max_positions=40_960,
        traits=FAMILIES["qwen3_moe" if experts else "qwen3"],
        experts=experts,
    )


def _mixtral(vocabulary: int, width: int, layers: int, heads: int, ffn: int) -> ModelShape:
    return ModelShape(
        vocabulary,
        width,
        layers,
        heads,
        8,
        128,
        ffn,
        tied=False,
        max_positions=32_768,
        experts=Experts(count=8, per_token=2, ffn=ffn),
    )


DEEPSEEK_V3 = ModelShape(
    vocabulary=129_280,
    width=7168,
    layers=61,
    heads=128,
    kv_heads=128,
    head_dim=192,
    ffn=18_432,
    tied=False,
    max_positions=163_840,
    experts=Experts(count=256, per_token=8, ffn=2048, shared=1, dense_layers=3),
    latent=LatentAttention(kv_rank=512, query_rank=1536, rope_dim=64, nope_dim=128, value_dim=128),
)
"""Without its module for predicting several tokens, which is no part of the 671 B that it is named by."""

SIZES: Mapping[str, Size] = {
    "135m": Size(ModelShape(49_152, 576, 30, 9, 3, 64, 1536, tied=True, max_positions=8192), "SmolLM2-135M"),
    "0.5b": Size(_qwen2(151_936, 896, 24, 14, 2, 4864), "Qwen2.5-0.5B"),
    "0.6b": Size(_qwen3(1024, 28, 16, 8, 3072, tied=True), "Qwen3-0.6B"),
    "1b": Size(_llama(128_256, 2048, 16, 32, 8, 8192), "Llama-3.2-1B"),
    "1.5b": Size(_qwen2(151_936, 1536, 28, 12, 2, 8960), "Qwen2.5-1.5B"),
    "1.7b": Size(_qwen3(2048, 28, 16, 8, 6144, tied=True), "Qwen3-1.7B"),
    "3b": Size(_llama(128_256, 3072, 28, 24, 8, 8192), "Llama-3.2-3B"),
    "4b": Size(_qwen3(2560, 36, 32, 8, 9728, tied=True), "Qwen3-4B"),
    "7b": Size(_llama2(4096, 32, 32, 32, 11_008), "Llama-2-7B"),
    "8b": Size(_llama(128_256, 4096, 32, 32, 8, 14_336), "Llama-3.1-8B"),
    "13b": Size(_llama2(5120, 40, 40, 40, 13_824), "Llama-2-13B"),
    "14b": Size(_qwen3(5120, 40, 40, 8, 17_408), "Qwen3-14B"),
    "32b": Size(_qwen3(5120, 64, 64, 8, 25_600), "Qwen3-32B"),
    "34b": Size(_llama2(8192, 48, 64, 8, 22_016), "CodeLlama-34B"),
    "70b": Size(_llama2(8192, 80, 64, 8, 28_672), "Llama-2-70B"),
    "72b": Size(_qwen2(152_064, 8192, 80, 64, 8, 29_568), "Qwen2.5-72B"),
    "405b": Size(_llama(128_256, 16_384, 126, 128, 8, 53_248), "Llama-3.1-405B"),
    "8x7b": Size(_mixtral(32_000, 4096, 32, 32, 14_336), "Mixtral-8x7B"),
    "8x22b": Size(_mixtral(32_768, 6144, 56, 48, 16_384), "Mixtral-8x22B"),
    "30b-a3b": Size(_qwen3(2048, 48, 32, 4, 6144, experts=Experts(128, 8, 768)), "Qwen3-30B-A3B"),
    "235b-a22b": Size(_qwen3(4096, 94, 64, 4, 12_288, experts=Experts(128, 8, 1536)), "Qwen3-235B-A22B"),
    "deepseek-v3": Size(DEEPSEEK_V3, "DeepSeek-V3"),
}


def shape_of(model: str | Path, *, beside: Path | None = None) -> ModelShape:
    """A size name (in any case), a model folder or a config.json; relative paths start at `beside`.

    Raises InputError with the nearest valid name.
    """
    known = SIZES.get(str(model).lower())
    if known is not None:
        return known.shape
    path = (beside or Path()) / model
    if path.is_dir() and str(model):
        path /= "config.json"
    if path.is_file():
        return _read(path)
    name = str(model)
    if "/" in name or name.endswith(".json") or isinstance(model, Path):
        raise InputError(f"there is no model at {path}: name a folder with a config.json, or a size such as '7b'")
    raise InputError(f"unknown model size {name!r}: did you mean {_nearest(name)!r}? (known: {', '.join(SIZES)})")


def _read(path: Path) -> ModelShape:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a model's config.json: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a model's config.json: it holds no table of sizes")
    try:
        shape = ModelShape.from_config(config)
    except InputError as error:
        raise InputError(f"{path}: {str(error).removeprefix('config.json gives ')}") from None
    return shape if shape.exact else _held_against_weights(shape, path.parent)


MOST_OFF = 0.1
"""By which an unknown family may differ from a Llama of its sizes and still be planned as one."""


def _held_against_weights(shape: ModelShape, folder: Path) -> ModelShape:
    """An unknown family's count beside what its weights hold. Raises InputError where the two have little in common."""
    held = held_parameters(folder)
    counted = f"{shape.parameters:,} parameters"
    if held is None:
        return replace(shape, doubt=f"{shape.doubt}: {counted}, and no weights beside its config.json to check that by")
    off = shape.parameters / held - 1.0
    if abs(off) > MOST_OFF:
        raise InputError(
            f"{folder}: {shape.doubt}, which makes {counted}, and its weights hold {held:,}: give a size "
            "such as '7b' that comes near"
        )
    return replace(shape, doubt=f"{shape.doubt}: {counted}, {off:+.1%} of what its weights hold")


def held_parameters(folder: Path) -> int | None:
    """Numbers in all *.safetensors files of a folder, from their headers; None without any that can be read.

    A file starts with the length of its header, 8 bytes with the lowest first, and the header is JSON: a shape for
    each name (https://huggingface.co/docs/safetensors).
    """
    try:
        return sum(_in_file(path) for path in sorted(folder.glob("*.safetensors"))) or None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _in_file(path: Path) -> int:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text = file.read(min(size, MOST_HEADER_BYTES))
    if len(text) != size:
        raise ValueError(f"{path} ends within its header")
    return sum(math.prod(tensor["shape"]) for name, tensor in json.loads(text).items() if name != "__metadata__")


MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""


def _nearest(name: str) -> str:
    """The size nearest in value for a name that starts with a number, else the name most alike."""
    number = _billions(name)
    if number is not None:
        return min(SIZES, key=lambda size: abs(SIZES[size].shape.parameters / 1e9 - number))
    return get_close_matches(name.lower(), SIZES, n=1, cutoff=0.0)[0] if name else "7b"


def _billions(name: str) -> float | None:
    digits = name.lower().removesuffix("b").removesuffix("m")
    try:
        return float(digits) / (1000 if name.lower().endswith("m") else 1)
    except ValueError:
        return None
