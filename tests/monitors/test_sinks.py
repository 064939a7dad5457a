"""Each sink keeps what it is given, offline."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk.monitors.config import Tensorboard, Trackio, Wandb
from ropewalk.monitors.sinks.jsonl import JsonlSink
from ropewalk.monitors.sinks.open import open_sinks
from ropewalk.monitors.sinks.tensorboard import TensorboardSink
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric

METRICS = {"reward/mean": Metric.mean(3.0, 2), "length/max": Metric.max(7), "kl/token": Metric.mean(0, 0)}


def test_a_line_holds_the_moment_and_the_values(tmp_path: Path) -> None:
    """Fault P1: the value of a mean is its sum over its count; a mean over nothing is null."""
    sink = JsonlSink(tmp_path / "metrics.jsonl")
    sink.write(8, METRICS, iteration=2, time_seconds=1.25)
    sink.close()
    sink.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "iteration": 2,
        "step": 8,
        "time_seconds": 1.25,
        "reward/mean": 1.5,
        "length/max": 7.0,
        "kl/token": None,
    }


def test_a_resumed_sink_appends(tmp_path: Path) -> None:
    for iteration in (1, 2):
        sink = JsonlSink(tmp_path / "metrics.jsonl")
        sink.write(iteration, METRICS, iteration=iteration, time_seconds=0)
        sink.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [1, 2]


def test_tensorboard_reads_back_what_was_written(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    sinks = open_sinks([Tensorboard(folder="events")], tmp_path)
    assert [type(sink) for sink in sinks] == [JsonlSink, TensorboardSink]
    for sink in sinks:
        for iteration in (1, 2):
            sink.write(4 * iteration, METRICS, iteration=iteration, time_seconds=0.5)
        sink.close()
    (file,) = (tmp_path / "events").iterdir()
    found = [
        (event.step, value.tag, value.tensor.float_val[0])
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]
    assert sorted(found) == sorted(
        (iteration, tag, value)
        for iteration in (1, 2)
        for tag, value in (("step", 4.0 * iteration), ("reward/mean", 1.5), ("length/max", 7.0))
    )


def test_no_sink_needs_torch(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from ropewalk.monitors.config import Tensorboard\n"
        "from ropewalk.monitors.sinks.open import open_sinks\n"
        "import ropewalk.monitors.report.page\n"
        "open_sinks([Tensorboard()], pathlib.Path(sys.argv[1]))[1].close()\n"
        "sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)]).returncode == 0


@pytest.mark.parametrize(
    ("package", "config"), [("tensorboard", Tensorboard()), ("wandb", Wandb()), ("trackio", Trackio())]
)
def test_a_missing_package_is_one_sentence_with_the_extra(
    package: str, config: Tensorboard | Wandb | Trackio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package}.* pip install 'ropewalk\[sinks\]'"):
        open_sinks([config], tmp_path)


RUN_SINK = """
import json, pathlib, sys
from ropewalk.monitors.config import Trackio, Wandb
from ropewalk.monitors.sinks.open import open_sinks
from ropewalk.records.metric import Metric
kind, folder, iterations = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
sink = open_sinks([Wandb() if kind == "wandb" else Trackio(project="p")], folder)[1]
for iteration in iterations:
    sink.write(4 * iteration, {"reward/mean": Metric.mean(3, 2), "bad": Metric.mean(0, 0)}, iteration=iteration,
               time_seconds=0.5)
sink.close()
sink.close()
"""


def run_sink(kind: str, folder: Path, iterations: list[int]) -> str:
    """Write through a sink in a process without network (where the system can take it away); what it printed."""
    environment = {**os.environ, "TRACKIO_DIR": str(folder / "trackio"), "HOME": str(folder)}
    isolated = ["unshare", "-rn"]
    can_isolate = shutil.which("unshare") and subprocess.run([*isolated, "true"], capture_output=True).returncode == 0
    command = [
        *(isolated if can_isolate else []),
        sys.executable,
        "-W",
        "ignore",
        "-c",
        RUN_SINK,
        kind,
        str(folder),
        json.dumps(iterations),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_wandb_stays_on_this_machine(tmp_path: Path) -> None:
    assert run_sink("wandb", tmp_path, [1, 2]) == ""
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    assert list(run.glob("*.wandb"))


@pytest.mark.slow
def test_trackio_keeps_and_continues_a_local_run(tmp_path: Path) -> None:
    folder = tmp_path / "city-1"
    folder.mkdir()
    assert run_sink("trackio", folder, [1, 2]) == ""
    assert run_sink("trackio", folder, [3]) == ""
    (database,) = (folder / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        found = connection.execute("select run_name, step, metrics from metrics order by step").fetchall()
    connection.close()
    assert [(name, step) for name, step, _ in found] == [("city-1", 1), ("city-1", 2), ("city-1", 3)]
    assert all(json.loads(metrics)["reward/mean"] == 1.5 and "bad" not in json.loads(metrics) for *_, metrics in found)


def test_wandb_and_trackio_are_optional_imports() -> None:
    """Importing the sinks imports none of the packages behind them."""
    script = (
        "import sys\n"
        "import ropewalk.monitors.sinks.open\n"
        "sys.exit(any(name in sys.modules for name in ('wandb', 'trackio', 'tensorboard')))\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
