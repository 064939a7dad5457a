"""An environment of verifiers, found under the name of this module."""

from typing import Any

import verifiers as vf
from datasets import Dataset, disable_progress_bars

disable_progress_bars()


def load_environment(count: int = 12) -> Any:
    rows = [{"question": f"Say {n}.", "answer": str(n)} for n in range(count)]
    data, held = Dataset.from_list(rows), Dataset.from_list([{"question": f"Say -{n}."} for n in range(1, 5)])
    return vf.SingleTurnEnv(dataset=data, eval_dataset=held, rubric=vf.Rubric(funcs=[lambda completion: 0.0]))
