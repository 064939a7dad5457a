"""The rows of the table for learned rewards, process reward models and labelled steps; see `fields_table`."""

from collections.abc import Mapping
from typing import Any

from tests.runtime.fields_table import BASES, EVERY, ONLINE, Row, Settings

GOOD: Settings = {"folders": ["@rm", "@other-rm"]}
STEPS: Settings = {
    "start_from": "@policy",
    "data": {"path": "@steps.jsonl", "step": " and", "held_out": 0.2},
    "process.rows_per_step": 4,
    "hardware.threads": 1,
}
LABELS: Settings = {"labels": {"kind": "steps", "step": " and", "rollouts": 3}, "rollout.prompts": 6}
NAMED: Settings = {"data.path": "@columns.jsonl", "data.columns": {"prompt": "a", "steps": "s", "labels": "l"}}
OWN_BASES: Mapping[str, tuple[str, Settings]] = {
    "learned": ("@grpo.toml", {**ONLINE, "reward_models": {"good": GOOD}}),
    "plain": ("@ppo.toml", {**ONLINE, "reward_model": "@rm"}),
    "prm": ("@prm.toml", STEPS),
    "stepwise": ("@sample.toml", {**BASES["sample"][1], **LABELS}),
}
NEW: Settings = {"start_from": "none", "model": {"kind": "folder", "path": "@other"}}
WIDE: Settings = {"folders": ["@heads"], "read": {"kind": "heads", "weights": {"help": 1.0}}}


def good(change: Settings, given: Settings | None = None) -> dict[str, Any]:
    changed = {f"reward_models.good.{name}": value for name, value in change.items()}
    base = {f"reward_models.good.{name}": value for name, value in (given or {}).items()}
    return {"change": changed, "seen": "rewarded", "given": base}


LEARNED: list[Row] = [
    Row("PPORecipe.reward_models", "plain", {"reward_models": {"good": GOOD}}, "graph"),
    Row("GRPORecipe.reward_models", "learned", {"reward_models": {"good": GOOD, "more": GOOD}}, "graph"),
    Row("LearnedReward.folders", "learned", **good({"folders": ["@rm"]})),
    Row("LearnedReward.offsets", "learned", **good({"offsets": [0.5, 0.0]})),
    Row("LearnedReward.combine Mean.kind Min.kind", "learned", **good({"combine": {"kind": "min"}})),
    Row("MeanMinusStd.kind", "learned", **good({"combine": {"kind": "mean_minus_std"}})),
    Row("MeanMinusStd.k", "learned", **good({"combine.k": 2.0}, {"combine": {"kind": "mean_minus_std"}})),
    Row("LearnedReward.read LastToken.kind Process.kind", "learned", **good({"read": {"kind": "process"}})),
    Row("Process.step", "learned", **good({"read.step": " and"}, {"read": {"kind": "process"}})),
    Row("Process.combine", "learned", **good({"read.combine": "last"}, {"read": {"kind": "process", "step": " and"}})),
    Row("Heads.kind", "learned", {"reward_models": {"good": WIDE}}, "graph"),
    Row("Heads.weights", "learned", **good({"read.weights.safe": 0.5}, WIDE)),
    # rows of steps
    Row("ProcessRewardModelRecipe.method", "prm", {}, "graph", other="rm"),
    Row("ProcessRewardModelRecipe.health", "prm", {"health.zero_gradient": "warn"}, "diagnosed"),
    Row("StepFile.path", "prm", {"data.path": "@few_steps.jsonl"}, "step_ids"),
    Row("StepFile.step", "prm", {"data.step": " is"}, "step_ids"),
    Row("StepFile.max_tokens", "prm", {"data.max_tokens": 7}, "step_ids"),
    Row("StepFile.held_out", "prm", {"data.held_out": 0.5}, "step_ids"),
    Row("StepFile.limit", "prm", {"data.limit": 9}, "step_ids"),
    Row("StepFile.split", "prm", {"data.split": "test"}, "read", given={"data.path": "@parts"}),
    Row("StepFile.system", "prm", {"data.system": "Be brief."}, "read"),
    Row("StepFile.max_characters", "prm", {"data.max_characters": 24}, "read"),
    Row(
        "StepFile.columns",
        "prm",
        {"data.columns": NAMED["data.columns"]},
        "read",
        given={"data.path": "@columns.jsonl"},
    ),
    Row("Columns.steps", "prm", {"data.columns.steps": "s2"}, "read", given=NAMED),
    Row("Columns.labels", "prm", {"data.columns.labels": "l2"}, "read", given=NAMED),
]

TRAINED: list[Row] = [
    *(
        Row(f"ProcessRewardModelRecipe.{name}", "prm", change)
        for name, change in (
            ("seed", {"seed": 1}),
            ("model", NEW),
            ("start_from", {"start_from": "@other"}),
            ("hardware", {"hardware.device": "cuda:7"}),
            ("precision", {"precision.dtype": "bf16"}),
            ("checkpoint", {"checkpoint.every": 1, "checkpoint.keep": 9}),
            ("record", {"record.sinks": [{"kind": "tensorboard"}]}),
            ("actor", {"actor.optimizer.lr": 1e-2}),
            ("stop_minutes", {"stop_minutes": 1e-7}),
            ("evaluate", {"evaluate": EVERY}),
            ("data", {"data.path": "@few_steps.jsonl"}),
        )
    ),
    Row("ProcessRewardModelRecipe.process ProcessRewardModel.epochs", "prm", {"process.epochs": 2}),
    Row("ProcessRewardModel.rows_per_step", "prm", {"process.rows_per_step": 8}),
    Row("StepLabels.kind", "stepwise", {}, other="sample"),
    Row("StepLabels.step", "stepwise", {"labels.step": " the"}),
    Row("StepLabels.rollouts", "stepwise", {"labels.rollouts": 5}),
    Row("StepLabels.label", "stepwise", {"labels.label": "any"}),
]
