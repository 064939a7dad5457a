#!/usr/bin/env python3
"""How fast programs are scored: HumanEval's canonical solutions against their checks, each in a sandbox of its own.

    python benchmarks/sandbox.py [--isolation process] [--workers 2] [--rounds 1] [--json]

Also the overhead of a program that does nothing, by kind of test: the wait for one alone, and processor time. With
--json the last line is one compact object.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ropewalk.records.prompt import Prompt
from ropewalk.tasks.scoring.code.compare import passed
from ropewalk.tasks.scoring.code.human_eval import human_eval_prompts
from ropewalk.tasks.scoring.code.suite import suite_of
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Call, Request, Script, TestCode

NOTHING = "def same(x):\n    return x\n"
KINDS: dict[str, Request] = {
    "script": Script("x"),
    "call": Call("same", [1]),
    "test code": TestCode("assert same(1) == 1", {"same": "same"}),
}


def processor_seconds() -> float:
    """Of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def programs_per_second(pool: SandboxPool, prompts: Sequence[Prompt]) -> float:
    """Canonical solutions scored in a second; all of them must pass."""
    work = []
    for prompt in prompts:
        (test,) = suite_of(prompt).hidden
        work.append((prompt, test, f"{prompt.info['prefix']}{prompt.gold}"))
    started = time.perf_counter()
    futures = [pool.submit(lambda box, s=source, t=test: box.run(s, [t.request])) for _, test, source in work]
    wrong = [
        prompt.id
        for (prompt, test, _), future in zip(work, futures, strict=True)
        if not passed(test, future.result()[0])
    ]
    seconds = time.perf_counter() - started
    if wrong:
        raise SystemExit(f"canonical solutions that did not pass: {', '.join(wrong)}")
    return len(work) / seconds


def overhead(pool: SandboxPool, request: Request, times: int = 40) -> tuple[float, float]:
    """Median wait and mean processor time of a program that does nothing, in seconds."""
    waits = []
    before = processor_seconds()
    for _ in range(times):
        started = time.perf_counter()
        (finding,) = pool.test(NOTHING, [request])
        waits.append(time.perf_counter() - started)
        assert finding.status == "done", finding
    return statistics.median(waits), (processor_seconds() - before) / times


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description="How fast programs are scored in the sandbox.")
    parser.add_argument("--isolation", choices=("bubblewrap", "process"), default="bubblewrap")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="times that the 164 problems are scored; the best counts")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    prompts = human_eval_prompts()
    with SandboxPool(arguments.workers, isolation=arguments.isolation) as pool:
        rates = [programs_per_second(pool, prompts) for _ in range(arguments.rounds)]
        table = Table(title=f"{pool.isolation}, {arguments.workers} workers: {max(rates):.1f} programs/s")
        for name in ("a program that does nothing", "wait, one at a time", "processor time"):
            table.add_column(name)
        for kind, request in KINDS.items():
            wait, used = overhead(pool, request)
            table.add_row(kind, f"{wait * 1e3:.1f} ms", f"{used * 1e3:.1f} ms")
        console.print(table)
        if arguments.json:
            print(json.dumps({"programs_per_second": round(max(rates), 2), "isolation": pool.isolation}))


if __name__ == "__main__":
    main()
