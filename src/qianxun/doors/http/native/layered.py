"""Layered search: texts alone, or tables alone with an answer computed from their cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Request, Response

from qianxun.core.codec.wire import written_layered
from qianxun.core.layered_types import Cited, LayeredRecall, LayeredResult, LayerRun, TableAnswer, TableShown
from qianxun.core.options import TablesOptions, TextsOptions
from qianxun.core.types import Chunk
from qianxun.doors.http.context import BaseId, SearchRoute, TenantEngine, trace_id
from qianxun.doors.http.native.routes import body_examples, route
from qianxun.doors.http.request_models import AskConfig, Filters, WithQuery, read_choices, with_options
from qianxun.doors.http.response_models import Model, listed, of, response
from qianxun.doors.http.responses import success


class TextsRequest(with_options(TextsOptions, "", WithQuery)):  # type: ignore[misc]
    retrieval_config: AskConfig | None = None
    filters: Filters | None = None


class TablesRequest(with_options(TablesOptions, "", WithQuery)):  # type: ignore[misc]
    retrieval_config: AskConfig | None = None
    filters: Filters | None = None


Strategy: TypeAlias = Literal["vector", "keyword", "expansion", "structure", "semantic", "rule"]
ChunkOwn: Final = response("ChunkOwn", Chunk, only=("content", "metadata"))
_BESIDE: Final[Mapping[str, Any]] = {"strategy": Strategy, "chunk": ChunkOwn | None}
TextRecalled: Final = response("TextRecalled", Chunk, LayeredResult, without=("doc_name", "table"), **_BESIDE)
TableRecalled: Final = response(
    "TableRecalled", Chunk, LayeredResult, without=("doc_name",), table=of(TableShown) | None, **_BESIDE
)
LayerInfo: Final = response("LayerInfo", LayerRun, time_cost_ms=float)
TableAnswerInfo: Final = response("TableAnswerInfo", TableAnswer, cells=listed(Cited), cells_total=int, rows_total=int)


def _recalled(name: str, result: Model, **more: Any) -> Model:
    lists = {"results": listed(result), "layers": listed(LayerInfo)}
    return response(name, LayeredRecall, knowledge_base_id=int, time_cost_ms=int, **lists, **more)


TextsResponse: Final = _recalled("TextsResponse", TextRecalled)
TablesResponse: Final = _recalled("TablesResponse", TableRecalled, answer=TableAnswerInfo | None)

router = APIRouter(prefix="/v1/recall/{knowledge_base_id}", tags=["检索"], route_class=SearchRoute)


@router.post("/texts", **route("分层找正文", TextsResponse, 400, 404, 413, 422))
async def texts(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[TextsRequest, body_examples("texts")],
) -> Response:
    """三层：向量 → 关键词 → 同义与相关词。前面的层不够时后面的才运行；一层失败就由下一层接上，写进 `degraded`。"""
    choices = read_choices(TextsOptions, body)
    found = await engine.search_texts(knowledge_base_id, body.query, **choices, trace_id=trace_id(request))
    return success(written_layered(knowledge_base_id, found))


@router.post("/tables", **route("分层找表格", TablesResponse, 400, 404, 413, 422))
async def tables(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[TablesRequest, body_examples("tables")],
) -> Response:
    """四层：结构 → 语义 → 关键词 → 同义与相关词；并从找到的表格里查出或算出答案，逐格注明出处。"""
    choices = read_choices(TablesOptions, body)
    found = await engine.search_tables(knowledge_base_id, body.query, **choices, trace_id=trace_id(request))
    return success(written_layered(knowledge_base_id, found))
