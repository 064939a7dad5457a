"""The untrusted side: this process becomes the program, runs it or answers calls of it.

It is forked by the supervisor before any test or tag has come in, holds no descriptor but stdin, stdout, stderr and
its two pipes, and what it says is never believed: replies are data that somebody else compares. Builtins only.
"""

import builtins
import os
import resource
import sys

from ropewalk.tasks.scoring.sandbox.inside.wire import Handle, Keeper, WireError, decode, encode, receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

Settings = dict[str, int | float | str | None]
_VIEWS: tuple[type, ...] = (range, type({}.keys()), type({}.values()), type({}.items()))
_EXTRA_FRAMES = 20
"""Recursion that this file takes up must not be missing in the program."""


def confine(settings: Settings, keep: set[int]) -> None:
    """Close every descriptor but `keep`, and set the limits that hold for the program only."""
    close_others(keep)
    os.setsid()
    for kind, name in ((resource.RLIMIT_NPROC, "nproc"), (resource.RLIMIT_CPU, "cpu_seconds")):
        limit = int(settings[name] or 0)
        resource.setrlimit(kind, (limit, limit + (kind == resource.RLIMIT_CPU)))


def close_others(keep: set[int]) -> None:
    """Close every descriptor above 2 but `keep`."""
    low = 3
    for fd in sorted(keep):
        if low < fd:  # closerange(n, n) closes all from n on in Python 3.11.
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 2**16)


def run_whole(source: str) -> None:
    """Run `source` as a script; what it raises ends this process as it would end any script."""
    exec(_compiled(source), _module("__main__").__dict__)  # noqa: S102  this is the sandbox


def serve(source: str, inbox: int, outbox: int) -> None:
    """Load `source` as a module, say so, and answer one request after the other until they end."""
    module = _module("solution")
    keeper = Keeper()
    try:
        exec(_compiled(source), module.__dict__)  # noqa: S102  this is the sandbox
    except BaseException as error:  # noqa: BLE001  whatever the program raises is its answer
        send(outbox, _raised(error))
        return
    send(outbox, encode(("loaded",)))
    while (request := receive(inbox)) is not None:
        send(outbox, _answer(module, keeper, decode(request)))


def _module(name: str) -> "ModuleType":
    module = type(sys)(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    sys.argv[:] = ["program.py"]
    # Without `site` there is no exit(), and scripts call it.
    builtins.__dict__.update(exit=sys.exit, quit=sys.exit)
    sys.setrecursionlimit(sys.getrecursionlimit() + _EXTRA_FRAMES)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    return module


def _compiled(source: str) -> "CodeType":
    return compile(source, "program.py", "exec", dont_inherit=True)


def _answer(module: "ModuleType", keeper: Keeper, request: object) -> bytes:
    try:
        if not isinstance(request, tuple):
            raise WireError("a request is a tuple")
        value = _done(module, keeper, *request)
        return encode(("value", list(value) if type(value) in _VIEWS else value), keeper)
    except BaseException as error:  # noqa: BLE001  whatever the program raises is its answer
        return _raised(error)


def _done(module: "ModuleType", keeper: Keeper, verb: str, target: object, *rest: "Any") -> "Any":
    """The result of one request: get, call, attribute, item, list or length."""
    thing: Any = keeper.objects[target.number] if isinstance(target, Handle) else _found(module, str(target))
    if verb == "get":
        return thing
    if verb == "list":
        return list(thing)
    if verb == "length":
        return len(thing)
    if verb == "attribute":
        return getattr(thing, str(rest[0]))
    if verb == "item":
        return thing[_restored(rest[0], keeper)]
    args, kwargs = _restored(rest[0], keeper), _restored(rest[1], keeper)
    value = thing(*args, **kwargs)
    return value if rest[2] is None else args[rest[2]]


def _found(module: "ModuleType", path: str) -> "Any":
    """`solve`, `Box.size` or `Solution().solve`: names joined by dots, called where () follows."""
    thing: Any = module
    for part in path.split("."):
        thing = getattr(thing, part.removesuffix("()"))
        if part.endswith("()"):
            thing = thing()
    return thing


def _restored(value: object, keeper: Keeper) -> "Any":
    if isinstance(value, Handle):
        return keeper.objects[value.number]
    if isinstance(value, list):
        return [_restored(item, keeper) for item in value]
    if isinstance(value, tuple):
        return tuple(_restored(item, keeper) for item in value)
    if isinstance(value, dict):
        return {key: _restored(item, keeper) for key, item in value.items()}
    return value


def _raised(error: BaseException) -> bytes:
    try:
        text = str(error)[:300]
    except BaseException:  # noqa: BLE001  the program's own exception class may do anything
        text = ""
    return encode(("raised", str(type(error).__name__), text))
