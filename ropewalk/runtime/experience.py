"""Where an iteration's batch comes from: fresh rollouts, recorded rollouts, or rows of a data set.

Every source obeys one protocol, so the loop is the same for PPO, GRPO, replay, SFT and reward models. A source is
a pure function of (iteration, ledger state, statistics of the rewards): asked again after a resume it gives the same
batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ropewalk.data.ledger import DataLedger
from ropewalk.data.order import PART, PromptOrder
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.files import read_samples, rollout_file
from ropewalk.records.metric import Metric
from ropewalk.records.packed import PackedBatch
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.runtime.flat import ENDED, FlatRule, Judged, Statistics
from ropewalk.runtime.rollouts import Rollouts
from ropewalk.training.packing import pack_samples, sampling_of

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Experience:
    """What one iteration trains on."""

    batch: PackedBatch
    samples: Sequence[Sample] = ()
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    sampling: SamplingRecord | None = None
    """The record the samples were drawn under; None for supervised rows."""
    lost: int = 0
    """Rollouts that failed or were aborted: they are not among the samples, and nothing is trained on them."""
    dropped: Sequence[Sample] = ()
    """Samples of groups that teach nothing: drawn and measured, not trained on."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """Of the gathering itself."""


class Source(Protocol):
    """Gives iteration `iteration` its experience and the ledger's next state."""

    def gather(
        self, iteration: int, ledger: Mapping[str, Json], rewards: Statistics = MappingProxyType({})
    ) -> tuple[Experience, Mapping[str, Json]]:
        """The batch of this iteration, by the statistics that rewards have now; the state to hand in next time."""

    def check(self, ledger: Mapping[str, Json]) -> None:
        """Refuse a saved place in other data than these."""


def place_of(start: DataLedger, ledger: Mapping[str, Json]) -> DataLedger:
    """Where the run stands in its data: the saved place, refused if the data are others than at the start."""
    return DataLedger.resume(ledger, start.fingerprint) if ledger else start


@dataclass(frozen=True, slots=True)
class TokenisedPrompts:
    """A task's prompts with the ids the policy reads."""

    prompts: Sequence[Prompt]
    ids: Sequence[np.ndarray]

    def __len__(self) -> int:
        return len(self.prompts)


@dataclass(frozen=True, slots=True)
class FreshRollouts:
    """Prompts in their order, samples from the engine, scores from the task.

    Invariant: what an iteration draws, in however many rounds, follows from its number, the place in the order, the
    rewards' statistics and the weights; every prompt drawn is consumed, and no two samples of it share a seed.
    """

    rollouts: Rollouts
    prompts: TokenisedPrompts
    order: PromptOrder
    per_iteration: int
    group_size: int
    share_prompts: bool
    iterations: int = 1
    """Of the whole run: a curriculum follows the share of them that is over."""
    flat: FlatRule | None = None
    """None: groups without variance train like any other."""

    def check(self, ledger: Mapping[str, Json]) -> None:
        self.order.at(ledger)

    def gather(
        self, iteration: int, ledger: Mapping[str, Json], rewards: Statistics = MappingProxyType({})
    ) -> tuple[Experience, Mapping[str, Json]]:
        progress = min(max(iteration, 0) / self.iterations, 1.0)
        chosen, place = self.order.next(self.order.at(ledger), self.per_iteration, progress)
        samples = self.draw(iteration, chosen)
        if self.flat is None:
            return self._packed(chosen, samples), place.state()
        while (judged := self._judged(chosen, samples, rewards)).decision.draw:
            more, place = self.order.next(place, judged.decision.draw, progress)
            samples += self.draw(iteration, more, earlier=chosen)
            chosen += more
        experience = self._packed(chosen, [sample for sample in samples if sample.group_id in judged.kept])
        dropped = [sample for sample in samples if sample.group_id not in judged.kept]
        whole = [sample for sample in dropped if sample.finish in ENDED]
        return replace(
            experience,
            lost=experience.lost + len(dropped) - len(whole),
            dropped=whole,
            metrics=judged.metrics(self.flat.edges),
        ), place.state()

    def experience(self, iteration: int, chosen: Sequence[int]) -> Experience:
        """Generate and score for these prompts."""
        return self._packed(chosen, self.draw(iteration, chosen))

    def draw(self, iteration: int, chosen: Sequence[int], *, earlier: Sequence[int] = ()) -> list[Sample]:
        """Scored samples of these prompts, after those that were drawn in this iteration before."""
        asked = [(self.prompts.prompts[i], self.prompts.ids[i]) for i in chosen]
        before = [self.prompts.prompts[i].id for i in earlier]
        return self.rollouts.draw(asked, group_size=self.group_size, iteration=iteration, earlier=before)

    def _judged(self, chosen: Sequence[int], samples: Sequence[Sample], rewards: Statistics) -> Judged:
        assert self.flat is not None
        by_id = {prompt.id: prompt for prompt in (self.prompts.prompts[i] for i in chosen)}
        return self.flat.decide(samples, by_id, self.per_iteration, rewards)

    def _packed(self, chosen: Sequence[int], samples: Sequence[Sample]) -> Experience:
        asked = [self.prompts.prompts[i] for i in chosen]
        return packed_experience(asked, samples, share_prompts=self.share_prompts)


def packed_experience(prompts: Sequence[Prompt], samples: Sequence[Sample], *, share_prompts: bool) -> Experience:
    """Scored samples as a batch; lost rollouts are left out and counted."""
    whole = [sample for sample in samples if sample.finish in ENDED]
    if not whole:
        raise RunStopped(f"none of {len(samples)} rollouts came to an end: see to the engine, then resume")
    by_id = {prompt.id: prompt for prompt in prompts}
    batch = sample_batch(whole, share_prompts=share_prompts)
    return Experience(batch, whole, by_id, sampling_of(whole), lost=len(samples) - len(whole))


def sample_batch(samples: Sequence[Sample], *, share_prompts: bool) -> PackedBatch:
    """Samples as rows, with whether each is finished, and the number of its task."""
    names = [str(sample.info.get(PART, "")) for sample in samples]
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    rows = {
        "finished": np.array([sample.finish == "stop" for sample in samples]),
        "task": np.array([numbers[name] for name in names], np.int64),
    }
    return pack_samples(samples, share_prompts=share_prompts).with_columns(rows=rows)


@dataclass(frozen=True, slots=True)
class RecordedRollouts:
    """Rollouts of an earlier run, scored as they were: training without an engine, and without the task."""

    folder: Path
    text_of: Callable[[npt.NDArray[np.int64]], str]
    """Decodes a prompt's tokens, for whoever reads the samples."""
    share_prompts: bool

    def check(self, ledger: Mapping[str, Json]) -> None:
        """Nothing: the place in a recording is the iteration's number."""

    def gather(
        self, iteration: int, ledger: Mapping[str, Json], rewards: Statistics = MappingProxyType({})
    ) -> tuple[Experience, Mapping[str, Json]]:
        path = rollout_file(self.folder, iteration + 1)  # files are numbered as the metrics are, from 1
        if not path.exists():
            raise InputError(
                f"{path} is not there: the run recorded no rollouts of iteration {iteration + 1}; "
                "record them with record.rollouts = true"
            )
        samples = read_samples(path)
        batch = sample_batch(samples, share_prompts=self.share_prompts)
        return Experience(batch, samples, self.prompts(samples), sampling_of(samples)), ledger

    def prompts(self, samples: Sequence[Sample]) -> dict[str, Prompt]:
        """The prompts as the policy read them, back in text."""
        first = {sample.prompt_id: sample for sample in reversed(samples)}
        return {name: Prompt(name, self.text_of(s.tokens_T[: _prompt_tokens(s)])) for name, s in first.items()}


def _prompt_tokens(sample: Sample) -> int:
    return int(np.argmax(sample.policy_mask_T)) if sample.policy_mask_T.any() else len(sample.tokens_T)


def next_rows(place: DataLedger, count: int, epochs: int) -> tuple[list[int], DataLedger]:
    """The next rows of so many epochs, fewer at their end, and the place after them."""
    chosen, after = place.next(min(count, epochs * place.size - place.consumed))
    return [int(i) for i in chosen], after


@dataclass(frozen=True, slots=True)
class EpochRows(Generic[R]):
    """Tokenised rows of a data set, taken exactly once an epoch in an order drawn from the seed."""

    rows: Sequence[R]
    pack: Callable[[Sequence[R]], PackedBatch]
    """`pack_rows` of demonstrations and documents, `pack_pairs`, or `pack_steps`."""
    start: DataLedger
    per_iteration: int
    epochs: int

    def check(self, ledger: Mapping[str, Json]) -> None:
        place_of(self.start, ledger)

    def gather(
        self, iteration: int, ledger: Mapping[str, Json], rewards: Statistics = MappingProxyType({})
    ) -> tuple[Experience, Mapping[str, Json]]:
        chosen, place = next_rows(place_of(self.start, ledger), self.per_iteration, self.epochs)
        return Experience(self.pack([self.rows[i] for i in chosen])), place.state()
