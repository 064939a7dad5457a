"""One program against one prompt's tests: what is run, in which order, and how far. Decisions apart from effects.

The text is analysed first, in a sandbox that has seen nothing else. Public tests come before hidden ones; hidden ones
are run only when the public ones leave the gate open. Nothing that hidden tests expect enters the sandbox.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ropewalk.records.prompt import Json
from ropewalk.tasks.scoring.code.compare import passed
from ropewalk.tasks.scoring.code.suite import Output, Suite, Test, Value
from ropewalk.tasks.scoring.sandbox.box import Box
from ropewalk.tasks.scoring.sandbox.inside.wire import Pairs
from ropewalk.tasks.scoring.sandbox.program import Call, Finding, Script, TestCode


@dataclass(frozen=True, slots=True)
class Forbidden:
    """What a program's text may not use. The sandbox holds without it: this keeps a policy from trying."""

    modules: tuple[str, ...] = ("ctypes", "inspect", "gc", "subprocess", "multiprocessing", "socket", "importlib")
    attributes: tuple[str, ...] = ("_exit", "_getframe", "fork", "kill", "__subclasses__", "__globals__", "__code__")
    names: tuple[str, ...] = ("__import__", "__builtins__")


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What the program's text gave away."""

    compiles: bool
    fault: str = ""
    forbidden: tuple[str, ...] = ()
    answers: int = 0
    """Public examples whose answer is written into the program."""


@dataclass(frozen=True, slots=True)
class Results:
    """Findings of one part of the tests."""

    findings: tuple[Finding, ...]
    passed: tuple[bool, ...]

    @property
    def share(self) -> float:
        """Passed tests among all."""
        return sum(self.passed) / len(self.passed)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All that is known of one program. A part is None when the prompt has none of it or it was not reached."""

    text: TextFacts
    public: Results | None = None
    hidden: Results | None = None
    fault: str = ""
    """Why a test could not be put to the program: the test's fault, not the program's."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of tests by how they ended: passed, wrong, and the other statuses of `Finding`."""

    def share(self, status: str) -> float:
        """Tests that ended so, among those that were run."""
        return self.counts[status] / max(1, self.counts.total())


def evaluate(
    box: Box, source: str, suite: Suite, *, forbidden: Forbidden | None, hidden_after: Callable[[float], bool]
) -> Evaluation:
    """Analyse (unless `forbidden` is None) and test a program.

    Hidden tests are run when `hidden_after` accepts the share of public ones passed. Raises SandboxFault when no
    sandbox could be started.
    """
    text = TextFacts(True) if forbidden is None else text_facts(box, source, suite, forbidden)
    if not text.compiles:
        return Evaluation(text)
    public = run_tests(box, source, suite.public) if suite.public else None
    hidden = None
    if suite.hidden and (public is None or hidden_after(public.share)):
        hidden = run_tests(box, source, suite.hidden)
    return summary(text, public, hidden)


def summary(text: TextFacts, public: Results | None, hidden: Results | None) -> Evaluation:
    """The evaluation that these parts make."""
    counts: Counter[str] = Counter()
    fault = ""
    for part in (public, hidden):
        for finding, good in zip(part.findings, part.passed, strict=True) if part else ():
            counts["passed" if good else "wrong" if finding.status in ("done", "failed") else finding.status] += 1
            fault = fault or (finding.detail if finding.status == "refused" else "")
    return Evaluation(text, public, hidden, fault, counts)


def run_tests(box: Box, source: str, tests: Sequence[Test]) -> Results:
    """Findings of the tests and which of them passed.

    What the program printed and returned is dropped once it is judged: evaluations are remembered by the thousand.
    """
    findings = box.run(source, [test.request for test in tests])
    good = tuple(passed(test, finding) for test, finding in zip(tests, findings, strict=True))
    return Results(tuple(replace(finding, value=None, stdout="", stderr="") for finding in findings), good)


def text_facts(box: Box, source: str, suite: Suite, forbidden: Forbidden) -> TextFacts:
    """The analysis of a program's text."""
    listed = {kind: list(getattr(forbidden, kind)) for kind in ("modules", "attributes", "names")}
    (finding,) = box.run(_analysis(), [Call("analyse", [source, listed, examples(suite.public)])])
    if finding.status != "done" or not isinstance(finding.value, Pairs):
        # The interpreter did not survive reading it; it will not survive running it either.
        return TextFacts(False, f"its text cannot be read: {finding.detail}")
    found = {str(key): value for key, value in finding.value}
    words, answers = found["forbidden"], found["answers"]
    assert isinstance(words, list) and isinstance(answers, list)
    return TextFacts(found["compiles"] is True, str(found["fault"]), tuple(map(str, words)), len(answers))


def examples(tests: Sequence[Test]) -> list[Json]:
    """The public examples as the analysis takes them."""
    found: list[Json] = []
    for test in tests:
        match test.request, test.expected:
            case Script(stdin=text), Output(text=output):
                found.append(["pair", [text], output])
            case Call(args=args), Value(value=value):
                found.append(["pair", [_json(each) for each in args], value])
            case TestCode(code=code), None:
                found.append(["code", code])
    return found


def _json(value: object) -> Json:
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _json(each) for key, each in value.items()}
    return value if isinstance(value, bool | int | float | str) else None


@cache
def _analysis() -> str:
    return (Path(__file__).parent / "analysis.py").read_text("utf-8")
