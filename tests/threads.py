"""Which threads are left once there was time for them to end."""

import threading
import time


def threads_left(*prefixes: str, within: float = 30.0) -> list[str]:
    """The names of the threads named by `prefixes` that are still there `within` seconds later; waits no longer than
    for the last of them. Other tests of the same process may have left some that are just ending: a test that looks
    once would ask how busy the machine is.
    """
    deadline = time.monotonic() + within
    while names := [t.name for t in threading.enumerate() if t.name.startswith(prefixes)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return names
