"""The models a recipe names, looked at by their files alone: for dry runs and for sizes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ropewalk.models.config import FolderModel, FreshModel
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError
from ropewalk.runtime.assemble import graph_of, start_source
from ropewalk.runtime.judging.calls import Judges, of_models, role_of
from ropewalk.runtime.learned.calls import LearnedCalls, critic_role, learned_rewards
from ropewalk.runtime.learned.check import check_reading
from ropewalk.runtime.learned.config import Heads
from ropewalk.runtime.learned.read import head_names, head_weights
from ropewalk.runtime.look.folders import Kind, ModelFacts, model_facts, strange_word
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.recipe import OnlineRecipe, PPORecipe, SampleRecipe, SFTRecipe, TrainingRecipe
from ropewalk.runtime.run import local_model, model_folder
from ropewalk.tasks.city.task import VOCABULARY
from ropewalk.tasks.config import CityCorpus

TO_COME = Path("stages-to-come")
"""Stands for a chain's folder while nothing is in it."""


def start_facts(recipe: TrainingRecipe | SampleRecipe, found: Look) -> ModelFacts | None:
    """The model the run starts from; None where there is nothing to look at yet."""
    if recipe.start_from is not None:
        return model_at("model", recipe.start_from, "policy", found)
    if isinstance(recipe.model, FolderModel):
        return model_at("model", recipe.model.path, "policy", found, hub=True)
    return None


def model_at(what: str, reference: str, kind: Kind, found: Look, *, hub: bool = False) -> ModelFacts | None:
    if to_come(reference):
        found.fact(what, f"from stage {Path(reference.partition('@')[0]).relative_to(TO_COME)}")
        return None
    folder = found.attempt(lambda: model_folder(reference) if hub else local_model(reference))
    if folder is None:
        return None
    if hub and not folder.exists() and len(folder.parts) == 2 and not folder.parent.exists():
        found.fact(what, f"{reference}: not on this machine, to be fetched from the hub; not checked")
        return None
    facts = found.attempt(lambda: model_facts(_existing(folder), kind))
    if facts is not None:
        count = facts.shape.parameters
        about = "" if facts.shape.exact else ", roughly"
        found.fact(what, f"{folder}: {facts.config.get('model_type', '?')}, {count_shown(count)} parameters{about}")
        for note in facts.notes:
            found.fact("note", note)
    return facts


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"there is no model folder {folder}: give a folder with config.json and *.safetensors")
    return folder


def to_come(reference: str) -> bool:
    return Path(reference).parts[:1] == TO_COME.parts


def fresh_shape(recipe: SFTRecipe, found: Look) -> ModelShape | None:
    if not isinstance(recipe.model, FreshModel):
        return None
    vocabulary = VOCABULARY if isinstance(recipe.data, CityCorpus) else None
    if found.attempt(lambda: start_source(recipe, vocabulary)) is None:
        return None
    sizes = recipe.model
    shape = ModelShape(
        vocabulary=len(VOCABULARY.words),
        width=sizes.width,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.width // sizes.heads,
        ffn=sizes.ffn,
        tied=sizes.tied,
        max_positions=sizes.max_positions,
    )
    found.fact("model", f"fresh: {count_shown(shape.parameters)} parameters over {shape.vocabulary} words")
    return shape


def other_facts(recipe: OnlineRecipe, model: ModelFacts | None, found: Look) -> dict[str, ModelFacts | None]:
    others: dict[str, ModelFacts | None] = {}
    if recipe.reference is not None:
        others["reference"] = model_at("reference", recipe.reference.path, "policy", found)
    for learned in learned_rewards(recipe):
        found.attempt(lambda learned=learned: check_reading(learned))  # type: ignore[misc]
        for role, folder in zip(learned.roles, learned.section.folders, strict=True):
            others[role] = _rewarding(role, folder, learned, found)
    for role, other in others.items():
        if other is not None and model is not None and other.shape.vocabulary != model.shape.vocabulary:
            found.problem(
                f"the {role} model has {other.shape.vocabulary} words and the policy {model.shape.vocabulary}: "
                "both must have one vocabulary"
            )
        elif other is not None and model is not None and other.words is not None and model.words is not None:
            strange = strange_word(model.words, other.words)
            if strange is not None:
                found.problem(f"the {role} model reads other words than the policy writes, such as {strange!r}")
    return others | judge_facts(recipe.judges, found)


def judge_facts(judges: Judges, found: Look) -> dict[str, ModelFacts | None]:
    """The judges that are models of the run; their vocabularies are their own."""
    facts = {
        role_of(name): model_at(role_of(name), by.path, "policy", found) for name, (_, by) in of_models(judges).items()
    }
    for role, one in facts.items():
        if one is not None and not one.speaks:
            found.problem(f"the model of {role} has no chat template, so it cannot be asked: take a chat model")
    return facts


def _rewarding(role: str, folder: str, learned: LearnedCalls, found: Look) -> ModelFacts | None:
    """A member of a learned reward."""
    read = learned.section.read
    facts = model_at(role, folder, "heads" if isinstance(read, Heads) else "scorer", found)
    if facts is not None and isinstance(read, Heads):
        found.attempt(lambda: head_weights(read.weights, head_names(facts.config), folder))
    return facts


def online_shapes(
    recipe: OnlineRecipe, policy: ModelShape, others: Mapping[str, ModelFacts | None]
) -> dict[str, ModelShape] | None:
    """The shape of every role; None if one is not there to be looked at."""
    shared = isinstance(recipe, PPORecipe) and recipe.ppo.critic.kind == "shared"
    shapes: dict[str, ModelShape] = {"actor": replace(policy, scalar_heads=1) if shared else policy}
    for role in graph_of(recipe).roles:
        if role in others:
            other = others[role]
            if other is None:
                return None
            shapes[role] = other.shape
        elif role == "reference":
            shapes[role] = policy
    if isinstance(recipe, PPORecipe) and not shared:
        start = recipe.critic.start if recipe.critic is not None else "policy"
        shapes["critic"] = policy.with_scalar_head() if start == "policy" else shapes[critic_role(recipe, start)]
    return shapes


def count_shown(parameters: int) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= scale:
            return f"{parameters / scale:.3g} {unit}"
    return str(parameters)
