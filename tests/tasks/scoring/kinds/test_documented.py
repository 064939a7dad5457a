"""What `docs/rewards.md` shows is what there is: its tables of kinds and keys, its weights, its recipes."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

from ropewalk.runtime.recipe import load_recipe
from ropewalk.tasks.scoring.code.layers import WEIGHTS
from ropewalk.tasks.scoring.kinds.config import ScorerSection

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "rewards.md").read_text(encoding="utf-8")


def test_the_table_has_every_kind_with_every_key() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", TEXT, re.MULTILINE))
    sections = {str(v.model_fields["kind"].default): v for v in get_args(get_args(ScorerSection)[0])}
    assert set(rows) == set(sections)
    for kind, section in sections.items():
        named = {part.split()[0] for part in rows[kind].split("; ") for part in part.split(", ")}
        assert set(section.model_fields) - {"kind"} <= named, kind


def test_the_recipes_shown_load() -> None:
    shown = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert len(shown) == 2
    rest = {"method": "grpo", "model": {"kind": "folder", "path": "model"}, "rollout": {"group_size": 8}}
    loaded: list[Any] = [load_recipe({**rest, **tomllib.loads(text)}) for text in shown]
    assert loaded[0].reward.components["value"].failed == {"wrong_format": 0.0, "unparsable": 0.0}
    weights = loaded[1].task.scorers["program"].credit.weights
    assert {name: getattr(weights, name) for name in ("format", "compile", "public", "hidden")} == {
        name: weight for name, weight in WEIGHTS.items() if name != "judge"
    }
    assert loaded[1].reward.components["judge"].weight == WEIGHTS["judge"]
