"""Runs a function on real ranks: forkserver processes, gloo, a watchdog that ends what hangs."""

import multiprocessing as mp
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ropewalk.parallel.groups import open_group

PRELOAD = ["torch.distributed", "transformers.models.llama.modeling_llama", "transformers.models.gpt2.modeling_gpt2"]


def _rank(function: Callable[..., Any], rank: int, size: int, meet: Path, pipe: Connection, arguments: Any) -> None:
    torch.set_num_threads(1)
    group = open_group(rank, size, meet, timeout_seconds=120)
    pipe.send(function(group, *arguments))
    group.close()


def run_ranks(
    function: Callable[..., Any], folder: Path, *arguments: Any, size: int = 2, watchdog_seconds: float = 240
) -> list[Any]:
    """`function(group, *arguments)` on every rank; their answers in order. Arguments and answers without tensors."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    meet = folder / f"meet-{time.monotonic_ns()}"
    pipes = [context.Pipe(duplex=False) for _ in range(size)]
    processes = [
        context.Process(target=_rank, args=(function, rank, size, meet, pipes[rank][1], arguments))
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    for _, sending in pipes:
        sending.close()
    deadline = time.monotonic() + watchdog_seconds
    try:
        answers = []
        for rank, (receiving, _) in enumerate(pipes):
            if not receiving.poll(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"rank {rank} said nothing for {watchdog_seconds} s")
            answers.append(receiving.recv())
        for process in processes:
            process.join(max(0.1, deadline - time.monotonic()))
        codes = [process.exitcode for process in processes]
        assert codes == [0] * size, codes
        return answers
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
