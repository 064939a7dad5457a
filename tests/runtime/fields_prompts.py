"""The rows of the table about prompts; see `fields_table`."""

from tests.runtime.fields_table import Row, Settings

CURRICULUM: Settings = {"rollout.curriculum": {}}
SELECT: Settings = {"select.samples": 4, "task.prompts": 6}
SCORED: Settings = {"select.passes": {"kind": "score", "scorer": "truth", "at_least": 0.0}}
ASKED: Settings = {"select.samples": 17}


def phase(**factors: float) -> Settings:
    return {"rollout.curriculum.phases": [{"at": 0.0, **factors}]}


def late(at: float) -> Settings:
    return {"rollout.curriculum.phases": [{"at": 0}, {"at": at, "hard": 9}]}


def flat(kind: str, **more: float) -> Settings:
    return {"rollout.flat": {"kind": kind, **more}}


PROMPTS: list[Row] = [
    Row("Gathering.only", "chosen", {"rollout.only": "@fewer.jsonl"}, "order"),
    Row("Gathering.curriculum Curriculum.phases", "chosen", CURRICULUM, "order"),
    Row("Phase.at", "chosen", late(0.5), "order", against=late(1.0)),
    *(Row(f"Phase.{name}", "chosen", phase(**{name: 5.0}), "order", against=phase()) for name in ("easy", "hard")),
    Row("Phase.medium", "chosen", phase(medium=5.0), "order", against=phase()),
    Row("Gathering.flat KeepFlat.kind DropFlat.kind", "grpo", flat("drop"), "flat"),
    Row("RefillFlat.kind", "grpo", flat("refill"), "flat", against=flat("drop")),
    Row("DropFlat.tolerance", "grpo", flat("drop", tolerance=0.1), "flat", against=flat("drop")),
    Row("RefillFlat.tolerance", "grpo", flat("refill", tolerance=0.1), "flat", against=flat("refill")),
    Row("RefillFlat.most", "grpo", flat("refill", most=1), "flat", against=flat("refill")),
    Row("GRPO.normalise_by", "grpo", {"grpo.normalise_by": "task"}, "maths"),
    Row("MixtureTask.kind MixtureTask.parts", "mixed", {}, "task", other="sums"),
    Row("MixturePart.weight", "mixed", {"task.parts.made.weight": 3.0}, "order"),
    Row("MixturePart.task", "mixed", {"task.parts.made.task.high": 9}, "task"),
    Row("MixturePart.data DialogueFile.path", "mixed", {"task.parts.read.data.path": "@columns.jsonl"}, "task"),
    Row(
        "DialogueFile.split",
        "mixed",
        {"task.parts.read.data.split": "test"},
        "task",
        given={"task.parts.read.data.path": "@parts"},
    ),
    Row("DialogueFile.max_characters", "mixed", {"task.parts.read.data.max_characters": 7}, "task"),
    Row("DialogueFile.system", "mixed", {"task.parts.read.data.system": "Be brief."}, "task"),
    Row("PromptData.system", "prompts", {"data.system": "Be brief."}, "task"),
    Row("Demonstrations.system", "demos", {"data.system": "Be brief."}, "read"),
    Row("PairFile.system", "rm", {"data.system": "Be brief."}, "read"),
    Row("DialogueFile.columns", "mixed", {"task.parts.read.data.columns.prompt": "gold"}, "task"),
    *(
        Row(fields, "grpo", {f"select.{key}": value}, "sifted", given=ASKED)
        for fields, key, value in (
            ("Select.keep Keep.low", "keep.low", 0.3),
            ("Keep.high", "keep.high", 0.7),
            ("Keep.least_judged", "keep.least_judged", 17),
            ("Select.buckets Buckets.hard_below", "buckets.hard_below", 0.2),
            ("Buckets.easy_above", "buckets.easy_above", 0.5),
            ("Select.coverage Coverage.largest_share", "coverage.largest_share", 0.5),
            ("Coverage.similarity", "coverage.similarity", 1.0),
            ("Coverage.shingle_words", "coverage.shingle_words", 8),
        )
    ),
]

CHOSEN: list[Row] = [
    Row("Rollouts.prompts", "sample", {"rollout.prompts": 13}),
    Row("Rollouts.group_size", "sample", {"rollout.group_size": 3}, given={"labels": {"kind": "none"}}),
    Row("Rollouts.only", "sample", {"rollout.only": "@fewer.jsonl"}),
    *(
        Row(f"{recipe}.select", base, {"select.samples": 3}, "selected", given=SELECT)
        for recipe, base in (("GRPORecipe", "grpo"), ("PPORecipe", "ppo"), ("SampleRecipe", "sample"))
    ),
    Row("Select.samples", "grpo", {"select.samples": 5}, "selected", given=SELECT),
    Row("Select.prompts", "grpo", {"select.prompts": 3}, "selected", given=SELECT),
    Row("Select.passes Solved.kind Reaches.kind", "grpo", SCORED, "selected", given=SELECT),
    Row("Reaches.scorer", "grpo", {"select.passes.scorer": "grammatical"}, "selected", given={**SELECT, **SCORED}),
    Row("Reaches.at_least", "grpo", {"select.passes.at_least": -9.0}, "selected", given={**SELECT, **SCORED}),
]
