"""Whether a completion is JSON, and of a given schema.

What holds: no schema is fetched from anywhere, its regular expressions run in linear time,
and size and depth are looked at before anything is parsed. The package jsonschema knows the drafts and makes no code of
a schema.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.rules.phrases import search
from ropewalk.tasks.scoring.rules.text import answer_of, refused

MAX_DEPTH = 64
"""Brackets inside brackets."""
_FENCE = "```"

JsonAt: TypeAlias = Literal["text", "fence", "tags"]
"""`text`: the whole completion (a code fence around it is taken off); `fence`: the last ``` block; `tags`: the last
`<answer>…</answer>`."""


class NotJson(Exception):
    """A text that is no JSON value; the message says why."""


@dataclass(frozen=True)
class JsonForm:
    """Scores 1 if the text is one JSON value of the schema, else 0.

    The schema is the prompt's own `info.schema` (an object, or its text), or `schema`; without one, any value does.
    """

    schema: Mapping[str, Any] | None = None
    at: JsonAt = "text"

    def __post_init__(self) -> None:
        if self.schema is not None and (fault := schema_fault(dict(self.schema))):
            raise InputError(f"the JSON schema {fault}")

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        schema = self._schema(prompt)
        if schema is not None and (fault := schema_fault(schema)):
            raise InputError(f"prompt {prompt.id}: the JSON schema {fault}")
        if failure := refused(sample.text):
            return failure
        try:
            value = parse(placed(sample.text, self.at))
        except NotJson:
            return Score(0.0)
        try:
            return Score(float(schema is None or conforms(value, schema)))
        except RecursionError:
            return Failed("crashed", "the schema refers to itself without end")

    def fault(self, prompt: Prompt, text: str) -> str | None:
        """Why a text is not what is asked for, in words; None if it is."""
        schema = self._schema(prompt)
        try:
            value = parse(placed(text, self.at))
        except NotJson as error:
            return f"it is no JSON: {error}"
        if schema is None:
            return None
        try:
            wrong = next(validator(_key(schema)).iter_errors(value), None)
        except RecursionError:
            return "the schema refers to itself without end"
        return None if wrong is None else f"at {wrong.json_path}: {wrong.message[:120]}"

    def info_fault(self, prompt: Prompt) -> str | None:
        """What is wrong with a prompt's own schema; None if nothing is."""
        fault = None if prompt.info.get("schema") is None else schema_fault(self._schema(prompt))
        return f"has a JSON schema that {fault}" if fault else None

    def _schema(self, prompt: Prompt) -> Json:
        own = prompt.info.get("schema")
        if isinstance(own, str):
            try:
                return parse(own)
            except NotJson:
                return own
        return own if own is not None else dict(self.schema) if self.schema is not None else None


def placed(text: str, at: JsonAt) -> str:
    """The part of a completion that should be JSON."""
    if at == "tags":
        return answer_of(text, "tags") or ""
    stripped = text.strip()
    if at == "text" and not (stripped.startswith(_FENCE) and stripped.endswith(_FENCE)):
        return stripped
    end = stripped.rfind(_FENCE)
    start = stripped.rfind(_FENCE, 0, max(end, 0))
    if start < 0 or (at == "text" and start > 0):
        return ""
    block = stripped[start + len(_FENCE) : end]
    return block.removeprefix("json").strip()


def parse(text: str) -> Json:
    """A JSON value. Raises `NotJson` for all else: NaN, a name given twice, brackets deeper than `MAX_DEPTH`."""
    if depth(text) > MAX_DEPTH:
        raise NotJson(f"it is deeper than {MAX_DEPTH} brackets")
    try:
        value: Json = json.loads(text, object_pairs_hook=_named, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
    return value


def depth(text: str) -> int:
    """The most brackets open at one place, outside of strings."""
    deepest = level = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest


def conforms(value: Json, schema: Json) -> bool:
    """Whether a value is of a schema."""
    found: bool = validator(_key(schema)).is_valid(value)
    return found


def schema_fault(schema: Json) -> str | None:
    """Why a schema cannot be used; None if it can."""
    if not isinstance(schema, dict | bool):
        return "is no JSON object"
    try:
        validator(_key(schema))
    except InputError as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def validator(text: str) -> Any:
    """What judges values by the schema of this text. Raises InputError saying what is wrong with the schema."""
    jsonschema = optional_module("jsonschema", extra="tasks", need="a rule with a JSON schema")
    referencing = optional_module("referencing", extra="tasks", need="a rule with a JSON schema")
    schema = json.loads(text)
    by_draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        by_draft.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InputError(f"is malformed: {error.message[:120]}") from None
    _check(schema)
    checks: dict[str, Callable[..., Any]] = {"pattern": _pattern, "patternProperties": _pattern_properties}
    # An empty registry: a reference to anything but the schema itself is an error, and nothing is fetched.
    return jsonschema.validators.extend(by_draft, checks)(schema, registry=referencing.Registry())


def _check(schema: Json) -> None:
    """References outside the schema, and expressions that RE2 does not know."""
    waiting: list[Json] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict):
            continue
        waiting += part.values()
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(reference := part.get(name), str) and not reference.startswith("#"):
                raise InputError(f"refers to {reference[:60]!r}: only references within it (#/…) are followed")
            if isinstance(reference, str) and reference.startswith("#/") and not _points(schema, reference):
                raise InputError(f"refers to {reference[:60]!r}, which it does not have")
        patterns = part.get("patternProperties")
        for pattern in [part.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]:
            if isinstance(pattern, str):
                search(pattern, "")


def _points(schema: Json, reference: str) -> bool:
    """Whether a JSON pointer leads somewhere."""
    place: Any = schema
    for step in reference[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place:
            place = place[name]
        else:
            return False
    return True


def _pattern(validator: Any, pattern: str, instance: Json, schema: Json) -> Any:
    if isinstance(instance, str) and not search(pattern, instance):
        yield optional_module("jsonschema", extra="tasks", need="a rule").ValidationError("no match")


def _pattern_properties(validator: Any, patterns: Mapping[str, Json], instance: Json, schema: Json) -> Any:
    if not isinstance(instance, dict):
        return
    for pattern, part in patterns.items():
        for name, value in instance.items():
            if search(pattern, name):
                yield from validator.descend(value, part, path=name, schema_path=pattern)


def _key(schema: Json) -> str:
    return json.dumps(schema, sort_keys=True)


def _named(pairs: list[tuple[str, Json]]) -> Json:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a name is given twice in an object")
    return named


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON value")
