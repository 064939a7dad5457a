"""A system message for all rows of a file: it reaches the policy, or is refused before anything is drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.models.language import load_language
from ropewalk.records.errors import InputError
from ropewalk.records.files import read_jsonl
from ropewalk.records.prompt import Message
from ropewalk.runtime.assemble import asked_task
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.look.words import system_fault
from ropewalk.runtime.recipe import Recipe, load_recipe
from ropewalk.runtime.run import create_run
from ropewalk.runtime.train import run_recipe
from tests.models.folders import policy_folder

SYSTEM = "Be brief."
TURNS = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<turn>{% endfor %}"
OPENS = "{% if add_generation_prompt %}assistant: {% endif %}"
DROPPING = "{% for m in messages if m['role'] != 'system' %}{{ m['content'] }}<turn>{% endfor %}" + OPENS
REFUSING = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + TURNS + OPENS
FOLDED = (  # as Mistral's: the system message opens the first turn of the user
    "{% set told = messages[0]['role'] == 'system' %}{% for m in messages[1 if told else 0:] %}"
    "{% if loop.first and told %}{{ messages[0]['content'] }} {% endif %}"
    "{{ 'assistant: ' if m['role'] == 'assistant' }}{{ m['content'] }}<turn>{% endfor %}" + OPENS
)
TEMPLATES: dict[str, tuple[str | None, str | None]] = {
    "good": (TURNS + OPENS, None),
    "folded": (FOLDED, None),
    "dropping": (DROPPING, "drops"),
    "refusing": (REFUSING, "refuses"),
    "none": (None, "has no chat template|is missing"),
}
"""By name: a template, and what is wrong with it; none is a model that hears no messages."""
ROWS = [
    {"prompt": f"{n} + 5 =", "gold": str(n + 5), "completion": str(n), "chosen": "1", "rejected": "2"}
    for n in range(20)
]
ROWS = [{**row, "steps": ["a", "b"], "labels": [0, 1]} for row in ROWS]
METHODS: dict[str, dict[str, Any]] = {
    "grpo": {"task": {"kind": "prompts"}, "rollout": {"prompts": 2, "group_size": 2}, "stop": {"iterations": 1}},
    "sft": {"data": {"kind": "demonstrations"}},
    "reward_model": {},
    "process_reward_model": {},
}
FEW = {"sampling": {"max_new_tokens": 2}, "record": {"samples_every": 1}, "health": {"zero_gradient": "warn"}}


def recipe(tmp_path: Path, method: str, template: str | None, **data: Any) -> Recipe:
    folder = policy_folder(tmp_path / "policy")
    (folder / "chat_template.jinja").unlink()
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    content: dict[str, Any] = {**METHODS[method], **(FEW if method == "grpo" else {})}
    content["data"] = {**content.get("data", {}), "path": str(tmp_path / "rows.jsonl"), "system": SYSTEM, **data}
    start = {"method": method, "model": {"kind": "folder", "path": str(folder)}, "hardware": {"threads": 1}}
    return load_recipe({**start, **content})


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("method", METHODS)
def test_a_look_and_a_run_agree_on_who_can_be_given_a_system_message(tmp_path: Path, method: str, name: str) -> None:
    """Faults F1, Q3: a template that drops it in silence is refused like one that says so, by both."""
    template, fault = TEMPLATES[name]
    given = recipe(tmp_path, method, template)
    problems = dry_run(given).problems
    assert bool(problems) == (fault is not None), problems
    run = create_run(method, out=tmp_path / "run")
    if fault is None:
        run_recipe(given, run)
        return
    assert any(word in problem for word in fault.split("|") for problem in problems)
    with pytest.raises(InputError, match=fault):
        run_recipe(given, run)


def test_what_the_policy_reads_begins_with_it(tmp_path: Path) -> None:
    given: Any = recipe(tmp_path, "grpo", TURNS + OPENS)
    assert all(p.dialogue[0] == Message("system", SYSTEM) for p in asked_task(given).split("train"))
    run = create_run("grpo", out=tmp_path / "run")
    run_recipe(given, run)
    assert all(row["prompt"].startswith(f"system:\n{SYSTEM}\n\nuser:\n") for row in read_jsonl(run.samples_file))
    plain: Any = recipe(tmp_path / "other", "grpo", TURNS + OPENS, system=None)
    for split in ("train", "heldout"):
        assert [p.id for p in asked_task(plain).split(split)] == [p.id for p in asked_task(given).split(split)]


@pytest.mark.real
def test_the_templates_of_real_models_are_told_from_their_files(smollm2: Path) -> None:
    template = str(load_language(smollm2).tokenizer.chat_template)
    assert system_fault(template) is None


def test_a_template_that_needs_what_only_the_run_has_is_left_to_it() -> None:
    for template in ("{{ unknown.of.this }}", "{% generation %}{% endgeneration %}", "{{ messages + 1 }}", "{% if %}"):
        assert system_fault(template) is None
