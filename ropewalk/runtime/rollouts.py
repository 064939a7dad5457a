"""Samples of prompts, drawn by the crew's engine and scored by the task: for training, evaluation and jobs alike.

    draw ── requests ──▶ crew ── completion ──▶ sample ──────────────────▶ scorer pool ──▶ in the order asked
              │            ▲          │                                         ▲
              └─ prompts with a world ┴──▶ episodes (`rollout/episodes.py`) ────┘

Judges, if the recipe has any, are asked once all samples are scored: they compare those of a group.

Scoring begins with the first sample that is finished, beside the generation of the others.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ropewalk.models.language import Language
from ropewalk.records.errors import RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Completion, Request, Sample, SamplingRecord, sample_of
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.rollout.episode import Key, check_failed, key_of, requests
from ropewalk.rollout.episodes import Casting, Player, Rules
from ropewalk.rollout.inbox import Abandoned, Inbox
from ropewalk.rollout.tool_talk import talk_of
from ropewalk.runtime.clock import Stopwatch
from ropewalk.runtime.config import Rollouts as RolloutSection
from ropewalk.runtime.crew import Crew, complete
from ropewalk.runtime.judging.judges import NOBODY, Judges
from ropewalk.runtime.stretches import Stretches
from ropewalk.tasks.environments.protocol import EPISODE
from ropewalk.tasks.scoring.pool import ScorerPool
from ropewalk.tasks.task import Task

SCORERS = RolloutSection().scorers
MOST_FAILED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Rollouts:
    """A task asked of a crew's actor; (seed, iteration) decides what is drawn."""

    crew: Crew
    task: Task
    sampling: SamplingRecord
    seed: int
    rules: Rules | None = None
    """How episodes are played; None: the task has no environment. See `rules_of`."""
    scorers: int = SCORERS
    """Threads that score."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    judges: Judges = NOBODY
    """Asked about all samples of a draw, once they are scored."""

    def draw(
        self,
        asked: Sequence[tuple[Prompt, npt.NDArray[np.int64]]],
        *,
        group_size: int,
        iteration: int,
        earlier: Sequence[str] = (),
    ) -> list[Sample]:
        """`group_size` scored samples of each prompt with its ids, group by group; lost ones are among them.

        `earlier` are the ids of the prompts that were drawn in this iteration before. A prompt with an environment is
        played as an episode, which its environment opens: its ids are not read. Raises `RunStopped` if most failed.
        """
        wanted = requests(
            asked,
            group_size=group_size,
            sampling=self.sampling,
            run_seed=self.seed,
            iteration=iteration,
            earlier=earlier,
        )
        prompts = [prompt for prompt, _ in asked for _ in range(group_size)]
        scoring = Stretches(self.watch)
        with ScorerPool(self.task, workers=self.scorers, busy=scoring.busy) as pool:
            drawn = _Drawn(pool, prompts, wanted)
            with self.watch.span("generate", "actor"):
                self._generate(drawn)
            drawn.check(later=bool(earlier))
            scored = pool.results()
        scoring.write()
        return self.judges({prompt.id: prompt for prompt, _ in asked}, scored, self.watch.span)

    def _generate(self, drawn: "_Drawn") -> None:
        """Complete every request, or play it where its prompt has a world."""
        worlds = [self.task.environment_of(prompt) for prompt in drawn.prompts]
        castings = [
            Casting(place, drawn.prompts[place], drawn.wanted[place], world)
            for place, world in enumerate(worlds)
            if world is not None
        ]
        inbox = Inbox([request for request, world in zip(drawn.wanted, worlds, strict=True) if world is None])
        if not castings:
            inbox.close()
            complete(self.crew, inbox, drawn.hear)
            return
        if self.rules is None:
            raise RuntimeError("a task with an environment needs the rules of its episodes")
        player = Player(self.rules, inbox, drawn.finish)
        with player:
            player.begin(castings)
            try:
                complete(self.crew, inbox, lambda c: None if player.heard(c) else drawn.hear(c))
            except Abandoned:
                if player.error is not None:
                    raise player.error from None
                raise


@dataclass
class _Drawn:
    """The samples of one draw on their way to their places."""

    pool: ScorerPool
    prompts: Sequence[Prompt]
    wanted: Sequence[Request]
    failed: int = 0
    """Single completions that failed."""
    faults: Counter[str] = field(default_factory=Counter)
    """Episodes that failed, by what went wrong."""
    faulty: set[str] = field(default_factory=set)
    """The prompts whose episodes failed."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Episodes end in threads of their own."""

    def hear(self, completion: Completion) -> None:
        """A single completion is a finished sample."""
        self.failed += completion.finish == "failed"
        place = self._places[key_of(completion.request)]
        self.pool.put(place, self.prompts[place], sample_of(completion))

    def finish(self, place: int, sample: Sample) -> None:
        """So is an episode's end."""
        if sample.finish == "failed":
            told = sample.info[EPISODE]
            assert isinstance(told, dict)
            with self.lock:
                self.faults[str(told.get("error") or told["ended"])] += 1
                self.faulty.add(sample.prompt_id)
        self.pool.put(place, self.prompts[place], sample)

    def check(self, *, later: bool) -> None:
        """Raises `RunStopped` if most of what was asked has failed; of a later round, which may be one prompt whose
        world is at fault, only if it is not that one alone."""
        check_failed(self.failed, len(self.wanted))
        count = self.faults.total()
        if count > MOST_FAILED_SHARE * len(self.wanted) and len(self.faulty) > later:
            what, times = self.faults.most_common(1)[0]
            raise RunStopped(
                f"{count} of {len(self.wanted)} episodes failed, {times} times with {what}: mend the environment, "
                "then resume"
            )

    @cached_property
    def _places(self) -> dict[Key, int]:
        return {key_of(request): place for place, request in enumerate(self.wanted)}


def rules_of(task: Task, language: Language, sampling: Sampling, engine: NativeEngineConfig) -> Rules | None:
    """How a task's episodes are played by a model; None if the task has no environment.

    Raises `InputError` for a model without a chat template, which no world can talk to.
    """
    if not task.plays:
        return None
    limits = sampling.episode
    talk = talk_of(language.tokenizer, language.eos_ids, limits.calls)
    return Rules(limits, min(language.max_positions or engine.cache_tokens, engine.cache_tokens), talk)
