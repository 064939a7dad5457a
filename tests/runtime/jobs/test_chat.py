"""A conversation: what is remembered is what was said, pieces are whole characters, nothing is forgotten unsaid."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing

from ropewalk.models.chat import prompt_ids
from ropewalk.models.export import save_policy
from ropewalk.models.load import LoadedModel
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.runtime.jobs.chat import Chat, Turn
from ropewalk.runtime.recipe import read_recipe, recipe_text
from ropewalk.runtime.run import Run
from tests.fakes import BOS_ID, EOS_ID, PAD_ID, TURN_END_ID, byte_tokenizer, tiny_llama
from tests.runtime.conftest import copy_of


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of random bytes with a chat template: most of what it says is no whole character."""
    network = tiny_llama(3, vocabulary_size=260, max_positions=128, std=0.05)
    loaded = LoadedModel(network, byte_tokenizer(), (EOS_ID, TURN_END_ID), PAD_ID, 260)
    return save_policy(loaded, tmp_path_factory.mktemp("talker") / "model")


def rendered(chat: Chat, *messages: Message) -> list[int]:
    return prompt_ids(chat.language.tokenizer, messages)


def heard(chat: Chat) -> Iterator[np.ndarray]:
    """The prompts that the model hears, as `say` makes them."""
    while True:
        yield chat._engine._scheduler.requests[0].prompt_ids  # type: ignore[union-attr]


def test_pieces_join_to_the_answer_and_are_whole_characters(talker: Path) -> None:
    """Only the very last piece may end in the middle of a character, where the model itself did."""
    broken = 0
    for seed in range(4):
        chat = Chat(talker, max_new_tokens=40, seed=seed)
        pieces = list(chat.say("hello"))
        assert "".join(pieces) == chat.turns[0].answer
        assert all(pieces) and not any(piece.endswith("\ufffd") for piece in pieces[:-1])
        broken += "\ufffd" in chat.turns[0].answer
        decoded = chat.language.tokenizer.decode(chat.turns[0].answer_ids, skip_special_tokens=True)
        assert chat.turns[0].answer == decoded
    assert broken, "the test needs answers that are no whole text"


def test_the_second_prompt_holds_the_first_turn(talker: Path) -> None:
    chat = Chat(talker, system="be brief", max_new_tokens=5)
    answer = "".join(chat.say("one"))
    stream = chat.say("two")
    next(stream)
    expected = rendered(
        chat,
        Message("system", "be brief"),
        Message("user", "one"),
        Message("assistant", answer),
        Message("user", "two"),
    )
    assert next(heard(chat)).tolist() == expected
    list(stream)
    assert [turn.said for turn in chat.turns] == ["one", "two"] and chat.forgotten == 0
    chat.clear()
    assert chat.turns == ()


def test_the_oldest_turns_are_forgotten_and_counted(talker: Path) -> None:
    """At least a quarter of the model's 128 positions, or what was asked for, is left for every answer."""
    chat = Chat(talker, max_new_tokens=8)
    forgotten = []
    for number in range(6):
        "".join(chat.say(f"message {number}"))
        forgotten.append(chat.forgotten)
    assert forgotten[0] == 0 and forgotten[-1] > 0 and forgotten == sorted(forgotten)
    assert len(chat.turns) == 6


def test_an_answer_is_shortened_before_a_message_is_refused(talker: Path) -> None:
    chat = Chat(talker, max_new_tokens=100)
    base = len(rendered(chat, Message("user", "")))
    list(chat.say("x" * (126 - base)))
    assert len(chat.turns[0].answer_ids) <= 2
    with pytest.raises(InputError, match="say it shorter"):
        chat.say("x" * 130)
    assert len(chat.turns) == 1


def test_a_broken_off_answer_is_remembered_as_far_as_it_came(talker: Path) -> None:
    chat = Chat(talker, max_new_tokens=60, seed=1)
    stream = chat.say("go on")
    first = next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert chat.turns[0].answer.startswith(first) and len(chat.turns[0].answer_ids) < 60
    assert not chat.turns[0].ended
    assert "".join(chat.say("again")) == chat.turns[1].answer


def test_the_same_seed_is_the_same_conversation(talker: Path) -> None:
    """Side by side, two models do not disturb each other, nor the global random state."""
    state = torch.random.get_rng_state()
    first, second = Chat(talker, max_new_tokens=12), Chat(talker, max_new_tokens=12)
    streams = [first.say("hi"), second.say("hi")]
    said: list[list[str]] = [[], []]
    for pieces in zip(*streams, strict=True):
        for place, piece in enumerate(pieces):
            said[place].append(piece)
    assert said[0] == said[1]
    assert list(first.say("and?")) == list(second.say("and?"))
    assert list(Chat(talker, max_new_tokens=12, seed=9).say("hi")) != said[0]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_run_without_a_template_continues_text(tiny_policy: Path) -> None:
    """An answer that was cut is continued with its very ids; after an ended one a new text begins."""
    chat = Chat(tiny_policy, temperature=0, max_new_tokens=2)
    with pytest.raises(InputError, match="no chat template"):
        Chat(Run(tiny_policy).model, system="be brief")
    list(chat.say("[ austin"))
    assert not chat.turns[0].ended
    stream = chat.say("and")
    next(stream)
    spelled = [prompt_ids(chat.language.tokenizer, text) for text in ("[ austin", "and")]
    assert next(heard(chat)).tolist() == [*spelled[0], *chat.turns[0].answer_ids, *spelled[1]]
    list(stream)
    whole = Chat(tiny_policy, max_new_tokens=20)
    list(whole.say("[ austin"))
    assert whole.turns[0].ended
    stream = whole.say("[ boston")
    next(stream)
    assert next(heard(whole)).tolist() == prompt_ids(whole.language.tokenizer, "[ boston")


def test_one_growing_text_has_one_beginning(tmp_path: Path) -> None:
    """A tokenizer that begins every text with a mark must not put one before each message of the same text."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", BOS_ID)]
    )
    network = tiny_llama(3, vocabulary_size=260, max_positions=128, std=0.05)
    chat = Chat(save_policy(LoadedModel(network, tokenizer, (EOS_ID,), PAD_ID, 260), tmp_path / "model"))
    turns = [Turn("ab", "x", np.array([1, 2]), False), Turn("cd", "y", np.array([3]), False)]
    assert prompt_ids(chat.language.tokenizer, "ab") == [BOS_ID, *b"ab"]
    assert chat._prompt(turns, "ef").tolist() == [BOS_ID, *b"ab", 1, 2, *b"cd", 3, *b"ef"]
    assert chat._prompt([], "ef").tolist() == [BOS_ID, *b"ef"]


def test_a_run_samples_as_it_did_in_training(tiny_policy: Path, tmp_path: Path) -> None:
    """Temperature and bans are the run's unless said otherwise; a run that samples nothing has the defaults."""
    run = copy_of(tiny_policy, tmp_path / "r")
    recipe = read_recipe("city-grpo", {"start_from": str(tiny_policy), "sampling.temperature": 0.5})
    run.recipe_file.write_text(recipe_text(recipe))
    plain, trained = Chat(tiny_policy), Chat(run.folder, max_new_tokens=3)
    mark = plain.language.tokenizer.convert_tokens_to_ids("[")
    assert mark not in plain.record.banned_ids and plain.record.temperature == 1
    assert mark in trained.record.banned_ids and trained.record.temperature == 0.5
    assert trained.record.max_new_tokens == 3 and Chat(run.folder, temperature=0).record.temperature == 0


def test_what_cannot_be_talked_to_is_refused(tiny_reward_model: Path, tiny_policy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        Chat(tmp_path / "nowhere")
    with pytest.raises(InputError):
        Chat(tiny_reward_model)
    chat = Chat(tiny_policy)
    with pytest.raises(InputError, match="empty message"):
        chat.say("  ")
    with pytest.raises(InputError, match="cannot spell"):
        chat.say("[ atlantis")
    assert chat.turns == ()
