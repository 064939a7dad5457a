"""`chat`: talk to one model, or to two side by side. Answers appear as they are sampled.

On a terminal a line is asked for, and Ctrl-C breaks an answer off. In a pipe every line of stdin is said in turn.
"""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Protocol, TypeAlias

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ropewalk.cli.progress import progress
from ropewalk.records.errors import InputError

HELP = "an empty line is not sent; /clear begins anew, /quit or Ctrl-D ends"


class Talker(Protocol):
    """What is talked to: see `ropewalk.runtime.jobs.chat.Chat`."""

    forgotten: int

    def say(self, text: str) -> Iterator[str]: ...
    def clear(self) -> None: ...


Talkers: TypeAlias = Mapping[str, Talker]
"""One or two, by the name they were given."""


def chat(
    first: Annotated[str, typer.Argument(metavar="RUN|FOLDER", help="A run folder, RUN@best, or a model folder.")],
    second: Annotated[str | None, typer.Argument(metavar="[RUN|FOLDER]", help="Another, to stand beside it.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="0 is greedy; else as the run sampled.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer.")] = None,
    system: Annotated[str | None, typer.Option(help="A message before the conversation.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same answers.")] = 0,
) -> None:
    """Talk to a model, or to two side by side."""
    from ropewalk.runtime.jobs.chat import Chat

    references = [first, *([second] if second is not None else [])]
    names = names_of(references)
    talkers: dict[str, Talker] = {}
    with progress() as shown:
        shown.begin("loading", len(references))
        for number, (name, reference) in enumerate(zip(names, references, strict=True)):
            # Two of one model would say the same with one seed.
            own_seed = seed + (number if names != references else 0)
            made = Chat(reference, temperature=temperature, max_new_tokens=max_new_tokens, system=system, seed=own_seed)
            for note in made.language.notes:
                shown.say(note)
            talkers[name] = made
            shown.advance(number + 1)
    converse(talkers)


def converse(talkers: Talkers) -> None:
    """Say every line of stdin to all talkers, until it ends."""
    asking = sys.stdin.isatty()
    if asking:
        typer.echo(HELP, err=True)
    while (line := _line(asking)) is not None:
        match line.strip():
            case "":
                continue
            case "/quit":
                return
            case "/clear":
                for talker in talkers.values():
                    talker.clear()
            case _ if asking:
                _forgiving(talkers, line)
            case _:
                answer(talkers, line)


def _forgiving(talkers: Talkers, line: str) -> None:
    """On a terminal neither a message without room nor Ctrl-C ends the conversation."""
    try:
        answer(talkers, line)
    except InputError as error:
        typer.echo(str(error), err=True)
    except KeyboardInterrupt:
        typer.echo("")


def _line(asking: bool) -> str | None:
    if not asking:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    try:
        return input("> ")
    except EOFError:
        typer.echo("")
        return None


def answer(talkers: Talkers, said: str) -> None:
    """Every talker's answer, as it comes."""
    if len(talkers) == 1:
        _stream(next(iter(talkers.values())), said)
    elif sys.stdout.isatty():
        _beside(talkers, said)
    else:
        for name, talker in talkers.items():
            typer.echo(f"[{name}] ", nl=False)
            _stream(talker, said)
    for name, talker in talkers.items():
        if talker.forgotten:
            typer.echo(f"{name} has no room for its oldest {talker.forgotten} turns and forgot them", err=True)


def _stream(talker: Talker, said: str) -> None:
    with closing(_pieces(talker, said)) as pieces:
        for piece in pieces:
            typer.echo(visible(piece), nl=False)
            sys.stdout.flush()
    typer.echo("")


def _beside(talkers: Talkers, said: str) -> None:
    """Two answers in two columns: a piece of each in turn."""
    console = Console()
    texts = dict.fromkeys(talkers, "")
    going = {name: _pieces(talker, said) for name, talker in talkers.items()}
    try:
        with Live(console=console, transient=True, vertical_overflow="crop") as live:
            while going:
                for name, pieces in list(going.items()):
                    piece = next(pieces, None)
                    if piece is None:
                        del going[name]
                    else:
                        texts[name] += visible(piece)
                live.update(_columns(texts))
    finally:
        for pieces in going.values():
            pieces.close()
        console.print(_columns(texts))


def _columns(texts: Mapping[str, str]) -> Table:
    table = Table(expand=True, show_edge=False)
    for name in texts:
        table.add_column(Text(name), ratio=1, overflow="fold")
    table.add_row(*map(Text, texts.values()))
    return table


def _pieces(talker: Talker, said: str) -> Generator[str, None, None]:
    """The answer; closing it breaks it off, and the talker remembers what it had said."""
    yield from talker.say(said)


def visible(text: str) -> str:
    """A model's text without control characters: it must not drive the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def names_of(references: Sequence[str]) -> list[str]:
    """Distinct names for what is talked to."""
    if len(set(references)) == len(references):
        return list(references)
    return [f"{reference} ({number})" for number, reference in enumerate(references, 1)]
