"""The small real model is whole: its tokenizer splits digits, and a half-made folder is refused."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from scripts import smollm2 as script


def test_a_half_made_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert script.main([str(tmp_path)]) == 1
    assert "remove it first" in capsys.readouterr().out


def test_a_whole_folder_is_left_alone(tmp_path: Path) -> None:
    for name in script.NEEDED:
        (tmp_path / name).write_text("as it was")
    assert script.main([str(tmp_path)]) == 0
    assert {path.read_text() for path in tmp_path.iterdir()} == {"as it was"}


@pytest.mark.real
def test_digits_are_tokens_of_their_own(smollm2: Path) -> None:
    tokenizer = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    assert tokenizer.encode("1234").tokens == ["1", "2", "3", "4"]
    assert tokenizer.token_to_id("<|im_end|>") == 2
