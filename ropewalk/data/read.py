"""Files of rows to records, with every refused row counted and named.

What is wrong with a *file* is an `InputError` naming file and line (`data.rows`); what is wrong with a *row* refuses
that row, and no usable row is an error. Ids are the rows' own, or a hash of what the row says: they do not depend on
the order or size of the file. Of rows that say the same the first is kept, whatever their ids.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ropewalk.data.columns import json_value, renamed
from ropewalk.data.config import DialogueFile, RowFile
from ropewalk.data.forms import RefusedRow, document_text, parse, step_fields, with_system
from ropewalk.data.rows import read_records
from ropewalk.data.steps import says_something, steps_of, text_of_steps
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import (
    Demonstration,
    Dialogue,
    Document,
    Json,
    LabelledSteps,
    Message,
    PreferencePair,
    Prompt,
)

R = TypeVar("R", Document, Demonstration, PreferencePair, Prompt, LabelledSteps)

Rows: TypeAlias = str | Path | RowFile
"""Where rows come from: a path, or a path with what its columns mean."""

_REASONS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a row may say, by a count such as that of a tokenizer."""

    most: int
    count: Callable[[str], int] = len
    unit: str = "characters"


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How many rows became records, and which did not, each with its reason."""

    kept: int
    refused: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        total = self.kept + len(self.refused)
        if not self.refused:
            return f"{total} rows, all usable"
        first: dict[str, str] = {}
        for where, reason in self.refused:
            first.setdefault(reason, where)
        counted = Counter(reason for _, reason in self.refused).most_common()
        shown = [f"{count} because {reason} (first: {first[reason]})" for reason, count in counted[:_REASONS_SHOWN]]
        if rest := counted[_REASONS_SHOWN:]:
            shown.append(f"{sum(count for _, count in rest)} for {len(rest)} other reasons")
        return f"{self.kept} of {total} rows are usable; refused: {'; '.join(shown)}"


def documents(rows: Rows, *, limit: Limit | None = None) -> tuple[list[Document], ReadReport]:
    """Plain text for continued pretraining."""

    def record(fields: Mapping[str, Any]) -> Document:
        return Document(_id(fields, text := document_text(fields)), text)

    return _collect(rows, record, lambda made: made.text, limit)


def demonstrations(rows: Rows, *, limit: Limit | None = None) -> tuple[list[Demonstration], ReadReport]:
    """Dialogues with the completion to imitate; of pairs, the chosen answer."""

    def record(fields: Mapping[str, Any]) -> Demonstration:
        parsed = parse(fields)
        completion = parsed.completion if parsed.completion is not None else parsed.chosen
        if completion is None or not completion.strip():
            raise RefusedRow("it has no answer to imitate")
        return Demonstration(_id(fields, [plain(parsed.dialogue), completion]), parsed.dialogue, completion)

    return _collect(rows, record, lambda made: [plain(made.dialogue), made.completion], limit)


def pairs(rows: Rows, *, limit: Limit | None = None) -> tuple[list[PreferencePair], ReadReport]:
    """Preference pairs; a missing, empty or equal answer refuses the row. Rows with ids of their own are judgements of
    their own, also where two judges chose alike: to drop one would change how often a choice was made."""

    def record(fields: Mapping[str, Any]) -> PreferencePair:
        parsed = parse(fields)
        if parsed.chosen is None or not parsed.chosen.strip():
            raise RefusedRow("it has no chosen answer")
        if parsed.rejected is None or not parsed.rejected.strip():
            raise RefusedRow("it has no rejected answer")
        if parsed.chosen.strip() == parsed.rejected.strip():
            raise RefusedRow("its chosen answer equals the rejected one")
        key = _id(fields, [plain(parsed.dialogue), parsed.chosen, parsed.rejected])
        return PreferencePair(key, parsed.dialogue, parsed.chosen, parsed.rejected)

    def said(made: PreferencePair) -> Json:
        return [plain(made.dialogue), made.chosen, made.rejected]

    return _collect(rows, record, said, limit, by_id=True)


def prompts_rows(
    rows: Rows,
    *,
    gold_fault: Callable[[Json], str | None] | None = None,
    fault: Callable[[Prompt], str | None] | None = None,
    row_fault: Callable[[Mapping[str, Any]], str | None] | None = None,
    limit: Limit | None = None,
) -> tuple[list[Prompt], ReadReport]:
    """Prompts, with their gold answer where the row has one.

    `row_fault` says what is wrong with a row as it stands in the file (None: nothing), `gold_fault` with a gold answer,
    and `fault` with a prompt, such as a rule's `info_fault`; what is broken refuses the row, so that a scorer never
    meets it.
    """

    def record(fields: Mapping[str, Any]) -> Prompt:
        parsed = parse(fields)
        gold = json_value(parsed.gold, "gold answer")
        wrong = gold_fault(gold) if gold_fault else None
        if wrong is not None:
            raise RefusedRow(f"its gold answer {_short(gold)} {wrong}")
        info = fields.get("info", {})
        if not isinstance(info, Mapping):
            raise RefusedRow("its info is not an object")
        named = {str(name): json_value(value, f"info.{name}") for name, value in info.items()}
        made = Prompt(_id(fields, plain(parsed.dialogue)), parsed.dialogue, gold, named)
        if fault and (wrong := fault(made)) is not None:
            raise RefusedRow(f"it {wrong}")
        return made

    return _collect(rows, record, lambda made: plain(made.dialogue), limit, row_fault=row_fault)


def labelled_steps(rows: Rows, separator: str, *, limit: Limit | None = None) -> tuple[list[LabelledSteps], ReadReport]:
    """Completions in steps with a label each; a row whose steps the separator would cut otherwise is refused. Rows with
    other ids or labels are estimates of their own, as judgements of pairs are."""

    def record(fields: Mapping[str, Any]) -> LabelledSteps:
        dialogue, (steps, labels, finished) = parse(fields).dialogue, step_fields(fields)
        if not all(says_something(step, separator) for step in steps):
            raise RefusedRow("it has an empty step")
        text = text_of_steps(steps, separator, finished=finished)
        if len(cut := steps_of(text, separator, ended=finished)) != len(steps):
            raise RefusedRow(f"its {len(steps)} steps are {len(cut)} by the separator {separator!r}")
        key = _id(fields, [plain(dialogue), *steps, list(labels), finished])
        return LabelledSteps(key, dialogue, steps, labels, finished)

    def said(made: LabelledSteps) -> Json:
        return [plain(made.dialogue), text_of_steps(made.steps, separator, finished=made.finished)]

    return _collect(rows, record, said, limit, by_id=True)


def plain(dialogue: Dialogue) -> Json:
    """A dialogue as JSON data."""
    return dialogue if isinstance(dialogue, str) else [_turn(message) for message in dialogue]


def content_hash(content: Json) -> str:
    """A short hash of JSON data, the same on every machine."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _turn(message: Message) -> Json:
    return [message.role, message.content]


def _id(fields: Mapping[str, Any], content: Json) -> str:
    given = fields.get("id")
    if given is None:
        return content_hash(content)
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise RefusedRow("its id is neither text nor a whole number")
    return str(given)


def _collect(
    rows: Rows,
    record: Callable[[Mapping[str, Any]], R],
    content: Callable[[R], Json],
    limit: Limit | None,
    *,
    by_id: bool = False,
    row_fault: Callable[[Mapping[str, Any]], str | None] | None = None,
) -> tuple[list[R], ReadReport]:
    """The records of all usable rows; `content` is what a record says, which no other may say again. `by_id`: it may,
    under another id."""
    source = rows if isinstance(rows, RowFile) else RowFile(path=str(rows))
    limits = [Limit(source.max_characters)] if source.max_characters else []
    limits += [limit] if limit else []
    kept: list[R] = []
    refused: list[tuple[str, str]] = []
    seen: set[str] = set()
    for row in read_records(source.path, source.split):
        try:
            if row_fault and (wrong := row_fault(row.fields)) is not None:
                raise RefusedRow(f"it {wrong}")
            made = _with_system(record(renamed(row.fields, source.columns)), source)
            said = content(made)
            keys = {f"id {made.id}"} if by_id else {f"id {made.id}", f"content {content_hash(said)}"}
            if keys & seen:
                raise RefusedRow("its id or content repeats that of an earlier row")
            _check_length(said, limits)
        except RefusedRow as refusal:
            refused.append((row.where, str(refusal)))
            continue
        seen |= keys
        kept.append(made)
    report = ReadReport(len(kept), tuple(refused))
    if not kept:
        raise InputError(f"{source.path} has no usable row: {report}")
    return kept, report


def _with_system(made: R, source: RowFile) -> R:
    """A record under the system message of its file, if that has one; its id stays."""
    if isinstance(made, Document) or not isinstance(source, DialogueFile) or source.system is None:
        return made
    return replace(made, dialogue=with_system(made.dialogue, source.system))


def _check_length(content: Json, limits: list[Limit]) -> None:
    for limit in limits:
        if sum(map(limit.count, _longest(content))) > limit.most:
            raise RefusedRow(f"it says more than {limit.most} {limit.unit}")


def _longest(content: Json) -> list[str]:
    """The texts of what a row says: its dialogue, and the longest of its answers."""
    if isinstance(content, str):
        return [content]
    assert isinstance(content, list)
    if all(isinstance(turn, list) and len(turn) == 2 for turn in content):
        return [str(turn[1]) for turn in content if isinstance(turn, list)]
    dialogue, *answers = content
    return [*_longest(dialogue), max(map(str, answers), key=len)]


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
