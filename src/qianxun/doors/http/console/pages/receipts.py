"""A receipt of a deletion: what was read where, and the file to keep."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request, Response

from qianxun.core.governance.receipts import written_receipt
from qianxun.doors.http.console.forms import ConsoleRoute
from qianxun.doors.http.console.headers import HEADERS
from qianxun.doors.http.console.render import render
from qianxun.doors.http.context import TenantEngine, Writer

router = APIRouter(route_class=ConsoleRoute)


@router.get("/console/receipts", dependencies=[Writer])
async def receipts_page(request: Request, engine: TenantEngine) -> Response:
    return render(request, "receipts.html", receipts=await engine.governance.receipts.list(limit=100), receipt=None)


@router.get("/console/receipts/{receipt_id}", dependencies=[Writer])
async def receipt_page(request: Request, engine: TenantEngine, receipt_id: str) -> Response:
    found = await engine.governance.receipts.get(receipt_id)
    return render(request, "receipts.html", receipt=found, receipts=())


@router.get("/console/receipts/{receipt_id}/file", dependencies=[Writer])
async def receipt_file(engine: TenantEngine, receipt_id: str) -> Response:
    found = await engine.governance.receipts.get(receipt_id)
    content = json.dumps(written_receipt(found), ensure_ascii=False, indent=1)
    name = f'attachment; filename="receipt-{found.id}.json"'
    return Response(content, media_type="application/json", headers={**HEADERS, "content-disposition": name})
