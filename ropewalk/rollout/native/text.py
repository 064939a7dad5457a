"""Text of sampled ids. Text is for scorers, readers and stop strings; it is never turned back into ids."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerFast

Ints = npt.NDArray[np.int64]

_MARGIN_TOKENS = 4
"""A stop string may begin inside a token and a character may span several: look this much further back."""


class Texts:
    """Decodes completions: without the end token and other special tokens, cut before the first stop string."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)

    def final(self, ids: Sequence[int], eos_ids: Sequence[int], stop_strings: Sequence[str]) -> tuple[str, bool]:
        """The text of a completion, and whether a stop string was in it."""
        said = ids[:-1] if len(ids) and ids[-1] in eos_ids else ids
        text = self._decode(said)
        cuts = [place for place in map(text.find, stop_strings) if place >= 0]
        return (text[: min(cuts)], True) if cuts else (text, False)

    def stopped(self, ids: Ints, stop_strings: Sequence[str]) -> bool:
        """Whether the newest token of `ids` completed a stop string.

        Only a tail is decoded, so the cost of a token does not grow with the text: a token that is not special adds
        at least one byte, hence no more tokens than the string has bytes can carry it.
        """
        tail = max(len(stop.encode()) for stop in stop_strings) + _MARGIN_TOKENS
        plain: list[int] = []
        for token in ids[::-1].tolist():
            if len(plain) == tail:
                break
            if token not in self._special:
                plain.append(token)
        text = self._decode(plain[::-1])
        return any(stop in text for stop in stop_strings) and self.final(ids.tolist(), (), stop_strings)[1]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
