"""A child process that ends with its parent, however the parent ended.

A killed parent can tell nobody; so each child waits, in a thread of its own, for the pipe that only the parent holds
open. It then ends at once: what it leaves is what a crash leaves, which a resume knows how to take up.
"""

import multiprocessing
import os
import shutil
import threading
from multiprocessing.connection import wait
from pathlib import Path

EXIT_CODE = 70


def end_with_parent(leaving: Path | None = None) -> None:
    """Call first in a process that multiprocessing started. `leaving`: the parent's temporary folder, which it can no
    longer remove."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        if leaving is not None:
            shutil.rmtree(leaving, ignore_errors=True)
        os._exit(EXIT_CODE)

    if wait([sentinel], timeout=0):  # it died before this process began
        watch()
    threading.Thread(target=watch, name="ropewalk-parent", daemon=True).start()
