"""What people correct in a base: the list with what waits for somebody to look, and the forms of a document's page."""

from __future__ import annotations

import re
from typing import Final, cast

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import BadInput
from qianxun.core.governance.corrections import (
    KINDS,
    OF_DOCUMENTS,
    STATES,
    ChangeFields,
    Correction,
    CorrectionKind,
    CorrectionQuery,
    read_metadata_lines,
)
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, form, query
from qianxun.doors.http.console.labels import CORRECTION_KINDS, CORRECTION_STATES
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import BaseId, TenantEngine, Writer

router = APIRouter(route_class=ConsoleRoute)

PATH: Final = "/console/bases/{knowledge_base_id}/corrections"
SHOWN: Final = 50
DECISIONS: Final = ("undo", "apply")
BLANK_LINE: Final = re.compile(r"\n[^\S\n]*\n")


@router.get(PATH)
async def corrections_page(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    about, fields = await engine.knowledge_base(knowledge_base_id), query(request)
    corrections = engine.governance.corrections
    chosen = fields.text("state") if fields.text("state") in STATES else ""
    after = max(fields.whole("after", "after") or 0, 0)
    found = await corrections.page(about.id, CorrectionQuery(state=chosen), limit=SHOWN, after=after)
    return render(
        request,
        "corrections.html",
        base=about,
        found=found,
        state=chosen,
        states=CORRECTION_STATES,
        kinds=CORRECTION_KINDS,
        counts=await corrections.counts(about.id),
        after=after,
        next=found[-1].id if len(found) == SHOWN else 0,
        described=described,
    )


def described(one: Correction) -> str:
    """What a correction changes, in one line."""
    change = one.change
    given = (f"{name} = {value}" for name, value in change.metadata.items())
    listed = "、".join((*change.keywords, *change.questions, *given, *change.removed))
    return change.text or change.name or change.question or change.note or listed


@router.post(PATH, dependencies=[Writer])
async def add(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    fields = await form(request)
    kind = fields.text("kind")
    if kind not in KINDS:
        raise BadInput(f"这里做不了“{kind[:20]}”", hint="在文档页上选")
    of_document = kind in OF_DOCUMENTS
    await engine.governance.corrections.add(
        knowledge_base_id,
        cast(CorrectionKind, kind),
        chunk_id=() if of_document else fields.all("chunk"),
        doc_id=fields.raw("doc") if of_document else "",
        **_change(kind, fields),
    )
    return _back(request, fields, knowledge_base_id, translate(request, "更正了", "Corrected"))


def _change(kind: str, fields: Fields) -> ChangeFields:
    lines = tuple(line.strip() for line in fields.raw("lines").splitlines() if line.strip())
    match kind:
        case "edit":
            return {"text": fields.raw("text")}
        case "keywords":
            return {"keywords": lines}
        case "questions":
            return {"questions": lines}
        case "note":
            return {"note": fields.raw("text")}
        case "split":
            return {"parts": tuple(part for part in BLANK_LINE.split(fields.raw("text")) if part.strip())}
        case "metadata":
            return read_metadata_lines(lines)
        case "rename":
            return {"name": fields.text("name")}
        case "pin" | "exclude":
            return {"question": fields.text("question")}
    return {}


@router.post(PATH + "/{number}/{decision}", dependencies=[Writer])
async def decide(
    request: Request, engine: TenantEngine, knowledge_base_id: BaseId, number: int, decision: str
) -> Response:
    fields = await form(request)
    corrections = engine.governance.corrections
    if decision == "case":
        found, _ = await corrections.save_as_case(knowledge_base_id, number)
        note = translate(request, f"存入了评测集“{found.name}”", f"Kept in “{found.name}”")
    elif decision == "move":
        await corrections.move(knowledge_base_id, number, fields.all("chunk"))
        note = translate(request, "换到了这里", "Moved")
    elif decision in DECISIONS:
        await (corrections.undo if decision == "undo" else corrections.apply)(knowledge_base_id, number)
        note = translate(request, "撤销了", "Undone") if decision == "undo" else translate(request, "生效了", "Applied")
    else:
        raise BadInput(f"没有“{decision[:20]}”这个操作", hint="回到列表再选")
    return _back(request, fields, knowledge_base_id, note)


def _back(request: Request, fields: Fields, base: int, note: str) -> Response:
    """To the page that the form was on: that of a document, or the list."""
    if doc_id := fields.raw("doc"):
        return redirect(request, f"/console/bases/{base}/document", note, doc=doc_id)
    return redirect(request, f"/console/bases/{base}/corrections", note)
