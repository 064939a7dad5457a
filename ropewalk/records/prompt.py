"""What a policy is asked, and the rows it is taught from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Speaker
    content: str


Dialogue: TypeAlias = str | tuple[Message, ...]
"""Plain text (tokenised as it stands) or a conversation (rendered by the model's chat template)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question. `id` is stable over runs and unique in its task: seeds and accounting hang on it."""

    id: str
    dialogue: Dialogue
    gold: Json = None
    """The reference answer, for scorers; never shown to the policy."""
    info: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """Plain text to continue pretraining on; every token after the first is a target."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A dialogue and the completion to imitate; only the completion's tokens are targets."""

    id: str
    dialogue: Dialogue
    completion: str


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two completions of one dialogue, the first preferred. Equal ones are refused by the reader."""

    id: str
    dialogue: Dialogue
    chosen: str
    rejected: str


@dataclass(frozen=True, slots=True)
class LabelledSteps:
    """A completion in steps, each with the chance in [0, 1] that what has been said so far comes out right."""

    id: str
    dialogue: Dialogue
    steps: tuple[str, ...]
    """Without the separators between them."""
    labels: tuple[float, ...]
    finished: bool = True
    """Whether the last step ends the completion; False: a separator follows, and more."""
