"""The program is the last fenced block of a fitting tag; half a block is no program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.code.extract import blocks, last_block

TABLE = [
    ("no code at all", None),
    ("```python\nx = 1\n```", "x = 1"),
    ("```\nx = 1\n```", "x = 1"),
    ("```py\nx = 1\n```\nand\n```Python3 title=a\nx = 2\n```\nbye", "x = 2"),
    ("```python\nx = 1\n```\n```json\n{}\n```", "x = 1"),
    ("```python\nx = 1\n```\n```\noutput\n```", "output"),
    ("~~~python\nx = '```'\n~~~", "x = '```'"),
    ("````python\n```\nx = 1\n```\n````", "```\nx = 1\n```"),
    ("  ```python\n  if x:\n    y\n  ```", "if x:\n  y"),
    ("```python\nx = 1", None),
    ("```python\nx = 1\n```\nthen\n```python\nx = 2", None),
    ("```python\n\n```", None),
    ("```python\r\nx = 1\r\ny = 2\r\n```\r\n", "x = 1\ny = 2"),
    ("inline ```x = 1``` code", None),
    ("```x = 1``` code", None),
    ("```bash\nls\n```", None),
    ("```python\nx = 1\n``` trailing\ny\n```", "x = 1\n``` trailing\ny"),
]


@pytest.mark.parametrize(("text", "code"), TABLE)
def test_the_last_fitting_block_is_the_program(text: str, code: str | None) -> None:
    assert last_block(text) == code


def test_a_stop_string_may_have_taken_the_closing_fence() -> None:
    assert last_block("```python\nx = 1\n", open_ended=True) == "x = 1"


def test_other_languages_have_other_tags() -> None:
    assert last_block("```python\nx\n```\n```sql\nselect 1\n```", ("sql",)) == "select 1"


@given(
    st.text(alphabet="`~ \npyx=1", max_size=80),
    st.text(alphabet=st.characters(exclude_characters="`~\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1),
)
def test_text_before_a_block_does_not_change_it_and_text_after_it_neither(before: str, code: str) -> None:
    """What is before may leave a block open; then a second fence closes it, so an empty line and one more block win."""
    lines = "\n".join(code.splitlines())
    text = f"~~~~~~~~~~python\n{code}\n~~~~~~~~~~"
    assert last_block(text) == (lines if lines.strip() else None)
    assert last_block(f"{text}\nplain words") == last_block(text)
    assert all(block.code.count("\n") <= before.count("\n") for block in blocks(before))
