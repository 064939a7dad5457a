"""Retrieval finds what the formula says, the same everywhere, and tells of files that are no text."""

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.tasks.environments.protocol import ToolCall
from ropewalk.tasks.environments.retrieval import MAX_BYTES, PASSAGE_CHARACTERS, Documents, search_tool, words
from ropewalk.tasks.environments.tools import Toolbox

TEXTS = {
    "ropes.txt": "Ropes are made of hemp.\n\nA rope walk is long.",
    "sub/ships.md": "Ships need ropes and tar and sails, and ropes again.",
    "数.txt": "船需要绳子。",
    "odd/é.txt": "Das Seil ist lang. The RÔPE!",
}


def folder(place: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    return place


def scores(passages: list[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """BM25 with Lucene's idf, ln(1 + (N - n + ½) / (n + ½)), word for word."""
    bags = [Counter(words(passage)) for passage in passages]
    mean = sum(bag.total() for bag in bags) / len(bags)
    found = []
    for bag in bags:
        total = 0.0
        for word in dict.fromkeys(words(query)):
            holding = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - holding + 0.5) / (holding + 0.5))
            total += idf * bag[word] / (bag[word] + k1 * (1 - b + b * bag.total() / mean))
        found.append(total)
    return found


@pytest.mark.parametrize(
    "query", ["ropes", "rope walk", "ropes and tar", "船", "seil", "rôpe", "hemp ships"], ids=range(7)
)
def test_passages_are_ranked_by_the_formula(tmp_path: Path, query: str) -> None:
    documents = Documents(folder(tmp_path, TEXTS))
    expected = scores([passage.text for passage in documents.passages], query)
    order = sorted((n for n, score in enumerate(expected) if score > 0), key=lambda n: (-round(expected[n], 6), n))
    found = documents.search(query, 10)
    assert [passage for passage, _ in found] == [documents.passages[n] for n in order]
    # bm25s leaves out a factor that is the same for all: only the order and the ratios are the formula's.
    ratios = [score / expected[n] for (_, score), n in zip(found, order, strict=True)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-4)


def test_the_tool_shows_documents_with_their_names_or_says_that_nothing_is_found(tmp_path: Path) -> None:
    box = Toolbox([search_tool(Documents(folder(tmp_path, TEXTS)))])
    said = box.answer(ToolCall("search", {"query": "tar", "count": 1}))
    assert said.text == f"[1] sub/ships.md\n{TEXTS['sub/ships.md']}"
    assert "Nothing is found" in box.answer(ToolCall("search", {"query": "zebra"})).text
    assert "Nothing is found" in box.answer(ToolCall("search", {"query": "?!"})).text
    for bad in ({"query": ""}, {"query": "a", "count": 0}, {"query": "a", "count": 99}, {}):
        assert box.answer(ToolCall("search", bad)).fault
    assert not box.answer(ToolCall("search", {"query": "x" * 1_000_000})).fault


def test_files_that_are_no_text_are_left_out_and_named(tmp_path: Path) -> None:
    folder(tmp_path, {"good.txt": "ropes", ".hidden/x.txt": "ropes", "empty.txt": ""})
    (tmp_path / "image.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    (tmp_path / "large.txt").write_text("ropes " * (MAX_BYTES // 5))
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    documents = Documents(tmp_path)
    assert [passage.document for passage in documents.passages] == ["good.txt"]
    assert dict(documents.left_out).keys() == {"image.bin", "nul.txt", "large.txt"}


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder of documents"):
        Documents(tmp_path / "none")
    with pytest.raises(InputError, match="no text files"):
        Documents(tmp_path)
    (tmp_path / "image.bin").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"image\.bin is no text"):
        Documents(tmp_path)


@given(
    text=st.text(alphabet=st.sampled_from([*"ab é数\n"]), min_size=1, max_size=4 * PASSAGE_CHARACTERS).map(
        lambda text: f"a{text}"
    )
)
@settings(max_examples=25, deadline=None)
def test_cutting_loses_no_word_and_no_passage_is_long(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    place = tmp_path_factory.mktemp("cut")
    (place / "a.txt").write_text(text, encoding="utf-8", newline="")
    documents = Documents(place)
    assert all(0 < len(passage.text) <= PASSAGE_CHARACTERS + 2 for passage in documents.passages)
    together = "".join(passage.text for passage in documents.passages)
    assert "".join(together.split()) == "".join(text.split())
