"""Plays episodes: the policy and a world take turns, while other episodes go on.

    episode threads, one for each open episode                        the crew's thread
      reset ─▶ opening ─▶ say ── request ── inbox ─────────────────────▶ engine
                           ▲                                               │
                           └──── wait ◀──── heard(completion) ◀────────────┘
      respond ─▶ limits? ─▶ between ─▶ say …
      close ─▶ finished(place, sample) ─▶ the next episode begins

    the clock's thread (if there is a limit of seconds): an episode whose world does not answer in time is finished
    without it; its thread is left to the world, and closes it whenever it comes back.

What holds: every episode is finished exactly once; a world is called by one thread only, and closed exactly once, after
its last call; the engine never waits for a world. What a world raises is its episode's end as `failed`.
What a turn samples follows from the conversation before it and `turn_seed`, never from other episodes.
"""

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeVar, get_args

from ropewalk.records.errors import RunStopped
from ropewalk.records.prompt import Message, Prompt, Speaker
from ropewalk.records.sample import Completion, Request, Sample
from ropewalk.records.version import turn_seed
from ropewalk.rollout.config import Episode
from ropewalk.rollout.episode import Key, key_of
from ropewalk.rollout.inbox import Abandoned, Inbox
from ropewalk.rollout.story import Story
from ropewalk.rollout.tool_talk import ToolTalk
from ropewalk.tasks.environments.protocol import Environment, EnvironmentFactory, Response, Turn

T = TypeVar("T")
GRACE_SECONDS = 5.0
"""How long the end of a generation waits for worlds to be closed."""
LOOK_SECONDS = 1.0
"""The clock looks at least this often."""


@dataclass(frozen=True, slots=True)
class Casting:
    """One episode to play."""

    place: int
    """Where its sample stands among the results."""
    prompt: Prompt
    request: Request
    """Its `prompt_ids` are not read: the world opens the conversation."""
    world: EnvironmentFactory


@dataclass(frozen=True, slots=True)
class Rules:
    """How episodes are played."""

    limits: Episode
    context_tokens: int
    """What the model and the engine can hold."""
    talk: ToolTalk


class Player:
    """Plays episodes over an inbox. Inside its block they run; leaving it ends those that still do."""

    def __init__(self, rules: Rules, inbox: Inbox, finished: Callable[[int, Sample], None]) -> None:
        self.rules, self.inbox, self._finished = rules, inbox, finished
        self.error: BaseException | None = None
        """What ended the playing of all episodes; none of them is finished any more."""
        self._lock = threading.Condition()
        self._waiting: deque[Casting] = deque()
        self._open: dict[Key, _Playing] = {}
        self._ended = False
        self._clock = threading.Thread(
            target=self._guarded, args=(self._watch_clock,), name="ropewalk-episode-clock", daemon=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._lock:
            self._ended = True
            self._waiting.clear()
            playing = list(self._open.values())
            self._lock.notify_all()
        deadline = time.monotonic() + GRACE_SECONDS
        for one in playing:
            one.heard.put(None)
        for thread in (*(one.thread for one in playing), self._clock):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def begin(self, castings: Sequence[Casting]) -> None:
        """Open the first episodes; each that finishes makes room for the next. The inbox is closed after the last."""
        with self._lock:
            self._waiting.extend(castings)
            if not castings:
                self.inbox.close()
                return
            if self.rules.limits.seconds is not None:
                self._clock.start()
            for _ in range(min(self.rules.limits.at_once, len(castings))):
                self._open_next()

    def heard(self, completion: Completion) -> bool:
        """Hand a completion to its episode; False if it is of none."""
        with self._lock:
            playing = self._open.get(key_of(completion.request))
        if playing is None:
            return False
        playing.heard.put(completion)
        return True

    def stop(self, error: BaseException) -> None:
        """End the generation: the first such error is the one that counts."""
        with self._lock:
            self.error = self.error or error
        self.inbox.abandon()

    def deliver(self, playing: "_Playing", ended: str, error: str) -> None:
        """Finish an episode and open the next. Called once for each."""
        self._finished(playing.casting.place, playing.story.sample(ended, error))
        with self._lock:
            del self._open[key_of(playing.casting.request)]
            if self._ended:
                return
            if self._waiting:
                self._open_next()
            elif not self._open:
                self._ended = True
                self._lock.notify_all()
                self.inbox.close()

    def enter_world(self, playing: "_Playing") -> None:
        """The episode's thread is about to call its world."""
        with self._lock:
            playing.in_world = True

    def leave_world(self, playing: "_Playing") -> None:
        """It has come back. Raises `Abandoned` if it was given up meanwhile."""
        with self._lock:
            playing.in_world = False
            if playing.given_up:
                raise Abandoned

    def _open_next(self) -> None:
        playing = _Playing(self, self._waiting.popleft())
        self._open[key_of(playing.casting.request)] = playing
        playing.thread.start()
        self._lock.notify_all()

    def _watch_clock(self) -> None:
        """Finish episodes that are in their world beyond their time."""
        while (late := self._late()) is not None:
            for one, (ended, error) in late:
                self.deliver(one, ended, error)

    def _late(self) -> "list[tuple[_Playing, tuple[str, str]]] | None":
        """Episodes given up now, each with its end, after some time if there is none; None once all is over."""
        with self._lock:
            if self._ended:
                return None
            now = time.monotonic()
            late = [one for one in self._open.values() if one.in_world and not one.given_up and one.deadline <= now]
            for one in late:
                one.given_up = True
            if not late:
                ahead = [one.deadline - now for one in self._open.values() if one.deadline > now]
                # An episode that enters its world beyond its time is seen a moment later.
                self._lock.wait(min([*ahead, LOOK_SECONDS]))
            return [(one, one.outcome) for one in late]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001  (a thread's boundary: the driver raises it)
            self.stop(error)


class _Fault(Exception):
    """A world that did wrong; its sentence is the episode's."""


class _Playing:
    """One open episode and its thread."""

    def __init__(self, player: Player, casting: Casting) -> None:
        self.player, self.casting = player, casting
        self.story = Story(casting.request)
        self.heard: SimpleQueue[Completion | None] = SimpleQueue()
        seconds = player.rules.limits.seconds
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.in_world = False
        self.given_up = False
        """The clock has finished it: its thread only closes the world."""
        self.outcome = ("seconds", "" if seconds is None else f"its world did not answer within {seconds:g} seconds")
        """What ends it if it does not come back from its world."""
        name = f"ropewalk-episode-{casting.request.group_id}-{casting.request.index}"
        self.thread = threading.Thread(target=player._guarded, args=(self.play,), name=name, daemon=True)

    def play(self) -> None:
        """From the opening to the close."""
        ended, error = "failed", ""
        made: list[Environment] = []
        try:
            self._asked(lambda: made.append(self.casting.world()))
            ended = self._converse(made[0])
        except _Fault as fault:
            error = str(fault)
        finally:
            if not self.story.turns and ended == "context":
                error = f"its opening does not fit into the {self.player.rules.context_tokens} tokens of the model"
            self.outcome = (ended, error)
            try:
                for world in made:
                    self._asked(world.close)
            except _Fault as fault:
                ended, error = "failed", error or str(fault)
        self.player.deliver(self, ended, error)

    def _converse(self, world: Environment) -> str:
        """Turn by turn; what ended it."""
        story, talk = self.story, self.player.rules.talk
        opening = self._asked(lambda: _opening(world.reset(self.casting.prompt)))
        tools = self._asked(lambda: tuple(world.tools))
        context = self.player.rules.context_tokens
        if talk.turns.exceeds(opening, context):
            return "context"
        told, ids = talk.opening(opening, tools)
        while True:
            if len(story.ids) + len(ids) >= context:
                return "context"
            story.read(ids, told)
            most, limit = self._most_tokens()
            completion = self._said(most)
            calls, cut = talk.calls(completion, tools), completion.finish == "length"
            story.say(completion, calls)
            if completion.finish == "aborted":
                return "aborted"
            if time.monotonic() >= self.deadline:
                return "seconds"
            response = self._response(world, Turn(completion.text, calls, cut))
            if response.done:
                return "done"
            if (end := self._limit_reached(limit if cut else "")) is not None:
                return end
            told = list(response.messages)
            if talk.turns.exceeds(told, context):
                return "context"
            ids = talk.between(story.messages, told, tools, ended=_has_end(completion))

    def _most_tokens(self) -> tuple[int, str]:
        """How long the next turn may be, and what it is that cuts one of that length."""
        limits, story = self.player.rules.limits, self.story
        bounds = [
            (story.request.sampling.max_new_tokens, "cut"),
            (self.player.rules.context_tokens - len(story.ids), "context"),
        ]
        if limits.tokens is not None:
            bounds.append((limits.tokens - story.said_tokens, "tokens"))
        return min(bounds, key=lambda bound: bound[0])

    def _limit_reached(self, cut_by: str) -> str | None:
        """What ends the episode after a turn that its world has answered. `cut_by`: what cut the turn, if anything."""
        limits, story = self.player.rules.limits, self.story
        if cut_by and (cut_by != "cut" or limits.cut_turns == "end"):
            return cut_by
        if story.turns >= limits.turns:
            return "turns"
        if limits.tokens is not None and story.said_tokens >= limits.tokens:
            return "tokens"
        return "seconds" if time.monotonic() >= self.deadline else None

    def _said(self, most_tokens: int) -> Completion:
        """The policy's next turn."""
        request = self.casting.request
        sampling = replace(request.sampling, max_new_tokens=most_tokens)
        asked = replace(
            request, prompt_ids=self.story.ids, seed=turn_seed(request.seed, self.story.turns), sampling=sampling
        )
        self.player.inbox.put([asked])
        completion = self.heard.get()
        if completion is None:
            raise Abandoned
        if completion.finish == "failed":
            raise _Fault("the engine could not complete a turn")
        return completion

    def _response(self, world: Environment, turn: Turn) -> Response:
        response = self._asked(lambda: _checked(world.respond(turn)))
        self.story.reward += float(response.reward)
        self.story.info.update(response.info)
        return response

    def _asked(self, call: Callable[[], T]) -> T:
        """What the world says. Raises `_Fault` for whatever it raises, `RunStopped` apart."""
        self.player.enter_world(self)
        try:
            return call()
        except RunStopped:
            raise
        except (Exception, SystemExit) as error:
            # The failure boundary: what a world does wrong is its own episode's record, and is counted.
            raise _Fault(f"{type(error).__name__}: {error}"[:300]) from error
        finally:
            self.player.leave_world(self)


def _has_end(completion: Completion) -> bool:
    """Whether the policy said the end token itself; a stop string or the length may have ended its turn."""
    ids = completion.token_ids
    return bool(len(ids)) and int(ids[-1]) in completion.request.sampling.eos_ids


def _opening(messages: Sequence[Message]) -> list[Message]:
    opening = [_message(message) for message in messages]
    if not opening or opening[-1].role == "assistant":
        raise ValueError("an episode opens with messages of which the last is not the assistant's")
    return opening


def _checked(response: Response) -> Response:
    """The response, if it is one. Raises ValueError or TypeError saying what is wrong with it."""
    if not isinstance(response, Response):
        raise TypeError(f"respond gave a {type(response).__name__}, not a Response")
    if not math.isfinite(float(response.reward)):
        raise ValueError(f"respond gave the reward {response.reward}: give a finite number")
    json.dumps(dict(response.info), allow_nan=False)
    for message in response.messages:
        if _message(message).role == "assistant":
            raise ValueError("respond gave a message of the assistant, who speaks for itself")
    return response


def _message(message: Message) -> Message:
    if (
        not isinstance(message, Message)
        or message.role not in get_args(Speaker)
        or not isinstance(message.content, str)
    ):
        raise TypeError(f"{message!r:.80} is no Message of {', '.join(get_args(Speaker))} with a text")
    return message
