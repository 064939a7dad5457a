"""Tasks from files: rows with gold numbers, GSM8K, and a user's own Python file."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.records.score import Score
from ropewalk.tasks.config import FileTask, Gsm8kTask, PromptsTask
from ropewalk.tasks.files import task_from_file
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.numbers import parse_gold
from ropewalk.tasks.scoring.run import score_sample
from tests.tasks.samples import sample


def problems(count: int, start: int = 0, answer: str = "Step one.\nStep two.\n#### {}") -> list[dict[str, str]]:
    return [
        {"question": f"Ann has {n} pears and buys {n}. How many?", "answer": answer.format(f"{2 * n:,}")}
        for n in range(start, start + count)
    ]


def write(file: Path, rows: Sequence[object]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


def test_gsm8k_from_a_folder_keeps_the_given_split(tmp_path: Path) -> None:
    write(tmp_path / "gsm8k_train.jsonl.gz", problems(600))
    write(tmp_path / "gsm8k_test.jsonl", problems(3, start=600))
    task = load_task(Gsm8kTask(instruction="End with #### number."), tmp_path)
    assert (len(task.split("train")), len(task.split("heldout"))) == (600, 3)
    prompt = task.split("train")[599]
    assert prompt.dialogue == (Message("user", "Ann has 599 pears and buys 599. How many?\nEnd with #### number."),)
    assert parse_gold(prompt.gold) == 1198
    scored = score_sample(task, prompt, sample("599 * 2 = 1198\n#### 1,198"))
    assert scored.scores == {"correct": Score(1)}
    assert task.solved(scored.scores[task.main_scorer])


def test_gsm8k_from_one_file_finds_its_neighbour_or_holds_rows_out(tmp_path: Path) -> None:
    train = write(tmp_path / "gsm8k_train.jsonl", problems(40))
    alone = load_task(Gsm8kTask(), train)
    assert len(alone.split("train")) + len(alone.split("heldout")) == 40
    write(tmp_path / "gsm8k_test.jsonl", problems(5, start=100))
    assert len(load_task(Gsm8kTask(), train).split("heldout")) == 5


def test_a_test_problem_that_is_also_trained_on_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", problems(10))
    write(tmp_path / "test.jsonl", problems(3, start=8))
    task = load_task(Gsm8kTask(), tmp_path)
    assert len(task.split("heldout")) == 1
    assert [reason for _, reason in task.refused] == ["it is also a training problem"] * 2


def test_the_place_of_the_answer_is_the_recipe_s_choice(tmp_path: Path) -> None:
    """Fault G7: the lenient reading is reachable, and so is the strict one."""
    file = write(tmp_path / "train.jsonl", problems(20))
    for answer, expected in (("anywhere", 1.0), ("marked", 0.0)):
        task = load_task(Gsm8kTask(answer=answer), file)  # type: ignore[arg-type]
        prompt = task.split("train")[0]
        assert score_sample(task, prompt, sample(f"It is {prompt.gold}")).scores["correct"] == Score(expected)


def test_a_broken_gold_is_refused_with_its_row(tmp_path: Path) -> None:
    """Fault G10: one good and one broken gold: one prompt, one refusal with file and line."""
    rows = [{"prompt": "2 + 3 =", "gold": 5}, {"prompt": "1 / 2 =", "gold": "\\frac{1}{"}, {"prompt": "3 / 4 ="}]
    file = write(tmp_path / "mine.jsonl", [*rows, {"prompt": "3 - 4 =", "gold": "-1"}])
    task = load_task(PromptsTask(), file)
    assert {p.dialogue for split in ("train", "heldout") for p in task.split(split)} == {"2 + 3 =", "3 - 4 ="}
    assert [where.rpartition("/")[2] for where, _ in task.refused] == ["mine.jsonl line 2", "mine.jsonl line 3"]
    assert "is no number" in task.refused[0][1]
    assert "is missing" in task.refused[1][1]
    assert task.name == "mine"


def test_a_file_of_broken_golds_is_refused(tmp_path: Path) -> None:
    """Fault G10."""
    file = write(tmp_path / "bad.jsonl", [{"prompt": "1 / 2 =", "gold": "\\frac{1}{"}])
    with pytest.raises(InputError, match="has no usable row"):
        load_task(PromptsTask(), file)
    with pytest.raises(InputError, match="has no usable row"):
        load_task(Gsm8kTask(), write(tmp_path / "q.jsonl", problems(2, answer="no mark {}")))


@pytest.mark.parametrize("config", [Gsm8kTask(), PromptsTask()])
def test_a_task_without_a_place_for_its_rows_says_so(config: Gsm8kTask | PromptsTask) -> None:
    with pytest.raises(InputError, match=r"set data\.path"):
        load_task(config)


def test_missing_and_empty_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no GSM8K train file"):
        load_task(Gsm8kTask(), tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        load_task(Gsm8kTask(), tmp_path / "nowhere.jsonl")


MINE = """
from ropewalk.records.score import Score
from ropewalk.tasks.task import Task

def brevity(prompt, sample):
    return -len(sample.text)

TASK = Task(name="short", prompts=["Name a fruit.", "Name a tree.", "Name a bird."], scorers={"reward": brevity})
"""


def test_a_task_of_ones_own_is_a_few_lines(tmp_path: Path) -> None:
    assert len(MINE.strip().splitlines()) <= 15
    (tmp_path / "my_task.py").write_text(MINE)
    task = load_task(FileTask(path=str(tmp_path / "my_task.py")))
    assert score_sample(task, task.split("train")[0], sample("pear")).scores == {"reward": Score(-4)}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("TASK = 3", "defines TASK as a int"),
        ("TASKS = 3", "does not define TASK"),
        ("import no_such_module_anywhere", "fails with ModuleNotFoundError"),
        ("def broken(:", "fails with SyntaxError"),
        ("raise SystemExit(0)", "fails with SystemExit: 0"),
        ("1 / 0", "fails with ZeroDivisionError: division by zero"),
    ],
)
def test_a_task_file_that_does_not_work_is_named(text: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(InputError, match=f"mine.py {part}"):
        task_from_file(file)


def test_a_task_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no task file"):
        task_from_file(tmp_path / "mine.py")
    (tmp_path / "mine.txt").write_text(MINE)
    with pytest.raises(InputError, match="is not a Python file"):
        task_from_file(tmp_path / "mine.txt")


SPELLINGS = ("{0}", "{0:,}", "${0:,}", "{0}.0", "{0:,}.", "{0} %")


@pytest.mark.slow
@pytest.mark.data
def test_every_gold_of_gsm8k_is_itself_in_every_spelling_and_no_other(public_data: Path) -> None:
    """Fault G10, on all rows: each is kept, and equal golds are exactly the equal numbers."""
    task = load_task(Gsm8kTask(), public_data)
    assert (len(task.split("train")), len(task.split("heldout")), task.refused) == (7473, 1319, ())
    golds = {str(p.gold) for split in ("train", "heldout") for p in task.split(split)}
    assert len({parse_gold(gold) for gold in golds}) == len({int(gold) for gold in golds})
    for gold in golds:
        for spelling in SPELLINGS:
            assert parse_gold(spelling.format(int(gold))) == int(gold), spelling
