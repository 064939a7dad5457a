"""Ctrl-C and SIGTERM: at once where nothing would be lost, after the present iteration in the loop.

    loading, tokenising, sampling     any signal           ─▶ Interrupted
    loop (asked.note is set)          first signal         ─▶ note(sentence), the loop ends by itself
                                      second signal        ─▶ Interrupted, the newest checkpoint stands

A signal the process was told to ignore (children of a chain ignore Ctrl-C) stays ignored.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ropewalk.records.errors import Interrupted

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


@dataclass
class Interrupt:
    """Whether a signal came, and who is told of the first one."""

    number: int | None = None
    note: Callable[[str], None] | None = None
    """Takes the first signal's sentence, for a loop that looks at it; without one the work is left at once."""


@contextmanager
def interruptible(folder: Path) -> Iterator[Interrupt]:
    """Run a block that signals may end. Raises `Interrupted`, which says how to go on in `folder`."""
    asked = Interrupt()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        first, asked.number = asked.number is None, number
        if not first or asked.note is None:
            raise KeyboardInterrupt
        asked.note(sentence(number, folder))
        if sys.stderr.isatty():
            os.write(2, b"\nending after this iteration; once more ends it at once\n")  # print is not safe here

    mine = threading.current_thread() is threading.main_thread()
    numbers = [n for n in NAMES if mine and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield asked
    except KeyboardInterrupt:
        number = asked.number or signal.SIGINT
        raise Interrupted(sentence(number, folder), number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def sentence(number: int, folder: Path) -> str:
    """What is said of a run that a signal ended."""
    return f"stopped by {NAMES[signal.Signals(number)]}; go on with: ropewalk train --resume {folder}"
