"""A run's model as a plain folder: the same weights, in the number format asked for, whole or not at all."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from ropewalk.records.errors import InputError
from ropewalk.runtime.jobs.export import export
from ropewalk.runtime.run import Run


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("which", ["", "@last", "@best"])
def test_an_export_has_the_very_weights(which: str, tiny_policy: Path, tmp_path: Path) -> None:
    folder = export(f"{tiny_policy}{which}", tmp_path / "out")
    source = tensors(tiny_policy / ("best" if which == "@best" else "model"))
    found = tensors(folder)
    assert found.keys() == source.keys()
    assert all(torch.equal(found[name], source[name]) for name in source)
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() > 0
    assert (folder / "tokenizer.json").read_text() == (tiny_policy / "model" / "tokenizer.json").read_text()


def test_bfloat16_rounds_each_weight_once(tiny_policy: Path, tmp_path: Path) -> None:
    source, found = tensors(tiny_policy / "model"), tensors(export(tiny_policy, tmp_path / "half", dtype="bfloat16"))
    assert all(torch.equal(found[name], source[name].bfloat16()) for name in source)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "half").dtype == torch.bfloat16


def test_a_reward_model_stays_a_classifier(tiny_reward_model: Path, tmp_path: Path) -> None:
    folder = export(Run(tiny_reward_model), tmp_path / "out")
    assert torch.equal(tensors(folder)["score.weight"], tensors(tiny_reward_model / "model")["score.weight"])
    assert AutoModelForSequenceClassification.from_pretrained(folder).num_labels == 1


def test_what_cannot_be_exported_is_refused(tiny_policy: Path, tiny_pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    chain = tmp_path / "chain"
    chain.mkdir()
    (chain / "recipe.toml").write_text('method = "stages"\n[[stage]]\nname = "one"\nrecipe = "city-pretrain"\n')
    for run, out, sentence in (
        (tiny_policy, tmp_path / "there", "exists already"),
        (tiny_pairs, tmp_path / "out", "no model"),
        (chain, tmp_path / "out", "one of them: .*one"),
        (tmp_path / "nowhere", tmp_path / "out", "no run folder"),
        (f"{tiny_policy}@newest", tmp_path / "out", "best or last"),
    ):
        with pytest.raises(InputError, match=sentence):
            export(run, out)
    assert not (tmp_path / "out").exists()
