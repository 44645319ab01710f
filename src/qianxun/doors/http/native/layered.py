"""Layered search: texts alone, or tables alone with an answer computed from their cells."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from qianxun.core.codec.wire import written_layered
from qianxun.core.layered_types import MOST_CITED
from qianxun.core.options import TablesOptions, TextsOptions
from qianxun.doors.http.context import BaseId, TenantEngine, recall_slot, trace_id
from qianxun.doors.http.native.retrieval import DegradedInfo, GenerationInfo, Placed
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import Filters, WithQuery, read_choices, with_options
from qianxun.doors.http.responses import Envelope, success


class TextsRequest(with_options(TextsOptions, "", WithQuery)):  # type: ignore[misc]
    filters: Filters | None = None


class TablesRequest(with_options(TablesOptions, "", WithQuery)):  # type: ignore[misc]
    filters: Filters | None = None


class ChunkOwn(BaseModel):
    """命中最好的那一块自己的正文与元数据。"""

    content: str
    metadata: dict[str, Any]


class TextRecalled(Placed):
    document_name: str = Field(examples=["报销比例.xlsx"])
    content: str = Field(description="正文，或表格的标题、列名与命中的行")
    score: float = Field(description="0–1，结果按它排序", examples=[0.85])
    strategy: Literal["vector", "keyword", "expansion", "structure", "semantic"] = Field(description="哪一层的办法")
    layer: int = Field(description="第几层收进来的，从 1 起", examples=[1])
    match_details: dict[str, Any] = Field(description="各层看到了什么：分数、命中的词、扩展的词")
    chunk: ChunkOwn | None = Field(description="与上面的 content、metadata 不同时才有")


class ColumnInfo(BaseModel):
    name: str = Field(examples=["报销比例"])
    path: list[str] = Field(description="它上面的每一层表头", examples=[["2024年", "报销比例"]])
    kind: Literal["text", "number", "percent", "money", "date", "boolean"]
    unit: str = Field(examples=["万元"])


class TableInfo(BaseModel):
    """一张表格；切成几块也只算一个结果。"""

    id: str = Field(description="文档编号#表格的位置", examples=["123#0"])
    title: str = Field(examples=["各级医院报销比例"])
    type: str = Field(description="表格的类型；看不出则为空", examples=["price_list"])
    columns: list[ColumnInfo]
    rows: int = Field(description="共几行")
    shown: list[int] = Field(description="content 里是哪几行，从 0 起")
    cells: list[list[str]] = Field(description="那几行的单元格，照原样")
    source: str = Field(description="在文件的哪里：工作表、页、题注", examples=["Sheet1"])
    notes: str


class TableRecalled(TextRecalled):
    table: TableInfo | None


class LayerInfo(BaseModel):
    layer: int
    strategy: str = Field(examples=["structure"])
    ran: bool
    reason: str = Field(description="为什么没有运行，或为什么失败", examples=["前面的层已凑够 80%"])
    count: int = Field(description="由它新收进来的结果")
    best: float = Field(description="其中最高的分数")
    time_cost_ms: float


class CellInfo(BaseModel):
    table: str = Field(examples=["123#0"])
    row: int = Field(description="从 0 起；-1 为表头")
    column: int
    column_name: str = Field(examples=["报销比例"])
    text: str = Field(examples=["85%"])


class TableAnswerInfo(BaseModel):
    """从单元格里查出或算出的答案；没有把握（sure 为 false）时说明原因，只给最接近的行。"""

    sure: bool
    text: str = Field(examples=["85%"])
    reading: str = Field(description="问题是怎样理解的", examples=["在《报销比例》中，第 1 行，查“报销比例”"])
    operation: Literal[
        "lookup", "filter", "list", "count", "sum", "average", "max", "min", "top", "difference", "ratio", "none"
    ]
    values: list[str | int | float | bool | None]
    cells: list[CellInfo] = Field(description=f"依据的单元格，最多 {MOST_CITED} 个")
    cells_total: int = Field(description="依据的单元格共几个")
    confidence: float
    table: str
    rows: list[int] = Field(description=f"涉及的行，最多 {MOST_CITED} 行")
    rows_total: int
    reason: str = Field(description="没有把握的原因")
    understood: bool = Field(default=False, description="问题读懂了，只是单元格里没有答案（错误值、没有结果的公式……）")
    leftover: str = Field(default="", description="问题里列名和单元格都没有说到的词：有的话，答案只供参考")


class TextsResponse(BaseModel):
    knowledge_base_id: int = Field(examples=[1001])
    query: str
    results: list[TextRecalled]
    layers: list[LayerInfo]
    wanted: int = Field(description="各层要凑够的目标")
    degraded: list[DegradedInfo]
    time_cost_ms: int
    seconds: float
    trace_id: str
    generation: GenerationInfo | None


class TablesResponse(TextsResponse):
    results: list[TableRecalled]  # type: ignore[assignment]
    answer: TableAnswerInfo | None = Field(description="请求写了 answer: false，或没有找到表格时为空")


router = APIRouter(prefix="/v1/recall/{knowledge_base_id}", tags=["检索"])


@router.post("/texts", summary="分层找正文", **returns(Envelope[TextsResponse], 400, 404, 413, 422))
async def texts(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[TextsRequest, Body(openapi_examples=request_examples("texts"))],
) -> Response:
    """三层：向量 → 关键词 → 同义与相关词。前面的层不够时后面的才运行；一层失败就由下一层接上，写进 `degraded`。"""
    choices = read_choices(TextsOptions, body)
    async with recall_slot(request):
        found = await engine.search_texts(knowledge_base_id, body.query, **choices, trace_id=trace_id(request))
    return success(written_layered(knowledge_base_id, found))


@router.post("/tables", summary="分层找表格", **returns(Envelope[TablesResponse], 400, 404, 413, 422))
async def tables(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[TablesRequest, Body(openapi_examples=request_examples("tables"))],
) -> Response:
    """四层：结构 → 语义 → 关键词 → 同义与相关词；并从找到的表格里查出或算出答案，逐格注明出处。"""
    choices = read_choices(TablesOptions, body)
    async with recall_slot(request):
        found = await engine.search_tables(knowledge_base_id, body.query, **choices, trace_id=trace_id(request))
    return success(written_layered(knowledge_base_id, found))
