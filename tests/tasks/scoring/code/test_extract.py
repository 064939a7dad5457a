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
    assert last_block("```python\nx = 1\n", open_ended=True) == "x = 1\n"


def test_other_languages_have_other_tags() -> None:
    assert last_block("```python\nx\n```\n```sql\nselect 1\n```", ("sql",)) == "select 1"


@given(st.text(alphabet=st.characters(exclude_characters="`~\r"), min_size=1))
def test_every_letter_of_a_block_is_kept_and_words_after_it_change_nothing(code: str) -> None:
    text = f"~~~python\n{code}\n~~~"
    assert last_block(text) == (code if code.strip() else None)
    assert last_block(f"{text}\nplain words") == last_block(text)


@given(st.text(alphabet="`~ \npyx=1", max_size=80))
def test_blocks_are_parts_of_the_text(text: str) -> None:
    found = blocks(text)
    assert sum(block.code.count("\n") + 1 for block in found) <= text.count("\n") + 1
    assert all(block.closed for block in found[:-1])
