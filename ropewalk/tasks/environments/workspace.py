"""The working folder of one episode: its files between the calls, and what is run on them in the sandbox.

    files (here) ──put──▶ sandbox: one program ──get──▶ files (here)

Every call has a sandbox of its own, gone when the call is over; between calls the files are data in this process. So an
episode holds no process and no folder while the policy thinks, and whatever a program has done, its successor finds
the plain files and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.environments.inside import carry
from ropewalk.tasks.environments.tools import ToolFault
from ropewalk.tasks.scoring.sandbox.box import Box, SandboxFault
from ropewalk.tasks.scoring.sandbox.limits import MIB, Limits
from ropewalk.tasks.scoring.sandbox.program import Call, Finding, Script
from ropewalk.tasks.scoring.sandbox.shared import Pool

FILES_KEY = "files"
"""Key of a prompt's info: its own files, texts by name."""
MAX_FILES = 200
MAX_BYTES = MIB // 2
_CARRIER = Path(carry.__file__).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one program."""

    text: str
    """What it wrote, for the policy."""
    good: bool
    """It ran to its end."""


class Workspace:
    """The files of one episode. For one thread at a time."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        """`files` are there at the beginning of every episode."""
        self._given = dict(files or {})
        check_files(self._given)
        self.files: dict[str, bytes] = {}

    def begin(self, prompt: Prompt) -> None:
        """The files given and the prompt's own, and no other."""
        own = files_of(prompt)
        self.files = {**self._given, **own}
        check_files(self.files)

    def close(self) -> None:
        """Nothing is left of the files."""
        self.files = {}

    def run(self, source: str, pool: Pool) -> Ran:
        """Run a program in the folder, in a sandbox of the pool. Raises SandboxFault where that does not work."""
        found, files = pool.run(lambda box: self._work(box, source))
        note = ""
        if isinstance(files, dict):
            self.files = files
        else:
            note = f"\n[what it wrote into files is not kept: {files or 'the working folder is gone'}]"
        return Ran(_words(found, pool.limits) + note, found.status == "done")

    def _work(self, box: Box, source: str) -> tuple[Finding, dict[str, bytes] | str | None]:
        put = box.run(_CARRIER, [Call("put", (self.files,))])[0]
        if put.status != "done":
            raise SandboxFault(f"the files of the episode could not be written: {put.status} {put.detail}")
        found = box.run(source, [Script()])[0]
        got = box.run(_CARRIER, [Call("get", (MAX_FILES, MAX_BYTES))])[0]
        return found, _kept(got)


def _kept(got: Finding) -> dict[str, bytes] | str | None:
    """The files that came back, if they are what they should be: a program that was there before may have lied."""
    if got.status != "done":
        return f"they could not be read ({got.status})"
    if not isinstance(got.value, list):
        return got.value if isinstance(got.value, str) else None
    files: dict[str, bytes] = {}
    for pair in got.value:
        match pair:
            case (str() as name, bytes() as content):
                files[name] = content
    try:
        check_files(files)
    except InputError as error:
        return str(error)
    return files


def check_files(files: Mapping[str, bytes]) -> None:
    """Raises InputError for names that lead out of the folder, and for more than an episode may hold."""
    for name in files:
        parts = PurePosixPath(name).parts
        if not name or name.startswith("/") or ".." in parts or "\0" in name or str(PurePosixPath(name)) != name:
            raise InputError(f"{name!r} cannot be a file of an episode: give a plain relative path")
    for name in files:
        if any(str(parent) in files for parent in PurePosixPath(name).parents):
            raise InputError(f"{name!r} cannot be a file of an episode: a folder on its way is a file, too")
    size = sum(map(len, files.values()))
    if len(files) > MAX_FILES or size > MAX_BYTES:
        raise InputError(
            f"{len(files)} files of {size} bytes are too many for an episode: at most {MAX_FILES} and {MAX_BYTES}"
        )


def files_of(prompt: Prompt) -> dict[str, bytes]:
    """The files that a prompt brings. Raises InputError where `info.files` is not texts by name."""
    given: Json = prompt.info.get(FILES_KEY)
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise InputError(f"prompt {prompt.id}: info.files must be texts by file name")
    return {name: str(text).encode("utf-8", "replace") for name, text in given.items()}


def _words(found: Finding, limits: Limits) -> str:
    written = found.stdout
    if found.stderr.strip():
        written += ("" if not written or written.endswith("\n") else "\n") + found.stderr
    written = written.rstrip("\n")
    why = {
        "timeout": f"[ended: it took longer than {limits.test_seconds:g} seconds]",
        "memory": "[ended: it used too much memory]",
        "output": "[ended: it wrote too much]",
        "files": "[ended: it made too many files]",
        "crashed": f"[ended: it crashed ({found.detail})]",
        "not_reached": "[ended: it took too long]",
        "refused": f"[not run: {found.detail}]",
        "broken": f"[not run: {found.detail}]",
    }.get(found.status, "")
    if not why and not written:
        why = "(no output)" if found.status == "done" else f"[{found.detail or found.status}]"
    return "\n".join(part for part in (written, why) if part)


def told(ran: Ran) -> str:
    """The words of a program's end. Raises ToolFault with them where it was no good one."""
    if not ran.good:
        raise ToolFault(ran.text)
    return ran.text
