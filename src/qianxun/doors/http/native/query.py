"""Questions over HTTP: a cited answer, whole as JSON or as it comes, as server-sent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response

from qianxun.core.answer_types import AnswerEvent
from qianxun.core.codec.answers import written_answer, written_event
from qianxun.doors.http.answer_metrics import AnswerRecorder
from qianxun.doors.http.context import BaseId, TenantEngine, answer_slot, trace_id
from qianxun.doors.http.event_stream import encode_event, stream_response
from qianxun.doors.http.native.query_models import Answered, Question
from qianxun.doors.http.responses import Envelope, error_responses, failure, prefers_english, success

PICTURE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTvJ8gAAAABJRU5ErkJggg=="
)
EXAMPLES: Final[dict[str, Any]] = {
    "plain": {"summary": "只写问题", "value": {"query": "住院报销比例是多少"}},
    "stream": {
        "summary": "一边写一边给，混合图谱与向量",
        "value": {"query": "住院报销比例是多少", "mode": "mix", "top_k": 8, "stream": True},
    },
    "follow_up": {
        "summary": "接着前面的话问，限定文档",
        "value": {
            "query": "那门诊呢？",
            "mode": "local",
            "history": [
                {"role": "user", "content": "住院报销比例是多少"},
                {"role": "assistant", "content": "住院报销 85%。"},
            ],
            "doc_ids": ["doc_123"],
            "filters": {"content_type": ["chapter"]},
        },
    },
    "multimodal": {
        "summary": "带上一张表格和一张图片",
        "value": {
            "query": "表里三级医院报销多少",
            "multimodal_content": [
                {
                    "type": "table",
                    "table_data": "| 医院 | 比例 |\n| --- | --- |\n| 三级 | 85% |",
                    "table_caption": "比例",
                },
                {"type": "image", "url": PICTURE, "image_caption": "告示"},
            ],
        },
    },
}
# Of one event, as those who read schemas of event streams take it.
EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["sources", "token", "citation", "done", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
STREAMED: Final = """event: sources
data: {"sources": [{"number": 0, "doc_name": "医保手册.pdf", "content": "住院报销 85%。"}]}

event: token
data: {"text": "住院报销 85%。"}

event: token
data: {"text": "[1]"}

event: citation
data: {"start": 0, "end": 9, "numbers": [1], "flags": [], "sources": [{"number": 1, "doc_name": "医保手册.pdf"}]}

event: done
data: {"answer": "住院报销 85%。[1]", "sources": [], "mode": "mix", "trace_id": "…"}
"""


def routes() -> APIRouter:
    router = APIRouter(tags=["问答"])
    events = {"schema": EVENT, "example": STREAMED}
    router.post(
        "/v1/query/{knowledge_base_id}",
        summary="提问，答案注明出处",
        response_model=Envelope[Answered],
        responses={
            200: {"description": "答案；stream 为 true 时是事件流", "content": {"text/event-stream": events}},
            **error_responses(400, 404, 413, 415, 422),
        },
    )(query)
    return router


async def query(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[Question, Body(openapi_examples=EXAMPLES)],
) -> Response:
    """答案里的 [1]、[2] 对应 `sources`；资料里没有的，明说没有（`form` 为 declined）。
    没有语言模型时，答案由资料的原句组成。

    `stream` 为 true 时是 SSE。先 `sources`：可以引用的资料，还没有编号；再 `token`：文字，一有就给；
    与 `citation`：一句写完之后，它依据的编号，以及其中第一次引用的资料。最后一定是 `done`：与 JSON 的 `data` 相同，
    以它为准；或 `error`：断了、失败或超时，`answer` 是到那时为止的部分，没有则为空。
    没有内容时每 10 秒一行注释，表示还在做。客户端断开，模型的调用随即停止。
    """
    notes = AnswerRecorder(request, body.mode or "mix")
    options = {**body.options(), "trace_id": trace_id(request)}
    with notes.watched():
        if body.stream:
            events = engine.ask_stream(knowledge_base_id, body.query, **options)
            return await stream_response(answer_slot(request), events, Telling(notes, knowledge_base_id))
        async with answer_slot(request):
            answer = await engine.ask(knowledge_base_id, body.query, **options)
    notes.given(answer)
    return success(written_answer(knowledge_base_id, answer))


@dataclass(frozen=True, slots=True)
class Telling:
    """One answer on its way out, as events."""

    notes: AnswerRecorder
    knowledge_base: int

    def event(self, event: AnswerEvent) -> bytes:
        self.notes.came(event)
        return encode_event(*written_event(self.knowledge_base, event))

    def failure(self, error: Exception) -> bytes:
        self.notes.failed()
        request = self.notes.request
        told = failure(error, trace_id(request), english=prefers_english(request))
        return encode_event("error", {**told, "answer": None})

    def left(self) -> None:
        self.notes.left()
