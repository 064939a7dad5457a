from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import ConfigError, load
from ropewalk.data.columns import renamed
from ropewalk.data.config import Columns, DialogueFile, RowFile
from ropewalk.data.forms import RefusedRow
from ropewalk.data.read import Limit, demonstrations, documents, labelled_steps, pairs, prompts_rows
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.runtime.config import Documents
from tests.data.test_read import write

TALK = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]


def source(tmp_path: Path, rows: list[Any], *, name: str = "x.jsonl", **settings: Any) -> RowFile:
    columns = {key: settings.pop(key) for key in list(settings) if key in Columns.model_fields}
    return RowFile(path=str(write(tmp_path / name, rows)), columns=Columns(**columns), **settings)


def test_columns_give_what_the_usual_names_give(tmp_path: Path) -> None:
    usual = [{"prompt": "q", "chosen": "a", "rejected": "b", "gold": 7, "completion": "c", "id": "i", "info": {"k": 1}}]
    other = [{"Frage": "q", "gut": "a", "schlecht": "b", "Antwort": 7, "Lösung": "c", "Name": "i", "Klasse": 1}]
    named = source(
        tmp_path,
        other,
        prompt="Frage",
        chosen="gut",
        rejected="schlecht",
        answer="Antwort",
        solution="Lösung",
        id="Name",
        info={"k": "Klasse"},
    )
    plain = write(tmp_path / "usual.jsonl", usual)
    for read in (pairs, demonstrations, prompts_rows):
        assert read(named)[0] == read(plain)[0]
    assert (
        documents(source(tmp_path, [{"t": "x"}], text="t"))[0]
        == documents(write(tmp_path / "d.jsonl", [{"text": "x"}]))[0]
    )


def test_once_a_column_is_named_no_other_is_looked_at(tmp_path: Path) -> None:
    (prompt,), _ = prompts_rows(source(tmp_path, [{"prompt": "no", "q": "yes", "gold": 3, "messages": []}], prompt="q"))
    assert (prompt.dialogue, prompt.gold) == ("yes", None)


@pytest.mark.parametrize(
    "shape",
    [
        TALK,
        [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}],
        '[{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]',
        "\n\nHuman: u\n\nAssistant: a",
        "Human: u\n\nAssistant: a",
    ],
    ids=["messages", "from-value", "json-text", "dialogue", "dialogue-bare"],
)
def test_conversations_of_every_shape_mean_the_same(tmp_path: Path, shape: Any) -> None:
    (one,), _ = demonstrations(source(tmp_path, [{"talk": shape, "sys": "s"}], messages="talk", system="sys"))
    assert one.dialogue == (Message("system", "s"), Message("user", "u")) and one.completion == "a"
    (same,), _ = demonstrations(write(tmp_path / "y.jsonl", [{"messages": shape, "system": "s"}]))
    assert same == one


def test_a_system_text_goes_before(tmp_path: Path) -> None:
    rows = [
        {"prompt": "q", "system": "s"},
        {"prompt": "q2", "system": " "},
        {"prompt": [{"role": "system", "content": "t"}, *TALK[:1]], "system": "s"},
        {"question": "q3", "answer": "#### 1", "system": "s"},
        {"prompt": "q4", "system": 7},
    ]
    found, report = prompts_rows(write(tmp_path / "x.jsonl", rows))
    assert [p.dialogue for p in found] == [
        (Message("system", "s"), Message("user", "q")),
        "q2",
        (Message("system", "s"), Message("user", "q3")),
    ]
    assert [reason for _, reason in report.refused] == [
        "it has a system text and a system message",
        "system is not text",
    ]


def test_gold_answers_stand_after_the_mark(tmp_path: Path) -> None:
    rows = [{"q": "a", "a": "so\n#### 1 #### 42 "}, {"q": "b", "a": "42"}, {"q": "c", "a": 42}]
    found, _ = prompts_rows(source(tmp_path, rows, prompt="q", answer="a"))
    assert [p.gold for p in found] == ["42", "42", 42]


def test_a_missing_column_names_the_nearest(tmp_path: Path) -> None:
    rows = source(tmp_path, [{"question": "a"}, {"questoin": "b"}, {"x": "c"}], prompt="question")
    found, report = prompts_rows(rows)
    assert len(found) == 1 and [reason for _, reason in report.refused] == [
        "it has no column 'question' (did you mean 'questoin'?)",
        "it has no column 'question' (its columns: x)",
    ]
    with pytest.raises(InputError, match=r"has no usable row: .* it has no column 'answr' \(did you mean 'answer'"):
        prompts_rows(source(tmp_path, [{"answer": "a"}], prompt="answr"))


def test_cells_become_json() -> None:
    columns = Columns(info={"v": "v"})
    cells: list[tuple[Any, Any]] = [
        (date(2024, 2, 29), "2024-02-29"),
        (datetime(2024, 2, 29, 1, tzinfo=UTC), "2024-02-29T01:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        ((1, None, {"a": True}), [1, None, {"a": True}]),
    ]
    for cell, shown in cells:
        assert renamed({"v": cell}, columns)["info"] == {"v": shown}
    for wrong in (b"x", float("nan"), float("inf"), {1, 2}):
        with pytest.raises(RefusedRow, match="its v is"):
            renamed({"v": wrong}, columns)


def test_what_says_too_much_is_refused(tmp_path: Path) -> None:
    rows = [{"prompt": "q" * n, "chosen": "a" * m, "rejected": "b"} for n, m in ((5, 5), (5, 6), (10, 1), (10, 2))]
    found, report = pairs(source(tmp_path, rows, max_characters=10))
    assert [len(p.dialogue) + len(p.chosen) for p in found] == [10] and len(report.refused) == 3
    assert {reason for _, reason in report.refused} == {"it says more than 10 characters"}
    by_words = Limit(3, lambda text: len(text.split()), "words")
    texts = write(tmp_path / "d.jsonl", [{"text": "a b c"}, {"text": "a b c d"}])
    assert [d.text for d in documents(texts, limit=by_words)[0]] == ["a b c"]
    talk = [{"messages": [*TALK[:1], {"role": "assistant", "content": "a " * n}]} for n in (2, 3)]
    assert len(demonstrations(write(tmp_path / "m.jsonl", talk), limit=by_words)[0]) == 1
    asked = write(tmp_path / "p.jsonl", [{"prompt": "a b c"}, {"prompt": [*TALK, {"role": "user", "content": "b c"}]}])
    assert [p.dialogue for p in prompts_rows(asked, limit=by_words)[0]] == ["a b c"]


def test_a_row_that_repeats_another_is_refused_whatever_its_id(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "prompt": "a"},
        {"id": "2", "prompt": "a"},
        {"id": "1", "prompt": "b"},
        {"id": "3", "prompt": "c"},
    ]
    found, report = prompts_rows(write(tmp_path / "x.jsonl", rows))
    assert [p.id for p in found] == ["1", "3"]
    assert [where.rpartition(" ")[2] for where, _ in report.refused] == ["2", "3"]


def test_a_rule_may_say_what_is_wrong_with_a_prompt(tmp_path: Path) -> None:
    """Fault G10."""
    from ropewalk.tasks.scoring.rules.answers import MultipleChoice

    rows = [
        {"q": "a", "answer": "B", "options": ["x", "y"]},
        {"q": "b", "answer": "C", "options": ["x", "y"]},
        {"q": "c", "answer": "y", "options": ["x", "x"]},
    ]
    named = source(tmp_path, rows, prompt="q", answer="answer", info={"choices": "options"})
    found, report = prompts_rows(named, fault=MultipleChoice().info_fault)
    assert [p.info["choices"] for p in found] == [["x", "y"]]
    assert [reason for _, reason in report.refused] == [
        "it has the gold answer 'C', which is none of its choices",
        "it has two equal choices",
    ]


def test_a_report_of_many_reasons_stays_short(tmp_path: Path) -> None:
    rows = [{"prompt": f"{i}", "gold": i} for i in range(40)]
    with pytest.raises(InputError) as caught:
        prompts_rows(write(tmp_path / "x.jsonl", rows), gold_fault=lambda gold: f"is {gold}")
    assert len(str(caught.value)) < 1500 and "34 for 34 other reasons" in str(caught.value)


FORMS: list[dict[str, Any]] = [
    {"prompt": "q", "completion": "a", "chosen": "b", "rejected": "c", "steps": ["d", "e"], "labels": [0, 1]},
    {"prompt": [{"role": "user", "content": "q"}], "completion": "a", "chosen": "b", "rejected": "c"},
    {"conversations": [{"from": "human", "value": "q"}], "chosen": "b", "rejected": "c"},
    {"question": "q", "answer": "so #### 1"},
    {"chosen": "\n\nHuman: q\n\nAssistant: b", "rejected": "\n\nHuman: q\n\nAssistant: c"},
]
READERS: list[Callable[[RowFile], tuple[list[Any], Any]]] = [
    demonstrations,
    pairs,
    prompts_rows,
    lambda rows: labelled_steps(rows, "\n\n"),
]


@pytest.mark.parametrize("read", READERS)
def test_the_system_message_of_a_file_stands_before_each_row_that_has_none(tmp_path: Path, read: Any) -> None:
    """Whatever form a row has; its id and all else of it are as without, and so is which prompts are held out."""
    own = [{**row, "system": "own"} for row in FORMS]
    said = 0
    for number, row in enumerate([*FORMS, *own]):
        path = write(tmp_path / f"{number}.jsonl", [row])
        try:
            (plain,), _ = read(DialogueFile(path=str(path)))
        except InputError:
            continue  # a form without what this reader asks for
        (under,), report = read(DialogueFile(path=str(path), system="Be brief."))
        assert report.refused == () and under.id == plain.id
        messages = (Message("user", plain.dialogue),) if isinstance(plain.dialogue, str) else plain.dialogue
        said += row in FORMS
        wanted = messages if row in own else (Message("system", "Be brief."), *messages)
        assert under == replace(plain, dialogue=wanted)
    assert said


def test_rows_that_become_equal_under_the_files_system_message_are_one(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "system": "s"}, {"prompt": [{"role": "user", "content": "q"}]}, {"prompt": "q", "id": "x"}]
    (one,), report = prompts_rows(DialogueFile(path=str(write(tmp_path / "x.jsonl", rows)), system="s"))
    assert one.dialogue == (Message("system", "s"), Message("user", "q"))
    assert [why for _, why in report.refused] == ["its id or content repeats that of an earlier row"] * 2


@pytest.mark.parametrize("system", ["", "  \n"])
def test_a_system_message_of_nothing_is_refused(system: str) -> None:
    with pytest.raises(ConfigError, match="system"):
        load(DialogueFile, {"path": "x", "system": system})


def test_documents_have_no_system_message() -> None:
    """Fault Q3: it would change nothing."""
    with pytest.raises(ConfigError, match="system"):
        load(Documents, {"kind": "documents", "path": "x", "system": "Be brief."})
