"""The page: self-contained, escaped, complete, and there after a crash."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from ropewalk.monitors.report.comparison import write_comparison
from ropewalk.monitors.report.html import embedded
from ropewalk.monitors.report.page import write_report
from ropewalk.records.errors import InputError
from tests.monitors.folders import write_run

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; </textarea><!-- {{ 7*7 }} \u202e\x00\x1b[31m"


class Page(HTMLParser):
    """Tags, attributes, scripts and text of a page, as a browser would split it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self._inside: str | None = None
        self.raw = path.read_text("utf-8")
        self.feed(self.raw)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside is None:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    @property
    def specs(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = json.loads(self.scripts[0])
        return found

    @property
    def policy(self) -> str:
        (policy,) = [a["content"] for t, a in self.tags if t == "meta" and "http-equiv" in a]
        return policy or ""


def hostile_run(folder: Path) -> Path:
    """A run in which everything a model, a scorer or a user can write tries to break out."""
    write_run(folder, prompt=HOSTILE, completion=HOSTILE, extra={f"score/{HOSTILE}/mean": 1.0, f"loss/{HOSTILE}": 1.0})
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    for row in samples:
        row |= {"finish": HOSTILE, "kept": "spread", "scores": {HOSTILE: HOSTILE, "number": 1.0}}
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    (folder / "recipe.toml").write_text(f"# {HOSTILE}\n")
    (folder / "lineage.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    (folder / "status.json").write_text(json.dumps({"state": "stopped", "reason": HOSTILE}))
    (folder / "eval.json").write_text(json.dumps({HOSTILE: {HOSTILE: HOSTILE}, "b": [{HOSTILE: 1}], "c": HOSTILE}))
    return folder


def pages(folder: Path) -> list[Page]:
    """The page of a hostile run, and a comparison with hostile words of its own."""
    run = hostile_run(folder / "run")
    compared = write_comparison(
        {HOSTILE: run, "other": run},
        folder / "all.html",
        title=HOSTILE,
        notes=[HOSTILE],
        findings=[{HOSTILE: HOSTILE, "holds": False}],
    )
    return [Page(write_report(run)), Page(compared)]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> list[Page]:
    return pages(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_report(write_run(tmp_path_factory.mktemp("plain") / "city-1")))


def test_nothing_that_was_said_becomes_markup(hostile: list[Page], plain: Page) -> None:
    """Model text, scorer names, labels, recipe and reasons are shown as they are, and never as tags."""
    for page in hostile:
        assert {tag for tag, _ in page.tags} <= {tag for tag, _ in plain.tags} | {"caption", "aside", "article", "img"}
        assert not [a for tag, a in page.tags if tag == "img" or any(name.startswith("on") for name in a)]
        assert len(page.scripts) == 3
        assert "alert(1)" in page.words and "{{ 7*7 }}" in page.words and "49" not in page.words.split()
        assert "\x00" not in page.raw and "\x1b" not in page.raw


def test_embedded_json_cannot_end_its_script() -> None:
    text = embedded({"a": "</script><!--&\u2028"})
    assert not set("<>&\u2028") & set(text) and json.loads(text) == {"a": "</script><!--&\u2028"}


def test_only_the_page_s_own_scripts_may_run(hostile: list[Page]) -> None:
    """The policy names the hash of each script; data is not a script."""
    for page in hostile:
        hashes = [
            "'sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() + "'" for s in page.scripts
        ]
        directives = dict(part.strip().split(" ", 1) for part in page.policy.split(";"))
        assert sorted(directives["script-src"].split()) == sorted(hashes[1:])
        assert directives["default-src"] == "'none'"
        kinds = [attributes.get("type") for tag, attributes in page.tags if tag == "script"]
        assert kinds == ["application/json", None, None]


def test_no_address_outside_the_page(hostile: list[Page], plain: Page) -> None:
    """Nothing is fetched: no link leaves the page, and outside plotly's own code there is no address at all."""
    for page in [*hostile, plain]:
        for tag, attributes in page.tags:
            for name in ("src", "href", "action", "data", "poster", "srcset"):
                assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
        rest = page.raw.replace(page.scripts[1], "")
        assert not re.search(r"https?:|//[a-z]|url\(|@import|\bimport\(", rest.replace("chrome://tracing", ""))
        assert "fetch(" not in page.scripts[2] and "XMLHttpRequest" not in page.scripts[2]


def test_plotly_is_there_once_and_the_rest_is_small(plain: Page) -> None:
    library = len(get_plotlyjs())
    assert abs(len(plain.scripts[1]) - library) < 100
    assert len(plain.raw) - library < 300_000


def test_every_metric_is_drawn_also_one_without_a_title(tmp_path: Path) -> None:
    page = Page(write_report(write_run(tmp_path / "run", extra={"strange/metric": 3.0, "score/new/mean": 1.0})))
    for name in ("strange/metric", "score/new/mean", "reward/mean", "kl/token", "lr/actor"):
        assert name in page.words
    assert "Other" in page.words
    assert "m-strange/metric" in page.specs


def test_charts_are_valid_plotly_and_each_has_its_place(plain: Page, hostile: list[Page]) -> None:
    for page in [plain, *hostile]:
        places = [a["data-chart"] for tag, a in page.tags if tag == "div" and "data-chart" in a]
        assert sorted(places) == sorted(page.specs)
        for spec in page.specs.values():
            go.Figure(spec)
        labels = [a for tag, a in page.tags if tag == "div" and "data-chart" in a]
        assert all(a["role"] == "img" and len(a["aria-label"] or "") > 20 for a in labels)


def test_the_curve_is_the_file(plain: Page) -> None:
    trace = plain.specs["m-score/truth/mean"]["data"][0]  # type: ignore[index]
    assert trace["x"] == list(range(1, 13)) and trace["y"][-1] == pytest.approx(1.0, abs=0.02)


def test_parts_of_a_finished_run(plain: Page) -> None:
    for text in (
        "city-1",
        "Finished: 12 iterations",
        "Reward rose",
        "rose together",
        "Before and after",
        "austin is sunny .",
        "abstained: no opinion",
        "runs/pretrain-1@best",
        "beta = 0.1",
        "train_actor",
        "Timeline",
    ):
        assert text in plain.words, text
    ids = [a["id"] for _, a in plain.tags if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for tag, a in plain.tags if tag == "a" and a.get("href")]  # type: ignore[index]
    assert set(targets) <= set(ids)


@pytest.mark.parametrize("missing", ["recipe.toml", "lineage.json", "samples.jsonl", "timeline.json", "status.json"])
def test_a_missing_file_leaves_the_rest(missing: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / missing).unlink()
    page = Page(write_report(folder))
    assert "Reward rose" in page.words
    if missing == "status.json":
        assert "No word on how it ended" in page.words


@pytest.mark.parametrize(
    "torn",
    ["recipe.toml", "lineage.json", "samples.jsonl", "timeline.json", "status.json", "metrics.jsonl", "eval.json"],
)
@pytest.mark.parametrize("how", ["cut", "bytes", "list", "empty", "folder"])
def test_a_torn_file_leaves_the_rest(torn: str, how: str, tmp_path: Path) -> None:
    """The page is written after any crash, and says what it could not read."""
    folder = write_run(tmp_path / "run")
    path = folder / torn
    if torn == "eval.json":
        path.write_text('{"pass@1": {"before": 0.1, "after": 0.4, "interval": [0.3, 0.5]}}')
    whole = path.read_bytes()
    if how == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes({"cut": whole[:-8], "bytes": b"\xff\xfe\x00", "list": b"[1, null, {}]\n", "empty": b""}[how])
    page = Page(write_report(folder))
    if torn == "metrics.jsonl" and how != "cut":
        assert "No metrics" in page.words
    else:
        assert "Reward rose" in page.words
    if how in ("cut", "bytes"):
        assert "What could not be read" in page.words


def test_an_empty_folder_still_gives_a_page(tmp_path: Path) -> None:
    page = Page(write_report(tmp_path))
    assert "No word on how it ended" in page.words and "metrics.jsonl is missing" in page.words


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no run folder"):
        write_report(tmp_path / "nothing")
    with pytest.raises(InputError, match="at least one run"):
        write_comparison({}, tmp_path / "x.html", title="x")


def test_wrong_types_in_every_field_are_survived(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    odd: list[object] = [None, True, "x", [1], {"a": 1}, 10**400, -1, 1e308, "\ud800"]
    names = ["iteration", "kept", "prompt", "completion", "reward", "scores", "kl", "finish", "tokens"]
    lines = [{"iteration": 1, "kept": "spread", "reward": 1.0, name: value} for name in names for value in odd]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    metrics = [{"iteration": value, "reward/mean": value, "x": value} for value in odd]
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in metrics)
    (folder / "status.json").write_text(json.dumps({"state": ["running"], "reason": {"a": None}}))
    (folder / "eval.json").write_text(json.dumps(odd[:-1]))
    page = Page(write_report(folder))
    assert "Samples" in page.words
    for spec in page.specs.values():
        go.Figure(spec)


def test_a_long_run_gives_a_bounded_page(tmp_path: Path) -> None:
    """Fault O2: 20,000 iterations and as many samples are thinned; the last iteration stays."""
    folder = write_run(tmp_path / "run")
    with (folder / "metrics.jsonl").open("w") as file:
        file.writelines(f'{{"iteration": {k}, "reward/mean": {k / 20000}, "kl/token": 0.1}}\n' for k in range(1, 20001))
    with (folder / "samples.jsonl").open("w") as file:
        row = {"kept": "extreme", "completion": "word " * 600, "reward": 1.0}
        file.writelines(json.dumps({"iteration": k, **row}) + "\n" for k in range(1, 4001))
    page = Page(write_report(folder))
    x = page.specs["m-reward/mean"]["data"][-1]["x"]  # type: ignore[index]
    assert 1000 < len(x) <= 4001 and x[0] == 1 and x[-1] == 20000
    assert "one in" in page.words and "more characters" in page.words
    assert len(page.raw) - len(page.scripts[1]) < 2_000_000


def test_rewriting_keeps_the_old_page_until_the_new_one_is_whole(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert sorted(p.name for p in folder.glob("*report*")) == ["report.html"]
