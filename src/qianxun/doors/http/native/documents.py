"""Documents of a base: taken in as JSON or as files, replaced, listed, removed."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.convertors import Convertor, register_url_convertor

from qianxun.core.codec.results import written_chunk
from qianxun.core.errors import MissingExtra, NotFound, UnsupportedFile
from qianxun.core.limits import MIB
from qianxun.core.types import Accepted, Document, DocumentState, QAPair
from qianxun.doors.http.context import DOC_ID_LIMIT, MAX_ID, BaseId, TenantEngine, Writer, service_of
from qianxun.doors.http.native.bases import Deleted
from qianxun.doors.http.native.document_models import (
    ChunkPage,
    DocumentPage,
    DocumentTaken,
    DocumentTold,
    NewDocument,
    Replacement,
    SaidOfFile,
)
from qianxun.doors.http.native.uploads import Form, received
from qianxun.doors.http.responses import Envelope, InvalidField, error_responses, success
from qianxun.engine.engine import Engine

TAG: Final = "文档"
PAGE: Final = 100
CHUNKS: Final = 10_000
QUICKLY_READ: Final = 256 * 1024  # bytes of a body that are read where one stands

DocId = Annotated[str, Path(min_length=1, max_length=DOC_ID_LIMIT, description="文档的编号", examples=["doc_123"])]
Wait = Annotated[bool, Query(description="true：可以检索到了才回答；false：存好就回答，随后建索引")]


# ── routes ───────────────────────────────────────────────────────────────────────────────────────


def _body(text: type[NewDocument]) -> dict[str, Any]:
    """The two forms of a document, for the documentation: the handler reads them itself, to stream the second."""
    as_json = text.model_json_schema()
    as_form = SaidOfFile.model_json_schema()
    pair = as_json.pop("$defs")["Pair"]
    as_json["properties"]["pairs"]["items"] = pair
    fields = as_form["properties"]
    fields["file"] = {"type": "string", "format": "binary", "description": "文件本身"}
    for name, kind in (("tags", "列表"), ("metadata", "键值对")):
        fields[name] = {"type": "string", "description": f"JSON 写的{kind}", "examples": [json.dumps(_EXAMPLES[name])]}
    as_form["required"] = ["file"]
    content = {"application/json": {"schema": as_json}, "multipart/form-data": {"schema": as_form}}
    return {"requestBody": {"required": True, "content": content}}


_EXAMPLES: Final[Mapping[str, Any]] = {"tags": ["2026"], "metadata": {"year": 2026}}


class _AnyId(Convertor[str]):
    """Slashes and line breaks too: an id is whatever its owner chose."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def routes() -> APIRouter:
    register_url_convertor("id", _AnyId())
    router = APIRouter(prefix="/v1/knowledge-bases/{knowledge_base_id}/documents", tags=[TAG])
    taken = error_responses(400, 404, 413, 415, 422, 507)
    router.post(
        "",
        summary="放入一个文档：JSON，或以 multipart 上传文件",
        status_code=201,
        response_model=Envelope[DocumentTaken],
        responses=taken,
        openapi_extra=_body(NewDocument),
        dependencies=[Writer],
    )(add)
    router.get("", summary="列出文档", response_model=Envelope[DocumentPage], responses=error_responses(404, 422))(
        listed
    )
    one = "/{doc_id:id}"
    router.get(  # before the next: an id may hold slashes
        f"{one}/chunks",
        summary="一个文档的各块",
        response_model=Envelope[ChunkPage],
        responses=error_responses(404, 422),
    )(chunks)
    router.get(
        one, summary="一个文档的状态", response_model=Envelope[DocumentTold], responses=error_responses(404, 422)
    )(told)
    router.put(
        one,
        summary="替换（或以这个编号放入）一个文档",
        response_model=Envelope[DocumentTaken],
        responses={201: {"model": Envelope[DocumentTaken], "description": "原来没有，已放入"}, **taken},
        openapi_extra=_body(Replacement),
        dependencies=[Writer],
    )(replace)
    router.delete(
        one,
        summary="删除一个文档",
        response_model=Envelope[Deleted],
        responses=error_responses(404, 422, 507),
        dependencies=[Writer],
    )(delete)
    return router


async def add(knowledge_base_id: BaseId, request: Request, engine: TenantEngine, wait: Wait = True) -> Response:
    await engine.knowledge_base(knowledge_base_id)  # nothing is read for a base that is not there
    accepted = await _take(engine, knowledge_base_id, request, "", wait)
    return success(await _became(engine, knowledge_base_id, accepted), 201)


async def replace(
    knowledge_base_id: BaseId, doc_id: DocId, request: Request, engine: TenantEngine, wait: Wait = True
) -> Response:
    await engine.knowledge_base(knowledge_base_id)
    accepted = await _take(engine, knowledge_base_id, request, doc_id, wait)
    status = 201 if accepted.outcome == "created" else 200
    return success(await _became(engine, knowledge_base_id, accepted), status)


async def listed(
    knowledge_base_id: BaseId,
    request: Request,
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=1000, description="最多几个")] = PAGE,
    after: Annotated[str, Query(max_length=DOC_ID_LIMIT, description="从这个编号之后开始")] = "",
) -> Response:
    counts = await engine.statistics(knowledge_base_id)
    page = await engine.documents(knowledge_base_id, limit=limit + 1, after=after)
    return success(
        {
            "total": sum(counts.get(status, 0) for status in ("pending", "indexed", "retrying", "quarantined")),
            "documents": [written(each, request) for each in page[:limit]],
            "next": page[limit - 1].doc_id if len(page) > limit else None,
        }
    )


async def told(knowledge_base_id: BaseId, doc_id: DocId, request: Request, engine: TenantEngine) -> Response:
    return success(written(await engine.document(knowledge_base_id, doc_id), request))


async def chunks(
    knowledge_base_id: BaseId,
    doc_id: DocId,
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=CHUNKS, description="最多几块")] = CHUNKS,
    after: Annotated[int, Query(ge=-1, le=MAX_ID, description="从这个序号之后开始")] = -1,
) -> Response:
    await engine.document(knowledge_base_id, doc_id)
    held = await engine.chunks(knowledge_base_id, doc_id)
    beyond = [each for each in held if each.index > after]
    page = beyond[:limit]
    return success(
        {
            "total": len(held),
            "chunks": [written_chunk(each) for each in page],
            "next": page[-1].index if len(page) < len(beyond) else None,
        }
    )


async def delete(knowledge_base_id: BaseId, doc_id: DocId, engine: TenantEngine) -> Response:
    if not await engine.delete_document(knowledge_base_id, doc_id):
        raise NotFound(f"知识库 {knowledge_base_id} 中没有文档“{doc_id}”", hint="它也许已经删除")
    return success({"deleted": True})


# ── taking in ────────────────────────────────────────────────────────────────────────────────────


async def _take(engine: Engine, knowledge_base: int, request: Request, doc_id: str, wait: bool) -> Accepted:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _take_file(engine, knowledge_base, request, doc_id, wait)
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return await _take_text(engine, knowledge_base, request, doc_id, wait)
    raise UnsupportedFile(
        f"不支持的请求体类型 {kind[:100] or '（没有 Content-Type）'}", hint="用 application/json 或 multipart/form-data"
    )


async def _take_text(engine: Engine, knowledge_base: int, request: Request, doc_id: str, wait: bool) -> Accepted:
    raw = await request.body()
    read = (Replacement if doc_id else NewDocument).model_validate_json
    try:
        said = read(raw) if len(raw) <= QUICKLY_READ else await asyncio.to_thread(read, raw)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error
    document = Document(
        id=_chosen_id(doc_id, said.doc_id) or secrets.token_hex(10),
        content=said.content,
        name=said.name,
        format=said.format,
        content_type=said.content_type,
        user_id=said.user_id,
        project_id=said.project_id,
        tags=tuple(said.tags),
        metadata=said.held_metadata(),
        pairs=tuple(QAPair(pair.question, pair.answer) for pair in said.pairs),
        source=said.source,
    )
    async with service_of(request).writes.turn(request):
        (accepted,) = await engine.add_documents(knowledge_base, [document], wait=wait)
    return accepted


async def _take_file(engine: Engine, knowledge_base: int, request: Request, doc_id: str, wait: bool) -> Accepted:
    service = service_of(request)
    most = service.settings.parsing.file_megabytes * MIB
    async with received(request, service.settings.folder, most) as form:
        said = _said_of(form)
        chosen = _chosen_id(doc_id, said.doc_id)
        async with service.writes.turn(request):
            try:
                return await engine.add_file(
                    knowledge_base,
                    form.path,
                    name=said.name or form.file_name,
                    source=said.source,
                    doc_id=chosen,
                    labels=said.labels(),
                    wait=wait,
                )
            except MissingExtra as error:  # this installation has no parser for it
                raise UnsupportedFile(error.message, hint=error.hint) from error


def _said_of(form: Form) -> SaidOfFile:
    """The form's fields. ``tags`` and ``metadata`` are JSON; tags may stand one to a field, too."""
    told: dict[str, Any] = {name: values[-1] for name, values in form.fields.items()}
    for name, kind in (("tags", list), ("metadata", dict)):
        if name in told and not (name == "tags" and not told[name].lstrip().startswith("[")):
            told[name] = _json(name, told[name], kind)
        elif name in told:
            told[name] = [tag for value in form.fields[name] for tag in value.split(",") if tag]
    try:
        return SaidOfFile.model_validate({name: value for name, value in told.items() if value != ""})
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error


def _json(name: str, text: str, kind: type) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidField(name, "不是合法的 JSON", hint=f"例如 {json.dumps(_EXAMPLES[name])}") from error
    if not isinstance(found, kind):
        raise InvalidField(name, "应为 JSON 的列表或键值对", hint=f"例如 {json.dumps(_EXAMPLES[name])}")
    return found


def _chosen_id(of_address: str, of_body: str | None) -> str:
    if of_address and of_body and of_address != of_body:
        raise InvalidField("doc_id", "与地址里的编号不同", hint="去掉请求体里的 doc_id")
    return of_address or of_body or ""


async def _became(engine: Engine, knowledge_base: int, accepted: Accepted) -> dict[str, Any]:
    about = {"doc_id": accepted.doc_id, "generation": accepted.generation, "outcome": accepted.outcome}
    try:
        state = await engine.document(knowledge_base, accepted.doc_id)
    except NotFound:  # somebody deleted it in the meantime
        return {**about, "status": "deleted", "chunks": 0, "reason": ""}
    return {**about, "status": state.status, "chunks": state.chunks, "reason": state.reason}


def written(state: DocumentState, request: Request) -> dict[str, Any]:
    """A path tells of the machine that it is of: nobody who may only read is told it."""
    told = {name: getattr(state, name) for name in DocumentTold.model_fields}
    return told if request.state.access == "write" else {**told, "source": ""}
