"""Sections of an environment's own recipe, `environment.toml`: its world, its tools, its rows and who verifies.

The file lies in the environment's folder; every path in it is below that folder.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from ropewalk.config.schema import Section
from ropewalk.data.config import RowFile
from ropewalk.tasks.environments.number_guess import GuessRules
from ropewalk.tasks.environments.sqlite import QueryLimits
from ropewalk.tasks.environments.tools import ToolLimits
from ropewalk.tasks.scoring.kinds.config import Sandbox, Scorers

Count: TypeAlias = Annotated[int, Field(ge=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0.0)]

_LIMITS = ToolLimits()
_QUERY = QueryLimits()
_GUESS = GuessRules()


class CalculatorTool(Section):
    """`calculator`: exact arithmetic."""

    kind: Literal["calculator"] = "calculator"


class PythonTool(Section):
    """`python`: a program in the sandbox, on the files of the episode."""

    kind: Literal["python"] = "python"
    sandbox: Sandbox = Sandbox()
    """What it is shut in by."""


class ShellTool(Section):
    """`shell`: text commands in the sandbox, on the files of the episode."""

    kind: Literal["shell"] = "shell"
    sandbox: Sandbox = Sandbox()
    """What it is shut in by."""


class SqlTool(Section):
    """`sql`: queries over a SQLite database that can only be read."""

    kind: Literal["sql"] = "sql"
    database: str
    """The file."""
    rows: Count = _QUERY.rows
    """Shown of one query's result."""
    steps: Count = _QUERY.steps
    """Of SQLite's machine for one query."""
    seconds: Positive = _QUERY.seconds
    """Wall-clock time of one query."""


class SearchTool(Section):
    """`search`: passages of a folder of documents, by BM25."""

    kind: Literal["search"] = "search"
    folder: str
    """The folder of text files."""


class OwnTools(Section):
    """Tools of the user's own."""

    kind: Literal["file"] = "file"
    path: str
    """A Python file that defines TOOLS, a list of Tool; it is run as it stands."""


ToolSection: TypeAlias = Annotated[
    CalculatorTool | PythonTool | ShellTool | SqlTool | SearchTool | OwnTools, Field(discriminator="kind")
]


class ToolWorld(Section):
    """A dialogue with tools; the turn without a call is the final answer."""

    kind: Literal["tools"] = "tools"
    tools: Annotated[tuple[ToolSection, ...], Field(min_length=1)]
    """What may be called."""
    files: str | None = None
    """A folder whose files lie in the working folder of `python` and `shell` when an episode begins."""
    turns: Count | None = None
    """Turns after which the world ends an episode."""
    calls: Count = _LIMITS.calls
    """Carried out in one turn."""
    output_characters: Count = _LIMITS.output_characters
    """Of one result; what is longer is cut, and says so."""
    seconds: Positive = _LIMITS.seconds
    """Of one call of a tool of the user's own."""


class NumberGuessWorld(Section):
    """The world thinks of a number and says "higher" or "lower"; a toy."""

    kind: Literal["number_guess"] = "number_guess"
    low: int = _GUESS.low
    """Smallest number."""
    high: int = _GUESS.high
    """Largest number."""
    guesses: Count = _GUESS.guesses
    """Turns the policy has."""
    later: Annotated[float, Field(ge=0.0, lt=1.0)] = _GUESS.later
    """Taken off the reward of 1 for every guess after the first; never below a tenth."""


class OwnWorld(Section):
    """A world of the user's own."""

    kind: Literal["file"] = "file"
    path: str
    """A Python file that defines ENVIRONMENT, which makes the world of one episode; it is run as it stands."""


WorldSection: TypeAlias = Annotated[ToolWorld | NumberGuessWorld | OwnWorld, Field(discriminator="kind")]


class EnvironmentRows(RowFile):
    """The prompts: `data.path` is below the environment's folder."""

    row_schema: str | None = None
    """A JSON schema of a row of the file; rows that do not conform are refused by number and counted."""


class EnvironmentRecipe(Section):
    """All of `environment.toml`."""

    name: Annotated[str, StringConstraints(pattern=r"^[\w-]+$")]
    """What reports call it."""
    system: str = ""
    """The system message of every episode."""
    world: WorldSection
    """What answers the policy."""
    data: EnvironmentRows
    """The prompts, each with what the world and the scorers ask for."""
    scorers: Scorers = Field(default_factory=dict)
    """Who verifies the last turn, by name. The world's own reward is the scorer `reward`; tools have none, so without
    scorers the gold answer is compared as mathematics (`correct`)."""
