"""A pass cannot be had without computing: what a program may try against the tests, and that none of it works."""

import random
from collections.abc import Iterator

import pytest

from ropewalk.tasks.scoring.sandbox.inside.wire import Handle
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Call, TestCode
from tests.tasks.scoring.sandbox.hostile import sections
from tests.tasks.scoring.sandbox.pools import bubblewrap_pool

NEEDLE = "the-needle-" + "7f3a91"


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with bubblewrap_pool() as made:
        yield made


FORGERIES = sections("forgeries.txt")

STRICT = {
    "equal": "assert f(6) == 42",
    "not different": "assert not (f(6) != 42)",
    "close": "assert abs(f(6) - 42) < 1e-6",
    "among": "assert f(6) in (41, 42)",
    "list": "x = [6]\nassert f(x) == [42] and x == [6]",
    "loop": "n = 0\nfor got, want in zip(map(f, [6, 7]), [42, 49]):\n    assert got == want\n    n += 1\nassert n == 2",
    "loop that would not notice": "for got in map(f, [6]):\n    assert got == 42",
    "all": "assert all(f(x) == y for x, y in [(6, 42)])",
    "check": "def check(candidate):\n    assert candidate(6) == 42, 'no'\ncheck(f)",
    "swallowing": "try:\n    got = f(6)\nexcept Exception:\n    got = None\nassert got == 42",
}


@pytest.mark.parametrize("name", FORGERIES, ids=lambda name: name.replace(" ", "-"))
def test_no_forgery_passes_a_strict_test(name: str, pool: SandboxPool, grid_seed: int) -> None:
    sampled = random.Random(f"{grid_seed}{name}").sample(sorted(STRICT), 3)
    assert passing(pool, name, sampled) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGERIES, ids=lambda name: name.replace(" ", "-"))
def test_no_forgery_passes_any_strict_test(name: str, pool: SandboxPool) -> None:
    assert passing(pool, name, list(STRICT)) == []


def passing(pool: SandboxPool, forgery: str, tests: list[str]) -> list[str]:
    """The strict tests that a forgery passes."""
    findings = pool.test(FORGERIES[forgery], [TestCode(STRICT[key], {"f": "f"}) for key in tests])
    return [key for key, finding in zip(tests, findings, strict=True) if finding.status == "done"]


@pytest.mark.parametrize("name", FORGERIES, ids=lambda name: name.replace(" ", "-"))
def test_no_forgery_gives_a_call_the_right_value(name: str, pool: SandboxPool) -> None:
    for finding in pool.test(FORGERIES[name], [Call("f", [6]), Call("f", [6, 1])]):
        assert finding.status != "done" or finding.value not in (42, [42], "42")
        assert not isinstance(finding.value, Handle) or finding.value != 42


def test_honest_code_passes_every_strict_test(pool: SandboxPool) -> None:
    source = "def f(x): return [7 * each for each in x] if isinstance(x, list) else 7 * x"
    findings = pool.test(source, [TestCode(code, {"f": "f"}) for code in STRICT.values()])
    assert [finding.status for finding in findings] == ["done"] * len(STRICT)


SEARCH = """
import ctypes, gc, os, sys
half = {half!r}
needle = half + {rest!r}[::-1]
def seen(value):
    return isinstance(value, str) and needle in value and value is not needle
def frames():
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if seen(value) or (isinstance(value, bytes) and needle.encode() in value): return 'frame'
        frame = frame.f_back
def objects():
    for thing in gc.get_objects():
        if isinstance(thing, dict) and any(seen(v) for v in list(thing.values()) if v is not needle): return 'gc'
        if isinstance(thing, (list, tuple)) and any(seen(v) for v in thing): return 'gc'
def memory():
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    page = 4096
    top = libc.sbrk(0)
    mine = needle.encode()
    source, sink = os.pipe()
    for base in (top - 2**24, id(needle) - 2**22, id([]) - 2**23):
        start = base - base % page
        for place in range(start, start + 2**24, page):
            # A pipe refuses what cannot be read, where looking at it would end the program.
            if libc.write(sink, ctypes.c_void_p(place), page) == page:
                text = os.read(source, page)
                at = text.find(mine)
                while at >= 0:
                    # Its own copies are followed by the end of a str or bytes; test code goes on after it.
                    if text[at + len(mine) : at + len(mine) + 4] == b'#end': return 'memory'
                    at = text.find(mine, at + 1)
def f(x):
    return frames() or objects() or memory() or 'nothing'
"""


def test_a_program_finds_nothing_of_the_test_code_in_its_frames_objects_or_memory(pool: SandboxPool) -> None:
    """Also not of a test that came before: a sandbox that has held test code gets no further program."""
    source = SEARCH.format(half=NEEDLE[:11], rest=NEEDLE[11:][::-1])
    crash = "import os\ndef f(x): os.abort()"
    secret = f"wanted = '{NEEDLE}'#end\n"
    setup = f"s = '{NEEDLE}'#end"
    codes = [TestCode(f"{secret}assert f({n}) == 'nothing', f({n})", {"f": "f"}, setup) for n in range(2)]
    findings = pool.run(lambda box: [*box.run(crash, codes), *box.run(source, codes)])
    assert [finding.status for finding in findings[:2]] == ["crashed"] * 2
    assert [(finding.status, finding.detail) for finding in findings[2:]] == [("done", "")] * 2


def test_the_search_finds_what_is_there(pool: SandboxPool) -> None:
    """The search is worth something: given the needle as an argument, it finds it."""
    source = SEARCH.format(half=NEEDLE[:11], rest=NEEDLE[11:][::-1])
    (finding,) = pool.test(source, [Call("f", [f"{NEEDLE}#end"])])
    assert finding.value in ("frame", "gc", "memory")


def test_setup_and_helpers_of_the_test_are_the_tests_own(pool: SandboxPool) -> None:
    """A helper that the problem gives cannot be replaced by the program's."""
    code = TestCode("assert helper(f(3)) == 0", {"f": "f"}, setup="def helper(x): return x - 9")
    cheat = "def helper(x): return 0\ndef f(x): return 1\n"
    honest = "def f(x): return x * x\n"
    assert pool.test(cheat, [code])[0].status == "failed"
    assert pool.test(honest, [code])[0].status == "done"


def test_objects_of_the_program_may_be_used_but_not_compared(pool: SandboxPool) -> None:
    source = (
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
        "    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n"
        "    def __iter__(self): return iter(self.items)\n    def __getitem__(self, n): return self.items[n]\n"
        "    def __eq__(self, other): return True\n"
    )
    used = (
        "s = Stack()\ns.push(3)\ns.push([4, s])\nassert len(s) == 2 and s[0] == 3 and s.items[0] == 3\n"
        "assert [*s][0] == 3 and s.pop()[0] == 4"
    )
    codes = [
        used,
        "assert Stack() == Stack()",
        "assert Stack() == 3",
        "assert Stack()",
        "assert Stack() in [1]",
        "{Stack()}",
    ]
    statuses = [finding.status for finding in pool.test(source, [TestCode(c, {"Stack": "Stack"}) for c in codes])]
    assert statuses == ["done", *["raised"] * 5]


def test_exceptions_of_the_program_reach_the_test_by_kind(pool: SandboxPool) -> None:
    source = (
        "class Own(Exception): pass\ndef f(n):\n    if n < 0: raise ValueError('below')\n"
        "    if n == 0: raise Own('none')\n    return n\n"
    )
    codes = [
        "try:\n    f(-1)\nexcept ValueError as error:\n    assert str(error) == 'below'\nelse:\n    assert False",
        "try:\n    f(0)\nexcept RuntimeError as error:\n    assert 'Own' in str(error)\nelse:\n    assert False",
        "f(-1)",
        "f()",
    ]
    statuses = [finding.status for finding in pool.test(source, [TestCode(c, {"f": "f"}) for c in codes])]
    assert statuses == ["done", "done", "raised", "raised"]


def test_what_cannot_be_sent_is_the_tests_fault(pool: SandboxPool) -> None:
    code = TestCode("assert f(lambda x: x) == 1", {"f": "f"})
    assert pool.test("def f(g): return 1", [code, code])[1].status == "refused"
    assert pool.test("def f(g): return 1", [Call("f", [object()]), Call("f", [1])])[0].status == "refused"


REFUSED = [
    "import no_such_module\nassert f(1) == 1",
    "assert undefined(f(1)) == 1",
    "f(compile)",
    "f({1: object()})",
]
PROGRAMS_OWN = [
    "raise_('ImportError')",
    "raise_('NameError')",
    "raise_('SyntaxError')",
    "x = deep()\nfor _ in range(20): x = f([x])",
    "missing",
    "f.missing",
]


@pytest.mark.parametrize("code", REFUSED)
def test_a_test_that_cannot_work_is_the_tests_fault(code: str, pool: SandboxPool) -> None:
    """A broken test must not look like wrong programs."""
    assert pool.test("def f(x): return x", [TestCode(code, {"f": "f"})])[0].status == "refused"
    broken = TestCode("assert f(1) == 1", {"f": "f"}, setup="import no_such_module")
    assert pool.test("def f(x): return x", [broken])[0].status == "refused"


@pytest.mark.parametrize("code", PROGRAMS_OWN)
def test_a_program_cannot_make_its_failure_look_like_the_tests(code: str, pool: SandboxPool) -> None:
    source = (
        "import builtins\ndef f(x): return x\ndef raise_(kind): raise getattr(builtins, kind)('mine')\n"
        "def deep():\n    x = []\n    for _ in range(95): x = [x]\n    return x\n"
    )
    names = {"f": "f", "raise_": "raise_", "deep": "deep", **({"missing": "missing"} if code == "missing" else {})}
    assert pool.test(source, [TestCode(code, names)])[0].status == "raised"


def test_a_dead_program_stays_dead_even_for_tests_that_swallow_everything(pool: SandboxPool) -> None:
    code = TestCode("try:\n    f(1)\nexcept:\n    pass", {"f": "f"})
    later = TestCode("assert f(2) == 2", {"f": "f"})
    findings = pool.test("import os\ndef f(n):\n    if n == 1: os.abort()\n    return n\n", [code, later])
    assert [finding.status for finding in findings] == ["crashed", "done"]
