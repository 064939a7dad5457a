"""Plain data as bytes, for pipes whose other end is not trusted.

decode(encode(x)) is x, with the very types, for None, bool, int, float (NaN and infinities too), complex, str, bytes,
list, tuple, dict, set and frozenset, nested at most `MAX_DEPTH` deep. Subclasses lose what they add: what arrives is
plain and cannot answer for itself. Anything else travels as a handle, a number that stands for it, or is refused.
Decoding evaluates nothing and fails with WireError only. This file also runs inside the sandbox: builtins and os only.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` is not loaded inside: its import would be a good part of the time a program takes.
    from collections.abc import Iterator
    from typing import Any

MAX_DEPTH = 100
MAX_FRAME = 2**30
_COUNTED = {"s", "b", "h"}


class WireError(ValueError):
    """Bytes that no encoder wrote, or a value that cannot be sent."""


class TooDeep(WireError):
    """A value nested more than `MAX_DEPTH` deep, or within itself."""


class Handle:
    """An object that stays on the other side: its number there, and the name of its type."""

    __slots__ = ("number", "type_name")

    def __init__(self, number: int, type_name: str) -> None:
        self.number = number
        self.type_name = type_name


class Keeper:
    """The objects of this side that the other side holds handles of."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

    def keep(self, value: object) -> Handle:
        """A handle of `value`."""
        self.objects.append(value)
        return Handle(len(self.objects) - 1, type(value).__name__)


def encode(value: object, keeper: Keeper | None = None) -> bytes:
    """`value` as bytes. Raises WireError for what is not plain, unless a keeper takes it."""
    parts: list[bytes] = []
    _put(value, parts, 0, keeper)
    return b"".join(parts)


def _put(value: object, parts: list[bytes], depth: int, keeper: Keeper | None) -> None:
    if depth > MAX_DEPTH:
        raise TooDeep(f"data nested more than {MAX_DEPTH} deep")
    if value is None or value is True or value is False:
        parts.append(b"N" if value is None else b"T" if value else b"F")
    elif isinstance(value, int):
        parts.append(b"i%x;" % int.__index__(value) if value >= 0 else b"j%x;" % -int.__index__(value))
    elif isinstance(value, float):
        parts.append(b"f" + float.hex(value).encode() + b";")
    elif isinstance(value, complex):
        # The pair of parts: complex itself cannot hold signed zeros through arithmetic.
        parts.append(b"c" + value.real.hex().encode() + b";" + value.imag.hex().encode() + b";")
    elif isinstance(value, str):
        _put_bytes(b"s", str.encode(value, "utf-8", "surrogatepass"), parts)
    elif isinstance(value, bytes | bytearray):
        _put_bytes(b"b", bytes(value), parts)
    elif isinstance(value, Handle):
        _put_bytes(b"h", b"%d %s" % (value.number, value.type_name.encode("utf-8", "replace")[:100]), parts)
    else:
        _put_many(value, parts, depth, keeper)


def _put_bytes(kind: bytes, data: bytes, parts: list[bytes]) -> None:
    parts.append(b"%b%d;%b" % (kind, len(data), data))


def _put_many(value: object, parts: list[bytes], depth: int, keeper: Keeper | None) -> None:
    if isinstance(value, dict):
        parts.append(b"d")
        for key, item in dict.items(value):
            _put(key, parts, depth + 1, keeper)
            _put(item, parts, depth + 1, keeper)
    elif isinstance(value, list | tuple | set | frozenset):
        letter, items = _members(value)
        parts.append(letter)
        for item in items:
            _put(item, parts, depth + 1, keeper)
    elif keeper is not None:
        _put(keeper.keep(value), parts, depth, None)
        return
    else:
        raise WireError(f"an object of type {type(value).__name__} is no plain data")
    parts.append(b"e")


def _members(value: "list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any]") -> "tuple[bytes, Iterator[Any]]":
    """The letter of the type and its own iterator: a subclass has no say."""
    if isinstance(value, list):
        return b"l", list.__iter__(value)
    if isinstance(value, tuple):
        return b"t", tuple.__iter__(value)
    return (b"S", set.__iter__(value)) if isinstance(value, set) else (b"Z", frozenset.__iter__(value))


class Pairs(list[tuple[object, object]]):
    """A dict as it came: a list, so that keys chosen to collide cost nothing."""


class Items(list[object]):
    """A set as it came."""


class Decoder:
    """Reads one value. `plain` builds dicts and sets; else they come as Pairs and Items, which cannot be slow."""

    def __init__(self, data: bytes, *, plain: bool) -> None:
        self.data = data
        self.place = 0
        self.plain = plain

    def value(self) -> object:
        """The one value of the data."""
        found = self._one(0)
        if self.place != len(self.data):
            raise WireError("bytes after the value")
        return found

    def _one(self, depth: int) -> object:
        if depth > MAX_DEPTH or self.place >= len(self.data):
            raise WireError("cut off, or nested too deep")
        kind = chr(self.data[self.place])
        self.place += 1
        if kind in "NTF":
            return None if kind == "N" else kind == "T"
        if kind in "ij":
            return int(self._word(), 16) * (1 if kind == "i" else -1)
        if kind == "f":
            return float.fromhex(self._word())
        if kind == "c":
            return complex(float.fromhex(self._word()), float.fromhex(self._word()))
        return self._counted(kind) if kind in _COUNTED else self._many(kind, depth)

    def _word(self) -> str:
        end = self.data.find(b";", self.place)
        if end < 0:
            raise WireError("cut off")
        word = self.data[self.place : end].decode("ascii")
        self.place = end + 1
        return word

    def _counted(self, kind: str) -> object:
        size = int(self._word(), 10)
        if size < 0 or self.place + size > len(self.data):
            raise WireError("cut off")
        data = self.data[self.place : self.place + size]
        self.place += size
        if kind == "h":
            number, _, name = data.decode("utf-8").partition(" ")
            return Handle(int(number, 10), name)
        return data if kind == "b" else data.decode("utf-8", "surrogatepass")

    def _many(self, kind: str, depth: int) -> object:
        if kind not in "ltdSZ":
            raise WireError(f"no kind {kind!r}")
        items: list[object] = []
        while self.data[self.place : self.place + 1] != b"e":
            items.append(self._one(depth + 1))
        self.place += 1
        if kind == "d":
            if len(items) % 2:
                raise WireError("a key without a value")
            pairs = zip(items[::2], items[1::2], strict=True)
            return dict(pairs) if self.plain else Pairs(pairs)
        if kind in "SZ":
            return Items(items) if not self.plain else set(items) if kind == "S" else frozenset(items)
        return items if kind == "l" else tuple(items)


def decode(data: bytes, *, plain: bool = True) -> "Any":
    """The value of `data`; WireError for anything that no encoder wrote."""
    try:
        return Decoder(data, plain=plain).value()
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(str(error)[:200]) from None


def send(fd: int, payload: bytes) -> None:
    """Write one frame: four bytes of length, then the payload. Blocks."""
    view = memoryview(len(payload).to_bytes(4, "big") + payload)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int, limit: int = MAX_FRAME) -> bytes | None:
    """Read one frame, blocking; None at the end of the stream, WireError for a frame above the limit."""
    head = _exactly(fd, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > limit:
        raise WireError(f"a frame of {size} bytes")
    return _exactly(fd, size)


def _exactly(fd: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = os.read(fd, min(size, 2**20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
