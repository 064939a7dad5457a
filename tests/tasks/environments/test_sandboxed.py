"""Python and the shell in the sandbox, on the files of one episode: what stays, what is bounded, what is shut out."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.environments.protocol import ToolCall
from ropewalk.tasks.environments.sandboxed import PythonKit, ShellKit
from ropewalk.tasks.environments.tools import Toolbox, ToolLimits
from ropewalk.tasks.environments.workspace import MAX_BYTES, MAX_FILES, Workspace, check_files, files_of
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from tests.tasks.scoring.sandbox.pools import PATIENT, bubblewrap_pool, footprint

FILES = {"a.txt": b"one\ntwo\nthree\n", "log/x.log": b"error 1\nok\nerror 2\n"}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with bubblewrap_pool(1) as found:
        yield found


@pytest.fixture(scope="module")
def hasty() -> Iterator[SandboxPool]:
    """For programs that run until their time is up."""
    with bubblewrap_pool(1, replace(PATIENT, test_seconds=1.5)) as found:
        yield found


class Episode:
    """Both tools on one workspace."""

    def __init__(self, pool: SandboxPool, own: Any = None) -> None:
        self.workspace = Workspace(FILES)
        self.kits = [PythonKit(self.workspace, pool), ShellKit(self.workspace, pool)]
        self.prompt = Prompt("p", "Do it.", info={} if own is None else {"files": own})
        for kit in self.kits:
            kit.begin(self.prompt)
        self.box = Toolbox([tool for kit in self.kits for tool in kit.tools], ToolLimits())

    def python(self, code: str) -> str:
        return self.box.answer(ToolCall("python", {"code": code})).text

    def shell(self, command: str) -> str:
        return self.box.answer(ToolCall("shell", {"command": command})).text


@pytest.fixture
def episode(pool: SandboxPool) -> Episode:
    return Episode(pool, {"b.txt": "hello\n"})


def test_files_stay_over_the_calls_of_an_episode_and_are_gone_after_it(episode: Episode, pool: SandboxPool) -> None:
    assert episode.python("open('n.txt', 'w').write('hi')") == "2"
    assert episode.shell("echo there >> n.txt; cat n.txt") == "hithere"
    assert episode.python("print(sorted(__import__('os').listdir('.')))") == "['a.txt', 'b.txt', 'log', 'n.txt']"
    assert episode.shell("rm a.txt && ls") == "b.txt\nlog/\nn.txt"
    other = Episode(pool)
    assert other.shell("ls -R") == "a.txt\nlog/\nlog/x.log"
    episode.workspace.close()
    assert episode.workspace.files == {}
    episode.workspace.begin(episode.prompt)
    assert sorted(episode.workspace.files) == ["a.txt", "b.txt", "log/x.log"]


def test_python_shows_what_is_printed_the_last_value_and_its_own_errors(episode: Episode) -> None:
    assert episode.python("x = 3\nprint('x')\nx * 2") == "x\n6"
    assert episode.python("x = 3") == "(no output)"
    assert episode.python("None") == "(no output)"
    assert episode.python("x") == (
        'Error: Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n    x\n'
        "NameError: name 'x' is not defined"
    )
    assert "SyntaxError" in episode.python("def f(:") and "main.py" in episode.python("def f(:")
    assert episode.python("from __future__ import annotations\nprint('é 数')") == "é 数"
    assert episode.python("if __name__ == '__main__':\n    print('main')") == "main"
    assert episode.python("import helper").endswith("ModuleNotFoundError: No module named 'helper'")
    episode.shell("echo 'value = 7' > helper.py")
    assert episode.python("import helper\nhelper.value") == "7"


PROGRAMS = [
    ("print('x' * 2_000_000)", "[ended: it wrote too much]"),
    ("while True: print('x' * 1000)", "[ended: it wrote too much]"),
    ("x = 'x' * 10**10", "MemoryError"),
    ("import os\nos._exit(0)", "(no output)"),
    ("import os\nos._exit(3)", "[it left with exit code 3]"),
    ("raise SystemExit('bye')", "bye"),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "[ended: it crashed (signal 9)]"),
    ("import os\nwhile True: os.fork()", "Error"),
    ("import socket\nsocket.socket()", "PermissionError"),
    ("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'echo hi'])", "FileNotFoundError"),
    ("open('/etc/passwd')", "FileNotFoundError"),
    ("open('/x', 'w')", "Error"),
    ("import os\ndict(os.environ)", "{}"),
    ("def f(): return f()\nf()", "RecursionError"),
    ("input()", "EOFError"),
    ("import sys\nsys.stdout.close()", "(no output)"),
]


@pytest.mark.parametrize(("code", "words"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_hostile_programs_are_bounded_told_and_leave_nothing(episode: Episode, code: str, words: str) -> None:
    """Fault G9."""
    before = footprint()
    assert words in episode.python(code)
    assert not footprint().beyond(before)
    assert episode.shell("cat b.txt") == "hello"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(300)"])
def test_a_program_that_does_not_end_is_ended_told_and_leaves_nothing(
    episode: Episode, hasty: SandboxPool, code: str
) -> None:
    """Fault G9."""
    before, late = footprint(), Episode(hasty)
    assert "[ended: it took longer than 1.5 seconds]" in late.python(code)
    assert not footprint().beyond(before)
    assert episode.shell("cat b.txt") == "hello"


FOLDERS = [
    "import os\nos.symlink('/etc', 's'); os.symlink('a.txt', 't'); os.mkfifo('p')",
    "import os\nos.mkdir('d'); open('d/x', 'w').write('1'); os.chmod('d', 0); os.chmod('a.txt', 0)",
    "import os\nfor n in range(150): os.mkdir('d'); os.chdir('d')",
    "import os\nopen(b'\\xff\\xfe', 'w').write('x')",
    "import os, shutil\nos.chdir('..'); shutil.rmtree('work'); os.symlink('/', 'work')",
    "import os, shutil\nos.chdir('..'); shutil.rmtree('work')",
    "for n in range(500): open(f'f{n}', 'w').close()",
    "open('big', 'wb').write(bytes(3_000_000))",
    "for n in range(20_000): open(f'f{n}', 'w').close()",
    "open('x', 'wb').truncate(10**9)",
]


@pytest.mark.parametrize("code", FOLDERS, ids=range(len(FOLDERS)))
def test_a_hostile_folder_becomes_plain_files_or_is_not_kept(episode: Episode, code: str) -> None:
    """Fault G9: links lead nowhere, locked folders open again, too much is dropped and told."""
    before = dict(episode.workspace.files)
    standing = footprint()
    told = episode.python(code)
    assert not footprint().beyond(standing)
    after = episode.workspace.files
    check_files(after)
    assert ("is not kept" in told) == (after == before) or set(after) == set(before)
    assert episode.shell("cat b.txt log/x.log") == "hello\nerror 1\nok\nerror 2"


def test_many_episodes_at_once_see_their_own_files_only(pool: SandboxPool) -> None:
    """Fault G9: more episodes than sandboxes, in threads of their own; nothing is left of them."""
    before = footprint()
    said: dict[int, str] = {}

    def one(number: int) -> None:
        episode = Episode(pool, {"mine.txt": f"{number}\n"})
        episode.python(f"open('new{number}.txt', 'w').write(open('mine.txt').read() * 2)")
        said[number] = episode.shell("ls *.txt; cat new*.txt")

    threads = [threading.Thread(target=one, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {n: f"a.txt\nmine.txt\nnew{n}.txt\n{n}\n{n}" for n in range(5)}
    assert not footprint().beyond(before)


ESCAPES = ["cat /etc/passwd", "cat ../../../etc/passwd", "ls /root", "cp a.txt @/x", "echo x > @/x",
           "cat < /etc/shadow", "find / -name passwd", "grep -r root /etc", "cd / && cat etc/passwd"]  # fmt: skip


@pytest.mark.parametrize("command", ESCAPES, ids=range(len(ESCAPES)))
def test_paths_lead_out_of_the_folder_into_nothing(episode: Episode, command: str, tmp_path: Path) -> None:
    """Fault G9."""
    told = episode.shell(command.replace("@", str(tmp_path)))
    assert "root:" not in told
    assert not list(tmp_path.iterdir())
    assert episode.shell("cat a.txt | head -1") == "one"


def test_a_pattern_that_never_ends_is_ended(hasty: SandboxPool) -> None:
    late = Episode(hasty, {"a.txt": "a" * 40 + "b"})
    assert "[ended: it took longer" in late.shell("grep -E '(a+)+$' a.txt")


@pytest.mark.parametrize(
    "files",
    [{"../x": b""}, {"/x": b""}, {"a/../x": b""}, {"": b""}, {"a/": b""}, {"./a": b""}, {"a": b"", "a/b": b""},
     {"a\0": b""}, {"a": bytes(MAX_BYTES + 1)}, {str(n): b"" for n in range(MAX_FILES + 1)}],
    ids=range(10),
)  # fmt: skip
def test_files_that_are_none_of_an_episode_are_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(InputError, match=r"(of|for) an episode"):
        check_files(files)


@pytest.mark.parametrize("given", [["a"], {"a": 1}, "a"], ids=range(3))
def test_a_prompt_brings_texts_by_name(given: Any) -> None:
    with pytest.raises(InputError, match="texts by file name"):
        files_of(Prompt("p", "q", info={"files": given}))
    assert files_of(Prompt("p", "q", info={"files": {"a": "é"}})) == {"a": "é".encode()}
