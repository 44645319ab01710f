"""The documents of a service's bases, looked through a page at a time: `Engine.contents.page` over HTTP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from qianxun.core.errors import BadInput
from qianxun.core.filters import EVERYTHING, written_filters
from qianxun.core.ingest_types import DocumentListing, DocumentQuery
from qianxun.core.types import DocumentState
from qianxun.doors.client.connection import Request
from qianxun.doors.client.payloads import Ask, params_of, values_of

EVERY_DOCUMENT: Final = DocumentQuery()


@dataclass(frozen=True, slots=True)
class ServiceContents:
    """Of the tenant of a key."""

    ask: Ask

    async def page(
        self,
        knowledge_base: int,
        query: DocumentQuery = EVERY_DOCUMENT,
        *,
        limit: int = 50,
        after: str = "",
        counted: bool = True,
    ) -> DocumentListing:
        """``after`` is what the last page gave as ``next``. The service counts in any case."""
        params = params_of(**_chosen(query), limit=limit, after=after)
        request = Request("GET", f"v1/knowledge-bases/{knowledge_base}/documents", params=params)
        return await self.ask(request, lambda data: _listing(data, counted))


def _chosen(query: DocumentQuery) -> dict[str, Any]:
    if query.field:
        raise BadInput("field 与 value 不能经过服务", hint='写成 where=Eq("metadata.名称", 值)')
    names = ("name", "status", "content_type", "suffix", "folder", "valid_on", "order", "since", "until")
    filters = "" if query.where == EVERYTHING else json.dumps(written_filters(query.where))
    return {"label": query.access, "filters": filters, **{name: getattr(query, name) for name in names}}


def _listing(data: Any, counted: bool) -> DocumentListing:
    found = tuple(values_of(DocumentState, "documents")(data))
    return DocumentListing(found, data["next"] or "", data["total"] if counted else None)
