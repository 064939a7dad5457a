"""Sections of a recipe that say who judges what, and how."""

import ipaddress
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ropewalk.config.schema import Section

Count: TypeAlias = Annotated[int, Field(ge=1)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=3600)]
Temperature: TypeAlias = Annotated[float, Field(ge=0, le=2)]


class ServerJudge(Section):
    """A server that speaks the OpenAI protocol of chat completions: vLLM, SGLang, llama.cpp, or a hosted model."""

    kind: Literal["server"] = "server"
    base_url: str = "http://127.0.0.1:8000/v1"
    """Where `/chat/completions` is asked for. On another machine it must be https, unless `plain_http` is set."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name, as the server knows it."""
    key: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")] | None = None
    """Name of the environment variable that holds the key; the key itself never stands in a recipe."""
    plain_http: bool = False
    """Send prompts, answers and key unencrypted to another machine."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Questions on their way at the same time."""
    timeout_seconds: Seconds = 60.0
    """An answer that is not whole by then has failed; it is not asked again."""
    retries: Annotated[int, Field(ge=0, le=20)] = 4
    """Times a question is sent again after a broken connection, 429 or 5xx, each after twice the wait."""
    logprobs: bool = True
    """Read A or B from token probabilities; false reads the written verdict, for servers that send none."""

    @model_validator(mode="after")
    def _safe(self) -> Self:
        url = urlsplit(self.base_url)
        try:
            whole = bool(url.hostname) and url.port != 0
        except ValueError:
            whole = False
        whole = whole and self.base_url.isascii() and self.base_url.isprintable() and " " not in self.base_url
        if url.scheme not in ("http", "https") or not whole or url.query or url.fragment:
            raise ValueError(f"base_url = {self.base_url!r} is no address: give one such as http://127.0.0.1:8000/v1")
        if url.username is not None or url.password is not None:
            raise ValueError("base_url holds a user name or password: name an environment variable as key instead")
        if url.scheme == "http" and not is_loopback(url.hostname or "") and not self.plain_http:
            raise ValueError(
                f"base_url sends everything unencrypted to {url.hostname}: use https, or set plain_http = true"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or number alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ModelJudge(Section):
    """A model of the run's own: a call of the graph, with its own weights and engine on the workers."""

    kind: Literal["model"] = "model"
    path: Annotated[str, Field(min_length=1)]
    """A model folder with a chat template, or `runs/x`; its vocabulary may be another than the policy's."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of its weights."""
    slots: Count = 32
    """Judgements that are written at the same time."""
    cache_tokens: Annotated[int, Field(ge=16)] = 65_536
    """Budget of its key/value cache; a question that does not fit is refused."""


By: TypeAlias = Annotated[ServerJudge | ModelJudge, Field(discriminator="kind")]


class NoReasoning(Section):
    """The judge answers at once."""

    kind: Literal["none"] = "none"


class Reasoning(Section):
    """The judge writes down its reasons first, then its verdict."""

    kind: Literal["written"] = "written"
    max_new_tokens: Count = 512
    """Tokens of reasons and verdict at most; a score that is not reached by then is unparsable."""
    temperature: Temperature = 0.0
    """Of the reasons; 0 is greedy choice. The same question is answered once, whatever the temperature."""


Reasons: TypeAlias = Annotated[NoReasoning | Reasoning, Field(discriminator="kind")]


class NoMemory(Section):
    """Nothing is remembered beyond one batch."""

    kind: Literal["none"] = "none"


class Memory(Section):
    """Answers are kept on disk, by what was asked, how, and of whom."""

    kind: Literal["disk"] = "disk"
    folder: str = "auto"
    """Where; `auto` is the user's cache folder ($ROPEWALK_CACHE)."""
    megabytes: Count = 64
    """The oldest answers go when they take more."""


Remembering: TypeAlias = Annotated[NoMemory | Memory, Field(discriminator="kind")]


class Siblings(Section):
    """The other samples of the same group: the score is the share won against those it is compared with."""

    kind: Literal["siblings"] = "siblings"
    opponents: Annotated[int, Field(ge=2)] = 4
    """Siblings that each sample is compared with, at most (an odd number means one less); each in both orders."""


class ReferenceAnswer(Section):
    """A reference answer: the score is the probability that the sample is the better one."""

    kind: Literal["reference"] = "reference"
    field: Annotated[str, Field(min_length=1)] = "gold"
    """`gold` is the prompt's gold answer; another name is looked for in the prompt's info."""


Against: TypeAlias = Annotated[Siblings | ReferenceAnswer, Field(discriminator="kind")]


class PairwiseJudge(Section):
    """Which of two answers is better, A or B: asked in both orders and averaged. Scores lie in [0, 1]."""

    kind: Literal["pairwise"] = "pairwise"
    by: By
    """Who is asked."""
    criteria: Annotated[str, Field(min_length=1)] = "The better answer is more helpful, more correct and to the point."
    """What makes an answer better, in words to the judge."""
    reasoning: Reasons = NoReasoning()
    """Whether reasons are written first."""
    against: Against = Siblings()
    """What a sample is compared with."""
    memory: Remembering = Memory()
    """Whether answers are kept between batches and runs."""


class RubricJudge(Section):
    """A mark from 1 to 10 for one answer, n; the score is (n - 1) / 9."""

    kind: Literal["rubric"] = "rubric"
    by: By
    """Who is asked."""
    criteria: Annotated[str, Field(min_length=1)] = "10 is fully correct, complete and clear; 1 is useless or wrong."
    """What each mark stands for, in words to the judge."""
    reasoning: Reasons = NoReasoning()
    """Whether reasons are written first."""
    memory: Remembering = Memory()
    """Whether answers are kept between batches and runs."""


JudgeSection: TypeAlias = Annotated[PairwiseJudge | RubricJudge, Field(discriminator="kind")]
