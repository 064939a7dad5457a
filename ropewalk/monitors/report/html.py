"""From parts to one self-contained HTML file that asks the network for nothing.

Everything a model, a scorer or a user wrote reaches the page through templates with autoescape on, or as JSON whose
`<`, `>` and `&` are escaped. As a second lock, the page's policy allows no connection at all and no script but the two
it was written with (by their hashes).
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from ropewalk.monitors.report.charts import Chart
from ropewalk.monitors.report.words import visible
from ropewalk.records.files import write_atomic

PACKAGE = "ropewalk.monitors.report"


def write_page(
    path: Path, template: str, charts: Iterable[Chart], context: Mapping[str, object], *, package: str = PACKAGE
) -> Path:
    """Render a template, of this package or of another that builds on its base, and put the file in place in one step;
    the path.

    Errors: RunStopped when the disk refuses it; an earlier page then stays as it was.
    """
    script, plotly = _text("page.js"), _plotly()
    html = (
        _environment(package)
        .get_template(template)
        .render(
            **context,
            style=Markup(_text("page.css")),
            script=Markup(script),
            plotly=Markup(plotly),
            policy=_policy(script, plotly),
            specs=embedded({visible(chart.id): chart.spec for chart in charts}),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, html.encode("utf-8", "replace"))
    return path


def embedded(value: object) -> Markup:
    """JSON that can stand inside a script element: no tag, comment or entity can begin in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, PACKAGE))]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    """Whatever a template prints, made visible; markup is ours and stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _plotly() -> str:
    """The library as plotly ships it, safe to stand in a script element."""
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def _text(name: str) -> str:
    return resources.files(PACKAGE).joinpath("templates", name).read_text("utf-8")


def _policy(*scripts: str) -> str:
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
