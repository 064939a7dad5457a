"""What a dry run says of conversations: whether the model's chat template can put them, system messages among them.

The template is rendered as transformers renders it, as far as that goes without it; what only a loaded tokenizer knows
is left to the run.
"""

from collections.abc import Iterable
from datetime import datetime

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ropewalk.records.prompt import Dialogue
from ropewalk.runtime.look.folders import ModelFacts
from ropewalk.runtime.look.look import Look

_SAID = "Answer as the system asks."
_UNTOLD = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""A template is a program: what it lacks here, the run's tokenizer may give it."""


class _Refused(TemplateError):
    """The template itself refuses a conversation."""


def look_at_words(model: ModelFacts | None, what: str, dialogues: Iterable[Dialogue], found: Look) -> None:
    """Whether these can be put to the model."""
    spoken = [dialogue for dialogue in dialogues if not isinstance(dialogue, str)]
    if model is None or not spoken:
        return
    if not model.speaks:
        found.problem(f"{model.folder} has no chat template and the {what} are conversations: take a chat model")
        return
    if any(dialogue[0].role == "system" for dialogue in spoken):
        fault = system_fault(model.template)
        if fault is not None:
            found.problem(
                f"the chat template of {model.folder} {fault}, and the {what} have one: leave the system message out, "
                "or take another chat_template.jinja"
            )


def system_fault(template: str) -> str | None:
    """What a template does with a system message instead of putting it; None where it does, or cannot be told."""
    world = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    world.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    turns = [{"role": "system", "content": _SAID}, {"role": "user", "content": "?"}]
    try:
        text = world.from_string(template).render(messages=turns, add_generation_prompt=True)
    except _Refused as refusal:
        return f"refuses a system message ({refusal})"
    except _UNTOLD:
        return None
    return None if _SAID in text else "drops a system message"


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _refuse(message: object) -> None:
    raise _Refused(str(message))
