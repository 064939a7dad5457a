"""From the outcomes of a sample to its reward: weighted, normalised, gated and mixed; length and repetition added.

    reward = Σ shareᵢ · weightᵢ · normaliseᵢ(scoreᵢ) + length term + repetition term

Pure: the running statistics come in and go out as JSON-able data and belong to the run's state. The parts shown in
a row's record add up to its reward. A row depends on the others only through statistics: an `initial_mean` that is
not yet frozen, and z-scores.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric
from ropewalk.records.prompt import Json
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.config import Component, Mix, NoLength, NoRepetition, Reward
from ropewalk.tasks.scoring.gates import Part, Row, closed_words, part_of
from ropewalk.tasks.scoring.normalise import Scale, scales, taken_in
from ropewalk.tasks.scoring.penalties import length_term, repetition_term
from ropewalk.tasks.scoring.run import outcome_metrics

Statistics: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By component: what `normalise.taken_in` keeps. Starts as {}."""
Parts: TypeAlias = Mapping[str, Part]
Scales: TypeAlias = Mapping[str, Mapping[str, Scale]]
"""By component and domain."""

_LARGEST = float(np.finfo(np.float32).max)
_MOST_DOMAINS = 32
"""More domains than these are not measured one by one."""


class About(NamedTuple):
    """What a reward asks of a sample beside its outcomes."""

    domain: str = ""
    tokens: int | None = None
    """Sampled tokens; None: unknown."""
    text: str | None = None


class Composed(NamedTuple):
    """What an iteration's outcomes come to. Rows are in the order they were given."""

    reward_R: npt.NDArray[np.float32]
    """0 where the row is not valid."""
    valid_R: npt.NDArray[np.bool_]
    """False: a component failed, or all abstained; such a row trains nothing."""
    records: list[dict[str, Json]]
    """Per row, for the sample file: each component's outcome, raw, normalised and weighted, terms, and the reward."""
    statistics: dict[str, dict[str, Any]]
    """To keep in the run's state and hand in next time."""
    metrics: dict[str, Metric]
    scales: Scales
    """How scores were normalised."""


def about_sample(sample: Sample) -> About:
    """What a finished sample says of itself; its domain was noted when it was scored."""
    return About(str(sample.info.get("domain", "")), sample.completion_tokens, sample.text)


def compose(config: Reward, rows: Sequence[Row], statistics: Statistics, about: Sequence[About] = ()) -> Composed:
    """The rewards of rows of outcomes; `about` says of each row what is asked beside them.

    An abstaining component is skipped, a failed one makes its row invalid unless a score stands for it, a gated one
    counts as its gate says. Raises InputError for a component that nobody scored, and for a reward that float32
    cannot hold.
    """
    about = about or [About()] * len(rows)
    components = _components(config, rows)
    parts = [{name: part_of(name, c, row) for name, c in components.items()} for row in rows]
    observed, found = _normalisation(components, parts, statistics, about)
    records = [_record(config, components, found, *row) for row in zip(parts, rows, about, strict=True)]
    rewards = [record["reward"] for record in records]
    valid_R = np.array([reward is not None for reward in rewards], np.bool_)
    reward_R = np.zeros(len(rows), np.float32)
    reward_R[valid_R] = [float(reward) for reward in rewards if isinstance(reward, float)]
    metrics = outcome_metrics(rows) | _metrics(config, found, parts, about, records)
    return Composed(reward_R, valid_R, records, observed, metrics, found)


def observe(
    config: Reward, rows: Sequence[Row], statistics: Statistics, about: Sequence[About] = ()
) -> dict[str, dict[str, Any]]:
    """The statistics after these rows: a component not yet frozen takes in all of them that count. On a row that was
    not scored by it, or by a gate it has (no model judges the groups that are dropped), it does not.

    Call it once with the scores of the initial policy to freeze them there; `compose` calls it anyway.
    """
    named = config.components
    needs = {name: {name, *(gate.on for gate in component.gates)} for name, component in named.items()}
    parts = [{name: part_of(name, c, row) for name, c in named.items() if needs[name] <= row.keys()} for row in rows]
    return _normalisation(named, parts, statistics, about or [About()] * len(rows))[0]


def _normalisation(
    components: Mapping[str, Component], parts: Sequence[Parts], statistics: Statistics, about: Sequence[About]
) -> tuple[dict[str, dict[str, Any]], Scales]:
    """The statistics with these rows taken in, and each component's scales by them."""
    observed = {name: dict(entry) for name, entry in statistics.items()}
    found: dict[str, dict[str, Scale]] = {}
    for name, component in components.items():
        scores: dict[str, list[float]] = {}
        for row, said in zip(parts, about, strict=True):
            if name in row and (raw := row[name].raw) is not None:
                scores.setdefault(said.domain, []).append(raw)
        try:
            entry = taken_in(component.normalise, observed.get(name), scores)
            found[name] = scales(component.normalise, entry, scores)
        except (InputError, OverflowError) as error:
            said_why = error if isinstance(error, InputError) else "scores are too large for a mean and a spread"
            raise InputError(f"reward component {name!r}: {said_why}") from error
        if entry is not None:
            observed[name] = entry
    return observed, found


def _components(config: Reward, rows: Sequence[Row]) -> Mapping[str, Component]:
    first = next(iter(rows[0]), "") if rows else ""
    components = config.components or {first: Component()}
    for row in rows:
        missing = [name for name in components if name not in row]
        if missing:
            there = ", ".join(row) or "none"
            raise InputError(f"reward component {missing[0]!r} was scored by nobody: there are {there}")
    return components


def _record(
    config: Reward, components: Mapping[str, Component], scales_: Scales, parts: Parts, row: Row, about: About
) -> dict[str, Json]:
    shown: dict[str, Json] = {}
    weighted: list[float] = []
    for name, component in components.items():
        part = parts[name]
        entry: dict[str, Json] = {} if isinstance(part.outcome, Score) else {"outcome": describe(part.outcome)}
        counted = part.closed.value if part.closed else None
        if part.closed:
            entry["gate"] = closed_words(part.closed)
        if isinstance(part.outcome, Score) or part.raw is not None:
            entry["raw"] = part.outcome.value if isinstance(part.outcome, Score) else part.raw
        if part.raw is not None:
            counted = scales_[name][about.domain].of(part.raw)
        if counted is not None:
            weighted.append(factor(config, name, component, about.domain) * counted)
            entry |= {"normalised": counted, "weighted": weighted[-1]}
        shown[name] = entry
    terms = _terms(config, row, about)
    dropped = any(part.drops for part in parts.values()) or not weighted
    record: dict[str, Json] = {"components": shown}
    record |= {"terms": dict(terms)} if terms else {}
    record |= {"domain": about.domain} if about.domain else {}
    return record | {"reward": None if dropped else _total([*weighted, *terms.values()])}


def _total(parts: Sequence[float]) -> float:
    try:
        total = math.fsum(parts)
    except (OverflowError, ValueError):
        total = math.inf
    if not abs(total) <= _LARGEST:
        raise InputError(f"a reward of {total:g} is too large: lower its weights")
    return total


def factor(config: Reward, name: str, component: Component, domain: str) -> float:
    """Weight times share of the mixture."""
    if not isinstance(config.mix, Mix):
        return component.weight
    share = config.mix.domains.get(domain, config.mix.share)
    return component.weight * (share if name in config.mix.judged else 1.0 - share)


def _terms(config: Reward, row: Row, about: About) -> dict[str, float]:
    """What is added beside the components."""
    terms: dict[str, float] = {}
    if not isinstance(config.length, NoLength):
        if about.tokens is None:
            raise InputError("the reward has a length term, and the number of a completion's tokens is not known")
        terms["length"] = length_term(config.length, about.tokens, row)
    if not isinstance(config.repetition, NoRepetition):
        if about.text is None:
            raise InputError("the reward has a repetition term, and the text of a completion is not known")
        terms["repetition"] = repetition_term(config.repetition, about.text)
    return terms


def _metrics(
    config: Reward,
    scales_: Scales,
    parts: Sequence[Parts],
    about: Sequence[About],
    records: Sequence[Mapping[str, Any]],
) -> dict[str, Metric]:
    """Of rewards: all, by part, by domain; of components: the shares behind a closed gate, and cut by a clip."""
    valid = [n for n, record in enumerate(records) if record["reward"] is not None]
    metrics = {
        "reward": _mean([records[n]["reward"] for n in valid]),
        "reward/invalid": Metric.mean(len(records) - len(valid), len(records)),
    }
    for name, component in config.components.items():
        entries = [records[n]["components"][name] for n in valid]
        metrics[f"reward/part/{name}"] = _mean([e["weighted"] for e in entries if "weighted" in e])
        if component.gates:
            metrics[f"score/{name}/gated"] = Metric.mean(sum(p[name].closed is not None for p in parts), len(parts))
        if component.normalise.clip is not None:
            counted = [(p[name].raw, said.domain) for p, said in zip(parts, about, strict=True)]
            cut = [scales_[name][domain].cuts(raw) for raw, domain in counted if raw is not None]
            metrics[f"score/{name}/clipped"] = Metric.mean(sum(cut), len(cut))
    for term in sorted({term for record in records for term in record.get("terms", ())}):
        metrics[f"reward/part/{term}_term"] = _mean([records[n]["terms"][term] for n in valid])
    domains = sorted({said.domain for said in about} - {""})
    for domain in domains if len(domains) <= _MOST_DOMAINS else ():
        metrics[f"reward/domain/{domain}"] = _mean([records[n]["reward"] for n in valid if about[n].domain == domain])
    return metrics


def _mean(values: Sequence[float]) -> Metric:
    return Metric.mean(math.fsum(values), len(values))


def describe(outcome: Outcome) -> str:
    """An outcome in words, for files and reports."""
    if isinstance(outcome, Score):
        return f"score {outcome.value:g}"
    if isinstance(outcome, Failed):
        return f"failed: {outcome.reason}" + (f" ({outcome.detail})" if outcome.detail else "")
    return "abstained" + (f": {outcome.reason}" if outcome.reason else "")
