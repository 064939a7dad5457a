"""One policy that samples a task's prompts: for jobs, evaluation and chat, outside any training."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ropewalk.models.config import FolderModel
from ropewalk.models.language import Language
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.rollout.episode import requests
from ropewalk.runtime.assemble import the_task
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.experience import TokenisedPrompts
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.prepare import language_of, sampling_record, tokenised_prompts
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import SampleRecipe
from ropewalk.runtime.roles import FromPolicy, RoleSetup, Setup
from ropewalk.runtime.run import local_model, model_folder
from ropewalk.tasks.scoring.run import score_samples
from ropewalk.tasks.task import Task
from ropewalk.training.config import Precision


@dataclass(frozen=True, slots=True)
class Sampler:
    """A policy, a task and the prompts of one of its splits."""

    crew: Crew
    task: Task
    language: Language
    prompts: TokenisedPrompts
    record: SamplingRecord
    seed: int

    def samples(self, chosen: Sequence[int], *, group_size: int, iteration: int) -> list[Sample]:
        """Scored samples of these prompts; (seed, iteration) decides what is drawn."""
        pairs = [(self.prompts.prompts[i], self.prompts.ids[i]) for i in chosen]
        asked = requests(pairs, group_size=group_size, sampling=self.record, run_seed=self.seed, iteration=iteration)
        drawn = self.crew.call("generate", requests=asked).result()
        by_id: dict[str, Prompt] = {prompt.id: prompt for prompt, _ in pairs}
        return score_samples(self.task, by_id, drawn)


def policy_setup(path: str, hardware: Hardware, engine: NativeEngineConfig | None, *, dtype: str = "float32") -> Setup:
    """A setup that trains nothing; without an engine it only reads."""
    source = FromPolicy(path, "bfloat16" if dtype == "bfloat16" else "float32")
    return Setup(
        roles={"actor": RoleSetup(source, frozenset({"policy"}))},
        seed=0,
        device=hardware.device,
        threads=hardware.threads,
        processes=hardware.processes,
        precision=Precision(),
        micro_batch_tokens=hardware.micro_batch_tokens,
        engine=engine,
    )


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked of a policy: prompts, sampling, engine and seed."""

    task: Task
    split: str
    sampling: Sampling
    hardware: Hardware
    engine: NativeEngineConfig
    seed: int


@contextmanager
def open_sampler(path: str, asking: Asking, progress: Progress, *, dtype: str = "float32") -> Iterator[Sampler]:
    """A policy folder asked a task's prompts; the model is in memory inside the block only."""
    language = language_of(FromPolicy(path))
    record = sampling_record(asking.sampling, language)
    prompts = tokenised_prompts(asking.task.split(asking.split), language, record, progress)
    progress.begin("loading", 1)
    crew = open_crew(policy_setup(path, asking.hardware, asking.engine, dtype=dtype))
    try:
        yield Sampler(crew, asking.task, language, prompts, record, asking.seed)
    finally:
        crew.close()


def asking_of(job: SampleRecipe, task: Task | None) -> Asking:
    """A sampling job's questions."""
    found = the_task(job.task, job.data, task)
    return Asking(found, job.split, job.sampling, job.hardware, job.engine, job.seed)


def model_of(job: SampleRecipe) -> tuple[str, str]:
    """Folder and dtype of a job's model."""
    if job.start_from is not None:
        return str(local_model(job.start_from)), "float32"
    if not isinstance(job.model, FolderModel):
        raise InputError("a fresh model knows nothing to sample: give model.kind = 'folder' with a path, or start_from")
    return str(model_folder(job.model.path)), job.model.dtype
