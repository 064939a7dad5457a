"""Which samples are kept for reading, and the form they are kept in.

Iterations kept whole are an even spread over the batch, so their distribution is that of the batch; the extreme ones
are marked and stay out of every distribution.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from ropewalk.monitors.config import Record
from ropewalk.records.prompt import Dialogue, Json
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, FailureReason, Outcome, Score

EPISODE = "episode"
"""Key of `Sample.info` under which a conversation with an environment stands."""
Kept: TypeAlias = Literal["spread", "extreme"]


def choose(rewards: Sequence[float | None], iteration: int, config: Record, *, last: bool = False) -> dict[int, Kept]:
    """Indices of the samples to keep, in order, and why.

    All samples (at most `samples_limit`, evenly spread) of the first, the last and every `samples_every`-th
    iteration; of each iteration the `extreme_samples` highest and lowest rewards. Iterations count from 1; None is a
    sample without a reward (abstained, failed), never extreme.
    """
    kept: dict[int, Kept] = {}
    count = len(rewards)
    if last or iteration <= 1 or iteration % config.samples_every == 0:
        wanted = min(count, config.samples_limit)
        kept.update({k * count // wanted: "spread" for k in range(wanted)})
    ranked = sorted((reward, index) for index, reward in enumerate(rewards) if reward is not None)
    lowest = ranked[: config.extreme_samples]
    highest = ranked[len(ranked) - min(config.extreme_samples, len(ranked)) :]
    for _, index in lowest + highest:
        kept.setdefault(index, "extreme")
    return dict(sorted(kept.items()))


def sample_record(
    sample: Sample,
    *,
    iteration: int,
    kept: Kept,
    prompt: Dialogue,
    reward: float | None,
    kl: float | None,
) -> dict[str, Json]:
    """One line of `samples.jsonl`. `kl` is the sum over the completion, in nats; scores are raw, before composition."""
    versions = sample.versions_T[sample.policy_mask_T]
    episode = {EPISODE: sample.info[EPISODE]} if EPISODE in sample.info else {}
    return {
        "iteration": iteration,
        "kept": kept,
        "prompt_id": sample.prompt_id,
        "group_id": sample.group_id,
        "index": sample.index,
        "version": int(versions.min()) if len(versions) else None,
        "version_last": int(versions.max()) if len(versions) else None,
        "prompt": dialogue_text(prompt),
        "completion": sample.text,
        "reward": reward,
        "scores": {name: outcome_shown(outcome) for name, outcome in sample.scores.items()},
        "kl": kl,
        "finish": sample.finish,
        "tokens": sample.completion_tokens,
        **episode,
    }


def dialogue_text(dialogue: Dialogue) -> str:
    """A prompt as a reader sees it: plain text as it stands, a conversation with a line naming each speaker."""
    if isinstance(dialogue, str):
        return dialogue
    return "\n\n".join(f"{message.role}:\n{message.content}" for message in dialogue)


def outcome_shown(outcome: Outcome) -> Json:
    """A number, or a sentence saying why there is none."""
    if isinstance(outcome, Abstain):
        return f"abstained: {outcome.reason}" if outcome.reason else "abstained"
    if isinstance(outcome, Failed):
        return f"failed ({outcome.reason}): {outcome.detail}" if outcome.detail else f"failed ({outcome.reason})"
    return outcome.value


def outcome_read(shown: object) -> Outcome | None:
    """The outcome that `outcome_shown` wrote; None for what it never writes."""
    if isinstance(shown, int | float) and not isinstance(shown, bool) and math.isfinite(shown):
        return Score(float(shown))
    if not isinstance(shown, str):
        return None
    kind, _, rest = shown.partition(": ")
    if kind == "abstained":
        return Abstain(rest)
    reason = kind.removeprefix("failed (").removesuffix(")")
    known = {name: name for name in get_args(FailureReason)}
    return Failed(known[reason], rest) if kind == f"failed ({reason})" and reason in known else None
