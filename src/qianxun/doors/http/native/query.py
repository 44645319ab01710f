"""Questions over HTTP: a cited answer, whole as JSON or as it comes, as server-sent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response

from qianxun.core.answer_types import Answer, AnswerEvent
from qianxun.core.codec.answers import written_answer, written_event
from qianxun.doors.http.context import BaseId, TenantEngine
from qianxun.doors.http.event_stream import AnswerRecorder, answer_response, encode_event
from qianxun.doors.http.native.query_models import Answered, Question
from qianxun.doors.http.openapi import event_stream, request_examples, returns
from qianxun.doors.http.responses import Envelope

router = APIRouter(tags=["问答"])
EVENTS: Final = ("sources", "token", "citation", "done", "error")


@router.post(
    "/v1/query/{knowledge_base_id}",
    summary="提问，答案注明出处",
    **returns(Envelope[Answered], 400, 404, 413, 415, 422, **event_stream("query", *EVENTS)),
)
async def query(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[Question, Body(openapi_examples=request_examples("query"))],
) -> Response:
    """答案里的 [1]、[2] 对应 `sources`；资料里没有的，明说没有（`form` 为 declined）。
    没有语言模型时，答案由资料的原句组成。

    `stream` 为 true 时是 SSE。先 `sources`：可以引用的资料，还没有编号；再 `token`：文字，一有就给；
    与 `citation`：一句写完之后，它依据的编号，以及其中第一次引用的资料。最后一定是 `done`：与 JSON 的 `data` 相同，
    以它为准；或 `error`：断了、失败或超时，`answer` 是到那时为止的部分，没有则为空。
    没有内容时每 10 秒一行注释，表示还在做。客户端断开，模型的调用随即停止。
    """
    recorder = AnswerRecorder(request, body.mode or "mix")
    writer = EventWriter(knowledge_base_id)
    choices = body.choices()
    with recorder.recording():
        return await answer_response(
            recorder, writer, engine, knowledge_base_id, body.query, choices, stream=body.stream
        )


@dataclass(frozen=True, slots=True)
class EventWriter:
    """Encodes an answer as named events."""

    knowledge_base: int

    def whole(self, answer: Answer) -> dict[str, Any]:
        return {"code": 200, "msg": "success", "data": written_answer(self.knowledge_base, answer)}

    def event(self, event: AnswerEvent) -> bytes:
        return encode_event(*written_event(self.knowledge_base, event))

    def error(self, content: dict[str, Any], trace_id: str) -> bytes:
        failure = {"error": content["error"], "msg": content["msg"], "trace_id": trace_id}
        return encode_event("error", {**failure, "answer": None})
