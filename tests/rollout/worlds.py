"""Worlds for tests, and episodes played in them on a scripted engine."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Completion, Request, Sample, SamplingRecord
from ropewalk.records.version import PolicyVersion
from ropewalk.rollout.config import Episode
from ropewalk.rollout.episode import answer, requests
from ropewalk.rollout.episodes import Casting, Player, Rules
from ropewalk.rollout.inbox import Abandoned, Inbox
from ropewalk.rollout.tool_talk import talk_of
from ropewalk.tasks.environments.protocol import EnvironmentFactory, Response, ToolSpec, Turn
from tests.fakes import EOS_ID, TURN_END_ID, Answer, ScriptedEngine, byte_tokenizer

SAMPLING = SamplingRecord(1.0, 8, (EOS_ID, TURN_END_ID))
CONTEXT = 400


@dataclass
class Log:
    """What happened to all worlds of a test."""

    begun: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    threads: dict[str, set[int]] = field(default_factory=dict)


@dataclass
class Count:
    """Wants `wanted` turns, then is done; a reward of 1 for each. Its prompt is its name."""

    log: Log
    wanted: int = 3
    reply: Callable[[Turn], Response] | None = None
    tools: Sequence[ToolSpec] = ()
    said: list[Turn] = field(default_factory=list)
    name: str = ""

    def reset(self, prompt: Prompt) -> Sequence[Message]:
        self.name = prompt.id
        self.log.begun.append(self.name)
        self._note()
        return [Message("user", prompt.id)]

    def respond(self, turn: Turn) -> Response:
        self._note()
        self.said.append(turn)
        if self.reply is not None:
            return self.reply(turn)
        info = {"turn": len(self.said)}
        return Response((Message("user", "more"),), 1.0, len(self.said) == self.wanted, info)

    def close(self) -> None:
        self._note()
        self.log.closed.append(self.name)

    def _note(self) -> None:
        self.log.threads.setdefault(self.name, set()).add(threading.get_ident())


def echo(request: Request) -> Answer:
    """Three letters of the request's seed, then the end of the turn."""
    letters = np.random.default_rng(request.seed).integers(97, 122, 3).tolist()
    text = bytes(letters).decode()
    return Answer([*letters, TURN_END_ID], text=text)


def castings(world: Callable[[int], EnvironmentFactory], count: int = 3, group_size: int = 2) -> list[Casting]:
    """`group_size` episodes of each of `count` prompts; `world` gets the place."""
    pairs = [(Prompt(f"p{n}", ""), np.empty(0, np.int64)) for n in range(count)]
    asked = requests(pairs, group_size=group_size, sampling=SAMPLING, run_seed=0, iteration=0)
    return [Casting(place, pairs[place // group_size][0], request, world(place)) for place, request in enumerate(asked)]


@dataclass
class Played:
    """What became of some episodes."""

    samples: dict[int, Sample] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)

    def ended(self) -> list[str]:
        return [str(self.told(place)["ended"]) for place in sorted(self.samples)]

    def told(self, place: int) -> dict[str, object]:
        told = self.samples[place].info["episode"]
        assert isinstance(told, dict)
        return dict(told)


def play(
    cast: Sequence[Casting],
    *,
    limits: Episode | None = None,
    rules: Rules | None = None,
    script: Callable[[Request], Answer] = echo,
    slots: int = 4,
    context_tokens: int = CONTEXT,
    finished: Callable[[int, Sample], None] | None = None,
) -> Played:
    """Play to the end, on this thread's engine. What stops the player is raised."""
    found = Played()

    def noted(request: Request) -> Answer:
        found.asked.append(request)
        return script(request)

    def keep(place: int, sample: Sample) -> None:
        assert place not in found.samples
        found.samples[place] = sample
        if finished is not None:
            finished(place, sample)

    engine = ScriptedEngine(noted, slots)
    engine.publish(None, PolicyVersion(3, "three"))
    rules = rules or Rules(limits or Episode(), context_tokens, talk_of(byte_tokenizer(), SAMPLING.eos_ids, "auto"))
    inbox = Inbox()
    with Player(rules, inbox, keep) as player:

        def heard(completion: Completion) -> None:
            assert player.heard(completion)

        player.begin(cast)
        try:
            answer(engine, inbox, heard)
        except Abandoned:
            assert player.error is not None
            raise player.error from None
    assert not engine._waiting and not engine._live
    return found
