"""`eval --judge judge.toml`: whose answers a judge of pairs prefers, before or after."""

import shutil
from pathlib import Path

import pytest

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.runtime.evaluation.evaluate import evaluate
from ropewalk.runtime.evaluation.findings import Measure
from tests.fakes import tiny_llama
from tests.models.folders import policy_folder
from tests.runtime.judging.test_runs import by_server, judging, recipe, run
from tests.tasks.judging.judge_server import JudgeServer, Sent, preferring


def judge_file(place: Path, server: JudgeServer, model: str = "another") -> Path:
    by = f'kind = "server"\nbase_url = "{server.url}"\nmodel = "{model}"\nretries = 0\n'
    place.write_text(f'memory = {{ kind = "none" }}\n[by]\n{by}')
    return place


@pytest.fixture(scope="module")
def trained(tiny_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that a judge rewarded, by steps large enough to change what is said."""
    with judging() as server:
        learner = {"optimizer": {"lr": 1e-2}}
        done = run(recipe(tiny_policy, by_server(server), actor=learner), tmp_path_factory.mktemp("eval") / "run")
    return done.folder


def rate_of(folder: Path, judge: Path, place: Path) -> tuple[Measure, dict[str, object]]:
    """The win rate, of a copy of the run."""
    shutil.copytree(folder, place)
    (found,) = evaluate(place, judge=judge, prompts=4, samples=2).sets
    (rate,) = [measure for measure in found.measures if measure.name == "win rate"]
    return rate, dict(found.about)


def test_judges_of_opposite_taste_share_the_wins(trained: Path, tmp_path: Path) -> None:
    rates = []
    for name, sign in (("longer", 1.0), ("shorter", -1.0)):
        with judging(preferring(lambda text, sign=sign: sign * len(text), place=0.9)) as server:
            rate, _ = rate_of(trained, judge_file(tmp_path / f"{name}.toml", server), tmp_path / name)
        rates.append(rate.after.value)
    assert rates[0] + rates[1] == pytest.approx(1.0, abs=1e-6) and rates[0] != rates[1]


def test_an_indifferent_judge_finds_ties(trained: Path, tmp_path: Path) -> None:
    with judging(preferring(lambda _: 0.0)) as server:
        rate, about = rate_of(trained, judge_file(tmp_path / "judge.toml", server), tmp_path / "run")
    assert rate.after.value == 0.5 and about["judge's ties"] == 8


def test_a_judge_of_the_run_may_not_judge_it(trained: Path, tmp_path: Path) -> None:
    with judging() as server:
        own = (trained / "recipe.toml").read_text()
        url = own.partition('base_url = "')[2].partition('"')[0]
        server.url = url
        with pytest.raises(InputError, match="'critic' that the run was rewarded by"):
            evaluate(trained, judge=judge_file(tmp_path / "judge.toml", server, model="judge"))


def test_a_model_of_its_own_judges_too(trained: Path, tmp_path: Path) -> None:
    folder = policy_folder(tmp_path / "speaker", tiny_llama(5, max_positions=4096, std=0.3))
    judge = tmp_path / "judge.toml"
    judge.write_text(f'memory = {{ kind = "none" }}\n[by]\nkind = "model"\npath = "{folder}"\n')
    rate, _ = rate_of(trained, judge, tmp_path / "run")
    assert 0 < rate.after.value < 1


def test_a_judge_that_is_not_there_ends_the_evaluation(trained: Path, tmp_path: Path) -> None:
    with judging(lambda _: Sent(status=500)) as server, pytest.raises(RunStopped, match="500"):
        rate_of(trained, judge_file(tmp_path / "judge.toml", server), tmp_path / "run")


@pytest.mark.parametrize("text", ["", 'kind = "rubric"\n[by]\nmodel = "x"\n', "[by]\n", "[buy]\nmodel = 'x'\n"])
def test_a_file_that_is_no_judge_of_pairs_is_refused(trained: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "judge.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"judge\.toml"):
        evaluate(trained, judge=tmp_path / "judge.toml")
