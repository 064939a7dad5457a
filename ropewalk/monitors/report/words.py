"""How numbers, durations and foreign text are written on the page."""

import math

from ropewalk.records.prompt import Json

_CONTROL = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_TEXT_LIMIT = 2000


def number(value: object) -> float | None:
    """The finite number that a value of a file holds, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def show(value: float | None, unit: str = "") -> str:
    """Three significant digits; a share as a percentage; a dash for nothing."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "share":
        text = f"{100 * value:.1f} %"
    elif value == 0:
        text = "0"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.2e}"
    elif abs(value) < 1e-3:
        text = f"{value:.2e}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−")


def duration(seconds: float | None) -> str:
    """`48 s`, `12 min 3 s`, `2 h 5 min`."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def clean(text: object, limit: int = _TEXT_LIMIT) -> str:
    """Foreign text as it can be shown: control characters made visible, lone surrogates replaced, cut at `limit`.

    Escaping for HTML is the template's, and happens for everything.
    """
    whole = str(text)
    short = visible(whole[:limit])
    return short if len(whole) <= limit else f"{short}… ({len(whole) - limit:,} more characters)"


def visible(text: str) -> str:
    """The text with control characters as symbols and lone surrogates as question marks."""
    return text.translate(_CONTROL).encode("utf-8", "replace").decode("utf-8")


def plot_text(text: str) -> str:
    """Text for plotly, which reads its strings as a small kind of HTML."""
    return clean(text, 200).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def flat(value: Json, prefix: str = "") -> dict[str, str]:
    """A nested value as dotted names and texts, in order."""
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for name, part in value.items():
            found.update(flat(part, f"{prefix}.{name}" if prefix else name))
        return found
    return {prefix: cell(value)}


def cell(value: object) -> str:
    """One value of a table; a pair of numbers is an interval."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return clean(value).replace("-", "−")
    if isinstance(value, float):
        return show(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(cell(part) for part in value) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{clean(name)}: {cell(part)}" for name, part in value.items()) or "–"
    return clean(value)
