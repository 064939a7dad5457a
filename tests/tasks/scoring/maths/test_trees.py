"""Random expressions: two spellings are equal, a changed one is different, and whole numbers agree with an oracle."""

from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.maths.policy import Exact, Policy
from ropewalk.tasks.scoring.maths.scorer import compare
from tests.tasks.scoring.maths.trees import Tree, algebra, arithmetic, everything, latex, plain, value

EXACT = Policy(tolerance=Exact())


@given(arithmetic)
def test_arithmetic_has_the_value_of_its_oracle(tree: Tree) -> None:
    expected = value(tree)
    for text in (latex(tree), plain(tree)):
        if expected is None:
            assert compare(text, text) == "unparsed"
        else:
            assert compare(text, str(expected)) == "equal"
            assert compare(text, str(expected + Fraction(1, 7))) == "different"


@given(algebra)
def test_two_spellings_of_an_expression_are_equal(tree: Tree) -> None:
    one, other = latex(tree), plain(tree)
    assert compare(one, other, EXACT) == compare(other, one, EXACT) == compare(one, one, EXACT) != "different"


@given(algebra, st.sampled_from(["+1", "-1/1000000007", "+x^7y", "+\\sqrt{61}", "+\\pi^9"]))
def test_an_expression_to_which_something_is_added_is_different(tree: Tree, more: str) -> None:
    assume(compare(latex(tree), latex(tree)) == "equal")
    assert compare(f"({latex(tree)}){more}", plain(tree), EXACT) == "different"


@given(everything, st.sampled_from(["+1", "-\\frac{1}{1000003}", "+\\sin(z)"]))
def test_functions_are_compared_by_value(tree: Tree, more: str) -> None:
    verdict = compare(latex(tree), plain(tree), EXACT)
    assert verdict != "different"
    if verdict == "equal":
        assert compare(f"({latex(tree)}){more}", plain(tree), EXACT) != "equal"


@given(algebra, algebra)
def test_comparison_is_symmetric(one: Tree, other: Tree) -> None:
    assert compare(latex(one), plain(other)) == compare(plain(other), latex(one))


@given(st.text(max_size=60), st.text(alphabet="0123456789xyie+-*/^(){}[],.=<>\\|!%$ π√∪±frac", max_size=30))
def test_any_text_is_read_without_a_crash(text: str, near: str) -> None:
    for one in (text, near):
        assert compare(one, one) != "different"
        assert compare(one, near) == compare(near, one)


@given(st.lists(algebra, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_sets_have_no_order_and_tuples_have_one(trees: list[Tree], random: object) -> None:
    """Fault G2."""
    members = [latex(tree) for tree in trees]
    assume(all(compare(member, member) == "equal" for member in members))
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare("\\{" + ", ".join(members) + "\\}", "{" + ", ".join(shuffled) + "}") == "equal"
    same_order = all(compare(a, b) == "equal" for a, b in zip(members, shuffled, strict=True))
    tuples = ("(" + ", ".join(part) + ")" for part in (members, shuffled))
    assert compare(*tuples) == ("equal" if same_order else "different")
