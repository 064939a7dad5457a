"""GSM8K (Cobbe et al. 2021): grade-school word problems whose gold answer is one number after `####`."""

from dataclasses import replace
from pathlib import Path

from ropewalk.data.config import RowFile
from ropewalk.data.read import ReadReport, Rows
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.config import Gsm8kTask
from ropewalk.tasks.files import gold_prompts
from ropewalk.tasks.scoring.maths.policy import GSM8K
from ropewalk.tasks.scoring.maths.scorer import MathScorer
from ropewalk.tasks.scoring.numbers import NumberScorer
from ropewalk.tasks.task import HELDOUT, TRAIN, AtOnce, PromptSource, Scorer, Task

_ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


def gsm8k_task(config: Gsm8kTask, rows: Rows) -> Task:
    """The problems in a folder (its train and test files) or in one file.

    With a train file alone, its neighbour named test is held out; without one, a tenth of the rows are.
    """
    source = rows if isinstance(rows, RowFile) else RowFile(path=str(rows))
    train_file, test_file = _files(Path(source.path))
    train, report = _problems(config, _of(source, train_file))
    refused = report.refused
    prompts: PromptSource = train
    if test_file is not None:
        known = {prompt.id for prompt in train}
        test, test_report = _problems(config, _of(source, test_file))
        refused += test_report.refused
        refused += tuple((str(test_file), "it is also a training problem") for p in test if p.id in known)
        prompts = {TRAIN: train, HELDOUT: [prompt for prompt in test if prompt.id not in known]}
    return Task(name="gsm8k", prompts=prompts, scorers={"correct": _scorer(config)}, refused=refused)


def _scorer(config: Gsm8kTask) -> Scorer:
    return AtOnce(MathScorer(GSM8K) if config.answer == "maths" else NumberScorer(config.answer))


def _files(path: Path) -> tuple[Path, Path | None]:
    if path.is_dir():
        train, test = _named(path, "train"), _named(path, "test")
        if train is None:
            raise InputError(f"folder {path} has no GSM8K train file: name one such as gsm8k_train.jsonl in it")
        return train, test
    beside = path.with_name(path.name.replace("train", "test"))
    return path, beside if beside != path and beside.is_file() else None


def _named(folder: Path, split: str) -> Path | None:
    names = [f"{prefix}{split}{ending}" for prefix in ("gsm8k_", "") for ending in _ENDINGS]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _of(source: RowFile, file: Path) -> RowFile:
    """The source, of one file."""
    return source.model_copy(update={"path": str(file)})


def _problems(config: Gsm8kTask, rows: RowFile) -> tuple[list[Prompt], ReadReport]:
    prompts, report = gold_prompts(rows)
    return [_asked(config, prompt) for prompt in prompts], report


def _asked(config: Gsm8kTask, prompt: Prompt) -> Prompt:
    """The problem with the instruction below it."""
    if isinstance(prompt.dialogue, str):
        return replace(prompt, dialogue=f"{prompt.dialogue}\n{config.instruction}")
    *earlier, last = prompt.dialogue
    return replace(prompt, dialogue=(*earlier, Message(last.role, f"{last.content}\n{config.instruction}")))
