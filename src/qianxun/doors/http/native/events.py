"""Document events from another system."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from qianxun.core.codec.wire import to_wire
from qianxun.core.ingest_types import EventOutcome
from qianxun.core.limits import DOC_ID_LIMIT, EVENT_ID_LIMIT, MAX_ID, NAME_LIMIT
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.native.routes import body_examples, write_route
from qianxun.doors.http.request_models import Number
from qianxun.doors.http.responses import problem, success

CONTENT_REQUIRED: Final[dict[str, Any]] = {
    "if": {"properties": {"type": {"enum": ["document.deleted", "deleted"]}}},
    "else": {
        "if": {"properties": {"type": {"enum": ["document.updated", "updated"]}}},
        "then": {"properties": {"content": {"type": "string"}}},
        "else": {"properties": {"content": {"type": "string", "pattern": r"\S"}}},
        "required": ["content"],
    },
}

router = APIRouter(tags=["文档"])

BaseText: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]


class Event(BaseModel):
    """What the sender knows of the document; fields of its own are ignored."""

    model_config = ConfigDict(extra="allow", json_schema_extra=CONTENT_REQUIRED)

    type: Literal["document.created", "document.updated", "document.deleted", "created", "updated", "deleted"]
    knowledge_base_id: Annotated[int, Field(ge=1, le=MAX_ID, strict=True)] | BaseText = Field(
        description="知识库的编号或名称", examples=[1001]
    )
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


@router.post("/v1/events", **write_route("接收文档事件", EventOutcome, 400, 404, 413, 422, 507, status=202))
async def receive(engine: TenantEngine, body: Annotated[Event, body_examples("events")]) -> Response:
    """答复之时事件已持久地记下。重复的、迟到的不改变任何东西；说不通的以 422 退回，原因在 `msg`。"""
    base = await engine.base_id(str(body.knowledge_base_id))
    handler = await engine.events(base)
    outcome = await handler.handle({**body.model_dump(exclude_none=True), "knowledge_base_id": base})
    if outcome.result == "rejected":
        return problem(422, outcome.reason, "rejected")
    return success(to_wire(outcome), 202)
