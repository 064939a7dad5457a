"""Which metric belongs where, what it is called and in what unit; unknown ones go to the last group.

A new metric needs a line here only to get a better title than its name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

REWARD, TASKS, ROPE, LANGUAGE, UPDATES, EVALUATION, OTHER = (
    "Reward and scores",
    "Tasks and prompts",
    "Distance from the reference",
    "What the policy says",
    "Updates",
    "Evaluation during training",
    "Other",
)
GROUPS = (REWARD, TASKS, ROPE, LANGUAGE, UPDATES, EVALUATION, OTHER)
"""In order of the page."""
NOTES = {
    REWARD: "What the policy is trained on, and what independent scorers say of the same samples.",
    TASKS: "Where several tasks train together, each by itself; and what was drawn and dropped.",
    ROPE: "KL is the rope: how far the policy has moved from its reference.",
    LANGUAGE: "Length, variety and form of the sampled completions.",
    UPDATES: "Losses, gradients and step sizes of the optimiser.",
    EVALUATION: "Held-out prompts, at the iterations where they were asked.",
    OTHER: "Metrics this page has no name for.",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """How one metric is shown."""

    name: str
    group: str
    title: str
    unit: str = ""
    """`share` (0..1, shown as a percentage) or a word for the axis."""
    note: str = ""
    family: str = ""
    """In a report of one run, metrics of one family share a chart."""
    label: str = ""
    """Name of the curve within its family."""


_Line = tuple[str, str, str, str, str, str]

# pattern, group, title, unit, family, note; \1 is what the pattern's first bracket matched
_CATALOGUE: tuple[_Line, ...] = (
    ("reward/mean", REWARD, "Reward", "", "", "Composed of the scores; what the policy is trained on."),
    ("reward/std", REWARD, "Spread of the reward", "", "", "Standard deviation over the samples of an iteration."),
    ("score/truth/mean", REWARD, "True score", "", "", "Known only in the laboratory; nothing is trained on it."),
    ("score/reward_model/mean", REWARD, "Reward-model score", "", "", "What the learned judge says."),
    ("score/grammatical/mean", LANGUAGE, "Grammatical", "share", "", "Completions that are in the language."),
    ("score/(.+)/mean", REWARD, r"Score: \1", "", "", ""),
    ("episode/reward", REWARD, "Reward of the world", "", "", "Summed over the turns of an episode."),
    ("episode/turns", LANGUAGE, "Turns", "turns", "", "Of the policy, in an episode."),
    (
        "episode/(calls|call_faults)",
        LANGUAGE,
        "Tool calls of an episode",
        "calls",
        "calls",
        "Faults could not be read.",
    ),
    ("episode/ended_(.+)", LANGUAGE, "How episodes end", "share", "ends", "By their world (done), or by a limit."),
    (
        "score/(.+/(?:failed(?:_[a-z_]+)?|abstained))",
        REWARD,
        "Samples without a score",
        "share",
        "unscored",
        "By scorer and reason.",
    ),
    ("score/(.+)/member/(.+)", REWARD, "Members of an ensemble", "", "member", "Each model's own mean score."),
    (
        "score/(.+)/spread",
        REWARD,
        r"Disagreement: \1",
        "",
        "",
        "Standard deviation over the members.",
    ),
    ("score/(.+)/head/(.+)", REWARD, "Heads of a reward model", "", "head", "Before their weights."),
    ("score/(.+)/steps", REWARD, r"Steps: \1", "steps", "", "Steps of a completion."),
    ("score/(.+)/step_value", REWARD, r"Value of a step: \1", "", "", "Mean over all steps."),
    (
        "judge/(.+/(?:orders_disagree|ties))",
        REWARD,
        "Comparisons that say little",
        "share",
        "judge",
        "Their orders prefer different answers, or neither.",
    ),
    ("judge/(.+)/position_bias", REWARD, r"Position bias: \1", "", "", "Mean P(the one shown first) - 1/2."),
    ("judge/(.+)/remembered", REWARD, r"Questions not asked again: \1", "share", "", "Their answers were known."),
    ("judge/(.+)/questions", REWARD, r"Questions: \1", "questions", "", "To the judge, in an iteration."),
    ("reward/invalid", REWARD, "Samples without a reward", "share", "", "Their scorers failed or abstained."),
    ("reward/(.+)", REWARD, r"Reward: \1", "", "", ""),
    ("task/(.+)/share", TASKS, "Share of the samples", "share", "task/share", "Of those trained on, by task."),
    ("task/(.+)/reward", TASKS, "Reward of each task", "", "task/reward", "Mean over its samples."),
    ("task/(.+)/length", TASKS, "Completion length of each task", "tokens", "task/length", "Mean over its samples."),
    (
        "task/(.+)/no_variance",
        TASKS,
        "Groups without contrast, by task",
        "share",
        "task/no_variance",
        "All rewards equal: they teach nothing.",
    ),
    ("task/(.+/score/.+)/failed", TASKS, "Samples not scored, by task", "share", "task/failed", "By task and scorer."),
    ("task/(.+/score/.+)", TASKS, "Scores of each task", "", "task/score", "By task and scorer."),
    ("task/(.+)", TASKS, r"Task: \1", "", "", ""),
    ("drawn/reward", TASKS, "Reward of all that was drawn", "", "", "Dropped groups included; without learned parts."),
    ("groups/drawn", TASKS, "Groups drawn", "groups", "", "To find those that teach something."),
    ("groups/short", TASKS, "Groups missing", "share", "", "The bound on the effort was reached before."),
    ("groups/dropped", TASKS, "Groups dropped", "share", "", "Of those drawn: all rewards equal."),
    (
        "groups/dropped/(low|high|middle|too_few)",
        TASKS,
        "Groups dropped, by why",
        "share",
        "groups/why",
        "All rewards the lowest of any, the highest, equal ones between, or too few.",
    ),
    ("groups/dropped/source/(.+)", TASKS, "Groups dropped, by source", "share", "groups/source", "Of its own groups."),
    (
        "groups/dropped/difficulty/(.+)",
        TASKS,
        "Groups dropped, by difficulty",
        "share",
        "groups/difficulty",
        "Of its own groups.",
    ),
    (
        "groups/dropped/tokens/(.+)",
        TASKS,
        "Groups dropped, by length",
        "share",
        "groups/tokens",
        "Mean tokens of the group's samples.",
    ),
    ("kl/token", ROPE, "KL per token", "nats per token", "", "Policy against reference, mean over tokens."),
    ("kl/sequence", ROPE, "KL per sequence", "nats", "", "Policy against reference, summed over a completion."),
    ("kl/k3_max", ROPE, "Largest k3 of a token", "nats", "", "An outlier here bends the loss of its whole batch."),
    ("kl/(?:beta|coefficient)", ROPE, "KL coefficient β", "", "", "How strongly the rope pulls."),
    ("kl/(.+)", ROPE, r"KL: \1", "nats", "", ""),
    ("entropy", LANGUAGE, "Entropy", "nats per token", "", "Of the distribution that was sampled from."),
    ("length/(mean)", LANGUAGE, "Completion length", "tokens", "length", "Sampled tokens, the end token included."),
    ("length/(.+)", LANGUAGE, "Completion length", "tokens", "length", "Sampled tokens, the end token included."),
    ("distinct", LANGUAGE, "Distinct completions", "share", "", "Different completions among those of an iteration."),
    ("truncated", LANGUAGE, "Truncated", "share", "", "Completions cut off at the length limit."),
    ("grammatical", LANGUAGE, "Grammatical", "share", "", "Completions that are in the language."),
    ("solved/(.+)", LANGUAGE, r"Solved: \1", "share", "", "Completions that the scorer calls right."),
    ("group/no_variance", UPDATES, "Groups without contrast", "share", "", "All rewards equal: they teach nothing."),
    ("steps/accuracy", UPDATES, "Step accuracy", "share", "", "Steps whose value is on their label's side of a half."),
    ("steps/brier", UPDATES, "Brier score of the steps", "", "", "Squared distance of value and label."),
    ("pairs/accuracy", UPDATES, "Pair accuracy", "share", "", "Pairs whose preferred answer scores higher."),
    ("loss/(.+)", UPDATES, r"Loss: \1", "", "", "As minimised: sign and coefficient applied."),
    ("policy/clip_fraction", UPDATES, "Clip fraction", "share", "", "Tokens whose ratio lies outside the clip range."),
    ("policy/ratio_max", UPDATES, "Largest ratio", "", "", "New over old probability of a sampled token."),
    ("policy/(.+)", UPDATES, r"Policy: \1", "", "", ""),
    ("value/explained_variance", UPDATES, "Explained variance", "", "", "Of the returns by the critic; 1 is perfect."),
    ("return/mean", UPDATES, "Mean return", "", "", "What the critic is taught."),
    ("value/(.+)", UPDATES, r"Critic: \1", "", "", ""),
    ("grad_norm/(.+)", UPDATES, "Gradient norm", "", "grad_norm", "Before clipping."),
    ("lr/(.+)", UPDATES, "Learning rate", "", "lr", ""),
    ("engine/logprob_gap_max", UPDATES, "Engine against trainer", "nats", "", "Largest gap between their log-probs."),
    ("group/(.+)", UPDATES, r"Groups: \1", "", "", ""),
    ("pairs/(.+)", UPDATES, r"Pairs: \1", "", "", ""),
    ("empty_step/(.+)", UPDATES, "Empty steps", "share", "empty_step", "Steps in which no token could be trained on."),
    ("engine/(.+)", UPDATES, r"Engine: \1", "", "", ""),
    ("tokens_per_second", UPDATES, "Throughput", "tokens per second", "", "Sampled tokens over the iteration's time."),
    ("rollout/(.+)", LANGUAGE, r"Rollout: \1", "", "", ""),
    ("eval/task/(.+)/pass_at_1", EVALUATION, "Evaluation: solved, by task", "share", "eval/task", "Held-out prompts."),
    ("eval/(.+)", EVALUATION, r"Evaluation: \1", "", "", ""),
)
_PATTERNS = tuple((re.compile(line[0]), number, line) for number, line in enumerate(_CATALOGUE))


def entry(name: str) -> Entry:
    """How this metric is shown."""
    return _find(name)[1]


def ordered(names: Iterable[str]) -> list[Entry]:
    """Entries in order of the page, without the times of calls, which have a section of their own."""
    found = [_find(name) for name in names if not is_call_time(name)]
    return [shown for _, shown in sorted(found, key=lambda pair: (pair[0], pair[1].name))]


def is_call_time(name: str) -> bool:
    return name.startswith("time/") and name.endswith("_seconds")


def call_of(name: str) -> str:
    """The call that a `time/<call>_seconds` metric times."""
    return name.removeprefix("time/").removesuffix("_seconds")


def _find(name: str) -> tuple[int, Entry]:
    for pattern, number, (_, group, title, unit, family, note) in _PATTERNS:
        if found := pattern.fullmatch(name):
            part = found.group(1).replace("_", " ") if found.groups() else ""
            shown = title.replace(r"\1", part)
            return number, Entry(name, group, shown, unit, note, family, part or shown)
    return len(_PATTERNS), Entry(name, OTHER, name, label=name)
