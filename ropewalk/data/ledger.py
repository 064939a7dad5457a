"""The order in which rows are consumed: one fixed endless sequence of which the ledger is a position.

Each epoch is a permutation made from (seed, epoch) alone, and epochs follow without a gap. So every row comes
exactly once an epoch, whatever is asked for at a time, and a stop at any place, an epoch's end included, resumes
at the next row.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError

Ints = npt.NDArray[np.int64]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class DataLedger:
    """A position in the order of `size` rows."""

    size: int
    seed: int
    fingerprint: str
    """Of the rows and of all that shapes them (`fingerprint`)."""
    consumed: int = 0
    """Rows handed out since the first epoch began."""

    def __post_init__(self) -> None:
        if self.size < 1 or self.consumed < 0:
            raise InputError(f"a data ledger needs at least one row, got {self.size} with {self.consumed} consumed")

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next row belongs to."""
        return self.consumed // self.size

    def next(self, n: int) -> tuple[Ints, "DataLedger"]:
        """The next `n` row numbers and the ledger after them; `n` may cross any number of epochs."""
        if n < 0:
            raise InputError(f"cannot take {n} rows")
        end = self.consumed + n
        pieces = [np.empty(0, np.int64)]
        for epoch in range(self.epoch, -(-end // self.size)):
            start = epoch * self.size
            order = epoch_order(self.size, self.seed, epoch)
            pieces.append(order[max(self.consumed - start, 0) : end - start])
        return np.concatenate(pieces), replace(self, consumed=end)

    def state(self) -> dict[str, Any]:
        """JSON data from which `resume` goes on."""
        return {"version": _VERSION, **asdict(self)}

    @staticmethod
    def resume(state: Mapping[str, Any], fingerprint: str) -> "DataLedger":
        """The ledger of a saved state; refuses another dataset than the one it was saved with."""
        if state.get("version") != _VERSION:
            raise InputError(f"the saved data ledger has version {state.get('version')}, this program reads {_VERSION}")
        saved = DataLedger(**{name: state[name] for name in ("size", "seed", "fingerprint", "consumed")})
        if saved.fingerprint != fingerprint:
            raise InputError(
                f"the run was started on data with fingerprint {saved.fingerprint} and cannot resume on data with "
                f"fingerprint {fingerprint}: give it the same data in the same order, or start a new run"
            )
        return saved


def epoch_order(size: int, seed: int, epoch: int) -> Ints:
    """The permutation of an epoch: rows sorted by raw Philox numbers of key (seed, epoch).

    Raw bits and a stable sort, because numpy promises both to stay as they are.
    """
    key = np.array([seed % 2**64, epoch], np.uint64)
    order: Ints = np.argsort(np.random.Philox(key=key).random_raw(size), kind="stable").astype(np.int64)
    return order


def fingerprint(rows: Iterable[object], *settings: str) -> str:
    """A hash of rows in their order, and of the settings that shape them (filter, tokenizer, template)."""
    digest = hashlib.blake2b(digest_size=12)
    for setting in settings:
        digest.update(f"{len(setting)}\x1e{setting}".encode())
    for row in rows:
        data = asdict(row) if is_dataclass(row) and not isinstance(row, type) else row
        digest.update(b"\x1f" + json.dumps(data, ensure_ascii=True, sort_keys=True).encode())
    return digest.hexdigest()
