"""An environment recipe: one folder with a task, its tools, the schema of its data and its verifier.

    FOLDER/environment.toml    name, system message, world with its tools, rows, scorers
    FOLDER/rows.jsonl          the prompts; FOLDER/schema.json what a row must be
    FOLDER/verifier.py         a scorer of your own, if the built-in ones do not do

All that can be wrong is told when the folder is read: unknown keys with the nearest name, rows by number, tools that
are not to be had here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from ropewalk.config.load import ConfigError, load, read_toml
from ropewalk.data.read import prompts_rows
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.environments.calculator import calculator
from ropewalk.tasks.environments.config import (
    CalculatorTool,
    EnvironmentRecipe,
    EnvironmentRows,
    NumberGuessWorld,
    OwnTools,
    OwnWorld,
    PythonTool,
    SearchTool,
    ShellTool,
    SqlTool,
    ToolSection,
    ToolWorld,
    WorldSection,
)
from ropewalk.tasks.environments.number_guess import GuessRules, NumberGuess, number_of
from ropewalk.tasks.environments.protocol import Environment, EnvironmentFactory
from ropewalk.tasks.environments.retrieval import Documents, search_tool
from ropewalk.tasks.environments.reward import REWARD, EpisodeReward
from ropewalk.tasks.environments.sandboxed import PythonKit, ShellKit
from ropewalk.tasks.environments.sqlite import Database, QueryLimits, SqlKit
from ropewalk.tasks.environments.tool_use import Loose, ToolEnvironment
from ropewalk.tasks.environments.tools import Kit, Tool, Toolbox, ToolLimits
from ropewalk.tasks.environments.workspace import Workspace, check_files, files_of
from ropewalk.tasks.extra import built_all
from ropewalk.tasks.module import user_module
from ropewalk.tasks.scoring.kinds.build import shared_pool
from ropewalk.tasks.scoring.kinds.config import MathsAnswer, PythonScorer, Scorers, ScorerSection
from ropewalk.tasks.scoring.rules.structured import schema_fault, validator
from ropewalk.tasks.task import AtOnce, Scorer, Task, at_least_one

FILE = "environment.toml"
BUILT_IN = Path(__file__).parent / "examples"

KitMaker: TypeAlias = Callable[[Workspace], Kit]
"""Tools for one episode; those that have files share its workspace."""
Fault: TypeAlias = Callable[[Prompt], str | None]


def environment_task(place: str) -> Task:
    """The task of an environment's folder, or of a built-in one by its name.

    Raises InputError naming the file and everything that is wrong with it.
    """
    folder = folder_of(place)
    recipe = read_environment(folder)
    factory, world_fault = world_of(folder, recipe)
    sections = _with_paths(folder, _scorers(recipe))
    made = built_all(sections)
    prompts, report = prompts_rows(
        recipe.data.model_copy(update={"path": str(below(folder, recipe.data.path))}),
        row_fault=_row_fault(folder, recipe.data),
        fault=lambda prompt: world_fault(prompt) or made.fault(prompt),
    )
    scorers: dict[str, Scorer] = {**made.scorers}
    solved = made.solved
    if not isinstance(recipe.world, ToolWorld):
        if REWARD in scorers:
            raise InputError(f"the scorer {REWARD!r} of {folder / FILE} is the world's own: give yours another name")
        scorers = {REWARD: AtOnce(EpisodeReward()), **scorers}
        solved = _found if isinstance(recipe.world, NumberGuessWorld) else at_least_one
    return Task(
        name=recipe.name,
        prompts=prompts,
        scorers=scorers,
        solved=solved,
        environment=factory,
        refused=report.refused,
    )


def _found(outcome: Outcome) -> bool:
    """A number that was found late is worth less, and found."""
    return isinstance(outcome, Score) and outcome.value > 0


def folder_of(place: str) -> Path:
    """A folder with an `environment.toml`, or the built-in environment of that name."""
    for folder in (Path(place), BUILT_IN / place):
        if (folder / FILE).is_file() and (folder == Path(place) or place in built_in_environments()):
            return folder
    known = ", ".join(built_in_environments())
    if Path(place).is_dir():
        raise InputError(f"folder {place} has no {FILE}: write one, see docs/environments.md")
    raise InputError(f"there is no environment {place!r}: name a folder with an {FILE}, or one of {known}")


def built_in_environments() -> tuple[str, ...]:
    """Names of the environments that come along."""
    return tuple(sorted(folder.name for folder in BUILT_IN.iterdir() if (folder / FILE).is_file()))


def read_environment(folder: Path) -> EnvironmentRecipe:
    """The sections of a folder's `environment.toml`."""
    try:
        return load(EnvironmentRecipe, read_toml(folder / FILE))
    except ConfigError as error:
        raise InputError(f"{folder / FILE}: {'; '.join(error.problems)}") from error


def below(folder: Path, name: str) -> Path:
    """A path of an environment's recipe. Raises InputError if it leads out of the folder."""
    if not name or name.startswith("/") or ".." in PurePosixPath(name).parts:
        raise InputError(f"{name!r} in {folder / FILE} leads out of the folder: put it into the folder")
    return folder / name


def world_of(folder: Path, recipe: EnvironmentRecipe) -> tuple[EnvironmentFactory, Fault]:
    """What makes the world of one episode, and what says why a prompt is none for it."""
    world: WorldSection = recipe.world
    if isinstance(world, ToolWorld):
        return _tool_world(folder, world, recipe.system)
    if isinstance(world, NumberGuessWorld):
        rules = GuessRules(low=world.low, high=world.high, guesses=world.guesses, later=world.later)
        return lambda: NumberGuess(rules, system=recipe.system), _fault(lambda prompt: number_of(prompt, rules))
    return _own_world(folder, world, recipe.system), lambda _: None


def _tool_world(folder: Path, world: ToolWorld, system: str) -> tuple[EnvironmentFactory, Fault]:
    files = _given_files(folder, world)
    makers = [maker for section in world.tools for maker in _makers(folder, section)]
    limits = ToolLimits(calls=world.calls, output_characters=world.output_characters, seconds=world.seconds)

    def make() -> Environment:
        workspace = Workspace(files)
        return ToolEnvironment([maker(workspace) for maker in makers], system=system, turns=world.turns, limits=limits)

    make().close()  # Two tools of one name are told now.
    return make, _fault(lambda prompt: check_files({**files, **files_of(prompt)}))


def _given_files(folder: Path, world: ToolWorld) -> dict[str, bytes]:
    if world.files is None:
        return {}
    if not any(isinstance(tool, PythonTool | ShellTool) for tool in world.tools):
        raise InputError(f"world.files of {folder / FILE} has no effect without a tool of kind python or shell")
    place = below(folder, world.files)
    if not place.is_dir():
        raise InputError(f"there is no folder {place}: world.files of {folder / FILE} names it")
    found = sorted(path for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    files = {path.relative_to(place).as_posix(): path.read_bytes() for path in found}
    check_files(files)
    return files


def _makers(folder: Path, section: ToolSection) -> list[KitMaker]:
    """What makes each kit of a section for one episode; what all episodes share is made here, once."""
    match section:
        case CalculatorTool():
            return [_loose(calculator())]
        case PythonTool(sandbox=sandbox):
            pool = shared_pool(sandbox)
            return [lambda workspace: PythonKit(workspace, pool)]
        case ShellTool(sandbox=sandbox):
            pool = shared_pool(sandbox)
            return [lambda workspace: ShellKit(workspace, pool)]
        case SqlTool():
            database = Database(below(folder, section.database))
            limits = QueryLimits(rows=section.rows, steps=section.steps, seconds=section.seconds)
            return [lambda _: SqlKit(database, limits)]
        case SearchTool():
            return [_loose(search_tool(Documents(below(folder, section.folder))))]
        case OwnTools():
            return [_loose(tool) for tool in own_tools(below(folder, section.path))]


def _loose(tool: Tool) -> KitMaker:
    return lambda _: Loose(tool)


def own_tools(path: Path) -> Sequence[Tool]:
    """The TOOLS of a Python file."""
    found = getattr(user_module(path, what="tools file", defines="TOOLS"), "TOOLS", None)
    if not isinstance(found, list | tuple) or not found or not all(isinstance(tool, Tool) for tool in found):
        raise InputError(f"the tools file {path} does not define TOOLS, a list of Tool")
    Toolbox(found)
    return tuple(found)


def _own_world(folder: Path, world: OwnWorld, system: str) -> EnvironmentFactory:
    if system:
        raise InputError(f"system in {folder / FILE} has no effect beside a world of your own: say it in its reset()")
    path = below(folder, world.path)
    found: Any = getattr(user_module(path, what="world file", defines="ENVIRONMENT"), "ENVIRONMENT", None)
    if not callable(found):
        raise InputError(
            f"the world file {path} does not define ENVIRONMENT, a function that makes one episode's world"
        )
    factory: EnvironmentFactory = found
    return factory


def _scorers(recipe: EnvironmentRecipe) -> Scorers:
    if recipe.scorers or not isinstance(recipe.world, ToolWorld):
        return recipe.scorers
    return {"correct": MathsAnswer()}


def _with_paths(folder: Path, sections: Scorers) -> dict[str, ScorerSection]:
    return {
        name: section.model_copy(update={"path": str(below(folder, section.path))})
        if isinstance(section, PythonScorer)
        else section
        for name, section in sections.items()
    }


def _row_fault(folder: Path, data: EnvironmentRows) -> Callable[[Mapping[str, Any]], str | None]:
    if data.row_schema is None:
        return lambda _: None
    path = below(folder, data.row_schema)
    try:
        schema = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the row schema {path} cannot be read: {error}") from error
    if fault := schema_fault(schema):
        raise InputError(f"the row schema {path} {fault}")
    judge = validator(json.dumps(schema, sort_keys=True))

    def fault_of(fields: Mapping[str, Any]) -> str | None:
        error = next(iter(judge.iter_errors(dict(fields))), None)
        if error is None:
            return None
        where = ".".join(map(str, error.absolute_path))
        return f"is not of its schema: {where + ': ' if where else ''}{error.message}"[:200]

    return fault_of


def _fault(check: Callable[[Prompt], object]) -> Fault:
    """What an InputError of a check says of a prompt."""

    def of(prompt: Prompt) -> str | None:
        try:
            check(prompt)
        except InputError as error:
            return f"is no prompt of this world: {error}"
        return None

    return of
