"""Dialogues to ids: rendered straight to ids, one beginning-of-sequence, and only what the policy says is a target.

Plain text is encoded as it stands. A conversation goes through the model's chat template; a template that rewrites
history (so that an earlier rendering is no prefix of the later one) is an error, never trained on.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Dialogue, Json, Message

Tools: TypeAlias = Sequence[Mapping[str, Json]]
"""What the policy may call, each in the form that chat templates take in `tools`."""


def prompt_ids(tokenizer: PreTrainedTokenizerFast, dialogue: Dialogue, tools: Tools = ()) -> list[int]:
    """Ids of a prompt, ending where the policy is to speak; a conversation's template declares the tools.

    Plain text gets a beginning-of-sequence id if the tokenizer adds one to text of itself; a conversation gets what
    its template says (SmolLM2's, for one, begins with a default system message). Never two in a row at the start.
    """
    if isinstance(dialogue, str):
        ids = _with_beginning(tokenizer, encode(tokenizer, dialogue))
    else:
        _check_system(tokenizer, dialogue, tools)
        ids = _rendered(tokenizer, dialogue, generation=True, tools=tools)
    if not ids:
        raise InputError("a prompt without any token cannot be continued: give it some text")
    return ids


def supervised_ids(
    tokenizer: PreTrainedTokenizerFast, dialogue: Dialogue, completion: str, eos_id: int | Sequence[int]
) -> tuple[list[int], list[bool]]:
    """(ids, policy mask) of a dialogue and the completion to learn: the mask covers the answer and its end token only.

    `eos_id`: the id, or all ids, that end a completion; plain text is ended with the first. What a template writes
    after the end token is left off. Raises `InputError` where the template does not end the answer with such a token,
    drops part of the answer, or rewrites what came before, and where the completion itself goes on after an end.
    """
    ends = (eos_id,) if isinstance(eos_id, int) else tuple(eos_id)
    prompt = prompt_ids(tokenizer, dialogue)
    answer = encode(tokenizer, completion)
    _check_no_end_inside(completion, answer[:-1] if isinstance(dialogue, str) else answer, ends)
    if isinstance(dialogue, str):
        if not answer or answer[-1] not in ends:
            answer = [*answer, ends[0]]
    else:
        answer = _until_end(_answer_ids(tokenizer, dialogue, prompt, completion), ends, tokenizer)
    return prompt + answer, [False] * len(prompt) + [True] * len(answer)


def unfinished_ids(
    tokenizer: PreTrainedTokenizerFast, dialogue: Dialogue, completion: str
) -> tuple[list[int], list[bool]]:
    """(ids, policy mask) of a dialogue and the beginning of a completion, which more would follow: no end token."""
    prompt, answer = prompt_ids(tokenizer, dialogue), encode(tokenizer, completion)
    return prompt + answer, [False] * len(prompt) + [True] * len(answer)


def document_ids(tokenizer: PreTrainedTokenizerFast, text: str, eos_id: int) -> list[int]:
    """Ids of a document with its boundaries: a beginning if the tokenizer adds one, and the end token once."""
    ids = encode(tokenizer, text)
    return _with_beginning(tokenizer, ids if ids[-1:] == [eos_id] else [*ids, eos_id])


def _answer_ids(
    tokenizer: PreTrainedTokenizerFast, dialogue: Sequence[Message], prompt: list[int], completion: str
) -> list[int]:
    whole = [*dialogue, Message("assistant", completion)]
    if completion.strip() not in rendered_text(tokenizer, whole, generation=False):
        raise InputError(f"{named(tokenizer)} drops part of the completion {completion[:40]!r}: {ALTERNATIVES}")
    return _added(tokenizer, prompt, dialogue, whole, True)


def _added(
    tokenizer: PreTrainedTokenizerFast,
    start: list[int],
    earlier: Sequence[Message],
    later: Sequence[Message],
    generation: bool,
) -> list[int]:
    whole = _rendered(tokenizer, later, generation=False)
    if whole[: len(start)] == start:
        return whole[len(start) :]
    before = rendered_text(tokenizer, earlier, generation=generation)
    after = rendered_text(tokenizer, later, generation=False)
    if not after.startswith(before):
        raise InputError(
            f"{named(tokenizer)} rewrites history: the rendering of {len(earlier)} messages is no prefix of the "
            f"rendering of {len(later)}: {ALTERNATIVES}"
        )
    # Only a merge across the boundary differs; what was sampled there is the separate encoding.
    return encode(tokenizer, after[len(before) :])


def _check_system(tokenizer: PreTrainedTokenizerFast, dialogue: Sequence[Message], tools: Tools) -> None:
    system = dialogue[0].content.strip() if dialogue and dialogue[0].role == "system" else ""
    if system and system not in rendered_text(tokenizer, dialogue, generation=True, tools=tools):
        raise InputError(f"{named(tokenizer)} drops the system message {system[:40]!r}: {ALTERNATIVES}")


def _check_no_end_inside(completion: str, ids: list[int], ends: tuple[int, ...]) -> None:
    if any(token in ends for token in ids):
        raise InputError(
            f"the completion {completion[:40]!r} goes on after an end token, as no policy does: cut it there"
        )


def _until_end(ids: list[int], ends: tuple[int, ...], tokenizer: PreTrainedTokenizerFast) -> list[int]:
    first = next((i for i, token in enumerate(ids) if token in ends), None)
    if first is None:
        raise InputError(
            f"{named(tokenizer)} does not close the assistant's turn with an end token {list(ends)}, so a policy "
            "could not learn to stop: add the template's end token to eos_token_id in generation_config.json, or "
            + ALTERNATIVES
        )
    return ids[: first + 1]


ALTERNATIVES = "use another chat_template.jinja in the model folder, or give the rows as plain text"


def named(tokenizer: PreTrainedTokenizerFast) -> str:
    """The template, for sentences."""
    where = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    return f"the chat template of {where}"


def rendered_text(
    tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], *, generation: bool, tools: Tools = ()
) -> str:
    """A conversation as its template writes it; with `generation`, up to where the policy is to speak."""
    text = _apply(tokenizer, messages, generation=generation, tokenize=False, tools=tools)
    if not isinstance(text, str):
        raise InputError(f"{named(tokenizer)} gave a {type(text).__name__} where text was asked: {ALTERNATIVES}")
    return text


def _rendered(
    tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], *, generation: bool, tools: Tools = ()
) -> list[int]:
    ids = _as_ids(_apply(tokenizer, messages, generation=generation, tokenize=True, tools=tools))
    if ids is None:
        raise InputError(f"{named(tokenizer)} did not give one flat list of ids: {ALTERNATIVES}")
    return _one_beginning(tokenizer, ids)


def _apply(
    tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], *, generation: bool, tokenize: bool, tools: Tools
) -> object:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(f"{named(tokenizer)} is missing, yet the prompts are conversations: {ALTERNATIVES}")
    turns = [{"role": message.role, "content": message.content} for message in messages]
    declared = [dict(tool) for tool in tools] or None
    try:
        result: object = tokenizer.apply_chat_template(
            turns, tools=declared, tokenize=tokenize, add_generation_prompt=generation, return_dict=False
        )
    except TemplateError as error:
        roles = ", ".join(message.role for message in messages)
        raise InputError(f"{named(tokenizer)} refuses messages of {roles} ({error}): {ALTERNATIVES}") from error
    return result


def _as_ids(result: object) -> list[int] | None:
    """The one flat list of ids in what a template call returned, whatever its wrapping; None if there is none."""
    if isinstance(result, Mapping):
        result = result.get("input_ids")
    tolist = getattr(result, "tolist", None)
    if tolist is not None:
        result = tolist()
    if isinstance(result, list | tuple) and len(result) == 1 and isinstance(result[0], list | tuple):
        result = result[0]
    if not isinstance(result, list | tuple) or not all(isinstance(i, int) and not isinstance(i, bool) for i in result):
        return None
    return list(result)


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Ids of a text as it stands, the names of special tokens in it read as such."""
    try:
        ids = _as_ids(tokenizer.encode(text, add_special_tokens=False))
    except Exception as error:  # tokenizers raises nothing narrower
        raise InputError(f"the model's vocabulary cannot spell {text[:80]!r} ({error}): use its own words") from error
    if ids is None:
        raise InputError(f"{type(tokenizer).__name__} did not give one flat list of ids for a text: take a fast one")
    return ids


def _with_beginning(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> list[int]:
    """`ids` after the beginning-of-sequence id if the tokenizer adds one to plain text; end marks it adds are left."""
    bos = tokenizer.bos_token_id
    adds = bos is not None and (_as_ids(tokenizer.encode("", add_special_tokens=True)) or [])[:1] == [bos]
    return _one_beginning(tokenizer, [bos, *ids] if adds else ids)


def _one_beginning(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> list[int]:
    bos = tokenizer.bos_token_id
    while bos is not None and ids[:2] == [bos, bos]:
        ids = ids[1:]
    return ids
