"""The rows that a recipe learns from, before a run: their texts, what a step is of, and what is trained on them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ropewalk.data.read import ReadReport, demonstrations, documents, labelled_steps, pairs
from ropewalk.data.split import split
from ropewalk.data.steps import text_of_steps
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Demonstration, Document, PreferencePair
from ropewalk.runtime.config import Demonstrations, Documents, NoEvaluation, PairFile, StepFile, TextRows
from ropewalk.runtime.look.folders import ModelFacts, Pieces, text_of
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.look.words import look_at_words
from ropewalk.runtime.recipe import ProcessRewardModelRecipe, RewardModelRecipe, RowRecipe, SFTRecipe
from ropewalk.tasks.city.corpus import documents as city_documents
from ropewalk.tasks.config import CityCorpus

Texts: TypeAlias = Sequence[Pieces]


class RowStep(NamedTuple):
    """What an optimiser step is of."""

    what: str
    per_step: int
    epochs: int
    sides: int = 1
    """Texts of each: two of a pair."""


def step_of(recipe: RowRecipe) -> RowStep:
    """What an optimiser step of the recipe is of."""
    match recipe:
        case SFTRecipe(sft=method):
            return RowStep("rows", method.rows_per_step, method.epochs)
        case RewardModelRecipe(pairwise=method):
            return RowStep("pairs", method.pairs_per_step, method.epochs, sides=2)
        case ProcessRewardModelRecipe(process=method):
            return RowStep("rows", method.rows_per_step, method.epochs)


def trained(recipe: RowRecipe, shape: ModelShape) -> Mapping[str, ModelShape]:
    """The role that learns, with the head it has; `shape` is that of the model it starts from."""
    return {"actor": shape} if isinstance(recipe, SFTRecipe) else {"reward": shape.with_scalar_head()}


def row_limit(config: TextRows | PairFile | StepFile, shape: ModelShape | None) -> int:
    """The most tokens a row may have."""
    limits = [shape.max_positions] if shape is not None else []
    limits += [] if isinstance(config, CityCorpus) else [config.max_tokens]
    return min(limits, default=1 << 30)


def texts_of(recipe: RowRecipe, found: Look, model: ModelFacts | None = None) -> Texts:
    """The texts of every training row; of a pair both sides, one after the other. Raises InputError."""
    match recipe:
        case SFTRecipe():
            return _row_texts(recipe, found, model)
        case RewardModelRecipe():
            return _pair_texts(recipe, found, model)
        case ProcessRewardModelRecipe():
            return _step_texts(recipe, found, model)


def _row_texts(recipe: SFTRecipe, found: Look, model: ModelFacts | None) -> Texts:
    config = recipe.data
    rows: Sequence[Document | Demonstration]
    match config:
        case CityCorpus():
            rows = city_documents(config, recipe.seed)
            found.fact("data", f"{len(rows)} sentences of the city corpus")
            _held_out(recipe, 0, found)
            return [(row.text,) for row in rows]
        case Documents():
            rows, report = documents(config)
        case Demonstrations():
            rows, report = demonstrations(config)
    _told(config.path, report, found)
    look_at_words(model, "rows", [row.dialogue for row in rows if isinstance(row, Demonstration)], found)
    given: list[Document | Demonstration] = list(rows[: config.limit])
    train, held = split(given, config.held_out)
    _held_out(recipe, len(held), found)
    return [_said(row) for row in train]


def _held_out(recipe: RowRecipe, count: int, found: Look) -> None:
    if count:
        found.fact("held out", f"{count} {step_of(recipe).what}")
    elif not isinstance(recipe.evaluate, NoEvaluation):
        found.problem("evaluate.kind = 'every' needs held-out rows: set data.held_out above 0")


def _said(row: Document | Demonstration) -> Pieces:
    return (row.text,) if isinstance(row, Document) else (text_of(row.dialogue), row.completion)


def _pair_texts(recipe: RewardModelRecipe, found: Look, model: ModelFacts | None) -> Texts:
    """Both sides of every training pair, one after the other."""
    config = recipe.data
    rows, report = pairs(config)
    _told(config.path, report, found)
    look_at_words(model, "rows", [row.dialogue for row in rows], found)
    train, held = split(rows[: config.limit], config.held_out)
    _held_out(recipe, len(held), found)
    if not train:
        raise InputError(f"{config.path} leaves no pair to train on: lower data.held_out or give more pairs")
    return [side for row in train for side in _sides(row)]


def _step_texts(recipe: ProcessRewardModelRecipe, found: Look, model: ModelFacts | None) -> Texts:
    """Every training row as what is asked and what is said."""
    config = recipe.data
    rows, report = labelled_steps(config, config.step)
    _told(config.path, report, found)
    look_at_words(model, "rows", [row.dialogue for row in rows], found)
    train, held = split(rows[: config.limit], config.held_out)
    _held_out(recipe, len(held), found)
    return [(text_of(row.dialogue), text_of_steps(row.steps, config.step, finished=row.finished)) for row in train]


def _sides(row: PreferencePair) -> tuple[Pieces, Pieces]:
    asked = text_of(row.dialogue)
    return (asked, row.chosen), (asked, row.rejected)


def _told(path: str, report: ReadReport, found: Look) -> None:
    found.fact("data", f"{path}: {report}")
