"""ropewalk: a post-training system for language models, from prompts to a better model.

    run = ropewalk.train("grpo-gsm8k", task=my_task, set={"model.path": "models/smollm2-135m"})
    ropewalk.evaluate(run)

The names below are loaded when first used, so that importing the package is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropewalk.records.sample import Sample
    from ropewalk.records.score import Score
    from ropewalk.runtime.evaluation.evaluate import evaluate
    from ropewalk.runtime.jobs.sample import sample
    from ropewalk.runtime.jobs.select import select
    from ropewalk.runtime.train import train
    from ropewalk.tasks.task import Task

__version__ = version("ropewalk")
__all__ = ["Sample", "Score", "Task", "evaluate", "sample", "select", "train"]

_HOMES = {
    "train": "ropewalk.runtime.train",
    "sample": "ropewalk.runtime.jobs.sample",
    "select": "ropewalk.runtime.jobs.select",
    "evaluate": "ropewalk.runtime.evaluation.evaluate",
    "Task": "ropewalk.tasks.task",
    "Sample": "ropewalk.records.sample",
    "Score": "ropewalk.records.score",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ropewalk' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
