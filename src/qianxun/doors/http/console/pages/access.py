"""Who may see a document: the form of its page."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response

from qianxun.doors.http.console.forms import ConsoleRoute, form
from qianxun.doors.http.console.render import redirect, translate
from qianxun.doors.http.context import BaseId, TenantEngine, Writer

router = APIRouter(route_class=ConsoleRoute)


@router.post("/console/bases/{knowledge_base_id}/access", dependencies=[Writer])
async def set_labels(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    """Labels parted by spaces or commas; none: everybody. ``inherit`` takes away the document's own."""
    fields = await form(request)
    doc_id, access = fields.raw("doc"), engine.governance.access
    labels = [label for label in re.split(r"[\s,，、]+", fields.text("labels")) if label]
    if fields.text("inherit"):
        await access.clear(knowledge_base_id, [doc_id])
    else:
        await access.set(knowledge_base_id, [doc_id], labels)
    note = translate(request, "访问标签已改，立刻生效", "The access labels are changed, at once")
    return redirect(request, f"/console/bases/{knowledge_base_id}/document", note, doc=doc_id)
