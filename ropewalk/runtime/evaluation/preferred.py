"""A judge of pairs as the reader of an evaluation: whose answers it prefers, asked in both orders.

The judge is a file with the keys of one `[judges.NAME]` section. A judge that the run was rewarded by may not judge it:
a policy that learned to please it pleases it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ropewalk.config.load import ConfigError, load, read_toml
from ropewalk.records.errors import InputError
from ropewalk.records.score import Score
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.evaluation.policies import Drawn
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.judging.calls import with_judges
from ropewalk.runtime.judging.judges import check_judges, open_judge
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, TrainingRecipe
from ropewalk.runtime.run import local_model
from ropewalk.runtime.sampler import policy_setup
from ropewalk.tasks.judging.config import ModelJudge, PairwiseJudge, ServerJudge
from ropewalk.tasks.judging.judge import Judge, answer_of
from ropewalk.tasks.judging.labels import check_failed

NAME = "judge"
By: TypeAlias = ServerJudge | ModelJudge


def is_judge_file(judge: str) -> bool:
    """Whether `--judge` names a file with a judge, not the folder of a reward model."""
    return judge.endswith(".toml")


def read_judge(path: str) -> PairwiseJudge:
    """The judge of a file. Raises `ConfigError` naming the file, `InputError` for a judge that cannot be asked."""
    try:
        found: PairwiseJudge = load(PairwiseJudge, read_toml(Path(path)))
    except ConfigError as error:
        raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from error
    check_judges({NAME: found})
    return found


def check_judge_file(recipe: TrainingRecipe, path: str) -> str:
    """The file. Raises `InputError` if it is a judge that the run was rewarded by."""
    judge = read_judge(path)
    owned = recipe.judges.items() if isinstance(recipe, PPORecipe | GRPORecipe) else ()
    for name, own in owned:
        if _who(own.by) == _who(judge.by):
            raise InputError(f"{path} asks the judge {name!r} that the run was rewarded by: name another model")
    return path


def _who(by: By) -> tuple[str, str]:
    """Which model is asked, whatever is asked of it."""
    if isinstance(by, ServerJudge):
        return by.base_url.rstrip("/"), by.model
    return "", str(local_model(by.path).resolve())


def preferences(
    path: str, before: Sequence[Drawn], after: Sequence[Drawn], hardware: Hardware, progress: Progress
) -> list[list[list[float]]]:
    """By set and prompt, the judge's preferences for the later answers over the earlier ones of the same index.

    A comparison that failed is left out. Raises `RunStopped` if most did.
    """
    config = read_judge(path)
    progress.begin(f"asking the judge of {path}", sum(len(one.samples) for one in after))
    with opened(config, hardware, progress) as judge:
        return [_of_set(judge, *sides, progress) for sides in zip(before, after, strict=True)]


@contextmanager
def opened(config: PairwiseJudge, hardware: Hardware, progress: Progress) -> Iterator[Judge]:
    """The judge; its model, if it is one of the run, is in memory inside the block only."""
    folder = str(local_model(config.by.path)) if isinstance(config.by, ModelJudge) else ""
    setup = replace(policy_setup(folder, hardware, None), roles={})
    crew = open_crew(with_judges(setup, {NAME: config})) if folder else None
    try:
        yield open_judge(NAME, config, crew, progress)
    finally:
        if crew is not None:
            crew.close()


def _of_set(judge: Judge, before: Drawn, after: Drawn, progress: Progress) -> list[list[float]]:
    prompts = {prompt.id: prompt for prompt in after.prompts}
    sides = zip(after.samples, before.samples, strict=True)
    compared = judge.compare([(prompts[a.prompt_id], answer_of(a), answer_of(b)) for a, b in sides])
    check_failed(judge.name, compared)
    values = [c.preference.value if isinstance(c.preference, Score) else None for c in compared]
    failed = sum(value is None for value in values)
    if failed:
        progress.say(f"the judge failed on {failed} of {len(values)} pairs of answers, which are left out")
    size = after.per_prompt
    groups = [values[start : start + size] for start in range(0, len(values), size)]
    return [[value for value in group if value is not None] for group in groups]
