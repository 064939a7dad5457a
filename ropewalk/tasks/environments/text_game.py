"""Games with the interface of Gymnasium, played in words: observations are read by the policy, its turn is the action.

    reset(seed=, options=) → (observation, info)
    step(action) → (observation, reward, terminated, truncated, info)

Any object with these two methods will do; the package gymnasium is needed only where a game is made by its id.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Message, Prompt
from ropewalk.tasks.config import GymnasiumTask
from ropewalk.tasks.environments.protocol import Response, ToolSpec, Turn
from ropewalk.tasks.environments.reward import REWARD, EpisodeReward
from ropewalk.tasks.environments.tool_use import opening
from ropewalk.tasks.module import user_module
from ropewalk.tasks.scoring.rules.text import AnswerAt, answer_of
from ropewalk.tasks.task import HELDOUT, TRAIN, AtOnce, Task

SEED, OPTIONS = "seed", "options"
"""Keys of a prompt's info: what a game is reset with."""
MAX_OBSERVATION = 8_000
"""Characters; what is longer is cut, and says so."""


class Game(Protocol):
    """What is needed of a game."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin anew."""
        ...

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One move."""
        ...


GameMaker: TypeAlias = Callable[[], Game]


class GameEnvironment:
    """One game. A turn that holds no action of the game is told so and is no move."""

    def __init__(
        self, make: GameMaker, *, at: AnswerAt = "text", actions: Sequence[str] = (), most_faults: int = 8
    ) -> None:
        """`actions` names those of a game that takes numbers from 0 on. After `most_faults` turns in a row without an
        action the episode is done."""
        self._make = make
        self._at: AnswerAt = at
        self._actions = list(actions)
        self._most_faults = most_faults
        self._faults = 0
        self._moves = 0
        self._game: Any = None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """None: the policy says its action."""
        return ()

    def reset(self, prompt: Prompt) -> Sequence[Message]:
        """The prompt's messages, the first observation below the last of them."""
        self._game = self._make()
        self._faults = self._moves = 0
        seed, options = prompt.info.get(SEED), prompt.info.get(OPTIONS)
        observation, _ = self._game.reset(
            seed=seed if isinstance(seed, int) else None, options=options if isinstance(options, dict) else None
        )
        *before, last = opening(prompt, "")
        text = f"{last.content}\n\n{self._words(observation)}".strip()
        return [*before, Message(last.role, text)]

    def respond(self, turn: Turn) -> Response:
        """One move, or why it is none."""
        said = (answer_of(turn.text, self._at) or "").strip()
        action, fault = self._action(said)
        if fault:
            self._faults += 1
            done = self._faults >= self._most_faults
            return Response((Message("user", fault),), done=done, info=self._info(False, False))
        self._faults = 0
        self._moves += 1
        observation, reward, terminated, truncated, _ = self._game.step(action)
        words = Message("user", self._words(observation))
        info = self._info(bool(terminated), bool(truncated))
        return Response((words,), float(reward), bool(terminated or truncated), info)

    def close(self) -> None:
        """Close the game, if it can be closed."""
        close = getattr(self._game, "close", None)
        if close is not None:
            close()
        self._game = None

    def _action(self, said: str) -> tuple[Any, str]:
        if not said:
            return None, "Say one action" + (" between <answer> and </answer>." if self._at == "tags" else ".")
        if self._actions:
            named = {name.casefold(): number for number, name in enumerate(self._actions)}
            if said.casefold() in named:
                return named[said.casefold()], ""
            near = get_close_matches(said.casefold()[:100], named, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            return None, f"{said[:60]!r} is no action.{hint} Actions: {', '.join(self._actions)}."
        space = getattr(self._game, "action_space", None)
        if space is not None and not space.contains(said):
            return None, f"{said[:60]!r} is no action of this game."
        return said, ""

    def _words(self, observation: Any) -> str:
        """The observation as text: what it is drawn as, if the game draws in text."""
        if not isinstance(observation, str) and getattr(self._game, "render_mode", None) == "ansi":
            observation = self._game.render()
        text = str(observation)
        cut = len(text) - MAX_OBSERVATION
        return text if cut <= 0 else f"{text[:MAX_OBSERVATION]}\n[cut: {cut} more characters]"

    def _info(self, terminated: bool, truncated: bool) -> dict[str, Json]:
        return {"moves": self._moves, "terminated": terminated, "truncated": truncated}


def gymnasium_task(config: GymnasiumTask) -> Task:
    """A registered game: one prompt a seed, scored by what the game gives.

    Raises InputError where the game is not registered or cannot be made.
    """
    gymnasium = optional_module("gymnasium", extra="tasks", need="a task of kind 'gymnasium'")
    if config.register_file is not None:
        user_module(config.register_file, what="game file", defines="and registers the game")

    def make() -> Game:
        found: Game = gymnasium.make(config.id, disable_env_checker=True, **config.arguments)
        return found

    _check(config, gymnasium, make)
    return game_task(
        config.id,
        make,
        instruction=config.instruction,
        seeds={
            TRAIN: range(config.seed, config.seed + config.prompts),
            HELDOUT: range(config.seed + config.prompts, config.seed + config.prompts + config.heldout_prompts),
        },
        at=config.action,
        actions=config.actions,
    )


def game_task(
    name: str,
    make: GameMaker,
    *,
    instruction: str,
    seeds: Mapping[str, Sequence[int]],
    at: AnswerAt = "text",
    actions: Sequence[str] = (),
) -> Task:
    """A task of a game from Python: `make` gives a new game, `seeds` says with which each split's games are reset."""
    prompts = {
        split: [Prompt(f"{name}/{seed}", (Message("user", instruction),), info={SEED: seed}) for seed in numbers]
        for split, numbers in seeds.items()
    }
    return Task(
        name=name,
        prompts=prompts,
        scorers={REWARD: AtOnce(EpisodeReward())},
        environment=lambda: GameEnvironment(make, at=at, actions=actions),
    )


def _check(config: GymnasiumTask, gymnasium: Any, make: GameMaker) -> None:
    try:
        game: Any = make()
    except gymnasium.error.Error as error:
        near = get_close_matches(config.id, list(gymnasium.registry), n=1)
        hint = f": did you mean {near[0]!r}" if near else ""
        raise InputError(f"Gymnasium cannot make {config.id!r} ({str(error)[:200]}){hint}") from error
    except (TypeError, ValueError, AttributeError, ImportError) as error:
        raise InputError(f"Gymnasium cannot make {config.id!r}: {error}") from error
    space = getattr(game, "action_space", None)
    numbers = getattr(space, "n", None)
    game.close()
    if numbers is not None and len(config.actions) != int(numbers):
        raise InputError(
            f"{config.id!r} takes numbers below {int(numbers)} for actions: name {int(numbers)} words in actions"
        )
    if numbers is None and config.actions:
        raise InputError(f"{config.id!r} takes no numbers for actions: leave actions out")
    if numbers is None and not isinstance(space, gymnasium.spaces.Text):
        raise InputError(f"{config.id!r} takes {space} for actions, which no words are: a text game takes Text")
