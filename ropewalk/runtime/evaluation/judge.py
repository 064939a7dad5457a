"""A reward model as the reader of an evaluation: its scores of both sides, and a win rate if it may judge.

The reward model that a run was trained against may not judge that run: a policy that learned to please it pleases it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from ropewalk.data.intervals import Estimate, wilson
from ropewalk.models.chat import prompt_ids
from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.language import Language
from ropewalk.models.load import Dtype, load_scorer
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Dialogue
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.evaluation.findings import Measure
from ropewalk.runtime.evaluation.policies import Drawn
from ropewalk.runtime.evaluation.preferred import check_judge_file, is_judge_file
from ropewalk.runtime.learned.calls import ROLE, LearnedCalls, learned_rewards
from ropewalk.runtime.learned.outside import learned_scores, said_in_row
from ropewalk.runtime.learned.read import Said, said_by
from ropewalk.runtime.prepare import language_of
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, TrainingRecipe
from ropewalk.runtime.roles import FromScorer
from ropewalk.runtime.run import Run, local_model, model_folder
from ropewalk.runtime.scorer import RewardScorer, open_scorer
from ropewalk.training.packing import Row

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one policy said, and the language it said it in."""

    drawn: Drawn
    language: Language


def learned_of(
    learned: LearnedCalls, readings: Sequence[Reading], hardware: Hardware, progress: Progress
) -> list[Floats]:
    """A learned reward's score of every sample of every reading, read as `read_scores` reads."""
    progress.begin(f"scoring by {learned.name}", sum(len(reading.drawn.samples) for reading in readings))
    own = language_of(FromScorer(str(local_model(learned.section.folders[0]))))
    same = all(own.tokenizer.get_vocab() == reading.language.tokenizer.get_vocab() for reading in readings)
    language = readings[0].language if same else own
    return learned_scores(learned, [_said(own, reading) for reading in readings], language, hardware)


def _said(own: Language, reading: Reading) -> list[Said]:
    drawn = reading.drawn
    if own.tokenizer.get_vocab() == reading.language.tokenizer.get_vocab():
        return [said_by(sample) for sample in drawn.samples]
    dialogues = {prompt.id: prompt.dialogue for prompt in drawn.prompts}
    return [said_in_row(text_row(own, dialogues[s.prompt_id], s), s) for s in drawn.samples]


def read_scores(folder: str, readings: Sequence[Reading], hardware: Hardware, progress: Progress) -> list[Floats]:
    """A reward model's score of every sample of every reading.

    It reads the sampled ids themselves where policy and reward model share a vocabulary, else the text.
    """
    progress.begin(f"scoring by {folder}", sum(len(reading.drawn.samples) for reading in readings))
    own = language_of(FromScorer(folder))
    with open_scorer(folder, hardware) as scorer:
        return [_scores(scorer, own, reading) for reading in readings]


def with_scores(drawn: Drawn, name: str, scores: Floats) -> Drawn:
    """The samples with a reward model's scores among their outcomes."""
    if not np.isfinite(scores).all():
        raise InputError(f"{name} gave a score that is not finite: look at its run before using it")
    pairs = zip(drawn.samples, scores.tolist(), strict=True)
    return replace(drawn, samples=[sample.with_scores(**{name: Score(score)}) for sample, score in pairs])


def win_rate(before: Floats, after: Floats, per_prompt: int) -> tuple[Measure, int]:
    """How often the judge prefers the later answer to the earlier one of the same prompt and index, and the ties.

    A tie counts as half a win. Wilson's interval with prompts as the observations: exact for one sample a prompt,
    wide for more.
    """
    wins = np.where(after > before, 1.0, np.where(after == before, 0.5, 0.0))
    share_P = wins.reshape(-1, per_prompt).mean(axis=1)
    found: Estimate = wilson(float(share_P.sum()), len(share_P))
    return Measure("win rate", found), int((after == before).sum())


def preferred(shares: Sequence[Sequence[float]]) -> tuple[Measure, int]:
    """The win rate of preferences by prompt, and the ties; prompts without any are left out."""
    means = [float(np.mean(values)) for values in shares if values]
    if not means:
        raise InputError("the judge compared nothing: ask for more prompts")
    return Measure("win rate", wilson(sum(means), len(means))), sum(v == 0.5 for values in shares for v in values)


def check_judge(recipe: TrainingRecipe, run: Run, judge: str) -> str:
    """The judge's folder, or its file. `InputError` if it is what the run was rewarded by.

    A reward model is that by path, or by weights wherever it lies.
    """
    if is_judge_file(judge):
        return check_judge_file(recipe, judge)
    folder = str(model_folder(judge))
    if not isinstance(recipe, PPORecipe | GRPORecipe) or not (rewards := learned_rewards(recipe)):
        return folder
    refusal = InputError(
        f"{judge} is the reward model that {run.folder} was trained against, so it cannot be its judge: "
        "name a reward model trained on other pairs"
    )
    owned = [Path(of.partition("@")[0]) for one in rewards for of in one.section.folders]
    own_folders = [place for own in owned for place in (own, own / "model", own / "best")]
    if Path(folder).resolve() in {path.resolve() for path in own_folders}:
        raise refusal
    if _prints(folder) & (_frozen(run) | set().union(*(_prints(str(p)) for p in own_folders if _is_model(p)))):
        raise refusal
    return folder


def _prints(folder: str) -> set[str]:
    """Fingerprints of a reward model as it is and as its bfloat16 copy reads."""
    loaded = (load_scorer(folder, dtype=dtype, many_heads=True) for dtype in get_args(Dtype))
    return {fingerprint(one.network.float()) for one in loaded}


def _frozen(run: Run) -> set[str]:
    frozen = run.lineage().get("frozen")
    found = frozen.items() if isinstance(frozen, dict) else ()
    return {str(of) for role, of in found if role.partition("/")[0] == ROLE}


def _is_model(path: Path) -> bool:
    return (path / "config.json").is_file()


def _scores(scorer: RewardScorer, own: Language, reading: Reading) -> Floats:
    drawn = reading.drawn
    if own.tokenizer.get_vocab() == reading.language.tokenizer.get_vocab():
        return scorer.samples(drawn.samples)
    dialogues = {prompt.id: prompt.dialogue for prompt in drawn.prompts}
    return scorer.rows([text_row(own, dialogues[sample.prompt_id], sample) for sample in drawn.samples])


def text_row(language: Language, dialogue: Dialogue, sample: Sample) -> Row:
    """A sample as a reader of another vocabulary reads it: the rendered prompt, the text, the end if it ended."""
    prompt = prompt_ids(language.tokenizer, dialogue)
    answer = language.tokenizer.encode(sample.text, add_special_tokens=False)
    if sample.finish == "stop" or not answer:
        answer = [*answer, language.eos_ids[0]]
    ids = np.array([*prompt, *answer], np.int64)
    if language.max_positions is not None and len(ids) > language.max_positions:
        raise InputError(
            f"the answer to prompt {sample.prompt_id} has {len(ids)} tokens for the reward model, which ends at "
            f"{language.max_positions}: ask for shorter completions"
        )
    return ids, np.arange(len(ids)) >= len(prompt)
