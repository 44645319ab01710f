"""What services that people run reply with, beside what OpenAI's own does: one row each, over real HTTP.

A row is a quirk of a server, the reply as bytes (streamed and whole where both exist) and what must come of it: the
text, or the kind of error with a word of its message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from qianxun.core.errors import BadModelReply, ModelUnavailable, QianxunError
from qianxun.core.types import Message
from qianxun.models import ChatEndpoint
from qianxun.models.remote.chat import RemoteChat
from tests.models.chat_service import Answers, ChatService, Reply, Request, chat_service

TEXT = "住院费用报销 85%[1]。"
ASKED = [Message("system", "按资料回答"), Message("user", "住院报销多少？")]


@dataclass(frozen=True)
class Quirk:
    name: str
    streamed: bytes | None = None
    whole: bytes | None = None
    text: str = TEXT
    status: int = 200
    error: type[QianxunError] | None = None
    says: str = ""


def events(*payloads: Any, prefix: str = "data: ", end: str = "\n\n", done: str = "data: [DONE]\n\n") -> bytes:
    lines = [payload if isinstance(payload, str) else prefix + _json(payload) + end for payload in payloads]
    return ("".join(lines) + done).encode()


def delta(finish: str | None = None, /, **fields: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def message(finish: str | None = "stop", /, **fields: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": finish}
    return _json({"object": "chat.completion", "choices": [choice]}).encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def failed(status: int, body: Any, error: type[QianxunError], says: str, name: str) -> Quirk:
    return Quirk(name, b"", b"" if body is None else _json(body).encode(), status=status, error=error, says=says)


HALF = len(TEXT) // 2
TWO = (delta(content=TEXT[:HALF]), delta(content=TEXT[HALF:]))
QUIRKS = [
    # Ollama
    Quirk(
        "ollama: thoughts in `reasoning`, content empty meanwhile",
        events(
            delta(role="assistant", content="", reasoning="先看"), *TWO, delta("stop", role="assistant", content="")
        ),
        message(content=TEXT, reasoning="先看资料"),
    ),
    Quirk(
        "ollama: a model that has only been loaded says nothing",
        events(delta("load", role="assistant", content="")),
        message("load", content=""),
        error=BadModelReply,
        says="没有文字",
    ),
    failed(404, {"error": "model 'qwen3' not found"}, ModelUnavailable, "not found", "ollama: an error that is a text"),
    # vLLM
    Quirk(
        "vllm: reasoning_content, null fields, stop_reason, usage of null",
        events(
            delta(role="assistant", content=""),
            delta(reasoning_content="嗯", content=None, tool_calls=None),
            *TWO,
            {**delta("stop", content=""), "usage": None},
            {"choices": [], "usage": {"prompt_tokens": 9, "total_tokens": 12, "completion_tokens": 3}},
        ),
        message(content=TEXT, reasoning_content="嗯", tool_calls=[]),
    ),
    Quirk(
        "vllm: an error as an event, and [DONE] after it",
        events(TWO[0], {"error": {"message": "EngineCore encountered an issue", "code": 500}}),
        error=ModelUnavailable,
        says="EngineCore",
    ),
    Quirk(
        "vllm: an error as the older versions have it",
        events({"object": "error", "message": "Sampling failed", "type": "BadRequestError", "code": 400}),
        error=ModelUnavailable,
        says="Sampling failed",
    ),
    failed(
        400,
        {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
        ModelUnavailable,
        "maximum context length",
        "vllm: too long",
    ),
    # llama.cpp
    Quirk(
        "llama.cpp: timings, pings, content of null at first",
        events(delta(role="assistant", content=None), ":\n\n", *TWO, {**delta("stop"), "timings": {"predicted_n": 3}}),
        message(content=TEXT),
    ),
    Quirk(
        "llama.cpp: an error in a field of that name instead of data",
        events(TWO[0], 'error: {"code":500,"message":"context shift is disabled","type":"server_error"}\n\n', done=""),
        error=ModelUnavailable,
        says="context shift",
    ),
    failed(
        503, {"error": {"code": 503, "message": "Loading model"}}, ModelUnavailable, "Loading", "llama.cpp: loading"
    ),
    failed(
        400,
        {"error": {"code": 400, "message": "the request exceeds the available context size", "n_ctx": 4096}},
        ModelUnavailable,
        "输入长度",
        "llama.cpp: too long",
    ),
    # one-api and new-api
    Quirk(
        "one-api: no space after data:, lines ended by \\r\\n, two [DONE]",
        events(*TWO, delta("stop"), prefix="data:", end="\r\n\r\n", done="data:[DONE]\r\n\r\ndata:[DONE]\r\n\r\n"),
        message(content=TEXT),
    ),
    Quirk(
        "one-api: choices of null beside usage",
        events(*TWO, delta("stop"), {"choices": None, "usage": {"total_tokens": 12}}),
        message(content=TEXT),
    ),
    Quirk(
        "one-api: an upstream that failed, with status 200",
        _json({"error": {"message": "当前分组上游负载已饱和", "type": "one_api_error"}}).encode(),
        _json({"error": {"message": "当前分组上游负载已饱和", "type": "one_api_error"}}).encode(),
        error=ModelUnavailable,
        says="负载已饱和",
    ),
    failed(
        429,
        {"error": {"message": "当前分组上游负载已饱和"}},
        ModelUnavailable,
        "负载已饱和",
        "one-api: too many requests",
    ),
    # DashScope
    Quirk(
        "dashscope: thoughts first, finish_reason of an empty text, usage at the end",
        events(
            delta("", content=None, reasoning_content="用户问"),
            delta("", content=TEXT, reasoning_content=None),
            delta("stop", content=""),
            {"choices": [], "usage": {"total_tokens": 31, "completion_tokens_details": {"reasoning_tokens": 20}}},
        ),
        message(content=TEXT, reasoning_content="用户问"),
    ),
    Quirk(
        "dashscope: finish_reason of the word null",
        events(delta("null", content=TEXT[:HALF]), delta("null", content=TEXT[HALF:]), delta("stop", content="")),
        message("null", content=TEXT),
    ),
    failed(
        400,
        {"error": {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content."}},
        ModelUnavailable,
        "inappropriate",
        "dashscope: refused by its filter",
    ),
    # DeepSeek
    Quirk(
        "deepseek: kept alive by comments, and by empty lines before a whole reply",
        events(
            ": keep-alive\n\n", delta(content=None, reasoning_content="想"), ": keep-alive\n\n", *TWO, delta("stop")
        ),
        b"\n\n\n\n" + message(content=TEXT, reasoning_content="想"),
    ),
    Quirk(
        "deepseek: thoughts alone, cut by max_tokens",
        events(delta(content=None, reasoning_content="想了又想"), delta("length", content="")),
        message("length", content="", reasoning_content="想了又想"),
        error=BadModelReply,
        says="max_tokens",
    ),
    Quirk(
        "deepseek: interrupted",
        events(TWO[0], delta("insufficient_system_resource")),
        message("insufficient_system_resource", content=TEXT[:HALF]),
        error=ModelUnavailable,
        says="没有写完",
    ),
    failed(402, {"error": {"message": "Insufficient Balance"}}, ModelUnavailable, "欠费", "deepseek: no money left"),
    # Text in parts, as Mistral's and some gateways' reasoning models have it
    Quirk(
        "gateways: content in parts",
        events(
            delta(content=[{"type": "thinking", "thinking": "嗯"}]),
            delta(content=[{"type": "text", "text": TEXT}]),
            delta("stop"),
        ),
        message(content=[{"type": "thinking", "thinking": "嗯"}, {"type": "text", "text": TEXT}]),
    ),
]


@contextmanager
def remote(answers: Answers) -> Iterator[tuple[RemoteChat, ChatService]]:
    with chat_service(answers) as service:
        endpoint = ChatEndpoint(service.url, "qwen", attempts=2, timeout_seconds=60.0)
        with closing(RemoteChat(endpoint, sleep=lambda wait: None)) as model:
            yield model, service


def outcome(quirk: Quirk, *, is_stream: bool) -> tuple[str, QianxunError | None]:
    raw = quirk.streamed if is_stream and quirk.status == 200 else quirk.whole
    with remote(lambda request: Reply(raw=raw, status=quirk.status)) as (model, _):
        try:
            return ("".join(model.stream(ASKED)) if is_stream else model.complete(ASKED)), None
        except QianxunError as error:
            return "", error


@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
def test_a_quirk_is_understood(quirk: Quirk, is_stream: bool) -> None:
    if (quirk.streamed if is_stream else quirk.whole) is None:
        pytest.skip("only the other way")
    text, error = outcome(quirk, is_stream=is_stream)
    if quirk.error is None:
        assert (text, error) == (quirk.text, None)
    else:
        assert type(error) is quirk.error
        assert error is not None
        assert quirk.says in f"{error} {error.hint}"


def test_a_reply_that_is_not_finished_says_so_by_a_word() -> None:
    cut = events(delta("null", content=TEXT[:HALF]), done="")
    _, error = outcome(Quirk("dashscope", cut), is_stream=True)
    assert isinstance(error, ModelUnavailable)
    assert "断了" in str(error)


@pytest.mark.parametrize(
    "refusal",
    [
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "This model only support stream mode, please enable the stream parameter to access the model. ",
    ],
)
def test_a_model_that_only_streams_is_read_by_stream(refusal: str) -> None:
    def answers(request: Request) -> Reply:
        refused = _json({"error": {"code": "invalid_parameter_error", "message": refusal}}).encode()
        return Reply(TEXT) if request.is_stream else Reply(raw=refused, status=400)

    with remote(answers) as (model, service):
        assert model.complete(ASKED) == TEXT
        assert [request.is_stream for request in service.requests] == [False, True]


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_parameter_that_a_model_does_not_take_is_left_out_from_then_on(is_stream: bool) -> None:
    refusals = {
        "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
    }

    def answers(request: Request) -> Reply:
        refused = next((refusals[name] for name in refusals if name in request.body), "")
        return Reply(raw=_json({"error": {"message": refused}}).encode(), status=400) if refused else Reply(TEXT)

    with chat_service(answers) as service:
        endpoint = ChatEndpoint(service.url, "o3", max_tokens=500)
        with closing(RemoteChat(endpoint, sleep=lambda wait: None)) as model:
            for _ in range(2):
                assert ("".join(model.stream(ASKED)) if is_stream else model.complete(ASKED)) == TEXT
        assert len(service.requests) == 4
        assert service.requests[-1].body["max_completion_tokens"] == 500


def test_messages_of_one_role_in_a_row_are_sent_as_one() -> None:
    asked = [*ASKED, Message("user", "门诊呢？"), Message("assistant", "70%"), Message("user", "依据？")]
    with remote(lambda request: Reply(TEXT)) as (model, service):
        model.complete(asked)
    roles = [each["role"] for each in service.requests[0].messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert service.requests[0].messages[1]["content"] == "住院报销多少？\n\n门诊呢？"
