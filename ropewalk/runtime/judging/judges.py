"""The judges of a run, asked about samples that have been scored.

    scored samples ─▶ gates that are known ─▶ judge after judge, in the recipe's order ─▶ samples with their outcomes

A sample whose gate to a judge is closed is not asked about: its outcome abstains, and the reward's gate says what it is
worth. So a judge may be the gate of a later one. Gates that look at a learned reward are not known yet: such a sample
is judged, and the gate acts where rewards are composed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ropewalk.models.language import load_language
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.judging.asker import CrewAsker
from ropewalk.runtime.judging.calls import role_of
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.run import local_model
from ropewalk.runtime.stage_cache import cache_folder
from ropewalk.tasks.judging.config import Memory, ModelJudge, PairwiseJudge, RubricJudge
from ropewalk.tasks.judging.desk import Desk
from ropewalk.tasks.judging.judge import Judge
from ropewalk.tasks.judging.memory import AnswerFile
from ropewalk.tasks.judging.question import Asker
from ropewalk.tasks.judging.server import ServerAsker
from ropewalk.tasks.scoring.config import Reward
from ropewalk.tasks.scoring.gates import closed_words, is_open

FOLDER = "judgements"
"""Folder of remembered answers in the user's cache."""
Span: TypeAlias = Callable[[str, str], AbstractContextManager[None]]
"""Notes in the timeline that something happens, and in which lane."""


def check_judges(judges: Mapping[str, PairwiseJudge | RubricJudge]) -> None:
    """Raises InputError for a model that cannot be asked, a key that is not there, and a package that is missing."""
    for name, config in judges.items():
        if not isinstance(config.by, ModelJudge):
            ServerAsker(config.by)
        elif not getattr(load_language(local_model(config.by.path)).tokenizer, "chat_template", None):
            raise InputError(
                f"the model of judge {name!r} has no chat template, so it cannot be asked: take a chat model"
            )


def open_judge(name: str, config: PairwiseJudge | RubricJudge, crew: Crew | None, progress: Progress) -> Judge:
    """A judge of a recipe, ready to be asked; see `check_judges`. One behind a server needs no crew. That its answers
    cannot be kept is said once."""
    asker: Asker
    if isinstance(config.by, ModelJudge):
        language = load_language(local_model(config.by.path))
        if crew is None:
            raise RuntimeError(f"judge {name!r} is a model of the run, and there is no crew")
        asker = CrewAsker(crew, role_of(name), language, config.by.cache_tokens)
    else:
        asker = ServerAsker(config.by)
    return Judge(name, config, Desk(asker, _memory(config.memory, progress)))


def _memory(config: object, progress: Progress) -> AnswerFile | None:
    if not isinstance(config, Memory):
        return None
    folder = cache_folder() / FOLDER if config.folder == "auto" else Path(config.folder)
    return AnswerFile(folder, config.megabytes, progress.say)


@dataclass(frozen=True, slots=True)
class Judges:
    """All judges of a run, and the reward whose gates say who is judged."""

    judges: tuple[Judge, ...]
    reward: Reward | None = None

    def __call__(
        self,
        prompts_by_id: Mapping[str, Prompt],
        samples: Sequence[Sample],
        span: Span = lambda name, lane: nullcontext(),
    ) -> list[Sample]:
        """The samples with every judge's outcome."""
        judged = list(samples)
        for judge in self.judges:
            with span(f"judge/{judge.name}", f"judge/{judge.name}"):
                judged = judge.judge(prompts_by_id, judged, self._skip(judge.name))
        return judged

    def _skip(self, name: str) -> Callable[[Sample], str | None]:
        component = self.reward.components.get(name) if self.reward is not None else None
        gates = component.gates if component is not None else ()

        def closed(sample: Sample) -> str | None:
            known = (gate for gate in gates if gate.on in sample.scores)
            return next((closed_words(gate) for gate in known if not is_open(gate, sample.scores)), None)

        return closed


NOBODY = Judges(())


def open_judges(
    judges: Mapping[str, PairwiseJudge | RubricJudge], crew: Crew, progress: Progress, reward: Reward | None = None
) -> Judges:
    """The judges of a recipe."""
    return Judges(tuple(open_judge(name, config, crew, progress) for name, config in judges.items()), reward)
