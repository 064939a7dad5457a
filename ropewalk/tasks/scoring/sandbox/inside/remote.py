"""Test code beside the program, not in it: names of the program are stand-ins that ask for plain data.

`assert candidate(3) == 5` runs here, in the supervisor: 3 goes over, the program's answer comes back as plain data
and is compared with a 5 that the program never sees. Objects that are no plain data stay over there; a stand-in may
be called, indexed, iterated and asked for attributes, but not compared: equality is never the program's word.
"""

import builtins

from ropewalk.tasks.scoring.sandbox.inside.wire import Handle, TooDeep, WireError, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[bytes], bytes]


class ProgramError(RuntimeError):
    """The program raised something that is no ordinary exception of Python."""


class Unsendable(Exception):
    """The test hands the program something that cannot travel: a fault of the test."""


class Remote:
    """An object of the program."""

    __slots__ = ("_ask", "_handle")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ask: "Ask", handle: Handle) -> None:
        self._ask = ask
        self._handle = handle

    def __call__(self, *args: object, **kwargs: object) -> object:
        return asked(self._ask, "call", self._handle, args, kwargs, None)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return asked(self._ask, "attribute", self._handle, name)

    def __getitem__(self, key: object) -> object:
        return asked(self._ask, "item", self._handle, key)

    def __iter__(self) -> object:
        return iter(asked(self._ask, "list", self._handle))  # type: ignore[call-overload]

    def __len__(self) -> int:
        return asked(self._ask, "length", self._handle)  # type: ignore[return-value]

    def _never(self, *_: object) -> bool:
        raise TypeError(f"the program gave an object of type {self._handle.type_name}: only plain data are compared")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _never


def asked(ask: "Ask", *request: object) -> object:
    """The answer to a request: plain data, stand-ins for what is not, or the exception the program raised."""
    try:
        payload = encode(_sendable(request))
    except (TooDeep, RecursionError):
        # Only the program's own answers nest so deep: it must not make its failure look like the test's.
        raise ProgramError("an answer of the program, nested too deep to be sent back") from None
    except WireError as error:
        raise Unsendable(str(error)) from None
    answer = decode(ask(payload))
    if isinstance(answer, tuple) and len(answer) == 2 and answer[0] == "value":
        return _received(answer[1], ask)
    if isinstance(answer, tuple) and len(answer) == 3 and answer[0] == "raised":
        raise _marked(exception(str(answer[1]), str(answer[2])))
    raise ProgramError("the program gave no answer")


def _marked(error: Exception) -> Exception:
    error.__dict__["of_the_program"] = True
    return error


def of_the_program(error: BaseException) -> bool:
    """Whether it was the program that raised this."""
    return isinstance(error, ProgramError) or "of_the_program" in error.__dict__


def exception(name: str, text: str) -> Exception:
    """The exception a program raised, as one of ours.

    StopIteration is not let through: raised inside map() it would end the test's loop without an error.
    """
    kind = builtins.__dict__.get(name)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(
        kind, StopIteration | StopAsyncIteration
    ):
        return ProgramError(f"{name}: {text}")
    try:
        return kind(text)
    except TypeError:
        return ProgramError(f"{name}: {text}")


def _sendable(value: object) -> object:
    if isinstance(value, Remote):
        return value._handle
    if isinstance(value, list):
        return [_sendable(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_sendable(item) for item in value)
    if isinstance(value, dict):
        return {key: _sendable(item) for key, item in value.items()}
    return list(value) if isinstance(value, range) else value


def _received(value: object, ask: "Ask") -> object:
    if isinstance(value, Handle):
        return Remote(ask, value)
    if isinstance(value, list):
        return [_received(item, ask) for item in value]
    if isinstance(value, tuple):
        return tuple(_received(item, ask) for item in value)
    if isinstance(value, dict):
        return {key: _received(item, ask) for key, item in value.items()}
    return value
