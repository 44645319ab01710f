"""Knowledge bases: made, listed, renamed, configured, deleted."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from qianxun.core.errors import ModelUnavailable, NotFound, QianxunError
from qianxun.core.limits import NAME_LIMIT
from qianxun.core.model_types import is_ref
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.context import MAX_ID, BaseId, TenantEngine, Writer
from qianxun.doors.http.request_models import Asked
from qianxun.doors.http.responses import Envelope, InvalidField, error_responses, success

DEEPEST: Final = 6  # levels of a configuration
PAGE: Final = 100

TAG: Final = "知识库"


def shallow(config: dict[str, Any]) -> dict[str, Any]:
    """Refuses what is nested deeper than any configuration is."""
    level: list[Any] = [config]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return config
    raise PydanticCustomError("too_deep", "嵌套太深")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


Config = Annotated[
    dict[str, Any],
    AfterValidator(shallow),
    Field(
        description="切分与检索的配置，键见文档；PATCH 时 null 表示恢复默认",
        examples=[{"chunk_size": 300, "search": {"fusion": "rrf"}}],
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, description="同一租户内不重名", examples=["医保"])]


class NewBase(Asked):
    """A base to be made."""

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


class BaseChanges(Asked):
    """What is to change; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"config": {"search": {"top_k": 20}}}]})

    name: Name | None = None
    config: Config | None = None


class BaseTold(BaseModel):
    """A knowledge base."""

    id: int = Field(examples=[1001])
    name: str = Field(examples=["医保"])
    kind: str = Field(examples=["documents"])
    embedding_model: str = Field(description="空：没有向量，只按词语检索", examples=["bge-small-zh-v1.5"])
    dimension: int = Field(examples=[512])
    config: dict[str, Any] = Field(examples=[{"chunk_size": 500, "chunk_overlap": 50}])
    created_at: str = Field(examples=["2026-05-01T08:00:00+00:00"])


class BaseWithCounts(BaseTold):
    """A knowledge base and how much is in it."""

    statistics: dict[str, int] = Field(
        description="各状态的文档数，以及块与表格的数目", examples=[{"indexed": 12, "chunks": 340, "tables": 5}]
    )


class BasePage(BaseModel):
    """Bases in the order of their ids."""

    total: int = Field(description="这个租户的知识库总数")
    knowledge_bases: list[BaseTold]
    next: int | None = Field(description="下一页的 after；没有下一页则为 null")


class Deleted(BaseModel):
    deleted: bool = True


def routes() -> APIRouter:
    router = APIRouter(prefix="/v1/knowledge-bases", tags=[TAG])
    router.post(
        "",
        summary="新建知识库",
        status_code=201,
        response_model=Envelope[BaseTold],
        responses=error_responses(400, 409, 413, 422, 507),
        dependencies=[Writer],
    )(create)
    router.get("", summary="列出知识库", response_model=Envelope[BasePage], responses=error_responses(422))(listed)
    one = "/{knowledge_base_id}"
    router.get(
        one, summary="查看一个知识库", response_model=Envelope[BaseWithCounts], responses=error_responses(404, 422)
    )(told)
    router.patch(
        one,
        summary="改名、改配置",
        response_model=Envelope[BaseTold],
        responses=error_responses(400, 404, 409, 413, 422, 507),
        dependencies=[Writer],
    )(change)
    router.delete(
        one,
        summary="删除知识库及其中的一切",
        response_model=Envelope[Deleted],
        responses=error_responses(404, 422, 507),
        dependencies=[Writer],
    )(delete)
    return router


async def create(body: NewBase, engine: TenantEngine) -> Response:
    try:
        made = await engine.create_knowledge_base(
            body.name, model=body.embedding_model, kind=body.kind, config=body.config, user_id=body.user_id
        )
    except NotFound as error:  # of a model: the request names it, no address does
        raise InvalidField(
            "embedding_model" if body.embedding_model else "config", error.message, hint=error.hint
        ) from error
    except ModelUnavailable as error:
        if not (is_ref(body.embedding_model or "") or body.user_id):
            raise  # one of the service's own
        # A registered one that its user has disabled: to ask again later would not help.
        raise InvalidField("embedding_model", error.message, hint=error.hint) from error
    return success(written(made), 201)


async def listed(
    engine: TenantEngine,
    limit: Annotated[int, Query(ge=1, le=1000, description="最多几个")] = PAGE,
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="从这个编号之后开始")] = 0,
) -> Response:
    held = await engine.knowledge_bases()
    beyond = [base for base in held if base.id > after]
    page = beyond[:limit]
    is_last = len(page) == len(beyond)
    return success(
        {
            "total": len(held),
            "knowledge_bases": [written(base) for base in page],
            "next": None if is_last else page[-1].id,
        }
    )


async def told(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    about = await engine.knowledge_base(knowledge_base_id)
    return success({**written(about), "statistics": await engine.statistics(knowledge_base_id)})


async def change(knowledge_base_id: BaseId, body: BaseChanges, engine: TenantEngine) -> Response:
    """改名与改配置一起生效：配置不被接受时，名称也不变。"""
    about = await engine.knowledge_base(knowledge_base_id)
    before = about.name
    if body.name is not None and body.name != before:
        about = await engine.rename(knowledge_base_id, body.name)
    if body.config:
        try:
            about = await engine.configure(knowledge_base_id, body.config)
        except QianxunError as error:
            if about.name != before:
                await engine.rename(knowledge_base_id, before)
            await engine.knowledge_base(knowledge_base_id)  # it may be the base itself that is not found
            if isinstance(error, NotFound):
                raise InvalidField("config", error.message, hint=error.hint) from error
            raise
    return success(written(about))


async def delete(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    await engine.delete_knowledge_base(knowledge_base_id)
    return success({"deleted": True})


def written(base: KnowledgeBase) -> dict[str, Any]:
    return {
        "id": base.id,
        "name": base.name,
        "kind": base.kind,
        "embedding_model": base.embedding_model,
        "dimension": base.dimension,
        "config": dict(base.config),
        "created_at": base.created_at,
    }
