"""Scorers of programs: share of tests passed, or the layered reward; one evaluation per completion, however many ask.

A program that runs into a limit, crashes or prints nonsense is a wrong answer with a reason: its score is what its
other tests earn, and the share of tests that ended so is an outcome of its own (`code_timeout`, `code_crashed`, …).
Failed is said of three things only: no program in the completion (wrong_format; the layered reward gives it 0), a test
that cannot be put to any program (refused), and a sandbox that does not work (crashed).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.code.evaluate import Evaluation, Forbidden, evaluate
from ropewalk.tasks.scoring.code.extract import PYTHON, last_block
from ropewalk.tasks.scoring.code.layers import LAYERS, Layer, Layering, layer_outcomes, layered
from ropewalk.tasks.scoring.code.once import Once
from ropewalk.tasks.scoring.code.suite import suite_of
from ropewalk.tasks.scoring.run import outcome_of
from ropewalk.tasks.scoring.sandbox.box import SandboxFault
from ropewalk.tasks.scoring.sandbox.shared import Pool
from ropewalk.tasks.task import Scorer

REMEMBERED = 4096
"""Evaluations kept, so that the scorers of one completion share one run of it."""
ENDS = ("wrong", "raised", "broken", "timeout", "memory", "output", "files", "crashed", "not_reached")


@dataclass(frozen=True, slots=True)
class Extraction:
    """Where a completion has its program."""

    form: Literal["block", "continuation"] = "block"
    """The last fenced block, or the whole text as what follows info["prefix"]."""
    tags: tuple[str, ...] = PYTHON
    """Tags of the blocks that count; "" is none."""
    open_ended: bool = False
    """Take a last block that never closes: for engines that stop at the fence."""

    def program(self, prompt: Prompt, text: str) -> str | None:
        """The whole program, or None if the completion has none. info["prelude"] goes before a block."""
        if self.form == "continuation":
            return str(prompt.info.get("prefix", "")) + text
        block = last_block(text, self.tags, open_ended=self.open_ended)
        prelude = str(prompt.info.get("prelude", ""))
        return block if block is None or not prelude else f"{prelude}\n{block}"


class CodeEvaluator:
    """Evaluates each (prompt, completion) once. From any thread; two that ask for the same wait for one run."""

    def __init__(
        self,
        pool: Pool,
        *,
        extraction: Extraction | None = None,
        forbidden: Forbidden | None = None,
        hidden_after: Callable[[float], bool] = lambda _: True,
    ) -> None:
        """Without `forbidden` the text is not analysed."""
        self._pool = pool
        self._extraction = extraction or Extraction()
        self._forbidden = forbidden
        self._hidden_after = hidden_after
        self._known: Once[Evaluation | Failed | None] = Once(REMEMBERED)

    def __call__(self, prompt: Prompt, sample: Sample) -> Evaluation | Failed | None:
        """The evaluation; None without a program; Failed where the sandbox did not work, which is not remembered.

        Raises InputError for a prompt whose tests cannot be used.
        """
        return self._known.get(
            _key(prompt, sample),
            lambda: self._evaluate(prompt, sample),
            keep=lambda found: not isinstance(found, Failed),
        )

    def _evaluate(self, prompt: Prompt, sample: Sample) -> Evaluation | Failed | None:
        suite = suite_of(prompt)
        source = self._extraction.program(prompt, sample.text)
        if source is None:
            return None
        try:
            return self._pool.run(
                lambda box: evaluate(box, source, suite, forbidden=self._forbidden, hidden_after=self._hidden_after)
            )
        except SandboxFault as fault:
            return Failed("crashed", str(fault)[:200])


class CodeScorer:
    """The share of all tests passed, public and hidden, or all or nothing."""

    def __init__(self, evaluator: CodeEvaluator, credit: Literal["all", "share"] = "all") -> None:
        self.evaluator = evaluator
        self.credit = credit

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        found = self.evaluator(prompt, sample)
        if found is None:
            return Failed("wrong_format", "no block of code")
        if isinstance(found, Failed):
            return found
        if found.fault:
            return Failed("refused", found.fault)
        share = found.share("passed")
        return Score(share if self.credit == "share" else float(share == 1.0))


def code_scorers(
    pool: Pool, *, credit: Literal["all", "share"] = "all", extraction: Extraction | None = None
) -> dict[str, Scorer]:
    """`code`, and beside it the share of tests by how else they ended: `code_timeout`, `code_raised`, …"""
    evaluator = CodeEvaluator(pool, extraction=extraction)
    return {"code": CodeScorer(evaluator, credit)} | _ends(evaluator)


def layered_scorers(
    pool: Pool,
    *,
    layering: Layering | None = None,
    extraction: Extraction | None = None,
    forbidden: Forbidden | None = None,
    judge: Scorer | None = None,
) -> dict[str, Scorer]:
    """`code` (the layered reward), each layer by itself (`code_format`, `code_public`, …), and how tests ended.

    `judge` fills the judge's slot; it is asked only about programs that the gates let through, and answers in [0, 1].
    """
    order = layering or Layering()
    evaluator = CodeEvaluator(
        pool, extraction=extraction, forbidden=forbidden or Forbidden(), hidden_after=order.opens_hidden
    )
    rewards = Layered(evaluator, order, judge)
    layers: dict[str, Scorer] = {f"code_{layer}": rewards.layer(layer) for layer in LAYERS}
    return {"code": rewards} | layers | _ends(evaluator)


class Layered:
    """The layered reward, and each of its layers."""

    def __init__(self, evaluator: CodeEvaluator, layering: Layering, judge: Scorer | None) -> None:
        self.evaluator = evaluator
        self._layering = layering
        self._judge = judge
        self._judged: Once[Outcome] = Once(REMEMBERED)

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        return self._both(prompt, sample)[1]

    def layer(self, layer: Layer) -> Scorer:
        """One layer's outcome, behind the gates before it."""
        return lambda prompt, sample: self._both(prompt, sample)[0][layer]

    def _both(self, prompt: Prompt, sample: Sample) -> tuple[dict[Layer, Outcome], Outcome]:
        found = self.evaluator(prompt, sample)
        if isinstance(found, Failed):
            return dict.fromkeys(LAYERS, found), found
        suite = suite_of(prompt)
        layering = self._layering.fitted(public=bool(suite.public), hidden=bool(suite.hidden))
        outcomes = layer_outcomes(found, len(suite.public), None)
        gated, _ = layered(outcomes | {"judge": Score(0.0)}, layering)
        if self._judge is None or not isinstance(gated["judge"], Score):
            return layered(outcomes, layering)
        return layered(outcomes | {"judge": self._ask(self._judge, prompt, sample)}, layering)

    def _ask(self, judge: Scorer, prompt: Prompt, sample: Sample) -> Outcome:
        """The judge's word, asked once per completion."""
        return self._judged.get(_key(prompt, sample), lambda: outcome_of(judge(prompt, sample), "judge", sample))


def _key(prompt: Prompt, sample: Sample) -> tuple[str, bytes]:
    return prompt.id, hashlib.blake2b(sample.text.encode("utf-8", "surrogatepass")).digest()


def _ends(evaluator: CodeEvaluator, ends: Sequence[str] = ENDS) -> dict[str, Scorer]:
    def share_of(end: str) -> Scorer:
        def share(prompt: Prompt, sample: Sample) -> Outcome:
            found = evaluator(prompt, sample)
            if not isinstance(found, Evaluation) or not found.counts:
                return Abstain("no test was run")
            return Score(found.share(end))

        return share

    return {f"code_{end}": share_of(end) for end in ends}
