"""Samples of a crew that are asked for all at once."""

from collections.abc import Sequence

from ropewalk.records.sample import Completion, Request, Sample, sample_of
from ropewalk.rollout.episode import Key, key_of
from ropewalk.rollout.inbox import Inbox
from ropewalk.runtime.crew import Crew, complete


def samples_of(crew: Crew, requests: Sequence[Request]) -> list[Sample]:
    """One sample a request, in order."""
    done: dict[Key, Completion] = {}
    inbox = Inbox(requests)
    inbox.close()
    complete(crew, inbox, lambda completion: done.update({key_of(completion.request): completion}))
    return [sample_of(done[key_of(request)]) for request in requests]
