"""The commands by name, and what happens around each. Importing it imports no torch: commands do when they run."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from ropewalk.cli import chat, cost, files, looking, plan, scoring, selecting, training
from ropewalk.cli.failures import NO_READER, WRONG_INPUT, Failure, Terminated, failure_of

app = typer.Typer(name="ropewalk", add_completion=False, rich_markup_mode=None)
app.command("demo")(training.demo)
app.command("train")(training.train)
app.command("sample")(files.sample)
app.command("score")(scoring.score)
app.command("select")(selecting.select)
app.command("eval")(looking.evaluate)
app.command("replay")(training.replay)
app.command("report")(looking.report)
app.command("recipes")(looking.recipes)
app.command("export")(files.export)
app.command("chat")(chat.chat)
app.command("plan")(plan.plan)
app.command("cost")(cost.cost)
app.command("advise")(cost.advise)

# typer's own errors (unknown command or option, missing argument); their base class has moved between its versions.
_USAGE: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


@app.callback()
def root(debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False) -> None:
    """A post-training system for language models: from prompts to a better model.

    ropewalk demo shows all of it in minutes; ropewalk recipes lists what can be trained.
    """


def run(arguments: Sequence[str]) -> int:
    """Carry out one command; its exit code. Errors are told on stderr, one sentence each."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"] or ["--help"]
    before = _on_sigterm(_terminate)
    swallowed: list[BaseException] = []
    try:
        with _heard_in_callbacks(swallowed):
            code = _invoke(words)
        sys.stdout.flush()
        return code
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return 128 + signal.SIGINT
    except _USAGE as error:
        return _tell(_usage(error))
    except BaseException as error:  # the edge of the program: everything becomes a sentence and a code
        if isinstance(error, SystemExit):
            raise
        if debug:
            traceback.print_exception(error)
        return _tell(failure_of(swallowed[0] if swallowed else error))
    finally:
        _on_sigterm(before)


def _invoke(words: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    with command.make_context("ropewalk", list(words)) as context:
        code = command.invoke(context)
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> Failure:
    context = getattr(error, "ctx", None)
    asked = context.command_path if context is not None else "ropewalk"
    said = error.format_message().strip()
    return Failure(WRONG_INPUT, (f"{said}{'' if said.endswith(('.', '?')) else '.'} See: {asked} --help",))


def _tell(failure: Failure) -> int:
    """Say it on stderr; a reader who has gone away is no error."""
    try:
        for sentence in failure.sentences:
            typer.echo(sentence, err=True)
        sys.stdout.flush()
    except BrokenPipeError:
        failure = Failure(NO_READER)
    if failure.code == NO_READER:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains when it flushes at the end
    return failure.code


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextmanager
def _heard_in_callbacks(swallowed: list[BaseException]) -> Iterator[None]:
    """Keep an interrupt that meets a callback from C, as while loops are compiled: Python prints and drops it, and what
    called back then fails in a way that says nothing of it."""
    usual = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            swallowed.append(unraisable.exc_value)
        else:
            usual(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _on_sigterm(handler: Any) -> Any:
    """Set the handler; the one before. Only the main thread may."""
    try:
        return signal.signal(signal.SIGTERM, handler)
    except ValueError:
        return None
