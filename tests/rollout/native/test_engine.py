"""The native engine end to end on both tiny architectures."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import sample_of
from ropewalk.rollout.native.engine import NativeEngine
from ropewalk.rollout.probe import trainer_logprobs
from tests.fakes import ARCHITECTURES, byte_tokenizer, tiny_gpt2, tiny_llama, toy_bpe
from tests.rollout.helpers import (
    assert_agree,
    crowd,
    ends_often,
    engine_of,
    group,
    run,
    same_completions,
    settings,
    version_of,
)

MAKERS = pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
Maker = Callable[..., Network]


# --- what a sample is does not depend on its company ------------------------------------------------


@MAKERS
def test_samples_do_not_depend_on_slots_or_order(make: Maker) -> None:
    """Fault B6: a token may differ only where its random number is within 1e-5 of a boundary."""
    network = make()
    asked = crowd(ends_often())
    whole = run(engine_of(network), asked)
    assert len({len(c.token_ids) for c in whole.values()}) > 4
    order = np.random.default_rng(5).permutation(len(asked))
    for slots in (1, 3, 64):
        other = run(engine_of(network, slots=slots), [asked[i] for i in order])
        assert other.keys() == whole.keys()
        for key, completion in whole.items():
            assert_agree(network, completion, other[key])


@MAKERS
def test_a_small_cache_budget_queues_and_changes_nothing(make: Maker) -> None:
    network = make()
    asked = crowd(ends_often())
    whole = run(engine_of(network), asked)
    tight = engine_of(network, cache_tokens=100, prefill_tokens=20)
    tight.submit(asked)
    done = {}
    stream = tight.stream()
    for completion in stream:
        done[completion.request.group_id, completion.request.index] = completion
        assert tight.cache_bytes <= 100 * 2 * 2 * 32 * 4
    for key, completion in whole.items():
        assert_agree(network, completion, done[key])


def test_two_replicas_say_what_one_says() -> None:
    """Fault B6: 8 samples of one prompt, split 4 + 4."""
    network = tiny_llama()
    asked = group("p", [72, 105], 8, settings())
    whole = run(engine_of(network), asked)
    halves = run(engine_of(network), asked[:4]) | run(engine_of(network.copy()), asked[4:])
    for key, completion in whole.items():
        assert_agree(network, completion, halves[key])
    assert len({tuple(c.token_ids) for c in whole.values()}) == 8


def test_the_run_seed_changes_the_samples() -> None:
    """Fault B6."""
    engine = engine_of(tiny_llama())
    first = run(engine, group("p", [72, 105], 8, settings(), run_seed=1))
    second = run(engine, group("p", [72, 105], 8, settings(), run_seed=2))
    again = run(engine, group("p", [72, 105], 8, settings(), run_seed=1))
    assert {tuple(c.token_ids) for c in first.values()}.isdisjoint({tuple(c.token_ids) for c in second.values()})
    assert same_completions(first, again)


def test_samples_longer_than_a_block_of_random_numbers() -> None:
    network = tiny_llama(max_positions=400, std=0.05)
    asked = group("p", [1, 2, 3], 2, settings(max_new_tokens=300, eos_ids=()))
    done = run(engine_of(network), asked)
    alone = run(engine_of(network, slots=1), asked)
    for key, completion in done.items():
        assert completion.finish == "length" and len(completion.token_ids) == 300
        assert_agree(network, completion, alone[key])
        assert np.abs(trainer_logprobs(network, completion) - completion.logprobs).max() < 1e-5
        assert len(set(completion.token_ids[:256].tolist())) > 50


def test_settings_of_different_requests_do_not_mix() -> None:
    network = tiny_llama()
    cold, hot = settings(temperature=0.5), settings(temperature=1.3, banned_ids=(*range(100, 257), *range(259, 264)))
    greedy = settings(temperature=0.0, max_new_tokens=5)
    asked = group("a", [1, 2], 3, cold) + group("b", [1, 2], 3, hot) + group("c", [9], 2, greedy)
    mixed = run(engine_of(network), asked)
    for part in (asked[:3], asked[3:6], asked[6:]):
        for key, completion in run(engine_of(network), part).items():
            assert_agree(network, completion, mixed[key])
    assert all((c.token_ids < 100).all() or c.finish == "stop" for k, c in mixed.items() if k[0] == "b")
    assert mixed["c", 0].token_ids.tolist() == mixed["c", 1].token_ids.tolist()


# --- ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eos_ids", [(9,), (2, 9), (9, 2, 77)])
def test_every_end_token_ends_and_is_trained_on(eos_ids: tuple[int, ...]) -> None:
    """Fault A7: finished flag, mask and text together."""
    engine = engine_of(tiny_llama(std=0.05))
    allowed = {65, *eos_ids}
    sampling = settings(eos_ids=eos_ids, banned_ids=tuple(set(range(264)) - allowed), max_new_tokens=6)
    samples = [sample_of(c) for c in run(engine, group("p", [1], 40, sampling)).values()]
    for sample in samples:
        said = sample.tokens_T[sample.policy_mask_T].tolist()
        ended = said[-1] in eos_ids
        assert sample.finish == ("stop" if ended else "length")
        assert not set(said[:-1]) & set(eos_ids)
        assert sample.text == "A" * (len(said) - ended)
        assert len(said) == 6 or ended
    assert {s.tokens_T[-1] for s in samples if s.finish == "stop"} == set(eos_ids)


def test_stop_strings_cut_the_text_and_keep_the_ids() -> None:
    """Fault A7: the string spans several tokens; every sampled id stays, in ids, mask and log-probs alike."""
    engine = engine_of(tiny_llama(std=0.05))
    banned = tuple(set(range(264)) - {97, 98})
    sampling = settings(eos_ids=(), banned_ids=banned, max_new_tokens=30, stop_strings=("bbb", "aab"))
    for completion in run(engine, group("p", [1], 20, sampling)).values():
        whole = "".join("ab"[i - 97] for i in completion.token_ids)
        assert completion.finish == "stop"
        assert whole.endswith(("bbb", "aab"))
        assert not any(stop in whole[:-1] for stop in ("bbb", "aab"))
        assert completion.text == whole[:-3]
        assert len(completion.logprobs) == len(completion.token_ids) == len(completion.versions)


def test_ids_are_kept_as_sampled_where_text_would_give_others() -> None:
    """Fault F6: `a` `b` apart although the vocabulary has `ab`, and halves of characters."""
    tokenizer = toy_bpe()
    engine = engine_of(tiny_llama(std=0.05), tokenizer=tokenizer)
    apart = settings(eos_ids=(), banned_ids=tuple(set(range(264)) - {97, 98}))
    broken = settings(eos_ids=(), banned_ids=tuple(set(range(264)) - {0xC3, 0xA4, 97}))
    different = 0
    for completion in run(engine, group("p", [1], 8, apart) + group("q", [1], 8, broken)).values():
        sample = sample_of(completion)
        assert sample.tokens_T[sample.policy_mask_T].tolist() == completion.token_ids.tolist()
        assert (
            sample.policy_mask_T.sum() == 12 == np.isfinite(sample.logprobs_T).sum() == (sample.versions_T >= 0).sum()
        )
        different += tokenizer.encode(completion.text, add_special_tokens=False) != completion.token_ids.tolist()
    assert different >= 12


def test_completions_come_as_they_end() -> None:
    engine = engine_of(tiny_llama(std=0.05))
    asked = [
        replace(r, sampling=settings(eos_ids=(), max_new_tokens=n))
        for n, r in zip((9, 2, 5), group("p", [1], 3, settings()), strict=True)
    ]
    engine.submit(asked)
    assert [c.request.index for c in engine.stream()] == [1, 2, 0]


def test_what_does_not_fit_the_positions_is_refused() -> None:
    engine = engine_of(tiny_gpt2(max_positions=16))
    with pytest.raises(InputError, match=r"'p' has 16 tokens, the model 16 positions"):
        engine.submit(group("p", [1] * 16, 1, settings()))
    with pytest.raises(InputError, match=r"at most 6"):
        engine.submit(group("p", [1] * 10, 1, settings(max_new_tokens=7)))
    done = run(engine, group("p", [1] * 10, 1, settings(max_new_tokens=6, eos_ids=())))
    assert len(done["p", 0].token_ids) == 6


@pytest.mark.parametrize("stop", [(), ("abäb",)])
def test_a_followed_completion_joins_to_its_text(stop: tuple[str, ...]) -> None:
    """Fault F6: no piece holds half a character; beginnings of a stop string are held back."""
    engine = engine_of(tiny_llama(std=0.05), slots=2)
    banned = tuple(set(range(264)) - {97, 98, 0xC3, 0xA4})
    sampling = settings(eos_ids=(), banned_ids=banned, max_new_tokens=90, stop_strings=stop)
    engine.submit(group("busy", [1], 3, settings()))
    whole = 0
    for request in group("p", [1], 6, sampling):
        stream = engine.follow(request)
        pieces = []
        while True:
            try:
                pieces.append(next(stream))
            except StopIteration as end:
                completion = end.value
                break
        assert "".join(pieces) == completion.text
        assert completion.request is request
        assert len(pieces) > 5
        whole += "ä" in completion.text
    assert whole
    assert len(list(engine.stream())) == 3


def test_bfloat16_stays_near_the_trainer() -> None:
    """Equality cannot be asked of it; a gross fault would show."""
    network = tiny_llama().to(torch.bfloat16)
    done = run(engine_of(network, slots=4), crowd(ends_often()))
    differences = np.concatenate([trainer_logprobs(network, c) - c.logprobs for c in done.values()])
    assert np.abs(differences).mean() < 0.05
    assert np.abs(differences).max() < 1.0


# --- nothing else is touched ------------------------------------------------------------------------


def _state(network: Network) -> tuple[object, ...]:
    modes = tuple(module.training for module in network.modules())
    gradients = tuple((p.requires_grad, p.grad is None) for p in network.parameters())
    numpy_state = str(np.random.get_state())
    return network.config.to_json_string(), modes, gradients, torch.get_rng_state().tolist(), numpy_state


class _Fails:
    """A tokenizer that cannot decode the third time."""

    all_special_ids = (256, 257, 258, 259)

    def __init__(self) -> None:
        self.calls = 0

    def decode(self, ids: list[int], **_: object) -> str:
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("third text")
        return "text"


@MAKERS
def test_model_config_mode_and_random_state_stay(make: Maker) -> None:
    """Fault H6: two calls with different prompts, then a training forward; also after an exception in the middle."""
    network = make()
    before = _state(network)
    engine = engine_of(network, slots=4)
    for seed in (1, 2):
        asked = crowd(ends_often(), prompts=4, run_seed=seed)
        done = run(engine, asked)
        assert [done[r.group_id, r.index].request for r in asked] == asked
    assert _state(network) == before
    failing = NativeEngine(network, _Fails())  # type: ignore[arg-type]
    failing.publish(network, version_of(network))
    asked = crowd(ends_often(), prompts=4)
    with pytest.raises(RuntimeError, match="third text"):
        run(failing, asked)
    assert _state(network) == before
    left = list(failing.stream())
    assert len(left) <= len(asked) and {c.finish for c in left} <= {"aborted", "stop"}
    assert run(failing, asked).keys() == {(r.group_id, r.index) for r in asked}
    batch = token_batch(PackedBatch(np.arange(9), np.array([[0, 4, -1], [4, 9, -1]])))
    network.logits(network.hidden(batch)).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_weights_that_have_diverged_stop_the_run_and_leave_the_engine_usable() -> None:
    network = tiny_llama()
    healthy = network.copy()
    with torch.no_grad():
        network.lm_head.weight.fill_(float("nan"))  # type: ignore[union-attr]
    engine = engine_of(network)
    with pytest.raises(RunStopped, match="not finite"):
        run(engine, group("p", [1], 2, settings()))
    assert [c.finish for c in engine.stream()] == ["aborted"] * 2
    engine.publish(healthy, version_of(healthy, 1))
    assert len(run(engine, group("p", [1], 2, settings()))) == 2


def test_the_cache_is_given_back_when_idle() -> None:
    engine = engine_of(tiny_llama())
    engine.submit(crowd(settings(eos_ids=())))
    engine.step()
    assert engine.cache_bytes > 0
    list(engine.stream())
    assert engine.cache_bytes == 0


def test_a_checkpoints_generation_settings_are_ignored(tmp_path: "pytest.TempPathFactory") -> None:
    """Fault Q1: near-greedy stored settings; 200 samples of a flat distribution, log-probs as the trainer's."""
    from ropewalk.models.load import load_policy

    _save_with_greedy_settings(tmp_path)
    loaded = load_policy(str(tmp_path))
    engine = engine_of(loaded.network, tokenizer=loaded.tokenizer)
    done = run(engine, group("p", [1, 2], 200, settings(eos_ids=(257,), max_new_tokens=4)))
    assert len({tuple(c.token_ids) for c in done.values()}) > 190
    worst = max(np.abs(trainer_logprobs(loaded.network, c) - c.logprobs).max() for c in done.values())
    assert worst < 1e-5
    assert all(c.request.sampling.temperature == 1.0 for c in done.values())


def _save_with_greedy_settings(folder: object) -> None:
    from transformers import GenerationConfig, LlamaForCausalLM

    network = tiny_llama(std=0.02)
    config = network.config
    config._attn_implementation = "sdpa"
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config)
    model.model.load_state_dict(network.body.state_dict())
    model.generation_config = GenerationConfig(
        do_sample=True, top_k=1, temperature=0.01, repetition_penalty=1.5, eos_token_id=257, pad_token_id=256
    )
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
