"""Tool calls in text: what is written is read back, odd texts are told apart, and no text is ever run."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.tasks.environments.formats import (
    FORMATS,
    MAX_CALLS,
    FormatName,
    declaration,
    declared,
    format_of,
    read_calls,
    write_calls,
)
from ropewalk.tasks.environments.protocol import ToolCall, ToolSpec, Unread
from tests.seconds import processor_seconds

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).filter(
    lambda name: name not in {"True", "False", "None"} and not __import__("keyword").iskeyword(name)
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(
        ["</tool_call>", "<tool_call>", "<think>", "</think>", "])", '"', "\\", "'", '"""', "\\d\n", "<|python_tag|>"]
    ),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
CALLS = st.builds(ToolCall, name=NAMES, arguments=st.dictionaries(NAMES | st.text(), VALUES, max_size=4))
PROSE = st.sampled_from(
    ["", "I will look.\n", '<think>f(x) = [f(a=1)] {"name": "g", "parameters": {}}</think>\n', "数 é 😀\n", "1 < 2 {\n"]
)


@pytest.mark.parametrize("name", FORMATS)
@given(calls=st.lists(CALLS, max_size=4), before=PROSE, after=st.sampled_from(["", "\nDone.", " 😀"]))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back_whatever_stands_around(
    name: FormatName, calls: list[ToolCall], before: str, after: str
) -> None:
    text = before + write_calls(calls, name) + after
    assert read_calls(text, name) == tuple(calls)
    assert _typed(read_calls(text, name)) == _typed(calls)


PIECES = st.sampled_from([*"{}[]()\"'\\,:=ftruenam 1-\n<|>/_", "<tool_call>", "</think>", '{"name":', "[f("])


def _typed(calls: Any) -> str:
    """1, 1.0 and True are equal in Python, and not here."""
    return repr([(call.name, sorted(call.arguments.items())) for call in calls])


@pytest.mark.parametrize("name", FORMATS)
@given(text=st.lists(PIECES, max_size=60).map("".join))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_without_an_exception(name: FormatName, text: str) -> None:
    for found in read_calls(text, name):
        assert isinstance(found, ToolCall | Unread)


F = ToolCall("f", {"a": 1})
HERMES = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
LLAMA = '{"name": "f", "parameters": {"a": 1}}'
GOOD: list[tuple[FormatName, str, list[ToolCall]]] = [
    ("hermes", HERMES, [F]),
    ("hermes", f"text {HERMES} more {HERMES} end", [F, F]),
    ("hermes", '<tool_call>\n\n {"arguments": {"a": 1}, "name": "f"} \n</tool_call>', [F]),
    ("hermes", '<tool_call>{"id": "7", "type": "function", "name": "f", "arguments": {"a": 1}}</tool_call>', [F]),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>', [ToolCall("f", {})]),
    ("hermes", f"<think>perhaps {HERMES}</think>no", []),
    ("hermes", f"perhaps {HERMES}</think>{HERMES}", [F]),
    ("hermes", f"<think>a</think>{HERMES}</think>", [F]),
    ("hermes", f"<think>never closed {HERMES}", []),
    ("hermes", LLAMA, []),
    ("hermes", "no call", []),
    ("hermes", "", []),
    ("llama3", LLAMA, [F]),
    ("llama3", f"<|python_tag|>{LLAMA}", [F]),
    ("llama3", f"<|python_tag|>\n{LLAMA}; {LLAMA}<|eom_id|>", [F, F]),
    ("llama3", '{"type": "function", "name": "f", "parameters": {"a": 1}}', [F]),
    ("llama3", '{"name": "f", "arguments": {"a": 1}}', [F]),
    ("llama3", f"```json\n{LLAMA}\n```", [F]),
    ("llama3", '{"name": "Bob", "age": 3}', []),
    ("llama3", '{"result": {"name": "f", "parameters": {}}}', []),
    ("llama3", "the set {1, 2} and {", []),
    ("llama3", '{"name": "Bob"', []),
    (
        "llama3",
        '{"name": "f", "parameters": {"s": "{\\"name\\": \\"g\\", \\"parameters\\": {}}"}}',
        [ToolCall("f", {"s": '{"name": "g", "parameters": {}}'})],
    ),
    ("python", "[f(a=1)]", [F]),
    ("python", "[ f( a = +1 , ) ]", [F]),
    ("python", "ok: [f(a=1)], then\n[f(a=1), g.h()]", [F, F, ToolCall("g.h", {})]),
    (
        "python",
        "[f(a=[1, (2, 3)], b={'x': None}, c=-1.5, d=true, e='it''s')]",
        [ToolCall("f", {"a": [1, [2, 3]], "b": {"x": None}, "c": -1.5, "d": True, "e": "its"})],
    ),
    ("python", "[f(a='[g()]')]", [ToolCall("f", {"a": "[g()]"})]),
    ("python", r"[f(a='\d+', b=r'\n', c='''q'q''')]", [ToolCall("f", {"a": "\\d+", "b": "\\n", "c": "q'q"})]),
    ("python", "[f(a='two\nlines')]", [ToolCall("f", {"a": "two\nlines"})]),
    ("python", "the value is [f(x)] here", []),
    ("python", "[1, 2] and [x for x in y]", []),
    ("python", "f(a=1)", []),
]
BAD: list[tuple[FormatName, str, str]] = [
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}', "right behind"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}', "JSON"),
    ("hermes", "<tool_call>", "JSON"),
    ("hermes", "<tool_call></tool_call>", "JSON"),
    ("hermes", "<tool_call>f(a=1)</tool_call>", "JSON"),
    ("hermes", '<tool_call>[{"name": "f"}]</tool_call>', "JSON"),
    ("hermes", '<tool_call>{"name": "f"} {"name": "g"}</tool_call>', "one JSON object"),
    ("hermes", '<tool_call>{"arguments": {}}</tool_call>', "name"),
    ("hermes", '<tool_call>{"name": 1, "arguments": {}}</tool_call>', "name"),
    ("hermes", '<tool_call>{"name": "f", "a": 1}</tool_call>', "in one object"),
    ("hermes", '<tool_call>{"name": "f", "arguments": "a"}</tool_call>', "an object"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>', "twice"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {}, "parameters": {}}</tool_call>', "two names"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "NaN"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>', "too large"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>', "half a character"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 70 + "]" * 70 + "}}</tool_call>", "deeper"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 9000, "JSON"),
    ("llama3", "<|python_tag|>print(1)", "name"),
    ("llama3", '{"name": "f", "parameters": {"a": 1}', "JSON"),
    ("llama3", '{"name": "f", "parameters": 3}', "an object"),
    ("python", "[f(1)]", "by its name"),
    ("python", "[f(a=1", "not closed"),
    ("python", "[f(a='x)]", "not closed"),
    ("python", "[f(a=b)]", "literals"),
    ("python", "[f(a=g())]", "literals"),
    ("python", "[f(a=1+1)]", "literals"),
    ("python", "[f(a=1j)]", "no number"),
    ("python", "[f(a=b'x')]", "no plain text"),
    ("python", "[f(a=f'{x}')]", "no plain text"),
    ("python", "[f(a={1})]", "literals"),
    ("python", "[f(a={1: 2})]", "keys"),
    ("python", "[f(a={'x': 1, 'x': 2})]", "twice"),
    ("python", "[f(a=1, a=2)]", "twice"),
    ("python", "[f(a=1, **{'a': 2})]", "twice"),
    ("python", "[f(**x)]", "literals"),
    ("python", "[f(a=...)]", "literals"),
    ("python", "[f(a=1e999)]", "literals"),
    ("python", "[f(a=1if 1else 2)]", "no number"),
    ("python", "[f(a=---1)]", "nothing else"),
    ("python", "[f(a=1) # x\n]", "nothing else"),
    ("python", "[f(a=1)(b=2)]", "called is a name"),
    ("python", "[f(a=1), 3]", "every item"),
    ("python", "[f(a=1)}", "do not match"),
    ("python", "[f(a=" + "[" * 70 + "]" * 70 + ")]", "deeper"),
    ("python", "[f(a='" + "x" * 30_000 + "')]", "not closed"),
    ("python", "[f(a=" + "1" * 5_000 + ")]", "no Python"),
    ("python", "[__import__('os').system(a='x')]", "name"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "calls"), GOOD, ids=range(len(GOOD)))
def test_calls_are_found_where_they_stand(name: FormatName, text: str, calls: list[ToolCall]) -> None:
    assert read_calls(text, name) == tuple(calls)


@pytest.mark.parametrize(("name", "text", "why"), BAD, ids=range(len(BAD)))
def test_a_call_that_cannot_be_read_is_told_and_bounded(name: FormatName, text: str, why: str) -> None:
    """Fault G6: what a model wrote is never evaluated; hostile texts end as a sentence for the policy."""
    found = [each for each in read_calls(text, name) if isinstance(each, Unread)]
    assert found and why in found[0].why
    assert all(len(each.text) <= 300 and len(each.why) <= 300 for each in found)


@pytest.mark.parametrize("name", FORMATS)
def test_the_calls_of_a_turn_are_counted_out(name: FormatName) -> None:
    found = read_calls(write_calls([F] * (MAX_CALLS + 5), name), name)
    assert found[:-1] == (F,) * MAX_CALLS
    assert isinstance(found[-1], Unread) and str(MAX_CALLS) in found[-1].why


HOSTILE = [
    "{" * 100_000,
    '{"name":' * 20_000,
    '{"a":"' * 20_000,
    "[f(" * 40_000,
    '[f(a="' * 20_000,
    "<tool_call>" * 9_000,
    ("x [f(" + "a" * 19_000 + ")] ") * 8,
    ("[f(a=" + "1" * 19_000 + ")]\n") * 8,
    "[f(a='" + "\\d" * 9_000 + "')]",
    '{"a": ' * 5_000 + "1" + "}" * 5_000,
    '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * 500_000,
    "<think>" * 50_000,
    "</think>" * 50_000,
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_long_hostile_turn_is_read_at_once(name: FormatName, text: str) -> None:
    assert len(read_calls(text, name)) <= MAX_CALLS + 1
    assert processor_seconds(lambda: read_calls(text, name)) < 20


QWEN = r"""{%- if tools %}
{{- "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function
signatures within <tools></tools> XML tags:\n<tools>" }} ... {{- "\n</tools>\n\nFor each function call, return a json
object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\":
<function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}{%- endif %}"""
QWEN3_MORE = (
    r"""{%- if message.reasoning_content is string %}{{- '<think>\n' + reasoning_content + '\n</think>\n\n' }}"""
)
HERMES_3 = r"""{{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' + tool_call.arguments|tojson }}"""
LLAMA_31 = r"""{{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its
value}. ' }}{{- '"parameters": ' }}{{- tool_call.arguments | tojson }}{{- "<|python_tag|>" + tool_call.name }}"""
LLAMA_32_LISTS = r"""{{- "You have access to the following functions. To call functions, please respond with a python
list of the calls. " }}{{- 'Respond in the format [func_name1(params_name1=params_value1), func_name2(params)] ' }}"""
LLAMA_4 = r"""Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]"""
CODER = r"""<tool_call>\n<function=example>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"""
MISTRAL = r"""{{- '[AVAILABLE_TOOLS][{"type": "function", "function": {"name": "', '", "parameters": ' }}[TOOL_CALLS]"""
PLAIN = r"""{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']}}{% endfor %}"""


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (QWEN, "hermes"),
        (QWEN + QWEN3_MORE, "hermes"),
        (HERMES_3, "hermes"),
        (LLAMA_31, "llama3"),
        (LLAMA_32_LISTS, "python"),
        (LLAMA_4, "python"),
        (MISTRAL, None),
        (CODER, None),
        (PLAIN, None),
        ("", None),
    ],
    ids=["qwen2.5", "qwen3", "hermes3", "llama3.1", "llama3.2", "llama4", "mistral", "qwen3-coder", "chatml", "empty"],
)
def test_a_template_tells_which_format_it_speaks(template: str, name: FormatName | None) -> None:
    assert format_of(template) == name


@pytest.mark.parametrize("name", FORMATS)
def test_a_declaration_names_each_tool_with_its_schema_and_shows_the_very_format(name: FormatName) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [ToolSpec("look", "Looks.", schema), ToolSpec("leap", "Springt — weit.", {"type": "object"})]
    text = declaration(tools, name)
    assert all(json.dumps(declared(tool)["function"], ensure_ascii=False) in text for tool in tools)
    assert set(FORMATS) == set(get_args(FormatName))
