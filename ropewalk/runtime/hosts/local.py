"""Workers in processes of this machine, one per rank.

    driver                         rank 0 … n-1 (forkserver children, torch imported once)
      call() ──▶ queue of calls      loop: receive (method, share) ─▶ Worker.method ─▶ send answer
                   │ one thread      │
                   └── pipe ───────▶ └── collectives among ranks over a file rendezvous

The sending thread takes one call at a time: it sends every rank its share, then waits for every answer, so ranks
see calls in one order and no two ranks can wait for each other in different calls. While ranks generate, which is one
call to whatever waits behind it, it hands out requests and hears completions; see `sampling.py`. A rank that fails or
dies ends the crew: the driver hears of whichever comes first, kills the others, and names the cause, not its echo at
the other ranks. A rank whose driver dies ends with it.
"""

import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from ropewalk.parallel.groups import open_group
from ropewalk.records.errors import InputError, RopewalkError, RunStopped
from ropewalk.records.sample import Completion
from ropewalk.rollout.inbox import Inbox
from ropewalk.runtime.crew import DISPATCH, Payload
from ropewalk.runtime.hosts.sampling import GENERATE, Sampling, generate
from ropewalk.runtime.orphans import end_with_parent
from ropewalk.runtime.roles import Setup
from ropewalk.runtime.worker import Worker

PRELOAD = ["torch", "torch.distributed", "transformers.models.llama.modeling_llama", "ropewalk.runtime.worker"]
GRACE_SECONDS = 5.0
"""How long a rank may take to end by itself."""
DEATH_SECONDS = 60.0
"""How long a rank that is dead may take to be gone: a busy machine has its memory to take back."""
ECHO_SECONDS = 5.0
"""How long a failed collective waits for the news of the rank that caused it."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """An exception of a rank, as text: exception objects do not all survive the way between processes."""

    text: str
    message: str | None = None
    """The sentence of a user-facing error."""
    of_input: bool = False


def keep_to_this_machine() -> None:
    """Have gloo listen on loopback, unless the user chose an interface: else it takes whatever the host's name means,
    an address others reach, and asks nobody who connects who they are."""
    found = {name for _, name in socket.if_nameindex()}
    loopback = next((name for name in ("lo", "lo0") if name in found), None)
    if loopback is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)


def _serve(pipe: Connection, setup: Setup, rank: int, rendezvous: str) -> None:
    end_with_parent(leaving=Path(rendezvous).parent)
    keep_to_this_machine()
    for number in (signal.SIGINT, signal.SIGTERM):  # a whole group is signalled; the driver decides when ranks end
        signal.signal(number, signal.SIG_IGN)
    group = None
    try:
        group = open_group(rank, setup.processes, Path(rendezvous))
        worker = Worker(setup, group)
        pipe.send(None)
        while (message := pipe.recv()) is not None:
            method, share = message
            if method == GENERATE:
                generate(pipe, worker)
            else:
                pipe.send(_own(getattr(worker, method)(**share)))
    except (EOFError, BrokenPipeError):
        return
    except RopewalkError as error:
        pipe.send(_Failure(traceback.format_exc(), str(error), isinstance(error, InputError)))
    except Exception:  # noqa: BLE001  (the boundary of a rank: the driver raises it again)
        pipe.send(_Failure(traceback.format_exc()))
    finally:
        if group is not None:
            group.close()


def _own(answer: Any) -> Any:
    """Tensors go through shared memory, and into it: copies do, so that the worker's own stay where they are."""
    if isinstance(answer, torch.Tensor):
        return answer.detach().cpu().clone()
    return {name: _own(part) for name, part in answer.items()} if isinstance(answer, Mapping) else answer


class LocalCrew:
    """`setup.processes` ranks on this machine."""

    def __init__(self, setup: Setup) -> None:
        self.size = setup.processes
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        self._folder = tempfile.mkdtemp(prefix="ropewalk-crew-")
        self._pipes: list[Connection] = []
        self._processes = []
        self._over: str | None = None
        """Why the crew has ended."""
        self._closed = False
        for rank in range(self.size):
            ours, theirs = context.Pipe()
            arguments = (theirs, setup, rank, os.path.join(self._folder, "rendezvous"))
            process = context.Process(target=_serve, args=arguments, daemon=True, name=f"ropewalk-rank-{rank}")
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ropewalk-crew")
        try:
            self._sender.submit(self._answers, self.size).result()
        except BaseException:
            self.close()
            raise

    def call(self, method: str, **payload: Any) -> Future[Any]:
        return self._sender.submit(self._run, method, payload)

    def generate(self, inbox: Inbox, heard: Callable[[Completion], None]) -> Future[None]:
        """Each request goes to the rank with the least to do; `heard` is called by the sending thread."""
        return self._sender.submit(self._generate, inbox, heard)

    def close(self) -> None:
        """End every rank; kill those that do not end by themselves. A second time does nothing."""
        if self._closed:
            return
        self._closed = True
        goodbye = self._sender.submit(self._say_goodbye)
        wait_for = [process.sentinel for process in self._processes]
        try:
            goodbye.result(timeout=GRACE_SECONDS)
            for sentinel in wait_for:
                wait([sentinel], timeout=GRACE_SECONDS)
        except TimeoutError:  # a call hangs: killed ranks set its thread free
            pass
        finally:
            self._end("it was closed")
            self._sender.shutdown(wait=True, cancel_futures=True)
            for pipe in self._pipes:
                pipe.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _say_goodbye(self) -> None:
        for pipe in self._pipes if self._over is None else ():
            try:
                pipe.send(None)
            except OSError:
                continue

    def _run(self, method: str, payload: Payload) -> Any:
        self._check_alive()
        dispatch = DISPATCH[method]
        shares = dispatch.split(payload, self.size)
        for rank, share in enumerate(shares):
            self._send(rank, (method, share))
        return dispatch.join(payload, self._answers(len(shares)))

    def _generate(self, inbox: Inbox, heard: Callable[[Completion], None]) -> None:
        self._check_alive()
        sampling = Sampling(self._pipes, self._send, self._hear)
        try:
            sampling.run(inbox, heard)
        except BaseException:
            if self._over is None:
                sampling.recall()
            raise

    def _hear(self, rank: int) -> Any:
        """What a rank says next."""
        said = self._receive(rank)
        if isinstance(said, _Failure):
            raise self._failed(rank, said, {})
        return said

    def _send(self, rank: int, message: Any) -> None:
        try:
            self._pipes[rank].send(message)
        except OSError as error:
            raise self._died(rank) from error

    def _check_alive(self) -> None:
        if self._over is not None:
            raise RunStopped(f"the crew has ended ({self._over}): resume the run")

    def _answers(self, ranks: int) -> list[Any]:
        """The answers of the first `ranks` ranks, in their order."""
        answers: dict[int, Any] = {}
        waiting = {self._pipes[rank]: rank for rank in range(ranks)}
        while waiting:
            for pipe in wait(list(waiting)):
                assert isinstance(pipe, Connection)
                rank = waiting.pop(pipe)
                answers[rank] = self._receive(rank)
                if isinstance(answers[rank], _Failure):
                    raise self._failed(rank, answers[rank], waiting)
        return [answers[rank] for rank in range(ranks)]

    def _receive(self, rank: int) -> Any:
        try:
            return self._pipes[rank].recv()
        except (EOFError, OSError) as error:
            raise self._died(rank) from error

    def _failed(self, rank: int, failure: _Failure, waiting: Mapping[Connection, int]) -> Exception:
        """The error of the rank that failed first; a rank whose peer left a collective only echoes that."""
        others = dict(waiting)
        while failure.message is None and others and (ready := wait(list(others), timeout=ECHO_SECONDS)):
            for pipe in ready:
                assert isinstance(pipe, Connection)
                other = others.pop(pipe)
                answer = self._receive(other)
                if isinstance(answer, _Failure) and answer.message is not None:
                    rank, failure = other, answer
        self._end(failure.message or f"rank {rank} failed")
        if failure.message is None:
            return RuntimeError(f"rank {rank} failed:\n{failure.text}")
        return InputError(failure.message) if failure.of_input else RunStopped(failure.message)

    def _died(self, rank: int) -> RunStopped:
        self._processes[rank].join(timeout=DEATH_SECONDS)
        code = self._processes[rank].exitcode
        self._end(f"rank {rank} ended with exit code {code}")
        return RunStopped(f"rank {rank} ended with exit code {code}: resume the run from its newest checkpoint")

    def _end(self, why: str) -> None:
        self._over = self._over or why
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join(timeout=DEATH_SECONDS)
