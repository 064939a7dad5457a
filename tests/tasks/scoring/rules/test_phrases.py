import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.rules.phrases import Pattern, Phrases, pattern_fault, search
from tests.seconds import processor_seconds
from tests.tasks.scoring.rules.asked import asked, scored

WORDS = st.lists(st.sampled_from(["ab", "b", "Ba", "c", "CB"]), min_size=1, max_size=3)


@given(st.text(alphabet="abcABC ", max_size=12), WORDS, WORDS)
def test_all_required_and_no_forbidden_phrase(text: str, required: list[str], forbidden: list[str]) -> None:
    low = text.casefold()
    right = all(w.casefold() in low for w in required) and not any(w.casefold() in low for w in forbidden)
    assert scored(Phrases(tuple(required), tuple(forbidden)), text) == right
    assert scored(Phrases(), text, required=required, forbidden=forbidden) == right
    assert scored(Phrases(tuple(required)), text, forbidden=forbidden) == right, "a row's own come on top"
    exact = all(w in text for w in required) and not any(w in text for w in forbidden)
    assert scored(Phrases(tuple(required), tuple(forbidden), case=True), text) == exact


@pytest.mark.parametrize("given_", ["x", [""], [3], {"a": 1}])
def test_broken_phrases_of_a_row(given_: object) -> None:
    """Fault G10."""
    assert "not a list of phrases" in str(Phrases().info_fault(asked(required=given_)))
    assert "no phrase" in str(Phrases().info_fault(asked()))


@given(
    st.lists(st.sampled_from(["a", "b", "a*", "(a|b)", "[ab]?", ".", "b+", r"\d"]), min_size=1, max_size=4),
    st.text(alphabet="ab1\n", max_size=8),
)
def test_a_pattern_matches_as_python_says(parts: list[str], text: str) -> None:
    pattern = "".join(parts)
    assert scored(Pattern(pattern), text) == bool(re.search(pattern, text))
    assert scored(Pattern(match="whole"), text, pattern=pattern) == bool(re.fullmatch(pattern, text.strip()))


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?=a)b", r"(?<!a)b", "(", "a{2000}", "*", "", None, 7, "a" * 3000])
def test_what_no_linear_engine_can_match_is_refused(pattern: object) -> None:
    assert pattern_fault(pattern) is not None  # type: ignore[arg-type]
    assert Pattern().info_fault(asked(pattern=pattern)) is not None
    if isinstance(pattern, str):
        with pytest.raises(InputError, match="the regular expression"):
            Pattern(pattern)


def test_patterns_that_explode_elsewhere_take_no_time() -> None:
    text = "a" * 100_000 + "!"
    for pattern in ("(a*)*b", "(a|a)*b", "(a+)+$", "(.*)(.*)(.*)(.*)(.*)=x"):
        assert not search(pattern, text)
        assert processor_seconds(lambda pattern=pattern: search(pattern, text)) < 5  # type: ignore[misc]


def test_half_a_surrogate_pair_is_no_crash() -> None:
    assert search("b", "\ud800b") and not search("a", "\ud800b")
