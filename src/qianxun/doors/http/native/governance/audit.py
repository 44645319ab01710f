"""The audit log: who changed what, and whether the log is as it was written."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from qianxun.core.codec.wire import to_wire
from qianxun.core.governance.audit import AuditEntry, AuditVerdict
from qianxun.core.limits import MAX_ID, NAME_LIMIT
from qianxun.doors.http.context import TenantEngine, Writer, write_slot
from qianxun.doors.http.native.routes import route
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success

PAGE: Final = 50
MAX_PAGE: Final = 500

router = APIRouter(prefix="/v1/audit", tags=["审计"], dependencies=[Writer])

AuditInfo: Final = response("AuditInfo", AuditEntry, created_at=str)
AuditPage: Final = response("AuditPage", list=listed(AuditInfo), next=int | None)
AuditResult: Final = response("AuditResult", AuditVerdict, is_intact=bool)


@router.get("", **route("谁改了什么，新的在前", AuditPage, 404, 422))
async def list_entries(
    engine: TenantEngine,
    knowledge_base_id: Annotated[
        str | None, Query(min_length=1, max_length=NAME_LIMIT, description="只看这个知识库的：编号或名称")
    ] = None,
    action: Annotated[str, Query(max_length=64, description="只看这样的改动，可以只写前一段：document")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="最多几条")] = PAGE,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID, description="上一页的 next")] = None,
) -> Response:
    base = None if knowledge_base_id is None else await engine.base_id(knowledge_base_id)
    found = await engine.governance.audit.list(knowledge_base=base, action=action, limit=limit, before=before)
    return success({"list": to_wire(found), "next": found[-1].sequence if len(found) == limit else None})


@router.get("/verify", **route("核对审计记录的哈希链", AuditResult, 422))
async def verify(
    engine: TenantEngine,
    request: Request,
    head: Annotated[str, Query(max_length=64, description="以前抄下的 head，应仍在链上")] = "",
) -> Response:
    """把所有租户的记录（同一条链）从头重算一遍；`head` 抄到别处，日后还能看出结尾有没有被截去。
    有密钥时只数、只说这个租户自己的；别处断了只说断了，`head` 是自己最后一条的。"""
    async with write_slot(request):  # it reads the whole log: not more at a time than there are writes
        verdict = await engine.governance.audit.verify(head, tenant=engine.tenant if request.state.key_id else None)
    return success({**to_wire(verdict), "is_intact": verdict.is_intact})
