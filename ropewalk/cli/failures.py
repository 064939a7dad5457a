"""From an exception to sentences on stderr and an exit code: the one place where both are decided.

2    the command or its input is wrong (InputError, ConfigError, wrong usage, a path that cannot be used)
1    a run ended early (RunStopped), there is no room, or memory ran out
130  Ctrl-C      143  SIGTERM      141  nobody reads the output
70   none of these: a fault of ropewalk
"""

import signal
from dataclasses import dataclass

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import Interrupted, RopewalkError, RunStopped
from ropewalk.records.files import no_room

WRONG_INPUT, STOPPED, FAULT = 2, 1, 70
NO_READER = 128 + 13
_NO_MEMORY = ("can't allocate memory", "out of memory", "std::bad_alloc")


class Terminated(KeyboardInterrupt):
    """SIGTERM, where no run is there to be told."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is said, and the exit code."""

    code: int
    sentences: tuple[str, ...] = ()


def failure_of(error: BaseException) -> Failure:
    """What to say of an exception that ended a command."""
    match error:
        case ConfigError():
            return Failure(WRONG_INPUT, tuple(error.problems))
        case Interrupted():
            return Failure(128 + error.number, (str(error),))
        case RopewalkError():
            return Failure(STOPPED if isinstance(error, RunStopped) else WRONG_INPUT, (str(error),))
        case Terminated():
            return Failure(128 + signal.SIGTERM, ("stopped by SIGTERM; nothing is left half-written",))
        case KeyboardInterrupt():
            return Failure(128 + signal.SIGINT, ("stopped by Ctrl-C; nothing is left half-written",))
        case BrokenPipeError():
            return Failure(NO_READER)
        case OSError():
            return _of_system(error)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        mend = "lower hardware.micro_batch_tokens or engine.slots, or take a smaller model"
        return Failure(STOPPED, (f"memory ran out: {mend}, then resume",))
    said = str(error).strip().splitlines() or ["no message"]
    last = said[-1] if "Traceback" in str(error) else said[0]
    what = last if last.startswith(type(error).__name__) else f"{type(error).__name__}: {last}"
    return Failure(FAULT, (f"this is a fault of ropewalk: {what}; run again with --debug to see where",))


def _of_system(error: OSError) -> Failure:
    where = error.filename or "a file"
    if no_room(error):
        return Failure(STOPPED, (f"there is no room to write {where}: free some space and resume",))
    return Failure(WRONG_INPUT, (f"{where} cannot be used ({error.strerror or error}): check the path",))
