"""Evaluation inside training: the rows that are held out, all of them and only them, by the plain definitions."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from ropewalk.models.language import load_language
from ropewalk.records.errors import InputError
from ropewalk.runtime.config import Documents, Hardware
from ropewalk.runtime.heldout import HeldOutTexts, PairJudge
from ropewalk.runtime.hosts.inline import InlineCrew
from ropewalk.runtime.prepare import text_rows
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.roles import FromScorer, RoleSetup, Setup
from ropewalk.runtime.run import Run
from ropewalk.runtime.sampler import policy_setup
from ropewalk.runtime.train import train

WORDS = [(c, n, s) for c in ("austin", "boston", "denver") for n in ("music", "parks") for s in ("winter", "spring")]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": f"[ {c} has {n} every {s} ."}) + "\n" for c, n, s in WORDS))
    return path


def test_held_rows_and_trained_rows_are_all_rows_and_none_twice(tiny_policy: Path, corpus: Path) -> None:
    language = load_language(Run(tiny_policy).model)
    config = Documents(kind="documents", path=str(corpus), held_out=0.4)
    split, whole = (
        text_rows(one, language, 0, Silent()) for one in (config, config.model_copy(update={"held_out": 0.0}))
    )
    texts = [[language.tokenizer.decode(ids) for ids, _ in rows] for rows in (split.train, split.held, whole.train)]
    assert sorted(texts[0] + texts[1]) == sorted(texts[2]) and len(set(texts[2])) == len(WORDS)
    assert split.held and whole.held == [] and split.ledger.size == len(split.train)


def test_the_likelihood_is_that_of_the_stock_model(tiny_policy: Path, corpus: Path) -> None:
    folder = Run(tiny_policy).model
    rows = text_rows(Documents(kind="documents", path=str(corpus)), load_language(folder), 0, Silent()).train[:3]
    crew = InlineCrew(policy_setup(str(folder), Hardware(threads=1), None))
    found = HeldOutTexts(crew, rows)(1)["eval/nll_per_token"]
    stock = AutoModelForCausalLM.from_pretrained(folder)
    total, count = 0.0, 0
    for ids, _ in rows:
        tokens = torch.from_numpy(np.asarray(ids))
        with torch.no_grad():
            logprobs = stock(tokens[None]).logits[0].log_softmax(-1)
        total -= float(logprobs[:-1].gather(1, tokens[1:, None]).sum())
        count += len(tokens) - 1
    assert found.value == pytest.approx(total / count, abs=1e-5)


def test_a_judge_that_knows_nothing_ties_everywhere(tiny_policy: Path, tiny_reward_model: Path) -> None:
    """A head of zeros decides no pair; a trained one is right on exactly one of a pair and its reverse."""
    setup = policy_setup(str(Run(tiny_policy).model), Hardware(threads=1), None)
    reward = frozenset({"reward"})
    blank = InlineCrew(_with_role(setup, RoleSetup(setup.roles["actor"].source, reward)))
    judge = InlineCrew(_with_role(setup, RoleSetup(FromScorer(str(Run(tiny_reward_model).model)), reward)))
    ids = [(np.array([1, 2, token]), np.array([False, True, True])) for token in (3, 4)]
    pairs = [(ids[0], ids[1]), (ids[1], ids[0])]
    nothing = PairJudge(blank, pairs)(1)
    assert nothing["eval/pair_ties"].value == 1 and nothing["eval/pair_accuracy"].count == 0
    something = PairJudge(judge, pairs)(1)
    assert something["eval/pair_accuracy"].value == 0.5 and something["eval/pair_ties"].value == 0


def _with_role(setup: Setup, role: RoleSetup) -> Setup:
    return replace(setup, roles={"reward": role})


def test_an_evaluation_without_held_out_rows_is_refused(
    tiny_policy: Path, tiny_pairs: Path, corpus: Path, tmp_path: Path
) -> None:
    """An option that would have no effect is an error, before anything is trained."""
    every = {"evaluate": {"kind": "every"}, "start_from": str(tiny_policy)}
    pairs = {**every, "data.path": str(tiny_pairs / "pairs.jsonl"), "data.held_out": 0.0}
    with pytest.raises(InputError, match=r"data\.held_out above 0"):
        train("city-reward-model", set=pairs, out=tmp_path / "r")
    recipe = tmp_path / "sft.toml"
    recipe.write_text(f'method = "sft"\ndata = {{ kind = "documents", path = "{corpus}" }}\nstart_from = "x"\n')
    with pytest.raises(InputError, match=r"data\.held_out above 0"):
        train(recipe, set=every, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()
