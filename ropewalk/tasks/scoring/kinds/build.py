"""From a scorer's section to the scorer, and to what is wrong with a row that it could not judge.

One literal map by kind. A section may become several scorers: NAME, and NAME/part beside it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias, cast

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.module import user_module
from ropewalk.tasks.scoring.code.evaluate import Forbidden
from ropewalk.tasks.scoring.code.layers import Layering
from ropewalk.tasks.scoring.code.scorer import Extraction, code_scorers, layered_scorers
from ropewalk.tasks.scoring.code.smt import SmtScorer, smt_problem
from ropewalk.tasks.scoring.code.suite import suite_of
from ropewalk.tasks.scoring.kinds.config import (
    KIB,
    ChoiceAnswer,
    CodeAnswer,
    ExactAnswer,
    ExactTolerance,
    FuzzyAnswer,
    InstructionsRule,
    JsonRule,
    LanguageRule,
    LayerCredit,
    LayerWeights,
    LengthRule,
    MathsAnswer,
    NumberAnswer,
    PatternRule,
    PhrasesRule,
    PythonScorer,
    Sandbox,
    ScorerSection,
    SmtAnswer,
    TagsRule,
    WithinTolerance,
    WrittenTolerance,
)
from ropewalk.tasks.scoring.maths.policy import Exact as ExactValues
from ropewalk.tasks.scoring.maths.policy import Policy, Within, Written, with_row
from ropewalk.tasks.scoring.maths.scorer import INFO_KEY, MathScorer, parse_gold
from ropewalk.tasks.scoring.numbers import NumberScorer, gold_fault
from ropewalk.tasks.scoring.rules.answers import Exact, Fuzzy, MultipleChoice
from ropewalk.tasks.scoring.rules.instructions import Instructions
from ropewalk.tasks.scoring.rules.language import Language
from ropewalk.tasks.scoring.rules.length import Length
from ropewalk.tasks.scoring.rules.phrases import Pattern, Phrases
from ropewalk.tasks.scoring.rules.structured import JsonForm
from ropewalk.tasks.scoring.rules.tags import Tags
from ropewalk.tasks.scoring.sandbox.limits import MIB, Limits
from ropewalk.tasks.scoring.sandbox.shared import SharedPool, Shutting
from ropewalk.tasks.task import AtOnce, Scorer, at_least_one

Fault: TypeAlias = Callable[[Prompt], str | None]
"""What is wrong with a prompt that a scorer could not judge ("has …"); None if nothing is."""

Z3 = "z3"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Built:
    """What a section has become."""

    scorers: Mapping[str, Scorer]
    """By name; the first has the section's own."""
    fault: Fault = lambda _: None
    solved: Callable[[Outcome], bool] = at_least_one
    """Whether an outcome of the first counts as solved."""


def built(name: str, section: ScorerSection) -> Built:
    """The scorers of a section. Raises InputError for what its schema, expression or sandbox cannot do."""
    try:
        made = _BUILDERS[section.kind](name, section)
    except InputError as error:
        raise InputError(f"scorer {name!r}: {error}") from error
    if isinstance(section, PythonScorer):
        return made
    return replace(made, scorers={part: AtOnce(scorer) for part, scorer in made.scorers.items()})


def policy_of(config: MathsAnswer) -> Policy:
    """The policy of a section."""
    match config.tolerance:
        case ExactTolerance():
            tolerance: ExactValues | Written | Within = ExactValues()
        case WrittenTolerance(digits=digits):
            tolerance = Written(digits)
        case WithinTolerance(relative=relative, absolute=absolute):
            tolerance = Within(Fraction(str(relative)), Fraction(str(absolute)))
    return Policy(
        places=config.places,
        order=config.order,
        units=config.units,
        percent=config.percent,
        digits=config.digits,
        tolerance=tolerance,
    )


def maths_fault(policy: Policy) -> Fault:
    """Whether the maths scorer can read a gold answer (fault G10)."""

    def fault(prompt: Prompt) -> str | None:
        try:
            own = with_row(policy, prompt.info.get(INFO_KEY))
        except InputError as error:
            return f"has an info.{INFO_KEY} that cannot be used ({error})"
        try:
            parse_gold(prompt.gold, own.digits)
        except InputError:
            return f"has the gold answer {_short(prompt.gold)}, which cannot be read"
        return None

    return fault


def limits_of(config: Sandbox) -> Limits:
    """What a program may use."""
    return Limits(
        test_seconds=config.test_seconds,
        program_seconds=config.program_seconds,
        cpu_seconds=config.cpu_seconds,
        memory_bytes=config.memory_mib * MIB,
        processes=config.processes,
        open_files=config.open_files,
        file_bytes=config.file_mib * MIB,
        folder_bytes=config.folder_mib * MIB,
        folder_files=config.folder_files,
        output_bytes=config.output_kib * KIB,
    )


def shared_pool(config: Sandbox, *packages: str) -> SharedPool:
    """The process's sandboxes of this kind. Raises InputError where they are not to be had here."""
    seen = tuple(dict.fromkeys((*config.packages, *packages)))
    shutting = Shutting(limits_of(config), config.isolation, seen, config.workers)
    shutting.check()
    return SharedPool(shutting)


def _number(name: str, config: NumberAnswer) -> Built:
    def fault(prompt: Prompt) -> str | None:
        wrong = gold_fault(prompt.gold)
        return wrong and f"has the gold answer {_short(prompt.gold)}, which {wrong}"

    return Built({name: NumberScorer(config.answer)}, fault)


def _maths(name: str, config: MathsAnswer) -> Built:
    policy = policy_of(config)
    return Built({name: MathScorer(policy)}, maths_fault(policy))


def _exact(name: str, config: ExactAnswer) -> Built:
    rule = Exact(config.at, config.case, config.punctuation)
    return Built({name: rule}, _gold(rule.gold_fault))


def _fuzzy(name: str, config: FuzzyAnswer) -> Built:
    rule = Fuzzy(config.at, config.least)
    return Built({name: rule}, _gold(rule.gold_fault))


def _choice(name: str, config: ChoiceAnswer) -> Built:
    rule = MultipleChoice(config.choices)
    return Built({name: rule}, rule.info_fault)


def _pattern(name: str, config: PatternRule) -> Built:
    rule = Pattern(config.pattern, config.match)
    return Built({name: rule}, rule.info_fault)


def _tags(name: str, config: TagsRule) -> Built:
    return Built({name: Tags(config.names, config.opened, config.outside, config.empty)})


def _json(name: str, config: JsonRule) -> Built:
    rule = JsonForm(config.json_schema, config.at)
    return Built({name: rule}, rule.info_fault)


def _length(name: str, config: LengthRule) -> Built:
    rule = Length(config.unit, config.low, config.high)
    return Built({name: rule}, rule.info_fault)


def _language(name: str, config: LanguageRule) -> Built:
    rule = Language(config.language, config.share)
    return Built({name: rule}, rule.info_fault)


def _phrases(name: str, config: PhrasesRule) -> Built:
    rule = Phrases(config.required, config.forbidden, config.case)
    return Built({name: rule}, rule.info_fault)


def _instructions(name: str, config: InstructionsRule) -> Built:
    rule = Instructions(config.score)
    return Built({name: rule}, rule.info_fault)


def _code(name: str, config: CodeAnswer) -> Built:
    pool = shared_pool(config.sandbox)
    extraction = Extraction(config.form, config.languages, config.open_ended)
    credit = config.credit
    solved: Callable[[Outcome], bool] = at_least_one
    if isinstance(credit, LayerCredit):
        weights, gates, words = credit.weights, credit.gates, credit.forbidden
        solved = _full(weights)
        found = layered_scorers(
            pool,
            layering=Layering(
                {
                    "format": weights.format,
                    "compile": weights.compile,
                    "public": weights.public,
                    "hidden": weights.hidden,
                },
                {"format": gates.format, "compile": gates.compile, "public": gates.public},
            ),
            extraction=extraction,
            forbidden=Forbidden(words.modules, words.attributes, words.names),
        )
    else:
        found = code_scorers(pool, credit="share" if credit.partial else "all", extraction=extraction)
    # A judge is a scorer of its own, behind a gate on NAME/hidden.
    parts = {key: scorer for key, scorer in found.items() if key != "code_judge"}
    named = {name + key.removeprefix("code").replace("_", "/", 1): scorer for key, scorer in parts.items()}
    return Built(named, _tried(suite_of, "no tests that can be used"), solved)


def _full(weights: LayerWeights) -> Callable[[Outcome], bool]:
    """Every layer is full."""
    full = math.fsum((weights.format, weights.compile, weights.public, weights.hidden))
    return lambda outcome: isinstance(outcome, Score) and outcome.value >= full - _ROUNDING


def _smt(name: str, config: SmtAnswer) -> Built:
    scorer = SmtScorer(shared_pool(config.sandbox, Z3), solver_seconds=config.solver_seconds)
    return Built({name: scorer}, _tried(smt_problem, "no problem that can be used"))


def _python(name: str, config: PythonScorer) -> Built:
    module = user_module(config.path, what="scorer file", defines=config.name)
    found = getattr(module, config.name, None)
    if not callable(found):
        raise InputError(f"{config.path} defines no function {config.name!r}: write def {config.name}(prompt, sample)")
    return Built({name: cast(Scorer, found)})


def _gold(fault: Callable[[Json], str | None]) -> Fault:
    def of(prompt: Prompt) -> str | None:
        wrong = fault(prompt.gold)
        return wrong and f"has the gold answer {_short(prompt.gold)}, which {wrong}"

    return of


def _tried(read: Callable[[Prompt], object], lacks: str) -> Fault:
    def fault(prompt: Prompt) -> str | None:
        try:
            read(prompt)
        except InputError as error:
            # The row is named where it is refused; reasons of many rows are counted together.
            said = str(error).replace(f"prompt {prompt.id!r}", "its prompt")
            return f"has {lacks} ({said})"
        return None

    return fault


def _short(gold: Json) -> str:
    text = repr(gold)
    return text if len(text) <= 40 else f"{text[:37]}..."


_BUILDERS: Mapping[str, Callable[[str, Any], Built]] = {
    "number": _number,
    "maths": _maths,
    "exact": _exact,
    "fuzzy": _fuzzy,
    "choice": _choice,
    "pattern": _pattern,
    "tags": _tags,
    "json": _json,
    "length": _length,
    "language": _language,
    "phrases": _phrases,
    "instructions": _instructions,
    "code": _code,
    "smt": _smt,
    "python": _python,
}
