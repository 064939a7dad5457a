"""A worker: the plain SPMD class that hosts every role's weights on one rank and runs its calls.

It knows no recipe, no loop and no file but those it is told to save or load. With world size 1 it needs no
process group. Every rank builds the same weights from the same setup, so nothing is sent at the start.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from ropewalk.algorithms.config import GRPO, PPO, SFT, ProcessRewardModel, RewardModel
from ropewalk.algorithms.objectives import (
    Objective,
    actor_objective,
    critic_objective,
    joint_objective,
    pairwise_objective,
    process_objective,
    sft_objective,
)
from ropewalk.models.export import save_policy, save_scorer
from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.load import LoadedModel, fresh_policy, load_policy, load_scorer
from ropewalk.models.network import sharpen
from ropewalk.parallel.groups import Group
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Completion, Request, SamplingRecord
from ropewalk.records.version import PolicyVersion
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.rollout.episode import answer, completions
from ropewalk.rollout.inbox import Inbox
from ropewalk.rollout.native.engine import NativeEngine
from ropewalk.rollout.probe import probe
from ropewalk.runtime.names import of_role
from ropewalk.runtime.roles import (
    FromPolicy,
    FromRole,
    FromScorer,
    FromSizes,
    ObjectiveSpec,
    RoleSetup,
    Setup,
    Training,
)
from ropewalk.training.forward import forward
from ropewalk.training.state import TrainState
from ropewalk.training.step import gradients, train_batch

Column = npt.NDArray[np.generic]
SMALL_PARAMETERS = 20_000_000
"""Below this one thread is fastest (a 1M-parameter model loses more to waking threads than it gains)."""
PROBE_TOKENS = 6


@dataclass
class Role:
    """A role's weights on this rank, with its optimiser if it is trained."""

    model: LoadedModel
    state: TrainState | None
    objective: Objective | None
    training: Training | None


def objective_of(spec: ObjectiveSpec) -> Objective:
    """The objective a setup names."""
    match spec.kind, spec.config:
        case "actor", PPO() | GRPO():
            return actor_objective(spec.config)
        case "critic", PPO():
            return critic_objective(spec.config)
        case "joint", PPO():
            return joint_objective(spec.config)
        case "sft", SFT():
            return sft_objective(spec.config)
        case "pairwise", RewardModel():
            return pairwise_objective(spec.config)
        case "process", ProcessRewardModel():
            return process_objective(spec.config)
    raise RuntimeError(f"no objective {spec.kind} for {type(spec.config).__name__}")


def choose_device(name: str) -> torch.device:
    """The device a recipe names; `auto` takes an accelerator when there is one. `InputError` if it is not there."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == "auto":
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"hardware.device = {name!r} is no device torch knows: use auto, cpu or cuda") from error
    if device.type != "cpu" and (found is None or found.type != device.type):
        raise InputError(f"hardware.device = {name!r} is not on this machine: use auto or cpu")
    return device


class Worker:
    """All roles of a run on one rank."""

    def __init__(self, setup: Setup, group: Group) -> None:
        self.setup = setup
        self.group = group
        self.device = choose_device(setup.device)
        self.roles: dict[str, Role] = {}
        for name, role in setup.roles.items():
            self.roles[name] = self._build(role)
        torch.set_num_threads(self._threads())
        self.engine: NativeEngine | None = None
        if setup.engine is not None:
            actor = self.roles["actor"].model
            self.engine = NativeEngine(actor.network, actor.tokenizer, setup.engine)
            version = self.publish()
            # Once a run is enough: every iteration compares both sides on all of its own samples.
            probe(self.engine, actor.network, version, SamplingRecord(1.0, PROBE_TOKENS, actor.eos_ids))
        self.writers = {role: self._writer(role, config) for role, config in setup.writers.items()}

    # -- calls -------------------------------------------------------------------------------------------------

    def answer(self, inbox: Inbox, heard: Callable[[Completion], None]) -> None:
        """Complete what comes through the inbox until it is closed; `heard` gets each completion as it ends."""
        if self.engine is None:
            raise RuntimeError("this worker was set up without an engine")
        answer(self.engine, inbox, heard)

    def write(self, role: str, requests: Sequence[Request]) -> list[Completion]:
        """What another role than the actor writes, in the order of the requests."""
        return completions(self.writers[role], requests)

    def forward(
        self, role: str, batch: PackedBatch, outputs: frozenset[str], sampling: SamplingRecord | None
    ) -> dict[str, Column]:
        """Columns computed by a role without gradients."""
        return forward(
            self.roles[role].model.network,
            batch,
            outputs=outputs,
            sampling=sampling,
            token_budget=self.setup.micro_batch_tokens,
            device=self.device,
            precision=self.setup.precision,
        )

    def train(
        self, role: str, batch: PackedBatch, iteration: int, sampling: SamplingRecord | None
    ) -> dict[str, Metric]:
        """All optimiser steps of one train call; gradients are summed over the group."""
        state, objective, training = self._trained(role)
        result = train_batch(
            state,
            batch,
            objective,
            sampling=sampling,
            epochs=training.epochs,
            minibatches=training.minibatches,
            seed=(self.setup.seed, iteration),
        )
        return of_role(result, role)

    def gradients(self, role: str, batch: PackedBatch, sampling: SamplingRecord | None) -> dict[str, Column]:
        """The gradient of one optimiser step over the whole batch, by parameter name; nothing is updated."""
        state, objective, _ = self._trained(role)
        found = gradients(state, batch, objective, sampling=sampling)
        return {name: grad.detach().cpu().numpy() for name, grad in found.items()}

    def publish(self) -> PolicyVersion:
        """Hand the actor's present weights to the engine under a new version."""
        version = PolicyVersion(self.steps("actor"), self.fingerprint("actor"))
        if self.engine is not None:
            self.engine.publish(self.roles["actor"].model.network, version)
        return version

    # -- state -------------------------------------------------------------------------------------------------

    def steps(self, role: str) -> int:
        state = self.roles[role].state
        return state.step if state is not None else 0

    def fingerprint(self, role: str) -> str:
        return fingerprint(self.roles[role].model.network)

    def state_tensors(self) -> dict[str, dict[str, torch.Tensor]]:
        """Per trained role: parameters and optimiser state, by name."""
        return {name: role.state.state_tensors() for name, role in self.roles.items() if role.state is not None}

    def load_state_tensors(self, tensors: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """Put saved tensors in place; the engine gets the restored weights. `InputError` if a role's are missing."""
        for name, role in self.roles.items():
            if role.state is not None:
                if name not in tensors:
                    raise InputError(f"the checkpoint has no role {name}: resume with the recipe it was saved by")
                role.state.load_state_tensors(tensors[name])
        if self.engine is not None:
            self.publish()

    def export(self, role: str, folder: Path) -> None:
        """Write a role as a plain Hugging Face folder; an earlier one is replaced once the new one is whole."""
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        save = save_scorer if "reward" in self.setup.roles[role].heads else save_policy
        save(self.roles[role].model, fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)

    def sharpen(self, role: str, factor: float) -> None:
        """Multiply a role's output head: bakes the sampling temperature 1/factor into the weights."""
        sharpen(self.roles[role].model.network, factor)

    # -- building ----------------------------------------------------------------------------------------------

    def _writer(self, role: str, config: NativeEngineConfig) -> NativeEngine:
        model = self.roles[role].model
        engine = NativeEngine(model.network, model.tokenizer, config)
        engine.publish(model.network, PolicyVersion(0, self.fingerprint(role)))
        return engine

    def _trained(self, role: str) -> tuple[TrainState, Objective, Training]:
        found = self.roles[role]
        if found.state is None or found.objective is None or found.training is None:
            raise RuntimeError(f"role {role} is not trained in this run")
        return found.state, found.objective, found.training

    def _build(self, setup: RoleSetup) -> Role:
        model = self._load(setup)
        model.network.to(self.device)
        training = setup.training
        if training is None:
            model.network.requires_grad_(False)
            return Role(model, None, None, None)
        state = TrainState(
            model.network,
            training.optimizer,
            training.schedule,
            total_steps=training.total_steps,
            device=self.device,
            precision=self.setup.precision,
            token_budget=self.setup.micro_batch_tokens,
            group=self.group,
        )
        return Role(model, state, objective_of(training.objective), training)

    def _load(self, setup: RoleSetup) -> LoadedModel:
        match setup.source:
            case FromPolicy(path, dtype):
                loaded = load_policy(path, dtype=dtype)
            case FromScorer(path, many_heads):
                loaded = load_scorer(path, many_heads=many_heads)
            case FromSizes(config, vocabulary, seed):
                loaded = fresh_policy(config, vocabulary.words, vocabulary.eos, vocabulary.pad, seed=seed)
            case FromRole(role):
                loaded = self.roles[role].model
                return replace(loaded, network=loaded.network.copy(setup.heads))
        if loaded.network.heads != setup.heads:
            loaded = replace(loaded, network=loaded.network.copy(setup.heads))
        return loaded

    def _threads(self) -> int:
        if self.setup.threads != "auto":
            return self.setup.threads
        parameters = max(sum(p.numel() for p in role.model.network.parameters()) for role in self.roles.values())
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return 1 if parameters < SMALL_PARAMETERS else max(1, cores // self.setup.processes)
