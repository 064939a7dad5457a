"""How long something takes, whatever else the machine is busy with."""

from collections.abc import Callable
from time import thread_time


def processor_seconds(call: Callable[[], object]) -> float:
    """Processor time of this thread in the faster of two runs: what other threads and programs use does not count, and
    neither does what is done only once.
    """
    taken = []
    for _ in range(2):
        begun = thread_time()
        call()
        taken.append(thread_time() - begun)
    return min(taken)
