"""Workers in processes of this machine, one per rank.

    driver                         rank 0 … n-1 (forkserver children, torch imported once)
      call() ──▶ queue of calls      loop: receive (method, share) ─▶ Worker.method ─▶ send answer
                   │ one thread      │
                   └── pipe ───────▶ └── collectives among ranks over a file rendezvous

The sending thread takes one call at a time: it sends every rank its share, then waits for every answer, so ranks
see calls in one order and no two ranks can wait for each other in different calls. A rank that dies ends the crew:
the next receive sees its pipe close, the others are killed, and the error names the rank and its exit code.
"""

import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ropewalk.parallel.groups import open_group
from ropewalk.records.errors import RopewalkError, RunStopped
from ropewalk.runtime.crew import DISPATCH, Payload
from ropewalk.runtime.roles import Setup
from ropewalk.runtime.worker import Worker

PRELOAD = ["torch", "torch.distributed", "transformers.models.llama.modeling_llama", "ropewalk.runtime.worker"]


@dataclass(frozen=True, slots=True)
class _Failure:
    """An exception of a rank, as text: exception objects do not all survive the way between processes."""

    text: str
    message: str | None
    """The sentence of a user-facing error."""


def _serve(pipe: Connection, setup: Setup, rank: int, rendezvous: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    group = open_group(rank, setup.processes, Path(rendezvous))
    try:
        worker = Worker(setup, group)
        pipe.send(None)
        while (message := pipe.recv()) is not None:
            method, share = message
            pipe.send(getattr(worker, method)(**share))
    except EOFError:
        return
    except RopewalkError as error:
        pipe.send(_Failure(traceback.format_exc(), str(error)))
    except Exception:  # noqa: BLE001  (the boundary of a rank: the driver raises it again)
        pipe.send(_Failure(traceback.format_exc(), None))
    finally:
        group.close()


class LocalCrew:
    """`setup.processes` ranks on this machine."""

    def __init__(self, setup: Setup) -> None:
        self.size = setup.processes
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        self._folder = tempfile.mkdtemp(prefix="ropewalk-crew-")
        self._pipes: list[Connection] = []
        self._processes = []
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        for rank in range(self.size):
            ours, theirs = context.Pipe()
            arguments = (theirs, setup, rank, os.path.join(self._folder, "rendezvous"))
            process = context.Process(target=_serve, args=arguments, daemon=True, name=f"ropewalk-rank-{rank}")
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ropewalk-crew")
        self._answers()

    def call(self, method: str, **payload: Any) -> Future[Any]:
        return self._sender.submit(self._run, method, payload)

    def close(self) -> None:
        """End every rank; kill those that do not end by themselves."""
        self._sender.shutdown(wait=True)
        for pipe in self._pipes:
            try:
                pipe.send(None)
            except OSError:
                continue
        self._end(grace_seconds=5)

    def _run(self, method: str, payload: Payload) -> Any:
        dispatch = DISPATCH[method]
        shares = dispatch.split(payload, self.size)
        for rank, share in enumerate(shares):
            try:
                self._pipes[rank].send((method, share))
            except OSError as error:
                raise self._died(rank) from error
        return dispatch.join(payload, self._answers(len(shares)))

    def _answers(self, ranks: int | None = None) -> list[Any]:
        answers = []
        for rank in range(self.size if ranks is None else ranks):
            try:
                answer = self._pipes[rank].recv()
            except (EOFError, OSError) as error:
                raise self._died(rank) from error
            if isinstance(answer, _Failure):
                self._end(grace_seconds=0)
                if answer.message is not None:
                    raise RunStopped(answer.message)
                raise RuntimeError(f"rank {rank} failed:\n{answer.text}")
            answers.append(answer)
        return answers

    def _died(self, rank: int) -> RunStopped:
        self._processes[rank].join(timeout=5)
        code = self._processes[rank].exitcode
        self._end(grace_seconds=0)
        return RunStopped(f"rank {rank} ended with exit code {code}: resume the run from its newest checkpoint")

    def _end(self, grace_seconds: float) -> None:
        for process in self._processes:
            process.join(timeout=grace_seconds)
            if process.is_alive():
                process.kill()
                process.join(timeout=5)
        for pipe in self._pipes:
            pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)
