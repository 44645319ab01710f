"""OpenAI's search of a vector store: the recall of a knowledge base, in that form."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, GetJsonSchemaHandler, RootModel, WithJsonSchema

from qianxun.core.filters import CONDITION_LIMIT, FIELDS, METADATA, TEXT_LIMIT, VALUE_LIMIT
from qianxun.core.limits import QUERY_LIMIT
from qianxun.core.types import Chunk, Found, Recall, Scalar
from qianxun.doors.http.context import TenantEngine, recall_slot, trace_id
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.named_bases import find_base
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG
from qianxun.doors.http.openai.vector_store_filters import COMPARISONS, COMPOUNDS, read_store_filters
from qianxun.doors.http.request_models import AskedElsewhere, Number, QueryText
from qianxun.doors.http.responses import as_json, error_responses

MOST: Final = 50
RESULTS: Final = 10
QUERIES: Final = 10
NO_RANKER: Final = "none"

StoreId = Annotated[
    str, Path(description="知识库的编号或名称", min_length=1, max_length=NAME_LENGTH, examples=["1001"])
]

# ── asked ────────────────────────────────────────────────────────────────────────────────────────

QUERY: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": QUERY_LIMIT, "pattern": r"\S"}
Queries = Annotated[
    list[QueryText],
    Field(min_length=1, max_length=QUERIES),
    BeforeValidator(lambda told: [told] if isinstance(told, str) else told),
    WithJsonSchema({"anyOf": [QUERY, {"type": "array", "items": QUERY, "minItems": 1, "maxItems": QUERIES}]}),
]
SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean"], "maxLength": TEXT_LIMIT}


class StoreFilters(RootModel[dict[str, Any]]):
    """比较 `{type, key, value}`：eq、ne、gt、gte、lt、lte、in、nin；或组合 `{type: and | or, filters: […]}`，可以嵌套。

    `key` 是文档元数据的键，或 doc_id、user_id、project_id、content_type、kind、tags。
    ne 与 nin 也让没有这个属性的通过。文字与数字不相等；至多 8 层、100 个条件、1000 个值。
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The grammar of `qianxun.doors.http.openai.vector_store_filters`."""
        inner = {"$ref": "#/components/schemas/StoreFilters"}
        values = {"anyOf": [SCALAR, {"type": "array", "items": SCALAR, "maxItems": VALUE_LIMIT}]}
        return {
            **handler(core),
            "properties": {
                "type": {"enum": [*COMPARISONS, *COMPOUNDS]},
                "key": {"type": "string", "minLength": 1},
                "value": values,
                "filters": {"type": "array", "items": inner, "maxItems": CONDITION_LIMIT},
            },
            "required": ["type"],
            "examples": [{"type": "eq", "key": "年份", "value": 2024}],
        }


class RankingOptions(AskedElsewhere):
    ranker: str | None = Field(
        default=None, max_length=NAME_LENGTH, description="none：不重排；其余（auto 等）依知识库的配置"
    )
    score_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), Number] = Field(
        default=0.0, description="分数不低于它"
    )


class StoreSearch(AskedElsewhere):
    query: Queries = Field(description="要找的内容；列表则逐个检索，合在一起", examples=["住院报销比例是多少"])
    filters: StoreFilters | None = None
    max_num_results: Annotated[int, Field(ge=1, le=MOST), Number] = Field(default=RESULTS, description="最多几条")
    ranking_options: RankingOptions = Field(default=RankingOptions())
    rewrite_query: bool = Field(default=False, description="不起作用：改写与否由知识库的 rewrite_model 决定")

    def options(self) -> dict[str, Any]:
        """The arguments of `Engine.retrieve`. Raises BadFilterField."""
        return {
            "top_k": self.max_num_results,
            "threshold": self.ranking_options.score_threshold,
            "rerank": "" if self.ranking_options.ranker == NO_RANKER else None,
            "where": read_store_filters(self.filters.root if self.filters is not None else None),
        }


# ── answered ─────────────────────────────────────────────────────────────────────────────────────


class StoreContent(BaseModel):
    type: Literal["text"] = "text"
    text: str


class StoreResult(BaseModel):
    """一块。"""

    file_id: str = Field(description="文档的编号", examples=["123"])
    filename: str = Field(examples=["医保手册.pdf"])
    score: float = Field(examples=[0.85])
    attributes: dict[str, str | float | bool] = Field(
        description="文档的元数据与 user_id、tags 等，名称就是 filters 的 key；几个值的用逗号连起来"
    )
    content: list[StoreContent]
    chunk_id: str = Field(examples=["c_1001_123_0"])


class StorePage(BaseModel):
    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str] = Field(description="实际检索的说法：原问题、改写、更正")
    data: list[StoreResult]
    has_more: bool = False
    next_page: str | None = None


EXAMPLES: Final[dict[str, Any]] = {
    "plain": {"summary": "只写问题", "value": {"query": "住院报销比例是多少"}},
    "filtered": {
        "summary": "过滤、分数线",
        "value": {
            "query": ["住院报销比例", "住院报销材料"],
            "filters": {
                "type": "and",
                "filters": [
                    {"type": "gte", "key": "年份", "value": 2020},
                    {"type": "nin", "key": "content_type", "value": ["附录"]},
                ],
            },
            "max_num_results": 5,
            "ranking_options": {"ranker": "auto", "score_threshold": 0.3},
            "rewrite_query": False,
        },
    },
}

# ── the route ────────────────────────────────────────────────────────────────────────────────────


def routes() -> APIRouter:
    router = APIRouter(tags=[TAG])
    router.post(
        "/v1/vector_stores/{vector_store_id:path}/search",
        summary="检索知识库",
        response_model=StorePage,
        responses=error_responses(400, 404, 413, 422, form=OpenAIProblem),
    )(search)
    return router


async def search(
    request: Request,
    vector_store_id: StoreId,
    engine: TenantEngine,
    body: Annotated[StoreSearch, Body(openapi_examples=EXAMPLES)],
) -> Response:
    """与 `/v1/retrieval` 相同的检索与分数。"""
    options = {**body.options(), "trace_id": trace_id(request)}
    async with recall_slot(request):
        base = await find_base(engine, vector_store_id)
        recalls = [await engine.retrieve(base.id, query, **options) for query in body.query]
    return as_json(
        {
            "object": "vector_store.search_results.page",
            "search_query": list(dict.fromkeys(query for each in recalls for query in each.queries)),
            "data": [_written(each) for each in _together(recalls)[: body.max_num_results]],
            "has_more": False,
            "next_page": None,
        }
    )


def _together(recalls: list[Recall]) -> list[Found]:
    """What several questions found: each chunk once, with its best score, best first."""
    if len(recalls) == 1:
        return list(recalls[0].found)
    best: dict[int, Found] = {}
    for found in (each for recall in recalls for each in recall.found):
        held = best.get(found.chunk.key)
        if held is None or found.score > held.score:
            best[found.chunk.key] = found
    return sorted(best.values(), key=lambda each: (-each.score, each.chunk.key))


def _written(found: Found) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "file_id": chunk.doc_id,
        "filename": chunk.doc_name,
        "score": found.score,
        "attributes": _attributes(chunk),
        "content": [{"type": "text", "text": chunk.text}],
        "chunk_id": chunk.chunk_id,
    }


def _attributes(chunk: Chunk) -> dict[str, Scalar]:
    """By the names that a filter calls them: metadata under one of our own names has its full one."""
    own = {name: _scalar(chunk.attributes.values(name)) for name in FIELDS if any(chunk.attributes.values(name))}
    told = {
        (METADATA + key if key in FIELDS or key.startswith(METADATA) else key): value
        for key, value in chunk.attributes.metadata.items()
    }
    return {**own, **{key: _scalar(value if isinstance(value, tuple) else (value,)) for key, value in told.items()}}


def _scalar(values: tuple[Scalar, ...]) -> Scalar:
    return values[0] if len(values) == 1 else ", ".join(map(str, values))
