"""The pool: from threads and event loops, bounded, repeatable, and gone without a trace, whoever dies first."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.tasks.scoring.sandbox.inside.wire import encode
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Call, Script, TestCode
from ropewalk.tasks.scoring.sandbox.running import Gone
from tests.tasks.scoring.sandbox.pools import (
    PATIENT,
    ROOMY,
    ROOT,
    SHORT,
    bubblewrap_pool,
    footprint,
    need_bubblewrap,
)

REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with bubblewrap_pool() as made:
        yield made


def test_a_script_has_its_stdin_by_both_names_exit_and_no_environment(pool: SandboxPool) -> None:
    source = (
        "import sys, os\nfirst = input()\nprint(first, sys.stdin.read(), open('/dev/stdin').read(), dict(os.environ))\n"
        "print(__name__, sys.argv, os.getcwd(), os.listdir('.'))\nprint('é')\nexit(0)\n"
    )
    first, second = pool.test(source, [Script("a\nb"), Script("c\n")])
    assert first.stdout == "a b a\nb {}\n__main__ ['program.py'] /box/1 []\né\n"
    assert second.stdout == "c  c\n {}\n__main__ ['program.py'] /box/2 []\né\n"
    assert (first.status, second.status) == ("done", "done")


def test_a_script_ends_as_scripts_do(pool: SandboxPool) -> None:
    """Its threads are waited for, its exit handlers run, its output is flushed, its exception has a traceback."""
    source = (
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('first')\n"
        "raise KeyError('k')\n"
    )
    (found,) = pool.test(source, [Script()])
    assert (found.status, found.detail) == ("raised", "KeyError: 'k'")
    assert found.stdout == "first\nthread\nlast\n"
    assert 'File "program.py", line 5, in <module>' in found.stderr


def test_calls_share_a_life_until_one_ends_it(pool: SandboxPool) -> None:
    source = (
        "import os\nn = 0\ndef count():\n    global n\n    n += 1\n    return n\ndef end(): os.abort()\n"
        "class Box:\n    def __init__(self): self.seen = []\n    def add(self, x, *, twice=False):\n"
        "        self.seen.append(x)\n        return (self.seen, twice)\ndef fill(x): x.append(len(x))\n"
    )
    calls = [Call("count"), Call("count"), Call("end"), Call("count"), Call("Box().add", [1], {"twice": True})]
    findings = pool.test(source, [*calls, Call("fill", [[7]], argument=0), Call("fill", [[7]])])
    assert [f.status for f in findings] == ["done", "done", "crashed", "done", "done", "done", "done"]
    assert [f.value for f in findings] == [1, 2, None, 1, ([1], True), [7, 1], None]


def test_a_program_that_cannot_be_loaded_breaks_every_call_once(pool: SandboxPool) -> None:
    findings = pool.test("import nothing_of_this_name", [Call("f"), Call("f"), TestCode("f()", {"f": "f"})])
    assert {(f.status, f.detail) for f in findings} == {
        ("broken", "ModuleNotFoundError: No module named 'nothing_of_this_name'")
    }


def test_verdicts_repeat(pool: SandboxPool) -> None:
    """Sets have one order in every life, and a test's random numbers are the same every time."""
    source = "def f(x): return list({'a', 'b', 'c', 'd', 'e', str(x)})"
    code = TestCode("import random\nassert f(random.random()) == 'shown', random.random()", {"f": "f"})
    runs = [pool.test(source, [Call("f", [1]), code]) for _ in range(3)]
    assert len({str(run[0].value) for run in runs}) == len({run[1].detail for run in runs}) == 1


def test_it_works_the_same_from_threads_and_from_an_event_loop(pool: SandboxPool) -> None:
    """Fault G4: no signals, no main thread needed."""

    def ask(n: int) -> object:
        return pool.test("def f(x): return x * x", [Call("f", [n])])[0].value

    async def gathered() -> list[object]:
        found = await asyncio.gather(
            *(asyncio.to_thread(ask, n) for n in range(24)),
        )
        return list(found)

    squares = [n * n for n in range(24)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(24))) == squares
    assert asyncio.run(gathered()) == squares


def test_the_backlog_is_bounded_and_the_event_loop_keeps_running() -> None:
    with bubblewrap_pool(1) as pool:
        gate = threading.Event()
        room = 1 + 8
        held = [pool.submit(lambda box: gate.wait(120)) for _ in range(room)]
        late = threading.Thread(target=lambda: held.append(pool.submit(lambda box: True)))
        late.start()

        async def beside() -> bool:
            waiting = asyncio.create_task(asyncio.to_thread(pool.run, lambda box: True))
            await asyncio.sleep(0.1)
            assert not waiting.done() and len(held) == room
            gate.set()
            return await waiting

        assert asyncio.run(beside())
        late.join(60)
        assert len(held) == room + 1 and all(future.result(60) for future in held)


def test_large_sources_inputs_and_answers_come_through(pool: SandboxPool) -> None:
    padding = "# " + "x" * 3_000_000 + "\n"
    numbers = list(range(200_000))
    script, large = pool.test(f"{padding}print(len(input()))", [Script("y" * 10_000_000), Script("y" * 17_000_000)])
    assert (script.status, script.stdout) == ("done", "10000000\n")
    assert large.status == "refused"
    source = f"{padding}def f(x): return x\ndef g(x): return len(x)\n"
    many, much, fitting = pool.test(source, [Call("g", [numbers]), Call("f", [numbers]), Call("f", [numbers[:50_000]])])
    assert many.value == 200_000
    assert much.status == "output" and fitting.value == numbers[:50_000]
    code = TestCode(f"assert f({numbers[:50_000]}) == {numbers[:50_000]}", {"f": "f"})
    assert pool.test(source, [code])[0].status == "done"


def test_work_that_raises_leaves_nothing(pool: SandboxPool) -> None:
    before = footprint()

    def broken(box: object) -> None:
        box.run("x = 1", [Script()])  # type: ignore[attr-defined]
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        pool.run(broken)
    assert not footprint().beyond(before)


def test_processor_time_is_that_of_a_whole_life() -> None:
    """What loading and earlier tests have used counts: the test that meets the limit has used little of it."""
    source = (
        "import time\n"
        "def busy(seconds):\n"
        "    end = time.process_time() + seconds\n"
        "    while time.process_time() < end: pass\n"
        "    return time.process_time()\n"
        "busy(0.2)\n"
    )
    for calls in ([0.5, 60], [0.25, 0.25, 60]):
        with bubblewrap_pool(1, replace(ROOMY, cpu_seconds=1)) as pool:
            *before, last = pool.test(source, [Call("busy", [seconds]) for seconds in calls])
        assert [finding.status for finding in before] == ["done"] * (len(calls) - 1)
        assert (last.status, last.detail) == ("timeout", "1 s of processor time")


def test_the_time_for_all_tests_is_one_budget() -> None:
    """Each test takes half a second at least, and there are three seconds for all."""
    limits = replace(PATIENT, test_seconds=0.5, program_seconds=3.0)
    with bubblewrap_pool(1, limits) as pool:
        statuses = [finding.status for finding in pool.test("while True: pass", [Script()] * 30)]
    reached = statuses.index("not_reached")
    assert 1 <= reached <= 6 and statuses == ["timeout"] * reached + ["not_reached"] * (30 - reached)


def test_a_verdict_without_the_tag_is_nobodys(pool: SandboxPool) -> None:
    """Frames that arrive on the verdict pipe with another tag end the sandbox, and nothing passes. Fault G9."""

    def work(box: object) -> object:
        running, tag = box._begin("asserts", "def f(x): return 1", b"", [("", "assert f(1) == 1", {"f": "f"})])  # type: ignore[attr-defined]
        running._received += (frame := encode((bytes(16), "passed"))).__len__().to_bytes(4, "big") + frame
        assert tag != bytes(16)
        with pytest.raises(Gone) as told:
            box._verdict(running, tag)  # type: ignore[attr-defined]
        return told.value.how

    assert pool.run(work) == "ended"


def test_packages_are_shown_by_name_and_only_then() -> None:
    source = (
        "import os\nfrom packaging.version import Version\n"
        "print(Version('1.0') < Version('2.0'), os.listdir('/packages'))\n"
    )
    need_bubblewrap()
    with SandboxPool(1, PATIENT, packages=["packaging"]) as pool:
        assert pool.test(source, [Script()])[0].stdout == "True ['packaging']\n"
    with SandboxPool(1, PATIENT) as pool:
        assert "No module named 'packaging'" in pool.test(source, [Script()])[0].detail


def test_a_pool_gives_back_all_it_took() -> None:
    before = footprint()
    for _ in range(3):
        with bubblewrap_pool(2, SHORT) as pool:
            pool.test("import os\nos.fork()\nprint(1)", [Script(), Call("f"), TestCode("f()", {"f": "f"})])
    assert not footprint().beyond(before)


OWNER = """
import sys, threading
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Script
pool = SandboxPool(2, Limits(test_seconds=200, program_seconds=200, cpu_seconds=200), isolation=sys.argv[1])
for kind in ("import time, os\\nos.fork()\\ntime.sleep(200)", "while True: pass"):
    threading.Thread(target=pool.test, args=(kind, [Script()]), daemon=True).start()
threading.Event().wait(200)
"""


def supervised() -> set[int]:
    """Supervisors and programs of the machine: processes whose command line has the supervisor's beginning."""
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                line = Path(f"/proc/{entry.name}/cmdline").read_bytes()
            except OSError:
                continue
            if b"marshal.loads(read(int.from_bytes" in line:
                found.add(int(entry.name))
    return found


@pytest.mark.parametrize("isolation", ["bubblewrap", "process"])
def test_programs_die_with_the_process_that_asked_even_when_it_is_killed(
    isolation: str, request: pytest.FixtureRequest
) -> None:
    need_bubblewrap()
    command = [sys.executable, "-c", OWNER, isolation]
    others = supervised()
    # A killed owner cannot remove the folders of the fallback: they go with this one.
    folder = tempfile.mkdtemp()
    request.addfinalizer(lambda: shutil.rmtree(folder))
    Path(folder).chmod(0o755)
    environment = {**os.environ, "TMPDIR": folder}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment) as owner:
        end = time.monotonic() + 60
        # Two supervisors, a program of two processes and one of one; bubblewrap shows the same command line.
        running = 7 if isolation == "bubblewrap" else 5
        while len(mine := {pid for pid in supervised() - others if is_below(pid, owner.pid)}) < running:
            assert time.monotonic() < end, mine
            time.sleep(0.05)
        owner.send_signal(signal.SIGKILL)
        owner.wait(60)
    end = time.monotonic() + 60
    while (left := mine & supervised()) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == set()


def is_below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


ORDINARY = '''
import json, os, sys
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Call, Script, TestCode
out = {"uid": os.getuid()}
BOMB = """import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0: time.sleep(9)
        n += 1
except OSError: pass
print(n < 40)"""
PATIENT, BRIEF = Limits(test_seconds=60, program_seconds=120), Limits(test_seconds=3, program_seconds=9)
with SandboxPool(2, PATIENT, isolation=sys.argv[1]) as pool, SandboxPool(1, BRIEF, isolation=sys.argv[1]) as brief:
    def say(name, source, request, pool=pool):
        found = pool.test(source, [request])[0]
        out[name] = [found.status, str(found.value if found.value is not None else found.stdout)]
    say("call", "def f(x): return x + 1", Call("f", [1]))
    say("code", "def f(x): return x + 1", TestCode("assert f(1) == 2", {"f": "f"}))
    say("script", "print(input())", Script("x"))
    say("bomb", BOMB, Script())
    say("outside", "open('/etc/passwd').read()", Script())
    say("trace", "import ctypes, os\\nprint(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))", Script())
    say("kill", "import os, signal\\nos.kill(os.getppid(), 9)\\nwhile True: pass", Script(), brief)
    say("again", "print(input())", Script("y"))
print(json.dumps(out))
'''


@contextmanager
def readable_copy() -> Iterator[Path]:
    """The sandbox package and what it imports, where every user can read it."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "ropewalk"
        wanted = ("records/__init__.py", "records/errors.py", "tasks/__init__.py", "tasks/scoring/__init__.py")
        for name in wanted:
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / "ropewalk" / name, package / name)
        (package / "__init__.py").touch()
        shutil.copytree(REPOSITORY / "ropewalk/tasks/scoring/sandbox", package / "tasks/scoring/sandbox")
        for place in (Path(folder), *Path(folder).rglob("*")):
            place.chmod(0o755)
        yield Path(folder)


def run_as_somebody_else(isolation: str) -> dict[str, object]:
    """ORDINARY run by a user without any rights, with the machine's own Python, if root runs the tests."""
    python = "/usr/bin/python3" if ROOT else sys.executable
    somebody = {"user": 65534, "group": 65534, "extra_groups": []} if ROOT else {}
    with readable_copy() as folder:
        done = subprocess.run(
            [python, "-B", "-c", ORDINARY, isolation],
            capture_output=True,
            text=True,
            timeout=240,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
            cwd="/",
            check=False,
            **somebody,  # type: ignore[arg-type]
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def as_expected(found: dict[str, object], ends: Callable[[str], object]) -> None:
    assert found["uid"] != 0
    assert found["call"] == ["done", "2"] and found["code"] == ["done", ""]
    assert found["script"] == ["done", "x\n"] and found["again"] == ["done", "y\n"]
    assert found["bomb"] == ["done", "True\n"]
    assert found["trace"] == ["done", "-1\n"]
    assert found["outside"][0] == ends("outside")  # type: ignore[index]
    assert found["kill"][0] in ("timeout", "crashed")  # type: ignore[index]


def test_an_ordinary_user_has_the_same_sandbox() -> None:
    need_bubblewrap()
    as_expected(run_as_somebody_else("bubblewrap"), lambda _: "raised")


def test_an_ordinary_user_has_the_process_fallback_with_what_it_does_not_promise() -> None:
    """It reads the machine's files as its user does: that is said in jail.py, and so it is."""
    as_expected(run_as_somebody_else("process"), lambda _: "done")
