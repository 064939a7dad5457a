"""The errors a user can cause or mend.

Every message is one sentence that names the thing and the mend; the CLI prints it without a traceback.

    RopewalkError
    ├── InputError    what was given cannot be used: a file, a row, a folder, a value
    └── RunStopped    a run ended early by a rule (health, full disk); what it wrote is whole
        └── Interrupted   by a signal: Ctrl-C or SIGTERM
"""


class RopewalkError(Exception):
    """Base of all errors whose message is meant for the user as it stands."""


class InputError(RopewalkError):
    """What was given cannot be used; the message names it and says what would."""


class RunStopped(RopewalkError):
    """A run ended before its last iteration; everything written so far is whole and can be resumed."""


class Interrupted(RunStopped):
    """A signal ended the work; `number` is the signal's."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
