"""Every hostile program ends as it should, honest ones between them score, and nothing is left behind. Fault G9."""

import os
from collections.abc import Iterator

import pytest

from ropewalk.tasks.scoring.sandbox.program import Call, Finding, Script, TestCode
from tests.tasks.scoring.sandbox.hostile import HONEST, PROGRAMS, Hostile
from tests.tasks.scoring.sandbox.pools import SHORT, Footprint, bubblewrap_pool, footprint, processes_in

Results = tuple[dict[str, list[Finding]], list[list[Finding]], Footprint, Footprint, list[int]]

ASKED = [Script("21"), Call("double", [21]), TestCode("assert double(21) == 42", {"double": "double"})]


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """All of them at once through one pool, an honest one after each three."""
    with bubblewrap_pool(6, SHORT) as pool:
        before = footprint()
        namespace = pool._jail.user_namespace
        hostile, honest = {}, []
        for number, program in enumerate(PROGRAMS):
            source = program.source
            hostile[program.name] = pool.submit(lambda box, source=source: box.run(source, ASKED))
            if number % 3 == 0:
                honest.append(pool.submit(lambda box: box.run(HONEST, ASKED)))
        found = {name: future.result() for name, future in hostile.items()}
        fine = [future.result() for future in honest]
        left = [] if namespace is None else processes_in(os.readlink(f"/proc/self/fd/{namespace}"))
        yield found, fine, before, footprint(), left


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
