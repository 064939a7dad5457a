"""The rows of the table for judges; see `fields_table`."""

from collections.abc import Mapping
from typing import Any

from tests.runtime.fields_table import Row

NONE = {"kind": "none"}
SERVER: Mapping[str, Any] = {"kind": "server", "model": "judge"}
MODEL: Mapping[str, Any] = {"kind": "model", "path": "@policy"}
PAIRS: Mapping[str, Any] = {"kind": "pairwise", "by": SERVER, "memory": NONE}
MARKS: Mapping[str, Any] = {**PAIRS, "kind": "rubric"}
ON_DISK: Mapping[str, Any] = {"kind": "disk", "folder": "@memory"}
WRITTEN: Mapping[str, Any] = {"kind": "written"}


def critic(change: Mapping[str, Any], judge: Mapping[str, Any] = PAIRS) -> dict[str, Any]:
    """A row's settings: the judge with and without a change."""
    return {
        "change": {f"judges.critic.{name}": value for name, value in change.items()},
        "seen": "advised",
        "given": {"judges.critic": judge},
    }


JUDGES: list[Row] = [
    *(
        Row(f"{recipe}.judges", base, {"judges.critic": {**MARKS, "by": MODEL}}, "graph")
        for recipe, base in (("GRPORecipe", "grpo"), ("PPORecipe", "ppo"))
    ),
    Row("SampleRecipe.judges", "sample", {"judges.critic": {**PAIRS, "by": MODEL}}, "advised"),
    Row("PairwiseJudge.kind RubricJudge.kind", "grpo", **critic({"kind": "rubric"})),
    Row("PairwiseJudge.by ServerJudge.kind ModelJudge.kind", "grpo", **critic({"by": MODEL})),
    Row("PairwiseJudge.criteria", "grpo", **critic({"criteria": "Shorter."})),
    Row("PairwiseJudge.reasoning NoReasoning.kind Reasoning.kind", "grpo", **critic({"reasoning": WRITTEN})),
    Row("PairwiseJudge.against Siblings.kind", "grpo", **critic({"against": {"kind": "reference"}})),
    Row(
        "ReferenceAnswer.kind",
        "grpo",
        **critic({"against": {"kind": "siblings"}}, {**PAIRS, "against": {"kind": "reference"}}),
    ),
    Row(
        "ReferenceAnswer.field",
        "grpo",
        **critic({"against.field": "good"}, {**PAIRS, "against": {"kind": "reference"}}),
    ),
    Row("Siblings.opponents", "grpo", **critic({"against.opponents": 2})),
    Row("PairwiseJudge.memory NoMemory.kind", "grpo", **critic({"memory": ON_DISK})),
    Row("RubricJudge.by", "grpo", **critic({"by.model": "other"}, MARKS)),
    Row("RubricJudge.criteria", "grpo", **critic({"criteria": "Ten for all."}, MARKS)),
    Row("RubricJudge.reasoning", "grpo", **critic({"reasoning": WRITTEN}, MARKS)),
    Row("RubricJudge.memory Memory.kind", "grpo", **critic({"memory": ON_DISK}, MARKS)),
    Row("Memory.folder", "grpo", **critic({"memory.folder": "@elsewhere"}, {**PAIRS, "memory": ON_DISK})),
    Row("Memory.megabytes", "grpo", **critic({"memory.megabytes": 7}, {**PAIRS, "memory": ON_DISK})),
    Row(
        "Reasoning.max_new_tokens", "grpo", **critic({"reasoning.max_new_tokens": 99}, {**PAIRS, "reasoning": WRITTEN})
    ),
    Row("Reasoning.temperature", "grpo", **critic({"reasoning.temperature": 0.5}, {**PAIRS, "reasoning": WRITTEN})),
    Row("ServerJudge.base_url", "grpo", **critic({"by.base_url": "http://127.0.0.1:9/v1"})),
    Row("ServerJudge.model", "grpo", **critic({"by.model": "other"})),
    Row("ServerJudge.key", "grpo", **critic({"by.key": "ROPEWALK_TEST_KEY"})),
    Row(
        "ServerJudge.plain_http",
        "grpo",
        **critic({"by.plain_http": True}, {**PAIRS, "by": {**SERVER, "base_url": "http://10.0.0.1/v1"}}),
    ),
    Row("ServerJudge.concurrency", "grpo", **critic({"by.concurrency": 1})),
    Row("ServerJudge.timeout_seconds", "grpo", **critic({"by.timeout_seconds": 0.001})),
    Row("ServerJudge.retries", "grpo", **critic({"by.retries": 0})),
    Row("ServerJudge.logprobs", "grpo", **critic({"by.logprobs": False})),
    *(
        Row(f"ModelJudge.{name}", "grpo", **critic({f"by.{name}": value}, {**MARKS, "by": MODEL}))
        for name, value in (("path", "@other"), ("dtype", "bfloat16"), ("slots", 2), ("cache_tokens", 999))
    ),
]

LABELLED: list[Row] = [
    Row("JudgeLabels.kind", "labels", {"labels": {"kind": "none"}}, "labelled"),
    *(
        Row(f"JudgeLabels.{name}", "labels", {f"labels.{name}": value}, "labelled")
        for name, value in (("judge", "other"), ("pairs", 1), ("agreement", False), ("at_least", 0.95))
    ),
]
