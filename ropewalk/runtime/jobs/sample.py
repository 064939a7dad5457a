"""The sampling job: prompts × n → generate → score → a file; and what is made of it."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ropewalk.data.read import plain
from ropewalk.monitors.samples import sample_record
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, write_atomic
from ropewalk.records.prompt import PreferencePair, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.records.version import Draw
from ropewalk.runtime.config import Rollouts
from ropewalk.runtime.jobs.step_labels import StepLabeller, Tally, check_one_turn, together
from ropewalk.runtime.judging.judges import open_judge
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import BradleyTerryLabels, JudgeLabels, SampleRecipe, StepLabels, read_recipe, recipe_text
from ropewalk.runtime.run import Run
from ropewalk.runtime.sampler import Sampler, asking_of, model_of, open_sampler
from ropewalk.tasks.city.pairs import label_pairs, pair_statistics
from ropewalk.tasks.judging.labels import Rule, label
from ropewalk.tasks.task import Task

CHUNK_PROMPTS = 256
CHUNK_LABELLED = 32
"""Prompts whose completions are labelled together."""
PARTS = "parts"


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
            prompts=recipe.rollout.prompts,
            group_size=recipe.rollout.group_size,
            scorers=recipe.rollout.scorers,
            only=recipe.rollout.only,
        ),
        sampling=recipe.sampling,
        engine=recipe.engine,
        hardware=recipe.hardware,
    )


def draw(job: SampleRecipe, task: Task | None, progress: Progress) -> tuple[dict[str, Prompt], list[Sample]]:
    """The prompts by id and their samples, drawn in chunks, so that memory stays bounded and progress shows."""
    path, dtype = model_of(job)
    with open_sampler(path, replace(asking_of(job, task), judges=job.judges), progress, dtype=dtype) as sampler:
        return _draw(sampler, job, progress)


def _draw(sampler: Sampler, job: SampleRecipe, progress: Progress) -> tuple[dict[str, Prompt], list[Sample]]:
    order = sampler.prompts_of(job.rollout.prompts, "sample")
    progress.begin("sampling", len(order))
    samples: list[Sample] = []
    for start in range(0, len(order), CHUNK_PROMPTS):
        stop = min(start + CHUNK_PROMPTS, len(order))
        samples += _samples(sampler, job, order, start, stop)
        progress.advance(stop)
    return {p.id: p for p in (sampler.prompts.prompts[i] for i in order)}, samples


def _samples(sampler: Sampler, job: SampleRecipe, order: Sequence[int], start: int, stop: int) -> list[Sample]:
    """Those of one chunk: whatever the chunks are, each prompt has the same.

    The laboratory's pairs alone are drawn by their chunk's number, as they were when what is told of it was measured:
    its claims hold for the pairs of the seeds 0-4, and not for every draw of 2,000 noisy labels.
    """
    group_size = job.rollout.group_size
    if isinstance(job.labels, BradleyTerryLabels):
        return sampler.samples(order[start:stop], group_size=group_size, draw=start)
    return sampler.samples(order[start:stop], group_size=group_size, draw=Draw.SAMPLING, earlier=order[:start])


def write_sample_file(path: Path, prompts: Mapping[str, Prompt], samples: list[Sample]) -> None:
    """One JSON line a sample: prompt, completion, scores by name."""
    write_atomic(path, "".join(line + "\n" for line in sample_lines(prompts, samples)))


def sample_lines(prompts: Mapping[str, Prompt], samples: list[Sample]) -> list[str]:
    """The lines of a sample file."""
    lines = []
    for drawn in samples:
        outcome = next(iter(drawn.scores.values()), None)
        reward = outcome.value if isinstance(outcome, Score) else None
        prompt = prompts[drawn.prompt_id].dialogue
        lines.append(dumps(sample_record(drawn, iteration=0, kept="spread", prompt=prompt, reward=reward, kl=None)))
    return lines


@dataclass(frozen=True, slots=True)
class PairFileNames:
    """What a labelling job leaves in its folder."""

    pairs: str = "pairs.jsonl"
    statistics: str = "pairs.json"


def run_sample(job: SampleRecipe, run: Run, *, task: Task | None, progress: Progress) -> None:
    """The job as a run: its folder holds samples.jsonl and, if pairs were asked for, pairs.jsonl."""
    write_atomic(run.recipe_file, recipe_text(job))
    run.write("status.json", {"state": "running"})
    if isinstance(job.labels, StepLabels):
        label_steps(job, job.labels, run, task=task, progress=progress)
        run.write("status.json", {"state": "finished"})
        return
    if isinstance(job.labels, JudgeLabels):
        label_by_judge(job, job.labels, run, task=task, progress=progress)
        run.write("status.json", {"state": "finished"})
        return
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


def label_by_judge(job: SampleRecipe, config: JudgeLabels, run: Run, *, task: Task | None, progress: Progress) -> None:
    """Samples, and the pairs of them that a judge has labelled, with what there is to know of the labels."""
    path, dtype = model_of(job)
    asking = replace(asking_of(job, task), judges=job.judges, unasked=config.judge)
    with open_sampler(path, asking, progress, dtype=dtype) as sampler:
        judge = open_judge(config.judge, job.judges[config.judge], sampler.rollouts.crew, progress)
        prompts, samples = _draw(sampler, job, progress)
        write_sample_file(run.samples_file, prompts, samples)
        progress.begin(f"asking judge {config.judge}", len(samples))
        made = label(judge, prompts, samples, Rule(config.pairs, config.agreement, config.at_least))
    names, told = PairFileNames(), made.statistics
    write_atomic(run.folder / names.pairs, "".join(dumps(row) + "\n" for row in made.rows))
    write_atomic(run.folder / names.statistics, json.dumps(made.statistics_json()) + "\n")
    progress.say(f"{told.pairs} pairs are labelled; {told.ties} ties, {told.failed} failed, {told.identical} identical")


def label_steps(job: SampleRecipe, config: StepLabels, run: Run, *, task: Task | None, progress: Progress) -> None:
    """Samples and their labelled steps, `steps.jsonl`, chunk by chunk; a job that was ended goes on after its last one.

    What a chunk gave lies in `parts/` until all are there.
    """
    (path, dtype), asking = model_of(job), replace(asking_of(job, task), judges=job.judges)
    check_one_turn(asking.task, asking.task.split(asking.split))
    with open_sampler(path, asking, progress, dtype=dtype) as sampler:
        order = sampler.prompts_of(job.rollout.prompts, "sample")
        progress.begin("labelling steps", len(order))
        parts = []
        for start in range(0, len(order), CHUNK_LABELLED):
            stop = min(start + CHUNK_LABELLED, len(order))
            parts.append(run.folder / PARTS / f"{start:08d}.json")
            if not parts[-1].exists():
                parts[-1].parent.mkdir(exist_ok=True)
                samples = _samples(sampler, job, order, start, stop)
                prompts = {p.id: p for p in (sampler.prompts.prompts[i] for i in order[start:stop])}
                labeller = StepLabeller(sampler, config, Tally())
                rows = [dumps(row) for row in labeller.rows(samples, prompts)]
                part = {"samples": sample_lines(prompts, samples), "rows": rows, "tally": labeller.tally.to_json()}
                write_atomic(parts[-1], dumps(part))
            progress.advance(stop)
    read = [json.loads(part.read_text("utf-8")) for part in parts]
    for place, name in ((run.samples_file, "samples"), (run.folder / "steps.jsonl", "rows")):
        write_atomic(place, "".join(line + "\n" for part in read for line in part[name]))
    tally = together(part["tally"] for part in read)
    write_atomic(run.folder / "steps.json", json.dumps(tally, ensure_ascii=False) + "\n")
    shutil.rmtree(run.folder / PARTS)
    progress.say(f"{tally['rows']} of {tally['answers']} completions gave {tally['steps']} labelled steps")


def _pair(pair: PreferencePair) -> dict[str, Any]:
    return {"id": pair.id, "prompt": plain(pair.dialogue), "chosen": pair.chosen, "rejected": pair.rejected}
