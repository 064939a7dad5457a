"""Packages that only some work needs: imported when that work begins, or refused with the install that mends it."""

from importlib import import_module
from typing import Any

from ropewalk.records.errors import InputError


def optional_module(name: str, *, extra: str, need: str) -> Any:
    """The module `name`; InputError naming the extra that brings it, if it is not installed. `need` is who asks."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(f"{need} needs {package}, which is not installed: pip install 'ropewalk[{extra}]'") from error
