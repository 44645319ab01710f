"""Search: ``POST /v1/retrieval/{knowledge_base_id}``, and the response models of chunks that other routes share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from qianxun.core.codec.wire import written_recall
from qianxun.doors.http.context import BaseId, TenantEngine, recall_slot, trace_id
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import Search, blaming_reranker
from qianxun.doors.http.responses import Envelope, success


class ArmScore(BaseModel):
    """一路检索对这一块的评价。"""

    rank: int = Field(description="在这一路的名次，从 1 起；0 为不在候选之内")
    raw: float | None = Field(description="这一路自己的分：余弦或 BM25")
    score: float = Field(description="同一个分换算到 0–1")


class Placed(BaseModel):
    """一块的出处与标注。"""

    chunk_id: str = Field(examples=["c_1001_123_0"])
    doc_id: str = Field(examples=["123"])
    content: str = Field(examples=["...相关文本片段..."])
    metadata: dict[str, Any] = Field(description="文档的元数据，没有则为空")
    index: int = Field(description="在文档里的序号，从 0 起")
    start: int
    end: int
    kind: Literal["text", "table"]
    headings: list[str]
    page: int | None
    generation: int = Field(description="文档的版本")
    user_id: str
    project_id: str
    content_type: str
    tags: list[str]


class ChunkInfo(Placed):
    """一块。"""

    doc_name: str = Field(examples=["RAG系统设计.pdf"])


class ResultInfo(ChunkInfo):
    score: float = Field(description="0–1，结果按它排序", examples=[0.85])
    source: str = Field(description="哪一路找到的：vector、keyword、qa 或插件的名字；hybrid 为不止一路")
    highlights: list[str] = Field(description="文中与问题相关的原文")
    tier: Literal["strict", "document", "fuzzy"] = Field(
        description="严格（语义相似过 .7，且命中的词过半；没有向量模型则只看词）、指定文档，或模糊，分数再高也可能是"
    )
    arms: dict[str, ArmScore]
    matched: list[str] = Field(description="问题里的词，这一块也有的")
    coverage: float = Field(description="这些词占问题的多少，越少见的词越重")
    fused_score: float = Field(description="重排之前的分")
    rerank_score: float | None = Field(description="重排模型的分；没有重排则为空")


class DegradedInfo(BaseModel):
    """没能参加的部分；其余照常回答。"""

    part: str = Field(
        description="vector、keyword、qa、rewrite、rerank 或 document；分层召回时还有层的办法，如 structure、expansion",
        examples=["rerank"],
    )
    reason: str = Field(examples=["10 秒内没有重排完，按融合的次序返回"])


class StepInfo(BaseModel):
    name: str = Field(examples=["recall.vector"])
    seconds: float
    count: int


class GenerationInfo(BaseModel):
    """回答所依据的状态：状态相同，回答也相同。"""

    records: int
    index: int
    model: str
    analysis: str


class Retrieved(BaseModel):
    knowledge_base_id: int = Field(examples=[1001])
    doc_ids: list[str] = Field(description="结果所属的文档，按出现的先后", examples=[["123"]])
    time_cost_ms: int = Field(examples=[45])
    trace_id: str
    tier: Literal["strict", "document", "fuzzy"] | None = Field(description="结果里最宽松的一层；没有结果则为空")
    degraded: list[DegradedInfo]
    chunks: list[ResultInfo]
    query: str
    queries: list[str] = Field(description="实际检索的说法：原问题、改写、更正")
    retrieval_mode: Literal["hybrid", "vector", "fulltext"]
    seconds: float
    steps: list[StepInfo]
    from_cache: bool
    generation: GenerationInfo | None


router = APIRouter(tags=["检索"])


@router.post(
    "/v1/retrieval/{knowledge_base_id}", summary="检索知识库", **returns(Envelope[Retrieved], 400, 404, 413, 422)
)
async def retrieve(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[Search, Body(openapi_examples=request_examples("retrieval"))],
) -> Response:
    """三路并行检索（片段向量、问答向量、关键词），融合、重排、分层兜底。

    一路失败、超时或答非所问，都写进 `degraded`，其余照常回答。
    """
    choices = body.choices()
    async with recall_slot(request):
        with blaming_reranker(choices):
            found = await engine.retrieve(knowledge_base_id, body.query, **choices, trace_id=trace_id(request))
    return success(written_recall(knowledge_base_id, found))
