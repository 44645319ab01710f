"""An answer on its way out in OpenAI's form, event by event, without a service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from fastapi import Request
from starlette.datastructures import State
from starlette.types import Message

from qianxun.core.answer_types import (
    Answer,
    AnswerEvent,
    Citation,
    Done,
    Failed,
    Flag,
    SentenceCited,
    Source,
    SourcesFound,
    Token,
)
from qianxun.core.errors import Overloaded
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.event_stream import AnswerRecorder, EventStream
from qianxun.doors.http.middleware.metrics import AnswerTime
from qianxun.doors.http.openai.chat import CORRECTION, ChatRequest, ChatWriter

SOURCE = Source(1, "手册", "医保手册.md", "c_1001_1_0", "住院报销85%。", 0, 8, 0.9, {})
ANSWER = Answer("住院报销85%。[1]", (SOURCE,), (Citation(0, 8, (1,)),))


class Application:
    """What is noted of an answer is noted here."""

    def __init__(self) -> None:
        self.noted: list[AnswerTime] = []
        self.state = State({"on_answer": self.noted.append})


def writing(app: Application, **asked: Any) -> ChatWriter:
    scope = {"type": "http", "app": app, "headers": [], "state": {"trace_id": "t1"}, "path": "/", "scheme": "http"}
    request = Request({**scope, "server": ("127.0.0.1", 8000), "query_string": b"", "root_path": ""})
    body = {"model": "医保", "messages": [{"role": "user", "content": "住院？"}], "stream": True, **asked}
    return ChatWriter(request, KnowledgeBase(1001, "医保"), ChatRequest.model_validate(body))


def chunks(told: str) -> list[dict[str, Any]]:
    *events, last, rest = told.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(each.removeprefix("data: ")) for each in events]


def told(*events: AnswerEvent, **asked: Any) -> tuple[str, list[dict[str, Any]]]:
    """The text that a client puts together, and the chunks that it is from."""
    out = writing(Application(), **asked)
    came = chunks(b"".join(out.event(each) for each in (SourcesFound(()), *events)).decode())
    deltas = [each["choices"][0]["delta"] for each in came if each.get("choices")]
    return "".join(each.get("content", "") for each in deltas), came


def unsaid(end: int) -> SentenceCited:
    return SentenceCited(Citation(0, end, ()), (Flag("dropped", "想", "思考"),))


def check_mark(text: str, chunk: dict[str, Any]) -> None:
    (place,) = [each["url_citation"] for each in chunk["choices"][0]["delta"]["annotations"]]
    assert (text[place["start_index"] : place["end_index"]], place["end_index"]) == ("[1]", len(text))


def test_an_answer_that_has_become_another_is_corrected() -> None:
    text, came = told(Token("门诊报销70%。[1]"), Done(ANSWER))
    assert text == f"门诊报销70%。[1]{CORRECTION}{ANSWER.answer}"
    check_mark(text, came[-1])


def test_thoughts_are_taken_back_where_the_answer_begins_and_it_is_told_once() -> None:
    text, came = told(Token("先想。"), unsaid(3), Token("再想。"), unsaid(6), Token("住院报销"), Done(ANSWER))
    assert text == f"先想。{CORRECTION}再想。{CORRECTION}{ANSWER.answer}"
    check_mark(text, came[-1])


def test_thoughts_of_which_nothing_was_told_need_no_correction() -> None:
    text, came = told(unsaid(0), Token(ANSWER.answer), Done(ANSWER))
    assert text == ANSWER.answer
    check_mark(text, came[-1])


def test_the_sources_answer_for_a_model_that_told_nothing_and_only_then() -> None:
    instead = Answer(ANSWER.answer, ANSWER.sources, ANSWER.citations, "extractive", is_partial=True)
    failed = Failed("model_unavailable", "断了", instead)
    text, (*_, last, usage) = told(unsaid(0), failed, stream_options={"include_usage": True})
    assert (text, last["choices"][0]["finish_reason"], last["form"]) == (ANSWER.answer, "stop", "extractive")
    assert usage["usage"]["completion_tokens"] > 0
    for before in ([Token("住院")], [Token("先想。"), unsaid(3)]):
        _, came = told(*before, failed)
        assert came[-1]["error"]["code"] == "model_unavailable"


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [(Overloaded("服务正在停止", hint="稍后再问"), 503, "overloaded"), (RuntimeError("sk-secret"), 500, "internal")],
)
def test_whatever_ends_a_stream_is_told_in_openais_form(error: Exception, status: int, word: str) -> None:
    async def failing() -> AsyncGenerator[AnswerEvent | None, None]:
        raise error
        yield

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    app, sent = Application(), list[bytes]()
    writer = writing(app)
    stream = EventStream(AsyncExitStack(), SourcesFound(()), failing(), writer, AnswerRecorder(writer.request, "mix"))
    asyncio.run(stream({"type": "http"}, writer.request.receive, send))
    said = b"".join(sent).decode()
    _, last = chunks(said)
    assert (last["code"], last["error"]["code"], last["error"]["type"]) == (status, word, "server_error")
    assert last["msg"] == last["error"]["message"]
    assert "sk-secret" not in said
    assert [each.outcome for each in app.noted] == ["failed"]
