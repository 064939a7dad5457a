"""How the ranks of a mesh split a model and its data."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError

Shard: TypeAlias = Literal["none", "optimizer", "full"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Ranks of a mesh and their split, printed dp·tp·pp."""

    ranks: tuple[int, ...]
    _: KW_ONLY
    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    shard: Shard = "none"

    def __post_init__(self) -> None:
        if min(self.dp, self.tp, self.pp, self.ep) < 1:
            raise InputError(f"a layout needs every degree >= 1, got {self}")
        if len(set(self.ranks)) != len(self.ranks) or len(self.ranks) != self.dp * self.tp * self.pp:
            raise InputError(f"a layout {self} needs dp x tp x pp distinct ranks, got {list(self.ranks)}")

    def __str__(self) -> str:
        return f"{self.dp}·{self.tp}·{self.pp}"
