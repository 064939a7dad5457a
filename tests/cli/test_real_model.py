"""The real model on problems of GSM8K's shape: it trains, is stopped, resumes, is evaluated and chats."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from ropewalk.runtime.run import Run
from tests.cli.commands import Command
from tests.cli.test_interrupt import interrupted, lines

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_word_problems_from_training_to_chat(ropewalk: Command, smollm2: Path, tmp_path: Path) -> None:
    rows = [
        {"question": f"Tom has {n} apples and buys 2 more. How many now?", "answer": f"#### {n + 2}"} for n in range(30)
    ]
    data = tmp_path / "gsm8k_train.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    settings = {"model.path": smollm2, "data.path": data, "rollout.prompts": 2, "rollout.group_size": 4}
    # A signal that comes while an iteration is saved ends the next one: with three there is always one left to resume.
    settings |= {"sampling.max_new_tokens": 12, "stop.iterations": 3}
    words = ["train", "grpo-gsm8k", "--out", str(run), *(f"--set={key}={value}" for key, value in settings.items())]
    said = interrupted(words, tmp_path, signal.SIGTERM, lambda: lines(run) >= 1)
    assert "--resume" in said
    assert ropewalk("train", "--resume", run).code == 0
    assert [row["iteration"] for row in Run(run).metrics()] == [1, 2, 3]
    told = ropewalk("eval", run, "--prompts", 2, "--samples", 1)
    assert told.code in (0, 3), told
    assert "correct" in told.out
    chat = subprocess.run(
        [sys.executable, "-m", "ropewalk", "chat", str(run), "--max-new-tokens", "4", "--temperature", "0"],
        input="What is the capital of France?\n",
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=200,
        check=False,
    )
    assert chat.returncode == 0, chat.stderr
    assert "The capital of France" in chat.stdout
    model = AutoModelForCausalLM.from_pretrained(run / "model")
    assert model.get_input_embeddings().weight.shape[0] == 49152
    assert "model.embed_tokens.weight" in load_file(run / "model" / "model.safetensors")
