"""A command with many options takes them as one dataclass: each field becomes an argument or an option."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

Options = TypeVar("Options")
Result = TypeVar("Result")


def gathered(kind: type[Options], command: Callable[[Options], Result]) -> Callable[..., Result]:
    """The command with the dataclass's fields (all with defaults) as parameters, for typer to read."""
    hints = get_type_hints(kind, include_extras=True)

    def called(**values: Any) -> Result:
        return command(kind(**values))

    found = [field for field in fields(kind) if field.init]  # type: ignore[arg-type]
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in found
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {field.name: hints[field.name] for field in found}
    called.__doc__, called.__name__ = command.__doc__, command.__name__
    return called
