"""Tools that run in the sandbox on the files of the episode: Python, and a shell for text files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.records.prompt import Prompt
from ropewalk.tasks.environments.inside import folders, given, lines, sed, shell, words
from ropewalk.tasks.environments.protocol import ToolSpec
from ropewalk.tasks.environments.tools import Arguments, Tool, ToolFault
from ropewalk.tasks.environments.workspace import Workspace, told
from ropewalk.tasks.scoring.sandbox.shared import Pool

MAX_SOURCE = 50_000
"""Characters of a program or a command line."""

PYTHON = ToolSpec(
    "python",
    "Runs a Python 3 program with the standard library and shows what it prints, and the value of its last line. "
    "Every call is a new program; files in the working folder stay. No network.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "the whole program"}},
        "required": ["code"],
    },
)
SHELL = ToolSpec(
    "shell",
    f"Runs a command line over the text files of the working folder. Commands: {', '.join(shell.COMMANDS)}; "
    "joined by | && || ; with < > >> << and patterns such as *.txt. No variables, no other programs.",
    {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "such as grep -n error *.log | head -5"}},
        "required": ["command"],
    },
)
_INSIDE = Path(shell.__file__).parent
_MODULES = {
    each.__name__: (_INSIDE / f"{each.__name__.rpartition('.')[2]}.py").read_text("utf-8")
    for each in (words, given, sed, lines, folders, shell)
}
_SHELL = f"""\
import sys
for name, source in {_MODULES!r}.items():
    module = sys.modules[name] = type(sys)(name)
    exec(compile(source, name, "exec"), module.__dict__)
"""
"""The modules of the shell in the order in which they import each other; the last one has start()."""
_PYTHON = """\
import os, sys
os.chdir("../work")
sys.path.insert(0, os.getcwd())
sys.argv[:] = ["main.py"]
def start(source):
    import ast
    space = {"__name__": "__main__"}
    try:
        tree = compile(source, "main.py", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "main.py", "exec", dont_inherit=True), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "main.py", "eval", dont_inherit=True), space)
            if value is not None:
                print(repr(value))
    except Exception as error:
        import linecache, traceback
        linecache.cache["main.py"] = (len(source), None, source.splitlines(True), "main.py")
        trace = error.__traceback__ and error.__traceback__.tb_next
        sys.stdout.flush()
        traceback.print_exception(type(error), error, trace)
        sys.exit(1)
"""


@dataclass(frozen=True, slots=True)
class PythonKit:
    """The tool `python`. Kits of one episode that share a workspace share its files."""

    workspace: Workspace
    pool: Pool

    @property
    def tools(self) -> Sequence[Tool]:
        """One tool; the sandbox bounds it."""
        return (Tool(PYTHON, self._run, bounded=True),)

    def begin(self, prompt: Prompt) -> None:
        """The files of the prompt are there."""
        self.workspace.begin(prompt)

    def close(self) -> None:
        """The files are gone."""
        self.workspace.close()

    def _run(self, arguments: Arguments) -> str:
        return told(self.workspace.run(f"{_PYTHON}start({_source(arguments['code'])!r})\n", self.pool))


@dataclass(frozen=True, slots=True)
class ShellKit:
    """The tool `shell`. Kits of one episode that share a workspace share its files."""

    workspace: Workspace
    pool: Pool

    @property
    def tools(self) -> Sequence[Tool]:
        """One tool; the sandbox bounds it."""
        return (Tool(SHELL, self._run, bounded=True),)

    def begin(self, prompt: Prompt) -> None:
        """The files of the prompt are there."""
        self.workspace.begin(prompt)

    def close(self) -> None:
        """The files are gone."""
        self.workspace.close()

    def _run(self, arguments: Arguments) -> str:
        return told(self.workspace.run(f"{_SHELL}module.start({_source(arguments['command'])!r})\n", self.pool))


def _source(text: str) -> str:
    if len(text) > MAX_SOURCE:
        raise ToolFault(f"it is longer than {MAX_SOURCE} characters.")
    return text
