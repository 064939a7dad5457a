"""Sections of a recipe that name a scorer of a task: `[task.scorers.NAME]` with its `kind`.

A scorer reads the prompt's gold answer or its `info`; rows of a data set that it could not judge are refused when they
are read. What each says of a completion is in the module that it is built from, see `kinds/build.py`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from ropewalk.config.schema import Section
from ropewalk.tasks.scoring.code.evaluate import Forbidden
from ropewalk.tasks.scoring.code.extract import PYTHON
from ropewalk.tasks.scoring.code.layers import GATES, WEIGHTS
from ropewalk.tasks.scoring.maths.policy import PLACES, Digits, Order, Percent, Place, Units
from ropewalk.tasks.scoring.numbers import AnswerPlace
from ropewalk.tasks.scoring.rules.length import Unit
from ropewalk.tasks.scoring.rules.structured import JsonAt
from ropewalk.tasks.scoring.rules.text import AnswerAt
from ropewalk.tasks.scoring.sandbox.jail import Isolation
from ropewalk.tasks.scoring.sandbox.limits import MIB, Limits

Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
_DAY_SECONDS = 86_400
Seconds: TypeAlias = Annotated[float, Field(gt=0.0, le=_DAY_SECONDS)]
Thousands: TypeAlias = Annotated[int, Field(ge=1, le=2**15)]
"""What no machine's kernel refuses to count."""

Weight: TypeAlias = Annotated[float, Field(ge=0.0)]

KIB = 2**10
_LIMITS = Limits()
_FORBIDDEN = Forbidden()


class NumberAnswer(Section):
    """1 for the gold number, 0 for another one or none."""

    kind: Literal["number"] = "number"
    answer: AnswerPlace = "anywhere"
    """Where an answer counts: after a marker only, or else the last number too."""


class ExactTolerance(Section):
    """0.333 is not 1/3."""

    kind: Literal["exact"] = "exact"


class WrittenTolerance(Section):
    """A decimal stands for what rounds to it, if it has enough digits: 0.333 is 1/3, 0.33 is not."""

    kind: Literal["written"] = "written"
    digits: Count = 3
    """Significant digits that are enough."""


class WithinTolerance(Section):
    """|a - b| <= max(absolute, relative · max(|a|, |b|)), if a side is written as a decimal."""

    kind: Literal["within"] = "within"
    relative: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of the larger of both."""
    absolute: Annotated[float, Field(ge=0.0)] = 0.0
    """Distance."""

    @model_validator(mode="after")
    def _tolerates(self) -> Self:
        if not self.relative and not self.absolute:
            raise ValueError("a tolerance of kind 'within' needs relative or absolute above 0, or kind = 'exact'")
        return self


class MathsAnswer(Section):
    """1 for an answer equal to the gold one, 0 for a different one; one that cannot be read is a failure.

    Chinese is read as English is: full-width digits, 万 and 亿, 答案是. A row may say otherwise in `info.maths`.
    """

    kind: Literal["maths"] = "maths"
    places: Annotated[tuple[Place, ...], Field(min_length=1)] = PLACES
    """Where an answer is looked for: the first of these that occurs decides."""
    order: Order = "as_written"
    """Whether the order of several answers counts."""
    units: Units = "agree"
    """What a unit behind a number means."""
    percent: Percent = "either"
    """What 50 % is equal to."""
    digits: Digits = "english"
    """How thousands and decimals are separated."""
    tolerance: Annotated[ExactTolerance | WrittenTolerance | WithinTolerance, Field(discriminator="kind")] = (
        WrittenTolerance()
    )
    """For decimals; all else is exact."""


class ExactAnswer(Section):
    """1 for the gold text, or one of a list of them, 0 for another."""

    kind: Literal["exact"] = "exact"
    at: AnswerAt = "text"
    """What is the answer: all the text, the last <answer>…</answer>, or what is marked in any way."""
    case: bool = False
    """Whether capitals must agree."""
    punctuation: bool = False
    """Whether punctuation must agree."""


class FuzzyAnswer(Section):
    """1 - edits / longer length between the answer and the gold text, the best of several golds."""

    kind: Literal["fuzzy"] = "fuzzy"
    at: AnswerAt = "text"
    """What is the answer: all the text, the last <answer>…</answer>, or what is marked in any way."""
    least: Share = 0.0
    """What is less alike scores 0."""


class ChoiceAnswer(Section):
    """1 for the letter of the gold choice, 0 for another; to choose none or two is no format."""

    kind: Literal["choice"] = "choice"
    choices: Annotated[int, Field(ge=2, le=26)] = 5
    """How many there are, where a prompt lists none in `info.choices`."""


class PatternRule(Section):
    """1 if a regular expression (RE2's syntax, linear time) matches, else 0."""

    kind: Literal["pattern"] = "pattern"
    pattern: str | None = None
    """The expression, where a prompt has none in `info.pattern`."""
    match: Literal["anywhere", "whole"] = "anywhere"
    """Whether a part of the text may match, or all of it must."""


class TagsRule(Section):
    """1 if the completion is made of tagged parts, each once and in order, else 0."""

    kind: Literal["tags"] = "tags"
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("think", "answer")
    """The parts in their order."""
    opened: bool = False
    """The prompt ends with the first opening tag."""
    outside: bool = False
    """Whether text may stand outside the parts."""
    empty: bool = False
    """Whether a part may be empty."""


class JsonRule(Section):
    """1 if the completion is one JSON value, of a schema if there is one, else 0."""

    kind: Literal["json"] = "json"
    json_schema: Mapping[str, Any] | None = None
    """The schema, where a prompt has none in `info.schema`."""
    at: JsonAt = "text"
    """Where the value stands: all the text, the last fenced block, or the last <answer>…</answer>."""


class LengthRule(Section):
    """1 within the bounds, else 0; a prompt's own stand in `info.length`."""

    kind: Literal["length"] = "length"
    unit: Unit = "words"
    """What is counted."""
    low: Annotated[int, Field(ge=0)] | None = None
    """The least that is right."""
    high: Annotated[int, Field(ge=0)] | None = None
    """The most that is right."""


class LanguageRule(Section):
    """1 if enough of the letters are of a language's writing, else 0."""

    kind: Literal["language"] = "language"
    language: str | None = None
    """Its code, such as `en` or `zh`, where a prompt has none in `info.language`."""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9
    """Least share of the letters."""


class PhrasesRule(Section):
    """1 if every required phrase and no forbidden one occurs, else 0; `info.required` and `info.forbidden` add some."""

    kind: Literal["phrases"] = "phrases"
    required: tuple[str, ...] = ()
    """What must be said."""
    forbidden: tuple[str, ...] = ()
    """What may not be said."""
    case: bool = False
    """Whether capitals must agree."""


class InstructionsRule(Section):
    """Whether the instructions of `info.instruction_id_list` are followed (IFEval's form)."""

    kind: Literal["instructions"] = "instructions"
    score: Literal["all", "share"] = "all"
    """1 if all are followed, or the share of them."""


class Sandbox(Section):
    """What a program is shut in by, and what it may use. Scorers with equal ones share their sandboxes."""

    isolation: Isolation = "bubblewrap"
    """`process` keeps a program from little; it is only taken where it is asked for."""
    workers: Annotated[int, Field(ge=1, le=256)] = 2
    """Programs that run at the same time."""
    packages: tuple[str, ...] = ()
    """Installed packages that programs may import beside the standard library."""
    test_seconds: Seconds = _LIMITS.test_seconds
    """Wall-clock time of one test, loading the program included."""
    program_seconds: Seconds = _LIMITS.program_seconds
    """Wall-clock time of all tests of a program."""
    cpu_seconds: Annotated[int, Field(ge=1, le=_DAY_SECONDS)] = _LIMITS.cpu_seconds
    """Processor time of each process."""
    memory_mib: Thousands = _LIMITS.memory_bytes // MIB
    """Memory of all processes of a program together."""
    processes: Thousands = _LIMITS.processes
    """Processes and threads at one time."""
    open_files: Thousands = _LIMITS.open_files
    """Open files of each process."""
    file_mib: Thousands = _LIMITS.file_bytes // MIB
    """Size of one file."""
    folder_mib: Thousands = _LIMITS.folder_bytes // MIB
    """Size of the program's folder."""
    folder_files: Annotated[int, Field(ge=1, le=10_000_000)] = _LIMITS.folder_files
    """Files in it."""
    output_kib: Thousands = _LIMITS.output_bytes // KIB
    """What a program may print, and the size of one returned value."""


class ForbiddenWords(Section):
    """What a program's text may not use. The sandbox holds without it: this keeps a policy from trying."""

    modules: tuple[str, ...] = _FORBIDDEN.modules
    """Modules that may not be imported."""
    attributes: tuple[str, ...] = _FORBIDDEN.attributes
    """Attributes that may not be named."""
    names: tuple[str, ...] = _FORBIDDEN.names
    """Names that may not occur."""


class LayerWeights(Section):
    """What each layer adds when it is full. A judge adds 0.1 more as a component of the reward (docs/rewards.md)."""

    format: Weight = WEIGHTS["format"]
    """There is a program, it uses nothing forbidden, and the examples' answers are not written into it."""
    compile: Weight = WEIGHTS["compile"]
    """It compiles."""
    public: Weight = WEIGHTS["public"]
    """Share of the public tests passed."""
    hidden: Weight = WEIGHTS["hidden"]
    """Share of the hidden tests passed."""


class LayerGates(Section):
    """What a layer must reach for the next ones to be looked at."""

    format: Share = GATES["format"]
    """Below it nothing else counts."""
    compile: Share = GATES["compile"]
    """Below it no test counts."""
    public: Share = GATES["public"]
    """Share of the public tests from which on hidden ones are run."""


class LayerCredit(Section):
    """Σ weight · layer over format → compile → public → hidden, as far as the gates are open."""

    kind: Literal["layers"] = "layers"
    weights: LayerWeights = LayerWeights()
    """What each layer adds."""
    gates: LayerGates = LayerGates()
    """What each must reach."""
    forbidden: ForbiddenWords = ForbiddenWords()
    """What breaks the format."""


class TestsCredit(Section):
    """Tests alone, public and hidden alike; a completion without a program is a failure."""

    __test__ = False  # pytest collects classes of this name

    kind: Literal["tests"] = "tests"
    partial: bool = False
    """The share of tests passed, in place of 1 for all and 0 for less."""


class CodeAnswer(Section):
    """A Python program against the tests of `info.tests`, in a sandbox.

    Beside NAME itself there are NAME/format, NAME/compile, NAME/public, NAME/hidden (with credit.kind = "layers"),
    and the shares of tests by how else they ended: NAME/timeout, NAME/raised, …
    """

    kind: Literal["code"] = "code"
    form: Literal["block", "continuation"] = "block"
    """The program is the last fenced block, or the whole text behind `info.prefix`."""
    languages: Annotated[tuple[str, ...], Field(min_length=1)] = PYTHON
    """Tags of fenced blocks that count; "" is none. All are run as Python."""
    open_ended: bool = False
    """Take a last block that never closes: for engines that stop at the fence."""
    credit: Annotated[LayerCredit | TestsCredit, Field(discriminator="kind")] = LayerCredit()
    """How tests become a score."""
    sandbox: Sandbox = Sandbox()
    """Where it runs."""


class SmtAnswer(Section):
    """1 for values or a term that z3 finds right for `info.smt`, 0 for wrong ones; z3 runs in a sandbox."""

    kind: Literal["smt"] = "smt"
    solver_seconds: Seconds = 2.0
    """Time of the solver; below that of its sandbox."""
    sandbox: Sandbox = Sandbox()
    """Where it runs."""


class PythonScorer(Section):
    """A function (prompt, sample) of a Python file of the user's own, run as it stands."""

    kind: Literal["python"] = "python"
    path: str
    """The file."""
    name: str = "score"
    """The function, or an object that can be called."""


ScorerSection: TypeAlias = Annotated[
    NumberAnswer
    | MathsAnswer
    | ExactAnswer
    | FuzzyAnswer
    | ChoiceAnswer
    | PatternRule
    | TagsRule
    | JsonRule
    | LengthRule
    | LanguageRule
    | PhrasesRule
    | InstructionsRule
    | CodeAnswer
    | SmtAnswer
    | PythonScorer,
    Field(discriminator="kind"),
]

ScorerName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][\w-]*$")]
Scorers: TypeAlias = Mapping[ScorerName, ScorerSection]
"""By name."""
