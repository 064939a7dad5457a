"""The city task: prompts like the corpus's beginnings, and the truth of what is said."""

from collections import Counter

import pytest

from ropewalk.data.intervals import wilson
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Finish
from ropewalk.records.score import Score
from ropewalk.records.version import sample_seed
from ropewalk.tasks.city.corpus import sentences
from ropewalk.tasks.city.grammar import CITIES, PEOPLE, WORDS
from ropewalk.tasks.city.task import grammatical, truth
from ropewalk.tasks.config import CityTask
from ropewalk.tasks.load import load_task
from tests.tasks.samples import sample

TASK = load_task(CityTask())


@pytest.mark.parametrize(
    ("text", "finish", "score"),
    [
        ("has nice views", "stop", 1),
        ("is rainy", "stop", -1),
        ("has nice views", "length", -3),
        ("has", "stop", -3),
        ("", "stop", -3),
        ("[ austin has nice views", "stop", -3),
        ("has <pad> views", "stop", -3),
    ],
)
def test_the_truth_of_a_completion(text: str, finish: Finish, score: float) -> None:
    prompt = Prompt("p", "[ austin")
    assert truth(prompt, sample(text, finish=finish)) == Score(score)
    assert grammatical(prompt, sample(text, finish=finish)) == (score > -3)


def test_prompts_begin_like_the_corpus() -> None:
    prompts = TASK.split("train")
    assert len(prompts) == 4096
    firsts = Counter(str(p.dialogue).removeprefix("[ ") for p in prompts)
    corpus = Counter(words[0] for words in sentences(20_000, seed=1))
    assert set(firsts) == set(corpus) == {*CITIES, *PEOPLE}
    for word, count in firsts.items():
        share = wilson(count, len(prompts))
        assert share.low - 0.02 < corpus[word] / 20_000 < share.high + 0.02


def test_each_drawn_prompt_has_a_stream_of_samples_of_its_own() -> None:
    prompts = [*TASK.split("train"), *TASK.split("heldout")]
    assert len({p.id for p in prompts}) == len(prompts) == 4096 + 512
    assert len({sample_seed(0, 0, p.id, 0) for p in prompts}) == len(prompts)


def test_the_draw_is_the_recipe_s() -> None:
    small = load_task(CityTask(prompts=8, heldout_prompts=3))
    assert (len(small.split("train")), len(small.split("heldout"))) == (8, 3)
    assert small.split("train") == TASK.split("train")[:8]
    other = load_task(CityTask(prompts=4096, seed=1))
    assert [p.dialogue for p in other.split("train")] != [p.dialogue for p in TASK.split("train")]


def test_what_a_policy_may_never_say_is_banned() -> None:
    vocabulary = TASK.vocabulary
    assert vocabulary is not None
    assert vocabulary.words == WORDS
    assert (vocabulary.eos, vocabulary.pad, vocabulary.banned) == (".", "<pad>", ("<pad>", "["))
    assert TASK.max_new_tokens == 15
    assert TASK.main_scorer == "truth"
