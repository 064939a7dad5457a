"""What one can see of how episodes are played, and of how many threads score."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ropewalk.models.language import Language
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Request, Sample
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import SampleRecipe, read_recipe
from ropewalk.runtime.rollouts import Rollouts, rules_of
from ropewalk.runtime.sampler import asking_of, model_of, open_sampler
from ropewalk.tasks.environments.protocol import Response, ToolSpec, Turn
from ropewalk.tasks.task import AtOnce, Task
from tests.fakes import TURN_END_ID, Answer, byte_tokenizer
from tests.rollout.worlds import SAMPLING, castings, play
from tests.runtime.runs import parts

Settings = Mapping[str, Any]
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


class Slow:
    """Takes a moment for its second answer, and never ends by itself; counts how many are open at once."""

    tools = (ToolSpec("f", "Does.", {"type": "object"}),)
    here, most = 0, 0
    lock = threading.Lock()

    def __init__(self) -> None:
        self.turns = 0

    def reset(self, prompt: Prompt) -> list[Message]:
        with Slow.lock:
            Slow.here += 1
            Slow.most = max(Slow.most, Slow.here)
        time.sleep(0.02)
        return [Message("user", prompt.id)]

    def respond(self, turn: Turn) -> Response:
        self.turns += 1
        time.sleep(0.02 * (self.turns == 2))
        return Response((Message("user", f"{len(turn.calls)} calls"),), 1.0)

    def close(self) -> None:
        with Slow.lock:
            Slow.here -= 1


def _say(request: Request) -> Answer:
    """A call, then as much as may be said."""
    most = request.sampling.max_new_tokens
    if len(request.prompt_ids) < 700:
        return Answer([97, 98, TURN_END_ID][:most], finish="stop" if most > 2 else "length", text=CALL)
    return Answer([97] * most, finish="length", text="a" * most)


def played(_: Any, name: str, settings: Settings) -> Any:
    """The ends, tokens and calls of a few episodes on a scripted engine, and whether several were open at once."""
    recipe = read_recipe(name, settings)
    Slow.most = Slow.here = 0
    language = Language(byte_tokenizer(), SAMPLING.eos_ids, None, 264, 900)
    task = Task("slow", [Prompt("p", "")], {"reward": lambda *_: 0.0}, environment=Slow)
    rules = rules_of(task, language, recipe.sampling, NativeEngineConfig())  # type: ignore[union-attr]
    assert rules is not None
    found = play(castings(lambda _: Slow, 2, 2), rules=rules, script=_say)
    told = [found.told(place) for place in range(4)]
    return [(t["ended"], t["turns"], t["calls"]) for t in told], [len(r.prompt_ids) for r in found.asked], Slow.most > 1


def scoring_threads(_: Any, name: str, settings: Settings) -> Any:
    """Whether several threads were scoring at the same time."""
    recipe = read_recipe(name, settings)
    if isinstance(recipe, SampleRecipe):
        path, dtype = model_of(recipe)
        with open_sampler(path, asking_of(recipe, None), Silent(), dtype=dtype) as sampler:
            return _several_at_once(sampler.rollouts, sampler.prompts)
    with TemporaryDirectory() as folder, parts(name, settings, Path(folder)) as made:
        return _several_at_once(made.work.source.rollouts, made.work.source.prompts)  # type: ignore[attr-defined]


def _several_at_once(rollouts: Rollouts, prompts: Any) -> int:
    here, most, lock = 0, 0, threading.Lock()

    def scorer(_: Prompt, __: Sample) -> float:
        nonlocal here, most
        with lock:
            here += 1
            most = max(most, here)
        time.sleep(0.05)
        with lock:
            here -= 1
        return 0.0

    task = replace(rollouts.task, scorers={"truth": AtOnce(scorer)})
    asked = list(zip(prompts.prompts[:2], prompts.ids[:2], strict=True))
    replace(rollouts, task=task).draw(asked, group_size=4, iteration=0)
    return most > 1
