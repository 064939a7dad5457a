"""Which prompts are worth training on, asked of the policy itself: n samples of each, scored by the code of a run.

    prompts ─▶ n samples each, chunk by chunk ─▶ samples.jsonl ─▶ pass rates ─▶ kept.jsonl, prompts.jsonl, summary.json

What holds: `samples.jsonl` grows by whole prompts in a fixed order, and a sample depends on its prompt, its number, the
seed and the policy alone. So a killed selection goes on where it stopped, and ends as one that never was; and other
bounds decide anew on the samples that are there.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ropewalk.data.config import Reaches, Select
from ropewalk.data.ledger import fingerprint
from ropewalk.data.order import DIFFICULTY, PART
from ropewalk.data.select.keep import keep_sentence, kept_counts
from ropewalk.data.select.rates import PassRate, rates_of, write_rates
from ropewalk.data.select.selection import Selection, choose
from ropewalk.monitors.lines import parse
from ropewalk.monitors.samples import dialogue_text, outcome_read, sample_record
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.files import dumps, no_room, write_atomic
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.records.version import Draw
from ropewalk.runtime.jobs.sample import as_job
from ropewalk.runtime.lock import NAME as LOCK_FILE
from ropewalk.runtime.lock import locked
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, SampleRecipe, read_recipe, recipe_text
from ropewalk.runtime.run import Run
from ropewalk.runtime.sampler import Sampler, asking_of, model_of, open_sampler
from ropewalk.tasks.task import Task

CHUNK_SAMPLES = 512
"""Samples drawn at a time, in whole prompts."""
BINS = 10
"""Of the histogram of pass rates."""


@dataclass(frozen=True, slots=True)
class Files:
    """What a selection leaves in its folder."""

    folder: Path

    @property
    def kept(self) -> Path:
        """The prompts to train on: by `rollout.only`, or as the file of a task of kind `prompts`."""
        return self.folder / "kept.jsonl"

    @property
    def prompts(self) -> Path:
        """Every prompt with its pass rate and what became of it."""
        return self.folder / "prompts.jsonl"

    @property
    def samples(self) -> Path:
        return self.folder / "samples.jsonl"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.json"

    @property
    def state(self) -> Path:
        """What the samples were drawn from."""
        return self.folder / "selection.json"

    @property
    def made(self) -> tuple[Path, ...]:
        """All but the state."""
        return self.kept, self.prompts, self.samples, self.summary


@dataclass(frozen=True, slots=True)
class SelectedPrompts:
    """A finished selection."""

    files: Files
    task: str
    samples: int
    """Of each prompt."""
    selection: Selection

    def histogram(self) -> list[tuple[int, int]]:
        """Prompts and kept prompts by pass rate, in bins of equal width from 0 to 1."""
        found = [[0, 0] for _ in range(BINS)]
        for one in self.selection.prompts:
            if one.rate.judged:
                place = min(one.rate.passed * BINS // one.rate.judged, BINS - 1)
                found[place][0] += 1
                found[place][1] += one.kept
        return [(both[0], both[1]) for both in found]

    def summary(self) -> dict[str, Any]:
        """For machines."""
        return {
            "task": self.task,
            "folder": str(self.files.folder),
            "samples_per_prompt": self.samples,
            **self.selection.summary(),
            "histogram": [{"prompts": prompts, "kept": kept} for prompts, kept in self.histogram()],
            "words": self.selection.sentences(),
        }


def select(
    recipe: str | Path,
    *,
    out: str | Path,
    task: Task | None = None,
    set: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> SelectedPrompts:
    """Ask the policy of a recipe (or of a run folder, `runs/x@best`) every training prompt of its task, and choose.

    The folder `out` may hold the samples of an earlier call with the same policy, task and seed: they are kept.
    Raises `InputError` if it holds those of another, unless they may be overwritten.
    """
    job, settings = selection_job(recipe, {**(set or {}), **({"task": {"kind": "given"}} if task is not None else {})})
    files, shown = Files(Path(out)), progress or Silent()
    path, dtype = model_of(job)
    asking = replace(asking_of(job, task), judges=job.judges)
    _check_scorer(settings, [*asking.task.scorers, *job.judges])
    with _folder(files, overwrite=overwrite), open_sampler(path, asking, shown, dtype=dtype) as sampler:
        chosen = _asked(sampler, settings)
        prompts = [sampler.prompts.prompts[i] for i in chosen]
        _same_origin(files, sampler, job, settings, prompts)
        _draw(files, sampler, chosen, settings.samples, shown)
        rates = _rates(files, prompts, settings)
        selection = choose(rates, settings.keep, settings.buckets, settings.coverage)
        found = SelectedPrompts(files, sampler.rollouts.task.name, settings.samples, selection)
        _write(found, {prompt.id: prompt for prompt in prompts})
    return found


def selection_job(recipe: str | Path, overrides: Mapping[str, Any]) -> tuple[SampleRecipe, Select]:
    """Whose prompts are asked of which policy, and how: of a recipe, or of a run, whose own policy is then asked."""
    name, at, which = str(recipe).partition("@")
    run = Run(Path(name))
    if run.recipe_file.is_file():
        loaded = read_recipe(run.recipe_file, {"model": "none", "start_from": str(recipe), **overrides})
    elif at:
        raise InputError(f"{recipe}: {name} is not a run folder, so it has no {which} model")
    else:
        loaded = read_recipe(recipe, overrides)
    job = loaded if isinstance(loaded, SampleRecipe) else as_job(loaded)
    assert isinstance(loaded, PPORecipe | GRPORecipe | SampleRecipe), "no other recipe has a task to sample"
    settings = loaded.select or Select()
    # Of the judges the one that says what passes, if one does: the others would be asked for nothing.
    asked = settings.passes.scorer if isinstance(settings.passes, Reaches) else ""
    job = job.model_copy(update={"judges": {name: one for name, one in loaded.judges.items() if name == asked}})
    if job.sampling.temperature == 0:
        raise InputError("sampling.temperature = 0 says the same every time, so a pass rate tells nothing: use 1")
    if not kept_counts(settings.keep, settings.samples):
        raise InputError(f"select.samples = {settings.samples}: {keep_sentence(settings.keep, settings.samples)}")
    return job, settings


def _check_scorer(settings: Select, known: Sequence[str]) -> None:
    if isinstance(settings.passes, Reaches) and settings.passes.scorer not in known:
        raise InputError(
            f"select.passes.scorer = {settings.passes.scorer!r} is scored by nobody: there are {', '.join(known)}"
        )


# -- the samples ---------------------------------------------------------------------------------------------------


@contextmanager
def _folder(files: Files, *, overwrite: bool) -> Iterator[None]:
    """The folder, locked; one in which nothing was begun is removed again."""
    folder = files.folder
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder")
    if folder.is_dir() and not files.state.exists() and any(not p.name.startswith(".") for p in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no selection: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        try:
            for old in (*files.made, files.state) if overwrite else ():
                old.unlink(missing_ok=True)
            yield
        finally:
            if not files.state.exists():
                (folder / LOCK_FILE).unlink(missing_ok=True)
                with suppress(OSError):  # it holds what is not ours
                    folder.rmdir()


def _asked(sampler: Sampler, settings: Select) -> list[int]:
    """The prompts looked at, in the task's order; so many drawn by the seed, or all."""
    count = len(sampler.prompts)
    if settings.prompts is None or settings.prompts >= count:
        return list(range(count))
    # A mixture goes through its smallest part again before the others are through.
    chosen: dict[int, None] = {}
    wanted = settings.prompts
    while len(chosen) < settings.prompts:
        chosen = dict.fromkeys(sampler.prompts_of(wanted, "select"))
        wanted *= 2
    return sorted(list(chosen)[: settings.prompts])


def _same_origin(
    files: Files, sampler: Sampler, job: SampleRecipe, settings: Select, prompts: Sequence[Prompt]
) -> None:
    """Samples that are there must have been drawn and scored as these would be."""
    asked = job.model_dump(mode="json", include={"seed", "task", "data", "judges"})
    now = {
        "policy": str(sampler.rollouts.crew.call("fingerprint", role="actor").result()),
        "prompts": fingerprint(prompts, str(sampler.language.tokenizer.backend_tokenizer.to_str())),
        "sampling": hashlib.blake2b(
            json.dumps(asdict(sampler.rollouts.sampling), sort_keys=True).encode(), digest_size=12
        ).hexdigest(),
        "task": hashlib.blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=12).hexdigest(),
        "samples": settings.samples,
    }
    if files.state.exists():
        then = json.loads(files.state.read_text("utf-8")).get("drawn")
        other = [name for name in now if not isinstance(then, dict) or then.get(name) != now[name]]
        if other:
            raise InputError(
                f"{files.folder} holds samples of another selection (other {' and '.join(other)}): name another "
                "folder, or say --overwrite"
            )
    write_atomic(files.state, json.dumps({"drawn": now, "recipe": recipe_text(job)}, indent=1) + "\n")


def _draw(files: Files, sampler: Sampler, chosen: Sequence[int], count: int, progress: Progress) -> None:
    """Draw what is not there yet, and write it down chunk by chunk."""
    ids = [sampler.prompts.prompts[i].id for i in chosen]
    done = _mend(files.samples, ids, count)
    progress.begin("sampling", len(chosen), done)
    step = max(1, CHUNK_SAMPLES // count)
    for start in range(done, len(chosen), step):
        part = chosen[start : start + step]
        samples = sampler.samples(part, group_size=count, draw=Draw.SELECTION)
        prompts = {p.id: p for p in (sampler.prompts.prompts[i] for i in part)}
        _append(files.samples, [_line(sample, prompts[sample.prompt_id], sampler.rollouts.task) for sample in samples])
        progress.advance(start + len(part))


def _mend(path: Path, ids: Sequence[str], count: int) -> int:
    """How many prompts are there whole; what a kill left after them is cut off."""
    if not path.exists():
        return 0
    lines, end, place = 0, 0, 0
    with path.open("rb") as file:
        for line in file:
            row = parse(line)
            expected = (ids[lines // count], lines % count) if lines < len(ids) * count else None
            if row is None or expected != (row.get("prompt_id"), row.get("index")):
                break
            lines, place = lines + 1, place + len(line)
            if lines % count == 0:
                end = place
    if end < path.stat().st_size:
        os.truncate(path, end)
    return lines // count


def _line(sample: Sample, prompt: Prompt, task: Task) -> str:
    """One line of the file of samples, with whether the task calls it solved."""
    shown = sample_record(sample, iteration=0, kept="spread", prompt=prompt.dialogue, reward=None, kl=None)
    return dumps({**shown, "solved": task.verdict(sample)}) + "\n"


def _append(path: Path, lines: Sequence[str]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        why = "there is no room on the disk" if no_room(error) else str(error)
        raise RunStopped(f"{path} cannot be written ({why}): mend that and give the same command again") from error


# -- the choice ----------------------------------------------------------------------------------------------------


def _rates(files: Files, prompts: Sequence[Prompt], settings: Select) -> list[PassRate]:
    """The pass rates in the order of the prompts, read from the file as a stream."""
    found = {rate.prompt_id: rate for rate in rates_of(_judged(files.samples, settings), where=str(files.samples))}
    return [found[prompt.id] for prompt in prompts]


def _judged(path: Path, settings: Select) -> Iterator[dict[str, Any]]:
    """The rows with one score: 1 where they pass, 0 where they do not, words where that cannot be told."""
    with path.open("rb") as file:
        for line in file:
            row: dict[str, Any] = json.loads(line)
            passes = _passes(row, settings)
            yield {**row, "scores": {"passes": "not judged" if passes is None else float(passes)}}


def _passes(row: Mapping[str, Any], settings: Select) -> bool | None:
    if not isinstance(settings.passes, Reaches):
        solved: bool | None = row["solved"]
        return solved
    outcome = outcome_read(row["scores"][settings.passes.scorer])
    return outcome.value >= settings.passes.at_least if isinstance(outcome, Score) else None


def _write(found: SelectedPrompts, prompts: Mapping[str, Prompt]) -> None:
    """The kept prompts last but for the summary: a folder with a summary is whole."""
    files, selection = found.files, found.selection
    files.summary.unlink(missing_ok=True)
    table = []
    for one in selection.prompts:
        info = prompts[one.rate.prompt_id].info
        table.append((one.rate, {**one.row(), "source": _source(info, found.task)}))
    write_rates(files.prompts, table)
    kept = []
    for one in selection.kept:
        prompt = prompts[one.rate.prompt_id]
        assert one.rate.rate is not None
        learnt: dict[str, Json] = {DIFFICULTY: one.bucket, "pass_rate": one.rate.rate.value}
        info = {"source": _source(prompt.info, found.task), **prompt.info, **learnt}
        kept.append({"id": prompt.id, "prompt": _dialogue(prompt), "gold": prompt.gold, "info": info})
    write_atomic(files.kept, "".join(dumps(row) + "\n" for row in kept))
    write_atomic(files.summary, json.dumps(found.summary(), indent=1) + "\n")


def _source(info: Mapping[str, Json], task: str) -> Json:
    return info.get("source") or info.get(PART) or task


def _dialogue(prompt: Prompt) -> Json:
    if isinstance(prompt.dialogue, str):
        return dialogue_text(prompt.dialogue)
    return [{"role": message.role, "content": message.content} for message in prompt.dialogue]
