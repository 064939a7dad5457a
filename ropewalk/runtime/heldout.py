"""Evaluation inside training: the weights as they are, on held-out rows, always the same ones with the same seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ropewalk.data.calibration import calibration_error
from ropewalk.data.order import PART
from ropewalk.records.metric import Metric
from ropewalk.records.version import Draw
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.experience import TokenisedPrompts
from ropewalk.runtime.learned.combine import sigmoid
from ropewalk.runtime.prepare import Pair
from ropewalk.runtime.rollouts import Rollouts
from ropewalk.tasks.scoring.run import outcome_metrics
from ropewalk.training.packing import Row, StepRow, pack_pairs, pack_rows, pack_steps


@dataclass(frozen=True, slots=True)
class HeldOutPrompts:
    """Scores of the policy on held-out prompts."""

    rollouts: Rollouts
    prompts: TokenisedPrompts
    samples: int

    def __call__(self, iteration: int) -> Mapping[str, Metric]:
        asked = list(zip(self.prompts.prompts, self.prompts.ids, strict=True))
        scored = self.rollouts.draw(asked, group_size=self.samples, iteration=Draw.INSIDE_TRAINING)
        found = {f"eval/{name}": metric for name, metric in outcome_metrics([s.scores for s in scored]).items()}
        task = self.rollouts.task
        solved = [task.solves(sample) for sample in scored]
        found["eval/pass_at_1"] = Metric.mean(sum(solved), len(solved))
        for name in task.parts:
            of_part = [solves for solves, sample in zip(solved, scored, strict=True) if sample.info[PART] == name]
            found[f"eval/task/{name}/pass_at_1"] = Metric.mean(sum(of_part), len(of_part))
        return found


@dataclass(frozen=True, slots=True)
class HeldOutTexts:
    """Likelihood of held-out rows: −log π per target token."""

    crew: Crew
    rows: Sequence[Row]

    def __call__(self, iteration: int) -> Mapping[str, Metric]:
        batch = pack_rows(self.rows)
        outputs = frozenset({"logprobs"})
        found = self.crew.call("forward", role="actor", batch=batch, outputs=outputs, sampling=None).result()
        targets = batch.token_columns["policy_mask"].astype(bool)
        nll = -float(found["logprobs"][targets].astype(float).sum())
        return {"eval/nll_per_token": Metric.mean(nll, int(targets.sum()))}


@dataclass(frozen=True, slots=True)
class PairJudge:
    """Accuracy of the reward model on held-out pairs; a tie counts as neither right nor wrong."""

    crew: Crew
    pairs: Sequence[Pair]

    def __call__(self, iteration: int) -> Mapping[str, Metric]:
        batch = pack_pairs(self.pairs)
        outputs = frozenset({"scores"})
        scores = self.crew.call("forward", role="reward", batch=batch, outputs=outputs, sampling=None).result()
        margins = scores["scores"][0::2] - scores["scores"][1::2]
        decided = int((margins != 0).sum())
        return {
            "eval/pair_accuracy": Metric.mean(int((margins > 0).sum()), decided),
            "eval/pair_ties": Metric.mean(len(margins) - decided, len(margins)),
        }


@dataclass(frozen=True, slots=True)
class StepJudge:
    """A process reward model on held-out steps: how often it is on the label's side of ½, and its calibration."""

    crew: Crew
    rows: Sequence[StepRow]

    def __call__(self, iteration: int) -> Mapping[str, Metric]:
        batch, outputs = pack_steps(self.rows), frozenset({"token_scores"})
        found = self.crew.call("forward", role="reward", batch=batch, outputs=outputs, sampling=None).result()
        ends = batch.token_columns["step_end"].astype(bool)
        scores, labels = (
            found["token_scores"][ends].astype(float),
            batch.token_columns["step_label"][ends].astype(float),
        )
        values, decided = sigmoid(scores), (labels != 0.5) & (scores != 0)
        right = ((scores > 0) == (labels > 0.5))[decided]
        return {
            "eval/step_accuracy": Metric.mean(int(right.sum()), len(right)),
            "eval/step_brier": Metric.mean(float(((values - labels) ** 2).sum()), len(values)),
            "eval/step_calibration_error": Metric.mean(calibration_error(values, labels), 1),
        }
