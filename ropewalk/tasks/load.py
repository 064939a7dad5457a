"""From a recipe's task section to the task, by one literal map."""

from collections.abc import Callable, Mapping
from typing import Any

from ropewalk.data.read import Rows
from ropewalk.records.errors import InputError
from ropewalk.tasks.city.task import city_task
from ropewalk.tasks.config import FileTask, Gsm8kTask, PromptsTask, TaskSection
from ropewalk.tasks.files import prompts_task, task_from_file
from ropewalk.tasks.gsm8k import gsm8k_task
from ropewalk.tasks.gym import gym_task
from ropewalk.tasks.sums import sums_task
from ropewalk.tasks.task import Task


def load_task(config: TaskSection, data: Rows | None = None) -> Task:
    """The task of a section; `data` is where its rows are if the section does not say."""
    return _LOADERS[config.kind](config, data)


def _gsm8k(config: Gsm8kTask, data: Rows | None) -> Task:
    return gsm8k_task(config, _rows(config, data))


def _prompts(config: PromptsTask, data: Rows | None) -> Task:
    return prompts_task(_rows(config, data), config.answer)


def _file(config: FileTask, _: Rows | None) -> Task:
    return task_from_file(config.path)


def _rows(config: Gsm8kTask | PromptsTask, data: Rows | None) -> Rows:
    if data is None:
        raise InputError(f"a task of kind {config.kind!r} reads its rows from a file: set data.path")
    return data


_LOADERS: Mapping[str, Callable[[Any, Rows | None], Task]] = {
    "city": lambda config, _: city_task(config),
    "gsm8k": _gsm8k,
    "sums": lambda config, _: sums_task(config),
    "prompts": _prompts,
    "file": _file,
    "gym": lambda config, _: gym_task(config),
}
