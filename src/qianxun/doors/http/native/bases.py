"""Knowledge bases: create, list, rename, configure, delete."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from qianxun.core.codec.wire import to_wire
from qianxun.core.errors import ModelUnavailable, NotFound, QianxunError
from qianxun.core.limits import MAX_ID, NAME_LIMIT
from qianxun.core.model_types import is_ref
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.context import BaseId, TenantEngine
from qianxun.doors.http.field_errors import blaming
from qianxun.doors.http.native.routes import Deleted, route, write_route
from qianxun.doors.http.request_models import RequestModel
from qianxun.doors.http.response_models import listed, response
from qianxun.doors.http.responses import success

MAX_DEPTH: Final = 6  # levels of a configuration
PAGE: Final = 100

router = APIRouter(prefix="/v1/knowledge-bases", tags=["知识库"])


def _check_depth(config: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [config]
    for _ in range(MAX_DEPTH):
        nested = (value.values() if isinstance(value, dict) else value for value in level)
        level = [inner for values in nested if not isinstance(values, str | int | float | None) for inner in values]
        if not level:
            return config
    raise PydanticCustomError("too_deep", "嵌套太深")


Config = Annotated[
    dict[str, Any],
    AfterValidator(_check_depth),
    Field(
        description="切分与检索的配置，键见文档；PATCH 时 null 表示恢复默认",
        examples=[{"chunk_size": 300, "search": {"fusion": "rrf"}}],
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, description="同一租户内不重名", examples=["医保"])]


class NewBase(RequestModel):
    """A base to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "医保"}]})

    name: Name
    kind: Literal["documents", "examples"] = "documents"
    embedding_model: str | None = Field(
        default=None,
        max_length=200,
        description='模型名，或已登记的模型（"user-model:17"）；不填则用默认模型，"none" 则只按词语检索',
        examples=["bge-small-zh-v1.5"],
    )
    config: Config = Field(default={})
    user_id: str = Field(default="", max_length=128, description="所有者：默认模型按它查找", examples=["u_1"])


class BaseChanges(RequestModel):
    """Fields to change; the others stay as they are."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"config": {"search": {"top_k": 20}}}]})

    name: Name | None = None
    config: Config | None = None


BaseWithCounts: Final = response("BaseWithCounts", KnowledgeBase, statistics=dict[str, int])
BasePage: Final = response(
    "BasePage",
    tenant=str,
    total=int,
    knowledge_bases=listed(KnowledgeBase),
    next=int | None,
)


class DeletedWithReceipt(Deleted):
    receipt: str | None = Field(default=None, description="删除凭证的编号：GET /v1/receipts/{receipt_id}")
    is_complete: bool | None = Field(default=None, description="逐处读过，什么也没有剩下")


Purge = Annotated[
    bool,
    Query(description="true：连数据库与索引文件里的字节、日志里的编号一起清除并逐字节查过；与它们的大小成正比地慢"),
]


@router.post("", **write_route("新建知识库", KnowledgeBase, 400, 409, 413, 422, 507, status=201))
async def create(body: NewBase, engine: TenantEngine) -> Response:
    # A model that is not found is a wrong field, not a wrong path. A registered one that its user has disabled, too:
    # to retry would not help, as it may with a model of the service's own.
    is_registered = is_ref(body.embedding_model or "") or bool(body.user_id)
    with (
        blaming("embedding_model", *((ModelUnavailable,) if is_registered else ())),
        blaming("embedding_model" if body.embedding_model else "config", NotFound),
    ):
        base = await engine.create_knowledge_base(
            body.name, model=body.embedding_model, kind=body.kind, config=body.config, user_id=body.user_id
        )
    return success(to_wire(base), 201)


@router.get("", **route("列出知识库", BasePage, 422))
async def list_bases(
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=1000, description="最多几个")] = PAGE,
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="从这个编号之后开始")] = 0,
) -> Response:
    bases = await engine.knowledge_bases()
    rest = [base for base in bases if base.id > after]
    page = rest[:limit]
    following = page[-1].id if len(page) < len(rest) else None
    listed = [to_wire(base) for base in page]
    return success({"tenant": engine.tenant, "total": len(bases), "knowledge_bases": listed, "next": following})


@router.get("/{knowledge_base_id}", **route("查看一个知识库", BaseWithCounts, 404, 422))
async def get(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    base = await engine.knowledge_base(knowledge_base_id)
    return success({**to_wire(base), "statistics": await engine.statistics(knowledge_base_id)})


@router.patch("/{knowledge_base_id}", **write_route("改名、改配置", KnowledgeBase, 400, 404, 409, 413, 422, 507))
async def change(knowledge_base_id: BaseId, body: BaseChanges, engine: TenantEngine) -> Response:
    """改名与改配置一起生效：配置不被接受时，名称也不变。"""
    base = await engine.knowledge_base(knowledge_base_id)
    name_before = base.name
    if body.name is not None and body.name != name_before:
        base = await engine.rename(knowledge_base_id, body.name)
    if body.config:
        try:
            base = await engine.configure(knowledge_base_id, body.config)
        except QianxunError as error:
            if base.name != name_before:
                await engine.rename(knowledge_base_id, name_before)
            await engine.knowledge_base(knowledge_base_id)  # it may be the base itself that is not found
            with blaming("config", NotFound):
                raise error
    return success(to_wire(base))


@router.delete("/{knowledge_base_id}", **write_route("删除知识库及其中的一切", DeletedWithReceipt, 404, 422, 507))
async def delete(knowledge_base_id: BaseId, engine: TenantEngine, purge: Purge = False) -> Response:
    receipt = await engine.governance.receipts.delete_knowledge_base(knowledge_base_id, purge=purge)
    return success({"deleted": True, "receipt": receipt.id, "is_complete": receipt.is_complete})
