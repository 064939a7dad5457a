"""Readers of a recipe's learned rewards: what they need to know of the models' folders and of the policy's words."""

from collections.abc import Sequence

from ropewalk.models.folder import checked_folder
from ropewalk.models.language import Language
from ropewalk.models.load import local_folder
from ropewalk.runtime.learned.calls import LearnedCalls
from ropewalk.runtime.learned.check import check_reading
from ropewalk.runtime.learned.config import Heads, Process
from ropewalk.runtime.learned.read import Reader, StepCutter, head_names, head_weights
from ropewalk.runtime.run import local_model


def readers_of(rewards: Sequence[LearnedCalls], language: Language) -> tuple[Reader, ...]:
    """A reader each; `language` is that of the tokens that will be read. `InputError` for a head that is not there."""
    return tuple(reader_of(one, language) for one in rewards)


def reader_of(calls: LearnedCalls, language: Language) -> Reader:
    """The reader of one learned reward."""
    check_reading(calls)
    match calls.section.read:
        case Heads(weights=weights):
            heads = tuple(_heads(folder) for folder in calls.section.folders)
            for names, folder in zip(heads, calls.section.folders, strict=True):
                head_weights(weights, names, folder)
            return Reader(calls, heads=heads)
        case Process(step=step):
            return Reader(calls, cutter=step_cutter(language, step))
        case _:
            return Reader(calls)


def step_cutter(language: Language, separator: str) -> StepCutter:
    """Cuts ids of a language."""
    tokenizer = language.tokenizer

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    return StepCutter(decode, tuple(language.eos_ids), separator)


def _heads(folder: str) -> tuple[str, ...]:
    return head_names(checked_folder(local_folder(local_model(folder)))[0])
