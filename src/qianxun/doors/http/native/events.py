"""Document events from another system, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, ConfigDict, Field

from qianxun.core.ingest_types import EventOutcome
from qianxun.core.limits import EVENT_ID_LIMIT
from qianxun.doors.http.context import MAX_ID, TenantEngine, Writer
from qianxun.doors.http.request_models import DOC_ID_LIMIT, Number
from qianxun.doors.http.responses import Envelope, error_responses, problem, success
from qianxun.indexing.events import RAGIndexEventHandler

WANTS_CONTENT: Final[dict[str, Any]] = {
    "if": {"properties": {"type": {"enum": ["document.deleted", "deleted"]}}},
    "else": {
        "if": {"properties": {"type": {"enum": ["document.updated", "updated"]}}},
        "then": {"properties": {"content": {"type": "string"}}},
        "else": {"properties": {"content": {"type": "string", "pattern": r"\S"}}},
        "required": ["content"],
    },
}


class Event(BaseModel):
    """What the sender knows of the document; fields of its own are passed over."""

    model_config = ConfigDict(extra="allow", json_schema_extra=WANTS_CONTENT)

    type: Literal["document.created", "document.updated", "document.deleted", "created", "updated", "deleted"]
    knowledge_base_id: Annotated[int, Field(ge=1, le=MAX_ID), Number] = Field(examples=[1001])
    document_id: str = Field(min_length=1, max_length=DOC_ID_LIMIT, description="文档的编号", examples=["123"])
    event_id: str | None = Field(
        default=None, max_length=EVENT_ID_LIMIT, description="同一个 event_id 只生效一次", examples=["evt-20260101-1"]
    )
    generation: Annotated[int, Field(ge=1, lt=2**62), Number] | None = Field(
        default=None, description="文档的版本；迟到的旧版本不生效", examples=[3]
    )
    name: str | None = Field(default=None, max_length=512, description="显示给人看的名称；不写则为编号")
    content: str | None = Field(
        default=None, description="created 与 updated 必填；updated 可以是空的：正文清空了，原来的不再检索得到"
    )
    format: Literal["text", "html", "markdown"] | None = None
    content_type: str | None = Field(default=None, max_length=64, description="内容的类别，可用于过滤")
    user_id: str | None = Field(
        default=None, max_length=128, description="属于谁。updated 替换整个文档：不写就不再属于谁，项目、类别等也一样"
    )
    project_id: str | None = Field(default=None, max_length=128, description="属于哪个项目")
    tags: list[str] | None = Field(default=None, max_length=1000)
    metadata: dict[str, Any] | None = None


class EventTold(BaseModel):
    result: Literal["accepted", "unchanged", "duplicate", "stale"] = Field(
        description="accepted 已记下，随后可检索；unchanged 内容没有变；duplicate 处理过；stale 已有更新的版本"
    )
    document_id: str
    generation: int
    reason: str


EXAMPLES: Final[dict[str, Any]] = {
    "created": {
        "summary": "新文档",
        "value": {
            "type": "document.created",
            "event_id": "evt-20260101-1",
            "knowledge_base_id": 1001,
            "document_id": "123",
            "name": "RAG系统设计.md",
            "content": "# 阈值配置\n相似度阈值默认为 0.7。",
            "format": "markdown",
            "content_type": "chapter",
            "user_id": "7",
            "project_id": "p1",
        },
    },
    "deleted": {
        "summary": "删除",
        "value": {"type": "document.deleted", "knowledge_base_id": 1001, "document_id": "123", "generation": 4},
    },
}


def routes() -> APIRouter:
    router = APIRouter(tags=["文档"])
    router.post(
        "/v1/events",
        summary="接收文档事件",
        status_code=202,
        response_model=Envelope[EventTold],
        responses=error_responses(400, 404, 413, 422, 507),
        dependencies=[Writer],
    )(receive)
    return router


async def receive(engine: TenantEngine, body: Annotated[Event, Body(openapi_examples=EXAMPLES)]) -> Response:
    """答复之时事件已持久地记下。重复的、迟到的不改变任何东西；说不通的以 422 退回，原因在 `msg`。"""
    outcome = await _handled(await engine.events(body.knowledge_base_id), body)
    if outcome.result == "rejected":
        return problem(422, outcome.reason, "rejected")
    told = {
        "result": outcome.result,
        "document_id": outcome.document_id,
        "generation": outcome.generation,
        "reason": outcome.reason,
    }
    return success(told, 202)


async def _handled(handler: RAGIndexEventHandler, event: Event) -> EventOutcome:
    data = event.model_dump(exclude={"type"}, exclude_none=True)
    match event.type.removeprefix("document."):
        case "created":
            return await handler.handle_document_created(data)
        case "updated":
            return await handler.handle_document_updated(data)
    return await handler.handle_document_deleted(data)
