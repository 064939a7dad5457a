"""Task sets of a run, before against after: what both sides said, scored by everything the run knows.

Beside the task's own scorers stand the run's reward model, its composed reward, and a judge's win rate.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ropewalk.records.score import Abstain, Score
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.evaluation.findings import Measure, SetFinding
from ropewalk.runtime.evaluation.judge import Reading, learned_of, preferred, read_scores, win_rate, with_scores
from ropewalk.runtime.evaluation.policies import (
    Drawn,
    Place,
    PolicyFolder,
    Question,
    about,
    common_prompts,
    draw,
    task_measures,
)
from ropewalk.runtime.evaluation.preferred import is_judge_file, preferences
from ropewalk.runtime.learned.calls import learned_rewards
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, SFTRecipe
from ropewalk.tasks.scoring.compose import about_sample, compose
from ropewalk.tasks.scoring.config import Raw
from ropewalk.tasks.task import Task

PolicyRecipe: TypeAlias = PPORecipe | GRPORecipe | SFTRecipe
Readings: TypeAlias = Sequence[Sequence[Reading]]
"""Per side, per set."""
REWARD = "reward"
"""Name of the composed reward beside the scores it is made of."""


def asked_sets(
    recipe: PolicyRecipe,
    sides: Sequence[PolicyFolder],
    questions: Sequence[Question],
    judge: str | None,
    progress: Progress,
) -> list[SetFinding]:
    """What was found on each question. `sides`: the policy before, if there is one, then the policy after."""
    languages = [side.language() for side in sides]
    place = Place(recipe.hardware, NativeEngineConfig(), recipe.seed)
    if isinstance(recipe, PPORecipe | GRPORecipe):
        place = Place(recipe.hardware, recipe.engine, recipe.seed, recipe.rollout.scorers)
    read = [common_prompts(question, languages, progress) for question in questions]
    said = [
        draw(side, [(q, prompts[i]) for q, prompts in zip(questions, read, strict=True)], place, progress)
        for i, side in enumerate(sides)
    ]
    readings: Readings = [
        [Reading(one, language) for one in side] for side, language in zip(said, languages, strict=True)
    ]
    readings = with_learned(recipe, readings, progress)
    preferred = None if judge is None else _judged(judge, readings, recipe.hardware, progress)
    sets = []
    for number, question in enumerate(questions):
        found = _set_finding(recipe, question, [side[number].drawn for side in readings])
        sets.append(found if preferred is None else _with_win_rate(found, preferred[number]))
    return sets


def _set_finding(recipe: PolicyRecipe, question: Question, drawn: Sequence[Drawn]) -> SetFinding:
    extra = [name for name in _learned_names(recipe) if all(name in s.scores for side in drawn for s in side.samples)]
    rewarded = [with_reward(recipe, question.task, side) for side in drawn]
    if rewarded[0] is not drawn[0]:
        extra.append(REWARD)
    before = rewarded[0] if len(rewarded) > 1 else None
    measures = task_measures(question.task, before, rewarded[-1], extra)
    return SetFinding(question.name, measures, about(question, [before, rewarded[-1]]))


def with_reward(recipe: PolicyRecipe, task: Task, drawn: Drawn) -> Drawn:
    """The samples with the recipe's reward as one more score, where that is not simply the first scorer.

    Scores stand in it as they are: statistics of training are not those of these samples.
    """
    if isinstance(recipe, SFTRecipe) or REWARD in task.scorers:
        return drawn
    components = recipe.reward.components
    names = {name for sample in drawn.samples for name in sample.scores}
    if len(components) < 2 or not names >= recipe.reward.looked_at().keys():
        return drawn
    plain = {name: component.model_copy(update={"normalise": Raw()}) for name, component in components.items()}
    raw = recipe.reward.model_copy(update={"components": plain})
    said = [about_sample(sample) for sample in drawn.samples]
    composed = compose(raw, [sample.scores for sample in drawn.samples], {}, said)
    samples = [
        sample.with_scores(**{REWARD: Score(float(reward)) if valid else Abstain()})
        for sample, reward, valid in zip(drawn.samples, composed.reward_R, composed.valid_R, strict=True)
    ]
    return replace(drawn, samples=samples)


def with_learned(recipe: PolicyRecipe, readings: Readings, progress: Progress) -> Readings:
    """Readings with the scores of the run's own learned rewards, of those that are still there."""
    for learned in () if isinstance(recipe, SFTRecipe) else learned_rewards(recipe):
        gone = [folder for folder in learned.section.folders if not Path(folder.partition("@")[0]).is_dir()]
        if gone:
            progress.say(f"the run's reward model {gone[0]} is gone, so the scores of {learned.name} are left out")
            continue
        flat = [reading for side in readings for reading in side]
        scores = iter(learned_of(learned, flat, recipe.hardware, progress))
        readings = [
            [replace(r, drawn=with_scores(r.drawn, learned.name, next(scores))) for r in side] for side in readings
        ]
    return readings


def _learned_names(recipe: PolicyRecipe) -> list[str]:
    return [] if isinstance(recipe, SFTRecipe) else [learned.name for learned in learned_rewards(recipe)]


def _judged(judge: str, readings: Readings, hardware: Hardware, progress: Progress) -> list[tuple[Measure, int]]:
    """The win rate on every set, and the ties."""
    before, after = readings
    if is_judge_file(judge):
        earlier, later = ([reading.drawn for reading in side] for side in readings)
        return [preferred(shares) for shares in preferences(judge, earlier, later, hardware, progress)]
    scores = read_scores(judge, [*before, *after], hardware, progress)
    pairs = zip(scores[: len(before)], scores[len(before) :], before, strict=True)
    return [win_rate(first, second, reading.drawn.per_prompt) for first, second, reading in pairs]


def _with_win_rate(found: SetFinding, preferred: tuple[Measure, int]) -> SetFinding:
    rate, ties = preferred
    return replace(found, measures=[*found.measures, rate], about={**found.about, "judge's ties": ties})
