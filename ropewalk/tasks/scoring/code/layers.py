"""The layered code reward: format → compile → public tests → hidden tests → judge, each in [0, 1], with gates between.

    reward = Σ weight · layer over the layers that were reached

A layer is reached when every layer before it stands at or above its gate. Layers that were not reached, or
that have no opinion, add nothing. Pure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.code.evaluate import Evaluation, Results

Layer: TypeAlias = Literal["format", "compile", "public", "hidden", "judge"]
LAYERS: tuple[Layer, ...] = ("format", "compile", "public", "hidden", "judge")

WEIGHTS: Mapping[Layer, float] = {"format": 0.1, "compile": 0.0, "public": 0.5, "hidden": 0.3, "judge": 0.1}
GATES: Mapping[Layer, float] = {"format": 1.0, "compile": 1.0, "public": 1.0, "hidden": 1.0}
MAX_ANSWERS_SHARE = 0.5
"""Public examples whose answers may stand in the program, as a share; one alone is never held against it."""


@dataclass(frozen=True, slots=True)
class Layering:
    """Weights and gates. By default compile is a gate only, hidden tests count once all public ones pass, and the
    judge once all hidden ones do."""

    weights: Mapping[Layer, float] = field(default_factory=lambda: dict(WEIGHTS))
    gates: Mapping[Layer, float] = field(default_factory=lambda: dict(GATES))

    def __post_init__(self) -> None:
        unknown = sorted((set(self.weights) | set(self.gates)) - set(LAYERS))
        if unknown or any(not 0 <= gate <= 1 for gate in self.gates.values()):
            raise InputError(f"layers are {', '.join(LAYERS)} and gates lie in 0..1: got {unknown or dict(self.gates)}")

    def fitted(self, *, public: bool, hidden: bool) -> "Layering":
        """For a prompt that has no public or no hidden tests: their weight goes to the tests that there are."""
        if public and hidden:
            return self
        there: Layer = "public" if public else "hidden"
        both = sum(self.weights.get(layer, 0.0) for layer in ("public", "hidden"))
        return replace(self, weights={**self.weights, "public": 0.0, "hidden": 0.0, there: both})

    def opens_hidden(self, public: float) -> bool:
        """Whether this share of passed public tests lets hidden ones be run."""
        return public >= self.gates.get("public", 0.0)


def layer_outcomes(found: Evaluation | None, examples: int, judge: Outcome | None) -> dict[Layer, Outcome]:
    """Each layer's own outcome, before any gate. `found` is None for a completion without a program."""
    if found is None:
        nothing: dict[Layer, Outcome] = {layer: Abstain("there is no program") for layer in LAYERS}
        return nothing | {"format": Score(0.0)}
    broken = Failed("refused", found.fault) if found.fault else None
    parts: dict[Layer, Outcome] = {"format": format_outcome(found, examples), "compile": Score(found.text.compiles)}
    parts["public"] = broken or _share(found.public)
    parts["hidden"] = broken or _share(found.hidden)
    return parts | {"judge": Abstain("no judge") if judge is None else judge}


def _share(part: Results | None) -> Outcome:
    return Score(part.share) if part else Abstain("no tests, or not reached")


def format_outcome(found: Evaluation, examples: int) -> Score:
    """1 for a program that uses nothing forbidden and does not have the examples' answers written into it, else 0.

    What does not compile breaks no rule here: the next layer says so.
    """
    answers = found.text.answers
    tabled = answers >= 2 and answers >= MAX_ANSWERS_SHARE * examples
    return Score(0.0 if found.text.forbidden or tabled else 1.0)


def layered(outcomes: Mapping[Layer, Outcome], layering: Layering) -> tuple[dict[Layer, Outcome], Outcome]:
    """The outcomes behind their gates, and the reward. A layer that failed makes the reward that failure."""
    gated: dict[Layer, Outcome] = {}
    parts: list[float] = []
    closed = ""
    for layer in LAYERS:
        outcome = outcomes.get(layer, Abstain("not given"))
        if closed:
            gated[layer] = Abstain(closed)
            continue
        gated[layer] = outcome
        if isinstance(outcome, Failed):
            return gated | {rest: Abstain(f"{layer} failed") for rest in LAYERS if rest not in gated}, outcome
        if isinstance(outcome, Score):
            if not 0 <= outcome.value <= 1:
                failed = Failed("refused", f"layer {layer} gave {outcome.value:g}, outside 0..1")
                return gated | {layer: failed}, failed
            parts.append(layering.weights.get(layer, 0.0) * outcome.value)
            gate = layering.gates.get(layer, 0.0)
            closed = f"{layer} is {outcome.value:g}, below its gate {gate:g}" if outcome.value < gate else ""
    return gated, Score(math.fsum(parts))
