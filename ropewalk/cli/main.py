"""`ropewalk`: the installed command. What must hold before anything else is imported, then the commands."""

import signal
import sys
from typing import NoReturn

from ropewalk.cli.environment import prepare


def main() -> NoReturn:
    """Carry out the command of `sys.argv` and leave with its exit code."""
    prepare()
    try:
        from ropewalk.cli.app import run
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    raise SystemExit(run(sys.argv[1:]))
