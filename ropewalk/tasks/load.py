"""From a recipe's task section to the task, by one literal map."""

from collections.abc import Callable, Mapping
from typing import Any

from ropewalk.data.read import Rows
from ropewalk.records.errors import InputError
from ropewalk.tasks.city.task import city_task
from ropewalk.tasks.config import FileTask, Gsm8kTask, GymTask, MixtureTask, PromptsTask, SumsTask, TaskSection
from ropewalk.tasks.environments.foreign import verifiers_task
from ropewalk.tasks.environments.recipe import environment_task
from ropewalk.tasks.environments.text_game import gymnasium_task
from ropewalk.tasks.extra import with_scorers
from ropewalk.tasks.files import prompts_task, task_from_file
from ropewalk.tasks.gsm8k import gsm8k_task
from ropewalk.tasks.gym import gym_task
from ropewalk.tasks.mixture import mixture_task
from ropewalk.tasks.sums import sums_task
from ropewalk.tasks.task import Task

READ_ROWS = (Gsm8kTask, PromptsTask)
"""Sections of tasks that read a file of rows."""


def load_task(config: TaskSection, data: Rows | None = None) -> Task:
    """The task of a section; `data` is where its rows are if the section does not say."""
    if data is not None and not isinstance(config, READ_ROWS):
        raise InputError(f"a task of kind {config.kind!r} reads no data file: take its [data] out of the recipe")
    return _LOADERS[config.kind](config, data)


def _gsm8k(config: Gsm8kTask, data: Rows | None) -> Task:
    return with_scorers(gsm8k_task(config, _rows(config, data)), config.scorers)


def _prompts(config: PromptsTask, data: Rows | None) -> Task:
    return prompts_task(_rows(config, data), config)


def _file(config: FileTask, _: Rows | None) -> Task:
    return with_scorers(task_from_file(config.path), config.scorers)


def _sums(config: SumsTask, _: Rows | None) -> Task:
    return with_scorers(sums_task(config), config.scorers)


def _gym(config: GymTask, _: Rows | None) -> Task:
    return with_scorers(gym_task(config), config.scorers)


def _mixture(config: MixtureTask, _: Rows | None) -> Task:
    parts = {}
    for name, part in config.parts.items():
        try:
            parts[name] = load_task(part.task, part.data)
        except InputError as error:
            raise InputError(f"task.parts.{name}: {error}") from error
    return mixture_task(parts, {name: part.weight for name, part in config.parts.items()})


def _rows(config: Gsm8kTask | PromptsTask, data: Rows | None) -> Rows:
    if data is None:
        raise InputError(f"a task of kind {config.kind!r} reads its rows from a file: set data.path")
    return data


_LOADERS: Mapping[str, Callable[[Any, Rows | None], Task]] = {
    "city": lambda config, _: city_task(config),
    "gsm8k": _gsm8k,
    "sums": _sums,
    "prompts": _prompts,
    "file": _file,
    "gym": _gym,
    "environment": lambda config, _: environment_task(config.path),
    "verifiers": lambda config, _: verifiers_task(config),
    "gymnasium": lambda config, _: gymnasium_task(config),
    "mixture": _mixture,
}
