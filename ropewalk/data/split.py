"""A held-out split that depends on what a row asks, and on nothing else.

A row keeps its side when the file is reordered, grows or shrinks, and rows that ask the same never part.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from ropewalk.data.read import content_hash, plain
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Demonstration, Document, LabelledSteps, PreferencePair, Prompt

Record: TypeAlias = Document | Demonstration | PreferencePair | Prompt | LabelledSteps
R = TypeVar("R", bound=Record)


def is_held_out(key: str, share: float, *, salt: str = "") -> bool:
    """Whether the row with this key is held out: its hash, as a number in [0, 1), is below `share`."""
    digest = hashlib.blake2b(f"{salt}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2.0**64


def split_key(record: Record) -> str:
    """What the split hangs on: the id of a prompt or document, the dialogue of a demonstration, pair or steps."""
    if isinstance(record, Demonstration | PreferencePair | LabelledSteps):
        return content_hash(plain(record.dialogue))
    return record.id


def split(records: Sequence[R], share: float, *, salt: str = "") -> tuple[list[R], list[R]]:
    """(train, held out), each in the given order; about `share` of the rows are held out.

    Raises `InputError` if a side that should have rows has none.
    """
    if not 0 <= share < 1:
        raise InputError(f"the held-out share must be at least 0 and below 1, not {share}")
    held = [is_held_out(split_key(record), share, salt=salt) for record in records]
    train = [record for record, out in zip(records, held, strict=True) if not out]
    kept_out = [record for record, out in zip(records, held, strict=True) if out]
    if (share > 0 and not kept_out) or not train:
        side = "train on" if not train else "hold out"
        raise InputError(
            f"of {len(records)} rows none are left to {side} at a held-out share of {share}: "
            "give more rows or another share"
        )
    return train, kept_out
