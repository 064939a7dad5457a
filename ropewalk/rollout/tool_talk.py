"""How a model hears of tools and calls them: its chat template, and the format of its calls.

A template that knows tools declares them itself; for one that does not, the declaration joins the system message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerFast

from ropewalk.models.chat import Tools
from ropewalk.models.turns import Turns
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.records.sample import Completion
from ropewalk.tasks.environments.formats import FormatName, declaration, declared, format_of, read_calls
from ropewalk.tasks.environments.protocol import ToolCall, ToolSpec, Unread


@dataclass(frozen=True, slots=True)
class ToolTalk:
    """A model in conversation with worlds."""

    turns: Turns
    format: FormatName
    declares: bool
    """Whether the template itself tells the policy of tools."""

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[list[Message], list[int]]:
        """The messages as the policy reads them, and their ids."""
        told = list(messages) if self.declares or not tools else _with_declaration(messages, tools, self.format)
        return told, self.turns.opening(told, self._declared(tools))

    def between(
        self, before: Sequence[Message], heard: Sequence[Message], tools: Sequence[ToolSpec], *, ended: bool
    ) -> list[int]:
        """See `Turns.between`."""
        return self.turns.between(before, heard, self._declared(tools), ended=ended)

    def calls(self, completion: Completion, tools: Sequence[ToolSpec]) -> tuple[ToolCall | Unread, ...]:
        """The calls of a turn. Special tokens, which its text leaves out, may be part of their format."""
        if not tools:
            return ()
        ids, ends = completion.token_ids.tolist(), completion.request.sampling.eos_ids
        said = ids[:-1] if ids and ids[-1] in ends else ids
        text = completion.text
        if set(said) & set(self.turns.tokenizer.all_special_ids):
            text = self.turns.decoded(said)
        return read_calls(text, self.format)

    def _declared(self, tools: Sequence[ToolSpec]) -> Tools:
        return [declared(tool) for tool in tools] if self.declares else ()


def talk_of(
    tokenizer: PreTrainedTokenizerFast, eos_ids: Sequence[int], calls: Literal["auto"] | FormatName
) -> ToolTalk:
    """How this model talks. Raises InputError if it has no chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "the model has no chat template, and a task with an environment is played in messages: take a chat model"
        )
    probe = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}]
    template = str(tokenizer.get_chat_template(None, probe))
    form = (format_of(template) or "hermes") if calls == "auto" else calls
    return ToolTalk(Turns(tokenizer, tuple(eos_ids)), form, declares="tools" in template)


def _with_declaration(messages: Sequence[Message], tools: Sequence[ToolSpec], form: FormatName) -> list[Message]:
    said = declaration(tools, form)
    if messages[0].role != "system":
        return [Message("system", said), *messages]
    return [Message("system", f"{messages[0].content}\n\n{said}"), *messages[1:]]
