"""Documents of a base: add as JSON or as a file, replace, list, delete."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError
from starlette.convertors import Convertor, register_url_convertor

from qianxun.core.codec.wire import to_wire
from qianxun.core.errors import BadInput, MissingExtra, NotFound, UnsupportedFile
from qianxun.core.filters import EVERYTHING, Filter, read_filters
from qianxun.core.governance.access import LABEL_LIMIT, LABELS_LIMIT, checked_label, checked_labels
from qianxun.core.governance.validity import checked_as_of
from qianxun.core.ingest_types import DocumentOrder, DocumentQuery, Labels
from qianxun.core.limits import DOC_ID_LIMIT, MAX_ID, MIB, SOURCE_LIMIT
from qianxun.core.types import (
    Accepted,
    Chunk,
    ContentFormat,
    Document,
    DocumentState,
    MetadataValue,
    QAPair,
)
from qianxun.doors.http.context import BaseId, TenantEngine, Writer, service_of, write_slot
from qianxun.doors.http.field_errors import InvalidField, blaming
from qianxun.doors.http.native.bases import DeletedWithReceipt, Purge
from qianxun.doors.http.native.routes import route, write_route
from qianxun.doors.http.native.uploads import Form, received
from qianxun.doors.http.openapi import file_form, returns
from qianxun.doors.http.request_models import RequestModel, answered_as_validation
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import Envelope, success
from qianxun.engine.engine import Engine

PAGE: Final = 100
AFTER_LIMIT: Final = 1000
CHUNKS: Final = 10_000
PARSED_INLINE: Final = 256 * 1024  # bytes of a body; a larger one is parsed in a thread

ListedStatus = Literal["pending", "indexed", "retrying", "quarantined", "failed"]
DocId = Annotated[str, Path(min_length=1, max_length=DOC_ID_LIMIT, description="文档的编号", examples=["doc_123"])]
Wait = Annotated[bool, Query(description="true：可以检索到了才回答；false：存好就回答，随后建索引")]
KeepLabels = Annotated[
    bool, Query(description="上传文件时：true 则这次没有给的标签、元数据等保留上次给的；false 则以这次给的为准")
]
Restore = Annotated[
    bool, Query(description="上传文件时：false 则有人删除过的文档不放回来，outcome 为 deleted；true 则放回来")
]
FileMissing = Annotated[
    bool, Query(description="true：因为文件不在了才删除，文件回来时 --sync 会把它放回来；false：有人要删除它")
]


class _AnyId(Convertor[str]):
    """Slashes and line breaks too: an id is whatever its owner chose."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _AnyId())
router = APIRouter(prefix="/v1/knowledge-bases/{knowledge_base_id}/documents", tags=["文档"])

# ── requests ─────────────────────────────────────────────────────────────────────────────────────

Scalar = (
    StrictBool
    | Annotated[int, Field(strict=True, ge=-MAX_ID, le=MAX_ID)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | Annotated[StrictStr, Field(max_length=10_000)]
)


def _one_reason(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """One reason for the whole union, and not one for each of its types."""
    try:
        return validate(value)
    except ValidationError as error:
        raise PydanticCustomError("metadata_value", "must be text, a number, a boolean, or a list of these") from error


def _without_nulls(metadata: Any) -> Any:
    """As events do, null leaves a name out."""
    if not isinstance(metadata, dict):
        return metadata
    return {name: value for name, value in metadata.items() if value is not None}


class Pair(RequestModel):
    """A question that the document answers."""

    question: str = Field(min_length=1, max_length=2_000)
    answer: str = Field(max_length=100_000)


class DocumentLabels(RequestModel):
    """What is given with a document, in either form."""

    content_type: str = Field(default="", max_length=64, description="内容的类别，可用于过滤", examples=["chapter"])
    user_id: str = Field(default="", max_length=128, examples=["u_1"])
    project_id: str = Field(default="", max_length=128, examples=["p_1"])
    tags: list[Annotated[str, Field(max_length=200)]] = Field(default=[], max_length=100)
    metadata: Annotated[
        dict[
            Annotated[str, Field(max_length=255)],
            Annotated[Scalar | Annotated[list[Scalar], Field(max_length=1_000)], WrapValidator(_one_reason)],
        ],
        BeforeValidator(_without_nulls),
    ] = Field(
        default={},
        max_length=100,
        description="可用于过滤；值为文字、数字、真假，或它们的列表；null 等于没有这一项",
        examples=[{"年份": 2026}],
    )
    access: list[Annotated[str, Field(max_length=LABEL_LIMIT)]] | None = Field(
        default=None,
        max_length=LABELS_LIMIT,
        description="谁能看见：user:、group: 或 role: 开头的访问标签；[] 为人人可见；不填则照旧，或随目录的规则",
        examples=[["group:财务"]],
    )
    doc_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=DOC_ID_LIMIT,
        description="不填则由服务生成；上传文件时不填，则同名文件替换前一次上传的",
    )

    def labels(self) -> Labels:
        metadata: dict[str, MetadataValue] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in self.metadata.items()
        }
        access = None if self.access is None else checked_labels(self.access)
        return Labels(self.user_id, self.project_id, self.content_type, tuple(self.tags), metadata, access)


class NewDocument(DocumentLabels):
    """A document as text."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "报销须知", "content": "住院费用报销比例为85%。", "format": "text"}]}
    )

    name: str = Field(max_length=512, description="显示给人看的名称", examples=["报销须知"])
    content: str = Field(min_length=1, description="正文", examples=["住院费用报销比例为85%。"])
    format: ContentFormat = "text"
    source: str = Field(default="", max_length=SOURCE_LIMIT, description="从哪里来")
    pairs: list[Pair] = Field(default=[], max_length=1_000, description="随文档给出的问答")


class Replacement(NewDocument):
    """A document as text that replaces another; its text may be empty."""

    content: str = Field(
        description="正文；可以是空的：正文清空了，原来的不再检索得到", examples=["住院费用报销比例为85%。"]
    )


class FileFields(DocumentLabels):
    """The fields of a form beside its file."""

    name: str = Field(default="", max_length=512, description="不填则为文件名")
    source: str = Field(default="", max_length=SOURCE_LIMIT, description="从哪里来，例如原来的路径；不填则为名称")
    relative_path: str = Field(
        default="",
        max_length=SOURCE_LIMIT,
        description="在所上传的文件夹里的路径，如 制度/考勤/index.md；存为元数据 path，各处显示文档时用它",
    )


FIELD_EXAMPLES: Final[Mapping[str, Any]] = {"tags": ["2026"], "metadata": {"year": 2026}, "access": ["group:finance"]}


def _request_body(text: type[NewDocument]) -> dict[str, Any]:
    """Documents the two forms of a document; the handler reads them itself, to stream the second."""
    as_json = text.model_json_schema()
    as_json["properties"]["pairs"]["items"] = as_json.pop("$defs")["Pair"]
    as_form = file_form(FileFields)
    fields = as_form["multipart/form-data"]["schema"]["properties"]
    for name, kind in (("tags", "列表"), ("metadata", "键值对"), ("access", "访问标签的列表")):
        example = json.dumps(FIELD_EXAMPLES[name])
        fields[name] = {"type": "string", "description": f"JSON 写的{kind}", "examples": [example]}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": as_json}, **as_form}}}


# ── responses ────────────────────────────────────────────────────────────────────────────────────


class DocumentResult(BaseModel):
    """The state of a document after it was sent."""

    doc_id: str = Field(examples=["doc_123"])
    generation: int = Field(description="第几版，从 1 起", examples=[1])
    status: str = Field(
        description="indexed：可以检索；pending、retrying：还在路上；quarantined：放弃了", examples=["indexed"]
    )
    chunks: int = Field(examples=[3])
    outcome: str = Field(description="created、updated、unchanged 或 deleted", examples=["created"])
    reason: str = Field(default="", description="还不能检索的原因")
    warnings: list[str] = Field(default=[], description="上传的文件里没有收录的部分与原因")


DocumentPage: Final = response("DocumentPage", total=int, documents=listed(DocumentState), next=str | None)
ChunkPage: Final = response("ChunkPage", total=int, chunks=listed(Chunk), next=int | None)

# ── routes ───────────────────────────────────────────────────────────────────────────────────────

ADD_ERRORS: Final = (400, 404, 413, 415, 422, 507)


@router.post(
    "",
    openapi_extra=_request_body(NewDocument),
    **write_route("放入一个文档：JSON，或以 multipart 上传文件", DocumentResult, *ADD_ERRORS, status=201),
)
async def add(
    knowledge_base_id: BaseId,
    request: Request,
    engine: TenantEngine,
    wait: Wait = True,
    keep_labels: KeepLabels = False,
    restore: Restore = True,
) -> Response:
    accepted = await _add(engine, knowledge_base_id, request, "", FileChoices(wait, keep_labels, restore))
    return success(await _result(engine, knowledge_base_id, accepted), 201)


def document_query(
    name: Annotated[str, Query(max_length=512, description="名称或编号里有这几个字")] = "",
    status: Annotated[ListedStatus | None, Query(description="只看这个状态的")] = None,
    content_type: Annotated[str, Query(max_length=64, description="只看这一类的")] = "",
    suffix: Annotated[str, Query(max_length=20, description="名称以 .pdf 等结尾，不写点")] = "",
    filters: Annotated[str, Query(max_length=10_000, description="JSON，与检索的 filters 一样")] = "",
    folder: Annotated[str, Query(max_length=SOURCE_LIMIT, description="放入时在这个文件夹或其下")] = "",
    valid_on: Annotated[str, Query(max_length=20, description="这一天有效的：被取代的不在其中，同检索")] = "",
    since: Annotated[AwareDatetime | None, Query(description="这时或以后改过的，带时区")] = None,
    until: Annotated[AwareDatetime | None, Query(description="这时以前改的，带时区")] = None,
    order: Annotated[DocumentOrder, Query(description="按编号、名称、新的在前、旧的在前")] = "id",
    label: Annotated[str, Query(max_length=LABEL_LIMIT, description="只看有这个访问标签的")] = "",
) -> DocumentQuery:
    """Raises InvalidField."""
    where: Filter = EVERYTHING
    if filters:
        try:
            where = read_filters(json.loads(filters))
        except (ValueError, RecursionError) as error:
            raise InvalidField("filters", "不是合法的 JSON", hint='例如 {"metadata.年份": 2026}') from error
    with blaming("valid_on", BadInput):
        day = checked_as_of(valid_on)
    plain = {"name": name, "status": status or "", "content_type": content_type, "suffix": suffix, "folder": folder}
    with blaming("label", BadInput):
        access = checked_label(label) if label else ""
    return DocumentQuery(**plain, order=order, where=where, valid_on=day, since=since, until=until, access=access)


@router.get("", **route("列出文档", DocumentPage, 400, 404, 422))
async def list_documents(
    knowledge_base_id: BaseId,
    request: Request,
    engine: TenantEngine,
    chosen: Annotated[DocumentQuery, Depends(document_query)],
    limit: Annotated[int, Query(ge=1, le=1000, description="最多几个")] = PAGE,
    after: Annotated[str, Query(max_length=AFTER_LIMIT, description="上一页的 next；按编号排时也可以是任何编号")] = "",
) -> Response:
    """按名称、状态、元数据（`filters`，与检索的一样）、文件夹、有效期、时间列出，可排序；`total` 是符合的总数。"""
    found = await engine.contents.page(knowledge_base_id, chosen, limit=limit, after=after, counted=True)
    documents = [_info(state, request) for state in found.documents]
    return success({"total": found.total, "documents": documents, "next": found.next or None})


# Before the route of the document itself, whose id may contain slashes.
@router.get("/{doc_id:id}/chunks", **route("一个文档的各块", ChunkPage, 404, 422))
async def list_chunks(
    knowledge_base_id: BaseId,
    doc_id: DocId,
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=CHUNKS, description="最多几块")] = CHUNKS,
    after: Annotated[int, Query(ge=-1, le=MAX_ID, description="从这个序号之后开始")] = -1,
) -> Response:
    await engine.document(knowledge_base_id, doc_id)
    chunks = await engine.chunks(knowledge_base_id, doc_id)
    rest = [chunk for chunk in chunks if chunk.index > after]
    page = rest[:limit]
    following = page[-1].index if len(page) < len(rest) else None
    return success({"total": len(chunks), "chunks": [to_wire(chunk) for chunk in page], "next": following})


@router.get("/{doc_id:id}", **route("一个文档的状态", DocumentState, 404, 422))
async def get(knowledge_base_id: BaseId, doc_id: DocId, request: Request, engine: TenantEngine) -> Response:
    return success(_info(await engine.document(knowledge_base_id, doc_id), request))


REPLACED: Final = returns(Envelope[DocumentResult], *ADD_ERRORS)
REPLACED["responses"][201] = {"model": Envelope[DocumentResult], "description": "原来没有，已放入"}


@router.put(
    "/{doc_id:id}",
    summary="替换（或以这个编号放入）一个文档",
    openapi_extra=_request_body(Replacement),
    dependencies=[Writer],
    **REPLACED,
)
async def replace(
    knowledge_base_id: BaseId,
    doc_id: DocId,
    request: Request,
    engine: TenantEngine,
    wait: Wait = True,
    keep_labels: KeepLabels = False,
    restore: Restore = True,
) -> Response:
    accepted = await _add(engine, knowledge_base_id, request, doc_id, FileChoices(wait, keep_labels, restore))
    status = 201 if accepted.outcome == "created" else 200
    return success(await _result(engine, knowledge_base_id, accepted), status)


@router.delete("/{doc_id:id}", **write_route("删除一个文档", DeletedWithReceipt, 404, 422, 507))
async def delete(
    knowledge_base_id: BaseId,
    doc_id: DocId,
    engine: TenantEngine,
    file_missing: FileMissing = False,
    purge: Purge = False,
) -> Response:
    """给出凭证：从哪里去除了什么，删后逐处读过。因文件不在而删除的（`file_missing`）没有凭证。"""
    if not file_missing:
        receipt = await engine.governance.receipts.delete(knowledge_base_id, [doc_id], purge=purge)
        return success({"deleted": True, "receipt": receipt.id, "is_complete": receipt.is_complete})
    if not await engine.delete_document(knowledge_base_id, doc_id, file_missing=file_missing):
        raise NotFound(f"知识库 {knowledge_base_id} 中没有文档“{doc_id}”", hint="它也许已经删除")
    return success({"deleted": True})


# ── adding ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FileChoices:
    """The parameters of a request that adds a document; a text has only the first."""

    wait: bool
    keep_labels: bool
    restore: bool


async def _add(engine: Engine, base: int, request: Request, doc_id: str, choices: FileChoices) -> Accepted:
    await engine.knowledge_base(base)  # no body is read for a base that does not exist
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _add_file(engine, base, request, doc_id, choices)
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return await _add_text(engine, base, request, doc_id, choices.wait)
    raise UnsupportedFile(
        f"不支持的请求体类型 {kind[:100] or '（没有 Content-Type）'}", hint="用 application/json 或 multipart/form-data"
    )


async def _add_text(engine: Engine, base: int, request: Request, doc_id: str, wait: bool) -> Accepted:
    raw = await request.body()
    parse = (Replacement if doc_id else NewDocument).model_validate_json
    with answered_as_validation():
        body = parse(raw) if len(raw) <= PARSED_INLINE else await asyncio.to_thread(parse, raw)
    document = Document(
        id=_document_id(doc_id, body.doc_id) or secrets.token_hex(10),
        content=body.content,
        name=body.name,
        format=body.format,
        pairs=tuple(QAPair(pair.question, pair.answer) for pair in body.pairs),
        source=body.source,
        **asdict(body.labels()),
    )
    async with write_slot(request) as release:
        (accepted,) = await engine.add_documents(base, [document], wait=wait, on_accepted=release)
    return accepted


async def _add_file(engine: Engine, base: int, request: Request, doc_id: str, choices: FileChoices) -> Accepted:
    service = service_of(request)
    max_bytes = service.settings.parsing.file_megabytes * MIB
    async with received(request, service.settings.folder, max_bytes) as form:
        fields = _file_fields(form)
        chosen = _document_id(doc_id, fields.doc_id)
        async with write_slot(request) as release:

            def on_accepted() -> None:
                form.path.unlink(missing_ok=True)
                release()

            try:
                return await engine.add_file(
                    base,
                    form.path,
                    name=fields.name or form.file_name,
                    source=fields.source,
                    relative_path=fields.relative_path,
                    doc_id=chosen,
                    labels=fields.labels(),
                    keep_labels=choices.keep_labels,
                    restore=choices.restore,
                    wait=choices.wait,
                    on_accepted=on_accepted,
                )
            except MissingExtra as error:  # this installation has no parser for it
                raise UnsupportedFile(error.message, hint=error.hint) from error


def _file_fields(form: Form) -> FileFields:
    """``tags`` and ``metadata`` are JSON; tags may also be separated by commas, or be one per field."""
    fields: dict[str, Any] = {name: values[-1] for name, values in form.fields.items()}
    if "tags" in fields and not fields["tags"].lstrip().startswith("["):
        fields["tags"] = [tag for value in form.fields["tags"] for tag in value.split(",") if tag]
    elif "tags" in fields:
        fields["tags"] = _json("tags", fields["tags"], list)
    if "metadata" in fields:
        fields["metadata"] = _json("metadata", fields["metadata"], dict)
    if fields.get("access"):
        fields["access"] = _json("access", fields["access"], list)
    with answered_as_validation():
        return FileFields.model_validate({name: value for name, value in fields.items() if value != ""})


def _json(field: str, text: str, kind: type) -> Any:
    hint = f"例如 {json.dumps(FIELD_EXAMPLES[field])}"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidField(field, "不是合法的 JSON", hint=hint) from error
    if not isinstance(value, kind):
        raise InvalidField(field, "应为 JSON 的列表或键值对", hint=hint)
    return value


def _document_id(in_path: str, in_body: str | None) -> str:
    if in_path and in_body and in_path != in_body:
        raise InvalidField("doc_id", "与地址里的编号不同", hint="去掉请求体里的 doc_id")
    return in_path or in_body or ""


async def _result(engine: Engine, base: int, accepted: Accepted) -> dict[str, Any]:
    try:
        state = await engine.document(base, accepted.doc_id)
        now = {"status": state.status, "chunks": state.chunks, "reason": state.reason}
    except NotFound:  # it has been deleted in the meantime
        now = {"status": "deleted", "chunks": 0, "reason": ""}
    about = {"doc_id": accepted.doc_id, "generation": accepted.generation, "outcome": accepted.outcome}
    return {**about, **now, "warnings": accepted.warnings}


def _info(state: DocumentState, request: Request) -> dict[str, Any]:
    """Without its source for read-only keys: a path reveals how a machine is set up."""
    info = to_wire(state)
    return info if request.state.access == "write" else {**info, "source": ""}
