"""Receipts of deletions: listed and shown; and everything of a user purged."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response

from qianxun.core.governance.receipts import Receipt, written_receipt
from qianxun.doors.http.context import TenantEngine, Writer
from qianxun.doors.http.native.routes import route
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success

PAGE: Final = 50
MAX_PAGE: Final = 500
ReceiptId = Annotated[str, Path(min_length=1, max_length=32, description="凭证的编号")]
SubjectId = Annotated[str, Path(min_length=1, max_length=128, description="用户的编号", examples=["u_1"])]

router = APIRouter(tags=["删除凭证"], dependencies=[Writer])

ReceiptInfo: Final = response("ReceiptInfo", Receipt, format=str, version=int, created_at=str, is_complete=bool)
ReceiptPage: Final = response("ReceiptPage", list=listed(ReceiptInfo), next=str | None)
ReceiptKey: Final = response("ReceiptKey", public_key=str)


@router.get("/v1/receipts", **route("删除凭证，新的在前", ReceiptPage, 422))
async def list_receipts(
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="最多几张")] = PAGE,
    before: Annotated[str, Query(max_length=32, description="上一页的 next")] = "",
) -> Response:
    found = await engine.governance.receipts.list(limit=limit, before=before)
    following = found[-1].id if len(found) == limit else None
    return success({"list": [written_receipt(one) for one in found], "next": following})


@router.get("/v1/receipts/key", **route("核对凭证用的公钥", ReceiptKey))
async def key(engine: TenantEngine) -> Response:
    """抄到别处：有了它，凭证不问这个服务也能核对：`qianxun receipts verify`。"""
    return success({"public_key": await engine.governance.receipts.key()})


@router.get("/v1/receipts/{receipt_id}", **route("一张凭证", ReceiptInfo, 404, 422))
async def get(engine: TenantEngine, receipt_id: ReceiptId) -> Response:
    return success(written_receipt(await engine.governance.receipts.get(receipt_id)))


@router.post("/v1/subjects/{subject_id}/purge", **route("清除一个用户的一切", ReceiptInfo, 400, 422, 507))
async def purge_subject(engine: TenantEngine, subject_id: SubjectId) -> Response:
    """提到这个用户的文档、为他做的检索与评价、由此而来的评测题、他登记的模型；数据库与索引的文件重写，并逐字节查过。"""
    return success(written_receipt(await engine.governance.receipts.purge_subject(subject_id)))
