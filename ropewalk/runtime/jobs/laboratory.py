"""The city laboratory: what the reward model is worth, what each run did to the truth, and one page that shows it.

Everything is measured on fresh samples of fixed held-out prompts, scored by the truth and by the reward model
alike; the curves come from the runs' own metrics.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerFast

from ropewalk.models.chat import prompt_ids, supervised_ids
from ropewalk.models.language import Language
from ropewalk.monitors.report.comparison import write_comparison
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Dialogue, Json
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.records.version import Draw
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import StagesRecipe, read_recipe
from ropewalk.runtime.run import Run, create_run
from ropewalk.runtime.sampler import Asking, Sampler, open_sampler
from ropewalk.runtime.scorer import RewardScorer, open_scorer
from ropewalk.runtime.stages import needs
from ropewalk.runtime.train import run_recipe
from ropewalk.tasks.city.corpus import document_text, sentences, shuffles
from ropewalk.tasks.city.pairs import judge_statistics, label_pairs, pair_statistics
from ropewalk.tasks.city.task import MAX_NEW_TOKENS, TRUTH, VOCABULARY, city_task
from ropewalk.tasks.config import CityTask
from ropewalk.training.packing import Row

Floats = npt.NDArray[np.float64]

FRESH_PAIRS = 1400
"""About half are ties; at least 500 non-ties are wanted."""
FRESH_SAMPLES = 512
SHUFFLED_SENTENCES = 200
FIRST, LAST, LOWEST = 3, 10, 3
"""Iterations averaged at the start, at the end, and in a row for the lowest point."""

RUNS: Mapping[str, tuple[str, str]] = {
    "ppo": ("ppo", "PPO, KL 0.1"),
    "ppo-no-rope": ("ppo_nokl", "PPO, no rope"),
    "grpo-reward-model": ("grpo_rm", "GRPO, reward model, KL 0.1"),
    "grpo-reward-model-no-rope": ("grpo_rm_nokl", "GRPO, reward model, no rope"),
    "grpo-rule": ("grpo_rule", "GRPO, true score as reward"),
    "ppo-babbling-reference": ("ppo_babble", "PPO, babbling reference"),
    "ppo-fast": ("ppo_fast", "PPO, KL 0.1, lr × 2"),
    "ppo-fast-no-rope": ("ppo_fast_nokl", "PPO, no rope, lr × 2"),
}
"""Stage name → (key in the table, label in the report)."""


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """What the reward model is worth. All shares are fractions in 0..1."""

    pairs: int
    ties: float
    """Share of fresh pairs whose true scores are equal."""
    label_accuracy: float
    """Of labels, on fresh non-ties."""
    ceiling: float
    """Agreement with these labels that a judge who knows the truth could reach."""
    rm_labels: float
    """Agreement of the reward model with the labels."""
    rm_nonties: float
    """Share of fresh non-ties on which the reward model prefers the truly better completion."""
    nonties: int
    shuffle_ge: float
    """Share of sentences whose shuffle (final "." kept) scores at least as high as the sentence."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run did, by its own iterations, and on fresh samples of fixed prompts."""

    true_first: float
    true_last: float
    true_low: float
    """Lowest mean of three iterations in a row."""
    rm_first: float
    rm_last: float
    """On fresh samples of fixed prompts after the run."""
    grammatical: float
    """Over the last iterations."""
    distinct: float
    """Distinct completions / completions of an iteration, over the last iterations."""
    true_fresh: float
    grammatical_fresh: float


@dataclass(frozen=True, slots=True)
class Facts:
    """One seed's laboratory."""

    seed: int
    initial_true: float
    initial_grammatical: float
    judge: JudgeFacts
    runs: Mapping[str, RunFacts]
    """By key of `RUNS`."""


def laboratory_recipe(*, full: bool, seed: int, only: Sequence[str] = ()) -> StagesRecipe:
    """The laboratory's stages; `only` keeps these runs and what they build on."""
    recipe = read_recipe("city-lab-full" if full else "city-lab", {"seed": seed})
    assert isinstance(recipe, StagesRecipe)
    if not only:
        return recipe
    wanted = set(only)
    for stage in reversed(recipe.stage):
        wanted |= needs(stage) if stage.name in wanted else set()
    return recipe.model_copy(update={"stage": tuple(stage for stage in recipe.stage if stage.name in wanted)})


def run_demo(
    *, full: bool = False, out: Path | None = None, seed: int = 0, progress: Progress | None = None
) -> tuple[Run, Facts]:
    """All stages of the laboratory, its measurements and its page `report.html`; may be called on the same folder."""
    resumed = out is not None and (out / "recipe.toml").exists()
    run = Run(out) if resumed and out is not None else create_run("demo", out=out)
    return run, run_laboratory(laboratory_recipe(full=full, seed=seed), run, progress or Silent())


def run_laboratory(recipe: StagesRecipe, run: Run, progress: Progress) -> Facts:
    """The stages that are not yet finished, the measurements, and the page."""
    run_recipe(recipe, run, resume=run.recipe_file.exists(), progress=progress)
    facts = measure(run.folder, [stage.name for stage in recipe.stage], recipe.seed, progress)
    write_page(run, facts)
    return facts


def measure(folder: Path, stages: Sequence[str], seed: int, progress: Progress) -> Facts:
    """Measure the laboratory in a folder of finished stages."""
    present = [name for name in stages if name in RUNS]
    progress.begin("measuring", len(present) + 1)
    with open_scorer(str(folder / "reward-model" / "model"), Hardware()) as scorer:
        with asked(folder / "pretrain", seed) as sampler:
            judge = judge_facts(sampler, scorer, seed)
            initial = sampler.samples(range(FRESH_SAMPLES), group_size=4, draw=Draw.INITIAL)
        runs = {}
        for done, name in enumerate(present):
            progress.advance(done + 1, name)
            with asked(folder / name, seed) as sampler:
                fresh = sampler.samples(range(FRESH_SAMPLES), group_size=1, draw=Draw.FRESH_SAMPLES)
            runs[RUNS[name][0]] = run_facts(Run(folder / name).metrics(), fresh, scorer.samples(fresh))
    facts = Facts(seed, mean_score(initial, TRUTH), mean_score(initial, "grammatical"), judge, runs)
    Run(folder).write("laboratory.json", asdict(facts))
    return facts


def asked(run: Path, seed: int) -> AbstractContextManager[Sampler]:
    """A run's model, asked the fixed held-out prompts."""
    task = city_task(CityTask(heldout_prompts=FRESH_PAIRS))
    sampling = Sampling(max_new_tokens=MAX_NEW_TOKENS, banned=VOCABULARY.banned)
    asking = Asking(task, "heldout", sampling, Hardware(), NativeEngineConfig(), seed)
    return open_sampler(str(run / "model"), asking, Silent())


def judge_facts(sampler: Sampler, scorer: RewardScorer, seed: int) -> JudgeFacts:
    """The reward model against labels and truth on fresh pairs of the starting policy, and its blind spot."""
    samples = sampler.samples(range(FRESH_PAIRS), group_size=2, draw=Draw.FRESH_PAIRS)
    prompts = {prompt.id: prompt for prompt in sampler.prompts.prompts}
    labelled = label_pairs(prompts, samples, seed + 1)
    statistics = pair_statistics(labelled.margins_P)
    sides = [
        [completion_row(sampler.language, pair.dialogue, text) for text in (pair.chosen, pair.rejected)]
        for pair in labelled.pairs
    ]
    scores = scorer.rows([row for pair in sides for row in pair])
    margins = scores[0::2] - scores[1::2]
    judged = judge_statistics(labelled.margins_P, margins)
    return JudgeFacts(
        pairs=statistics.pairs,
        ties=statistics.ties,
        label_accuracy=statistics.label_accuracy,
        ceiling=statistics.ceiling,
        rm_labels=judged.labels,
        rm_nonties=judged.truth,
        nonties=judged.non_ties,
        shuffle_ge=shuffle_share(sampler.language.tokenizer, scorer, seed),
    )


def completion_row(language: Language, dialogue: Dialogue, completion: str) -> Row:
    """A completion after its prompt as a row."""
    ids, mask = supervised_ids(language.tokenizer, dialogue, completion, language.eos_ids)
    return np.array(ids, np.int64), np.array(mask)


def shuffle_share(tokenizer: PreTrainedTokenizerFast, scorer: RewardScorer, seed: int) -> float:
    """Share of grammatical sentences whose shuffle scores at least as high."""
    originals = sentences(SHUFFLED_SENTENCES, seed + 1000)
    scores = [
        scorer.rows([sentence_row(tokenizer, w) for w in some]) for some in (originals, shuffles(originals, seed))
    ]
    return float(np.mean(scores[1] >= scores[0]))


def sentence_row(tokenizer: PreTrainedTokenizerFast, words: Sequence[str]) -> Row:
    """A sentence as a row, the prompt mark before it."""
    ids = np.array(prompt_ids(tokenizer, document_text(words)), np.int64)
    return ids, np.arange(len(ids)) > 0


def run_facts(metrics: Sequence[Mapping[str, Json]], fresh: Sequence[Sample], rm_fresh: Floats) -> RunFacts:
    """A run's facts from its metrics and from fresh samples after it."""
    truth = column(metrics, "score/truth/mean")
    rm = column(metrics, "score/reward_model/mean")
    lowest = np.convolve(truth, np.ones(LOWEST) / LOWEST, mode="valid")
    return RunFacts(
        true_first=float(truth[:FIRST].mean()),
        true_last=float(truth[-LAST:].mean()),
        true_low=float(lowest.min()),
        rm_first=float(rm[:FIRST].mean()),
        rm_last=float(rm_fresh.mean()),
        grammatical=float(column(metrics, "score/grammatical/mean")[-LAST:].mean()),
        distinct=float(column(metrics, "distinct")[-LAST:].mean()),
        true_fresh=mean_score(fresh, TRUTH),
        grammatical_fresh=mean_score(fresh, "grammatical"),
    )


def column(metrics: Sequence[Mapping[str, Json]], name: str) -> Floats:
    """A metric over the iterations."""
    values = [row.get(name) for row in metrics]
    if not values or not all(isinstance(value, int | float) for value in values):
        raise InputError(f"metric {name} is missing in some iterations: the run was made by another recipe")
    return np.array(values, np.float64)


def mean_score(samples: Sequence[Sample], name: str) -> float:
    """Mean of a scorer's outcomes; in the laboratory every sample has one."""
    return float(np.mean([outcome.value for s in samples if isinstance(outcome := s.scores[name], Score)]))


def write_page(run: Run, facts: Facts) -> None:
    """The laboratory's one page."""
    runs = {label: run.folder / stage for stage, (key, label) in RUNS.items() if key in facts.runs}
    write_comparison(
        runs,
        run.report_file,
        title="The city laboratory: how far the rope holds",
        notes=notes(facts),
        findings=[finding(label, facts.runs[key]) for key, label in RUNS.values() if key in facts.runs],
    )


def notes(facts: Facts) -> list[str]:
    """What the page says above its curves."""
    judge = facts.judge
    return [
        "Every sentence of this world has a true score (good words minus bad words, −3 outside the language), so that "
        "'the reward model's score rose' can be checked against 'the truth rose'.",
        f"The starting policy: true score {facts.initial_true:+.2f}, {facts.initial_grammatical:.1%} grammatical.",
        f"The reward model learned from noisy labels: {judge.label_accuracy:.1%} are right where truths differ, and "
        f"{judge.ties:.0%} of pairs are ties. On {judge.nonties} fresh non-ties it is right in {judge.rm_nonties:.1%}; "
        f"it agrees with {judge.rm_labels:.1%} of labels, and a perfect judge would with {judge.ceiling:.1%}. "
        f"Its blind spot: {judge.shuffle_ge:.0%} of shuffled sentences score at least as high as the sentence.",
    ]


def finding(label: str, facts: RunFacts) -> dict[str, object]:
    """A row of the page's table."""
    return {
        "run": label,
        "true score, first 3": f"{facts.true_first:+.2f}",
        "true score, last 10": f"{facts.true_last:+.2f}",
        "true score, lowest 3": f"{facts.true_low:+.2f}",
        "true score, 512 fresh": f"{facts.true_fresh:+.2f}",
        "reward model, first 3": f"{facts.rm_first:+.2f}",
        "reward model, 512 fresh": f"{facts.rm_last:+.2f}",
        "grammatical, last 10": f"{facts.grammatical:.1%}",
        "distinct, last 10": f"{facts.distinct:.0%}",
    }
