"""Whether learned rewards are read as they were learnt, as far as their runs' recipes tell. Without torch."""

from pathlib import Path

from ropewalk.config.load import read_toml
from ropewalk.records.errors import InputError
from ropewalk.runtime.learned.calls import LearnedCalls
from ropewalk.runtime.learned.config import Process
from ropewalk.runtime.run import model_folder


def check_reading(calls: LearnedCalls) -> None:
    """A run that learnt the worth of steps is read at the ends of such steps, and no member is there twice.

    Raises `InputError` where it is otherwise.
    """
    read = calls.section.read
    there = [folder for folder in calls.section.folders if Path(folder.partition("@")[0]).is_dir()]
    places = [model_folder(folder).resolve() for folder in there]
    for place, folder in zip(places, there, strict=True):
        if places.count(place) > 1:
            raise InputError(f"{folder} is a member of reward_models.{calls.name} twice: its own twin agrees with it")
    for folder in calls.section.folders:
        learnt = _learnt_step(Path(folder.partition("@")[0]))
        if learnt is None:
            continue
        if not isinstance(read, Process):
            raise InputError(
                f"{folder} is a process reward model, which has no one score: name it in [reward_models.NAME] with "
                "read.kind = 'process'"
            )
        if read.step != learnt:
            raise InputError(
                f"{folder} learnt from steps that {learnt!r} separates, and is to read those that {read.step!r} "
                f"separates: set reward_models.{calls.name}.read.step to the former"
            )


def _learnt_step(folder: Path) -> str | None:
    """The separator of a process reward model's run, were one of its model folders named; None for all else."""
    for run in (folder, folder.parent):
        if (run / "recipe.toml").is_file():
            recipe = read_toml(run / "recipe.toml")
            return str(recipe["data"]["step"]) if recipe.get("method") == "process_reward_model" else None
    return None
