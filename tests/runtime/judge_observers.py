"""What one can see of a judge's section: what it asks of whom, how often, and what it makes of the answers."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ropewalk.config.load import ConfigError
from ropewalk.records.prompt import Prompt
from ropewalk.runtime.assemble import job_graph
from ropewalk.runtime.judging.calls import judge_calls, judge_engines, judge_roles
from ropewalk.runtime.judging.judges import open_judge
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import SampleRecipe, read_recipe
from ropewalk.runtime.train import train
from ropewalk.tasks.judging.config import ModelJudge
from ropewalk.tasks.judging.desk import Desk
from ropewalk.tasks.judging.judge import Judge
from ropewalk.tasks.judging.server import ServerAsker
from tests.fakes import FakeClock
from tests.runtime.runs import lines
from tests.tasks.judging.judge_server import Body, Sent, preferring, said, serving
from tests.tasks.samples import sample

KEYS = {"ROPEWALK_TEST_KEY": "one", "ROPEWALK_OTHER_KEY": "two"}
PROMPTS = {"p": Prompt("p", "Name a fruit.", gold="a pear", info={"good": "an orange, say"})}


def advised(bench: Any, name: str, settings: Mapping[str, Any]) -> Any:
    """Of a judge on the crew its calls, weights and engine; of one behind a server all that it asks, twice over."""
    try:
        recipe: Any = read_recipe(name, settings)
    except ConfigError as error:
        return str(error)
    if isinstance(recipe, SampleRecipe):
        return job_graph(recipe).calls
    judge = recipe.judges["critic"]
    if isinstance(judge.by, ModelJudge):
        return [part(recipe.judges) for part in (judge_calls, judge_roles, judge_engines)]
    clock, troubled = FakeClock(), [0]

    def script(body: Body) -> Sent:
        troubled[0] += 1
        if troubled[0] % 7 == 0:
            return Sent(status=503)
        time.sleep(0.02)
        if body["max_tokens"] == 1:
            return preferring(lambda text: len(text) / 9, place=0.2)(body)
        return said("Longer is better.\nVerdict: A\nScore: 7" if body["max_tokens"] > 16 else "7")

    with serving(script) as server, keys():
        memory = open_judge("critic", judge, None, Silent()).desk.memory  # type: ignore[arg-type]
        by = judge.by.model_copy(update={"base_url": server.url})
        opened = Judge("critic", judge, Desk(ServerAsker(by, sleep=clock.sleep), memory))
        texts = [sample(text, index=n) for n, text in enumerate(("a fig", "an apple", "two ripe plums", "kiwis", "x"))]
        judged = [opened.judge(PROMPTS, texts, lambda _: None) for _ in range(2)]
        once = len({str(body["messages"]) for body in server.asked})
        return {
            "bodies": sorted({str(body) for body in server.asked}),
            "asked": once,
            "twice": len(server.asked) > 1.5 * once,
            "together": server.most_at_once > 1,
            "keys": {headers.get("Authorization") for headers in server.headers},
            "scores": [s.scores for part in judged for s in part],
            "waited": clock.now_seconds > 0,
            "print": ServerAsker(judge.by).fingerprint,
            "memory": memory and (str(memory.path), memory.limit),
        }


def labelled(bench: Any, name: str, settings: Mapping[str, Any]) -> Any:
    """The pairs that a labelling job writes."""
    out = bench.folder / f"labelled-{len(bench.stories)}"
    bench.stories[str(out)] = settings
    with serving(preferring(len, place=2.5, sharpness=0.2)) as server:
        there = [part for part in ("critic", "other") if f"judges.{part}" in settings]
        urls = {f"judges.{part}.by.base_url": server.url for part in there}
        done = train(name, set={**settings, **urls}, out=out)
        keys_ = {tuple(body["messages"][0]["content"].splitlines()[2:3]) for body in server.asked}
    return lines(Path(done.folder) / "pairs.jsonl"), sorted(keys_), sorted(lines(done.samples_file)[0]["scores"])


@contextmanager
def keys() -> Iterator[None]:
    """Keys in the environment, inside the block only."""
    before = dict(os.environ)
    os.environ.update(KEYS)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
