"""Episodes on a scripted engine: what becomes of turns, limits, faults and slow worlds."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Request, Sample
from ropewalk.records.version import turn_seed
from ropewalk.rollout.config import Episode
from ropewalk.rollout.episodes import Rules
from ropewalk.rollout.tool_talk import talk_of
from ropewalk.tasks.environments.number_guess import NumberGuess
from ropewalk.tasks.environments.protocol import Response, ToolSpec, Turn
from tests.fakes import TURN_END_ID, Answer, byte_tokenizer
from tests.rollout.worlds import SAMPLING, Count, Log, castings, echo, play
from tests.threads import threads_left

TEXT = byte_tokenizer()


def counting(log: Log, **more: Any) -> Callable[[int], Callable[[], Count]]:
    return lambda _: lambda: Count(log, **more)


def said(text: str) -> Answer:
    return Answer([*text.encode(), TURN_END_ID], text=text)


def guesses(request: Request) -> Answer:
    """Goes up by one from 5."""
    return said(str(4 + TEXT.decode(request.prompt_ids.tolist()).count("assistant:")))


def test_a_game_is_one_sample_of_which_only_the_policys_words_train() -> None:
    """Faults F4 and F6: ids as they were sampled; mask, log-probs and versions at those and nowhere else."""
    (game,) = castings(lambda _: NumberGuess, 1, 1)
    game = type(game)(0, Prompt("g", (Message("user", "Guess."),), gold=7), game.request, NumberGuess)
    sample = play([game], script=guesses).samples[0]
    told = "user: Higher.<turn>assistant: "
    expected = f"<bos>user: Guess.<turn>assistant: 5<turn>{told}6<turn>{told}7<turn>"
    assert TEXT.decode(sample.tokens_T.tolist()) == expected
    assert TEXT.decode(sample.tokens_T[sample.policy_mask_T].tolist()) == "5<turn>6<turn>7<turn>"
    assert (sample.logprobs_T[sample.policy_mask_T] == -1).all() and (
        sample.versions_T[sample.policy_mask_T] == 3
    ).all()
    assert np.isnan(sample.logprobs_T[~sample.policy_mask_T]).all()
    assert (sample.versions_T[~sample.policy_mask_T] == -1).all()
    assert (sample.finish, sample.text) == ("stop", "7")
    assert sample.sampling == game.request.sampling and sample.seed == game.request.seed
    assert sample.info["episode"] == {
        "reward": 1.0,
        "turns": 3,
        "calls": 0,
        "call_faults": 0,
        "ended": "done",
        "messages": [
            {"role": role, "content": content}
            for role, content in zip(
                ("user", "assistant", "user", "assistant", "user", "assistant"),
                ("Guess.", "5", "Higher.", "6", "Higher.", "7"),
                strict=True,
            )
        ],
        "info": {"guesses": 3, "solved": True},
    }


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_what_is_said_hangs_on_no_order(slots: int, at_once: int) -> None:
    """Fault B6: each turn's seed is of its sample and its number; open episodes never change what others say."""

    def world(place: int) -> Callable[[], Count]:
        def reply(turn: Turn) -> Response:
            time.sleep(0.003 * ((place * 7 + slots) % 4))
            return Response((Message("user", turn.text.upper()),), 0.5, done="a" in turn.text)

        return lambda: Count(Log(), reply=reply)

    limits = Episode(turns=3, at_once=at_once)
    found = play(castings(world, 4, 2), limits=limits, slots=slots)
    again = play(castings(world, 4, 2), limits=Episode(turns=3), slots=5)
    assert found.ended() == again.ended() and set(found.ended()) == {"done", "turns"}
    for place, sample in again.samples.items():
        assert sample.tokens_T.tolist() == found.samples[place].tokens_T.tolist()
        assert sample.info == found.samples[place].info
    for request in found.asked:
        turn = TEXT.decode(request.prompt_ids.tolist()).count("assistant:") - 1
        (own,) = [s for s in found.samples.values() if (s.group_id, s.index) == (request.group_id, request.index)]
        assert request.seed == turn_seed(own.seed, turn)
    assert len({request.seed for request in found.asked}) == len(found.asked)


LIMITS: dict[str, tuple[Episode, int, Callable[[Request], Answer], str, int]] = {
    "turns": (Episode(turns=2), 400, echo, "turns", 2),
    "tokens at the end of a turn": (Episode(tokens=8), 400, echo, "tokens", 2),
    "tokens within a turn": (Episode(tokens=6), 400, lambda r: _as_long_as_it_may(r, 4), "tokens", 2),
    "context before a turn": (Episode(), 70, echo, "context", 2),
    "context within a turn": (Episode(), 26, lambda r: _as_long_as_it_may(r, 8), "context", 1),
    "cut": (Episode(), 400, lambda r: _as_long_as_it_may(r, 9), "cut", 1),
}


def _as_long_as_it_may(request: Request, wanted: int) -> Answer:
    most = request.sampling.max_new_tokens
    if wanted <= most:
        return Answer([97] * (wanted - 1) + [TURN_END_ID], text="a" * (wanted - 1))
    return Answer([97] * most, finish="length", text="a" * most)


@pytest.mark.parametrize("case", list(LIMITS))
def test_each_limit_ends_an_episode_by_its_name(case: str) -> None:
    """Fault G12: a limit cuts and is no failure; the world answers the last turn, so its reward counts."""
    limits, context, script, ended, turns = LIMITS[case]
    log = Log()
    found = play(castings(counting(log, wanted=99), 1, 2), limits=limits, context_tokens=context, script=script)
    for place, sample in found.samples.items():
        told = found.told(place)
        assert (told["ended"], told["turns"], sample.finish) == (ended, turns, "length")
        assert told["reward"] == turns
        assert len(sample.tokens_T) <= context
        assert sample.policy_mask_T[-1], "what the world says last is not read any more"
        assert limits.tokens is None or sample.completion_tokens <= limits.tokens
    assert sorted(log.closed) == sorted(log.begun)


def test_a_cut_turn_may_be_answered_like_any_other() -> None:
    """Its end token is written for it, and is no word of the policy."""
    cut_first = lambda r: _as_long_as_it_may(r, 9 if len(r.prompt_ids) < 30 else 4)  # noqa: E731
    worlds: list[Count] = []

    def world() -> Count:
        worlds.append(Count(Log(), wanted=2))
        return worlds[-1]

    found = play(castings(lambda _: world, 1, 1), limits=Episode(cut_turns="go_on"), script=cut_first)
    sample = found.samples[0]
    assert TEXT.decode(sample.tokens_T.tolist()).endswith(
        "assistant: aaaaaaaa<turn>user: more<turn>assistant: aaa<turn>"
    )
    assert TEXT.decode(sample.tokens_T[sample.policy_mask_T].tolist()) == "aaaaaaaaaaa<turn>"
    assert [turn.cut for turn in worlds[0].said] == [True, False] and found.ended() == ["done"]


def test_a_stop_string_ends_a_turn_that_is_closed_for_it() -> None:
    stopped = lambda r: Answer([97, 98], finish="stop", text="a")  # noqa: E731
    sample = play(castings(counting(Log(), wanted=2), 1, 1), script=stopped).samples[0]
    assert TEXT.decode(sample.tokens_T.tolist()).endswith("assistant: ab<turn>user: more<turn>assistant: ab")
    assert sample.completion_tokens == 4 and sample.text == "a"


def test_an_opening_that_does_not_fit_is_a_failed_rollout() -> None:
    """Nothing was said, so there is nothing to train on; the sentence says why."""
    found = play(castings(counting(Log()), 1, 1), context_tokens=10)
    assert found.samples[0].finish == "failed" and found.told(0)["ended"] == "context"
    assert "its opening does not fit into the 10 tokens" in str(found.told(0)["error"])


def test_a_world_that_says_too_much_is_not_even_read() -> None:
    """A gigabyte would take minutes to encode; the turn it answers keeps its reward."""

    def reply(_: Turn) -> Response:
        return Response((Message("user", "x " * 200_000_000),), 0.5)

    started = time.monotonic()
    found = play(castings(counting(Log(), reply=reply), 1, 1))
    assert found.ended() == ["context"] and found.told(0)["reward"] == 0.5
    assert time.monotonic() - started < 30 and len(str(found.told(0))) < 1000


class Raises(Count):
    """Goes wrong in one place."""

    where = ""

    def __init__(self, log: Log, where: str) -> None:
        if where == "init":
            raise OSError("no room")
        super().__init__(log)
        self.where = where
        if where == "tools":
            self.tools = None  # type: ignore[assignment]

    def reset(self, prompt: Prompt) -> Any:
        opened = super().reset(prompt)
        wrong: dict[str, Any] = {
            "no message": [],
            "text": ["hi"],
            "assistant": [Message("assistant", "x")],
            "none": None,
        }
        if self.where == "reset":
            raise KeyError("row")
        return wrong.get(self.where, opened)

    def respond(self, turn: Turn) -> Any:
        if self.where == "respond":
            raise ZeroDivisionError("division")
        if self.where == "exit":
            sys.exit(3)
        wrong: dict[str, Any] = {
            "no response": "done",
            "nan": Response(reward=float("nan")),
            "reward": Response(reward="high"),  # type: ignore[arg-type]
            "info": Response(info={"x": object()}),  # type: ignore[dict-item]
            "speaks": Response((Message("assistant", "I win"),)),
        }
        return wrong.get(self.where) or super().respond(turn)

    def close(self) -> None:
        super().close()
        if self.where == "close":
            raise RuntimeError("stuck")


FAULTS = {
    "init": "OSError: no room",
    "reset": "KeyError: 'row'",
    "tools": "TypeError",
    "no message": "ValueError: an episode opens with messages",
    "text": "TypeError: 'hi' is no Message",
    "assistant": "ValueError: an episode opens",
    "none": "TypeError",
    "respond": "ZeroDivisionError: division",
    "exit": "SystemExit: 3",
    "no response": "TypeError: respond gave a str, not a Response",
    "nan": "ValueError: respond gave the reward nan",
    "reward": "ValueError",
    "info": "TypeError",
    "speaks": "ValueError: respond gave a message of the assistant",
    "close": "RuntimeError: stuck",
}


def test_what_a_world_does_wrong_ends_its_own_episode_and_nothing_else() -> None:
    """Fault G12: failed, with the sentence; every other episode goes on, and every world that was made is closed."""
    log = Log()
    places = list(FAULTS)

    def world(place: int) -> Callable[[], Count]:
        return (lambda: Raises(log, places[place // 2])) if place % 2 else (lambda: Count(log))

    found = play(castings(world, len(FAULTS), 2), limits=Episode(at_once=5))
    for place, sample in found.samples.items():
        if place % 2:
            assert (sample.finish, found.told(place)["ended"]) == ("failed", "failed")
            assert FAULTS[places[place // 2]] in str(found.told(place)["error"])
        else:
            assert (sample.finish, found.told(place)["ended"]) == ("stop", "done")
    assert len(found.samples) == 2 * len(FAULTS)
    assert len(log.closed) == 2 * len(FAULTS) - 1  # one was never made
    assert all(len(threads) <= 2 for threads in log.threads.values()), "one world, one thread"


def test_a_turn_that_the_engine_cannot_complete_fails_its_episode() -> None:
    """Fault G12: after the engine's own retries."""
    broken = lambda r: Answer([], finish="failed") if r.index else echo(r)  # noqa: E731
    log = Log()
    found = play(castings(counting(log), 2, 2), script=broken)
    assert [s.finish for _, s in sorted(found.samples.items())] == ["stop", "failed", "stop", "failed"]
    assert "the engine could not complete a turn" in str(found.told(1)["error"])
    assert len(log.closed) == 4


def test_a_slow_world_holds_up_nobody() -> None:
    """The first waits until all others are over."""
    others = threading.Semaphore(0)
    log = Log()

    def world(place: int) -> Callable[[], Count]:
        def patient(_: Turn) -> Response:
            assert all(others.acquire(timeout=60) for _ in range(5))
            return Response(done=True)

        return lambda: Count(log, reply=None if place else patient)

    order: list[int] = []

    def finished(place: int, _: Sample) -> None:
        order.append(place)
        others.release()

    play(castings(world, 3, 2), slots=2, finished=finished)
    assert order[-1] == 0 and len(order) == 6


class Hangs(Count):
    """Waits for the gate in one place."""

    def __init__(self, log: Log, where: str, gate: threading.Event) -> None:
        self.where, self.gate = where, gate
        self._wait("init")
        super().__init__(log)

    def reset(self, prompt: Prompt) -> Any:
        opened = super().reset(prompt)
        self._wait("reset")
        return opened

    def respond(self, turn: Turn) -> Response:
        self._wait("respond")
        return super().respond(turn)

    def close(self) -> None:
        self._wait("close")
        super().close()

    def _wait(self, place: str) -> None:
        if place == self.where:
            self.gate.wait(120)


@pytest.mark.parametrize("hangs_in", ["init", "reset", "respond", "close"])
def test_a_world_that_hangs_is_left_behind_when_its_time_is_over(hangs_in: str) -> None:
    """The others go on, the draw ends; whenever it comes back it is closed, and says nothing any more."""
    gate, log = threading.Event(), Log()
    started = time.monotonic()
    found = play(
        castings(lambda place: lambda: Count(log) if place else Hangs(log, hangs_in, gate), 2, 2),
        limits=Episode(seconds=3.0, at_once=2),
    )
    assert time.monotonic() - started < 60
    assert found.ended() == [("done" if hangs_in == "close" else "seconds"), "done", "done", "done"]
    expected = {"init": "failed", "reset": "failed", "respond": "length", "close": "stop"}[hangs_in]
    assert found.samples[0].finish == expected
    assert len(log.closed) == 3
    gate.set()
    assert not threads_left("ropewalk-episode")
    assert len(log.closed) == 4


def test_a_slow_policy_runs_out_of_time_too() -> None:
    def slow(request: Request) -> Answer:
        time.sleep(0.15)
        return echo(request)

    found = play(castings(counting(Log(), wanted=99), 1, 1), limits=Episode(seconds=0.4), script=slow)
    assert found.ended() == ["seconds"] and found.samples[0].finish == "length"
    assert found.samples[0].policy_mask_T[-1]


def test_a_template_that_cannot_go_on_stops_the_playing_with_its_sentence() -> None:
    """Fault F4: no episode of this model could have a second turn, so none is lost in silence."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    rules = Rules(Episode(), 400, talk_of(tokenizer, SAMPLING.eos_ids, "auto"))
    log = Log()
    with pytest.raises(InputError, match="does not close the assistant's turn with an end token"):
        play(castings(counting(log), 2, 2), rules=rules)
    assert sorted(log.closed) == sorted(log.begun)


@pytest.mark.parametrize("kind", [InputError, RunStopped])
def test_what_goes_wrong_outside_the_worlds_stops_the_playing_once(kind: type[Exception]) -> None:
    """A scorer's error, say: it is raised, all worlds are closed, and no thread is left."""
    log = Log()
    error = kind("mend it")

    def finished(_: int, __: Sample) -> None:
        raise error

    with pytest.raises(kind) as caught:
        play(castings(counting(log), 6, 4), limits=Episode(at_once=6), finished=finished)
    assert caught.value is error
    assert sorted(log.closed) == sorted(log.begun)
    assert not threads_left("ropewalk-episode")


def test_a_world_that_says_stop_stops_the_run() -> None:
    """As a scorer may."""

    def reply(_: Turn) -> Response:
        raise RunStopped("the sandbox is gone: see to it")

    with pytest.raises(RunStopped, match="the sandbox is gone"):
        play(castings(counting(Log(), reply=reply), 2, 2))


def test_an_interrupt_closes_every_world() -> None:
    """Ctrl-C in the thread that generates."""
    log = Log()

    def interrupted(request: Request) -> Answer:
        if len(request.prompt_ids) > 40:
            raise KeyboardInterrupt
        return echo(request)

    with pytest.raises(KeyboardInterrupt):
        play(castings(counting(log, wanted=9), 4, 2), script=interrupted)
    assert sorted(log.closed) == sorted(log.begun)


def test_tools_are_declared_called_and_answered() -> None:
    """A template that knows no tools: they join the system message; calls are read, faults among them."""
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
    words = ['<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', "<tool_call>oops</tool_call>", "3"]
    turns: list[Turn] = []

    def reply(turn: Turn) -> Response:
        turns.append(turn)
        return Response(
            tuple(Message("tool", f"got {type(call).__name__}") for call in turn.calls), done=not turn.calls
        )

    def script(request: Request) -> Answer:
        return said(words[TEXT.decode(request.prompt_ids.tolist()).count("assistant:") - 1])

    found = play(castings(counting(Log(), reply=reply, tools=[tool]), 1, 1), script=script, context_tokens=4000)
    told = found.told(0)
    assert (told["calls"], told["call_faults"], told["turns"], told["ended"]) == (2, 1, 3, "done")
    assert [call.name for call in turns[0].calls] == ["add"]  # type: ignore[union-attr]
    text = TEXT.decode(found.samples[0].tokens_T.tolist())
    assert text.startswith("<bos>system: You may call functions.") and '"name": "add"' in text
    assert "<turn>tool: got ToolCall<turn>assistant: " in text and "<turn>tool: got Unread<turn>" in text


def test_without_tools_nothing_is_read_as_a_call() -> None:
    script = lambda _: said('<tool_call>{"name": "f", "arguments": {}}</tool_call>')  # noqa: E731
    found = play(castings(counting(Log(), wanted=1), 1, 1), script=script)
    assert found.told(0)["calls"] == 0


def test_no_episode_is_no_wait() -> None:
    assert play([]).samples == {}
