"""OpenAI's chat completions: a question to a knowledge base, answered with its sources, whole or as it comes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response

from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, SentenceCited, Source, SourcesFound, Token
from qianxun.core.codec.answers import written_sources
from qianxun.core.codec.results import written_degraded
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.answer_metrics import AnswerRecorder
from qianxun.doors.http.context import TenantEngine, answer_slot, trace_id
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.error_formats import openai as openai_form
from qianxun.doors.http.event_stream import encode_event, stream_response
from qianxun.doors.http.named_bases import find_base
from qianxun.doors.http.openai.chat_models import ChatCompletion, ChatRequest
from qianxun.doors.http.openai.models import TAG
from qianxun.doors.http.responses import as_json, error_responses, failed, prefers_english, problem
from qianxun.doors.mcp.ids import own_url, service_address
from qianxun.text.tokens import tokens

CORRECTED: Final = "\n\n（更正：以上与核对之后的回答不同，以下为准。）\n\n"
ENDED: Final = b"data: [DONE]\n\n"
EXAMPLES: Final[dict[str, Any]] = {
    "plain": {
        "summary": "一个问题",
        "value": {"model": "医保", "messages": [{"role": "user", "content": "住院报销比例是多少"}]},
    },
    "stream": {
        "summary": "接着前面的话问，一边写一边给",
        "value": {
            "model": "医保",
            "messages": [
                {"role": "user", "content": "住院报销比例是多少"},
                {"role": "assistant", "content": "住院报销 85%[1]。"},
                {"role": "user", "content": [{"type": "text", "text": "那门诊呢？"}]},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "mode": "mix",
        },
    },
}
STREAMED: Final = """data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}

data: {"choices": [{"index": 0, "delta": {"content": "住院报销 85%。[1]"}}]}

data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "sources": [{"number": 1}], "mode": "mix"}

data: [DONE]
"""
EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "string", "contentMediaType": "application/json"}},
}


def routes() -> APIRouter:
    router = APIRouter(tags=[TAG])
    events = {"schema": EVENT, "example": STREAMED}
    router.post(
        "/v1/chat/completions",
        summary="提问，答案注明出处",
        response_model=ChatCompletion,
        responses={
            200: {"description": "答案；stream 为 true 时是事件流", "content": {"text/event-stream": events}},
            **error_responses(400, 404, 413, 422, form=OpenAIProblem),
        },
    )(complete)
    return router


async def complete(
    request: Request, engine: TenantEngine, body: Annotated[ChatRequest, Body(openapi_examples=EXAMPLES)]
) -> Response:
    """与 `/v1/query` 相同的回答，OpenAI 的形式：`choices[0].message.content` 里的 [1]、[2] 对应 `sources`。

    `stream` 为 true 时，一句核对过才给，给了的不会收回；最后一块有 `finish_reason`、`sources`，然后是 `[DONE]`。
    模型一句还没有给就失败，改由资料的原句作答，写在 `degraded` 里；给过之后失败，最后是 `{"error": …}`。
    图片写成 data: 地址放在最后一条 user 消息里，别的地址不会去取。
    """
    question, told = body.asked()
    options = {**told, "trace_id": trace_id(request)}
    notes = AnswerRecorder(request, body.mode)
    with notes.watched():
        base = await find_base(engine, body.model)
        writing = Writing(request, base, body)
        if body.stream:
            events = engine.ask_stream(base.id, question, checked=True, **options)
            return await stream_response(answer_slot(request), events, Telling(notes, writing))
        async with answer_slot(request):
            answer = await engine.ask(base.id, question, **options)
    notes.given(answer)
    return as_json(writing.completion(answer))


@dataclass(frozen=True)
class Writing:
    """One answer in OpenAI's form: what is the same in all its parts."""

    request: Request
    base: KnowledgeBase
    asked: ChatRequest
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.answer, "refusal": None}
        choice = {"index": 0, "message": {**message, "annotations": self.annotations(answer)}, "logprobs": None}
        return {
            **self._head("chat.completion"),
            "choices": [{**choice, "finish_reason": finish_reason(answer)}],
            "usage": self.usage(answer),
            **about(answer),
        }

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return self._chunk({"choices": [choice], **more})

    def usage_chunk(self, answer: Answer) -> bytes:
        return self._chunk({"choices": [], "usage": self.usage(answer)})

    def usage(self, answer: Answer) -> dict[str, int]:
        asked, said = self.asked.tokens, tokens(answer.answer)
        return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}

    def annotations(self, answer: Answer, before: int = 0) -> list[dict[str, Any]]:
        """Every mark, and the document that it leads to; what came with the question has no address."""
        sources = {each.number: each for each in answer.sources}
        found = []
        for citation in answer.citations:
            start = before + citation.end
            for number in citation.numbers:
                end, source = start + len(f"[{number}]"), sources[number]
                if not source.chunk_id.startswith("q_"):
                    title, url = source.doc_name or source.doc_id, self._address(source)
                    place = {"start_index": start, "end_index": end, "title": title, "url": url}
                    found.append({"type": "url_citation", "url_citation": place})
                start = end
        return found

    def _address(self, source: Source) -> str:
        """Where the document says that it is from, else where this service tells of it."""
        told = own_url(source.metadata.get("document", {}))
        return told or service_address(str(self.request.base_url))(self.base.id, source.doc_id)

    def _chunk(self, told: Mapping[str, Any]) -> bytes:
        usage = {"usage": None} if self.asked.stream_options.include_usage else {}
        return encode_event("", {**self._head("chat.completion.chunk"), **usage, **told})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{trace_id(self.request)}",
            "object": kind,
            "created": self.created,
            "model": self.base.name,
        }


def finish_reason(answer: Answer) -> str:
    return "length" if answer.is_partial else "stop"


def about(answer: Answer) -> dict[str, Any]:
    """What OpenAI's form has no place for."""
    return {
        "sources": written_sources(answer.sources),
        "mode": answer.mode,
        "form": answer.form,
        "degraded": written_degraded(answer.degraded),
        "trace_id": answer.trace_id,
    }


@dataclass
class Telling:
    """One answer on its way out, as chunks. What was told cannot be taken back: only what is checked is."""

    notes: AnswerRecorder
    writing: Writing
    came: str = ""  # of the answer
    before: int = 0  # characters of what was told and is no part of it, with the word that says so

    def event(self, event: AnswerEvent) -> bytes:
        self.notes.came(event)
        match event:
            case SourcesFound():
                return self.writing.chunk({"role": "assistant", "content": ""})
            case Token(text):
                self.came += text
                return self.writing.chunk({"content": text})
            case SentenceCited() if event.is_unsaid and self.came:
                return self._corrected()
            case Done(answer):
                return b"".join(self._end(answer))
            case Failed(answer=answer) if not (self.came or self.before):  # what is said instead of the model
                return b"".join(self._end(replace(answer, is_partial=False)))
            case Failed():
                return self._error(problem(503, event.message, event.error).content)
        return b""  # marks come with the words

    def failure(self, error: Exception) -> bytes:
        self.notes.failed()
        request = self.notes.request
        return self._error(failed(error, trace_id(request), english=prefers_english(request)).content)

    def left(self) -> None:
        self.notes.left()

    def _end(self, answer: Answer) -> Iterator[bytes]:
        writing, text = self.writing, answer.answer
        if not text.startswith(self.came):  # its sources went meanwhile
            yield self._corrected()
        if rest := text[len(self.came) :]:
            yield writing.chunk({"content": rest})
        delta = {"annotations": writing.annotations(answer, self.before)}
        yield writing.chunk(delta, finish_reason(answer), **about(answer))
        if writing.asked.stream_options.include_usage:
            yield writing.usage_chunk(answer)
        yield ENDED

    def _corrected(self) -> bytes:
        """What came is not the answer: that begins here."""
        self.before += len(self.came + CORRECTED)
        self.came = ""
        return self.writing.chunk({"content": CORRECTED})

    def _error(self, said: dict[str, Any]) -> bytes:
        return encode_event("", openai_form(said, {})) + ENDED
