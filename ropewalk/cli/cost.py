"""Commands that look ahead: `cost`, `advise`."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from ropewalk.cli.options import gathered
from ropewalk.cli.said import say
from ropewalk.plan.cluster import Gpu
from ropewalk.planner.price.figure import Figure
from ropewalk.planner.price.job_price import Assumptions, price
from ropewalk.planner.price.jobs import KINDS, Amount, count, job, number, trunk
from ropewalk.records.errors import InputError

COUNTED = re.compile(r"(-?\d+)x")
USUAL_GPUS = ("a100", "h100", "h200", "b200")


@dataclass(frozen=True)
class Cost:
    """Options of `cost`."""

    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.")] = None
    model: Annotated[str, typer.Option(metavar="SIZE", help="A size such as 7b, or a folder with a config.json.")] = ""
    role: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=SIZE", help="Size of another role: critic=34b; may be repeated.")
    ] = None
    tokens: Annotated[str, typer.Option(metavar="N", help="Tokens of one pass, such as 14.8T; or give prompts.")] = ""
    prompts: Annotated[str, typer.Option(metavar="N", help="Prompts, pairs or documents of one pass: 100k.")] = ""
    samples: Annotated[int | None, typer.Option(help="Samples of each prompt.")] = None
    row_tokens: Annotated[str, typer.Option(metavar="N", help="Tokens of prompt and answer together.")] = "1024"
    prompt_tokens: Annotated[str, typer.Option(metavar="N", help="Of these, the prompt's.")] = "128"
    passes: Annotated[int, typer.Option("--epochs", help="Passes over the data.")] = 1
    update_epochs: Annotated[int, typer.Option(help="Passes of the optimiser over each generated batch.")] = 1
    lora: Annotated[int | None, typer.Option(metavar="RANK", help="Train adapters of this rank.")] = None
    gpu: Annotated[list[str] | None, typer.Option(metavar="GPU", help="Kind of GPU; may be repeated.")] = None
    gpus: Annotated[int, typer.Option(help="How many of them.")] = 8
    mfu: Annotated[str, typer.Option(metavar="LOW-HIGH", help="Share of the peak that training reaches.")] = "0.30-0.45"
    retry: Annotated[str, typer.Option(metavar="SHARE", help="Failed and repeated work, of the work.")] = "10%"
    batch: Annotated[int, typer.Option(help="Sequences that a replica decodes at once.")] = 128
    dollars: Annotated[
        list[str] | None, typer.Option(metavar="[GPU=]PRICE", help="Of a GPU-hour, instead of the assumed one.")
    ] = None
    published: Annotated[bool, typer.Option("--published", help="What published runs took, and their MFU.")] = False
    claims: Annotated[bool, typer.Option("--claims", help="Rules of thumb against arithmetic.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False


def _cost(options: Cost) -> None:
    """GPU-hours, days and money before anything is bought.

    A price is a range, and every figure says whether it was measured, estimated or assumed. Example: ropewalk cost
    grpo+rule-reward --model 7b --prompts 100k --epochs 3
    """
    from ropewalk.cli.priced import price_json, price_lines

    if options.published or options.claims:
        _known(options)
        return
    if options.kind is None or not options.model:
        raise InputError("a price needs a kind of job and a model: ropewalk cost sft --model 7b --tokens 1B")
    gpus = chosen_gpus(options.gpu or USUAL_GPUS, options.dollars or ())
    priced = job(options.kind, _models(options.kind, options), _amount(options), lora_rank=options.lora)
    given = Assumptions(
        mfu=percentages(options.mfu, "--mfu"),
        retry=_fraction(options.retry, "--retry"),
        batch=options.batch,
    )
    prices = [price(priced, gpu, gpus=options.gpus, assumptions=given) for gpu in gpus]
    if options.as_json:
        _say_json(price_json(options.kind, priced, prices, given))
        return
    title = f"{options.kind} of {options.model}: {_tokens(priced.tokens)} tokens"
    say(*price_lines(title, priced, prices, given))


@dataclass(frozen=True)
class Advise:
    """Options of `advise`."""

    model: Annotated[str, typer.Option(metavar="SIZE", help="A size such as 7b, or a folder with a config.json.")] = ""
    cluster: Annotated[str, typer.Option(metavar="CLUSTER", help="Such as 64xh100, this-machine, or a file.")] = ""
    verifiable: Annotated[bool, typer.Option("--verifiable", help="A program can check the answers.")] = False
    long_episodes: Annotated[
        bool, typer.Option("--long-episodes", help="Many turns, or thousands of tokens, before the reward.")
    ] = False
    pairs: Annotated[str, typer.Option(metavar="N", help="Preference pairs at hand: 10M.")] = ""
    days: Annotated[float | None, typer.Option(help="Within which all should be done.")] = None
    prompts: Annotated[str, typer.Option(metavar="N", help="Prompts to learn from, once each.")] = "100k"
    row_tokens: Annotated[str, typer.Option(metavar="N", help="Tokens of prompt and answer together.")] = "1024"
    prompt_tokens: Annotated[str, typer.Option(metavar="N", help="Of these, the prompt's.")] = "128"
    mfu: Annotated[str, typer.Option(metavar="LOW-HIGH", help="Share of the peak that training reaches.")] = "0.30-0.45"
    rules: Annotated[
        bool, typer.Option("--rules", help="Rules of thumb on ZeRO, tp and pp by size, against the planner.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False


def _advise(options: Advise) -> None:
    """Which method, placement and recipe, why, and what fails first.

    Example: ropewalk advise --model 70b --cluster 64xh100 --pairs 10M --days 14
    """
    from ropewalk.cli.advised import advice_json, advice_lines
    from ropewalk.plan.sizes import shape_of
    from ropewalk.planner.advice.advise import Question, advise
    from ropewalk.planner.case.hardware import cluster

    if options.rules:
        _rules(options)
        return
    if not options.model or not options.cluster:
        raise InputError("an advice needs a model and GPUs: ropewalk advise --model 7b --cluster 8xa100 --verifiable")
    question = Question(
        cluster=cluster(options.cluster),
        model=shape_of(options.model),
        verifiable=options.verifiable,
        long_episodes=options.long_episodes,
        pairs=count(options.pairs, "--pairs") if options.pairs else 0.0,
        days=options.days,
        prompts=count(options.prompts, "--prompts"),
        row_tokens=int(count(options.row_tokens, "--row-tokens")),
        prompt_tokens=int(count(options.prompt_tokens, "--prompt-tokens")),
        assumptions=Assumptions(mfu=percentages(options.mfu, "--mfu")),
    )
    found = advise(question)
    if options.as_json:
        _say_json(advice_json(question, found))
    else:
        say(f"{options.model} on {options.cluster}", "", *advice_lines(question, found))


cost = gathered(Cost, _cost)
advise = gathered(Advise, _advise)


def percentages(text: str, option: str) -> Figure:
    """A range such as 0.30-0.45, 30%-45% or 30-45%; never a single guess."""
    raw = text.replace(" ", "")
    low, dash, high = raw.partition("-")
    if not (low and dash and high):
        raise InputError(f"{option} is a range, as nobody knows it beforehand, got {text!r}: write 0.30-0.45")
    percent = "%" if high.endswith("%") else ""
    return Figure(_fraction(low.removesuffix("%") + percent, option), _fraction(high, option), "assumed")


def chosen_gpus(names: Sequence[str], prices: Sequence[str]) -> list[Gpu]:
    """GPUs by name, every kind of a cluster file, with other prices where given: for all, or for one by its name."""
    found: dict[str, list[Gpu]] = {}
    for name in names:
        found.setdefault(name.lower(), _kinds(name))
    for text in prices:
        name, equals, amount = text.rpartition("=")
        if equals and name.lower() not in found:
            raise InputError(f"--dollars {text} names no GPU that is priced here: it can be {', '.join(found)}")
        dollars = number(amount, "a price per GPU-hour")
        given = {"dollars_per_hour": dollars, "dollars_range": None, "dollars_source": "given"}
        for key in [name.lower()] if equals else list(found):
            found[key] = [replace(gpu, **given) for gpu in found[key]]  # type: ignore[arg-type]
    return list({gpu.name: gpu for kinds in found.values() for gpu in kinds}.values())


def _kinds(name: str) -> list[Gpu]:
    """The kinds of GPU of a name or a file; a number of them belongs to --gpus."""
    from ropewalk.planner.case.hardware import builtin, cluster

    counted = COUNTED.match(name.strip().lower())
    if counted or "+" in name:
        many = counted[1] if counted else "16"
        raise InputError(f"--gpu {name} is a cluster, and a price is of one kind: name the kind, and say --gpus {many}")
    if name.endswith(".toml") or "/" in name or name.strip().lower() == "this-machine":
        return [group.gpu for group in cluster(name).groups]
    return [builtin(name).groups[0].gpu]


def _rules(options: Advise) -> None:
    """Of the size and the cluster that were given, or of the usual ones."""
    from ropewalk.cli.advised import rules_json, rules_lines
    from ropewalk.cli.columns import facts
    from ropewalk.plan.sizes import shape_of
    from ropewalk.planner.advice.advise import rules_of_thumb
    from ropewalk.planner.advice.rules import GPUS, SIZES
    from ropewalk.planner.case.graphs import doubts
    from ropewalk.planner.case.hardware import cluster

    sizes = [options.model] if options.model else SIZES
    clusters = [cluster(name) for name in ([options.cluster] if options.cluster else [f"{n}xh100" for n in GPUS])]
    shapes = [(size, shape_of(size)) for size in sizes]
    rows = rules_of_thumb(clusters, shapes)
    if options.as_json:
        _say_json(rules_json(rows, dict(shapes)))
        return
    said = rules_lines(rows, " and ".join(dict.fromkeys(g.gpu.name for one in clusters for g in one.groups)))
    say(*said, *facts(("assumed", note) for note in doubts(dict(shapes))))


def _known(options: Cost) -> None:
    from ropewalk.cli.priced import claim_json, claim_lines, published_lines
    from ropewalk.planner.price.published import HOURS, RUNS
    from ropewalk.planner.price.rules_of_thumb import findings

    if options.kind is not None:
        raise InputError("--published and --claims are tables of their own: leave the kind of job out")
    if options.published:
        if options.as_json:
            _say_json(
                [{"model": run.model, "gpu_hours": run.gpu_hours, "implied_mfu": run.implied_mfu} for run in RUNS]
            )
        else:
            say(*published_lines(RUNS, HOURS))
    if options.claims:
        found = findings(*chosen_gpus(("a100-reference", "h100"), ()))
        if options.as_json:
            _say_json(claim_json(found))
        else:
            say(*claim_lines(found))


def _models(kind: str, options: Cost) -> dict[str, str]:
    """The size of every role that was given one, each once."""
    models = {trunk(kind): options.model}
    for text in options.role or ():
        role, size = _pair(text, "--role critic=34b")
        if role in models:
            raise InputError(f"role {role!r} has two sizes, {models[role]} and {size}: give it one")
        models[role] = size
    return models


def _amount(options: Cost) -> Amount:
    return Amount(
        tokens=count(options.tokens, "--tokens") if options.tokens else None,
        prompts=count(options.prompts, "--prompts") if options.prompts else None,
        samples=options.samples,
        row_tokens=count(options.row_tokens, "--row-tokens"),
        prompt_tokens=count(options.prompt_tokens, "--prompt-tokens"),
        passes=options.passes,
        update_epochs=options.update_epochs,
    )


def _fraction(text: str, option: str) -> float:
    """0.3 or 30%."""
    try:
        value = float(text.strip().removesuffix("%"))
        if not math.isfinite(value):
            raise ValueError
    except ValueError:
        raise InputError(f"{option} needs a share such as 0.3 or 30%, got {text!r}") from None
    return value / 100 if text.strip().endswith("%") else value


def _pair(text: str, example: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key and value):
        raise InputError(f"{text!r} lacks a name or a value: write {example}")
    return key, value


def _tokens(count: float) -> str:
    from ropewalk.cli.priced import amount

    return amount(count)


def _say_json(value: Any) -> None:
    say(json.dumps(value, indent=2))
