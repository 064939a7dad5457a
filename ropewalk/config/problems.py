"""Problems of a recipe as sentences: each names the key, its section, and what would be right."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from ropewalk.config.schema import Key, Many, Named, Section, Shape, Table, field_shape, tag_values

_NUMBER = "must be a number"
_WHOLE = "must be a whole number"
_KINDS = {
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "finite_number": "must be a finite number",
    "path_type": "must be text (a path)",
    "none_required": 'must be "none"',
}
_BOUNDS = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
    "multiple_of": ("multiple_of", "must be a multiple of"),
}


def unknown_key(path: str, name: str, table: Table, variant: type[Section] | None, known: Sequence[Key]) -> str:
    """The sentence for a key that `variant`, chosen at `path`, does not have (None: that no variant has)."""
    start = f"unknown key {name!r} in {f'section [{path}]' if path else 'the top level'}"
    folded = name.replace("-", "_").lower()
    fields = list(dict.fromkeys(field for v in ([variant] if variant else table.variants) for field in v.model_fields))
    spelling = next((field for field in fields if field.lower() == folded), None)
    if spelling is not None:
        return f"{start}: did you mean {_dotted(path, spelling)!r}?"
    holders = [
        f"{table.tag} = {tag_values(v, table.tag or '')[0]!r}" for v in table.variants if folded in v.model_fields
    ]
    if holders and variant is not None:
        own = tag_values(variant, table.tag or "")[0]
        return f"{start}: it belongs to {' or '.join(holders)}, and this section has {table.tag} = {own!r}"
    nearest = _nearest(path, folded, fields, known)
    if nearest:
        return f"{start}: did you mean {' or '.join(map(repr, nearest))}?"
    if not fields:
        return f"{start}: this section has no keys, take it out"
    closest = max(fields, key=lambda field: _ratio(folded, field))
    return f"{start}: the nearest is {_dotted(path, closest)!r} (valid: {', '.join(fields)})"


def _nearest(path: str, folded: str, fields: Sequence[str], known: Sequence[Key]) -> list[str]:
    """Dotted keys that may have been meant: nearly the same here, the same elsewhere, alike here, alike elsewhere."""
    close = get_close_matches(folded, fields, n=1, cutoff=0.6)
    elsewhere = list(dict.fromkeys(key.path for key in known if key.field.lower() == folded))
    if elsewhere and not (close and _ratio(folded, close[0]) > 0.85):
        return elsewhere[:3]
    if close:
        return [_dotted(path, close[0])]
    paths = {key.field: key.path for key in reversed(known)}
    return [paths[field] for field in get_close_matches(folded, paths, n=1, cutoff=0.75)]


def value_problems(shape: Shape, data: Any, errors: Sequence[ErrorDetails]) -> list[str]:
    """One sentence per key with a wrong, missing or unknown value."""
    by_key: dict[str, list[str]] = {}
    for error in errors:
        key, where = _locate(shape, data, error["loc"])
        said = by_key.setdefault(key, [])
        sentence = _sentence(where, error)
        if sentence not in said:
            said.append(sentence)
    return [f"{key or 'the recipe'} {_joined(sentences)}" for key, sentences in by_key.items()]


def _joined(sentences: list[str]) -> str:
    """Several errors at one key are the members of a union of plain types."""
    if len(sentences) == 1:
        return sentences[0]
    heads = [sentence.partition(", not ")[0] for sentence in sentences]
    tail = sentences[-1].partition(", not ")[2]
    return " or ".join(heads) + (f", not {tail}" if tail else "")


def _locate(shape: Shape, data: Any, location: Sequence[int | str]) -> tuple[str, Shape]:
    """(dotted key, its shape) of a validator's location, without the tags of unions that stand in it."""
    path = ""
    steps: Iterator[int | str] = iter(location)
    for step in steps:
        if isinstance(shape, Table):
            if shape.tag and len(shape.variants) > 1:
                variant = shape.tags().get(str(step))
                following = next(steps, None)
                if variant is None or following is None:
                    break
                step = following
            else:
                variant = shape.variants[0]
            path, shape = _dotted(path, str(step)), field_shape(variant, str(step))
        elif isinstance(step, int):
            path, shape = f"{path}[{step}]", shape.of if isinstance(shape, Many) else shape
        elif isinstance(shape, Named) or (isinstance(data, Mapping) and step in data):
            path, shape = _dotted(path, step), shape.of if isinstance(shape, Named) else shape
        else:
            continue
        data = _child(data, step)
    return path, shape


def _child(data: Any, step: int | str) -> Any:
    if isinstance(data, Mapping):
        return data.get(step)
    return data[step] if isinstance(data, list) and isinstance(step, int) and step < len(data) else None


def _sentence(shape: Shape, error: ErrorDetails) -> str:
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind == "missing":
        return "is missing: give it a value"
    if kind.startswith("union_tag") and isinstance(shape, Table):
        if kind == "union_tag_not_found":
            return f"needs the key {shape.tag!r}: one of {', '.join(sorted(shape.tags()))}"
        return f"has an unknown {shape.tag} {context['tag']!r}: {_choice(context['tag'], list(shape.tags()))}"
    if kind == "literal_error":
        allowed = [part.strip().strip("'") for part in context["expected"].replace(" or ", ",").split(",")]
        return f"is {describe(given)}: {_choice(given, allowed)}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"{words} {context[bound]}, not {describe(given)}"
    if kind in _KINDS:
        return f"{_KINDS[kind]}, not {describe(given)}"
    if kind in ("value_error", "assertion_error"):
        return f"cannot be used: {context.get('error', error['msg'])}"
    message = error["msg"]
    return f"is wrong: {message[:1].lower()}{message[1:]} (given: {describe(given)})"


def describe(value: object) -> str:
    """A value as one names it in a sentence."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 60 else f"the text {value[:57]!r}..."
    if isinstance(value, Mapping):
        return "a table"
    return '"none"' if value is None else "a list"


def _choice(given: object, allowed: Sequence[str]) -> str:
    close = get_close_matches(str(given).replace("-", "_").lower(), allowed, n=1, cutoff=0.5)
    listed = ", ".join(sorted(allowed))
    return f"did you mean {close[0]!r}? (allowed: {listed})" if close else f"allowed are {listed}"


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _ratio(left: str, right: str) -> float:
    return SequenceMatcher(None, left, right).ratio()
