"""`ropewalk`: the installed command. What must hold before anything else is imported, then the commands."""

import os
import signal
import sys
from typing import NoReturn

from ropewalk.cli.environment import prepare


def main() -> NoReturn:
    """Carry out the command of `sys.argv` and leave with its exit code."""
    prepare()
    # While modules load nothing is open, and an exception may be lost or wrapped by whatever it meets: end at once.
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else it is ignored, and stays so
        signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from ropewalk.cli.app import run

    signal.signal(signal.SIGINT, usual)
    raise SystemExit(run(sys.argv[1:]))
