"""A judge on the crew: questions in its own words, answers written by its engine or weighed by a forward pass.

    messages ─ its chat template ─▶ ids ─ write (reasons, a mark) ─▶ ids ─ forward, once per candidate ─▶ log-probs

The policy's text is encoded anew in the judge's vocabulary, so the two need not have one in common; the judge's own
words are never decoded and encoded again. Between reasons and verdict stands the cue, written by the judge or put
there. Control tokens of its template are broken up in what is asked.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ropewalk.models.chat import prompt_ids
from ropewalk.models.language import Language
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.records.sample import Completion, Ints, Request, Sample, SamplingRecord
from ropewalk.records.score import Failed
from ropewalk.rollout.config import Sampling, resolve
from ropewalk.runtime.crew import Crew
from ropewalk.tasks.judging.question import Answer, Question
from ropewalk.tasks.judging.quote import broken_up
from ropewalk.training.packing import pack_samples

VERDICT_TOKENS = 24
"""Room that is left for the cue and a candidate."""
CHUNK_QUESTIONS = 256
"""Questions that are weighed in one forward call."""


@dataclass(frozen=True)
class CrewAsker:
    """Answers questions by a role of the crew."""

    crew: Crew
    role: str
    language: Language
    cache_tokens: int
    """Of its engine."""

    @cached_property
    def fingerprint(self) -> str:
        """Weights, words and template."""
        tokenizer = self.language.tokenizer
        words = tokenizer.backend_tokenizer.to_str() + json.dumps(tokenizer.chat_template)
        weights = self.crew.call("fingerprint", role=self.role).result()
        return f"model {weights} {hashlib.blake2b(words.encode(), digest_size=8).hexdigest()}"

    def ask(self, questions: Sequence[Question]) -> list[Answer | Failed]:
        """An answer to each, in order; a question that does not fit into the judge is refused."""
        asked: list[Ints | Failed] = [self._ids(question) for question in questions]
        found: dict[int, Answer | Failed] = {n: ids for n, ids in enumerate(asked) if isinstance(ids, Failed)}
        open_ids = {n: ids for n, ids in enumerate(asked) if not isinstance(ids, Failed)}
        written = self._write({n: (questions[n], ids) for n, ids in open_ids.items() if questions[n].max_new_tokens})
        weighed: dict[int, tuple[Question, Ints]] = {}
        for n, ids in open_ids.items():
            completion = written.get(n)
            if completion is not None and completion.finish in ("failed", "aborted"):
                found[n] = Failed("crashed", f"the judge's engine {completion.finish}")
            elif questions[n].candidates:
                weighed[n] = (questions[n], self._before_verdict(questions[n], ids, completion))
            elif completion is not None:
                found[n] = Answer(completion.text, whole=completion.finish == "stop")
        for n, logprobs in self._weigh(weighed).items():
            found[n] = Answer(written[n].text if n in written else "", logprobs)
        return [found[n] for n in range(len(questions))]

    # -- words -----------------------------------------------------------------------------------------------------

    def _ids(self, question: Question) -> Ints | Failed:
        special = [token for token in self._control if len(token) > 1]
        messages = tuple(Message(m.role, broken_up(m.content, special)) for m in question.messages)
        try:
            ids = prompt_ids(self.language.tokenizer, messages)
        except InputError as error:
            return Failed("refused", str(error)[:160])
        longest = self.language.max_positions or 1 << 40
        longest = min(longest, self.cache_tokens) if question.max_new_tokens else longest
        room = longest - question.max_new_tokens - (VERDICT_TOKENS if question.candidates else 0)
        if len(ids) > room:
            return Failed("refused", f"the question has {len(ids)} tokens, and the judge has room for {max(room, 0)}")
        return np.array(ids, np.int64)

    @cached_property
    def _control(self) -> tuple[str, ...]:
        """Tokens that mean more than their letters."""
        tokenizer = self.language.tokenizer
        added = [str(token) for token in tokenizer.added_tokens_decoder.values()]
        return tuple(dict.fromkeys([*tokenizer.all_special_tokens, *added]))

    def _encode(self, text: str) -> list[int]:
        return list(self.language.tokenizer.encode(text, add_special_tokens=False))

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write(self, asked: Mapping[int, tuple[Question, Ints]]) -> dict[int, Completion]:
        """What the judge writes, by the question's number."""
        if not asked:
            return {}
        requests = [
            Request(str(n), str(n), 0, question.seed, ids, self._sampling(question))
            for n, (question, ids) in asked.items()
        ]
        completions: list[Completion] = self.crew.call("write", role=self.role, requests=requests).result()
        return dict(zip(asked, completions, strict=True))

    def _sampling(self, question: Question) -> SamplingRecord:
        stop = (question.cue,) if question.candidates else ()
        language = self.language
        return resolve(
            Sampling(temperature=question.temperature, max_new_tokens=question.max_new_tokens, stop=stop),
            words=language.tokenizer.get_vocab(),
            eos_ids=language.eos_ids,
            pad_id=language.pad_id,
            vocabulary_size=language.vocabulary_size,
            special=language.tokenizer.all_special_tokens,
        )

    def _before_verdict(self, question: Question, ids: Ints, completion: Completion | None) -> Ints:
        """The ids after which a candidate is chosen."""
        if completion is None:
            return ids
        said = completion.token_ids
        ended = completion.finish == "stop" and len(said) > 0 and int(said[-1]) in self.language.eos_ids
        if completion.finish == "stop" and not ended:
            return np.concatenate([ids, said])  # the judge wrote the cue itself, which stopped it
        said = said[:-1] if ended else said
        return np.concatenate([ids, said, np.array(self._encode(f"\n{question.cue}"), np.int64)])

    # -- weighing --------------------------------------------------------------------------------------------------

    def _weigh(self, asked: Mapping[int, tuple[Question, Ints]]) -> dict[int, dict[str, float]]:
        """Log-probs of each question's candidates, by the question's number. The question is computed once."""
        found: dict[int, dict[str, float]] = {}
        numbers = list(asked)
        for start in range(0, len(numbers), CHUNK_QUESTIONS):
            rows = [
                (n, candidate, asked[n][1], np.array(spelt, np.int64))
                for n in numbers[start : start + CHUNK_QUESTIONS]
                for candidate, spelt in self._spellings(asked[n][0]).items()
            ]
            batch = pack_samples(
                [_row(n, place, ids, spelt) for place, (n, _, ids, spelt) in enumerate(rows)], share_prompts=True
            )
            batch = batch.with_columns(rows={"unit": batch.row_columns["group"]})
            payload = {"batch": batch, "outputs": frozenset({"logprobs"}), "sampling": None}
            logprobs_T = self.crew.call("forward", role=self.role, **payload).result()["logprobs"]
            mine_T = batch.token_columns["policy_mask"].astype(bool) & (batch.row_T >= 0)
            sums = np.bincount(batch.row_T[mine_T], weights=logprobs_T[mine_T].astype(np.float64), minlength=len(rows))
            for (n, candidate, _, _), value in zip(rows, sums.tolist(), strict=True):
                found.setdefault(n, {})[candidate] = value
        return found

    def _spellings(self, question: Question) -> dict[str, tuple[int, ...]]:
        """Candidates that are spelt differently; of those that are not, the first."""
        by_ids: dict[tuple[int, ...], str] = {}
        for candidate in question.candidates:
            by_ids.setdefault(tuple(self._encode(candidate)), candidate)
        return {candidate: ids for ids, candidate in by_ids.items()}


def _row(question: int, place: int, ids: Ints, spelt: Ints) -> Sample:
    """A question and a candidate, whose log-prob is asked for."""
    tokens = len(ids) + len(spelt)
    return Sample(
        prompt_id=str(question),
        group_id=str(question),
        index=place,
        seed=0,
        tokens_T=np.concatenate([ids, spelt]),
        policy_mask_T=np.arange(tokens) >= len(ids),
        logprobs_T=np.zeros(tokens, np.float32),
        versions_T=np.zeros(tokens, np.int64),
        finish="stop",
        sampling=_ANY,
        text="",
    )


_ANY = SamplingRecord(temperature=1.0, max_new_tokens=1, eos_ids=())
