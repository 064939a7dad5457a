"""What must be set before torch or transformers is imported: quiet threads and no telemetry."""

import os

DEFAULTS = {
    "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads make two processes on two cores many times slower than one
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",  # its threads do not survive a fork
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
}


def prepare() -> None:
    """Set each of `DEFAULTS` unless the user has set it."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
