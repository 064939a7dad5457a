"""Games with Gymnasium's interface, played in words: one of our own, registered here, and one that comes along."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.config import GymnasiumTask
from ropewalk.tasks.environments.text_game import MAX_OBSERVATION, GameEnvironment, game_task, gymnasium_task
from ropewalk.tasks.load import load_task
from tests.tasks.environments.player import play

GAME = '''
import gymnasium
from gymnasium import spaces


class Door(gymnasium.Env):
    """Opens to a word of the length that it says."""

    def __init__(self, longest: int = 5) -> None:
        self.action_space = spaces.Text(20)
        self.observation_space = spaces.Text(1_000)
        self.longest = longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.size = (options or {}).get("size") or int(self.np_random.integers(1, self.longest + 1))
        self.left = 3
        return f"A door. It wants {self.size} letters.", {}

    def step(self, action):
        self.left -= 1
        opened = len(action) == self.size
        return "It opens." if opened else "It stays shut.", 1.0 if opened else -0.1, opened, self.left == 0, {}


gymnasium.register("RopewalkDoor-v0", entry_point=lambda **kwargs: Door(**kwargs))
'''


@pytest.fixture(autouse=True, scope="module")
def forget() -> Any:
    yield
    gymnasium.registry.pop("RopewalkDoor-v0", None)


def door(tmp_path: Path, **more: Any) -> GymnasiumTask:
    gymnasium.registry.pop("RopewalkDoor-v0", None)
    (tmp_path / "door.py").write_text(GAME)
    more = {"prompts": 20, "heldout_prompts": 3, **more}
    return GymnasiumTask(id="RopewalkDoor-v0", register_file=str(tmp_path / "door.py"), **more)


def test_a_registered_game_is_a_task_with_a_seed_a_prompt(tmp_path: Path) -> None:
    task = load_task(door(tmp_path, seed=7))
    train, held = task.split("train"), task.split("heldout")
    assert [prompt.info["seed"] for prompt in (*train, *held)] == list(range(7, 30))
    assert list(task.scorers) == ["reward"] and task.environment is not None
    opening = task.environment().reset(train[0])
    assert opening == task.environment().reset(train[0])
    assert len({task.environment().reset(prompt)[0].content for prompt in train}) > 2, "seeds matter"
    (message,) = opening
    assert message.role == "user" and message.content.startswith("Play the game. Say one action")
    wanted = int(message.content.split()[-2])
    played = play(task.environment(), train[0], ["x" * (wanted + 1), "x" * wanted, "never said"])
    assert [heard.content for heard in played.heard] == ["It stays shut.", "It opens."]
    assert (played.done, played.reward) == (True, pytest.approx(0.9))
    assert played.info == {"moves": 2, "terminated": True, "truncated": False}


def test_a_game_is_over_when_it_says_so_and_options_reach_it(tmp_path: Path) -> None:
    task = gymnasium_task(door(tmp_path, arguments={"longest": 1}))
    assert task.environment is not None
    played = play(task.environment(), task.split("train")[0], ["xx", "xx", "xx", "x"])
    assert (played.done, played.reward, played.info["truncated"]) == (True, pytest.approx(-0.3), True)
    asked = Prompt("p", (Message("system", "S"), Message("user", "Go.")), info={"seed": 0, "options": {"size": 9}})
    assert task.environment().reset(asked) == [
        Message("system", "S"),
        Message("user", "Go.\n\nA door. It wants 9 letters."),
    ]


def test_a_turn_without_an_action_is_no_move(tmp_path: Path) -> None:
    task = gymnasium_task(door(tmp_path, action="tags"))
    assert task.environment is not None
    turns = ["I say x", "<answer></answer>", "<answer>" + "x" * 21 + "</answer>", "<answer>né</answer>"]
    played = play(task.environment(), task.split("train")[0], turns)
    assert ["between <answer>" in m.content or "no action" in m.content for m in played.heard] == [True] * 4
    assert (played.info["moves"], played.reward, played.done) == (0, 0.0, False)
    played = play(task.environment(), task.split("train")[0], ["x"] * 99)
    assert played.done and len(played.heard) == 8, "and not for ever"


LAKE = {"id": "FrozenLake-v1", "arguments": {"is_slippery": False, "render_mode": "ansi"}}


def test_a_game_of_numbers_is_played_by_words_and_shown_as_it_is_drawn() -> None:
    actions = ("left", "down", "right", "up")
    task = load_task(GymnasiumTask(**LAKE, actions=actions, prompts=2, heldout_prompts=1))  # type: ignore[arg-type]
    assert task.environment is not None
    way = ["down", "DOWN", "right", "right", "sideways", "rihgt", "down", "right"]
    played = play(task.environment(), task.split("train")[0], way)
    assert "SFFF" in played.opening[-1].content.replace("\x1b[41m", "").replace("\x1b[0m", "")
    assert (
        "Did you mean right?" in played.heard[5].content and "Actions: left, down, right, up" in played.heard[4].content
    )
    assert (played.reward, played.done, played.info["moves"]) == (1.0, True, 6)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"id": "FrozenLak-v1"}, "did you mean 'FrozenLake-v1'"),
        ({"id": "no such game"}, "cannot make"),
        ({"id": "FrozenLake-v1"}, "name 4 words in actions"),
        ({"id": "FrozenLake-v1", "actions": ("a", "b")}, "name 4 words in actions"),
        ({"id": "FrozenLake-v1", "arguments": {"nosuch": 1}}, "cannot make"),
        ({"id": "Pendulum-v1"}, "which no words are"),
        ({"id": "Pendulum-v1", "actions": ("a",)}, "leave actions out"),
        ({"id": "X-v0", "register_file": "nowhere.py"}, "no game file"),
    ],
    ids=range(8),
)
def test_a_game_that_cannot_be_played_is_refused(section: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        gymnasium_task(GymnasiumTask(**section))


class Plain:
    """A game that knows nothing of Gymnasium."""

    closed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return {"seed": seed}, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if action == "break":
            raise ValueError("broken")
        return "x" * (MAX_OBSERVATION + 5), 1, action == "end", False, {}

    def close(self) -> None:
        Plain.closed += 1


def test_any_object_with_the_two_methods_will_do() -> None:
    task = game_task("plain", Plain, instruction="", seeds={"train": [1, 2], "heldout": [3]})
    assert task.environment is not None
    played = play(task.environment(), task.split("train")[1], ["a", "end"])
    assert played.opening == [Message("user", "{'seed': 2}")]
    assert played.heard[0].content.endswith("x\n[cut: 5 more characters]")
    assert (played.reward, played.done, Plain.closed) == (2.0, True, 1)
    with pytest.raises(ValueError, match="broken"):
        play(GameEnvironment(Plain), Prompt("p", "q"), ["break"])
    assert Plain.closed == 2
