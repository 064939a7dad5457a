"""Prompts that are alike, by the word sequences they share.

Leaders: prompts in an order of their own (by hash of what they say, so that the file's order is no matter) each join
the first earlier leader with which they share enough, or lead a new cluster. Candidates come from MinHash signatures
(Broder 1997) in bands; whether they are alike is then counted exactly (Jaccard), so signatures only ever cost recall,
under 1 % at the threshold. Numbers count as one word: problems that differ only in their figures are alike.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ropewalk.data.config import Coverage

_SIGNATURE = 128
_RECALL = 0.99
_SEED = 7
# Scripts without spaces between words are cut into characters.
_SPACELESS = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[0-9][0-9.,]*|[{_SPACELESS}]|[^\W{_SPACELESS}0-9_]+")

Hashes = npt.NDArray[np.uint64]


def clusters_of(texts: Sequence[str], coverage: Coverage) -> list[int]:
    """The cluster of each text; clusters are numbered as they first occur."""
    shingles = [shingles_of(text, coverage.shingle_words) for text in texts]
    order = sorted(range(len(texts)), key=lambda i: (_hash(texts[i]), texts[i], i))
    index = _Leaders(coverage.similarity)
    leader = {i: index.join(i, shingles[i]) for i in order}
    numbers: dict[int, int] = {}
    return [numbers.setdefault(leader[i], len(numbers)) for i in range(len(texts))]


def shingles_of(text: str, words: int) -> frozenset[int]:
    """Hashes of a text's runs of `words` words; of all its words if it has fewer; of itself if none."""
    found = ["0" if word[0].isdecimal() else word for word in _WORD.findall(text.casefold())]
    runs = [" ".join(found[i : i + words]) for i in range(max(1, len(found) - words + 1))] if found else [text]
    return frozenset(map(_hash, runs))


def jaccard(left: frozenset[int], right: frozenset[int]) -> float:
    """|A ∩ B| / |A ∪ B|."""
    both = len(left & right)
    return both / (len(left) + len(right) - both)


def rows_of_a_band(similarity: float, size: int = _SIGNATURE) -> int:
    """The most rows of a band with which texts of just this similarity are candidates with probability 0.99."""
    rows = [r for r in range(1, 17) if 1 - (1 - similarity**r) ** (size // r) >= _RECALL]
    return max(rows, default=1)


class _Leaders:
    """The leaders so far, found by what their signatures share."""

    def __init__(self, similarity: float) -> None:
        self.similarity = similarity
        self.rows = rows_of_a_band(similarity)
        self.shingles: dict[int, frozenset[int]] = {}
        self.place: dict[int, int] = {}
        self.buckets: dict[tuple[int, bytes], list[int]] = {}

    def join(self, text: int, shingles: frozenset[int]) -> int:
        """The earliest leader like a text, or the text itself as a new one."""
        signature = _signature(shingles)
        keys = [
            (at, signature[at : at + self.rows].tobytes()) for at in range(0, _SIGNATURE - self.rows + 1, self.rows)
        ]
        candidates = {leader for key in keys for leader in self.buckets.get(key, ())}
        for leader in sorted(candidates, key=self.place.__getitem__):
            if jaccard(self.shingles[leader], shingles) >= self.similarity:
                return leader
        self.place[text] = len(self.place)
        self.shingles[text] = shingles
        for key in keys:
            self.buckets.setdefault(key, []).append(text)
        return text


def _signature(shingles: frozenset[int]) -> Hashes:
    """The least hash under each of the multiply-shift functions (a·x + b) mod 2⁶⁴."""
    factors, shifts = _functions()
    hashes = np.fromiter(shingles, np.uint64, len(shingles))
    least: Hashes = (factors[:, None] * hashes[None, :] + shifts[:, None]).min(axis=1)
    return least


@lru_cache(maxsize=1)
def _functions() -> tuple[Hashes, Hashes]:
    raw = np.random.Philox(key=_SEED).random_raw(2 * _SIGNATURE).astype(np.uint64)
    return raw[:_SIGNATURE] | np.uint64(1), raw[_SIGNATURE:]


@lru_cache(maxsize=1 << 18)
def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
