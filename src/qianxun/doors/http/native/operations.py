"""Maintenance in the background: verify and rebuild a base's index, and how far that is."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response

from qianxun.core.codec.wire import to_wire
from qianxun.core.limits import MAX_ID
from qianxun.doors.http.context import BaseId, TenantEngine
from qianxun.doors.http.native.routes import route, write_route
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success
from qianxun.engine.admin.background import Operation, start_rebuild, start_verify

OperationId = Annotated[int, Path(description="后台工作的编号", ge=1, le=MAX_ID, examples=[1])]

router = APIRouter(tags=["维护"])

OperationInfo: Final = response("OperationInfo", Operation, ended_at=str | None, result=dict[str, Any])
OperationList: Final = response("OperationList", list=listed(OperationInfo))


@router.post(
    "/v1/knowledge-bases/{knowledge_base_id}/maintenance/verify",
    **write_route("核对索引与记录", OperationInfo, 404, 422, status=202),
)
async def verify(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    """在后台进行，结论在 `/v1/operations/{operation_id}` 的 `result` 里；什么也不改。"""
    return success(to_wire(await start_verify(engine, knowledge_base_id)), 202)


@router.post(
    "/v1/knowledge-bases/{knowledge_base_id}/maintenance/rebuild",
    **write_route("重建索引", OperationInfo, 404, 422, status=202),
)
async def rebuild(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    """在后台进行，进度看 `/v1/operations/{operation_id}`；其间检索照常用旧的索引。"""
    return success(to_wire(await start_rebuild(engine, knowledge_base_id)), 202)


@router.get("/v1/operations", **route("后台的工作，新的在前", OperationList))
async def list_operations(engine: TenantEngine) -> Response:
    """属于这个进程，重启后不再列出。"""
    return success({"list": to_wire(engine.operations.list(engine.tenant))})


@router.get("/v1/operations/{operation_id}", **route("一件后台工作", OperationInfo, 404, 422))
async def get(engine: TenantEngine, operation_id: OperationId) -> Response:
    return success(to_wire(engine.operations.get(operation_id, engine.tenant)))


@router.post("/v1/operations/{operation_id}/cancel", **write_route("取消一件后台工作", OperationInfo, 404, 422))
async def cancel(engine: TenantEngine, operation_id: OperationId) -> Response:
    return success(to_wire(engine.operations.cancel(operation_id, engine.tenant)))
