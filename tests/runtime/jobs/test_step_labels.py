"""Labels by rollouts against the truth: a world small enough to be enumerated, and a policy that never wavers."""

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ropewalk.data.read import labelled_steps
from ropewalk.data.steps import step_ends, text_of_steps
from ropewalk.models.config import FreshModel
from ropewalk.models.export import save_policy
from ropewalk.models.load import LoadedModel, fresh_policy, load_policy
from ropewalk.models.logprobs import sampling_logits
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError, Interrupted
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Outcome
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train
from ropewalk.tasks.environments.protocol import Environment
from ropewalk.tasks.task import Task
from ropewalk.training.packing import pack_rows

WORDS = ("[", "a", "b", "|", ".")
LONGEST = 5
SIZES = FreshModel(kind="fresh", width=16, layers=1, heads=2, kv_heads=1, ffn=16, max_positions=16, init_std=0.3)
PROMPTS = [Prompt(id=f"p{n}", dialogue=text) for n, text in enumerate(["[", "[ a", "[ b", "[ a b", "[ b b", "[ a a"])]


def more_a(prompt: Prompt, sample: Sample) -> bool:
    """Right: it ended, and says `a` more often than `b`."""
    return sample.finish == "stop" and sample.text.split().count("a") > sample.text.split().count("b")


def world(scorer: Any = more_a) -> Task:
    return Task("world", {"train": PROMPTS, "heldout": [Prompt(id="h", dialogue="[")]}, {"right": scorer})


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = fresh_policy(SIZES, WORDS, ".", seed=3)
    return save_policy(made, tmp_path_factory.mktemp("world") / "policy")


def settings(policy: Path, **more: Any) -> dict[str, Any]:
    return {
        "start_from": "none",
        "model": {"kind": "folder", "path": str(policy)},
        "rollout": {"prompts": len(PROMPTS), "group_size": 6},
        "sampling": {"max_new_tokens": LONGEST, "banned": ["<pad>", "["]},
        "labels": {"kind": "steps", "step": "|", "rollouts": 60},
        "hardware.threads": 1,
        **more,
    }


def label(
    policy: Path, out: Path, task: Task | None = None, **more: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    run = train("city-pairs", task=task or world(), set=settings(policy, **more), out=out)
    return rows_of(run), json.loads((run.folder / "steps.json").read_text())


def rows_of(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "steps.jsonl").read_text().splitlines()]


# --- the truth ------------------------------------------------------------------------------------


def next_words(loaded: LoadedModel, text: str) -> dict[str, float]:
    """The policy's distribution of the next word."""
    ids = loaded.tokenizer.encode(text, add_special_tokens=False)
    batch = token_batch(pack_rows([([*ids, ids[0]], [False] * len(ids) + [True])]))
    hidden = loaded.network.hidden(batch)[len(ids) - 1]
    vocabulary = loaded.tokenizer.get_vocab()
    banned = torch.tensor([vocabulary["<pad>"], vocabulary["["]])
    with torch.no_grad():
        chances = torch.softmax(sampling_logits(loaded.network.logits(hidden[None]), 1.0, banned), -1)[0].double()
    return {word: float(chances[i]) for word, i in vocabulary.items() if i not in banned.tolist()}


class Truth:
    """The exact chance to come out right, by enumeration."""

    def __init__(self, policy: Path) -> None:
        self.loaded = load_policy(policy)
        self.known: dict[tuple[str, ...], float] = {}

    def __call__(self, prompt: str, said: tuple[str, ...]) -> float:
        if said and said[-1] == ".":
            return float(said.count("a") > said.count("b"))
        if len(said) == LONGEST:
            return 0.0
        key = (prompt, *said)
        if key not in self.known:
            chances = next_words(self.loaded, " ".join(key))
            self.known[key] = sum(p * self(prompt, (*said, word)) for word, p in chances.items())
        return self.known[key]


def prefixes(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The words said up to the end of each step."""
    words = text_of_steps(row["steps"], "|", finished=row["finished"]).split() + ["."] * row["finished"]
    ids, eos_ids = list(range(len(words))), (len(words) - 1,) if row["finished"] else ()
    ends = step_ends(ids, lambda of: " ".join(words[i] for i in of), "|", ended=row["finished"], eos_ids=eos_ids)
    assert len(ends) == len(row["steps"])
    for end in ends:
        yield tuple(words[: end + 1])


def test_the_share_of_right_rollouts_is_the_exact_value_within_its_interval(policy: Path, tmp_path: Path) -> None:
    """Every completion of the world is enumerated; 95 % of the intervals hold the truth, and nearly all do at 4σ."""
    rows, tally = label(policy, tmp_path / "run", rollout={"prompts": len(PROMPTS), "group_size": 16})
    value = Truth(policy)
    inside, beyond, seen = 0, 0, 0
    for row in rows:
        for said, rate, low, high, judged, rolled in zip(
            prefixes(row), row["labels"], row["low"], row["high"], row["judged"], row["rolled"], strict=True
        ):
            truth = value(row["prompt"], said)
            if not rolled:
                assert rate == truth, "an end is what it is"
                continue
            seen += 1
            inside += low <= truth <= high
            beyond += abs(rate - truth) > 4 * math.sqrt(truth * (1 - truth) / judged) + 1e-9
    assert seen >= 10 and beyond == 0 and inside >= 0.85 * seen
    assert tally["rollouts"] == 60 * seen == tally["judged"]


def test_a_policy_that_never_wavers_is_labelled_exactly(policy: Path, tmp_path: Path) -> None:
    """Greedy choice: every rollout of a step is the one completion, so rate and `any` are its outcome."""
    for kind in ("rate", "any"):
        more = {"sampling.temperature": 0.0, "labels.rollouts": 3, "labels.label": kind, "rollout.group_size": 1}
        rows, _ = label(policy, tmp_path / kind, **more)
        samples = [json.loads(line) for line in (tmp_path / kind / "samples.jsonl").read_text().splitlines()]
        outcome = {(s["group_id"], s["index"]): s["scores"]["right"] for s in samples}
        assert rows
        for row in rows:
            group, _, index = row["id"].rpartition("/")
            assert set(row["labels"]) == {outcome[group, int(index)]}


def test_hard_labels_are_the_soft_ones_above_zero(policy: Path, tmp_path: Path) -> None:
    soft, _ = label(policy, tmp_path / "soft", **{"labels.rollouts": 4})
    hard, _ = label(policy, tmp_path / "hard", **{"labels.rollouts": 4, "labels.label": "any"})
    assert [row["steps"] for row in soft] == [row["steps"] for row in hard]
    assert [[float(v > 0) for v in row["labels"]] for row in soft] == [row["labels"] for row in hard]
    assert [row["successes"] for row in soft] == [row["successes"] for row in hard]


def test_rollouts_go_on_from_the_very_ids(policy: Path, tmp_path: Path) -> None:
    """Fault F6: what the task scores begins with what was said, and no more is said than a completion may have."""
    heard: list[Sample] = []

    def listen(prompt: Prompt, sample: Sample) -> bool:
        heard.append(sample)
        return more_a(prompt, sample)

    rows, tally = label(policy, tmp_path / "run", world(listen), **{"labels.rollouts": 5})
    first, rest = heard[: tally["answers"]], heard[tally["answers"] :]
    assert len(rest) == tally["rollouts"] > 0
    for sample in rest:
        group, _, step = sample.group_id.rpartition("/step ")
        start = next(s for s in first if f"{s.group_id}/{s.index}" == group)
        row = next(r for r in rows if r["id"] == group)
        words = len(list(prefixes(row))[int(step)])
        prompt = int(np.argmax(start.policy_mask_T))
        assert np.array_equal(sample.tokens_T[: prompt + words], start.tokens_T[: prompt + words])
        assert np.array_equal(sample.policy_mask_T, np.arange(len(sample.tokens_T)) >= prompt)
        assert np.array_equal(sample.logprobs_T[prompt : prompt + words], start.logprobs_T[prompt : prompt + words])
        assert sample.completion_tokens <= LONGEST and sample.text.split() == sample.text.strip().split()
        said = " ".join(WORDS_OF(policy, sample))
        assert sample.text == said.removesuffix(" .").removesuffix(".")
    assert len({sample.seed for sample in rest}) == len(rest)


def WORDS_OF(policy: Path, sample: Sample) -> list[str]:
    words = {i: word for word, i in load_policy(policy).tokenizer.get_vocab().items()}
    return [words[int(i)] for i in sample.tokens_T[sample.policy_mask_T]]


def test_seeds_decide_and_a_job_goes_on_after_its_last_chunk(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault I1, I5: equal seeds give equal rows; a job that was ended gives the rows of one that was not."""
    monkeypatch.setattr("ropewalk.runtime.jobs.sample.CHUNK_LABELLED", 2)
    whole, tally = label(policy, tmp_path / "whole", **{"labels.rollouts": 3})
    again, _ = label(policy, tmp_path / "again", **{"labels.rollouts": 3})
    other, _ = label(policy, tmp_path / "other", **{"labels.rollouts": 3, "seed": 1})
    assert whole == again != other
    monkeypatch.setattr("ropewalk.runtime.jobs.step_labels.MOST_AT_ONCE", 4)
    assert label(policy, tmp_path / "few at once", **{"labels.rollouts": 3}) == (whole, tally)

    calls = itertools.count()

    def ends(prompt: Prompt, sample: Sample) -> bool:
        if next(calls) == tally["answers"] + tally["rollouts"] - 2:
            raise KeyboardInterrupt
        return more_a(prompt, sample)

    with pytest.raises(Interrupted):
        label(policy, tmp_path / "ended", world(ends), **{"labels.rollouts": 3})
    done = sorted(path.name for path in (tmp_path / "ended" / "parts").iterdir())
    assert 0 < len(done) < 3
    run = train("", resume=tmp_path / "ended", task=world())
    assert rows_of(run) == whole and json.loads((run.folder / "steps.json").read_text()) == tally
    assert (run.folder / "samples.jsonl").read_text() == (tmp_path / "whole" / "samples.jsonl").read_text()
    assert not (run.folder / "parts").exists()


def test_what_has_no_verdict_is_no_label(policy: Path, tmp_path: Path) -> None:
    """Fault G12: a judge that crashed or abstained says nothing; an answer that cannot be read is not right."""

    def unsure(prompt: Prompt, sample: Sample) -> Outcome | bool:
        said = sample.text.split()
        if said.count("a") == 1:
            return Abstain()
        if said.count("a") == 2:
            return Failed("timeout")
        return Failed("wrong_format") if said.count("a") == 3 else more_a(prompt, sample)

    rows, tally = label(policy, tmp_path / "run", world(unsure), **{"labels.rollouts": 20})
    assert tally["left out"]["steps without a judged rollout"] > 0
    assert any(
        judged < 20 for row in rows for judged, rolled in zip(row["judged"], row["rolled"], strict=True) if rolled
    )
    assert all(row["judged"] and all(row["judged"]) for row in rows)

    def nobody(prompt: Prompt, sample: Sample) -> Outcome:
        return Abstain()

    rows, tally = label(policy, tmp_path / "none", world(nobody), **{"labels.rollouts": 2})
    assert rows == [] and tally["steps"] == 0


def test_the_rows_are_what_a_process_reward_model_reads(policy: Path, tmp_path: Path) -> None:
    rows, tally = label(policy, tmp_path / "run", **{"labels.rollouts": 2})
    read, report = labelled_steps(tmp_path / "run" / "steps.jsonl", "|")
    assert [(row.id, list(row.steps), list(row.labels), row.finished) for row in read] == [
        (row["id"], row["steps"], row["labels"], row["finished"]) for row in rows
    ]
    assert report.refused == ()
    assert tally["rows"] == len(rows) and tally["steps"] == sum(len(row["steps"]) for row in rows)


def test_steps_of_episodes_are_refused(policy: Path, tmp_path: Path) -> None:
    def never() -> Environment:
        raise AssertionError("no episode begins")

    with pytest.raises(InputError, match="is played in an environment"):
        label(policy, tmp_path / "run", replace(world(), environment=never))
