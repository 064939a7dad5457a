"""A judge behind a real server on this machine, that does well, badly, or nothing at all."""

import json
import math
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ropewalk.config.load import ConfigError, load
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.judging import pairwise
from ropewalk.tasks.judging.config import NoReasoning, PairwiseJudge, Reasoning, RubricJudge, ServerJudge
from ropewalk.tasks.judging.desk import Desk
from ropewalk.tasks.judging.judge import Judge
from ropewalk.tasks.judging.question import Answer, Question
from ropewalk.tasks.judging.server import LARGEST_BODY, ServerAsker
from tests.fakes import FakeClock
from tests.tasks.judging.askers import Ruled, judge, prefers
from tests.tasks.judging.judge_server import Body, Script, Sent, chosen, preferring, said, serving
from tests.tasks.judging.test_judge import PROMPTS, everybody, group, length, scores
from tests.threads import threads_left

WORDS = Question((Message("user", "How many?"),), 16)
CHOICE = Question((Message("user", "A or B?"),), candidates=pairwise.CANDIDATES)
REASONED = Question((Message("user", "A or B?"),), 64, pairwise.CANDIDATES, pairwise.CUE)


def asker(url: str, clock: FakeClock | None = None, **settings: Any) -> ServerAsker:
    config = ServerJudge(base_url=url, model="judge", **{"timeout_seconds": 60.0, **settings})
    return ServerAsker(config, sleep=(clock or FakeClock()).sleep)


def reply(script: Script, question: Question = WORDS, **settings: Any) -> Answer | Failed:
    with serving(script) as server:
        return asker(server.url, **settings).ask([question])[0]


# --- what is sent ---------------------------------------------------------------------------------


def test_a_question_is_sent_as_the_protocol_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret-key")
    with serving(lambda _: said("7")) as server:
        assert asker(server.url, key="JUDGE_KEY").ask([WORDS]) == [Answer("7")]
    (body,), (headers,) = server.asked, server.headers
    assert headers["path"] == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret-key"
    assert body["model"] == "judge" and body["messages"] == [{"role": "user", "content": "How many?"}]
    assert body["max_tokens"] == 16 and body["temperature"] == 0 and "logprobs" not in body


def test_a_choice_is_one_token_with_its_alternatives() -> None:
    with serving(lambda _: chosen({"A": -0.1, "B": -2.4, "C": -9.0})) as server:
        (answer,) = asker(server.url).ask([CHOICE])
    assert answer == Answer("A", {"A": -0.1, "B": -2.4})
    assert server.asked[0]["max_tokens"] == 1 and server.asked[0]["logprobs"] and server.asked[0]["top_logprobs"] == 20


def test_without_logprobs_the_verdict_is_read() -> None:
    with serving(lambda _: said("**B**")) as server:
        (answer,) = asker(server.url, logprobs=False).ask([CHOICE])
    assert isinstance(answer, Answer) and pairwise.read(answer) == Score(0.0)
    assert "logprobs" not in server.asked[0] and server.asked[0]["max_tokens"] > 1


def tokens(*pieces: str, top: dict[int, dict[str, float]]) -> dict[str, Any]:
    """Log-probs of a written answer; `top` gives the alternatives at some tokens."""
    return {
        "content": [
            {
                "token": piece,
                "logprob": top.get(n, {}).get(piece, -0.5),
                "top_logprobs": [{"token": t, "logprob": v} for t, v in top.get(n, {}).items()],
            }
            for n, piece in enumerate(pieces)
        ]
    }


def test_after_reasons_the_probability_is_that_of_the_letter_behind_the_last_cue() -> None:
    pieces = ("Verdict:", " A", " it says", ".\n", "Verdict", ":", " ", "B", "\n")
    logprobs = tokens(*pieces, top={1: {" A": -0.01, " B": -9.0}, 7: {"A": math.log(0.25), "B": math.log(0.75)}})
    found = reply(lambda _: said("".join(pieces), logprobs=logprobs), REASONED)
    assert isinstance(found, Answer)
    verdict = pairwise.read(found)
    assert isinstance(verdict, Score) and verdict.value == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("pieces", "value"),
    [
        (("Verdict:", " **B", "**"), 0.0),
        (("Verdict:", " tie"), 0.5),
        (("Verdict:", " A", " no.\nVerdict:", " tie"), 0.5),
    ],
    ids=["emphasis", "tie", "tie-at-last"],
)
def test_a_verdict_without_a_token_of_its_own_is_read_as_text(pieces: tuple[str, ...], value: float) -> None:
    found = reply(lambda _: said("".join(pieces), logprobs=tokens(*pieces, top={1: {" A": -0.01}})), REASONED)
    assert isinstance(found, Answer) and pairwise.read(found) == Score(value)


def test_a_server_and_another_asker_with_the_same_logprobs_agree() -> None:
    config = PairwiseJudge(by=ServerJudge(model="judge"))
    texts = group(["a", "bb", "ccc", "dddd"])
    with serving(preferring(length, place=0.7)) as server:
        by_server = Judge("liked", config, Desk(asker(server.url))).judge(PROMPTS, texts, everybody)
    by_rule = judge(config, Ruled(prefers(length, place=0.7))).judge(PROMPTS, texts, everybody)
    assert scores(by_server) == pytest.approx(scores(by_rule), abs=1e-9)


def test_answers_come_in_the_order_of_the_questions_and_no_more_than_allowed_are_on_their_way() -> None:
    def script(body: Body) -> Sent:
        time.sleep(0.01 * (int(body["messages"][0]["content"]) % 3))
        return said(body["messages"][0]["content"])

    asked = [Question((Message("user", str(n)),), 16) for n in range(24)]
    with serving(script) as server:
        found = asker(server.url, concurrency=3).ask(asked)
    assert found == [Answer(str(n)) for n in range(24)] and 1 < server.most_at_once <= 3


def test_no_question_is_no_connection() -> None:
    assert asker("http://127.0.0.1:9/v1").ask([]) == []


# --- trouble --------------------------------------------------------------------------------------


def after(times: int, trouble: Sent, then: Sent) -> Callable[[Body], Sent]:
    left = [times]

    def script(_: Body) -> Sent:
        left[0] -= 1
        return trouble if left[0] >= 0 else then

    return script


@pytest.mark.parametrize(
    "trouble",
    [Sent(status=429), Sent(status=500), Sent(status=503), Sent(hang_up=True)],
    ids=["429", "500", "503", "-"],
)
def test_passing_trouble_is_sat_out_with_growing_waits(trouble: Sent) -> None:
    clock = FakeClock()
    with serving(after(3, trouble, said("7"))) as server:
        assert asker(server.url, clock).ask([WORDS]) == [Answer("7")]
    assert len(server.asked) == 4 and clock.now_seconds == 0.5 + 1 + 2


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("1e9", 30.0), ("soon", 0.5), ("-3", 0.5), ("nan", 0.5)])
def test_a_server_may_say_how_long_to_wait_within_reason(header: str, seconds: float) -> None:
    clock = FakeClock()
    with serving(after(1, Sent(status=429, headers={"retry-after": header}), said("7"))) as server:
        assert asker(server.url, clock).ask([WORDS]) == [Answer("7")]
    assert clock.now_seconds == seconds


def test_lasting_trouble_fails_the_question() -> None:
    found = reply(lambda _: Sent(status=500), retries=2)
    assert found == Failed("crashed", "the server said 500, 3 times")


def test_a_server_that_is_not_there_fails_every_question_and_soon_all_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        clock = FakeClock()
        found = asker(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", clock, concurrency=2).ask([WORDS] * 60)
    assert {answer.reason for answer in found if isinstance(answer, Failed)} == {"crashed"} and len(found) == 60
    assert clock.now_seconds < 60 * 7.5 / 4, "the rest was not tried"


def test_a_slow_answer_is_a_timeout_and_is_not_asked_again() -> None:
    hold = threading.Event()

    def script(_: Body) -> Sent:
        hold.wait(120)
        return said("7")

    with serving(script) as server:
        started = time.monotonic()
        (found,) = asker(server.url, timeout_seconds=2.0).ask([WORDS])
        hold.set()
    assert isinstance(found, Failed) and found.reason == "timeout" and time.monotonic() - started < 60
    assert len(server.asked) == 1


def test_an_answer_that_drips_is_a_timeout_too() -> None:
    whole = said("7").body
    found = reply(lambda _: Sent(whole, drip_seconds=0.02), timeout_seconds=0.3)
    assert isinstance(found, Failed) and found.reason == "timeout"


def test_a_huge_body_is_cut_off() -> None:
    found = reply(lambda _: Sent(b" " * (LARGEST_BODY + 2**20)))
    assert isinstance(found, Failed) and found.reason == "crashed" and "larger" in found.detail


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_a_refusal_is_told_and_not_repeated(status: int) -> None:
    with serving(lambda _: Sent({"error": {"message": "no such model"}}, status, {"location": "/elsewhere"})) as server:
        (found,) = asker(server.url).ask([WORDS])
    assert isinstance(found, Failed) and found.reason == "refused" and str(status) in found.detail
    assert "no such model" in found.detail and len(server.asked) == 1


def with_choice(**changes: object) -> Sent:
    choice = {"message": {"role": "assistant", "content": "7"}, "finish_reason": "stop", **changes}
    return Sent({"choices": [choice]})


GARBAGE = {
    "empty": Sent(b""),
    "html": Sent(b"<html>502</html>"),
    "bytes": Sent(bytes(range(256))),
    "cut": Sent(b'{"choices": [{"message": {"cont'),
    "deep": Sent(b"[" * 200_000),
    "nan": Sent(b'{"choices": NaN}'),
    "number": Sent(b"7"),
    "list": Sent(b"[]"),
    "null": Sent(b"null"),
    "no-choices": Sent({}),
    "choices-empty": Sent({"choices": []}),
    "choices-text": Sent({"choices": "7"}),
    "no-message": Sent({"choices": [{}]}),
    "message-null": with_choice(message=None),
    "content-null": with_choice(message={"content": None}),
    "content-number": with_choice(message={"content": 7}),
    "content-list": with_choice(message={"content": [{"type": "text", "text": "7"}]}),
    "compressed": Sent(b"x", headers={"content-encoding": "gzip"}),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_no_answer_is_unparsable(name: str) -> None:
    found = reply(lambda _: GARBAGE[name])
    assert isinstance(found, Failed) and found.reason == "unparsable" and len(found.detail) < 200


def test_a_refusal_of_the_model_is_one() -> None:
    refusal = with_choice(message={"content": None, "refusal": "I will not judge this."})
    assert reply(lambda _: refusal) == Failed("refused", "'I will not judge this.'")
    odd = with_choice(message={"content": None, "refusal": "\ud800 no"})
    assert str(reply(lambda _: odd)).encode()


@pytest.mark.parametrize(
    "logprobs",
    [
        None, {}, {"content": None}, {"content": []}, {"content": [{}]}, {"content": [None]}, {"content": "A"}, 7,
        {"content": [{"token": "A", "logprob": "low", "top_logprobs": []}]},
        {"content": [{"token": "A", "logprob": 3.0, "top_logprobs": []}]},
        {"content": [{"token": "A", "logprob": -1.0, "top_logprobs": None}]},
        {"content": [{"token": "A", "logprob": -1.0, "top_logprobs": [{"token": "B"}]}]},
    ],
    ids=str,
)  # fmt: skip
def test_log_probs_of_another_form_are_unparsable(logprobs: object) -> None:
    found = reply(lambda _: said("A", logprobs=logprobs), CHOICE)
    assert isinstance(found, Failed) and found.reason == "unparsable"


def test_neither_letter_among_the_likely_words_is_no_verdict() -> None:
    found = reply(lambda _: chosen({"The": -0.1, "I": -3.0}), CHOICE)
    assert isinstance(found, Answer) and isinstance(pairwise.read(found), Failed)


def test_bad_answers_do_not_touch_good_ones() -> None:
    def script(body: Body) -> Sent:
        number = int(body["messages"][0]["content"])
        return (said("7"), Sent(b"garbage"), Sent(status=404), Sent(status=500))[number % 4]

    asked = [Question((Message("user", str(n)),), 16) for n in range(40)]
    with serving(script) as server:
        found = asker(server.url, retries=1).ask(asked)
    assert found[::4] == [Answer("7")] * 10
    assert all(isinstance(answer, Failed) for n, answer in enumerate(found) if n % 4)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_reasons_that_were_cut_have_no_mark(finish: str) -> None:
    with serving(lambda _: said("Score: 1", finish=finish)) as server:
        config = RubricJudge(by=ServerJudge(model="judge"), reasoning=Reasoning())
        (found,) = Judge("liked", config, Desk(asker(server.url))).judge(PROMPTS, group(["a"]), everybody)
    assert isinstance(found.scores["liked"], Failed)


# --- where it may be and what it may hold ---------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "http://localhost:1/v1", "http://[::1]:8/v1", "https://judge.example/v1"]
)
def test_addresses_that_are_allowed(url: str) -> None:
    assert ServerJudge(base_url=url, model="judge").base_url == url


@pytest.mark.parametrize(
    ("url", "said_of_it"),
    [
        ("http://judge.example/v1", "unencrypted"),
        ("http://10.0.0.1/v1", "unencrypted"),
        ("http://localhost.judge.example/v1", "unencrypted"),
        ("http://0.0.0.0:8000/v1", "unencrypted"),
        ("ftp://127.0.0.1/v1", "no address"),
        ("127.0.0.1:8000", "no address"),
        ("http://", "no address"),
        ("http://127.0.0.1:99999/v1", "no address"),
        ("https://judge.example/v1?key=1", "no address"),
        ("https://me:secret@judge.example/v1", "password"),
        ("", "no address"),
        ("http://127.0.0.1\n.judge.example/v1", "no address"),
        ("https://judge example/v1", "no address"),
        ("https://юдж.example/v1", "no address"),
    ],
)
def test_addresses_that_are_refused(url: str, said_of_it: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(ServerJudge, {"base_url": url, "model": "judge"})
    assert said_of_it in str(caught.value)


def test_an_unencrypted_server_elsewhere_must_be_asked_for() -> None:
    assert ServerJudge(base_url="http://10.0.0.1/v1", model="judge", plain_http=True).plain_http


def test_a_key_in_a_recipe_is_refused() -> None:
    with pytest.raises(ConfigError):
        load(ServerJudge, {"model": "judge", "key": "sk-12345"})


@pytest.mark.parametrize("value", [None, "", "  ", "a\nb", "schlüssel"])
def test_a_key_that_is_not_there_or_is_none_is_told_without_it(value: str | None, monkeypatch: Any) -> None:
    if value is None:
        monkeypatch.delenv("JUDGE_KEY", raising=False)
    else:
        monkeypatch.setenv("JUDGE_KEY", value)
    with pytest.raises(InputError, match="JUDGE_KEY") as caught:
        asker("http://127.0.0.1:1/v1", key="JUDGE_KEY")
    assert not (value or "").strip() or str(value) not in str(caught.value)


def test_the_key_stands_in_no_failure_and_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret-key")
    with serving(lambda _: Sent(status=401, body={"error": "bad key"})) as server:
        asked = asker(server.url, key="JUDGE_KEY")
        found = asked.ask([WORDS])
    assert "secret-key" not in json.dumps([str(found), asked.fingerprint, repr(asked)])


def test_another_server_or_model_has_another_fingerprint() -> None:
    prints = {
        ServerAsker(ServerJudge(model=model, base_url=url, logprobs=logprobs)).fingerprint
        for model in ("one", "two")
        for url in ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
        for logprobs in (True, False)
    }
    assert len(prints) == 8


def test_proxies_of_the_environment_are_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert reply(lambda _: said("7")) == Answer("7")


def test_a_proxy_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "foo://bar")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(InputError, match="proxy"):
        asker("https://judge.example/v1").ask([WORDS])


def test_a_seed_is_sent_only_where_it_matters() -> None:
    hot = Question(WORDS.messages, 16, temperature=0.7)
    with serving(lambda _: said("7")) as server:
        asker(server.url, concurrency=1).ask([WORDS, hot, hot])
    assert ["seed" in body for body in server.asked] == [False, True, True]
    assert server.asked[1]["seed"] == server.asked[2]["seed"]


def test_nothing_is_left_over() -> None:
    reply(lambda _: said("7"))
    assert not threads_left("ropewalk-judge")


def test_reasons_of_a_server_judge_work_for_pairs() -> None:
    config = PairwiseJudge(by=ServerJudge(model="judge", logprobs=False), reasoning=Reasoning(max_new_tokens=9))
    with serving(lambda body: said("Longer.\nVerdict: A")) as server:
        found = Judge("liked", config, Desk(asker(server.url, logprobs=False))).judge(
            PROMPTS, group(["a", "b"]), everybody
        )
    assert scores(found) == [0.5, 0.5] and server.asked[0]["max_tokens"] == 9
    assert isinstance(PairwiseJudge(by=ServerJudge(model="x")).reasoning, NoReasoning)


def test_a_batch_that_is_interrupted_does_not_wait_for_its_retries() -> None:
    """Ctrl-C in the middle: whoever sleeps before another try is woken."""
    asked = ServerAsker(ServerJudge(base_url="http://127.0.0.1:9/v1", model="judge", retries=20, concurrency=2))
    started = time.monotonic()

    def interrupt() -> None:
        time.sleep(0.3)
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        asked.ask([WORDS] * 8)
    thread.join()
    assert time.monotonic() - started < 60, "the retries would take ten minutes"
