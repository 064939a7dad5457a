"""The city task: a prompt is "[" and a first word; the policy finishes the sentence; the truth is known.

Prompts are drawn with the corpus's frequencies of first words. Each draw has an id of its own, so that two
prompts of the same text have different streams of samples.
"""

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.tasks.city.grammar import END, MARK, MAX_TOKENS, PAD, UNGRAMMATICAL, WORDS, Chance, first_word, true_score
from ropewalk.tasks.config import CityTask
from ropewalk.tasks.task import HELDOUT, TRAIN, AtOnce, Task, Vocabulary

TRUTH = "truth"
MAX_NEW_TOKENS = MAX_TOKENS - 1
"""A completion with its end token: the prompt already holds the first word."""

VOCABULARY = Vocabulary(words=WORDS, eos=END, pad=PAD, banned=(PAD, MARK))


def city_task(config: CityTask) -> Task:
    """The laboratory's task. The truth is #good − #bad of a finished sentence, else −3."""
    return Task(
        name="city",
        prompts={
            TRAIN: city_prompts(config.prompts, config.seed, TRAIN),
            HELDOUT: city_prompts(config.heldout_prompts, config.seed, HELDOUT),
        },
        scorers={TRUTH: AtOnce(truth), "grammatical": AtOnce(grammatical)},
        vocabulary=VOCABULARY,
        max_new_tokens=MAX_NEW_TOKENS,
    )


def city_prompts(count: int, seed: int, split: str) -> list[Prompt]:
    """Prompts `[ word` with ids `city-<split>-<seed>-<number>`."""
    chance = Chance((seed, *split.encode()))
    return [
        Prompt(id=f"city-{split}-{seed}-{number}", dialogue=f"{MARK} {first_word(chance)}") for number in range(count)
    ]


def truth(prompt: Prompt, sample: Sample) -> Score:
    """The true score of the sentence that prompt and completion make."""
    return Score(true_score(sentence_of(prompt, sample), sample.finish == "stop"))


def grammatical(prompt: Prompt, sample: Sample) -> bool:
    """Whether the sentence is finished and in the language."""
    return truth(prompt, sample).value > UNGRAMMATICAL


def sentence_of(prompt: Prompt, sample: Sample) -> list[str]:
    """The words of prompt and completion without the mark; a finished one ends with the end word."""
    assert isinstance(prompt.dialogue, str), "city prompts are plain text"
    words = [*prompt.dialogue.split()[1:], *sample.text.split()]
    return [*words, END] if sample.finish == "stop" else words
