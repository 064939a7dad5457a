"""The process's sandboxes: opened by the first program, shared, and gone when the block is left, however it is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.sandbox import shared
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.program import Call, Script
from ropewalk.tasks.scoring.sandbox.running import SandboxFault
from ropewalk.tasks.scoring.sandbox.shared import SharedPool, Shutting, sandboxes
from tests.tasks.scoring.sandbox.pools import footprint, need_bubblewrap

REPOSITORY = Path(__file__).resolve().parents[4]
FOREVER = "while True: pass\n"
SHUTTING = Shutting(Limits(test_seconds=200, program_seconds=200, cpu_seconds=200))


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need_bubblewrap()


def add(pool: SharedPool, number: int) -> object:
    (finding,) = pool.test("def add(a, b): return a + b", [Call("add", [number, 1])])
    return finding.value


def workers() -> int:
    return sum(thread.name.startswith("sandbox") for thread in threading.enumerate())


def test_nothing_is_opened_before_the_first_program_and_nothing_is_left_after_the_block() -> None:
    """Fault G9."""
    before, threads = footprint(), workers()
    with sandboxes():
        first, second = SharedPool(SHUTTING), SharedPool(Shutting(SHUTTING.limits))
        assert not footprint().beyond(before) and workers() <= threads
        assert add(first, 1) == 2
        opened = workers()
        assert opened > threads
        assert add(second, 2) == 3 and workers() <= threads + SHUTTING.workers, "equal ones share a pool"
        with sandboxes():
            add(first, 3)
        assert workers() > threads, "an inner block closes nothing"
        with pytest.raises(ZeroDivisionError), sandboxes():
            raise ZeroDivisionError
        assert add(first, 4) == 5
    assert not footprint().beyond(before) and workers() <= threads


def test_a_program_outside_of_any_block_has_a_sandbox_for_itself() -> None:
    before, threads = footprint(), workers()
    assert add(SharedPool(SHUTTING), 1) == 2
    assert not footprint().beyond(before) and workers() <= threads


def test_many_threads_share_one_pool() -> None:
    pool, before = SharedPool(SHUTTING), footprint()
    with sandboxes(), ThreadPoolExecutor(12) as threads:
        found = list(threads.map(lambda n: add(pool, n), range(36)))
        assert workers() <= SHUTTING.workers
    assert found == list(range(1, 37)) and not footprint().beyond(before)


def test_an_error_ends_what_still_runs_at_once() -> None:
    """Fault G9: after Ctrl-C in the main thread a hostile program in another is ended with the block."""
    before, ended = footprint(), []

    def run() -> None:
        try:
            ended.append(SharedPool(SHUTTING).test(FOREVER, [Script()]))
        except SandboxFault as fault:
            ended.append(str(fault))

    thread = threading.Thread(target=run)
    with pytest.raises(KeyboardInterrupt), sandboxes():
        thread.start()
        while not footprint().descendants - before.descendants:
            time.sleep(0.01)
        time.sleep(0.2)
        raise KeyboardInterrupt
    thread.join(60)
    assert ended == ["the pool of sandboxes was stopped"]
    assert not footprint().beyond(before)


def test_what_is_not_to_be_had_is_said_before_anything_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match=r'bubblewrap, which is not here: .*isolation="process" by name'):
        SHUTTING.check()


def test_a_forked_child_opens_its_own() -> None:
    with sandboxes():
        assert add(SharedPool(SHUTTING), 1) == 2
        child = os.fork()
        if child == 0:
            alone = not shared._KEEPER._open and add(SharedPool(SHUTTING), 2) == 3
            os._exit(0 if alone else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert add(SharedPool(SHUTTING), 3) == 4


CHILD = """
import sys, threading
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.program import Script
from ropewalk.tasks.scoring.sandbox.shared import SharedPool, Shutting, sandboxes
pool = SharedPool(Shutting(Limits(test_seconds=200, program_seconds=200, cpu_seconds=200)))
with sandboxes():
    for _ in range(2):
        threading.Thread(target=lambda: pool.test("while True: pass", [Script()]), daemon=True).start()
    print("started", flush=True)
    pool.test("while True: pass", [Script()])
"""


def offspring(parent: int) -> set[int]:
    """Processes below a process, from /proc."""
    above: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                above[int(entry.name)] = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {parent}
    while more := {pid for pid, up in above.items() if up in found} - found:
        found |= more
    return found - {parent}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_a_process_that_ends_in_the_middle_leaves_no_program_behind(number: signal.Signals) -> None:
    """Fault G9: Ctrl-C, and even a kill."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"started\n"
        deadline = time.monotonic() + 60
        while len(started := offspring(child.pid)) < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(started) >= 6, "programs run"
        child.send_signal(number)
        assert child.wait(60) != 0
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    finally:
        child.kill()
        child.communicate()


def test_whoever_waits_for_a_sandbox_is_told_that_it_will_not_come() -> None:
    """Fault G9: more programs than the pool has room for, and an error in the middle; nobody waits for ever."""
    before, told = footprint(), []

    def run() -> None:
        try:
            told.append(SharedPool(SHUTTING).test(FOREVER, [Script()]))
        except Exception as error:  # noqa: BLE001  whatever it is, it is what the test looks at
            told.append(error)

    threads = [threading.Thread(target=run) for _ in range(SHUTTING.workers * 12)]
    with pytest.raises(ZeroDivisionError), sandboxes():
        for thread in threads:
            thread.start()
        while not footprint().descendants - before.descendants:
            time.sleep(0.01)
        time.sleep(0.3)
        raise ZeroDivisionError
    for thread in threads:
        thread.join(60)
    assert len(told) == len(threads)
    assert all(isinstance(error, Exception) for error in told)
    assert not footprint().beyond(before)
