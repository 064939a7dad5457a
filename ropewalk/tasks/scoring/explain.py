"""One row's reward in words: each component from its outcome to what it adds, the terms, and the sum."""

from collections.abc import Mapping
from typing import Any

from ropewalk.tasks.scoring.compose import About, Composed, describe, factor
from ropewalk.tasks.scoring.config import Component, InitialMean, Mix, Reward, ZScore
from ropewalk.tasks.scoring.gates import Row, closed_words
from ropewalk.tasks.scoring.normalise import Scale


def explain(config: Reward, composed: Composed, number: int, row: Row, about: About) -> list[str]:
    """Sentences about row `number` (from 0) of what `compose` made of this configuration."""
    record: Mapping[str, Any] = composed.records[number]
    lines = []
    for name, entry in record["components"].items():
        component = config.components.get(name, Component())
        scale = composed.scales.get(name, {}).get(about.domain, Scale())
        lines.append(f"{name}: {_component(config, name, component, entry, scale, row, about)}")
    terms = record.get("terms", {})
    if "length" in terms:
        lines.append(f"length: at {about.tokens} tokens, adds {terms['length']:+.6g}")
    if "repetition" in terms:
        lines.append(f"repetition: adds {terms['repetition']:+.6g}")
    return [*lines, *_others(config, record, row), _sum(record)]


def _component(
    config: Reward, name: str, component: Component, entry: Mapping[str, Any], scale: Scale, row: Row, about: About
) -> str:
    if "gate" in entry:
        gate = next(g for g in component.gates if entry["gate"] == closed_words(g))
        why = f"its gate is closed ({gate.on}: {describe(row[gate.on])}; it must be at least {gate.at_least:g})"
        own = f"raw {entry['raw']:.6g}, but " if "raw" in entry else ""
        stands = f"{own}{why}, and {entry['normalised']:.6g} stands in its place"
        return f"{stands}, {_weighted(config, name, component, entry, about)}"
    if "raw" not in entry:
        dropped = entry["outcome"].startswith("failed")
        return f"{entry['outcome']}: " + ("the row is dropped and trains nothing" if dropped else "it is skipped")
    said = f"{entry['outcome']}, which counts as raw {entry['raw']:.6g}" if "outcome" in entry else None
    start = said or f"raw {entry['raw']:.6g}"
    return f"{start}, {_normalised(component, entry, scale, about)}{_weighted(config, name, component, entry, about)}"


def _normalised(component: Component, entry: Mapping[str, Any], scale: Scale, about: About) -> str:
    raw, kind = float(entry["raw"]), component.normalise
    said = ""
    if isinstance(kind, InitialMean):
        said = f"less the first samples' mean of {scale.shift:.6g} is {raw - scale.shift:.6g}, "
    if isinstance(kind, ZScore):
        domain = f" of domain {about.domain!r}" if about.domain else ""
        of = f"the {kind.estimate} mean {scale.shift:.6g}{domain}"
        if not scale.spread:
            said = f"against {of}, where there is one score or no spread, is 0, "
        else:
            z = (raw - scale.shift) / scale.spread
            said = f"less {of}, over the standard deviation {scale.spread:.6g}, is {z:.6g}, "
    return said + (f"cut to {entry['normalised']:.6g}, " if scale.cuts(raw) else "")


def _weighted(config: Reward, name: str, component: Component, entry: Mapping[str, Any], about: About) -> str:
    share = ""
    if isinstance(config.mix, Mix):
        part = "judged" if name in config.mix.judged else "verifiable"
        only = component.model_copy(update={"weight": 1.0})
        share = f" and the {part} share {factor(config, name, only, about.domain):.6g}"
    return f"times the weight {component.weight:.6g}{share} adds {entry['weighted']:+.6g}"


def _others(config: Reward, record: Mapping[str, Any], row: Row) -> list[str]:
    """Scorers that are no part of the reward."""
    return [
        f"{name}: {describe(found)} (recorded only)" for name, found in row.items() if name not in record["components"]
    ]


def _sum(record: Mapping[str, Any]) -> str:
    parts = [entry["weighted"] for entry in record["components"].values() if "weighted" in entry]
    if record["reward"] is None:
        return "reward: none" if parts else "reward: none, because nothing was scored"
    added = [*parts, *record.get("terms", {}).values()]
    return f"reward: {' '.join(f'{part:+.6g}' for part in added)} = {record['reward']:.6g}"
