"""A judge behind an OpenAI-compatible server.

    ask ──▶ `concurrency` threads, one question each ──▶ POST /chat/completions ──▶ Answer | Failed
              ▲ broken connection, 429, 5xx: again after a wait, at most `retries` times

What holds: every question gets an answer or its own failure, in bounded time and memory, whatever the server does.
After a run of questions that all failed to connect, the rest of the batch fails at once. The key is read from the
environment and stands in no error, file or fingerprint.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.score import Failed
from ropewalk.tasks.judging.config import ServerJudge, is_loopback
from ropewalk.tasks.judging.question import Answer, Question
from ropewalk.tasks.judging.reply import read_reply

LARGEST_BODY = 4 * 2**20
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30.0
CONNECT_SECONDS = 10.0
TOP_LOGPROBS = 20
"""Most that the protocol allows."""
WRITTEN_TOKENS = 8
"""Tokens of a verdict that is read as text."""
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class _Broken(Exception):
    """A question that may be sent again; `wait_seconds` if the server said when."""

    def __init__(self, said: str, wait_seconds: float | None = None) -> None:
        super().__init__(said)
        self.wait_seconds = wait_seconds


class _Ended(Exception):
    """A question that is not sent again."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.detail)
        self.failed = failed


class ServerAsker:
    """Answers questions by a server. From any thread."""

    def __init__(self, config: ServerJudge, *, sleep: Callable[[float], object] | None = None) -> None:
        """Raises InputError if httpx or the key's variable is missing, or the address is none."""
        self._config = config
        self._http = optional_module("httpx", extra="tasks", need="a judge behind a server")
        try:
            self._http.URL(config.base_url)
        except self._http.InvalidURL as error:
            raise InputError(f"a judge's base_url = {config.base_url!r} is no address: {error}") from None
        self._headers = {"Accept-Encoding": "identity", **authorisation(config.key)}
        self._sleep = sleep

    @property
    def fingerprint(self) -> str:
        """Server, model, and how verdicts are read; what the server makes of a name is the server's own."""
        how = "logprobs" if self._config.logprobs else "text"
        return f"server {self._config.base_url.rstrip('/')} {self._config.model} {how}"

    def ask(self, questions: Sequence[Question]) -> list[Answer | Failed]:
        """An answer to each, in order."""
        config, http = self._config, self._http
        url = urlsplit(config.base_url)
        local = is_loopback(url.hostname or "")
        timeout = http.Timeout(config.timeout_seconds, connect=min(config.timeout_seconds, CONNECT_SECONDS))
        limits = http.Limits(max_connections=config.concurrency)
        workers = min(config.concurrency, len(questions)) or 1
        batch = _Batch(give_up_after=2 * config.concurrency)
        # No redirect is followed, so that a plain address never leads to one whose certificate matters.
        settings = {"trust_env": not local, "verify": url.scheme == "https", "headers": self._headers}
        try:
            opened = http.Client(timeout=timeout, limits=limits, **settings)
        except ValueError as error:
            raise InputError(f"the proxy that the environment names cannot be used: {error}") from error
        with opened as client:
            pool = ThreadPoolExecutor(workers, thread_name_prefix="ropewalk-judge")
            try:
                return list(pool.map(lambda question: self._one(client, question, batch), questions))
            finally:
                batch.stop("the batch was interrupted")
                pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, client: Any, question: Question, batch: "_Batch") -> Answer | Failed:
        """One question, with its retries."""
        wait = FIRST_WAIT_SECONDS
        for attempt in range(self._config.retries + 1):
            if batch.over is not None:
                return Failed("crashed", batch.over)
            try:
                answer = self._send(client, question)
            except _Ended as end:
                batch.answered()
                return end.failed
            except _Broken as broken:
                said, asked_wait = str(broken), broken.wait_seconds
            else:
                batch.answered()
                return answer
            if attempt < self._config.retries:
                (self._sleep or batch.wait)(min(wait if asked_wait is None else asked_wait, LONGEST_WAIT_SECONDS))
                wait *= 2
        tries = self._config.retries + 1
        batch.gave_up(said)
        return Failed("crashed", f"{said}, {tries} {'time' if tries == 1 else 'times'}")

    def _send(self, client: Any, question: Question) -> Answer | Failed:
        """One attempt."""
        http, config = self._http, self._config
        end = time.monotonic() + config.timeout_seconds
        try:
            with client.stream(
                "POST", f"{config.base_url.rstrip('/')}/chat/completions", json=self._body(question)
            ) as r:
                body = _body_of(r, end)
                return self._read(r.status_code, r.headers, body, question)
        except (http.ConnectTimeout, http.PoolTimeout) as error:
            raise _Broken("no connection") from error
        except http.TimeoutException as error:
            raise _Ended(Failed("timeout", f"no answer within {config.timeout_seconds:g} s")) from error
        except http.TransportError as error:
            raise _Broken(f"no connection ({type(error).__name__}: {error})"[:120]) from error

    def _read(self, status: int, headers: Mapping[str, str], body: bytes, question: Question) -> Answer | Failed:
        if status in _AGAIN:
            raise _Broken(f"the server said {status}", _retry_after(headers.get("retry-after")))
        if status != 200:
            said = " ".join(body[:300].decode("utf-8", "replace").split())
            raise _Ended(Failed("refused", f"the server said {status}: {said[:160]}"))
        return read_reply(body, question, logprobs=self._config.logprobs)

    def _body(self, question: Question) -> dict[str, Any]:
        tokens = question.max_new_tokens or (1 if self._config.logprobs else WRITTEN_TOKENS)
        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": [{"role": message.role, "content": message.content} for message in question.messages],
            "max_tokens": tokens,
            "temperature": question.temperature,
        }
        body |= {"seed": question.seed} if question.temperature else {}
        if question.candidates and self._config.logprobs:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        return body


class _Batch:
    """What the threads of one batch know of each other."""

    def __init__(self, give_up_after: int) -> None:
        self.over: str | None = None
        self._left = self._most = give_up_after
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def answered(self) -> None:
        """The server is there."""
        with self._lock:
            self._left = self._most

    def gave_up(self, why: str) -> None:
        """A question failed to get through, with all its retries."""
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                self.over = self.over or f"{why}: given up after {self._most} questions"

    def stop(self, why: str) -> None:
        """Send nothing more, and wait for nothing."""
        self.over = self.over or why
        self._ended.set()

    def wait(self, seconds: float) -> object:
        """Sleep, unless the batch is stopped."""
        return self._ended.wait(seconds)


def authorisation(variable: str | None) -> dict[str, str]:
    """The header with the key of an environment variable. Raises InputError, without the key, where there is none."""
    if variable is None:
        return {}
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"the judge's key is to be in the environment variable {variable}, which is not set: set it")
    if not key.isascii() or not key.isprintable():
        raise InputError(
            f"the environment variable {variable} holds characters that no key has: set it to the key alone"
        )
    return {"Authorization": f"Bearer {key}"}


def _body_of(response: Any, end: float) -> bytes:
    """The body as it came, bounded in size and time."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _Ended(Failed("unparsable", "the answer came compressed, which was not asked for"))
    parts: list[bytes] = []
    size = 0
    for part in response.iter_raw():
        size += len(part)
        if size > LARGEST_BODY:
            raise _Ended(Failed("crashed", f"the answer is larger than {LARGEST_BODY // 2**20} MB"))
        if time.monotonic() > end:
            raise _Ended(Failed("timeout", "the answer came too slowly"))
        parts.append(part)
    return b"".join(parts)


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, if the server named them; a date is not read."""
    try:
        seconds = float(value) if value is not None else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
