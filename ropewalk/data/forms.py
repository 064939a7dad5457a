"""The forms in which rows come, and what each means as a dialogue with answers.

* plain: `prompt` (text as it stands, or a list of messages), with `completion` (or `response`), `chosen` and
  `rejected`, or `gold`, as named.
* question and answer (GSM8K): `question` becomes one user message; `answer` is the completion, and the number
  after its last `####` the gold.
* messages (OpenAI): `messages` of role and content; a last assistant message is the completion.
* conversations (ShareGPT, LLaMA-Factory): `conversations` of from and value, like messages; `chosen` and
  `rejected` are messages.
* dialogue text (HH): `chosen` and `rejected` are whole dialogues in Human: / Assistant: turns; they part at their
  last Assistant: turn, and what comes before must be the same.

A `system` beside any of them goes before the dialogue. Where a table holds text only, messages may be their JSON text,
or text in Human: / Assistant: turns.

A row that cannot be meant so raises `RefusedRow` with the reason; the reader counts it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.records.prompt import Dialogue, Json, Message, Speaker

_SPEAKERS: Mapping[str, Speaker] = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "tool": "tool",
    "observation": "tool",
}
GOLD_MARK = "####"
"""Stands before the gold answer at the end of a worked solution (GSM8K)."""

_TURN = re.compile(r"\n\n(Human|Assistant):")
_LAST_ANSWER = "\n\nAssistant:"
_NUMBER = re.compile(r"[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?")


class RefusedRow(Exception):
    """A row that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a row holds; an answer that it does not have is None."""

    dialogue: Dialogue
    completion: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    gold: Json = None


def parse(fields: Mapping[str, Any]) -> Parsed:
    """The dialogue and answers of a row, its form told by its fields."""
    parsed = _parse(fields)
    system = fields.get("system")
    return parsed if system is None else replace(parsed, dialogue=_under(_text(system, "system"), parsed.dialogue))


def _parse(fields: Mapping[str, Any]) -> Parsed:
    if "messages" in fields or "conversations" in fields:
        return _conversation(fields)
    if "prompt" in fields:
        return _plain(fields)
    if "question" in fields:
        return _question(fields)
    if "chosen" in fields or "rejected" in fields:
        return _dialogue_texts(fields)
    raise RefusedRow(
        f"it has none of the fields prompt, question, messages, conversations or chosen (its fields: {_names(fields)})"
    )


def _under(system: str, dialogue: Dialogue) -> Dialogue:
    """A dialogue with a system message before it."""
    if not system.strip():
        return dialogue
    messages = (Message("user", dialogue),) if isinstance(dialogue, str) else dialogue
    if messages[0].role == "system":
        raise RefusedRow("it has a system text and a system message")
    return (Message("system", system), *messages)


def with_system(dialogue: Dialogue, system: str) -> Dialogue:
    """A dialogue with this system message before it, unless it has one of its own."""
    own = not isinstance(dialogue, str) and dialogue[0].role == "system"
    return dialogue if own else _under(system, dialogue)


def document_text(fields: Mapping[str, Any]) -> str:
    """The `text` of a row for continued pretraining."""
    if "text" not in fields:
        raise RefusedRow(f"it has no field 'text' (its fields: {_names(fields)})")
    text = _text(fields["text"], "text")
    if not text.strip():
        raise RefusedRow("its text is empty")
    return text


def step_fields(fields: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[float, ...], bool]:
    """The `steps` of a row, their `labels` in [0, 1], and whether the last step ends the completion (`finished`)."""
    given, labels = fields.get("steps"), fields.get("labels")
    for name, value in (("steps", given), ("labels", labels)):
        if not isinstance(value, list | tuple) or not value:
            raise RefusedRow(f"it has no list of {name} (its fields: {_names(fields)})")
    assert given is not None and labels is not None
    steps = tuple(_text(step, "a step") for step in given)
    if len(steps) != len(labels):
        raise RefusedRow(f"it has {len(steps)} steps and {len(labels)} labels")
    if any(not isinstance(label, bool | int | float) or not 0 <= label <= 1 for label in labels):
        raise RefusedRow("it has a label that is not a number from 0 to 1")
    finished = fields.get("finished", True)
    if not isinstance(finished, bool):
        raise RefusedRow("its field finished is neither true nor false")
    return steps, tuple(float(label) for label in labels), finished


def gold_number(answer: str) -> str:
    """The number after the last `####`, without thousands separators."""
    _, mark, tail = answer.rpartition(GOLD_MARK)
    gold = tail.strip().removeprefix("$").strip()
    if not mark:
        raise RefusedRow(f"its answer has no gold number after {GOLD_MARK}")
    if not _NUMBER.fullmatch(gold):
        raise RefusedRow(f"its gold answer {gold[:40]!r} is not a number")
    return gold.replace(",", "")


def _plain(fields: Mapping[str, Any]) -> Parsed:
    prompt = fields["prompt"]
    dialogue: Dialogue = _messages(prompt, "prompt") if isinstance(prompt, list) else _text(prompt, "prompt")
    completion = next((fields[name] for name in ("completion", "response") if fields.get(name) is not None), None)
    return Parsed(
        dialogue=_asked(dialogue),
        completion=_answer(completion, "completion"),
        chosen=_answer(fields.get("chosen"), "chosen"),
        rejected=_answer(fields.get("rejected"), "rejected"),
        gold=fields.get("gold"),
    )


def _question(fields: Mapping[str, Any]) -> Parsed:
    question = _text(fields["question"], "question").strip()
    dialogue = _asked((Message("user", question),))
    if fields.get("answer") is None:
        raise RefusedRow("it has a question but no answer")
    answer = _text(fields["answer"], "answer")
    return Parsed(dialogue=dialogue, completion=answer.strip(), gold=gold_number(answer))


def _conversation(fields: Mapping[str, Any]) -> Parsed:
    name = "messages" if "messages" in fields else "conversations"
    messages = _messages(fields[name], name)
    chosen, rejected = _answer(fields.get("chosen"), "chosen"), _answer(fields.get("rejected"), "rejected")
    completion = None
    if chosen is None and rejected is None and messages and messages[-1].role == "assistant":
        messages, completion = messages[:-1], messages[-1].content
    if messages and messages[-1].role == "assistant":
        raise RefusedRow(f"its {name} end with an assistant message before the answers")
    return Parsed(_asked(messages), completion, chosen, rejected, fields.get("gold"))


def _dialogue_texts(fields: Mapping[str, Any]) -> Parsed:
    """HH: both dialogues must be the same up to their last answer; rows that part earlier are refused."""
    if fields.get("chosen") is None or fields.get("rejected") is None:
        raise RefusedRow(f"it has no {'chosen' if fields.get('chosen') is None else 'rejected'} answer")
    chosen_head, chosen = _last_answer(_text(fields["chosen"], "chosen"), "chosen")
    rejected_head, rejected = _last_answer(_text(fields["rejected"], "rejected"), "rejected")
    if chosen_head != rejected_head:
        raise RefusedRow("its two dialogues differ before their last answers")
    return Parsed(_asked(_turns(chosen_head)), chosen=chosen.strip(), rejected=rejected.strip())


def _turns(text: str) -> tuple[Message, ...]:
    """The messages of a text in Human: / Assistant: turns."""
    lead, *pieces = _TURN.split(text)
    if lead.strip():
        raise RefusedRow("its dialogue does not begin with a Human: or Assistant: turn")
    pairs = zip(pieces[0::2], pieces[1::2], strict=True)
    return tuple(Message("user" if who == "Human" else "assistant", said.strip()) for who, said in pairs)


def _last_answer(dialogue: str, name: str) -> tuple[str, str]:
    head, mark, answer = dialogue.rpartition(_LAST_ANSWER)
    if not mark:
        raise RefusedRow(f"its {name} dialogue has no Assistant: turn (for plain answers, give a prompt as well)")
    if _TURN.search(answer):
        raise RefusedRow(f"its {name} dialogue does not end with an Assistant: turn")
    return head, answer


def _messages(value: object, name: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        if _TURN.search(f"\n\n{value.lstrip()}"):
            return _turns(f"\n\n{value.lstrip()}")
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list):
        raise RefusedRow(f"its {name} are not a list of messages")
    return tuple(_message(item, f"message {number} of {name}") for number, item in enumerate(value, 1))


def _message(value: object, name: str) -> Message:
    if not isinstance(value, Mapping):
        raise RefusedRow(f"{name} is not an object with a role and a content")
    if value.get("tool_calls") or value.get("function_call"):
        raise RefusedRow(f"{name} holds a tool call, which is not supported")
    who = value.get("role", value.get("from"))
    speaker = _SPEAKERS.get(who) if isinstance(who, str) else None
    if speaker is None:
        raise RefusedRow(f"{name} has the unknown role {who!r} (known: {', '.join(_SPEAKERS)})")
    return Message(speaker, _content(value.get("content", value.get("value")), name))


def _content(value: object, name: str) -> str:
    """Text, or a list of text parts joined as they stand."""
    if not isinstance(value, list):
        return _text(value, name)
    parts = []
    for part in value:
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise RefusedRow(f"{name} has a part that is not text")
        parts.append(_text(part.get("text"), name))
    return "".join(parts)


def _answer(value: object, name: str) -> str | None:
    """An answer given as text, as one assistant message, or as a list of one."""
    if value is None:
        return None
    if isinstance(value, list):
        if len(value) != 1:
            raise RefusedRow(f"its {name} answer has {len(value)} messages instead of one")
        value = value[0]
    if not isinstance(value, Mapping):
        return _text(value, name)
    message = _message(value, name)
    if message.role != "assistant":
        raise RefusedRow(f"its {name} answer is said by {message.role!r}, not by the assistant")
    return message.content


def _asked(dialogue: Dialogue) -> Dialogue:
    last = dialogue if isinstance(dialogue, str) else dialogue[-1].content if dialogue else ""
    if not last.strip():
        raise RefusedRow("its prompt is empty")
    return dialogue


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise RefusedRow(f"{name} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusedRow(f"{name} holds half a surrogate pair, which is not text") from None
    return value


def _names(fields: Mapping[str, Any]) -> str:
    return ", ".join(map(str, fields)) or "none"
