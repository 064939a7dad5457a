"""What one can see of a setting: the observables of the table in `test_every_field.py`.

Each observer takes a loaded recipe and gives something that can be compared. Those that train run a tiny recipe
to its end and look at everything it leaves but its own text.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ropewalk.algorithms.controllers import controller
from ropewalk.algorithms.credit import gae_credit, group_credit
from ropewalk.config.load import ConfigError
from ropewalk.data.read import labelled_steps, pairs
from ropewalk.models.load import fresh_policy
from ropewalk.models.packed import token_batch
from ropewalk.monitors.health import diagnose
from ropewalk.monitors.samples import choose
from ropewalk.monitors.sinks.open import open_sinks
from ropewalk.parallel.groups import Group
from ropewalk.records.errors import RopewalkError
from ropewalk.records.sample import Request, Sample, SamplingRecord
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.rollout.native.engine import NativeEngine, _waves
from ropewalk.rollout.native.scheduler import Fresh
from ropewalk.runtime.assemble import graph_of, plan_of, setup_of, the_task
from ropewalk.runtime.prepare import read_text
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.run import Run
from ropewalk.runtime.stages import check_stages, stage_recipe
from ropewalk.runtime.train import train
from ropewalk.runtime.worker import Worker, objective_of
from ropewalk.tasks.city.task import VOCABULARY
from ropewalk.tasks.scoring.compose import About, compose, observe
from ropewalk.tasks.scoring.run import check_failures
from ropewalk.training.config import Precision
from ropewalk.training.outputs import columns_of, network_outputs
from ropewalk.training.packing import micro_batches
from ropewalk.training.schedule import lr_factor
from ropewalk.training.state import TrainState
from ropewalk.training.step import optimiser_step
from tests.fakes import tiny_llama
from tests.parity.beds import bed, network, policy_batch, samples
from tests.rollout.helpers import version_of
from tests.runtime.episode_observers import played, scoring_threads
from tests.runtime.judge_observers import advised, labelled
from tests.runtime.learned_observers import rewarded, step_ids
from tests.runtime.prompt_observers import flat, order, selected, sifted
from tests.runtime.runs import contents, files, lines, parts, without_times
from tests.runtime.scorer_observers import judged, shut
from tests.runtime.world_observers import opened

Settings = Mapping[str, Any]


@dataclass
class Bench:
    """Starting folders, data files, and the stories of runs that were already made."""

    folder: Path
    policy: Path
    pairs: Path
    reward_model: Path
    stories: dict[str, Any] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return str(self.folder / name)


# --- whole runs -----------------------------------------------------------------------------------


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, what: str, total: int, done: int = 0) -> None: ...

    def advance(self, done: int, note: str = "") -> None: ...

    def say(self, line: str) -> None:
        self.heard.append(line)


def run(bench: Bench, name: str, settings: Settings) -> Any:
    """All that a run leaves behind and says, but for its recipe, its plan and its times; or its error."""
    key = json.dumps([name, settings], sort_keys=True, default=str)
    if key not in bench.stories:
        bench.stories[key] = _run(bench, name, settings)
    return bench.stories[key]


def _run(bench: Bench, name: str, settings: Settings) -> Any:
    out = bench.folder / f"run-{len(bench.stories)}"
    listener = Listener()
    error = None
    try:
        train(name, set=settings, out=out, progress=listener)
    except (RopewalkError, ConfigError) as problem:
        error = str(problem).replace(str(out), "")
    done = Run(out)
    weights = [contents(path) for path in sorted(out.glob("*/model.safetensors"))]
    return {
        "error": error,
        "said": listener.heard,
        "metrics": [without_times(row) for row in done.metrics()],
        "samples": lines(done.samples_file),
        "pairs": lines(out / "pairs.jsonl"),
        "steps": lines(out / "steps.jsonl"),
        "status": {**done.status(), "reason": str(done.status().get("reason")).replace(str(out), "")},
        "files": [re.sub(r"tfevents.*", "tfevents", name) for name in files(out)] if out.exists() else [],
        "weights": weights,
    }


# --- parts of a run -------------------------------------------------------------------------------


def online(bench: Bench, name: str, settings: Settings) -> Any:
    """Size of the first batch: tokens and segments."""
    out = bench.folder / "parts"
    with parts(name, settings, out) as made:
        experience, _ = made.loop.source.gather(0, {})
        return experience.batch.tokens, experience.batch.segments_S3.tolist()


def setup(_: Bench, name: str, settings: Settings) -> Any:
    """What the workers are built from, the graph, and where each call runs."""
    recipe: Any = read_recipe(name, settings)
    graph = graph_of(recipe)
    plan = plan_of(recipe, graph)
    made = setup_of(recipe, plan, steps=10, vocabulary=VOCABULARY)
    return graph, {call: (p.layout, p.recompute) for call, p in plan.calls.items()}, made.processes, made.engine


def graph(_: Bench, name: str, settings: Settings) -> Any:
    """The calls of an iteration and the roles that run them."""
    recipe: Any = read_recipe(name, settings)
    return type(recipe).__name__, graph_of(recipe) if hasattr(recipe, "checkpoint") else None


def threads(_: Bench, name: str, settings: Settings) -> Any:
    """Compute threads after a worker was built."""
    recipe: Any = read_recipe(name, settings)
    before = torch.get_num_threads()
    try:
        Worker(setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=1, vocabulary=VOCABULARY), Group())
        return torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def micro(_: Bench, name: str, settings: Settings) -> Any:
    """Micro-batches of a fixed batch under the worker's budget."""
    recipe: Any = read_recipe(name, settings)
    made = setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=1, vocabulary=VOCABULARY)
    return len(micro_batches(policy_batch(), made.micro_batch_tokens))


def saved_bytes(_: Bench, name: str, settings: Settings) -> Any:
    """Bytes a pass keeps for its backward."""
    precision: Precision = read_recipe(name, settings).precision  # type: ignore[union-attr]
    kept = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        body = network("llama", frozenset({"policy"}))
        batch = token_batch(policy_batch(), "cpu")
        network_outputs(body, batch, frozenset({"logprobs"}), sampling=None, precision=precision)
    return kept


def model(_: Bench, name: str, settings: Settings) -> Any:
    """A fresh network: its shapes, its spread, its length."""
    recipe: Any = read_recipe(name, settings)
    loaded = fresh_policy(recipe.model, VOCABULARY.words, VOCABULARY.eos, VOCABULARY.pad, seed=0)
    shapes = {n: (tuple(p.shape), round(float(p.detach().std()), 3)) for n, p in loaded.network.named_parameters()}
    return shapes, loaded.network.config.max_position_embeddings, loaded.network.config.num_attention_heads


def dtype(_: Bench, name: str, settings: Settings) -> Any:
    """Type of the weights in a worker's memory."""
    recipe: Any = read_recipe(name, settings)
    worker = Worker(setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=1), Group())
    return {n: str(next(role.model.network.parameters()).dtype) for n, role in worker.roles.items()}


# --- arithmetic -----------------------------------------------------------------------------------


def stepped(_: Bench, name: str, settings: Settings) -> Any:
    """Weights after two steps of the recipe's optimiser on a fixed batch."""
    recipe: Any = read_recipe(name, settings)
    made = bed("sft-token")
    state = TrainState(network("llama", made.heads), recipe.actor.optimizer, total_steps=10)
    for _ in range(2):
        optimiser_step(state, made.batch, made.objective)
    return {n: tensor.numpy().tobytes() for n, tensor in state.state_tensors().items() if n.startswith("network/")}


def rates(_: Bench, name: str, settings: Settings) -> Any:
    """Factors on the learning rate over ten steps."""
    recipe: Any = read_recipe(name, settings)
    return [lr_factor(step, 10, recipe.actor.schedule) for step in range(10)]


def maths(_: Bench, name: str, settings: Settings) -> Any:
    """Credit, loss terms, counts and metrics on fixed columns; the KL controller's next state; the graph."""
    recipe: Any = read_recipe(name, settings)
    ppo = hasattr(recipe, "ppo")
    method = recipe.ppo if ppo else recipe.grpo
    drawn = policy_batch(groups=4, size=4)
    generator = np.random.default_rng(3)
    batch = drawn.with_columns(
        rows={
            "rewards": generator.normal(0, 1, drawn.rows).astype(np.float32),
            "finished": np.arange(drawn.rows) % 3 != 0,
            "valid": np.ones(drawn.rows, bool),
            "task": np.arange(drawn.rows) // 4 % 2,
        }
    )
    columns = columns_of(batch)
    credit = (gae_credit if ppo else group_credit)(method, columns)
    setup = setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=1)
    found: list[Any] = [graph_of(recipe), {k: v.numpy().tobytes() for k, v in credit.items()}]
    shift = torch.linspace(-0.6, 0.6, batch.tokens)
    outputs = {
        "logprobs": torch.nan_to_num(columns["old_logprobs"]) + shift,
        "entropy": torch.full((batch.tokens,), 1.5),
        "values": torch.nan_to_num(columns["values"]) + shift,
    }
    for role in setup.roles.values():
        if role.training is not None:
            objective = objective_of(role.training.objective)
            terms, metrics = objective.terms(outputs, {**columns, **credit})
            found += [objective.counts(columns), {n: float(t) for n, t in terms.items()}]
            found += [{n: metric.value for n, metric in metrics.items()}]
    if method.kl.place == "reward":
        state = controller(method.kl).start()
        found.append(controller(method.kl).update(state, 3.0, 64).to_json())
    return json.loads(json.dumps(found, default=repr))


def composed(_: Bench, name: str, settings: Settings) -> Any:
    """Rewards of samples of two domains by the recipe's components, after statistics of two."""
    recipe: Any = read_recipe(name, settings)
    truths = [Score(1.0), Score(-2.0), Score(0.5), Score(3.0), Failed("timeout"), Failed("wrong_format"), Score(1.5)]
    grammar = [Score(1.0), Score(0.0), Abstain(), Score(0.25), Score(1.0), Score(1.0), Score(1.0)]
    rows = [
        {"truth": truth, "grammatical": rule, "reward_model": Score(-float(n))}
        for n, (truth, rule) in enumerate(zip(truths, grammar, strict=True))
    ]
    about = [About("ab"[n > 2 and n < 6], 6 * n, "so it goes and so it goes and so it") for n in range(len(rows))]
    statistics = observe(recipe.reward, rows[:2], {}, about[:2])
    found = compose(recipe.reward, rows, statistics, about)
    return found.reward_R.tolist(), found.valid_R.tolist(), found.statistics


def failures(_: Bench, name: str, settings: Settings) -> Any:
    """Whether three failures of nine stop a run."""
    limit = read_recipe(name, settings).reward.failure_limit  # type: ignore[union-attr]
    scored = [s.with_scores(rule=Failed("crashed") if n < 3 else Score(1.0)) for n, s in enumerate(samples())]
    try:
        check_failures(scored, limit)
    except RopewalkError as error:
        return str(error)
    return "goes on"


# --- engine ---------------------------------------------------------------------------------------


def engine(_: Bench, name: str, settings: Settings) -> Any:
    """Steps to finish a crowd, the most rows at a time, and prompt passes."""
    config = read_recipe(name, settings).engine  # type: ignore[union-attr]
    body = tiny_llama()
    from tests.fakes import byte_tokenizer

    made = NativeEngine(body, byte_tokenizer(), config)
    made.publish(body, version_of(body))
    record = SamplingRecord(1.0, 6, ())
    made.submit([Request("p", "p", n, n, np.arange(1, 9), record) for n in range(12)])
    steps, most = 0, 0
    while not made._scheduler.idle:
        made.step()
        steps, most = steps + 1, max(most, made._scheduler.running)
    waves = _waves([Fresh(np.arange(8), (n,)) for n in range(12)], config.prefill_tokens)
    return steps, most, sum(1 for _ in waves)


# --- tasks ----------------------------------------------------------------------------------------


def read(_: Bench, name: str, settings: Settings) -> Any:
    """The records of a recipe's data, or why there are none."""
    recipe: Any = read_recipe(name, settings)
    try:
        if recipe.method == "reward_model":
            return pairs(recipe.data)[0]
        if recipe.method == "process_reward_model":
            return labelled_steps(recipe.data, recipe.data.step)[0]
        return list(read_text(recipe.data, recipe.seed, Silent()))
    except RopewalkError as error:
        return str(error)


SAID = ("so 2 + 5 is 7", "#### 7", "8", "boston is sunny")


def task(_: Bench, name: str, settings: Settings) -> Any:
    """Prompts of both splits, and what each scorer says of a few answers."""
    recipe: Any = read_recipe(name, settings)
    try:
        found = the_task(recipe.task, recipe.data, None)
    except RopewalkError as error:
        return str(error)
    prompts = [[(p.id, str(p.dialogue)) for p in found.split(split)] for split in ("train", "heldout")]
    first = found.split("train")[0]
    outcomes = [[repr(scorer(first, _sample(text))) for text in SAID] for scorer in found.scorers.values()]
    return found.name, prompts, outcomes


def _sample(text: str) -> Sample:
    from dataclasses import replace

    return replace(samples()[0], text=text, finish="stop")


# --- monitors -------------------------------------------------------------------------------------


def _histories() -> list[list[dict[str, float]]]:
    """Ten iterations of everything that can be wrong, each alone; the worst is in the last four."""
    well = {"grad_norm/actor": 1.0, "truncated": 0.0, "entropy": 1.0, "kl/token": 0.1, "group/no_variance": 0.0}
    wrong = [
        {"truncated": 0.95},
        {"group/no_variance": 1.0},
        {"grad_norm/actor": 0.0},
        {"score/truth/failed": 0.5},
        {"entropy": 0.05},
        {"kl/token": 1.5},
    ]
    found = []
    for change in wrong:
        found.append([well] * 10 + [{**well, **change}] * 10)
        found.append([well] * 10 + [{**well, **change}] * 4)
    return found


def diagnosed(_: Bench, name: str, settings: Settings) -> Any:
    """What the health rules say of runs with one thing wrong each."""
    health = read_recipe(name, settings).health  # type: ignore[union-attr]
    return [None if (d := diagnose(h, health)) is None else (d.rule, d.action, d.message) for h in _histories()]


def kept(_: Bench, name: str, settings: Settings) -> Any:
    """Which of 100 samples are kept of some iterations."""
    record = read_recipe(name, settings).record  # type: ignore[union-attr]
    rewards = [float(n % 17) for n in range(100)]
    return [choose(rewards, iteration, record) for iteration in (1, 2, 3, 10)]


# --- chains ---------------------------------------------------------------------------------------


def stages(_: Bench, name: str, settings: Settings) -> Any:
    """Each stage's own resolved recipe under its name, or why the chain is refused."""
    chain: Any = read_recipe(name, settings)
    try:
        check_stages(chain)
    except (RopewalkError, ConfigError) as error:
        return str(error)
    return [(stage.name, stage_recipe(chain, stage, Path("chain"))) for stage in chain.stage]


def together(bench: Bench, name: str, settings: Settings) -> Any:
    """Whether two stages of a chain were ever at work at the same time."""
    notes: list[str] = []

    class Notes(Listener):
        def advance(self, done: int, note: str = "") -> None:
            notes.append(note)

    train(name, set=settings, out=bench.folder / f"chain-{settings.get('at_once', 1)}", progress=Notes())
    return any("  " in note for note in notes)


class _Service:
    """Stands for an outside package: notes how it was opened."""

    def __init__(self) -> None:
        self.opened: dict[str, str] = {}

    def init(self, **settings: object) -> "_Service":
        self.opened = {n: str(v) for n, v in settings.items() if n in ("project", "mode")}
        return self

    def Settings(self, **_: object) -> None: ...

    def finish(self) -> None: ...


def sinks(bench: Bench, name: str, settings: Settings) -> Any:
    """Which sinks are opened and how; services by a stand-in for their package, which the tests leave alone."""
    services = {package: _Service() for package in ("wandb", "trackio")}
    known = {package: sys.modules.get(package) for package in services}
    sys.modules.update(services)  # type: ignore[arg-type]
    folder = Path(tempfile.mkdtemp(dir=bench.folder))
    try:
        for sink in open_sinks(read_recipe(name, settings).record.sinks, folder):  # type: ignore[union-attr]
            sink.close()
    finally:
        for package, module in known.items():
            sys.modules.pop(package) if module is None else sys.modules.update({package: module})
    return {package: service.opened for package, service in services.items()}, sorted(p.name for p in folder.iterdir())


OBSERVERS: Mapping[str, Callable[[Bench, str, Settings], Any]] = {
    one.__name__: one
    for one in (
        run,
        rewarded,
        step_ids,
        judged,
        shut,
        online,
        setup,
        graph,
        threads,
        micro,
        saved_bytes,
        model,
        dtype,
        stepped,
        rates,
        maths,
        composed,
        failures,
        engine,
        read,
        task,
        diagnosed,
        kept,
        stages,
        together,
        sinks,
        played,
        scoring_threads,
        advised,
        labelled,
        order,
        flat,
        sifted,
        selected,
        opened,
    )
}
RUNS: Sequence[str] = ("run", "together", "selected", "labelled")
"""Observers that train."""
