"""`ropewalk plan`: the best execution plan of a case with its certificate; plans of files checked and compared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropewalk.cli.options import gathered
from ropewalk.cli.progress import progress
from ropewalk.cli.said import say
from ropewalk.cli.settings import Settings, parent_exists
from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError
from ropewalk.records.files import write_atomic

if TYPE_CHECKING:
    from ropewalk.plan.execution import ExecutionPlan
    from ropewalk.plan.profile import ProfileTable
    from ropewalk.planner.case.describe import Case
    from ropewalk.planner.planning import Asked
    from ropewalk.planner.search.schedule import Mode

DOES_NOT_FIT = 3
"""Exit code of a plan, or a case, that memory does not hold."""


@dataclass(frozen=True)
class Plan:
    """Options of `plan`."""

    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE | CASE.toml] [PLAN.json]...", help="What to plan for; plans to compare."),
    ] = None
    method: Annotated[str, typer.Option(metavar="NAME", help="Such as ppo, grpo+rule-reward, dpo.")] = ""
    actor: Annotated[str, typer.Option(metavar="SIZE", help="A size such as 7b, or a folder with config.json.")] = ""
    critic: Annotated[str, typer.Option(metavar="SIZE", help="The actor's size unless given.")] = ""
    role: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=SIZE", help="Another role: reward=34b; may be repeated.")
    ] = None
    cluster: Annotated[
        str, typer.Option(metavar="CLUSTER", help="Such as 32xa100, 16xh100+16xl4, this-machine, or a file.")
    ] = ""
    workload: Annotated[
        str, typer.Option(metavar="512x1:128+896", help="Prompts x samples : prompt + answer tokens, or a file.")
    ] = ""
    calibration: Annotated[str, typer.Option(metavar="NAME", help="Constants of the estimates.")] = ""
    settings: Settings = None
    mode: Annotated[str, typer.Option(help="synchronous, one-step-off or streaming.")] = ""
    gap: Annotated[str, typer.Option(metavar="SHARE", help="Certified gap to stop at, such as 1%.")] = "0%"
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="For search and proof; what is built before comes on top.")
    ] = 5.0
    seed: Annotated[int, typer.Option(min=0, help="Of the search.")] = 0
    robust: Annotated[bool, typer.Option("--robust", help="The plan of least regret when times are 10 % off.")] = False
    profile: Annotated[Path | None, typer.Option(metavar="FILE", help="Measured times of calls.")] = None
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plan as JSON.")] = None
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page that shows all of it.")] = None
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Slower network, longer answers, more GPUs: time and cost.")
    ] = False
    memory: Annotated[bool, typer.Option("--memory", help="The memory bill, and what would make things fit.")] = False
    check: Annotated[Path | None, typer.Option(metavar="FILE", help="Judge a plan that is there.")] = None
    compare: Annotated[bool, typer.Option("--compare", help="Compare the plan files that are named.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False


def _plan(options: Plan) -> int:
    """The best way to run every call of an iteration, and a proof of how good it is.

    Example: ropewalk plan --method ppo --actor 7b --critic 34b --cluster 32xa100

    With --check FILE a plan that is there is judged, with --compare A.json B.json several are. Exit code 3 says that
    memory does not hold it.
    """
    from ropewalk.cli.asked_case import asked_case

    _check_use(options, _files(options))
    case, notes = asked_case(_given(options))
    profile = _profile(options.profile)
    if options.check is not None:
        return _check(options, case, notes, profile)
    if options.compare:
        return _compare(options, case, notes, profile)
    if options.memory:
        return _memory(options, case, notes, profile)
    return _find(options, case, notes, profile)


plan = gathered(Plan, _plan)


def _files(options: Plan) -> list[Path]:
    return [Path(word) for word in options.what or () if word.endswith(".json")]


def _given(options: Plan) -> Any:
    from ropewalk.cli.asked_case import Given

    named = [word for word in options.what or () if not word.endswith(".json")]
    if len(named) > 1:
        raise InputError(f"one recipe or case is planned at a time, got {' and '.join(named)}: name one")
    models = {"actor": options.actor, "critic": options.critic}
    models |= dict(_pair(text) for text in options.role or ())
    return Given(
        what=named[0] if named else "",
        method=options.method,
        models={role: size for role, size in models.items() if size},
        cluster=options.cluster,
        workload=options.workload,
        calibration=options.calibration,
        settings=options.settings or (),
    )


def _check_use(options: Plan, files: Sequence[Path]) -> None:
    """What can be told before anything is read."""
    if files and not options.compare:
        raise InputError(
            f"{files[0]} is no recipe and no case: judge a plan with --check {files[0]}, or --compare several"
        )
    if options.compare and not files:
        raise InputError("--compare needs plan files: ropewalk plan CASE.toml --compare a.json b.json")
    if options.compare and options.check is not None:
        raise InputError("--check judges one plan and --compare several: give one of them")
    if not 0 < options.budget < float("inf"):
        raise InputError(f"--budget is a number of seconds above 0, got {options.budget:g}")
    shown = [name for name, path in (("--out", options.out), ("--html", options.html)) if path is not None]
    if shown and (options.compare or options.check is not None or options.memory):
        raise InputError(f"{shown[0]} goes with a plan that is found: leave it out here")
    for path in (options.out, options.html):
        if path is not None:
            parent_exists(path)


def _find(options: Plan, case: "Case", notes: tuple[str, ...], profile: "ProfileTable | None") -> int:
    from ropewalk.cli.planned import plan_lines
    from ropewalk.planner.show.document import document
    from ropewalk.planner.show.gather import gather
    from ropewalk.planner.written import written

    what_if = options.what_if or options.as_json or options.html is not None
    with progress() as shown:
        found = gather(case, _asked(options), profile=profile, what_if=what_if, notes=notes, told=shown)
    made = []
    if options.out is not None:
        write_atomic(options.out, written(found.planned).to_json())
        made.append(f"plan: {options.out}")
    if options.html is not None:
        from ropewalk.cli.plan_page import write_plan_page

        made.append(f"page: {write_plan_page(options.html, found)}")
    if options.as_json:
        _say_json(document(found))
    else:
        say(*plan_lines(found), *([""] if made else []), *made)
    return 0


def _memory(options: Plan, case: "Case", notes: Sequence[str], profile: "ProfileTable | None") -> int:
    """The bill of the best plan; where none fits, what each call needs and what would help."""
    from ropewalk.cli.columns import facts
    from ropewalk.cli.planned import bill_lines, needs_lines
    from ropewalk.planner.planning import plan_case
    from ropewalk.planner.show.document import case_document, memory_document, needs_document
    from ropewalk.planner.show.memory import devices, needs
    from ropewalk.planner.show.mend import mends_of_case

    try:
        judged = plan_case(case, _asked(options, baselines=False), profile=profile).judged
    except InputError as error:
        with progress() as shown:
            shown.begin("trying what would make it fit", 1)
            least, mends = needs(case), mends_of_case(case, mode=_mode(options.mode or "synchronous"))
        if options.as_json:
            said = {"case": case_document(case, notes), "fits": False, "why": str(error)}
            _say_json({**said, **needs_document(least, mends)})
        else:
            say(*needs_lines(case, str(error), least, mends), *facts(("assumed", note) for note in notes))
        return DOES_NOT_FIT
    if options.as_json:
        _say_json({"case": case_document(case, notes), "fits": True, "memory": memory_document(devices(judged))})
    else:
        say(*bill_lines(judged, notes))
    return 0


def _check(options: Plan, case: "Case", notes: Sequence[str], profile: "ProfileTable | None") -> int:
    from ropewalk.cli.planned import checked_lines
    from ropewalk.planner.show.document import judged_document, mends_document
    from ropewalk.planner.show.judgement import checked
    from ropewalk.planner.written import differences, misjudged, problems, read_plan

    path = options.check or Path()
    given = read_plan(path)
    mode = _mode_of(options, str(path), given)
    wrong = problems(case, given, mode=mode)
    if wrong:
        raise ConfigError([f"{path}: {problem}" for problem in wrong])
    with progress() as shown:
        shown.begin("looking for the best plan", 1)
        found = checked(case, given, _asked(options, mode=mode, baselines=False), profile=profile)
    told = [*notes, *(differences(case, given) or misjudged(given, found.judged))]
    if options.as_json:
        _say_json(
            {
                "file": str(path),
                "notes": told,
                "period_seconds": found.judged.period_seconds,
                "bound_seconds": found.bound_seconds,
                "gap": found.gap,
                "best_seconds": found.best_seconds,
                **judged_document(found.judged, case),
                "mends": mends_document(found.mends),
            }
        )
    else:
        say(*checked_lines(str(path), found, case, told))
    return 0 if found.judged.fits else DOES_NOT_FIT


def _compare(options: Plan, case: "Case", notes: Sequence[str], profile: "ProfileTable | None") -> int:
    from ropewalk.cli.planned import compared_lines
    from ropewalk.planner.show.document import judged_document
    from ropewalk.planner.written import as_mapping, differences, judge_plan, problems, read_plan

    plans = as_mapping([(path.stem, read_plan(path)) for path in _files(options)])
    modes = {name: _mode_of(options, name, given) for name, given in plans.items()}
    wrong = [f"{n}: {problem}" for n, given in plans.items() for problem in problems(case, given, mode=modes[n])]
    if wrong:
        raise ConfigError(wrong)
    judged = {name: judge_plan(case, given, mode=modes[name], profile=profile) for name, given in plans.items()}
    told = {name: differences(case, given) for name, given in plans.items()}
    if options.as_json:
        _say_json(
            {
                name: {
                    "notes": [*notes, *told[name]],
                    "period_seconds": found.period_seconds,
                    "mode": modes[name],
                    **judged_document(found, case),
                }
                for name, found in judged.items()
            }
        )
    else:
        said = [*notes, *(f"{name}: {one}" for name, ones in told.items() for one in ones)]
        say(*compared_lines(judged, modes, case, said))
    return 0 if all(found.fits for found in judged.values()) else DOES_NOT_FIT


def _asked(options: Plan, *, mode: "Mode | None" = None, baselines: bool = True) -> "Asked":
    from ropewalk.planner.planning import Asked

    return Asked(
        gap=_share(options.gap),
        budget_seconds=options.budget,
        seed=options.seed,
        mode=mode or _mode(options.mode or "synchronous"),
        robust=options.robust,
        baselines=baselines,
    )


def _mode_of(options: Plan, name: str, given: "ExecutionPlan") -> "Mode":
    """The mode that is asked for, else the one that the plan of this name was made for."""
    from ropewalk.planner.written import mode_of

    if options.mode:
        return _mode(options.mode)
    try:
        return mode_of(given)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _mode(text: str) -> "Mode":
    from difflib import get_close_matches

    from ropewalk.planner.search.schedule import MODES

    for mode in MODES:
        if mode == text:
            return mode
    near = get_close_matches(text, MODES, n=1, cutoff=0.0)[0]
    raise InputError(f"there is no mode {text!r}: did you mean {near!r}? (known: {', '.join(MODES)})")


def _share(text: str) -> float:
    plain = text.strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise InputError(f"--gap is a share of the period such as 1% or 0.01, got {text!r}")
    return value


def _pair(text: str) -> tuple[str, str]:
    role, equals, size = text.partition("=")
    if not (equals and role and size):
        raise InputError(f"--role {text} lacks a role or a size: write --role reward=34b")
    return role, size


def _profile(path: Path | None) -> "ProfileTable | None":
    if path is None:
        return None
    from ropewalk.plan.profile import ProfileTable

    try:
        return ProfileTable.from_json(path.read_text(encoding="utf-8"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no profile, which is JSON in UTF-8: name another file") from None


def _say_json(value: Mapping[str, Any]) -> None:
    say(json.dumps(value, indent=2, allow_nan=False))
