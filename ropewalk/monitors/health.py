"""Is this run dead? Pure rules over the last iterations' metrics; the first that holds is the diagnosis.

    rule             holds when, in each of the last `window` iterations            default
    non_finite       (in the last one alone) a loss, gradient norm, KL or ratio     stop, always
                     is not a finite number, though some sample had a reward
    zero_gradient    the gradient norm of a trained model is exactly 0              stop
    no_variance      no group has differing rewards, or all rewards are equal       stop
    failed           a scorer could not judge more than `failed_above` of samples   warn
    truncated        more than `truncated_above` of samples hit the length limit    warn
    kl               KL per token is above `kl_above`                               warn
    entropy          entropy is below `entropy_fraction` of the first window's      warn

Rules that stop are looked at before rules that warn. A metric that a method does not report silences its rules.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ropewalk.monitors.config import Action, Health

Values: TypeAlias = Mapping[str, float | None]
"""Metric values of one iteration; None (a null of `metrics.jsonl`) is the same as NaN."""
History: TypeAlias = Sequence[Values]

_SCORED = re.compile(r"(?:task/[^/]+/)?score/")
_MUST_BE_FINITE = ("loss/", "grad_norm/", "kl/", "policy/ratio")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a run is dead or ill, and what would mend it."""

    rule: str
    action: Action
    message: str
    """One sentence with the mend."""


def extend(history: History, values: Values, config: Health) -> tuple[Values, ...]:
    """The history with one more iteration: only the first and the last `window` are kept, however long the run."""
    longer = (*history, values)
    surplus = len(longer) - 2 * config.window
    return longer[: config.window] + longer[config.window + max(surplus, 0) :]


def diagnose(history: History, config: Health) -> Diagnosis | None:
    """The gravest rule that holds at the end of this history (all iterations, or what `extend` kept of them).

    It holds again in the next iteration if nothing changes: who shows it says each rule's warning once.
    """
    found = [diagnosis for rule in _RULES if (diagnosis := rule(history, config)) is not None]
    return next((d for d in found if d.action == "stop"), found[0] if found else None)


def _non_finite(history: History, config: Health) -> Diagnosis | None:
    if not history:
        return None
    bad = sorted(n for n, v in history[-1].items() if n.startswith(_MUST_BE_FINITE) and not _is_finite(v))
    if not bad or _unrewarded(history[-1]):
        return None
    return Diagnosis(
        "non_finite",
        "stop",
        f"{_list(bad)} {_is(bad)} not a finite number: lower the learning rate or set clip_norm, "
        "and resume from the last checkpoint",
    )


def _unrewarded(values: Values) -> bool:
    """Whether every sample was left out, so that what is an average over them is one over nothing."""
    return values.get("reward/invalid") == 1


def _zero_gradient(history: History, config: Health) -> Diagnosis | None:
    dead = _throughout(history, config, "grad_norm/", lambda value: value == 0)
    if not dead:
        return None
    return Diagnosis(
        "zero_gradient",
        config.zero_gradient,
        f"{_list(dead)} was exactly 0 for {config.window} iterations, so nothing is learned: "
        + (
            _cap_advice(history, config)
            or "check that rewards differ between samples and that some tokens are trained on"
        ),
    )


def _no_variance(history: History, config: Health) -> Diagnosis | None:
    groups = _throughout(history, config, "group/no_variance", lambda value: value >= 1)
    equal = _throughout(history, config, "reward/std", lambda value: value == 0)
    if not groups and not equal:
        return None
    if all(_unrewarded(values) for values in history[-config.window :]):
        return Diagnosis(
            "no_variance",
            config.no_variance,
            f"no sample had a reward for {config.window} iterations: everything that the reward counts abstained, or "
            "failed and dropped its samples: look at the scores in samples.jsonl, and mend scorers or prompts",
        )
    what = "no group had samples of differing reward" if groups else "all rewards were equal"
    mend = _cap_advice(history, config) or (
        "the task is solved, or too hard for this model: choose other prompts, a finer reward or larger groups"
    )
    return Diagnosis("no_variance", config.no_variance, f"{what} for {config.window} iterations: {mend}")


def _failed(history: History, config: Health) -> Diagnosis | None:
    # Of a mixture each part's share counts by itself: among the other parts' prompts it would be lost.
    names = sorted({n for values in history[-1:] for n in values if _SCORED.match(n) and n.endswith("/failed")})
    broken = [n for n in names if _throughout(history, config, n, lambda value: value > config.failed_above)]
    if not broken:
        return None
    scorers = _list(sorted({_SCORED.sub("", name, count=1).removesuffix("/failed") for name in broken}))
    return Diagnosis(
        "failed",
        config.failed,
        f"scorer {scorers} failed on more than {config.failed_above:.0%} of the samples for {config.window} "
        "iterations: look at the reasons in samples.jsonl and mend the scorer or the answer format it expects",
    )


def _truncated(history: History, config: Health) -> Diagnosis | None:
    if not _is_truncated(history, config):
        return None
    return Diagnosis(
        "truncated",
        config.truncated,
        f"more than {config.truncated_above:.0%} of the samples were cut off at the length limit for {config.window} "
        "iterations: raise sampling.max_new_tokens, or add a stop string that the answers really end with",
    )


def _kl(history: History, config: Health) -> Diagnosis | None:
    if not _throughout(history, config, "kl/token", lambda value: value > config.kl_above):
        return None
    return Diagnosis(
        "kl",
        config.kl,
        f"KL to the reference was above {config.kl_above:g} nats per token for {config.window} iterations, "
        "so the reward is probably being exploited: raise the KL coefficient or lower the learning rate",
    )


def _entropy(history: History, config: Health) -> Diagnosis | None:
    window = config.window
    if len(history) < 2 * window:
        return None
    first = [values.get("entropy") for values in history[:window]]
    start = [value for value in first if value is not None and math.isfinite(value)]
    if len(start) < window:
        return None
    limit = config.entropy_fraction * sum(start) / len(start)
    if not _throughout(history, config, "entropy", lambda value: value < limit):
        return None
    return Diagnosis(
        "entropy",
        config.entropy,
        f"entropy was below {config.entropy_fraction:.0%} of its start for {window} iterations, so the samples are "
        "nearly all alike: lower the learning rate, raise the temperature or add an entropy bonus",
    )


_RULES: tuple[Callable[[History, Health], Diagnosis | None], ...] = (
    _non_finite,
    _zero_gradient,
    _no_variance,
    _failed,
    _truncated,
    _kl,
    _entropy,
)


def _throughout(history: History, config: Health, prefix: str, holds: Callable[[float], bool]) -> list[str]:
    """Names with this prefix whose value was there, finite, and met the condition in all of the last iterations."""
    last = history[-config.window :]
    if len(last) < config.window:
        return []

    def met(value: float | None) -> bool:
        return value is not None and math.isfinite(value) and holds(value)

    names = sorted(name for name in last[-1] if name.startswith(prefix))
    return [name for name in names if all(met(values.get(name)) for values in last)]


def _is_truncated(history: History, config: Health) -> bool:
    return bool(_throughout(history, config, "truncated", lambda value: value > config.truncated_above))


def _cap_advice(history: History, config: Health) -> str | None:
    """The commonest cause of equal rewards: answers never get to their end."""
    if not _is_truncated(history, config):
        return None
    return "nearly every sample is cut off before its end, so raise sampling.max_new_tokens"


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
