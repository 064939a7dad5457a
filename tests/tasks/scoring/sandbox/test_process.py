"""The plain-process fallback: what it still promises, and that what it does not promise is said and so. Fault G9."""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.tasks.scoring.sandbox import jail
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Call, Script, TestCode
from ropewalk.tasks.scoring.sandbox.reap import _processes_of
from tests.tasks.scoring.sandbox.hostile import HONEST, PROGRAMS
from tests.tasks.scoring.sandbox.pools import ROOMY, ROOT, SHORT, footprint
from tests.tasks.scoring.sandbox.test_forging import FORGERIES, STRICT

NOT_PROMISED = {"many large files", "many files", "deep folders"}
"""They fill the disk until their time is up."""
NOT_AS_MYSELF = {"killing everyone", "stopping everyone", "deleting everything", "killing its parent"}
"""They would reach this very process, or the user's files."""
TRIED = [p for p in PROGRAMS if p.name not in NOT_PROMISED and (ROOT or p.name not in NOT_AS_MYSELF)]
ASKED = [Script("21"), Call("double", [21]), TestCode("assert double(21) == 42", {"double": "double"})]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(2, ROOMY, isolation="process") as made:
        yield made


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this test's programs have their folders, and no other test's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.mark.slow
def test_hostile_programs_end_and_honest_ones_between_them_score(own_folder: Path) -> None:
    before = footprint()
    """The honest ones have time: beside fork bombs that no namespace counts they may wait for seconds."""
    with SandboxPool(4, SHORT, isolation="process") as pool, SandboxPool(2, ROOMY, isolation="process") as roomy:
        tried, honest = [], []
        for program in TRIED:
            tried.append(pool.submit(lambda box, source=program.source: box.run(source, ASKED)))
            honest.append(roomy.submit(lambda box: box.run(HONEST, ASKED)))
        found, fine = [future.result() for future in tried], [future.result() for future in honest]
        fine += [pool.run(lambda box: box.run(HONEST, ASKED)) for _ in range(pool.workers)]
        users = [pool._jail.user(slot) for slot in range(pool.workers)]
    for program, (script, call, code) in zip(TRIED, found, strict=True):
        assert script.status in program.ends | {"done", "raised", "crashed", "timeout"}, program.name
        assert call.status != "done" or call.value != 42, program.name
        assert code.status != "done", program.name
    for script, call, code in fine:
        assert (script.stdout, call.value, code.status) == ("42\n", 42, "done"), (script, call, code)
    assert not footprint().beyond(before)
    assert list(own_folder.iterdir()) == []
    assert [pid for user in users if user is not None for pid in _processes_of(user)] == []


def test_no_forgery_passes_here_either(pool: SandboxPool, grid_seed: int) -> None:
    for name in random.Random(grid_seed).sample(sorted(FORGERIES), 8):
        codes = [TestCode(code, {"f": "f"}) for code in list(STRICT.values())[:2]]
        assert all(finding.status != "done" for finding in pool.test(FORGERIES[name], codes)), name


def test_a_daemon_by_double_fork_does_not_outlive_its_program(pool: SandboxPool, tmp_path: Path) -> None:
    source = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n        time.sleep(60)\n    os._exit(0)\nos.wait()\ntime.sleep(0.2)\n"
    )
    (found,) = pool.test(source, [Script()])
    assert found.status == "done"
    assert not Path(f"/proc/{int(found.stdout)}").exists()


def test_its_environment_is_empty_and_its_folder_private_and_gone_afterwards(pool: SandboxPool) -> None:
    (found,) = pool.test("import os\nprint(dict(os.environ), os.getcwd())\nopen('x', 'w').write('y')", [Script()])
    environment, folder = found.stdout.split()
    assert environment == "{}" and "/ropewalk-sandbox-" in folder
    assert not Path(folder).parent.exists()


def test_its_supervisor_cannot_be_traced_or_read(pool: SandboxPool) -> None:
    source = (
        "import ctypes, os\nprint(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))\n"
        "for name in ('mem', 'environ', 'fd/3'):\n"
        "    try: open(f'/proc/{os.getppid()}/{name}', 'rb').read(1); print('BREACH')\n    except OSError: pass\n"
    )
    assert pool.test(source, [Script()])[0].stdout == "-1\n"


def test_what_is_not_promised_is_said_and_so(pool: SandboxPool) -> None:
    """It sees the machine's files and its network, as its user does."""
    words = " ".join((jail.__doc__ or "").split())
    for said in (
        "reading, writing and killing whatever its user may",
        "using the network",
        "filling the disk",
        "outliving",
    ):
        assert said in words
    assert pool.test("print(len(open('/proc/version').read()) > 0)", [Script()])[0].stdout == "True\n"
    assert pool.test("import socket\nsocket.socket()", [Script()])[0].status == "done"


def test_as_root_programs_are_nobody_and_in_any_case_have_a_limit_on_processes(pool: SandboxPool) -> None:
    source = (
        "import os\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0: os.read(os.pipe()[0], 1)\n"
        "        n += 1\nexcept OSError: pass\nprint(os.getuid(), n < 40)"
    )
    user, bounded = pool.test(source, [Script()])[0].stdout.split()
    assert bounded == "True"
    assert int(user) > 2**29 if ROOT else int(user) == os.getuid()
    assert pool.test("open('/etc/shadow')", [Script()])[0].detail.startswith("PermissionError")
