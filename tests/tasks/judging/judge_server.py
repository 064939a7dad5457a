"""A judge's server on this machine that speaks the OpenAI protocol, well or badly, as its script says."""

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Sent:
    """What the server sends."""

    body: bytes | Body = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    drip_seconds: float = 0.0
    """Between single bytes of the body."""
    hang_up: bool = False
    """Close the connection without a word."""


Script = Callable[[Body], Sent]


@dataclass
class JudgeServer:
    """A running server: where it is, and what it was asked."""

    url: str
    asked: list[Body] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(script: Script) -> Iterator[JudgeServer]:
    """The server inside the block only."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with server.lock:
                server.asked.append(body)
                server.headers.append({**dict(self.headers), "path": self.path})
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self._send(script(body))
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                with server.lock:
                    server.at_once -= 1

        def _send(self, sent: Sent) -> None:
            if sent.hang_up:
                self.close_connection = True
                return
            data = sent.body if isinstance(sent.body, bytes) else json.dumps(sent.body).encode()
            self.send_response(sent.status)
            for name, value in sent.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if not sent.drip_seconds:
                self.wfile.write(data)
                return
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if over.wait(sent.drip_seconds):
                    self.close_connection = True
                    return

        def log_message(self, format: str, *args: Any) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = JudgeServer(f"http://127.0.0.1:{http.server_address[1]}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        over.set()
        http.shutdown()
        thread.join()
        http.server_close()


def said(text: str, *, finish: str = "stop", logprobs: Any = None) -> Sent:
    """A well-formed answer."""
    message = {"role": "assistant", "content": text}
    return Sent({"choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}]})


def chosen(logprobs: Mapping[str, float]) -> Sent:
    """One token with its alternatives."""
    best = max(logprobs, key=lambda name: logprobs[name])
    top = [{"token": name, "logprob": value, "bytes": None} for name, value in logprobs.items()]
    token = {"token": best, "logprob": logprobs[best], "top_logprobs": top}
    return said(best, finish="length", logprobs={"content": [token]})


def preferring(score: Callable[[str], float], *, place: float = 0.0, sharpness: float = 1.0) -> Script:
    """P(A) = sigma(sharpness (score(A) - score(B)) + place): a judge with a known rule and a liking for a place."""

    def script(body: Body) -> Sent:
        first, second = answers_in(body)
        odds = sharpness * (score(first) - score(second)) + place
        return chosen({"A": -math.log1p(math.exp(-odds)), "B": -math.log1p(math.exp(odds))})

    return script


def request_in(body: Body) -> str:
    """What the policy was asked."""
    text = body["messages"][-1]["content"]
    key = text.partition("the key ")[2][:16]
    return str(text.partition(f"<request {key}>\n")[2].partition(f"\n</request {key}>")[0])


def answers_in(body: Body) -> tuple[str, str]:
    """The two answers of a question, found by the key that its own words name."""
    text = body["messages"][-1]["content"]
    key = text.partition("the key ")[2][:16]
    found = []
    for letter in "AB":
        opening, closing = f"<answer {letter} {key}>\n", f"\n</answer {letter} {key}>"
        assert text.count(opening) == 1 and text.count(closing) == 1
        found.append(text.partition(opening)[2].partition(closing)[0])
    return found[0], found[1]
