"""Environments of the package verifiers (Prime Intellect), played through our protocol.

    env.rollout(…)  ──asks the model──▶  reset, respond: messages for the policy
                    ◀──an answer made of the policy's turn──

The environment runs its own loop, with its own stop conditions and its own turns; we stand where it asks for the
model. Its coroutine is driven here, in an event loop of the episode's own, and never runs while the policy speaks. Its
rubric gives the reward when it is done. Classic environments are understood (SingleTurnEnv, MultiTurnEnv, ToolEnv and
what derives from them), as versions 0.1 to 0.3 have them.
"""

import asyncio
import copy
import functools
import inspect
import json
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Message, Prompt, Speaker
from ropewalk.tasks.config import VerifiersTask
from ropewalk.tasks.environments.protocol import Response, ToolCall, ToolSpec, Turn, Unread
from ropewalk.tasks.environments.reward import REWARD, EpisodeReward
from ropewalk.tasks.task import HELDOUT, TRAIN, AtOnce, Task, split_prompts

ROW = "row"
"""Key of a prompt's info that names its row: a mixture gives prompts other ids."""
MODEL = "policy"
"""What the environment is told the model is called."""
_ROLES: Mapping[str, Speaker] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_TURNED_AWAY = "Error: the call could not be read: {why}."


class Unplayable(RuntimeError):
    """An environment does what cannot be played as a dialogue."""


def verifiers_task(config: VerifiersTask) -> Task:
    """The environment that a module's `load_environment` makes, as verifiers finds it by name.

    Raises InputError where the package or the environment is not to be had.
    """
    vf = optional_module("verifiers", extra="verifiers", need="a task of kind 'verifiers'")
    if not hasattr(vf, "load_environment"):
        raise InputError(
            f"verifiers {getattr(vf, '__version__', '')} has no classic environments any more: "
            "pip install 'ropewalk[verifiers]', which takes a version below 0.4"
        )
    try:
        env = vf.load_environment(config.environment, **config.arguments)
    except (ValueError, RuntimeError, ImportError, AttributeError, TypeError) as error:
        raise InputError(f"verifiers cannot load the environment {config.environment!r}: {error}") from error
    return environment_task_of(config.environment, env, prompts=config.prompts, heldout=config.heldout_prompts)


def environment_task_of(name: str, env: Any, *, prompts: int | None = None, heldout: int | None = None) -> Task:
    """A task from an environment object: its rows are the prompts, its rubric's reward is the scorer `reward`.

    Its evaluation rows are held out; without any, a tenth of its rows.
    """
    rows: dict[str, dict[str, Any]] = {}
    train = _prompts(name, TRAIN, _rows(env, "dataset"), prompts, rows)
    kept = _prompts(name, HELDOUT, _rows(env, "eval_dataset"), heldout, rows)
    if not train and not kept:
        raise InputError(f"the environment {name!r} has no rows: a task needs prompts")
    specs = _specs(env)
    return Task(
        name=name,
        prompts={TRAIN: train, HELDOUT: kept} if train and kept else split_prompts([*train, *kept]),
        scorers={REWARD: AtOnce(EpisodeReward())},
        environment=lambda: VerifiersEnvironment(env, rows, specs),
    )


class VerifiersEnvironment:
    """One episode. For one thread at a time, in which no event loop runs."""

    def __init__(self, env: Any, rows: Mapping[str, Mapping[str, Any]], tools: Sequence[ToolSpec]) -> None:
        """`rows` are the environment's own, by what a prompt's info names."""
        # A shallow copy: where it asks for the model is this episode's, all else is shared.
        self._env = copy.copy(env)
        self._env.get_model_response = self._asked
        self._rows = rows
        self._tools = tuple(tools)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._playing: asyncio.Task[Any] | None = None
        self._request: asyncio.Future[list[Any]] | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._shown: list[Message] = []
        self._row: Mapping[str, Any] = {}
        self._turns = 0

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """As the environment declares them."""
        return self._tools

    def reset(self, prompt: Prompt) -> Sequence[Message]:
        """What the environment asks the model first."""
        self._row = self._rows[str(prompt.info[ROW])]
        self._loop = asyncio.new_event_loop()
        self._request = self._loop.create_future()
        self._playing = self._loop.create_task(_rollout(self._env, self._row))
        if not self._until_asked():
            raise Unplayable("the environment was over before it asked the model anything")
        return tuple(self._shown)

    def respond(self, turn: Turn) -> Response:
        """Hand the turn over and run the environment until it asks again, or is done."""
        assert self._loop is not None and self._answer is not None, "reset comes first"
        faults = [call for call in turn.calls if isinstance(call, Unread)]
        if faults:
            told = (_TURNED_AWAY.format(why=call.why) if isinstance(call, Unread) else _NOT_RUN for call in turn.calls)
            return Response(tuple(Message("tool", text) for text in told), info={"turns_taken": self._turns})
        self._turns += 1
        so_far = [*self._shown, Message("assistant", turn.text)]
        calls = [call for call in turn.calls if isinstance(call, ToolCall)]
        self._request = self._loop.create_future()
        self._answer.set_result(_completion(self._env, turn.text, calls, cut=turn.cut))
        if self._until_asked():
            if self._shown[: len(so_far)] != so_far:
                raise Unplayable("the environment rewrites what was said, and a dialogue is only ever continued")
            return Response(tuple(self._shown[len(so_far) :]), info={"turns_taken": self._turns})
        assert self._playing is not None
        reward, metrics = self._run(_scored(self._env, self._row, self._playing.result()))
        if not math.isfinite(reward):
            raise Unplayable(f"the environment's rubric gave the reward {reward}")
        info: dict[str, Json] = {"turns_taken": self._turns, **{f"metric/{name}": value for name, value in metrics}}
        return Response(reward=reward, done=True, info=info)

    def close(self) -> None:
        """End its coroutine, whatever it waits for, and the loop with everything left in it."""
        if self._loop is None:
            return
        try:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            self._loop = None

    async def _asked(self, *args: Any, **kwargs: Any) -> Any:
        """Stands where the environment asks for the model."""
        messages = kwargs.get("prompt", args[1] if len(args) > 1 else None)
        if isinstance(messages, str) or messages is None:
            raise Unplayable("the environment asks for a continuation of text, not for a turn of a dialogue")
        assert self._loop is not None and self._request is not None
        self._answer = self._loop.create_future()
        self._request.set_result(list(messages))
        return await self._answer

    def _until_asked(self) -> bool:
        """Run the environment until it asks (True) or is over (False). What it raises is raised."""
        assert self._playing is not None and self._request is not None
        self._run(_first(self._playing, self._request))
        if not self._request.done():
            self._playing.result()
            return False
        self._shown = [_message(each) for each in self._request.result()]
        return True

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None
        return self._loop.run_until_complete(work)


_NOT_RUN = "Error: not carried out, as another call of this turn could not be read."


async def _first(*waiting: "asyncio.Future[Any]") -> None:
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


def _is_old(env: Any) -> bool:
    """Version 0.1's first: the rollout takes prompt and answer, not a row."""
    return "prompt" in inspect.signature(env.rollout).parameters


async def _rollout(env: Any, row: Mapping[str, Any]) -> Any:
    if not _is_old(env):
        return await env.rollout(dict(row), _nobody(), MODEL, {})
    prompt, answer = copy.deepcopy(row["prompt"]), row.get("answer") or ""
    return await env.rollout(None, MODEL, prompt, answer, row.get("task") or "default", dict(row.get("info") or {}), {})


async def _scored(env: Any, row: Mapping[str, Any], played: Any) -> tuple[float, list[tuple[str, float]]]:
    """The reward and the metrics of the rubric. What a reward function raises is raised here, and is no reward of 0."""
    raised: list[Exception] = []
    rubric = _watched(env.rubric, raised)
    if _is_old(env):
        completion, state = played
        found = await rubric.score_rollout(
            prompt=row["prompt"],
            completion=completion,
            answer=row.get("answer") or "",
            state=state,
            task=row.get("task") or "default",
            info=dict(row.get("info") or {}),
        )
        reward, metrics = found.reward, found.metrics
    else:
        if played.get("error") is not None:
            raise Unplayable(f"the environment ended with {played['error']!r}")
        await rubric.score_rollout(played)
        reward, metrics = played["reward"], played["metrics"] or {}
    if raised:
        raise Unplayable(f"a reward function failed: {type(raised[0]).__name__}: {raised[0]}")
    numbers = [(str(name), float(value)) for name, value in metrics.items()]
    return float(reward), [(name, value) for name, value in numbers if math.isfinite(value)]


def _watched(rubric: Any, raised: list[Exception]) -> Any:
    """A copy of a rubric, or of a group of them, whose functions note what they raise: the rubric itself hides it."""
    made = copy.copy(rubric)
    if hasattr(rubric, "rubrics"):
        made.rubrics = [_watched(each, raised) for each in rubric.rubrics]
    for name in ("reward_funcs", "funcs"):
        if isinstance(found := getattr(rubric, name, None), list):
            setattr(made, name, [_noting(function, raised) for function in found])
    return made


def _noting(function: Callable[..., Any], raised: list[Exception]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def noted(*args: Any, **kwargs: Any) -> Any:
        try:
            value = function(*args, **kwargs)
            return float(await value if inspect.isawaitable(value) else value)
        except Exception as error:
            # Any exception of somebody's reward function: noted, and raised as it was.
            raised.append(error)
            raise

    return noted


def _nobody() -> Any:
    """A client of the newer versions' kind that nobody asks anything."""
    client = optional_module("verifiers.clients", extra="verifiers", need="an environment of verifiers").Client
    silent = {name: lambda *_: None for name in client.__abstractmethods__}
    return type("Nobody", (client,), silent)(None)


def _completion(env: Any, text: str, calls: Sequence[ToolCall], *, cut: bool) -> Any:
    """The policy's turn in the type that the environment expects of its model."""
    arguments = [json.dumps(dict(call.arguments), ensure_ascii=False) for call in calls]
    reason = "length" if cut else "tool_calls" if calls else "stop"
    if _is_old(env):
        chat = optional_module("openai.types.chat", extra="verifiers", need="an environment of verifiers")
        tool_calls = [
            {"id": f"call_{n}", "type": "function", "function": {"name": call.name, "arguments": arguments[n]}}
            for n, call in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text, "tool_calls": tool_calls or None}
        choice = {"index": 0, "finish_reason": reason, "message": message}
        return chat.ChatCompletion.model_validate(
            {
                "id": "turn",
                "created": int(time.time()),
                "model": MODEL,
                "object": "chat.completion",
                "choices": [choice],
            }
        )
    types = optional_module("verifiers.types", extra="verifiers", need="an environment of verifiers")
    called = [types.ToolCall(id=f"call_{n}", name=call.name, arguments=arguments[n]) for n, call in enumerate(calls)]
    said = types.ResponseMessage(
        role="assistant", content=text, tool_calls=called or None, finish_reason=reason, is_truncated=cut, tokens=None
    )
    return types.Response(id="turn", created=int(time.time()), model=MODEL, usage=None, message=said)


def _rows(env: Any, name: str) -> Sequence[Mapping[str, Any]]:
    """The rows of a data set of the environment, in the form its rollouts take; none if it has none."""
    found = getattr(env, name, None)
    getter = getattr(env, "get_dataset" if name == "dataset" else "get_eval_dataset", None)
    if found is None and name == "dataset" and getter is not None and not _is_old(env):
        found = getter()
    return [] if found is None else list(found)


def _prompts(
    name: str, split: str, found: Sequence[Mapping[str, Any]], most: int | None, rows: dict[str, dict[str, Any]]
) -> list[Prompt]:
    made = []
    for number, row in enumerate(found[:most]):
        if isinstance(row.get("prompt"), str) or not row.get("prompt"):
            raise InputError(f"row {number + 1} of the environment {name!r} has no messages for its prompt")
        key = f"{split}/{number}"
        rows[key] = dict(row)
        gold = row.get("answer")
        dialogue = tuple(_message(each) for each in row["prompt"])
        made.append(
            Prompt(f"{name}/{key}", dialogue, gold if isinstance(gold, str | int | float) else None, {ROW: key})
        )
    return made


def _message(each: Any) -> Message:
    """A message of theirs, dict or model, as one of ours."""
    get = each.get if isinstance(each, Mapping) else lambda key, default=None: getattr(each, key, default)
    content = get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return Message(_ROLES.get(str(get("role")), "user"), "" if content is None else str(content))


def _specs(env: Any) -> tuple[ToolSpec, ...]:
    found = []
    for each in getattr(env, "oai_tools", None) or getattr(env, "tool_defs", None) or ():
        plain = each if isinstance(each, Mapping) else each.model_dump()
        function = plain.get("function", plain)
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        found.append(ToolSpec(str(function["name"]), str(function.get("description") or ""), parameters))
    return tuple(found)
