"""Every key of every recipe does something: each row of the `fields_` tables is true, and no key is without a row.

A field that is in no row, a row for a field that is gone, and a row whose observable does not change fail.
"""

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.schema import keys
from ropewalk.runtime.recipe import SCHEMA
from tests.runtime.fields_episodes import EPISODES
from tests.runtime.fields_judges import JUDGES
from tests.runtime.fields_learned import LEARNED, OWN_BASES
from tests.runtime.fields_prompts import PROMPTS
from tests.runtime.fields_run import RUN, TABLE
from tests.runtime.fields_scorers import SCORERS
from tests.runtime.fields_table import BASES, PURE, Row
from tests.runtime.fields_worlds import WORLDS, door
from tests.runtime.learned_observers import make_rewards
from tests.runtime.observers import OBSERVERS, RUNS, Bench

# --- the table is whole ---------------------------------------------------------------------------


def proven() -> list[str]:
    return [name for row in TABLE for name in row.fields.split()]


def test_every_field_is_in_the_table_once() -> None:
    """Fault Q3: a new key without a row fails here."""
    there = {f"{key.section.__name__}.{key.field}" for key in keys(SCHEMA)}
    named = proven()
    assert sorted(there - set(named)) == [], "say what these change, in this table"
    assert sorted(set(named) - there) == [], "these fields are gone"
    assert sorted({name for name in named if named.count(name) > 1}) == []


def test_no_base_is_named_twice() -> None:
    """The rows of one part would be compared with the recipe of another."""
    assert not set(BASES) & set(OWN_BASES)


RECIPES = (
    "PPORecipe",
    "GRPORecipe",
    "SFTRecipe",
    "RewardModelRecipe",
    "ProcessRewardModelRecipe",
    "SampleRecipe",
)
REFUSED = {
    *(f"{recipe}.hardware" for recipe in RECIPES),
    *(f"{recipe}.data" for recipe in ("PPORecipe", "GRPORecipe", "SampleRecipe")),
    *("Hardware.device", "PPORecipe.health", "GRPORecipe.health", "PPORecipe.reward_model"),
}
"""Rows whose change shows as the sentence that refuses or ends the run."""


# --- and true -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def bench(
    tiny_policy: Path, tiny_pairs: Path, tiny_reward_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bench:
    from ropewalk.runtime.train import train

    folder = tmp_path_factory.mktemp("fields")
    settings = {"model": "none", "start_from": str(tiny_policy), "data.sentences": 60, "hardware.threads": 1}
    train("city-pretrain", set=settings, out=folder / "other")
    for name, text in written().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("@policy", str(tiny_policy)))
    make_rewards(folder, tiny_reward_model)
    return Bench(folder, tiny_policy, tiny_pairs, tiny_reward_model)


CITY = '[task]\nkind = "city"\n[sampling]\nmax_new_tokens = 15\nbanned = ["<pad>", "["]\n'


def written() -> dict[str, str]:
    """Data files of the rows above."""

    def jsonl(records: list[dict[str, Any]]) -> str:
        return "".join(json.dumps(record) + "\n" for record in records)

    words = ("sunny", "rainy", "windy", "cloudy", "humid", "snowy")
    cities = ("boston", "denver", "austin", "seattle")
    texts = [f"[ {c} is {w} {'and cool ' * (n % 2)}." for n, w in enumerate(words) for c in cities]
    sides = [{"prompt": t[: t.rindex(" ", 0, -2)], "completion": t[t.rindex(" ", 0, -2) + 1 : -2]} for t in texts]
    pairs = [{"prompt": s["prompt"], "chosen": "big", "rejected": s["completion"]} for s in sides]
    steps = [
        {"prompt": f"[ {city} is {one}", "steps": [f"and {other}", f" {one}"], "labels": [0.25 * (n % 4), n % 2]}
        for n, (one, other) in enumerate(itertools.permutations(words, 2))
        for city in cities[: 1 + n % 2]
    ]
    sums = [{"question": f"What is {n} + 5?", "answer": f"It is #### {n + 5}"} for n in range(2, 14)]
    both = [
        {
            "text": s["prompt"],
            **p,
            "gold": "3",
            "question": s["prompt"],
            "answer": "#### 3",
            "steps": ["a"],
            "labels": [0],
        }
        for s, p in zip(sides, pairs, strict=True)
    ]
    talk = [{"role": "user", "content": "hi"}]
    columns = [
        {
            "a": f"{n} a",
            "b": f"{n} and b",
            "i": f"id{n}",
            "m": n,
            "n": 2 * n,
            "s": [f"{n} s", "t"],
            "s2": ["u", f"{n} v"],
            "l": [0.25, 1],
            "l2": [0, 0],
            "talk": [*talk, {"role": "user", "content": str(n)}],
        }
        for n in range(2, 14)
    ]
    difficulties = ("easy", "medium", "hard")
    chosen = [{"id": f"city-train-0-{n}", "info": {"difficulty": difficulties[n % 3]}} for n in range(20)]
    gold = [{"prompt": f"{n} + 5 =", "gold": str(n + 5)} for n in range(2, 14)]
    scorers = "{'length': lambda prompt, sample: float(len(sample.text))}"
    tasks = "from ropewalk.tasks.task import Task\nTASK = Task(%r, ['[ boston', '[ denver', '[ austin'], %s)\n"
    return {
        "documents.jsonl": jsonl([{"text": text} for text in texts]),
        "few.jsonl": jsonl([{"text": text} for text in texts[:5]]),
        "demos.jsonl": jsonl(sides),
        "few_demos.jsonl": jsonl(sides[:5]),
        "few_pairs.jsonl": jsonl(pairs),
        "steps.jsonl": jsonl(steps),
        "few_steps.jsonl": jsonl(steps[:9]),
        "gsm8k.jsonl": jsonl(sums),
        "other.jsonl": jsonl(sums[2:]),
        "gold.jsonl": jsonl(gold),
        "columns.jsonl": jsonl(columns),
        "chosen.jsonl": jsonl(chosen),
        "fewer.jsonl": jsonl(chosen[:7]),
        "parts/train.jsonl": jsonl(both),
        "parts/test.jsonl": jsonl(both[3:]),
        "door.py": door(3),
        "other_door.py": door(4),
        "task.py": tasks % ("mine", scorers),
        "other_task.py": tasks % ("yours", scorers),
        "scorer.py": "def score(prompt, sample): return 1.0\ndef half(prompt, sample): return 0.5\n",
        "other_scorer.py": "def score(prompt, sample): return 0.0\n",
        "grpo.toml": 'method = "grpo"\n' + CITY + "[rollout]\ngroup_size = 4\n[reward.components.truth]\n",
        "ppo.toml": 'method = "ppo"\n'
        + CITY
        + '[critic]\nstart = "reward_model"\n[reward.components.reward_model]\nnormalise.kind = "initial_mean"\n',
        "sft.toml": 'method = "sft"\n[data]\nkind = "city"\n',
        "rm.toml": 'method = "reward_model"\n',
        "prm.toml": 'method = "process_reward_model"\n',
        "sample.toml": 'method = "sample"\n' + CITY + '[rollout]\ngroup_size = 2\n[labels]\nkind = "bradley_terry"\n',
        "chain.toml": 'method = "stages"\n'
        '[[stage]]\nname = "a"\nrecipe = "city-pairs"\n'
        'set = { start_from = "@policy", "rollout.prompts" = 300 }\n'
        '[[stage]]\nname = "b"\nrecipe = "city-pairs"\n'
        'set = { start_from = "@policy", "rollout.prompts" = 300 }\n'
        '[[stage]]\nname = "c"\nrecipe = "city-reward-model"\n'
        'set = { start_from = "@policy", "data.path" = "stage:b/pairs.jsonl" }\n',
    }


def placed(value: Any, bench: Bench) -> Any:
    """`@name` as the file or folder of the bench."""
    if isinstance(value, Mapping):
        return {name: placed(inner, bench) for name, inner in value.items()}
    if isinstance(value, list):
        return [placed(inner, bench) for inner in value]
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    known = {"@policy": bench.policy, "@rm": bench.reward_model, "@pairs/pairs.jsonl": bench.pairs / "pairs.jsonl"}
    return str(known.get(value, bench.folder / value[1:]))


def observed(row: Row, bench: Bench) -> Iterator[Any]:
    """The observable with the change, and without it."""
    for base, settings in ((row.base, row.change), (row.other or row.base, row.against)):
        recipe, own = {**BASES, **OWN_BASES}[base]
        merged = placed({**own, **(row.given if base == row.base else {}), **settings}, bench)
        yield OBSERVERS[row.seen](bench, placed(recipe, bench), merged)


def check(row: Row, bench: Bench) -> None:
    changed, unchanged = observed(row, bench)
    if row.seen == "run":
        assert unchanged["error"] is None, "the recipe to compare with does not run"
        assert changed["error"] is None or row.fields in REFUSED, changed["error"]
    assert changed != unchanged, f"{row.fields} changes nothing in {row.seen}"


@pytest.mark.parametrize(
    "row",
    [*PURE, *SCORERS, *EPISODES, *JUDGES, *PROMPTS, *LEARNED, *WORLDS],
    ids=lambda row: row.fields.replace(" ", "+"),
)
def test_a_setting_changes_what_is_computed(row: Row, bench: Bench) -> None:
    """Fault Q3: without training anything."""
    assert row.seen not in RUNS
    check(row, bench)


def test_settings_change_what_a_run_leaves(bench: Bench, grid_seed: int) -> None:
    """Fault Q3: a sample of the settings that only a run shows."""
    for row in random.Random(grid_seed).sample([row for row in RUN if row.seen == "run"], 5):
        check(row, bench)


@pytest.mark.slow
@pytest.mark.parametrize("row", RUN, ids=lambda row: row.fields.replace(" ", "+"))
def test_a_setting_changes_what_a_run_leaves(row: Row, bench: Bench) -> None:
    """Fault Q3 in full."""
    check(row, bench)
