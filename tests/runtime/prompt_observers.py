"""What one can see of settings about prompts: their order, flat groups, and what a selection keeps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ropewalk.data.ledger import DataLedger
from ropewalk.data.order import prompt_order
from ropewalk.data.select.rates import PassRate
from ropewalk.data.select.selection import choose
from ropewalk.records.errors import RopewalkError
from ropewalk.records.files import read_jsonl
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import SamplingRecord
from ropewalk.records.score import Score
from ropewalk.runtime.assemble import asked_task
from ropewalk.runtime.jobs.select import select
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.work import flat_rule
from tests.parity.beds import samples

Settings = Mapping[str, Any]


def order(_: Any, name: str, settings: Settings) -> Any:
    """The prompts of a run of five iterations, or why there is none."""
    recipe: Any = read_recipe(name, settings)
    try:
        task = asked_task(recipe)
        prompts = task.split("train")
        curriculum = recipe.rollout.curriculum
        found = prompt_order(prompts, task.weights, curriculum, lambda some: DataLedger(len(some), 0, "x"))
    except RopewalkError as error:
        return str(error)
    drawn, place = [], found.start
    for iteration in range(5):
        taken, place = found.next(place, 12, iteration / 4)
        drawn += [prompts[i].id for i in taken]
    return drawn


def flat(_: Any, name: str, settings: Settings) -> Any:
    """What becomes of groups whose rewards differ not at all, a little, and much."""
    recipe: Any = read_recipe(name, settings)
    rule = flat_rule(recipe, recipe.reward, asked_task(recipe), SamplingRecord(1.0, 8, ()))
    if rule is None:
        return "all are kept"
    truths = ((1.0, 1.0), (0.0, 0.01), (0.0, 1.0))
    one = replace(samples()[0], finish="stop")
    made = [
        replace(one, group_id=str(n), prompt_id=str(n), index=k).with_scores(truth=Score(truth))
        for n, group in enumerate(truths)
        for k, truth in enumerate(group)
    ]
    found = rule.decide(made, {str(n): Prompt(str(n), "?") for n in range(3)}, 3, {})
    return sorted(found.kept), dict(found.decision.dropped), found.decision.draw


def sifted(_: Any, name: str, settings: Settings) -> Any:
    """What becomes of prompts of every pass rate, half of which are alike."""
    asked: Any = read_recipe(name, settings).select  # type: ignore[union-attr]
    alike = ["how many apples are there", "which pears are ripe and which are not"]
    rates = [PassRate(str(k), alike[0] if k % 2 else f"{alike[1]} {'abcdefghi'[k // 2] * 3}", k, 16) for k in range(17)]
    found = choose(rates, asked.keep, asked.buckets, asked.coverage)
    return [(one.fate, one.bucket, one.cluster, one.uncertain) for one in found.prompts]


def selected(bench: Any, name: str, settings: Settings) -> Any:
    """What a selection leaves in its folder."""
    out = bench.folder / f"selection-{len(list(bench.folder.glob('selection-*')))}"
    try:
        files = select(name, out=out, set=settings).files
    except RopewalkError as error:
        return str(error).replace(str(out), "")
    return [read_jsonl(path) for path in (files.samples, files.prompts, files.kept)]
