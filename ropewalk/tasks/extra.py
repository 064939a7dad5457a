"""Scorers that a recipe names, given to a task: all of them at once, or beside those that it has.

What holds: no prompt of the task is one that a scorer cannot judge; such ones are refused, named and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.scoring.kinds.build import Built, built
from ropewalk.tasks.scoring.kinds.config import Scorers
from ropewalk.tasks.task import PromptSource, Scorer, Task, as_prompts, at_least_one


def built_all(sections: Scorers) -> Built:
    """All scorers of a table, in its order, and the first fault that one of them finds in a prompt."""
    made = [built(name, section) for name, section in sections.items()]
    scorers: dict[str, Scorer] = {name: scorer for each in made for name, scorer in each.scorers.items()}

    def fault(prompt: Prompt) -> str | None:
        return next((wrong for each in made if (wrong := each.fault(prompt)) is not None), None)

    return Built(scorers, fault, made[0].solved if made else at_least_one)


def with_scorers(task: Task, sections: Scorers) -> Task:
    """The task with more scorers behind its own. Raises InputError for a name that it has already."""
    if not sections:
        return task
    made = built_all(sections)
    for name in made.scorers:
        if name in task.scorers:
            raise InputError(f"task {task.name!r} has a scorer {name!r} of its own: give yours another name")
    scorers = {**task.scorers, **made.scorers}
    source = task.prompts
    if callable(source):
        return replace(task, prompts=lambda split: _all_judged(made, as_prompts(source(split))), scorers=scorers)
    refused: list[tuple[str, str]] = list(task.refused)
    kept: PromptSource = (
        {split: _judged(made, as_prompts(prompts), refused) for split, prompts in source.items()}
        if isinstance(source, Mapping)
        else _judged(made, as_prompts(source), refused)
    )
    return replace(task, prompts=kept, scorers=scorers, refused=tuple(refused))


def _judged(made: Built, prompts: Sequence[Prompt], refused: list[tuple[str, str]]) -> list[Prompt]:
    kept = []
    for prompt in prompts:
        if (wrong := made.fault(prompt)) is None:
            kept.append(prompt)
        else:
            refused.append((f"prompt {prompt.id}", f"it {wrong}"))
    if prompts and not kept:
        raise InputError(f"no prompt is left: {refused[-1][0]} is refused because {refused[-1][1]}")
    return kept


def _all_judged(made: Built, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
    """Prompts that come one split after the other cannot be counted as refused any more."""
    for prompt in prompts:
        if (wrong := made.fault(prompt)) is not None:
            raise InputError(f"prompt {prompt.id} {wrong}: leave it out")
    return prompts
