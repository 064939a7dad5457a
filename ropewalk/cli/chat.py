"""`chat`: talk to one model, or to two side by side."""

from typing import Annotated

import typer


def chat(
    first: Annotated[str, typer.Argument(metavar="RUN|FOLDER", help="A run folder, RUN@best, or a model folder.")],
    second: Annotated[str | None, typer.Argument(metavar="[RUN|FOLDER]", help="Another, to stand beside it.")] = None,
) -> None:
    """Talk to a model, or to two side by side."""
    raise NotImplementedError
