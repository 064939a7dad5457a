"""One policy that samples a task's prompts: for jobs, evaluation and chat, outside any training."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ropewalk.data.ledger import DataLedger
from ropewalk.data.order import prompt_order
from ropewalk.models.config import FolderModel
from ropewalk.models.language import Language
from ropewalk.records.errors import InputError
from ropewalk.records.sample import Sample
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.assemble import asked_task
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.experience import TokenisedPrompts
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.judging.calls import Judges as JudgeSections
from ropewalk.runtime.judging.calls import check_judge_names, with_judges
from ropewalk.runtime.judging.judges import check_judges, open_judges
from ropewalk.runtime.prepare import language_of, sampling_record, tokenised_prompts
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import SampleRecipe
from ropewalk.runtime.roles import FromPolicy, RoleSetup, Setup
from ropewalk.runtime.rollouts import SCORERS, Rollouts, rules_of
from ropewalk.runtime.run import local_model, model_folder
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import Task
from ropewalk.training.config import Precision


@dataclass(frozen=True, slots=True)
class Sampler:
    """A policy, a task and the prompts of one of its splits."""

    rollouts: Rollouts
    language: Language
    prompts: TokenisedPrompts

    def prompts_of(self, count: int, purpose: str) -> list[int]:
        """So many of the prompts, in an order drawn by the seed; of a mixture by the weights of its parts."""
        order = prompt_order(
            self.prompts.prompts,
            self.rollouts.task.weights,
            None,
            lambda some: DataLedger(len(some), self.rollouts.seed, purpose),
        )
        return order.next(order.start, count, 0.0)[0]

    def samples(
        self, chosen: Sequence[int], *, group_size: int, draw: int, earlier: Sequence[int] = ()
    ) -> list[Sample]:
        """Scored samples of these prompts, after those that were drawn for the same before; the seed and what they are
        drawn for decide them."""
        asked = [(self.prompts.prompts[i], self.prompts.ids[i]) for i in chosen]
        before = [self.prompts.prompts[i].id for i in earlier]
        return self.rollouts.draw(asked, group_size=group_size, iteration=draw, earlier=before)


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
    scorers: int = SCORERS
    """Threads that score."""
    judges: JudgeSections = field(default_factory=dict)
    """Judges whose models are to be on the crew."""
    unasked: str = ""
    """The judge that gives no scores: it labels."""


@contextmanager
def open_sampler(path: str, asking: Asking, progress: Progress, *, dtype: str = "float32") -> Iterator[Sampler]:
    """A policy folder asked a task's prompts; the model is in memory inside the block only."""
    language = language_of(FromPolicy(path))
    record = sampling_record(asking.sampling, language)
    rules = rules_of(asking.task, language, asking.sampling, asking.engine)
    prompts = tokenised_prompts(asking.task.split(asking.split), language, record, progress)
    check_judges(asking.judges)
    progress.begin("loading", 1)
    crew = open_crew(with_judges(policy_setup(path, asking.hardware, asking.engine, dtype=dtype), asking.judges))
    try:
        with sandboxes():
            scoring = {name: judge for name, judge in asking.judges.items() if name != asking.unasked}
            judges = open_judges(scoring, crew, progress)
            rollouts = Rollouts(crew, asking.task, record, asking.seed, rules, asking.scorers, judges=judges)
            yield Sampler(rollouts, language, prompts)
    finally:
        crew.close()


def asking_of(job: SampleRecipe, task: Task | None) -> Asking:
    """A sampling job's questions."""
    task = asked_task(job, task)
    check_judge_names(job.judges, task.scorers)
    return Asking(task, job.split, job.sampling, job.hardware, job.engine, job.seed, job.rollout.scorers)


def model_of(job: SampleRecipe) -> tuple[str, str]:
    """Folder and dtype of a job's model."""
    if job.start_from is not None:
        return str(local_model(job.start_from)), "float32"
    if not isinstance(job.model, FolderModel):
        raise InputError("a fresh model knows nothing to sample: give model.kind = 'folder' with a path, or start_from")
    return str(model_folder(job.model.path)), job.model.dtype
