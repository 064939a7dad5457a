"""The rows of the table that a short run shows; see `fields_table`."""

from tests.runtime.fields_episodes import EPISODES
from tests.runtime.fields_judges import JUDGES, LABELLED
from tests.runtime.fields_learned import LEARNED, TRAINED
from tests.runtime.fields_prompts import CHOSEN, PROMPTS
from tests.runtime.fields_scorers import PROGRAMS, SCORERS
from tests.runtime.fields_table import EVERY, PURE, SAVED, TINY, Row
from tests.runtime.fields_worlds import WORLDS

NEW = {"start_from": "none", "model": {"kind": "folder", "path": "@other"}}
RUN: list[Row] = [
    # each recipe hands on each of its sections
    *(
        Row(f"{recipe}.{name}", base, change, given=given)
        for recipe, base in (("PPORecipe", "ppo"), ("GRPORecipe", "grpo"))
        for name, change, given in (
            ("seed", {"seed": 1}, {}),
            ("model", NEW, {}),
            ("start_from", {"start_from": "@other"}, {}),
            ("hardware", {"hardware.device": "cuda:7"}, {}),
            ("precision", {"precision.dtype": "bf16"}, {}),
            ("checkpoint", {"checkpoint.every": 1, "checkpoint.keep": 9}, {}),
            ("record", {"record.rollouts": True}, {}),
            ("health", {"health.window": 1}, {"sampling.max_new_tokens": 1}),
            ("task", {"task.seed": 1}, {}),
            ("data", {"data.path": "@gold.jsonl"}, {}),
            ("rollout", {"rollout.prompts": 3}, {}),
            ("sampling", {"sampling.temperature": 0.7}, {}),
            ("reward", {"reward.components.truth.weight": 2.0}, {}),
            ("reference", {"reference.path": "@other"}, {}),
            ("actor", {"actor.optimizer.lr": 1e-2}, {}),
            ("evaluate", {"evaluate": EVERY}, {}),
            ("stop", {"stop.iterations": 1}, {}),
        )
    ),
    *(
        Row(f"{recipe}.{name}", base, change)
        for recipe, base in (("SFTRecipe", "sft"), ("RewardModelRecipe", "rm"))
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
        )
    ),
    *(
        Row(f"SampleRecipe.{name}", "sample", change)
        for name, change in (
            ("seed", {"seed": 1}),
            ("model", NEW),
            ("start_from", {"start_from": "@other"}),
            ("hardware", {"hardware.device": "cuda:7"}),
            ("task", {"task.seed": 1}),
            ("data", {"data.path": "@gold.jsonl"}),
            ("split", {"split": "heldout"}),
            ("rollout", {"rollout.prompts": 13}),
            ("sampling", {"sampling.temperature": 0.7}),
        )
    ),
    Row("SampleRecipe.labels NoLabels.kind BradleyTerryLabels.kind", "sample", {"labels": {"kind": "none"}}),
    Row("PPORecipe.reward_model", "ppo", {"reward_model": "none"}, given={"critic.start": "policy"}),
    Row("GRPORecipe.reward_model", "grpo", {"reward_model": "@rm"}),
    Row("PPORecipe.critic CriticLearner.optimizer", "ppo", {"critic.optimizer.lr": 1e-2}),
    Row("CriticLearner.schedule", "ppo", {"critic.schedule.warmup_steps": 9}),
    Row("CriticLearner.start", "ppo", {"critic.start": "policy"}),
    Row("Learner.optimizer", "grpo", {"actor.optimizer.lr": 3e-3}),
    Row("Learner.schedule", "grpo", {"actor.schedule.warmup_steps": 9}),
    Row("Reference.path", "grpo", {"reference.path": "@policy"}, against={"reference.path": "@other"}),
    Row("FolderModel.kind", "grpo", NEW),
    Row("FolderModel.path", "grpo", {"model.path": "@policy"}, given=NEW),
    Row(
        "FreshModel.kind",
        "sft",
        {"start_from": "none", "model": TINY},
    ),
    Row("Hardware.device", "sft", {"hardware.device": "nowhere"}),
    Row("Precision.dtype", "sft", {"precision.dtype": "bf16"}),
    Row("Checkpoints.every", "grpo", {"checkpoint.every": 1}, given={"checkpoint.keep": 9}),
    Row("Checkpoints.keep", "grpo", {"checkpoint.keep": 9}, given={"checkpoint.every": 1, "stop.iterations": 3}),
    Row(
        "Checkpoints.best_by",
        "grpo",
        {"checkpoint.best_by": "-step"},
        given=SAVED,
    ),
    Row("Record.rollouts", "grpo", {"record.rollouts": True}),
    Row("Gathering.prompts", "grpo", {"rollout.prompts": 3}),
    Row("Gathering.group_size", "grpo", {"rollout.group_size": 3}),
    Row("Sampling.temperature", "grpo", {"sampling.temperature": 1.3}),
    Row("Sampling.max_new_tokens", "grpo", {"sampling.max_new_tokens": 4}),
    Row("Sampling.stop", "grpo", {"sampling.stop": ["is", "has", "love"]}),
    Row("Sampling.banned", "grpo", {"sampling.banned": ["is", "has"]}),
    Row("NoEvaluation.kind PeriodicEvaluation.kind", "grpo", {"evaluate": EVERY}),
    Row("PeriodicEvaluation.iterations", "grpo", {"evaluate.iterations": 2}, given={"evaluate": EVERY}),
    Row("PeriodicEvaluation.prompts", "grpo", {"evaluate.prompts": 3}, given={"evaluate": EVERY}),
    Row("PeriodicEvaluation.samples", "grpo", {"evaluate.samples": 3}, given={"evaluate": EVERY}),
    Row("SFTRecipe.evaluate PeriodicRows.kind", "rows", {"evaluate": EVERY}, given={"data.held_out": 0.4}),
    Row("PeriodicRows.iterations", "rows", {"evaluate.iterations": 2}, given={"data.held_out": 0.4, "evaluate": EVERY}),
    Row("PeriodicRows.rows", "rows", {"evaluate.rows": 1}, given={"data.held_out": 0.4, "evaluate": EVERY}),
    Row("RewardModelRecipe.evaluate", "rm", {"evaluate": EVERY}),
    Row("Stop.iterations", "grpo", {"stop.iterations": 3}),
    Row("Stop.minutes", "grpo", {"stop.minutes": 1e-7}),
    Row("Stop.reward", "grpo", {"stop.reward": -3.0}),
    Row("Stop.kl", "grpo", {"stop.kl": 1e-9}, given={"actor.optimizer.lr": 1e-2, "stop.iterations": 4}),
    Row("PPO.epochs", "ppo", {"ppo.epochs": 3}),
    Row("PPO.minibatches", "ppo", {"ppo.minibatches": 2}),
    Row("GRPO.epochs", "grpo", {"grpo.epochs": 3}),
    Row("GRPO.minibatches", "grpo", {"grpo.minibatches": 2}),
    Row("SFTRecipe.data CityCorpus.sentences", "sft", {"data.sentences": 41}),
    Row("CityCorpus.shuffled_share", "sft", {"data.shuffled_share": 0.5}),
    Row("CityCorpus.kind", "sft", {}, other="rows"),
    Row("Documents.kind", "rows", {}, other="demos"),
    Row("Demonstrations.kind", "demos", {}, other="sft"),
    *(
        Row(f"{section}.{name}", base, {f"data.{name}": value})
        for section, base, other in (
            ("Documents", "rows", "@few.jsonl"),
            ("Demonstrations", "demos", "@few_demos.jsonl"),
        )
        for name, value in (("path", other), ("max_tokens", 6), ("held_out", 0.4), ("limit", 7))
    ),
    Row("SFTRecipe.sft SFT.epochs", "sft", {"sft.epochs": 2}),
    Row("SFT.rows_per_step", "sft", {"sft.rows_per_step": 10}),
    Row("SFT.reduction", "sft", {"sft.reduction": {"kind": "sequence"}}),
    Row("SFTRecipe.sharpen", "sft", {"sharpen": 1.5}),
    Row("RewardModelRecipe.data PairFile.path", "rm", {"data.path": "@few_pairs.jsonl"}),
    Row("PairFile.max_tokens", "rm", {"data.max_tokens": 7}),
    Row("PairFile.held_out", "rm", {"data.held_out": 0.0}),
    Row("PairFile.limit", "rm", {"data.limit": 12}),
    Row("RewardModelRecipe.pairwise RewardModel.epochs", "rm", {"pairwise.epochs": 2}),
    Row("RewardModel.pairs_per_step", "rm", {"pairwise.pairs_per_step": 4}),
    Row("StagesRecipe.at_once", "chain", {"at_once": 2}, "together"),
]

RUN += PROGRAMS
RUN += LABELLED
RUN += CHOSEN
RUN += TRAINED
TABLE = [*PURE, *SCORERS, *EPISODES, *JUDGES, *PROMPTS, *LEARNED, *WORLDS, *RUN]
