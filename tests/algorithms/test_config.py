"""Options without effect cannot be written, and every option does something."""

import pytest

from ropewalk.algorithms.config import GRPO, PPO, SFT, RewardModel
from ropewalk.config.load import ConfigError, load, to_toml
from ropewalk.config.schema import Section


def test_the_kl_stands_in_one_place() -> None:
    """Fault Q5: both forms at once are refused, and so is an option that its place does not have."""
    assert load(PPO, {"kl": {"place": "reward", "coefficient": 0.2}}).kl.place == "reward"
    for wrong in (
        {"kl": {"place": "loss", "controller": {"kind": "fixed"}}},
        {"kl": {"place": "none", "coefficient": 0.1}},
        {"kl": {"place": "loss", "estimator": "k1"}},
        {"kl": {"place": "reward"}, "kl_loss": 0.1},
        {"kl": [{"place": "reward"}, {"place": "loss"}]},
    ):
        with pytest.raises(ConfigError):
            load(PPO, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"critic": {"kind": "separate", "coefficient": 0.1}},
        {"value_clip": {"kind": "none", "range": 0.2}},
        {"reduction": {"kind": "token", "length_tokens": 9}},
        {"unfinished": {"kind": "mask", "score": -1.0}},
        {"clip_low": 1.0},
        {"kl": {"place": "reward", "coefficient": 0.0, "controller": {"kind": "adaptive"}}},
        {"epochs": 0},
        {"gamma": 1.1},
    ],
)
def test_options_without_effect_or_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        load(PPO, wrong)


@pytest.mark.parametrize("section", [PPO(), GRPO(), SFT(), RewardModel()], ids=lambda s: type(s).__name__)
def test_sections_write_back_to_what_they_are(section: Section) -> None:
    import tomllib

    assert load(type(section), tomllib.loads(to_toml(section))) == section


@pytest.mark.parametrize("section", [PPO, GRPO, SFT, RewardModel])
def test_every_field_says_what_it_is(section: type[Section]) -> None:
    assert not [name for name, field in section.model_fields.items() if not field.description]
