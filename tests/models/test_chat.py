"""Dialogues to ids: one render, one beginning, a mask over what the policy says, and templates that are watched."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ropewalk.models.chat import document_ids, prompt_ids, supervised_ids
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Dialogue, Message
from tests.fakes import BOS_ID, EOS_ID, PAD_ID, TURN_END_ID, byte_tokenizer, toy_bpe

USER = Message("user", "Hi")
DIALOGUE = (Message("system", "Be brief."), USER)

THOUGHTLESS = (  # drops <t>…</t> from every assistant turn but the last
    "{% for m in messages %}{{ m['role'] }}: "
    "{% if m['role'] == 'assistant' and not loop.last %}{{ m['content'].split('</t>')[-1] }}"
    "{% else %}{{ m['content'] }}{% endif %}<turn>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
JOINING = (  # writes neighbouring tool messages as one turn
    "{% for m in messages %}"
    "{% if m['role'] == 'tool' and loop.index0 and messages[loop.index0 - 1]['role'] == 'tool' %}"
    "{{ m['content'] }}{% else %}{{ m['role'] }}: {{ m['content'] }}{% endif %}"
    "{% if m['role'] != 'tool' or loop.last or messages[loop.index0 + 1]['role'] != 'tool' %}<turn>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
TRAILING = (  # a newline after the end of turn, as many real templates write
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<turn>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def with_template(template: str | None, tokenizer: PreTrainedTokenizerFast | None = None) -> PreTrainedTokenizerFast:
    tokenizer = tokenizer or byte_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def adding_beginning() -> PreTrainedTokenizerFast:
    """Puts a beginning before any text, as Llama's tokenizers do."""
    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", BOS_ID)]
    )
    assert tokenizer.encode("a") == [BOS_ID, 97]
    return tokenizer


def taught(ids: list[int], mask: list[bool]) -> list[int]:
    return [token for token, learnt in zip(ids, mask, strict=True) if learnt]


@pytest.mark.parametrize("make", [byte_tokenizer, adding_beginning])
def test_conversations_begin_once(make: Any) -> None:
    """Fault F1: a template that writes the beginning, with a tokenizer that would add one: exactly one, everywhere."""
    tokenizer = make()
    straight = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=True, add_generation_prompt=True, return_dict=False
    )
    prompt = prompt_ids(tokenizer, (USER,))
    ids, _ = supervised_ids(tokenizer, (USER,), "Hello.", TURN_END_ID)
    assert prompt == straight
    assert prompt.count(BOS_ID) == ids.count(BOS_ID) == 1
    assert ids[: len(prompt)] == prompt


def test_plain_text_begins_as_the_tokenizer_would_begin_it() -> None:
    """Fault F1: raw prompts get a beginning where the model's own tokenizer gives one, once, and else none."""
    assert prompt_ids(byte_tokenizer(), "ab") == [97, 98]
    assert prompt_ids(adding_beginning(), "ab") == [BOS_ID, 97, 98]
    assert prompt_ids(adding_beginning(), "<bos>ab") == [BOS_ID, 97, 98]
    assert document_ids(adding_beginning(), "ab", EOS_ID) == [BOS_ID, 97, 98, EOS_ID]
    assert supervised_ids(adding_beginning(), "a", "b", EOS_ID)[0] == [BOS_ID, 97, 98, EOS_ID]


def test_a_beginning_typed_by_a_user_is_not_doubled() -> None:
    tokenizer = with_template("{{ bos_token }}{{ messages[0]['content'] }}")
    assert prompt_ids(tokenizer, (Message("user", "<bos>a"),)) == [BOS_ID, 97]


class Wrapped:
    """A tokenizer whose template call returns something else than a list, as libraries have come to do."""

    bos_token_id = None
    chat_template = "a template"
    name_or_path = "some/model"

    def __init__(self, result: object) -> None:
        self.result = result

    def apply_chat_template(self, messages: object, **options: object) -> object:
        return self.result


@pytest.mark.parametrize(
    "result",
    [
        [5, 6, 7],
        (5, 6, 7),
        [[5, 6, 7]],
        {"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1]},
        {"input_ids": [[5, 6, 7]]},
        torch.tensor([5, 6, 7]),
        torch.tensor([[5, 6, 7]]),
    ],
)
def test_wrappings_of_one_list_are_opened(result: object) -> None:
    """Fault F3: a prompt has its own length, not that of the mapping around it."""
    assert prompt_ids(Wrapped(result), (USER,)) == [5, 6, 7]


@pytest.mark.parametrize(
    "result",
    [
        None,
        "text",
        {"ids": [5]},
        [[5], [6]],
        [5.0, 6.0],
        [True],
        ["a"],
        7,
        torch.tensor([[5], [6]]),
        {"input_ids": None},
    ],
)
def test_anything_else_is_an_error_that_names_the_template(result: object) -> None:
    """Fault F3: type-checked, never a warning."""
    with pytest.raises(InputError, match="chat template of some/model did not give one flat list of ids"):
        prompt_ids(Wrapped(result), (USER,))


@pytest.mark.parametrize("template", ["marks none", TRAILING])
def test_the_mask_is_the_answer_and_its_end(template: str) -> None:
    """Fault F7, A6: from a template without generation marks; nothing the template writes is ever a target."""
    tokenizer = byte_tokenizer() if template == "marks none" else with_template(template)
    ids, mask = supervised_ids(tokenizer, DIALOGUE, "Hello.", (EOS_ID, TURN_END_ID))
    assert len(ids) == len(mask)
    assert taught(ids, mask) == [*b"Hello.", TURN_END_ID]
    assert mask[-7:] == [True] * 7 and not any(mask[:-7])
    assert ids[:-7] == prompt_ids(tokenizer, DIALOGUE)
    whole = [{"role": m.role, "content": m.content} for m in (*DIALOGUE, Message("assistant", "Hello."))]
    rendered = tokenizer.apply_chat_template(whole, tokenize=True, return_dict=False)
    assert rendered[: len(ids)] == ids


def test_an_end_inside_the_prompt_is_kept_and_not_learnt() -> None:
    """Fault A6: pad = end; the end tokens inside the prompt stay, only the answer's own is learnt."""
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = "<turn>"
    ids, mask = supervised_ids(tokenizer, (USER, Message("assistant", "Yo"), USER), "Hello.", TURN_END_ID)
    assert ids.count(TURN_END_ID) == 4
    assert taught(ids, mask) == [*b"Hello.", TURN_END_ID]


def test_plain_text_ends_once() -> None:
    """Fault A7: with several ends, the first is added, unless the completion ends on any of them."""
    tokenizer = byte_tokenizer()
    ends = (EOS_ID, TURN_END_ID)
    assert supervised_ids(tokenizer, "a", "b", ends) == ([97, 98, EOS_ID], [False, True, True])
    assert supervised_ids(tokenizer, "a", "b<turn>", ends) == ([97, 98, TURN_END_ID], [False, True, True])
    assert supervised_ids(tokenizer, "a", "", ends) == ([97, EOS_ID], [False, True])
    assert document_ids(tokenizer, "ab<eos>", EOS_ID) == document_ids(tokenizer, "ab", EOS_ID) == [97, 98, EOS_ID]


def test_one_turn_at_a_time_those_templates_teach_what_they_show() -> None:
    """Fault F4: the ids are one render of the whole; the earlier thought is not in it, the learnt one is whole."""
    dialogue = (USER, Message("assistant", "<t>hm</t>Yes"), USER)
    ids, mask = supervised_ids(with_template(THOUGHTLESS), dialogue, "<t>so</t>No", TURN_END_ID)
    assert taught(ids, mask) == [*b"<t>so</t>No", TURN_END_ID]
    assert b"hm" not in bytes(i for i in ids if i < 256)


@pytest.mark.parametrize(
    ("template", "completion", "says"),
    [
        ("{{ messages[-1]['content'].split('</t>')[-1] }}<turn>", "<t>hm</t>Yes", "drops part of the completion"),
        ("{% for m in messages %}{{ m['content'] }};{% endfor %}", "Yes", "does not close the assistant's turn"),
        (
            "{{ messages | length }}{% for m in messages %}{{ m['content'] }}<turn>{% endfor %}",
            "Yes",
            "rewrites history",
        ),
        (None, "Yes", "is missing"),
    ],
)
def test_templates_that_cannot_be_taught_from(template: str | None, completion: str, says: str) -> None:
    """Fault F4, F7: an error before training that names the template and the alternatives."""
    with pytest.raises(InputError, match=f"chat template .*{says}.*plain text"):
        supervised_ids(with_template(template), (USER,), completion, TURN_END_ID)


def test_a_merge_across_the_boundary_is_not_learnt() -> None:
    """`c` + ` a` would merge over the prompt's end; the policy meets the prompt's own ids when it speaks."""
    tokenizer = with_template(
        "{% for m in messages %}{{ m['content'] }}{{ '<turn>' if m['role'] == 'assistant' else 'c ' }}{% endfor %}",
        toy_bpe(),
    )
    prompt = prompt_ids(tokenizer, (USER,))
    ids, mask = supervised_ids(tokenizer, (USER,), "ab", TURN_END_ID)
    assert ids[: len(prompt)] == prompt
    assert tokenizer.decode(taught(ids, mask)) == "ab<turn>"


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(InputError, match="without any token"):
        prompt_ids(byte_tokenizer(), "")
    assert prompt_ids(adding_beginning(), "") == [BOS_ID]


@pytest.mark.parametrize("dialogue", ["a", (USER,)])
def test_a_completion_that_goes_on_after_its_end_is_refused(dialogue: Dialogue) -> None:
    with pytest.raises(InputError, match="goes on after an end token"):
        supervised_ids(byte_tokenizer(), dialogue, "b<turn>c", (EOS_ID, TURN_END_ID))


def test_padding_never_appears() -> None:
    ids, _ = supervised_ids(byte_tokenizer(), DIALOGUE, "Hello.", TURN_END_ID)
    assert PAD_ID not in ids


@pytest.mark.real
def test_smollm2(smollm2: Path) -> None:
    """Fault A6, F1, F7: default system message, bos = start of turn, end = pad = 2, no generation marks."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2, local_files_only=True)
    prompt = prompt_ids(tokenizer, (USER,))
    assert tokenizer.decode(prompt).startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert tokenizer.decode(prompt).endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    ids, mask = supervised_ids(tokenizer, (USER,), "Hello there.", 2)
    assert ids[: len(prompt)] == prompt
    assert tokenizer.decode(taught(ids, mask)) == "Hello there.<|im_end|>"
    assert tokenizer.decode(supervised_ids(tokenizer, DIALOGUE, "Yes", 2)[0]).startswith(
        "<|im_start|>system\nBe brief."
    )
    assert prompt_ids(tokenizer, "Hello") == tokenizer.encode("Hello")
    assert document_ids(tokenizer, "Hello", 2) == [*tokenizer.encode("Hello"), 2]
