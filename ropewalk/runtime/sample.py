"""The sampling job: prompts × n → generate → score → a file; and what is made of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.data.ledger import DataLedger
from ropewalk.data.read import plain
from ropewalk.monitors.samples import sample_record
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, write_atomic
from ropewalk.records.prompt import PreferencePair, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.runtime.config import Rollouts
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import BradleyTerryLabels, SampleRecipe, read_recipe, recipe_text
from ropewalk.runtime.run import Run
from ropewalk.runtime.sampler import Sampler, asking_of, model_of, open_sampler
from ropewalk.tasks.city.pairs import label_pairs, pair_statistics
from ropewalk.tasks.task import Task

CHUNK_PROMPTS = 256


def sample(
    recipe: str | Path,
    *,
    out: str | Path,
    task: Task | None = None,
    set: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Sample]:
    """Sample by any recipe that has a task and a model into the file `out`; the samples, scored."""
    loaded = read_recipe(recipe, {**(set or {}), **({"task": {"kind": "given"}} if task is not None else {})})
    job = loaded if isinstance(loaded, SampleRecipe) else as_job(loaded)
    prompts, samples = draw(job, task, progress or Silent())
    write_sample_file(Path(out), prompts, samples)
    return samples


def as_job(recipe: Any) -> SampleRecipe:
    """The sampling half of an online recipe."""
    if getattr(recipe, "sampling", None) is None:
        raise InputError(
            f"a recipe of method {recipe.method!r} has no task to sample: use a PPO, GRPO or sample recipe"
        )
    return SampleRecipe(
        method="sample",
        seed=recipe.seed,
        model=recipe.model,
        start_from=recipe.start_from,
        task=recipe.task,
        data=recipe.data,
        rollout=Rollouts(
            prompts=recipe.rollout.prompts, group_size=recipe.rollout.group_size, only=recipe.rollout.only
        ),
        sampling=recipe.sampling,
        engine=recipe.engine,
        hardware=recipe.hardware,
    )


def draw(job: SampleRecipe, task: Task | None, progress: Progress) -> tuple[dict[str, Prompt], list[Sample]]:
    """The prompts by id and their samples, drawn in chunks, so that memory stays bounded and progress shows."""
    path, dtype = model_of(job)
    with open_sampler(path, asking_of(job, task), progress, dtype=dtype) as sampler:
        order, _ = DataLedger(len(sampler.prompts), job.seed, "sample").next(job.rollout.prompts)
        return _draw(sampler, [int(i) for i in order], job, progress)


def _draw(
    sampler: Sampler, order: list[int], job: SampleRecipe, progress: Progress
) -> tuple[dict[str, Prompt], list[Sample]]:
    progress.begin("sampling", len(order))
    samples: list[Sample] = []
    for start in range(0, len(order), CHUNK_PROMPTS):
        chosen = order[start : start + CHUNK_PROMPTS]
        samples += sampler.samples(chosen, group_size=job.rollout.group_size, iteration=start)
        progress.advance(start + len(chosen))
    return {p.id: p for p in (sampler.prompts.prompts[i] for i in order)}, samples


def write_sample_file(path: Path, prompts: Mapping[str, Prompt], samples: list[Sample]) -> None:
    """One JSON line a sample: prompt, completion, scores by name."""
    lines = []
    for drawn in samples:
        outcome = next(iter(drawn.scores.values()), None)
        reward = outcome.value if isinstance(outcome, Score) else None
        prompt = prompts[drawn.prompt_id].dialogue
        lines.append(dumps(sample_record(drawn, iteration=0, kept="spread", prompt=prompt, reward=reward, kl=None)))
    write_atomic(path, "".join(line + "\n" for line in lines))


@dataclass(frozen=True, slots=True)
class PairFileNames:
    """What a labelling job leaves in its folder."""

    pairs: str = "pairs.jsonl"
    statistics: str = "pairs.json"


def run_sample(job: SampleRecipe, run: Run, *, task: Task | None, progress: Progress) -> None:
    """The job as a run: its folder holds samples.jsonl and, if pairs were asked for, pairs.jsonl."""
    write_atomic(run.recipe_file, recipe_text(job))
    run.write("status.json", {"state": "running"})
    prompts, samples = draw(job, task, progress)
    write_sample_file(run.samples_file, prompts, samples)
    if isinstance(job.labels, BradleyTerryLabels):
        labelled = label_pairs(prompts, samples, job.seed)
        names = PairFileNames()
        write_atomic(run.folder / names.pairs, "".join(dumps(_pair(p)) + "\n" for p in labelled.pairs))
        statistics = pair_statistics(labelled.margins_P)
        content = {name: getattr(statistics, name) for name in statistics.__slots__}
        write_atomic(run.folder / names.statistics, json.dumps(content) + "\n")
    run.write("status.json", {"state": "finished"})


def _pair(pair: PreferencePair) -> dict[str, Any]:
    return {"id": pair.id, "prompt": plain(pair.dialogue), "chosen": pair.chosen, "rejected": pair.rejected}
