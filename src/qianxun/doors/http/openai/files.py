"""OpenAI's vector stores and files: the tenant's knowledge bases and their documents, as its clients list them.

A file goes by ``{knowledge base}/{document}``; the id of a document alone, as a search gives it, is looked for in one
base after the other.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from qianxun.core.codec.passage import title_of
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.limits import DOC_ID_LIMIT
from qianxun.core.types import DocumentState, KnowledgeBase
from qianxun.doors.http.context import TenantEngine
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG
from qianxun.doors.http.openapi import error_responses, returns
from qianxun.doors.http.responses import json_response
from qianxun.doors.mcp.ids import document_id, read_id
from qianxun.doors.mcp.texts import joined
from qianxun.engine.engine import Engine

PAGE: Final = 20
STORE_PAGE: Final = 100
FILE_PAGE: Final = 1000
ID_LENGTH: Final = DOC_ID_LIMIT + 20  # with that of its base
TEXT: Final[dict[str, Any]] = {"description": "正文", "content": {"text/plain": {"schema": {"type": "string"}}}}
STATUSES: Final = {"indexed": "processed", "quarantined": "error", "failed": "error"}  # the others are on their way

router = APIRouter(tags=[TAG])

# ── vector stores ────────────────────────────────────────────────────────────────────────────────


class FileCounts(BaseModel):
    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


class StoreInfo(BaseModel):
    """一个知识库。"""

    id: str = Field(examples=["1001"])
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str = Field(examples=["医保"])
    status: Literal["in_progress", "completed"] = Field(description="completed：没有还在路上的文档")
    file_counts: FileCounts
    metadata: dict[str, str]


class StoreList(BaseModel):
    object: Literal["list"] = "list"
    data: list[StoreInfo]
    first_id: str | None
    last_id: str | None
    has_more: bool


StoreId = Annotated[
    str, Path(description="知识库的编号或名称", min_length=1, max_length=NAME_LENGTH, examples=["1001"])
]


@router.get(
    "/v1/vector_stores", summary="列出知识库（vector store）", **returns(StoreList, 400, 404, 422, form=OpenAIProblem)
)
async def list_stores(
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=STORE_PAGE, description="最多几个")] = PAGE,
    after: Annotated[str, Query(max_length=NAME_LENGTH, description="上一页最后一个的 id")] = "",
) -> Response:
    """按编号从小到大。"""
    start = await engine.base_id(after) if after else 0
    bases = await engine.knowledge_bases(limit=limit + 1, after=start)
    return _listed([await _store(engine, base) for base in bases[:limit]], has_more=len(bases) > limit)


@router.get(
    "/v1/vector_stores/{vector_store_id:path}",
    summary="查看一个知识库（vector store）",
    **returns(StoreInfo, 400, 404, 422, form=OpenAIProblem),
)
async def get_store(vector_store_id: StoreId, engine: TenantEngine) -> Response:
    return json_response(await _store(engine, await engine.knowledge_base(vector_store_id)))


async def _store(engine: Engine, base: KnowledgeBase) -> dict[str, Any]:
    counts = await engine.statistics(base.id)
    files = {
        "in_progress": counts.get("pending", 0) + counts.get("retrying", 0),
        "completed": counts.get("indexed", 0),
        "failed": counts.get("quarantined", 0) + counts.get("failed", 0),
        "cancelled": 0,
    }
    return {
        "id": str(base.id),
        "object": "vector_store",
        "created_at": _seconds(base.created_at),
        "name": base.name,
        "status": "in_progress" if files["in_progress"] else "completed",
        "file_counts": {**files, "total": sum(files.values())},
        "metadata": {"kind": base.kind, "embedding_model": base.embedding_model},
    }


# ── files ────────────────────────────────────────────────────────────────────────────────────────


class FileInfo(BaseModel):
    """一个文档。"""

    id: str = Field(description="知识库编号/文档编号", examples=["1001/123"])
    object: Literal["file"] = "file"
    created_at: int = Field(description="最近一次放入的时间（Unix 秒）")
    filename: str = Field(examples=["制度/差旅/index.md"])
    purpose: Literal["assistants"] = "assistants"
    status: Literal["uploaded", "processed", "error"] = Field(description="processed：检索得到")
    status_details: str | None
    vector_store_id: str = Field(examples=["1001"])


class FileList(BaseModel):
    object: Literal["list"] = "list"
    data: list[FileInfo]
    first_id: str | None
    last_id: str | None
    has_more: bool


FileId = Annotated[
    str,
    Path(description="知识库编号/文档编号，或文档编号", min_length=1, max_length=ID_LENGTH, examples=["1001/123"]),
]


@router.get("/v1/files", summary="列出文档（file）", **returns(FileList, 400, 404, 422, form=OpenAIProblem))
async def list_files(
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=FILE_PAGE, description="最多几个")] = FILE_PAGE,
    after: Annotated[str, Query(max_length=ID_LENGTH, description="上一页最后一个的 id")] = "",
) -> Response:
    """所有知识库的文档，一个知识库接着一个知识库。"""
    place = read_id(after) if after else None
    found: list[dict[str, Any]] = []
    for base in await engine.knowledge_bases(after=place.knowledge_base - 1 if place else 0):
        begin = place.doc_id if place is not None and base.id == place.knowledge_base else ""
        page = await engine.documents(base.id, limit=limit + 1 - len(found), after=begin)
        found += [_file(base.id, state) for state in page]
        if len(found) > limit:
            break
    return _listed(found[:limit], has_more=len(found) > limit)


# Before the file itself, whose id may contain slashes.
@router.get(
    "/v1/files/{file_id:path}/content",
    summary="一个文档的正文",
    response_model=None,
    responses={200: TEXT, **error_responses(400, 404, 422, form=OpenAIProblem)},
)
async def get_content(file_id: FileId, engine: TenantEngine) -> Response:
    base, state = await _find(engine, file_id)
    return PlainTextResponse(joined(await engine.chunks(base, state.doc_id)))


@router.get(
    "/v1/files/{file_id:path}",
    summary="查看一个文档（file）",
    **returns(FileInfo, 400, 404, 422, form=OpenAIProblem),
)
async def get_file(file_id: FileId, engine: TenantEngine) -> Response:
    return json_response(_file(*await _find(engine, file_id)))


async def _find(engine: Engine, file_id: str) -> tuple[int, DocumentState]:
    """Raises NotFound."""
    try:
        place = read_id(file_id)
        return place.knowledge_base, await engine.document(place.knowledge_base, place.doc_id)
    except (BadInput, NotFound):
        for base in await engine.knowledge_bases():
            try:
                return base.id, await engine.document(base.id, file_id)
            except NotFound:
                continue
        raise NotFound(f"没有编号为“{file_id[:80]}”的文档", hint="用 GET /v1/files 查看已有的") from None


def _file(base: int, state: DocumentState) -> dict[str, Any]:
    return {
        "id": document_id(base, state.doc_id),
        "object": "file",
        "created_at": _seconds(state.updated_at),
        "filename": title_of(state.name, state.doc_id, state.metadata),
        "purpose": "assistants",
        "status": STATUSES.get(state.status, "uploaded"),
        "status_details": state.reason or None,
        "vector_store_id": str(base),
    }


def _listed(data: list[dict[str, Any]], *, has_more: bool) -> Response:
    ids = [item["id"] for item in data] or [None]
    return json_response({"object": "list", "data": data, "first_id": ids[0], "last_id": ids[-1], "has_more": has_more})


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())
