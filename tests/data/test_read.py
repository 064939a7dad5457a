import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.data.read import (
    ReadReport,
    demonstrations,
    documents,
    pairs,
    prompts_rows,
)
from ropewalk.data.rows import read_records
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Demonstration, Message, PreferencePair

USER, SYSTEM, ASSISTANT = "user", "system", "assistant"
READERS: list[Callable[[Path], Any]] = [documents, demonstrations, pairs, prompts_rows]

GOOD_PAIR = {"prompt": "q", "chosen": "a", "rejected": "b"}


def message(role: str, content: object = "x") -> dict[str, object]:
    return {"role": role, "content": content}


def write(path: Path, rows: list[Any]) -> Path:
    """Rows in the form that the file's name asks for."""
    name = path.name.removesuffix(".gz")
    text = json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json", "x.json.gz"])
def test_every_kind_of_file_gives_the_same_records(tmp_path: Path, name: str) -> None:
    rows = [{"prompt": f"q{i}", "chosen": "a", "rejected": "b"} for i in range(5)]
    records, report = pairs(write(tmp_path / name, rows))
    assert [r.dialogue for r in records] == [f"q{i}" for i in range(5)]
    assert records == pairs(write(tmp_path / "plain.jsonl", rows))[0]
    assert report == ReadReport(5) and str(report) == "5 rows, all usable"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.jsonl", b"", "x.jsonl is empty: it must hold at least one row"),
        ("x.jsonl", b"\n \n", "x.jsonl is empty"),
        ("x.json", b"", "x.json is empty"),
        ("x.json", b"[]", "x.json is empty"),
        ("x.jsonl", b'{"a": 1}\n\n{"a": \n', r"x.jsonl line 3 is not JSON: Expecting value \(column 6\)"),
        ("x.jsonl", b'{"a": 1}\n{"a": NaN}\n', "x.jsonl line 2 is not JSON: NaN is not a JSON value"),
        ("x.jsonl", b'{"a": 1}\n"\xff"\n', "x.jsonl line 2 is not UTF-8 text"),
        ("x.jsonl", b"[1]\n", "x.jsonl line 1 is not a JSON object with named fields"),
        ("x.json", b'[{"a": 1},\n {"a": ]', "x.json line 2 is not JSON"),
        ("x.json", b'{"a": 1}', "x.json is not a JSON list of rows: for one row a line, call it .jsonl"),
        ("x.json", b'[{"a": 1}, 3]', "x.json row 2 is not a JSON object"),
        ("x.json", b'["\xff"]', "x.json is not UTF-8 text"),
        ("x.xml", b"a,b\n", "x.xml is of an unknown kind: use one of .jsonl"),
        ("x.jsonl.gz", b"not gzip", "x.jsonl.gz is not whole gzip data"),
        ("x.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 2000)[:-12], "x.jsonl.gz is cut short"),
        ("x.json.gz", gzip.compress(b'[{"a": 1}]' * 2000)[:-12], "x.json.gz is cut short"),
        ("x.jsonl.gz", gzip.compress(b'{"a": 1}\n')[:-8] + b"\xff" * 8, "x.jsonl.gz is not whole gzip data"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for read in (*READERS, lambda path: list(read_records(path))):
        with pytest.raises(InputError, match=said) as caught:
            read(tmp_path / name)
        assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "absent.jsonl", "there is no file"), (tmp_path, "is a folder: name a file")):
        for read in READERS:
            with pytest.raises(InputError, match=said):
                read(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\n')
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf[{"text": "a"}]')
    assert documents(tmp_path / "x.jsonl")[0] == documents(tmp_path / "x.json")[0]


HH = "\n\nHuman: one\n\nAssistant: two \n\nHuman: three\n\nAssistant:"
CHAT = [{"role": SYSTEM, "content": "s"}, {"role": USER, "content": "u"}]
SHARE = [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}, {"from": "human", "value": "v"}]
TURNS = (Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
SYSTEM_USER = (Message("system", "s"), Message("user", "u"))
SHARED = (Message("user", "u"), Message("assistant", "a"), Message("user", "v"))


@pytest.mark.parametrize(
    ("row", "dialogue", "chosen", "rejected"),
    [
        ({"prompt": " q ", "chosen": " a", "rejected": "b"}, " q ", " a", "b"),
        ({"prompt": CHAT, "chosen": "a", "rejected": "b"}, SYSTEM_USER, "a", "b"),
        (
            {
                "prompt": CHAT,
                "chosen": [{"role": ASSISTANT, "content": "a"}],
                "rejected": [{"role": ASSISTANT, "content": "b"}],
            },
            SYSTEM_USER,
            "a",
            "b",
        ),
        ({"chosen": f"{HH} yes", "rejected": f"{HH} no"}, TURNS, "yes", "no"),
        (
            {
                "conversations": SHARE,
                "chosen": {"from": "gpt", "value": "a"},
                "rejected": {"from": "gpt", "value": "b"},
            },
            SHARED,
            "a",
            "b",
        ),
        (
            {
                "messages": CHAT,
                "chosen": "a",
                "rejected": {"role": ASSISTANT, "content": [{"type": "text", "text": "b"}]},
            },
            SYSTEM_USER,
            "a",
            "b",
        ),
    ],
)
def test_pairs_of_every_form(tmp_path: Path, row: Any, dialogue: Any, chosen: str, rejected: str) -> None:
    (pair,) = pairs(write(tmp_path / "x.jsonl", [row]))[0]
    assert pair == PreferencePair(pair.id, dialogue, chosen, rejected)
    (demonstration,) = demonstrations(tmp_path / "x.jsonl")[0]
    assert demonstration == Demonstration(demonstration.id, dialogue, chosen), "of pairs, the chosen answer"
    assert prompts_rows(tmp_path / "x.jsonl")[0][0].dialogue == dialogue


@pytest.mark.parametrize(
    ("row", "dialogue", "completion"),
    [
        ({"prompt": "q", "completion": " a"}, "q", " a"),
        ({"prompt": "q", "response": "a"}, "q", "a"),
        ({"messages": [*CHAT, {"role": ASSISTANT, "content": "a"}]}, SYSTEM_USER, "a"),
        ({"conversations": [*SHARE, {"from": "gpt", "value": "b"}]}, SHARED, "b"),
        ({"question": " q ", "answer": "so\n#### 1,234 "}, (Message("user", "q"),), "so\n#### 1,234"),
    ],
)
def test_demonstrations_of_every_form(tmp_path: Path, row: Any, dialogue: Any, completion: str) -> None:
    (record,) = demonstrations(write(tmp_path / "x.jsonl", [row]))[0]
    assert record == Demonstration(record.id, dialogue, completion)


def test_gold_answers(tmp_path: Path) -> None:
    """Fault G10: a gold answer that cannot be read refuses the row; it never reaches a scorer."""
    rows = [{"question": f"q{i}", "answer": f"x\n#### {gold}"} for i, gold in enumerate(["1,234", "-5", "$ 7", "0.5"])]
    broken = [
        {"question": "r1", "answer": "#### \\frac{1}{"},
        {"question": "r2", "answer": "no mark"},
        {"question": "r3", "answer": "####"},
        {"question": "r4", "answer": "#### 1,23"},
        {"question": "r5", "answer": "#### nan"},
    ]
    prompts, report = prompts_rows(write(tmp_path / "x.jsonl", [*rows, *broken]))
    assert [prompt.gold for prompt in prompts] == ["1234", "-5", "7", "0.5"]
    assert [where.rpartition(" ")[2] for where, _ in report.refused] == ["5", "6", "7", "8", "9"]
    with pytest.raises(InputError, match=r"has no usable row: 0 of 5 rows .* because its gold answer"):
        prompts_rows(write(tmp_path / "y.jsonl", broken))


def test_a_task_may_say_what_a_broken_gold_is(tmp_path: Path) -> None:
    """Fault G10."""
    rows = [{"prompt": "a", "gold": {"x": 1}}, {"prompt": "b", "gold": "\\frac{1}{"}, {"prompt": "c"}]

    def fault(gold: object) -> str | None:
        return None if isinstance(gold, dict) else "is not an object"

    prompts, report = prompts_rows(write(tmp_path / "x.jsonl", rows), gold_fault=fault)
    assert [prompt.gold for prompt in prompts] == [{"x": 1}]
    assert [reason for _, reason in report.refused] == [
        'its gold answer "\\\\frac{1}{" is not an object',
        "its gold answer null is not an object",
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "q", "rejected": "b"}, "it has no chosen answer"),
        ({"prompt": "q", "chosen": None, "rejected": "b"}, "it has no chosen answer"),
        ({"prompt": "q", "chosen": " ", "rejected": "b"}, "it has no chosen answer"),
        ({"prompt": "q", "chosen": "a"}, "it has no rejected answer"),
        ({"prompt": "q", "chosen": "a", "rejected": " a "}, "its chosen answer equals the rejected one"),
        ({"prompt": " ", "chosen": "a", "rejected": "b"}, "its prompt is empty"),
        ({"prompt": [], "chosen": "a", "rejected": "b"}, "its prompt is empty"),
        ({"prompt": 3, "chosen": "a", "rejected": "b"}, "prompt is not text"),
        ({"prompt": "q", "chosen": 3, "rejected": "b"}, "chosen is not text"),
        ({"prompt": "\ud800", "chosen": "a", "rejected": "b"}, "half a surrogate pair"),
        ({"prompt": "q", "chosen": [message(ASSISTANT)] * 2, "rejected": "b"}, "has 2 messages instead of one"),
        ({"prompt": "q", "chosen": message(USER), "rejected": "b"}, "is said by 'user'"),
        ({"id": 3.5, **GOOD_PAIR, "prompt": "r"}, "its id is neither text nor a whole number"),
        ({"other": 1}, "it has none of the fields prompt, .*its fields: other"),
        ({"messages": "x", "chosen": "a", "rejected": "b"}, "its messages are not a list"),
        ({"messages": ["x"], "chosen": "a", "rejected": "b"}, "message 1 of messages is not an object"),
        ({"messages": [message("root")], "chosen": "a", "rejected": "b"}, "unknown role 'root'"),
        ({"messages": [message(USER, 3)], "chosen": "a", "rejected": "b"}, "message 1 of messages is not text"),
        ({"messages": [message(USER, [{"type": "image"}])], "chosen": "a", "rejected": "b"}, "a part that is not text"),
        ({"messages": [{**message(USER), "tool_calls": [1]}], "chosen": "a", "rejected": "b"}, "a tool call"),
        ({"messages": [message(ASSISTANT)], "chosen": "a", "rejected": "b"}, "end with an assistant message"),
        ({"chosen": "plain", "rejected": f"{HH} no"}, "has no Assistant: turn"),
        ({"chosen": f"{HH} yes"}, "it has no rejected answer"),
        ({"chosen": f"{HH} yes\n\nHuman: more", "rejected": f"{HH} no"}, "does not end with an Assistant: turn"),
        ({"chosen": f"{HH} yes", "rejected": f"{HH.replace('one', 'uno')} no"}, "differ before their last answers"),
        ({"chosen": f"lead{HH} yes", "rejected": f"lead{HH} no"}, "does not begin with a Human"),
        ({"chosen": f"{HH} same", "rejected": f"{HH}  same"}, "its chosen answer equals the rejected one"),
        (GOOD_PAIR, "its id or content repeats that of an earlier row"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_and_named(tmp_path: Path, row: Any, reason: str) -> None:
    """Faults A8 and M2: nothing is dropped in silence, and ties in the raw data are refused."""
    records, report = pairs(write(tmp_path / "x.jsonl", [GOOD_PAIR, row]))
    assert [record.dialogue for record in records] == ["q"]
    ((where, said),) = report.refused
    assert where == f"{tmp_path / 'x.jsonl'} line 2"
    assert re.search(reason, said)


def test_two_judges_who_choose_alike_are_two_judgements(tmp_path: Path) -> None:
    """Fault M2's kin: how often a choice was made is the data, so rows with ids of their own all count."""
    rows = [{"id": name, **GOOD_PAIR} for name in "abc"]
    records, report = pairs(write(tmp_path / "x.jsonl", rows))
    assert [record.id for record in records] == ["a", "b", "c"] and not report.refused
    assert len(pairs(write(tmp_path / "y.jsonl", [*rows, rows[0]]))[0]) == 3


def test_the_report_counts_by_reason_and_no_usable_row_is_an_error(tmp_path: Path) -> None:
    """Fault A8."""
    bad = [{"prompt": f"q{i}", "chosen": "a", "rejected": "a"} for i in range(3)]
    path = write(tmp_path / "x.jsonl", [GOOD_PAIR, *bad, {"prompt": "r", "rejected": "b"}])
    assert str(pairs(path)[1]) == (
        f"1 of 5 rows are usable; refused: 3 because its chosen answer equals the rejected one (first: {path} line 2); "
        f"1 because it has no chosen answer (first: {path} line 5)"
    )
    with pytest.raises(InputError, match="has no usable row: 0 of 3 rows are usable"):
        pairs(write(tmp_path / "y.jsonl", bad))


def test_ids_are_the_rows_own_or_hang_on_what_they_say(tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": "b", "id": 7}, {"text": "c", "id": "7"}, {"text": "a", "more": 1}]
    records, report = documents(write(tmp_path / "x.jsonl", rows))
    assert [record.id for record in records][1:] == ["7"] and len(report.refused) == 2
    again, _ = documents(write(tmp_path / "y.jsonl", rows[::-1]))
    assert {r.id for r in again if r.text == "a"} == {records[0].id}


def test_documents_need_text(tmp_path: Path) -> None:
    _, report = documents(write(tmp_path / "x.jsonl", [{"text": "a"}, {"text": " "}, {"body": "x"}, {"text": 3}]))
    assert [reason.partition(" (")[0] for _, reason in report.refused] == [
        "its text is empty",
        "it has no field 'text'",
        "text is not text",
    ]
