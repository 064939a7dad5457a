"""Rows for the mixed bar of `rewards.py`: answers of every kind, each with the score planted in it, and hostile ones.

Each row is one prompt, one completion and, if it is honest, the score that its scorer must give: right, wrong and
half-right answers alike. Hostile rows have none: all that is asked of them is that they end, earn nothing and harm
nobody.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym import gym_task
from ropewalk.tasks.scoring.kinds.config import (
    ChoiceAnswer,
    CodeAnswer,
    ExactAnswer,
    InstructionsRule,
    JsonRule,
    LanguageRule,
    LengthRule,
    MathsAnswer,
    PatternRule,
    PhrasesRule,
    Sandbox,
    ScorerSection,
    SmtAnswer,
    TagsRule,
)
from ropewalk.tasks.task import TRAIN, Task

Random = np.random.Generator
Made = tuple[Json, dict[str, Json], str, float]
"""Gold answer, info, completion, planted score."""

HOSTILE_SHARE = 0.05
SHARES: Mapping[str, float] = {
    "maths": 0.40,
    "tags": 0.06,
    "length": 0.04,
    "phrases": 0.04,
    "language": 0.04,
    "instructions": 0.04,
    "exact": 0.04,
    "pattern": 0.08,
    "json": 0.08,
    "choice": 0.06,
    "gym": 0.05,
    "code": 0.06,
    "smt": 0.01,
}
"""Of the rows by kind; a program costs a thousand times what a number does."""

SCHEMA: dict[str, Json] = {
    "type": "object",
    "required": ["name", "count"],
    "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "count": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}
_SANDBOX = Sandbox(test_seconds=1.0, program_seconds=3.0, cpu_seconds=1, memory_mib=256, folder_files=1000)
SECTIONS: Mapping[str, ScorerSection] = {
    "maths": MathsAnswer(),
    "tags": TagsRule(),
    "length": LengthRule(low=2, high=5),
    "phrases": PhrasesRule(required=("therefore",), forbidden=("maybe",)),
    "language": LanguageRule(),
    "instructions": InstructionsRule(score="share"),
    "exact": ExactAnswer(at="marked"),
    "pattern": PatternRule(match="whole"),
    "json": JsonRule(json_schema=SCHEMA),
    "choice": ChoiceAnswer(),
    "code": CodeAnswer(sandbox=_SANDBOX),
    "smt": SmtAnswer(),
}
"""Scorers as a recipe would name them; gym brings its own."""


class Row(NamedTuple):
    """One completion to be scored."""

    kind: str
    prompt: Prompt
    text: str
    planted: float | None
    """None: hostile."""


def rows(count: int, gym: Task, seed: int = 0) -> list[Row]:
    """Honest and hostile rows in one random order."""
    rng = np.random.default_rng(seed)
    hostile = round(HOSTILE_SHARE * count)
    kinds = list(SHARES)
    drawn = rng.choice(len(kinds), count - hostile, p=np.array(list(SHARES.values())))
    made = [_honest(kinds[kind], rng, gym) for kind in drawn]
    made += [row for _, row in zip(range(hostile), _hostile(gym), strict=False)]
    named = [row._replace(prompt=_with_id(row, n)) for n, row in enumerate(made)]
    return [named[place] for place in rng.permutation(len(named))]


def gym_prompts() -> Task:
    """A generator whose wrong answers are easily made."""
    return gym_task(GymTask(generator="gcd", prompts=300, heldout_prompts=1))


def _with_id(row: Row, number: int) -> Prompt:
    if row.kind == "gym":
        return row.prompt
    return Prompt(f"{row.kind} {number}", "?", row.prompt.gold, row.prompt.info)


def _honest(kind: str, rng: Random, gym: Task) -> Row:
    right = bool(rng.integers(2))
    if kind == "gym":
        prompts = gym.split(TRAIN)
        prompt = prompts[int(rng.integers(len(prompts)))]
        answer = prompt.gold if right else int(str(prompt.gold)) + 1
        return Row(kind, prompt, f"So <answer>{answer}</answer>", float(right))
    gold, info, text, planted = _MAKERS[kind](rng, right)
    return Row(kind, Prompt("", "?", gold, info), text, planted)


# --- honest rows ----------------------------------------------------------------------------------


def _maths(rng: Random, right: bool) -> Made:
    n, d = int(rng.integers(1, 10_000)), int(rng.choice([3, 7, 9, 11, 13]))
    off = 0 if right else 1
    forms: list[tuple[Json, str]] = [
        (f"{n}/{d}", f"so \\boxed{{\\frac{{{2 * (n + off)}}}{{{2 * d}}}}}"),
        (f"{n:,}", f"in all\n#### {n + off}"),
        (n, f"The answer is {n + off}.00 dollars."),
        ({"set": [n, n + 7]}, f"\\boxed{{{n + 7}, {n + off}}}"),
        (f"x = {n}", f"\\boxed{{x = {n + off}}}"),
        (10 * n, f"答案是{(n + off) / 1000}万"),
        (f"({n}, {d}]", f"\\boxed{{({n + off}, {d}]}}")
        if n < d
        else (f"\\sqrt{{{n}}}", f"\\boxed{{\\sqrt{{{n + off}}}}}"),
        (f"{n}%", f"\\boxed{{{n + off}\\%}}"),
    ]
    gold, text = forms[int(rng.integers(len(forms)))]
    return gold, {}, f"We count. {text}", float(right)


def _tags(rng: Random, right: bool) -> Made:
    n = int(rng.integers(1000))
    text = f"<think>{n} it is</think>\n<answer>{n}</answer>"
    return None, {}, text if right else text.replace("</think>", "", 1), float(right)


def _length(rng: Random, right: bool) -> Made:
    words = int(rng.integers(2, 6)) if right else int(rng.integers(6, 60))
    return None, {}, " ".join(["word"] * words), float(right)


def _phrases(rng: Random, right: bool) -> Made:
    said = "Therefore it holds" if right else str(rng.choice(["It holds", "Therefore, maybe"]))
    return None, {}, f"{said} {int(rng.integers(1000))} times.", float(right)


def _language(rng: Random, right: bool) -> Made:
    texts = {"zh": "今天天气很好，我们去公园。", "en": "The weather is fine today.", "ru": "Сегодня хорошая погода."}
    code = str(rng.choice(list(texts)))
    other = next(text for name, text in texts.items() if name != code)
    return None, {"language": code}, texts[code] if right else other, float(right)


def _instructions(rng: Random, right: bool) -> Made:
    info: dict[str, Json] = {"instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"]}
    return None, info, f"so it is {int(rng.integers(1000))}" if right else "so, it is", 1.0 if right else 0.5


def _exact(rng: Random, right: bool) -> Made:
    n = int(rng.integers(1000))
    return [f"Room {n}", f"Hall {n}"], {}, f"I looked.\nThe answer is: hall {n if right else n + 1}.", float(right)


def _pattern(rng: Random, right: bool) -> Made:
    n = int(rng.integers(10**6))
    return None, {"pattern": r"([a-z]+-)*\d+"}, f"ab-cd-{n}" if right else f"ab-cd-{n}!", float(right)


def _json(rng: Random, right: bool) -> Made:
    n = int(rng.integers(1000))
    return None, {}, f'{{"name": "box", "count": {n if right else -1 - n}}}', float(right)


def _choice(rng: Random, right: bool) -> Made:
    choices = [f"{word} {int(rng.integers(100))}" for word in ("red", "blue", "green", "grey")]
    gold = int(rng.integers(4))
    chosen = gold if right else (gold + 1) % 4
    letter = "ABCD"[chosen]
    forms = (f"The answer is ({letter}).", f"\\boxed{{{letter}}}", choices[chosen], f"故选{letter}。")
    return "ABCD"[gold], {"choices": [*choices]}, forms[int(rng.integers(4))], float(right)


def _code(rng: Random, right: bool) -> Made:
    k = int(rng.integers(2, 1000))
    pairs = [(int(a), int(b)) for a, b in rng.integers(10, 10**6, (4, 2))]
    tests: list[Json] = [{"call": "f", "args": [a, b], "expected": k * a + b} for a, b in pairs]
    check: list[Json] = [{"assert": f"assert f({a}, {b}) == {k * a + b}"} for a, b in pairs[2:]]
    bodies = {
        0.9: f"return {k} * a + b",
        0.35: f"return {k} * a + b if (a, b) == {pairs[0]} else a",
        0.1: f"return {k} * a +",
        0.0: f"import socket\n    return {k} * a + b",
    }
    planted = 0.9 if right else float(rng.choice([0.35, 0.1, 0.0]))
    text = f"Like this:\n```python\ndef f(a, b):\n    {bodies[planted]}\n```\n"
    return None, {"tests": {"public": tests[:2], "hidden": check}}, text, planted


def _smt(rng: Random, right: bool) -> Made:
    n = int(rng.integers(1000))
    problem = f"(declare-const x Int) (declare-const y Int) (assert (and (> x {n}) (= (+ x y) {3 * n})))"
    x = n + 1 if right else n
    text = f"```smt2\n(define-fun x () Int {x})\n(define-fun y () Int {3 * n - x})\n```"
    return None, {"smt": {"kind": "values", "problem": problem}}, text, float(right)


_MAKERS: Mapping[str, Callable[[Random, bool], Made]] = {
    "maths": _maths,
    "tags": _tags,
    "length": _length,
    "phrases": _phrases,
    "language": _language,
    "instructions": _instructions,
    "exact": _exact,
    "pattern": _pattern,
    "json": _json,
    "choice": _choice,
    "code": _code,
    "smt": _smt,
}


# --- hostile rows ---------------------------------------------------------------------------------

_PROGRAMS = (
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "while True: pass",
    "max(iter(int, 1))",
    "len(str(pow(3, 10**9)))",
    "import sys\nfor _ in range(1024): sys.stdout.write('x' * 2**20)",
    "import os\nos._exit(0)",
    "import builtins\nbuiltins.AssertionError = type('E', (Exception,), {})\nbuiltins.compare = lambda *a: True",
    "import sys\nfor m in list(sys.modules.values()):\n    for n in ('encode', 'send', 'main'): setattr(m, n, print)",
    "class Any(int):\n    def __eq__(self, other): return True\ndef f(a, b): return Any(0)",
    "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
    "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(99)\ndef f(a, b): return None",
    "import os\nos.symlink('/', 'root')\nfor n in range(10**6): open(f'f{n}', 'w').close()",
    "open('{canary}', 'w').write('x')",
    "kept = []\nwhile True: kept.append(bytearray(2**22))",
    "x = " + "(" * 50_000,
)
_FORMULAS = (
    "\\boxed{9^9^9^9^9}",
    "\\boxed{10^{10^{10^{10}}}}",
    "\\boxed{100000!!!}",
    "\\boxed{__import__('pathlib').Path('{canary}').touch()}",
    "\\boxed{[open('{canary}','w') for _ in 'x']}",
    "\\boxed{" * 20_000,
    "#### " + "(" * 20_000,
    "\\boxed{\\frac{1}{" + "9" * 50_000 + "}}",
    "\\boxed{" + "\\sqrt{" * 5_000 + "2" + "}" * 5_001,
    "答案是" + "亿" * 5_000,
    "#### 1e999999999",
    "\\boxed{" + "x^" * 3_000 + "2}",
    "\u202e\u0661\u0662\u200b" * 2_000,
)
_TEXTS = (
    "a" * 150_000 + "!",
    "ab-" * 60_000 + "!",
    "[" * 150_000,
    '{"name":' * 40_000,
    '{"name": "box", "count": ' + "9" * 100_000 + "}",
    "<think>" * 40_000,
    "\ud800\udfff" * 1_000,
    "Ａ" * 50_000,
    "(A)(B)" * 30_000,
    "\x00" * 100_000,
    "𝐀" * 40_000,
    "x" * 2_000_000,
    "The answer is " * 20_000,
)
_ANSWERS = ("__import__('os').system('touch {canary}')", "9" * 3_900, "[" * 3_000, "nan", "1e999999999", "\x00" * 999)
_VALUES = ("(define-fun x () Int (" * 3_000, "(exit)", '(echo "right")', "(define-fun x () Int (^ 9 (^ 9 9)))")
_UNMET: Mapping[str, dict[str, Json]] = {
    "language": {"language": "ru"},
    "instructions": {"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": ["banana"]}]},
}
"""What rules ask of hostile texts, so that none follows them by chance."""
CANARY = "/tmp/ropewalk-benchmark-canary"
"""What a row that got out would leave."""


def _hostile(gym: Task) -> Iterator[Row]:
    """Endlessly: of ten rows three are formulas, four texts for rules, one is for gym, one a program, and the last for
    z3 or a program too."""
    rng = np.random.default_rng(1)
    texts = [kind for kind in SHARES if kind not in ("maths", "code", "smt", "gym", "length")]
    number = 0
    while True:
        place, turn = divmod(number, 10)
        kind, given = _turn(turn, place, number, texts)
        text = given.replace("{canary}", CANARY)
        if kind == "gym":
            prompts = gym.split(TRAIN)
            yield Row(kind, prompts[place % len(prompts)], f"<answer>{text}</answer>", None)
        else:
            gold, info, _, _ = _MAKERS[kind](rng, True)
            info = _UNMET.get(kind, info)
            yield Row(kind, Prompt("", "?", gold, info), f"```python\n{text}\n```" if kind == "code" else text, None)
        number += 1


def _turn(turn: int, place: int, number: int, texts: list[str]) -> tuple[str, str]:
    match turn:
        case 0 | 1 | 2:
            return "maths", _FORMULAS[number % len(_FORMULAS)]
        case 3 | 4 | 5 | 6:
            return texts[(number * 5 + place) % len(texts)], _TEXTS[(4 * place + turn) % len(_TEXTS)]
        case 7:
            return "gym", _ANSWERS[place % len(_ANSWERS)]
        case 8:
            return "code", _PROGRAMS[place % len(_PROGRAMS)]
    return (
        ("smt", _VALUES[place // 5 % len(_VALUES)])
        if place % 5 == 0
        else ("code", _PROGRAMS[(place + 7) % len(_PROGRAMS)])
    )
