"""Data and languages made ready: what a model would misread is refused before it is loaded."""

import pytest

from ropewalk.models.config import FreshModel
from ropewalk.models.language import Language, word_language
from ropewalk.records.errors import InputError
from ropewalk.runtime.prepare import check_same_words

WORDS = ("<pad>", "[", "sunny", "rain", ".")


def language(*words: str) -> Language:
    return word_language(FreshModel(), words, ".", "<pad>")


def test_models_of_one_vocabulary_go_together() -> None:
    check_same_words("reward", language(*WORDS), language(*WORDS))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*WORDS, "wind"), "the reward model has 6 words and the policy 5"),
        (("<pad>", "[", "rain", "sunny", "."), "'sunny' is id 2 to the policy, 3 to it"),
        (("<pad>", "[", "sunny", "snow", "."), "'rain' is id 3 to the policy, no id to it"),
    ],
)
def test_a_model_that_would_read_other_words_is_refused(words: tuple[str, ...], says: str) -> None:
    """Equally many words are not the same words: its scores would be numbers about another text."""
    with pytest.raises(InputError, match=says):
        check_same_words("reward", language(*words), language(*WORDS))
