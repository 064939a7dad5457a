"""Every hostile program ends as it should, honest ones between them score, and nothing is left behind. Fault G9."""

import os
from collections.abc import Iterator

import pytest

from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Call, Finding, Script, TestCode
from tests.tasks.scoring.sandbox.hostile import HONEST, PROGRAMS, Hostile
from tests.tasks.scoring.sandbox.pools import ROOMY, SHORT, Footprint, bubblewrap_pool, footprint, processes_in

Results = tuple[dict[str, list[Finding]], list[list[Finding]], Footprint, Footprint, list[int]]

ASKED = [Script("21"), Call("double", [21]), TestCode("assert double(21) == 42", {"double": "double"})]


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """All of them at once, an honest one after each three; those that end by themselves have time to."""
    with bubblewrap_pool(4, SHORT) as short, bubblewrap_pool(2, ROOMY) as roomy:
        before = footprint()
        hostile, honest = {}, []
        for number, program in enumerate(PROGRAMS):
            source, pool = program.source, short if "timeout" in program.ends else roomy
            hostile[program.name] = pool.submit(lambda box, source=source: box.run(source, ASKED))
            if number % 3 == 0:
                honest.append(roomy.submit(lambda box: box.run(HONEST, ASKED)))
        found = {name: future.result() for name, future in hostile.items()}
        fine = [future.result() for future in honest]
        fine += [pool.run(lambda box: box.run(HONEST, ASKED)) for pool in (short, roomy) for _ in range(pool.workers)]
        left = [pid for pool in (short, roomy) for pid in _inside(pool)]
        yield found, fine, before, footprint(), left


def _inside(pool: SandboxPool) -> list[int]:
    namespace = pool._jail.user_namespace
    return [] if namespace is None else processes_in(os.readlink(f"/proc/self/fd/{namespace}"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name.replace(" ", "-"))
def test_a_hostile_program_ends_as_it_should(program: Hostile, results: Results) -> None:
    script, call, code = results[0][program.name]
    assert script.status in program.ends, script
    assert "BREACH" not in script.stdout + script.stderr
    # It defines no double(): whatever it did, neither the call nor the test code can have been answered.
    assert call.status != "done" or call.value != 42
    assert code.status != "done"


def test_honest_programs_between_them_score(results: Results) -> None:
    for script, call, code in results[1]:
        assert (script.status, script.stdout) == ("done", "42\n"), script
        assert (call.status, call.value) == ("done", 42), call
        assert code.status == "done", code


def test_nothing_is_left_behind(results: Results) -> None:
    _, _, before, after, left = results
    assert not after.beyond(before)
    assert left == []
