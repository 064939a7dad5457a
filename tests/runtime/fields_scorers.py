"""The rows of the table for sections of scorers; see `fields_table`."""

from collections.abc import Mapping
from typing import Any

from ropewalk.tasks.gym_checks import INTEGRALS
from tests.runtime.fields_table import Row

ONE: Mapping[str, Any] = {"more": {"kind": "tags"}}


def rule(kind: str, change: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """A row's settings: the scorer `rule` with and without a change."""
    changed = {f"task.scorers.rule.{name}": value for name, value in change.items()}
    return {"change": changed, "seen": "judged", "given": {"task.scorers.rule": {"kind": kind, **given}}}


def code(change: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    return rule("code", change, **given)


def layers(part: str, name: str, value: Any) -> Row:
    section = {"weights": "LayerWeights", "gates": "LayerGates", "forbidden": "ForbiddenWords"}[part]
    more = f" LayerCredit.{part}" if name in ("format", "modules") else ""
    return Row(f"{section}.{name}{more}", "prompts", **code({f"credit.{part}.{name}": value}))


SCORERS: list[Row] = [
    *(
        Row(f"{section}.scorers", base, {"task.scorers": ONE}, "task", given=given)
        for section, base, given in (
            ("Gsm8kTask", "gsm8k", {}),
            ("PromptsTask", "prompts", {}),
            ("SumsTask", "sums", {}),
            ("GymTask", "gym", {}),
            ("FileTask", "city", {"task": {"kind": "file", "path": "@task.py"}}),
        )
    ),
    Row("GymTask.isolation", "gym", {"task.isolation": "process"}, "shut", given={"task.generator": INTEGRALS[0]}),
    Row("NumberAnswer.kind", "prompts", **rule("number", {"kind": "maths"})),
    Row("NumberAnswer.answer", "prompts", **rule("number", {"answer": "marked"})),
    Row("MathsAnswer.kind", "prompts", **rule("maths", {"kind": "number"})),
    *(
        Row(f"MathsAnswer.{name}", "prompts", **rule("maths", {name: value}))
        for name, value in (
            ("places", ["boxed"]),
            ("order", "kept"),
            ("units", "require"),
            ("percent", "number"),
            ("digits", "european"),
        )
    ),
    Row(
        "MathsAnswer.tolerance ExactTolerance.kind WrittenTolerance.kind",
        "prompts",
        **rule("maths", {"tolerance": {"kind": "exact"}}),
    ),
    Row("WrittenTolerance.digits", "prompts", **rule("maths", {"tolerance.digits": 4})),
    Row("WithinTolerance.kind", "prompts", **rule("maths", {"tolerance": {"kind": "within", "absolute": 0.2}})),
    *(
        Row(
            f"WithinTolerance.{name}",
            "prompts",
            **rule("maths", {f"tolerance.{name}": 0.2}, tolerance={"kind": "within", other: 1e-9}),
        )
        for name, other in (("relative", "absolute"), ("absolute", "relative"))
    ),
    *(
        Row(f"{section}.kind", "prompts", **rule(kind, {"kind": other}))
        for section, kind, other in (
            ("ExactAnswer", "exact", "fuzzy"),
            ("FuzzyAnswer", "fuzzy", "exact"),
            ("ChoiceAnswer", "choice", "number"),
            ("TagsRule", "tags", "json"),
            ("JsonRule", "json", "tags"),
            ("InstructionsRule", "instructions", "json"),
        )
    ),
    *(
        Row(f"{section}.kind", "prompts", {"task.scorers.rule": {"kind": "tags"}}, "judged", against=instead)
        for section, own in (
            ("PatternRule", {"kind": "pattern", "pattern": "a"}),
            ("LengthRule", {"kind": "length", "low": 1}),
            ("LanguageRule", {"kind": "language", "language": "en"}),
            ("PhrasesRule", {"kind": "phrases", "required": ["yes"]}),
            ("PythonScorer", {"kind": "python", "path": "@scorer.py"}),
        )
        for instead in ({"task.scorers.rule": own},)
    ),
    *(Row(f"ExactAnswer.{name}", "prompts", **rule("exact", {name: True})) for name in ("case", "punctuation")),
    Row("ExactAnswer.at", "prompts", **rule("exact", {"at": "tags"})),
    Row("FuzzyAnswer.at", "prompts", **rule("fuzzy", {"at": "tags"})),
    Row("FuzzyAnswer.least", "prompts", **rule("fuzzy", {"least": 0.9})),
    Row("ChoiceAnswer.choices", "prompts", **rule("choice", {"choices": 3})),
    Row("PatternRule.pattern", "prompts", **rule("pattern", {"pattern": "c"}, pattern="a")),
    Row("PatternRule.match", "prompts", **rule("pattern", {"match": "whole"}, pattern="a")),
    Row("TagsRule.names", "prompts", **rule("tags", {"names": ["think"]})),
    *(Row(f"TagsRule.{name}", "prompts", **rule("tags", {name: True})) for name in ("opened", "outside", "empty")),
    Row("JsonRule.json_schema", "prompts", **rule("json", {"json_schema": {"type": "array"}})),
    Row("JsonRule.at", "prompts", **rule("json", {"at": "fence"})),
    Row("LengthRule.unit", "prompts", **rule("length", {"unit": "characters"}, high=3)),
    Row("LengthRule.low", "prompts", **rule("length", {"low": 4}, high=9)),
    Row("LengthRule.high", "prompts", **rule("length", {"high": 2}, low=1)),
    Row("LanguageRule.language", "prompts", **rule("language", {"language": "ru"}, language="en", share=0.5)),
    Row("LanguageRule.share", "prompts", **rule("language", {"share": 0.5}, language="en")),
    Row("PhrasesRule.required", "prompts", **rule("phrases", {"required": ["maybe"]}, required=["yes"])),
    Row("PhrasesRule.forbidden", "prompts", **rule("phrases", {"forbidden": ["no"]}, required=["yes"])),
    Row("PhrasesRule.case", "prompts", **rule("phrases", {"case": True}, required=["yes"])),
    Row("InstructionsRule.score", "prompts", **rule("instructions", {"score": "share"})),
    Row("PythonScorer.path", "prompts", **rule("python", {"path": "@other_scorer.py"}, path="@scorer.py")),
    Row("PythonScorer.name", "prompts", **rule("python", {"name": "half"}, path="@scorer.py")),
    *(
        Row(f"Sandbox.{name}{more}", "prompts", {f"task.scorers.rule.sandbox.{name}": value}, "shut", given=given)
        for given in ({"task.scorers.rule": {"kind": "code"}},)
        for name, value, more in (
            ("isolation", "process", " CodeAnswer.sandbox"),
            ("workers", 3, ""),
            ("packages", ["z3"], ""),
            ("test_seconds", 4.0, ""),
            ("program_seconds", 30.0, ""),
            ("cpu_seconds", 9, ""),
            ("memory_mib", 400, ""),
            ("processes", 8, ""),
            ("open_files", 32, ""),
            ("file_mib", 8, ""),
            ("folder_mib", 16, ""),
            ("folder_files", 100, ""),
            ("output_kib", 100, ""),
        )
    ),
    *(
        Row(f"SmtAnswer.{fields}", "prompts", change, "shut", given={"task.scorers.rule": {"kind": "smt"}})
        for fields, change in (
            ("kind", {"task.scorers.rule.kind": "code"}),
            ("solver_seconds", {"task.scorers.rule.solver_seconds": 1.0}),
            ("sandbox", {"task.scorers.rule.sandbox.workers": 3}),
        )
    ),
]
"""Seen without training."""

PROGRAMS: list[Row] = [
    Row("CodeAnswer.kind", "prompts", **code({"kind": "tags"})),
    Row("CodeAnswer.form", "prompts", **code({"form": "continuation"})),
    Row("CodeAnswer.languages", "prompts", **code({"languages": ["pseudo"]})),
    Row("CodeAnswer.open_ended", "prompts", **code({"open_ended": True})),
    Row("CodeAnswer.credit LayerCredit.kind TestsCredit.kind", "prompts", **code({"credit": {"kind": "tests"}})),
    Row("TestsCredit.partial", "prompts", **code({"credit.partial": True}, credit={"kind": "tests"})),
    *(layers("weights", name, 0.7) for name in ("format", "compile", "public", "hidden")),
    *(layers("gates", name, 0.0) for name in ("format", "compile", "public")),
    layers("forbidden", "modules", ["html"]),
    layers("forbidden", "attributes", ["real"]),
    layers("forbidden", "names", ["sum"]),
]
"""Seen by running programs, which takes a while."""
