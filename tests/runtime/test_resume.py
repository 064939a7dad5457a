"""A resumed run is the uninterrupted run, bit for bit: wherever it was stopped, and however."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.errors import Interrupted
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train
from tests.runtime.runs import (
    CASES,
    ITERATIONS,
    At,
    Crash,
    Starts,
    differences,
    resumed,
    run_killed,
    settings_of,
    stopped_at,
    story,
)


@pytest.fixture(scope="session")
def starts(tiny_policy: Path, tiny_pairs: Path, tiny_reward_model: Path) -> Starts:
    return Starts(tiny_policy, tiny_pairs, tiny_reward_model)


@pytest.fixture(scope="session")
def whole(starts: Starts, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The story of every case's uninterrupted run."""
    root = tmp_path_factory.mktemp("whole")
    stories = {}
    for case in CASES:
        recipe, settings = settings_of(case, starts)
        stories[case] = story(train(recipe, set=settings, out=root / case))
        assert [row["iteration"] for row in stories[case]["metrics"]] == [*range(1, ITERATIONS + 1)], case
    return stories


def check(case: str, out: Path, whole: dict[str, dict[str, Any]]) -> None:
    found = differences(story(Run(out)), whole[case])
    assert not found, f"{case} differs in {found}"


def test_one_seed_is_one_run_and_another_is_another(
    tmp_path: Path, starts: Starts, whole: dict[str, dict[str, Any]], grid_seed: int
) -> None:
    """Fault I5 for one method of those below; every resume compares two runs of one seed, too."""
    check_seeds(random.Random(grid_seed).choice([*CASES]), tmp_path, starts, whole)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_one_seed_is_one_run_and_another_is_another_in_every_method(
    tmp_path: Path, case: str, starts: Starts, whole: dict[str, dict[str, Any]]
) -> None:
    """Fault I5: two runs with one seed are bit-equal; with another seed everything drawn is different."""
    check_seeds(case, tmp_path, starts, whole)


def check_seeds(case: str, tmp_path: Path, starts: Starts, whole: dict[str, dict[str, Any]]) -> None:
    recipe, settings = settings_of(case, starts)
    train(recipe, set=settings, out=tmp_path / "again")
    check(case, tmp_path / "again", whole)
    other = story(train(recipe, set={**settings, "seed": 1}, out=tmp_path / "other"))
    assert other["weights of model"] != whole[case]["weights of model"]
    assert other["metrics"][0] != whole[case]["metrics"][0]


@pytest.mark.parametrize("case", CASES)
def test_resume_is_the_uninterrupted_run(
    tmp_path: Path, case: str, starts: Starts, whole: dict[str, dict[str, Any]], grid_seed: int
) -> None:
    """Faults I1, I5: stopped after iteration k, which may be saved, or lost since the last save."""
    k, act = random.Random(f"{grid_seed}{case}").choice(GRID)
    stopped_at(settings_of(case, starts), tmp_path / "run", k, act)
    resumed(tmp_path / "run")
    check(case, tmp_path / "run", whole)


GRID = [(k, act) for act in ("crash", "signal") for k in range(1, ITERATIONS + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("k", "act"), GRID)
@pytest.mark.parametrize("case", CASES)
def test_resume_is_the_uninterrupted_run_for_every_k(
    tmp_path: Path, case: str, k: int, act: str, starts: Starts, whole: dict[str, dict[str, Any]]
) -> None:
    """Faults I1, I5: in full."""
    stopped_at(settings_of(case, starts), tmp_path / "run", k, act)
    resumed(tmp_path / "run")
    check(case, tmp_path / "run", whole)


def test_a_run_stopped_again_and_again_is_still_the_same(
    tmp_path: Path, starts: Starts, whole: dict[str, dict[str, Any]]
) -> None:
    """Fault I1: no iteration is lost or repeated however often a run is ended."""
    stopped_at(settings_of("ppo-adaptive", starts), tmp_path / "run", 1, "signal")
    for k, act in ((2, "crash"), (3, "signal"), (4, "crash"), (5, "crash"), (5, "signal")):
        with pytest.raises((Crash, Interrupted)):
            train("", resume=tmp_path / "run", progress=At(k, act))
    resumed(tmp_path / "run")
    check("ppo-adaptive", tmp_path / "run", whole)


def check_killed(case: str, out: Path, kill_at: int, starts: Starts, whole: dict[str, dict[str, Any]]) -> None:
    asked = settings_of(case, starts)
    run_killed(asked, out, kill_at)
    if (out / "recipe.toml").exists():
        resumed(out)
    else:  # nothing was begun: the same command works again
        train(asked[0], set=asked[1], out=out)
    check(case, out, whole)


@pytest.fixture(scope="session")
def changes(starts: Starts, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], int]:
    """How often a case's run changes its folder."""
    root, known = tmp_path_factory.mktemp("changes"), dict[str, int]()

    def count(case: str) -> int:
        if case not in known:
            known[case] = run_killed(settings_of(case, starts), root / case, None)
        return known[case]

    return count


def test_a_process_killed_at_any_change_of_a_file_resumes(
    tmp_path: Path,
    starts: Starts,
    whole: dict[str, dict[str, Any]],
    changes: Callable[[str], int],
    grid_seed: int,
) -> None:
    """Fault I3: SIGKILL at a random one of a run's changes of files, in the middle of saves and marks too."""
    choice = random.Random(grid_seed)
    for number in range(2):
        check_killed("grpo", tmp_path / str(number), choice.randrange(changes("grpo")), starts, whole)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
@pytest.mark.parametrize("case", ["grpo", "sft"])
def test_a_process_killed_at_many_changes_of_files_resumes(
    tmp_path: Path,
    case: str,
    part: int,
    starts: Starts,
    whole: dict[str, dict[str, Any]],
    changes: Callable[[str], int],
    grid_seed: int,
) -> None:
    """Fault I3: evenly over the run."""
    step = changes(case) / 16
    kill_at = int(part * step + random.Random(f"{grid_seed}{part}").random() * step)
    check_killed(case, tmp_path / "run", kill_at, starts, whole)
