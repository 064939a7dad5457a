"""What holds for every test: one compute thread, seeds that are printed and can be pinned, honest skips.

In the full tier (`--strict-real`) a skip is a failure: a part that is missing there has not been tested. Only the
public data sets cannot be made from the checkout; without them their tests are deselected, and the header says so.
"""

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

# Set before torch is imported anywhere: two busy test workers must not fight over two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# The workers of one session inherit this, so that all of them collect the same grid.
os.environ.setdefault("ROPEWALK_TEST_SEED", str(secrets.randbelow(1_000_000)))

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ROPEWALK_DATA") or ROOT.parent / "shared" / "data")

# How long an example takes says how busy the machine is: it is no property of a test.
hypothesis.settings.register_profile(
    "fast",
    deadline=None,
    database=None,
    print_blob=True,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("full", hypothesis.settings.get_profile("fast"), max_examples=150)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-real", action="store_true", help="the full tier: a skipped test is a failure")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # Started in a shell's background, where Ctrl-C is ignored: the programs under test would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("full" if config.getoption("--strict-real") else "fast")
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = os.environ["ROPEWALK_TEST_SEED"]


def pytest_report_header() -> list[str]:
    seed = os.environ["ROPEWALK_TEST_SEED"]
    data = DATA if DATA.is_dir() else f"none in {DATA}, its tests are deselected (name a folder in ROPEWALK_DATA)"
    return [f"sampled grids: seed {seed} (repeat with ROPEWALK_TEST_SEED={seed})", f"public data: {data}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    absent = [] if DATA.is_dir() else [item for item in items if item.get_closest_marker("data")]
    if absent and os.environ.get("ROPEWALK_DATA"):
        raise pytest.UsageError(f"ROPEWALK_DATA names {DATA}, which is no folder")
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes never become part of a test's name: two workers must collect the same names, and what a compressor or a
    clock wrote may differ from one to the next."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def grid_seed() -> int:
    """Seed of whatever the fast tier samples from a large grid; printed in the header."""
    return int(os.environ["ROPEWALK_TEST_SEED"])


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Folder of the public data sets; tests that take it carry the mark `data`."""
    return DATA


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Folder of the small real model; tests that take it carry the mark `real`."""
    folder = Path(os.environ.get("ROPEWALK_SMOLLM2") or ROOT / ".cache" / "smollm2-135m")
    if not (folder / "model.safetensors").is_file():
        pytest.skip(f"no model in {folder}: run `make smollm2`, or name a folder in ROPEWALK_SMOLLM2")
    return folder


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped in the full tier, where every part must be present: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if item.config.getoption("--strict-real"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    if collector.config.getoption("--strict-real"):
        _refuse_skip(report)
    return report
