"""A whole base as a file over HTTP: exported, and imported as a new one."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask

from qianxun.core.codec.wire import to_wire
from qianxun.core.limits import MIB, NAME_LIMIT
from qianxun.doors.http.context import BaseId, TenantEngine, Writer, service_of, transfer_slot
from qianxun.doors.http.native.routes import route
from qianxun.doors.http.native.uploads import FOLDER, received
from qianxun.doors.http.openapi import error_responses, file_form
from qianxun.doors.http.request_models import RequestModel, answered_as_validation
from qianxun.doors.http.responses import success
from qianxun.engine.admin.transfer import export_base, import_base
from qianxun.engine.admin.transfer_file import UPLOADED

GZIP: Final = "application/gzip"

router = APIRouter(prefix="/v1/knowledge-bases", tags=["知识库"], dependencies=[Writer])


class ImportFields(RequestModel):
    """The fields of a form beside its file."""

    name: str = Field(default="", max_length=NAME_LIMIT, description="不填则用文件里的名称", examples=["恢复的"])
    model: str | None = Field(
        default=None, max_length=200, description='换一个嵌入模型；"none" 则只按词语检索；不填则照旧，不再嵌入'
    )


class Imported(BaseModel):
    knowledge_base_id: int
    name: str
    documents: int
    chunks: int


@router.get(
    "/{knowledge_base_id}/export",
    summary="把整个知识库导出成一个文件",
    response_class=FileResponse,
    responses={200: {"content": {GZIP: {}}, "description": "qianxun kb export 的文件"}, **error_responses(404, 422)},
)
async def export(
    knowledge_base_id: BaseId,
    request: Request,
    engine: TenantEngine,
    logs: Annotated[bool, Query(description="true：连检索日志与评价一起")] = False,
) -> Response:
    """文档、块、向量、设置、更正、权限、评测集、模型读出的图谱；是某一刻的样子，有校验和。先写成文件再发，发完即删。"""
    folder = engine.settings.folder / FOLDER
    file = folder / f"{secrets.token_hex(10)}.export"
    folder.mkdir(mode=0o700, exist_ok=True)
    key = request.state.key_id
    place = "download" if key is None else f"download by key:{key}"
    async with transfer_slot(request):
        await export_base(engine, knowledge_base_id, file, with_logs=logs, place=place)
    name = f"base-{knowledge_base_id}.qianxun"
    return FileResponse(file, media_type=GZIP, filename=name, background=BackgroundTask(_remove, file))


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)


@router.post(
    "/import",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": file_form(ImportFields)}},
    **route("由导出的文件新建一个知识库", Imported, 400, 404, 409, 413, 422, 507),
)
async def import_file(request: Request, engine: TenantEngine) -> Response:
    """文件先整个读过、与校验和比对，才开始写；中途失败的，写下的全部撤去。更大的文件用 `qianxun kb import`。"""
    settings = service_of(request).settings
    async with received(request, settings.folder, settings.parsing.file_megabytes * MIB) as form:
        with answered_as_validation():
            given = ImportFields.model_validate({name: sent[-1] for name, sent in form.fields.items() if sent[-1]})
        async with transfer_slot(request):
            made = await import_base(engine, form.path, name=given.name, model=given.model, limits=UPLOADED)
    base = made.knowledge_base
    found = {"knowledge_base_id": base.id, "name": base.name, "documents": made.documents, "chunks": made.chunks}
    return success(to_wire(found), 201)
