"""知识库: the bases of a tenant; one of them with its documents, uploads and pasted text; many documents at once."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, Final, cast

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import BadInput, MissingExtra, QianxunError, UnsupportedFile
from qianxun.core.ingest_types import DocumentQuery, Facet
from qianxun.core.limits import MIB
from qianxun.core.types import STORED_STATUSES, Document, KnowledgeBase, Scalar
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, UploadRoute, check_token, form, query
from qianxun.doors.http.console.labels import STATE_KINDS, label
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import BaseId, TenantEngine, Writer, service_of, write_slot
from qianxun.doors.http.native.uploads import received
from qianxun.doors.http.responses import json_response

PAGE: Final = Page(
    "bases",
    Text("知识库", "Knowledge bases"),
    Text("建库、放入文档、看它们走到了哪一步", "Create bases, add documents, see how far they have come"),
)
PAGE_SIZE: Final = 50
SHOWN_BASES: Final = 500
SHOWN_VALUES: Final = 12  # of a field of the metadata, to choose from
FORMATS: Final = ("text", "markdown", "html")

router = APIRouter(route_class=ConsoleRoute)
uploads = APIRouter(route_class=UploadRoute)


@router.get(PAGE.path)
async def bases(request: Request, engine: TenantEngine) -> Response:
    known = await engine.knowledge_bases(limit=SHOWN_BASES)
    counts = await asyncio.gather(*(engine.statistics(base.id) for base in known[:PAGE_SIZE]))
    rows = [(base, _documents(counts[at]) if at < len(counts) else None) for at, base in enumerate(known)]
    chunks = {base.id: count["chunks"] for base, count in zip(known, counts, strict=False)}
    models = await asyncio.to_thread(engine.embeddings.offered)
    return render(request, "bases.html", rows=rows, chunks=chunks, models=models)


@router.post(PAGE.path, dependencies=[Writer])
async def create(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    made = await engine.create_knowledge_base(fields.raw("name"), model=fields.text("model") or None)
    note = translate(request, f"建好了知识库“{made.name}”，现在放入文档", f"Created “{made.name}”. Now add documents")
    return redirect(request, f"{PAGE.path}/{made.id}", note)


# ── one base ─────────────────────────────────────────────────────────────────────────────────────


@router.get("/console/bases/{knowledge_base_id}")
async def base_page(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    """Its documents, a page at a time. Asked for by htmx, the list alone: that is how it follows the indexer."""
    about = await engine.knowledge_base(knowledge_base_id)
    fields = query(request)
    chosen = document_query(fields)
    counts, page = await asyncio.gather(
        engine.statistics(about.id), engine.contents.page(about.id, chosen, limit=PAGE_SIZE, after=fields.raw("after"))
    )
    values: dict[str, Any] = {
        "base": about,
        "counts": counts,
        "total": _documents(counts),
        "page": page,
        "chosen": chosen,
        "field_value": _field_value(chosen),
        "after": fields.raw("after"),
        "moving": counts.get("pending", 0) + counts.get("retrying", 0),
        "state_kinds": STATE_KINDS,
        "label": label,
    }
    if request.headers.get("hx-target") == "documents":
        return render(request, "_documents.html", **values)
    facets = await engine.contents.facets(about.id)
    values |= {"facets": _choosable(facets), "types": _values(facets, "content_type"), "statuses": STORED_STATUSES}
    values |= {"file_megabytes": service_of(request).settings.parsing.file_megabytes, "formats": FORMATS}
    return render(request, "base.html", **values)


def document_query(fields: Fields) -> DocumentQuery:
    """What the reader looks for. The field of the metadata and its value are one choice: ``["年份", 2025]``."""
    field, value = _pair(fields.raw("field"))
    return DocumentQuery(
        name=fields.text("name"),
        status=fields.text("status"),
        content_type=fields.text("type"),
        field=field,
        value=value,
        order="newest" if fields.text("order") == "newest" else "id",
    )


def _pair(written: str) -> tuple[str, Scalar]:
    if not written:
        return "", ""
    try:
        field, value = json.loads(written)
    except (ValueError, TypeError):
        raise BadInput("元数据的条件不对", hint="从列表里选一个") from None
    if not isinstance(field, str) or not isinstance(value, str | int | float | bool):
        raise BadInput("元数据的条件不对", hint="从列表里选一个")
    return field, value


def _field_value(chosen: DocumentQuery) -> str:
    return json.dumps([chosen.field, chosen.value], ensure_ascii=False) if chosen.field else ""


def _choosable(facets: tuple[Facet, ...]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(field, [(the choice, what it is called)]) of the metadata."""
    return [
        (
            name,
            [
                (json.dumps([name, value], ensure_ascii=False), f"{value} ({count})")
                for value, count in facet.values[:SHOWN_VALUES]
            ],
        )
        for facet in facets
        if (name := facet.field.removeprefix("metadata.")) != facet.field
    ]


def _values(facets: tuple[Facet, ...], field: str) -> list[str]:
    return [str(value) for facet in facets if facet.field == field for value, _ in facet.values]


def _documents(counts: dict[str, int]) -> int:
    return sum(counts.get(status, 0) for status in STORED_STATUSES)


@router.post("/console/bases/{knowledge_base_id}/delete", dependencies=[Writer])
async def delete_base(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    about = await engine.knowledge_base(knowledge_base_id)
    await engine.governance.receipts.delete_knowledge_base(about.id)
    return redirect(request, PAGE.path, translate(request, f"删除了知识库“{about.name}”", f"Deleted “{about.name}”"))


# ── documents ────────────────────────────────────────────────────────────────────────────────────


@router.post("/console/bases/{knowledge_base_id}/paste", dependencies=[Writer])
async def paste(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    about, fields = await engine.knowledge_base(knowledge_base_id), await form(request)
    content, chosen = fields.raw("content").replace("\r\n", "\n"), fields.text("format")
    if not content.strip():
        raise BadInput("没有正文", hint="把文字贴进来再提交")
    name = fields.text("name") or content.strip().splitlines()[0][:60]
    document = Document(
        id=secrets.token_hex(10), content=content, name=name, format=cast(Any, chosen if chosen in FORMATS else "text")
    )
    async with write_slot(request) as release:
        await engine.add_documents(about.id, [document], wait=False, on_accepted=release)
    return redirect(request, _path(about), translate(request, f"放入了“{name}”", f"Added “{name}”"))


@uploads.post("/console/bases/{knowledge_base_id}/documents", dependencies=[Writer])
async def upload(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    """One file. A script sends one after the other and reads JSON; a plain form leads back to the base."""
    about, service = await engine.knowledge_base(knowledge_base_id), service_of(request)
    max_bytes = service.settings.parsing.file_megabytes * MIB
    wants_json = request.headers.get("accept", "").startswith("application/json")
    async with received(request, service.settings.folder, max_bytes) as sent:
        check_token(request, {name: values[-1] for name, values in sent.fields.items()})
        path = (sent.fields.get("relative_path") or [""])[-1]
        async with write_slot(request) as release:
            try:
                accepted = await engine.add_file(
                    about.id, sent.path, name=sent.file_name, relative_path=path, wait=False, on_accepted=release
                )
            except MissingExtra as error:
                raise UnsupportedFile(error.message, hint=error.hint) from error
            except QianxunError as error:
                if wants_json:
                    raise
                return redirect(request, _path(about), f"{sent.file_name}：{error.message}")
    if wants_json:
        about_it = {"doc_id": accepted.doc_id, "outcome": accepted.outcome, "warnings": accepted.warnings}
        return json_response(about_it)
    note = "；".join((translate(request, f"收下了 {sent.file_name}", f"Received {sent.file_name}"), *accepted.warnings))
    return redirect(request, _path(about), note)


@router.post("/console/bases/{knowledge_base_id}/selected", dependencies=[Writer])
async def selected(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    """What is done with the documents that were ticked: deleted, or tried again."""
    about, fields = await engine.knowledge_base(knowledge_base_id), await form(request)
    doc_ids = fields.all("doc")
    if not doc_ids:
        raise BadInput("没有选中任何文档", hint="先勾选文档")
    if fields.text("action") == "retry":
        count = await engine.contents.retry(about.id, doc_ids)
        note = translate(request, f"重试 {count} 篇文档", f"{count} documents will be tried again")
    else:
        receipt = await engine.governance.receipts.delete(about.id, doc_ids)
        count = receipt.documents
        note = translate(request, f"删除了 {count} 篇文档", f"{count} documents deleted")
        return redirect(request, f"/console/receipts/{receipt.id}", note)
    return redirect(request, _path(about), note)


def _path(base: KnowledgeBase) -> str:
    return f"{PAGE.path}/{base.id}"
