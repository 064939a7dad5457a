#!/usr/bin/env python3
"""The planner on its three reference cases: speed, time to a good plan, certified gap, baselines; and its growth.

    python benchmarks/planner.py [--json] [--growth [--page growth.html]]

One core. Compilation is timed apart and everything else after it. Exact evaluations are of plans that fit in memory,
under the orders that serve the search; lazy proposals are those of the tempering, refused ones among them; both
are those of the slowest case. `seconds_to_1_percent` runs from a built problem to a plan within 1 % of the best plan
that any run or proof has found, once for each of ten seeds. `gap` is period / bound - 1 after `--budget` seconds of
search and proof from one seed, the bound holding for every plan of the space under every order of dispatch.
The cases are judged under the frozen calibration `reference`; the default calibration is printed beside it. All
periods are predictions of the cost model: no device is measured here.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from rich.console import Console
from rich.table import Table

from ropewalk.planner.case.describe import Case, describe, read_case
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.planning import Asked, baselines, solve
from ropewalk.planner.search.baselines import CLASSICAL_STEPS, classical
from ropewalk.planner.search.candidates import problem_of
from ropewalk.planner.search.kernels import evaluate_all, scratch
from ropewalk.planner.search.problem import FAR, Problem
from ropewalk.planner.search.prove import prove
from ropewalk.planner.search.temper import few_orders, polished, search

CASES = Path(__file__).resolve().parents[1] / "tests" / "planner" / "cases"
SIZES = (16, 32, 128)
SEEDS = range(10)
PLANS = 20_000
GROWTH = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
GROWTH_GAP = 0.01


@dataclass(frozen=True, slots=True)
class Figures:
    """What one case gave."""

    build_seconds: float
    exact_per_second: float
    lazy_per_second: float
    classical_seconds: float
    period_seconds: float
    bound_seconds: float
    best_seconds: float
    """Of any run or proof."""
    proven: bool
    """The best is proven the best of the space under the listed orders."""
    baselines: dict[str, float | None]
    seconds_to_1_percent: list[float]

    @property
    def gap(self) -> float:
        return self.period_seconds / self.bound_seconds - 1.0

    def row(self) -> dict[str, object]:
        return {
            "period_seconds": self.period_seconds,
            "bound_seconds": self.bound_seconds,
            "gap": self.gap,
            "heuristic_seconds": self.baselines["heuristic"],
            "symmetric_seconds": self.baselines["symmetric"],
            "asymmetric_seconds": self.baselines["asymmetric"],
            "best_seconds": self.best_seconds,
            "build_seconds": self.build_seconds,
            "seconds_to_1_percent": self.seconds_to_1_percent,
        }


def warm_up() -> float:
    """Compile everything on a small case; the seconds it took."""
    began = time.perf_counter()
    case = read_case(CASES / "16.toml")
    problem = problem_of(case)
    found, proof = solve(problem, Asked(gap=0.05, budget_seconds=0.1))
    polished(problem, found.plan, proof.period_seconds, budget_seconds=0.0)
    baselines(case, problem, Asked())
    exact_speed(problem)
    return time.perf_counter() - began


def exact_speed(problem: Problem) -> float:
    """Evaluations a second of random plans that fit."""
    tables, room = problem.tables, scratch(problem.tables)
    rng = np.random.default_rng(0)
    plans = rng.integers(tables.call_start[:-1], tables.call_start[1:], (PLANS, len(tables.call_start) - 1))
    periods, chosen = np.zeros(PLANS), np.zeros(PLANS, dtype=np.int64)
    orders = few_orders(problem)
    evaluate_all(tables, orders, plans, room, periods, chosen)
    fitting = plans[periods < FAR]
    fitting = np.resize(fitting, (PLANS, plans.shape[1]))
    began = time.perf_counter()
    evaluate_all(tables, orders, fitting, room, periods, chosen)
    return PLANS / (time.perf_counter() - began)


def measure(case: Case, budget_seconds: float) -> Figures:
    began = time.perf_counter()
    problem = problem_of(case)
    _ = problem.tables, problem.orders
    built = time.perf_counter() - began
    _, proof = solve(problem, Asked(budget_seconds=budget_seconds))
    longer = search(problem, seed=1, budget_seconds=1.0)
    whole = prove(problem, min((proof.period_seconds, proof.plan), longer.best[0])[1], budget_seconds=60.0)
    chain, classical_seconds = classical(problem)
    goal = whole.period_seconds * 1.01
    times = [search(problem, seed=seed, budget_seconds=10.0, goal_seconds=goal).seconds for seed in SEEDS]
    compared = {baseline.name: baseline.period_seconds for _, baseline in baselines(case, problem, Asked())}
    return Figures(
        build_seconds=built,
        exact_per_second=exact_speed(problem),
        lazy_per_second=longer.proposals / longer.seconds,
        classical_seconds=classical_seconds,
        period_seconds=proof.period_seconds,
        bound_seconds=proof.bound_seconds,
        best_seconds=whole.period_seconds,
        proven=whole.epsilon == 0.0,
        baselines=compared | {"classical": chain.period_seconds},
        seconds_to_1_percent=times,
    )


def show(title: str, figures: dict[int, Figures], console: Console) -> None:
    table = Table(title=title)
    for column in ("GPUs", "period s", "bound s", "gap %", "best s", "proven", "to 1 % s (worst)", "build s"):
        table.add_column(column, justify="right")
    for name in ("heuristic", "symmetric", "asymmetric", "classical"):
        table.add_column(f"{name} x", justify="right")
    for gpus, f in figures.items():
        ratios = [f"{found / f.best_seconds:.3f}" if found else "does not fit" for found in f.baselines.values()]
        table.add_row(
            str(gpus),
            f"{f.period_seconds:.3f}",
            f"{f.bound_seconds:.3f}",
            f"{100 * f.gap:.2f}",
            f"{f.best_seconds:.3f}",
            "yes" if f.proven else "no",
            f"{max(f.seconds_to_1_percent):.3f}",
            f"{f.build_seconds:.2f}",
            *(ratios[list(f.baselines).index(name)] for name in ("heuristic", "symmetric", "asymmetric", "classical")),
        )
    console.print(table)


def grown(gpus: int) -> Case:
    """PPO with four 7B models below 128 GPUs and 70B from there on; the batch grows with the cluster beyond."""
    return describe(
        {
            "name": f"{gpus} A100",
            "method": "ppo",
            "calibration": "reference",
            "models": {"actor": "70b" if gpus >= 128 else "7b"},
            "cluster": f"{gpus}xa100-reference",
            "space": {"shard": ["optimizer"]},
            "workload": {
                "prompts": 512 * max(1, gpus // 128),
                "prompt_tokens": 128,
                "generated_tokens": 896,
                "minibatches": 4,
            },
        }
    )


def growth(console: Console, page: Path | None) -> list[dict[str, float]]:
    rows = []
    for gpus in GROWTH:
        began = time.perf_counter()
        problem = problem_of(grown(gpus))
        built = time.perf_counter() - began
        _, proof = solve(problem, Asked(gap=GROWTH_GAP, budget_seconds=30.0))
        rows.append(
            {
                "gpus": gpus,
                "build_seconds": built,
                "total_seconds": time.perf_counter() - began,
                "gap": proof.gap,
                "period_seconds": proof.period_seconds,
                "candidates": float(sum(len(options) for options in problem.candidates)),
            }
        )
        console.print(
            f"{gpus:5d} GPUs: {rows[-1]['total_seconds']:.1f} s, of which {built:.1f} s build, gap {proof.gap:.2%}"
        )
    if page is not None:
        draw(rows, page)
        console.print(f"plot: {page}")
    return rows


def draw(rows: Sequence[dict[str, float]], page: Path) -> None:
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    gpus = [row["gpus"] for row in rows]
    for name, text in (("total_seconds", "planning time"), ("build_seconds", "of it building the problem")):
        figure.add_trace(go.Scatter(x=gpus, y=[row[name] for row in rows], name=text, mode="lines+markers"))
    figure.add_trace(
        go.Scatter(x=gpus, y=[100 * row["gap"] for row in rows], name="certified gap", mode="lines+markers"),
        secondary_y=True,
    )
    figure.update_xaxes(type="log", title="GPUs", tickvals=gpus)
    figure.update_yaxes(title="seconds", rangemode="tozero", secondary_y=False)
    figure.update_yaxes(title="gap, %", rangemode="tozero", secondary_y=True)
    figure.update_layout(title="Planning time and certified gap", template="simple_white")
    figure.write_html(page, include_plotlyjs=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of search and proof")
    parser.add_argument("--growth", action="store_true", help="also plan 16 to 4,096 GPUs")
    parser.add_argument("--page", type=Path, help="where the plot of the growth goes")
    asked = parser.parse_args()
    console = Console(stderr=asked.json, width=150)
    compiled = warm_up()
    console.print(
        f"compile and warm up: {compiled:.1f} s ({'numba' if COMPILED else 'plain Python: numba is not installed'})"
    )
    figures = {gpus: measure(read_case(CASES / f"{gpus}.toml"), asked.budget) for gpus in SIZES}
    show("calibration `reference`", figures, console)
    own = {
        gpus: measure(replace(read_case(CASES / f"{gpus}.toml"), calibration="default"), asked.budget) for gpus in SIZES
    }
    show("calibration `default`", own, console)
    speeds = {
        "exact_per_second": min(f.exact_per_second for f in figures.values()),
        "lazy_per_second": min(f.lazy_per_second for f in figures.values()),
        "classical_20000_seconds": max(f.classical_seconds for f in figures.values()),
    }
    console.print(
        f"slowest case: {speeds['exact_per_second']:,.0f} exact evaluations/s, {speeds['lazy_per_second']:,.0f} lazy "
        f"proposals/s, {CLASSICAL_STEPS:,} classical steps in {speeds['classical_20000_seconds']:.3f} s"
    )
    report = {
        **speeds,
        "compile_seconds": compiled,
        "cases": {str(gpus): f.row() for gpus, f in figures.items()},
        "default": {str(gpus): f.row() for gpus, f in own.items()},
    }
    if asked.growth:
        report["growth"] = growth(console, asked.page)
    if asked.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
