import json
import socket
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.score import Failed
from ropewalk.tasks.scoring.rules.structured import MAX_DEPTH, JsonForm, NotJson, depth, parse, placed, schema_fault
from tests.tasks.scoring.rules.asked import asked, judged, scored

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(alphabet='Ab[\\"', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "age", "x"]), inner),
    max_leaves=6,
)


@given(values)
def test_what_json_writes_is_json_and_any_schema_agrees_with_the_library(value: Any) -> None:
    text = json.dumps(value)
    assert parse(text) == value
    for schema in (PERSON, {"type": ["array", "null"]}, {"not": {"type": "string"}}, True, False):
        right = jsonschema.Draft202012Validator(schema).is_valid(value)
        assert scored(JsonForm(), text, schema=schema) == right
        assert scored(JsonForm(), text, schema=json.dumps(schema)) == right, "a schema may be given as its text"
    assert scored(JsonForm(), text) == 1 and scored(JsonForm(), f"{text} so") == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a': 1}",
        "NaN",
        '{"a": 1, "a": 2}',
        "[1,]",
        "1 2",
        "[" * 100_000,
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "9" * 5000,
        '"\x01"',
        "Infinity",
    ],
    ids=lambda text: text[:9],
)
def test_what_is_no_json_scores_nothing(text: str) -> None:
    with pytest.raises(NotJson):
        parse(text)
    assert scored(JsonForm(), text) == 0


@given(values)
def test_depth_is_that_of_the_value(value: Any) -> None:
    def deep(part: Any) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
        return 0 if inner is None else 1 + max(map(deep, inner), default=0)

    assert depth(json.dumps(value)) == deep(value)


def test_where_the_json_stands() -> None:
    block = '```json\n{"a": 1}\n```'
    assert [placed(f"so:\n{block}\n", at) for at in ("text", "fence", "tags")] == [f"so:\n{block}", '{"a": 1}', ""]
    assert placed(block, "text") == placed(f"```\n{placed(block, 'text')}\n```", "fence") == '{"a": 1}'
    assert placed('x <answer> {"a": 1} </answer>', "tags") == '{"a": 1}'
    assert placed("``` ```", "text") == "" and placed("```", "fence") == ""


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (7, "is no JSON object"),
        ("{", "is no JSON object"),
        ({"type": "strin"}, "is malformed"),
        ({"$ref": "https://example.org/x.json"}, "refers to 'https://example.org/x.json': only references within"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "only references within it"),
        ({"$ref": "#/definitions/missing"}, "which it does not have"),
        ({"pattern": "(a)\\1"}, "cannot be matched in linear time"),
        ({"patternProperties": {"(?=a)": {}}}, "cannot be matched in linear time"),
    ],
)
def test_schemas_that_cannot_be_used_are_named_when_data_are_read(schema: Any, fault: str) -> None:
    """Fault G10."""
    assert fault in str(schema_fault(schema))
    assert fault in str(JsonForm().info_fault(asked(schema=schema)))
    with pytest.raises(InputError, match="prompt p: the JSON schema"):
        scored(JsonForm(), "1", schema=schema)


def test_schemas_refer_to_themselves_but_fetch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", None)
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}
    assert scored(JsonForm(tree), "[[], [[]]]") == 1 and scored(JsonForm(tree), "[[], [1]]") == 0
    assert judged(JsonForm({"$ref": "#"}), "1") == Failed("crashed", "the schema refers to itself without end")


def test_expressions_in_schemas_take_linear_time() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert scored(JsonForm(schema), json.dumps("a" * 50_000 + "!")) == 0
    named = {"patternProperties": {"^x": {"type": "integer"}}}
    assert [scored(JsonForm(named), text) for text in ('{"xa": 1}', '{"xa": "1"}', '{"a": "1"}')] == [1, 0, 1]
