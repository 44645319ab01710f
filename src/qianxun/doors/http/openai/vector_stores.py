"""OpenAI's search of a vector store: the recall of a knowledge base, with OpenAI's filters.

    {"type": "and", "filters": [{"type": "gte", "key": "年份", "value": 2020},
                                {"type": "ne", "key": "tags", "value": "旧"}]}

A key is one of our own fields (``doc_id``, ``tags`` …) or one of a document's metadata, with or without ``metadata.``
before it. ``ne`` and ``nin`` also match what has no such attribute. Filters are translated to those of our own routes,
whose reader checks and bounds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, GetJsonSchemaHandler, RootModel, WithJsonSchema

from qianxun.core.codec.passage import chunk_title, passage_text
from qianxun.core.filters import (
    CONDITION_LIMIT,
    DEPTH_LIMIT,
    FIELDS,
    METADATA,
    VALUE_LIMIT,
    BadFilterField,
    read_filters,
)
from qianxun.core.limits import QUERY_LIMIT
from qianxun.core.types import Chunk, Filter, Found, Recall, Scalar
from qianxun.doors.http.context import TenantEngine, recall_slot, trace_id
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import SCALAR, ForeignRequest, Number, QueryText
from qianxun.doors.http.responses import json_response

MAX_RESULTS: Final = 50
DEFAULT_RESULTS: Final = 10
QUERIES_LIMIT: Final = 10
NO_RANKER: Final = "none"
BOUNDS: Final = ("gt", "gte", "lt", "lte")
COMPARISONS: Final = ("eq", "ne", *BOUNDS, "in", "nin")
COMPOUNDS: Final = ("and", "or")

router = APIRouter(tags=[TAG])

QUERY: Final = {"type": "string", "minLength": 1, "maxLength": QUERY_LIMIT, "pattern": r"\S"}
Queries = Annotated[
    list[QueryText],
    Field(min_length=1, max_length=QUERIES_LIMIT),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [QUERY, {"type": "array", "items": QUERY, "minItems": 1, "maxItems": QUERIES_LIMIT}]}),
]


class StoreFilters(RootModel[dict[str, Any]]):
    """比较 `{type, key, value}`：eq、ne、gt、gte、lt、lte、in、nin；或组合 `{type: and | or, filters: […]}`，可以嵌套。

    `key` 是文档元数据的键，或 doc_id、user_id、project_id、content_type、kind、tags。
    ne 与 nin 也让没有这个属性的通过。文字与数字不相等；至多 8 层、100 个条件、1000 个值。
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        inner = {"$ref": "#/components/schemas/StoreFilters"}
        return {
            **handler(core),
            "properties": {
                "type": {"enum": [*COMPARISONS, *COMPOUNDS]},
                "key": {"type": "string", "minLength": 1},
                "value": {"anyOf": [SCALAR, {"type": "array", "items": SCALAR, "maxItems": VALUE_LIMIT}]},
                "filters": {"type": "array", "items": inner, "maxItems": CONDITION_LIMIT},
            },
            "required": ["type"],
            "examples": [{"type": "eq", "key": "年份", "value": 2024}],
        }


class RankingOptions(ForeignRequest):
    ranker: str | None = Field(
        default=None, max_length=NAME_LENGTH, description="none：不重排；其余（auto 等）依知识库的配置"
    )
    score_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), Number] = Field(
        default=0.0, description="分数不低于它"
    )


class StoreSearch(ForeignRequest):
    query: Queries = Field(description="要找的内容；列表则逐个检索，合在一起", examples=["住院报销比例是多少"])
    filters: StoreFilters | None = None
    max_num_results: Annotated[int, Field(ge=1, le=MAX_RESULTS), Number] = Field(
        default=DEFAULT_RESULTS, description="最多几条"
    )
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


def read_store_filters(written: Any) -> Filter:
    """Raises BadFilterField, naming the field."""
    return read_filters(None if written is None else _translate(written, "filters", 1))


def _translate(written: Any, at: str, depth: int) -> dict[str, Any]:
    if not isinstance(written, Mapping):
        raise BadFilterField(at, "应为对象", hint='例如 {"type": "eq", "key": "年份", "value": 2024}')
    kind = written.get("type")
    if kind in COMPOUNDS:
        return {str(kind): _translate_all(written.get("filters"), f"{at}.filters", depth)}
    if kind in COMPARISONS:
        return _translate_comparison(str(kind), written, at)
    raise BadFilterField(f"{at}.type", "没有这种条件", hint=f"可用：{'、'.join((*COMPARISONS, *COMPOUNDS))}")


def _translate_all(written: Any, at: str, depth: int) -> list[dict[str, Any]]:
    if not isinstance(written, list):
        raise BadFilterField(at, "应为条件的列表", hint='例如 {"type": "or", "filters": […]}')
    if depth >= DEPTH_LIMIT:
        raise BadFilterField(at, f"嵌套超过 {DEPTH_LIMIT} 层", hint="把条件写得浅一些")
    return [_translate(part, f"{at}[{place}]", depth + 1) for place, part in enumerate(written)]


def _translate_comparison(kind: str, written: Mapping[str, Any], at: str) -> dict[str, Any]:
    key, value = written.get("key"), written.get("value")
    if not isinstance(key, str) or not key:
        raise BadFilterField(f"{at}.key", "应为文字", hint="写出属性的名称")
    if (kind in ("in", "nin")) != isinstance(value, list):
        expected = "值的列表" if kind in ("in", "nin") else "一个值：文字、数字或真假"
        raise BadFilterField(f"{at}.value", f"{kind} 的值应为{expected}", hint="几个值用 in 或 nin")
    if isinstance(value, Mapping):
        raise BadFilterField(f"{at}.value", "值应为文字、数字或真假", hint="没有值的条件请去掉")
    field = key if key in FIELDS or key.startswith(METADATA) else METADATA + key
    condition = {field: {kind: value} if kind in BOUNDS else value}
    return {"not": condition} if kind in ("ne", "nin") else condition


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


@router.post(
    "/v1/vector_stores/{vector_store_id:path}/search",
    summary="检索知识库",
    **returns(StorePage, 400, 404, 413, 422, form=OpenAIProblem),
)
async def search(
    request: Request,
    vector_store_id: Annotated[
        str, Path(description="知识库的编号或名称", min_length=1, max_length=NAME_LENGTH, examples=["1001"])
    ],
    engine: TenantEngine,
    body: Annotated[StoreSearch, Body(openapi_examples=request_examples("vector_stores"))],
) -> Response:
    """与 `/v1/retrieval` 相同的检索与分数。"""
    options = {**body.options(), "trace_id": trace_id(request)}
    async with recall_slot(request, len(body.query)):
        base = await engine.knowledge_base(vector_store_id)
        recalls = [await engine.retrieve(base.id, query, **options) for query in body.query]
    return json_response(
        {
            "object": "vector_store.search_results.page",
            "search_query": list(dict.fromkeys(query for recall in recalls for query in recall.queries)),
            "data": [_result(found) for found in _merged(recalls)[: body.max_num_results]],
            "has_more": False,
            "next_page": None,
        }
    )


def _merged(recalls: list[Recall]) -> list[Found]:
    """The results of several queries: every chunk once, with its best score, best first."""
    if len(recalls) == 1:
        return list(recalls[0].results)
    best: dict[int, Found] = {}
    for found in (found for recall in recalls for found in recall.results):
        before = best.get(found.chunk.key)
        if before is None or found.score > before.score:
            best[found.chunk.key] = found
    return sorted(best.values(), key=lambda found: (-found.score, found.chunk.key))


def _result(found: Found) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "file_id": chunk.doc_id,
        "filename": chunk_title(chunk),
        "score": found.score,
        "attributes": _attributes(chunk),
        "content": [{"type": "text", "text": passage_text(chunk)}],
        "chunk_id": chunk.chunk_id,
    }


def _attributes(chunk: Chunk) -> dict[str, Scalar]:
    """By the names that filters use: metadata that is called like one of our own fields has its full name."""
    own = {name: _scalar(chunk.attributes.values(name)) for name in FIELDS if any(chunk.attributes.values(name))}
    metadata = {
        (METADATA + key if key in FIELDS or key.startswith(METADATA) else key): value
        for key, value in chunk.attributes.metadata.items()
    }
    return {**own, **{key: _scalar(value if isinstance(value, tuple) else (value,)) for key, value in metadata.items()}}


def _scalar(values: tuple[Scalar, ...]) -> Scalar:
    return values[0] if len(values) == 1 else ", ".join(map(str, values))
