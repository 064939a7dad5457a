"""One decorator for inner loops: numba's compiler where it is installed, otherwise the function as it stands.

`COMPILED` says which of the two happened, so that a caller can take a vectorised path instead of a slow plain loop.
NUMBA_DISABLE_JIT=1 makes numba leave functions alone; that counts as not compiled.

Compiled code is kept on disk beside the source, or in the user's cache where that is not writable, or nowhere. The
stored code of a function is renewed when its own file changes, not when a compiled function it calls from another
file changes: keep loops that call each other in one file.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])

_numba: Any = import_module("numba") if find_spec("numba") is not None else None

COMPILED: bool = _numba is not None and not _numba.config.DISABLE_JIT


@overload
def njit(function: Function, /) -> Function: ...
@overload
def njit(**options: Any) -> Callable[[Function], Function]: ...
def njit(function: Any = None, /, **options: Any) -> Any:
    """`@njit` or `@njit(option=...)`: numba's own, with cache=True unless told otherwise, or nothing without numba."""
    if function is None:
        return lambda wrapped: _compile(wrapped, options)
    return _compile(function, options)


def _compile(function: Any, options: dict[str, Any]) -> Any:
    if not COMPILED:
        return function
    try:
        return _numba.njit(**({"cache": True} | options))(function)
    except RuntimeError:  # no folder to keep the compiled code in
        return _numba.njit(**(options | {"cache": False}))(function)
