"""What has been said in an episode so far, as ids that are only ever appended to, and the sample it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ropewalk.records.prompt import Json, Message
from ropewalk.records.sample import Bools, Completion, Finish, Floats, Ints, Request, Sample
from ropewalk.tasks.environments.protocol import EPISODE, ToolCall, Unread

FINISH: Mapping[str, Finish] = {"done": "stop", "failed": "failed", "aborted": "aborted"}
"""How a sample finishes by what ended its episode; any other end is a limit's."""


@dataclass
class Story:
    """One conversation. What was sampled keeps its ids, log-probs and versions; all else is only read."""

    request: Request
    """Whose sample this becomes."""
    messages: list[Message] = field(default_factory=list)
    turns: int = 0
    reward: float = 0.0
    calls: int = 0
    call_faults: int = 0
    info: dict[str, Json] = field(default_factory=dict)
    said_tokens: int = 0
    text: str = ""
    """Of the last turn."""
    _tokens: list[Ints] = field(default_factory=list)
    _mask: list[Bools] = field(default_factory=list)
    _logprobs: list[Floats] = field(default_factory=list)
    _versions: list[Ints] = field(default_factory=list)

    @property
    def ids(self) -> Ints:
        """The conversation so far."""
        return np.concatenate([np.empty(0, np.int64), *self._tokens])

    def read(self, ids: Sequence[int], messages: Sequence[Message]) -> None:
        """Append what the policy reads."""
        n = len(ids)
        self._append(
            np.asarray(ids, np.int64), np.zeros(n, np.bool_), np.full(n, np.nan, np.float32), np.full(n, -1, np.int64)
        )
        self.messages += messages

    def say(self, completion: Completion, calls: Sequence[ToolCall | Unread]) -> None:
        """Append a turn of the policy."""
        ids = completion.token_ids
        self._append(ids, np.ones(len(ids), np.bool_), completion.logprobs, completion.versions)
        self.messages.append(Message("assistant", completion.text))
        self.text = completion.text
        self.turns += 1
        self.said_tokens += len(ids)
        self.calls += len(calls)
        self.call_faults += sum(isinstance(call, Unread) for call in calls)

    def sample(self, ended: str, error: str) -> Sample:
        """The sample of this episode. One in which nothing was said cannot be trained on: it has failed."""
        told: dict[str, Json] = {
            "reward": self.reward,
            "turns": self.turns,
            "calls": self.calls,
            "call_faults": self.call_faults,
            "ended": ended,
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "info": dict(self.info),
        }
        if error:
            told["error"] = error
        request = self.request
        return Sample(
            prompt_id=request.prompt_id,
            group_id=request.group_id,
            index=request.index,
            seed=request.seed,
            tokens_T=self.ids,
            policy_mask_T=np.concatenate([np.empty(0, np.bool_), *self._mask]),
            logprobs_T=np.concatenate([np.empty(0, np.float32), *self._logprobs]),
            versions_T=np.concatenate([np.empty(0, np.int64), *self._versions]),
            finish=FINISH.get(ended, "length") if self.said_tokens else "failed",
            sampling=request.sampling,
            text=self.text,
            info={EPISODE: told},
        )

    def _append(self, tokens: Ints, mask: Bools, logprobs: Floats, versions: Ints) -> None:
        self._tokens.append(tokens)
        self._mask.append(mask)
        self._logprobs.append(logprobs)
        self._versions.append(versions)
