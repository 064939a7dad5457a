"""The table of what changes when a key of a recipe is not at its default; `test_every_field.py` holds it to be true.

`@name` stands for a file or folder that the tests write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]


def gated(**more: Any) -> Settings:
    """The truth counts only where something else is high enough."""
    return {"reward.components.truth.gates": [{"on": "grammatical", **more}]}


def mixed(**more: Any) -> Settings:
    """The truth is judged, the rest verifiable."""
    return {"reward.mix": {"kind": "judged", "judged": ["truth"], **more}}


@dataclass(frozen=True)
class Row:
    """One change and where it shows."""

    fields: str
    """`Section.field`, several with spaces between: all that this change proves."""
    base: str
    """Name in `BASES`."""
    change: Settings
    seen: str = "run"
    """Name of an observer."""
    given: Settings = field(default_factory=dict)
    """Settings that both sides have."""
    against: Settings = field(default_factory=dict)
    """Settings of the other side only."""
    other: str = ""
    """Another base for the other side."""


ONLINE: Settings = {
    "rollout.prompts": 2,
    "task.prompts": 32,
    "stop.iterations": 2,
    "checkpoint.every": 2,
    "hardware.threads": 1,
    "start_from": "@policy",
    "actor.optimizer.lr": 1e-3,
}
PPO: Settings = {
    **ONLINE,
    "rollout.prompts": 6,
    "ppo.epochs": 2,
    "reward_model": "@rm",
    "reward.components.reward_model.normalise.samples": 8,
}
ROWS: Settings = {"start_from": "@policy", "sft.rows_per_step": 4}
PAIRS: Settings = {"data.limit": 48, "data.held_out": 0.2, "pairwise.pairs_per_step": 8, "hardware.threads": 1}
DRAWN: Settings = {"start_from": "@policy", "rollout.prompts": 12, "hardware.threads": 1, "task.prompts": 32}
JUDGED: Settings = {
    **DRAWN,
    "rollout.group_size": 4,
    **{
        f"judges.{name}": {
            "kind": "pairwise",
            "criteria": name,
            "by": {"kind": "server", "model": "judge"},
            "memory": {"kind": "none"},
        }
        for name in ("critic", "other")
    },
    "labels": {"kind": "judge", "judge": "critic", "pairs": 2},
}
NAMED: Settings = {"data.path": "@columns.jsonl", "data.columns.prompt": "a", "data.columns.answer": "m"}
NAMED_SIDES: Settings = {
    "data.path": "@columns.jsonl",
    "data.columns": {"prompt": "a", "solution": "a", "chosen": "b", "rejected": "a"},
}
"""Columns of the file, some of which the row changes."""
GYM: Settings = {"kind": "gym", "generator": "leg_counting", "prompts": 8, "heldout_prompts": 4}
MIXED: Settings = {
    "kind": "mixture",
    "parts": {
        "made": {"task": {"kind": "sums", "prompts": 8, "heldout_prompts": 4}},
        "read": {"task": {"kind": "prompts"}, "data": {"path": "@gold.jsonl"}},
    },
}
BASES: Mapping[str, tuple[str, Settings]] = {
    "grpo": ("@grpo.toml", ONLINE),
    "ppo": ("@ppo.toml", PPO),
    "sft": ("@sft.toml", {"start_from": "@policy", "data.sentences": 40, "sft.rows_per_step": 20}),
    "rows": ("@sft.toml", {**ROWS, "data": {"kind": "documents", "path": "@documents.jsonl"}}),
    "demos": ("@sft.toml", {**ROWS, "data": {"kind": "demonstrations", "path": "@demos.jsonl"}}),
    "fresh": ("@sft.toml", {"model": {"kind": "fresh", "width": 24, "heads": 2, "kv_heads": 2, "ffn": 32}}),
    "rm": ("@rm.toml", {"start_from": "@policy", "data.path": "@pairs/pairs.jsonl", **PAIRS}),
    "sample": ("@sample.toml", DRAWN),
    "labels": ("@sample.toml", JUDGED),
    "city": ("@grpo.toml", {"start_from": "x"}),
    "gsm8k": ("@grpo.toml", {"start_from": "x", "task": {"kind": "gsm8k"}, "data": {"path": "@gsm8k.jsonl"}}),
    "prompts": ("@grpo.toml", {"start_from": "x", "task": {"kind": "prompts"}, "data": {"path": "@gold.jsonl"}}),
    "sums": ("@grpo.toml", {"start_from": "x", "task": {"kind": "sums"}}),
    "gym": ("@grpo.toml", {"start_from": "x", "task": GYM}),
    "chain": ("@chain.toml", {}),
    "mixed": ("@grpo.toml", {"start_from": "x", "rollout.group_size": 2, "task": MIXED}),
    "chosen": ("@grpo.toml", {"start_from": "x", "task.prompts": 32, "rollout.only": "@chosen.jsonl"}),
}
"""Recipes of the tests' own, so that what is not said is a default; the settings make them small."""

EVERY: Settings = {"kind": "every", "iterations": 1}
LINEAR: Settings = {"actor.schedule": {"kind": "linear"}}
COSINE: Settings = {"actor.schedule": {"kind": "cosine"}}
ADAPTIVE: Settings = {"ppo.kl.controller": {"kind": "adaptive"}}
SHARED: Settings = {"critic": "none", "ppo.critic.kind": "shared"}
MEAN: Settings = {"reward.components.truth.normalise": {"kind": "initial_mean", "samples": 2}}
Z_SCORE: Settings = {"reward.components.truth.normalise": {"kind": "z_score"}}
TWO: Settings = {"reward.components.grammatical.weight": 1.0}
LINEAR_LENGTH: Settings = {"reward.length": {"kind": "linear", "at_tokens": 64}}
OVERLONG: Settings = {"reward.length": {"kind": "overlong", "max_tokens": 20, "buffer_tokens": 8}}
COSINE_LENGTH: Settings = {"reward.length": {"kind": "cosine", "on": "truth", "limit_tokens": 20}}
REPETITION: Settings = {"reward.repetition": {"kind": "ngrams"}}
SAVED: Settings = {"checkpoint.every": 1, "actor.optimizer.lr": 1e-2}
TINY: Settings = {"kind": "fresh", "width": 24, "heads": 2, "kv_heads": 2}

PURE: list[Row] = [
    # models
    Row("FreshModel.width", "fresh", {"model.width": 48}, "model"),
    Row("FreshModel.layers", "fresh", {"model.layers": 3}, "model"),
    Row("FreshModel.heads", "fresh", {"model.heads": 4}, "model"),
    Row("FreshModel.kv_heads", "fresh", {"model.kv_heads": 1}, "model"),
    Row("FreshModel.ffn", "fresh", {"model.ffn": 40}, "model"),
    Row("FreshModel.max_positions", "fresh", {"model.max_positions": 48}, "model"),
    Row("FreshModel.tied", "fresh", {"model.tied": True}, "model"),
    Row("FreshModel.init_std", "fresh", {"model.init_std": 0.5}, "model"),
    Row(
        "FolderModel.dtype",
        "grpo",
        {"model.dtype": "bfloat16"},
        "dtype",
        given={"start_from": "none", "model": {"kind": "folder", "path": "@policy"}},
    ),
    # hardware and arithmetic
    Row("Hardware.processes", "grpo", {"hardware.processes": 2}, "setup"),
    Row("Hardware.threads", "grpo", {"hardware.threads": 2}, "threads"),
    Row("Hardware.micro_batch_tokens", "grpo", {"hardware.micro_batch_tokens": 16}, "micro"),
    Row("Precision.activation_checkpointing", "grpo", {"precision.activation_checkpointing": True}, "saved_bytes"),
    *(
        Row(f"Optimizer.{name}", "sft", {f"actor.optimizer.{name}": value}, "stepped")
        for name, value in (
            ("lr", 1e-2),
            ("beta1", 0.5),
            ("beta2", 0.5),
            ("eps", 0.1),
            ("weight_decay", 0.5),
            ("clip_norm", 1e-3),
        )
    ),
    Row("ConstantSchedule.kind", "grpo", {}, "rates", against=LINEAR),
    Row("ConstantSchedule.warmup_steps", "grpo", {"actor.schedule.warmup_steps": 4}, "rates"),
    Row("LinearSchedule.kind", "grpo", {"actor.schedule": {"kind": "linear"}}, "rates"),
    Row(
        "LinearSchedule.warmup_steps",
        "grpo",
        {"actor.schedule.warmup_steps": 4},
        "rates",
        given=LINEAR,
    ),
    Row(
        "LinearSchedule.final_fraction",
        "grpo",
        {"actor.schedule.final_fraction": 0.5},
        "rates",
        given=LINEAR,
    ),
    Row("CosineSchedule.kind", "grpo", {"actor.schedule": {"kind": "cosine"}}, "rates"),
    Row("CosineSchedule.warmup_steps", "grpo", {"actor.schedule.warmup_steps": 4}, "rates", given=COSINE),
    Row("CosineSchedule.final_fraction", "grpo", {"actor.schedule.final_fraction": 0.5}, "rates", given=COSINE),
    # PPO
    Row("PPO.gamma", "ppo", {"ppo.gamma": 0.5}, "maths"),
    Row("PPO.lam", "ppo", {"ppo.lam": 0.5}, "maths"),
    Row("PPO.clip_low", "ppo", {"ppo.clip_low": 0.5}, "maths"),
    Row("PPO.clip_high", "ppo", {"ppo.clip_high": 0.5}, "maths"),
    Row("PPO.whiten", "ppo", {"ppo.whiten": "none"}, "maths"),
    Row("PPO.entropy_coefficient", "ppo", {"ppo.entropy_coefficient": 0.1}, "maths"),
    Row("PPO.value_clip NoValueClip.kind ClipValue.kind", "ppo", {"ppo.value_clip": {"kind": "clip"}}, "maths"),
    Row("ClipValue.range", "ppo", {"ppo.value_clip.range": 0.01}, "maths", given={"ppo.value_clip": {"kind": "clip"}}),
    Row(
        "PPO.critic SeparateCritic.kind SharedCritic.kind",
        "ppo",
        {"ppo.critic.kind": "shared"},
        "maths",
        given={"critic": "none"},
    ),
    Row(
        "SharedCritic.coefficient",
        "ppo",
        {"ppo.critic.coefficient": 0.7},
        "maths",
        given=SHARED,
    ),
    Row(
        "PPO.reduction TokenReduction.kind SequenceReduction.kind",
        "ppo",
        {"ppo.reduction": {"kind": "sequence"}},
        "maths",
    ),
    Row("ConstantReduction.kind", "ppo", {"ppo.reduction": {"kind": "constant"}}, "maths"),
    Row(
        "ConstantReduction.length_tokens",
        "ppo",
        {"ppo.reduction.length_tokens": 8},
        "maths",
        given={"ppo.reduction": {"kind": "constant"}},
    ),
    Row("PPO.kl KLNone.place KLReward.place", "ppo", {"ppo.kl": {"place": "none"}}, "maths"),
    Row("KLReward.coefficient", "ppo", {"ppo.kl.coefficient": 0.5}, "maths"),
    Row("KLReward.estimator", "ppo", {"ppo.kl.estimator": "k3"}, "maths"),
    Row(
        "KLReward.controller FixedController.kind AdaptiveController.kind",
        "ppo",
        ADAPTIVE,
        "maths",
    ),
    Row(
        "AdaptiveController.target_nats_per_sequence",
        "ppo",
        {"ppo.kl.controller.target_nats_per_sequence": 3.1},
        "maths",
        given=ADAPTIVE,
    ),
    Row(
        "AdaptiveController.horizon_sequences",
        "ppo",
        {"ppo.kl.controller.horizon_sequences": 100.0},
        "maths",
        given=ADAPTIVE,
    ),
    Row("KLLoss.place", "ppo", {"ppo.kl": {"place": "loss"}}, "maths"),
    Row("KLLoss.coefficient", "grpo", {"grpo.kl.coefficient": 0.5}, "maths"),
    Row("KLLoss.estimator", "grpo", {"grpo.kl.estimator": "k2"}, "maths"),
    Row("PPO.unfinished KeepUnfinished.kind MaskUnfinished.kind", "ppo", {"ppo.unfinished": {"kind": "mask"}}, "maths"),
    Row("PenaliseUnfinished.kind", "ppo", {"ppo.unfinished": {"kind": "penalty"}}, "maths"),
    Row(
        "PenaliseUnfinished.score",
        "ppo",
        {"ppo.unfinished.score": -9.0},
        "maths",
        given={"ppo.unfinished": {"kind": "penalty"}},
    ),
    # GRPO
    Row("GRPO.baseline", "grpo", {"grpo.baseline": "leave_one_out"}, "maths", given={"grpo.scale": "none"}),
    Row("GRPO.scale", "grpo", {"grpo.scale": "none"}, "maths"),
    Row("GRPO.clip_low", "grpo", {"grpo.clip_low": 0.5}, "maths"),
    Row("GRPO.clip_high", "grpo", {"grpo.clip_high": 0.5}, "maths"),
    Row("GRPO.entropy_coefficient", "grpo", {"grpo.entropy_coefficient": 0.1}, "maths"),
    Row("GRPO.reduction", "grpo", {"grpo.reduction": {"kind": "token"}}, "maths"),
    Row("GRPO.kl", "grpo", {"grpo.kl": {"place": "none"}}, "maths"),
    Row("GRPO.unfinished", "grpo", {"grpo.unfinished": {"kind": "mask"}}, "maths"),
    # rewards
    Row("Component.weight", "grpo", {"reward.components.truth.weight": 2.0}, "composed"),
    Row(
        "Component.normalise Raw.kind InitialMean.kind",
        "grpo",
        {"reward.components.truth.normalise": {"kind": "initial_mean", "samples": 2}},
        "composed",
    ),
    Row(
        "InitialMean.samples",
        "grpo",
        {"reward.components.truth.normalise.samples": 3},
        "composed",
        given=MEAN,
    ),
    Row("Raw.clip", "grpo", {"reward.components.truth.normalise.clip": 0.25}, "composed"),
    Row("InitialMean.clip", "grpo", {"reward.components.truth.normalise.clip": 0.25}, "composed", given=MEAN),
    Row("ZScore.kind", "grpo", Z_SCORE, "composed"),
    Row("ZScore.estimate", "grpo", {"reward.components.truth.normalise.estimate": "batch"}, "composed", given=Z_SCORE),
    Row("ZScore.clip", "grpo", {"reward.components.truth.normalise.clip": 0.25}, "composed", given=Z_SCORE),
    Row("Component.gates", "grpo", gated(), "composed"),
    *(
        Row(f"Gate.{name}", "grpo", gated(**{name: value}), "composed", against=gated())
        for name, value in (("on", "reward_model"), ("at_least", 0.0), ("value", -7.0), ("abstained", "open"))
    ),
    Row("Component.failed", "grpo", {"reward.components.truth.failed": {"timeout": 4.0}}, "composed"),
    Row("Reward.components", "grpo", {"reward.components.grammatical.weight": 1.0}, "composed"),
    Row("Reward.mix NoMix.kind Mix.kind", "grpo", mixed(), "composed", given=TWO),
    *(
        Row(
            f"Mix.{name}", "grpo", mixed(**{"share": 0.8, name: value}), "composed", given=TWO, against=mixed(share=0.8)
        )
        for name, value in (("judged", ["grammatical"]), ("share", 0.9), ("domains", {"b": 0.1}))
    ),
    Row("Reward.length NoLength.kind LinearLength.kind", "grpo", LINEAR_LENGTH, "composed"),
    *(
        Row(f"{section}.{name}", "grpo", {f"reward.length.{name}": value}, "composed", given=given)
        for section, given, changes in (
            ("LinearLength", LINEAR_LENGTH, {"at_tokens": 32, "coefficient": 0.5}),
            ("OverlongBuffer", OVERLONG, {"max_tokens": 15, "buffer_tokens": 10, "coefficient": 0.5}),
            ("CosineLength", COSINE_LENGTH, {"on": "grammatical", "at_least": 0.25, "limit_tokens": 15}),
            ("CosineLength", COSINE_LENGTH, {"right_short": 2.0, "right_long": 0.25, "wrong_short": -3.0}),
            ("CosineLength", COSINE_LENGTH, {"wrong_long": -0.75, "beyond": -9.0}),
        )
        for name, value in changes.items()
    ),
    Row("OverlongBuffer.kind", "grpo", OVERLONG, "composed"),
    Row("CosineLength.kind", "grpo", COSINE_LENGTH, "composed"),
    Row("Reward.repetition NoRepetition.kind RepeatedNgrams.kind", "grpo", REPETITION, "composed"),
    Row("RepeatedNgrams.words", "grpo", {"reward.repetition.words": 1}, "composed", given=REPETITION),
    Row("RepeatedNgrams.coefficient", "grpo", {"reward.repetition.coefficient": 3.0}, "composed", given=REPETITION),
    Row("Reward.failure_limit", "grpo", {"reward.failure_limit": 0.1}, "failures"),
    # sampling and engine
    Row("Gathering.share_prompts", "grpo", {"rollout.share_prompts": True}, "online"),
    Row("NativeEngineConfig.slots", "grpo", {"engine.slots": 3}, "engine"),
    Row("NativeEngineConfig.cache_tokens", "grpo", {"engine.cache_tokens": 64}, "engine"),
    Row("NativeEngineConfig.prefill_tokens", "grpo", {"engine.prefill_tokens": 16}, "engine"),
    Row("NativeEngineConfig.kind PPORecipe.engine", "ppo", {"engine.slots": 3}, "setup"),
    Row("GRPORecipe.engine", "grpo", {"engine.slots": 3}, "setup"),
    Row("SampleRecipe.engine", "sample", {"engine.slots": 3}, "engine"),
    # tasks
    Row("CityTask.prompts", "grpo", {"task.prompts": 16}, "task"),
    Row("CityTask.heldout_prompts", "grpo", {"task.heldout_prompts": 16}, "task"),
    Row("CityTask.seed", "grpo", {"task.seed": 1}, "task"),
    Row("CityTask.kind SumsTask.kind", "grpo", {"task": {"kind": "sums"}}, "task"),
    Row("Gsm8kTask.kind", "gsm8k", {}, "task", other="prompts"),
    Row("Gsm8kTask.instruction", "gsm8k", {"task.instruction": "Say it."}, "task"),
    Row("Gsm8kTask.answer", "gsm8k", {"task.answer": "marked"}, "task"),
    Row("PromptsTask.kind", "prompts", {}, "task", other="sums"),
    Row("PromptsTask.answer", "prompts", {"task.answer": "marked"}, "task"),
    Row("PromptData.path", "gsm8k", {"data.path": "@other.jsonl"}, "task"),
    Row("PromptData.split", "gsm8k", {"data.split": "test"}, "task", given={"data.path": "@parts"}),
    Row("PromptData.max_characters", "gsm8k", {"data.max_characters": 14}, "task"),
    Row("PromptData.columns Columns.prompt", "prompts", {"data.columns.prompt": "b"}, "task", given=NAMED),
    Row("Columns.answer", "prompts", {"data.columns.answer": "b"}, "task", given=NAMED),
    Row("Columns.id", "prompts", {"data.columns.id": "i"}, "task", given=NAMED),
    Row("Columns.messages", "prompts", {"data.columns.messages": "talk"}, "task", given=NAMED),
    Row("Columns.system", "prompts", {"data.columns.system": "a"}, "task", given=NAMED),
    Row("Columns.info", "prompts", {"data.columns.info": {"k": "absent"}}, "task", given=NAMED),
    *(
        Row(f"{section}.{name}", base, {f"data.{name}": value}, "read", given=given)
        for section, base in (("Documents", "rows"), ("Demonstrations", "demos"), ("PairFile", "rm"))
        for name, value, given in (
            ("split", "test", {"data.path": "@parts"}),
            ("max_characters", 22, {"data.path": "@parts"}),
            ("columns", {"prompt": "b", "solution": "a", "text": "a", "chosen": "a", "rejected": "n"}, {}),
        )
    ),
    Row("Columns.text", "rows", {"data.columns.text": "b"}, "read", given={**NAMED, "data.columns.text": "a"}),
    Row("Columns.solution", "demos", {"data.columns.solution": "b"}, "read", given=NAMED_SIDES),
    Row("Columns.chosen", "rm", {"data.columns.chosen": "i"}, "read", given=NAMED_SIDES),
    Row("Columns.rejected", "rm", {"data.columns.rejected": "i"}, "read", given=NAMED_SIDES),
    *(
        Row(f"SumsTask.{name}", "sums", {f"task.{name}": value}, "task")
        for name, value in (
            ("low", 3),
            ("high", 9),
            ("operations", ["-"]),
            ("operands", 3),
            ("style", "plain"),
            ("prompts", 20),
            ("heldout_prompts", 7),
            ("seed", 1),
        )
    ),
    Row("FileTask.kind", "city", {"task": {"kind": "file", "path": "@task.py"}}, "task"),
    Row(
        "FileTask.path",
        "city",
        {"task.path": "@other_task.py"},
        "task",
        given={"task": {"kind": "file", "path": "@task.py"}},
    ),
    Row("GymTask.kind", "gym", {}, "task", other="sums"),
    *(
        Row(f"GymTask.{name}", "gym", {f"task.{name}": value}, "task")
        for name, value in (
            ("generator", "gcd"),
            ("parameters", {"max_animals": 4}),
            ("instruction", "Say it."),
            ("answer", "text"),
            ("prompts", 9),
            ("heldout_prompts", 5),
            ("seed", 1),
        )
    ),
    Row("GivenTask.kind", "city", {"task": {"kind": "given"}}, "task"),
    # monitors
    Row("Record.samples_every", "grpo", {"record.samples_every": 3}, "kept"),
    Row("Record.samples_limit", "grpo", {"record.samples_limit": 7}, "kept"),
    Row("Record.extreme_samples", "grpo", {"record.extreme_samples": 5}, "kept"),
    Row("Record.sinks Tensorboard.kind", "grpo", {"record.sinks": [{"kind": "tensorboard"}]}, "sinks"),
    Row(
        "Tensorboard.folder",
        "grpo",
        {"record.sinks": [{"kind": "tensorboard", "folder": "tb"}]},
        "sinks",
        against={"record.sinks": [{"kind": "tensorboard"}]},
    ),
    Row("Wandb.kind", "grpo", {"record.sinks": [{"kind": "wandb"}]}, "sinks"),
    Row(
        "Wandb.project",
        "grpo",
        {"record.sinks": [{"kind": "wandb", "project": "p"}]},
        "sinks",
        against={"record.sinks": [{"kind": "wandb"}]},
    ),
    Row(
        "Wandb.online",
        "grpo",
        {"record.sinks": [{"kind": "wandb", "online": True}]},
        "sinks",
        against={"record.sinks": [{"kind": "wandb"}]},
    ),
    Row("Trackio.kind", "grpo", {"record.sinks": [{"kind": "trackio"}]}, "sinks"),
    Row(
        "Trackio.project",
        "grpo",
        {"record.sinks": [{"kind": "trackio", "project": "p"}]},
        "sinks",
        against={"record.sinks": [{"kind": "trackio"}]},
    ),
    *(
        Row(f"Health.{name}", "grpo", {f"health.{name}": value}, "diagnosed")
        for name, value in (
            ("window", 4),
            ("truncated_above", 0.99),
            ("truncated", "stop"),
            ("no_variance", "warn"),
            ("zero_gradient", "warn"),
            ("failed_above", 0.6),
            ("failed", "stop"),
            ("entropy_fraction", 0.01),
            ("entropy", "stop"),
            ("kl_above", 2.0),
            ("kl", "stop"),
        )
    ),
    Row("SFTRecipe.health", "sft", {"health.zero_gradient": "warn"}, "diagnosed"),
    Row("RewardModelRecipe.health", "rm", {"health.zero_gradient": "warn"}, "diagnosed"),
    # methods and chains
    Row("PPORecipe.method PPORecipe.ppo", "ppo", {}, "graph", other="grpo"),
    Row("GRPORecipe.method GRPORecipe.grpo", "grpo", {}, "graph", other="sft"),
    Row("SFTRecipe.method", "sft", {}, "graph", other="rm"),
    Row("RewardModelRecipe.method", "rm", {}, "graph", other="sample"),
    Row("SampleRecipe.method", "sample", {}, "graph", other="chain"),
    Row("StagesRecipe.method", "chain", {}, "graph", other="ppo"),
    Row("StagesRecipe.seed", "chain", {"seed": 1}, "stages"),
    Row("StagesRecipe.stage", "chain", {"stage": [{"name": "a", "recipe": "city-pretrain"}]}, "stages"),
    Row("Stage.name", "chain", {"stage.1.name": "z"}, "stages"),
    Row("Stage.recipe", "chain", {"stage.0.recipe": "city-grpo"}, "stages"),
    Row("Stage.set", "chain", {"stage.0.set": {"rollout.prompts": 3}}, "stages"),
    Row("Stage.cache", "chain", {"stage.2.cache": True}, "stages"),
]
