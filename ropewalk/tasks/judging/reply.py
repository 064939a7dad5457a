"""Reads what an OpenAI-compatible server sends back: text, and the log-probs at the place of the verdict. Pure.

Without reasons the verdict is the first token. After reasons it is the letter behind the last cue (`Verdict: A`).
"""

import math
import re
from typing import Any

from ropewalk.records.errors import InputError
from ropewalk.records.files import parse_json
from ropewalk.records.score import Failed
from ropewalk.tasks.judging.question import Answer, Question

_CUT = ("length", "content_filter")


def read_reply(body: bytes, question: Question, *, logprobs: bool) -> Answer | Failed:
    """The answer in a body of JSON; `Failed("unparsable")` for whatever is not one."""
    try:
        choice = parse_json(body, "the server's answer")["choices"][0]
        text = choice["message"]["content"]
        whole = choice.get("finish_reason") not in _CUT
        if text is None and choice["message"].get("refusal"):
            return Failed("refused", ascii(choice["message"]["refusal"])[:160])
        if not isinstance(text, str):
            return Failed("unparsable", "the server's answer has no text")
        if not question.candidates or not logprobs:
            return Answer(text, whole=whole)
        return _with_logprobs(choice, text, whole, question)
    except InputError as error:
        return Failed("unparsable", str(error)[:160])
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError) as error:
        return Failed("unparsable", f"the server's answer is of another form ({type(error).__name__})")


def _with_logprobs(choice: Any, text: str, whole: bool, question: Question) -> Answer | Failed:
    given = choice.get("logprobs")
    tokens = given.get("content") if given else None
    if not tokens:
        return Failed("unparsable", "the server sent no log-probs: set by.logprobs = false")
    if question.max_new_tokens == 0:
        # Its one token is the verdict: that the text is cut there says nothing.
        return Answer(text, _candidates(tokens[0], question))
    place = _place(tokens, question)
    return Answer(text, {} if place is None else _candidates(tokens[place], question), whole)


def _place(tokens: Any, question: Question) -> int | None:
    """The token that is the candidate behind the last cue."""
    starts, said = [], ""
    for token in tokens:
        starts.append(len(said))
        said += token["token"]
    letters = "".join(sorted({candidate.strip() for candidate in question.candidates}))
    found = list(re.finditer(rf"{re.escape(question.cue)}[\s*_`]*([{letters}])(?![A-Za-z])", said))
    if not found or said.rfind(question.cue) > found[-1].start():
        return None
    letter = found[-1].start(1)
    place = max(number for number, start in enumerate(starts) if start <= letter)
    return place if tokens[place]["token"] in question.candidates else None


def _candidates(token: Any, question: Question) -> dict[str, float]:
    found: dict[str, float] = {}
    for other in [token, *token["top_logprobs"]]:
        name, value = other["token"], float(other["logprob"])
        if math.isnan(value) or value > 1e-3:
            raise ValueError("no log-prob")
        if name in question.candidates:
            found[name] = value
    return found or {question.candidates[0]: -math.inf}
