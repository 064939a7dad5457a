"""Every kind of scorer from its section: what it says of right, wrong and unreadable answers, which rows it refuses."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from ropewalk.config.load import ConfigError, load
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.config import PromptsTask, TaskSection
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.kinds.build import built
from ropewalk.tasks.scoring.kinds.config import ScorerSection
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import TRAIN, Task
from tests.tasks.samples import sample

ADD: dict[str, Json] = {
    "tests": {
        "public": [
            {"call": "add", "args": [17, 25], "expected": 42},
            {"call": "add", "args": [30, 61], "expected": 91},
        ],
        "hidden": [{"call": "add", "args": [1, 1], "expected": 2}, {"call": "add", "args": [-4, 2], "expected": -2}],
    }
}
RIGHT = "Here:\n```python\ndef add(a, b):\n    return a + b\n```\n"
HALF = "```python\ndef add(a, b):\n    return abs(a) + abs(b)\n```"
TABLED = "```python\ndef add(a, b):\n    return {(17, 25): 42, (30, 61): 91}[a, b]\n```"
BROKEN = "```python\ndef add(a, b) return a + b\n```"
SMT: dict[str, Json] = {"smt": {"kind": "values", "problem": "(declare-const x Int) (assert (> x 3))"}}


def section(**settings: Any) -> ScorerSection:
    """As a recipe has it."""
    task: PromptsTask = load(PromptsTask, {"scorers": {"rule": settings}})
    return task.scorers["rule"]


def said(settings: dict[str, Any], gold: Json, info: dict[str, Json], text: str) -> Outcome:
    made = built("rule", section(**settings))
    prompt = Prompt("p", "?", gold, info)
    assert made.fault(prompt) is None
    found = made.scorers["rule"](prompt, sample(text))
    assert isinstance(found, Outcome)  # type: ignore[arg-type]
    return found  # type: ignore[return-value]


# kind and settings, gold, info, and text → outcome: a number, or the reason of a failure
CASES: list[tuple[dict[str, Any], Json, dict[str, Json], dict[str, Any]]] = [
    ({"kind": "number"}, 7, {}, {"so 7": 1, "#### 8": 0, "none": 0}),
    ({"kind": "number", "answer": "marked"}, 7, {}, {"so 7": 0, "#### 7": 1}),
    ({"kind": "maths"}, "1/2", {}, {r"\boxed{0.5}": 1, r"\boxed{\frac{2}{4}}": 1, r"\boxed{50\%}": 1, "#### 2": 0}),
    ({"kind": "maths"}, "1/2", {}, {"": "wrong_format", r"\boxed{__import__('os')}": "unparsable"}),
    ({"kind": "maths"}, 12000, {}, {"答案是1.2万": 1, "答案是１２０００。": 1, "答案：一万二千": 1, "答案是1.2亿": 0}),
    ({"kind": "maths", "places": ["hash"]}, 7, {}, {"#### 7": 1, r"\boxed{7}": "wrong_format"}),
    ({"kind": "maths", "order": "kept"}, {"tuple": [1, 2]}, {}, {r"\boxed{1, 2}": 1, r"\boxed{2, 1}": 0}),
    ({"kind": "maths"}, {"set": [8, 27]}, {}, {r"\boxed{27, 8}": 1, r"\boxed{27}": 0, r"\boxed{8, 27, 5}": 0}),
    ({"kind": "maths", "units": "require"}, "5 cm", {}, {r"\boxed{0.05\text{ m}}": 1, r"\boxed{5}": 0}),
    ({"kind": "maths", "percent": "number"}, "50", {}, {r"\boxed{50\%}": 1, r"\boxed{0.5}": 0}),
    ({"kind": "maths", "percent": "hundredth"}, "0.5", {}, {r"\boxed{50\%}": 1}),
    ({"kind": "maths", "digits": "european"}, "1234,5", {}, {r"\boxed{1.234,5}": 1}),
    ({"kind": "maths", "tolerance": {"kind": "exact"}}, "1/3", {}, {r"\boxed{0.333}": 0, r"\boxed{2/6}": 1}),
    ({"kind": "maths", "tolerance": {"kind": "written", "digits": 2}}, "1/3", {}, {r"\boxed{0.33}": 1}),
    ({"kind": "maths", "tolerance": {"kind": "within", "relative": 0.1}}, "1/3", {}, {r"\boxed{0.31}": 1}),
    ({"kind": "maths", "tolerance": {"kind": "within", "absolute": 0.1}}, "1/3", {}, {r"\boxed{0.2}": 0}),
    ({"kind": "maths"}, "1, 2", {"maths": {"order": "kept"}}, {r"\boxed{2, 1}": 0}),
    ({"kind": "exact"}, "Paris", {}, {" paris. ": 1, "Rome": 0, "": "wrong_format"}),
    ({"kind": "exact", "case": True, "punctuation": True}, "Paris", {}, {"paris": 0, "Paris.": 0, "Paris": 1}),
    (
        {"kind": "exact", "at": "tags"},
        ["Paris", "Lutetia"],
        {},
        {"<answer>Lutetia</answer>": 1, "Paris": "wrong_format"},
    ),
    ({"kind": "exact", "at": "marked"}, "巴黎", {}, {"答案是巴黎。": 1}),
    ({"kind": "fuzzy"}, "kitten", {}, {"kitten": 1, "sitten": 5 / 6}),
    ({"kind": "fuzzy", "least": 0.9, "at": "tags"}, "kitten", {}, {"<answer>sitten</answer>": 0, "x": "wrong_format"}),
    ({"kind": "choice"}, "B", {"choices": ["red", "blue"]}, {"答案是B": 1, "故选A": 0, "I think so": "wrong_format"}),
    ({"kind": "choice", "choices": 3}, "C", {}, {"(C)": 1, "The answer is B.": 0, "The answer is D.": "wrong_format"}),
    ({"kind": "pattern", "pattern": "(a+)+$"}, None, {}, {"a" * 5000 + "b": 0, "aaa": 1}),
    ({"kind": "pattern", "match": "whole"}, None, {"pattern": "[0-9]+"}, {"12": 1, "n 12": 0}),
    ({"kind": "tags"}, None, {}, {"<think>a</think><answer>b</answer>": 1, "<answer>b</answer>": 0}),
    ({"kind": "tags", "opened": True}, None, {}, {"a</think><answer>b</answer>": 1}),
    ({"kind": "tags", "names": ["x"], "outside": True, "empty": True}, None, {}, {"so <x></x> it is": 1}),
    ({"kind": "json", "json_schema": {"type": "array"}}, None, {}, {"[1]": 1, "{}": 0, "[" * 10**5: 0}),
    ({"kind": "json", "at": "fence"}, None, {"schema": {"type": "object"}}, {"so\n```json\n{}\n```": 1, "{}": 0}),
    ({"kind": "length", "low": 2, "high": 3}, None, {}, {"a": 0, "a b": 1, "a b c d": 0}),
    ({"kind": "length", "unit": "characters", "high": 3}, None, {}, {"abc": 1, "abcd": 0}),
    ({"kind": "language", "language": "zh"}, None, {}, {"你好世界": 1, "hello": 0, "1 2 3": "wrong_format"}),
    ({"kind": "language", "language": "en", "share": 0.5}, None, {}, {"hello 你好": 1}),
    ({"kind": "phrases", "required": ["yes"]}, None, {"forbidden": ["no"]}, {"YES": 1, "yes and no": 0}),
    ({"kind": "phrases", "required": ["yes"], "forbidden": ["x"], "case": True}, None, {}, {"YES": 0, "yes": 1}),
    (
        {"kind": "instructions", "score": "share"},
        None,
        {"instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"]},
        {"a b": 1, "a, b": 0.5, "A, b": 0},
    ),
    ({"kind": "instructions"}, None, {"instruction_id_list": ["punctuation:no_comma"]}, {"a, b": 0}),
    ({"kind": "code"}, None, ADD, {RIGHT: 0.9, HALF: 0.75, TABLED: 0, BROKEN: 0.1, "no": 0}),
    ({"kind": "code", "credit": {"kind": "tests"}}, None, ADD, {RIGHT: 1, HALF: 0, "no": "wrong_format"}),
    ({"kind": "code", "credit": {"kind": "tests", "partial": True}}, None, ADD, {HALF: 0.75, TABLED: 0.5}),
    ({"kind": "smt"}, None, SMT, {"```\n(define-fun x () Int 4)\n```": 1, "(define-fun x () Int 3)": 0}),
]


@pytest.mark.parametrize(("settings", "gold", "info", "answers"), CASES, ids=lambda value: str(value)[:40])
def test_a_kind_says_what_it_should(
    settings: dict[str, Any], gold: Json, info: dict[str, Json], answers: dict[str, Any]
) -> None:
    """Faults G2, G7: from a recipe's table to a score; a wrong answer and an unreadable one are told apart."""
    with sandboxes():
        for text, expected in answers.items():
            found = said(settings, gold, info, text)
            if isinstance(expected, str):
                assert isinstance(found, Failed) and found.reason == expected, (text, found)
            else:
                assert isinstance(found, Score) and found.value == pytest.approx(expected), (text[:40], found)


def test_every_kind_is_in_the_table() -> None:
    kinds = {str(variant.model_fields["kind"].default) for variant in get_args(get_args(ScorerSection)[0])}
    assert kinds - {str(settings["kind"]) for settings, *_ in CASES} <= {"python"}


# settings, gold, info, and what is wrong with the row
BAD: list[tuple[dict[str, Any], Json, dict[str, Json], str]] = [
    ({"kind": "number"}, None, {}, "which is missing"),
    ({"kind": "number"}, "seven", {}, "which is no number"),
    ({"kind": "maths"}, "\\frac{1}{", {}, "has the gold answer '\\\\frac{1}{', which cannot be read"),
    ({"kind": "maths"}, None, {}, "which cannot be read"),
    ({"kind": "maths"}, "1", {"maths": {"ordr": "kept"}}, "has an info.maths that cannot be used"),
    ({"kind": "exact"}, 7, {}, "which is no text"),
    ({"kind": "exact"}, "...", {}, "which is nothing but punctuation"),
    ({"kind": "fuzzy"}, "x" * 10_001, {}, "characters, more than 10000"),
    ({"kind": "choice"}, "F", {}, "which is none of its choices"),
    ({"kind": "choice"}, "green", {"choices": ["red", "blue"]}, "which is none of its choices"),
    ({"kind": "choice"}, "A", {"choices": ["red", "Red"]}, "has two equal choices"),
    ({"kind": "pattern"}, None, {"pattern": r"(a)\1"}, "has a regular expression that"),
    ({"kind": "pattern"}, None, {}, "is missing or no text"),
    ({"kind": "json"}, None, {"schema": {"type": "strin"}}, "has a JSON schema that is malformed"),
    ({"kind": "length"}, None, {}, "has no info.length"),
    ({"kind": "length"}, None, {"length": {"low": -1}}, "no whole number"),
    ({"kind": "language"}, None, {"language": "e"}, "has the unknown language 'e'"),
    ({"kind": "phrases"}, None, {}, "has no phrase to look for"),
    ({"kind": "instructions"}, None, {"instruction_id_list": ["no"]}, "has the unknown instruction 'no'"),
    ({"kind": "code"}, None, {}, "has no tests that can be used (its prompt has no tests"),
    ({"kind": "code"}, None, {"tests": {"public": [{"call": "f"}]}}, "public test 0 of its prompt lacks expected"),
    ({"kind": "smt"}, None, {}, "has no problem that can be used (its prompt has no problem"),
]


@pytest.mark.parametrize(("settings", "gold", "info", "wrong"), BAD, ids=lambda value: str(value)[:40])
def test_a_row_that_a_scorer_could_not_judge_has_a_reason(
    settings: dict[str, Any], gold: Json, info: dict[str, Json], wrong: str
) -> None:
    """Fault G10."""
    fault = built("rule", section(**settings)).fault(Prompt("p", "?", gold, info))
    assert fault is not None and wrong in fault


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"kind": "pattern", "pattern": "(?=a)"}, "scorer 'rule': the regular expression"),
        ({"kind": "json", "json_schema": {"type": 3}}, "scorer 'rule': the JSON schema is malformed"),
        ({"kind": "tags", "names": ["a", "a"]}, "scorer 'rule': a rule of tags needs different names"),
        ({"kind": "length", "low": 3, "high": 2}, "scorer 'rule': .*lower bound 3 above its upper bound 2"),
        ({"kind": "language", "language": "xx"}, "scorer 'rule': .*unknown language 'xx'"),
        ({"kind": "smt", "solver_seconds": 9.0}, "scorer 'rule': z3 is given 9 s and its sandbox 5 s"),
        ({"kind": "code", "sandbox": {"packages": ["no_such_package"]}}, "scorer 'rule': .*not installed"),
        ({"kind": "code", "sandbox": {"program_seconds": 1.0}}, "program_seconds .*is below test_seconds"),
        ({"kind": "python", "path": "gone.py"}, "scorer 'rule': there is no scorer file gone.py"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_section_that_cannot_work_is_refused_by_the_scorers_name(settings: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        built("rule", section(**settings))


@pytest.mark.parametrize(
    ("scorers", "wrong"),
    [
        ({"rule": {"kind": "mathz"}}, "mathz"),
        ({"rule": {"kind": "maths", "place": ["hash"]}}, "place"),
        ({"rule": {"kind": "maths", "places": ["hush"]}}, "places"),
        ({"rule": {"kind": "maths", "places": []}}, "places"),
        ({"rule": {"kind": "maths", "tolerance": {"kind": "within"}}}, "within"),
        ({"rule": {"kind": "choice", "choices": 1}}, "choices"),
        ({"rule": {"kind": "code", "sandbox": {"isolation": "none"}}}, "isolation"),
        ({"rule": {"kind": "code", "sandbox": {"workers": 0}}}, "workers"),
        ({"rule": {"kind": "code", "sandbox": {"memory_mib": 10**12}}}, "memory_mib"),
        ({"rule": {"kind": "code", "sandbox": {"test_seconds": 1e9}}}, "test_seconds"),
        ({"rule": {"kind": "code", "credit": {"gates": {"public": 2.0}}}}, "public"),
        ({"a/b": {"kind": "number"}}, "a/b"),
        ({"rule": {}}, "kind"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_table_that_means_nothing_is_refused_by_its_key(scorers: dict[str, Any], wrong: str) -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError) as caught:
        load(PromptsTask, {"scorers": scorers})
    assert wrong in str(caught.value)


def test_without_bubblewrap_the_plain_process_must_be_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault G9: where there is no isolation, that is said before anything runs; nothing weaker is taken in silence."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        InputError, match=r"scorer 'rule': programs are run in bubblewrap, which is not here: .*by name"
    ):
        built("rule", section(kind="code"))
    with sandboxes():
        for text, score in ((RIGHT, 0.9), (HALF, 0.75), ("no", 0.0)):
            assert said({"kind": "code", "sandbox": {"isolation": "process"}}, None, ADD, text) == Score(score)


def test_the_largest_sandbox_that_may_be_asked_for_starts() -> None:
    most = {"memory_mib": 2**15, "processes": 2**15, "file_mib": 2**15, "output_kib": 2**15, "folder_files": 10**7}
    seconds = {"test_seconds": 86_400.0, "program_seconds": 86_400.0, "cpu_seconds": 86_400}
    asked = {"kind": "code", "sandbox": {**most, **seconds}}
    assert said(asked, None, ADD, RIGHT) == Score(0.9)


def test_an_answer_beside_scorers_has_no_effect_and_is_refused() -> None:
    """Fault Q3."""
    with pytest.raises(ConfigError, match="answer has no effect beside scorers"):
        load(PromptsTask, {"answer": "marked", "scorers": {"rule": {"kind": "number"}}})


# --- in tasks -------------------------------------------------------------------------------------


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def task(settings: dict[str, Any], rows: Path | None = None) -> Task:
    found: Any = load(TaskSection, settings)
    return load_task(found, rows)


def test_rows_that_scorers_cannot_judge_are_refused_with_their_number_and_counted(tmp_path: Path) -> None:
    """Fault G10: a broken gold answer is never rewarded."""
    golds = ["1/2", "\\frac{1}{", "3", None, "4", "\\sqrt{"]
    rows = written(tmp_path / "rows.jsonl", [{"prompt": f"{n}?", "gold": gold} for n, gold in enumerate(golds)])
    found = task(
        {"kind": "prompts", "scorers": {"right": {"kind": "maths"}, "short": {"kind": "length", "high": 9}}}, rows
    )
    assert list(found.scorers) == ["right", "short"]
    assert sum(len(found.split(name)) for name in ("train", "heldout")) == 3
    assert [where.rpartition(" ")[2] for where, _ in found.refused] == ["2", "4", "6"]
    assert "has the gold answer '\\\\frac{1}{', which cannot be read" in found.refused[0][1]


def test_a_task_without_a_table_is_scored_as_before(tmp_path: Path) -> None:
    rows = written(tmp_path / "rows.jsonl", [{"prompt": f"{n}?", "gold": n} for n in range(4)])
    assert list(task({"kind": "prompts"}, rows).scorers) == ["correct"]
    with pytest.raises(InputError, match="its gold answer null is missing"):
        task({"kind": "prompts"}, written(tmp_path / "none.jsonl", [{"prompt": "a"}, {"prompt": "b"}]))


@pytest.mark.parametrize("kind", ["sums", "gym", "file", "gsm8k"])
def test_other_tasks_take_more_scorers_beside_their_own(kind: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from ropewalk.tasks.task import Task\n"
        "def half(prompt, sample): return 0.5\n"
        "TASK = Task('mine', ['a', 'b', 'c'], {'half': half})\n"
    )
    settings: dict[str, dict[str, Any]] = {
        "sums": {},
        "gym": {"generator": "gcd", "prompts": 4, "heldout_prompts": 1},
        "file": {"path": str(tmp_path / "mine.py")},
        "gsm8k": {},
    }
    rows = None
    if kind == "gsm8k":
        rows = written(tmp_path / "g.jsonl", [{"question": f"{n}?", "answer": f"#### {n}"} for n in range(4)])
    more = {"short": {"kind": "length", "unit": "characters", "high": 3}}
    more["mine"] = {"kind": "python", "path": str(tmp_path / "mine.py"), "name": "half"}
    plain = task({"kind": kind, **settings[kind]}, rows)
    found = task({"kind": kind, **settings[kind], "scorers": more}, rows)
    assert list(found.scorers) == [*plain.scorers, "short", "mine"]
    assert [p.id for p in found.split(TRAIN)] == [p.id for p in plain.split(TRAIN)]
    prompt = found.split(TRAIN)[0]
    assert [found.scorers[name](prompt, sample("abcd")) for name in ("short", "mine")] == [Score(0.0), 0.5]
    own = next(iter(plain.scorers))
    with pytest.raises(InputError, match=f"has a scorer '{own}' of its own"):
        task({"kind": kind, **settings[kind], "scorers": {own: {"kind": "tags"}}}, rows)


def test_prompts_of_another_task_that_a_scorer_cannot_judge_are_refused() -> None:
    """Fault G10: sums have numbers for gold answers, which are no text."""
    with pytest.raises(InputError, match=r"no prompt is left: prompt sums .* which is no text"):
        task({"kind": "sums", "scorers": {"same": {"kind": "exact"}}})
    assert task({"kind": "sums", "scorers": {"same": {"kind": "maths"}}}).refused == ()


def test_gsm8k_offers_the_maths_grammar(tmp_path: Path) -> None:
    rows = written(tmp_path / "g.jsonl", [{"question": f"{n}?", "answer": f"#### 1,{n}00"} for n in range(4)])
    plain, maths = (task({"kind": "gsm8k", "answer": answer}, rows) for answer in ("anywhere", "maths"))
    prompt = next(p for p in plain.split(TRAIN))
    gold = int(str(prompt.gold))
    for text in (
        f"#### {gold}",
        f"so \\boxed{{{gold}\\text{{ legs}}}}",
        f"答案是{gold / 10000}万",
        f"#### {gold + 1}",
        "so",
    ):
        found = [each.scorers["correct"](prompt, sample(text)) for each in (plain, maths)]
        if "答" in text:
            assert found == [Score(0.0), Score(1.0)]
        elif text == "so":
            assert found[0] == Score(0.0) and isinstance(found[1], Failed)
        else:
            assert found[0] == found[1] == Score(float(str(gold) in text))
