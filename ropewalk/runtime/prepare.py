"""Data made ready for the loop: prompts and rows as ids, refused ones counted and named, a ledger over the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ropewalk.data.config import Curriculum
from ropewalk.data.fit import fit_pair, fit_row
from ropewalk.data.forms import RefusedRow
from ropewalk.data.ledger import DataLedger, fingerprint
from ropewalk.data.order import PromptOrder, prompt_order
from ropewalk.data.read import demonstrations, documents, labelled_steps, pairs
from ropewalk.data.split import split
from ropewalk.data.steps import text_of_steps
from ropewalk.models.chat import document_ids, prompt_ids, supervised_ids, unfinished_ids
from ropewalk.models.language import Language, load_language, word_language
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Demonstration, Document, LabelledSteps, PreferencePair, Prompt
from ropewalk.records.sample import SamplingRecord
from ropewalk.rollout.config import Sampling, resolve
from ropewalk.runtime.config import Demonstrations, Documents, PairFile, StepFile, TextRows
from ropewalk.runtime.experience import TokenisedPrompts
from ropewalk.runtime.learned.read import Said, StepCutter
from ropewalk.runtime.learned.readers import step_cutter
from ropewalk.runtime.look.folders import strange_word
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.roles import FromPolicy, FromScorer, FromSizes, Source
from ropewalk.tasks.city.corpus import documents as city_documents
from ropewalk.tasks.config import CityCorpus
from ropewalk.training.packing import Row, StepRow

T = TypeVar("T", bound=Document | Demonstration | PreferencePair | Prompt | LabelledSteps)
R = TypeVar("R")
Pair = tuple[Row, Row]


def language_of(source: Source) -> Language:
    """The language of the model a run starts from."""
    match source:
        case FromPolicy(path=path) | FromScorer(path=path):
            return load_language(path)
        case FromSizes(config, vocabulary, _):
            return word_language(config, vocabulary.words, vocabulary.eos, vocabulary.pad)
    raise RuntimeError("a run does not start from another of its roles")


def check_same_words(role: str, other: Language, policy: Language) -> None:
    """Sampled ids are all that a reference or reward model reads: each must mean to it what it means to the policy.

    Raises `InputError` for another number of logits and for a word of the policy with another id or none.
    """
    theirs, ours = other.tokenizer.get_vocab(), policy.tokenizer.get_vocab()
    if other.vocabulary_size != policy.vocabulary_size:
        raise InputError(
            f"the {role} model has {other.vocabulary_size} words and the policy {policy.vocabulary_size}: "
            "both must have one vocabulary"
        )
    strange = strange_word(ours, theirs)
    if strange is not None:
        raise InputError(
            f"the {role} model reads other words than the policy writes ({strange!r} is id {ours[strange]} to the "
            f"policy, {theirs.get(strange, 'no id')} to it): both must have one vocabulary"
        )


def sampling_record(sampling: Sampling, language: Language) -> SamplingRecord:
    """The resolved sampling settings for this model."""
    return resolve(
        sampling,
        words=language.tokenizer.get_vocab(),
        eos_ids=language.eos_ids,
        pad_id=language.pad_id,
        vocabulary_size=language.vocabulary_size,
        special=language.tokenizer.all_special_tokens,
    )


def tokenised_prompts(
    prompts: Sequence[Prompt], language: Language, sampling: SamplingRecord, progress: Progress
) -> TokenisedPrompts:
    """Prompts with their ids; one that leaves no room for `max_new_tokens` is refused and named."""
    room = None if language.max_positions is None else language.max_positions - sampling.max_new_tokens

    def ids(prompt: Prompt) -> np.ndarray:
        found = prompt_ids(language.tokenizer, prompt.dialogue)
        if room is not None and len(found) > room:
            raise RefusedRow(f"it has {len(found)} tokens, and with {sampling.max_new_tokens} to come the model ends")
        if not found:
            raise RefusedRow("it has no tokens")
        return np.array(found, np.int64)

    kept = _convert(prompts, ids, lambda p: f"prompt {p.id}", progress)
    return TokenisedPrompts([p for p, _ in kept], [i for _, i in kept])


@dataclass(frozen=True, slots=True)
class HeldOut(Generic[R]):
    """Rows as ids, some of them held out."""

    train: Sequence[R]
    held: Sequence[R]
    ledger: DataLedger
    """Over the training rows."""


def text_rows(config: TextRows, language: Language, seed: int, progress: Progress) -> HeldOut[Row]:
    """Rows of (ids, mask) of a supervised recipe, some of them held out by a hash of what they ask."""
    records = read_text(config, seed, progress)
    limit = language.max_positions or 1 << 30
    if not isinstance(config, CityCorpus):
        limit = min(config.max_tokens, limit)

    def row(record: Document | Demonstration) -> Row:
        if isinstance(record, Document):
            ids = document_ids(language.tokenizer, record.text, language.eos_ids[0])
            mask = [place > 0 for place in range(len(ids))]
        else:
            ids, mask = supervised_ids(language.tokenizer, record.dialogue, record.completion, language.eos_ids)
        if len(ids) > limit:
            raise RefusedRow(f"it has {len(ids)} tokens, more than the {limit} allowed")
        fitted = fit_row(ids, mask, limit)
        return np.array(fitted.ids, np.int64), np.array(fitted.mask)

    kept = _convert(records, row, lambda r: f"row {r.id}", progress)
    return _held_out(kept, 0.0 if isinstance(config, CityCorpus) else config.held_out, language, seed)


def read_text(config: TextRows, seed: int, progress: Progress) -> Sequence[Document | Demonstration]:
    """The records of a supervised recipe."""
    match config:
        case CityCorpus():
            return city_documents(config, seed)
        case Documents():
            found, report = documents(config)
        case Demonstrations():
            shown, report = demonstrations(config)
            _say(str(report), report.refused, progress)
            return shown[: config.limit]
    _say(str(report), report.refused, progress)
    return found[: config.limit]


def pair_rows(config: PairFile, language: Language, seed: int, progress: Progress) -> HeldOut[Pair]:
    """Pairs of a file, some of them held out by a hash of what they ask."""
    found, report = pairs(config)
    _say(str(report), report.refused, progress)
    limit = min(config.max_tokens, language.max_positions or 1 << 30)

    def side(record: PreferencePair, completion: str) -> tuple[Sequence[int], Sequence[bool]]:
        ids, mask = supervised_ids(language.tokenizer, record.dialogue, completion, language.eos_ids)
        if len(ids) > limit:
            raise RefusedRow(f"a side has {len(ids)} tokens, more than the {limit} allowed")
        return ids, mask

    def pair(record: PreferencePair) -> Pair:
        better, worse = fit_pair(side(record, record.chosen), side(record, record.rejected), limit)
        return (np.array(better.ids), np.array(better.mask)), (np.array(worse.ids), np.array(worse.mask))

    kept = _convert(found[: config.limit], pair, lambda p: f"pair {p.id}", progress)
    return _held_out(kept, config.held_out, language, seed)


def step_rows(config: StepFile, language: Language, seed: int, progress: Progress) -> HeldOut[StepRow]:
    """Rows of a file, some of them held out by a hash of what they ask; the ends of steps are found in the ids, by the
    rule that finds them where the model rewards."""
    found, report = labelled_steps(config, config.step)
    _say(str(report), report.refused, progress)
    limit = min(config.max_tokens, language.max_positions or 1 << 30)
    cutter = step_cutter(language, config.step)
    kept = _convert(found[: config.limit], lambda r: _step_row(r, cutter, language, limit), _row_name, progress)
    return _held_out(kept, config.held_out, language, seed)


def _row_name(record: LabelledSteps) -> str:
    return f"row {record.id}"


def _step_row(record: LabelledSteps, cutter: StepCutter, language: Language, limit: int) -> StepRow:
    text = text_of_steps(record.steps, cutter.separator, finished=record.finished)
    try:
        if record.finished:
            ids, mask = supervised_ids(language.tokenizer, record.dialogue, text, language.eos_ids)
        else:
            ids, mask = unfinished_ids(language.tokenizer, record.dialogue, text)
    except InputError as error:
        raise RefusedRow(str(error)) from error
    if len(ids) > limit:
        raise RefusedRow(f"it has {len(ids)} tokens, more than the {limit} allowed")
    said = Said(np.array(ids, np.int64), np.array(mask, np.bool_), record.finished)
    ends = cutter.ends(said)
    if len(ends) != len(record.labels):
        raise RefusedRow(f"its {len(record.labels)} steps end at {len(ends)} tokens of this model")
    prompt = int(np.argmax(said.policy_mask_T))
    return StepRow(said.tokens_T, said.policy_mask_T, [prompt + end for end in ends], record.labels)


def _held_out(kept: Sequence[tuple[T, R]], share: float, language: Language, seed: int) -> HeldOut[R]:
    rows = {record.id: row for record, row in kept}
    train, held = split([record for record, _ in kept], share)
    return HeldOut([rows[r.id] for r in train], [rows[r.id] for r in held], _ledger(train, language, seed))


def ordered_prompts(
    prompts: Sequence[Prompt], language: Language, seed: int, parts: Mapping[str, float], curriculum: Curriculum | None
) -> PromptOrder:
    """The order in which prompts are drawn."""
    return prompt_order(prompts, parts, curriculum, lambda some: _ledger(some, language, seed))


def _ledger(records: Sequence[T], language: Language, seed: int) -> DataLedger:
    template = str(getattr(language.tokenizer, "chat_template", "") or "")
    words = language.tokenizer.backend_tokenizer.to_str()
    found = fingerprint(records, template, words, str(language.vocabulary_size))
    return DataLedger(size=len(records), seed=seed, fingerprint=found)


def _convert(
    records: Sequence[T], convert: Callable[[T], R], name: Callable[[T], str], progress: Progress
) -> list[tuple[T, R]]:
    """Each record with what it becomes; refused ones are told, and nothing left is an error."""
    kept: list[tuple[T, R]] = []
    refused: list[tuple[str, str]] = []
    progress.begin("tokenising", len(records))
    for number, record in enumerate(records):
        try:
            kept.append((record, convert(record)))
        except RefusedRow as error:
            refused.append((name(record), str(error)))
        if number % 256 == 0:
            progress.advance(number)
    if not kept:
        why = f": {refused[0][0]} is refused because {refused[0][1]}" if refused else ", there was none"
        raise InputError(f"no row is left to use{why}")
    if refused:
        _say(f"{len(refused)} of {len(records)} rows are refused, the first is {refused[0][0]}", refused, progress)
    return kept


def _say(summary: str, refused: Sequence[tuple[str, str]], progress: Progress) -> None:
    if refused:
        where, why = refused[0]
        progress.say(f"{summary} ({where}: {why})" if where not in summary else f"{summary}: {why}")
